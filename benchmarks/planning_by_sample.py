"""Planning by example beside the best in hindsight: ``python -m benchmarks.planning_by_sample [FILE…]``.

Of each table 300 people are volunteers, and of the others at most 3,000 are published. The trial sees the volunteers
alone. Then everything that it tried is published for the others, with directions learned from all volunteers, and
measured in the same way: is the choice within a tenth of the best, and is what was measured on volunteers within its
own interval? Tables are long ones in Parquet (user, attribute[, value]); without any, made-up people are taken.
"""

import argparse
import itertools
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse

from dimly.curator.options import Options
from dimly.lab.by_example.judged_people import FigureName, JudgedPeople
from dimly.lab.by_example.outcome import Trial, TriedPlan
from dimly.lab.by_example.tryout import try_out
from dimly.lab.directions.from_sample import learn
from dimly.lab.population import make_population
from dimly.lab.sample import Sample, read_sample
from dimly.mechanisms import Plan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.planner.brief import Brief, Purpose
from dimly.privacy import Budget

RESULTS = Path(__file__).with_name("planning_by_sample.json")
N_VOLUNTEERS = 300
MOST_PEOPLE = 2_000
EPSILONS = (0.1, 0.5, 2.0)
PURPOSES: tuple[Purpose, ...] = ("segments", "neighbors")
FIGURES: dict[Purpose, FigureName] = {"segments": "agreement", "neighbors": "closeness", "distances": "ranking"}
RUNS = 5
"""Publications by which those are compared in hindsight that came near the best with the first one."""
NEAR = 0.75
USEFUL = 0.1
"""A figure below which nothing works, and there is nothing to choose."""


def tables(paths: list[Path]) -> Iterator[tuple[str, Sample]]:
    for path in paths:
        names = pq.read_schema(path).names
        reading = Options(user=names[0], attribute=names[1], value=names[2] if len(names) > 2 else None)
        yield path.stem, read_sample(path, reading)
    if not paths:
        for groups, weight, taste in ((6, 60, 30.0), (3, 150, 8.0)):
            made = make_population(3_300, 2_000, n_groups=groups, mean_weight=weight, taste=taste, seed=5)
            names = Vocabulary.listed(f"place {place}" for place in range(made.table.shape[1]))
            table = scipy.sparse.csr_array(made.table.astype(np.float32))
            yield f"made up, {groups} groups", Sample(table, names, np.arange(table.shape[0]), "made up")


def measure(people: Sample, epsilon: float, purpose: Purpose, *, seed: int, most: int) -> dict[str, Any]:
    order = np.random.default_rng(seed).permutation(people.table.shape[0])
    volunteers, others = order[:N_VOLUNTEERS], order[N_VOLUNTEERS:][:most]
    sample = Sample(people.table[volunteers], people.attributes, people.users[volunteers], people.name)
    start = time.process_time()
    found = try_out(Brief(Budget(epsilon), purpose=purpose, n_users=len(others)), sample, ladder=())
    seconds = time.process_time() - start
    listed = np.asarray(sample.table.sum(axis=0)).ravel() > 0
    rest = JudgedPeople(people.table[others], len(others), 1, listed)
    assert isinstance(people.attributes, Vocabulary)
    figure, names = FIGURES[purpose], list(people.attributes)
    plans = [plan_of(one, found, sample, rest, names) for one in found.tried]

    def published(plan: Plan) -> float:
        release = rest.published(plan, names)
        return rest.measured(release, [figure], n_groups=found.n_groups or 0, n_users=len(others))[figure]

    runs = [[published(plan)] for plan in plans]
    first = max(one[0] for one in runs)
    for at, (plan, several) in enumerate(zip(plans, runs, strict=True)):
        if at == 0 or several[0] >= NEAR * first:
            several += [published(plan) for _ in range(RUNS - 1)]
    rows: list[dict[str, Any]] = []
    for one, several in zip(found.tried, runs, strict=True):
        said = one.figures[figure]
        within = said.low <= max(several[0], 0.0) <= said.high  # an interval is for one release
        rows.append({"name": one.name, "parts": one.n_parts, "said": said.value, "low": said.low, "high": said.high})
        rows[-1] |= {"measured": float(np.mean(several)), "runs": several, "within": bool(within)}
    best = max(rows, key=lambda row: float(row["measured"]))
    spread = math.sqrt(sum(np.var(row["runs"], ddof=1) / RUNS if row["runs"][1:] else 0.0 for row in (rows[0], best)))
    return {
        "epsilon": epsilon,
        "purpose": purpose,
        "seed": seed,
        "n_groups": found.n_groups,
        "seconds": seconds,
        "loss": 1 - rows[0]["measured"] / best["measured"] if best["measured"] >= USEFUL else None,
        "standard_error": 0.0 if best is rows[0] else spread / max(best["measured"], USEFUL),
        "best": best["name"],
        "rows": rows,
        "left_out": dict(found.left_out),
    }


