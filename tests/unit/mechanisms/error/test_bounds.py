import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dimly.errors import ParameterError
from dimly.mechanisms.error.bounds import (
    Chebyshev,
    DeviationBound,
    Hoeffding,
    NormalTail,
    TheoremTwo,
    invert_interval,
    normal_quantile,
    ratio_interval,
    theorem_two_width,
)
from dimly.mechanisms.error.models import FlippedBitsError, Noise, Polynomial, SignedSketchError

BOUNDS: list[DeviationBound] = [
    Chebyshev(SignedSketchError(256, 1.0, Noise(17.9, 970.0))),
    Hoeffding(3706, 0.27),
    NormalTail(94.0, 1.0),
    TheoremTwo(512, 4.2, 17.7, 1 / math.sqrt(512)),
    TheoremTwo(512, 4.2, 17.7, 2.0**-8, grid_bits=8),
    TheoremTwo(512, 4.2, 17.7, 2.0**-8, grid_bits=8, n_attributes=5000),
]
every_bound = pytest.mark.parametrize("bound", BOUNDS, ids=lambda b: f"{b.name}-{getattr(b, 'grid_bits', '')}")


@every_bound
@given(probability=st.floats(1e-4, 0.9), squared_distance=st.floats(1, 1e4))
def test_the_two_directions_are_inverse(bound: DeviationBound, probability: float, squared_distance: float) -> None:
    width = bound.width(probability, squared_distance)
    if math.isinf(width):
        return
    back = bound.probability(width * (1 + 1e-12), squared_distance)
    assert back == pytest.approx(probability, rel=1e-6)
    assert bound.width(min(back, 0.999), squared_distance) <= width * (1 + 1e-6)


@every_bound
def test_wider_is_rarer(bound: DeviationBound) -> None:
    probabilities = [bound.probability(width, 400.0) for width in (1.0, 1e2, 1e4, 1e6)]
    assert probabilities == sorted(probabilities, reverse=True)
    assert probabilities[0] == pytest.approx(1.0, abs=0.01)
    assert probabilities[-1] < 1e-3


@every_bound
def test_what_is_no_probability_is_refused(bound: DeviationBound) -> None:
    for probability in (0.0, 1.0, math.nan):
        with pytest.raises(ParameterError, match="probability must be"):
            bound.width(probability, 1.0)
    for width in (0.0, -1.0, math.nan):
        with pytest.raises(ParameterError, match="width must be"):
            bound.probability(width, 1.0)


def test_theorem_3_as_printed() -> None:
    d, p, failure = 1000, 0.25, 0.05
    printed = math.sqrt(d * math.log(2 / failure)) / (math.sqrt(2) * (1 - 2 * p) ** 2)
    assert Hoeffding(d, p).width(failure, 123.0) == pytest.approx(printed)
    # It beats Chebyshev for small probabilities, and loses for large ones.
    chebyshev = Chebyshev(FlippedBitsError(d, p))
    assert Hoeffding(d, p).width(1e-6, 1.0) < chebyshev.width(1e-6, 1.0)
    assert chebyshev.width(0.5, 1.0) < Hoeffding(d, p).width(0.5, 1.0)


def test_theorem_2_as_printed() -> None:
    k, sigma, r = 512, 4.2, 20.0
    jl, chi2, normal = 0.3, 2.0, 1.5
    printed = (
        jl * r**2 + 4 * sigma**2 * math.sqrt(k) * chi2 + 4 * sigma**2 * chi2**2 + 4 * sigma * (1 + jl) * normal * r
    )
    shares = (
        2 * math.exp(-k * jl**2 / 6),
        2 * math.exp(-(chi2**2)),
        math.exp(-(normal**2)) / normal / math.sqrt(math.pi),
    )
    # With the largest of the three shares for each, every λ and so the width is smaller than printed.
    assert theorem_two_width(3 * max(shares), r**2, k=k, sigma=sigma) < printed
    assert theorem_two_width(3 * min(shares), r**2, k=k, sigma=sigma) > printed


def test_theorem_2_is_silent_where_k_is_small() -> None:
    # λ_JL < 1/2 asks for k > 24·ln(6/μ).
    limit = 24 * math.log(6 / 0.05)
    assert math.isinf(theorem_two_width(0.05, 1.0, k=math.floor(limit), sigma=1.0))
    assert math.isfinite(theorem_two_width(0.05, 1.0, k=math.ceil(limit), sigma=1.0))
    silent = TheoremTwo(8, 4.2, 17.7, 1.0)
    assert silent.width(0.5, 1.0) == math.inf
    assert silent.probability(1e9, 1.0) == 1.0
    for bound in (silent, BOUNDS[0]):
        with pytest.raises(ParameterError, match="squared_distance must be"):
            bound.width(0.5, -1.0)


def test_rounding_only_widens() -> None:
    ideal = theorem_two_width(0.1, 400.0, k=512, sigma=4.2)
    published = TheoremTwo(512, 4.2, 4.2**2 + 1 / 12 / 512, 1 / math.sqrt(512)).width(0.1, 400.0)
    gridded = TheoremTwo(512, 4.2, 4.2**2, 2.0**-8, grid_bits=8).width(0.1, 400.0)
    finer = TheoremTwo(512, 4.2, 4.2**2, 2.0**-20, grid_bits=20).width(0.1, 400.0)
    assert ideal < finer < gridded
    assert ideal < published < 1.2 * ideal
    assert finer == pytest.approx(ideal, rel=1e-3)


def test_rounding_costs_what_it_can_cost() -> None:
    """Recomputed from the triangle inequality: |‖u+e‖² − ‖u‖²| ≤ 2‖u‖‖e‖ + ‖e‖², plus what is subtracted too much."""
    k, sigma, r2, unit, bits, d, variance = 400, 3.0, 100.0, 0.25, 6, 900, 9.2
    ideal = theorem_two_width(0.2, r2, k=k, sigma=sigma)
    step = 2.0**-bits
    shrink = 1 - 1 / math.sqrt(1 + k * step**2 / 12)
    stretched = math.sqrt(1 + math.sqrt(6 * math.log(2 / (0.2 / 3)) / k)) * 10
    for values in (False, True):
        l1 = 30 * 10 if values else r2
        error = 20 * unit + l1 * step / 2 * 20 + shrink * stretched
        norm = math.sqrt(r2 + ideal + 2 * k * sigma**2)
        expected = ideal + 2 * norm * error + error**2 + 2 * k * abs(variance - sigma**2)
        bound = TheoremTwo(k, sigma, variance, unit, grid_bits=bits, n_attributes=d if values else None)
        assert bound.width(0.2, r2) == pytest.approx(expected)


def test_a_normal_tail_covers_the_rounded_law() -> None:
    bound = NormalTail(3.0, 1.0)
    for probability in (0.3, 0.05, 1e-4):
        width = bound.width(probability, 0.0)
        outside = 2 * stats.norm.sf((math.floor(width) + 0.5) / 3.0)  # P(|round(N)| > width)
        assert outside <= probability


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
    # As near to 1 as a number can be: half of it and 1 would be 1.
    assert normal_quantile(math.nextafter(1, 0)) == pytest.approx(stats.norm.isf(2.0**-54), rel=1e-9)
    assert normal_quantile(1e-320) == 0
    for confidence in (0.0, 1.0, 95, math.nan):
        with pytest.raises(ParameterError, match=r"confidence must be above 0 and below 1"):
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
