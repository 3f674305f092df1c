import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.plans import plan_of

from dimly.analyst.intervals import Skewness, distance_skewness, unified_interval
from dimly.errors import ParameterError
from dimly.mechanisms import Plan
from dimly.mechanisms.error.bounds import invert_interval
from dimly.mechanisms.error.models import Polynomial
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.privacy import Budget

Z95 = stats.norm.isf(0.025)
UNIT = Polynomial(0.0, 0.0, 1.0)

estimates = st.floats(-1e4, 1e5)
polynomials = st.builds(Polynomial, st.floats(0, 0.2), st.floats(0, 1e3), st.floats(1.0, 1e6))
CONFIDENCES = st.lists(st.floats(0.01, 0.9999), min_size=2, max_size=5)
skewnesses = st.none() | st.builds(
    Skewness,
    st.integers(8, 1000),
    st.integers(1, 2),
    st.floats(0, 10),
    st.floats(0, 300),
    st.floats(0, 3e4),
    st.floats(0, 1),
)


@pytest.mark.parametrize(
    ("estimate", "low", "high"),
    # Table X of Feldman and Cousins (1998), the column for 95 %.
    [(-3.0, 0.0, 0.42), (-2.0, 0.0, 0.62), (-1.0, 0.0, 1.10), (0.0, 0.0, 1.96), (1.0, 0.0, 2.96), (2.0, 0.35, 3.96)],
)
def test_the_published_table(estimate: float, low: float, high: float) -> None:
    found = unified_interval(estimate, UNIT)
    assert float(found[0]) == pytest.approx(low, abs=0.006)
    assert float(found[1]) == pytest.approx(high, abs=0.006)


