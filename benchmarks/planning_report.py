"""Tables of docs/planning-evidence.md from what was measured: ``python -m benchmarks.planning_report``."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks import planning_errors, planning_verdicts
from benchmarks.planning import (
    COUNTING,
    HELD_OUT,
    MENU,
    MULTIPLES,
    RESPONSE,
    STRUCTURES,
    WIDER,
    Cell,
    World,
    load,
    planned,
)
from benchmarks.planning_errors import Prediction
from benchmarks.planning_verdicts import Trial
from dimly.mechanisms import MECHANISMS
from dimly.planner.brief import PURPOSES, Purpose
from dimly.planner.verdicts import VERDICTS

PURPOSE_OF: dict[str, Purpose] = {"error": "distances", "closeness": "neighbors", "agreement": "segments"}
CLASSES = ("good", "coarse", "not feasible")
TELLING = 0.3
"""Agreement below which no plan finds the groups, and one is as good as another."""


class Judged(NamedTuple):
    """The planner's choice in one world beside the best of all that was measured there."""

    world: World
    mechanism: str
    k: int | None
    """As planned; judged at the nearest power of two that was measured."""
    value: float
    best_mechanism: str
    best_k: int | None
    best: float

    @property
    def share(self) -> float:
        """How good the choice is, from 0 to 1, as a share of the best."""
        return self.value / self.best if self.best > self.value else self.best / self.value

    @property
    def loss(self) -> float:
        """Part of the best that is lost."""
        return 1 - self.share


def kind_of(world: World) -> str:
    """Return what a world was for."""
    if world.structure not in STRUCTURES:
        return "real"
    return "held out" if world in HELD_OUT else "tried"


def judged(cells: Sequence[Cell], measure: str, *, kind: str = "tried") -> list[Judged]:
    """Return the planner's choices for a measure's purpose, in worlds of a kind where the choice matters."""
    found = []
    for world in dict.fromkeys(cell.world for cell in cells if kind_of(cell.world) == kind):
        here = [cell for cell in cells if (cell.world, cell.measure) == (world, measure)]
        if not here:
            continue
        smaller = measure == "error"
        best = min(here, key=lambda cell: cell.mean if smaller else -cell.mean)
        if not smaller and best.mean < TELLING:
            continue
        choice = planned(best, PURPOSE_OF[measure], (*MENU, RESPONSE))
        mechanism, k = choice.mechanism, choice.k
        same = [cell for cell in here if cell.mechanism == mechanism]
        nearest = same[0] if k is None else min(same, key=lambda cell: abs(math.log((cell.k or 1) / k)))
        found.append(Judged(world, mechanism, k, nearest.mean, best.mechanism, best.k, best.mean))
    return found


def multiples(cells: Sequence[Cell], measure: str) -> dict[int, float]:
    """Return how good counting is at multiples of k*, the one that is best for distances, on average over worlds.

    Relative to the best of them, and only where groups are found at all.
    """
    shares: dict[int, list[float]] = {}
    for world in dict.fromkeys(cell.world for cell in cells):
        here = [c for c in cells if (c.world, c.measure, c.mechanism) == (world, measure, COUNTING)]
        if kind_of(world) != "tried" or max((cell.mean for cell in here), default=0.0) < TELLING:
            continue
        least = planned(here[0]).k or 1
        near = {m: min(here, key=lambda c, k=m * least: abs(math.log((c.k or 1) / k))) for m in MULTIPLES}  # type: ignore[misc]
        top = max(cell.mean for cell in near.values())
        for multiple, cell in near.items():
            shares.setdefault(multiple, []).append(cell.mean / top)
    return {multiple: float(np.mean(each)) for multiple, each in shares.items()}


def choices(cells: Sequence[Cell]) -> str:
    """Return how good the planner's choices were among made-up people."""
    lines = ["| purpose | worlds | within 10 % of the best | median loss | largest loss |", "|---|---|---|---|---|"]
    for kind in ("tried", "held out"):
        for measure, purpose in PURPOSE_OF.items():
            losses = [one.loss for one in judged(cells, measure, kind=kind)]
            within = sum(loss <= 0.1 for loss in losses)
            name = purpose if kind == "tried" else f"{purpose}, {kind}"
            lines.append(
                f"| {name} | {len(losses)} | {within} | {100 * np.median(losses):.0f} % | {100 * max(losses):.0f} % |"
            )
    return "\n".join(lines)


def widths(cells: Sequence[Cell]) -> str:
    """Return how good multiples of k* are."""
    lines = ["| | " + " | ".join(f"{m} k\\*" for m in MULTIPLES) + " |", "|---|" + "---|" * len(MULTIPLES)]
    for measure, purpose in (("closeness", "neighbors"), (WIDER, "segments")):
        shares = multiples(cells, measure)
        lines.append(f"| {purpose} | " + " | ".join(f"{shares[m]:.2f}" for m in MULTIPLES) + " |")
    return "\n".join(lines)


