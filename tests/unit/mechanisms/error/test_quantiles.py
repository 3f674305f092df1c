"""Quantiles of noisy cumulative counts: exact without noise, and boundaries that one attribute crosses once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.mechanisms.error.quantiles import boundaries, cumulative, noise_needed, quantiles

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
        noise=np.zeros(noise_needed(at), np.int64),
    )
    ordered = sorted(numbers)
    for share, one in zip(SHARES, found, strict=True):
        wanted = next(x for i, x in enumerate(ordered, 1) if i >= share * len(numbers) - 1e-9)
        assert one.value == pytest.approx(wanted)
        assert one.low <= one.value <= one.high


def test_numbers_beyond_the_last_boundary_end_there() -> None:
    at = boundaries(100)
    (one,) = quantiles(
        np.zeros(len(at), np.int64), at, total=50, shares=(0.5,), noise=np.zeros(noise_needed(at), np.int64)
    )
    assert one.value == at[-1]


def test_values_that_are_no_integers_are_told_between_boundaries() -> None:
    at = boundaries(10)
    exact = np.array([0, 0, 10, 10, 10, 10, 10, 10, 10, 10])
    zeros = np.zeros(noise_needed(at), np.int64)
    assert quantiles(exact, at, total=10, shares=(0.5,), noise=zeros, whole=False)[0].value == 1.5
    assert quantiles(exact, at, total=10, shares=(0.5,), noise=zeros)[0].value == 2.0


def test_intervals_reach_as_far_on_both_sides_where_errors_are_skewed() -> None:
    at = boundaries(300)
    bent = np.rint(2_000 * (1 - np.exp(-at / 40))).astype(np.int64)  # flatter and flatter
    noise = np.random.default_rng(0).laplace(0, 150, noise_needed(at)).astype(np.int64)
    (one,) = quantiles(bent, at, total=2_000, shares=(0.9,), noise=noise, whole=False)
    assert one.high - one.value == pytest.approx(one.value - one.low)
    assert one.high - one.value > 10
