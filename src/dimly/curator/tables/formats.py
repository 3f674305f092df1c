"""Tables other than CSV and Parquet: pandas, polars and Arrow frames, JSON lines, DuckDB and SQLite databases."""

import codecs
import datetime as dt
import json
import math
import os
import sqlite3
import string
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from typing import Any, BinaryIO, Final
from urllib.parse import quote
from uuid import UUID

import numpy as np
import pyarrow as pa

from dimly.curator.tables.columns import check_names, literal, quoted
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.input_files import Stamp, compression_of, glob_literal, unpacked, unreadable
from dimly.errors import DataError, ParameterError
from dimly.mechanisms.vocabulary import is_unicode

# What Arrow and pandas raise for cells that do not fit together; their texts quote the cells.
_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)
_LISTS: Final[tuple[type, ...]] = (list, tuple, set, frozenset, type({}.values()), np.ndarray)
# In this order: booleans are integers of Python, and times are dates.
_KINDS: Final[tuple[tuple[tuple[type, ...], str], ...]] = (
    ((bool, np.bool_), "boolean"),
    ((np.timedelta64, dt.timedelta), "duration"),
    ((int, np.integer, float, np.floating), "number"),
    ((str,), "text"),
    ((dt.datetime,), "time"),
    ((dt.date,), "date"),
    (_LISTS, "list"),
    ((bytes,), "bytes"),
    ((UUID,), "UUID"),
    # Of one kind although Arrow has many types for them: they are never attributes, and read alike as ids or values.
    ((Decimal,), "decimal"),
    ((dict,), "record"),
)


def arrow_data(source: Any) -> Any:
    """Return a table of Python as Arrow, without copying where that is possible; None if it is no such table.

    Raises
    ------
    ParameterError
        For columns whose names are neither text nor integers.
    DataError
        For a column whose cells are of several types.
    """
    if isinstance(source, (pa.Table, pa.RecordBatchReader, *dataset_types())):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    room = type(source).__module__.partition(".")[0]
    if room == "polars" and hasattr(source, "collect"):
        source = _collected(source)
    if room == "polars" and hasattr(source, "get_columns"):
        return _of_polars(source)
    if room == "pandas" and hasattr(source, "items") and hasattr(source, "columns"):
        return _of_pandas(source)
    if hasattr(source, "__arrow_c_stream__") and not _is_column(source):
        return _streamed(source)
    return None


def dataset_types() -> tuple[Any, ...]:
    """Return the type of Arrow's datasets, if somebody has loaded it: that takes long, and loads pandas."""
    loaded = sys.modules.get("pyarrow.dataset")
    return () if loaded is None else (loaded.Dataset,)


def arrow_column(source: Any) -> pa.ChunkedArray | None:
    """Return a column of Python (Arrow, pandas, polars) as Arrow; None if it is none."""
    if isinstance(source, pa.ChunkedArray):
        return source
    if isinstance(source, pa.Array):
        return pa.chunked_array([source])
    room = type(source).__module__.partition(".")[0]
    if room == "polars" and _is_column(source):
        return pa.chunked_array([_of_series(source, "a column")])
    if room == "pandas" and (_is_column(source) or hasattr(source, "to_series")):
        return _arrow_array(source, str(getattr(source, "name", None)))
    return None


def polars_memory(series: Any) -> pa.ChunkedArray:
    """Return a column of polars as it lies in memory: text is copied in any other way, and so are categories."""
    newest = sys.modules["polars"].CompatLevel.newest()
    return pa.chunked_array([_of_series(series.to_physical(), "a column", compat_level=newest)])


def _is_column(source: object) -> bool:
    # In this order: to ask a lazy table of polars for its columns would make it work.
    return hasattr(source, "dtype") and not hasattr(source, "columns")


def _collected(frame: Any) -> Any:
    try:
        return frame.collect(engine="streaming")
    except Exception:  # noqa: BLE001, S110 - whatever polars or a function of the curator's says may quote cells
        pass
    raise DataError("a lazy table must be one that polars can compute, and it fails. Collect it first, to see why.")


def _of_polars(frame: Any) -> pa.Table:
    for name, kind in frame.schema.items():
        if kind == sys.modules["polars"].Object:
            raise DataError(f"column {name!r} must have a type of polars, got Object. Turn its cells into text.")
    return pa.table({name: _of_series(frame[name], f"column {name!r}") for name in frame.columns})


