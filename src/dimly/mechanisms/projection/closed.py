"""The paper's closed families, whose rows differ in norm: dasgupta, ternary and gaussian.

They are baselines: they must stay correct, and need not be fast. Noise is calibrated to the longest row of a public
vocabulary, which a plan derives and measures. To compare plans without deriving the rows of each, ``likely_norms``
says how long the longest of many rows will be.
"""

import math
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ParameterError, as_integer
from dimly.mechanisms.projection.families import DenseFamily, HashedFamily, Power, Shape
from dimly.mechanisms.projection.streams import Streams
from dimly.privacy.balls import Ball, ball, normal_cdf, precision

MAX_GRID_BITS: Final = 24
"""No normal deviate of 53 bits exceeds 8.3, so on a grid of 2^-24 an entry stays below 2^28: it fits 32 bits,
its row's squared norm (below 69 · 4^24) fits 64, and so do sums of 2^35 of them."""

Series = NDArray[np.complex128]


class Dasgupta(HashedFamily):
    """s of ±1 in k, in places that may be the same (Dasgupta, Kumar, Sarlós)."""

    name = "dasgupta"
    open_vocabulary = False
    has_blocks = True

    def kurtosis(self, blocks: int = 1) -> float:
        """Return κ: s copies worth z/√s are hashed independently of each other, so that ‖z‖₄⁴ shrinks by s."""
        return 3.0 - 2.0 / blocks

    def likely_norm(self, k: int, *, power: Power, blocks: int, row_scale: float, tail: float | None) -> int:
        """Return s, or the likely largest squared sum of signs."""
        del row_scale
        return blocks if power == 1 or tail is None else dasgupta_squared_norm(k, blocks, tail)


