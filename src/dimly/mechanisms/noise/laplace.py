"""Discrete Laplace noise (two-sided geometric) as a table, proven to cost at most its rate per unit step.

P(i) = (1−q)/(1+q)·q^|i| with q = e^(−rate). Moving one coordinate by one step changes the probability of any
output by a factor of at most e^rate, so moving all coordinates together by Δ₁ steps costs Δ₁·rate = ε, and δ = 0.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from math import exp, expm1, floor, log
from typing import Self

from dimly.errors import ParameterError
from dimly.mechanisms.noise.tables import (
    MAX_WEIGHTS,
    TOTAL,
    Cells,
    binomial_shift,
    even_moment,
    symmetric,
)
from dimly.privacy import Budget
from dimly.privacy.balls import ball, float_above, lower_fraction, precision, upper_fraction

_BITS = 256
# The head ends where about 2⁻⁴⁰ of the mass is left, still some 2⁸⁸ units: rounding half a million weights of
# the widest table up takes at most 2³³ of them, far less than the slack below leaves.
_HEAD_BITS = 40
# Above this rate a second cell would leave so few units to the tail that rounding the first one, by up to two of
# them, would be more than the slack allows.
_LONE_CELL = 24
# q is rounded up by this much, which gives the seams their room and widens no table's noise by more than 1e-10.
_SLACK = Fraction(1, 1 << 50)
# Reached once in 2⁴⁰ samples, and repeated: its length matters to nobody.
_TAIL_CELLS = 1024


@dataclass(frozen=True)
class DiscreteLaplace:
    """A two-sided head and a one-sided geometric tail, repeated, with the proof in the constructor.

    The value is ±i with weight ``head[i]``; with weight ``overflow`` on each side it is ±(H + j), j drawn
    from ``tail`` (j = 1…T) or, with weight ``tail_overflow``, T plus another draw from the tail. The tail is
    one-sided: recursing on the two-sided table would cost rate + ln(1+q) at the seam.

    Parameters
    ----------
    rate : Fraction
        Claimed cost of one unit step.
    head, tail : tuple of int
        Weights of 0…H and of 1…T.
    overflow, tail_overflow : int
        What is left for the tail.

    Raises
    ------
    ParameterError
        If the weights do not sum to 2¹²⁸, or any two neighboring values, seams included, differ by more than
        e^rate in exact arithmetic. So a table that fails its check cannot be made.

    Examples
    --------
    >>> noise = DiscreteLaplace.of(Budget(1.0), l1_sensitivity=1)
    >>> round(noise.variance**0.5, 2), noise.n_weights
    (1.36, 85)
    """

    rate: Fraction
    head: tuple[int, ...]
    overflow: int
    tail: tuple[int, ...]
    tail_overflow: int

    def __post_init__(self) -> None:
        if not self.head or not self.tail or min(*self.head, *self.tail, self.overflow, self.tail_overflow) < 1:
            raise ParameterError("weights must be integers >= 1: a value without weight would be an open secret.")
        if 2 * (sum(self.head) + self.overflow) - self.head[0] != TOTAL:
            raise ParameterError("head and overflow must sum to 2**128 over both sides.")
        if sum(self.tail) + self.tail_overflow != TOTAL:
            raise ParameterError("tail and tail_overflow must sum to 2**128.")
        with precision(_BITS):
            limit = lower_fraction(ball(self.rate).exp())
        if self._worst_ratio > limit:
            raise ParameterError(
                f"weights must not differ by more than e^rate between neighbors, but cost {self.realized_rate:.6g} "
                f"at rate {float(self.rate):.6g}. Build the table with DiscreteLaplace.of."
            )

    @classmethod
    def of(cls, budget: Budget, *, l1_sensitivity: int) -> Self:
        """Return the noise that makes moves of at most ``l1_sensitivity`` unit steps cost ``budget.epsilon``.

        Raises
        ------
        ParameterError
            If the table would need more than 2²⁰ weights, or ε is so large that there would be no noise.
        """
        given: object = l1_sensitivity
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise ParameterError(f"l1_sensitivity must be an integer >= 1, got {l1_sensitivity!r}.")
        return cls._build(Fraction(budget.rounded_down.epsilon) / l1_sensitivity)

    @staticmethod
    def largest_sensitivity(budget: Budget) -> int:
        """Return the largest ``l1_sensitivity`` whose table is not too large; 0 if there is none."""
        cells = (MAX_WEIGHTS - 4 - _TAIL_CELLS) // 2
        return floor(cells * budget.rounded_down.epsilon / (_HEAD_BITS * log(2)))

    @classmethod
    @lru_cache(maxsize=32)
    def _build(cls, rate: Fraction) -> Self:
        if rate > 40:
            raise ParameterError(
                f"epsilon per unit step must be at most 40, got {float(rate):.4g}: next to no noise would be added. "
                "Use a smaller epsilon."
            )
        # The smallest rates are below what a double can hold, and far below what a table can.
        cells = floor(_HEAD_BITS * log(2) / float(max(rate, Fraction(1, MAX_WEIGHTS))))
        if rate > _LONE_CELL:
            cells = 0
        tail_cells = max(1, min(cells, _TAIL_CELLS))
        needed = 2 * cells + 3 + tail_cells + 1
        if needed > MAX_WEIGHTS:
            at_least = "at least " if rate < Fraction(1, MAX_WEIGHTS) else ""
            raise ParameterError(
                f"the noise table must have at most {MAX_WEIGHTS} weights, but needs {at_least}{needed}. "
                "Use a larger epsilon, a smaller k or resolution, a sparser family, or directions of a smaller scale."
            )
        with precision(_BITS):
            q = upper_fraction((-ball(rate)).exp()) * (1 + _SLACK)
        # Even, because everything else comes twice and 2¹²⁸ is even.
        head = [floor(TOTAL * (1 - q) / (1 + q)) & ~1]
        # Rounding up never lets two neighbors differ by more than 1/q.
        for _ in range(cells):
            head.append(_ceil_product(head[-1], q))
        overflow = (TOTAL - head[0]) // 2 - sum(head[1:])
        tail = [floor(TOTAL * (1 - q))]
        for _ in range(tail_cells - 1):
            tail.append(_ceil_product(tail[-1], q))
        return cls(rate, tuple(head), overflow, tuple(tail), TOTAL - sum(tail))

    @property
    def realized_rate(self) -> float:
        """What one unit step costs at worst in the table as it is, rounded up."""
        with precision(_BITS):
            return float_above(ball(self._worst_ratio).log())

    @cached_property
    def _worst_ratio(self) -> Fraction:
        # Probabilities of −(H+2T)…(H+2T) up to a common factor, both seams among them. Beyond that the tail repeats.
        first_tail = [
            Fraction(self.overflow * self.tail[0], TOTAL),
            Fraction(self.overflow * self.tail[-1], TOTAL),
        ]
        second_tail = Fraction(self.overflow * self.tail_overflow * self.tail[0], TOTAL**2)
        seams = [(Fraction(self.head[-1]), first_tail[0]), (first_tail[1], second_tail)]
        worst = max(max(a / b, b / a) for a, b in seams)
        for cells in (self.head, self.tail):
            largest, smallest = 1, 1
            for a, b in pairwise(cells):
                high, low = (a, b) if a > b else (b, a)
                if high * smallest > largest * low:
                    largest, smallest = high, low
            worst = max(worst, Fraction(largest, smallest))
        return worst

    @cached_property
    def variance(self) -> float:
        """Variance v = E η² of the table, tails included."""
        return float(self._moment(2))

    @cached_property
    def fourth_moment(self) -> float:
        """Fourth moment m₄ = E η⁴ of the table, tails included."""
        return float(self._moment(4))

    @property
    def n_weights(self) -> int:
        """Number of weights that a sampler holds: both sides of the head, and the tail once."""
        return 2 * len(self.head) - 1 + 2 + len(self.tail) + 1

    def cells(self) -> Cells:
        """Return cumulative weights of the head; its first and last cell stand for the two tails."""
        reach = len(self.head)
        return Cells.of([self.overflow, *symmetric(self.head), self.overflow], first=-reach)

    def tail_cells(self) -> Cells:
        """Return cumulative weights of the tail, of value 1…T; the last cell, T + 1, stands for another draw."""
        return Cells.of([*self.tail, self.tail_overflow], first=1)

    def _moment(self, order: int) -> Fraction:
        reach = len(self.head) - 1
        beyond = binomial_shift(self._tail_moments(order), reach, order)
        return even_moment(self.head, order) + Fraction(2 * self.overflow, TOTAL) * beyond

    def _tail_moments(self, order: int) -> list[Fraction]:
        """Raw moments of X = j with weight tail[j−1], else T + X: linear in the unknown, as X appears on both sides."""
        again = Fraction(self.tail_overflow, TOTAL)
        moments = [Fraction(1)]
        for p in range(1, order + 1):
            once = Fraction(sum(j**p * w for j, w in enumerate(self.tail, start=1)), TOTAL)
            lower = binomial_shift([*moments, Fraction(0)], len(self.tail), p)
            moments.append((once + again * lower) / (1 - again))
        return moments


def laplace_moments(rate: float) -> tuple[float, float]:
    """Return variance and fourth moment of the law on paper, for choosing k before any table exists.

    Examples
    --------
    >>> [round(m, 3) for m in laplace_moments(1.0)]
    [1.841, 22.185]
    """
    q, p = exp(-rate), -expm1(-rate)
    return 2 * q / p**2, 2 * q * (1 + 10 * q + q * q) / p**4


def _ceil_product(weight: int, q: Fraction) -> int:
    # Plain integers: Fraction's greatest common divisors would take a hundred times as long.
    return -(-weight * q.numerator // q.denominator)
