"""Publishing along directions, against publishing the same people by counting."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Result, benchmark, compare
from dimly.curator.options import Options
from dimly.curator.publication import publish_table
from dimly.lab.population import Population, make_population
from dimly.mechanisms import Directions, Plan
from dimly.privacy import Budget

N_ATTRIBUTES = 5_000
COUNTS = (2, 8, 64)
ALIKE = "counting, as many numbers"
USUAL = "counting, k = 256"


@benchmark("directions")
def directions(quick: bool) -> Iterator[Result]:
    """Publish people of about 100 attributes along directions, from a file and from a matrix, against counting.

    Everything is included: reading, sorting, sums, noise, writing. Counting publishes as many numbers of each person as
    there are directions, and, as it is mostly used, 256.
    """
    people = make_population(5_000 if quick else 20_000, N_ATTRIBUTES, seed=0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows, columns = people.table.nonzero()
        order = np.random.default_rng(0).permutation(len(rows))
        pq.write_table(pa.table({"person": rows[order], "item": columns[order]}), folder / "people.parquet")
        for count in COUNTS:
            for source in ("file", "matrix"):
                yield _publish(folder, people, source, count, repeats=3 if quick else 9)


def _publish(folder: Path, people: Population, source: str, count: int, *, repeats: int) -> Result:
    entries = np.random.default_rng(count).normal(size=(N_ATTRIBUTES, count))
    rows = entries / np.abs(entries).sum(axis=1, keepdims=True)
    made = Directions.of_values(range(N_ATTRIBUTES), rows, origin="random numbers")
    budget = Budget(1.0)

    def published(plan: Plan) -> None:
        out = folder / "release"
        if source == "file":
            publish_table(folder / "people.parquet", plan, Options(user="person", attribute="item", out=out))
        else:
            publish_table(people.table, plan, Options(out=out))

    ours = Plan.of("directions+laplace", budget, directions=made)
    alike, usual = (Plan.of("counting+laplace", budget, k=k) for k in (count, 256))
    return compare(
        f"{source}, {count} directions",
        lambda: published(ours),
        {ALIKE: lambda: published(alike), USUAL: lambda: published(usual)},
        work=len(people.groups),
        unit="people",
        parameters={"directions": count, "people": len(people.groups), "attributes": N_ATTRIBUTES},
        targets={ALIKE: 1 / 1.2},
        repeats=repeats,
        setup=lambda: shutil.rmtree(folder / "release", ignore_errors=True),
    )
