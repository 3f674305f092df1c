"""Tests of stated means and variances, two-sided, at one false-alarm rate. What uses them shows their power."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

ALPHA = 1e-6
Floats = NDArray[np.float64]


def studentized(values: Floats, mean: float, *, corrected: bool = True) -> float:
    """Return Student's t for a stated mean, corrected for skewness: nearly a standard normal deviate.

    Squared deviations of squared lengths are skewed, so that plain t rejects far too often in the far tail. The
    monotone cubic transformation of Hall (1992), "On the removal of skewness by transformation", mends that;
    test_checks.py shows both.
    """
    n = len(values)
    spread = values.std(ddof=1)
    t = math.sqrt(n) * (values.mean() - mean) / spread
    if not corrected:
        return float(t)
    skew = float(((values - values.mean()) ** 3).mean() / spread**3) / math.sqrt(n)
    return float(t + skew * (t**2 / 3 + 1 / 6) + skew**2 * t**3 / 27)


def mean_is(values: Floats, mean: float) -> bool:
    """Two-sided test of a mean at level ALPHA."""
    return bool(abs(studentized(values, mean)) <= stats.norm.isf(ALPHA / 2))


def variance_is(values: Floats, mean: float, variance: float) -> bool:
    """Two-sided test of a variance about a known mean: it is the mean of the squared deviations."""
    return mean_is((values - mean) ** 2, variance)


def alarm(what: str, values: Floats, stated: float) -> str:
    return (
        f"{what}: measured {values.mean():.4f} ± {values.std() / math.sqrt(len(values)):.4f}, stated {stated:.4f}; "
        f"what is correct fails for a share of {ALPHA:g} of all choices of seeds"
    )