def _of_series(series: Any, name: str, **layout: Any) -> pa.Array | pa.ChunkedArray:
    try:
        return series.to_arrow(**layout)
    except pa.ArrowException:  # polars has types that Arrow does not: integers of 128 bits
        pass
    raise DataError(f"{name} must be of a type that Arrow has, got {series.dtype}. Cast it to text.")


def _streamed(source: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(source)
    except Exception:  # noqa: BLE001, S110 - of whatever made the stream
        pass
    raise DataError("the table must be a stream that Arrow can read, and it fails.")


def _of_pandas(frame: Any) -> pa.Table:
    names, arrays = [], []
    for label, column in frame.items():
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise ParameterError(
                "the columns of a pandas table must be named by text or integers, got "
                f"{type(label).__name__}. Rename them."
            )
        if not is_unicode(str(label)):
            raise ParameterError(
                "the columns of a pandas table must be named by text that encodes to UTF-8. Rename them."
            )
        names.append(str(label))
        arrays.append(_arrow_array(column, str(label)))
    return pa.Table.from_arrays(arrays, names=names)


def _arrow_array(column: Any, name: str) -> pa.ChunkedArray:
    failure = DataError(f"column {name!r} must hold cells of one type. Turn them all into text, for example.")
    if type(column.dtype).__name__ == "SparseDtype":  # which Arrow does not take
        raise ParameterError(f"column {name!r} must not be sparse. Fill it up first: table[column].sparse.to_dense().")
    cells = getattr(column.dtype, "categories", column)
    try:
        if cells.dtype == object and len(_kinds(cells)) > 1:
            raise failure
        array = pa.array(column, from_pandas=True)
        return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
    except UnicodeError:
        failure = DataError(f"column {name!r} must hold text that encodes to UTF-8, but some of it does not.")
    except _UNFIT:
        pass
    raise failure


def _kinds(cells: Iterable[Any]) -> set[str]:
    """Return of what kinds cells are, with the kinds of what lists hold; what is missing is of none."""
    types: dict[type, list[Any]] = {}
    for cell in cells:
        types.setdefault(type(cell), []).append(cell)
    return {kind for type_, some in types.items() for kind in _kinds_of(type_, some)}


def _kinds_of(type_: type, cells: list[Any]) -> set[str]:
    is_missing = type_.__name__ in ("NoneType", "NAType", "NaTType")
    if is_missing or (issubclass(type_, float | np.floating) and all(cell != cell for cell in cells)):  # noqa: PLR0124 - NaN
        return set()
    if issubclass(type_, np.datetime64):
        return {str(cell.dtype) for cell in cells}
    kind = next((kind for types, kind in _KINDS if issubclass(type_, types)), None)
    if kind is None:
        return {_kind_by_arrow(cell) for cell in cells}
    if kind == "time":
        return {"time" if cell.tzinfo is None else "time with zone" for cell in cells}
    if kind == "list":
        return {f"list of {inner}" for inner in _kinds(chain.from_iterable(cells)) or {"nothing"}} - {"list of nothing"}
    return {kind}


def _kind_by_arrow(cell: Any) -> str:
    """Return the type that Arrow gives a cell by itself: what it would make of others must not follow from this one."""
    try:
        return str(pa.infer_type([cell]))
    except _UNFIT:
        return type(cell).__name__  # which Arrow does not take


_SPACE: Final = b" \t\r\n"
_CHUNK: Final = 1 << 12


def open_json_lines(database: PrivateDatabase, files: Sequence[Stamp]) -> tuple[str, dict[str, str]]:
    """Return the quoted name of a view of all objects, and its columns: every name that occurs in any of them.

    Raises
    ------
    DataError
        If a line is no object, or if there are none.
    """
    files = plain_files(database, files)
    names = json_names(database, files)
    check_json_names(names, files)
    return json_view(database, files, names), dict.fromkeys(names, "JSON")


@dataclass(frozen=True, slots=True)
class JsonCells:
    """The cells of wide JSON objects.

    Attributes
    ----------
    name : str
        Quoted name of a table of ``object``, ``name`` and ``cell``, without those that are 0, false or missing.
    n_names : int
        How many names are to be published, in however few objects they are.
    """

    name: str
    n_names: int


OBJECT: Final = quoted("dimly object")
"""The column with the number of an object."""
FILLED: Final = quoted("dimly filled")
"""The column with how many of the names that are to be published have something in an object."""
_PIECE = 1 << 21  # bytes that are taken apart at a time, in some ten times as much memory


def open_json_cells(
    database: PrivateDatabase, files: Sequence[Stamp], *, user: str, chosen: Collection[str] | None
) -> tuple[str, dict[str, str], JsonCells]:
    """Copy wide objects, taken apart; return the quoted name of a table of them, their known columns, and the cells.

    With a column for each name DuckDB would plan each of them, in memory that its limit does not know.

    Parameters
    ----------
    database : PrivateDatabase
    files : sequence of Stamp
    user : str
        The name of people's ids, which is a column of the objects.
    chosen : collection of str, optional
        The names that are to be published; all but ``user`` by default.

    Raises
    ------
    DataError
        If a line is no object, or has a name twice, or if there are none.
    """
    if quoted(user).lower() in (OBJECT, FILLED):
        raise ParameterError(f"user must be a column of another name than {user!r}, which is taken. Rename it.")
    plain = plain_files(database, files)
    objects = database.create_table(
        f"SELECT 0 AS {OBJECT}, 0 AS {FILLED}, CAST(NULL AS JSON) AS {quoted(user)} WHERE false"
    )
    cells = database.create_table("SELECT 0 AS object, '' AS name, CAST(NULL AS JSON) AS cell WHERE false")
    names = database.create_table("SELECT '' AS name WHERE false")
    listed = database.register(pa.table({"name": pa.array(() if chosen is None else chosen, pa.string())}))
    is_chosen = f"name <> {literal(user)}" if chosen is None else f"name IN (SELECT name FROM {listed})"
    whose = f"any_value(cell) FILTER (name = {literal(user)})"
    for apart, each in _taken_apart(database, plain):
        database.execute(f"INSERT INTO {names} SELECT DISTINCT name FROM {each} ANTI JOIN {names} USING (name)")
        database.execute(
            f"INSERT INTO {cells} SELECT * FROM {each} "
            f"WHERE {is_chosen} AND CAST(cell AS VARCHAR) NOT IN ('0', 'false')"
        )
        found = f"SELECT object, count(cell) FILTER ({is_chosen}) AS n, {whose} AS u FROM {each} GROUP BY object"
        database.execute(
            f"INSERT INTO {objects} SELECT object, coalesce(n, 0), u FROM {apart} LEFT JOIN ({found}) USING (object)"
        )
    for stamp in files:
        stamp.check_unchanged()
        database.copied.add(stamp.name)
    _check_distinct_names(database, names, files)
    known = database.fetch(f"SELECT name FROM {names} WHERE name = ? OR name IN (SELECT name FROM {listed})", [user])
    ((n_names,),) = database.fetch(f"SELECT count(*) FROM {names} WHERE {is_chosen}")
    return objects, dict.fromkeys((name for (name,) in known), "JSON"), JsonCells(cells, n_names)


def _taken_apart(database: PrivateDatabase, files: Sequence[Stamp]) -> Iterator[tuple[str, str]]:
    """Yield the names of two tables, some objects at a time: their numbers, and their cells with number and name.

    Objects are copied first: whoever reads files holds much of them, and all that is parsed of it.
    """
    paths = [glob_literal(stamp.path) for stamp in files]
    scan = database.create_view("SELECT json FROM read_json_objects(?, format = 'auto')", [paths])
    texts = database.create_table(f"SELECT json, strlen(json) AS size FROM {scan}")
    # By the sum of lengths: one long object must not make the pieces of all others short.
    lengths = f"SELECT rowid AS i, sum(size) OVER (ORDER BY rowid) // {_PIECE} AS piece FROM {texts}"
    for start, stop in database.fetch(f"SELECT min(i), max(i) + 1 FROM ({lengths}) GROUP BY piece ORDER BY 1"):
        apart = database.create_table(
            "SELECT CAST(rowid AS INTEGER) AS object, json_type(json) AS type, json_keys(json) AS k, "
            "json -> '$.*' AS v "
            f"FROM {texts} WHERE rowid >= {start} AND rowid < {stop}"
        )
        wrong = "type <> 'OBJECT' OR list_unique(k) <> len(k) OR len(v) <> len(k)"
        if database.fetch(f"SELECT coalesce(bool_or({wrong}), false) FROM {apart}") == [(True,)]:
            raise DataError(
                f"{files[0].name} must hold one JSON object per line, with each name once, but some line is not one."
            )
        cell = "CASE WHEN CAST(cell AS VARCHAR) <> 'null' THEN cell END AS cell"
        listed = f"SELECT object, unnest(k) AS name, unnest(v) AS cell FROM {apart}"
        each = database.create_table(f"SELECT object, name, {cell} FROM ({listed})")
        yield apart, each
        database.execute(f"DROP TABLE {each}")
        database.execute(f"DROP TABLE {apart}")
    database.execute(f"DROP TABLE {texts}")


def _check_distinct_names(database: PrivateDatabase, names: str, files: Sequence[Stamp]) -> None:
    """Refuse what :func:`check_json_names` does, by a question to the database: there may be millions."""
    folded = f"translate(name, {literal(string.ascii_uppercase)}, {literal(string.ascii_lowercase)})"
    ((size, distinct, has_empty),) = database.fetch(
        f"SELECT count(*), count(DISTINCT {folded}), coalesce(bool_or(name = ''), false) FROM {names}"
    )
    if not size:
        check_json_names([], files)
    if has_empty or distinct < size:
        check_json_names(["", ""], files)


def plain_files(database: PrivateDatabase, files: Sequence[Stamp]) -> list[Stamp]:
    """Return files that DuckDB can read as they are: packed ones as copies, which their names still speak of.

    Raises
    ------
    DataError
        If one cannot be unpacked, or is a list that does not end: DuckDB takes a list that was cut off after a comma.
    """
    plain = []
    for stamp in files:
        packed = compression_of(stamp.path) is not None
        path = database.keep_copy(unpacked(stamp), stamp.name, "JSON lines") if packed else stamp.path
        plain.append(replace(stamp, path=path))
    for stamp in plain:
        if _first_letter(stamp) == b"[" and _last_letter(stamp) != b"]":
            raise DataError(f"{stamp.name} must be a whole list of JSON objects, and its end is missing.")
    return plain


def _first_letter(stamp: Stamp) -> bytes:
    with _opened(stamp) as file:
        beginning = file.read(3)
        file.seek(3 if beginning == codecs.BOM_UTF8 else 0)
        while chunk := file.read(_CHUNK):
            if letters := chunk.lstrip(_SPACE):
                return letters[:1]
    return b""


def _last_letter(stamp: Stamp) -> bytes:
    with _opened(stamp) as file:
        at = file.seek(0, os.SEEK_END)
        while at > 0:
            size = min(at, _CHUNK)
            at = file.seek(at - size)
            if letters := file.read(size).rstrip(_SPACE):
                return letters[-1:]
    return b""


def _opened(stamp: Stamp) -> BinaryIO:
    try:
        return open(stamp.path, "rb")
    except OSError:
        pass
    raise unreadable(stamp)


def json_names(database: PrivateDatabase, files: Sequence[Stamp]) -> list[str]:
    """Return every name that occurs in any object, in order.

    Raises
    ------
    DataError
        If a line is no object.
    """
    # All lines, not a sample: an attribute that appears late is one too. Name by name, because distinct lists of names
    # would be held for nearly every line. NULL comes of a line that is no object.
    found = database.fetch(
        "SELECT DISTINCT unnest(CASE WHEN json_type(json) <> 'OBJECT' THEN [NULL] ELSE json_keys(json) END) "
        "FROM read_json_objects(?, format = 'auto')",
        [[glob_literal(stamp.path) for stamp in files]],
    )
    if (None,) in found:
        raise DataError(f"{files[0].name} must hold one JSON object per line, but some line is not one.")
    return sorted(name for (name,) in found)


def check_json_names(names: Sequence[str], files: Sequence[Stamp]) -> None:
    """Refuse objects without names, or with such as cannot be told apart."""
    if not names:
        raise DataError(f"{files[0].name} must hold JSON objects with names in them, got none.")
    try:
        check_names(names, files[0].name)
        return
    except ParameterError:
        pass
    # Not which, where the names that people's objects hold may be their attributes.
    raise DataError(
        f"{files[0].name} must hold names that are not empty and differ in more than upper and lower case, but some do "
        "not. Rename them."
    )


def json_view(database: PrivateDatabase, files: Sequence[Stamp], names: Sequence[str]) -> str:
    """Return the quoted name of a view of all objects; one that lacks a name has nothing there."""
    columns = ", ".join(f"{literal(name)}: 'JSON'" for name in names)
    scan = f"read_json(?, columns = {{{columns}}}, format = 'auto', records = true)"
    paths = [glob_literal(stamp.path) for stamp in files]
    return database.create_view(f"SELECT {', '.join(map(quoted, names))} FROM {scan}", [paths])


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
        database.copied.add(stamp.name)
        return name, dict(database.columns(name))
    found = database.fetch(
        "SELECT schema_name, table_name, 'table', contains(sql, 'GENERATED ALWAYS') FROM duckdb_tables() "
        "WHERE database_name = $1 UNION ALL "
        "SELECT schema_name, view_name, 'view', true FROM duckdb_views() WHERE database_name = $1 AND NOT internal "
        "ORDER BY ALL",
        [inner[1:-1]],
    )
    names = [name if schema == "main" else f"{schema}.{name}" for schema, name, *_ in found]
    called = _chosen(table, names, stamp)
    if names.count(called) > 1:
        raise ParameterError(
            f"table must name one table of {stamp.name}, but two are called {called!r}: one in a schema of that name. "
            "Select from the right one by a query (--query)."
        )
    schema, name, kind, is_computed = found[names.index(called)]
    path = ".".join([inner, quoted(schema), quoted(name)])
    # A view may be of other files too, and of chance; so may a generated column, which is computed whenever it is read.
    if is_computed:
        path = _held_table(database, path, f"{kind} {called!r} of {stamp.name}")
        database.copied.add(stamp.name)
    return path, dict(database.columns(path))


def _held_table(database: PrivateDatabase, path: str, name: str) -> str:
    try:
        return database.create_table(f"SELECT * FROM {path}")
    except ParameterError:  # which speaks of a query
        pass
    raise ParameterError(f"{name} must be one that DuckDB can read, but tables or columns that it names are not there.")


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
            # table_info would leave out generated columns. Of the others, 1 stands for what SELECT * hides.
            found = connection.execute(f"PRAGMA table_xinfo({relation})")
            columns = {name: _affinity(declared) for _, name, declared, *_, hidden in found if hidden != 1}
            check_names(list(columns), stamp.name)
            database.copied.add(stamp.name)
            return _copied(database, connection, relation, columns), columns
    except (sqlite3.Error, UnicodeDecodeError):  # a damaged file may have names that are no text
        failure = DataError(f"{stamp.name} must be a readable SQLite file. It is damaged, locked or of another format.")
    raise failure


def _connected(stamp: Stamp) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(stamp.path))}?mode=ro", uri=True)


