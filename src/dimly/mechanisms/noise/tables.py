"""What every table of noise is: ``Cells`` of 128-bit weights, moments; and ``BitFlip`` of randomized response."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ParameterError
from dimly.privacy import Budget
from dimly.privacy.balls import ball, lower_fraction, precision, upper_fraction

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


FLIP_BITS = 53
"""Then the probability is exactly a float, and a plan's JSON says exactly what is sampled."""

_TOTAL = 1 << FLIP_BITS
_BITS = 192


@dataclass(frozen=True, slots=True)
class BitFlip:
    """Flip each bit with ``probability``, a multiple of 2⁻⁵³, exactly as it is sampled.

    Parameters
    ----------
    probability : float
        In (0, 1/2).

    Examples
    --------
    >>> round(BitFlip.of(Budget(1.0)).probability, 4)  # 1/(1+e)
    0.2689
    """

    probability: float

    def __post_init__(self) -> None:
        if not (0 < self.probability < 0.5 and float(self.probability * _TOTAL).is_integer()):
            raise ParameterError(
                f"flip probability must be a multiple of 2**-53 in (0, 1/2), got {self.probability!r}. Use BitFlip.of."
            )

    @classmethod
    def of(cls, budget: Budget, *, bits_moved: int = 1) -> Self:
        """Return the smallest flip probability with which ``bits_moved`` bits together cost ``budget.epsilon``.

        Lemma 3: p ≥ 1/(1 + e^(ε/bits)), rounded up to the next multiple of 2⁻⁵³.
        """
        with precision(_BITS):
            least = upper_fraction(_TOTAL / (1 + (ball(budget.rounded_down.epsilon) / bits_moved).exp()))
        numerator = -(-least.numerator // least.denominator)
        if numerator >= _TOTAL // 2:
            raise ParameterError(
                f"epsilon must be at least 1e-15 for randomized response, got {budget.epsilon!r}. "
                "Nothing could be told from the published bits."
            )
        return cls(numerator / _TOTAL)

    @property
    def numerator(self) -> int:
        """The flip probability in units of 2⁻⁵³."""
        return int(self.probability * _TOTAL)

    def check(self, budget: Budget, *, bits_moved: int) -> None:
        """Prove that (1−p)/p ≤ e^(ε/bits) in exact arithmetic, or refuse."""
        with precision(_BITS):
            limit = lower_fraction((ball(budget.rounded_down.epsilon) / bits_moved).exp())
        if Fraction(_TOTAL - self.numerator, self.numerator) > limit:
            raise ParameterError(
                f"flip probability must change odds by at most e^epsilon at epsilon {budget.epsilon!r}, "
                f"got {self.probability!r}. Use BitFlip.of."
            )
