"""Several releases of the same people as one; what it is worth is tested in tests/statistical."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.folders import people as folder_people
from tests.folders import write
from tests.matrices import publish_matrix
from tests.plans import N_ATTRIBUTES, plan_of
from tests.releases import PEOPLE, parts, same
from tests.streams import NO_NOISE, Recorded

from dimly.analyst import Release
from dimly.analyst.combine import Combined, combine
from dimly.analyst.release import open_release
from dimly.errors import ParameterError
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release import Sketches

OTHER_SEED = bytes(range(1, 33))
MANY = ("counting+laplace", "hashing+laplace", "sign+gaussian", "randomized-response", "noisy-distances")


def publish(plan: Plan, *, words: int = 1, users: Any = None) -> Release:
    return Release(publish_matrix(PEOPLE, plan, users=users, words=Recorded(words)))


def two(*, distance: float = 40.0, weight: float | None = None) -> Combined:
    plans = plan_of("counting+laplace"), plan_of("hashing+laplace")
    return combine([publish(plan, words=i) for i, plan in enumerate(plans)], distance=distance, weight=weight)


def test_weights_are_inverse_variances_at_the_planning_distance() -> None:
    combined = two(distance=40.0, weight=30.0)
    plans = [release.plan for release in combined.releases]
    variances = np.array([float(plan.error.distance(weights=(30.0, 30.0))(40.0)) for plan in plans])
    np.testing.assert_allclose(combined.weights, 1 / variances / (1 / variances).sum())
    np.testing.assert_allclose(combined.stderr_alone, np.sqrt(variances))
    assert combined.stderr == pytest.approx(1 / math.sqrt((1 / variances).sum()))
    assert sum(combined.weights) == pytest.approx(1)
    assert two(distance=40.0).weights == pytest.approx(two(distance=40.0, weight=20.0).weights)


def test_the_value_is_the_weighted_sum_whatever_the_estimates() -> None:
    combined = two()
    a, b = np.arange(0, 30, 2), np.arange(1, 30, 2)
    expected = sum(w * r.distances(a, b).value for w, r in zip(combined.weights, combined.releases, strict=True))
    found = combined.distances(a, b)
    np.testing.assert_allclose(found.value, expected)
    assert (found.low <= found.high).all()
    assert (found.stderr < combined.releases[1].distances(a, b).stderr).all()
    one = combined.distance(0, 1)
    assert [one.value, one.stderr, one.low, one.high] == pytest.approx(parts(found)[:, 0].tolist())
    wide = combined.distances(a, b, confidence=0.99)
    assert (wide.high > found.high).all()


def test_every_mechanism_takes_part() -> None:
    releases = [publish(plan_of(mechanism), words=i) for i, mechanism in enumerate(MANY)]
    combined = combine(releases, distance=40.0)
    found = combined.distances([0, 3], [1, 2])
    assert np.isfinite(parts(found)).all()
    assert combined.stderr < min(combined.stderr_alone)
    with pytest.raises(ParameterError, match="noisy distances say nothing about vectors"):
        combined.project({"1"})


def test_vectors_of_ones_own() -> None:
    combined = two()
    empty, vector = combined.project(iter(())), combined.project(iter(["1", 2]))
    found = combined.distances([0, 1], vector)
    same(found, combined.distances(vector, [0, 1]))
    assert (found.stderr < combined.distances([0, 1], [2, 3]).stderr).all()
    errors = [float(r.plan.error.distance(one_sided=True, weights=(20.0, 20.0))(40.0)) for r in combined.releases]
    share = (1 / errors[0]) / (1 / errors[0] + 1 / errors[1])
    alone = [
        release.distances([0, 1], own).value for release, own in zip(combined.releases, vector.vectors, strict=True)
    ]
    np.testing.assert_allclose(found.value, share * alone[0] + (1 - share) * alone[1])
    exact = combined.distance(empty, vector)
    assert (exact.value, exact.stderr, exact.low, exact.high) == pytest.approx((2.0, 0.0, 2.0, 2.0))


def test_what_is_known_stays_known() -> None:
    found = two().distances([3, 3], [3, 4])
    assert parts(found)[:, 0].tolist() == [0, 0, 0, 0]
    assert found.stderr[1] > 0


def test_of_somebody_saturated_nothing_is_known() -> None:
    combined = two()
    values = combined.releases[0].values.copy()
    values[2, 5] = np.iinfo(values.dtype).max
    spoiled = Release(Sketches(combined.releases[0].plan, combined.releases[0].users, values))
    found = combine([spoiled, combined.releases[1]], distance=40.0).distances([2, 0], [0, 1])
    assert math.isnan(found.value[0])
    assert (found.stderr[0], found.low[0], found.high[0]) == (math.inf, 0.0, math.inf)
    assert np.isfinite(parts(found)[:, 1]).all()


def test_people_are_those_in_all_of_them() -> None:
    ids = np.arange(30) * 3
    combined = combine(
        [publish(plan_of("counting+laplace"), users=ids), publish(plan_of("hashing+laplace"), users=ids + 3)],
        distance=40.0,
    )
    np.testing.assert_array_equal(combined.users, ids[1:])
    assert (len(combined), 3 in combined, 0 in combined, 90 in combined) == (29, True, False, False)
    assert combined.distance(3, 6).stderr > 0
    with pytest.raises(ParameterError, match="users must be in this release"):
        combined.distance(0, 3)


def test_people_with_ids_of_text() -> None:
    ids = [f"a rather long name of number {i:02}" for i in range(31)]
    combined = combine(
        [publish(plan_of("counting+laplace"), users=ids[:30]), publish(plan_of("hashing+laplace"), users=ids[1:])],
        distance=40.0,
    )
    assert combined.users.tolist() == ids[1:30]
    assert combined.distance(ids[1], ids[2]).stderr > 0


def test_releases_on_disk(tmp_path: Path) -> None:
    plans = plan_of("counting+laplace"), plan_of("randomized-response")
    opened = [open_release(write(tmp_path / str(i), folder_people(plan))) for i, plan in enumerate(plans)]
    combined = combine(opened, distance=40.0)
    assert combined.private
    assert "users" not in vars(opened[0]._sketches)  # nothing is read before it is asked for
    assert combined.distance(-20, 8).stderr > 0
    again = open_release(tmp_path / "1")
    with pytest.raises(ParameterError, match="two are the same"):
        combine([again, opened[1]], distance=40.0)


def test_words_say_what_it_is_worth() -> None:
    combined = two(distance=40.0)
    assert combined.gain == pytest.approx(1 - combined.stderr / min(combined.stderr_alone))
    assert "2 releases together" in combined.words
    assert f"That is {100 * combined.gain:.0f} % less than number 1, the best alone." in combined.words
    poor = Plan.of("hashing+laplace", Budget(0.1), k=32)
    useless = combine([publish(poor), publish(plan_of("counting+laplace"))], distance=40.0)
    assert useless.gain < 0.05
    assert "number 2 alone does as well" in useless.words


def test_a_release_made_for_tests_says_so() -> None:
    plans = [plan_of("counting+laplace"), plan_of("counting+laplace", seed=OTHER_SEED)]
    made = [Release(publish_matrix(PEOPLE, plan)) for plan in plans]
    combined = combine(made, distance=40.0)
    assert combined.private
    assert repr(combined) == "<Combined releases: 0.50 counting+laplace, 0.50 counting+laplace>"
    assert "NOT PRIVATE" not in combined.words
    for_tests = Release(publish_matrix(PEOPLE, plans[1], words=NO_NOISE))
    combined = combine([made[0], for_tests], distance=40.0)
    assert not combined.private
    assert "NOT PRIVATE" in combined.words
    assert "NOT PRIVATE" in repr(combined)


def test_errors_that_go_together_are_refused() -> None:
    first = publish(plan_of("counting+laplace"))
    with pytest.raises(ParameterError, match="two are the same: they share their noise"):
        combine([first, first], distance=40.0)
    with pytest.raises(ParameterError, match=r"different seeds, but two by counting with k = 32 share one"):
        combine([first, publish(plan_of("counting+laplace"), words=2)], distance=40.0)
    with pytest.raises(ParameterError, match="different seeds"):
        combine([publish(plan_of("gaussian+gaussian")), publish(plan_of("gaussian+laplace"))], distance=40.0)
    # Another family or another k makes another projection of the same seed.
    combine([first, publish(plan_of("hashing+laplace")), publish(plan_of("counting+laplace", k=16))], distance=40.0)
    # Without a projection there is no seed, and noise is fresh.
    flipped = [publish(plan_of("randomized-response"), words=i) for i in range(2)]
    assert combine(flipped, distance=40.0).gain == pytest.approx(1 - math.sqrt(0.5))


def test_releases_of_other_data_are_refused() -> None:
    first = publish(plan_of("counting+laplace"))
    values = publish(plan_of("hashing+laplace", resolution=4, dtype="int32"))
    with pytest.raises(ParameterError, match="one resolution"):
        combine([first, values], distance=40.0)
    with pytest.raises(ParameterError, match="of one type, integers or text"):
        combine([first, publish(plan_of("hashing+laplace"), users=[f"{i:02}" for i in range(30)])], distance=40.0)
    others = combine([first, publish(plan_of("hashing+laplace"), users=np.arange(30) + 1000)], distance=40.0)
    with pytest.raises(ParameterError, match="same people, but nobody is in all of them"):
        len(others)
    more = np.pad(PEOPLE, ((0, 0), (0, 1)))
    wider = Release(publish_matrix(more, plan_of("hashing+laplace", n_attributes=N_ATTRIBUTES + 1)))
    with pytest.raises(ParameterError, match="one vocabulary where it is closed"):
        combine([wider, publish(plan_of("randomized-response"))], distance=40.0)


def test_bad_calls() -> None:
    release = publish(plan_of("randomized-response"))
    other = publish(plan_of("hashing+laplace"))
    with pytest.raises(ParameterError, match="releases must be two or more, got 1"):
        combine([release], distance=40.0)
    with pytest.raises(ParameterError, match="releases must be two or more, got 1"):
        combine(release, distance=40.0)  # type: ignore[call-overload]
    for bad in ("releases", ["release", release], None):
        with pytest.raises(ParameterError, match="releases must be a list of releases"):
            combine(bad, distance=40.0)  # type: ignore[arg-type]
    for far in (0, -1, math.inf, math.nan, True, "40", "x", None, N_ATTRIBUTES + 1):
        with pytest.raises(ParameterError, match=r"distance must be a squared distance > 0 and at most .* 100, got"):
            combine([release, other], distance=far)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="distance must be a squared distance > 0, got 0"):
        combine([publish(plan_of("counting+laplace")), other], distance=0)
    for light in (19.0, math.nan, math.inf, "heavy"):
        with pytest.raises(ParameterError, match="weight must be at least half of distance"):
            combine([release, other], distance=40.0, weight=light)  # type: ignore[arg-type]


def test_bad_questions() -> None:
    combined = two()
    with pytest.raises(ParameterError, match="one user on each side"):
        combined.distance([0, 1], 2)  # type: ignore[arg-type]
    strange = two().releases[0].project({"1"})
    foreign = combine(
        [publish(plan_of("counting+laplace", k=16)), publish(plan_of("hashing+laplace"))], distance=40.0
    ).project({"1"})
    vectors: tuple[Any, ...] = strange, foreign
    for vector in vectors:
        with pytest.raises(ParameterError, match="made by project of these combined releases"):
            combined.distances(vector, [0])
    with pytest.raises(ParameterError, match="set of attributes"):
        combined.project("text")
    with pytest.raises(ParameterError, match="set of attributes"):
        combined.project(3)  # type: ignore[arg-type]
