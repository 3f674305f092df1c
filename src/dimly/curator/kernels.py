"""The inner loops of perturbing. Numba kernels on one core, without the interpreter's lock; they check nothing.

No branch depends on private data: which way a loop goes is decided by random words and by the plan alone.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

UNSETTLED = np.iinfo(np.int16).min
"""In a guide: the first sixteen bits do not settle which cell it is."""


@njit(nogil=True, cache=True)
def add_guided(
    sketch: NDArray[np.int64],
    words: NDArray[np.uint16],
    guide: NDArray[np.int16],
    smallest: int,
    largest: int,
    out: NDArray[np.signedinteger],
    unsettled: NDArray[np.int64],
) -> int:
    """Add the noise that sixteen bits settle, saturate, and list what they do not settle.

    A guide of 2¹⁶ entries replaces the search: all but some 1/1000 of the samples of a typical table are settled by
    one look-up. The list is written without a branch, because a mispredicted one would cost more than the look-up.
    """
    count = 0
    for i in range(sketch.size):
        noise = guide[words[i]]
        unsettled[count] = i
        count += noise == UNSETTLED
        value = sketch[i] + noise
        out[i] = min(max(value, smallest), largest)
    return count


@njit(nogil=True, cache=True)
def find_cells(
    high_words: NDArray[np.uint64],
    low_words: NDArray[np.uint64],
    cell_high: NDArray[np.uint64],
    cell_low: NDArray[np.uint64],
    begin: NDArray[np.int64],
    cells: NDArray[np.int64],
) -> None:
    """Find the cell of each 128-bit number: the first whose last number is not below it.

    ``begin`` holds, for each first sixteen bits, the cell of their smallest number, and one more entry at the end.
    """
    for i in range(high_words.size):
        high, low = high_words[i], low_words[i]
        prefix = np.int64(high >> np.uint64(48))
        left, right = begin[prefix], begin[prefix + 1]
        while left < right:
            middle = (left + right) >> 1
            if cell_high[middle] < high or (cell_high[middle] == high and cell_low[middle] < low):
                left = middle + 1
            else:
                right = middle
        cells[i] = left


@njit(nogil=True, cache=True)
def add_saturating(
    sketch: NDArray[np.int64],
    places: NDArray[np.int64],
    noise: NDArray[np.int64],
    smallest: int,
    largest: int,
    out: NDArray[np.signedinteger],
) -> None:
    """Write sketch plus noise at some places, saturated."""
    for j in range(places.size):
        i = places[j]
        out[i] = min(max(sketch[i] + noise[j], smallest), largest)


@njit(nogil=True, cache=True)
def flip_words(out: NDArray[np.uint64], start: int, words: NDArray[np.uint64], threshold: int, bits: int) -> int:
    """Write 64 coin flips of probability threshold/2^bits into each word of ``out``, from ``start`` on.

    All 64 lanes of a word compare their own uniform number with the threshold at once, most significant bit first, and
    stop when every lane is settled: 7.3 random words for 64 flips on average instead of ``bits``. Returns where it
    stopped because the random words might not suffice for one more.
    """
    at = 0
    for i in range(start, out.size):
        if at + bits > words.size:
            return i
        settled_below = np.uint64(0)
        equal = ~np.uint64(0)
        bit = bits - 1
        while bit >= 0 and equal != np.uint64(0):
            word = words[at]
            at += 1
            if (threshold >> bit) & 1:
                settled_below |= equal & ~word
                equal &= word
            else:
                equal &= ~word
            bit -= 1
        out[i] = settled_below
    return out.size


@njit(nogil=True, cache=True)
def toggle_bits(bits: NDArray[np.uint64], indptr: NDArray[np.int64], indices: NDArray[np.integer]) -> None:
    """Invert the bits of each row that ``indices`` name."""
    for row in range(indptr.size - 1):
        for j in range(indptr[row], indptr[row + 1]):
            bits[row, indices[j] >> 6] ^= np.uint64(1) << np.uint64(indices[j] & 63)
