"""Rows in the order of place and user, and the same packed in pieces, as Spark hands them to a worker."""

from typing import Any

import pyarrow as pa

from dimly.spark.workers.pieces import as_tables, packed

ROWS = [
    (5, "ada", "tea"), (5, "ada", "tea"), (5, "ada", None), (5, "bob", None), (9, "cy", "jam"), (9, "dee", "rye"),
    (9, "dee", None),
]  # fmt: skip


def batches(rows: list[Any], size: int) -> Any:
    """Return rows in batches of a size, an empty one first."""
    kind = pa.int32() if any(isinstance(row[2], int) for row in rows) else pa.string()
    schema = pa.schema({"place": pa.int32(), "u": pa.string(), "a": kind})
    empty = schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], schema)]
    names = schema.names
    return iter(
        [
            *empty,
            *(
                pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows[i : i + size]], schema)
                for i in range(0, len(rows), size)
            ),
        ]
    )


def pieces(rows: list[Any], size: int) -> Any:
    """Return rows in pieces of batches of a size, in the order of places."""
    return (piece for table in as_tables(batches(rows, size)) for piece in packed([table]))
