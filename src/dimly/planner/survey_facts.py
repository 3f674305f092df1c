"""Distances, weights and the number of people, filled in from a survey where the curator states nothing."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from dimly.errors import ParameterError
from dimly.mechanisms.projection.directions import Directions
from dimly.planner.brief import Brief, Purpose
from dimly.privacy import Budget, Cost
from dimly.privacy.budget import stated, stated_below

if TYPE_CHECKING:
    from dimly.release.documents.survey_file import Curve, Interval, Survey

_FAR: Final[dict[Purpose, str]] = {"distances": "0.9", "neighbors": "0.5", "segments": "0.5"}
"""Which quantile of random pairs is that of far ones. For distances, those that are asked about reach from near to far;
for the others far is anybody."""
_NEAR: Final = "0.1"
"""Nobody surveyed who is nearest, or of one group: the nearest tenth of random pairs stands for them."""


_SPENT: Final = re.compile(r"under epsilon = (\S+), delta = (\S+) \(unit (\w+)\)")


class SurveyedBrief(NamedTuple):
    """A brief, and what of it came from a survey, in words."""

    brief: Brief
    measured: tuple[str, ...] = ()

    def plus(self, words: str, brief: Brief) -> Self:
        """Return the brief with something that was measured."""
        return self._replace(brief=brief, measured=(*self.measured, words))


def by_survey(brief: Brief) -> SurveyedBrief:
    """Return the brief with what its survey measured in the place of what is not stated.

    Raises
    ------
    ParameterError
        If it is no survey, was made for tests, or counted bits where there are values, or the other way round.
    """
    if brief.survey is None:
        return SurveyedBrief(brief)
    survey = checked(brief.survey)
    if (survey.plan.resolution == 1) != (brief.steps == 1):
        raise ParameterError(
            f"resolution must be 1 for bits and more for values, as in the survey, got {brief.steps} beside the "
            f"survey's {survey.plan.resolution}."
        )
    told = SurveyedBrief(_people(brief, survey))
    return _size(_weights(_distances(told, survey.distances), survey.weights), survey)


def less_spent(brief: Brief, directions: Directions | None = None) -> Brief:
    """Return the brief with what is left of its budget, which is that of a survey and of the release together.

    The two are adaptive choices, and add up by the rule that holds for such: ε and δ each, as exact decimals.

    Parameters
    ----------
    brief : Brief
        With a survey, unless there are directions.
    directions : Directions, optional
        Learned by a survey: their origin says what that cost.

    Raises
    ------
    ParameterError
        If nothing was spent, nothing is left, or the survey promises less than the plan is to.
    """
    costs = [] if brief.survey is None else [checked(brief.survey).plan.cost]
    if directions is not None and directions.kind == "surveyed":
        costs.append(_cost_of_learning(directions))
    if not costs:
        raise ParameterError(
            "total must be given with a survey (--survey), or with directions that one learned: what it spent is taken "
            "off the whole."
        )
    left = {"epsilon": stated(brief.budget.epsilon), "delta": stated(brief.budget.delta)}
    for cost in costs:
        if (cost.unit, brief.unit) == ("attribute", "column"):
            raise ParameterError("unit must be attribute, as of the survey, got 'column'. Make a survey of that unit.")
        for name in left:
            left[name] -= stated(getattr(cost, name))
    if left["epsilon"] <= 0 or left["delta"] < 0:
        spent = " and ".join(f"epsilon = {cost.epsilon:g}, delta = {cost.delta:g}" for cost in costs)
        raise ParameterError(
            f"budget must be more than what was spent already ({spent}), got epsilon = {brief.budget.epsilon:g}, delta "
            f"= {brief.budget.delta:g}: with total it is the whole. State a larger one."
        )
    return replace(brief, budget=Budget(stated_below(left["epsilon"]), stated_below(left["delta"])))


def _cost_of_learning(directions: Directions) -> Cost:
    """Return what a survey spent on directions, by their origin, which their digest covers."""
    found = _SPENT.search(directions.origin)
    if found is None:
        raise ParameterError("directions must say in their origin what the survey spent, but these do not.")
    return Cost(float(found[1]), float(found[2]), unit="column" if found[3] == "column" else "attribute")


def checked(survey: object) -> "Survey":
    """Return a survey that a plan may be made by, or refuse it."""
    from dimly.release.documents.survey_file import Survey  # noqa: PLC0415 - most plans are made without one, and without files

    if not isinstance(survey, Survey):
        raise ParameterError(f"survey must be a Survey, got {type(survey).__name__}. Read one with read_survey.")
    if not survey.private:
        raise ParameterError("survey must be private, but this one was made for tests. Make another.")
    return survey


def _people(brief: Brief, survey: "Survey") -> Brief:
    if brief.n_users is not None or survey.n_users is None or survey.n_users < 2:
        return brief
    return replace(brief, n_users=survey.n_users)


def _distances(told: SurveyedBrief, curve: "Curve | None") -> SurveyedBrief:
    brief = told.brief
    far = _FAR[brief.purpose]
    if brief.distance is not None or curve is None or curve.quantiles[far].value <= 0:
        return told
    near, high = curve.quantiles[_NEAR], curve.quantiles[far]
    if 0 < near.value < high.value:
        words = f"near pairs differ in {_text(near)}, far ones in {_text(high)}"
        return told.plus(words, replace(brief, distance=(near.value, high.value)))
    return told.plus(f"far pairs differ in {_text(high)}", replace(brief, distance=high.value))


def _weights(told: SurveyedBrief, curve: "Curve | None") -> SurveyedBrief:
    if told.brief.weight is not None or curve is None or (middle := curve.quantiles["0.5"]).value <= 0:
        return told
    return told.plus(f"people have {_text(middle)} attributes", replace(told.brief, weight=middle.value))


def _size(told: SurveyedBrief, survey: "Survey") -> SurveyedBrief:
    """Return the number of attributes: those of a public list, or the names that were found, if they suffice."""
    brief = told.brief
    found = survey.counts or survey.vocabulary
    if brief.n_attributes is not None or brief.vocabulary is not None or found is None:
        return told
    size = len(found.attributes)
    far = brief.distance[1] if isinstance(brief.distance, tuple) else brief.distance or 0
    if size < max(1, far, brief.weight or 0):  # the rest is too rare to be shown, and yet there
        return told
    words = f"{size:,} attributes" + ("" if survey.counts else " that are frequent enough to be shown")
    return told.plus(words, replace(brief, n_attributes=size))


def _text(one: "Interval") -> str:
    return f"{one.value:g} ({one.low:g} to {one.high:g})"
