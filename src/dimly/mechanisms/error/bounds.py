"""Proven deviation bounds, width to probability and back: Chebyshev, Hoeffding, the paper's Theorem 2.

An interval from a normal approximation covers well but is no theorem. These are: the paper's Theorem 2 (claim 3)
for dense sketches with Gaussian noise, its Theorem 3 for randomized response, and Chebyshev's inequality, which needs
nothing but the variance, for all. Theorem 2 does not hold for hashing: two ones collide with probability 1/k.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from statistics import NormalDist
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from dimly.errors import ParameterError
from dimly.mechanisms.error.models import ErrorModel, Floats, Polynomial

DENSE_FAMILIES = ("gaussian", "sign", "ternary")
"""Families for which the Johnson–Lindenstrauss lemma behind Theorem 2 is proven."""


class DeviationBound(Protocol):
    """P(|estimate − r²| > width) ≤ probability."""

    @property
    def name(self) -> str:
        """Whose inequality it is."""

    def width(self, probability: float, squared_distance: float) -> float:
        """Return a width that is exceeded with at most ``probability``; infinite where nothing is proven."""

    def probability(self, width: float, squared_distance: float) -> float:
        """Return the probability with which ``width`` is exceeded at most; 1 where nothing is proven."""


@dataclass(frozen=True, slots=True)
class Chebyshev:
    """Var/width². True for every mechanism whose variance at a distance is known.

    For counting with a blend that takes the weights of the two people; for the others they do not matter.

    Examples
    --------
    >>> from dimly.mechanisms.error.models import FlippedBitsError
    >>> bound = Chebyshev(FlippedBitsError(n_attributes=1000, flip=0.25))
    >>> round(bound.probability(bound.width(0.05, 100.0), 100.0), 6)
    0.05
    """

    error: ErrorModel
    weights: tuple[float, float] | None = None
    name: str = "chebyshev"

    def width(self, probability: float, squared_distance: float) -> float:
        """Return √(Var/probability)."""
        _check_probability(probability)
        return math.sqrt(self._variance(squared_distance) / probability)

    def probability(self, width: float, squared_distance: float) -> float:
        """Return min(1, Var/width²)."""
        _check_width(width)
        return min(1.0, self._variance(squared_distance) / width**2)

    def _variance(self, squared_distance: float) -> float:
        _check_distance(squared_distance)
        return float(self.error.distance(weights=self.weights)(squared_distance))


@dataclass(frozen=True, slots=True)
class Hoeffding:
    """The paper's Theorem 3, for randomized response.

    Examples
    --------
    >>> round(Hoeffding(n_attributes=1000, flip=0.25).width(0.05, 100.0))
    172
    """

    n_attributes: int
    flip: float
    name: str = "theorem3"

    def width(self, probability: float, squared_distance: float) -> float:
        """Return √(d·ln(2/probability)/2)/(1−2p)², whatever the distance."""
        del squared_distance
        _check_probability(probability)
        return math.sqrt(self.n_attributes * math.log(2 / probability) / 2) / (1 - 2 * self.flip) ** 2

    def probability(self, width: float, squared_distance: float) -> float:
        """Return 2·exp(−2·width²(1−2p)⁴/d), at most 1."""
        del squared_distance
        _check_width(width)
        return min(1.0, 2 * math.exp(-2 * width**2 * (1 - 2 * self.flip) ** 4 / self.n_attributes))


@dataclass(frozen=True, slots=True)
class NormalTail:
    """For noise on distances: a rounded Gaussian is within half a unit of a Gaussian.

    Parameters
    ----------
    sigma : float
        Of the continuous law, in the data's units.
    unit : float
        What one integer step is in the data's units.
    """

    sigma: float
    unit: float
    name: str = "normal"

    def width(self, probability: float, squared_distance: float) -> float:
        """Return σ·Φ⁻¹(1 − probability/2) + unit/2."""
        del squared_distance
        _check_probability(probability)
        return -self.sigma * NormalDist().inv_cdf(probability / 2) + self.unit / 2

    def probability(self, width: float, squared_distance: float) -> float:
        """Return 2·Φ(−(width − unit/2)/σ), at most 1."""
        del squared_distance
        _check_width(width)
        return math.erfc(max(width - self.unit / 2, 0.0) / (math.sqrt(2) * self.sigma))


@dataclass(frozen=True, slots=True)
class TheoremTwo:
    """The paper's Theorem 2, claim 3, for gaussian, sign and ternary sketches with Gaussian noise.

    For sketches none of whose published coordinates is saturated. The three failure probabilities are taken equal, as
    the paper does. What is published is rounded, and so are
    the entries of a gaussian projection; ``width`` adds what that can change at most, so that the bound is
    proven for the numbers actually published and not for those of the theorem only.

    Parameters
    ----------
    k : int
    sigma : float
        Standard deviation of the continuous noise in the data's units.
    variance : float
        That of the noise actually added; the estimate subtracts 2k times it.
    unit : float
        What one integer step of a published coordinate is in the data's units.
    grid_bits : int, optional
        For gaussian projections: entries were rounded to 2^−grid_bits.
    n_attributes : int, optional
        Needed with ``grid_bits`` when the data are values rather than bits.
    """

    k: int
    sigma: float
    variance: float
    unit: float
    grid_bits: int | None = None
    n_attributes: int | None = None
    name: str = "theorem2"

    def width(self, probability: float, squared_distance: float) -> float:
        """Return the theorem's width plus that of rounding; infinite where λ_JL would have to be ≥ 1/2."""
        _check_probability(probability)
        _check_distance(squared_distance)
        ideal = theorem_two_width(probability, squared_distance, k=self.k, sigma=self.sigma)
        if math.isinf(ideal):
            return ideal
        # ‖zP + Δ‖ of the continuous mechanism on the same event; then |‖u + e‖² − ‖u‖²| ≤ 2‖u‖‖e‖ + ‖e‖².
        noise = 2 * self.k * self.sigma**2
        norm = math.sqrt(squared_distance + ideal + noise)
        # Two published coordinates are off by half a unit each.
        error = math.sqrt(self.k) * self.unit + self._projection_error(probability, squared_distance)
        return ideal + 2 * norm * error + error**2 + abs(2 * self.k * self.variance - noise)

    def probability(self, width: float, squared_distance: float) -> float:
        """Return the probability at which :meth:`width` falls to ``width``, by bisection to the safe side."""
        _check_width(width)
        return _invert(lambda p: self.width(p, squared_distance), width)

    def _projection_error(self, probability: float, squared_distance: float) -> float:
        """Bound ‖z(P′ − P)‖ for entries rounded to the grid and rescaled."""
        if self.grid_bits is None:
            return 0.0
        step = 2.0**-self.grid_bits
        rescale = 1 / math.sqrt(1 + self.k * step**2 / 12)
        # ‖z‖₁ is r² for bits; for values at most √d·r.
        distance = math.sqrt(squared_distance)
        l1 = squared_distance if self.n_attributes is None else math.sqrt(self.n_attributes) * distance
        stretched = math.sqrt(1 + _lambda_jl(probability / 3, self.k)) * distance
        return l1 * step / 2 * math.sqrt(self.k) + (1 - rescale) * stretched


