"""Invented people, written beside a private table in the table's own format.

Files are not copied: a further file of the same columns holds the invented people, and is read together with them. A
database is copied, because its rows are in one file.
"""

import csv
import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dimly.curator.options import Options
from dimly.curator.tables.csv import CsvOptions, read_header
from dimly.curator.tables.files import Stamp, find_files
from dimly.curator.tables.sources import are_paths
from dimly.errors import DataError, DimlyError, ParameterError


class Planted(NamedTuple):
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


def planted(source: object, rows: Planted, options: Options, folder: Path) -> list[str]:
    """Write the rows into ``folder``, and return the files to read in place of ``source``.

    Parameters
    ----------
    source : path, glob, folder or list of these
    rows : Planted
    options : Options
        How the table is read; a long one.
    folder : Path
        Empty, and readable by nobody else.

    Raises
    ------
    ParameterError
        If the table is of a kind that nobody can be added to.
    """
    if not are_paths(source):
        raise ParameterError(f"data must be files, got {type(source).__name__}. Write the table to a file first.")
    if options.attribute is None:
        raise ParameterError("attribute must name the column of attributes: only long tables are audited so far.")
    form, files = find_files(source)
    try:
        return _PLANTED[form](files, rows, options, folder)
    except DimlyError:
        raise
    except (OSError, ValueError, pa.ArrowException, sqlite3.Error, duckdb.Error):
        pass  # whose words may quote the table
    raise DataError(f"invented people could not be added to this {form} table. Audit it as a Parquet or CSV file.")


def _names(files: Sequence[Stamp]) -> list[str]:
    return [str(stamp.path) for stamp in files]


def _check_columns(names: Sequence[str], options: Options) -> None:
    for name in (options.user, options.attribute, options.value):
        if name is not None and name not in names:
            raise ParameterError(f"the table must have a column {name!r}, but it has none.")


def _csv(files: Sequence[Stamp], rows: Planted, options: Options, folder: Path) -> list[str]:
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


def _parquet(files: Sequence[Stamp], rows: Planted, options: Options, folder: Path) -> list[str]:
    schema = pq.read_schema(files[0].path)
    _check_columns(schema.names, options)
    arrays = []
    for field in schema:
        cells = rows.column(field.name, options)
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if cells is None:
            arrays.append(pa.nulls(len(rows.users), kind))
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
            arrays.append(pa.array([int(cell) for cell in cells], kind))
        else:
            arrays.append(pa.array([str(cell) for cell in cells], kind))
    target = folder / "invented.parquet"
    pq.write_table(pa.table(arrays, names=schema.names), target)
    return [*_names(files), str(target)]


def _json_lines(files: Sequence[Stamp], rows: Planted, options: Options, folder: Path) -> list[str]:
    with open(files[0].path, "rb") as file:
        beginning = file.read(1 << 16)
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


def _insertion(rows: Planted, options: Options, table: str) -> tuple[str, list[tuple[Any, ...]]]:
    names = [name for name in (options.user, options.attribute, options.value) if name is not None]
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    marks = ", ".join("?" * len(names))
    columns = [rows.column(name, options) or [] for name in names]
    name = '"' + table.replace('"', '""') + '"'
    return f"INSERT INTO {name} ({quoted}) VALUES ({marks})", list(zip(*columns, strict=True))  # noqa: S608 - quoted


def _only(tables: list[str], options: Options) -> str:
    if options.query is not None or (options.table is None and len(tables) != 1):
        raise ParameterError("table must name the one table of the database that invented people are added to.")
    return options.table or tables[0]


def _sqlite(files: Sequence[Stamp], rows: Planted, options: Options, folder: Path) -> list[str]:
    target = folder / "copy.sqlite"
    address = f"{files[0].path.absolute().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(address, uri=True)) as old,
        closing(sqlite3.connect(target)) as new,
        new,
    ):
        old.backup(new)
        tables = [name for (name,) in new.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        new.executemany(*_insertion(rows, options, _only(tables, options)))
    return [str(target)]


def _duckdb(files: Sequence[Stamp], rows: Planted, options: Options, folder: Path) -> list[str]:
    target = folder / "copy.duckdb"
    shutil.copyfile(files[0].path, target)
    with duckdb.connect(target) as new:
        tables = [name for (name,) in new.sql("SELECT table_name FROM duckdb_tables()").fetchall()]
        text, cells = _insertion(rows, options, _only(tables, options))
        some = pa.table(
            [list(column) for column in zip(*cells, strict=True)], names=[f"c{i}" for i in range(len(cells[0]))]
        )
        new.register("invented", some)
        new.execute(text.partition(" VALUES ")[0] + " SELECT * FROM invented")  # noqa: S608 - quoted
    return [str(target)]


_PLANTED = {
    "CSV": _csv,
    "Parquet": _parquet,
    "JSON lines": _json_lines,
    "SQLite": _sqlite,
    "DuckDB": _duckdb,
}
