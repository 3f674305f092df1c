"""``PlanDraft``: what is stated on the Plan page, and what follows: advice, curve, command, blur."""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from dimly.audit.attacks import Inference, guess_one
from dimly.display import shortest
from dimly.lab.blur import Blur, blur_of, people_at
from dimly.lab.planning import advise
from dimly.mechanisms.error.dimension import LARGEST_DISTANCE
from dimly.mechanisms.make import MAX_ATTRIBUTES
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.planner.advice import Advice
from dimly.planner.brief import Brief, Purpose
from dimly.planner.tradeoff import TradedError, epsilon_for_error, error_curve
from dimly.planner.verdicts import NeededEpsilon
from dimly.privacy import Budget, Unit
from dimly.release.documents.survey_file import Survey

SMALLEST: Final = 0.01
LARGEST: Final = 10.0
"""What the slider of epsilon reaches from and to; any other can be typed."""
_ON_CURVE: Final = 25
_VALUES_IN: Final = 16  # steps of a value from 0 to 1
_MOST_DRAWN: Final = 10_000
"""Attributes of a person beyond which no picture is drawn: it is of thousands of people, all held in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDraft:
    """What is stated. None is what is not known."""

    epsilon: float = 1.0
    delta: float = 0.0
    protect: int = 1
    purpose: Purpose = "neighbors"
    n_users: int | None = 100_000
    n_attributes: int | None = 10_000
    weight: float | None = 50.0
    near: float | None = None
    far: float | None = None
    """Distances; guessed from the rest where they are None."""
    unit: Unit = "attribute"
    has_values: bool = False
    numbered: bool = False
    n_groups: int | None = None
    max_bytes_per_user: int | None = None
    vocabulary: Vocabulary | None = None
    vocabulary_file: str = ""
    survey: Survey | None = None
    survey_file: str = ""
    total: bool = False
    seed: str = ""

    @property
    def guessed(self) -> tuple[float, float] | None:
        """Distances of near and of far pairs as they would be by chance; None if nothing is known to guess from.

        Two people with w attributes each, chosen by chance from d, differ in 2w(1 − w/d); people who are alike are
        taken to differ in half as much. Both as whole numbers.
        """
        if self.weight is None or self.survey is not None:
            return None
        size = self.n_attributes
        if not 0 < self.weight <= LARGEST_DISTANCE or (size is not None and not 0 < size <= MAX_ATTRIBUTES):
            return None  # the planner says what is wrong with these
        by_chance = 0.0 if size is None else min(self.weight / size, 0.5)
        far = max(2.0, float(round(2 * self.weight * (1 - by_chance))))
        return max(1.0, float(round(far / 2))), far

    @property
    def distance(self) -> tuple[float, float] | None:
        """What is asked about: as stated, else as guessed; None leaves it to the survey, or to the planner."""
        if self.near is not None and self.far is not None:
            return self.near, self.far
        return self.guessed

    @property
    def rests_on_guess(self) -> bool:
        """Whether distances are guessed."""
        return self.distance is not None and (self.near is None or self.far is None)

    @property
    def told(self) -> dict[str, Any]:
        """What :func:`dimly.advise` is told beside the budget."""
        return {
            "purpose": self.purpose,
            "n_users": self.n_users,
            "n_attributes": None if self.vocabulary is not None else self.n_attributes,
            "weight": self.weight,
            "distance": self.distance,
            "unit": self.unit,
            "values": "unit" if self.has_values else "bits",
            "resolution": _VALUES_IN if self.has_values else None,
            "numbered": self.numbered and self.vocabulary is None,
            "n_groups": self.n_groups if self.purpose == "segments" else None,
            "max_bytes_per_user": self.max_bytes_per_user,
            "vocabulary": self.vocabulary,
            "survey": self.survey,
            "protect": self.protect,
            "seed": self.seed or None,
        }

    @property
    def brief(self) -> Brief:
        """The same for the planner."""
        return Brief(Budget(self.epsilon, self.delta), **self.told)

    @property
    def apart_from_epsilon(self) -> "PlanDraft":
        """What the curve of errors hangs on."""
        return replace(self, epsilon=1.0)

    def command(self, *, force: bool) -> str:
        """Return the command line that makes the same plan, with the same digest."""
        near_far = self.distance
        options: Mapping[str, Any] = {
            "epsilon": shortest(self.epsilon),
            "delta": shortest(self.delta) if self.delta else None,
            "protect": self.protect if self.protect > 1 else None,
            "total": self.total,
            "purpose": self.purpose,
            "distance": None if near_far is None else ":".join(map(shortest, near_far)),
            "weight": None if self.weight is None else shortest(self.weight),
            "n-users": self.n_users,
            "n-attributes": None if self.vocabulary is not None else self.n_attributes,
            "n-groups": self.n_groups if self.purpose == "segments" else None,
            "unit": self.unit if self.unit != "attribute" else None,
            "resolution": _VALUES_IN if self.has_values else None,
            "numbered": self.numbered and self.vocabulary is None,
            "max-bytes-per-user": self.max_bytes_per_user,
            "vocabulary": self.vocabulary_file or None,
            "survey": self.survey_file or None,
            "seed": self.seed or None,
            "force": force,
        }
        return plan_command(options)


def plan_command(options: Mapping[str, Any]) -> str:
    """Return ``dimly plan`` with options by name: alone where they are True, left out where they are None or False."""
    words = ["dimly plan"]
    for name, value in options.items():
        if value is True:
            words.append(f"--{name}")
        elif value is not None and value is not False:
            words.append(f"--{name} {shlex.quote(str(value))}")
    return " ".join([*words, "-o plan.json"])


@dataclass(frozen=True, slots=True)
class PlannedDraft:
    """What follows at once from a draft."""

    draft: PlanDraft
    advice: Advice
    words: str
    needed: NeededEpsilon


def planned(draft: PlanDraft) -> PlannedDraft:
    """Return the advice on a draft, or raise what is wrong with it."""
    found = advise(Budget(draft.epsilon, draft.delta), total=draft.total, **draft.told)
    return PlannedDraft(draft, found, found.words, found.needed)


def curve_of(draft: PlanDraft) -> tuple[TradedError, ...]:
    """Return the errors that other epsilons would give."""
    return error_curve(draft.brief, [float(f"{one:.4g}") for one in on_curve(draft)])


def on_curve(draft: PlanDraft) -> list[float]:
    """Return the epsilons that a chart shows: whole powers of ten at both ends, with the draft's own in between."""
    low = math.floor(math.log10(min(SMALLEST, draft.epsilon)))
    high = math.ceil(math.log10(max(LARGEST, draft.epsilon)))
    return [10 ** (low + (high - low) * i / (_ON_CURVE - 1)) for i in range(_ON_CURVE)]


def epsilon_for(draft: PlanDraft, stderr: float) -> float | None:
    """Return the smallest epsilon that gives an error; None if none does."""
    return epsilon_for_error(draft.brief, stderr)


def blurred(plan: PlannedDraft) -> Blur | None:
    """Return the picture of made-up people by a plan; None where it places nobody, or takes no such people."""
    found, question = plan.advice.plan, plan.advice.question
    if not found.places_people or found.unit == "column":
        return None
    weight = question.weights_at(question.high)[0]
    if weight > _MOST_DRAWN:
        return None
    listed = plan.draft.vocabulary
    n_attributes = found.n_attributes or question.n_attributes
    people = people_at(
        question.low,
        question.high,
        weight=weight,
        n_attributes=n_attributes,
    )
    if found.n_attributes is not None and people.table.shape[1] != found.n_attributes:
        return None
    return blur_of(
        found, people.table, groups=people.groups, attributes=None if listed is None else [str(name) for name in listed]
    )


def attacked(plan: PlannedDraft) -> Inference | None:
    """Return what the best attacker of one attribute was able to do, by the plan itself; None where none was tried."""
    if not plan.advice.plan.places_people:
        return None
    return guess_one(plan.advice.plan)
