"""Simulations behind the planner's rules: ``python -m benchmarks.planning``, also with ``--wider``, ``--tables``.

Made-up people of six structures (planted groups, heavy-tailed tastes, a continuum of few directions, circles of
friends and few groups that are wide apart, none) are published over a grid of ε, numbers of people, of attributes, and
weights, by every mechanism that needs no δ at powers of two for k, three times with fresh seeds and
noise. Of families that differ little, ``sparse`` stands for ``dasgupta``, ``sign`` for ``ternary`` and ``gaussian``.
Measured are

- ``error``: root mean square error of squared distances over random pairs;
- ``closeness``: how much nearer ten found neighbors are than random people, as a share of what the true ten would be;
- ``recall``: the share of ten found neighbors that are among the ten nearest (as near as the tenth);
- ``agreement``: the adjusted Rand index of segments and planted groups, or without those of k-means on the raw bits.

``benchmarks/planning.json`` holds what was measured, and ``benchmarks.planning_report`` makes tables of it.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from benchmarks.accuracy import tables_of
from dimly.analyst import Release
from dimly.api import publish
from dimly.lab.population import Population, make_population
from dimly.lab.simulate import random_pairs
from dimly.mechanisms import Plan
from dimly.planner import Brief, Candidate, advise
from dimly.planner.brief import Purpose
from dimly.privacy import Budget

RESULTS = Path(__file__).with_name("planning.json")
MEASURES = ("error", "closeness", "recall", "agreement")
COUNTING, RESPONSE = "counting+laplace", "randomized-response"
MENU: dict[str, tuple[int, ...]] = {
    COUNTING: (32, 64, 128, 256, 512, 1024, 2048, 4096),
    "hashing+laplace": (64, 256, 1024),
    "sparse+laplace": (64, 256),
    "sign+laplace": (8, 32),
}
"""The k of each sketch; up to 512·ε, of many attributes 1,024·ε, where errors of distances have long grown again."""
BLOCKS = {"sparse+laplace": 4}
MULTIPLES = (1, 2, 4)
WIDER = "agreement at multiples"
SIZES = ((1_000, 1_000, 60), (1_000, 2_000, 60))
"""People, attributes, attributes of one person."""
EPSILONS = (1.0, 2.0, 4.0)
N_NEIGHBORS = 10
N_ASKED = 60
N_GROUPS = 6
BY_DEGREES, NO_GROUPS = -1, -2
"""In the place of group numbers: segments of the raw bits are the truth, or there is none."""
_BLOCK = 500


@dataclass(frozen=True)
class World:
    """People of one kind, and the budget that they are published with."""

    structure: str
    n_users: int
    n_attributes: int
    weight: int
    epsilon: float
    strength: float = 1.0
    """How strong the structure is; 1 is plain to see in the raw bits."""
    seed: int = 1
    """Other people of the same kind."""
    n_groups: int = N_GROUPS
    """Of structures with groups; ``frequencies`` always has three."""

    @cached_property
    def people(self) -> Population:
        """The people; the same ones at any ε."""
        return STRUCTURES[self.structure](self)


def _drawn(log_odds: Callable[[slice], NDArray[np.float64]], weights: NDArray[np.int64], world: World) -> Any:
    """Return people who draw as many attributes as they have weight, without replacement."""
    generator, d = np.random.default_rng(world.seed + 1), world.n_attributes
    rows = []
    for start in range(0, len(weights), _BLOCK):
        block = slice(start, start + _BLOCK)
        scores = log_odds(block) + generator.gumbel(size=(len(weights[block]), d))
        order = np.argsort(-scores, axis=1)
        rows += [np.sort(order[i, :w]) for i, w in enumerate(weights[block])]
    indptr = np.concatenate([[0], np.cumsum(weights)])
    ones = np.ones(int(indptr[-1]), np.int8)
    return scipy.sparse.csr_array((ones, np.concatenate(rows), indptr), shape=(len(weights), d))


def _weights(world: World, generator: np.random.Generator) -> NDArray[np.int64]:
    spread = generator.lognormal(-0.08 / 2, 0.08**0.5, world.n_users)
    return np.clip(np.rint(world.weight * spread), 1, world.n_attributes // 2).astype(np.int64)


def planted_groups(world: World) -> Population:
    """Return groups that draw about a third of their attributes from twice as many favorites as they have weight."""
    generator = np.random.default_rng(world.seed)
    share = 2 * world.weight / world.n_attributes
    favorites = generator.random((world.n_groups, world.n_attributes)) < share
    groups = generator.integers(world.n_groups, size=world.n_users)
    log_odds = np.log(0.5 * world.strength / share) * favorites
    table = _drawn(lambda block: log_odds[groups[block]], _weights(world, generator), world)
    return Population(table, groups)


def heavy_tails(world: World) -> Population:
    """Return the lab's people: popularity and weights with heavy tails."""
    return make_population(
        world.n_users,
        world.n_attributes,
        n_groups=world.n_groups,
        mean_weight=world.weight,
        taste=10.0**world.strength,
        seed=world.seed,
    )


