"""What ε and δ mean in words that are true."""

import math

from dimly.mechanisms.plan import Plan
from dimly.planner.question import Question
from dimly.privacy import Budget, Unit

WELL_BELOW = 0.1
"""δ·n up to which δ is well below 1/n: then on average a tenth of one person is without the promise."""
_NEARLY_SURE = 0.999


def meaning(budget: Budget, *, unit: Unit = "attribute", weight: float | None = None) -> tuple[str, ...]:
    """Return what a budget means for one attribute, and for a whole person of ``weight`` attributes.

    Examples
    --------
    >>> for line in meaning(Budget(1.0), weight=200):
    ...     print(line)
    A guess about one attribute that was right with 50 % becomes right with at most 73.2 %.
    All 200 attributes of a person together are not protected: their odds may change by up to e^200.
    """
    # With δ > 0 no single outcome is bounded: one of probability δ may tell all. What is bounded is how often a guess
    # is right on average over outcomes.
    average = "" if budget.is_pure else " on average"
    lines = [f"A guess about one {unit} that was right with 50 % becomes right with at most {_sure(budget)}{average}."]
    if weight is None:
        return tuple(lines)
    together = weight * budget.epsilon
    whole = Budget(min(together, 700.0))
    if whole.posterior(0.5) < _NEARLY_SURE and budget.is_pure:
        lines.append(
            f"All {weight:g} {unit}s of a person together: 50 % becomes at most {_sure(whole)}, odds by e^{together:g}."
        )
    elif whole.posterior(0.5) < _NEARLY_SURE:
        lines.append(
            f"All {weight:g} {unit}s of a person together: epsilon = {together:g}, with a delta that grows as much as "
            "the odds."
        )
    else:
        lines.append(
            f"All {weight:g} {unit}s of a person together are not protected: their odds may change by up to "
            f"e^{together:g}."
        )
    return tuple(lines)


def doubts(question: Question, plan: Plan) -> tuple[str, ...]:
    """Return what the curator should think about again."""
    delta, n_users = question.budget.delta, question.n_users
    if n_users is None or delta * n_users <= WELL_BELOW:
        return ()
    unused = f" {plan.mechanism} does not use it: this plan has delta = 0." if plan.cost.is_pure else ""
    line = (
        f"delta = {delta:g} is not well below 1/n = {1 / n_users:.2g}: such a delta allows some people to be exposed "
        f"altogether. Take at most a tenth of 1/n.{unused}"
    )
    return (line,)


def _sure(budget: Budget) -> str:
    """Return what 50 % becomes, (e^ε + δ)/(1 + e^ε), rounded up: a promise may not look better than it is."""
    pure = Budget(budget.epsilon).posterior(0.5)
    return f"{math.ceil(1000 * (pure + budget.delta * (1 - pure))) / 10:.1f} %"
