"""``Advice``: the chosen plan among candidates, and its reason, assumptions, verdict and needed ε in words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from dimly.display import Shown, data_frame, percent
from dimly.errors import ParameterError
from dimly.mechanisms.plan import Plan
from dimly.planner.brief import DEFAULT_GROUPS, Brief, Purpose, Question
from dimly.planner.candidates import Candidate, LeftOut, candidates, realized
from dimly.planner.paper import PaperRule, paper_rules
from dimly.planner.predicted_figures import N_FOUND, share_found
from dimly.planner.survey_facts import by_survey
from dimly.planner.verdicts import (
    EPSILONS,
    VERDICTS,
    NeededEpsilon,
    Verdict,
    VerdictRange,
    by_noise,
    clarity,
    doubts,
    figure,
    meaning,
    needed,
    range_on,
    unstated,
    verdict_on,
)
from dimly.plots import bars
from dimly.privacy import Budget

PAIRS: Final[Mapping[Verdict, str]] = MappingProxyType(
    {
        "good": "single pairs can be told apart",
        "coarse": "groups can be told apart, single pairs cannot",
        "unknown": "too little was stated for a verdict",
        "not feasible": "not even groups can be told apart",
    }
)
_WHAT: dict[tuple[Purpose, Verdict], str] = {
    **{("distances", verdict): text for verdict, text in PAIRS.items()},
    ("neighbors", "good"): "the people found are nearly as near as the true nearest",
    ("neighbors", "coarse"): "the people found are nearer than most, but seldom the nearest",
    ("neighbors", "unknown"): "too little was stated for a verdict",
    ("neighbors", "not feasible"): "the people found are hardly nearer than people picked at random",
    ("segments", "unknown"): "too little was stated for a verdict",
    ("segments", "not feasible"): "groups this far apart will not be found",
}
_SAMPLE: Final = "To find out, try it on people whose data may be public, such as volunteers (sample=FILE)."
_SURVEY: Final = (
    "If nobody knows, `dimly survey` measures distances for a small part of the budget (then survey=FILE). Or try it "
    "on people whose data may be public, such as volunteers (sample=FILE)."
)


@dataclass(frozen=True)
class Advice:
    """A plan, what was weighed against it, and what it will be good for. Made by :func:`advise`.

    Attributes
    ----------
    plan : Plan
        The choice, ready to publish by.
    candidates : tuple of Candidate
        Every mechanism that could serve, the best first; the first one is the choice.
    left_out : tuple of LeftOut
        The others, and why.
    question : Question
        What was asked, as it was understood.
    """

    plan: Plan
    candidates: tuple[Candidate, ...]
    left_out: tuple[LeftOut, ...]
    question: Question

    def __repr__(self) -> str:
        return self._shown().text()

    def _repr_html_(self) -> str:
        return self._shown().html()

    def _shown(self) -> Shown:
        lines = [self.words, self.reason, *self.meaning[:1], *self.doubts]
        rows = [(one.mechanism, one.k or "", one.stderr_low, one.stderr_high) for one in self.candidates]
        header = ("mechanism", "k", f"error at {_number(self.question.low)}", f"at {_number(self.question.high)}")
        title = f"Advice: {self.plan.mechanism}" + (f", k = {self.plan.k:,}" if self.plan.k else "")
        return Shown(title, lines, header, rows)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the predicted standard error of every candidate, the chosen one first; return matplotlib's axes."""
        names = [one.mechanism + (f", k = {one.k:,}" if one.k else "") for one in self.candidates]
        values = np.array([one.stderr_high for one in self.candidates])
        what = f"predicted standard error at {self.plan.measured} {_number(self.question.high)}"
        ax = bars(names, values, ax=ax, what=what)
        ax.set_title(f"{self.verdict.capitalize()} for {self.question.purpose} at epsilon = {self.plan.cost.epsilon:g}")
        return ax

    def to_pandas(self) -> Any:
        """Return a data frame of all candidates, the best first, with their predicted standard errors.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        names = ("mechanism", "k", "stderr_low", "stderr_high", "blur", "closeness", "agreement")
        return data_frame({name: [getattr(one, name) for one in self.candidates] for name in names})

    @property
    def chosen(self) -> Candidate:
        """The choice, with its predicted errors."""
        return self.candidates[0]

    @property
    def stderr(self) -> float:
        """Predicted standard error of a squared distance of far pairs."""
        return self.chosen.stderr_high

    @property
    def clarity(self) -> float:
        """The probability that a near pair ranks before a far one, as the purpose sees it."""
        return clarity(self.question, self.chosen.blur)

    @property
    def verdict(self) -> Verdict:
        """Whether the plan is worth it: ``good``, ``coarse`` or ``not feasible``.

        ``unknown`` if what was stated does not decide it: :attr:`range` says what it may be, and :attr:`words` what
        would decide. docs/planning.md has the thresholds, docs/planning-evidence.md how often such verdicts
        were right.
        """
        return verdict_on(self.question, self.chosen)

    @property
    def range(self) -> VerdictRange:
        """The worst and the best that the plan may turn out to be; the same twice where the verdict is not unknown."""
        return range_on(self.question, self.chosen)

    @property
    def figure(self) -> float:
        """What the verdict goes by.

        For distances :attr:`clarity`, for neighbors ``chosen.closeness``, for segments ``chosen.agreement``.
        """
        return figure(self.question, self.chosen)

    @property
    def unstated(self) -> tuple[str, ...]:
        """What would have to be stated for a verdict; empty if all is there."""
        return unstated(self.question)

    @property
    def assumed(self) -> tuple[str, ...]:
        """What was assumed because it was not stated, or cannot be as it was."""
        return _assumed(self.question)

    @property
    def measured(self) -> tuple[str, ...]:
        """What a survey measured, where it would have been assumed."""
        return self.question.measured

    @property
    def share_found(self) -> float | None:
        """About which share of ten neighbors is right, if ten people are near and all others far.

        None where nobody said how many people there are, or where they are too few for ten near and ten far ones.
        """
        asked, one = self.question, self.chosen
        if asked.n_users is None or asked.n_users < 2 * N_FOUND:
            return None
        return share_found(asked.high - asked.low, one.stderr_low, one.stderr_high, n_users=asked.n_users)

    @cached_property
    def needed(self) -> NeededEpsilon:
        """The smallest ε for a coarse and for a good verdict; computed when asked for."""
        return needed(self.question)

    @property
    def words(self) -> str:
        """The verdict and the smallest ε that would do, in a sentence or two."""
        if self.verdict == "unknown" and self.unstated:
            what = _WHAT[self.question.purpose, "unknown"]
            how = f" {_SURVEY}" if any(one.startswith("distance") for one in self.unstated) else ""
            return f"Unknown: {what}. State {' and '.join(self.unstated)}.{how}"
        if self.verdict == "unknown" and self.question.purpose == "segments":
            part = "" if self.range.best == "good" else " in part"
            return (
                f"Unknown, {self.range.best} at best: noise allows compact groups this far apart to be found{part}, "
                f"but distances do not tell whether people form such groups. {_SAMPLE} "
                f"{_needed_words(self.needed, self.question.purpose)}"
            )
        what = _WHAT[self.question.purpose, by_noise(self.question, self.chosen)]
        share = self.share_found
        if self.question.purpose == "neighbors" and share is not None:
            many = f"about {percent(share)}" if share >= 0.005 else "hardly any"
            what += f"; if ten of {self.question.n_users:,} people are near, {many} of the ten found are right"
        verdict = f"{self.verdict.capitalize()}: {what}."
        if self.verdict == "unknown":
            verdict = (
                f"Unknown, {self.range.best} at best: without denoising, {what}. Where people share tastes, denoising "
                f"finds more. {_SAMPLE}"
            )
        return verdict if self.unstated else f"{verdict} {_needed_words(self.needed, self.question.purpose)}"

    @property
    def reason(self) -> str:
        """Why this mechanism and no other."""
        return _reason(self.candidates, self.question)

    @cached_property
    def paper(self) -> tuple[PaperRule, ...]:
        """The paper's two rules for k beside ours, for its own mechanism."""
        return paper_rules(self.question)

    @property
    def meaning(self) -> tuple[str, ...]:
        """What the plan's ε and δ mean, in words."""
        cost = self.plan.cost
        return meaning(Budget(cost.epsilon, cost.delta), unit=self.plan.unit, weight=self.question.weight)

    @property
    def doubts(self) -> tuple[str, ...]:
        """What the curator should think about again."""
        return doubts(self.question.budget, self.question.n_users, self.plan)


