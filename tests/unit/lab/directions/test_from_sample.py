"""Learning directions: they show what was planted, the same each time, and bad samples are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import dimly
from dimly.curator.options import Options
from dimly.errors import ParameterError
from dimly.lab.directions import from_sample as learning
from dimly.lab.directions.from_sample import fitting_scale, learn, learn_directions
from dimly.lab.population import Population, make_population
from dimly.lab.sample import Sample, read_sample
from dimly.mechanisms.projection.directions import Buckets, bounded, rotated, rounded

FLOATS = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=8), elements=st.floats(-5, 5, width=32))


@pytest.fixture(scope="module")
def people() -> Population:
    """Three groups with favorites of their own."""
    return make_population(1_100, 400, n_groups=3, mean_weight=40, taste=60, seed=4)


def agreement(people: Population, matrix: Any, *, epsilon: float, scale: float) -> float:
    """Return how well noisy sketches of all but the first 200 people show their groups."""
    sketches = people.table[200:].astype(float) @ matrix
    noisy = sketches + np.random.default_rng(1).laplace(scale=scale / epsilon, size=sketches.shape)
    labels = KMeans(3, n_init=4, random_state=0).fit_predict(noisy)
    return float(adjusted_rand_score(people.groups[200:], labels))


def test_groups_are_seen_at_a_fraction_of_the_epsilon(people: Population) -> None:
    directions = learn_directions(people.table[:200], epsilon=0.3, count=3, groups=3)
    assert agreement(people, directions.matrix, epsilon=0.3, scale=directions.sensitivity.l1) > 0.6
    signs = np.random.default_rng(2).choice([-1, 1], 400)
    hashed = np.zeros((400, 32))
    hashed[np.arange(400), np.random.default_rng(3).integers(32, size=400)] = signs
    assert agreement(people, hashed, epsilon=0.3, scale=1.0) < 0.2  # what the test is worth: hashing does not see them


def test_columns_that_nobody_has_change_nothing() -> None:
    loadings = np.random.default_rng(0).normal(size=(20, 2))
    longer = np.vstack([loadings, np.zeros((500, 2))])
    assert np.array_equal(bounded(longer, 0.5)[:20], bounded(loadings, 0.5))


@pytest.mark.parametrize("purpose", ["segments", "neighbors", "distances"])
def test_the_same_people_give_the_same_directions(people: Population, purpose: Any) -> None:
    sample = read_sample(people.table[:60])
    first, second = (learn(sample, purpose=purpose, epsilon=1.0, count=2) for _ in range(2))
    assert first.directions == second.directions
    assert first.tried == second.tried
    assert 0.95 * max(first.tried.values()) <= (first.merit or 0) <= max(first.tried.values())
    assert first.directions.sensitivity.l1 <= 128
    assert purpose in first.directions.origin


@pytest.mark.parametrize("purpose", ["segments", "neighbors", "distances"])
@pytest.mark.thorough(but=1)
def test_recipes_that_are_dropped_on_the_way_would_not_have_won(
    people: Population, purpose: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = read_sample(people.table[:100])
    raced = learn(sample, purpose=purpose, epsilon=0.5)
    monkeypatch.setattr(learning, "_ENOUGH", learning._FOLDS + 1)
    every = learn(sample, purpose=purpose, epsilon=0.5)
    assert raced.recipe == every.recipe
    assert raced.tried.items() < every.tried.items()


def test_along_the_strongest_recipe_an_attribute_counts_once(people: Population) -> None:
    recipe = learning.Recipe("strongest", "", 4, 0.5)
    directions = learning.directions_by_recipe(read_sample(people.table[:60]), recipe, scale=128, what_for="a test")
    assert (np.count_nonzero(directions.matrix, axis=1) <= 1).all()
    assert directions.count == 4
    assert "each attribute along its strongest alone" in directions.origin


def test_neighbors_of_uneven_people_are_nearer_along_the_strongest() -> None:
    """Tastes that shade into each other, and people of whom some are ten times as active as others."""
    generator = np.random.default_rng(3)
    tastes = np.exp(generator.normal(size=(150, 3)) @ generator.normal(size=(3, 300)))
    active = 40 * np.exp(generator.normal(size=(150, 1)))
    table = generator.random((150, 300)) < 1 - np.exp(-active * tastes / tastes.sum(axis=1, keepdims=True))
    tried = learn(read_sample(table), purpose="neighbors", epsilon=0.5, count=3).tried
    best = {
        kind: max(merit for recipe, merit in tried.items() if recipe.kind == kind) for kind in ("singular", "strongest")
    }
    assert best["strongest"] > 1.1 * best["singular"], best


def test_neighbors_are_judged_as_an_analyst_finds_them() -> None:
    """Without noise and along every attribute, everybody's nearest by cosine are found, which is measured from zero."""
    table = scipy.sparse.csr_array((np.random.default_rng(5).random((40, 6)) < 0.5).astype(np.float64))
    assert learning._Closeness(table, 1e6).merit(np.eye(6)) == pytest.approx(1, abs=1e-6)


