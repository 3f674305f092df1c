"""A table as everything that a curator may have."""

import csv
import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

Opened = tuple[Any, dict[str, Any]]
"""A source, and the options that it needs."""


def _parquet(table: pa.Table, folder: Path) -> Opened:
    pq.write_table(table, folder / "t.parquet", row_group_size=7)
    return folder / "t.parquet", {}


def _halves(table: pa.Table, folder: Path) -> list[Path]:
    """Write two files; the second has its columns in another order."""
    paths = [folder / "part-1.parquet", folder / "part [2].parquet"]
    pq.write_table(table.slice(0, 10), paths[0])
    pq.write_table(table.slice(10).select(table.column_names[::-1]), paths[1])
    return paths


def _parquet_files(table: pa.Table, folder: Path) -> Opened:
    return [str(path) for path in _halves(table, folder)], {}


def _parquet_glob(table: pa.Table, folder: Path) -> Opened:
    _halves(table, folder)
    return str(folder / "part*.parquet"), {}


def _parquet_folder(table: pa.Table, folder: Path) -> Opened:
    nested = folder / "data" / "day=1"
    nested.mkdir(parents=True)
    _halves(table, nested)
    (folder / "data" / "_SUCCESS").touch()
    (folder / "data" / ".hidden.parquet").write_text("not Parquet", encoding="utf-8")
    return folder / "data", {}


def _csv(
    *,
    suffix: str = "csv",
    encoding: str = "utf-8",
    packed: bool = False,
    options: dict[str, Any] | None = None,
    **dialect: Any,
) -> Callable[[pa.Table, Path], Opened]:
    def write(table: pa.Table, folder: Path) -> Opened:
        path = folder / f"t.{suffix}"
        opened = gzip.open if packed else open
        with opened(path, "wt", encoding=encoding, newline="") as file:
            writer = csv.writer(file, lineterminator="\n", **dialect)
            writer.writerow(table.column_names)
            writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return path, options or {}

    return write


def _json_lines(table: pa.Table, folder: Path) -> Opened:
    lines = (json.dumps(row, ensure_ascii=False) for row in table.to_pylist())
    (folder / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder / "t.jsonl", {}


def _duckdb(table: pa.Table, folder: Path) -> Path:
    path = folder / "t.duckdb"
    with closing(duckdb.connect(path)) as connection:
        connection.register("arrow", table)
        connection.execute('CREATE TABLE "my table" AS SELECT * FROM arrow')
        connection.execute("CREATE TABLE other AS SELECT 1 AS person")
    return path


def _sqlite(table: pa.Table, folder: Path) -> Path:
    path = folder / "t.sqlite"
    types = {pa.bool_(): "BOOLEAN", pa.int64(): "INTEGER", pa.float64(): "REAL", pa.string(): "TEXT"}
    quoted = ['"' + name.replace('"', '""') + '"' for name in table.column_names]
    fields = ", ".join(f"{name} {types[kind]}" for name, kind in zip(quoted, table.schema.types, strict=True))
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f'CREATE TABLE "my table" ({fields})')
        connection.executemany(f'INSERT INTO "my table" VALUES ({", ".join("?" * len(quoted))})', rows)  # noqa: S608
        connection.execute("CREATE TABLE other (person TEXT)")
    return path


QUERY: Final = 'SELECT * FROM "my table" WHERE person IS NOT NULL'

FORMATS: Final[dict[str, Callable[[pa.Table, Path], Opened]]] = {
    "Parquet": _parquet,
    "Parquet files": _parquet_files,
    "Parquet glob": _parquet_glob,
    "Parquet folder": _parquet_folder,
    "CSV, commas": _csv(),
    "CSV, semicolons": _csv(delimiter=";"),
    "CSV, tabs": _csv(delimiter="\t", suffix="tsv"),
    "CSV, latin-1": _csv(encoding="latin-1", quoting=csv.QUOTE_ALL, options={"encoding": "latin-1"}),
    "CSV, backslashes": _csv(escapechar="\\", doublequote=False, quoting=csv.QUOTE_ALL, options={"escape": "\\"}),
    "CSV, packed": _csv(suffix="csv.gz", packed=True),
    "JSON lines": _json_lines,
    "DuckDB table": lambda table, folder: (_duckdb(table, folder), {"table": "my table"}),
    "DuckDB query": lambda table, folder: (_duckdb(table, folder), {"query": QUERY}),
    "SQLite table": lambda table, folder: (_sqlite(table, folder), {"table": "my table"}),
    "SQLite query": lambda table, folder: (_sqlite(table, folder), {"query": QUERY}),
    "pandas": lambda table, _: (table.to_pandas(), {}),
    "polars": lambda table, _: (pl.from_arrow(table), {}),
    "polars, lazy": lambda table, _: (pl.LazyFrame(pl.from_arrow(table)), {}),
    "Arrow table": lambda table, _: (table, {}),
    "Arrow dataset": lambda table, folder: (ds.dataset(_parquet(table, folder)[0]), {}),
    "Arrow reader": lambda table, _: (table.to_reader(max_chunksize=9), {}),
}


def holds_lists(name: str) -> bool:
    """Return whether a format has columns of lists."""
    return not name.startswith(("CSV", "SQLite"))
