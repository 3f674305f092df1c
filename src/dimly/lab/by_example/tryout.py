"""Tries out each mechanism on parts of a sample: ladder of epsilons, folds, widths k, the best chosen.

The sample is cut into parts. Each part in turn is judged: directions are learned from the other parts, by the recipe
that suits the whole sample, everybody is published by each plan with noise from its own table (judged_people), and the
analyst's questions are asked about people whom no direction was learned from. Theory says at which k a sketch is tried,
and which mechanisms need not be; what is reported was measured. All of it is
only as good as the sample is like the people who will be published.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dimly.errors import ParameterError, as_integer
from dimly.lab.by_example.judged_people import FigureName, JudgedPeople
from dimly.lab.by_example.outcome import (
    CHOSEN_BY,
    FIGURE,
    TIMES,
    CheckedBrief,
    MeasuredFigure,
    Trial,
    TriedPlan,
    gain,
    merit_of,
)
from dimly.lab.directions.from_sample import SCALES, Comparison, LearnedDirections, directions_by_recipe, fitting_scale
from dimly.lab.sample import Sample, squared_distances_of
from dimly.mechanisms.make import (
    DIRECTED,
    NOISY_DISTANCES,
    RANDOMIZED_RESPONSE,
    is_open,
    needs_delta,
)
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.projection.directions import Directions
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.planner.advice import reasons_of
from dimly.planner.brief import DEFAULT_RESOLUTION, Brief, Purpose, Question
from dimly.planner.candidates import Candidate, LeftOut, candidates
from dimly.planner.verdicts import COARSE, GOOD
from dimly.privacy import Budget
from dimly.progress import OnProgress

LADDER: Final = (0.25, 0.5, 2.0, 4.0, 8.0)
"""Other epsilons that are tried, as multiples of the one that was asked for."""
IN_ITS_PLACE: Final = "must be left out where a sample is given: everything is tried out on the sample instead."
LEAST_PEOPLE: Final = 12
"""Below, nobody can be held back."""
N_PARTS: Final = 3
DIRECTIONS: Final = DIRECTED[0]
MENU: Final = ("counting+laplace", "hashing+laplace", "counting+gaussian", "hashing+gaussian", RANDOMIZED_RESPONSE)
"""Tried beside directions; others of the menu if they are named. Theory has none of them ahead of these."""
_WIDTHS: Final[dict[Purpose, tuple[float, ...]]] = {
    "distances": (1.0,),
    "neighbors": (1.0, 4.0, 16.0),
    "segments": (0.5, 1.0, 4.0),
}
"""Multiples of the k that theory takes for a purpose. Denoising makes use of more than theory knows."""
_LARGEST_K: Final = 1_024
_SMALLEST_K: Final = 8
_RIVALS: Final = 1.6  # times the smallest blur, up to which theory does not rule a mechanism out
_IN_REACH: Final = 0.75  # of the best in the first part: others are not tried in the other parts
_SURE: Final = 1.83  # standard deviations on both sides: 90 % with nine degrees of freedom
_LEAST_SPREAD: Final = 0.03
_LEAST_SPREAD_OF_GROUPS: Final = 0.06  # other people may be grouped otherwise, though all parts of a sample agree


def try_out(
    brief: Brief, sample: Sample, *, ladder: Sequence[float] | None = None, progress: OnProgress | None = None
) -> Trial:
    """Return the plan that served best on public people, and everything that was measured.

    Parameters
    ----------
    brief : Brief
        ``n_users`` is ten times the sample by default, ``n_groups`` as many as the sample shows, and ``resolution`` 16
        if the sample has values other than 0 and 1, or less where epsilon is small.
        ``mechanisms`` may name ``directions+laplace`` and ``directions+gaussian``, too.
    sample : Sample
        At least twelve public people; better some hundreds.
    ladder : sequence of float, optional
        Multiples of epsilon that are tried, too, as far as it takes to find the smallest that would do; ¼, ½, 2, 4 and
        8 by default.
    progress : callable, optional
        Told of (trials done, trials in all, about).

    Raises
    ------
    ParameterError
        If the sample is too small, nothing can be tried, or the brief states what a sample shows.
    """
    asking = _checked(brief, sample)
    import sklearn.cluster  # noqa: F401, PLC0415 (slow to import; its threads are limited only once it is loaded)

    with threadpool_limits(1):  # many small products, which threads only slow down
        return _Trials(asking, progress).chosen(LADDER if ladder is None else ladder)


def check_unstated(brief: Brief) -> None:
    """Refuse what a sample shows better than words can state it."""
    for name in ("distance", "survey", "weight", "n_attributes"):
        if getattr(brief, name) is not None:
            raise ParameterError(f"{name} {IN_ITS_PLACE}")
    if brief.numbered:
        raise ParameterError(f"numbered {IN_ITS_PLACE} Give the list of attributes by vocabulary.")


def _checked(brief: Brief, sample: Sample) -> CheckedBrief:
    check_unstated(brief)
    n = int(sample.table.shape[0])
    if n < LEAST_PEOPLE:
        raise ParameterError(
            f"sample must have at least {LEAST_PEOPLE} people, so that some can be held back, got {n}. A few hundred "
            "tell more; without a sample, state distances."
        )
    if brief.n_groups is not None:
        brief = replace(brief, n_groups=as_integer("n_groups", brief.n_groups, 2, max(2, n // 4)))
    if brief.listed is not None:
        sample = _listed(sample, brief.listed)
    bits = bool((sample.table.data == 1).all())
    resolution = brief.resolution
    if resolution is None or (resolution == 1 and not bits):
        resolution = 1 if bits else _fitting_resolution(brief)
    return CheckedBrief(
        brief=brief,
        sample=sample,
        resolution=resolution,
        n_users=TIMES * n if brief.n_users is None else brief.n_users,
    )


def _fitting_resolution(brief: Brief) -> int:
    """Return the resolution of values: 16, or less where the noise along directions would not fit its table."""
    steps = [DEFAULT_RESOLUTION >> halved for halved in range(3)]
    epsilon = brief.budget.epsilon
    fit = [one for one in steps if fitting_scale(epsilon, unit=brief.unit, resolution=one) == SCALES[0]]
    return max(fit, default=steps[-1])


def _listed(sample: Sample, names: Vocabulary) -> Sample:
    """Return the sample with a column for each attribute of a list, and no others."""
    codes = names.codes(_attributes(sample))
    kept = np.flatnonzero(codes >= 0)
    if not len(kept):
        raise ParameterError(
            "vocabulary must hold attributes of the sample, but it holds none. Check how they are spelled."
        )
    places = scipy.sparse.csr_array(
        (np.ones(len(kept), np.float32), (kept, codes[kept])), shape=(len(codes), len(names))
    )
    return replace(sample, table=scipy.sparse.csr_array(sample.table @ places), attributes=names)


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is tried: directions, or a mechanism at its k."""

    mechanism: str
    candidate: Candidate | None = None

    @property
    def directed(self) -> bool:
        return self.mechanism in DIRECTED


