"""SipHash-2-4 as Numba kernels: of texts, of integers as decimal text, and in counter mode.

A keyed hash of short text that is well understood, fast on processors without any special instruction, and the same on
all of them: additions, rotations and exclusive ors of 64-bit integers. One core hashes some 50 million short texts a
second. Kernels check nothing; :mod:`dimly.mechanisms.projection.streams` does.

**What may never change**: what these functions return. Rows of P follow from it, and published sketches from those.

References
----------
Aumasson and Bernstein, "SipHash: a fast short-input PRF" (INDOCRYPT 2012), whose test vectors the tests check.
"""

import numpy as np
from numpy.typing import NDArray

from dimly.compiled import compiled

Hashes = NDArray[np.uint64]
State = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


@compiled
def _rotated(x: np.uint64, by: int) -> np.uint64:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


@compiled
def _round(state: State) -> State:
    a, b, c, d = state
    a, c = a + b, c + d
    b, d = _rotated(b, 13) ^ a, _rotated(d, 16) ^ c
    a = _rotated(a, 32)
    a, c = a + d, c + b
    d, b = _rotated(d, 21) ^ a, _rotated(b, 17) ^ c
    return a, b, _rotated(c, 32), d


@compiled
def _begun(key: Hashes, at: int) -> State:
    """Return the state before any text, by the key at ``key[at]`` and ``key[at + 1]``."""
    low, high = key[at], key[at + 1]
    return (
        low ^ np.uint64(0x736F6D6570736575),
        high ^ np.uint64(0x646F72616E646F6D),
        low ^ np.uint64(0x6C7967656E657261),
        high ^ np.uint64(0x7465646279746573),
    )


@compiled
def _absorbed(state: State, block: np.uint64) -> State:
    a, b, c, d = state
    a, b, c, d = _round(_round((a, b, c, d ^ block)))
    return a ^ block, b, c, d


@compiled
def _finished(state: State) -> np.uint64:
    a, b, c, d = state
    a, b, c, d = _round(_round(_round(_round((a, b, c ^ np.uint64(0xFF), d)))))
    mixed: np.uint64 = a ^ b ^ c ^ d
    return mixed


@compiled
def _block(data: NDArray[np.uint8], at: np.uint64) -> np.uint64:
    """Return eight bytes as a little-endian integer; compilers make one load of it."""
    block = np.uint64(0)
    for byte in range(8):
        block |= np.uint64(data[at + np.uint64(byte)]) << np.uint64(8 * byte)
    return block


@compiled
def _text_hash(data: NDArray[np.uint8], start: np.uint64, stop: np.uint64, begun: State) -> np.uint64:
    eight = np.uint64(8)
    state, at = begun, start
    while at + eight <= stop:
        state = _absorbed(state, _block(data, at))
        at += eight
    rest = stop - at
    last = np.uint64(0)
    if at + eight <= np.uint64(data.size):  # all but the last texts: one load and a mask, and no branch by their length
        last = _block(data, at) & ((np.uint64(1) << (eight * rest)) - np.uint64(1))
    else:
        for byte in range(rest):
            last |= np.uint64(data[at + byte]) << (eight * byte)
    mixed: np.uint64 = _finished(_absorbed(state, last | ((stop - start) << np.uint64(56))))
    return mixed


@compiled
def _column(word: np.uint64, width: np.uint64) -> np.uint64:
    """Return (word · width) >> 64, by the product of 64 and 32 bits in two halves that cannot overflow."""
    half, low_half = np.uint64(32), np.uint64(0xFFFFFFFF)
    return ((word >> half) * width + (((word & low_half) * width) >> half)) >> half


@compiled
def hash_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8], key: Hashes, out: Hashes) -> None:
    """Write the hash of each text: of the bytes ``data[offsets[i]:offsets[i + 1]]``, by ``key[:2]``."""
    begun = _begun(key, 0)
    for i in range(out.size):
        out[i] = _text_hash(data, np.uint64(offsets[i]), np.uint64(offsets[i + 1]), begun)


