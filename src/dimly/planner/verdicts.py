"""Good, coarse or not feasible: what will still be possible, and from which ε on."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from dimly.planner.candidates import Candidate, candidate
from dimly.planner.purposes import ranking_probability
from dimly.planner.question import Purpose, Question

Verdict = Literal["good", "coarse", "not feasible"]
VERDICTS: Final[tuple[Verdict, ...]] = ("good", "coarse", "not feasible")

GOOD: Final[Mapping[Purpose, float]] = MappingProxyType({"distances": 0.9, "neighbors": 0.9, "segments": 0.6})
"""Probability that a near pair ranks before a far one, from which on a purpose is served well."""
COARSE: Final = 0.55
"""From which on groups can be told apart, if not pairs: averages over a hundred people have a tenth of the noise."""
OWN_GROUP: Final[Mapping[Verdict, float]] = MappingProxyType({"good": 0.98, "coarse": 0.8, "not feasible": 0.0})
"""What segments need as well: probability that a person is nearer to the middle of his own group than to another's."""

EPSILONS: Final = (1e-3, 32.0)
"""Where the smallest ε is looked for; beyond, a promise means nothing."""
_STEPS: Final = 10


class Needed(NamedTuple):
    """The smallest ε for a verdict, rounded up to two digits; 0.001 also if less would do, None if 32 would not."""

    coarse: float | None
    good: float | None


def verdict(clearness: float, purpose: Purpose = "distances") -> Verdict:
    """Return the verdict on a mechanism of that :func:`clarity`.

    Examples
    --------
    >>> verdict(0.97), verdict(0.7), verdict(0.51)
    ('good', 'coarse', 'not feasible')
    """
    if clearness >= GOOD[purpose]:
        return "good"
    return "coarse" if clearness >= COARSE else "not feasible"


def verdict_on(question: Question, one: Candidate) -> Verdict:
    """Return the verdict on a mechanism for a purpose."""
    found = verdict(clarity(question, one.blur), question.purpose)
    if question.purpose != "segments":
        return found
    return next(level for level in VERDICTS[VERDICTS.index(found) :] if one.own_group >= OWN_GROUP[level])


def clarity(question: Question, blur: float) -> float:
    """Return the probability that a near pair ranks before a far one, for errors of the size of ``blur``."""
    return ranking_probability(question.high - question.low, blur)


def needed(question: Question) -> Needed:
    """Return the smallest ε at which the verdict would be at least coarse, and good, whatever the mechanism."""

    @cache
    def best(epsilon: float) -> int:
        asked = question.at(epsilon)
        found = (candidate(mechanism, asked) for mechanism in asked.mechanisms)
        verdicts = [VERDICTS.index(verdict_on(asked, one)) for one in found if not isinstance(one, str)]
        return min(verdicts, default=len(VERDICTS))

    return Needed(*(_smallest(lambda epsilon, at=at: best(epsilon) <= at) for at in (1, 0)))  # type: ignore[misc]


def _smallest(enough: Callable[[float], bool]) -> float | None:
    least, most = EPSILONS
    if enough(least):
        return least
    if not enough(most):
        return None
    low, high = math.log(least), math.log(most)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if enough(math.exp(middle)):
            high = middle
        else:
            low = middle
    return rounded_up(math.exp(high))


def rounded_up(number: float) -> float:
    """Return two significant digits that are not below the number.

    Examples
    --------
    >>> rounded_up(1.231), rounded_up(0.05)
    (1.3, 0.05)
    """
    digits = 1 - math.floor(math.log10(number))
    return round(math.ceil(round(number * 10.0**digits, 6)) / 10.0**digits, digits)