def theorem_two_width(probability: float, squared_distance: float, *, k: int, sigma: float) -> float:
    """Return (4) of the paper's Theorem 2 with δ_JL = δ_χ² = δ_N = probability/3.

    λ_JL·r² + 4σ²√k·λ_χ² + 4σ²λ_χ²² + 4σ(1 + λ_JL)·λ_N·r, infinite unless λ_JL < 1/2.

    Examples
    --------
    >>> theorem_two_width(0.05, 400.0, k=64, sigma=4.2)  # k is too small for the theorem to speak
    inf
    >>> round(theorem_two_width(0.05, 400.0, k=256, sigma=4.2))
    3716
    """
    share = probability / 3
    jl = _lambda_jl(share, k)
    if jl >= 0.5:
        return math.inf
    chi2 = math.sqrt(math.log(2 / share))
    normal = _lambda_normal(share)
    distance = math.sqrt(squared_distance)
    return (
        jl * squared_distance
        + 4 * sigma**2 * (math.sqrt(k) * chi2 + chi2**2)
        + 4 * sigma * (1 + jl) * normal * distance
    )


def _lambda_jl(share: float, k: int) -> float:
    """λ_JL with 2·exp(−kλ²/6) = share."""
    return math.sqrt(6 * math.log(2 / share) / k)


@lru_cache(maxsize=64)
def _lambda_normal(share: float) -> float:
    """λ_N with exp(−λ²)/(λ√π) = share."""
    low, high = 1e-9, 2 + math.sqrt(math.log(1 / share))
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        falls_short = -(middle**2) - math.log(middle * math.sqrt(math.pi)) > math.log(share)
        low, high = (middle, high) if falls_short else (low, middle)
    return high * (1 + 1e-9)


def _invert(width_at: Callable[[float], float], width: float) -> float:
    """Return nearly the smallest probability p with ``width_at(p) <= width``, itself one; 1 if there is none."""
    low, high = -700.0, 0.0  # logarithms, as far as a third of e^low is still a float
    if width_at(1 - 2**-53) > width:
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if width_at(math.exp(middle)) <= width:
            high = middle
        else:
            low = middle
    return math.exp(high)


