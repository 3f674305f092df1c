"""What volunteers are worth on real tables: ``python -m benchmarks.accuracy_directions FILE…`` prints medians.

Files are those of :mod:`benchmarks.accuracy`. In each draw 300 people are volunteers, and directions are learned from
them for the purpose and ε at hand. Others are published along these directions, and by the other mechanisms at several
k, of which the best in hindsight counts for each of them. Measured are

- ``agreement`` of segments with labels, where there are labels;
- ``closeness`` of ten found neighbors: how much more alike (by cosine) they are than random people, as a part of how
  much the true ten are; by the metric, euclidean or cosine, that does better.

``--made`` adds 20,000 made-up people of 5,000 attributes in six groups. Groups are as many as are asked for, which is
told when directions are learned.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from benchmarks.accuracy import Table, tables_of
from dimly.analyst import Release
from dimly.api import publish
from dimly.lab.by_example.judged_people import JudgedPeople
from dimly.lab.directions.from_sample import Purpose, learn
from dimly.lab.population import make_population
from dimly.lab.sample import read_sample
from dimly.mechanisms import Plan
from dimly.privacy import Budget

RESULTS = Path(__file__).with_name("accuracy_directions.json")
EPSILONS = (0.1, 0.5, 2.0)
N_VOLUNTEERS = 300
N_PEOPLE = 2_000
DIRECTIONS = "directions+laplace"
SKETCHES = ("counting+laplace", "hashing+laplace")
GRID = (32, 128, 512)
OTHERS = (*SKETCHES, "randomized-response")
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="long tables in Parquet")
    parser.add_argument("--made", action="store_true", help="made-up people, too")
    parser.add_argument("--people", type=int, default=N_PEOPLE, help="largest number of people who are published")
    parser.add_argument("--only", choices=["segments", "neighbors"], help="what is asked, if not both")
    parser.add_argument("--only-volunteers", action="store_true", help="leave out the other mechanisms")
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--draws", type=int, default=3, help="of volunteers, people and noise")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to; other rows that are there stay")
    options = parser.parse_args()
    tables = [table for path in options.files for table in tables_of(path, sys.maxsize)]
    if options.made:
        made = make_population(20_000 + N_VOLUNTEERS, 5_000, n_groups=6, taste=60.0, seed=0)
        tables.append(Table("made-up people", made, made.groups))
    others = () if options.only_volunteers else OTHERS
    for table in tables:
        if options.only is None or (options.only == "segments") == (table.labels is not None):
            for epsilon in options.epsilon:
                store(options.out, measure(table, epsilon, others, draws=options.draws, most=options.people))
    print("\n".join(shown(load(options.out))))


def measure(table: Table, epsilon: float, others: Sequence[str], *, draws: int, most: int) -> Row:
    """Return the figures of all draws: along directions, and of each other mechanism at the k that did best."""
    found: dict[str, list[float]] = {}
    for draw in range(draws):
        order = np.random.default_rng([draw, 7]).permutation(table.shape[0])
        volunteers, rows = order[:N_VOLUNTEERS], np.sort(order[N_VOLUNTEERS:][:most])
        people = table.people.table[rows]
        what, asked, purpose, groups = question(table, rows)
        sample = read_sample(table.people.table[volunteers])
        learned = learn(sample, epsilon=epsilon, purpose=purpose, groups=groups).directions
        plans = {DIRECTIONS: [Plan.of(DIRECTIONS, Budget(epsilon), directions=learned)]}
        for one in others:
            by_list = Plan.of("randomized-response", Budget(epsilon), n_attributes=table.shape[1])
            plans[one] = [Plan.of(one, Budget(epsilon), k=k) for k in GRID] if one in SKETCHES else [by_list]
        for one, several in plans.items():
            found.setdefault(one, []).append(max(asked(publish(people, plan)) for plan in several))
        print(table.name, what, epsilon, {one: round(runs[-1], 3) for one, runs in found.items()}, flush=True)
    return {"table": table.name, "measure": what, "epsilon": epsilon, "people": most, "runs": found}


def question(table: Table, rows: NDArray[np.int64]) -> tuple[str, Callable[[Release], float], Purpose, int | None]:
    """Return what is asked of a release of these people, what for, and how many groups there are."""
    if table.labels is not None:
        labels, count = table.labels[rows], len(np.unique(table.labels))
        return (
            "agreement",
            lambda release: float(adjusted_rand_score(labels, release.segments(count).labels)),
            "segments",
            count,
        )
    n = len(rows)
    judged = JudgedPeople(table.people.table[rows].astype(np.float64), n, 1, np.ones(table.shape[1], bool))
    return (
        "closeness",
        lambda release: judged.measured(release, ["closeness"], n_users=n)["closeness"],
        "neighbors",
        None,
    )


def load(path: Path = RESULTS) -> list[Row]:
    """Return what was measured."""
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    return rows


def store(path: Path, row: Row) -> None:
    """Put a row into the file, in the place of an older one of the same table, measure and ε."""
    keys = ("table", "measure", "epsilon")
    kept = [one for one in load(path) if [one[key] for key in keys] != [row[key] for key in keys]]
    path.write_text(json.dumps({"format": 1, "rows": [*kept, row]}, indent=1) + "\n", encoding="utf-8")


def shown(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table of medians in Markdown."""
    epsilons = sorted({row["epsilon"] for row in rows})
    yield "| | measure | | " + " | ".join(f"ε = {epsilon:g}" for epsilon in epsilons) + " |"
    yield "|---" * (3 + len(epsilons)) + "|"
    for name, measure in sorted({(row["table"], row["measure"]) for row in rows}, key=lambda one: one[::-1]):
        own = {row["epsilon"]: row["runs"] for row in rows if (row["table"], row["measure"]) == (name, measure)}
        for mechanism in (DIRECTIONS, *OTHERS):
            runs = [own.get(epsilon, {}).get(mechanism) for epsilon in epsilons]
            if any(runs):
                cells = [f"{np.median(one):.2f} ({len(one)})" if one else "" for one in runs]
                yield f"| {name} | {measure} | {mechanism} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
