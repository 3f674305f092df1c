"""How far one change moves what is published."""

import numpy as np
from numpy.typing import NDArray

from dimly.mechanisms import Plan
from dimly.release import Sketches


def moved(plan: Plan, one: Sketches, other: Sketches) -> NDArray[np.int64]:
    """Return by how much each published number moved: bits by one, distances as a square matrix."""
    a, b = one.values, other.values
    if plan.dtype == "bit":
        a, b = (np.unpackbits(values, axis=1, bitorder="little") for values in (a, b))
    difference: NDArray[np.int64] = a.astype(np.int64) - b
    if plan.mechanism != "noisy-distances":
        return difference
    square = np.zeros((len(one), len(one)), np.int64)
    square[np.triu_indices(len(one), 1)] = difference
    return square


def check(plan: Plan, difference: NDArray[np.int64], person: int) -> None:
    """Only the person's own numbers moved, no more of them than the plan says and no farther."""
    if plan.mechanism == "noisy-distances":
        own = np.concatenate([difference[person], difference[:, person]])
    else:
        own = difference[person]
    assert np.abs(difference).sum() == np.abs(own).sum()
    assert np.count_nonzero(own) <= plan.touched
    assert np.abs(own).sum() <= plan.sensitivity.l1
    assert (own**2).sum() <= plan.sensitivity.l2_squared
