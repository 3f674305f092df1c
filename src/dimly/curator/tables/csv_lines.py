"""Which lines of CSV files do not fit: for the curator alone, because a line's number is an exact count."""

import csv
from collections.abc import Iterator
from io import TextIOWrapper
from typing import Any, Final

from dimly.curator.options import Options
from dimly.curator.tables.csv import CsvOptions, Dialect, read_header
from dimly.curator.tables.files import Stamp, find_files, open_bytes
from dimly.curator.tables.sources import are_paths
from dimly.errors import DimlyError

MOST_LINES: Final = 20
"""Lines that a diagnosis names."""


def header_words(source: object, options: Options) -> str:
    """Return how the first line of CSV files was read, in a sentence; nothing of other sources."""
    try:
        for _, dialect, names in _headers(source, options):
            between = {"\t": "tabs", " ": "blanks"}.get(dialect.delimiter, repr(dialect.delimiter))
            # A line without the names that were given may be a person's, who has so many attributes.
            known = {name.casefold() for name in names}
            is_header = all(name.casefold() in known for _, name in _needed(options))
            read = f"{len(names)} names" if is_header and len(names) > 1 else "names"
            return f"The first line was read as {read} with {between} between them, in {dialect.encoding}."
    except (DimlyError, OSError):
        pass
    return ""


def lines_that_do_not_fit(source: object, options: Options, most: int = MOST_LINES) -> list[dict[str, Any]]:
    """Return the first lines of CSV files that do not fit, and why; nothing of other sources. Private."""
    found: list[dict[str, Any]] = []
    try:
        for stamp, dialect, names in _headers(source, options):
            for line, reason in _misfits(stamp, dialect, names, options):
                found.append({"file": stamp.name, "line": line, "why": reason})
                if len(found) == most:
                    return found
    except (DimlyError, OSError):
        pass  # the refusal itself says what is wrong
    return found


def _headers(source: object, options: Options) -> Iterator[tuple[Stamp, Dialect, tuple[str, ...]]]:
    if not are_paths(source):
        return
    form, files = find_files(source)
    if form != "CSV":
        return
    for stamp in files:
        yield stamp, *read_header(stamp, CsvOptions.of(options))


def _misfits(stamp: Stamp, dialect: Dialect, names: tuple[str, ...], options: Options) -> Iterator[tuple[int, str]]:
    doubled = dialect.escape == dialect.quote
    needed = [(what, names.index(name)) for what, name in _needed(options) if name in names]
    with TextIOWrapper(open_bytes(stamp), encoding=dialect.encoding, newline="", errors="replace") as file:
        rows = csv.reader(
            file,
            delimiter=dialect.delimiter,
            quotechar=dialect.quote or None,
            quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
            doublequote=doubled,
            escapechar=None if doubled or not dialect.escape else dialect.escape,
            strict=True,
        )
        last = 0
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error:
                yield last + 1, "quotes are not in pairs"
                return
            first, last = last + 1, rows.line_num
            if first == 1 or not row:
                continue
            if len(row) != len(names):
                yield first, f"it has {len(row)} fields, and the first line has {len(names)}"
            elif "\ufffd" in "".join(row):
                yield first, f"it is not text in {dialect.encoding}"
            else:
                yield from ((first, f"it has no {what}") for what, place in needed if not row[place].strip())
                yield from _bad_value(row, names, options, first)


def _needed(options: Options) -> list[tuple[str, str]]:
    named = (("user", options.user), ("attribute", options.attribute), ("value", options.value))
    return [(what, name) for what, name in named if name is not None]


def _bad_value(row: list[str], names: tuple[str, ...], options: Options, line: int) -> Iterator[tuple[int, str]]:
    if options.value is None or options.value not in names or not row[names.index(options.value)].strip():
        return
    try:
        fits = 0 <= float(row[names.index(options.value)]) <= 1
    except ValueError:
        fits = False
    if not fits:
        yield line, "its value is not a number from 0 to 1"
