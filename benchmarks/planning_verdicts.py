"""Are the planner's verdicts right? ``python -m benchmarks.planning_verdicts``, also with ``--tables``.

The people of :mod:`benchmarks.planning` are published by the planner's own plans, with fresh seeds and noise. The
planner is told what is true of them on average: mean weight, number of people, attributes and groups, and squared
distances (for distances the 10 and 90 % quantiles, for neighbors those to the ten nearest and to anybody, for segments
those within a group and between two). Measured is what the verdict is about:

- distances: the share of near and far pairs (a tenth of the gap around both) whose estimates are in the right order;
- neighbors: how much nearer ten found are than random people, as a share of what the true ten would be;
- segments: the adjusted Rand index of as many segments as there are groups with the groups.

A verdict is right if the figure measured is in the class that it names (``BOUNDS``). Where the verdict is unknown, the
range that is given beside it is right if the figure is within.

There were three checks. Before the first, rules and thresholds were fixed; by what it showed (``WORLDS``, garments 0,
5, 7 and mushrooms 2,000 and on) ranges were introduced. So it says nothing of those. Then all was fixed again, and the
second (``FRESH``, ``--fresh``) was measured: other people, circles and groups of unequal size among them, other classes
of garments, other mushrooms, retail and reviews. By what it showed ranges were widened (docs/planning-evidence.md).
The third (``--limits set``, then ``--limits test``, with ``--out`` benchmarks/planning_limits.json) is about the limit
from which on neighbors are called good: see :mod:`benchmarks.planning_people`.

Each world was measured once. Tables without labels are judged on segments by the groups that k-means finds in the raw
table.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from benchmarks.accuracy import tables_of
from benchmarks.planning import COUNTING, NO_GROUPS, RESPONSE, STRUCTURES, Truth, World
from benchmarks.planning_people import Table, people
from dimly.api import publish
from dimly.lab.population import Population
from dimly.planner.advice import answer
from dimly.planner.brief import PURPOSES, Brief, Purpose, Question
from dimly.planner.candidates import Candidate, candidate
from dimly.planner.verdicts import Verdict, VerdictRange, range_on
from dimly.privacy import Budget

RESULTS = Path(__file__).with_name("planning_verdicts.json")
LIMITS = Path(__file__).with_name("planning_limits.json")
"""Of the third check."""
MECHANISMS = (COUNTING, RESPONSE)
WORLDS = [
    *(World("tastes", 6_000, 1_200, 30, e, 1.4, seed=11, n_groups=4) for e in (0.9, 2.2)),
    *(World("groups", 3_500, 1_600, 90, e, seed=12, n_groups=3) for e in (1.2, 2.6)),
    *(World("continuum", 3_000, 1_400, 70, e, seed=13) for e in (0.9, 2.2)),
    *(World("wide apart", 2_400, 2_000, 100, e, seed=15, n_groups=8) for e in (0.25, 0.5)),
    World("groups", 100_000, 1_500, 50, 0.8, seed=21, n_groups=4),
    *(World("frequencies", 1_500, 3_000, 500, e, 0.5, seed=16) for e in (0.5,)),
    *(World("none", 2_000, 1_000, 50, e, seed=18) for e in (1.0, 3.0)),
    World("tastes", 100_000, 4_000, 80, 1.4, 1.5, seed=22, n_groups=5),
    *(World("tastes", 3_000, 6_000, 150, e, 1.7, seed=20, n_groups=5) for e in (1.3, 2.5)),
]
FRESH = [
    *(World("circles", 880, 1_200, 60, e, seed=31) for e in (0.7, 2.0)),
    *(World("unequal", 1_800, 800, 50, e, seed=32, n_groups=4) for e in (0.7, 2.0)),
    *(World("tastes", 2_500, 1_000, 50, e, 1.3, seed=34, n_groups=3) for e in (1.0, 2.0)),
    World("continuum", 1_500, 800, 40, 1.5, 0.7, seed=35),
    World("wide apart", 1_500, 1_000, 60, 0.4, seed=36, n_groups=5),
    World("none", 1_500, 600, 30, 2.0, seed=37),
    World("frequencies", 900, 1_000, 200, 1.0, 0.8, seed=38),
]
"""The second check."""
LARGE = [World("tastes", 100_000, 4_000, 80, e, 1.5, seed=24, n_groups=5) for e in (0.65, 1.55)]
"""Many people, where the verdict changes: segments from not feasible on, neighbors to good. Measured after all else."""
BOUNDS: dict[Purpose, tuple[float, float]] = {
    "distances": (0.9, 0.55),
    "neighbors": (0.6, 0.25),
    "segments": (0.6, 0.2),
}
"""From which measured figure on a purpose was served well, and coarsely."""
TABLE_EPSILONS = (0.7, 1.4, 2.8)
FRESH_EPSILONS = (0.5, 1.0, 2.0)
CLASSES = {"garments": (0, 5, 7)}
FRESH_CLASSES = {"garments": (3, 4, 8)}
PASSED_OVER = {"mushrooms": 2_000}
FRESH_PASSED_OVER = {"mushrooms": 4_000}
"""People whom the rules were set on: others are taken here."""
N_RAW_GROUPS = 3
"""Groups of tables without labels."""
TARGETS = (0.35, 0.5, 0.6, 0.7, 0.85)
"""Of the third check, figures predicted for neighbors: around those at which a verdict may change."""
LIMIT_MECHANISMS = (COUNTING, RESPONSE, "hashing+laplace")
"""Of the third check, in turn."""
BUDGETS = (0.05, 12.0)
HELD_OUT_SEED = 4
"""In the place of a world's seed; one less where limits were set."""
LARGEST_RESPONSE = 2e7
"""Bits of a release by randomized response; more take too long."""
WIDEST_RESPONSE = 1_200
"""Of the second check, bits of a person."""


