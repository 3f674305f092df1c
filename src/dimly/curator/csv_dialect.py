"""How a CSV file is written: encoding, delimiter, quote and escape, from its first bytes. Nothing of them is shown."""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import pyarrow as pa

from dimly.curator.files import Stamp, compression_of
from dimly.errors import DataError, ParameterError

_SAMPLE: Final = 1 << 18
_DELIMITERS: Final = (",", ";", "\t", "|")
_MARKS: Final = {  # UTF-32 first: its mark begins like that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_CHUNK: Final = 1 << 20
_UTF8_LETTER: Final = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")

GUESSED: Final = "cp1252"
"""What is neither marked nor UTF-8: the Western encoding of Windows, in which all letters of latin-1 are the same."""


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """What the curator knows about a CSV file; None is sniffed.

    Attributes
    ----------
    delimiter : str, optional
        One character between the fields.
    quote : str, optional
        One character around fields; "" for none.
    escape : str, optional
        What stands before a quote inside of a quoted field: the quote itself (doubled), or a backslash.
    encoding : str, optional
        Any that Python knows.

    Raises
    ------
    ParameterError
        If one of them is none of these.
    """

    delimiter: str | None = None
    quote: str | None = None
    escape: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        for name, text, shortest in (
            ("delimiter", self.delimiter, 1),
            ("quote", self.quote, 0),
            ("escape", self.escape, 0),
        ):
            if text is not None and (
                not shortest <= len(text) <= 1 or not text.isascii() or text in {"\n", "\r", "\0"}
            ):
                raise ParameterError(f"{name} must be one ASCII character, got {text!r}.")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                known = False
            else:
                known = True
            if not known:
                raise ParameterError(
                    f"encoding must be one that Python knows, got {self.encoding!r}. Try utf-8 or cp1252."
                )


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
    """Return how a file is written, and its first row, which names the columns.

    Raises
    ------
    DataError
        If its beginning cannot be read as text, or is empty.
    """
    sample, is_whole = _first_bytes(stamp)
    encoding = options.encoding or _encoding(sample)
    text = _decoded(sample, encoding, stamp)
    if not text.strip():
        raise DataError(f"{stamp.name} must begin with a row that names its columns, got an empty file.")
    if "\0" in text:
        raise DataError(f"{stamp.name} must be text, and holds zero bytes. Pass its true encoding (--encoding).")
    if not is_whole:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text
    dialect = _sniffed(text, options, encoding)
    try:
        return dialect, tuple(next(dialect.rows(text)))
    except (csv.Error, StopIteration):
        pass
    raise DataError(f"{stamp.name} must begin with a row that names its columns. Pass its delimiter, quote and escape.")


def open_bytes(stamp: Stamp) -> pa.NativeFile:
    """Open a file for reading, unpacked."""
    return pa.input_stream(stamp.path, compression=compression_of(stamp.path))


def transcoded(stamp: Stamp, encoding: str, *, guessed: bool = False) -> Iterator[bytes]:
    """Yield a file in UTF-8.

    An encoding that was guessed must leave no doubt: a file that also holds letters of UTF-8 is refused. Otherwise one
    person's odd byte would change how everybody else's letters are read, and with them more than one attribute.

    Raises
    ------
    DataError
        If it is not written in ``encoding``, or may not be.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    tail = b""
    try:
        with open_bytes(stamp) as opened:
            while chunk := opened.read(_CHUNK):
                if guessed and _UTF8_LETTER.search(tail + chunk):
                    break
                tail = chunk[-3:]
                yield decoder.decode(chunk).encode()
            else:
                yield decoder.decode(b"", final=True).encode()
                return
    except (UnicodeError, OSError, pa.ArrowException):
        pass
    raise _not_in(encoding, stamp)


def _first_bytes(stamp: Stamp) -> tuple[bytes, bool]:
    try:
        with open_bytes(stamp) as opened:
            sample = opened.read(_SAMPLE + 1)
            return sample[:_SAMPLE], len(sample) <= _SAMPLE
    except (OSError, pa.ArrowException):
        pass
    raise DataError(
        f"{stamp.name} must be a file that can be read, and unpacked if its name says that it is compressed."
    )


def _encoding(sample: bytes) -> str:
    for mark, encoding in _MARKS.items():
        if sample.startswith(mark):
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)  # the sample may end inside of a letter
    except UnicodeDecodeError:
        return GUESSED
    return "utf-8"


def _decoded(sample: bytes, encoding: str, stamp: Stamp) -> str:
    encoding = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding  # a mark is no part of a name
    try:
        return codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeError:
        pass
    raise _not_in(encoding, stamp)


def _not_in(encoding: str, stamp: Stamp) -> DataError:
    name = encoding.removesuffix("-sig")
    return DataError(
        f"{stamp.name} must be text in {name}, and some of it is not. Pass its true encoding (--encoding)."
    )


def _sniffed(text: str, options: CsvOptions, encoding: str) -> Dialect:
    """Return the dialect by which all rows have as many fields as the first, and most of them."""
    quote = _quote(text) if options.quote is None else options.quote
    delimiters = _DELIMITERS if options.delimiter is None else (options.delimiter,)
    escapes = (quote, "\\") if options.escape is None else (options.escape,)
    candidates = [Dialect(delimiter, quote, escape, encoding) for escape, delimiter in product(escapes, delimiters)]
    scores = [_score(text, dialect) for dialect in candidates]
    best = max(scores)
    return candidates[scores.index(best)]  # the first: doubled quotes before backslashes, commas before all else


def _quote(text: str) -> str:
    first = text.splitlines()[0]
    single = Counter(first)["'"]
    return "'" if '"' not in text and single >= 2 and first[0] == "'" and first.rstrip()[-1] == "'" else '"'


def _score(text: str, dialect: Dialect) -> tuple[bool, int]:
    """Return whether a dialect fits, and how many columns it finds."""
    counts: set[int] = set()
    header = 0
    try:
        for row in dialect.rows(text):
            header = header or len(row)
            if row:
                counts.add(len(row))
    except csv.Error:
        return False, min(header, 1)
    # With one column everything fits: a table with a line too short must not be read as one.
    return len(counts) == 1 and header > 1, header


def utf8(dialect: Dialect) -> Dialect:
    """Return the dialect of the file's transcoded copy."""
    return replace(dialect, encoding="utf-8")
