"""Intervals of estimates whose variance is a known polynomial of what is estimated."""

from collections.abc import Callable

import numpy as np

from dimly.analyst.confidence import Skewness, unified_interval
from dimly.analyst.estimate import Arrays, Estimate
from dimly.mechanisms.error_models import Floats, Polynomial


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
    value: Floats, variance: Polynomial, confidence: float, *, largest: float, skewness: Skewness | None = None
) -> Arrays:
    """Return estimates from 0 to ``largest`` with their standard errors and the intervals that invert their tests."""
    low, high = unified_interval(value, variance, confidence=confidence, largest=largest, skewness=skewness)
    stderr = np.sqrt(variance(np.clip(value, 0.0, largest)))
    return Estimate(value, *np.broadcast_arrays(stderr, low, high))
