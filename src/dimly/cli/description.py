"""A plan in words and numbers, for people and for JSON."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dimly.cli.output import size_text

if TYPE_CHECKING:
    from dimly.mechanisms import Plan

_DISTANCES = (100, 400, 1600)
"""Squared distances that people with dozens to hundreds of attributes have."""


def plan_facts(plan: "Plan") -> dict[str, Any]:
    """Return what a plan means, ready for JSON."""
    return {
        "mechanism": plan.mechanism,
        "k": None if plan.projection is None else plan.projection.k,
        "epsilon": plan.cost.epsilon,
        "delta": plan.cost.delta,
        "unit": plan.unit,
        "bytes_per_user": plan.bytes_per_user,
        "stderr_at": _standard_errors(plan),
    }


def plan_fields(plan: "Plan") -> dict[str, str]:
    """Return the same for people: what, and how large."""
    facts = plan_facts(plan)
    fields = {"mechanism": facts["mechanism"] + (f", k = {facts['k']:,}" if facts["k"] else "")}
    if plan.resolution > 1:
        fields["values"] = f"in [0, 1], in steps of 1/{plan.resolution}"
    fields["attributes"] = "any" if plan.n_attributes is None else f"a closed list of {plan.n_attributes:,}"
    fields["size"] = f"{size_text(facts['bytes_per_user'])} a person"
    fields["standard error"] = errors_text(facts["stderr_at"])
    return {name: text for name, text in fields.items() if text}


def errors_text(errors: Mapping[str, float]) -> str:
    """Return how far off estimated squared distances will be, in words."""
    return "; ".join(f"{error:,.3g} at squared distance {distance}" for distance, error in errors.items())


def promise(plan: "Plan") -> list[str]:
    """Return what a release by ``plan`` will promise, one sentence each, as far as it does not depend on its size."""
    from dimly.release.guarantee import guarantee

    lines = guarantee(plan, 1).splitlines()
    if plan.cost.delta:
        lines[1] = (
            f"Beyond that factor the probability of any set of outcomes may change by delta = {plan.cost.delta:g}, "
            "which must be well below 1/n for n people."
        )
    return lines


def _standard_errors(plan: "Plan") -> dict[str, float]:
    """Return standard errors of squared distances that can occur; of people who share nothing, where that matters."""
    farthest = plan.n_attributes or max(_DISTANCES)
    variance = plan.error.distance()
    return {str(distance): float(variance(distance)) ** 0.5 for distance in _DISTANCES if distance <= farthest}
