"""Numba kernels of structure: attributes that people share, and people shuffled.

Kernels check nothing. They run on one core without holding the interpreter's lock.
"""

# mypy: disallow-untyped-decorators=False

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dimly.analyst.neighbors.kernels import population

Floats = NDArray[np.float64]
Keys = NDArray[np.float32]
Words = NDArray[np.uint64]
HalfWords = NDArray[np.uint32]

_BLOCK = 32  # attributes whose people stay in a cache while they are compared with as many others


@njit(nogil=True, cache=True)
def add_shared_bits(columns: Words, out: Floats) -> None:
    """Add how many bits each two rows share: both halves of a symmetric matrix, exact below 2⁵³."""
    n = columns.shape[0]
    for start in range(0, n, _BLOCK):
        for other in range(start, n, _BLOCK):
            for i in range(start, min(start + _BLOCK, n)):
                for j in range(max(i, other), min(other + _BLOCK, n)):
                    count = np.uint64(0)
                    for word in range(columns.shape[1]):
                        count += population(columns[i, word] & columns[j, word])
                    out[i, j] += count
                    if i != j:
                        out[j, i] += count


@njit(nogil=True, cache=True)
def shuffle_strata(rows: Keys, words: HalfWords, stratum: int) -> None:
    """Shuffle each row within strata of columns, of which the last takes the rest, by random words of 32 bits.

    After Fisher and Yates: what NumPy's ``Generator.permuted`` does for each stratum of each row, by the same words, at
    half of its time. A number up to i takes fewer than two words on average.
    """
    n_rows, n = rows.shape
    n_strata, at = max(n // stratum, 1), 0
    masks = np.zeros(2 * stratum, np.uint32)
    for last in range(1, len(masks)):
        masks[last] = last | masks[last >> 1]
    for index in range(n_strata):
        start = index * stratum
        end = n if index == n_strata - 1 else start + stratum
        for i in range(n_rows):
            row, last = rows[i, start:end], end - start - 1
            while last > 0:
                chosen: Any = np.int64(words[at] & masks[last])
                at += 1
                # A number that is too large changes nothing, and the next word is tried: no branch to be mispredicted.
                good = chosen <= last
                chosen = chosen if good else last
                row[last], row[chosen] = row[chosen], row[last]
                last -= int(good)
