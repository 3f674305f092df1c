"""Numba kernels of exact sketches: people's attributes times rows of P, in integers.

People come as compressed sparse rows: person i has the attributes ``indices[indptr[i]:indptr[i+1]]``.
Kernels check nothing; :mod:`dimly.mechanisms.projection.rows` does. They run on one core without holding the
interpreter's lock, so that callers can use a pool of threads.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimly.compiled import compiled

Integers = NDArray[np.integer[Any]]
Unsigned = NDArray[np.unsignedinteger[Any]]


# `values is None` and `signs is None` are decided when Numba compiles for the types at hand, so each of
# these functions stands for its variants with and without them; neither is tested inside a loop.
#
# Places are looked up by unsigned numbers: a signed one might be negative, which Numba must take for a place counted
# from the end. 100 attributes to a person, d = 10,000, k = 64: 0.08 µs against 0.23 for one entry each, 0.77 against
# 1.06 for eight. Columns in 16 bits, where they fit, take off another tenth, and a fifth at d = 1,000,000.


@compiled
def project_single(
    columns: Unsigned,
    signs: Integers | None,
    indptr: Integers,
    indices: Integers,
    values: Integers | None,
    out: NDArray[np.int64],
) -> None:
    """Add one entry for each attribute: ``counting`` (signs None) and ``hashing``.

    Apart from :func:`project_blocks` because the loop over one block costs as much as the addition.
    """
    for i in range(out.shape[0]):
        row = out[i]
        row[:] = 0
        for position in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            j = np.uint64(indices[position])
            entry = np.int64(1)
            if signs is not None:
                entry = np.int64(signs[j])
            if values is not None:
                entry = entry * values[position]
            row[columns[j]] += entry


@compiled
def project_blocks(
    columns: Unsigned,
    signs: Integers,
    indptr: Integers,
    indices: Integers,
    values: Integers | None,
    out: NDArray[np.int64],
) -> None:
    """Add s entries of ±1 for each attribute: ``sparse`` and ``dasgupta``. Collisions add up."""
    s = columns.shape[1]
    for i in range(out.shape[0]):
        row = out[i]
        row[:] = 0
        for position in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            j = np.uint64(indices[position])
            places, plus_or_minus = columns[j], signs[j]
            for t in range(s):
                entry = np.int64(plus_or_minus[t])
                if values is not None:
                    entry = entry * values[position]
                row[places[t]] += entry


@compiled
def project_narrow(
    matrix: Integers,
    indptr: Integers,
    indices: Integers,
    values: Integers | None,
    out: NDArray[np.int64],
) -> None:
    """Add k entries for each attribute, where k is small: a few directions.

    Two columns at a time, whose sums stay in registers: 100 attributes of 5,000, 0.06 µs a person at k = 2 and 0.24 at
    k = 8, against 0.25 and 0.35 of :func:`project_dense`, which is faster from k = 12 on.
    """
    k = matrix.shape[1]
    for i in range(out.shape[0]):
        for column in range(0, k, 2):
            first, second = np.uint64(column), np.uint64(min(column + 1, k - 1))  # of an odd number, the last one twice
            one, other = np.int64(0), np.int64(0)
            for position in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                row = matrix[np.uint64(indices[position])]
                if values is None:
                    one += row[first]
                    other += row[second]
                else:
                    one += row[first] * values[position]
                    other += row[second] * values[position]
            out[i, second] = other
            out[i, first] = one


@compiled
def project_dense(
    matrix: Integers,
    indptr: Integers,
    indices: Integers,
    values: Integers | None,
    scratch: Integers,
    out: NDArray[np.int64],
) -> None:
    """Add k entries for each attribute: ``sign``, ``ternary``, ``gaussian``.

    ``scratch`` has length k; its type must hold every partial sum, and should be no wider: one
    instruction adds four times as many 16-bit numbers as 64-bit ones. Signs, k = 256, 100 attributes each of
    20,000: 39 ms with int16 against 101 ms with int64.
    """
    k = matrix.shape[1]
    for i in range(out.shape[0]):
        scratch[:] = 0
        position, stop = indptr[i], indptr[i + 1]
        if values is None:
            # Four rows at a time: their sum stays in registers, and scratch is loaded and stored a quarter as
            # often. In the case above 30 ms against 39 ms.
            while position + 4 <= stop:
                first, second = matrix[indices[position]], matrix[indices[position + 1]]
                third, fourth = matrix[indices[position + 2]], matrix[indices[position + 3]]
                for column in range(k):
                    scratch[column] += first[column] + second[column] + third[column] + fourth[column]
                position += 4
        while position < stop:
            source = matrix[indices[position]]
            factor = np.int64(1)
            if values is not None:
                factor = values[position]
            for column in range(k):
                scratch[column] += factor * source[column]
            position += 1
        for column in range(k):
            out[i, column] = scratch[column]


@compiled
def hashed_entries(
    streams: NDArray[np.uint8],
    width: int,
    stride: int,
    signed: bool,
    columns: NDArray[np.int32],
    signs: NDArray[np.int8],
) -> None:
    """Decode streams, one attribute a row: columns (u64 · width) >> 64, plus ``stride`` for each block, then signs.

    The product of 64 and 32 bits in two halves that cannot overflow. One pass instead of a dozen over small arrays: of
    twenty attributes, as one person may have, in 4 microseconds instead of 16.
    """
    half, low_half, factor = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(width)
    d, s = columns.shape
    for j in range(d):
        for t in range(s):
            word = np.uint64(0)
            for byte in range(8):
                word |= np.uint64(streams[j, 8 * t + byte]) << np.uint64(8 * byte)
            scaled = ((word >> half) * factor + (((word & low_half) * factor) >> half)) >> half
            columns[j, t] = np.int64(scaled) + stride * t
            signs[j, t] = 1
            if signed and (streams[j, 8 * s + (t >> 3)] >> np.uint8(t & 7)) & np.uint8(1):
                signs[j, t] = -1


@compiled
def hashed_norms(
    columns: Integers,
    signs: Integers,
    scratch: NDArray[np.int64],
    l1: NDArray[np.int64],
    l2_squared: NDArray[np.int64],
) -> None:
    """Write the norms of hashed rows, with entries that collide added up first.

    ``scratch`` has length k and is all zeros, before and after.
    """
    d, s = columns.shape
    for j in range(d):
        for t in range(s):
            scratch[columns[j, t]] += signs[j, t]
        total = np.int64(0)
        squares = np.int64(0)
        for t in range(s):
            entry = scratch[columns[j, t]]
            total += abs(entry)
            squares += entry * entry
            scratch[columns[j, t]] = 0  # a second visit of this column counts nothing
        l1[j] = total
        l2_squared[j] = squares