@pytest.mark.parametrize("confidence", [0.55, 0.68, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("truth", [0.0, 0.05, 0.4, 1.0, 1.7, 2.5, 6.0])
def test_a_normal_estimate_is_covered_as_stated_at_any_distance_from_zero(truth: float, confidence: float) -> None:
    grid = np.linspace(truth - 9, truth + 9, 200_001)
    low, high = unified_interval(grid, UNIT, confidence=confidence)
    weight = stats.norm.pdf(grid - truth)
    covered = weight[(low <= truth) & (truth <= high)].sum() / weight.sum()
    assert covered == pytest.approx(confidence, abs=5e-4)


@pytest.mark.parametrize("truth", [0.0, 0.05, 0.4, 1.0, 6.0])
def test_with_little_confidence_more_is_covered_at_zero_alone(truth: float) -> None:
    grid = np.linspace(truth - 9, truth + 9, 200_001)
    low, high = unified_interval(grid, UNIT, confidence=0.3)
    weight = stats.norm.pdf(grid - truth)
    covered = weight[(low <= truth) & (truth <= high)].sum() / weight.sum()
    assert 0.3 - 5e-4 <= covered <= (0.3 + 5e-4 if truth > 0 else 0.5 + 5e-4)


@pytest.mark.parametrize("truth", [0.0, 4.0, 20.0, 60.0, 400.0])
def test_a_sum_of_squares_is_covered_as_stated(truth: float) -> None:
    """A Gaussian projection with Gaussian noise: the estimate is a scaled χ² exactly."""
    k, v = 32, 1.5
    spread = truth / k + 2 * v
    squares = np.linspace(0, 200, 200_001)
    low, high = unified_interval(
        spread * squares - 2 * k * v,
        Polynomial(2 / k, 8 * v, 8 * k * v**2),
        skewness=Skewness(k, 2, v, 0.0, 0.0),
    )
    weight = stats.chi2.pdf(squares, k)
    covered = weight[(low <= truth) & (truth <= high)].sum() / weight.sum()
    assert covered == pytest.approx(0.95, abs=0.006)


@given(estimates, polynomials, skewnesses, st.floats(0.6, 0.999))
def test_an_interval_is_never_empty(
    estimate: float, variance: Polynomial, skewness: Skewness | None, confidence: float
) -> None:
    low, high = unified_interval(estimate, variance, confidence=confidence, skewness=skewness)
    assert 0 <= low <= max(estimate, 0.0) * (1 + 1e-12)
    assert high > 0
    assert high >= estimate


@given(st.lists(estimates, min_size=1), polynomials, st.floats(1.0, 1e5) | st.just(math.inf), CONFIDENCES)
def test_more_confidence_makes_no_end_nearer(
    values: list[float], variance: Polynomial, largest: float, confidences: list[float]
) -> None:
    """Also where an estimate is beyond all that is possible, and with a confidence of less than one half."""
    ends = [1.1 * largest, largest] if math.isfinite(largest) else []
    _check_nested(np.array([*values, *ends, 0.0]), variance, confidences, largest=largest)


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace", "sparse+laplace", "sign+gaussian"])
@pytest.mark.parametrize("largest", [40.0, 300.0, math.inf])
def test_so_it_is_with_the_skewness_of_plans(mechanism: str, largest: float) -> None:
    for k, sides in itertools.product((16, 128), (1, 2)):
        plan = plan_of(mechanism, k=k)
        variance = plan.error.distance(one_sided=sides == 1)
        spread = float(variance(0.0)) ** 0.5
        values = np.linspace(-4 * spread, 8 * spread, 60)
        _check_nested(
            values,
            variance,
            [0.6, 0.68, 0.8, 0.9, 0.95, 0.975, 0.99],
            largest=largest,
            skewness=distance_skewness(plan, sides=sides),
        )


def _check_nested(values: Any, variance: Polynomial, confidences: list[float], **more: Any) -> None:
    ends = [unified_interval(values, variance, confidence=one, **more) for one in sorted(confidences)]
    slack = 2e-3 * float(variance(0.0)) ** 0.5  # ends are found to a thousandth of a standard error
    for (low, high), (lower, higher) in itertools.pairwise(ends):
        slacks = slack + 2e-3 * np.minimum(higher - lower, 1e12)
        assert (lower <= low + slacks).all()
        assert (np.minimum(higher, 1e12) >= np.minimum(high, 1e12) - slacks).all()


@given(st.floats(5e3, 1e5), st.floats(0, 0.01), st.floats(0, 10), st.floats(1.0, 1e4))
def test_far_from_zero_it_inverts_the_symmetric_test(
    estimate: float, square: float, linear: float, constant: float
) -> None:
    variance = Polynomial(square, linear, constant)
    np.testing.assert_allclose(unified_interval(estimate, variance), invert_interval(estimate, variance), rtol=1e-6)


@given(st.integers(16, 500), st.floats(0.3, 3.0), st.booleans())
def test_larger_estimates_have_higher_intervals(k: int, epsilon: float, leans: bool) -> None:
    v = DiscreteLaplace.of(Budget(epsilon), l1_sensitivity=1).variance
    cumulants = Skewness(k, 2, v, v + 3 * v**2, v + 15 * v**2 + 30 * v**3)
    variance = Polynomial(2 / k, 8 * v, 2 * k * (cumulants.fourth + 4 * v**2))
    spread = math.sqrt(float(variance(0.0)))
    low, high = unified_interval(np.linspace(-5, 10, 201) * spread, variance, skewness=cumulants if leans else None)
    assert (np.diff(low) >= -1e-3 * spread).all()
    assert (np.diff(high) >= -1e-3 * spread).all()


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace"])
@pytest.mark.parametrize("k", [2, 8, 64])
@pytest.mark.parametrize("epsilon", [4.0, 7.0, 12.0, 40.0])
def test_next_to_no_noise_leaves_no_warning_and_nothing_below_zero(mechanism: str, k: int, epsilon: float) -> None:
    """With so little noise the variance of bits, a polynomial, is below zero between 0 and 1."""
    plan = Plan.of(mechanism, Budget(epsilon), k=k)
    values = np.concatenate([np.linspace(-0.1, 3.0, 200), np.logspace(-12, 0, 50)])
    for sides, confidence, weight in itertools.product((1, 2), (0.5, 0.95, 0.999), (1.0, 2.0, 5.0)):
        variance = plan.error.distance(one_sided=sides == 1, weights=(weight, weight))
        for skewness in (None, distance_skewness(plan, sides=sides)):
            low, high = unified_interval(values, variance, confidence=confidence, skewness=skewness)
            assert (low >= 0).all()
            assert (low <= np.maximum(values, 0.0)).all()
            assert (high >= values).all()


@pytest.mark.parametrize("estimate", [0.001, 0.05, 0.3])
def test_where_only_the_estimate_itself_is_possible_it_is_the_interval(estimate: float) -> None:
    # Var(μ) = (μ² − μ)/20 is below zero from 0 to 1: (est − μ)² = t²·Var(μ) has no root at or above 0.
    low, high = unified_interval(estimate, Polynomial(0.05, -0.05, 0.0), confidence=0.999)
    assert (float(low), float(high)) == (estimate, estimate)


def test_the_lower_end_is_where_noise_begins_to_reach_the_estimate() -> None:
    # Var(μ) = μ² − μ: the larger root of a·μ² − 2h·μ + c = 0, with a and h below zero.
    low, t2 = float(unified_interval(1.5, Polynomial(1.0, -1.0, 0.0))[0]), Z95**2
    assert 1 < low < 1.5
    assert (1.5 - low) ** 2 == pytest.approx(t2 * (low**2 - low))


def test_few_coordinates_leave_no_upper_end() -> None:
    variance = Polynomial(2 / 4, 10.0, 100.0)
    assert unified_interval(100.0, variance)[1] == math.inf
    assert unified_interval(100.0, variance, largest=500.0)[1] == 500.0
    # An estimate beyond what is possible says no more than the largest possible one.
    beyond, most = (unified_interval(value, UNIT, largest=500.0) for value in (900.0, 500.0))
    assert [float(end) for end in beyond] == [float(end) for end in most] == [pytest.approx(498.04, abs=0.01), 500.0]


def test_arrays_broadcast_and_none_is_no_pair() -> None:
    low, high = unified_interval(np.array([[10.0], [400.0]]), Polynomial(0.01, np.array([1.0, 2.0]), 100.0))
    assert low.shape == high.shape == (2, 2)
    alone = unified_interval(400.0, Polynomial(0.01, 2.0, 100.0))
    assert (low[1, 1], high[1, 1]) == pytest.approx((float(alone[0]), float(alone[1])), abs=1e-2)
    assert unified_interval(np.empty(0), UNIT)[0].shape == (0,)


def test_many_estimates_are_worked_through_in_pieces() -> None:
    many = np.linspace(-10, 10, 40_000)
    low, high = unified_interval(many, UNIT)
    for i in (0, 16_383, 16_384, 39_999):
        one = unified_interval(many[i], UNIT)
        assert (low[i], high[i]) == pytest.approx((float(one[0]), float(one[1])), abs=1e-3)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, math.nan])