class _Trials:
    """Parts of a sample, and what was measured on them."""

    def __init__(self, asking: CheckedBrief, progress: OnProgress | None) -> None:
        self._asked = asking
        self._brief = asking.brief
        self._progress = progress
        self._done, self._total = 0, 1
        sample = asking.sample
        table = sample.table
        n = int(table.shape[0])
        # In an order of its own: neighbors in a file are often alike.
        part = np.random.default_rng(0).permutation(n) % N_PARTS
        self._names = _attributes(sample)
        self._judged: list[NDArray[np.bool_]] = [part == one for one in range(N_PARTS)]
        self._people = [
            JudgedPeople.of(table, judged, size=max(asking.n_published, int(judged.sum())), seed=one)
            for one, judged in enumerate(self._judged)
        ]
        self._directions: dict[tuple[int | None, float], Directions] = {}
        self._n_groups = asking.brief.n_groups
        if asking.brief.purpose == "segments" and self._n_groups is None:
            self._n_groups = self._people[0].soundest

    def chosen(self, ladder: Sequence[float]) -> Trial:
        budget, purpose = self._brief.budget, self._brief.purpose
        entries, left_out = self._entries(budget)
        if not entries:
            raise ParameterError(f"mechanisms must include one that can serve, got none. {reasons_of(left_out)}.")
        steps = [budget.epsilon * step for step in ladder]
        self._total = len(entries) + 2 * (N_PARTS - 1) + 3 * len(steps)
        figures: dict[_Entry, list[dict[str, float]]] = {}
        every: set[FigureName] = {FIGURE[purpose], CHOSEN_BY[purpose], "error", "ranking", "closeness", "recall"}
        for entry in entries:
            found = self._measured(entry, budget, 0, every)
            if isinstance(found, str):
                left_out.append(LeftOut(entry.mechanism, found))
            else:
                figures[entry] = [found]
        if not figures:
            raise ParameterError(f"mechanisms must include one that can serve, got none. {reasons_of(left_out)}.")
        first = {entry: merit_of(found[0], purpose) for entry, found in figures.items()}
        reach = max(first.values()) - (1 - _IN_REACH) * abs(max(first.values())) - _LEAST_SPREAD
        for part in range(1, N_PARTS):
            for entry in [one for one, value in first.items() if value >= reach]:
                again = self._measured(entry, budget, part, every)
                if not isinstance(again, str):
                    figures[entry].append(again)
        spreads = _spreads(figures.values())
        measured = {entry: self._tried(entry, budget, found, spreads) for entry, found in figures.items()}
        tried = sorted(
            measured.values(),
            key=lambda one: (-gain(one, purpose) if one.n_parts == N_PARTS else math.inf, -gain(one, purpose)),
        )
        tried = _soundest_first(tried, purpose, spreads)
        best = next(entry for entry, one in measured.items() if one is tried[0])
        learned = self._learned_from_all() if best.directed else None
        directions = None if learned is None else learned.directions
        plan = self._plan(best, budget, self._names, directions)
        # Directions learned from everybody may be fewer or more than those that were judged.
        own = replace(tried[0], k=plan.k, bytes_per_user=float(plan.bytes_per_user))
        rungs = self._ladder(steps, own, spreads)
        self._tell(done=True)
        return Trial(
            plan=plan,
            directions=directions,
            vocabulary=None if plan.vocabulary is None else Vocabulary.listed(self._names),
            tried=(own, *tried[1:]),
            ladder=rungs,
            left_out=tuple(left_out),
            asking=self._asked,
            n_groups=self._n_groups,
            learned=learned,
        )

    def _ladder(self, steps: Sequence[float], own: TriedPlan, spreads: dict[str, float]) -> tuple[TriedPlan, ...]:
        """Return the best at each epsilon; at others than the one asked for, by one part of the sample.

        Smaller ones are tried until nothing is seen any more, larger ones until the verdict is good.
        """
        purpose = self._brief.purpose
        rungs = [own]
        for larger in (False, True):
            figure = own.figures[FIGURE[purpose]].value
            for epsilon in sorted(steps, reverse=not larger):
                if (epsilon > own.epsilon) is not larger:
                    continue
                if figure >= GOOD[purpose] if larger else figure < COARSE[purpose]:
                    break
                rung = self._rung(Budget(epsilon, self._brief.budget.delta), spreads)
                if rung is not None:
                    rungs.append(rung)
                    figure = rung.figures[FIGURE[purpose]].value
        return tuple(sorted(rungs, key=lambda one: one.epsilon))

    def _rung(self, budget: Budget, spreads: dict[str, float]) -> TriedPlan | None:
        purpose = self._brief.purpose
        found = []
        for entry in _few(self._entries(budget)[0]):
            figures = self._measured(entry, budget, 0, {FIGURE[purpose], CHOSEN_BY[purpose]})
            if not isinstance(figures, str):
                found.append(self._tried(entry, budget, [figures], spreads))
        return max(found, key=lambda one: gain(one, purpose), default=None)

    def _entries(self, budget: Budget) -> tuple[list[_Entry], list[LeftOut]]:
        """Return what is tried at a budget, and what is not, and why."""
        able, left_out = candidates(replace(self._question, budget=budget))
        named = self._brief.mechanisms or ()
        best = min((one.blur for one in able), default=math.inf)
        entries: list[_Entry] = []
        for one in able:
            if one.blur > _RIVALS * best and one.mechanism not in (MENU[0], *named):
                reason = f"theory predicts {one.blur / best:.1f} times the error of {able[0].mechanism}"
                left_out.append(LeftOut(one.mechanism, reason))
                continue
            entries += [_Entry(one.mechanism, wide) for wide in self._widths(one)]
        for mechanism in DIRECTED:
            reason = self._why_not_directed(mechanism, budget)
            if reason:
                left_out.append(LeftOut(mechanism, reason))
            elif mechanism == DIRECTIONS or mechanism in named:
                entries.insert(0, _Entry(mechanism))
        return entries, [one for one in left_out if not named or one.mechanism in named]

    def _why_not_directed(self, mechanism: str, budget: Budget) -> str:
        asked = self._brief
        if asked.mechanisms is not None and mechanism not in asked.mechanisms:
            return "it was not asked for"
        if needs_delta(mechanism) and budget.is_pure:
            return "it needs a delta above 0"
        if asked.purpose == "distances":
            return "along directions only a part of a distance is measured"
        if mechanism != DIRECTIONS and asked.mechanisms is None:
            return f"for few directions {DIRECTIONS} has less noise; name it to try it"
        return ""

    def _widths(self, one: Candidate) -> list[Candidate]:
        """Return a sketch at several k; anything else as it is."""
        if one.k is None:
            return [one]
        size = one.bytes_per_user / one.k
        most = self._brief.max_bytes_per_user
        largest = _LARGEST_K if most is None else min(_LARGEST_K, int(most / size))
        widths = _WIDTHS[self._brief.purpose]
        if self._brief.purpose == "distances":
            return [one]
        if one.mechanism != "counting+laplace":
            widths = widths[1:2]
        step = one.blocks
        found = sorted({max(min(_SMALLEST_K, largest), min(largest, round(width * one.k))) for width in widths})
        return [replace(one, k=max(step, k // step * step), bytes_per_user=k * size) for k in found]

    @cached_property
    def _question(self) -> Question:
        """What theory is asked about people like these, for a budget that is put in its place."""
        asked, brief = self._asked, self._brief
        table = asked.sample.table
        low, high = _typical(table)
        bits = asked.resolution == 1
        named = None if brief.mechanisms is None else [one for one in brief.mechanisms if one not in DIRECTED]
        shown = replace(
            brief,
            n_users=None,
            n_groups=None,
            vocabulary=self._names,
            distance=(low, high),
            weight=max(float(table.sum()) / table.shape[0], high / 2, 1e-3) if bits else None,
            values="bits" if bits else "unit",
            resolution=asked.resolution,
            mechanisms=named or None,
        )
        keep = MENU if named is None else named
        return replace(Question.of(shown), mechanisms=tuple(one for one in keep if one != NOISY_DISTANCES))

    def _plan(self, entry: _Entry, budget: Budget, names: Sequence[str], directions: Directions | None) -> Plan:
        shared: dict[str, Any] = {
            "resolution": self._asked.resolution,
            "unit": self._brief.unit,
            "protect": self._brief.protect,
        }
        if entry.candidate is None:
            return Plan.of(entry.mechanism, budget, directions=directions, **shared)
        one = entry.candidate
        closed = self._brief.vocabulary is not None or not is_open(one.mechanism)
        return Plan.of(
            one.mechanism,
            budget,
            k=one.k,
            blocks=one.blocks,
            dtype=one.dtype,
            blend=one.blend,
            seed=None if one.k is None else self._brief.seed,
            vocabulary=list(names) if closed else None,
            **shared,
        )

    @cached_property
    def _comparison(self) -> Comparison:
        """Recipes of directions, compared on the whole sample: a part of it would often choose another one."""
        groups = self._n_groups if self._brief.purpose == "segments" else None
        return Comparison(self._asked.sample, purpose=self._brief.purpose, groups=groups)

    def _learned(self, part: int | None, epsilon: float) -> Directions:
        """Return directions that are learned without one part of the sample, or with all of it."""
        key = (part, epsilon)
        if key not in self._directions:
            sample = self._asked.sample
            if part is not None:
                kept = ~self._judged[part]
                sample = replace(sample, table=sample.table[kept], users=sample.users[kept])
            self._directions[key] = directions_by_recipe(
                sample,
                self._comparison.best(epsilon),
                scale=fitting_scale(epsilon, unit=self._brief.unit, resolution=self._asked.resolution),
                what_for=f"for {self._brief.purpose} at epsilon {epsilon:g}",
            )
        return self._directions[key]

    def _measured(self, entry: _Entry, budget: Budget, part: int, wanted: set[FigureName]) -> dict[str, float] | str:
        """Return what one plan is good for, on one part of the sample; or why it cannot be made."""
        people = self._people[part]
        try:
            names = people.names(self._names) if self._brief.vocabulary is None else self._names
            directions = self._learned(part, budget.epsilon) if entry.directed else None
            plan = self._plan(entry, budget, names, directions)
        except ParameterError as error:
            return str(error)
        finally:
            self._tell()
        if entry.directed:
            wanted = wanted - {"error", "ranking"}
        release = people.published(plan, self._names)
        return people.measured(release, wanted, n_groups=self._n_groups or 0, n_users=self._asked.n_users)

    def _tried(
        self, entry: _Entry, budget: Budget, found: Sequence[dict[str, float]], spreads: dict[str, float]
    ) -> TriedPlan:
        n = len(found)
        figures = {}
        for name in found[0]:
            value = float(np.mean([one[name] for one in found]))
            wide = _SURE * spreads[name] * math.sqrt(1 + 1 / n)
            low, high = value - wide, value + wide
            figures[name] = MeasuredFigure(value, max(low, 0.0), high if name == "error" else min(high, 1.0))
        one = entry.candidate
        k = self._learned(0, budget.epsilon).count if one is None else one.k
        size = float(4 * (k or 0)) if one is None else one.bytes_per_user
        return TriedPlan(entry.mechanism, k, budget.epsilon, size, not needs_delta(entry.mechanism), figures, n)

    def _learned_from_all(self) -> LearnedDirections:
        epsilon = self._brief.budget.epsilon
        directions = self._learned(None, epsilon)
        return LearnedDirections(directions, self._comparison.best(epsilon), self._comparison.merits(epsilon))

    def _tell(self, *, done: bool = False) -> None:
        self._done = self._total if done else min(self._done + 1, self._total - 1)
        if self._progress is not None:
            self._progress(self._done, self._total)


def _attributes(sample: Sample) -> list[str]:
    if not isinstance(sample.attributes, Vocabulary):
        raise ParameterError("sample must have a column for each attribute, not for each bucket.")
    return list(sample.attributes)


def _typical(table: scipy.sparse.csr_array) -> tuple[float, float]:
    """Return squared distances of near and of far pairs: the first and the last tenth."""
    some = table[np.unique(np.linspace(0, table.shape[0] - 1, 600).astype(np.int64))]
    low, high = np.quantile(squared_distances_of(some)[2], [0.1, 0.9])
    high = max(float(high), 1e-3)
    return min(max(float(low), high / 100), 0.9 * high), high


def _few(entries: Sequence[_Entry]) -> list[_Entry]:
    """Return directions, and each sketch at the middle of its k: enough to see what another epsilon would do."""
    found: dict[str, list[_Entry]] = {}
    for one in entries:
        found.setdefault(one.mechanism, []).append(one)
    keep = ("counting+laplace", RANDOMIZED_RESPONSE, *DIRECTED)
    chosen = [several[len(several) // 2] for name, several in found.items() if name in keep]
    return chosen or [several[len(several) // 2] for several in found.values()]


def _spreads(found: Iterable[Sequence[dict[str, float]]]) -> dict[str, float]:
    """Return the standard deviation of each figure between parts, pooled over everything that was tried on several."""
    squares: dict[str, list[float]] = {}
    names: set[str] = set()
    for several in found:
        names |= set(several[0])
        if len(several) > 1:
            for name in several[0]:
                squares.setdefault(name, []).append(float(np.var([one[name] for one in several], ddof=1)))
    least = dict.fromkeys(names, _LEAST_SPREAD) | {"agreement": _LEAST_SPREAD_OF_GROUPS}
    return {name: max(math.sqrt(float(np.mean(squares.get(name, [0.0])))), least[name]) for name in names}


def _soundest_first(tried: list[TriedPlan], purpose: Purpose, spreads: dict[str, float]) -> list[TriedPlan]:
    """Put first, of those whose segments agree about as well as the best, the one that neighbors are nearest by.

    How well segments agree varies much from part to part where groups are not sound, so that the largest of several
    figures is the luckiest. How near neighbors are is a mean over everybody that hardly varies, of the same sketches.
    """
    if purpose != "segments":
        return tried
    within = spreads["agreement"] / math.sqrt(N_PARTS)  # of what the best could have by luck
    near = [one for one in tried if one.n_parts == N_PARTS and gain(tried[0], purpose) - gain(one, purpose) <= within]
    first = max(near, key=lambda one: one.figures["closeness"].value, default=tried[0])
    return [first, *(one for one in tried if one is not first)]
