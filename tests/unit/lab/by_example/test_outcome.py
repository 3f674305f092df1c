import dataclasses
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import dimly
from dimly.api import publish_public
from dimly.curator.options import Options
from dimly.errors import ParameterError
from dimly.lab.by_example import tryout
from dimly.lab.by_example.outcome import MeasuredFigure, Trial, TriedPlan
from dimly.lab.by_example.tryout import try_out
from dimly.lab.directions import from_sample as learning
from dimly.lab.population import make_population
from dimly.lab.sample import Sample, read_sample
from dimly.mechanisms.projection.directions import Buckets
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.planner import Brief
from dimly.planner.verdicts import NeededEpsilon
from dimly.privacy import Budget

PEOPLE = 45
ATTRIBUTES = 60
NAMES = [f"place {i}" for i in range(ATTRIBUTES)]


def lighten(patch: pytest.MonkeyPatch) -> None:
    """Less to compare: what is tested here is the trial, and not what it reaches."""
    patch.setattr(learning, "COUNTS", (1, 2))
    patch.setattr(learning, "GROUPS", (2,))
    patch.setattr(learning, "CAPS", (0.5,))
    patch.setattr(tryout, "LADDER", (0.25, 4.0))


@pytest.fixture(autouse=True)
def few_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    lighten(monkeypatch)


