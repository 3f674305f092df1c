import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.errors import ParameterError
from dimly.mechanisms.error_models import Polynomial
from dimly.mechanisms.intervals import invert_interval

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
