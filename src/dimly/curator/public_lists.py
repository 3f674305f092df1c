"""The public inputs of a release: the roster says who is in it, the vocabulary closes its attributes."""

import csv as python_csv
import glob
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from dimly.curator.arrow_data import arrow_column, arrow_data
from dimly.curator.column_names import check_names, listing
from dimly.curator.csv_dialect import CsvOptions, read_header, transcoded
from dimly.curator.database import PrivateDatabase
from dimly.curator.files import FilePath, Stamp, find_files, glob_literal
from dimly.curator.readings import UserType, read_user
from dimly.curator.sources import open_source
from dimly.errors import DataError, ParameterError
from dimly.mechanisms.attributes import Vocabulary, attribute_text

_AS_WRITTEN: Final = CsvOptions()
_INT64: Final = range(-(1 << 63), 1 << 63)
_NO_IDS: Final = (bool, np.timedelta64)  # Python and NumPy call them integers


@dataclass(frozen=True, slots=True)
class Roster:
    """The people of a release.

    Attributes
    ----------
    name : str
        Quoted name of a table with one column ``u``, each person once.
    user_type : {"int64", "text"}
        ``u`` is BIGINT, or VARCHAR. If the data's ids are of the other type, both are compared and published as text.
    """

    name: str
    user_type: UserType


def read_roster(
    database: PrivateDatabase, roster: object, *, user_column: str, csv: CsvOptions = _AS_WRITTEN
) -> Roster:
    """Read the list of people; repeats count once.

    Parameters
    ----------
    database : PrivateDatabase
    roster : path, table, column or iterable
        ``.txt``: one id a line, as text, without a header. Other files and tables: the column named ``user_column``, or
        their only one. A column, an array or a list: integers or text.
    user_column : str
        Name of the data's user column.
    csv : CsvOptions, optional
        How a CSV file is written.

    Raises
    ------
    ParameterError
        If it is none of these, has no such column, or names nobody.
    DataError
        If an id is missing, or a file cannot be read.
    """
    if isinstance(roster, str | os.PathLike):
        _check_there(roster, "roster")
    if isinstance(roster, str | os.PathLike) and _is_lines(roster):
        relation, column, type_ = _lines(database, Stamp.of(roster)), "u", "VARCHAR"
    else:
        ids = _roster_column(roster)
        table = roster if ids is None else pa.table({user_column: ids})
        source = open_source(database, table, csv=csv)
        column = only_or_named(source.columns, user_column, "roster")
        relation, type_ = source.name, source.columns[column]
    reading, user_type = read_user(column, type_, columns="")
    wrong = reading.wrong or "false"
    found = database.fetch(f"SELECT bool_or(({reading.sql}) IS NULL), bool_or({wrong}), count(*) = 0 FROM {relation}")
    is_missing, is_odd, is_empty = found[0]
    if is_odd:
        raise DataError("roster must hold integers or text, and some ids are neither. Turn them all into text.")
    if is_empty:
        raise ParameterError("roster must name at least one person, got none.")
    if is_missing:
        raise DataError("roster must give everybody an id, and some are missing. Remove the empty ones.")
    name = database.create_table(f"SELECT DISTINCT {reading.sql} AS u FROM {relation}")
    return Roster(name, user_type)


def read_vocabulary(
    vocabulary: object, *, attribute_column: str | None = None, csv: CsvOptions = _AS_WRITTEN
) -> Vocabulary:
    """Read the public list of attributes, in its order.

    Parameters
    ----------
    vocabulary : Vocabulary, path, table, column or iterable
        ``.txt``: one attribute a line, without a header. CSV, Parquet, JSON lines and tables: the column named
        ``attribute_column``, or their only one.
    attribute_column : str, optional
        Name of the data's attribute column.
    csv : CsvOptions, optional
        How a CSV file is written.

    Raises
    ------
    ParameterError
        If it is none of these, or lists something twice, nothing, or what is no attribute.
    DataError
        If a file cannot be read.
    """
    if isinstance(vocabulary, Vocabulary):
        return vocabulary
    if isinstance(vocabulary, str | os.PathLike):
        return Vocabulary.listed(_file_cells(vocabulary, attribute_column, csv))
    column = arrow_column(vocabulary)
    if column is None:
        table = arrow_data(vocabulary)
        if table is None:
            return Vocabulary.listed(vocabulary)  # type: ignore[arg-type] # which refuses what it cannot list
        column = _column(_in_memory(table), attribute_column)
    return Vocabulary.listed(_texts(column))


def _roster_column(roster: object) -> pa.ChunkedArray | pa.Array | None:
    """Return a column, an array or a list of ids as Arrow; None for paths and tables."""
    column = arrow_column(roster)
    if column is not None or isinstance(roster, str | os.PathLike) or arrow_data(roster) is not None:
        return column
    if isinstance(roster, np.ndarray):
        if roster.ndim == 1 and roster.dtype.kind in "iu":
            return pa.array(roster)
        roster = roster.tolist()
    if not isinstance(roster, Iterable):
        raise ParameterError(f"roster must be a path, a list, a column or a table, got {type(roster).__name__}.")
    ids = list(roster)
    if all(one is None or isinstance(one, str) for one in ids):
        return pa.array(ids, pa.string())
    if all(one is None or (isinstance(one, int | np.integer) and not isinstance(one, _NO_IDS)) for one in ids):
        numbers = [None if one is None else int(one) for one in ids]
        if all(one is None or one in _INT64 for one in numbers):
            return pa.array(numbers, pa.int64())
        return pa.array([None if one is None else str(one) for one in numbers], pa.string())
    raise ParameterError("roster must be all integers or all text. Turn every id into text.")


