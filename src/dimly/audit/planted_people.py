"""Invented people planted beside a private table, in its own format: CSV, Parquet, JSON, databases.

Files are not copied: a further file of the same columns holds the invented people, and is read together with them. A
database is copied, because its rows are in one file.
"""

import csv
import datetime as dt
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dimly.curator.options import Options
from dimly.curator.tables.csv import CsvOptions, read_header
from dimly.curator.tables.input_files import Stamp, find_files, open_bytes
from dimly.curator.tables.sources import are_paths
from dimly.errors import DataError, DimlyError, ParameterError

_FIRST_DAY: Final = dt.date(2100, 1, 1).toordinal()
_LAST_DAY: Final = dt.date.max.toordinal()
_FIRST_OBJECT: Final = 1 << 24  # bytes that the first object of a JSON file takes at most


class InventedRows(NamedTuple):
    """Rows of invented people: an id and an attribute each, in any order and some of them twice."""

    users: Sequence[int]
    attributes: Sequence[str]

    def column(self, name: str, options: Options) -> list[Any] | None:
        """Return what stands in a column; None for one that is not read."""
        if name == options.user:
            return list(self.users)
        if name == options.attribute:
            return list(self.attributes)
        return [1] * len(self.users) if name == options.value else None


def plant(source: object, rows: InventedRows, options: Options, folder: Path) -> list[str]:
    """Write the rows into ``folder``, and return the files to read in place of ``source``.

    Parameters
    ----------
    source : path, glob, folder or list of these
    rows : InventedRows
    options : Options
        How the table is read; a long one.
    folder : Path
        Empty, and readable by nobody else.

    Raises
    ------
    ParameterError
        If the table is of a kind that nobody can be added to.
    """
    form, files = _found(source, options)
    try:
        return _PLANTED[form](files, rows, options, folder)
    except DimlyError:
        raise
    except (OSError, ValueError, pa.ArrowException, sqlite3.Error, duckdb.Error):
        pass  # whose words may quote the table
    raise _not_added(form)


def _found(source: object, options: Options) -> tuple[str, Sequence[Stamp]]:
    if not are_paths(source):
        raise ParameterError(f"data must be files, got {type(source).__name__}. Write the table to a file first.")
    if options.attribute is None:
        raise ParameterError("attribute must name the column of attributes: only long tables are audited so far.")
    return find_files(source)


def _not_added(form: str) -> DataError:
    return DataError(f"invented people could not be added to this {form} table. Audit it as a Parquet or CSV file.")


# Columns of narrow types: where ids and names of what is invented fit.


def free_names(source: object, options: Options) -> list[str] | None:
    """Return names of attributes that a column of a narrow type can hold; None where it holds the usual ones.

    Whether real people have these attributes does not matter: rows of others are never looked at.
    """
    form, files = _found(source, options)
    kind = _column(form, files, options, str(options.attribute)).kind
    if kind is not None and pa.types.is_boolean(kind):
        return ["false", "true"]
    if kind is not None and pa.types.is_date(kind):
        return [dt.date.fromordinal(day).isoformat() for day in range(_FIRST_DAY, _LAST_DAY, 31)]
    if kind is not None and pa.types.is_integer(kind) and kind.bit_width < 32:
        return [str(i) for i in range(_largest(kind) + 1)]
    return None


def first_free_id(source: object, options: Options, *, people: int) -> int:
    """Return the first of as many ids in a row as there are invented people: ids that nobody in the table has.

    Beyond 2⁶² where there is room. In a column of narrower integers, between its largest id and the type's end, or
    below its smallest one.

    Raises
    ------
    ParameterError
        If a column's type has no room for so many.
    """
    form, files = _found(source, options)
    column = _column(form, files, options, str(options.user))
    kind = column.kind
    if kind is None or not pa.types.is_integer(kind) or kind.bit_width == 64:
        return 1 << 62 | int.from_bytes(os.urandom(7)) << 4
    low, high = column.ends()
    largest = _largest(kind)
    smallest = -largest - 1 if pa.types.is_signed_integer(kind) else 0
    for start, stop in ((max(0, high + 1), largest + 1), (smallest, min(0, low))):
        if stop - start >= people:
            return start + int.from_bytes(os.urandom(16)) % (stop - start - people + 1)
    raise ParameterError(
        f"user must be a column with room for {people:,} invented people, and one of {kind} has too little. "
        "Audit a copy with 64-bit integers."
    )


