"""Whether drawn noise follows the plan's table to its ends, and numbers do not depend on each other.

Guesses about coins see the middle of a law. Noise that ends at ten standard deviations makes one coin in a million
certain, and no share of right guesses shows that; a reader of the histogram sees that nothing came where something
must. So people who have nothing are published, and what is published is compared with the table that was proven.

Both tests are exact: no alarm rests on an approximation, and each has a stated rate.
"""

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

from dimly.audit.coin_trials import CoinTrials, coin_source
from dimly.audit.exact_tables import weights_of
from dimly.curator.options import Progress
from dimly.mechanisms.noise.tables import TOTAL
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_parts import FlipNoise
from dimly.mechanisms.projection.rows import IntArray

_FINENESS: Final = math.sqrt(0.5)  # of tail masses from one threshold to the next
_RAREST: Final = 1e-12  # no audit draws so much that rarer noise would be met
_LONGEST: Final = 1 << 21  # numbers whose every lag is looked at
_HELD: Final = 1 << 22  # values that are counted one by one

Signs = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """The plan's law of one published number without attributes, cut at thresholds that are dense at both ends.

    Attributes
    ----------
    edges : ndarray of int64, rising
        Bin i holds the values from ``edges[i − 1]`` to ``edges[i] − 1``; the first and the last bin have no end.
    shares : ndarray of float64
        The exact probability of each bin, one more than there are edges.
    """

    edges: IntArray
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, plan: Plan, *, largest: int = 0) -> "NoiseLaw":
        """Return the law of a plan's numbers, or of whether a bit is flipped.

        Where noise was added to other numbers than 0, ``largest`` is how far from 0 they were at most: they were taken
        off again after the sum was brought into the range of the plan's type, and no bin may begin where that shows.
        """
        noise = plan.noise
        if isinstance(noise, FlipNoise):
            return cls(np.array([1]), np.array([1 - noise.probability, noise.probability]))
        cells = plan.table.cells()
        weights = weights_of(cells)
        limits = np.iinfo(plan.dtype)
        below = [0, *accumulate(weights)]  # of values < first + i, in units of 2⁻¹²⁸
        falling = -np.array([(TOTAL - one) / TOTAL for one in below])
        steps = int(math.log(2 * _RAREST) / math.log(_FINENESS))
        up = {int(np.searchsorted(falling, -0.5 * _FINENESS**step)) for step in range(steps)}
        places = up | {len(weights) - i for i in up}  # laws are symmetric
        # The outermost cells stand for all that lies beyond; what a type cannot hold is published as its end.
        low, high = limits.min + largest, limits.max - largest
        kept = [i for i in sorted(places) if 0 < i < len(weights) and low < cells.first + i <= high]
        ends = [0, *(below[i] for i in kept), TOTAL]
        shares = np.array([(b - a) / TOTAL for a, b in pairwise(ends)])
        return cls(np.array([cells.first + i for i in kept], np.int64), shares)

    def counted(self, values: IntArray) -> IntArray:
        """Return how many values fall into each bin."""
        if not len(values):
            return np.zeros(len(self.shares), np.int64)
        low, high = int(values.min()), int(values.max())
        if high - low >= _HELD:
            found: IntArray = np.bincount(
                np.searchsorted(self.edges, values, side="right"), minlength=len(self.shares)
            ).astype(np.int64)
            return found
        sums = np.concatenate([[0], np.cumsum(np.bincount(values - low, minlength=high - low + 1))])
        at = sums[np.clip(self.edges - low, 0, high - low + 1)]
        return np.diff(np.concatenate([[0], at, [sums[-1]]]))

    def wrong(self, counts: IntArray, *, false_alarm: float) -> str | None:
        """Return what does not fit the law, in words; None if everything does.

        Each bin, all from each threshold up, and all from each threshold down are binomial. The smallest probability
        decides, times the number of things that are looked at. What is far off has many that are 0 in floating point:
        named is the one whose count is off by the largest factor.
        """
        n = int(counts.sum())
        up, down = np.cumsum(counts[::-1])[::-1][1:], np.cumsum(counts)[:-1]
        up_shares, down_shares = np.cumsum(self.shares[::-1])[::-1][1:], np.cumsum(self.shares)[:-1]
        seen = np.concatenate([up, down, counts])
        shares = np.minimum(np.concatenate([up_shares, down_shares, self.shares]), 1.0)
        names = [
            *(f"of {edge} or more" for edge in self.edges.tolist()),
            *(f"of {edge - 1} or less" for edge in self.edges.tolist()),
            *_between(self.edges.tolist()),
        ]
        chance = np.minimum(scipy.stats.binom.cdf(seen, n, shares), scipy.stats.binom.sf(seen - 1, n, shares))
        factor = np.abs(np.log((seen + 0.5) / (n * shares + 0.5)))
        worst = int(np.argmax(np.where(chance == chance.min(), factor, -1)))
        if 2 * len(seen) * float(chance[worst]) > false_alarm:
            return None
        return f"noise {names[worst]} came {int(seen[worst]):,} times, where {n * shares[worst]:,.1f} were expected"