@compiled
def hash_numbers(numbers: NDArray[np.int64], key: Hashes, out: Hashes) -> None:
    """Write the hash of each integer's decimal text: at most twenty bytes, which stay in three registers."""
    begun = _begun(key, 0)
    eight, top, ten = np.uint64(8), np.uint64(56), np.uint64(10)
    for i in range(out.size):
        number = numbers[i]
        negative = number < 0
        left = np.uint64(number)
        if negative:
            left = ~left + np.uint64(1)
        first, second, third = np.uint64(0), np.uint64(0), np.uint64(0)
        length = np.uint64(0)
        while True:  # digits from the last to the first, which ends up in the lowest byte
            digit = np.uint64(48) + left % ten
            left //= ten
            third = (third << eight) | (second >> top)
            second = (second << eight) | (first >> top)
            first = (first << eight) | digit
            length += np.uint64(1)
            if left == np.uint64(0):
                break
        if negative:
            third = (third << eight) | (second >> top)
            second = (second << eight) | (first >> top)
            first = (first << eight) | np.uint64(45)
            length += np.uint64(1)
        state = begun
        if length >= eight:
            state = _absorbed(state, first)
            first = second
            if length >= np.uint64(16):
                state = _absorbed(state, second)
                first = third
        out[i] = _finished(_absorbed(state, first | (length << top)))


@compiled
def count_on(hashes: Hashes, key: Hashes, out: Hashes) -> None:
    """Write the words of each stream: the hash, then those of u64(hash) ‖ u64(1), u64(hash) ‖ u64(2), … by ``key[2:]``.

    ``out`` has a row of words for each hash.
    """
    begun = _begun(key, 2)
    length = np.uint64(16) << np.uint64(56)
    for i in range(hashes.size):
        out[i, 0] = hashes[i]
        state = _absorbed(begun, hashes[i])
        for number in range(1, out.shape[1]):
            out[i, number] = _finished(_absorbed(_absorbed(state, np.uint64(number)), length))


@compiled
def place_words(
    words: Hashes, width: int, stride: int, signed: bool, columns: NDArray[np.int32], signs: NDArray[np.int8]
) -> None:
    """Decode words, one attribute a row: columns (u64 · width) >> 64, ``stride`` more for each block; signs: bit 0."""
    d, s = columns.shape
    for j in range(d):
        for t in range(s):
            columns[j, t] = np.int64(_column(words[j, t], np.uint64(width))) + stride * t
            signs[j, t] = np.int8(1) - np.int8(2) * np.int8(words[j, t] & np.uint64(1)) if signed else np.int8(1)


@compiled
def add_texts(
    data: NDArray[np.uint8],
    key: Hashes,
    blocks: int,
    width: int,
    stride: int,
    signed: bool,
    out: NDArray[np.int64],
) -> None:
    """Add the hashed rows of texts, each of which ends with a zero byte, to one sketch: all of the above in one call.

    For one person at a time: each call from Python costs as much as hashing a hundred texts, and so does telling how
    long a hundred are.
    """
    begun, counting = _begun(key, 0), _begun(key, 2)
    start = np.uint64(0)
    while start < np.uint64(data.size):
        stop = start
        while data[stop] != 0:
            stop += np.uint64(1)
        first = _text_hash(data, start, stop, begun)
        start = stop + np.uint64(1)
        word = first
        for t in range(blocks):
            if t:
                counted = _absorbed(_absorbed(counting, first), np.uint64(t))
                word = _finished(_absorbed(counted, np.uint64(16) << np.uint64(56)))
            sign = np.int64(1) - np.int64(2) * np.int64(word & np.uint64(1)) if signed else np.int64(1)
            out[_column(word, np.uint64(width)) + np.uint64(stride * t)] += sign
