"""Rounded Gaussian noise as a table: cells, tails, and how far sampling is from the exact law.

The sketch Y is an integer, so round(Y + N) = Y + round(N): adding an integer drawn from
P(i) = Φ((i+½)/σ) − Φ((i−½)/σ) *is* the Gaussian mechanism with its output rounded, in any dimension, and every
guarantee of the continuous mechanism holds by post-processing. What remains is that a table is not exactly P.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Self

from dimly.errors import ParameterError
from dimly.mechanisms.noise.tables import MAX_WEIGHTS, TOTAL, Cells, even_moment, symmetric
from dimly.privacy import Budget
from dimly.privacy.balls import Ball, ball, float_above, normal_cdf, precision, upper_integer
from dimly.privacy.calibration import gaussian_profile

_BITS = 192
# Φ(−13.2) < 2⁻¹²⁹: beyond this a weight would round to zero.
_REACH = 13.2
# The widest table that is allowed comes within 2⁻¹¹⁰.
_FARTHEST = 2.0**-100


@dataclass(frozen=True)
class RoundedGaussian:
    """Weights of a rounded Gaussian, with a proven bound on how far they are from the law.

    Parameters
    ----------
    sigma : float
        Standard deviation of the continuous law, in integer units.
    half : tuple of int
        Weights of 0…H; those of −H…−1 mirror them.

    Raises
    ------
    ParameterError
        If the weights do not sum to 2¹²⁸ over both sides, or are farther from the law than 2⁻¹⁰⁰ in total
        variation. So a table that fails its check cannot be made.

    Examples
    --------
    >>> noise = RoundedGaussian.of(4.225)
    >>> round(noise.variance - 4.225**2, 4)  # rounding adds 1/12
    0.0833
    >>> noise.sampling_distance < 1e-36
    True
    """

    sigma: float
    half: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_sigma(self.sigma)
        if not self.half or min(self.half) < 1 or 2 * sum(self.half) - self.half[0] != TOTAL:
            raise ParameterError("weights must be integers >= 1 that sum to 2**128 over both sides.")
        if not self.sampling_distance <= _FARTHEST:
            raise ParameterError(
                f"weights must be those of a rounded Gaussian of sigma {self.sigma:.6g} up to 2**-100, but differ by "
                f"{self.sampling_distance:.3g} in total variation. Build the table with RoundedGaussian.of."
            )

    @classmethod
    @lru_cache(maxsize=32)
    def of(cls, sigma: float) -> Self:
        """Return the table for standard deviation ``sigma``.

        Raises
        ------
        ParameterError
            If the table would need more than 2²⁰ weights, or sigma is too small to be a noise.
        """
        check_size(sigma)
        with precision(_BITS):
            half = [upper_integer(p * TOTAL) for p in _probabilities(sigma, _cells(sigma))]
        while half[-1] == 0:
            half.pop()
        # The mode takes what rounding left over: a few units of 2⁻¹²⁸.
        half[0] = TOTAL - 2 * sum(half[1:])
        return cls(sigma, tuple(half))

    @cached_property
    def sampling_distance(self) -> float:
        """Total variation between one draw from the table and the law, rounded up.

        Computed from the weights themselves against enclosures of the law, tails included.
        """
        with precision(_BITS):
            excess = Ball(0)
            for i, p in enumerate(_probabilities(self.sigma, len(self.half) - 1)):
                excess += abs(Ball(self.half[i]) / TOTAL - p) * (2 if i else 1)
            excess += 2 * _tail(self.sigma, len(self.half))
            return float_above(excess / 2)

    @cached_property
    def variance(self) -> float:
        """Variance v = E η² of the table; about σ² + 1/12."""
        return float(even_moment(self.half, 2))

    @cached_property
    def fourth_moment(self) -> float:
        """Fourth moment m₄ = E η⁴ of the table."""
        return float(even_moment(self.half, 4))

    @property
    def n_weights(self) -> int:
        """Number of weights that a sampler holds."""
        return 2 * len(self.half) - 1

    def cells(self) -> Cells:
        """Return cumulative weights of −H…H."""
        return Cells.of(symmetric(self.half), first=1 - len(self.half))

    def check(self, budget: Budget, *, l2_sensitivity: float, touched: int) -> None:
        """Prove that the sampled noise keeps moves of ``l2_sensitivity`` within ``budget``, or refuse.

        The ideal law gives δ(σ, ε). Replacing the draws of the ``touched`` coordinates that one unit can move
        by draws from the table costs their total variation on either side of Definition 1:
        δ(σ, ε) + (1 + e^ε)·touched·TV.

        Raises
        ------
        ParameterError
            If that is above the budget's δ.
        """
        if touched < 1:
            raise ParameterError(f"touched must be at least 1, got {touched!r}.")
        with precision(_BITS):
            sampling = (1 + ball(budget.epsilon).exp()) * touched * ball(self.sampling_distance)
            claim = budget.rounded_down
            total = gaussian_profile(self.sigma, claim.epsilon, l2_sensitivity) + sampling
            if not total <= ball(claim.delta):
                raise ParameterError(
                    f"noise of sigma {self.sigma:.6g} must keep delta at {budget.delta!r}, "
                    f"but can be shown to keep only {float_above(total):.6g} (at epsilon {budget.epsilon!r}, "
                    "sampling error included). Use more noise or a larger delta."
                )


def check_size(sigma: float) -> None:
    """Refuse a standard deviation whose table would be too large, or that is too small to be a noise."""
    _check_sigma(sigma)
    if 2 * _cells(sigma) + 1 > MAX_WEIGHTS:
        raise ParameterError(
            f"the noise table must have at most {MAX_WEIGHTS} weights, but needs {2.0 * _cells(sigma) + 1:.8g}. "
            "Use a larger epsilon or delta, fewer users, a smaller k or resolution, or directions of a smaller scale."
        )


def _check_sigma(sigma: float) -> None:
    if not (math.isfinite(sigma) and sigma >= 0.02):
        raise ParameterError(f"sigma must be finite and at least 0.02 integer units, got {sigma!r}.")


def sampling_allowance(sigma: float, *, epsilon: float, touched: int) -> float:
    """Return a bound on the δ that sampling from a table will cost, before there is a table.

    Each weight is off by at most one unit of 2⁻¹²⁸, the mode by one for each weight, the tails by one.
    """
    units = 4 * _cells(sigma) + 4
    with precision(_BITS):
        return float_above((1 + ball(epsilon).exp()) * touched * ball(Fraction(units, TOTAL)))


def gaussian_moments(sigma: float) -> tuple[float, float]:
    """Return variance and fourth moment of a rounded Gaussian with σ not far below 1, before any table exists.

    Sheppard's corrections: rounding adds an error that is as good as independent and uniform on (−½, ½).
    """
    return sigma**2 + 1 / 12, 3 * sigma**4 + sigma**2 / 2 + 1 / 80


def _cells(sigma: float) -> int:
    return max(1, math.ceil(_REACH * sigma))


def _tail(sigma: float, first: int) -> Ball:
    """Enclose P(η ≥ first), which is one side's mass."""
    return normal_cdf(-(Ball(2 * first - 1) / 2) / ball(sigma))


def _probabilities(sigma: float, cells: int) -> tuple[Ball, ...]:
    """Enclose P(0), P(1), …, P(cells), much finer than the weights' 2⁻¹²⁸."""
    return _enclosed(sigma, max(cells, _cells(sigma)))[: cells + 1]


# Building a table and proving it ask for the same numbers one after the other, but for the last few, whose weight is 0.
@lru_cache(maxsize=1)
def _enclosed(sigma: float, cells: int) -> tuple[Ball, ...]:
    with precision(_BITS):
        tails = [_tail(sigma, i) for i in range(cells + 2)]
        return tuple(low - high for low, high in pairwise(tails))