def continuum(world: World) -> Population:
    """Return people who differ by degrees in four directions, without groups."""
    generator = np.random.default_rng(world.seed)
    where = generator.normal(size=(world.n_users, 4))
    likes = generator.normal(size=(4, world.n_attributes))
    log_odds = world.strength * where @ likes
    table = _drawn(lambda block: log_odds[block], _weights(world, generator), world)
    return Population(table, np.full(world.n_users, BY_DEGREES))


def no_structure(world: World) -> Population:
    """Return people who draw attributes of uneven popularity independently."""
    generator = np.random.default_rng(world.seed)
    popularity = -0.5 * np.log(np.arange(world.n_attributes) + 10.0)
    table = _drawn(lambda _: popularity[None], _weights(world, generator), world)
    return Population(table, np.full(world.n_users, NO_GROUPS))


def _sharing(world: World, groups: NDArray[np.int64]) -> Any:
    """Return people who share seven eighths of their attributes with their group, and only chance with all others."""
    generator = np.random.default_rng(world.seed)
    likes = generator.random((groups.max() + 1, world.n_attributes)) < world.weight / world.n_attributes
    rows = []
    for group in groups:
        liked = np.flatnonzero(likes[group])
        kept = generator.permutation(liked)[: len(liked) - len(liked) // 8]
        others = generator.permutation(np.setdiff1d(np.arange(world.n_attributes), liked))[: len(liked) // 8]
        rows.append(np.sort(np.concatenate([kept, others])))
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    ones = np.ones(int(indptr[-1]), np.int8)
    return scipy.sparse.csr_array((ones, np.concatenate(rows), indptr), shape=(world.n_users, world.n_attributes))


def circles_of_friends(world: World) -> Population:
    """Return circles of eleven."""
    circles = np.arange(world.n_users) // (N_NEIGHBORS + 1)
    return Population(_sharing(world, circles), np.full(world.n_users, NO_GROUPS))


def wide_apart(world: World) -> Population:
    """Return as many groups as are planted elsewhere, far from each other."""
    groups = np.arange(world.n_users) % world.n_groups
    return Population(_sharing(world, groups), groups)


def unequal_groups(world: World) -> Population:
    """Return groups of which each is half as large as the one before it."""
    generator = np.random.default_rng(world.seed)
    share = 2 * world.weight / world.n_attributes
    favorites = generator.random((world.n_groups, world.n_attributes)) < share
    sizes = 0.5 ** np.arange(world.n_groups)
    groups = generator.choice(world.n_groups, world.n_users, p=sizes / sizes.sum())
    log_odds = np.log(0.5 * world.strength / share) * favorites
    return Population(_drawn(lambda block: log_odds[groups[block]], _weights(world, generator), world), groups)


def frequencies(world: World) -> Population:
    """Return three groups among whom every attribute has a frequency of its own: alleles, by Balding and Nichols."""
    generator = np.random.default_rng(world.seed)
    share = world.weight / world.n_attributes
    common = np.clip(generator.beta(0.6, 0.6 / share - 0.6, world.n_attributes), 0.005, 0.995)
    drift = 0.1 * world.strength
    scale = (1 - drift) / drift
    likely = generator.beta(common * scale, (1 - common) * scale, (3, world.n_attributes))
    groups = generator.integers(3, size=world.n_users)
    table = scipy.sparse.csr_array(generator.random((world.n_users, world.n_attributes)) < likely[groups])
    return Population(table.astype(np.int8), groups)


STRUCTURES: dict[str, Callable[[World], Population]] = {
    "groups": planted_groups,
    "tastes": heavy_tails,
    "continuum": continuum,
    "none": no_structure,
    "circles": circles_of_friends,
    "wide apart": wide_apart,
    "frequencies": frequencies,
    "unequal": unequal_groups,
}
CIRCLES = [World("circles", 990, 5_000, 200, epsilon) for epsilon in (0.5, 1.0, 2.0)]
"""Near and far pairs are wide apart here, and hardly any random pair is near."""
MANY_ATTRIBUTES = [World(structure, 2_000, 10_000, 100, 4.0) for structure in ("groups", "tastes", "continuum")]
"""Too many for randomized response, but for segments."""
WIDE_APART = [World("wide apart", 3_000, 6_000, 400, epsilon) for epsilon in (0.25, 0.4)]
"""Groups that show at an ε at which counting is the choice for segments too."""


class Truth:
    """What is true of a world's people, and how good answers about them are."""

    def __init__(self, people: Population, measures: Sequence[str]) -> None:
        self.people = people
        self.pairs = random_pairs(people.table.shape[0])
        self.distances = people.squared_distances(*self.pairs)
        self._measures = measures

    @cached_property
    def labels(self) -> NDArray[Any] | None:
        """Groups to be found: planted ones, or those of k-means on the bits; None where there is no structure."""
        if self.people.groups[0] != BY_DEGREES:
            return self.people.groups if self.people.groups[0] >= 0 else None
        bits = self.people.table.toarray().astype(np.float32)
        found: NDArray[Any] = KMeans(N_GROUPS, n_init=3, random_state=0).fit_predict(bits)
        return found

    @cached_property
    def asked(self) -> NDArray[np.int64]:
        """People whose neighbors are looked for."""
        n = len(self.people.weights)
        return np.arange(0, n, max(1, n // N_ASKED))

    @cached_property
    def _asked_distances(self) -> NDArray[np.float32]:
        """From each of them to everybody; from themselves, infinite."""
        bits, weights = self.people.table.astype(np.float32), self.people.weights.astype(np.float32)
        found: NDArray[np.float32] = weights[self.asked][:, None] + weights - 2 * (bits[self.asked] @ bits.T).toarray()
        found[np.arange(len(self.asked)), self.asked] = np.inf
        return found

    @cached_property
    def nearest(self) -> float:
        """Average squared distance to the ten nearest."""
        return float(np.partition(self._asked_distances, N_NEIGHBORS, axis=1)[:, :N_NEIGHBORS].mean())

    def ask(self, release: Release) -> Iterator[tuple[str, float]]:
        """Yield every measure of one release."""
        if "error" in self._measures:
            estimates = release.distances(*self.pairs).value
            yield "error", float(np.sqrt(np.mean((estimates - self.distances) ** 2)))
        if "closeness" in self._measures or "recall" in self._measures:
            yield from self._neighbors(release)
        if "agreement" in self._measures and self.labels is not None:
            found = release.segments(len(np.unique(self.labels)))
            yield "agreement", float(adjusted_rand_score(self.labels, found.labels))

    def _neighbors(self, release: Release) -> Iterator[tuple[str, float]]:
        n, distances = len(self.people.weights), self._asked_distances
        true = np.sort(distances, axis=1)[:, :N_NEIGHBORS]
        average = np.where(np.isinf(distances), 0.0, distances).sum(axis=1) / (n - 1)
        users = np.stack([release.neighbors(int(i), n=N_NEIGHBORS).users for i in self.asked])
        found = np.take_along_axis(distances, users, axis=1)
        gained, possible = average - found.mean(axis=1), average - true.mean(axis=1)
        yield "closeness", float(gained.sum() / possible.sum())
        yield "recall", float(np.mean(found <= true[:, -1:]))


@dataclass(frozen=True)
class Cell:
    """One figure: a measure of one mechanism at one k in one world, over fresh publications."""

    world: World
    measure: str
    mechanism: str
    k: int | None
    low: float
    high: float
    """Squared distances, 10 and 90 % quantiles: what a curator is supposed to know. Of people wide apart the first is
    that to the nearest."""
    mean_weight: float
    runs: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of all runs."""
        return float(np.mean(self.runs))

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {**asdict(self), "runs": [round(run, 4) for run in self.runs]}


def measured(world: World, *, runs: int, truth: Truth) -> Iterator[Cell]:
    """Yield the figures of one world."""
    for mechanism, sizes in MENU.items():
        for k in sizes:
            if k <= (1024 if world in MANY_ATTRIBUTES else 512) * world.epsilon:
                yield from _published(world, mechanism, k, runs=runs, truth=truth)
    yield from _published(world, RESPONSE, None, runs=runs, truth=truth)


def wider(world: World, *, runs: int, truth: Truth) -> Iterator[Cell]:
    """Yield how well segments are found at multiples of the k that is best for distances, over more runs."""
    start = _published(world, RESPONSE, None, runs=0, truth=truth, names=(WIDER,))
    least = planned(next(start)).k or 1
    for multiple in MULTIPLES:
        for cell in _published(world, COUNTING, multiple * least, runs=runs, truth=truth):
            yield replace(cell, measure=WIDER)


def real_people(path: Path, *, runs: int, n_people: int = 1_000) -> Iterator[Cell]:
    """Yield the figures of a real table as of a world that is called like it; see :mod:`benchmarks.accuracy`."""
    *_, table = tables_of(path, n_people)
    groups = np.full(n_people, NO_GROUPS) if table.labels is None else np.unique(table.labels, return_inverse=True)[1]
    truth = Truth(Population(table.people.table, groups), ("closeness", "agreement"))
    weight = round(float(truth.people.weights.mean()))
    world = World(table.name, n_people, table.shape[1], weight, 2.0)
    least = planned(next(_published(world, RESPONSE, None, runs=0, truth=truth, names=("",)))).k or 1
    for mechanism, k in [*((COUNTING, m * least) for m in MULTIPLES), (RESPONSE, None)]:
        yield from _published(world, mechanism, k, runs=runs, truth=truth)


def _published(
    world: World, mechanism: str, k: int | None, *, runs: int, truth: Truth, names: Sequence[str] = ()
) -> Iterator[Cell]:
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(runs):
        plan = Plan.of(
            mechanism, Budget(world.epsilon), k=k, blocks=BLOCKS.get(mechanism, 1), n_attributes=world.n_attributes
        )
        for name, value in truth.ask(publish(truth.people.table, plan)):
            found.setdefault(name, []).append(value)
    low, high = (round(float(q)) for q in np.quantile(truth.distances, [0.1, 0.9]))
    if world.structure in ("circles", "wide apart"):
        low = round(truth.nearest)
    weight = round(float(truth.people.weights.mean()), 1)
    for name, values in found.items():
        yield Cell(world, name, mechanism, k, low, high, weight, tuple(values))


def worlds() -> Iterator[World]:
    """Yield the grid."""
    for n_users, n_attributes, weight in SIZES:
        for structure in ("groups", "tastes", "continuum", "none"):
            for epsilon in EPSILONS:
                yield World(structure, n_users, n_attributes, weight, epsilon)
    yield from CIRCLES
    yield from MANY_ATTRIBUTES
    yield from WIDE_APART


def planned(cell: Cell, purpose: Purpose = "distances", mechanisms: Sequence[str] = (COUNTING,)) -> Candidate:
    """Return the planner's choice for somebody who knows roughly how far apart people are."""
    world = cell.world
    brief = Brief(
        Budget(world.epsilon),
        purpose=purpose,
        n_attributes=world.n_attributes,
        numbered=True,
        n_users=world.n_users,
        distance=(cell.low, cell.high),
        weight=cell.mean_weight,
        mechanisms=mechanisms,
    )
    return advise(brief).chosen


HELD_OUT = [
    *(World(name, 1_500, 1_500, 40, e) for name in ("groups", "tastes", "continuum", "none") for e in (1.5, 3.0)),
    *(World("circles", 1_496, 8_000, 120, epsilon) for epsilon in (0.7, 1.5)),
]
"""Worlds that were looked at only after the rules had been chosen."""
WIDER_WORLDS = [
    World(structure, n_users, n_attributes, 60, epsilon)
    for epsilon in (4.0, 2.0)
    for n_users, n_attributes in ((1_000, 1_000), (3_000, 2_000))
    for structure in ("groups", "tastes", "continuum")
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", nargs="+", choices=MEASURES, default=MEASURES)
    parser.add_argument("--only", nargs="+", choices=STRUCTURES, help="people of these structures alone")
    parser.add_argument("--attributes", type=int, help="worlds of so many attributes alone")
    parser.add_argument("--held-out", action="store_true", help="worlds on which no rule was tried before")
    parser.add_argument("--tables", nargs="+", type=Path, help="long tables in Parquet instead of made-up people")
    parser.add_argument("--runs", type=int, default=3, help="fresh publications of each plan")
    parser.add_argument(
        "--wider", action="store_true", help="segments at multiples of the k that is best for distances"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.tables:
        for path in options.tables:
            store(options.out, list(real_people(path, runs=options.runs)))
        return
    known: dict[World, Truth] = {}
    measures = ["agreement"] if options.wider else options.measure
    asked = WIDER_WORLDS if options.wider else HELD_OUT if options.held_out else worlds()
    for world in asked:
        if options.only and world.structure not in options.only:
            continue
        if options.attributes and world.n_attributes != options.attributes:
            continue
        same = replace(world, epsilon=1.0)
        if same not in known:
            known = {same: Truth(same.people, measures)}
        ask = wider if options.wider else measured
        cells = list(ask(world, runs=options.runs, truth=known[same]))
        store(options.out, cells)
        print(world, len(cells), file=sys.stderr, flush=True)


def store(path: Path, cells: Sequence[Cell]) -> None:
    """Put figures into the file, in the place of older ones of the same world and measure."""
    renewed = {(cell.world, cell.measure) for cell in cells}
    old = load(path) if path.exists() else []
    kept = [cell for cell in old if (cell.world, cell.measure) not in renewed]
    lines = ",\n".join(json.dumps(cell.to_dict()) for cell in [*kept, *cells])
    path.write_text(f'{{"format": 1, "cells": [\n{lines}\n]}}\n', encoding="utf-8")


def load(path: Path = RESULTS) -> list[Cell]:
    """Return what was measured."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [Cell(**{**cell, "world": World(**cell["world"]), "runs": tuple(cell["runs"])}) for cell in cells]


if __name__ == "__main__":
    main()
