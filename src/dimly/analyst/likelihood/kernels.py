"""Numba kernels of likelihood: scores of pairs against tables, climbing to the most likely.

Kernels check nothing; the search does. Points are rates: numbers of attributes that only the
first has, that only the second has, and that both have, over k.
"""

# mypy: disallow-untyped-decorators=False

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimly.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]

_LEAST = -1e-12  # what rounding makes of zero, relative to the rates


@compiled
def largest_of(rows: Integers, out: NDArray[np.int64]) -> None:
    """Write the largest of v and −1 − v over each row."""
    for i in range(rows.shape[0]):
        row = rows[i]
        most = np.int64(0)
        for j in range(rows.shape[1]):
            value = np.int64(row[j])
            most = max(most, value, -1 - value)
        out[i] = most


@compiled
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


@compiled
def _highest(  # noqa: C901 - one loop over what may be zero
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
    limit = _LEAST * (1 + distance + total)
    for zeros in range(8):
        if np.isnan(maps[zeros, 0, 0]):  # these cannot all be zero
            continue
        least = np.inf
        for r in range(3):
            point[r] = maps[zeros, r, 3] * distance + maps[zeros, r, 4] * total
            for c in range(3):
                point[r] += maps[zeros, r, c] * pull[c]
            least = min(least, point[r])
        if least < limit:
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


@compiled
def _pull(node: Floats, information: Floats, scores: Floats, out: Floats) -> None:
    for r in range(3):
        out[r] = scores[1 + r]
        for c in range(3):
            out[r] += information[r, c] * node[c]


@compiled
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


@compiled
def walk(
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
    distances: Floats,
    nexts: Floats,
    last: float,
    points: Floats,
    ahead: Floats,
    gaps: Floats,
) -> None:
    """Write which rates of each of ``pairs`` are most likely at a distance, and how far from the top that is.

    A gap is the root of twice the loss of log-likelihood, the other rates being free, in standard errors of variance
    ``spreads``, where the parabola is of variance ``variances``. ``ahead`` gets the most likely rates at the next
    distance, as far as this node can tell, unless the gap exceeds the ``last`` of interest.
    """
    pull, point = np.empty(3), np.empty(3)
    for n in range(pairs.shape[0]):
        i, t = pairs[n], slots[n]
        _pull(nodes[t], information[t], scores[i], pull)
        height = _highest(maps[t], nodes[t], information[t], scores[i], distances[n], total, pull, point, points[i])
        loss = heights[i] - height
        # Where rounding leaves no rates that are possible, nothing is excluded.
        gaps[i] = np.sqrt(2 * loss * variances[t] / spreads[t]) if 0 < loss < np.inf else 0.0
        if gaps[i] <= last and nexts[n] != distances[n]:
            _highest(maps[t], nodes[t], information[t], scores[i], nexts[n], total, pull, point, ahead[i])
