"""How long the longest of many rows of P will be, before any is drawn: the median of that maximum.

Noise is calibrated to the longest row. Where all rows have the same norms there is nothing to predict; elsewhere the
rows of a plan are drawn and measured. This is for comparing plans without drawing the rows of each.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import bdtrc, chdtri, log_ndtr, ndtr

from dimly.mechanisms.families import family_named
from dimly.mechanisms.projection import Sensitivity

Series = NDArray[np.complex128]


def longest_row(name: str, k: int, *, blocks: int, row_scale: float, n_attributes: int | None) -> Sensitivity:
    """Return the norms of a row, or, where rows differ, the likely largest of ``n_attributes`` of them.

    Without a number of attributes: those of an average row.
    """
    family = family_named(name)
    l1, l2_squared = family.l1(k, blocks=blocks), family.l2_squared(k, blocks=blocks)
    if l1 is not None and l2_squared is not None:
        return Sensitivity(l1, l2_squared)
    # Of one row: the largest of all has its median where a row is longer with this probability. None: the average row.
    tail = None if n_attributes is None else -math.expm1(-math.log(2) / n_attributes)
    if name == "gaussian":  # entries of variance 1/k
        sum_of_all = k * math.sqrt(2 / math.pi) if tail is None else half_normal_sum(k, tail)
        squared = 1.0 if tail is None else float(chdtri(k, tail)) / k
        return Sensitivity(math.ceil(sum_of_all / math.sqrt(k) / row_scale), math.ceil(squared / row_scale**2))
    if name == "ternary":  # a binomial number of ±1
        entries = -(-k // 3) if tail is None else max(1, _ternary_entries(k, tail))
        return Sensitivity(entries, entries)
    return Sensitivity(blocks, blocks if tail is None else dasgupta_squared_norm(k, blocks, tail))


def _ternary_entries(k: int, tail: float) -> int:
    """Return the smallest n that a row has more entries than with probability at most ``tail``."""
    low, high = 0, k
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if float(bdtrc(middle, k, 1 / 3)) <= tail else (middle + 1, high)
    return low


def half_normal_sum(k: int, tail: float) -> float:
    """Return what the sum of the absolute values of ``k`` standard normals exceeds with probability ``tail``.

    By Lugannani and Rice's saddlepoint formula, from the cumulants k·(s²/2 + log 2Φ(s)); for a tail of at most ½.

    Examples
    --------
    >>> round(half_normal_sum(1, 0.01), 2)  # exactly 2.58
    2.57
    """

    def at(s: float) -> tuple[float, float]:
        """Return the sum at which the saddlepoint is ``s``, and the probability beyond it."""
        ratio = math.exp(-(s**2) / 2 - float(log_ndtr(s))) / math.sqrt(2 * math.pi)
        where = k * (s + ratio)
        w = math.sqrt(max(2 * (s * where - k * (s**2 / 2 + math.log(2) + float(log_ndtr(s)))), 1e-300))
        u = s * math.sqrt(k * (1 - ratio * (s + ratio)))
        density = math.exp(-(w**2) / 2) / math.sqrt(2 * math.pi)
        return where, float(ndtr(-w)) + density * (1 / u - 1 / w)

    low, high = 1e-3 / math.sqrt(k), 40.0  # beyond the second is no probability that a double can hold
    if at(low)[1] <= tail:
        return at(low)[0]
    return at(float(brentq(lambda s: math.log(max(at(s)[1], 1e-300)) - math.log(tail), low, high, xtol=1e-6)))[0]


@lru_cache(maxsize=1024)
def dasgupta_squared_norm(k: int, blocks: int, tail: float) -> int:
    """Return the smallest n that ‖row‖² exceeds with probability at most ``tail``, of signs each in one of k places.

    Exact but for rounding: a place's generating function of the number m of its signs (x^m/m!) and of their squared sum
    (y^square, at roots of unity), taken to the k-th power.
    """
    size = blocks**2 + 1
    place = np.zeros((blocks + 1, size))
    for m in range(blocks + 1):
        for ups in range(m + 1):
            place[m, (2 * ups - m) ** 2] += math.comb(m, ups) / 2**m / math.factorial(m)

    def times(one: Series, other: Series) -> Series:
        return np.stack([(one[: m + 1] * other[m::-1]).sum(axis=0) for m in range(blocks + 1)])

    factor, exponent = np.fft.fft(place), k
    power = np.zeros_like(factor)
    power[0] = 1.0
    while exponent:
        if exponent & 1:
            power = times(power, factor)
        factor, exponent = times(factor, factor), exponent >> 1
    law = np.fft.ifft(power[blocks]).real * math.factorial(blocks) / float(k) ** blocks
    beyond = np.append(np.cumsum(law[:0:-1])[::-1], 0.0)
    return int(np.argmax(beyond <= tail))
