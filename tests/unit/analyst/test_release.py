"""What an analyst can ask, in every form; tests/statistical says how good the answers are."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.plans import N_ATTRIBUTES, plan_of
from tests.streams import NO_FLIPS, NO_NOISE, Recorded

from dimly.analyst import Estimate, Release, Vector
from dimly.curator.publishing import publish_matrix
from dimly.errors import ParameterError
from dimly.mechanisms import MECHANISMS, Plan, Vocabulary
from dimly.mechanisms.error_models import CountingError
from dimly.mechanisms.mechanism import sketching
from dimly.privacy import Budget

PARTS = ("value", "stderr", "low", "high")
READABLE = [mechanism for mechanism in MECHANISMS if mechanism != "noisy-distances"]
SKETCHING = [mechanism for mechanism in MECHANISMS if sketching(mechanism)]
RESOLUTION = 4
PEOPLE = (np.random.default_rng(0).random((30, N_ATTRIBUTES)) < 0.3).astype(np.int64)

every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)
readable = pytest.mark.parametrize("mechanism", READABLE)


@cache
def release_of(mechanism: str, resolution: int = 1) -> Release:
    plan = plan_of(mechanism) if resolution == 1 else plan_of(mechanism, resolution=resolution, dtype="int32")
    generator = np.random.default_rng(1)
    table = PEOPLE * generator.integers(1, resolution + 1, PEOPLE.shape) / resolution
    return Release(publish_matrix(table, plan, words=Recorded(7)))


@cache
def silent(mechanism: str) -> Release:
    words = NO_FLIPS if mechanism == "randomized-response" else NO_NOISE
    return Release(publish_matrix(PEOPLE, plan_of(mechanism), words=words))


def parts(found: Estimate[Any]) -> NDArray[np.float64]:
    return np.array([getattr(found, part) for part in PARTS])


def same(found: Estimate[Any], other: Estimate[Any]) -> None:
    np.testing.assert_allclose(parts(found), parts(other), rtol=1e-9, atol=1e-9)


QUESTIONS: dict[str, Callable[[Release, Any, Any], Estimate[Any]]] = {
    "distances": lambda release, a, b: release.distances(a, b),
    "inner_product": lambda release, a, b: release.inner_product(a, b),
    "cosine": lambda release, a, b: release.cosine(a, b),
    "jaccard": lambda release, a, b: release.jaccard(a, b),
    "hamming": lambda release, a, b: release.hamming(a, b),
}
every_question = pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS.keys())


# --- who is in it ---------------------------------------------------------------------------------------------------


@every_mechanism
def test_a_release_says_who_is_in_it_and_what_it_promises(mechanism: str) -> None:
    release = release_of(mechanism)
    assert len(release) == 30
    assert release.users.tolist() == list(range(30))
    assert 7 in release
    assert np.int32(7) in release
    assert all(other not in release for other in (30, -1, 2**64 - 1, 2**80, "7", 7.0, True, None, [7]))
    assert release.plan == plan_of(mechanism)
    assert not release.private
    assert release.guarantee.startswith("NOT PRIVATE")
    assert repr(release).startswith(f"<Release of 30 users by {mechanism}, plan ")
    assert "NOT PRIVATE" in repr(release)
    assert not release.values.flags.writeable


@pytest.mark.parametrize("mechanism", ["counting+laplace", "randomized-response", "noisy-distances"])
def test_users_may_be_named_by_text(mechanism: str) -> None:
    names = [f"user {chr(0xE9)}{i}" for i in range(30)]
    order = np.argsort(names)
    shuffled = Release(publish_matrix(PEOPLE, plan_of(mechanism), users=names, words=Recorded(7)))
    sorted_first = Release(publish_matrix(PEOPLE[order], plan_of(mechanism), words=Recorded(7)))
    position = {names[i]: place for place, i in enumerate(order)}
    a, b = names[4], names[21]
    assert a in shuffled
    assert "someone else" not in shuffled
    assert a + "\0" not in shuffled
    assert 4 not in shuffled
    same(shuffled.distance(a, b), sorted_first.distance(position[a], position[b]))
    for form in (list, np.array, lambda ids: np.array(ids, object), lambda ids: np.array(ids, np.dtypes.StringDType())):
        same(shuffled.distances(form([a, b]), form([b, names[0]])), shuffled.distances([a, b], [b, names[0]]))


@every_mechanism
def test_ids_may_come_in_any_form(mechanism: str) -> None:
    release = release_of(mechanism)
    expected = release.distances([3, 4, 5], [6, 7, 8])
    for form in (tuple, np.array, lambda ids: np.array(ids, np.uint8), lambda ids: np.array(ids, object)):
        same(release.distances(form([3, 4, 5]), form([6, 7, 8])), expected)
    assert release.distances([], []).value.shape == (0,)
    assert release.distances([], 3).value.shape == (0,)
    assert release.distance_matrix([]).value.shape == (0, 0)


@every_mechanism
@pytest.mark.parametrize("unknown", [30, -1, 2**64 - 1])
def test_who_is_not_in_it_is_refused_without_being_named(mechanism: str, unknown: int) -> None:
    with pytest.raises(ParameterError, match="users must be in this release") as raised:
        release_of(mechanism).distance(0, unknown)
    assert str(unknown) not in str(raised.value)


@pytest.mark.parametrize("ids", ["7", 7.0, [7.0, 8.0], [True, False], None, ["7", 8], [[1], [2, 3]], 2**80, object()])
def test_integers_are_asked_for_where_ids_are_integers(ids: Any) -> None:
    with pytest.raises(ParameterError, match="users must be integers, as in this release"):
        release_of("counting+laplace").distances(ids, 1)


@pytest.mark.parametrize("ids", [7, ["a", 7], np.array([7]), None, b"a", np.array([b"a"]), 7.0])
def test_text_is_asked_for_where_ids_are_text(ids: Any) -> None:
    plan = plan_of("counting+laplace")
    release = Release(publish_matrix(PEOPLE[:2], plan, users=["7", "a"], words=Recorded(7)))
    with pytest.raises(ParameterError, match="users must be text, as in this release"):
        release.distances(ids, "a")


def test_ids_come_one_by_one_or_in_one_list() -> None:
    with pytest.raises(ParameterError, match="users must be one id or a list of ids"):
        release_of("counting+laplace").distances([[0, 1]], [[2, 3]])


@every_mechanism
def test_both_sides_must_be_equally_many(mechanism: str) -> None:
    with pytest.raises(ParameterError, match="equally many users, got 2 and 3"):
        release_of(mechanism).distances([0, 1], [2, 3, 4])


def test_a_distance_is_of_two() -> None:
    with pytest.raises(ParameterError, match="Use distances"):
        release_of("counting+laplace").distance([0, 1], 2)  # type: ignore[arg-type]


# --- distances ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "resolution"),
    [
        *((mechanism, 1) for mechanism in MECHANISMS),
        *((mechanism, RESOLUTION) for mechanism in MECHANISMS if mechanism != "randomized-response"),
    ],
)
def test_distances_agree_in_every_form(mechanism: str, resolution: int) -> None:
    release = release_of(mechanism, resolution)
    chosen = [5, 0, 29, 12]
    matrix = release.distance_matrix(chosen)
    assert matrix.value.shape == (4, 4)
    assert not parts(matrix)[:, range(4), range(4)].any()
    np.testing.assert_allclose(parts(matrix), parts(matrix).transpose(0, 2, 1), rtol=1e-12)
    rows, columns = np.triu_indices(4, 1)
    lists = release.distances(np.array(chosen)[rows], np.array(chosen)[columns])
    np.testing.assert_allclose(parts(matrix)[:, rows, columns], parts(lists), rtol=1e-9)
    for i, (a, b) in enumerate(zip(rows, columns, strict=True)):
        one = release.distance(chosen[a], chosen[b])
        assert all(type(getattr(one, part)) is float for part in PARTS)
        np.testing.assert_allclose(parts(one), parts(lists)[:, i], rtol=1e-9)
        same(one, release.distance(chosen[b], chosen[a]))
    same(release.distances(5, [0, 29]), release.distances([5, 5], [0, 29]))
    everyone = release.distance_matrix()
    assert everyone.value.shape == (30, 30)
    np.testing.assert_allclose(parts(everyone)[:, 5, 12], parts(matrix)[:, 0, 3], rtol=1e-9)


@every_mechanism
def test_nobody_is_at_any_distance_from_himself(mechanism: str) -> None:
    release = release_of(mechanism)
    assert release.distance(3, 3) == Estimate(0.0, 0.0, 0.0, 0.0)
    found = parts(release.distances([3, 4], [3, 5]))
    assert not found[:, 0].any()
    assert found[1, 1] > 0
    assert not parts(release.distance_matrix([3, 3])).any()


def test_noisy_distances_hold_every_pair() -> None:
    release = silent("noisy-distances")
    truth = ((PEOPLE[:, None] - PEOPLE[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(release.distance_matrix().value, truth)
    rows, columns = np.nonzero(~np.eye(30, dtype=bool))
    np.testing.assert_array_equal(release.distances(rows, columns).value, truth[rows, columns])
    assert release.hamming(3, 8) == release.distance(3, 8)


def test_noisy_distances_tell_nothing_else() -> None:
    release = release_of("noisy-distances")
    for ask, what in (
        (lambda: release.inner_product(0, 1), "inner products"),
        (lambda: release.cosine(0, 1), "inner products"),
        (lambda: release.jaccard(0, 1), "inner products"),
        (lambda: release.norm(0), "norms"),
        (lambda: release.attribute(0, "1"), "attributes"),
        (lambda: release.project({"1"}), "vectors of one's own"),
    ):
        with pytest.raises(ParameterError, match=f"noisy distances do not tell {what}"):
            ask()
    vector = release_of("counting+laplace").project({"1"})
    for pair in ((0, vector), (vector, 0)):
        with pytest.raises(ParameterError, match="pairs of published people only"):
            release.distance(*pair)


def test_noisy_distances_of_one_person_are_none() -> None:
    release = Release(publish_matrix(PEOPLE[:1], plan_of("noisy-distances"), words=Recorded(7)))
    assert release.distance_matrix().value.tolist() == [[0.0]]


def test_a_matrix_has_its_limits() -> None:
    with pytest.raises(ParameterError, match="users must be at most 3000 for a matrix, got 10001"):
        release_of("counting+laplace").distance_matrix([0] * 10_001)


# --- all questions --------------------------------------------------------------------------------------------------


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
@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, math.nan])
def test_confidence_must_be_a_probability(mechanism: str, confidence: float) -> None:
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
        with pytest.raises(ParameterError, match="confidence must be in"):
            ask()


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
    with pytest.raises(ParameterError, match="vocabulary must be closed to be listed"):
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
