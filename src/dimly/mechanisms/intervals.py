"""Confidence intervals of squared distances, by inverting the test that the variance gives."""

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from dimly.errors import ParameterError
from dimly.mechanisms.error_models import Floats, Polynomial


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
        raise ParameterError(f"confidence must be in (0, 1), got {confidence!r}.")
    return float(ndtri((1 + confidence) / 2))
