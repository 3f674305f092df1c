"""Error against epsilon, both ways: the error that an epsilon gives, the epsilon that an error needs."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from dimly.mechanisms.group_privacy import budget_for_each
from dimly.planner.brief import Brief, Question, as_number
from dimly.planner.candidates import candidates
from dimly.planner.survey_facts import by_survey
from dimly.planner.verdicts import EPSILONS, Verdict, figure, rounded_up, verdict_on
from dimly.privacy import Budget

_STEPS: Final = 12
"""Halvings of the logarithm of epsilon: within 0.3 % of the smallest one."""


class TradedError(NamedTuple):
    """What the best mechanism at an epsilon would be good for."""

    epsilon: float
    """For all attributes that are protected together."""
    mechanism: str
    stderr: float
    """Predicted standard error of a squared distance of far pairs."""
    figure: float
    """What the verdict goes by."""
    verdict: Verdict


def question_at(brief: Brief, epsilon: float) -> Question:
    """Return what is asked at an epsilon for any ``brief.protect`` attributes together; δ is the brief's."""
    budget = budget_for_each(Budget(epsilon, brief.budget.delta), brief.protect)
    told = by_survey(replace(brief, budget=budget))
    return Question.of(told.brief, measured=told.measured)


def error_at(brief: Brief, epsilon: float) -> TradedError | None:
    """Return what the best mechanism at an epsilon would be good for; None if none can serve.

    No noise is calibrated: that takes longer, and changes little.
    """
    question = question_at(brief, epsilon)
    able, _ = candidates(question)
    if not able:
        return None
    best = able[0]
    return TradedError(epsilon, best.mechanism, best.stderr_high, figure(question, best), verdict_on(question, best))


def error_curve(brief: Brief, epsilons: Iterable[float]) -> tuple[TradedError, ...]:
    """Return what each epsilon would be good for, without those at which no mechanism can serve.

    Examples
    --------
    >>> curve = error_curve(Brief(Budget(1.0), weight=60), [0.5, 1.0, 2.0])
    >>> [round(one.stderr) for one in curve]
    [95, 45, 21]
    """
    found = (error_at(brief, epsilon) for epsilon in epsilons)
    return tuple(one for one in found if one is not None)


def epsilon_for_error(brief: Brief, stderr: float) -> float | None:
    """Return the smallest epsilon whose predicted standard error is at most ``stderr``; None if 32 would not do.

    Rounded up to two digits: 0.001 also if less would do. Raises :class:`~dimly.errors.ParameterError` if it is no
    error.

    Examples
    --------
    >>> epsilon_for_error(Brief(Budget(1.0), weight=60), 45)
    1.0
    """
    most = as_number("stderr", stderr, math.inf)

    def enough(epsilon: float) -> bool:
        found = error_at(brief, epsilon)
        return found is not None and found.stderr <= most

    low, high = EPSILONS
    if enough(low):
        return low
    if not enough(high):
        return None
    low, high = math.log(low), math.log(high)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(math.exp(middle)) else (middle, high)
    return rounded_up(math.exp(high))
