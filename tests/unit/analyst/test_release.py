"""What an analyst can ask, in every form; tests/statistical says how good the answers are."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.matrices import publish_matrix
from tests.plans import N_ATTRIBUTES, plan_of
from tests.releases import (
    PEOPLE,
    QUESTIONS,
    RESOLUTION,
    SKETCHING,
    every_question,
    parts,
    readable,
    release_of,
    same,
    silent,
)
from tests.streams import NO_FLIPS, NO_NOISE

from dimly.analyst import Estimate, Release, Vector
from dimly.errors import ParameterError
from dimly.mechanisms import Plan, Vocabulary
from dimly.mechanisms.error.models import CountingError
from dimly.privacy import Budget


@readable
@every_question
def test_scalars_give_numbers_and_lists_give_arrays(
    mechanism: str, ask: Callable[[Release, Any, Any], Estimate[Any]]
) -> None:
    release = release_of(mechanism)
    own = release.project({"3", "5", "8"})
    arrays = ask(release, [0, 1, 2], [3, 4, 5])
    assert parts(arrays).shape == (4, 3)
    np.testing.assert_allclose(parts(ask(release, 1, 4)).reshape(4), parts(arrays)[:, 1], rtol=1e-9)
    same(ask(release, [0, 1], own), ask(release, own, [0, 1]))
    np.testing.assert_allclose(parts(ask(release, 1, own)).reshape(4), parts(ask(release, [0, 1], own))[:, 1])
    same(ask(release, [0, 1], 4), ask(release, [0, 1], [4, 4]))


@readable
def test_intervals_hold_what_is_possible(mechanism: str) -> None:
    release = release_of(mechanism)
    rows, columns = np.triu_indices(30, 1)
    most = math.inf if release.plan.n_attributes is None else release.plan.n_attributes
    own = release.project(range(20))
    for name, ask in QUESTIONS.items():
        for found in (ask(release, rows, columns), ask(release, rows, own)):
            limit = 1.0 if name in ("cosine", "jaccard") else most
            assert (found.low >= 0).all()
            assert (found.low <= found.high).all()
            assert (found.high <= limit).all()
            assert (found.stderr > 0).all()
    assert (release.inner_product(rows, own).high <= 20).all()
    for confidence in (0.5, 0.8, 0.99):
        wide = release.distances(rows, columns, confidence=confidence)
        assert (wide.low <= wide.high).all()


@readable
def test_one_sided_estimates_are_surer(mechanism: str) -> None:
    release = release_of(mechanism)
    own = release.project(np.flatnonzero(PEOPLE[1]))
    assert release.inner_product(0, own).stderr < release.inner_product(0, 1).stderr
    assert release.norm(0).stderr < release.distance(0, 1).stderr


@readable
def test_with_oneself_a_product_is_a_norm_and_similarity_is_certain(mechanism: str) -> None:
    release = release_of(mechanism)
    same(release.inner_product([3, 4], [3, 4]), release.norm([3, 4]))
    same(release.inner_product(3, 3), release.norm(3))
    mixed = release.inner_product([3, 3], [3, 4])
    np.testing.assert_allclose(parts(mixed)[:, 1], parts(release.inner_product(3, 4)).reshape(4))
    for similarity in (release.cosine, release.jaccard):
        assert similarity(3, 3) == Estimate(1.0, 0.0, 1.0, 1.0)


@readable
def test_two_own_vectors_are_compared_exactly(mechanism: str) -> None:
    release = release_of(mechanism)
    x, y, nothing = release.project({"1", "2", "3"}), release.project({"3", 4}), release.project({})
    for found, truth in (
        (release.distance(x, y), 3.0),
        (release.hamming(x, y), 3.0),
        (release.inner_product(x, y), 1.0),
        (release.norm(x), 3.0),
        (release.attribute(x, 3), 1.0),
        (release.attribute(x, 4), 0.0),
        (release.cosine(x, y), 1 / math.sqrt(6)),
        (release.jaccard(x, y), 0.25),
        (release.jaccard(nothing, nothing), 1.0),
    ):
        same(found, Estimate(truth, 0.0, truth, truth))
    undefined = release.cosine(x, nothing)
    assert math.isnan(undefined.value)
    assert (undefined.stderr, undefined.low, undefined.high) == (math.inf, 0.0, 1.0)


@readable
def test_without_noise_everything_is_debiased_by_the_stated_noise(mechanism: str) -> None:
    """What an analyst computes from silent sketches, by the formulas of the documentation."""
    release = silent(mechanism)
    error = release.plan.error
    x, y = PEOPLE[3].astype(float), PEOPLE[8].astype(float)
    if mechanism == "randomized-response":
        p, d = error.flip, N_ATTRIBUTES  # type: ignore[attr-defined]
        differ = float(((x - y) ** 2).sum())
        expected = (
            (differ - 2 * d * p * (1 - p)) / (1 - 2 * p) ** 2,
            float((((x - p) / (1 - 2 * p)) * ((y - p) / (1 - 2 * p))).sum()),
            float(((x - p) / (1 - 2 * p)).sum()),
        )
    else:
        rows = release.plan.rows(Vocabulary.numbered(N_ATTRIBUTES)).to_dense() * release.plan.scale
        u, w, k, v = x @ rows, y @ rows, rows.shape[1], error.noise.variance  # type: ignore[attr-defined]
        if isinstance(error, CountingError):
            b, gain = error.blend, k / (k - 1)
            cu, cw = u - u.mean(), w - w.mean()
            norms = [b * s.sum() + (1 - b) * gain * (c @ c - (k - 1) * v) for s, c in ((u, cu), (w, cw))]
            product = gain * (cu @ cw)
        else:
            norms, product = [u @ u - k * v, w @ w - k * v], u @ w
        expected = (sum(norms) - 2 * product, product, norms[0])
    assert release.distance(3, 8).value == pytest.approx(expected[0])
    assert release.inner_product(3, 8).value == pytest.approx(expected[1])
    assert release.norm(3).value == pytest.approx(expected[2])


@pytest.mark.parametrize("family", ["counting", "hashing"])
@pytest.mark.thorough(but=1)
def test_with_next_to_no_noise_and_no_collisions_the_truth_is_told(family: str) -> None:
    plan = Plan.of(f"{family}+laplace", Budget(40.0), k=1 << 16, seed=bytes(32))
    release = Release(publish_matrix(PEOPLE[:4], plan, words=NO_NOISE))
    assert np.unique(plan.rows(Vocabulary.numbered(N_ATTRIBUTES)).to_dense() != 0, axis=0).shape[0] == N_ATTRIBUTES
    x, y = PEOPLE[0], PEOPLE[1]
    own = release.project(np.flatnonzero(y))
    close = 2e-3  # counting centers: of 65,536 buckets one is lost
    for b in (1, own):
        assert release.distance(0, b).value == pytest.approx(float(((x - y) ** 2).sum()), rel=close)
        assert release.inner_product(0, b).value == pytest.approx(float(x @ y), rel=close)
        assert release.jaccard(0, b).value == pytest.approx(float((x & y).sum() / (x | y).sum()), rel=close)
        assert release.cosine(0, b).value == pytest.approx(float(x @ y / np.sqrt((x @ x) * (y @ y))), rel=close)
    assert release.norm(0).value == pytest.approx(float(x @ x), rel=close)
    assert [round(release.attribute(0, i).value) for i in range(N_ATTRIBUTES)] == x.tolist()
    certain = release.attribute(0, int(np.flatnonzero(x)[0]))
    assert certain.low > 0.9


@readable
def test_an_attribute_is_a_product_with_its_own_vector(mechanism: str) -> None:
    release = release_of(mechanism)
    found = release.attribute([0, 1], 17)
    np.testing.assert_allclose(found.value, release.inner_product([0, 1], release.project({"17"})).value)
    same(release.attribute([0, 1], "17"), found)
    assert isinstance(release.attribute(0, 17).value, float)
    # Next to the noise of epsilon = 1 one bit cannot be told, and no outlier makes it look certain.
    everyone = release.attribute(np.arange(30), 17)
    assert ((everyone.low == 0) & (everyone.high > 0.5) | (everyone.low < 0.5) & (everyone.high == 1)).all()


def test_where_weights_are_estimated_below_zero_every_similarity_is_possible() -> None:
    plan = plan_of("hashing+laplace")
    release = Release(publish_matrix(np.zeros((2, N_ATTRIBUTES)), plan, words=NO_NOISE))
    for similarity in (release.cosine(0, 1), release.jaccard(0, 1)):
        assert math.isnan(similarity.value)
        assert (similarity.stderr, similarity.low, similarity.high) == (math.inf, 0.0, 1.0)
    distance = release.distance(0, 1)
    assert distance.value < 0
    assert distance.low == 0 < distance.high


@pytest.mark.parametrize("mechanism", SKETCHING)
def test_values_are_read_in_their_own_units(mechanism: str) -> None:
    release = release_of(mechanism, RESOLUTION)
    for ask, what in ((release.jaccard, "Jaccard similarity"), (release.hamming, "Hamming distance")):
        with pytest.raises(ParameterError, match=f"{what} is about bits: this release holds values in steps of 1/4"):
            ask(0, 1)
    own = release.project({"1": 0.5, "2": 1, "3": 0.25, "4": 0.0})
    assert own.steps == {"1": 2, "2": 4, "3": 1}
    assert release.norm(own).value == 0.25 + 1 + 0.0625
    assert release.inner_product(own, release.project({"1": 0.5})).value == 0.25
    for found in (release.distance(0, own), release.norm(0), release.cosine(0, 1), release.inner_product(0, 1)):
        assert found.low <= found.high


@pytest.mark.parametrize("family", ["counting", "hashing", "sparse", "sign"])
def test_an_own_vector_of_values_is_a_person_without_noise(family: str) -> None:
    plan = plan_of(f"{family}+laplace", resolution=RESOLUTION, dtype="int32")
    release = Release(publish_matrix([[0.25, 0.0], [1.0, 0.75]], plan, attributes=["tea", "milk"], words=NO_NOISE))
    np.testing.assert_array_equal(release.project({"milk": 0.75, "tea": 1}).row, release.values[1])


@readable
@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, math.nan, [0.9]])
def test_confidence_must_be_a_probability(mechanism: str, confidence: Any) -> None:
    release = release_of(mechanism)
    for ask in (
        lambda: release.distance(0, 1, confidence=confidence),
        lambda: release.distance_matrix([0, 1], confidence=confidence),
        lambda: release.inner_product(0, 1, confidence=confidence),
        lambda: release.norm(0, confidence=confidence),
        lambda: release.cosine(0, 1, confidence=confidence),
        lambda: release.jaccard(0, 1, confidence=confidence),
        lambda: release.hamming(0, 1, confidence=confidence),
        lambda: release.attribute(0, 1, confidence=confidence),
    ):
        with pytest.raises(ParameterError, match="confidence must be above 0"):
            ask()


@pytest.mark.parametrize("several", [["a"], np.array(["a", "b"]), {"a"}])
def test_several_attributes_are_not_one(several: Any) -> None:
    with pytest.raises(ParameterError, match=r"attribute must be one attribute, got .* Ask for each alone"):
        release_of("counting+laplace").attribute(0, several)


# --- vectors of one's own -------------------------------------------------------------------------------------------


@readable
def test_an_own_vector_is_a_person_without_noise(mechanism: str) -> None:
    release = silent(mechanism)
    own = release.project(np.flatnonzero(PEOPLE[3]))
    np.testing.assert_array_equal(own.row, release.values[3])
    assert own.squared_norm == PEOPLE[3].sum()


@readable
def test_one_attribute_in_two_spellings_is_one(mechanism: str) -> None:
    release = release_of(mechanism)
    twice, once = release.project([42, "42", np.int8(42)]), release.project({"42"})
    np.testing.assert_array_equal(twice.row, once.row)
    assert twice.steps == once.steps == {"42": 1}


def test_what_is_no_vector_is_refused() -> None:
    release = release_of("counting+laplace")
    with pytest.raises(ParameterError, match="attributes must be a set of attributes"):
        release.project("42")
    with pytest.raises(ParameterError, match="values of attributes must be 0 or 1"):
        release.project({"42": 0.5})
    with pytest.raises(ParameterError, match="attribute must be text"):
        release.project({4.2})


def test_a_vector_of_another_plan_is_refused() -> None:
    stranger: Vector = release_of("hashing+laplace").project({"1"})
    release = release_of("counting+laplace")
    for pair in ((0, stranger), (stranger, 0), (stranger, stranger)):
        with pytest.raises(ParameterError, match="belongs to another plan"):
            release.distance(*pair)


@pytest.mark.parametrize("mechanism", ["ternary+laplace", "randomized-response"])
def test_a_closed_vocabulary_is_closed(mechanism: str) -> None:
    release = release_of(mechanism)
    assert release.vocabulary == Vocabulary.numbered(N_ATTRIBUTES)
    for unknown in ("tea", N_ATTRIBUTES, "007", -1):
        with pytest.raises(ParameterError, match="attributes must be of the plan's vocabulary"):
            release.project({unknown})
        with pytest.raises(ParameterError, match="attributes must be of the plan's vocabulary"):
            release.attribute(0, unknown)


def test_an_open_vocabulary_has_no_list() -> None:
    with pytest.raises(ParameterError, match="vocabulary must be closed by the plan to be listed"):
        release_of("counting+laplace").vocabulary  # noqa: B018


@pytest.mark.parametrize("mechanism", ["gaussian+gaussian", "hashing+laplace", "randomized-response"])
def test_a_listed_vocabulary_is_needed_for_own_vectors_only(mechanism: str) -> None:
    drinks = ["tea", "coffee", "milk", "water"]
    k = {} if mechanism == "randomized-response" else {"k": 8}
    plan = Plan.of(mechanism, Budget(1.0, 1e-6), vocabulary=drinks, **k)  # type: ignore[arg-type]
    words = NO_FLIPS if mechanism == "randomized-response" else NO_NOISE
    sketches = publish_matrix(np.eye(4), plan, attributes=drinks, words=words)
    with_list, without, wrong = (
        Release(sketches, vocabulary=iter(drinks)),
        Release(sketches),
        Release(sketches, vocabulary=drinks[::-1]),
    )
    np.testing.assert_array_equal(with_list.project({"milk"}).row, sketches.values[2])
    with pytest.raises(ParameterError, match="must be of the plan's vocabulary"):
        with_list.project({"beer"})
    assert without.distance(0, 1) == with_list.distance(0, 1)
    with pytest.raises(ParameterError, match="vocabulary must be given"):
        without.project({"milk"})
    with pytest.raises(ParameterError, match="its digest differs"):
        wrong.attribute(0, "milk")