def advise(brief: Brief) -> Advice:
    """Return the best plan for what a curator told, with everything that was weighed. Looks at no data.

    Raises
    ------
    ParameterError
        If no mechanism can serve, or what was told does not fit together.

    Examples
    --------
    >>> found = advise(Brief(Budget(1.0), n_attributes=100_000, distance=(100, 800)))
    >>> found.plan.mechanism, found.verdict
    ('counting+laplace', 'good')
    """
    told, measured = by_survey(brief)
    return answer(Question.of(told, measured=measured))


def answer(question: Question) -> Advice:
    """Return the advice on a question that was checked."""
    able, unable = candidates(question)
    # Segments need two things: the best blur alone may leave people between groups.
    able.sort(key=lambda one: (VERDICTS.index(by_noise(question, one)), one.blur))
    for position, one in enumerate(able):
        try:
            made = one.plan(question)
        except ParameterError as error:
            unable.append(LeftOut(one.mechanism, str(error)))
            continue
        exact = realized(one, made.error, question)
        return Advice(made, (exact, *able[position + 1 :]), tuple(unable), question)
    raise ParameterError(f"mechanisms must include one that can serve, got none. {reasons_of(unable)}.")


def reasons_of(left_out: Iterable[LeftOut]) -> str:
    """Return who cannot serve and why, those with one reason together."""
    reasons: dict[str, list[str]] = {}
    for name, reason in left_out:
        reasons.setdefault(reason.removesuffix("."), []).append(name)
    return "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())


