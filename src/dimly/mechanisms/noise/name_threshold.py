"""The random threshold above which a survey may show a name that nobody published, with its proof.

Whether a name is shown, and with which count, must not tell whether one person has it. A name that a single person has
is shown with a probability of at most δ, and every further person changes the odds by at most e^ε. Among all rules
that keep this, the one below shows names soonest (Desfontaines, Voss, Gipson and Mandayam, 2022, *Differentially
private partition selection*): the count from which a name is shown is random, and its probabilities are a geometric
law of both sides, cut where they fall below δ.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ParameterError
from dimly.mechanisms.noise.tables import MAX_WEIGHTS, TOTAL, Cells
from dimly.privacy import Budget
from dimly.privacy.balls import ball, lower_fraction, precision, upper_fraction

_BITS = 256
# The ratio of neighbors is rounded up by this much, so that the middle can take what rounding left over.
_SLACK = Fraction(1, 1 << 50)


@dataclass(frozen=True)
class RandomThreshold:
    """The law of the count from which a name is shown, with the proof in the constructor.

    A name that n people have is shown if n ≥ N, where N is drawn from 1…L, for each name anew. What is shown is
    n + (center − N), which is then at least ``center``: the count with a noise that is bounded.

    Parameters
    ----------
    budget : Budget
        What one person more or less may change, with δ > 0.
    weights : tuple of int
        Of N = 1…L; they sum to 2¹²⁸.

    Raises
    ------
    ParameterError
        If the weights do not keep the budget in exact arithmetic. So a table that fails its check cannot be made.

    Notes
    -----
    Take a name with n and with n + 1 people. What only n + 1 can show is N = 1, and what only n can show is N = L: each
    has probability at most δ. All other counts are shown by both, with probabilities of neighboring weights, whose
    ratio is at most e^ε. What remains is that nothing is shown: P(N > n) − e^ε·P(N > n + 1) ≤ δ, checked for each n.
    Whenever n can leave a name out, it cannot show the count for N = L, so that no set of outcomes has δ twice.

    Examples
    --------
    >>> law = RandomThreshold.of(Budget(1.0, 1e-6))
    >>> law.size, law.center, law.shown(1) <= Fraction(1, 10**6), law.shown(14) >= Fraction(1, 2)
    (28, 14, True, True)
    """

    budget: Budget
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.weights or min(self.weights) < 1 or sum(self.weights) != TOTAL:
            raise ParameterError("weights must be integers >= 1 that sum to 2**128.")
        claim = self.budget.rounded_down
        with precision(_BITS):
            factor = lower_fraction(ball(claim.epsilon).exp())
        if not self._keeps(factor, Fraction(claim.delta) * TOTAL):
            raise ParameterError(
                f"weights must keep epsilon {self.budget.epsilon!r} at delta {self.budget.delta!r}, but do not. "
                "Build the table with RandomThreshold.of."
            )

    def _keeps(self, factor: Fraction, delta: Fraction) -> bool:
        """Return whether all conditions of the notes hold, ``delta`` being in units of 2⁻¹²⁸."""
        weights, top, bottom = self.weights, factor.numerator, factor.denominator
        if weights[0] > delta or weights[-1] > delta:
            return False
        if any(max(one, other) * bottom > min(one, other) * top for one, other in pairwise(weights)):
            return False
        hidden = [TOTAL, *(TOTAL - below for below in accumulate(weights))]  # of n = 0, 1, …, L
        return all(one * bottom - other * top <= delta * bottom for one, other in pairwise([*hidden, 0]))

    @classmethod
    @lru_cache(maxsize=32)
    def of(cls, budget: Budget) -> Self:
        """Return the law that shows names soonest within ``budget``.

        Raises
        ------
        ParameterError
            If δ is 0, or the table would need more than 2²⁰ weights.
        """
        if budget.is_pure:
            raise ParameterError(
                "delta must be > 0 to show names that are not in a public list, got 0.0: a name that one person has "
                "would have to be hidden for certain, and then so would every other. State a delta, or give the list."
            )
        claim = budget.rounded_down
        with precision(_BITS):
            ratio = upper_fraction((-ball(claim.epsilon)).exp()) * (1 + _SLACK)
        if ratio >= 1:
            raise ParameterError(
                f"epsilon must be above {float(_SLACK):.1g} to show names that are not in a public list, got "
                f"{budget.epsilon:g}. Use a larger one, or give the list."
            )
        delta = Fraction(claim.delta)
        size = _size(claim.epsilon, claim.delta)
        if size > MAX_WEIGHTS:
            raise ParameterError(
                f"the table of the threshold must have at most {MAX_WEIGHTS} weights, but needs {size}. "
                "Use a larger epsilon or delta."
            )
        while (weights := _weights(size, ratio))[0] > delta * TOTAL:
            size += 1
        return cls(budget, weights)

    @property
    def size(self) -> int:
        """L, the count from which a name is certainly shown."""
        return len(self.weights)

    @property
    def center(self) -> int:
        """The smallest count that can be shown: the middle of the law."""
        return (self.size + 1) // 2

    def shown(self, count: int) -> Fraction:
        """Return the exact probability that a name which so many people have is shown."""
        return Fraction(sum(self.weights[: max(0, count)]), TOTAL)

    def fewest(self, shown: NDArray[np.int64], *, chance: float) -> NDArray[np.int64]:
        """Return the smallest counts which, if they are shown at all, are shown as this high with some probability.

        A name that few people have is shown by luck alone, and then always as ``center`` or more. So what a shown count
        tells is weighed against being shown: P(N ≤ n − j) ≥ ``chance`` · P(N ≤ n), for a count shown as center + j. The
        ratio of the two rises with n, because the weights are log-concave.

        Parameters
        ----------
        shown : ndarray of int
            What is shown; at least ``center``.
        chance : float
            In (0, 1): a bound below the true count is wrong this often at most, among names that are shown.
        """
        below = np.concatenate([[0.0], np.array([float(Fraction(w, TOTAL)) for w in accumulate(self.weights)])])
        excess = shown - self.center
        low, high = excess + 1, excess + self.size
        while (low < high).any():
            middle = (low + high) // 2
            likely = below[middle - excess] >= chance * below[np.minimum(middle, self.size)]
            low, high = np.where(likely, low, middle + 1), np.where(likely, middle, high)
        return low

    def cells(self) -> Cells:
        """Return cumulative weights of the noise center − N, from its smallest value on."""
        return Cells.of(reversed(self.weights), first=self.center - self.size)

    @cached_property
    def variance(self) -> float:
        """The mean square of the noise of a count that is certainly shown."""
        return float(self._moment(2))

    @cached_property
    def fourth_moment(self) -> float:
        """The mean fourth power of the same."""
        return float(self._moment(4))

    @property
    def n_weights(self) -> int:
        """Number of weights that a sampler holds."""
        return self.size

    def _moment(self, order: int) -> Fraction:
        return Fraction(sum((self.center - n) ** order * w for n, w in enumerate(self.weights, 1)), TOTAL)


def _size(epsilon: float, delta: float) -> int:
    """Return a size that is a few below the least one whose outer weights are at most δ.

    Of 2(t + 1) weights that fall by r = e^−ε from the middle the outer one is r^t(1 − r)/2(1 − r^(t+1)). That is δ for
    r^−t = 1 + m(1/δ − 2), with m = (1 − r)/2. Where ε is far below δ, it is the even law on 1/δ numbers.
    """
    middle = -math.expm1(-epsilon) / 2
    return max(1, 2 * math.floor(math.log1p(middle * (1 / delta - 2)) / epsilon))


def _weights(size: int, ratio: Fraction) -> tuple[int, ...]:
    """Return ``size`` weights that fall by ``ratio`` from the middle to both sides."""
    steps = (size - 1) // 2  # beyond the one or two in the middle
    middles = 2 - size % 2
    side = [1 << 160]
    for _ in range(steps):
        side.append(-(-side[-1] * ratio.numerator // ratio.denominator))
    scale = middles * side[0] + 2 * sum(side[1:])
    half = [TOTAL * side[0] // scale]
    for _ in range(steps):
        half.append(-(-half[-1] * ratio.numerator // ratio.denominator))
    rest = TOTAL - middles * half[0] - 2 * sum(half[1:])
    # Even for two in the middle, because everything comes twice then; less than the slack in any case.
    half[0] += rest // middles
    outer = half[1:]
    return (*reversed(outer), *[half[0]] * middles, *outer)