@dataclass(frozen=True)
class Trial:
    """What the planner was told, and what came of it."""

    world: World
    purpose: Purpose
    mechanism: str
    k: int | None
    low: float
    high: float
    mean_weight: float
    n_groups: int
    others: dict[str, float]
    """Of the world, for those who would tell the planner something else."""
    runs: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of all runs."""
        return float(np.mean(self.runs))


def told(truth: Truth) -> dict[str, Any]:
    """Return what is true of people on average."""
    low, high = np.quantile(truth.distances, [0.1, 0.9])
    found = {"q10": low, "q90": high, "mean": truth.distances.mean(), "nearest": truth.nearest}
    groups = truth.people.groups
    if groups[0] >= 0:
        same = groups[truth.pairs[0]] == groups[truth.pairs[1]]
        found |= {"within": truth.distances[same].mean(), "between": truth.distances[~same].mean()}
    found["weight_spread"] = truth.people.weights.std()
    return {name: round(float(value), 2) for name, value in found.items()}


def stated(purpose: Purpose, facts: dict[str, float]) -> tuple[float, float] | None:
    """Return the distances that the planner is told; None if the world has nothing of the kind."""
    names = {"distances": ("q10", "q90"), "neighbors": ("nearest", "mean"), "segments": ("within", "between")}[purpose]
    low, high = (facts.get(name, 0.0) for name in names)
    return (low, high) if 0 < low < high else None


def question(trial: Trial) -> Question:
    """Return what somebody asks who knows the averages."""
    world = trial.world
    brief = Brief(
        Budget(world.epsilon),
        purpose=trial.purpose,
        n_attributes=world.n_attributes,
        n_users=world.n_users,
        distance=(trial.low, trial.high),
        weight=trial.mean_weight,
        mechanisms=[trial.mechanism],
        n_groups=trial.n_groups or None,
    )
    return Question.of(brief)


def judged(trial: Trial) -> tuple[VerdictRange, Verdict]:
    """Return what the planner says that it may be, and what was measured."""
    asked = question(trial)
    found = candidate(trial.mechanism, asked)
    assert isinstance(found, Candidate), found
    good, coarse = BOUNDS[trial.purpose]
    measured: Verdict = "good" if trial.mean >= good else "coarse" if trial.mean >= coarse else "not feasible"
    return range_on(asked, found), measured


def trials(world: World, truth: Truth, *, runs: int) -> Iterator[Trial]:
    """Yield what came of one world's plans."""
    facts = told(truth)
    groups = len(np.unique(truth.people.groups)) if truth.people.groups[0] >= 0 else 0
    weight = round(float(truth.people.weights.mean()), 1)
    for purpose in PURPOSES:
        distance = stated(purpose, facts)
        if distance is None:
            continue
        for mechanism in MECHANISMS:
            wide = world.n_users * world.n_attributes > LARGEST_RESPONSE
            if mechanism == RESPONSE and (wide or (is_fresh(world) and world.n_attributes > WIDEST_RESPONSE)):
                continue
            blank = Trial(world, purpose, mechanism, None, *distance, weight, groups, facts, ())
            plan = answer(question(blank)).plan
            k = plan.k
            measured = tuple(measure(purpose, truth, publish(truth.people.table, plan), distance) for _ in range(runs))
            yield replace(blank, k=k, runs=tuple(round(value, 4) for value in measured))