def _assumed(asked: Question) -> tuple[str, ...]:
    found = []
    far = _number(asked.high)
    if asked.stated == "nothing":
        found.append(f"far pairs differ in {far} attributes, and near ones in half of them (--distance)")
    elif asked.stated == "weight":
        chance = "" if asked.n_attributes is None else " but by chance"
        found.append(
            f"far pairs share nothing{chance}, and differ in {far} attributes; near ones in half of them (--distance)"
        )
    elif asked.stated == "far":
        found.append(
            f"near pairs differ in {_number(asked.low)} attributes, half as many as far ones (--distance LOW:HIGH)"
        )
    if asked.weight is None:
        found.append(f"people have {_number(asked.high / 2)} attributes, so that far pairs share nothing (--weight)")
    elif asked.weight < asked.high / 2:
        found.append(
            f"pairs at squared distance {far} have {_number(asked.high / 2)} attributes each: those of "
            f"{_number(asked.weight)} cannot differ in more than {_number(2 * asked.weight)}"
        )
    if asked.purpose == "segments":
        number = DEFAULT_GROUPS if asked.n_groups is None else asked.n_groups
        found.append(
            f"{number} groups of equal size, equally far apart" + (" (--n-groups)" if not asked.n_groups else "")
        )
    return tuple(found)


def _needed_words(least: NeededEpsilon, purpose: Purpose) -> str:
    if least.coarse is None:
        return "No epsilon up to 32 would do."
    does = "at which noise allows it" if purpose == "segments" else "that would do"
    subject = f"The smallest epsilon {does}"
    coarse = f"{subject} is {_epsilon(least.coarse)} for a coarse picture"
    if least.good is None:
        return f"{coarse}; no epsilon up to 32 gives a good one."
    return f"{coarse}, and {_epsilon(least.good)} for a good one."


def _epsilon(number: float) -> str:
    return f"{number:g}" + (" or less" if number <= EPSILONS[0] else "")


def _reason(able: Sequence[Candidate], question: Question) -> str:
    first, *others = able
    what = f"standard error {_number(first.stderr_high)} at squared distance {_number(question.high)}"
    if not others:
        return f"{first.mechanism} is the only one that can serve: {what}."
    second = others[0]
    if question.purpose == "distances":
        return (
            f"{first.mechanism} has the smallest error, {what}; the next is {second.mechanism} with "
            f"{_number(second.stderr_high)}."
        )
    return (
        f"{first.mechanism} shows {question.purpose} best once denoised; {second.mechanism}, the next, is "
        f"{second.blur / first.blur:.2f} times as blurred. Single pairs: {what}."
    )


def _number(error: float) -> str:
    return f"{error:,.0f}" if error >= 100 else f"{error:.3g}"
