"""Similarities, which are ratios of estimates: plug-ins, with intervals from the covariances of what they divide."""

import numpy as np

from dimly.analyst.estimate import Arrays, Estimate, exactly, within_one
from dimly.analyst.readers import Pairs
from dimly.mechanisms.error_models import Floats, Polynomial
from dimly.mechanisms.intervals import ratio_interval


def cosine_of(pairs: Pairs, covariance: Floats | None, confidence: float) -> Arrays:
    """Return cosines, NaN where a squared norm is not positive.

    Parameters
    ----------
    pairs : Pairs
    covariance : ndarray (pairs, 3, 3), optional
        Of the two squared norms and the inner product; None if these are exact.
    confidence : float
    """
    nx, ny = (np.where(n > 0, n, np.nan) for n in (pairs.squared_norm_x, pairs.squared_norm_y))
    value = pairs.inner_product / np.sqrt(nx * ny)
    if covariance is None:
        return exactly(value)
    gradient = np.stack([-value / (2 * nx), -value / (2 * ny), 1 / np.sqrt(nx * ny)], axis=-1)
    variance = np.einsum("ni,nij,nj->n", gradient, covariance, gradient)
    return within_one(value, np.sqrt(np.maximum(variance, 0.0)), confidence)


def jaccard_of(pairs: Pairs, covariance: Floats | None, confidence: float) -> Arrays:
    """Return Jaccard similarities with Fieller's intervals, NaN where the number of all attributes is not positive.

    Parameters
    ----------
    pairs, covariance, confidence
        As of :func:`cosine_of`; of exact pairs without any attribute, two empty sets are alike.
    """
    either = pairs.squared_norm_x + pairs.squared_norm_y - pairs.inner_product
    value = pairs.inner_product / np.where(either > 0, either, np.nan)
    if covariance is None:
        return exactly(np.where(either > 0, value, 1.0))
    # c − J·(nx + ny − c) is the product of (nx, ny, c) with (0, 0, 1) + J·(−1, −1, 1).
    fixed, along = np.array([0.0, 0.0, 1.0]), np.array([-1.0, -1.0, 1.0])
    square, cross, constant = (
        np.einsum("i,nij,j->n", u, covariance, v) for u, v in ((along, along), (fixed, along), (fixed, fixed))
    )
    variance = Polynomial(square, 2 * cross, constant)
    low, high = ratio_interval(pairs.inner_product, either, variance, confidence=confidence)
    spread = np.sqrt(variance(np.clip(np.nan_to_num(value), 0.0, 1.0)))
    stderr = np.divide(spread, either, out=np.full_like(spread, np.inf), where=either > 0)
    return Estimate(value, stderr, low, high)
