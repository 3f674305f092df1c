"""``Trial``: what came out of trying plans out; figures, verdict, rivals, doubts, in words.

Made by :func:`dimly.lab.by_example.tryout.try_out`, for :func:`dimly.advise` with a sample and ``dimly plan --sample``.
"""

from dataclasses import dataclass, field
from typing import Final

from dimly.lab.by_example.judged_people import FigureName
from dimly.lab.directions.from_sample import LearnedDirections
from dimly.lab.sample import Sample
from dimly.mechanisms.make import DIRECTED
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.projection.directions import Directions
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.planner.brief import Brief, Purpose
from dimly.planner.candidates import LeftOut
from dimly.planner.verdicts import COARSE, GOOD, NeededEpsilon, Verdict, doubts, meaning, verdict
from dimly.privacy import Budget

FEW_PEOPLE: Final = 100
TIMES: Final = 10
"""Where it is not stated how many people will be published, so many times the sample are assumed."""
MOST_PUBLISHED: Final = 3_000
"""People who are published in a trial; more take long."""
FIGURE: Final[dict[Purpose, FigureName]] = {"distances": "ranking", "neighbors": "closeness", "segments": "agreement"}
CHOSEN_BY: Final[dict[Purpose, FigureName]] = {"distances": "error", "neighbors": "closeness", "segments": "agreement"}
_WIDE: Final = 0.25  # width of an interval beyond which a sample is too small to tell


