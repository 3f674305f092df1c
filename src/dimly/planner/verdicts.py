"""Verdicts (good, coarse, unknown, not feasible) from a figure of 0 to 1; the ε needed; ε and δ in plain words."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from dimly.mechanisms.plan import Plan
from dimly.planner.brief import DEFAULT_GROUPS, Purpose, Question
from dimly.planner.candidates import Candidate, agreement_of, closeness_of, fitted
from dimly.planner.predicted_figures import ranking_probability
from dimly.privacy import Budget, Unit

WELL_BELOW = 0.1
"""δ·n up to which δ is well below 1/n: then on average a tenth of one person is without the promise."""
_NEARLY_SURE = 0.999


def meaning(budget: Budget, *, unit: Unit = "attribute", weight: float | None = None) -> tuple[str, ...]:
    """Return what a budget means for one attribute, and for a whole person of ``weight`` attributes, at least one.

    Examples
    --------
    >>> for line in meaning(Budget(1.0), weight=200):
    ...     print(line)
    A guess about one attribute that was 50 % sure becomes at most 73.2 % sure.
    All 200 attributes of a person together are not protected: their odds may change by up to e^200.
    Two such people may differ in 400 attributes: the odds that tell them apart may change by up to e^400.
    """
    # With δ > 0 no single outcome is bounded: one of probability δ may tell all. What is bounded is how often a guess
    # is right on average over outcomes.
    average = "" if budget.is_pure else " on average"
    sure = _sure(budget.epsilon, budget.delta)
    lines = [f"A guess about one {unit} that was 50 % sure becomes at most {sure} sure{average}."]
    if weight is None:
        return tuple(lines)
    weight = max(1.0, weight)  # of values it may be less, but a person who has anything has one
    together = weight * budget.epsilon
    all_of_them = f"All {_plain(weight)} {unit}s of a person together" if weight != 1 else f"The one {unit} of a person"
    if not _protected(together):
        are, their = ("are", "their") if weight != 1 else ("is", "its")
        lines.append(f"{all_of_them} {are} not protected: {their} odds may change by up to e^{_plain(together)}.")
    elif budget.is_pure:
        lines.append(f"{all_of_them}: 50 % becomes at most {_sure(together)}, odds by e^{_plain(together)}.")
    else:
        lines.append(f"{all_of_them}: epsilon = {_plain(together)}, with a delta that grows as much as the odds.")
    # What one person has another need not have, and the other way round. A column has a value in both of them.
    if unit == "attribute":
        apart = 2 * together
        sure = f"50 % becomes at most {_sure(apart)}, " if budget.is_pure and _protected(apart) else ""
        lines.append(
            f"Two such people may differ in {_plain(2 * weight)} attributes: {sure}the odds that tell them apart may "
            f"change by up to e^{_plain(apart)}."
        )
    return tuple(lines)


def doubts(budget: Budget, n_users: int | None, *plans: Plan) -> tuple[str, ...]:
    """Return what the curator should think about again before publishing that many people by all of these plans."""
    delta = budget.delta
    if n_users is None or delta * n_users <= WELL_BELOW:
        return ()
    names = " and ".join(dict.fromkeys(plan.mechanism for plan in plans))
    pure = all(plan.cost.is_pure for plan in plans)
    unused = f" What was chosen, {names}, does not use it and has delta = 0." if pure else ""
    line = (
        f"delta = {delta:g} is not well below 1/n = {1 / n_users:.2g}: such a delta allows some people to be exposed "
        f"altogether. Take at most a tenth of 1/n.{unused}"
    )
    return (line,)


def _plain(number: float) -> str:
    return f"{number:g}" if number < 100_000 else f"{number:,.0f}"


def _protected(epsilon: float) -> bool:
    """Return whether an even guess stays a guess."""
    return _even(epsilon) < _NEARLY_SURE


def _sure(epsilon: float, delta: float = 0.0) -> str:
    """Return what 50 % becomes, (e^ε + δ)/(1 + e^ε), rounded up: a promise may not look better than it is."""
    pure = _even(epsilon)
    return f"{math.ceil(1000 * (pure + delta * (1 - pure))) / 10:.1f} %"


def _even(epsilon: float) -> float:
    """Return what 50 % becomes by e^ε, also for an ε of several attributes that no budget could have."""
    return 1.0 / (1.0 + math.exp(-epsilon))


Verdict = Literal["good", "coarse", "unknown", "not feasible"]
VERDICTS: Final[tuple[Verdict, ...]] = ("good", "coarse", "unknown", "not feasible")
"""The best first; what is not known may be better than what cannot be."""

GOOD: Final[Mapping[Purpose, float]] = MappingProxyType({"distances": 0.9, "neighbors": 0.6, "segments": 0.7})
"""From which figure on a purpose is served well: see :func:`figure`."""
COARSE: Final[Mapping[Purpose, float]] = MappingProxyType({"distances": 0.55, "neighbors": 0.25, "segments": 0.2})
"""From which on groups can be told apart, if not pairs; who is found is of the right kind; groups are found in part.

