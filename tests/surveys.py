"""Small tables of people to be surveyed, and what is true of them."""

from typing import Any

import numpy as np
import pyarrow as pa

N_PEOPLE, N_ATTRIBUTES = 200, 30
ROSTER = list(range(N_PEOPLE))
LIST = [f"a{number}" for number in range(N_ATTRIBUTES)]
Cells = set[tuple[int, str]]


def cells(seed: int = 0) -> Cells:
    """Return who has what: about a quarter of all attributes each; the last ten people have nothing."""
    has = np.random.default_rng(seed).random((N_PEOPLE, N_ATTRIBUTES)) < 0.25
    has[-10:] = False
    return {(int(person), f"a{attribute}") for person, attribute in zip(*np.nonzero(has), strict=True)}


def table(found: Cells, **more: Any) -> pa.Table:
    """Return a long table, each row twice and in an order of its own."""
    rows = sorted(found) * 2
    order = np.random.default_rng(1).permutation(len(rows))
    return pa.table({"who": [rows[at][0] for at in order], "what": [rows[at][1] for at in order], **more})