def test_an_epsilon_more_is_compared_by_the_same_groups(people: Population) -> None:
    sample = read_sample(people.table[:60])
    comparison = learning.Comparison(sample, purpose="segments", groups=3, count=2)
    several = [comparison.merits(epsilon) for epsilon in (0.1, 1.0)]
    assert several == [learn(sample, epsilon=epsilon, groups=3, count=2).tried for epsilon in (0.1, 1.0)]


def test_frames_files_and_matrices_are_one_sample(people: Population, tmp_path: Path) -> None:
    some = people.table[:40]
    rows, columns = some.nonzero()
    table = pa.table({"who": [f"{row:02}" for row in rows], "what": [str(column) for column in columns]})
    path = tmp_path / "volunteers.csv"
    path.write_text("who,what\n" + "".join(f"{row:02},{column}\n" for row, column in zip(rows, columns, strict=True)))
    options: dict[str, Any] = {"count": 2, "origin": "volunteers"}
    by_frame = learn_directions(table, user="who", attribute="what", **options)
    assert learn_directions(path, user="who", attribute="what", **options) == by_frame
    named = list(by_frame.vocabulary or ())
    by_matrix = dimly.learn_directions(some.toarray()[:, [int(name) for name in named]], attributes=named, **options)
    assert by_matrix == by_frame


def test_values_repeats_and_columns_are_read() -> None:
    table = pa.table({"u": ["b", "a", "a", "b"], "a": ["x", "x", "x", "y"], "v": [1.0, 0.25, 0.5, 0.0]})
    sample = read_sample(table, Options(user="u", attribute="a", value="v"))
    assert sample.users.tolist() == ["a", "b"]
    assert sample.table.toarray()[:, list(sample.attributes).index("x")].tolist() == [0.5, 1.0]  # type: ignore[arg-type]
    wide = pa.table({"u": [1, 2], "color": ["red", "blue"]})
    assert set(read_sample(wide, Options(user="u", columns="all"), unit="column").attributes) == {  # type: ignore[arg-type]
        "color=red",
        "color=blue",
    }


def test_a_sample_that_is_too_large_is_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimly.lab.sample._MOST_ENTRIES", 10)
    table = pa.table({"u": np.repeat(np.arange(16), 2), "a": ["x", "y"] * 16})
    sample = read_sample(table, Options(user="u", attribute="a"))
    assert sample.users.tolist() == [0, 4, 8, 12]
    assert sample.table.toarray().tolist() == [[1.0, 1.0]] * 4


def test_buckets_add_up(people: Population) -> None:
    sample = read_sample(people.table[:30])
    bucketed = sample.in_buckets(Buckets(16))
    assert np.array_equal(bucketed.table.sum(axis=1), sample.table.sum(axis=1))
    directions = learn_directions(people.table[:30], buckets=16, count=2)
    assert directions.buckets == Buckets(16)
    assert directions.matrix.shape == (16, 2)
    with pytest.raises(ParameterError, match="once"):
        bucketed.in_buckets(Buckets(16))


