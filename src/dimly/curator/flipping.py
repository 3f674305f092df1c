"""Coin flips of a dyadic probability, 64 to a word."""

import numpy as np
from numpy.typing import NDArray

from dimly.curator import kernels
from dimly.curator.randomness import WordSource
from dimly.mechanisms.randomized_response import FLIP_BITS, BitFlip

_PIECE = 1 << 13  # words at once: with the random words for them they stay in the second cache
_REST = FLIP_BITS - kernels.LANE_ROUNDS


def flip_lanes(flip: BitFlip, words: WordSource, out: NDArray[np.uint64]) -> None:
    """Set each bit of ``out``, which is flat, with the probability of ``flip``, exactly and independently.

    All lanes draw the leading bits of a uniform number; the few that are still equal to the threshold's draw the rest.
    """
    threshold = flip.numerator
    leading = [(threshold >> (FLIP_BITS - 1 - r)) & 1 for r in range(kernels.LANE_ROUNDS)]
    masks = np.array([(1 << 64) - 1 if bit else 0 for bit in leading], np.uint64)
    random = np.empty(kernels.LANE_ROUNDS * min(_PIECE, len(out)), np.uint64)
    equal = np.empty(min(_PIECE, len(out)), np.uint64)
    for start in range(0, len(out), _PIECE):
        below = out[start : start + _PIECE]
        size = len(below)
        drawn = random[: kernels.LANE_ROUNDS * size]
        words.fill(drawn)
        kernels.compare_lanes(drawn.reshape(kernels.LANE_ROUNDS, size), masks, below, equal[:size])
        own = np.empty(int(np.bitwise_count(equal[:size]).sum()), np.uint64)
        words.fill(own)
        kernels.settle_lanes(own, threshold & ((1 << _REST) - 1), _REST, below, equal[:size])
