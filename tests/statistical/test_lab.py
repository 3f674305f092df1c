"""What simulate predicts is what it measures, over publications with fresh seeds and noise.

All pairs of one publication share its projection, so that publications are the sample, not pairs. The squared error
that is measured has, by theory, exactly the predicted mean: their ratio is tested at level ALPHA for each mechanism.
Coverage and ranking rest on approximations and may be off by what is said below; what is within fails with less than
ALPHA. Beside each check its power.
"""

import math
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats
from tests.statistical.checks import ALPHA, Floats, alarm, mean_is

import dimly
from dimly.lab import simulate as simulation
from dimly.lab.population import make_population
from dimly.lab.simulate import Truth, outcome
from dimly.mechanisms import Plan
from dimly.privacy import Budget

pytestmark = pytest.mark.xdist_group("lab")  # whose publications are made once

N_PUBLICATIONS = 150
EPSILON = 2.0
K = 32
INTERVALS_OFF, RANKING_OFF = 0.015, 0.03
MECHANISMS = ["counting+laplace", "hashing+laplace", "randomized-response"]


@lru_cache
def truth() -> Truth:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "N_ASKED", 1)  # neighbors are no matter here
        return Truth.of(make_population(60, 200, mean_weight=20, n_groups=2))


def plan(mechanism: str, epsilon: float = EPSILON) -> Plan:
    shape = {"n_attributes": 200} if mechanism == "randomized-response" else {"k": K}
    return Plan.of(mechanism, Budget(epsilon), **shape)  # type: ignore[arg-type]


@lru_cache
def outcomes(mechanism: str) -> dict[str, Floats]:
    """Return what publications gave, each under a seed of its own."""
    found = []
    for _ in range(N_PUBLICATIONS):
        one = outcome(dimly.publish(truth().people.table, plan(mechanism)), truth(), segments=False)
        found.append((one.error.measured**2 / one.error.predicted**2, one.coverage, *one.ranking))
    squares, coverage, predicted, measured = np.array(found).T
    return {"squares": squares, "coverage": coverage, "ranking": measured - predicted}


def about(values: Floats, center: float, off: float) -> bool:
    """Test whether a mean is within ``off`` of ``center``: what is fails with less than ALPHA."""
    doubt = values.std(ddof=1) / math.sqrt(len(values)) * stats.norm.isf(ALPHA / 2)
    return bool(abs(values.mean() - center) <= off + doubt)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.thorough(but=1)
def test_the_predicted_error_is_measured(mechanism: str) -> None:
    squares = outcomes(mechanism)["squares"]
    assert mean_is(squares, 1.0), alarm(f"{mechanism}: squared error by its prediction", squares, 1.0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.thorough(but=1)
def test_less_noise_than_was_added_is_noticed(mechanism: str) -> None:
    (a, b), weights = truth().pairs, truth().people.weights
    stated, less = (
        np.mean(plan(mechanism, epsilon).error.distance(weights=(weights[a], weights[b]))(truth().squared_distances))
        for epsilon in (EPSILON, 1.25 * EPSILON)
    )
    assert not mean_is(outcomes(mechanism)["squares"] * stated / less, 1.0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.thorough(but=1)
def test_intervals_hold_the_truth_as_often_as_they_say(mechanism: str) -> None:
    coverage = outcomes(mechanism)["coverage"]
    assert about(coverage, 0.95, INTERVALS_OFF), alarm(f"{mechanism}: coverage", coverage, 0.95)
    assert not about(coverage, 0.90, INTERVALS_OFF)  # intervals of 90 % would be noticed
    assert not about(coverage, 0.99, INTERVALS_OFF)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.thorough
def test_near_and_far_are_told_apart_as_often_as_predicted(mechanism: str) -> None:
    ranking = outcomes(mechanism)["ranking"]
    assert about(ranking, 0.0, RANKING_OFF), alarm(f"{mechanism}: ranking less its prediction", ranking, 0.0)
    assert not about(ranking + 0.1, 0.0, RANKING_OFF)
