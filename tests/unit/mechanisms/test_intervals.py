import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.errors import ParameterError
from dimly.mechanisms.error_models import Polynomial
from dimly.mechanisms.intervals import invert_interval, normal_quantile, ratio_interval

Z95 = 1.959963984540054

estimates = st.floats(-1e4, 1e5)
polynomials = st.builds(Polynomial, st.floats(0, 0.2), st.floats(0, 1e3), st.floats(1.0, 1e6))


@given(estimates, polynomials)
def test_ends_are_where_the_estimate_becomes_surprising(estimate: float, variance: Polynomial) -> None:
    low, high = (float(end) for end in invert_interval(estimate, variance))
    assert 0 <= low <= high < math.inf
    for end in (low, high):
        deviation = abs(estimate - end) / math.sqrt(float(variance(end)))
        if end == 0 or (low == 0 and estimate < 0 and deviation > Z95):
            continue  # cut off at zero, or the fallback far below it
        assert deviation == pytest.approx(Z95, rel=1e-6)


@given(st.floats(0, 1e5), polynomials)
def test_an_estimate_is_in_its_own_interval(estimate: float, variance: Polynomial) -> None:
    low, high = invert_interval(estimate, variance)
    assert low <= estimate <= high


@given(estimates, polynomials, st.floats(0.5, 0.94))
def test_more_confidence_is_wider(estimate: float, variance: Polynomial, confidence: float) -> None:
    low, high = invert_interval(estimate, variance, confidence=confidence)
    wider_low, wider_high = invert_interval(estimate, variance, confidence=0.95)
    slack = 1e-9 * (1 + abs(estimate))
    assert wider_low <= low + slack
    assert wider_high >= high - slack or estimate < 0


def test_few_coordinates_leave_no_upper_end() -> None:
    low, high = invert_interval(100.0, Polynomial(2 / 4, 10.0, 100.0))
    assert high == math.inf
    assert 0 < low < 100
    assert abs(100 - low) == pytest.approx(Z95 * math.sqrt(0.5 * low**2 + 10 * low + 100))
    assert invert_interval(100.0, Polynomial(2 / 4, 10.0, 100.0), largest=500)[1] == 500
    # Right at the border, where the quadratic loses its square.
    border_low, border_high = invert_interval(100.0, Polynomial(1 / Z95**2, 10.0, 100.0))
    assert border_low == pytest.approx(abs(100**2 - Z95**2 * 100) / (200 + Z95**2 * 10), rel=1e-6)
    assert border_high > 1e9


def test_far_below_zero_the_width_at_zero_remains() -> None:
    low, high = invert_interval(-1e6, Polynomial(0.01, 1.0, 400.0))
    assert low == 0
    assert high == pytest.approx(Z95 * 20)


def test_arrays_broadcast() -> None:
    low, high = invert_interval(np.array([[10.0], [400.0]]), Polynomial(0.01, np.array([1.0, 2.0]), 100.0))
    assert low.shape == high.shape == (2, 2)
    assert (low <= high).all()
    alone = invert_interval(400.0, Polynomial(0.01, 2.0, 100.0))
    assert (low[1, 1], high[1, 1]) == (alone[0], alone[1])


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, math.nan])
def test_confidence_must_be_a_probability(confidence: float) -> None:
    with pytest.raises(ParameterError, match="confidence must be"):
        invert_interval(1.0, Polynomial(0.0, 0.0, 1.0), confidence=confidence)


def test_normal_quantiles() -> None:
    assert normal_quantile(0.95) == pytest.approx(Z95)
    assert normal_quantile(0.5) == pytest.approx(0.6744897501960817)
    for confidence in (0.0, 1.0, 95, math.nan):
        with pytest.raises(ParameterError, match=r"confidence must be in \(0, 1\)"):
            normal_quantile(confidence)


ratios = st.tuples(st.floats(-50, 200), st.floats(1, 200))


@given(ratios, st.floats(0, 100), st.floats(-1, 1), st.floats(0.01, 100))
def test_ends_of_a_ratio_are_where_the_difference_becomes_surprising(
    ratio: tuple[float, float], square: float, correlation: float, constant: float
) -> None:
    top, bottom = ratio
    variance = Polynomial(square, -2 * correlation * math.sqrt(square * constant), constant)
    low, high = (float(end) for end in ratio_interval(top, bottom, variance))
    assert 0 <= low <= high <= 1
    for end in (low, high):
        if end not in (0.0, 1.0):
            deviation = abs(top - end * bottom)
            assert deviation == pytest.approx(Z95 * math.sqrt(float(variance(end))), rel=1e-5, abs=1e-6)
    if 0 <= top <= bottom:
        assert low - 1e-9 <= top / bottom <= high + 1e-9


def test_where_the_denominator_may_be_zero_every_ratio_is_possible() -> None:
    top = np.array([5.0, 5.0, 5.0])
    bottom = np.array([1.0, -30.0, 0.0])
    low, high = ratio_interval(top, bottom, Polynomial(25.0, 0.0, 25.0))
    assert low.tolist() == [0.0] * 3
    assert high.tolist() == [1.0] * 3


def test_a_ratio_of_certain_numbers_is_certain() -> None:
    low, high = ratio_interval(3.0, 4.0, Polynomial(0.0, 0.0, 0.0))
    assert (float(low), float(high)) == (0.75, 0.75)


def test_ratios_need_a_probability_too() -> None:
    with pytest.raises(ParameterError, match="confidence must be"):
        ratio_interval(1.0, 2.0, Polynomial(0.0, 0.0, 1.0), confidence=1.0)