@pytest.mark.parametrize("shape", [(30, 50), (50, 30), (60, 70)])
def test_every_way_to_singular_vectors_finds_the_same(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    table = scipy.sparse.csr_array(np.random.default_rng(0).random(shape) * np.linspace(1, 3, shape[1]))
    exact = np.linalg.svd(table.toarray() - table.toarray().mean(axis=0))[2][:3]
    for small in (10, min(shape), 100):
        monkeypatch.setattr(learning, "_SMALL", small)
        vectors, scores = learning._singular(table, 3)
        assert np.abs(vectors.T @ exact.T) == pytest.approx(np.eye(3), abs=1e-6)
        assert scores.mean(axis=0) == pytest.approx(0, abs=1e-9)


@given(FLOATS, st.sampled_from([0.0, 0.25, 0.5, 0.8, 1.0]))
def test_rows_are_bounded_and_stay_bounded_when_rounded(loadings: Any, cap: float) -> None:
    matrix = bounded(loadings, cap)
    assert (np.abs(matrix).sum(axis=1) <= 1 + 1e-9).all()
    steps = rounded(matrix, 16) * 16
    assert np.array_equal(steps, np.rint(steps))
    assert (np.abs(steps).sum(axis=1) <= 16).all()
    assert np.abs(steps - 16 * matrix).max(initial=0) < 1 + 1e-9


@given(FLOATS)
def test_a_rotation_keeps_distances(vectors: Any) -> None:
    turned = rotated(vectors)
    assert turned @ turned.T == pytest.approx(vectors @ vectors.T, abs=1e-6)


MATRIX = np.eye(20, dtype=int)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ([[1, 0]], {}, "at least 2 people, got 1"),
        (np.zeros((3, 3), int), {}, "nobody in the sample has any"),
        (np.ones((30, 3), int), {}, "differ from each other"),
        (MATRIX, {"count": 20}, '"auto" or 1 to 19'),
        (MATRIX, {"count": 0}, '"auto" or 1 to 19'),
        (MATRIX, {"epsilon": 0.0}, "epsilon"),
        (MATRIX, {"epsilon": float("nan")}, "epsilon"),
        (MATRIX, {"purpose": "fun"}, "purpose"),
        (MATRIX, {"groups": 1}, "groups must be 2"),
        (MATRIX, {"groups": 3, "purpose": "neighbors"}, "segments only"),
        (MATRIX, {"scale": 0}, "scale"),
        (MATRIX, {"buckets": 1}, "buckets"),
        (MATRIX, {"user": "who"}, "this is a matrix"),
        (pa.table({"u": [1, 2], "a": ["x", "y"]}), {"attribute": "a"}, "user must name"),
        (pa.table({"u": [1, 2], "a": ["x", "y"]}), {"user": "u", "attribute": "a", "users": [1, 2]}, "matrix only"),
        (pa.table({"u": [1, 2], "a": [0.5, 1.5]}), {"user": "u", "attribute": "a"}, "text, integers"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(table: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        learn_directions(table, **options)


def test_too_few_people_to_hold_some_back_still_give_directions() -> None:
    found = learn(read_sample([[1, 0, 0], [1, 1, 0], [0, 0, 1]]))
    assert found.merit is None
    assert isinstance(read_sample([[1, 0], [0, 1]]), Sample)
    assert found.directions.count == 1


@pytest.mark.parametrize("unit", ["attribute", "column"])
@pytest.mark.parametrize(("epsilon", "resolution"), [(0.005, 1), (0.02, 16), (0.1, 1), (0.1, 16)])
def test_what_is_learned_for_an_epsilon_can_be_published_at_it(epsilon: float, resolution: int, unit: Any) -> None:
    """Noise is held in a table of limited size, so that a small epsilon asks for a coarser grid."""
    table = np.random.default_rng(5).integers(0, resolution, (8, 6), endpoint=True) / resolution
    directions = learn_directions(table, count=2, epsilon=epsilon, unit=unit)
    fits = dimly.Plan.of(
        "directions+laplace", dimly.Budget(epsilon), directions=directions, unit=unit, resolution=resolution
    )
    assert fits.scale * resolution == 1 / directions.scale
    assert directions.scale == fitting_scale(epsilon, unit=unit, resolution=resolution)
    assert learn_directions(table, count=2, epsilon=epsilon, scale=128).scale == 128


def test_a_scale_that_does_not_fit_is_named_in_the_advice() -> None:
    directions = learn_directions(np.eye(6), count=2, epsilon=0.005, scale=128)
    with pytest.raises(ParameterError, match=r"Use a larger epsilon, .*directions of a smaller scale"):
        dimly.Plan.of("directions+laplace", dimly.Budget(0.005), directions=directions)


def test_options_of_publishing_that_mean_nothing_here_are_refused() -> None:
    with pytest.raises(TypeError, match="'ledger'"):
        learn_directions([[1, 0], [0, 1]], ledger="ledger.db")
    with pytest.raises(TypeError, match=r"learn_directions\(\) got .* 'purpos'\. Did you mean 'purpose'\?"):
        learn_directions([[1, 0], [0, 1]], purpos="segments")
    with pytest.raises(ParameterError, match="table must be given for a table with columns only"):
        learn_directions([[1, 0], [0, 1]], table="people")


@pytest.mark.parametrize("purpose", ["segments", "neighbors", "distances"])
def test_people_who_are_few_and_nearly_empty_still_give_directions(purpose: Any) -> None:
    table = np.zeros((13, 3), int)
    table[4, 1] = table[9, 0] = 1
    assert learn_directions(table, purpose=purpose).sensitivity.l1 == 128
