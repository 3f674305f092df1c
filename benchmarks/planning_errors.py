"""Predicted standard errors beside measured ones: ``python -m benchmarks.planning_errors``.

The planner predicts how far off estimates will be before anything is published. Here every mechanism is planned,
published with a fresh seed and fresh noise, and asked for the distances of many pairs whose true distance is known.
Every pair has attributes of its own, so that its rows of the projection are independent of those of all others.
``benchmarks/planning_errors.json`` holds what was measured; ``docs/planning.md`` shows it.
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
from dimly.mechanisms import MECHANISMS
from dimly.planner import Advice, advise
from dimly.privacy import Budget

RESULTS = Path(__file__).with_name("planning_errors.json")
EPSILONS = (1.0, 4.0)
DISTANCES = (20, 100)
SHARED = 10
N_PAIRS = 4_000
N_NOISY = 200
"""People whose distances are published with noise: their pairs are thousands as well."""


@dataclass(frozen=True)
class Prediction:
    """Measured over predicted standard error of one mechanism at its best k."""

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
    found = advise(
        Budget(epsilon, 1e-6),
        mechanisms=[mechanism],
        n_attributes=n_attributes,
        n_users=n_users,
        distance=(squared_distance / 2, squared_distance),
        weight=squared_distance / 2 + SHARED,
    )
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


def predictions() -> Iterator[Prediction]:
    """Yield the grid."""
    for mechanism in MECHANISMS:
        for epsilon in EPSILONS:
            for squared_distance in DISTANCES:
                yield prediction(mechanism, epsilon, squared_distance)


def load(path: Path = RESULTS) -> list[Prediction]:
    """Return what was measured."""
    return [Prediction(**cell) for cell in json.loads(path.read_text(encoding="utf-8"))["predictions"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = []
    for one in predictions():
        print(one, file=sys.stderr, flush=True)
        found.append(asdict(one) | {"ratio": round(one.ratio, 4), "doubt": round(one.doubt, 4)})
    lines = ",\n".join(json.dumps(one) for one in found)
    options.out.write_text(f'{{"format": 1, "predictions": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
