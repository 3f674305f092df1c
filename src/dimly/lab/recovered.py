"""Estimated against true distances: what a release still shows, as one figure."""

from collections.abc import Mapping

import numpy as np

from dimly.lab.charts import Axis, Chart, Line, Look, label_of, looks_of
from dimly.lab.simulation import Outcome, Truth

_PARTS = 14  # of the pairs by their true distance; the outermost are too mixed to be shown


def recovered(truth: Truth, outcomes: Mapping[str, Outcome]) -> Chart:
    """Return where 95 % of the estimates lie, over the true distances, for each of some named outcomes."""
    true = truth.squared_distances
    parts = np.array_split(np.argsort(true, kind="stable"), _PARTS)[1:-1]
    x = [float(true[part].mean()) for part in parts]
    lines = [Line("the truth", [x[0], x[-1]], [x[0], x[-1]], Look("#666666", dashes=":"))]
    kinds: dict[str, str] = {}  # a name for each look: the mechanism's own, if no other has it
    for name, one in outcomes.items():
        kind = one.plan.mechanism
        kinds[name] = name if label_of(name) != name or kind in kinds.values() else kind
    looks = looks_of(list(kinds.values()))
    for name, one in outcomes.items():
        low, high = ([float(np.quantile(one.estimates[part], q)) for part in parts] for q in (0.025, 0.975))
        whose = label_of(name) if kinds[name] == name else f"{name} ({kinds[name]})"
        lines.append(Line(f"{whose}: 95 % of estimates", x, low, looks[kinds[name]], upper=high))
    lowest, highest = (edge(value for line in lines for value in (*line.y, *(line.upper or ()))) for edge in (min, max))
    unit = max(highest - lowest, 1.0) / 20
    room = (lowest - unit, highest + unit * (1 + 2 * len(lines)))  # for the legend, above them all
    budgets = [one.plan.budget for one in outcomes.values()]
    together = {budget.epsilon for budget in budgets}
    at = f", ε = {budgets[0].epsilon:g}" if len(together) == 1 else ""
    told = "; ".join(f"{label_of(name)}: {_budget(one, at)}" for name, one in outcomes.items())
    return Chart(
        f"Estimated against true squared distances of {len(truth.people.groups):,} people{at}",
        Axis("true squared distance (attributes in which two people differ)"),
        Axis("estimated squared distance", limits=room),
        lines,
        f"{len(true):,} random pairs of made-up people. {told[0].upper()}{told[1:]}.",
    )


def _budget(one: Outcome, at: str) -> str:
    budget, part = one.plan.budget, one.plan.projection
    epsilon = "" if at else f"ε = {budget.epsilon:g}, "
    k = "" if part is None else f"k = {part.k}, "
    return f"{epsilon}{k}δ = {budget.delta:g}"
