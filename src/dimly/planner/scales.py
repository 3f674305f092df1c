"""Several sketches for several scales of distance, each with a share of the budget (§3.2.2, §4.3.3)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dimly.errors import ParameterError
from dimly.mechanisms.error.dimension import LARGEST_DISTANCE
from dimly.mechanisms.plan import Plan
from dimly.planner.advice import PAIRS, Advice, answer
from dimly.planner.brief import NEAR, Brief, Question, as_number
from dimly.planner.predicted_figures import ranking_probability
from dimly.planner.verdicts import Verdict, doubts, meaning, verdict
from dimly.privacy import Budget

_MOST_SCALES = 16


class Scale(NamedTuple):
    """How well one squared distance is estimated."""

    distance: float
    plan: Plan
    alone: float
    """Standard error by the sketch made for it, with its share of the budget."""
    together: float
    """By all of the sketches, weighted by their inverse variances there."""
    one: float
    """By one sketch for all scales that has the whole budget."""


@dataclass(frozen=True, slots=True)
class Scales:
    """Sketches for several scales beside one sketch for all. Made by :func:`plan_scales`.

    Attributes
    ----------
    scales : tuple of Scale
    one : Advice
        One sketch for all of them, with the whole budget.
    """

    scales: tuple[Scale, ...]
    one: Advice

    @property
    def plans(self) -> tuple[Plan, ...]:
        """One for each scale; together they cost the whole budget."""
        return tuple(scale.plan for scale in self.scales)

    @property
    def verdict(self) -> Verdict:
        """Whether the sketches together tell the nearest scale from the farthest; as of one plan for distances."""
        if self.one.unstated:
            return "unknown"
        near, far = self.scales[0], self.scales[-1]
        error = math.sqrt((near.together**2 + far.together**2) / 2)
        return verdict(ranking_probability(far.distance - near.distance, error))

    @property
    def judgment(self) -> str:
        """The verdict in a sentence."""
        if self.verdict == "unknown":
            return f"Unknown: what was stated does not fit. State {' and '.join(self.one.unstated)}."
        return f"{self.verdict.capitalize()}: with all sketches together {PAIRS[self.verdict]}."

    @property
    def meaning(self) -> tuple[str, ...]:
        """What ε and δ of all plans together mean, in words."""
        asked = self.one.question
        spent = Budget(asked.budget.epsilon, math.fsum(plan.cost.delta for plan in self.plans))
        return meaning(spent, unit=asked.unit, weight=asked.weight)

    @property
    def doubts(self) -> tuple[str, ...]:
        """What the curator should think about again."""
        return doubts(self.one.question.budget, self.one.question.n_users, *self.plans)

    @property
    def worth_it(self) -> bool:
        """Whether the sketches together are better than one sketch at any scale."""
        return any(scale.together < scale.one for scale in self.scales)

    @property
    def words(self) -> str:
        """Whether several are better than one, in a sentence."""
        ratios = [scale.together / scale.one for scale in self.scales]
        n = len(self.scales)
        if not self.worth_it:
            times = " to ".join(dict.fromkeys(f"{ratio:.1f}" for ratio in (min(ratios), max(ratios))))
            return (
                f"One sketch is better at every scale: {n} sketches together have {times} times its standard error."
                + self._added_up
            )
        better = ", ".join(f"{scale.distance:g}" for scale in self.scales if scale.together < scale.one)
        return (
            f"{n} sketches together are better at squared distance {better}; their standard errors are "
            f"{min(ratios):.2f} to {max(ratios):.2f} times those of one sketch." + self._added_up
        )

    @property
    def _added_up(self) -> str:
        """Gaussian noise composes by squares: n such sketches cost as much as one with 1/√n of the noise."""
        if all(plan.cost.is_pure for plan in self.plans):
            return ""
        return " Their costs are added up: Gaussian noise that is composed exactly could be smaller."


def plan_scales(brief: Brief, scales: Sequence[float]) -> Scales:
    """Return sketches for several squared distances that share a budget equally, and one sketch that has it all.

    Parameters
    ----------
    brief : Brief
        Its budget is for all of them together; ε and δ are split evenly. It names neither distances nor a purpose.
    scales : sequence of float
        Two or more squared distances.

    Raises
    ------
    ParameterError
        If scales and brief do not go together, or no mechanism can serve.

    Examples
    --------
    >>> print(plan_scales(Brief(Budget(1.0)), [50, 200, 800]).words)
    One sketch is better at every scale: 3 sketches together have 2.2 to 2.3 times its standard error.
    """
    # A seed is refused because combined sketches must not share a projection.
    if brief.purpose != "distances" or any(one is not None for one in (brief.distance, brief.survey, brief.seed)):
        raise ParameterError(
            "scales must be given without distance, purpose, survey and seed: each is a distance of its own."
        )
    if not hasattr(scales, "__len__") or not 2 <= len(scales) <= _MOST_SCALES:
        raise ParameterError(f"scales must be 2 to {_MOST_SCALES} squared distances, got {scales!r}.")
    at = sorted(as_number("scales", scale, LARGEST_DISTANCE) for scale in scales)
    if len(set(at)) < len(at):
        raise ParameterError(f"scales must differ from each other, got {scales!r}.")
    question = Question.of(replace(brief, distance=(at[0], at[-1])))
    share = Budget(brief.budget.epsilon / len(at), brief.budget.delta / len(at))
    parts = [answer(replace(question, budget=share).over(NEAR * scale, scale)) for scale in at]
    one = answer(question)
    found = []
    for scale, part in zip(at, parts, strict=True):
        weights = question.weights_at(scale)
        each = [float(other.plan.error.distance(weights=weights)(scale)) for other in parts]
        found.append(
            Scale(
                distance=scale,
                plan=part.plan,
                alone=math.sqrt(float(part.plan.error.distance(weights=weights)(scale))),
                together=math.sqrt(1 / sum(1 / variance for variance in each)),
                one=math.sqrt(float(one.plan.error.distance(weights=weights)(scale))),
            )
        )
    return Scales(tuple(found), one)
