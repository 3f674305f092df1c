"""Kernels against plain Python on what their callers never give them at once: every lane, every limit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.curator import kernels
from dimly.mechanisms.noise.tables import FLIP_BITS

LANES = 64


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_toggling_inverts_the_named_bits_and_no_others(kind: type) -> None:
    generator = np.random.default_rng(0)
    n, d = 9, 200
    chosen = generator.random((n, d)) < 0.2
    chosen[4] = False
    chosen[5] = True
    indptr = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))])
    indices: np.ndarray = np.nonzero(chosen)[1].astype(kind)
    before = generator.integers(0, 256, (n, 26), np.uint8, endpoint=False)
    after = before.copy()
    kernels.toggle_bits(after, indptr, indices)
    toggled = np.unpackbits(before ^ after, axis=1, bitorder="little")
    np.testing.assert_array_equal(toggled[:, :d], chosen)
    assert not toggled[:, d:].any()
    kernels.toggle_bits(after, indptr, indices)
    np.testing.assert_array_equal(after, before)


def lanes_of(numbers: list[int], bits: int) -> np.ndarray:
    """Return one word for each leading bit: lane l holds the bits of number l, most significant first."""
    return np.array(
        [sum(((number >> (bits - 1 - r)) & 1) << lane for lane, number in enumerate(numbers)) for r in range(bits)],
        np.uint64,
    )


@given(
    threshold=st.integers(1, 2**FLIP_BITS // 2 - 1),
    offsets=st.lists(st.integers(-3, 3), min_size=LANES, max_size=LANES),
    shifts=st.lists(st.integers(0, FLIP_BITS), min_size=LANES, max_size=LANES),
    words=st.integers(1, 3),
)
def test_a_lane_is_set_exactly_where_its_number_is_below_the_threshold(
    threshold: int, offsets: list[int], shifts: list[int], words: int
) -> None:
    """Numbers near the threshold, and such as leave it at any of their bits."""
    mask = 2**FLIP_BITS - 1
    near = [((threshold ^ ((1 << shift) >> 1)) + offset) & mask for offset, shift in zip(offsets, shifts, strict=True)]
    numbers = [near[i:] + near[:i] for i in range(words)]
    rounds = kernels.LANE_ROUNDS
    rest_bits = FLIP_BITS - rounds
    leading = np.stack([lanes_of([n >> rest_bits for n in row], rounds) for row in numbers], axis=1)
    below, equal = np.full(words, 7, np.uint64), np.full(words, 7, np.uint64)
    masks = np.array([((threshold >> (FLIP_BITS - 1 - r)) & 1) * (2**64 - 1) for r in range(rounds)], np.uint64)
    kernels.compare_lanes(np.ascontiguousarray(leading), masks, below, equal)
    own, low = [], (1 << rest_bits) - 1
    for row, word in zip(numbers, equal.tolist(), strict=True):
        for lane, number in enumerate(row):
            assert (word >> lane) & 1 == (number >> rest_bits == threshold >> rest_bits)
            if (word >> lane) & 1:
                own.append(((number & low) << (64 - rest_bits)) | 0x55)  # bits that nothing may depend on
    kernels.settle_lanes(np.array(own, np.uint64), threshold & low, rest_bits, below, equal)
    for row, word in zip(numbers, below.tolist(), strict=True):
        assert [(word >> lane) & 1 for lane in range(LANES)] == [number < threshold for number in row]


def test_words_begin_with_the_bits_drawn_at_their_places() -> None:
    """Counted among those that settle nothing: the first thousand, and what comes 60,000 later."""
    begun = np.arange(1 << 16, dtype=np.uint16)
    words = np.random.default_rng(0).integers(0, 2**64 - 1, 5, np.uint64, endpoint=True)
    places = np.array([0, 4, 999, 61_000, 65_535])
    expected = [
        (counted << 48) | (int(word) % 2**48) for counted, word in zip((0, 4, 999, 1000, 5535), words, strict=True)
    ]
    kernels.prolong(begun, 1000, 60_000, places, words)
    assert words.tolist() == expected