class Ternary(DenseFamily):
    """k of +1, 0 and −1 with probabilities 1/6, 2/3, 1/6 (Achlioptas): bytes below 252 in turn, modulo 6."""

    name = "ternary"
    open_vocabulary = False

    def scale(self, k: int, *, blocks: int = 1, grid_bits: int | None = None) -> float:
        """Return √(3/k)."""
        del blocks, grid_bits
        return math.sqrt(3.0 / k)

    def kurtosis(self, blocks: int = 1) -> float:
        """Return κ of entries that are mostly zero."""
        del blocks
        return 3.0

    def likely_norm(self, k: int, *, power: Power, blocks: int, row_scale: float, tail: float | None) -> int:
        """Return a binomial number of ±1."""
        del power, blocks, row_scale
        return -(-k // 3) if tail is None else max(1, ternary_entries(k, tail))

    def _decoded(self, streams: Streams, shape: Shape) -> NDArray[Any]:
        k, length = shape.k, _ternary_length(shape.k)
        while True:
            octets = streams.first(length)
            usable = octets < 252  # the largest multiple of 6 that a byte can hold
            rank = np.cumsum(usable, axis=1, dtype=np.int32)
            if (rank[:, -1] >= k).all():
                return _TERNARY[octets[usable & (rank <= k)].reshape(-1, k)]
            length *= 2  # the stream goes on: a longer one begins with the shorter one


class Gaussian(DenseFamily):
    """k normal deviates of variance 1/k on a grid of 2^-b (the paper's)."""

    name = "gaussian"
    open_vocabulary = False

    def scale(self, k: int, *, blocks: int = 1, grid_bits: int | None = None) -> float:
        """Return 2^-b, less what rounding to the grid adds to the variance 1/k of an entry: 4^-b/12."""
        del blocks
        bits = grid_bits or 0
        return 2.0**-bits / math.sqrt(1.0 + k * 4.0**-bits / 12.0)

    def kurtosis(self, blocks: int = 1) -> float:
        """Return κ of a normal deviate."""
        del blocks
        return 3.0

    def likely_norm(self, k: int, *, power: Power, blocks: int, row_scale: float, tail: float | None) -> int:
        """Return the norm of entries of variance 1/k, in steps of ``row_scale``."""
        del blocks
        if power == 1:
            sum_of_all = k * math.sqrt(2 / math.pi) if tail is None else half_normal_sum(k, tail)
            return math.ceil(sum_of_all / math.sqrt(k) / row_scale)
        squared = 1.0 if tail is None else chi_squared(k, tail) / k
        return math.ceil(squared / row_scale**2)

    def _check_grid(self, k: int, grid_bits: int | None) -> None:
        if grid_bits is None:
            raise ParameterError(f"grid_bits must be 1 to {MAX_GRID_BITS} for gaussian, got None.")
        as_integer("grid_bits", grid_bits, 1, MAX_GRID_BITS)
        if 4**grid_bits < k:
            # Sheppard's correction 1/12, on which the scale rests, is exact to 1e-7 from one grid step up.
            raise ParameterError(
                f"grid_bits must satisfy 4^grid_bits ≥ k = {k}, got {grid_bits}. "
                "Entries of standard deviation below one step of the grid are mostly zero: use a finer grid."
            )

    def _entry_type(self, shape: Shape) -> type[np.signedinteger[Any]]:
        largest = 8.3 * 2.0 ** (shape.grid_bits or 0) / math.sqrt(shape.k)
        return np.int16 if largest < 2**15 - 1 else np.int32

    def _decoded(self, streams: Streams, shape: Shape) -> NDArray[Any]:
        return _on_grid(streams.words(shape.k), k=shape.k, grid_bits=shape.grid_bits or 0)


_TERNARY: Final = np.array([(1, -1, 0, 0, 0, 0)[byte % 6] for byte in range(256)], dtype=np.int8)


def _ternary_length(k: int) -> int:
    """Return a number of bytes of which k are below 252 nearly always: 1/64 of them are not."""
    return k + k // 32 + 24


# Far above the few units in the last place by which Φ⁻¹ differs between libraries and processors.
_DOUBTFUL: Final = 1e-13


def _on_grid(words: NDArray[np.uint64], *, k: int, grid_bits: int) -> NDArray[np.float64]:
    """Return round(Φ⁻¹((w + ½)/2⁵³)·2^grid_bits/√k) for the upper 53 bits w of each word: the same on every machine.

    Mathematical libraries compute in other steps on other processors, and their last digits differ. Where those could
    decide the rounding, Φ decides it in ball arithmetic. A sensitivity is proven, and a stored P is compared, by
    deriving the rows again, perhaps elsewhere.
    """
    from scipy.special import ndtri  # noqa: PLC0415 - slow to import, and of this family alone

    w = (words >> np.uint64(11)).astype(np.int64)
    # From the lower half of the law only: above 2⁵² a double cannot hold w + ½, and the largest w would be an infinity.
    upper = w >= 2**52
    w = np.where(upper, 2**53 - 1 - w, w)
    sizes = -ndtri((w + 0.5) * 2.0**-53) * (2.0**grid_bits / math.sqrt(k))
    rounded: NDArray[np.float64] = np.rint(sizes)
    for at in zip(*np.nonzero(0.5 - np.abs(sizes - rounded) <= _DOUBTFUL * sizes), strict=True):
        rounded[at] = _rounded_size(int(w[at]), math.floor(sizes[at]), k=k, grid_bits=grid_bits)
    return np.where(upper, rounded, -rounded)


def _rounded_size(w: int, below: int, *, k: int, grid_bits: int) -> int:
    """Return ``below`` or the next integer, whichever is nearer to −Φ⁻¹((w + ½)/2⁵³)·2^grid_bits/√k."""
    with precision(192):
        border = normal_cdf(-ball(Fraction(2 * below + 1, 2 ** (grid_bits + 1))) * Ball(k).sqrt())
        return below + 1 if ball(Fraction(2 * w + 1, 2**54)) < border else below


# Neither this nor chi_squared asks scipy.special, which takes longer to import than a plan takes to be chosen.
def ternary_entries(k: int, tail: float) -> int:
    """Return the smallest n that a row has more entries than with probability at most ``tail``."""
    n = np.arange(k + 1)
    log_factorials = np.cumsum(np.log(np.maximum(n, 1)))
    log_ways = log_factorials[k] - log_factorials - log_factorials[::-1]
    law = np.exp(log_ways + (k - n) * math.log(2) - k * math.log(3))
    return _least_beyond(law, tail)


def _least_beyond(law: NDArray[np.float64], tail: float) -> int:
    """Return the smallest n that is exceeded with probability at most ``tail``, by the law of 0, 1, 2 and so on."""
    beyond = np.append(np.cumsum(law[:0:-1])[::-1], 0.0)
    return int(np.argmax(beyond <= tail))


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
        below = 1 - math.erfc(s / math.sqrt(2)) / 2
        ratio = math.exp(-(s**2) / 2) / below / math.sqrt(2 * math.pi)
        where = k * (s + ratio)
        w = math.sqrt(max(2 * (s * where - k * (s**2 / 2 + math.log(2 * below))), 1e-300))
        u = s * math.sqrt(k * (1 - ratio * (s + ratio)))
        density = math.exp(-(w**2) / 2) / math.sqrt(2 * math.pi)
        return where, math.erfc(w / math.sqrt(2)) / 2 + density * (1 / u - 1 / w)

    low, high = 1e-3 / math.sqrt(k), 40.0  # beyond the second is no probability that a double can hold
    if at(low)[1] <= tail:
        return at(low)[0]
    while high - low > 1e-7:
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[1] > tail else (low, middle)
    return at(high)[0]


def chi_squared(k: int, tail: float) -> float:
    """Return what the squared length of ``k`` standard normals exceeds with probability ``tail``, of at most ½.

    By Newton's steps on the logarithm of the probability, from Wilson and Hilferty's approximation.

    Examples
    --------
    >>> round(chi_squared(2, 0.01), 6)  # -2·log(0.01)
    9.21034
    """
    x = k * (1 - 2 / (9 * k) - NormalDist().inv_cdf(tail) * math.sqrt(2 / (9 * k))) ** 3
    with precision(64):
        for _ in range(20):
            beyond = float(Ball(x / 2).gamma_upper(k / 2, regularized=True))
            density = math.exp((k / 2 - 1) * math.log(x / 2) - x / 2 - math.lgamma(k / 2)) / 2
            step = beyond * math.log(beyond / tail) / density
            x += step
            if abs(step) <= 1e-6 * x:  # the error left is about its square
                break
    return x


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
    return _least_beyond(law, tail)