def limit_trials(table: Table, number: int, *, runs: int) -> Iterator[Trial]:
    """Yield what came of one table's neighbors at budgets where the planner predicts the figures of ``TARGETS``."""
    truth = Truth(table.people, ())
    facts, (n_users, d) = told(truth), table.people.table.shape
    weight = round(float(truth.people.weights.mean()), 1)
    distance = stated("neighbors", facts)
    if distance is None:
        return
    world = World(table.name, n_users, d, round(weight), 1.0, seed=HELD_OUT_SEED - (not table.held_out))
    for i, target in enumerate(TARGETS):
        mechanism = LIMIT_MECHANISMS[(number + i) % len(LIMIT_MECHANISMS)]
        blank = Trial(world, "neighbors", mechanism, None, *distance, weight, 0, facts, ())
        epsilon = budget_at(blank, target)
        if epsilon is None:
            continue
        blank = replace(blank, world=replace(world, epsilon=epsilon))
        plan = answer(question(blank)).plan
        measured = (measure("neighbors", truth, publish(table.people.table, plan), distance) for _ in range(runs))
        yield replace(blank, k=plan.k, runs=tuple(round(value, 4) for value in measured))


def is_held_out(trial: Trial) -> bool:
    """Return whether a trial of the third check is of the half that limits were tested on."""
    return trial.world.seed == HELD_OUT_SEED


def target_of(trial: Trial) -> float:
    """Return which of ``TARGETS`` is nearest to what the planner predicts."""
    found = candidate(trial.mechanism, question(trial))
    assert isinstance(found, Candidate), found
    return min(TARGETS, key=lambda target: abs(target - found.closeness))


def budget_at(trial: Trial, target: float) -> float | None:
    """Return the ε, to two digits, at which a figure is predicted; None if it is out of ``BUDGETS``."""
    asked = question(trial)

    def predicted(epsilon: float) -> float:
        found = candidate(trial.mechanism, asked.at(epsilon))
        return found.closeness if isinstance(found, Candidate) else 0.0

    least, most = BUDGETS
    if not predicted(least) < target < predicted(most):
        return None
    while most > 1.01 * least:
        middle = (least * most) ** 0.5
        least, most = (middle, most) if predicted(middle) < target else (least, middle)
    return float(f"{most:.2g}")


def measure(purpose: Purpose, truth: Truth, release: Any, distance: tuple[float, float]) -> float:
    """Return how good a release is for a purpose."""
    if purpose == "distances":
        return ordered(truth.distances, release.distances(*truth.pairs).value, *distance)
    names = {"neighbors": "closeness", "segments": "agreement"}
    asked = Truth(truth.people, (names[purpose],))
    asked.__dict__.update({name: value for name, value in truth.__dict__.items() if name != "_measures"})
    return dict(asked.ask(release))[names[purpose]]


