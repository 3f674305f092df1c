"""Confidence intervals of distances, which cannot be negative: skewness, inverted tests, coverage at 0."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dimly.analyst.estimate import Arrays, Estimate
from dimly.mechanisms.error.bounds import normal_quantile
from dimly.mechanisms.error.models import Floats, Polynomial, SketchError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_parts import LaplaceNoise

_PIECE = 1 << 14  # estimates at once: their intermediate results stay in the second cache
# To 1/1000 of a standard error, unless there is next to no noise. Always as many: no pair depends on its company.
_ROUNDS = 6
_DRAWS, _DRAWN = 100_000, 10_000  # of a law, and at once
# Directions whose law is drawn. Of more, sums are as good as skewed normal: intervals of 95 % hold 94.2 to 95.6 % at
# 65, 128 and 256 directions, from no distance to 10 standard errors of noise alone, along one direction or all (10,000
# draws each). Farther away along a single direction 93.7 %, by either law: all that counts then is one Laplace number.
_MOST_SAMPLED = 64
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
    fixed: bool = False
    """Whether nothing projects at random: then the distance itself is no part of what varies, and only the terms of
    the third cumulant that are linear in r² stay."""

    def third_cumulant(self, squared_distance: Floats) -> Floats:
        """Return the third cumulant of the estimate at a squared distance."""
        if self.fixed:
            fourth, w = self.sides * self.fourth, self.sides * self.variance
            alone = self.k * (self.sides * self.sixth + 12 * fourth * w + 8 * w**3)
            return np.asarray(12 * squared_distance * (fourth + 2 * w**2) + alone)
        n, s = self.sides, squared_distance / self.k + self.sides * self.variance
        return np.asarray(self.share * self.k * (n * self.sixth + 12 * n * self.fourth * s + 8 * s**3))

    def __call__(self, squared_distance: Floats, variance: Floats) -> Floats:
        """Return the skewness at a squared distance where the estimate has that variance."""
        return _skewness(self.third_cumulant(squared_distance), variance)


class MixedSkewness(NamedTuple):
    """Skewness of a weighted sum of independent estimates: third cumulants add up, each times its weight cubed."""

    weights: tuple[float, ...]
    parts: "tuple[Skewness | SampledLaw | None, ...]"
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


class SampledLaw(NamedTuple):
    """The law of squared distances along a few public directions, under Laplace noise: too heavy-tailed for formulas.

    An estimate D + 2√D·a + b − n·k·v, with b the squared length of the noise and a its part along the difference, is
    drawn often enough for its quantiles at every D, always from the same seed. Which way the difference points among
    the directions is drawn with it.
    """

    skewness: Skewness
    step: float
    """What one integer step is, squared."""

    def third_cumulant(self, squared_distance: Floats) -> Floats:
        """Return the third cumulant of the estimate at a squared distance."""
        return self.skewness.third_cumulant(squared_distance)

    def interval(self, est: Floats, variance: Polynomial, confidence: float) -> tuple[Floats, Floats]:
        """Return the truths at which an estimate is between its quantiles.

        Next to zero the lower tail is given up for the upper one, so that no estimate is below all that is possible.
        """
        k, sides, v = self.skewness.k, self.skewness.sides, self.skewness.variance
        at, low, high = _quantiles(k, sides, v / self.step, confidence)

        def end(quantiles: Floats) -> Floats:
            below, above = np.zeros_like(est), 4 * np.maximum(est, 0.0) + 400 * sides * v * (k + 10)
            for _ in range(60):
                middle = (below + above) / 2
                far = middle + quantiles[-1] * np.sqrt(variance(middle))
                reach = np.where(middle < v * at[-1], v * np.interp(middle, v * at, quantiles[:-1]), far)
                below, above = np.where(reach < est, middle, below), np.where(reach < est, above, middle)
            return np.where(below > 0, above, 0.0)

        return np.minimum(end(high), np.maximum(est, 0.0)), np.maximum(end(low), np.maximum(est, 0.0))


@lru_cache(maxsize=16)
def _quantiles(k: int, sides: int, variance: float, confidence: float) -> tuple[Floats, Floats, Floats]:
    """Return squared distances, and between which two an estimate lies at each, in units of v.

    The last quantiles are of a distance without limit, in standard errors from it.
    """
    generator, ratio = np.random.default_rng(0), _ratio(variance)
    along, squares = np.empty((2, _DRAWS))
    for start in range(0, _DRAWS, _DRAWN):
        shape = (2, sides, min(_DRAWN, _DRAWS - start), k)
        drawn = generator.geometric(1 - ratio, shape)  # whose difference is discrete Laplace
        noise = (drawn[0] - drawn[1]).sum(axis=0) / variance**0.5
        ways = generator.standard_normal(noise.shape)
        here = slice(start, start + len(noise))
        along[here] = np.einsum("nk,nk->n", noise, ways) / np.linalg.norm(ways, axis=1)
        squares[here] = np.einsum("nk,nk->n", noise, noise) - sides * k
    at = k**0.5 * np.linspace(0.0, 30.0, 121) ** 2
    tail, spread = 1 - confidence, squares.std()
    low, high = np.empty((2, len(at) + 1))
    for i, distance in enumerate(at):
        lower = tail / 2 * min(1.0, distance / (2 * spread))
        drawn = 2 * distance**0.5 * along + squares
        low[i], high[i] = distance + np.quantile(drawn, [lower, 1 - tail + lower])
    low[-1], high[-1] = np.quantile(along, [tail / 2, 1 - tail / 2]) / sides**0.5
    # Where a quantile falls, as the lower one of a single direction does, what is accepted is made to rise.
    low[:-1], high[:-1] = np.minimum.accumulate(low[-2::-1])[::-1], np.maximum.accumulate(high[:-1])
    return at, low, high


def _ratio(variance: float) -> float:
    """Return q of the discrete Laplace law with variance 2q/(1 − q)²."""
    return float(1 + 1 / variance - ((1 + 1 / variance) ** 2 - 1) ** 0.5)


LawShape = Skewness | MixedSkewness | SampledLaw


def distance_skewness(plan: Plan, *, sides: int) -> Skewness | SampledLaw | None:
    """Return the shape of the law of squared distances by this plan, between vectors of which ``sides`` carry noise.

    None where it is symmetric, nearly: randomized response and noisy distances.
    """
    error = plan.error
    if not isinstance(error, SketchError):
        return None
    # Cubes of norms keep (1 − b)³. Products of two noises with a norm, about as much again, keep 1 − b.
    rest = 1 - error.blend
    share = rest**3 if sides == 1 else (rest + rest**3) / 2
    v, step, fixed = error.noise.variance, plan.scale**2, not error.projected
    if not isinstance(plan.noise, LaplaceNoise):  # a rounded Gaussian is a Gaussian here
        return Skewness(error.k, sides, v, 0.0, 0.0, share, fixed)
    # Discrete Laplace of variance v in steps of one: κ₄ = v + 3v², κ₆ = v + 15v² + 30v³.
    found = Skewness(error.k, sides, v, v * step + 3 * v**2, v * step**2 + 15 * v**2 * step + 30 * v**3, share, fixed)
    return SampledLaw(found, step) if fixed and error.k <= _MOST_SAMPLED else found


def unified_interval(
    estimate: ArrayLike,
    variance: Polynomial,
    *,
    confidence: float = 0.95,
    largest: ArrayLike = np.inf,
    skewness: LawShape | None = None,
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
    skewness : Skewness, MixedSkewness or SampledLaw, optional
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
    normal_quantile(confidence)  # which refuses what is no confidence, before it is looked up
    reaches = _reaches(confidence)
    for start in range(0, flat[0].size, _PIECE):
        piece = slice(start, start + _PIECE)
        est, square, linear, constant, most = (part[piece] for part in flat)
        polynomial = Polynomial(square, linear, constant)
        if isinstance(skewness, SampledLaw):
            low[piece], high[piece] = skewness.interval(est, polynomial, confidence)
            continue
        # An outlier is no better evidence than the largest possible estimate. Were that said only where nothing
        # possible is left, less confidence would at times give more.
        lower, upper = _ends(np.minimum(est, most), polynomial, reaches, skewness)
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
    est: Floats,
    variance: Polynomial,
    reaches: tuple[_Reach, _Reach],
    skewness: Skewness | MixedSkewness | None,
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


def _beyond(x: Floats) -> Floats:
    """Return how much of a normal law is above x."""
    # SciPy's takes longer to load than a whole question takes.
    return np.array([math.erfc(one) for one in (x / math.sqrt(2)).tolist()]) / 2


@lru_cache(maxsize=16)
def _reaches(confidence: float) -> tuple[_Reach, _Reach]:
    """Tabulate Feldman and Cousins' reaches, of the lower and of the upper end.

    A truth m standard errors from zero accepts estimates from m − a to m + b. Likelihood ratios at both ends agree if
    a = (b² + m²)/2m, for m below z, and Φ(b) + Φ(a) − 1 is the confidence. Beyond z both are z.
    """
    z = normal_quantile(confidence)
    m = z * np.linspace(0.0, 1.0, 1025)[1:] ** 2
    low, high = np.maximum(m, normal_quantile(2 * confidence - 1) if confidence > 0.5 else 0.0), np.full_like(m, z)
    b = low  # what is covered is mostly concave in b: Newton's steps from below do not go too far
    for _ in range(8 if confidence > 0.6 else 60):  # next to one half they do, and it is bisection
        a = (b**2 + m**2) / (2 * m)
        covered = 1 - _beyond(b) - _beyond(a)
        low, high = np.where(covered < confidence, b, low), np.where(covered < confidence, high, b)
        slope = (np.exp(-(b**2) / 2) + np.exp(-(a**2) / 2) * b / m) / math.sqrt(2 * math.pi)
        step = b - (covered - confidence) / slope
        b = np.where((step > low - 1e-9) & (step < high + 1e-9), np.clip(step, low, high), (low + high) / 2)
    return _Reach(m + b, b), _Reach(m - (b**2 + m**2) / (2 * m), b)


def quadratic(variance: Callable[[float], Floats]) -> Polynomial:
    """Return the polynomial of degree two through three of its values.

    Examples
    --------
    >>> found = quadratic(lambda c: np.array(3 + 2 * c + 5 * c**2))
    >>> float(found(4.0))
    91.0
    """
    at0, at1, at2 = (np.asarray(variance(c), dtype=np.float64) for c in (0.0, 1.0, 2.0))
    square = (at2 - 2 * at1 + at0) / 2
    return Polynomial(square, at1 - at0 - square, at0)


def inverted(
    value: Floats,
    variance: Polynomial,
    confidence: float,
    *,
    largest: float,
    skewness: "Skewness | SampledLaw | None" = None,
) -> Arrays:
    """Return estimates from 0 to ``largest`` with their standard errors and the intervals that invert their tests."""
    low, high = unified_interval(value, variance, confidence=confidence, largest=largest, skewness=skewness)
    stderr = np.sqrt(variance(np.clip(value, 0.0, largest)))
    return Estimate(value, *np.broadcast_arrays(stderr, low, high))
