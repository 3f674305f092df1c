"""How good estimates are on real tables, over ε: ``python -m benchmarks.accuracy FILE…``, then ``…accuracy_report``.

A file is a long table in Parquet, one row per (user, attribute); a file ``NAME_labels.parquet`` beside it, of user and
label, says which groups there are. The tables are not part of the project; ``benchmarks/accuracy.json`` holds what was
measured, and each run replaces what it measures anew.

Every mechanism is published with fresh seeds and noise at several k, and gets the k that did best in hindsight: what is
compared is how good it can be. Measured are

- ``error``: root mean square error of squared distances over random pairs;
- ``recall``: the share of ten found neighbors that are among the ten nearest (as near as the tenth);
- ``agreement``: the adjusted Rand index of segments and labels, as many segments as labels.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from dimly.analyst import Release
from dimly.api import publish
from dimly.lab.population import Population
from dimly.lab.simulate import random_pairs
from dimly.mechanisms import Plan, best_k
from dimly.mechanisms.make import sketching
from dimly.planner.paper import PAPER
from dimly.privacy import Budget

RESULTS = Path(__file__).with_name("accuracy.json")
MEASURES = ("error", "recall", "agreement")
MECHANISMS = (PAPER, "hashing+laplace", "counting+laplace", "randomized-response")
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
SILENT = "no noise"
"""The limit: the projection of counting alone, by an ε at which no noise is ever drawn."""
NO_NOISE = 40.0
GRID = (64, 256, 1024)
PAPER_GRID = (32, 256)
"""Its noise is so large that more coordinates do not help."""
N_PEOPLE = 2_000
N_NEIGHBORS = 10
N_ASKED = 200
"""People whose neighbors are looked for, among all."""
CLASSES = {"garments": (1, 8, 9)}
"""Trousers, bags and boots: groups that are there in the raw data, too."""


@dataclass(frozen=True)
class Cell:
    """One figure: a measure of one mechanism at one ε and k, averaged over runs."""

    table: str
    measure: str
    mechanism: str
    epsilon: float | None
    k: int | None
    denoised: bool | None
    runs: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of all runs."""
        return float(np.mean(self.runs))

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {**vars(self), "runs": [round(run, 5) for run in self.runs]}


