"""Combined releases: unbiased, as certain as predicted, with intervals that cover as stated.

Trials are independent: each has attributes of its own, and so rows of every projection of its own. False-alarm rate
ALPHA for each mean and each variance, over all choices of seeds; test_release.py states that of coverage. Beside them
stands their power: whoever added 20 % less noise than the plans say is caught.
"""

import math

import numpy as np
import pytest
import scipy.sparse
from tests.matrices import publish_matrix
from tests.statistical.checks import mean_is, variance_is
from tests.statistical.trials import BITS, SIZE, N, Trials, check, louder
from tests.streams import Recorded

import dimly
from dimly.analyst import Release
from dimly.analyst.combine import Combined, combine
from dimly.privacy import Budget

PAIR = (0, 2)
W = (30.0, 20.0)
R2 = 40.0
PLANNED = 60.0
"""Not the true distance: weights may be somewhat wrong, the rest must not be."""

PLANS = {
    "two k": [("hashing+laplace", 1.0, 32), ("hashing+laplace", 1.0, 128)],
    "two epsilons": [("counting+laplace", 0.7, 32), ("counting+laplace", 1.5, 64)],
    "three kinds": [("counting+laplace", 1.0, 64), ("sign+gaussian", 4.0, 32), ("hashing+laplace", 2.0, 64)],
}


def trials_of(name: str) -> list[Trials]:
    plans = [
        dimly.Plan.of(mechanism, Budget(epsilon, 1e-6), k=k, seed=bytes([i]) * 32)
        for i, (mechanism, epsilon, k) in enumerate(PLANS[name])
    ]
    person, attribute = np.nonzero(BITS)
    copy = np.arange(N)[:, None]
    places = (copy * len(BITS) + person).reshape(-1), (copy * SIZE + attribute).reshape(-1)
    table = scipy.sparse.csr_array((np.ones(len(places[0])), places), shape=(N * len(BITS), N * SIZE))
    return [
        Trials(Release(publish_matrix(table, plan, words=Recorded(1000 + i))), BITS) for i, plan in enumerate(plans)
    ]


def combined_by(trials: list[Trials]) -> Combined:
    return combine([one.release for one in trials], distance=PLANNED, weight=35.0)


def variance_of(combined: Combined) -> float:
    variances = [float(release.plan.error.distance(weights=W)(R2)) for release in combined.releases]
    return sum(weight**2 * variance for weight, variance in zip(combined.weights, variances, strict=True))


@pytest.mark.parametrize("name", PLANS)
def test_distances_are_unbiased_and_as_certain_as_predicted(name: str) -> None:
    trials = trials_of(name)
    combined = combined_by(trials)
    users = trials[0].users(PAIR[0]), trials[0].users(PAIR[1])
    check(name, combined.distances(*users), R2, variance_of(combined))

    told = combined_by([one.read_by(louder(one.release.plan)) for one in trials])
    believed = told.distances(*users).value
    assert not (mean_is(believed, R2) and variance_is(believed, R2, variance_of(told))), f"{name}: no power"


def test_near_pairs_and_vectors_of_ones_own() -> None:
    """Intervals next to zero, and on one side only."""
    trials = trials_of("two k")
    combined = combined_by(trials)
    near = combined.distances(trials[0].users(0), trials[0].users(1))
    variances = [float(release.plan.error.distance()(8.0)) for release in combined.releases]
    check("near", near, 8.0, sum(w**2 * v for w, v in zip(combined.weights, variances, strict=True)))

    norm = combined.distances(trials[0].users(0), combined.project(()))
    errors = [release.plan.error.distance(one_sided=True) for release in combined.releases]
    planned = np.array([1 / float(error(PLANNED)) for error in errors])
    weights = planned / planned.sum()
    check("own", norm, 30.0, sum(w**2 * float(error(30.0)) for w, error in zip(weights, errors, strict=True)))


def test_with_flipped_bits_and_noisy_distances() -> None:
    """All pairs of a few people share no noise: thousands of them, of the same true distance."""
    n = 160
    table = np.zeros((n, n * 4), np.int64)  # everybody has four attributes that nobody else has: squared distance 8
    for i in range(n):
        table[i, 4 * i : 4 * i + 4] = 1
    budget = Budget(4.0, 1e-6)
    noisy = dimly.Plan.of("noisy-distances", budget, n_users=n, n_attributes=4 * n)
    flipped = dimly.Plan.of("randomized-response", budget, n_attributes=4 * n)
    releases = [Release(publish_matrix(table, plan, words=Recorded(i))) for i, plan in enumerate((noisy, flipped))]
    combined = combine(releases, distance=8.0)
    # Disjoint pairs only: two pairs with a person in common share that person's flipped bits.
    found = combined.distances(np.arange(0, n, 2), np.arange(1, n, 2))
    assert mean_is(found.value, 8.0)
    assert variance_is(found.value, 8.0, combined.stderr**2)
    assert not variance_is(found.value * 4, 32.0, combined.stderr**2)


def test_two_releases_at_half_the_price_are_far_worse_than_one() -> None:
    """Splitting a budget loses more than combining brings back."""
    at = 200.0

    def error(epsilon: float) -> float:
        best = dimly.best_k("hashing+laplace", Budget(epsilon), squared_distance=at)
        plan = dimly.Plan.of("hashing+laplace", Budget(epsilon), k=best)
        return math.sqrt(float(plan.error.distance()(at)))

    one, half = error(1.0), error(0.5)
    assert half / math.sqrt(2) > 1.4 * one


def test_weights_from_the_estimates_themselves_would_be_biased() -> None:
    """Why weights are public: the same sum with plug-in variances is far too small."""
    trials = trials_of("two k")
    users = trials[0].users(PAIR[0]), trials[0].users(PAIR[1])
    values = [one.release.distances(*users).value for one in trials]
    inverse = [
        1 / one.release.plan.error.distance()(np.maximum(value, 0.0)) for one, value in zip(trials, values, strict=True)
    ]
    plugged = np.average(values, axis=0, weights=inverse)
    assert not mean_is(plugged, R2)
    assert plugged.mean() < R2