def _check_probability(probability: float) -> None:
    if not 0 < probability < 1:
        raise ParameterError(f"probability must be in (0, 1), got {probability!r}.")


def _check_distance(squared_distance: float) -> None:
    if not squared_distance >= 0:
        raise ParameterError(f"squared_distance must be >= 0, got {squared_distance!r}.")


def _check_width(width: float) -> None:
    if not width > 0:
        raise ParameterError(f"width must be > 0, got {width!r}.")


def invert_interval(
    estimate: ArrayLike, variance: Polynomial, *, confidence: float = 0.95, largest: float = np.inf
) -> tuple[Floats, Floats]:
    """Return the squared distances at which ``estimate`` would not be surprising.

    The set {r² ≥ 0 : |estimate − r²| ≤ z·√Var(r²)}, a quadratic in r². Taking the variance at the estimate
    instead would cover 90 to 98 % where 95 % is asked.

    Parameters
    ----------
    estimate : array_like
        Unbiased estimates; may be negative.
    variance : Polynomial
        As a function of the true squared distance.
    confidence : float, default=0.95
        In (0, 1); of the normal approximation.
    largest : float
        Largest squared distance there can be, such as the number of attributes.

    Returns
    -------
    low, high : ndarray
        0 ≤ low ≤ high ≤ largest. With few coordinates the set may have no upper end. Where it is empty
        (the estimate lies too far below zero) low is 0 and high the half-width at distance zero.

    Examples
    --------
    >>> low, high = invert_interval(400.0, Polynomial(2 / 256, 14.7, 5000.0))
    >>> round(float(low)), round(float(high))
    (218, 665)
    """
    z2 = normal_quantile(confidence) ** 2
    est, square, linear, constant = np.broadcast_arrays(
        *(np.asarray(part, dtype=np.float64) for part in (estimate, *variance))
    )
    # (est − r²)² ≤ z²·Var(r²)  ⇔  a·r⁴ − 2h·r² + c ≤ 0
    a, h, c = 1 - z2 * square, est + z2 * linear / 2, est**2 - z2 * constant
    discriminant = h**2 - a * c
    root = np.sqrt(np.maximum(discriminant, 0.0))
    # The smaller root as c/(h + root), which neither cancels nor minds a = 0.
    rises = (c > 0) & (h > 0)
    low = np.where(rises, c / np.where(rises, h + root, 1.0), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        high = np.where(a > 0, (h + root) / a, np.inf)
    empty = (a > 0) & ((discriminant < 0) | (high <= 0))
    low = np.where(empty, 0.0, low)
    high = np.where(empty, np.sqrt(z2 * np.maximum(constant, 0.0)), high)
    high = np.minimum(high, largest)
    return np.minimum(low, high), high


def ratio_interval(
    numerator: ArrayLike,
    denominator: ArrayLike,
    variance: Polynomial,
    *,
    confidence: float = 0.95,
) -> tuple[Floats, Floats]:
    """Return the ratios t in [0, 1] at which numerator − t·denominator would not be surprisingly far from zero.

    Fieller's interval: ``variance`` is that of numerator − t·denominator, a quadratic in t. Where the denominator
    may well be zero, every ratio is possible.

    Examples
    --------
    >>> low, high = ratio_interval(30.0, 100.0, Polynomial(25.0, -10.0, 16.0))
    >>> round(float(low), 3), round(float(high), 3)
    (0.224, 0.378)
    """
    z2 = normal_quantile(confidence) ** 2
    top, bottom, square, linear, constant = np.broadcast_arrays(
        *(np.asarray(part, dtype=np.float64) for part in (numerator, denominator, *variance))
    )
    # (top − t·bottom)² ≤ z²(square·t² + linear·t + constant)
    a, h, c = bottom**2 - z2 * square, top * bottom + z2 * linear / 2, top**2 - z2 * constant
    discriminant = h**2 - a * c
    known = (a > 0) & (bottom > 0) & (discriminant >= 0)
    root = np.sqrt(np.where(known, discriminant, 0.0))
    safe = np.where(known, a, 1.0)
    low = np.where(known, (h - root) / safe, 0.0)
    high = np.where(known, (h + root) / safe, 1.0)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def normal_quantile(confidence: float) -> float:
    """Return z with P(|N(0, 1)| ≤ z) = ``confidence``."""
    given: object = confidence
    if not isinstance(given, Real) or not 0 < confidence < 1:
        raise ParameterError(f"confidence must be above 0 and below 1, such as 0.95, got {confidence!r}.")
    middle = (1 + confidence) / 2
    # Next to 1 the tail is still a number, where the middle is not.
    return NormalDist().inv_cdf(middle) if middle < 1 else -NormalDist().inv_cdf((1 - confidence) / 2)
