"""Kernels of neighbor search against NumPy."""

from typing import Any

import numpy as np
import pytest

from dimly.analyst.neighbors import kernels

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.integers(-500, 500, (70, 33)).astype(np.int16)
FIRST, SECOND = RANDOM.integers(0, 70, (2, 200))


def _sums(x: Any, y: Any) -> np.ndarray:
    x, y = np.broadcast_arrays(x.astype(np.float64), y.astype(np.float64))
    return np.stack([x.sum(1), y.sum(1), (x * x).sum(1), (y * y).sum(1), (x * y).sum(1)], axis=1)


@pytest.mark.parametrize("dtype", [np.int16, np.int32])
def test_sums_are_exact(dtype: Any) -> None:
    rows = ROWS.astype(dtype)
    out = np.empty((200, 5))
    kernels.sums_of_pairs(rows, FIRST, SECOND, out)
    np.testing.assert_array_equal(out, _sums(rows[FIRST], rows[SECOND]))
    with_one = np.empty((70, 3))
    kernels.sums_with_one(rows, rows[3].astype(np.float64), with_one)
    np.testing.assert_array_equal(with_one, _sums(rows, rows[3:4])[:, [0, 2, 4]])
    for x, y in ((rows, rows[::-1].copy()), (rows[:1], rows), (rows, rows[:1].astype(np.int64))):
        out = np.empty((70, 5))
        kernels.sums_in_step(x, y, out)
        np.testing.assert_array_equal(out, _sums(x, y))


def test_rows_at_the_limits_of_their_type_are_seen() -> None:
    rows = ROWS.copy()
    rows[4, 32], rows[9, 0] = np.iinfo(np.int16).min, np.iinfo(np.int16).max
    lost = np.empty(70, np.bool_)
    kernels.rows_at_limit(rows, np.iinfo(np.int16).min, np.iinfo(np.int16).max, lost)
    assert np.flatnonzero(lost).tolist() == [4, 9]


def test_distances_are_summed_in_doubles() -> None:
    rows = ROWS.astype(np.float32) / 7
    exact = rows.astype(np.float64)
    out = np.empty(200)
    kernels.distances_of_pairs(rows, FIRST, SECOND, out)
    np.testing.assert_allclose(out, ((exact[FIRST] - exact[SECOND]) ** 2).sum(1), rtol=1e-12)
    out = np.empty(70)
    kernels.distances_with_one(rows, rows[3], out)
    np.testing.assert_allclose(out, ((exact - exact[3]) ** 2).sum(1), rtol=1e-12)


def test_distances_beyond_a_limit_are_infinite_and_all_others_as_they_are() -> None:
    rows = ROWS.astype(np.float32) / 7
    wanted = ((rows.astype(np.float64) - rows[3]) ** 2).sum(1)
    limit, out = float(np.median(wanted)), np.empty(70)
    kernels.distances_within(rows, rows[3], limit, out)
    np.testing.assert_array_equal(np.isinf(out), wanted > limit)
    np.testing.assert_allclose(out[wanted <= limit], wanted[wanted <= limit], rtol=1e-12)
    kernels.distances_within(rows, rows[3], np.inf, out)
    np.testing.assert_allclose(out, wanted, rtol=1e-12)


def test_bits_are_counted() -> None:
    words = RANDOM.integers(0, 2**64, (20, 3), dtype=np.uint64)
    wanted = np.bitwise_count(words[:, None, :] ^ words[None, :, :]).sum(axis=2)
    tile = np.empty((20, 20), np.float32)
    kernels.differing_bits(words, words, tile)
    np.testing.assert_array_equal(tile, wanted)
    out = np.empty(20)
    kernels.differing_bits_of_pairs(words, np.arange(20), np.arange(20)[::-1].copy(), out)
    np.testing.assert_array_equal(out, wanted[np.arange(20), np.arange(20)[::-1]])


@pytest.mark.parametrize("step", [7, 70, 100, 300])
@pytest.mark.parametrize("most", [1, 5])
def test_everybody_keeps_the_nearest_whatever_the_order_of_tiles(step: int, most: int) -> None:
    n = 300
    whole = RANDOM.integers(0, 40, (n, n)).astype(np.float32)  # with many ties
    whole = np.maximum(whole, whole.T)
    keys, names = np.full((n, most), np.inf, np.float32), np.full((n, most), n)
    tiles = [(i, j) for i in range(0, n, step) for j in range(i, n, step)]
    for i, j in RANDOM.permutation(tiles):
        kernels.offer(whole[i : i + step, j : j + step].copy(), i, j, keys, names)
    np.fill_diagonal(whole, np.inf)
    wanted = np.argsort(whole, axis=1, kind="stable")[:, :most]
    np.testing.assert_array_equal(names, wanted)
    np.testing.assert_array_equal(keys, np.take_along_axis(whole, wanted, axis=1))
