"""Numba kernels of likelihood estimates: score pairs against tables, and climb what the scores tell.

Kernels check nothing; :mod:`dimly.analyst.likelihood` does. Points are rates: numbers of attributes that only the
first has, that only the second has, and that both have, over k.
"""

# mypy: disallow-untyped-decorators=False
# ruff: noqa: PLR0917

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]

_LEAST = -1e-12  # what rounding makes of zero
_STEPS = 12
_DOUBLINGS = 8


@njit(nogil=True, cache=True)
def largest_of(rows: Integers, out: NDArray[np.int64]) -> None:
    """Write the largest of v and −1 − v over each row."""
    for i in range(rows.shape[0]):
        row = rows[i]
        most = np.int64(0)
        for j in range(rows.shape[1]):
            value = np.int64(row[j])
            most = max(most, value, -1 - value)
        out[i] = most


@njit(nogil=True, cache=True)
def score(
    x: Integers,
    y: Integers,
    pairs: NDArray[np.int64],
    slots: NDArray[np.int64],
    tables: NDArray[np.float32],
    bits: int,
    out: Floats,
) -> None:
    """Write the log-likelihood and its three derivatives, at the node of each of ``pairs``.

    A table has 4 numbers for each of 2^bits × 2^bits cells, a pair of published numbers each. Cells first, then two at
    a time, in single precision for 64 of them: 0.33 µs a pair at k = 256 against 0.53 in one plain loop.
    """
    half = np.int32(1) << (bits - 1)
    k = x.shape[1]
    cells = np.empty(k, np.int32)
    for n in range(pairs.shape[0]):
        i = pairs[n]
        a = x[i]
        b = y[i if y.shape[0] > 1 else 0]
        table = tables[slots[n]]
        for j in range(k):
            cells[j] = ((np.int32(a[j]) + half) << bits) + np.int32(b[j]) + half
        out[i, :] = 0.0
        for start in range(0, k, 64):
            stop = min(k, start + 64)
            s0 = s1 = s2 = s3 = np.float32(0.0)
            t0 = t1 = t2 = t3 = np.float32(0.0)
            for j in range(start, stop - 1, 2):
                c, d = np.uint64(cells[j]), np.uint64(cells[j + 1])
                s0 += table[c, 0]
                s1 += table[c, 1]
                s2 += table[c, 2]
                s3 += table[c, 3]
                t0 += table[d, 0]
                t1 += table[d, 1]
                t2 += table[d, 2]
                t3 += table[d, 3]
            if (stop - start) % 2:
                c = np.uint64(cells[stop - 1])
                s0 += table[c, 0]
                s1 += table[c, 1]
                s2 += table[c, 2]
                s3 += table[c, 3]
            out[i, 0] += s0 + t0
            out[i, 1] += s1 + t1
            out[i, 2] += s2 + t2
            out[i, 3] += s3 + t3


@njit(nogil=True, cache=True)
def _highest(
    maps: Floats,
    node: Floats,
    information: Floats,
    scores: Floats,
    distance: float,
    total: float,
    pull: Floats,
    point: Floats,
    out: Floats,
) -> float:
    """Write the highest possible point of the parabola at a node, and return its height.

    ``maps`` has one linear map for each set of rates that may be zero: to the highest point where these are zero, from
    (pull, distance, total), where ``pull`` is scores + information·node. Where none needs to be zero that is the point.
    ``point`` is room for three numbers.
    """
    best = -np.inf
    for zeros in range(8):
        least = np.inf
        for r in range(3):
            point[r] = maps[zeros, r, 3] * distance + maps[zeros, r, 4] * total
            for c in range(3):
                point[r] += maps[zeros, r, c] * pull[c]
            least = min(least, point[r])
        if not least >= _LEAST:  # NaN: these cannot all be zero
            continue
        height = scores[0]
        for r in range(3):
            step = point[r] - node[r]
            height += scores[1 + r] * step
            for c in range(3):
                height -= information[r, c] * step * (point[c] - node[c]) / 2
        if height > best:
            best = height
            for r in range(3):
                out[r] = max(point[r], 0.0)
        if zeros == 0:
            break
    return best


