import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dimly.errors import ParameterError
from dimly.mechanisms.deviations import (
    Chebyshev,
    DeviationBound,
    Hoeffding,
    NormalTail,
    TheoremTwo,
    theorem_two_width,
    tightest_probability,
    tightest_width,
)
from dimly.mechanisms.error_models import FlippedBitsError, Noise, SignedSketchError

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


def test_without_a_bound_nothing_is_said() -> None:
    assert tightest_width((), 0.05, 1.0) == math.inf
    assert tightest_probability((), 5.0, 1.0) == 1.0


def test_the_tightest_bound_wins() -> None:
    bounds: tuple[DeviationBound, ...] = (Chebyshev(FlippedBitsError(1000, 0.25)), Hoeffding(1000, 0.25))
    for probability in (0.5, 1e-6):
        widths = [bound.width(probability, 1.0) for bound in bounds]
        assert tightest_width(bounds, probability, 1.0) == min(widths)
        assert tightest_probability(bounds, min(widths), 1.0) == pytest.approx(probability)
