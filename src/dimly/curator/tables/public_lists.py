"""Roster, vocabulary and volunteers: read, checked, and refused if they are the private table itself.

Volunteers, whose public data the plan was made from, must not be in it.
"""

import contextlib
import csv as python_csv
import glob
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from dimly.curator.options import Options
from dimly.curator.tables.columns import check_names, listing, read_user
from dimly.curator.tables.condition import check_condition
from dimly.curator.tables.csv import CsvOptions, read_header, transcoded
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.formats import arrow_column, arrow_data, dataset_types, polars_memory
from dimly.curator.tables.input_files import (
    FilePath,
    Stamp,
    compression_of,
    find_files,
    glob_literal,
    suffix_of,
    unpacked,
)
from dimly.curator.tables.sources import are_paths, open_source
from dimly.errors import DataError, ParameterError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.vocabulary import Vocabulary, attribute_text
from dimly.privacy import Budget
from dimly.release.documents.directions_file import read_directions
from dimly.release.documents.survey_file import Survey, looks_like_survey, read_survey
from dimly.release.format import UserType

ODD_IDS: Final = "roster must hold integers or text, but some ids are neither. Turn them all into text."
MISSING_IDS: Final = "roster must give everybody an id, but some are missing. Remove the empty ones."

_INT64: Final = range(-(1 << 63), 1 << 63)
_MOST_BYTES: Final = {"vocabulary": 1 << 32, "roster": 1 << 38, "volunteers": 1 << 38}
"""What public lists may take: all attributes are held in memory, and there are at most 2³¹ people."""
_AT_ONCE: Final = 1 << 16  # texts that Arrow turns into Python's
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
    database: PrivateDatabase,
    roster: object,
    *,
    user_column: str,
    role: Literal["roster", "volunteers"] = "roster",
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
    role : {"roster", "volunteers"}
        What the list is called where it is refused.

    Raises
    ------
    ParameterError
        If it is none of these, has no such column, or names nobody.
    DataError
        If an id is missing, or a file cannot be read.
    """
    if isinstance(roster, str | os.PathLike):
        _check_there(roster, role)
        _check_lines(roster, role)
        _check_size(role, sum(Stamp.of(path).state.size for path in _paths(roster)))
    if isinstance(roster, str | os.PathLike) and _is_lines(roster):
        relation, column, type_ = _lines(database, Stamp.of(roster)), "u", "VARCHAR"
    else:
        ids = _roster_column(roster, role)
        table = roster if ids is None else pa.table({user_column: ids})
        source = open_source(database, table)
        column = only_or_named(source.columns, user_column, role)
        if not source.has_types and column != user_column and column.isdecimal():
            raise DataError(
                f"{role} must begin with a line that names its column, but its first line is the number {column}. Add "
                f"a line {user_column!r}, or name the file .txt, which has no such line."
            )
        relation, type_ = source.name, source.columns[column]
    reading, user_type = read_user(column, type_, columns="")
    wrong = reading.wrong or "false"
    found = database.fetch(f"SELECT bool_or(({reading.sql}) IS NULL), bool_or({wrong}), count(*) = 0 FROM {relation}")
    is_missing, is_odd, is_empty = found[0]
    if is_odd:
        raise DataError(ODD_IDS.replace("roster", role, 1))
    if is_empty:
        raise ParameterError(f"{role} must name at least one person, got none.")
    if is_missing:
        raise DataError(MISSING_IDS.replace("roster", role, 1))
    name = database.create_table(f"SELECT DISTINCT {reading.sql} AS u FROM {relation}")
    return Roster(name, user_type)


def read_vocabulary(vocabulary: object, *, attribute_column: str | None = None) -> Vocabulary:
    """Read the public list of attributes, in its order.

    Parameters
    ----------
    vocabulary : Vocabulary, Survey, path, table, column or iterable
        A survey, or its file: the attributes that it shows. ``.txt``: one attribute a line, without a header. CSV,
        Parquet, JSON lines and tables: the column named ``attribute_column``, or their only one.
    attribute_column : str, optional
        Name of the data's attribute column.

    Raises
    ------
    ParameterError
        If it is none of these, or lists something twice, nothing, or what is no attribute.
    DataError
        If a file cannot be read.
    """
    if isinstance(vocabulary, Vocabulary):
        return vocabulary
    if isinstance(vocabulary, Survey):
        return Vocabulary.listed(vocabulary.names())
    if isinstance(vocabulary, str | os.PathLike):
        if looks_like_survey(vocabulary):
            return Vocabulary.listed(read_survey(vocabulary).names())
        listed = Vocabulary.listed(_file_cells(vocabulary, attribute_column))
        pa.default_memory_pool().release_unused()  # else what reading took stays beside the table
        return listed
    column = arrow_column(vocabulary)
    if column is None:
        table = arrow_data(vocabulary)
        if table is None:
            return Vocabulary.listed(vocabulary)  # type: ignore[arg-type] # which refuses what it cannot list
        column = _column(_in_memory(table), attribute_column)
    return Vocabulary.listed(_texts(column))


def vocabulary_for(plan: Plan, options: Options) -> Vocabulary | None:
    """Return the closed list of attributes of a run, if there is one: as given, and as the plan wants it."""
    listed = None
    if options.vocabulary is not None:
        listed = read_vocabulary(options.vocabulary, attribute_column=options.attribute)
    return plan.listed(listed)


def plan_along(plan: Plan, options: Options) -> Plan:
    """Return the plan of a run, proven, with the directions that it names, if it names some; read and checked now.

    Raises
    ------
    ParameterError
        If they are missing or not the plan's, or the plan takes none.
    """
    if not isinstance(plan, Plan):
        remedy = "Call publish(table, plan)."
        if isinstance(plan, Budget):
            remedy = "Make one of the budget: dimly.plan(budget)."
        elif isinstance(plan, str | os.PathLike):
            remedy = "Read it with Plan.from_json(Path(file).read_text())."
        raise ParameterError(f"plan must be a Plan, got {type(plan).__name__}. {remedy}")
    given = options.directions
    plan = plan.along(read_directions(given) if isinstance(given, str | os.PathLike) else given)
    plan.prove()  # before anything is charged: by what the plan says now, and not by facts that were found earlier
    return plan


def check_before_reading(source: object, options: Options, *, files: Iterable[Stamp] | None = None) -> None:
    """Refuse what can be told before any row is read, of a table with columns.

    That is a table without a column of ids, a condition that chooses people by what is protected, and a roster or a
    vocabulary that is the private table itself.
    """
    _ = options.user_column
    if options.where is not None:
        check_condition(options)
    if options.roster is not None:
        check_apart(source, options.roster, "roster", files=files)
    if options.vocabulary is not None:
        check_apart(source, options.vocabulary, "vocabulary", files=files)


def check_apart(source: object, given: object, role: str, *, files: Iterable[Stamp] | None = None) -> None:
    """Refuse a public list that is the private table itself, or a column of it: what occurs there is not public.

    Files are the same if they are one on the disk, whatever they are called; columns, if they are one in memory. A copy
    is not seen: that a list was made without the table is the curator's word.

    Parameters
    ----------
    source : object
        The private table.
    given : object
        The list.
    role : {"roster", "vocabulary", "by"}
    files : iterable of Stamp, optional
        What the private table was opened from; found by ``source`` where that is paths.

    Raises
    ------
    ParameterError
        If the list is the table, or one of its files or columns.
    """
    if isinstance(given, str | os.PathLike):
        _check_there(given, role)
        own = _files_of(source) if files is None else [stamp.path for stamp in files]
        listed = {_identity(path) for path in _paths(given)}
        same = not listed.isdisjoint(map(_identity, own))
    else:
        same = given is source or _share_memory(source, given)
    if same:
        raise not_public(role, "the private table itself")


def _files_of(source: Any) -> list[FilePath]:
    """Return the files of this machine that a table is, or that a dataset of Arrow reads."""
    if are_paths(source):
        return [stamp.path for stamp in find_files(source)[1]]
    if isinstance(source, dataset_types()) and hasattr(source, "files") and source.filesystem.type_name == "local":
        return [path for path in source.files if os.path.exists(path)]
    return []


_BATCH = 1 << 20


def check_volunteers_given(options: Options) -> None:
    """Refuse an exception of volunteers without a list of them."""
    if options.except_volunteers and options.volunteers is None:
        raise ParameterError("volunteers must be given where except_volunteers is, got none.")


def check_no_volunteers(people: Iterable[pa.Array], options: Options) -> None:
    """Refuse to publish people who are volunteers, unless that is excepted from the promise.

    Directions show rare attributes of the people that they were learned from, and a list of attributes that was made of
    a sample shows which attributes its people have: the promise does not hold for them. Ids are compared in memory, and
    are neither quoted nor written anywhere: neither directions nor releases hold a list of volunteers. Spaces around
    text do not count. Text and integers are compared as numbers, because one of the two lists may come from a file
    without types: "00031" is then 31.

    Parameters
    ----------
    people : iterable of arrays
        Own ids of those to be published.
    options : Options

    Raises
    ------
    DataError
        If somebody is both, or ids are of different kinds and cannot be compared. Nothing is said of who, or how many.
    ParameterError
        If the list of volunteers cannot be read.
    """
    if options.volunteers is None or options.except_volunteers:
        return
    import pyarrow.compute as pc  # noqa: PLC0415 (slow to import, and of volunteers alone)

    volunteers = _volunteers(options)
    kinds, is_compared = set(), False
    for given in people:
        ids = given.cast(pa.int64() if pa.types.is_integer(given.type) else pa.string())
        kinds.add(ids.type)
        comparable = _trimmed if ids.type == volunteers.type else _as_numbers
        own, theirs = comparable(ids), comparable(volunteers)
        is_compared |= bool(len(own) and len(theirs))
        if pc.any(pc.is_in(own, value_set=theirs)).as_py():
            raise DataError(
                "volunteers must not be among the people to publish, but some are: directions, or a list of "
                "attributes made of a sample, show their data. Take them out of the table or the roster; or add "
                "except_volunteers=True (--except-volunteers), and the promise says that it does not hold for them."
            )

    if kinds and not is_compared:
        raise DataError(
            "volunteers must have ids of the kind that the people have, but one are integers and the other text that "
            "is no number, so that nobody would be recognized. Give the ids as they are in the table."
        )


def _trimmed(ids: pa.Array) -> pa.Array:
    """Return ids without the spaces around them, which nobody sees, and which make nobody another person."""
    import pyarrow.compute as pc  # noqa: PLC0415 (as above)

    return ids if pa.types.is_integer(ids.type) else pc.utf8_trim_whitespace(ids)


def _as_numbers(ids: pa.Array) -> pa.Array:
    """Return those ids that are integers, as they are usually written."""
    import pyarrow.compute as pc  # noqa: PLC0415 (as above)

    texts = _trimmed(ids.cast(pa.string()))
    texts = texts.filter(pc.match_substring_regex(texts, r"^[+-]?[0-9]+$"))
    return pc.replace_substring_regex(texts, r"^\+?(-?)0*([0-9])", r"\1\2")


def _volunteers(options: Options) -> pa.Array:
    resources = options.resources
    with PrivateDatabase(memory=1 << 28, threads=1, temp=resources.temp) as database:
        listed = read_roster(database, options.volunteers, user_column=options.user or "user", role="volunteers")
        kind = pa.int64() if listed.user_type == "int64" else pa.string()
        batches = database.stream(f"SELECT u FROM {listed.name}", batch_rows=_BATCH)
        return pa.concat_arrays([batch.column(0).cast(kind) for batch in batches])


def nobody_there(where: Literal["table", "roster"]) -> DataError:
    """Return what to say where there is nobody to publish."""
    empty = "The table has no rows" if where == "table" else "The roster is empty"
    return DataError(f"there must be at least one person to publish. {empty}.")


def not_public(role: str, got: str) -> ParameterError:
    """Return what to say of a list that was made from the private table."""
    if role == "by":
        return ParameterError(f"by must be segments of a release, got {got}. Make them by dimly segments.")
    what = "who is published" if role == "roster" else "which attributes count"
    remedy = "the people found" if role == "roster" else "any attribute, by a plan without a list"
    return ParameterError(
        f"{role} must be a public list, got {got}: then {what} would follow from the data. "
        f"Give a list that was made without it, or leave it out to publish {remedy}."
    )


def _share_memory(source: object, given: object) -> bool:
    """Return whether a column, or a table's, is one of a table's own, or a part of one."""
    listed = [cells for column in _columns_of(given) or [given] for cells in _memory(column)]
    own = [cells for column in _columns_of(source) for cells in _memory(column)] if listed else []
    # Not by where they begin and end: columns of a matrix lie between each other.
    return any(np.shares_memory(one, other) for one in listed for other in own)


def _columns_of(table: Any) -> list[Any]:
    """Return the columns of a table of Arrow, polars or pandas, as they are; none of anything else."""
    room = type(table).__module__.partition(".")[0]
    if isinstance(table, pa.Table | pa.RecordBatch):
        return list(table.columns)
    if room == "polars" and hasattr(table, "get_columns"):
        return list(table.get_columns())
    if room == "pandas" and hasattr(table, "items") and hasattr(table, "columns"):
        return [column for _, column in table.items()]
    return []


def _memory(column: Any) -> list[NDArray[Any]]:
    """Return the memory that the cells of a column are in."""
    room = type(column).__module__.partition(".")[0]
    if room == "pandas" and not hasattr(column, "array"):  # an array of its own kind, as Series.array and .values give
        column = sys.modules["pandas"].Series(column, copy=False)
    if room == "pandas" and isinstance(getattr(column, "dtype", None), np.dtype):
        column = column.to_numpy()
    if isinstance(column, np.ndarray):
        return [column]
    if room == "pandas" and not hasattr(getattr(column, "array", None), "__arrow_array__"):
        return []  # cells of no type: to look at them would copy them
    found = polars_memory(column) if room == "polars" and hasattr(column, "to_physical") else arrow_column(column)
    chunks = [] if found is None else [chunk for chunk in found.chunks if len(chunk)]
    # Of a view its places alone: the text itself may be a public list's, which the table was joined with.
    cells = [
        chunk.buffers()[1 if pa.types.is_string_view(chunk.type) else -1]
        for chunk in chunks
        if not pa.types.is_null(chunk.type)
    ]
    return [np.frombuffer(buffer, np.uint8) for buffer in cells if buffer is not None and buffer.size]


def _paths(given: FilePath) -> list[FilePath]:
    is_pattern = os.path.isdir(given) or not os.path.exists(given)
    return [stamp.path for stamp in find_files(given)[1]] if is_pattern else [given]


def _identity(path: FilePath) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _roster_column(roster: object, role: str) -> pa.ChunkedArray | pa.Array | None:
    """Return a column, an array or a list of ids as Arrow; None for paths and tables."""
    column = arrow_column(roster)
    if column is not None or isinstance(roster, str | os.PathLike) or arrow_data(roster) is not None:
        return column
    if isinstance(roster, np.ndarray):
        if roster.ndim == 1 and roster.dtype.kind in "iu":
            return pa.array(roster)
        roster = roster.tolist()
    if not isinstance(roster, Iterable):
        raise ParameterError(f"{role} must be a path, a list, a column or a table, got {type(roster).__name__}.")
    ids = list(roster)
    if all(one is None or isinstance(one, str) for one in ids):
        try:
            return pa.array(ids, pa.string())
        except UnicodeError:
            pass
        raise DataError(f"{role} must hold text that encodes to UTF-8, but some ids do not.")
    if all(one is None or (isinstance(one, int | np.integer) and not isinstance(one, _NO_IDS)) for one in ids):
        numbers = [None if one is None else int(one) for one in ids]
        if all(one is None or one in _INT64 for one in numbers):
            return pa.array(numbers, pa.int64())
        return pa.array([None if one is None else str(one) for one in numbers], pa.string())
    floats = any(isinstance(one, float | np.floating) for one in ids)
    remedy = "Turn floats into integers." if floats else "Turn every id into text."
    raise ParameterError(f"{role} must be all integers or all text. {remedy}")


def _check_there(path: FilePath, role: str) -> None:
    name = os.fspath(path)
    if not os.path.exists(path) and not glob.has_magic(name):
        remedy = f"Write {os.path.expanduser(name)}." if name.startswith("~") else "Check the path."
        raise ParameterError(f"{role} must be an existing file, got {name}. {remedy}")
    if os.path.isdir(path) and (os.path.exists(os.path.join(path, "manifest.json")) or not os.listdir(path)):
        what = "a release" if os.listdir(path) else "an empty folder"
        raise ParameterError(f"{role} must be a public list, got {name}, which is {what}. Name a file with one column.")


def _is_lines(path: FilePath) -> bool:
    return suffix_of(path) == ".txt"


def _check_lines(given: FilePath, role: str) -> None:
    """Refuse folders and patterns of lines: they would be read as CSV, and the first line of each taken for names."""
    paths = _paths(given)
    if paths != [given] and any(map(_is_lines, paths)):
        raise ParameterError(f"{role} must be one .txt file, got {os.fspath(given)}. Join them to one file.")


def _lines(database: PrivateDatabase, stamp: Stamp) -> str:
    path = Path(stamp.path)
    database.inputs[os.fspath(path)] = (stamp.name, "text")
    if compression_of(path) is not None:
        path = database.keep_copy(unpacked(stamp), stamp.name, "text")
    # Nothing in a line has a meaning: no quotes, and a delimiter that no id holds.
    return database.create_view(
        "SELECT u FROM read_csv(?, columns = {'u': 'VARCHAR'}, delim = '\x1f', quote = '', escape = '', "
        "header = false, auto_detect = false, strict_mode = true, encoding = 'utf-8', compression = 'none')",
        [[glob_literal(path)]],
    )


def _file_cells(path: FilePath, attribute_column: str | None) -> Iterable[object]:
    _check_there(path, "vocabulary")
    _check_lines(path, "vocabulary")
    if _is_lines(path):
        text = _whole(Stamp.of(path), "utf-8-sig")
        return _without_empty(text.removesuffix("\n").removesuffix("\r").replace("\r\n", "\n").split("\n"), path)
    form, (stamp, *others) = find_files(path)
    if others or form in {"DuckDB", "SQLite"}:
        raise ParameterError(f"vocabulary must be one text, CSV, Parquet or JSON lines file, got {os.fspath(path)}.")
    if form == "CSV":
        return _csv_cells(stamp, attribute_column)
    if form == "JSON lines":
        return _json_cells(stamp, attribute_column)
    try:
        footer = pyarrow.parquet.read_metadata(stamp.path)
        _check_size(
            "vocabulary", sum(footer.row_group(group).total_byte_size for group in range(footer.num_row_groups))
        )
        table = pyarrow.parquet.read_table(stamp.path, partitioning=None)
    except (pa.ArrowException, OSError):
        table = None
    if table is None:
        raise DataError(
            f"{stamp.name} must be a readable Parquet file. It is damaged, incomplete or of another format."
        )
    return _texts(_column(table, attribute_column))


def _whole(stamp: Stamp, encoding: str) -> str:
    """Return the text of a list, unpacked; one without end is not read to its end."""
    _check_size("vocabulary", stamp.state.size)
    pieces, size = [], 0
    for piece in transcoded(stamp, encoding):
        size += len(piece)
        _check_size("vocabulary", size)
        pieces.append(piece)
    return b"".join(pieces).decode()


def _check_size(role: str, size: int) -> None:
    if size > _MOST_BYTES[role]:
        raise ParameterError(f"{role} must take at most {_MOST_BYTES[role] >> 30} GiB, got more. Is it another file?")


def _csv_cells(stamp: Stamp, attribute_column: str | None) -> list[str]:
    dialect, names = read_header(stamp, CsvOptions())
    check_names(names, stamp.name)
    position = names.index(only_or_named(names, attribute_column, "vocabulary"))
    encoding = "utf-8-sig" if dialect.is_utf8 else dialect.encoding
    text = _whole(stamp, encoding)
    try:
        rows = [row for row in dialect.rows(text) if row][1:]
    except python_csv.Error:
        rows = [[]]
    if any(len(row) != len(names) for row in rows):
        raise DataError(f"{stamp.name} must have as many fields in each line as in the first, and quotes in pairs.")
    return _without_empty([row[position] for row in rows], stamp.name)


def _json_cells(stamp: Stamp, attribute_column: str | None) -> list[object]:
    lines = _whole(stamp, "utf-8").split("\n")
    try:
        rows: list[Any] | None = [json.loads(line) for line in lines if line.strip()]
    except ValueError:
        rows = None
    if rows is None or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{stamp.name} must hold one JSON object per line, but some line is not one.")
    name = only_or_named(list(dict.fromkeys(key for row in rows for key in row)), attribute_column, "vocabulary")
    return [row.get(name) for row in rows]


def _without_empty(texts: list[str], owner: FilePath) -> list[str]:
    if not any(texts):
        raise DataError(f"{os.fspath(owner)} must name at least one attribute, but it is empty. Fill it.")
    if "" in texts:
        raise DataError(f"{os.fspath(owner)} must have an attribute in each line, but some are empty. Remove them.")
    return texts


def _in_memory(table: Any) -> pa.Table:
    if isinstance(table, pa.Table):
        return table
    # Whatever makes it may fail, and say so by a cell.
    with contextlib.suppress(Exception):
        return table.read_all() if isinstance(table, pa.RecordBatchReader) else table.to_table()
    raise DataError("vocabulary must be a table that Arrow can read, and it fails. Read it first, to see why.")


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
    which = "one column" if wanted is None else f"one column, or one named {wanted!r}"
    remedy = (
        "Remove the others." if wanted is None else f"Name the column of the list {wanted!r}, or remove the others."
    )
    raise ParameterError(f"{role} must have {which}. {listing(known)} {remedy}")


def _texts(column: pa.ChunkedArray) -> Iterator[str]:
    """Yield canonical texts; times through NumPy, because Python's stop at microseconds."""
    try:
        column.validate(full=True)
        is_sound = True
    except pa.ArrowException:
        is_sound = False
    if not is_sound:
        raise DataError("vocabulary must hold text that encodes to UTF-8, but some of it does not. Decode it anew.")
    if not pa.types.is_timestamp(column.type):
        for start in range(0, len(column), _AT_ONCE):
            yield from map(attribute_text, column.slice(start, _AT_ONCE).to_pylist())
        return
    zone = "+00:00" if column.type.tz is not None else ""
    for time in column.cast(pa.timestamp(column.type.unit)).to_numpy():
        yield attribute_text(time) + zone