def test_confidence_must_be_a_probability(confidence: float) -> None:
    with pytest.raises(ParameterError, match="confidence must be"):
        unified_interval(1.0, UNIT, confidence=confidence)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_cumulants_of_discrete_laplace(epsilon: float) -> None:
    table = DiscreteLaplace.of(Budget(epsilon), l1_sensitivity=1)
    plan = Plan.of("hashing+laplace", Budget(epsilon), k=8, seed=bytes(32))
    skewness = distance_skewness(plan, sides=1)
    assert isinstance(skewness, Skewness)
    reach = math.ceil(40 / epsilon)
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-epsilon * np.abs(values))
    m2, m4, m6 = (float((weights * values**power).sum() / weights.sum()) for power in (2, 4, 6))
    assert skewness.variance == pytest.approx(m2, rel=1e-6)
    assert skewness.variance == pytest.approx(table.variance)
    assert skewness.fourth == pytest.approx(m4 - 3 * m2**2, rel=1e-6)
    assert skewness.sixth == pytest.approx(m6 - 15 * m4 * m2 + 30 * m2**3, rel=1e-6)


def test_skewness_of_a_sum_of_squares() -> None:
    # χ² of k degrees of freedom has skewness √(8/k).
    skewness = Skewness(50, 2, 3.0, 0.0, 0.0)
    r2 = np.array([0.0, 70.0])
    variance = 2 * (r2 / 50 + 6.0) ** 2 * 50
    np.testing.assert_allclose(skewness(r2, variance), math.sqrt(8 / 50))
    assert skewness(np.array([5.0]), np.array([0.0])).tolist() == [0.0]
    assert skewness(np.array([5.0]), np.array([1e-9])).tolist() == [2.0]


def test_who_leans_and_who_does_not() -> None:
    for mechanism in ("randomized-response", "noisy-distances"):
        assert distance_skewness(plan_of(mechanism), sides=1) is None
    shares = []
    for blend in (0.0, 0.5, 1.0):
        for sides in (1, 2):
            counting = distance_skewness(plan_of("counting+laplace", blend=blend), sides=sides)
            assert isinstance(counting, Skewness)
            shares.append(counting.share)
    assert shares == [1.0, 1.0, 0.125, 0.3125, 0.0, 0.0]
    gaussian = distance_skewness(plan_of("sign+gaussian"), sides=2)
    assert isinstance(gaussian, Skewness)
    assert (gaussian.sides, gaussian.fourth, gaussian.sixth) == (2, 0.0, 0.0)