def plan_of(one: TriedPlan, found: Trial, sample: Sample, rest: JudgedPeople, names: list[str]) -> Plan:
    budget, resolution = Budget(one.epsilon), found.asking.resolution
    if one.mechanism.startswith("directions"):
        if found.directions is not None:
            return found.plan
        purpose = found.asking.brief.purpose
        groups = found.n_groups if purpose == "segments" else None
        learned = learn(sample, epsilon=one.epsilon, purpose=purpose, groups=groups, resolution=resolution)
        return Plan.of(one.mechanism, budget, directions=learned.directions, resolution=resolution)
    if one.k is None:
        return Plan.of(one.mechanism, budget, vocabulary=rest.names(names))
    return Plan.of(one.mechanism, budget, k=one.k, resolution=resolution)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--epsilon", type=float, nargs="*", default=EPSILONS)
    parser.add_argument("--purpose", nargs="*", default=PURPOSES)
    parser.add_argument("--people", type=int, default=MOST_PEOPLE)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=RESULTS, help="where to; other cases that are there stay")
    given = parser.parse_args()
    for name, people in tables(given.tables):
        for epsilon, purpose in itertools.product(given.epsilon, given.purpose):
            found = {"table": name} | measure(people, epsilon, purpose, seed=given.seed, most=given.people)
            store(given.json, found)  # as it goes: a run that is stopped leaves what it has measured
            print(f"{name}, {purpose}, epsilon {epsilon:g}: {loss_of(found)}, {found['seconds']:.0f} s", flush=True)
            for row in found["rows"]:
                inside = "within" if row["within"] else "OUTSIDE"
                said = f"{row['said']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
                print(
                    f"    {row['name']:32} {row['parts']} {said}, measured {row['measured']:.2f}: {inside}", flush=True
                )
            for mechanism, why in found["left_out"].items():
                print(f"    {mechanism:32} left out: {why}", flush=True)
    print("\n".join(summary(json.loads(given.json.read_text(encoding="utf-8")))))


def store(path: Path, found: dict[str, Any]) -> None:
    """Put a case into the file, in the place of the same one of an earlier run."""
    keys = ("table", "epsilon", "purpose", "seed")
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    kept = [one for one in old if [one[key] for key in keys] != [found[key] for key in keys]]
    path.write_text(json.dumps([*kept, found], indent=1) + "\n", encoding="utf-8")


def loss_of(found: dict[str, Any]) -> str:
    if found["loss"] is None:
        return "nothing works"
    return f"loss {100 * found['loss']:.0f} %" + (f" ± {100 * found['standard_error']:.0f} %" if found["loss"] else "")


def summary(every: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a row in Markdown for each case, and how many came out as they should."""
    yield "| table | purpose | ε | chosen | said (90 % interval) | came out | best in hindsight |"
    yield "|---|---|---|---|---|---|---|"
    for one in sorted(every, key=lambda one: (one["purpose"], one["table"], one["epsilon"])):
        row = one["rows"][0]
        best = "the same" if one["best"] == row["name"] else f"{one['best']} ({loss_of(one)})"
        best = best if one["loss"] is not None else "nothing works"
        said = f"{row['said']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
        yield (
            f"| {one['table']} | {one['purpose']} | {one['epsilon']:g} | {row['name']} | {said} | "
            f"{row['measured']:.2f} | {best} |"
        )
    losses = [one["loss"] for one in every if one["loss"] is not None]
    tried = [row["within"] for one in every for row in one["rows"]]
    first = [one["rows"][0]["within"] for one in every]
    yield f"within 10 % of the best: {sum(loss <= 0.1 for loss in losses)} of {len(losses)}"
    yield f"choices within their interval: {sum(first)} of {len(first)}; all tried: {sum(tried)} of {len(tried)}"
    for way in ("directions", ""):
        off = [row["said"] - row["runs"][0] for one in every for row in one["rows"] if row["name"].startswith(way)]
        yield f"said minus came out, on average, {way or 'everything'}: {np.mean(off):+.3f} ({len(off)} figures)"


if __name__ == "__main__":
    main()
