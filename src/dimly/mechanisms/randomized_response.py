"""Randomized response: every bit is flipped with a dyadic probability (the paper's Algorithm 5)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from dimly.errors import ParameterError
from dimly.privacy import Budget
from dimly.privacy.balls import ball, lower_fraction, precision, upper_fraction

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
            least = upper_fraction(_TOTAL / (1 + (ball(budget.epsilon) / bits_moved).exp()))
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
            limit = lower_fraction((ball(budget.epsilon) / bits_moved).exp())
        if Fraction(_TOTAL - self.numerator, self.numerator) > limit:
            raise ParameterError(
                f"flip probability must change odds by at most e^epsilon at epsilon {budget.epsilon!r}, "
                f"got {self.probability!r}. Use BitFlip.of."
            )
