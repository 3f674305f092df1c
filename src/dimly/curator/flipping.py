"""Coin flips of a dyadic probability, 64 to a word."""

import numpy as np
from numpy.typing import NDArray

from dimly.curator import kernels
from dimly.curator.randomness import WordSource
from dimly.mechanisms.randomized_response import FLIP_BITS, BitFlip

# Bits that all lanes draw; few lanes need more.
_ROUNDS = 8
_PIECE = 1 << 13


def flip_lanes(flip: BitFlip, words: WordSource, out: NDArray[np.uint64]) -> None:
    """Set each bit of ``out``, which is flat, with the probability of ``flip``, exactly and independently."""
    threshold = flip.numerator
    rest_bits = FLIP_BITS - _ROUNDS
    rest = threshold & ((1 << rest_bits) - 1)
    leading = np.empty((_ROUNDS, _PIECE), np.uint64)
    equal = np.empty(_PIECE, np.uint64)
    for start in range(0, len(out), _PIECE):
        below = out[start : start + _PIECE]
        size = len(below)
        round_words = leading[:, :size] if size == _PIECE else np.empty((_ROUNDS, size), np.uint64)
        words.fill(round_words.reshape(-1))
        kernels.compare_lanes(round_words, threshold, FLIP_BITS, below, equal[:size])
        own = np.empty(int(np.bitwise_count(equal[:size]).sum()), np.uint64)
        words.fill(own)
        kernels.settle_lanes(own, rest, rest_bits, below, equal[:size])