def _largest(kind: pa.DataType) -> int:
    return int(2 ** (kind.bit_width - pa.types.is_signed_integer(kind)) - 1)


class _Column(NamedTuple):
    """The type of a column, None where it holds any text or number; and how to read it."""

    kind: pa.DataType | None
    read: Any = None

    def ends(self) -> tuple[int, int]:
        """Return the smallest and the largest number of it; nobody is told."""
        low, high = 0, 0
        for cells in self.read():
            found = pc.min_max(cells).as_py()
            if found["min"] is not None:
                low, high = min(low, found["min"]), max(high, found["max"])
        return low, high


def _column(form: str, files: Sequence[Stamp], options: Options, name: str) -> _Column:
    try:
        if form == "Parquet":
            schema = pq.read_schema(files[0].path)
            _check_columns(schema.names, options)
            return _Column(_plain(schema.field(name).type), lambda: _parquet_cells(files, name))
        if form == "DuckDB":
            selected = f"SELECT {_quoted(name)} FROM "  # noqa: S608 - quoted
            with duckdb.connect(files[0].path, read_only=True) as old:
                table = _quoted(_only(_duckdb_names(old), options))
                kind = old.sql(f"{selected}{table} LIMIT 0").to_arrow_table().schema.field(0).type
            return _Column(_plain(kind), lambda: _duckdb_cells(files[0], selected + table))
    except DimlyError:
        raise
    except (OSError, ValueError, KeyError, pa.ArrowException, duckdb.Error):
        pass  # whose words may quote the table
    else:
        return _Column(None)
    raise _not_added(form)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _parquet_cells(files: Sequence[Stamp], name: str) -> Iterator[pa.Array]:
    for stamp in files:
        with pq.ParquetFile(stamp.path) as file:
            for batch in file.iter_batches(columns=[name]):
                cells = batch.column(0)
                yield cells.dictionary if pa.types.is_dictionary(cells.type) else cells


def _duckdb_cells(stamp: Stamp, query: str) -> Iterator[pa.Array]:
    with duckdb.connect(stamp.path, read_only=True) as old:
        for batch in old.sql(query).to_arrow_reader():
            yield batch.column(0)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _names(files: Sequence[Stamp]) -> list[str]:
    return [str(stamp.path) for stamp in files]


def _check_columns(names: Sequence[str], options: Options) -> None:
    for name in (options.user, options.attribute, options.value):
        if name is not None and name not in names:
            # Those that are there may be somebody's: keys of an object, or a row that is joined to the line of names.
            raise ParameterError(f"the table must have a column {name!r}, but it has none. Is it spelled as there?")


def _csv(files: Sequence[Stamp], rows: InventedRows, options: Options, folder: Path) -> list[str]:
    dialect, names = read_header(files[0], CsvOptions.of(options))
    _check_columns(names, options)
    target = folder / ("invented.tsv" if ".tsv" in files[0].path.suffixes else "invented.csv")
    columns = [rows.column(name, options) or [""] * len(rows.users) for name in names]
    doubled = dialect.escape == dialect.quote
    with target.open("w", encoding=dialect.encoding, newline="") as file:
        quoting: Literal[0, 1]
        for quoting, lines in ((csv.QUOTE_MINIMAL, [names]), (csv.QUOTE_ALL, zip(*columns, strict=True))):
            csv.writer(
                file,
                delimiter=dialect.delimiter,
                quotechar=dialect.quote or None,
                quoting=quoting if dialect.quote else csv.QUOTE_NONE,
                doublequote=doubled,
                escapechar=None if doubled or not dialect.escape else dialect.escape,
                lineterminator="\n",
            ).writerows(lines)
    return [*_names(files), str(target)]


def _parquet(files: Sequence[Stamp], rows: InventedRows, options: Options, folder: Path) -> list[str]:
    schema = pq.read_schema(files[0].path)
    _check_columns(schema.names, options)
    arrays = []
    for field in schema:
        cells = rows.column(field.name, options)
        kind = _plain(field.type)
        arrays.append(pa.nulls(len(rows.users), kind) if cells is None else _cast(cells, kind, field.name))
    target = folder / "invented.parquet"
    pq.write_table(pa.table(arrays, names=schema.names), target)
    return [*_names(files), str(target)]