@dataclass(frozen=True, slots=True)
class MeasuredFigure:
    """A figure that was measured on public people: the mean over parts of the sample, and where another may lie.

    Attributes
    ----------
    value : float
    low, high : float
        90 % interval for the same figure of other people like these.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True, slots=True)
class TriedPlan:
    """One plan that was tried out.

    Attributes
    ----------
    mechanism : str
    k : int or None
        Numbers published per person; None for randomized response.
    epsilon : float
    bytes_per_user : float
    pure : bool
    figures : dict of str to MeasuredFigure
        ``error`` and ``ranking`` of distances, ``closeness`` and ``recall`` of neighbors, ``agreement`` of segments, as
        far as they were asked for: see :meth:`dimly.lab.by_example.judged_people.JudgedPeople.measured`.
    n_parts : int
        Parts of the sample on which it was tried; fewer than three where it was far behind at once.
    """

    mechanism: str
    k: int | None
    epsilon: float
    bytes_per_user: float
    pure: bool
    figures: dict[str, MeasuredFigure]
    n_parts: int

    @property
    def name(self) -> str:
        """The mechanism and its k."""
        what = "directions" if self.mechanism in DIRECTED else "k"
        return self.mechanism + ("" if self.k is None else f", {what} = {self.k:,}" if what == "k" else f", {self.k}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedBrief:
    """What a trial is asked, checked.

    Attributes
    ----------
    brief : Brief
        What the curator told.
    sample : Sample
        With a column for each attribute of the curator's list, if there is one.
    resolution : int
        As it was told, or as the values of the sample need it.
    n_users : int
        Who will be published: as many as was told, or some times the sample.
    """

    brief: Brief
    sample: Sample
    resolution: int
    n_users: int

    @property
    def n_published(self) -> int:
        """People who are published in a trial."""
        return min(self.n_users, MOST_PUBLISHED)


@dataclass(frozen=True)
class Trial:
    """A plan, and what was measured of it and of others on public people. Made by :func:`dimly.advise` with a sample.

    Attributes
    ----------
    plan : Plan
        The choice, ready to publish by; it holds its directions, if it has some.
    directions : Directions or None
        Those of the plan, learned from the whole sample.
    vocabulary : Vocabulary or None
        The list of attributes that the plan is closed to: publish with it.
    tried : tuple of TriedPlan
        At the epsilon that was asked for, the best first: the choice.
    ladder : tuple of TriedPlan
        The best at each epsilon that was tried, rising.
    left_out : tuple of LeftOut
        Mechanisms that were not tried, and why.
    asking : CheckedBrief
        What was asked, as it was understood.
    n_groups : int or None
        Segments that were asked for.
    learned : LearnedDirections or None
        How the directions were found.
    """

    plan: Plan
    directions: Directions | None
    vocabulary: Vocabulary | None
    tried: tuple[TriedPlan, ...]
    ladder: tuple[TriedPlan, ...]
    left_out: tuple[LeftOut, ...]
    asking: CheckedBrief = field(repr=False)
    n_groups: int | None = None
    learned: LearnedDirections | None = field(default=None, repr=False)

    @property
    def chosen(self) -> TriedPlan:
        """What was measured of the choice."""
        return self.tried[0]

    @property
    def figure(self) -> MeasuredFigure:
        """What the verdict goes by: ranking of distances, closeness of neighbors, agreement of segments."""
        return self.chosen.figures[FIGURE[self.asking.brief.purpose]]

    @property
    def verdict(self) -> Verdict:
        """Whether the plan is worth it: ``good``, ``coarse`` or ``not feasible``, by what was measured."""
        return verdict(self.figure.value, self.asking.brief.purpose)

    @property
    def needed(self) -> NeededEpsilon:
        """The smallest ε that was tried for a coarse and for a good verdict; None if none of them would do."""
        purpose = self.asking.brief.purpose

        def least(limit: float) -> float | None:
            enough = [one.epsilon for one in self.ladder if one.figures[FIGURE[purpose]].value >= limit]
            return min(enough, default=None)

        return NeededEpsilon(least(COARSE[purpose]), least(GOOD[purpose]))

    @property
    def rivals(self) -> tuple[TriedPlan, ...]:
        """Others that the sample cannot tell from the choice."""
        by, purpose = CHOSEN_BY[self.asking.brief.purpose], self.asking.brief.purpose
        first = self.chosen.figures[by]
        # Both were tried on the same people, so that half of an interval is far more than they differ by chance.
        near = (first.high - first.value) / 2
        return tuple(one for one in self.tried[1:] if abs(gain(one, purpose) - gain(self.chosen, purpose)) < near)

    @property
    def doubts(self) -> tuple[str, ...]:
        """What the curator should think about again."""
        brief = self.asking.brief
        return doubts(brief.budget, brief.n_users, self.plan)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Why to doubt what was measured: where the sample is too small to tell."""
        found = []
        n, figure = int(self.asking.sample.table.shape[0]), self.figure
        if n < FEW_PEOPLE or figure.high - figure.low > _WIDE:
            found.append(
                f"the sample of {n} people is too small to tell well: {_NAMES[self.asking.brief.purpose]} may be from "
                f"{figure.low:.2f} to {figure.high:.2f}. More volunteers would narrow that."
            )
        if self.rivals and self.verdict != "not feasible":
            found.append(
                f"the sample cannot tell {self.chosen.name} from {', '.join(one.name for one in self.rivals)}: they "
                "are about as good."
            )
        return tuple(found)

    @property
    def assumed(self) -> tuple[str, ...]:
        """What was assumed because it was not stated."""
        asked = self.asking
        found = []
        if asked.brief.n_users is None:
            found.append(f"{asked.n_users:,} people will be published, {TIMES} times the sample (--n-users)")
        if asked.n_users > asked.n_published:
            found.append(f"tried out among {asked.n_published:,} people; with more, denoising and segments get better")
        if self.n_groups is not None and asked.brief.n_groups is None:
            found.append(f"{self.n_groups} segments will be asked for (--n-groups)")
        if asked.resolution != 1:
            found.append(f"values in steps of 1/{asked.resolution} (--resolution)")
        return tuple(found)

    @property
    def reason(self) -> str:
        """Why this plan and no other."""
        by = CHOSEN_BY[self.asking.brief.purpose]
        first, others = self.chosen, [one for one in self.tried if one.mechanism != self.chosen.mechanism]
        own = f"{_NAMES_OF[by]} of {first.figures[by]} on people who were held back"
        if not others:
            return f"{first.mechanism} is the only one that could be tried: {own}."
        purpose = self.asking.brief.purpose
        ahead = [
            one for one in self.tried if one.n_parts == first.n_parts and gain(one, purpose) > gain(first, purpose)
        ]
        if ahead:
            near, nearer = (one.figures["closeness"].value for one in (ahead[0], first))
            return (
                f"{first.name} was chosen, with {own}: the sample cannot tell it from {ahead[0].name} with "
                f"{ahead[0].figures[by].value:.2f}, and neighbors are nearer by it ({nearer:.2f} against {near:.2f})."
            )
        second = others[0]
        return f"{first.mechanism} was best, with {own}; the next is {second.name} with {second.figures[by].value:.2f}."

    @property
    def words(self) -> str:
        """The verdict, what was measured, and the smallest ε that would do."""
        purpose, figure = self.asking.brief.purpose, self.figure
        text = f"{self.verdict.capitalize()}: {_WHAT[purpose].format(figure=figure)}."
        least, lowest = self.needed, min(one.epsilon for one in self.ladder)
        highest = max(one.epsilon for one in self.ladder)

        def number(epsilon: float) -> str:
            return f"{epsilon:g}" + (" or less" if epsilon == lowest else "")

        if least.coarse is None:
            return f"{text} No epsilon that was tried, up to {highest:g}, would do."
        text += f" Of those tried, the smallest epsilon that would do is {number(least.coarse)} for a coarse picture"
        if least.good is None:
            return f"{text}; none up to {highest:g} gives a good one."
        return f"{text}, and {number(least.good)} for a good one."

    @property
    def caveat(self) -> str:
        """What no trial can know."""
        n = self.asking.sample.table.shape[0]
        return (
            f"Measured on {n:,} public people, with fresh noise. It is only as good as these people are like those who "
            "will be published."
        )

    @property
    def meaning(self) -> tuple[str, ...]:
        """What the plan's ε and δ mean, in words."""
        cost = self.plan.cost
        table = self.asking.sample.table
        weight = float(table.sum()) / table.shape[0]
        return meaning(Budget(cost.epsilon, cost.delta), unit=self.plan.unit, weight=max(1.0, round(weight)))


_NAMES: Final[dict[Purpose, str]] = {
    "distances": "how often a near pair ranks before a far one",
    "neighbors": "the closeness of neighbors",
    "segments": "the agreement of segments",
}
_NAMES_OF: Final[dict[str, str]] = {
    "error": "a relative error of distances",
    "closeness": "a closeness of neighbors",
    "agreement": "an agreement of segments",
}
_WHAT: Final[dict[Purpose, str]] = {
    "distances": "a near pair ranked before a far one with probability {figure}",
    "neighbors": "those found had a closeness of {figure} (1 is that of the true nearest, 0 that of anybody)",
    "segments": "they agreed with those found without noise by {figure} (adjusted Rand index; 1 is the same, 0 chance)",
}


def merit_of(figures: dict[str, float], purpose: Purpose) -> float:
    """Return what the choice goes by, the more the better."""
    value = figures[CHOSEN_BY[purpose]]
    return -value if purpose == "distances" else value


def gain(one: TriedPlan, purpose: Purpose) -> float:
    """Return the same of what was measured."""
    return merit_of({name: measured.value for name, measured in one.figures.items()}, purpose)
