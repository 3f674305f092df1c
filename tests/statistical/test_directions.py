"""Distances along public directions: unbiased, of the stated variance, and covered by their intervals.

False-alarm rate ALPHA for each check; beside it its power: 20 % less noise than stated must be noticed.
"""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.statistical.checks import ALPHA, Floats, mean_is, variance_is

from dimly.api import publish
from dimly.mechanisms import Directions, Plan
from dimly.mechanisms.error.models import DirectionsError, Noise
from dimly.privacy import Budget

PAIRS = 20_000
LAWS = {"laplace": Budget(1.0), "gaussian": Budget(1.0, 1e-6)}
# How often an interval of 95 % may miss: 94 to 96 %, and chance at the false-alarm rate.
FEWEST, MOST = stats.binom.isf(1 - ALPHA / 2, PAIRS, 0.94), stats.binom.isf(ALPHA / 2, PAIRS, 0.96)


def measured(law: str, count: int, apart: int) -> tuple[Any, Any, float]:
    """Return the release of many equal pairs, its estimates, and their true distance along the directions."""
    rows = np.random.default_rng(count).uniform(-1, 1, (30, count))
    directions = Directions.of_values(range(30), rows / np.abs(rows).sum(axis=1, keepdims=True), origin="tests")
    people = np.zeros((2, 30))
    people[0, :apart] = 1
    release = publish(np.tile(people, (PAIRS, 1)), Plan.of(f"directions+{law}", LAWS[law], directions=directions))
    exact = directions.matrix[:apart].astype(np.float64).sum(axis=0) / directions.scale
    estimates = release.distances(np.arange(0, 2 * PAIRS, 2), np.arange(1, 2 * PAIRS, 2))
    return release, estimates, float(exact @ exact)


def normal_enough(values: Floats, groups: int = 400) -> Floats:
    """Return averages of some at a time: Laplace noise to the fourth power has tails that single ones keep."""
    averages: Floats = values.reshape(groups, -1).mean(axis=1)
    return averages


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("count", [1, 4, 16])
@pytest.mark.parametrize("apart", [0, 2, 12, 30])
def test_estimates_are_unbiased_and_intervals_hold_the_truth(law: str, count: int, apart: int) -> None:
    release, found, truth = measured(law, count, apart)
    assert mean_is(normal_enough(found.value), truth)
    variance = float(release.plan.error.distance()(truth))
    assert mean_is(normal_enough((found.value - truth) ** 2), variance)
    inside = int(((found.low <= truth) & (truth <= found.high)).sum())
    assert FEWEST <= inside <= MOST
    noise = release.plan.error.noise
    less = DirectionsError(count, Noise(0.64 * noise.variance, 0.4096 * noise.fourth_moment))
    assert not mean_is(normal_enough((found.value - truth) ** 2), float(less.distance()(truth)))


@pytest.mark.parametrize("count", [65, 256])
@pytest.mark.parametrize("apart", [0, 1, 30])
def test_intervals_hold_the_truth_along_many_directions(count: int, apart: int) -> None:
    """Above 64 directions the law is not drawn but taken for a skewed normal one."""
    pairs = 10_000
    rows = Directions.of_weights(range(30), np.linspace(0.5, 1, 30), origin="tests", count=count).matrix / 128
    directions = Directions.of_values(range(30), rows, origin="tests")  # as rows of anything: nothing is random in them
    people = np.zeros((2, 30), int)
    people[0, :apart] = 1
    plan = Plan.of("directions+laplace", Budget(0.5), directions=directions)
    release = publish(np.tile(people, (pairs, 1)), plan)
    exact = directions.matrix[:apart].astype(np.float64).sum(axis=0) / directions.scale
    truth = float(exact @ exact)
    one = np.arange(0, 2 * pairs, 2)
    own = release.project(map(str, range(5, 20)))  # a vector without noise: a law that is more skewed
    apart_from_own = release.distance(release.project(map(str, range(apart))), own).value
    for found, true in ((release.distances(one, one + 1), truth), (release.distances(one, own), apart_from_own)):
        inside = int(((found.low <= true) & (true <= found.high)).sum())
        assert stats.binom.isf(1 - ALPHA / 2, pairs, 0.94) <= inside <= stats.binom.isf(ALPHA / 2, pairs, 0.96)
        middle = found.value  # power: intervals that are a fifth too short would be noticed
        short = (middle - 0.8 * (middle - found.low) <= true) & (true <= middle + 0.8 * (found.high - middle))
        assert true == 0 or int(short.sum()) < stats.binom.isf(1 - ALPHA / 2, pairs, 0.94)


