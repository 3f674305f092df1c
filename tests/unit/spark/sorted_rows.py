"""Rows of people who have places, and the same packed in pieces, as Spark hands them to a worker."""

from typing import Any

import pyarrow as pa

from dimly.spark.workers.pieces import SortedRows

ROWS = [
    (5, "ada", "tea"), (5, "ada", "tea"), (5, "ada", None), (5, "bob", None), (9, "cy", "jam"), (9, "dee", "rye"),
    (9, "dee", None),
]  # fmt: skip


def piece(place: int, rows: SortedRows) -> pa.RecordBatch:
    """Return one piece of a place."""
    people, content = rows.packed()
    columns = {"place": pa.array([place], pa.int32()), "people": [people], "rows": pa.array([content], pa.binary())}
    return pa.RecordBatch.from_pydict(columns)


def pieces(rows: list[Any], size: int) -> Any:
    """Return rows in pieces of at most a size, in the order of places."""
    kind = pa.int32() if any(isinstance(row[2], int) for row in rows) else pa.string()
    for place in sorted({row[0] for row in rows}):
        here = [row[1:] for row in rows if row[0] == place]
        for start in range(0, len(here), size):
            users, attributes = zip(*here[start : start + size], strict=True)
            table = pa.table({"u": pa.array(users, pa.string()), "a": pa.array(attributes, kind)})
            yield piece(place, SortedRows.of(table, key=None))