def _between(edges: list[int]) -> list[str]:
    inner = [f"from {a} to {b - 1}" if b - a > 1 else f"of {a}" for a, b in pairwise(edges)]
    return [f"of {edges[0] - 1} or less", *inner, f"of {edges[-1]} or more"]


class NoiseComparison:
    """Draws noise in as many pieces as one likes, and compares all of it with the plan's law."""

    def __init__(self, trials: CoinTrials, plan: Plan, *, false_alarm: float) -> None:
        self._trials, self._false_alarm = trials, false_alarm
        self._law = NoiseLaw.of(plan)
        self._counts = np.zeros(len(self._law.shares), np.int64)

    def draw(self, draws: int, watcher: Progress) -> None:
        """Take so many further draws of noise."""
        at_once = self._trials.draws_at_once
        for start in range(0, draws, at_once):
            step = min(at_once, draws - start)
            self._counts += self._law.counted(self._trials.noise(step).reshape(-1))
            watcher.advance(step)

    def result(self) -> tuple[str | None, int]:
        """Return what does not fit the plan's law, in words, and how many numbers were drawn."""
        return self._law.wrong(self._counts, false_alarm=self._false_alarm), int(self._counts.sum())


def dependence_drawn(trials: CoinTrials, plan: Plan, *, numbers: int, false_alarm: float) -> tuple[str | None, int]:
    """Draw two batches by keystreams of their own, and return where noise goes with noise, and how many were drawn."""
    draws = max(1, min(numbers, _LONGEST) // trials.numbers)
    flips = isinstance(plan.noise, FlipNoise)

    def batch() -> Signs:
        noise = trials.noise(draws).reshape(-1)
        # Bits are flipped less often than not: the difference of two that are flipped as seldom is fair.
        return fair_signs(noise - trials.noise(draws).reshape(-1) if flips else noise)

    one, other = batch(), batch()
    return dependence(one, other, false_alarm=false_alarm), 2 * len(one)


def fair_signs(noise: IntArray) -> Signs:
    """Return signs of symmetric noise; 0 gets one by a coin of the attacker's."""
    signs = np.sign(noise).astype(np.float32)
    even = np.flatnonzero(signs == 0)
    signs[even] = 2 * coin_source().integers(0, 2, len(even), dtype=np.int8) - 1
    return signs


def dependence(one: Signs, other: Signs | None = None, *, false_alarm: float) -> str | None:
    """Return where signs go with signs, in words: with others of the same piece, or of one by another keystream.

    Every distance is looked at. Signs of independent noise that is as often above 0 as below are fair coins, and so
    are their products along one distance: the number of equal ones is binomial, whatever the law.

    References
    ----------
    W. Hoeffding, "Probability inequalities for sums of bounded random variables", JASA (1963): a sum of m fair signs
    is beyond ±t with probability at most 2·e^(−t²/2m).
    """
    n = len(one)
    lags = np.arange(1, n)
    size = scipy.fft.next_fast_len(2 * n, real=True)
    spectrum = scipy.fft.rfft(one, size).conj()
    looked_at = [(scipy.fft.irfft(spectrum * spectrum.conj(), size)[1:n], lags, n - lags, "in the same batch")]
    if other is not None:
        across = scipy.fft.irfft(spectrum * scipy.fft.rfft(other, size), size)
        looked_at.append((across[:n], np.arange(n), n - np.arange(n), "in another batch"))
        looked_at.append((across[size - n + 1 :], lags - n, lags, "in another batch"))
    total = sum(len(sums) for sums, *_ in looked_at)
    for sums, distances, overlap, where in looked_at:
        evidence = np.rint(sums) ** 2 / (2 * overlap)
        best = int(np.argmax(evidence)) if len(evidence) else -1
        if best >= 0 and evidence[best] >= math.log(2 * total / false_alarm):
            return f"noise is correlated with the noise {int(distances[best])} numbers later, {where}"
    return None
