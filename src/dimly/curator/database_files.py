"""A table or query of a DuckDB or SQLite file, opened for reading only."""

import json
import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa

from dimly.curator.column_names import check_names
from dimly.curator.database import PrivateDatabase
from dimly.curator.files import Stamp
from dimly.curator.readings import quoted
from dimly.errors import DataError, ParameterError

_BATCH: Final = 1 << 16
# SQLite's affinities by what a declared type contains, in its order. Any other column may hold anything.
_AFFINITIES: Final = (
    (("INT",), "BIGINT"),
    (("CHAR", "CLOB", "TEXT"), "VARCHAR"),
    (("BLOB",), "JSON"),
    (("REAL", "FLOA", "DOUB"), "DOUBLE"),
)
_CELLS: Final[dict[str, set[type]]] = {
    "BIGINT": {int, type(None)},
    "VARCHAR": {str, type(None)},
    "DOUBLE": {float, int, type(None)},
    "JSON": {float, int, str, type(None)},
}
_ARROW: Final = {"BIGINT": pa.int64(), "VARCHAR": pa.string(), "DOUBLE": pa.float64(), "JSON": pa.string()}


def open_duckdb(
    database: PrivateDatabase, stamp: Stamp, *, table: str | None, query: str | None
) -> tuple[str, dict[str, str]]:
    """Return the quoted name of a relation with a table or the result of a query, and its columns.

    Raises
    ------
    ParameterError
        If the table is not there or must be named, or if the query is not one SELECT.
    DataError
        If the file or the query cannot be read.
    """
    _check_choice(table, query)
    inner = database.new_name()
    database.execute(f"ATTACH ? AS {inner} (READ_ONLY)", [str(stamp.path)])
    if query is not None:
        name = database.create_table_within(inner, query)  # held, so that it runs once
        return name, dict(database.columns(name))
    found = database.fetch(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = $1 UNION ALL "
        "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = $1 AND NOT internal ORDER BY ALL",
        [inner[1:-1]],
    )
    names = {name if schema == "main" else f"{schema}.{name}": (schema, name) for schema, name in found}
    path = ".".join([inner, *map(quoted, names[_chosen(table, list(names), stamp)])])
    return path, dict(database.columns(path))


def open_sqlite(
    database: PrivateDatabase, stamp: Stamp, *, table: str | None, query: str | None
) -> tuple[str, dict[str, str]]:
    """Return the quoted name of a copy of a table, or of the result of a query, and its columns.

    Columns are integers, numbers or text if they are declared so, and must then hold nothing else; the cells of any
    other column go by their own type.

    Raises
    ------
    ParameterError
        If the table is not there or must be named, or if the query is not one SELECT.
    DataError
        If the file cannot be read, or a cell is not of its column's type.
    """
    _check_choice(table, query)
    failure: Exception
    try:
        with closing(_connected(stamp)) as connection:
            relation = _sqlite_relation(connection, stamp, table, query)
            columns = {row[1]: _affinity(row[2]) for row in connection.execute(f"PRAGMA table_info({relation})")}
            check_names(list(columns), stamp.name)
            return _copied(database, connection, relation, columns), columns
    except sqlite3.Error:
        failure = DataError(f"{stamp.name} must be a readable SQLite file. It is damaged, locked or of another format.")
    raise failure


def _connected(stamp: Stamp) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(stamp.path))}?mode=ro", uri=True)


def _sqlite_relation(connection: sqlite3.Connection, stamp: Stamp, table: str | None, query: str | None) -> str:
    if query is None:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
        names = [name for (name,) in found if not name.startswith("sqlite_")]
        return quoted(_chosen(table, names, stamp))
    try:
        # A view takes one SELECT and nothing else, and knows the declared types of its columns.
        connection.execute(f"CREATE TEMP VIEW dimly_query AS {query}")
        connection.execute("SELECT * FROM dimly_query LIMIT 0")
    except (sqlite3.Error, sqlite3.Warning, ValueError):
        pass
    else:
        return "dimly_query"
    raise ParameterError(f"query must be one SELECT that {stamp.name} can run. Check the names in it.")


def _copied(database: PrivateDatabase, connection: sqlite3.Connection, relation: str, columns: dict[str, str]) -> str:
    fields = ", ".join(f"{quoted(name)} {type_}" for name, type_ in columns.items())
    name = database.new_name()
    database.execute(f"CREATE TABLE {name} ({fields})")
    selected = ", ".join(map(quoted, columns))
    for rows in _batches(connection.execute(f"SELECT {selected} FROM {relation}")):
        arrays = [
            _array(cells, column, type_)
            for cells, (column, type_) in zip(zip(*rows, strict=True), columns.items(), strict=True)
        ]
        database.insert(name, pa.Table.from_arrays(arrays, names=list(columns)))
    return name


def _batches(cursor: sqlite3.Cursor) -> Iterator[list[tuple[Any, ...]]]:
    while rows := cursor.fetchmany(_BATCH):
        yield rows


def _array(cells: Sequence[Any], column: str, type_: str) -> pa.Array:
    if not set(map(type, cells)) <= _CELLS[type_]:
        held = "text and numbers" if type_ == "JSON" else f"what its declared type says ({type_})"
        raise DataError(f"column {column!r} must hold {held}, and some cells are of another type. Select what fits.")
    return pa.array(list(map(_as_json, cells)) if type_ == "JSON" else cells, type=_ARROW[type_])


def _as_json(cell: float | str | None) -> str | None:
    if isinstance(cell, float) and not math.isfinite(cell):
        return "1e308"  # outside [0, 1] and no integer, which is all that counts; JSON has no infinity
    return None if cell is None else json.dumps(cell, ensure_ascii=False)


def _affinity(declared: str) -> str:
    for parts, type_ in _AFFINITIES:
        if any(part in declared.upper() for part in parts):
            return type_
    return "JSON"


def _check_choice(table: str | None, query: str | None) -> None:
    if table is not None and query is not None:
        raise ParameterError("table and query must not be given both. Leave one of them out.")


def _chosen(table: str | None, names: Sequence[str], stamp: Stamp) -> str:
    listed = ", ".join(names) or "none"
    if table is None:
        if len(names) != 1:
            raise ParameterError(f"table must say which table of {stamp.name} to read. It has: {listed}.")
        return names[0]
    if table not in names:
        raise ParameterError(f"table must be one of {stamp.name}, got {table!r}. It has: {listed}.")
    return table
