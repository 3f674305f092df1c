import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimly.errors import ParameterError
from dimly.mechanisms.noise.laplace import DiscreteLaplace, laplace_moments
from dimly.mechanisms.noise.tables import MAX_WEIGHTS, TOTAL
from dimly.privacy import Budget
from dimly.privacy.budget import stated


@settings(max_examples=40)
@given(st.floats(0.01, 39.9))
def test_moments_of_the_table_are_those_of_the_law(epsilon: float) -> None:
    noise = DiscreteLaplace.of(Budget(epsilon), l1_sensitivity=1)
    variance, fourth = laplace_moments(epsilon)
    assert noise.variance == pytest.approx(variance, rel=1e-9)
    assert noise.fourth_moment == pytest.approx(fourth, rel=1e-9)


@settings(max_examples=40)
@given(st.floats(0.01, 39.9))
def test_moments_of_the_law_by_summation(rate: float) -> None:
    q = math.exp(-rate)
    reach = math.ceil(60 / rate) + 2
    terms = [(1 - q) / (1 + q) * q**i for i in range(reach)]
    variance, fourth = laplace_moments(rate)
    assert variance == pytest.approx(2 * math.fsum(i**2 * p for i, p in enumerate(terms)), rel=1e-9)
    assert fourth == pytest.approx(2 * math.fsum(i**4 * p for i, p in enumerate(terms)), rel=1e-9)


def test_the_tail_counts_in_the_moments() -> None:
    # A short head and tail: half of the mass beyond zero lies in the (repeated) tail.
    half = TOTAL // 2
    noise = DiscreteLaplace(Fraction(3), (half,), TOTAL // 4, (half,), half)
    # |η| = 0 with ½, else geometric: P(j) = 2⁻ʲ, E j² = 6, E j⁴ = 150.
    assert noise.variance == pytest.approx(3.0)
    assert noise.fourth_moment == pytest.approx(75.0)


def test_tables_shrink_with_epsilon_and_end_at_the_limit() -> None:
    sizes = [DiscreteLaplace.of(Budget(e), l1_sensitivity=1).n_weights for e in (0.01, 0.1, 1.0, 10.0)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] < 10_000
    largest = DiscreteLaplace.of(Budget(1.0), l1_sensitivity=18_500)
    assert MAX_WEIGHTS / 2 < largest.n_weights <= MAX_WEIGHTS
    with pytest.raises(ParameterError, match=f"at most {MAX_WEIGHTS} weights"):
        DiscreteLaplace.of(Budget(1.0), l1_sensitivity=19_500)


@pytest.mark.parametrize("epsilon", [23.9, 24.1, 27.27, 27.4, 27.53, 27.7, 27.72, 27.73])
def test_next_to_no_noise_is_noise_too(epsilon: float) -> None:
    noise = DiscreteLaplace.of(Budget(epsilon), l1_sensitivity=1)
    assert noise.realized_rate <= epsilon
    assert noise.variance == pytest.approx(laplace_moments(epsilon)[0], rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-4, 0.003, 0.1, 1.0])
@pytest.mark.thorough(but=1)
def test_the_largest_sensitivity_is_that_of_the_largest_table(epsilon: float) -> None:
    most = DiscreteLaplace.largest_sensitivity(Budget(epsilon))
    if most:
        DiscreteLaplace.of(Budget(epsilon), l1_sensitivity=most)
    with pytest.raises(ParameterError, match="at most"):
        DiscreteLaplace.of(Budget(epsilon), l1_sensitivity=most + 2)


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="at most 40"):
        DiscreteLaplace.of(Budget(41.0), l1_sensitivity=1)
    with pytest.raises(ParameterError, match="l1_sensitivity must be"):
        DiscreteLaplace.of(Budget(1.0), l1_sensitivity=0)
    for wrong in (1.5, True):
        with pytest.raises(ParameterError, match="l1_sensitivity must be"):
            DiscreteLaplace.of(Budget(1.0), l1_sensitivity=wrong)  # type: ignore[arg-type]
    half = TOTAL // 2
    with pytest.raises(ParameterError, match=">= 1"):
        DiscreteLaplace(Fraction(1), (), 1, (half,), half)
    with pytest.raises(ParameterError, match=">= 1"):
        DiscreteLaplace(Fraction(1), (TOTAL,), 0, (half,), half)
    with pytest.raises(ParameterError, match="head and overflow must sum"):
        DiscreteLaplace(Fraction(3), (half,), half, (half,), half)
    with pytest.raises(ParameterError, match="tail and tail_overflow must sum"):
        DiscreteLaplace(Fraction(3), (half,), TOTAL // 4, (half,), half - 1)


@pytest.mark.parametrize("start", [10, 20, 26, 27, 28, 39])
def test_there_is_a_table_for_every_epsilon_up_to_the_limit(start: int) -> None:
    # Between 27.2 and 27.73 a second cell took nearly all of what was left for the tail, and tables failed their check.
    for epsilon in (start + step / 200 for step in range(201)):
        noise = DiscreteLaplace.of(Budget(epsilon), l1_sensitivity=1)
        assert noise.variance == pytest.approx(laplace_moments(epsilon)[0], rel=1e-9)


@given(st.floats(0.05, 39.9), st.integers(1, 3))
def test_a_table_keeps_the_decimal_that_was_stated(epsilon: float, l1_sensitivity: int) -> None:
    noise = DiscreteLaplace.of(Budget(epsilon), l1_sensitivity=l1_sensitivity)
    assert noise.rate * l1_sensitivity <= min(Fraction(epsilon), stated(epsilon))
