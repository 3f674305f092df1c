"""CSV files as a relation in which every column is text, exactly as written; an empty field is missing.

Types are never guessed: ``007`` stays what it is. The first row names the columns. Files in another encoding than UTF-8
are transcoded into the database's private folder first.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dimly.curator.column_names import check_names, check_same_columns
from dimly.curator.csv_dialect import GUESSED, CsvOptions, Dialect, read_header, transcoded, utf8
from dimly.curator.database import PrivateDatabase
from dimly.curator.files import Stamp, glob_literal
from dimly.curator.readings import literal, quoted
from dimly.errors import DimlyError

_DISK_FULL: Final = "temp must be on a disk with room for the data: writing a copy in UTF-8 failed."


def open_csv(database: PrivateDatabase, files: Sequence[Stamp], options: CsvOptions) -> tuple[str, dict[str, str]]:
    """Return the quoted name of a view of all files, and its columns.

    Raises
    ------
    ParameterError
        If the columns of the files differ, or have no names of their own.
    DataError
        If a file is not text, or empty.
    """
    headers = csv_headers(files, options)
    # Files that are written alike are read together: DuckDB then spreads them over its threads.
    groups: dict[tuple[Dialect, tuple[str, ...]], list[str]] = {}
    for (dialect, names), stamp in zip(headers, files, strict=True):
        path = (
            stamp.path
            if dialect.is_utf8
            else _copied(database, stamp, dialect.encoding, guessed=options.encoding is None)
        )
        groups.setdefault((utf8(dialect), names), []).append(glob_literal(path))
    first = headers[0][1]
    selected = ", ".join(map(quoted, first))
    parts = [f"SELECT {selected} FROM {_scan(dialect, names)}" for dialect, names in groups]
    name = database.create_view(" UNION ALL ".join(parts), list(groups.values()))
    return name, dict.fromkeys(first, "VARCHAR")


def csv_headers(files: Sequence[Stamp], options: CsvOptions) -> list[tuple[Dialect, tuple[str, ...]]]:
    """Return how each file is written, and its columns; refuse what :func:`open_csv` does before it reads on."""
    headers = [read_header(stamp, options) for stamp in files]
    for (_, names), stamp in zip(headers, files, strict=True):
        check_names(names, stamp.name)
    check_same_columns((names for _, names in headers), files)
    return headers


def _scan(dialect: Dialect, names: Sequence[str]) -> str:
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    return (
        f"read_csv(?, delim = {literal(dialect.delimiter)}, quote = {literal(dialect.quote)}, "
        f"escape = {literal(dialect.escape)}, columns = {{{columns}}}, header = true, auto_detect = false, "
        "strict_mode = true, null_padding = false, ignore_errors = false, encoding = 'utf-8')"
    )


def _copied(database: PrivateDatabase, stamp: Stamp, encoding: str, *, guessed: bool) -> Path:
    path = database.folder / f"utf-8-{len(database.inputs)}.csv"
    database.inputs[os.fspath(path)] = (stamp.name, "CSV")
    pieces = transcoded(stamp, encoding, guessed=guessed and encoding == GUESSED)
    try:
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as copy:
            copy.writelines(pieces)
            return path
    except OSError:
        pass
    raise DimlyError(_DISK_FULL)