@dataclass(frozen=True)
class Table:
    """People, and what is true of them."""

    name: str
    people: Population
    labels: NDArray[Any] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of people and of attributes."""
        rows, columns = self.people.table.shape
        return rows, columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="long tables in Parquet")
    parser.add_argument("--measure", nargs="+", choices=MEASURES, default=MEASURES)
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--runs", type=int, default=3, help="fresh publications of each plan")
    parser.add_argument("--people", type=int, default=N_PEOPLE, help="largest number of people of a table")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    for path in options.files:
        cells: list[Cell] = []
        for table in tables_of(path, options.people):
            cells += measure(table, options.epsilon, runs=options.runs, measures=options.measure)
        store(options.out, cells)


def tables_of(
    path: Path, n_people: int, *, skip: int = 0, classes: Mapping[str, Sequence[Any]] | None = None
) -> Iterator[Table]:
    """Return the table for distances and neighbors, and the one with labels if there is one.

    ``skip``: people who are passed over first. ``classes``: labels to keep, by table.
    """
    classes = CLASSES if classes is None else classes
    users, people = read_long(path)
    some = np.random.default_rng(0).permutation(len(users))[skip : skip + n_people]
    yield Table(path.stem, people_of(people, np.sort(some)))
    labels_path = path.with_name(f"{path.stem}_labels.parquet")
    if not labels_path.exists():
        return
    read = pq.read_table(labels_path, columns=["user", "label"])
    label_of = dict(zip(read["user"].to_pylist(), read["label"].to_pylist(), strict=True))
    labels = np.array([label_of[user] for user in users.tolist()])
    chosen = np.flatnonzero(np.isin(labels, classes.get(path.stem, np.unique(labels))))
    chosen = np.sort(np.random.default_rng(0).permutation(chosen)[skip : skip + n_people])
    yield Table(path.stem, people_of(people, chosen), labels[chosen])


def people_of(people: Population, rows: NDArray[np.int64]) -> Population:
    return Population(people.table[rows], people.groups[rows])


def read_long(path: Path) -> tuple[NDArray[Any], Population]:
    """Return ids and people of a long table, columns ``user`` and ``attribute``."""
    columns = pq.read_table(path, columns=["user", "attribute"])
    users, rows = np.unique(columns["user"].to_numpy(zero_copy_only=False), return_inverse=True)
    names, codes = np.unique(columns["attribute"].to_numpy(zero_copy_only=False), return_inverse=True)
    table = scipy.sparse.csr_array((np.ones(len(rows), np.int8), (rows, codes)), shape=(len(users), len(names)))
    table.data[:] = 1
    return users, Population(table, np.zeros(len(users), np.int64))


def measure(table: Table, epsilons: Sequence[float], *, runs: int, measures: Sequence[str]) -> Iterator[Cell]:
    """Return the figures of one table."""
    kinds: list[type[Question]] = [Error, Recall] if table.labels is None else [Agreement]
    for question in (kind(table) for kind in kinds if kind.name in measures):
        yield Cell(table.name, question.name, "raw data", None, None, None, (question.best,))
        for mechanism, epsilon in [(SILENT, NO_NOISE), *((m, e) for m in MECHANISMS for e in epsilons)]:
            for k in question.grid(mechanism, epsilon):
                releases = [publish(table.people.table, plan_of(mechanism, epsilon, k, table)) for _ in range(runs)]
                for denoised in question.ways:
                    found = tuple(question.ask(release, denoised=denoised) for release in releases)
                    known = None if mechanism == SILENT else epsilon
                    cell = Cell(table.name, question.name, mechanism, known, k, denoised, found)
                    print(json.dumps(cell.to_dict()), file=sys.stderr, flush=True)
                    yield cell


class Question:
    """What is asked of a release, and what the truth is."""

    name: str
    best: float
    """What the raw data would score."""
    ways: Sequence[bool | None] = (False, True)

    def __init__(self, table: Table) -> None:
        self.table = table

    def grid(self, mechanism: str, epsilon: float) -> Iterable[int | None]:
        """Return the k to try."""
        del epsilon
        if mechanism == PAPER:
            return PAPER_GRID
        return GRID if mechanism == SILENT or sketching(mechanism) else (None,)

    def ask(self, release: Release, *, denoised: bool | None) -> float:
        """Return how good the answer is."""
        raise NotImplementedError


class Error(Question):
    """Root mean square error of squared distances."""

    name = "error"
    best = 0.0
    ways = (None,)

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self.pairs = random_pairs(table.shape[0])
        self.truth = table.people.squared_distances(*self.pairs)

    def grid(self, mechanism: str, epsilon: float) -> Iterable[int | None]:
        """Return powers of two around the best k at the median distance."""
        if mechanism == SILENT or not sketching(mechanism):
            return super().grid(mechanism, epsilon)
        budget, rule = budget_of(mechanism, epsilon), "theorem1" if mechanism == PAPER else "exact"
        at, d = float(np.median(self.truth)), self.table.shape[1]
        best = best_k(mechanism, budget, squared_distance=at, rule=rule, n_attributes=d)  # type: ignore[arg-type]
        middle = max(2, round(np.log2(best)))
        return [2**i for i in range(middle - 1, middle + 2)]

    def ask(self, release: Release, *, denoised: bool | None) -> float:
        """Return the error of the unbiased estimate: there is no other here."""
        del denoised
        return float(np.sqrt(np.mean((release.distances(*self.pairs).value - self.truth) ** 2)))


class Recall(Question):
    """Share of the found neighbors that are true ones."""

    name = "recall"
    best = 1.0

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        bits = table.people.table.astype(np.float32)
        weights = table.people.weights
        self.distances = weights[:, None] + weights - 2 * (bits @ bits.T).toarray()
        np.fill_diagonal(self.distances, np.inf)
        self.tenth = np.partition(self.distances, N_NEIGHBORS - 1, axis=1)[:, N_NEIGHBORS - 1]

    def ask(self, release: Release, *, denoised: bool | None) -> float:
        """Return the share, over some people."""
        some = np.arange(0, self.table.shape[0], max(1, self.table.shape[0] // N_ASKED))
        found = np.stack([release.neighbors(i, n=N_NEIGHBORS, denoise=bool(denoised)).users for i in some])
        return float(np.mean(np.take_along_axis(self.distances[some], found, axis=1) <= self.tenth[some, None]))


class Agreement(Question):
    """Adjusted Rand index of segments and labels."""

    name = "agreement"

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        assert table.labels is not None
        self.count = len(np.unique(table.labels))
        raw = KMeans(self.count, n_init=10, random_state=0).fit_predict(table.people.table.toarray().astype(np.float32))
        self.best = float(adjusted_rand_score(table.labels, raw))

    def ask(self, release: Release, *, denoised: bool | None) -> float:
        """Return the index, over everybody."""
        found = release.segments(self.count, denoise=bool(denoised))
        return float(adjusted_rand_score(self.table.labels, found.labels))


def plan_of(mechanism: str, epsilon: float, k: int | None, table: Table) -> Plan:
    """Return a fresh plan; the paper's by its own Theorem 1."""
    d = table.shape[1]
    budget = budget_of(mechanism, epsilon)
    if mechanism == PAPER:
        return Plan.of(mechanism, budget, k=k, n_attributes=d, rule="theorem1", dtype="int32")
    return Plan.of("counting+laplace" if mechanism == SILENT else mechanism, budget, k=k, n_attributes=d)


def budget_of(mechanism: str, epsilon: float) -> Budget:
    return Budget(epsilon, 1e-6 if mechanism == PAPER else 0.0)


def store(path: Path, cells: Sequence[Cell]) -> None:
    """Put figures into the file, in the place of older ones of the same measure and table."""
    renewed = {(cell.table, cell.measure) for cell in cells}
    old = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []
    kept = [cell for cell in old if (cell["table"], cell["measure"]) not in renewed]
    lines = ",\n".join(json.dumps(cell) for cell in [*kept, *(cell.to_dict() for cell in cells)])
    path.write_text(f'{{"format": 1, "cells": [\n{lines}\n]}}\n', encoding="utf-8")


def load(path: Path = RESULTS) -> list[Cell]:
    """Return what was measured."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [Cell(**{**cell, "runs": tuple(cell["runs"])}) for cell in cells]


if __name__ == "__main__":
    main()