# Each law and each family once: noise is added to whatever the projection gave, and knows nothing of it.
@pytest.mark.parametrize(("family", "law"), [("hashing", "gaussian"), ("counting", "laplace")])
@pytest.mark.thorough
def test_weighted_distances_count_the_projection_too(law: str, family: Any) -> None:
    """A heavy and an empty person, and one with half: Σ w²(x−y)² over many seeds, and Σ w·x by counting."""
    seeds, k, weights = 600, 64, np.arange(200) % 129 / 128  # on the grid of the directions
    people = np.zeros((3, 200), int)
    people[0], people[2, ::2] = 1, 1
    pairs = ((0, 1), (0, 2), (1, 2))
    truths = [float(weights**2 @ (people[a] - people[b]) ** 2) for a, b in pairs]
    values, inside, sums = np.empty((seeds, 3)), np.zeros(3), np.empty((seeds, 2))
    for seed in range(seeds):
        directions = Directions.of_weights(
            range(200), weights, origin="tests", count=k, family=family, seed=seed.to_bytes(32, "big")
        )
        plan = Plan.of(f"directions+{law}", LAWS[law] if law == "gaussian" else Budget(5.0), directions=directions)
        release = publish(people, plan)
        found = release.distances([a for a, _ in pairs], [b for _, b in pairs])
        values[seed] = found.value
        inside += (found.low <= truths) & (truths <= found.high)
        sums[seed] = release.values.sum(axis=1)[[0, 2]] * plan.scale
        if seed < 20:  # there is no chance in it
            mine, half = release.project(map(str, range(200))), release.project(map(str, range(0, 200, 2)))
            assert release.distance(mine, half).value == pytest.approx(truths[1])
    assert plan.measured == "weighted squared distance"
    for pair, truth in enumerate(truths):
        assert mean_is(values[:, pair], truth)
        # Variances are upper bounds: a term of fourth powers is left out, which is small here.
        assert values[:, pair].var() < 1.3 * float(plan.error.distance()(truth))
        assert values[:, pair].var() > 0.7 * float(plan.error.distance()(truth))
        assert inside[pair] >= stats.binom.isf(1 - ALPHA / 2, seeds, 0.94)
    if family == "counting":
        for column, person in enumerate((0, 2)):
            assert mean_is(sums[:, column], float(weights @ people[person]))


@pytest.mark.parametrize("law", LAWS)
def test_own_vectors_norms_and_products(law: str) -> None:
    release, _, _ = measured(law, 4, 12)
    one, own = np.arange(0, 2 * PAIRS, 2), release.project(map(str, range(5, 20)))
    mine = release.project(map(str, range(12)))  # what everybody of these has
    error = release.plan.error
    norms, inner = (mine.squared_norm, own.squared_norm), mine.inner_product(own)
    truth = release.distance(mine, own).value
    found = release.distances(one, own)
    assert mean_is(normal_enough(found.value), truth)
    assert mean_is(normal_enough((found.value - truth) ** 2), float(error.distance(one_sided=True)(truth)))
    products = release.inner_product(one, own)
    assert mean_is(products.value, inner)
    assert variance_is(products.value, inner, float(error.inner_product(norms, inner, one_sided=True)))
    pairs = release.inner_product(one, np.roll(one, 1))
    assert mean_is(pairs.value, norms[0])
    assert variance_is(pairs.value, norms[0], float(error.inner_product((norms[0], norms[0]), norms[0])))
    inside = int(((products.low <= inner) & (inner <= products.high)).sum())
    assert FEWEST <= inside <= MOST
    lengths = release.norm(one).value
    joint = error.joint((norms[0], norms[0]), norms[0])
    product = (lengths - norms[0]) * (pairs.value - norms[0])
    assert mean_is(normal_enough(product), float(joint[0, 2]))


def test_power() -> None:
    """Intervals that are a fifth too short would be noticed."""
    _, found, truth = measured("laplace", 4, 12)
    low, high = (truth + (end - truth) for end in (found.low, found.high))
    shorter = 0.8
    middle = found.value
    inside = (middle + shorter * (low - middle) <= truth) & (truth <= middle + shorter * (high - middle))
    assert int(inside.sum()) < FEWEST