@njit(nogil=True, cache=True)
def _pull(node: Floats, information: Floats, scores: Floats, out: Floats) -> None:
    for r in range(3):
        out[r] = scores[1 + r]
        for c in range(3):
            out[r] += information[r, c] * node[c]


@njit(nogil=True, cache=True)
def climb(
    pairs: NDArray[np.int64],
    slots: NDArray[np.int64],
    nodes: Floats,
    information: Floats,
    maps: Floats,
    scores: Floats,
    distance: float,
    total: float,
    points: Floats,
    heights: Floats,
) -> None:
    """Write where the likelihood of each of ``pairs`` is highest, seen from its node, and how high.

    At that distance, if the maps ask for one.
    """
    pull, point = np.empty(3), np.empty(3)
    for n in range(pairs.shape[0]):
        i, t = pairs[n], slots[n]
        _pull(nodes[t], information[t], scores[i], pull)
        heights[i] = _highest(maps[t], nodes[t], information[t], scores[i], distance, total, pull, point, points[i])


@njit(nogil=True, cache=True)
def descend(
    pairs: NDArray[np.int64],
    slots: NDArray[np.int64],
    nodes: Floats,
    information: Floats,
    maps: Floats,
    variances: Floats,
    spreads: Floats,
    scores: Floats,
    total: float,
    heights: Floats,
    middles: Floats,
    cut: float,
    cuts_at_zero: Floats,
    sign: int,
    most: float,
    points: Floats,
    ends: Floats,
) -> None:
    """Write the end of each interval below (sign = −1) or above the estimate, seen from a node.

    There twice the loss of log-likelihood, the other rates being free, is the squared cut. The cut is in standard
    errors of variance ``spreads``; the parabola is of variance ``variances``.
    """
    pull, point = np.empty(3), np.empty(3)
    for n in range(pairs.shape[0]):
        i, t = pairs[n], slots[n]
        _pull(nodes[t], information[t], scores[i], pull)
        deviation = np.sqrt(spreads[t])
        reach = cut * deviation / np.sqrt(variances[t])
        # Between near, which is inside the interval, and far, which is not. Gap: what a loss's root exceeds reach by.
        near, near_gap = middles[i], -reach
        far, far_gap = near, near_gap
        step = 2.0 * deviation
        for _ in range(_DOUBLINGS):
            far = 0.0 if sign < 0 else min(middles[i] + step, most)
            loss = heights[i] - _highest(
                maps[t], nodes[t], information[t], scores[i], far, total, pull, point, points[i]
            )
            far_gap = np.sqrt(max(2 * loss, 0.0)) - reach
            if sign < 0 or far_gap > 0 or far >= most:
                break
            near, near_gap = far, far_gap
            step *= 2
        if sign < 0 and far_gap <= reach * (cuts_at_zero[n] / cut - 1):
            far_gap = 0.0  # zero itself is not excluded
        end = far
        if far_gap > 0:
            for _ in range(_STEPS):
                end = (near * far_gap - far * near_gap) / (far_gap - near_gap)
                loss = heights[i] - _highest(
                    maps[t], nodes[t], information[t], scores[i], end, total, pull, point, points[i]
                )
                gap = np.sqrt(max(2 * loss, 0.0)) - reach
                if abs(gap) < 0.01 * reach:
                    break
                # Regula falsi after Anderson and Björck: the end that stays counts less.
                if gap > 0:
                    shrink = 1 - gap / far_gap
                    near_gap *= shrink if shrink > 0 else 0.5
                    far, far_gap = end, gap
                else:
                    shrink = 1 - gap / near_gap
                    far_gap *= shrink if shrink > 0 else 0.5
                    near, near_gap = end, gap
        ends[i] = end
