"""Noise as tables of integer weights: what is sampled is exactly what was checked.

A law on paper has real-valued probabilities; a sampler draws from finitely many random bits. Dimly samples a
table of integer weights that sum to 2¹²⁸, by inverse CDF on 128 uniform bits, and proves its claims about the
table. 64-bit weights would be too coarse for a δ of 1e-15; more than 128 bits would change nothing.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

WEIGHT_BITS = 128
TOTAL = 1 << WEIGHT_BITS
MAX_WEIGHTS = 1 << 20
"""Larger tables leave the processor's caches and take seconds to prove; a plan that needs one is refused."""

_LOW = (1 << 64) - 1


@dataclass(frozen=True, eq=False, slots=True)
class Cells:
    """Cumulative weights for a sampler: cell i is drawn when cumulative[i−1] ≤ u < cumulative[i], u of 128 bits.

    Attributes
    ----------
    first : int
        The noise value of cell 0; cell i has value ``first + i``.
    high, low : ndarray of uint64
        Halves of ``cumulative[i] − 1``, the last u that belongs to cell i: the last entry is 2¹²⁸ − 1.
    """

    first: int
    high: NDArray[np.uint64]
    low: NDArray[np.uint64]

    @classmethod
    def of(cls, weights: Iterable[int], *, first: int) -> "Cells":
        """Return the cells of ``weights``, positive integers that sum to 2¹²⁸."""
        last = [total - 1 for total in accumulate(weights)]
        if last[-1] != TOTAL - 1:
            raise ArithmeticError("weights must sum to 2**128")
        high = np.fromiter((u >> 64 for u in last), np.uint64, len(last))
        low = np.fromiter((u & _LOW for u in last), np.uint64, len(last))
        return cls(first, high, low)

    def __len__(self) -> int:
        return len(self.high)


class NoiseTable(Protocol):
    """A symmetric integer noise law in the form in which it is sampled, with its exact moments."""

    @property
    def variance(self) -> float:
        """Variance v = E η² of the table."""

    @property
    def fourth_moment(self) -> float:
        """Fourth moment m₄ = E η⁴ of the table."""

    @property
    def n_weights(self) -> int:
        """Number of weights that a sampler holds."""

    def cells(self) -> Cells:
        """Cumulative weights of the table that a sampler looks into first."""


def symmetric(half: Sequence[int]) -> list[int]:
    """Return the weights of −H…H from those of 0…H."""
    return [*reversed(half[1:]), *half]


def even_moment(half: Sequence[int], order: int) -> Fraction:
    """Return Σ iᵒʳᵈᵉʳ·w over −H…H, over 2¹²⁸."""
    return Fraction(2 * sum(i**order * w for i, w in enumerate(half)), TOTAL)


def binomial_shift(moments: Sequence[Fraction], shift: int, order: int) -> Fraction:
    """Return E (shift + X)ᵒʳᵈᵉʳ from the raw moments of X."""
    return sum((math.comb(order, r) * shift ** (order - r) * moments[r] for r in range(order + 1)), start=Fraction(0))