def _check_there(path: FilePath, role: str) -> None:
    if not os.path.exists(path) and not glob.has_magic(os.fspath(path)):
        raise ParameterError(f"{role} must be an existing file, got {os.fspath(path)}.")


def _is_lines(path: FilePath) -> bool:
    return Path(path).suffix.lower() == ".txt"


def _lines(database: PrivateDatabase, stamp: Stamp) -> str:
    database.inputs[os.fspath(stamp.path)] = (stamp.name, "text")
    # Nothing in a line has a meaning: no quotes, and a delimiter that no id holds.
    return database.create_view(
        "SELECT u FROM read_csv(?, columns = {'u': 'VARCHAR'}, delim = '\x1f', quote = '', escape = '', "
        "header = false, auto_detect = false, strict_mode = true, encoding = 'utf-8')",
        [[glob_literal(stamp.path)]],
    )


def _file_cells(path: FilePath, attribute_column: str | None, csv: CsvOptions) -> Iterable[object]:
    _check_there(path, "vocabulary")
    if _is_lines(path):
        text = "".join(piece.decode() for piece in transcoded(Stamp.of(path), csv.encoding or "utf-8-sig"))
        return _without_empty(text.removesuffix("\n").removesuffix("\r").replace("\r\n", "\n").split("\n"), path)
    form, (stamp, *others) = find_files(path)
    if others or form in {"DuckDB", "SQLite"}:
        raise ParameterError(f"vocabulary must be one text, CSV, Parquet or JSON lines file, got {os.fspath(path)}.")
    if form == "CSV":
        return _csv_cells(stamp, attribute_column, csv)
    if form == "JSON lines":
        return _json_cells(stamp, attribute_column)
    try:
        table = pyarrow.parquet.read_table(stamp.path, partitioning=None)
    except (pa.ArrowException, OSError):
        table = None
    if table is None:
        raise DataError(
            f"{stamp.name} must be a readable Parquet file. It is damaged, incomplete or of another format."
        )
    return _texts(_column(table, attribute_column))


def _csv_cells(stamp: Stamp, attribute_column: str | None, options: CsvOptions) -> list[str]:
    dialect, names = read_header(stamp, options)
    check_names(names, stamp.name)
    position = names.index(only_or_named(names, attribute_column, "vocabulary"))
    encoding = "utf-8-sig" if dialect.is_utf8 else dialect.encoding
    text = b"".join(transcoded(stamp, encoding)).decode()
    try:
        rows = [row for row in dialect.rows(text) if row][1:]
    except python_csv.Error:
        rows = [[]]
    if any(len(row) != len(names) for row in rows):
        raise DataError(f"{stamp.name} must have as many fields in each line as in the first, and quotes in pairs.")
    return _without_empty([row[position] for row in rows], stamp.name)


def _json_cells(stamp: Stamp, attribute_column: str | None) -> list[object]:
    lines = b"".join(transcoded(stamp, "utf-8")).decode().split("\n")
    try:
        rows: list[Any] | None = [json.loads(line) for line in lines if line.strip()]
    except ValueError:
        rows = None
    if rows is None or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{stamp.name} must hold one JSON object a line, and some line is none.")
    name = only_or_named(list(dict.fromkeys(key for row in rows for key in row)), attribute_column, "vocabulary")
    return [row.get(name) for row in rows]


def _without_empty(texts: list[str], owner: FilePath) -> list[str]:
    if "" in texts:
        raise DataError(f"{os.fspath(owner)} must have an attribute in each line, and some are empty. Remove them.")
    return texts


def _in_memory(table: Any) -> pa.Table:
    if isinstance(table, pa.RecordBatchReader):
        return table.read_all()
    return table if isinstance(table, pa.Table) else table.to_table()


def _column(table: pa.Table, attribute_column: str | None) -> pa.ChunkedArray:
    check_names(table.column_names, "the vocabulary")
    return table.column(only_or_named(table.column_names, attribute_column, "vocabulary"))


def only_or_named(names: Iterable[str], wanted: str | None, role: str) -> str:
    """Return the name of the column that a public list is in.

    Raises
    ------
    ParameterError
        If it could be any of several.
    """
    known = list(names)
    if wanted in known:
        return str(wanted)
    if len(known) == 1:
        return known[0]
    raise ParameterError(f"{role} must have one column, or one named {wanted!r}. {listing(known)}")


def _texts(column: pa.ChunkedArray) -> Iterator[str]:
    """Yield canonical texts; times through NumPy, because Python's stop at microseconds."""
    if not pa.types.is_timestamp(column.type):
        yield from map(attribute_text, column.to_pylist())
        return
    zone = "+00:00" if column.type.tz is not None else ""
    for time in column.cast(pa.timestamp(column.type.unit)).to_numpy():
        yield attribute_text(time) + zone