def real_tables(cells: Sequence[Cell]) -> str:
    """Return how good the planner's choices were on real tables."""
    lines = ["| table | ε | purpose | chosen | found | best of all |", "|---|---|---|---|---|---|"]
    for measure in ("closeness", "agreement"):
        for one in judged(cells, measure, kind="real"):
            chosen = one.mechanism + (f", k = {one.k}" if one.k else "")
            best = one.best_mechanism + (f", k = {one.best_k}" if one.best_k else "")
            lines.append(
                f"| {one.world.structure} | {one.world.epsilon:g} | {PURPOSE_OF[measure]} | {chosen} | {one.value:.2f} "
                f"| {one.best:.2f}: {best} |"
            )
    return "\n".join(lines)


def errors(chosen: Sequence[Prediction], grid: Sequence[Prediction]) -> str:
    """Return measured over predicted errors, at the planner's k and on the grid."""
    lines = [
        "| mechanism | the planner's k | measured / predicted | on the grid | cells | beyond 5 % |",
        "|---|---|---|---|---|---|",
    ]
    for mechanism in MECHANISMS:
        own = [one for one in chosen if one.mechanism == mechanism]
        ratios = [one.ratio for one in grid if one.mechanism == mechanism]
        ks = sorted({one.k for one in own if one.k})
        size = f"{ks[0]}–{ks[-1]}" if ks else ""
        far = sum(abs(ratio - 1) > 0.05 for ratio in ratios)
        lines.append(
            f"| `{mechanism}` | {size} | {_range([one.ratio for one in own])} | {_range(ratios)} "
            f"| {len(ratios)} | {far} |"
        )
    return "\n".join(lines)


def verdicts(trials: Sequence[Trial]) -> str:
    """Return how often verdicts were right, in both checks."""
    lines = [
        "| check | purpose | people | verdicts | right | too favorable | too unfavorable | unknown | worse | better |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for fresh in (False, True):
        for purpose, real in itertools.product(PURPOSES, (False, True)):
            found = [
                planning_verdicts.judged(trial)
                for trial in trials
                if trial.purpose == purpose
                and (trial.world.structure not in STRUCTURES) == real
                and planning_verdicts.is_fresh(trial.world) == fresh
                and trial.world not in planning_verdicts.LARGE
            ]
            decided = [(said.worst, measured) for said, measured in found if said.worst == said.best]
            open_ = [(said, measured) for said, measured in found if said.worst != said.best]
            better = sum(VERDICTS.index(said) < VERDICTS.index(measured) for said, measured in decided)
            right = sum(said == measured for said, measured in decided)
            below = sum(VERDICTS.index(measured) > VERDICTS.index(said.worst) for said, measured in open_)
            above = sum(VERDICTS.index(measured) < VERDICTS.index(said.best) for said, measured in open_)
            counts = (len(found), right, better, len(decided) - right - better, len(open_), below, above)
            name = f"{'second' if fresh else 'first'} | {purpose} | {'real tables' if real else 'made up'}"
            lines.append(f"| {name} | {' | '.join(str(count) for count in counts)} |")
    return "\n".join(lines)


def limits(trials: Sequence[Trial]) -> str:
    """Return what was measured of neighbors at each figure predicted, in both halves of the third check."""
    lines = ["| half | predicted | plans | good | coarse | not feasible | lowest |", "|---|---|---|---|---|---|---|"]
    for half, held_out in (("set", False), ("test", True)):
        for target in planning_verdicts.TARGETS:
            found = [
                trial
                for trial in trials
                if planning_verdicts.is_held_out(trial) == held_out and planning_verdicts.target_of(trial) == target
            ]
            measured = [planning_verdicts.judged(trial)[1] for trial in found]
            of_each = " | ".join(str(sum(one == each for one in measured)) for each in CLASSES)
            lowest = min(trial.mean for trial in found)
            lines.append(f"| {half} | {target} | {len(found)} | {of_each} | {lowest:.2f} |")
    return "\n".join(lines)


def _range(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.2f}–{max(ratios):.2f}"


def tables() -> list[str]:
    """Return all of them, from the stored results."""
    cells = load()
    return [
        choices(cells),
        widths(cells),
        real_tables(cells),
        errors(planning_errors.load(), planning_errors.load("grid")),
        verdicts(planning_verdicts.load()),
        limits(planning_verdicts.load(planning_verdicts.LIMITS)),
    ]


if __name__ == "__main__":
    print("\n\n".join(tables()))
