"""What volunteers are worth on real tables: ``python -m benchmarks.accuracy_directions FILE…`` prints medians.

Files are those of :mod:`benchmarks.accuracy`. In each draw 300 people are volunteers, and directions are learned from
them for the purpose and ε at hand. Others are published along these directions, and by the other mechanisms at several
k, of which the best in hindsight counts. Measured are

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

from benchmarks.accuracy import N_ASKED, N_NEIGHBORS, Table, tables_of
from dimly.analyst import Release
from dimly.api import publish
from dimly.lab.learning import Purpose, learn
from dimly.lab.population import make_population
from dimly.lab.sample import read_sample
from dimly.mechanisms import Plan
from dimly.privacy import Budget

RESULTS = Path(__file__).with_name("accuracy_directions.json")
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
N_VOLUNTEERS = 300
N_PEOPLE = 2_000
SKETCHES = ("counting+laplace", "hashing+laplace")
GRID = (32, 128, 512)
WITH, WITHOUT = "with volunteers", "without"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="long tables in Parquet")
    parser.add_argument("--made", action="store_true", help="made-up people, too")
    parser.add_argument("--people", type=int, default=N_PEOPLE, help="largest number of people who are published")
    parser.add_argument("--only", choices=["segments", "neighbors"], help="what is asked, if not both")
    parser.add_argument("--only-volunteers", action="store_true", help="leave out the other mechanisms")
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--draws", type=int, default=3, help="of volunteers, people and noise")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    tables = [table for path in options.files for table in tables_of(path, sys.maxsize)]
    if options.made:
        made = make_population(20_000 + N_VOLUNTEERS, 5_000, n_groups=6, taste=60.0, seed=0)
        tables.append(Table("made-up people", made, made.groups))
    rows = []
    for table in tables:
        if options.only is None or (options.only == "segments") == (table.labels is not None):
            rows += list(
                measure(
                    table,
                    options.epsilon,
                    draws=options.draws,
                    most=options.people,
                    compared=not options.only_volunteers,
                )
            )
    options.out.write_text(json.dumps({"format": 1, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    print("\n".join(shown(rows, options.epsilon)))


def measure(
    table: Table, epsilons: Sequence[float], *, draws: int, most: int, compared: bool
) -> Iterator[dict[str, Any]]:
    """Yield, for each ε, the figures of all draws, with volunteers and without."""
    for epsilon in epsilons:
        found: dict[str, list[float]] = {WITH: [], WITHOUT: []}
        for draw in range(draws):
            order = np.random.default_rng([draw, 7]).permutation(table.shape[0])
            volunteers, others = order[:N_VOLUNTEERS], np.sort(order[N_VOLUNTEERS:][:most])
            people = table.people.table[others]
            asked, purpose, groups = question(table, others)
            learned = learn(
                read_sample(table.people.table[volunteers]), epsilon=epsilon, purpose=purpose, groups=groups
            )
            plan = Plan.of("directions+laplace", Budget(epsilon), directions=learned.directions)
            found[WITH].append(asked(publish(people, plan)))
            if not compared:
                continue
            plans = [Plan.of("randomized-response", Budget(epsilon), n_attributes=table.shape[1])]
            plans += [
                Plan.of(f"{family}+laplace", Budget(epsilon), k=k) for family in ("counting", "hashing") for k in GRID
            ]
            found[WITHOUT].append(max(asked(publish(people, plan)) for plan in plans))
        row = {"table": table.name, "measure": asked.__name__, "epsilon": epsilon, **found}
        print(json.dumps(row), file=sys.stderr, flush=True)
        yield row


def question(table: Table, rows: NDArray[np.int64]) -> tuple[Callable[[Release], float], Purpose, int | None]:
    """Return what is asked of a release of these people, what for, and how many groups there are."""
    if table.labels is not None:
        labels, count = table.labels[rows], len(np.unique(table.labels))

        def agreement(release: Release) -> float:
            return float(adjusted_rand_score(labels, release.segments(count).labels))

        return agreement, "segments", count
    bits = table.people.table[rows].astype(np.float64)
    norms = np.maximum(np.sqrt(np.asarray(bits.multiply(bits).sum(axis=1)).ravel()), 1e-9)
    cosines = (bits @ bits.T).toarray() / norms / norms[:, None]
    np.fill_diagonal(cosines, -1.0)
    some = np.arange(0, len(rows), max(1, len(rows) // N_ASKED))
    usual = float(cosines[some][cosines[some] > -1].mean())
    best = float(np.sort(cosines[some], axis=1)[:, -N_NEIGHBORS:].mean())

    def closeness(release: Release) -> float:
        found = []
        for metric in ("euclidean", "cosine"):
            near = np.stack([release.neighbors(i, n=N_NEIGHBORS, metric=metric).users for i in some.tolist()])
            found.append(float(np.take_along_axis(cosines[some], near, axis=1).mean()))
        return (max(found) - usual) / (best - usual)

    return closeness, "neighbors", None


def shown(rows: Sequence[dict[str, Any]], epsilons: Sequence[float]) -> Iterator[str]:
    """Yield a table of medians in Markdown."""
    yield "| | measure | | " + " | ".join(f"ε = {epsilon:g}" for epsilon in epsilons) + " |"
    yield "|---" * (3 + len(epsilons)) + "|"
    for name, asked in dict.fromkeys((row["table"], row["measure"]) for row in rows):
        for way in (WITH, WITHOUT):
            if not all(row[way] for row in rows):
                continue
            cells = [f"{np.median(row[way]):.2f}" for row in rows if (row["table"], row["measure"]) == (name, asked)]
            yield f"| {name} | {asked} | {way} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