def ordered(true: NDArray[Any], estimates: NDArray[np.float64], low: float, high: float) -> float:
    """Return the share of near and far pairs that are estimated to be in the right order; of equal estimates, half."""
    reach = 0.1 * (high - low)
    near, far = (np.sort(estimates[np.abs(true - at) <= reach]) for at in (low, high))
    sides = (np.searchsorted(near, far, side=side).mean() for side in ("left", "right"))
    return float(sum(sides) / 2 / len(near))


def table_of(path: Path, n_people: int, *, fresh: bool) -> tuple[World, Truth]:
    """Return a real table as a world that is called like it, at ε = 1."""
    classes, skipped = (FRESH_CLASSES, FRESH_PASSED_OVER) if fresh else (CLASSES, PASSED_OVER)
    *_, table = tables_of(path, n_people, skip=skipped.get(path.stem, 0), classes=classes)
    n_people = len(table.people.weights)
    groups = np.full(n_people, NO_GROUPS)
    if table.labels is not None:
        groups = np.unique(table.labels, return_inverse=True)[1]
    elif fresh:
        bits = table.people.table.toarray().astype(np.float32)
        groups = KMeans(N_RAW_GROUPS, n_init=5, random_state=0).fit_predict(bits)
    truth = Truth(Population(table.people.table, groups), ())
    weight = round(float(truth.people.weights.mean()))
    return World(table.name, n_people, table.shape[1], weight, 1.0, seed=2 if fresh else 1), truth


def is_fresh(world: World) -> bool:
    """Return whether a world is of the second check."""
    return world in FRESH or (world.structure not in STRUCTURES and world.seed == 2)


def store(path: Path, found: list[Trial]) -> None:
    """Put trials into the file, in the place of older ones of the same world and purpose."""
    renewed = {(one.world, one.purpose) for one in found}
    kept = [one for one in load(path) if (one.world, one.purpose) not in renewed] if path.exists() else []
    lines = ",\n".join(json.dumps(asdict(one)) for one in [*kept, *found])
    path.write_text(f'{{"format": 1, "trials": [\n{lines}\n]}}\n', encoding="utf-8")


def load(path: Path = RESULTS) -> list[Trial]:
    """Return what was measured."""
    found = json.loads(path.read_text(encoding="utf-8"))["trials"]
    return [Trial(**{**one, "world": World(**one["world"]), "runs": tuple(one["runs"])}) for one in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", type=Path, help="long tables in Parquet instead of made-up people")
    parser.add_argument("--fresh", action="store_true", help="the second check, and not the first")
    parser.add_argument("--large", action="store_true", help="100,000 people alone, where verdicts change")
    parser.add_argument("--limits", choices=("set", "test"), help="the third check, one half of its people")
    parser.add_argument("--only", nargs="+", choices=STRUCTURES, help="people of these structures alone")
    parser.add_argument("--people", type=int, default=1_500, help="largest number of people of a real table")
    parser.add_argument("--most", type=int, default=1 << 30, help="leave out worlds of more people")
    parser.add_argument("--runs", type=int, default=1, help="fresh publications of each plan")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.limits:
        for number, table in enumerate(people()):
            if table.held_out == (options.limits == "test"):
                store(options.out, list(limit_trials(table, number, runs=options.runs)))
                print(table.name, file=sys.stderr, flush=True)
        return
    if options.tables:
        for path in options.tables:
            world, truth = table_of(path, options.people, fresh=options.fresh)
            for epsilon in FRESH_EPSILONS if options.fresh else TABLE_EPSILONS:
                asked = replace(world, epsilon=epsilon)
                store(options.out, list(trials(asked, truth, runs=options.runs)))
                print(asked, file=sys.stderr, flush=True)
        return
    known: dict[World, Truth] = {}
    for world in LARGE if options.large else FRESH if options.fresh else WORLDS:
        if (options.only and world.structure not in options.only) or world.n_users > options.most:
            continue
        same, start = replace(world, epsilon=1.0), time.monotonic()
        if same not in known:
            known = {same: Truth(same.people, ())}
        store(options.out, list(trials(world, known[same], runs=options.runs)))
        print(world, f"{time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