def _sqlite_relation(connection: sqlite3.Connection, stamp: Stamp, table: str | None, query: str | None) -> str:
    if query is None:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
        names = [str(name) for (name,) in found if not str(name).startswith("sqlite_")]
        return quoted(_chosen(table, names, stamp))
    try:
        # A view takes one SELECT and nothing else, and knows the declared types of its columns.
        connection.execute(f"CREATE TEMP VIEW dimly_query AS {query}")
        columns = connection.execute("SELECT * FROM dimly_query LIMIT 0").description
    except (sqlite3.Error, sqlite3.Warning, ValueError):
        pass
    else:
        names = [name for name, *_ in columns]
        known = {name.casefold() for name in names}
        # SQLite itself calls the second of two columns "t" by the name "t:1".
        given = [name.rpartition(":")[0] if _is_second(name, known) else name for name in names]
        check_names(given, "the query")
        return "dimly_query"
    raise ParameterError(f"query must be one SELECT that {stamp.name} can run. Check the names in it.")


def _is_second(name: str, known: set[str]) -> bool:
    first, _, number = name.rpartition(":")
    return number.isdecimal() and first.casefold() in known


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
        raise DataError(f"column {column!r} must hold {held}, but some cells are of another type. Select what fits.")
    return pa.array(list(map(_as_json, cells)) if type_ == "JSON" else cells, type=_ARROW[type_])


def _as_json(cell: float | str | None) -> str | None:
    if isinstance(cell, float) and not math.isfinite(cell):
        return "1e308"  # outside [0, 1] and no integer, which is all that counts; JSON has no infinity
    return None if cell is None else json.dumps(cell, ensure_ascii=False)


def _affinity(declared: str) -> str:
    for parts, type_ in _AFFINITIES:
        if any(part in str(declared).upper() for part in parts):
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