def _cast(cells: Sequence[Any], kind: pa.DataType, name: str) -> pa.Array:
    """Return cells, or their texts, in a column's type."""
    try:
        return pa.array([str(cell) for cell in cells], pa.string()).cast(kind)
    except pa.ArrowException:
        pass
    raise ParameterError(
        f"{name} must be a column that takes invented people, and one of {kind} does not. "
        "Audit a copy with 64-bit integers or text."
    )


def _json_lines(files: Sequence[Stamp], rows: InventedRows, options: Options, folder: Path) -> list[str]:
    with open_bytes(files[0]) as opened:
        beginning = opened.read(_FIRST_OBJECT)
    first, _ = json.JSONDecoder().raw_decode(beginning.decode(errors="replace").lstrip("\ufeff [\r\n\t"))
    _check_columns(list(first), options)
    textual = isinstance(first[options.user], str)
    target = folder / "invented.jsonl"
    with target.open("w", encoding="utf-8") as file:
        for user, attribute in zip(rows.users, rows.attributes, strict=True):
            row: dict[str, Any] = {str(options.user): str(user) if textual else user, str(options.attribute): attribute}
            if options.value is not None:
                row[options.value] = 1
            file.write(json.dumps(row) + "\n")
    return [*_names(files), str(target)]


def _insertion(rows: InventedRows, options: Options, table: str) -> tuple[str, list[tuple[Any, ...]]]:
    names = [name for name in (options.user, options.attribute, options.value) if name is not None]
    columns = [rows.column(name, options) or [] for name in names]
    into = f"{_quoted(table)} ({', '.join(map(_quoted, names))})"
    return f"INSERT INTO {into}", list(zip(*columns, strict=True))


def _only(named: Sequence[tuple[str, str]], options: Options) -> str:
    """Return the table to add people to, of the names of a database and their kinds: "table" or "view"."""
    if options.query is not None or (options.table is None and [kind for _, kind in named] != ["table"]):
        raise ParameterError("table must name the one table of the database that invented people are added to.")
    if (options.table, "view") in named:
        raise ParameterError("table must be no view: invented people are added to tables alone. Name the table.")
    return options.table or named[0][0]


def _sqlite(files: Sequence[Stamp], rows: InventedRows, options: Options, folder: Path) -> list[str]:
    target = folder / "copy.sqlite"
    address = f"{files[0].path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
        named = [
            (name, kind)
            for name, kind in new.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')")
            if not name.startswith("sqlite_")  # its own, of numbered rows for instance
        ]
        text, cells = _insertion(rows, options, _only(named, options))
        statement = f"{text} VALUES ({', '.join('?' * len(cells[0]))})"
        try:
            with new:
                new.executemany(statement, cells)
        except sqlite3.IntegrityError:  # a key of person and attribute: no row can stand twice
            with new:
                new.executemany(statement, _once(cells))
    return [str(target)]


def _once(cells: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return list(dict.fromkeys(cells))


def _duckdb_names(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    return connection.sql(
        "SELECT table_name, 'table' FROM duckdb_tables() "
        "UNION ALL SELECT view_name, 'view' FROM duckdb_views() WHERE NOT internal"
    ).fetchall()


def _duckdb(files: Sequence[Stamp], rows: InventedRows, options: Options, folder: Path) -> list[str]:
    target = folder / "copy.duckdb"
    shutil.copyfile(files[0].path, target)
    with duckdb.connect(target) as new:
        text, cells = _insertion(rows, options, _only(_duckdb_names(new), options))
        try:
            _inserted(new, text, cells)
        except duckdb.ConstraintException:  # a key of person and attribute: no row can stand twice
            _inserted(new, text, _once(cells))
    return [str(target)]


def _inserted(connection: duckdb.DuckDBPyConnection, text: str, cells: list[tuple[Any, ...]]) -> None:
    columns = [list(column) for column in zip(*cells, strict=True)]
    connection.register("invented", pa.table(columns, names=[f"c{i}" for i in range(len(columns))]))
    connection.execute(f"{text} SELECT * FROM invented")  # noqa: S608 - quoted


_PLANTED = {
    "CSV": _csv,
    "Parquet": _parquet,
    "JSON lines": _json_lines,
    "SQLite": _sqlite,
    "DuckDB": _duckdb,
}
