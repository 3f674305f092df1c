"""CSV files: ``CsvOptions``; delimiter, quotes and encoding by the header (``Dialect``); cells as they stand."""

import codecs
import contextlib
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

import numpy as np
import pyarrow as pa

from dimly.curator.options import Options
from dimly.curator.tables.columns import check_names, check_same_columns, literal, quoted
from dimly.curator.tables.database import PrivateDatabase, misfit
from dimly.curator.tables.input_files import (
    Stamp,
    compression_of,
    glob_literal,
    open_bytes,
    suffix_of,
    unpacked,
    unreadable,
)
from dimly.errors import DataError, ParameterError

_LONGEST: Final = 2_000_000  # bytes of a line, as the database takes them
_CHUNK: Final = 1 << 16
_DELIMITERS: Final = (",", ";", "\t", "|")
_MARKS: Final = {  # UTF-32 first: its mark begins like that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_NOT_OF_FILES: Final = {"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"}
_SHIFTING: Final = ("iso2022", "hz")
"""Encodings in which some bytes of a cell change what the bytes after it mean, in the rows of others too."""
_LINE_END: Final = re.compile(r"[\r\n]")
_SUCH_AS: Final = {"delimiter": '";"', "quote": "'\"'", "escape": "a backslash"}
_STATE: Final = "If this file is the table, pass its {}"


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """What the curator knows about a CSV file.

    None: the delimiter that the header shows, or tabs in a ``.tsv``; ``"``; the quote doubled; UTF-8, or what a
    byte-order mark says.

    Attributes
    ----------
    delimiter : str, optional
        One character between the fields.
    quote : str, optional
        One character around fields; "" for none.
    escape : str, optional
        What stands before a quote inside of a quoted field: the quote itself (doubled), or a backslash.
    encoding : str, optional
        Any of text that Python knows, in which no cell changes how the ones after it are read.

    Raises
    ------
    ParameterError
        If one of them is none of these.
    """

    delimiter: str | None = None
    quote: str | None = None
    escape: str | None = None
    encoding: str | None = None

    @classmethod
    def of(cls, options: Options) -> Self:
        """Return what the options of publishing say."""
        return cls(options.delimiter, options.quote, options.escape, options.encoding)

    def __post_init__(self) -> None:
        for name, text, shortest in (
            ("delimiter", self.delimiter, 1),
            ("quote", self.quote, 0),
            ("escape", self.escape, 0),
        ):
            if text is not None and (
                not shortest <= len(text) <= 1 or not text.isascii() or text in {"\n", "\r", "\0"}
            ):
                raise ParameterError(f"{name} must be one ASCII character, such as {_SUCH_AS[name]}, got {text!r}.")
        if self.encoding is not None and not _is_encoding(self.encoding):
            raise ParameterError(
                f"encoding must be one of text that Python knows, got {self.encoding!r}. Try utf-8 or cp1252."
            )
        if self.encoding is not None and codecs.lookup(self.encoding).name.startswith(_SHIFTING):
            raise ParameterError(
                f"encoding must be one in which no cell changes how the rows after it are read, got {self.encoding!r}, "
                "in which one can. Save the file as UTF-8."
            )


def _is_encoding(name: str) -> bool:
    try:
        "a".encode(name)  # which refuses rot13, base64 and their like
        return codecs.lookup(name).name.replace("_", "-") not in _NOT_OF_FILES
    except (LookupError, ValueError, OSError):
        return False


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a CSV file is written, all of it known."""

    delimiter: str
    quote: str
    escape: str
    encoding: str

    @property
    def is_utf8(self) -> bool:
        """Whether DuckDB can read the file as it is."""
        return codecs.lookup(self.encoding).name in {"utf-8", "utf-8-sig", "ascii"}

    def fields(self, line: str) -> list[str] | None:
        """Return the fields of one line; None if it is none of this dialect."""
        try:
            rows = list(self.rows(line))
        except csv.Error:
            return None
        return rows[0] if len(rows) == 1 else None

    def rows(self, text: str) -> Iterator[list[str]]:
        """Parse text by this dialect, strictly."""
        doubled = self.escape == self.quote
        return csv.reader(
            io.StringIO(text, newline=""),
            delimiter=self.delimiter,
            quotechar=self.quote or None,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            doublequote=doubled,
            escapechar=None if doubled or not self.escape else self.escape,
            strict=True,
        )


def read_header(stamp: Stamp, options: CsvOptions) -> tuple[Dialect, tuple[str, ...]]:
    """Return how a file is written, and its first line, which names the columns.

    Raises
    ------
    DataError
        If the line cannot be read as text, is empty, or can be read in more than one way.
    ParameterError
        If the delimiter is the quote, or the escape.
    """
    line, encoding = _first_line(stamp, options.encoding)
    if not line.strip():
        raise DataError(
            f"{stamp.name} must begin with a line that names its columns, but its first line is empty. Add one."
        )
    if "\0" in line:
        raise DataError(
            f"{stamp.name} must be text, but it holds zero bytes. {_STATE.format('encoding (--encoding)')}."
        )
    quote = '"' if options.quote is None else options.quote
    escape = quote if options.escape is None else options.escape
    tabs = suffix_of(stamp.name) == ".tsv"
    delimiters = [options.delimiter] if options.delimiter is not None else _delimiters(line, quote, escape, tabs=tabs)
    if len(delimiters) > 1:
        found = " or ".join("a tab" if one == "\t" else one for one in delimiters)
        most = max(delimiters, key=line.count)
        python, shell = ('"\\t"', "tab") if most == "\t" else (f'"{most}"', f'"{most}"')
        raise DataError(
            f"{stamp.name} must show what separates the names in its first line, but either {found} could. If this "
            f"file is the table, pass the right one, such as delimiter={python} (--delimiter {shell}). If it is a "
            "list, such as a roster, put quotes around each of its names."
        )
    if delimiters[0] in (quote, escape):
        raise ParameterError(
            f"delimiter must differ from quote and escape, got {delimiters[0]!r} twice. Pass what the file has "
            '(--delimiter, --quote, --escape); quote="" (--quote "") if it has no quotes.'
        )
    dialect = Dialect(delimiters[0], quote, escape, encoding)
    names = dialect.fields(line)
    # DuckDB opens a quote after spaces, too, and would take all rows for part of a name.
    if names is None and quote and line.count(quote) % 2:
        raise DataError(
            f"{stamp.name} must name all columns in its first line, but that ends within quotes. If a name has a line "
            "break, remove it: in a spreadsheet, edit the cell. Otherwise pass its quote, escape and delimiter "
            "(--quote, --escape, --delimiter)."
        )
    if names is None or (quote and any(re.match(f" +{re.escape(quote)}", name) for name in names)):
        raise DataError(
            f"{stamp.name} must begin with one line that names its columns, with quotes in pairs and no space before "
            "one. "
            f"{_STATE.format('delimiter, quote and escape (--delimiter, --quote, --escape)')}."
        )
    if (
        options.quote is None
        and any(name.startswith("'") for name in names)
        and any(name.endswith("'") for name in names)
    ):
        raise DataError(
            f"{stamp.name} must have names in its first line that can be read in one way, but ' may be a quote there, "
            f"or part of the names. {_STATE.format('quote (--quote)')}."
        )
    return dialect, tuple(names)


def transcoded(stamp: Stamp, encoding: str) -> Iterator[bytes]:
    """Yield a file in UTF-8.

    Raises
    ------
    DataError
        If it is not written in ``encoding``, or cannot be unpacked.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in unpacked(stamp):
            yield decoder.decode(chunk).encode()
        yield decoder.decode(b"", final=True).encode()
        return
    except UnicodeError:
        pass
    raise _not_in(encoding, stamp)


def utf8(dialect: Dialect) -> Dialect:
    """Return the dialect of the file's transcoded copy."""
    return replace(dialect, encoding="utf-8")


def _first_line(stamp: Stamp, encoding: str | None) -> tuple[str, str]:
    """Return a file's first line without its end, and its encoding."""
    text = ""
    decoder: codecs.IncrementalDecoder | None = None
    try:
        with open_bytes(stamp) as opened:
            size = 0
            while size <= _LONGEST and _LINE_END.search(text) is None:
                chunk = opened.read(_CHUNK)
                size += len(chunk)
                encoding = encoding or _marked(chunk)
                decoder = decoder or codecs.getincrementaldecoder(encoding)()
                text += decoder.decode(chunk, final=not chunk)
                if not chunk:
                    break
        text.encode()  # some encodings hold what UTF-8 cannot
    except UnicodeError:
        failure = _not_in(encoding or "utf-8", stamp)
    except (OSError, pa.ArrowException):
        failure = unreadable(stamp)
    else:
        return _LINE_END.split(text.removeprefix("\ufeff"), maxsplit=1)[0], encoding or "utf-8"
    raise failure


def _marked(beginning: bytes) -> str:
    for mark, encoding in _MARKS.items():
        if beginning.startswith(mark):
            return encoding
    return "utf-8"


def _not_in(encoding: str, stamp: Stamp) -> DataError:
    name = "UTF-8" if encoding in {"utf-8", "utf-8-sig"} else encoding
    remedy = (
        f"{_STATE.format('encoding (--encoding), often cp1252')}. If it is a list, such as a roster, save it as UTF-8."
    )
    return DataError(f"{stamp.name} must be text in {name}, but some of it is not. {remedy}")


def _delimiters(line: str, quote: str, escape: str, *, tabs: bool) -> list[str]:
    """Return all delimiters by which a header may have been written: several leave a doubt, and none is a comma."""
    readings = {one: Dialect(one, quote, escape, "utf-8").fields(line) for one in _DELIMITERS}
    several = [one for one, names in readings.items() if names is not None and len(names) > 1]
    if tabs:
        return ["\t"] if "\t" in several or not several else [*several, "\t"]
    if len(several) > 1 and quote:
        # A quote in the middle of a name comes of a delimiter that is none: ``a;"b,c"`` was not written with commas.
        several = [one for one in several if not _has_stray_quote(line, one, quote, escape)] or several
    if quote and all(_has_stray_quote(line, one, quote, escape) for one in several):
        # So it is if a quote is left open: then it was opened behind a delimiter.
        several = [one for one, names in readings.items() if names is None and one + quote in line] or several
    return several or [","]


def _has_stray_quote(line: str, delimiter: str, quote: str, escape: str) -> bool:
    d, q, e = map(re.escape, (delimiter, quote, escape))
    inner = f"[^{q}]|{q}{q}" if escape in ("", quote) else f"[^{q}{e}]|{e}."
    field = f"(?:{q}(?:{inner})*{q}|[^{q}{d}]*)"
    return re.fullmatch(f"{field}(?:{d}{field})*", line) is None


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
    readable: list[tuple[Path, str, Dialect]] = []
    for (dialect, names), stamp in zip(headers, files, strict=True):
        path = _readable(database, stamp, dialect)
        readable.append((path, stamp.name, dialect))
        groups.setdefault((utf8(dialect), names), []).append(glob_literal(path))
    first = headers[0][1]
    selected = ", ".join(map(quoted, first))
    # In a large file DuckDB begins at many places at once. It notices a line break in quotes there, and gives up.
    parallel, serial = (
        " UNION ALL ".join(f"SELECT {selected} FROM {_scan(dialect, names, way)}" for dialect, names in groups)
        for way in ("true", "false")
    )
    name = database.create_view(parallel, list(groups.values()), serial=(serial, lambda: _check_quotes_end(readable)))
    for (dialect, names), paths in groups.items():
        if _has_longer_lines(database, dialect, names, paths):
            raise misfit(files[0].name if len(files) == 1 else f"{files[0].name} (or another of the files)")
    return name, dict.fromkeys(first, "VARCHAR")


def _has_longer_lines(database: PrivateDatabase, dialect: Dialect, names: Sequence[str], paths: Sequence[str]) -> bool:
    """Return whether lines have more cells than the first one, of which the last are empty.

    DuckDB refuses others, and reads these as far as there are names. But where a delimiter stands in a cell without
    quotes, and the last column is empty, cells would go to the wrong columns without a word.
    """
    further = "+" * (max(map(len, names)) + 1)  # a name that is none of the others

    def found(parallel: str) -> bool:
        scan = _scan(dialect, [*names, further], parallel, null_padding="true, nullstr = 'none'")
        return bool(database.fetch(f"SELECT 1 FROM {scan} WHERE {quoted(further)} IS NOT NULL LIMIT 1", [paths]))

    with contextlib.suppress(DataError):  # line breaks in quotes, beside which DuckDB looks for no further cells
        return found("true")
    return found("false")


def _check_quotes_end(files: Iterable[tuple[Path, str, Dialect]]) -> None:
    """Refuse files that end within quotes: DuckDB leaves out what follows an open quote where one thread reads."""
    from dimly.curator.tables import kernels  # noqa: PLC0415 - such files are rare

    for path, name, dialect in files:
        marks = [ord(one) if one else -1 for one in (dialect.delimiter, dialect.quote, dialect.escape)]
        place = kernels.AT_FIELD
        with path.open("rb") as file:
            while chunk := file.read(1 << 22):
                place = kernels.place_in_csv(np.frombuffer(chunk, np.uint8), place, *marks)
        if place in {kernels.IN_QUOTES, kernels.ESCAPED}:
            raise misfit(name)


def csv_headers(files: Sequence[Stamp], options: CsvOptions) -> list[tuple[Dialect, tuple[str, ...]]]:
    """Return how each file is written, and its columns; refuse what :func:`open_csv` does before it reads on."""
    headers = [read_header(stamp, options) for stamp in files]
    for (_, names), stamp in zip(headers, files, strict=True):
        check_names(names, stamp.name, shown=False)
    check_same_columns((names for _, names in headers), files, shown=False)
    return headers


def _scan(dialect: Dialect, names: Sequence[str], parallel: str, *, null_padding: str = "false") -> str:
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    return (
        f"read_csv(?, delim = {literal(dialect.delimiter)}, quote = {literal(dialect.quote)}, "
        f"escape = {literal(dialect.escape)}, columns = {{{columns}}}, header = true, auto_detect = false, "
        f"strict_mode = true, null_padding = {null_padding}, ignore_errors = false, encoding = 'utf-8', "
        f"compression = 'none', parallel = {parallel})"
    )


def _readable(database: PrivateDatabase, stamp: Stamp, dialect: Dialect) -> Path:
    """Return a file that DuckDB can read as it is."""
    if not dialect.is_utf8:
        return database.keep_copy(transcoded(stamp, dialect.encoding), stamp.name, "CSV")
    if compression_of(stamp.path) is not None:
        return database.keep_copy(unpacked(stamp), stamp.name, "CSV")
    return stamp.path
