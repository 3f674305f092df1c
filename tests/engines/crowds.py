"""Tables of many people."""

from typing import Any

import numpy as np
import pyarrow as pa
from tests.engines.tables import Holdings

LONG: dict[str, Any] = {"user": "person", "attribute": "page"}


def table_of(people: Holdings, *, shuffled: bool = True) -> pa.Table:
    rows = [(who, what) for who, held in people.items() for what in held]
    order = np.random.default_rng(0).permutation(len(rows)) if shuffled else range(len(rows))
    users, attributes = zip(*(rows[i] for i in order), strict=True)
    return pa.table({"person": users, "page": attributes})


def crowd(n: int) -> dict[int, dict[str, float]]:
    """Return ``n`` people, some with many attributes; those of 16 … 23 have none."""
    generator = np.random.default_rng(3)
    people: dict[int, dict[str, float]] = {}
    for i in range(n):
        size = 0 if 16 <= i < 24 else 60 if i % 8 == 7 else int(generator.integers(1, 5))
        people[i] = {str(code): 1.0 for code in generator.permutation(100)[:size]}
    return people
