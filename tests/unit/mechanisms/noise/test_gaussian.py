import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimly.errors import ParameterError
from dimly.mechanisms.noise.gaussian import RoundedGaussian, gaussian_moments, sampling_allowance
from dimly.mechanisms.noise.tables import MAX_WEIGHTS, TOTAL


@settings(max_examples=30, deadline=None)
@given(st.floats(0.1, 60.0))
def test_tables_sum_up_and_are_close_to_the_law(sigma: float) -> None:
    noise = RoundedGaussian.of(sigma)
    assert 2 * sum(noise.half) - noise.half[0] == TOTAL
    assert list(noise.half) == sorted(noise.half, reverse=True)
    # What a plan sets aside before there is a table covers what the table then needs.
    assert 2 * noise.sampling_distance <= sampling_allowance(sigma, epsilon=1e-12, touched=1)


@settings(max_examples=30, deadline=None)
@given(st.floats(1.0, 60.0))
def test_moments_have_sheppards_corrections(sigma: float) -> None:
    noise = RoundedGaussian.of(sigma)
    variance, fourth = gaussian_moments(sigma)
    assert noise.variance == pytest.approx(variance, rel=1e-6)
    assert noise.fourth_moment == pytest.approx(fourth, rel=1e-6)


def test_moments_of_a_small_sigma_are_those_of_the_table() -> None:
    noise = RoundedGaussian.of(0.3)
    # P(±1) = Φ(−5/3) each, P(±2) about 3e-7.
    one = 0.5 * math.erfc(5 / 3 / math.sqrt(2))
    assert noise.variance == pytest.approx(2 * one, rel=1e-4)
    assert noise.variance != pytest.approx(gaussian_moments(0.3)[0], rel=0.1)


@pytest.mark.parametrize("sigma", [0.0, 0.01, -1.0, math.nan, math.inf])
def test_sigma_must_be_a_noise(sigma: float) -> None:
    with pytest.raises(ParameterError, match="sigma must be"):
        RoundedGaussian.of(sigma)


def test_too_large_a_table_is_refused_before_it_is_built() -> None:
    with pytest.raises(ParameterError, match=f"at most {MAX_WEIGHTS} weights, but needs"):
        RoundedGaussian.of(40_000.0)


def test_weights_must_sum_up() -> None:
    with pytest.raises(ParameterError, match="sum to"):
        RoundedGaussian(1.0, (TOTAL - 2, 2))
    with pytest.raises(ParameterError, match="sum to"):
        RoundedGaussian(1.0, ())
    with pytest.raises(ParameterError, match="sigma must be"):
        RoundedGaussian(math.nan, (TOTAL,))