def people(n: int = PEOPLE) -> Sample:
    """Two groups that everybody can tell apart, in a matrix of named columns."""
    generator = np.random.default_rng(1)
    likes = np.full((2, ATTRIBUTES), 0.05)
    likes[0, : ATTRIBUTES // 2] = 0.8
    likes[1, ATTRIBUTES // 2 :] = 0.8
    table = generator.random((n, ATTRIBUTES)) < likes[np.arange(n) % 2]
    return read_sample(table, Options(attributes=NAMES))


@pytest.fixture(scope="module")
def segments() -> Trial:
    with pytest.MonkeyPatch.context() as patch:
        lighten(patch)
        return try_out(Brief(Budget(0.5), purpose="segments", n_groups=2, n_users=200), people())


def test_values_are_tried_along_directions_at_a_small_epsilon() -> None:
    sample = people()
    gray = dataclasses.replace(sample, table=scipy.sparse.csr_array(sample.table * np.float32(0.75)))
    only = ["directions+laplace"]  # which of several is best at so small an epsilon is decided by chance
    found = try_out(Brief(Budget(0.05), purpose="segments", n_groups=2, n_users=200, mechanisms=only), gray)
    assert found.asking.resolution == 4
    assert "directions+laplace" not in dict(found.left_out)
    assert any(one.mechanism == "directions+laplace" for one in found.tried)


def test_values_are_tried_along_directions_at_smaller_epsilons_too() -> None:
    """Smaller ones are tried where something is seen, which here it always is."""
    sample = people()
    gray = dataclasses.replace(sample, table=scipy.sparse.csr_array(sample.table * np.float32(0.75)))
    brief = Brief(Budget(0.4), purpose="segments", n_groups=2, n_users=200, mechanisms=("directions+laplace",))
    assert [one.epsilon for one in try_out(brief, gray, ladder=(0.25,)).ladder] == [0.1, 0.4]


def test_sizes_are_those_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """From everybody more directions may be learned than from those who were not judged."""
    own_make = learning.directions_by_recipe

    def make(sample: Sample, recipe: learning.Recipe, **options: Any) -> Any:
        return own_make(
            sample, dataclasses.replace(recipe, count=2 if sample.table.shape[0] == PEOPLE else 1), **options
        )

    monkeypatch.setattr(tryout, "directions_by_recipe", make)
    only = ["directions+laplace"]
    found = try_out(Brief(Budget(0.5), purpose="segments", n_groups=2, n_users=200, mechanisms=only), people())
    own = next(one for one in found.ladder if one.epsilon == 0.5)
    assert found.plan.k == 2
    for one in (own, found.chosen):
        assert (one.k, one.bytes_per_user) == (2, found.plan.bytes_per_user)


def test_directions_win_where_two_groups_differ_in_everything(segments: Trial) -> None:
    assert segments.chosen.mechanism == "directions+laplace"
    assert segments.plan.mechanism == "directions+laplace"
    assert segments.figure.low <= segments.figure.value <= segments.figure.high
    assert segments.verdict == "good"


def test_the_plan_holds_directions_of_the_whole_sample(segments: Trial) -> None:
    assert segments.directions is not None
    assert segments.plan.directions is not None
    assert segments.plan.directions.sha256 == segments.directions.digest
    assert f"{PEOPLE} people" in segments.directions.origin
    release = publish_public(people().table, segments.plan, attributes=NAMES)
    assert len(release) == PEOPLE


def test_every_kind_of_mechanism_was_tried(segments: Trial) -> None:
    assert {one.mechanism for one in segments.tried} >= {"directions+laplace", "counting+laplace"}
    assert all(one.epsilon == 0.5 for one in segments.tried)
    assert "counting+gaussian" in dict(segments.left_out)


def test_the_ladder_rises_and_says_the_smallest_epsilon(segments: Trial) -> None:
    assert [one.epsilon for one in segments.ladder] == [0.125, 0.5]  # which is good: more would tell nothing
    assert segments.needed.good in (0.125, 0.5)
    assert "smallest epsilon" in segments.words


def test_where_nothing_is_seen_larger_epsilons_are_tried_until_it_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tryout, "LADDER", (0.5, 20.0, 200.0, 400.0))
    only = ["directions+laplace"]
    found = try_out(Brief(Budget(0.01), purpose="segments", n_groups=2, n_users=200, mechanisms=only), people())
    assert found.verdict == "not feasible"
    assert 0.005 not in [one.epsilon for one in found.ladder]
    assert found.needed.good == max(one.epsilon for one in found.ladder) < 4.0


def test_a_small_sample_is_warned_of_in_words(segments: Trial) -> None:
    assert any("too small to tell" in text for text in segments.cautions)
    assert "only as good as these people are like" in segments.caveat
    assert not any("--n-users" in text for text in segments.assumed)


def with_figures(found: Trial, *values: float, width: float = 0.1) -> Trial:
    tried = tuple(
        TriedPlan(
            "hashing+laplace", k, 1.0, 8.0, True, {"agreement": MeasuredFigure(value, value - width, value + width)}, 3
        )
        for k, value in enumerate(values, start=2)
    )
    return dataclasses.replace(found, tried=tried, ladder=tried[:1])


def test_the_best_two_that_are_not_told_apart_are_named(segments: Trial) -> None:
    near, far = with_figures(segments, 0.62, 0.6), with_figures(segments, 0.62, 0.3)
    assert [one.k for one in near.rivals] == [3]
    assert any("cannot tell hashing+laplace, k = 2 from hashing+laplace, k = 3" in text for text in near.cautions)
    assert not far.rivals


def test_of_segments_that_are_not_told_apart_those_with_nearer_neighbors_are_chosen(segments: Trial) -> None:
    def one(mechanism: str, agreement: float, closeness: float, n_parts: int = 3) -> TriedPlan:
        figures = {"agreement": MeasuredFigure(agreement, 0.0, 1.0), "closeness": MeasuredFigure(closeness, 0.0, 1.0)}
        return TriedPlan(mechanism, 8, 0.5, 32.0, pure=True, figures=figures, n_parts=n_parts)

    lucky, sound = one("hashing+laplace", 0.52, 0.5), one("directions+laplace", 0.46, 0.77)
    once, behind = one("hashing+laplace", 0.5, 0.95, n_parts=1), one("counting+laplace", 0.3, 0.9)
    tried = [lucky, sound, behind, once]
    assert tryout._soundest_first(tried, "segments", {"agreement": 0.12}) == [sound, lucky, behind, once]
    assert tryout._soundest_first(tried, "segments", {"agreement": 0.06}) == tried  # which are told apart
    assert tryout._soundest_first(tried, "neighbors", {"agreement": 0.12}) == tried
    told = dataclasses.replace(segments, tried=(sound, lucky, behind, once)).reason
    assert "cannot tell it from hashing+laplace, k = 8 with 0.52, and neighbors are nearer by it (0.77 against" in told


def test_nothing_that_works_is_said_to_be_not_feasible(segments: Trial) -> None:
    none = with_figures(segments, 0.05)
    assert none.verdict == "not feasible"
    assert none.needed == NeededEpsilon(None, None)
    assert "No epsilon that was tried" in none.words


def test_distances_leave_directions_out_and_say_why() -> None:
    found = try_out(Brief(Budget(2.0), purpose="distances", n_users=100), people())
    assert "only a part of a distance" in dict(found.left_out)["directions+laplace"]
    assert found.directions is None
    assert set(found.chosen.figures) >= {"error", "ranking"}
    assert found.chosen.figures["error"].value == min(
        one.figures["error"].value for one in found.tried if one.n_parts == found.chosen.n_parts
    )


def test_the_error_of_distances_is_what_theory_says() -> None:
    """A mean over thousands of pairs of 45 people: three times the noise would be seen, and so would a third."""
    found = try_out(Brief(Budget(1.0), purpose="distances", mechanisms=["counting+laplace"], n_users=100), people())
    table = people().table
    squares = np.asarray((table * table).sum(axis=1)).ravel()
    shared = np.asarray((table @ table.T).todense())
    distances = (squares[:, None] + squares - 2 * shared)[np.triu_indices(PEOPLE, 1)]
    weight = float(squares.mean())
    predicted = np.sqrt(found.plan.error.distance(weights=(weight, weight))(distances).mean()) / distances.mean()
    assert 0.5 < found.chosen.figures["error"].value / predicted < 2


def test_one_mechanism_can_be_named() -> None:
    found = try_out(Brief(Budget(1.0), purpose="distances", mechanisms=["randomized-response"], n_users=100), people())
    assert {one.mechanism for one in found.tried} == {"randomized-response"}
    assert found.vocabulary is not None
    assert len(found.vocabulary) == ATTRIBUTES


def test_a_list_of_attributes_closes_the_plan() -> None:
    listed = [f"place {i}" for i in range(ATTRIBUTES // 2)] + ["elsewhere"]
    brief = Brief(Budget(1.0), purpose="distances", vocabulary=listed, mechanisms=["counting+laplace"], n_users=100)
    found = try_out(brief, people())
    assert found.plan.n_attributes == len(listed)
    with pytest.raises(ParameterError, match="vocabulary must hold attributes of the sample"):
        try_out(Brief(Budget(1.0), vocabulary=["elsewhere"]), people())


def test_values_take_a_resolution() -> None:
    sample = people()
    half = dataclasses.replace(sample, table=scipy.sparse.csr_array(sample.table * np.float32(0.5)))
    found = try_out(Brief(Budget(2.0), purpose="distances", mechanisms=["counting+laplace"], n_users=100), half)
    assert found.plan.resolution == 16
    assert any("--resolution" in text for text in found.assumed)


def test_too_few_people_cannot_be_held_back() -> None:
    with pytest.raises(ParameterError, match="at least 12 people"):
        try_out(Brief(Budget(1.0)), people(11))


def test_a_mechanism_that_cannot_serve_is_refused_with_its_reason() -> None:
    with pytest.raises(ParameterError, match="it needs a delta above 0"):
        try_out(Brief(Budget(1.0), mechanisms=["counting+gaussian"]), people())
    with pytest.raises(ParameterError, match="only a part of a distance"):
        try_out(Brief(Budget(1.0), mechanisms=["directions+laplace"], purpose="distances"), people())


def test_a_budget_is_a_budget() -> None:
    with pytest.raises(ParameterError, match="budget must be a Budget"):
        dimly.advise(1.0, sample=people().table)  # type: ignore[call-overload]


def test_buckets_are_no_attributes() -> None:
    with pytest.raises(ParameterError, match="a column for each attribute"):
        try_out(Brief(Budget(1.0)), people().in_buckets(Buckets(8)))


def test_progress_ends_when_all_is_done() -> None:
    told: list[tuple[int, int]] = []
    try_out(
        Brief(Budget(1.0), mechanisms=["counting+laplace"], n_users=100),
        people(),
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_the_public_names_take_a_sample() -> None:
    made = make_population(PEOPLE, 80, n_groups=2, mean_weight=12)
    with pytest.warns(UserWarning, match="too small to tell|Not feasible"):
        chosen = dimly.plan(Budget(0.5), sample=made.table, mechanisms=["counting+laplace"], n_users=100)
    assert chosen.mechanism == "counting+laplace"
    found = dimly.advise(Budget(0.5), sample=made.table, mechanisms=["counting+laplace"], n_users=100)
    assert isinstance(found, Trial)
    assert isinstance(found.asking.sample.attributes, Vocabulary)


@pytest.mark.parametrize(
    ("given", "name"),
    [({"distance": 100}, "distance"), ({"weight": 5}, "weight"), ({"n_attributes": 9}, "n_attributes")],
)
def test_what_a_sample_tells_need_not_be_stated(given: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError, match=f"{name} must be left out where a sample is given"):
        dimly.advise(Budget(1.0), sample=people().table, **given)


def test_numbered_attributes_need_a_list() -> None:
    with pytest.raises(ParameterError, match="numbered must be left out"):
        dimly.advise(Budget(1.0), sample=people().table, numbered=True)
