"""Confidence intervals of what cannot be negative, with the stated coverage next to zero as well.

Every interval inverts a test: it holds each μ ≥ 0 at which the estimate would not be surprising. What counts as
surprising follows Feldman and Cousins (1998), "Unified approach to the classical statistical analysis of small
signals": far from zero both tails count alike; near zero an estimate is more easily too large and less easily too
small. The interval is never empty. A symmetric one cut at zero would cover up to 97.5 % where 95 % is asked, or
be empty.

A squared distance is a sum of squares and leans to the right. Its quantiles are those of a gamma law with the same
skewness, by the cube root of Wilson and Hilferty (1931).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from dimly.mechanisms.error_models import CountingError, Floats, Polynomial, SignedSketchError
from dimly.mechanisms.intervals import normal_quantile
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_parts import LaplaceNoise

_PIECE = 1 << 14  # estimates at once: their intermediate results stay in the second cache
# To 1/1000 of a standard error, unless there is next to no noise. Always as many: no pair depends on its company.
_ROUNDS = 6
_MOST_SKEWED = 2.0  # of an exponential law; more only occurs where next to no noise was added


class Skewness(NamedTuple):
    """Skewness of an estimated squared distance, as if the k coordinates of the difference were independent.

    A coordinate has variance s = r²/k + n·v and, from the noise of the n sides that carry any, the fourth and sixth
    cumulants n·κ₄ and n·κ₆; the third cumulant of its square is n·κ₆ + 12n·κ₄·s + 8s³.
    """

    k: int
    sides: int
    variance: float
    fourth: float
    sixth: float
    share: float = 1.0
    """Of the third cumulant that is left where counting blends sums in, which are symmetric."""

    def third_cumulant(self, squared_distance: Floats) -> Floats:
        """Return the third cumulant of the estimate at a squared distance."""
        n, s = self.sides, squared_distance / self.k + self.sides * self.variance
        return np.asarray(self.share * self.k * (n * self.sixth + 12 * n * self.fourth * s + 8 * s**3))

    def __call__(self, squared_distance: Floats, variance: Floats) -> Floats:
        """Return the skewness at a squared distance where the estimate has that variance."""
        return _skewness(self.third_cumulant(squared_distance), variance)


class MixedSkewness(NamedTuple):
    """Skewness of a weighted sum of independent estimates: third cumulants add up, each times its weight cubed."""

    weights: tuple[float, ...]
    parts: tuple[Skewness | None, ...]
    """None: symmetric."""

    def __call__(self, squared_distance: Floats, variance: Floats) -> Floats:
        """Return the skewness at a squared distance where the sum has that variance."""
        third = np.zeros_like(squared_distance)
        for weight, part in zip(self.weights, self.parts, strict=True):
            if part is not None:
                third = third + weight**3 * part.third_cumulant(squared_distance)
        return _skewness(third, variance)


def _skewness(third: Floats, variance: Floats) -> Floats:
    return np.minimum(third / np.where(variance > 0, variance, np.inf) ** 1.5, _MOST_SKEWED)


def distance_skewness(plan: Plan, *, sides: int) -> Skewness | None:
    """Return the skewness of squared distances by this plan, between vectors of which ``sides`` carry noise.

    None where it is small: randomized response and noisy distances.
    """
    error = plan.error
    if not isinstance(error, SignedSketchError | CountingError):
        return None
    # Cubes of norms keep (1 − b)³. Products of two noises with a norm, about as much again, keep 1 − b.
    rest = 1 - error.blend if isinstance(error, CountingError) else 1.0
    share = rest**3 if sides == 1 else (rest + rest**3) / 2
    v, step = error.noise.variance, plan.scale**2
    if not isinstance(plan.noise, LaplaceNoise):  # a rounded Gaussian is a Gaussian here
        return Skewness(error.k, sides, v, 0.0, 0.0, share)
    # Discrete Laplace of variance v in steps of one: κ₄ = v + 3v², κ₆ = v + 15v² + 30v³.
    return Skewness(error.k, sides, v, v * step + 3 * v**2, v * step**2 + 15 * v**2 * step + 30 * v**3, share)


def unified_interval(
    estimate: ArrayLike,
    variance: Polynomial,
    *,
    confidence: float = 0.95,
    largest: ArrayLike = np.inf,
    skewness: Skewness | MixedSkewness | None = None,
) -> tuple[Floats, Floats]:
    """Return what is not surprising, from the smallest to the largest.

    Parameters
    ----------
    estimate : array_like
        Unbiased estimates of something that is not negative; may be negative themselves.
    variance : Polynomial
        As a function of the truth.
    confidence : float, default=0.95
        In (0, 1).
    largest : array_like
        Largest truth there can be, such as the number of attributes.
    skewness : Skewness or MixedSkewness, optional
        None: symmetric.

    Returns
    -------
    low, high : ndarray
        0 ≤ low ≤ high ≤ largest. With few coordinates there may be no upper end; then high is ``largest``.

    Examples
    --------
    >>> low, high = unified_interval([400.0, -50.0], Polynomial(2 / 256, 14.7, 5000.0))
    >>> low.round().tolist(), high.round().tolist()
    ([218.0, 0.0], [665.0, 116.0])
    """
    parts = np.broadcast_arrays(*(np.asarray(p, dtype=np.float64) for p in (estimate, *variance, largest)))
    shape = parts[0].shape
    flat = [part.reshape(-1) for part in parts]
    low, high = np.empty((2, flat[0].size))
    reaches = _reaches(confidence)
    for start in range(0, flat[0].size, _PIECE):
        piece = slice(start, start + _PIECE)
        est, square, linear, constant, most = (part[piece] for part in flat)
        polynomial = Polynomial(square, linear, constant)
        lower, upper = _ends(est, polynomial, reaches, skewness)
        beyond = lower > most
        if beyond.any():
            # Nothing possible is left. An outlier is no better evidence than the largest possible estimate.
            lower = np.where(beyond, _ends(np.minimum(est, most), polynomial, reaches, skewness)[0], lower)
        high[piece] = np.minimum(upper, most)
        low[piece] = np.minimum(lower, high[piece])
    return low.reshape(shape), high.reshape(shape)


class _Reach(NamedTuple):
    """How many standard errors an end of the interval lies from the estimate: a table over the estimate in them."""

    estimates: Floats
    reaches: Floats

    def __call__(self, estimates: Floats) -> Floats:
        return np.interp(estimates, self.estimates, self.reaches)


def _ends(
    est: Floats, variance: Polynomial, reaches: tuple[_Reach, _Reach], skewness: Skewness | MixedSkewness | None
) -> tuple[Floats, Floats]:
    square, linear, constant = (np.asarray(part) for part in variance)
    possible = np.maximum(est, 0.0)
    # No estimate tells this from an infinite distance.
    far = 1e6 * (1 + possible + np.sqrt(np.maximum(constant, 0.0)))

    def quantile(mu: Floats, reach: _Reach, sign: int) -> Floats:
        """At a truth of mu: how far the estimate may lie above it (sign = 1) or below, in standard errors."""
        spread = variance(mu)
        root = np.sqrt(spread)
        e = np.divide(est, root, out=np.full_like(est, np.inf), where=root > 0)
        u = reach(e)
        if skewness is None:
            return u
        g = skewness(mu, spread) / 2
        # The table is for symmetric laws: look up where the estimate would be if it were one.
        u = reach(e - (_leaning(sign * u, g) - sign * u))
        return sign * _leaning(sign * u, g)

    low = high = possible
    for _ in range(_ROUNDS):
        # (est − μ)² = t²·Var(μ)  ⇔  a·μ² − 2h·μ + c = 0; the smaller root as c/(h + √…), which does not cancel.
        t2 = quantile(low, reaches[0], 1) ** 2
        a, h, c = 1 - t2 * square, est + t2 * linear / 2, est**2 - t2 * constant
        root = np.sqrt(np.maximum(h**2 - a * c, 0.0))
        above = (est > 0) & (c > 0)
        usual = above & (h > 0)
        low = np.where(usual, c / np.where(usual, h + root, 1.0), 0.0)
        if np.any(above & ~usual):
            # Next to no noise, and a variance that dips below zero between 0 and 1: for a < 0 the root is (h − √…)/a,
            # else nothing below the estimate is possible.
            dips = above & ~usual & (a < 0)
            low = np.where(dips, (h - root) / np.where(dips, a, 1.0), np.where(above & ~usual, possible, low))
        # For est < 0 the likelihood ratio with the best possible truth, zero, gives μ² − 2·est·μ = t²·Var(μ) instead.
        t2 = quantile(high, reaches[1], -1) ** 2
        a, h, c = 1 - t2 * square, est + t2 * linear / 2, possible**2 - t2 * constant
        root = np.sqrt(np.maximum(h**2 - a * c, 0.0))
        high = np.where(a > 0, np.minimum(np.maximum(h + root, 0.0) / np.where(a > 0, a, 1.0), far), far)
    return np.minimum(low, possible), np.where(high < far, np.maximum(high, possible), np.inf)


def _leaning(u: Floats, g: Floats) -> Floats:
    """Return the quantile of a standardized gamma law of skewness 2g that a normal law has at u.

    ((1 + q)³ − 1)/g with q = ug/3 − g²/9, written without the division.
    """
    q = u * g / 3 - g**2 / 9
    return (u / 3 - g / 9) * (3 + 3 * q + q**2)


@lru_cache(maxsize=16)
def _reaches(confidence: float) -> tuple[_Reach, _Reach]:
    """Tabulate Feldman and Cousins' reaches, of the lower and of the upper end.

    A truth m standard errors from zero accepts estimates from m − a to m + b. Likelihood ratios at both ends agree if
    a = (b² + m²)/2m, for m below z, and Φ(b) + Φ(a) − 1 is the confidence. Beyond z both are z.
    """
    z = normal_quantile(confidence)
    if confidence <= 0.5:  # then b would be negative next to zero; z covers more
        return _Reach(np.zeros(1), np.array([z])), _Reach(np.zeros(1), np.array([z]))
    m = z * np.linspace(0.0, 1.0, 1025)[1:] ** 2
    low, high = np.full_like(m, ndtri(confidence)), np.full_like(m, z)
    for _ in range(60):
        b = (low + high) / 2
        a = (b**2 + m**2) / (2 * m)
        enough = ndtr(b) + ndtr(a) - 1 >= confidence
        low, high = np.where(enough, low, b), np.where(enough, b, high)
    return _Reach(m + high, high), _Reach(m - (high**2 + m**2) / (2 * m), high)
