"""Error of squared distances on real tables, each mechanism at its best k: ``python -m benchmarks.accuracy FILE…``.

A file is a long table in Parquet, one row per (user, attribute). For each mechanism, every k of one grid of powers of
two is published with fresh seeds and noise, and the smallest mean of the root mean square errors is printed. Reading
Parquet needs pyarrow.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from dimly.api import publish
from dimly.lab.demo import PAPER, random_pairs
from dimly.lab.population import Population
from dimly.mechanisms import Plan
from dimly.mechanisms.mechanism import sketching
from dimly.privacy import Budget

MECHANISMS = (PAPER, "hashing+laplace", "counting+laplace", "randomized-response")


def best_error(
    people: Population, mechanism: str, epsilon: float, *, grid: Iterable[int], seeds: int
) -> tuple[float, int]:
    """Return the smallest error over the grid, and the k that has it (0 where there is none)."""
    a, b = random_pairs(people.table.shape[0])
    truth = people.squared_distances(a, b)
    found = []
    for k in grid if sketching(mechanism) else (0,):
        errors = []
        for _ in range(seeds):
            plan = _plan(mechanism, epsilon, k, people.table.shape[1])
            errors.append(np.sqrt(np.mean((publish(people.table, plan).distances(a, b).value - truth) ** 2)))
        found.append((float(np.mean(errors)), k))
    return min(found)


def _plan(mechanism: str, epsilon: float, k: int, n_attributes: int) -> Plan:
    if mechanism == PAPER:
        budget = Budget(epsilon, 1e-6)
        return Plan.of(mechanism, budget, k=k, n_attributes=n_attributes, rule="theorem1", dtype="int32")
    return Plan.of(mechanism, Budget(epsilon), k=k or None, n_attributes=n_attributes)


def read_long(path: Path) -> Population:
    """Return the people of a long table, columns ``user`` and ``attribute``."""
    from pyarrow import parquet  # noqa: PLC0415 - nothing else needs it yet

    columns = parquet.read_table(path, columns=["user", "attribute"])
    codes: list[Any] = [
        np.unique(columns[name].to_numpy(zero_copy_only=False), return_inverse=True)[1]
        for name in ("user", "attribute")
    ]
    table = scipy.sparse.csr_array((np.ones(len(codes[0]), np.int8), codes), shape=[code.max() + 1 for code in codes])
    table.data[:] = 1
    return Population(table, np.zeros(table.shape[0], np.int64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="long tables in Parquet")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--largest-k", type=int, default=2048, help="the grid is 2, 4, 8, … up to this")
    options = parser.parse_args()
    grid = [2**i for i in range(1, options.largest_k.bit_length())]
    for path in options.files:
        people = read_long(path)
        for epsilon in options.epsilon:
            best = {m: best_error(people, m, epsilon, grid=grid, seeds=options.seeds) for m in MECHANISMS}
            ratio = best[PAPER][0] / best["counting+laplace"][0]
            print(
                json.dumps({"table": path.stem, "epsilon": epsilon, "paper_over_counting": ratio, "best": best}),
                flush=True,
            )


if __name__ == "__main__":
    main()
