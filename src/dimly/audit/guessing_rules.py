"""When an attacker guesses: thresholds and frequencies, fixed on pilot draws before the coins count.

The plan says how much more likely an output is if a coin says "present", and that is the best rule if the noise is as
the plan says. It is not where the noise has another shape: if it ends too early, an output that the plan calls
ambiguous is certain. So the attacker also counts how often each output was seen with either side of a coin, and takes
the rule that will prove more.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dimly.audit.coin_trials import ScoredCoins
from dimly.audit.guess_bounds import Errors, Guesses, epsilon_from_guesses
from dimly.mechanisms.projection.rows import IntArray

_LEAST_GUESSED: Final = 50  # coins that a rule has to guess to be believed
_LEAST_COUNTED: Final = 16  # coins beyond the last bin at either end
_MOST_BINS: Final = 256
_MOST_THRESHOLDS: Final = 256
_CLEARLY: Final = 1.05
_UNIT: Final = 1000.0  # of scores from frequencies, which are integers like all others


@dataclass(frozen=True, eq=False)
class Frequencies:
    """What was seen with either side of a coin: for each number that an attacker looks at, bins and their log odds."""

    edges: tuple[IntArray, ...]
    odds: tuple[IntArray, ...]

    @classmethod
    def of(cls, seen: ScoredCoins) -> "Frequencies":
        """Count in one sample. Odds are taken a standard error nearer to even, so that few coins say little."""
        edges, odds = [], []
        for values in _looked_at(seen):
            cut = _edges(values)
            place = np.searchsorted(cut, values, side="right")
            present = np.bincount(place[seen.coins], minlength=len(cut) + 1) + 0.5
            absent = np.bincount(place[~seen.coins], minlength=len(cut) + 1) + 0.5
            log = np.log(present / absent)
            careful = np.sign(log) * np.maximum(0.0, np.abs(log) - np.sqrt(1 / present + 1 / absent))
            edges.append(cut)
            odds.append(np.rint(_UNIT * careful).astype(np.int64))
        return cls(tuple(edges), tuple(odds))

    def scores(self, seen: ScoredCoins) -> IntArray:
        """Return the sum of log odds for each coin."""
        total = np.zeros(len(seen.coins), np.int64)
        for values, cut, odds in zip(_looked_at(seen), self.edges, self.odds, strict=True):
            total += odds[np.searchsorted(cut, values, side="right")]
        return total


def _looked_at(seen: ScoredCoins) -> tuple[IntArray, ...]:
    return (seen.scores, *seen.extremes)


def _edges(values: IntArray) -> IntArray:
    """Return where bins begin: at every value, or at quantiles that are dense at both ends."""
    ordered = np.sort(values)
    n = len(ordered)
    if n <= 2 * _LEAST_COUNTED:
        return np.empty(0, np.int64)
    found = np.unique(ordered[_LEAST_COUNTED : n - _LEAST_COUNTED])
    if len(found) > _MOST_BINS:
        tail = _LEAST_COUNTED * 2 ** np.arange(int(math.log2(n / _LEAST_COUNTED)))
        ranks = np.concatenate([tail, n - tail, np.linspace(_LEAST_COUNTED, n - _LEAST_COUNTED, _MOST_BINS // 2)])
        found = np.unique(ordered[np.clip(ranks.astype(np.int64), 0, n - 1)])
    edges: IntArray = found
    return edges


@dataclass(frozen=True, eq=False)
class GuessingRule:
    """Which coins to guess: those with a score of at least ``threshold``, on either side or on one."""

    threshold: int
    frequencies: Frequencies | None = None
    """How scores are made; None for the likelihood ratio that the plan states."""
    side: int = 1
    """Where one side is tested alone: +1 to say "present", −1 to say "absent"."""

    def _scored(self, seen: ScoredCoins) -> ScoredCoins:
        return seen if self.frequencies is None else ScoredCoins(seen.coins, self.frequencies.scores(seen))

    def guesses(self, seen: ScoredCoins) -> Guesses:
        """Guess coins on both sides, and count."""
        return guessed(self._scored(seen), self.threshold)

    def errors(self, seen: ScoredCoins) -> Errors:
        """Test one side alone, and count what was wrong."""
        scored = self._scored(seen)
        says, truth = self.side * scored.scores >= self.threshold, scored.coins == (self.side > 0)
        return _errors(says, truth)


def guessed(seen: ScoredCoins, threshold: int) -> Guesses:
    """Guess coins whose score is at least ``threshold`` on either side, and count."""
    made = np.abs(seen.scores) >= max(threshold, 1)
    right = (seen.scores[made] > 0) == seen.coins[made]
    return Guesses(len(seen.coins), int(made.sum()), int(right.sum()))


def erred(seen: ScoredCoins) -> Errors:
    """Call every coin by the sign of its score, and count what was wrong."""
    return _errors(seen.scores > 0, seen.coins)


def _errors(says: NDArray[np.bool_], truth: NDArray[np.bool_]) -> Errors:
    present = int(truth.sum())
    return Errors(len(truth) - present, int((says & ~truth).sum()), present, int((~says & truth).sum()))


def best_rule(pilot: ScoredCoins, *, false_alarm: float, scale: float) -> GuessingRule:
    """Return the rule whose guesses will prove the most of ``scale`` times as many coins.

    Frequencies are counted in one half of the pilot and judged by the other, beside the plan's own likelihood ratio.
    """
    first, second = _halves(pilot)
    counted = Frequencies.of(first)
    _, bound = best_threshold(second, false_alarm=false_alarm, scale=2 * scale)
    by_count, other = best_threshold(
        ScoredCoins(second.coins, counted.scores(second)), false_alarm=false_alarm, scale=2 * scale
    )
    # Frequencies have to prove clearly more: they are counted, and a little worse than the ratio that they estimate.
    if other <= max(0.0, _CLEARLY * bound):
        return GuessingRule(best_threshold(pilot, false_alarm=false_alarm, scale=scale)[0])
    return GuessingRule(by_count, counted)


def best_test(pilot: ScoredCoins, bound: Callable[[Errors], float], *, scale: float) -> GuessingRule:
    """Return the test of one side whose errors will prove the most of ``scale`` times as many coins, where δ > 0.

    Frequencies are counted in one half of the pilot and judged by the other, beside the plan's own likelihood ratio.
    """
    first, second = _halves(pilot)
    counted = Frequencies.of(first)
    best, found = GuessingRule(1), -1.0
    for frequencies in (None, counted):
        scores = second.scores if frequencies is None else frequencies.scores(second)
        for side in (1, -1):
            present, absent = (np.sort(side * scores[second.coins == (side > 0) ^ flip]) for flip in (False, True))
            for threshold in _thresholds(np.maximum(0, side * scores)):
                hits = len(present) - int(np.searchsorted(present, threshold))
                alarms = len(absent) - int(np.searchsorted(absent, threshold))
                if hits + alarms < _LEAST_GUESSED:
                    break
                expected = Errors(
                    int(2 * scale * len(absent)),
                    min(int(2 * scale * len(absent)), int(2 * scale * (alarms + math.sqrt(alarms)))),
                    int(2 * scale * len(present)),
                    int(2 * scale * (len(present) - max(0.0, hits - math.sqrt(hits)))),
                )
                if (proven := bound(expected)) > found:
                    best, found = GuessingRule(threshold, frequencies, side), proven
    return best


def _halves(pilot: ScoredCoins) -> tuple[ScoredCoins, ScoredCoins]:
    middle = len(pilot.coins) // 2
    first, second = (
        ScoredCoins(pilot.coins[half], pilot.scores[half], tuple(one[half] for one in pilot.extremes))
        for half in (slice(middle), slice(middle, None))
    )
    return first, second


def _thresholds(sizes: IntArray) -> list[int]:
    candidates = np.unique(sizes[sizes > 0])
    if len(candidates) > _MOST_THRESHOLDS:
        candidates = np.unique(np.quantile(candidates, np.linspace(0, 1, _MOST_THRESHOLDS)).astype(np.int64))
    found: list[int] = candidates.tolist()
    return found


def best_threshold(pilot: ScoredCoins, *, false_alarm: float, scale: float) -> tuple[int, float]:
    """Return from which score on to guess, so that ``scale`` times as many draws prove the most, and how much.

    Scores near 0 say little and are wrong often; the largest are rare. What they will prove is judged by their share of
    right guesses in the pilot, less one standard error, so that no rare score is believed for its luck.
    """
    size = np.abs(pilot.scores)
    order = np.argsort(size)
    ordered, right = size[order], ((pilot.scores > 0) == pilot.coins)[order]
    before = np.concatenate([[0], np.cumsum(right)])
    best, found = 1, -1.0
    for threshold in _thresholds(size):
        start = int(np.searchsorted(ordered, threshold))
        made, hits = len(size) - start, int(before[-1] - before[start])
        if made < _LEAST_GUESSED:
            break
        share = hits / made
        careful = share - math.sqrt(max(share * (1 - share), 1.0 / made) / made)
        guesses = Guesses(*(int(scale * count) for count in (len(size), made, careful * made)))
        bound = epsilon_from_guesses(guesses, false_alarm=false_alarm)
        if bound > found:
            best, found = threshold, bound
    return best, found
