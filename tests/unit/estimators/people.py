"""Made-up people, other ones at each call: the register of released rows is one for the process."""

import itertools

import numpy as np
from numpy.typing import NDArray

_seeds = itertools.count()


def people(n: int = 40, d: int = 60) -> NDArray[np.int64]:
    """Return bits of people who were never seen before."""
    return (np.random.default_rng([20, next(_seeds)]).random((n, d)) < 0.4).astype(np.int64)


def values(n: int = 40, d: int = 60) -> NDArray[np.float64]:
    """Return values in [0, 1], a third of them zero."""
    shifted: NDArray[np.float64] = np.random.default_rng([21, next(_seeds)]).random((n, d)) * 1.5 - 0.5
    return np.maximum(shifted, 0.0)
