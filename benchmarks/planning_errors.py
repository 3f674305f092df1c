"""Predicted standard errors beside measured ones: ``python -m benchmarks.planning_errors``.

The planner predicts how far off estimates will be before anything is published. Here every mechanism is planned,
published with a fresh seed and fresh noise, and asked for the distances of many pairs whose true distance is known:
at the planner's own k, where every pair has attributes of its own, so that its rows of the projection are independent
of those of all others; and on a grid of ε, k, squared distance and number of attributes, where pairs draw theirs at
random from as many as there are. ``benchmarks/planning_errors.json`` holds what was measured;
``docs/planning-evidence.md`` shows it.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dimly.api import publish
from dimly.mechanisms import MECHANISMS, Plan
from dimly.mechanisms.make import NOISY_DISTANCES, sketching
from dimly.mechanisms.projection.random_matrix import family_named
from dimly.planner import Advice, Brief, advise
from dimly.privacy import Budget

RESULTS = Path(__file__).with_name("planning_errors.json")
EPSILONS = (1.0, 4.0)
DISTANCES = (20, 100)
SHARED = 10
N_PAIRS = 4_000
N_GRID_PAIRS = 8_000
GRID_EPSILONS = (0.5, 2.0, 8.0)
GRID_K = (16, 128, 1024)
GRID_DISTANCES = (20, 200)
GRID_ATTRIBUTES = (2_000, 50_000)
BLOCKS = 4
N_NOISY = 200
"""People whose distances are published with noise: their pairs are thousands as well."""


@dataclass(frozen=True)
class Prediction:
    """Measured over predicted standard error of one mechanism."""

    mechanism: str
    epsilon: float
    squared_distance: int
    k: int | None
    n_attributes: int
    pairs: int
    ratio: float
    """Of the plan that was published."""
    doubt: float
    """Standard error of the ratio."""


def pairs_table(n_pairs: int, differing: int, shared: int) -> scipy.sparse.csr_array:
    """Return pairs of people in rows 2i and 2i + 1, each pair with attributes of its own."""
    half = differing // 2
    one = [*range(half), *range(differing, differing + shared)]
    other = [*range(half, differing), *range(differing, differing + shared)]
    lengths = np.tile([len(one), len(other)], n_pairs)
    starts = (differing + shared) * np.arange(n_pairs)[:, None]
    columns = np.concatenate([starts + one, starts + other], axis=1).ravel()
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    shape = (2 * n_pairs, n_pairs * (differing + shared))
    return scipy.sparse.csr_array((np.ones(len(columns), np.int8), columns, indptr), shape=shape)


def squared_errors(
    mechanism: str, epsilon: float, squared_distance: int, *, n_pairs: int = N_PAIRS
) -> tuple[Advice, NDArray[np.float64]]:
    """Plan, publish and estimate; return the plan and how far off the estimates were."""
    noisy = mechanism == "noisy-distances"
    table: Any = pairs_table(n_pairs, squared_distance, SHARED)
    if noisy or mechanism == "randomized-response":  # nothing is projected, so that all pairs may look alike
        one = pairs_table(1, squared_distance, SHARED).toarray()
        table = np.tile(one, (N_NOISY // 2 if noisy else n_pairs, 1))
    n_users, n_attributes = table.shape
    brief = Brief(
        Budget(epsilon, 1e-6),
        mechanisms=[mechanism],
        n_attributes=n_attributes,
        numbered=True,
        n_users=n_users,
        distance=(squared_distance / 2, squared_distance),
        weight=squared_distance / 2 + SHARED,
    )
    found = advise(brief)
    first = np.arange(0, n_users, 2)
    a, b = (np.repeat(first, len(first)), np.tile(first + 1, len(first))) if noisy else (first, first + 1)
    estimates = publish(table, found.plan).distances(a, b).value
    return found, (estimates - squared_distance) ** 2


def prediction(mechanism: str, epsilon: float, squared_distance: int) -> Prediction:
    """Return one cell of the table."""
    found, squares = squared_errors(mechanism, epsilon, squared_distance)
    ratio = math.sqrt(squares.mean()) / found.stderr
    doubt = squares.std() / math.sqrt(len(squares)) / squares.mean() / 2 * ratio
    n_attributes = found.question.n_attributes or 0
    return Prediction(
        mechanism, epsilon, squared_distance, found.chosen.k, n_attributes, len(squares), float(ratio), float(doubt)
    )


def random_pairs_table(n_pairs: int, differing: int, shared: int, n_attributes: int) -> scipy.sparse.csr_array:
    """Return pairs of people in rows 2i and 2i + 1 that differ in so many of the attributes, drawn for each pair."""
    generator = np.random.default_rng(0)
    half = differing // 2
    size = differing + shared
    drawn = np.stack([generator.choice(n_attributes, size, replace=False, shuffle=True) for _ in range(n_pairs)])
    columns = np.concatenate([drawn[:, :half], drawn[:, differing:], drawn[:, half:]], axis=1)
    indptr = np.append(columns.shape[1] * np.arange(n_pairs)[:, None] + [0, half + shared], columns.size)
    shape = (2 * n_pairs, n_attributes)
    return scipy.sparse.csr_array((np.ones(columns.size, np.int8), columns.ravel(), indptr), shape=shape)


def plan_at(mechanism: str, epsilon: float, k: int | None, n_attributes: int) -> Plan:
    """Return the plan of one cell of the grid."""
    kind = sketching(mechanism)
    return Plan.of(
        mechanism,
        Budget(epsilon, 1e-6),
        k=k,
        blocks=BLOCKS if kind is not None and family_named(kind.family).has_blocks else 1,
        n_attributes=n_attributes,
        n_users=N_NOISY if mechanism == NOISY_DISTANCES else None,
        dtype="int32",
    )


def predicted_at(plan: Plan, squared_distance: int) -> float:
    """Return the standard error that a plan predicts for the pairs of the grid."""
    weight = squared_distance / 2 + SHARED
    return math.sqrt(float(plan.error.distance(weights=(weight, weight))(squared_distance)))


def on_grid(
    mechanism: str,
    epsilon: float,
    k: int | None,
    squared_distance: int,
    n_attributes: int,
    *,
    pairs: int = N_GRID_PAIRS,
) -> Prediction:
    """Return one cell of the grid: a plan at a given k, and the error that it predicts."""
    noisy = mechanism == NOISY_DISTANCES
    n_pairs = N_NOISY // 2 if noisy else pairs
    table = random_pairs_table(n_pairs, squared_distance, SHARED, n_attributes)
    plan = plan_at(mechanism, epsilon, k, n_attributes)
    first = np.arange(0, 2 * n_pairs, 2)
    a, b = first, first + 1
    truth: Any = squared_distance
    if noisy:  # all pairs of people have noise of their own
        a, b = (np.repeat(first, n_pairs), np.tile(first + 1, n_pairs))
        bits = table.astype(np.int64)
        weights = np.diff(table.indptr)
        truth = weights[a] + weights[b] - 2 * np.asarray((bits @ bits.T).todense())[a, b]
    squares = (publish(table, plan).distances(a, b).value - truth) ** 2
    ratio = math.sqrt(squares.mean()) / predicted_at(plan, squared_distance)
    doubt = squares.std() / math.sqrt(len(squares)) / squares.mean() / 2 * ratio
    return Prediction(mechanism, epsilon, squared_distance, k, n_attributes, len(squares), float(ratio), float(doubt))


def grid() -> Iterator[Prediction]:
    """Yield the grid, half of it: the number of attributes takes turns, which matters least."""
    for mechanism in MECHANISMS:
        sizes = GRID_K if sketching(mechanism) else (None,)
        for i, epsilon in enumerate(GRID_EPSILONS):
            for j, k in enumerate(sizes):
                for h, squared_distance in enumerate(GRID_DISTANCES):
                    turns = GRID_ATTRIBUTES if k is None else (GRID_ATTRIBUTES[(i + j + h) % 2],)
                    for n_attributes in turns:
                        yield on_grid(mechanism, epsilon, k, squared_distance, n_attributes)


def predictions() -> Iterator[Prediction]:
    """Yield what the planner chooses."""
    for mechanism in MECHANISMS:
        for epsilon in EPSILONS:
            for squared_distance in DISTANCES:
                yield prediction(mechanism, epsilon, squared_distance)


def load(name: str = "predictions", path: Path = RESULTS) -> list[Prediction]:
    """Return what was measured: the "predictions" of the planner's own choices, or the "grid"."""
    return [Prediction(**cell) for cell in json.loads(path.read_text(encoding="utf-8"))[name]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    parts = []
    for name, cells in (("predictions", predictions()), ("grid", grid())):
        lines = []
        for one in cells:
            print(one, file=sys.stderr, flush=True)
            lines.append(json.dumps(asdict(one) | {"ratio": round(one.ratio, 4), "doubt": round(one.doubt, 4)}))
        parts.append(f'"{name}": [\n' + ",\n".join(lines) + "\n]")
    options.out.write_text('{"format": 2, ' + ", ".join(parts) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
