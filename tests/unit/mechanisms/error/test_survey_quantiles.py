"""Quantiles of noisy cumulative counts: exact without noise, and boundaries that one attribute crosses once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from dimly.mechanisms.error.survey_quantiles import boundaries, cumulative, quantiles

SHARES = (0.1, 0.5, 0.9)


@given(st.integers(1, 1 << 24))
def test_boundaries_are_at_least_one_apart_and_grow_by_half_a_percent(largest: int) -> None:
    at = boundaries(largest)
    assert at[0] == 0
    assert at[-1] < largest <= at[-1] + max(1, at[-1] // 200)
    steps = np.diff(at)
    assert (steps >= 1).all()
    assert (steps <= np.maximum(1, at[:-1] / 200)).all()


def test_cumulative_counts() -> None:
    at = boundaries(10)
    assert cumulative(np.array([0, 0, 3, 9, 500]), at).tolist() == [2, 2, 2, 3, 3, 3, 3, 3, 3, 4]
    assert cumulative(np.array([], np.int64), at).tolist() == [0] * 10


@given(st.lists(st.integers(0, 399), min_size=1, max_size=60))
def test_without_noise_quantiles_are_those_of_the_numbers(numbers: list[int]) -> None:
    at = boundaries(1000)
    found = quantiles(
        cumulative(np.array(numbers), at),
        at,
        total=len(numbers),
        shares=SHARES,
        variance=0.0,
    )
    ordered = sorted(numbers)
    for share, one in zip(SHARES, found, strict=True):
        wanted = next(x for i, x in enumerate(ordered, 1) if i >= share * len(numbers) - 1e-9)
        assert one.value == pytest.approx(wanted)
        assert one.low <= one.value <= one.high


def test_numbers_beyond_the_last_boundary_end_there() -> None:
    at = boundaries(100)
    (one,) = quantiles(np.zeros(len(at), np.int64), at, total=50, shares=(0.5,), variance=1.0)
    assert one == (at[-1], at[-1], at[-1])


def test_values_that_are_no_integers_are_told_between_boundaries() -> None:
    at = boundaries(10)
    exact = np.array([0, 0, 10, 10, 10, 10, 10, 10, 10, 10])
    assert quantiles(exact, at, total=10, shares=(0.5,), variance=0.0, whole=False)[0].value == 1.5
    assert quantiles(exact, at, total=10, shares=(0.5,), variance=0.0)[0].value == 2.0


@given(st.lists(st.integers(-60, 160), min_size=1, max_size=40), st.sampled_from([0.0, 30.0, 900.0]))
def test_intervals_hold_the_boundaries_at_which_a_rising_curve_fits_about_as_well(
    noisy: list[int], variance: float
) -> None:
    at = boundaries(len(noisy))
    (one,) = quantiles(np.array(noisy), at, total=100, shares=(0.5,), variance=variance)
    above = np.array(noisy) - 50.0

    def misfit(place: int) -> float:  # of the best rising curve that is below the count before a place, above from it
        below = np.minimum(isotonic_regression(above[:place]).x, 0) if place else above[:0]
        beyond = np.maximum(isotonic_regression(above[place:]).x, 0) if place < len(above) else above[:0]
        return float(((above - np.concatenate([below, beyond])) ** 2).sum())

    worse = np.array([misfit(place) for place in range(len(above) + 1)])
    possible = np.flatnonzero(worse <= worse.min() + 2.5 * variance + 1e-6)
    assert one.low == min(possible[0], len(above) - 1)
    assert one.high == min(possible[-1], len(above) - 1)
    assert one.low <= one.value <= one.high


def test_intervals_are_wide_where_the_quantile_falls_into_a_gap_between_two_groups() -> None:
    at, generator = boundaries(1000), np.random.default_rng(0)
    exact = cumulative(np.repeat([30, 600], 1_000), at)
    found = [
        quantiles(exact + noise, at, total=2_000, shares=(0.5,), variance=800.0)[0]
        for noise in generator.laplace(0, 20, (100, len(at))).astype(np.int64)
    ]
    # Every number from 30 to 600 is a median. Intervals by a curve smoothed over the gap were 4 wide.
    assert all(one.low <= 600 and one.high >= 30 for one in found)
    assert np.mean([one.high - one.low for one in found]) > 200