Of pairs: averages over a hundred people have a tenth of the noise."""

EPSILONS: Final = (1e-3, 32.0)
"""Where the smallest ε is looked for; beyond, a promise means nothing."""
_STEPS: Final = 10
ENDS: Final[Mapping[Purpose, str]] = MappingProxyType(
    {
        "distances": "of near and of far pairs",
        "neighbors": "to the nearest people and to anybody",
        "segments": "within a group and between two groups",
    }
)
"""What near and far mean for a purpose."""


FARTHEST: Final[Mapping[Purpose, float]] = MappingProxyType({"distances": 10.0, "neighbors": 1.0, "segments": math.inf})
"""Far distances that can be, in multiples of twice the average weight; see :func:`unstated`."""


class NeededEpsilon(NamedTuple):
    """The smallest ε at which noise allows a verdict, rounded up to two digits; 0.001 also if less would do.

    None if 32 would not do, or too little was stated.
    """

    coarse: float | None
    good: float | None


def verdict(value: float, purpose: Purpose = "distances") -> Verdict:
    """Return the verdict on a mechanism by its :func:`figure`.

    Examples
    --------
    >>> verdict(0.97), verdict(0.7), verdict(0.51)
    ('good', 'coarse', 'not feasible')
    """
    if value >= GOOD[purpose]:
        return "good"
    return "coarse" if value >= COARSE[purpose] else "not feasible"


class VerdictRange(NamedTuple):
    """The worst and the best that a plan may turn out to be, by what was stated."""

    worst: Verdict
    best: Verdict


def range_on(question: Question, one: Candidate) -> VerdictRange:
    """Return what a mechanism may turn out to be for a purpose.

    Distances go by theory alone. Closeness of neighbors is without denoising, which finds more where people share
    tastes, at best as much as if they fell into groups; and how distances are spread is not known, so that less than
    good proves nothing. Agreement of segments is that with compact groups of equal size, and groups that
    somebody has in mind need not be such: it is the most that noise allows, and distances cannot tell how much less it
    will be (docs/planning-evidence.md).
    """
    found = by_noise(question, one)
    if unstated(question):
        # Without a number of people the figure is the best possible one: if that is too little, so is any other.
        hopeless = found == "not feasible" and question.stated == "both"
        return VerdictRange("not feasible", "not feasible" if hopeless else "good")
    if question.purpose == "neighbors" and found != "good":
        return VerdictRange("not feasible", verdict(max(one.closeness_at_best, one.agreement), "neighbors"))
    if question.purpose == "segments":
        return VerdictRange("not feasible", found)
    return VerdictRange(found, found)


def verdict_on(question: Question, one: Candidate) -> Verdict:
    """Return the verdict on a mechanism for a purpose; unknown if what was stated does not decide it."""
    worst, best = range_on(question, one)
    return worst if worst == best else "unknown"


def by_noise(question: Question, one: Candidate) -> Verdict:
    """Return the verdict on a mechanism by its figure alone: what noise allows."""
    return verdict(figure(question, one), question.purpose)


def figure(question: Question, one: Candidate) -> float:
    """Return what the verdict goes by.

    For distances the probability that a near pair ranks before a far one, for neighbors how close those found are, for
    segments how far they agree with groups.
    """
    if question.purpose == "neighbors":
        return one.closeness
    return one.agreement if question.purpose == "segments" else clarity(question, one.blur)


def unstated(question: Question) -> tuple[str, ...]:
    """Return what would have to be stated for a verdict; nothing if all is there and fits together."""
    if (unfitting := _too_far(question)) is not None:
        return (unfitting,)
    n_groups = question.n_groups or DEFAULT_GROUPS
    if question.purpose == "segments" and question.n_users is not None and question.n_users < 2 * n_groups:
        few = f"{question.n_users:,} people"
        return (f"fewer than {n_groups:,} groups, or more than {few}: {few} are not two for each group",)
    if question.purpose == "distances":
        return ("distance or weight",) if question.stated == "nothing" else ()
    missing = []
    if question.stated != "both":  # how much nearer near pairs are is what neighbors and segments live by
        missing.append(f"distance as LOW:HIGH ({ENDS[question.purpose]})")
    if question.n_users is None:
        missing.append("n_users")
    return tuple(missing)


def _too_far(question: Question) -> str | None:
    """Return what distance or weight would fit, where people of the weight cannot be as far apart as was stated.

    Near pairs differ in at most twice the weight. So does anybody from anybody on average, which is what far means for
    neighbors. Far pairs are a tenth of all: by Markov's inequality at most ten times as far as the average. Between two
    groups nothing is known: one of them may be few people with many attributes.
    """
    if question.weight is None:
        return None
    weight, most = f"{question.weight:g}", 2 * question.weight
    if question.low > most:
        # Nobody of that weight is so far from anybody: a verdict on such pairs would be one on other people.
        fitting = f"a distance of at most {most:g}, or a weight of at least {question.low / 2:g}"
        return f"{fitting}: people who have {weight} attributes cannot differ in more than {most:g}"
    # A survey measures the weight of the middle person, and a few who are far heavier make others farther.
    times = math.inf if question.measured else FARTHEST[question.purpose]
    if question.high <= times * math.ceil(most):
        return None
    fitting = f"a far distance of at most {times * most:g}, or a weight of at least {question.high / 2 / times:g}"
    part = " in a tenth of all pairs" if times > 1 else ""
    return f"{fitting}: people who have {weight} attributes on average cannot differ in more than that{part}"


def clarity(question: Question, blur: float) -> float:
    """Return the probability that a near pair ranks before a far one, for errors of the size of ``blur``."""
    return ranking_probability(question.high - question.low, blur)


def needed(question: Question) -> NeededEpsilon:
    """Return the smallest ε at which noise allows a coarse, and a good verdict, whatever the mechanism.

    None for both if too little was stated.
    """
    if unstated(question):
        return NeededEpsilon(None, None)

    @cache
    def reached(mechanism: str, epsilon: float) -> float:
        """Return the figure alone: all others of a candidate would take much longer, at each of many ε."""
        asked = question.at(epsilon)
        found = fitted(mechanism, asked)
        if isinstance(found, str):
            return -math.inf
        if asked.purpose == "neighbors":
            return min(closeness_of(found.model, asked, found.blur))
        return agreement_of(found.model, asked) if asked.purpose == "segments" else clarity(asked, found.blur)

    def smallest(least: float) -> float | None:
        return _smallest(lambda epsilon: any(reached(one, epsilon) >= least for one in question.mechanisms))

    return NeededEpsilon(smallest(COARSE[question.purpose]), smallest(GOOD[question.purpose]))


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
