"""Quantiles and their intervals from noisy cumulative counts at public boundaries, for surveys.

Each count has the same noise, and the true ones rise. Isotonic regression averages where they hardly rise, so that fine
boundaries, which cost no privacy, lower the noise. All of this is computed from noisy counts alone: post-processing.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimly.mechanisms.noise.tables import Cells

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LEVEL: Final = 0.95
_FINE: Final = 200
_WORSE: Final = 2.5
"""How much worse than the best fit, in variances of the noise, a curve may fit that reaches the count elsewhere.

In the limit of many boundaries, whatever the curve, 95 % of all differences are below 2.27 (Banerjee and Wellner 2001,
"Likelihood ratio tests for monotone functions"). Laplace noise at few boundaries takes a little more: at 2.5,
intervals of four boundaries or more held quantiles of four real tables and of nine made populations in 0.94 to 0.97 of
1,000 surveys."""


class Quantile(NamedTuple):
    """A quantile and its 95 % interval, for the noise alone: the people are those of the table."""

    value: float
    low: float
    high: float


def noise_between(cells: Cells) -> tuple[int, int]:
    """Return between which values the noise of a table lies with a probability of at least 95 %."""
    below = cells.high.astype(np.float64) / 2.0**64  # P(noise ≤ value)
    low = int(np.searchsorted(below, (1 - LEVEL) / 2, side="right"))
    high = int(np.searchsorted(below, (1 + LEVEL) / 2, side="left"))
    return cells.first + low, cells.first + high


def boundaries(largest: int) -> Integers:
    """Return public boundaries below ``largest``: every integer up to 400, then growing by half a percent.

    They are at least 1 apart. So one attribute, which moves a weight or a squared distance by at most 1, moves it
    across at most one of them.

    Examples
    --------
    >>> found = boundaries(1000)
    >>> found[:3].tolist(), found[-2:].tolist(), int(np.diff(found).min())
    ([0, 1, 2], [993, 997], 1)
    """
    found = [0]
    while (after := found[-1] + max(1, found[-1] // _FINE)) < largest:
        found.append(after)
    return np.array(found, np.int64)


def cumulative(numbers: Integers, at: Integers) -> Integers:
    """Return how many numbers are at most each boundary, exactly."""
    counts = np.bincount(np.searchsorted(at, numbers, side="left"), minlength=len(at) + 1)
    return np.cumsum(counts[: len(at)])


def quantiles(
    noisy: Integers, at: Integers, *, total: int, shares: Sequence[float], variance: float, whole: bool = True
) -> tuple[Quantile, ...]:
    """Return quantiles of ``total`` numbers.

    Parameters
    ----------
    noisy : ndarray of int
        Noisy counts of numbers that are at most each boundary.
    at : ndarray of int
        The boundaries, rising from 0. Beyond the last one nothing is known of a number.
    total : int
        How many numbers there are.
    shares : sequence of float
        Such as 0.5 for the median: the smallest number that at least this share of all is at most.
    variance : float
        Of the noise of one count.
    whole : bool, default=True
        Whether the numbers are integers, and quantiles therefore are.

    Returns
    -------
    tuple of Quantile
        An interval holds every boundary at which a rising curve that reaches the count there fits about as well as
        the best one. That adapts to how steep the curve is, which a noisy one does not tell. It reaches whole
        boundaries, so that short intervals hold more than 95 %. Where the quantile falls into a gap between two
        groups, it is wide, but need not reach both ends of the gap.
    """
    curve = _fitted(noisy.astype(np.float64), total)
    found = []
    for target in (share * total for share in shares):
        explained = _explained(noisy.astype(np.float64) - target)
        possible = np.flatnonzero(explained >= explained.max() - _WORSE * variance)
        first, last = int(possible[0]), min(int(possible[-1]), len(at) - 1)
        before = float(at[first - 1] + whole) if first else 0.0
        value = _value(_position(curve, target), at, whole=whole)
        found.append(Quantile(value, min(before, value), max(float(at[last]), value)))
    return tuple(found)


def _explained(above: Floats) -> Floats:
    """Return how many squares each place explains, for a rising curve that is below 0 before it and above 0 from there.

    The best such curve is the isotonic regression of each side by itself, cut off at 0.
    """
    left = _explained_before(above)
    right = _explained_before(-above[::-1])[::-1]
    return left + right


def _explained_before(above: Floats) -> Floats:
    """Return what the part of the isotonic regression below 0 explains of the first 0, 1, 2, … numbers."""
    found = [0.0]
    blocks = [(-math.inf, 1, 0.0)]  # sum, length, and what blocks up to here explain, in the order of their means
    for height in above.tolist():
        total, length = height, 1
        while blocks[-1][0] * length >= total * blocks[-1][1]:  # pool adjacent violators
            total, length = total + blocks[-1][0], length + blocks[-1][1]
            blocks.pop()
        blocks.append((total, length, blocks[-1][2] + (total * total / length if total < 0 else 0.0)))
        found.append(blocks[-1][2])
    return np.array(found)


def _fitted(noisy: Floats, total: int) -> Floats:
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import, and of surveys alone

    curve: Floats = np.clip(isotonic_regression(noisy).x, 0, total)
    return curve


def _position(curve: Floats, target: float) -> float:
    """Return where a rising curve reaches a count: between two boundaries by the line between them, −1 before all."""
    after = int(np.searchsorted(curve, target, side="left"))
    if after == len(curve):
        return len(curve) - 1.0
    before = curve[after - 1] if after else 0.0
    return after - 1 + float((target - before) / (curve[after] - before)) if curve[after] > before else float(after)


def _value(position: float, at: Integers, *, whole: bool) -> float:
    """Return the number at a position among the boundaries; of integers the next one."""
    if position <= 0:
        return 0.0
    before = min(int(position), len(at) - 1)
    after = min(before + 1, len(at) - 1)
    value = float(at[before] + (position - before) * (at[after] - at[before]))
    return float(np.ceil(value - 1e-9)) if whole else value
