"""What is told apart is told apart, and noise is not taken for people."""

import math

import numpy as np
import pytest
from scipy.stats import norm
from tests.matrices import publish_matrix
from tests.plans import plan_of
from tests.releases import PEOPLE, release_of
from tests.streams import Recorded

from dimly.analyst import Release
from dimly.lab.report.acuity import Acuity, Distances, acuity_of, distances_of, reach_of
from dimly.mechanisms import Plan
from dimly.privacy import Budget

SKETCH = Acuity(Plan.of("hashing+laplace", Budget(1.0), k=128, seed=bytes(32)), 100.0)


@pytest.mark.parametrize("distance", [0.0, 50.0, 1000.0])
def test_the_nearer_of_two_pairs_looks_nearer_in_39_of_40_cases(distance: float) -> None:
    farther = SKETCH.apart(distance)
    assert farther is not None
    spread = math.hypot(*SKETCH.stderr([distance, farther]))
    assert norm.cdf((farther - distance) / spread) == pytest.approx(39 / 40)


def test_rungs_are_a_step_apart() -> None:
    rungs = SKETCH.rungs(2000.0)
    assert rungs[0] == 0
    assert len(rungs) > 3
    assert rungs[-1] <= 2000 < (SKETCH.apart(rungs[-1]) or math.inf)
    assert rungs[1:] == [SKETCH.apart(rung) for rung in rungs[:-1]]
    assert len(SKETCH.rungs(1e9)) <= 40


def test_where_errors_grow_as_distances_do_none_can_be_told_apart() -> None:
    few = Acuity(Plan.of("hashing+laplace", Budget(1.0), k=4, seed=bytes(32)), 100.0)
    assert few.apart(10.0) is None
    assert few.rungs(1000.0) == [0.0]


def test_errors_grow_faster_beyond_what_two_average_people_have_together() -> None:
    counting = Acuity(Plan.of("counting+laplace", Budget(2.0), k=256, seed=bytes(32)), 100.0)
    bend = counting.bend
    assert bend == 200
    below, at, above = counting.stderr([bend - 1.0, bend, bend + 1.0])
    assert above - at > 1.2 * (at - below)
    for smooth in (SKETCH, Acuity(counting.plan, 0.0), Acuity(plan_of("counting+laplace", resolution=4), 100.0)):
        assert smooth.bend is None


def test_nothing_is_farther_than_there_are_attributes() -> None:
    closed = Acuity(Plan.of("randomized-response", Budget(1.0), n_attributes=100), 10.0)
    assert closed.apart(0.0) is not None
    assert closed.apart(90.0) is None
    assert reach_of(closed, None) == 100
    (seen,) = closed.seen([95.0])
    assert seen.high == 100


@pytest.mark.parametrize("mechanism", ["hashing+laplace", "sign+gaussian", "randomized-response", "noisy-distances"])
def test_intervals_are_those_that_the_release_tells(mechanism: str) -> None:
    release = release_of(mechanism)
    users = release.users
    estimate = release.distances(users[:20], users[1:21])
    shown = [i for i in range(20) if estimate.value[i] > 0]
    for i, one in zip(shown, acuity_of(release).seen(estimate.value[shown].tolist()), strict=True):
        assert (one.stderr, one.low, one.high) == pytest.approx(
            (estimate.stderr[i], estimate.low[i], estimate.high[i]), rel=1e-6, abs=1e-6
        )


def test_counting_errs_by_the_weight() -> None:
    plan = plan_of("counting+laplace")
    light, heavy = Acuity(plan, 10.0), Acuity(plan, 90.0)
    assert light.stderr(5.0) < heavy.stderr(5.0)
    assert light.stderr(180.0) == heavy.stderr(180.0)  # no pair at that distance has less than 90 each
    assert acuity_of(release_of("counting+laplace")).weight == pytest.approx(PEOPLE.sum(axis=1).mean(), rel=0.2)


def published(table: np.ndarray, mechanism: str) -> Release:
    extra = {"n_attributes": table.shape[1]} if mechanism == "randomized-response" else {"k": 64, "seed": bytes(32)}
    return Release(publish_matrix(table, Plan.of(mechanism, Budget(1.0), **extra), words=Recorded(3)))


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace", "randomized-response"])
def test_noise_is_not_taken_for_people(mechanism: str) -> None:
    # Everybody has 30 attributes of his own: all pairs are at 60. The noise of 1,000 pairs has a variance that is known
    # to √((κ − 1)/1000), some 5 %; three of these are exceeded by chance in one of 700 tries, and the words are fixed.
    table = np.random.default_rng(0).permuted(np.arange(2000 * 400).reshape(2000, 400) % 400 < 30, axis=1)
    found = distances_of(published(table, mechanism))
    assert found is not None
    truth = 2 * 30 * (1 - 30 / 400)
    assert found.mean == pytest.approx(truth, abs=5 * found.mean_error)
    assert not found.visible
    assert found.people == 0
    # The power: with a fifth less noise than there is, the rest would be taken for people.
    assert Distances(found.values, 0.8 * found.noise, found.drift).visible


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace", "randomized-response"])
def test_people_are_not_taken_for_noise(mechanism: str) -> None:
    generator = np.random.default_rng(0)
    table = generator.random((2000, 400)) < np.where(np.arange(2000) % 2, 0.45, 0.02)[:, None]
    found = distances_of(published(table, mechanism))
    assert found is not None
    order = np.random.default_rng(0).permutation(2000)
    truth = (table[order[:1000]] != table[order[1000:]]).sum(axis=1)
    assert found.visible
    assert found.people == pytest.approx(truth.std(), rel=0.3)
    assert found.mean == pytest.approx(truth.mean(), abs=3 * found.mean_error)


def test_noise_is_told_without_bias_where_it_is_all_there_is() -> None:
    table = np.random.default_rng(0).random((4000, 300)) < 0.1
    plan = Plan.of("gaussian+gaussian", Budget(1.0, 1e-6), k=20, n_attributes=300, seed=bytes(32))
    found = distances_of(Release(publish_matrix(table, plan, words=Recorded(3))))
    assert found is not None
    assert found.noise == pytest.approx(found.spread, rel=0.1)
    assert not found.visible


def test_reach() -> None:
    assert reach_of(SKETCH, None) == 1600
    near = Distances(np.full(50, 3.0), 1.0, 0.0)
    assert reach_of(SKETCH, near) == 2 * float(SKETCH.stderr(0.0))
    assert (near.share, near.visible, near.people) == (0.0, False, 0.0)
    assert reach_of(SKETCH, Distances(np.full(50, 5000.0), 1.0, 0.0)) == 5000
