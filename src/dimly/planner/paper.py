"""The paper's two rules for k, for its own mechanism: by the variance, and by the deviation bound of Theorem 2."""

import math
from typing import NamedTuple

from dimly.errors import ParameterError
from dimly.mechanisms.dimension import best_k, nominal_noise
from dimly.mechanisms.mechanism import sketch_error, sketching
from dimly.planner.question import Question
from dimly.privacy import Budget

PAPER = "gaussian+gaussian"
PLANNED_DELTA = 1e-6
"""Where the budget has no δ, which the paper's mechanism cannot do without."""


class PaperRule(NamedTuple):
    """One rule of the paper, and how far off its own mechanism would then be."""

    criterion: str
    k: int
    stderr: float
    """Of a squared distance of far pairs, with noise calibrated by the paper's Theorem 1."""
    delta: float


def paper_rules(question: Question) -> tuple[PaperRule, ...]:
    """Return k by the variance (r²/2σ² but for rounding) and by the deviation bound, at the far distance.

    Nothing where its mechanism cannot be calibrated at all.
    """
    delta = question.budget.delta or PLANNED_DELTA
    budget = Budget(question.budget.epsilon, delta)
    kind = sketching(PAPER)
    assert kind is not None  # noqa: S101
    shared = {
        "resolution": question.resolution,
        "unit": question.unit,
        "rule": "theorem1",
        "n_attributes": question.n_attributes,
    }
    rules = []
    for criterion in ("variance", "deviation"):
        try:
            k = best_k(PAPER, budget, squared_distance=question.high, criterion=criterion, **shared)  # type: ignore[arg-type]
            noise = nominal_noise(kind, budget, k=k, **shared)  # type: ignore[arg-type]
        except ParameterError:
            return ()
        model = sketch_error(kind.family, k=k, blocks=1, noise=noise, bits=question.bits)
        rules.append(PaperRule(criterion, k, math.sqrt(float(model.distance()(question.high))), delta))
    return tuple(rules)
