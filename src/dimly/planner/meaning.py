"""What ε and δ mean in words that are true."""

import math

from dimly.mechanisms.plan import Plan
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
    Two people with as many each may differ in 400: between them the odds may change by up to e^400.
    """
    # With δ > 0 no single outcome is bounded: one of probability δ may tell all. What is bounded is how often a guess
    # is right on average over outcomes.
    average = "" if budget.is_pure else " on average"
    lines = [f"A guess about one {unit} that was right with 50 % becomes right with at most {_sure(budget)}{average}."]
    if weight is None:
        return tuple(lines)
    together = weight * budget.epsilon
    all_of_them = f"All {_plain(weight)} {unit}s of a person together" if weight != 1 else f"The one {unit} of a person"
    if not _protected(together):
        are, their = ("are", "their") if weight != 1 else ("is", "its")
        lines.append(f"{all_of_them} {are} not protected: {their} odds may change by up to e^{_plain(together)}.")
    elif budget.is_pure:
        lines.append(f"{all_of_them}: 50 % becomes at most {_sure(Budget(together))}, odds by e^{_plain(together)}.")
    else:
        lines.append(f"{all_of_them}: epsilon = {_plain(together)}, with a delta that grows as much as the odds.")
    # What one person has another need not have, and the other way round. A column has a value in both of them.
    if unit == "attribute":
        apart = 2 * together
        sure = f"50 % becomes at most {_sure(Budget(apart))}, " if budget.is_pure and _protected(apart) else ""
        lines.append(
            f"Two people with as many each may differ in {_plain(2 * weight)}: between them {sure}the odds may change "
            f"by up to e^{_plain(apart)}."
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
    return Budget(min(epsilon, 700.0)).posterior(0.5) < _NEARLY_SURE


def _sure(budget: Budget) -> str:
    """Return what 50 % becomes, (e^ε + δ)/(1 + e^ε), rounded up: a promise may not look better than it is."""
    pure = Budget(budget.epsilon).posterior(0.5)
    return f"{math.ceil(1000 * (pure + budget.delta * (1 - pure))) / 10:.1f} %"
