"""Names and types of columns, and the SQL that reads a user, an attribute or a number from a cell."""

import difflib
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from dimly.curator.tables.input_files import Stamp
from dimly.errors import ParameterError
from dimly.mechanisms.projection.streams import EncodedTexts
from dimly.release.format import UserType

_SHOWN = 20
_LONGEST_SHOWN = 60
_LONGEST_MEANT = 200
_FOLDED = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # as DuckDB does: É and é differ


def check_names(names: Sequence[str], owner: str, *, shown: bool = True) -> None:
    """Refuse columns that DuckDB cannot tell apart: it renames one of "User" and "user" without a word.

    Parameters
    ----------
    names : sequence of str
    owner : str
        What they are of.
    shown : bool, default=True
        Whether the text may name them. The first line of a file that lacks a header is a person's row.
    """
    if not names:
        raise ParameterError(f"{owner} must have columns, got none. Those of a pandas index count after reset_index().")
    seen: dict[str, str] = {}
    for name in names:
        folded = name.translate(_FOLDED)
        if folded in seen:
            got = f"{seen[folded]!r} and {name!r}" if shown else "two that do not"
            raise ParameterError(
                f"the columns of {owner} must differ in more than upper and lower case, got {got}. Rename one of them."
            )
        seen[folded] = name
    if "" in names:
        raise ParameterError(f"the columns of {owner} must all have names, got one without. Name it.")


def check_same_columns(columns: Iterable[Iterable[str]], files: Sequence[Stamp], *, shown: bool = True) -> None:
    """Refuse files that differ in their columns, whatever their order; ``shown``: whether the text may name one."""
    first: frozenset[str] | None = None
    for names, stamp in zip(map(frozenset, columns), files, strict=True):
        if first is None:
            first = names
        elif names != first:
            odd = sorted(names ^ first)[0]
            has, what = "has" if odd in names else "lacks", repr(odd) if shown else "one"
            raise ParameterError(
                f"files must have the same columns, but {stamp.name} {has} {what} unlike {files[0].name}. "
                "Give one of them the other's columns."
            )


def listing(names: Iterable[str]) -> str:
    """Return a sentence with the columns that a table has."""
    known = list(names)
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    short = [name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…" for name in known[:_SHOWN]]
    short = [
        name if name and name == name.strip() and "," not in name and name.isprintable() else repr(name)
        for name in short
    ]
    return f"The table has: {', '.join(short)}{more}."


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a question after the column that was meant, with a blank before it, or nothing.

    Examples
    --------
    >>> nearest("age", ["Person", "Age (years)", "Country"])
    " Did you mean 'Age (years)'?"
    """
    known = {_letters(one): one for one in names if len(one) <= _LONGEST_MEANT}
    asked = _letters(name)
    begins = [one for one in known if asked and one.startswith(asked)]
    near = [asked] if asked in known else begins or difflib.get_close_matches(asked, known, n=1)
    return f" Did you mean {known[near[0]]!r}?" if near else ""


def _letters(name: str) -> str:
    """Return a name without what people leave out: case, blanks, signs."""
    return re.sub(r"[\W_]+", "", name.casefold())


_FITS_INT64: Final = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_LARGE: Final = {"UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM"}
_TEXTUAL: Final = {"VARCHAR", "UUID", "ENUM"}
_TIMES: Final = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
_ZONED: Final = {"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"}
_FLOATS: Final = {"FLOAT", "DOUBLE"}
_AS_IT_IS: Final = ("", "")
_EMPTY: Final = '"NULL"'  # a column that holds nothing at all


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as an SQL literal, for the places that take no parameters."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class ColumnReading:
    """SQL that reads a column.

    Attributes
    ----------
    sql : str
        The value; NULL where it is missing.
    wrong : str or None
        True where a cell is there and cannot be read; None if its type rules that out.
    text : tuple of str
        SQL to write before and after ``sql``, or a column of its values, for its canonical text.
    plain : str or None
        Cheaper SQL for a number: where it lies in [0, 1], it is the right one.
    is_bit : bool
        Whether the column's type holds nothing but 0 and 1.
    """

    sql: str
    wrong: str | None = None
    text: tuple[str, str] = ("CAST(", " AS VARCHAR)")
    plain: str | None = None
    is_bit: bool = False


def kind_of(type_: str) -> str:
    """Return a DuckDB type without its parameters: ``ENUM('a')`` is ENUM, ``INTEGER[3]`` is LIST."""
    if type_.endswith("]"):
        return "LIST"
    return re.split(r"\(", type_, maxsplit=1)[0].strip()


def read_user(column: str, type_: str, *, columns: str) -> tuple[ColumnReading, UserType]:
    """Return how a column names people: integers that fit 64 bits by type, else text. Empty text is missing."""
    sql, kind = quoted(column), kind_of(type_)
    if kind in _FITS_INT64:
        return ColumnReading(sql if kind == "BIGINT" else f"CAST({sql} AS BIGINT)"), "int64"
    if kind == "JSON":
        text, number = _json_text(sql), f"json_type({sql}) = 'BOOLEAN'"
        return ColumnReading(f"nullif({text}, '')", f"{sql} IS NOT NULL AND ({text} IS NULL OR {number})"), "text"
    if kind == "VARCHAR":
        return ColumnReading(f"nullif({sql}, '')"), "text"
    if kind in _LARGE or kind in _TEXTUAL or kind in {"DATE", _EMPTY} or _is_whole(type_):
        return ColumnReading(f"nullif(CAST({sql} AS VARCHAR), '')", _odd_year(sql, kind)), "text"
    remedy = (
        "Turn its numbers into integers: with pandas, table[column].astype('Int64'), also where ids are missing. "
        if kind in _FLOATS
        else ""
    )
    raise ParameterError(
        f"user must be a column of integers or text, got {column!r} of type {_name(type_)}. {remedy}{columns}"
    )


def read_attribute(sql: str, type_: str, *, column: str, columns: str) -> ColumnReading:
    """Return how a column, or the elements of a list column, name attributes, as ``attribute_text`` does."""
    kind = kind_of(type_)
    if kind == "VARCHAR":
        return ColumnReading(sql, text=_AS_IT_IS)
    if kind in _FITS_INT64:
        return ColumnReading(sql if kind == "BIGINT" else f"CAST({sql} AS BIGINT)")
    if kind == "JSON":
        text = _json_text(sql)
        return ColumnReading(text, f"{sql} IS NOT NULL AND {text} IS NULL", text=_AS_IT_IS)
    if kind in _LARGE or kind in _TEXTUAL or kind in {"BOOLEAN", "DATE", _EMPTY}:
        return ColumnReading(sql, _odd_year(sql, kind))
    if kind in _TIMES:
        return ColumnReading(sql, _odd_year(sql, kind), text=("replace(CAST(", " AS VARCHAR), ' ', 'T')"))
    if kind in _ZONED:
        # The database's time zone is UTC, so that all end in +00.
        return ColumnReading(sql, _odd_year(sql, kind), text=("(replace(CAST(", " AS VARCHAR), ' ', 'T') || ':00')"))
    reason = (
        "Engines print floats differently: use integers, text, or bins with names."
        if kind in _FLOATS or kind == "DECIMAL"
        else "Pass a column of lists as attributes (--attribute-list)."
        if kind == "LIST"
        else "Turn it into text first."
    )
    raise ParameterError(
        f"attribute must be a column of text, integers, booleans or dates, got {column!r} of type {_name(type_)}. "
        f"{reason} {columns}"
    )


def read_number(sql: str, type_: str, *, column: str, columns: str, name: str = "value") -> ColumnReading:
    """Return how a column holds values; NaN is missing. Text is read as a number, or as true and false."""
    kind = kind_of(type_)
    if kind in _FLOATS:
        value = sql if kind == "DOUBLE" else f"CAST({sql} AS DOUBLE)"
        return ColumnReading(f"CASE WHEN {_is_nan(sql)} THEN NULL ELSE {value} END", plain=sql)
    if kind in _FITS_INT64 or kind in _LARGE or kind in {"BOOLEAN", "DECIMAL", _EMPTY}:
        return ColumnReading(f"CAST({sql} AS DOUBLE)", plain=sql, is_bit=kind == "BOOLEAN")
    if kind == "VARCHAR":
        return _number_of_text(sql)
    if kind == "JSON":
        inner = _number_of_text(f"({sql} ->> '$')")
        number = f"json_type({sql}) NOT IN ('VARCHAR', 'ARRAY', 'OBJECT')"
        value = f"CASE WHEN {number} THEN {inner.sql} END"
        return ColumnReading(value, f"{sql} IS NOT NULL AND {value} IS NULL")
    raise ParameterError(f"{name} must be a column of numbers, got {column!r} of type {_name(type_)}. {columns}")


def is_categorical(type_: str) -> bool:
    """Return whether a column of a wide table holds names, not numbers."""
    return kind_of(type_) in _TEXTUAL


def element_type(type_: str) -> str | None:
    """Return the type of the elements of a list column; None if it is not one."""
    if kind_of(type_) == "JSON":
        return "JSON"
    return re.sub(r"\[\d*\]$", "", type_) if type_.endswith("]") else None


def _json_text(sql: str) -> str:
    """Text as it is, integers of any size in decimal, booleans; NULL for fractions, exponents, lists and objects."""
    text = f"({sql} ->> '$')"
    return (
        f"CASE json_type({sql}) WHEN 'VARCHAR' THEN {text} WHEN 'UBIGINT' THEN {text} WHEN 'BIGINT' THEN {text} "
        f"WHEN 'BOOLEAN' THEN {text} WHEN 'DOUBLE' THEN "
        f"CASE WHEN regexp_full_match({text}, '-?[0-9]+') THEN {text} END END"
    )


def _number_of_text(sql: str) -> ColumnReading:
    # Few cells are words: only those that are no numbers are looked at twice.
    number = f"coalesce(TRY_CAST({sql} AS DOUBLE), CASE lower({sql}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 END)"
    value = f"CASE WHEN {_is_nan(number)} THEN NULL ELSE {number} END"
    return ColumnReading(value, f"{sql} IS NOT NULL AND {number} IS NULL", plain=f"TRY_CAST({sql} AS DOUBLE)")


def _is_nan(sql: str) -> str:
    # A file's statistics leave NaN out, and isnan is answered by them where DuckDB may; this one looks.
    return f"NOT (isfinite({sql}) OR isinf({sql}))"


def _odd_year(sql: str, kind: str) -> str | None:
    """Years before 1 and after 9999 have no text that all engines agree on, and infinity is no time."""
    if kind in {"TIMESTAMP_NS", "TIMESTAMPTZ_NS"}:
        return f"NOT isfinite(CAST({sql} AS TIMESTAMP_NS))"  # 64 bits of nanoseconds hold the years 1677 to 2262
    if kind in {"DATE", *_ZONED, *_TIMES}:
        return f"{sql} < CAST('0001-01-01' AS {kind}) OR {sql} >= CAST('10000-01-01' AS {kind})"
    return None


def _is_whole(type_: str) -> bool:
    return re.fullmatch(r"DECIMAL\(\d+,\s*0\)", type_) is not None


def _name(type_: str) -> str:
    """Return a type as errors show it: without the values of an enumeration, which are data."""
    return kind_of(type_).strip('"')


def encoded_texts(column: pa.Array | pa.ChunkedArray) -> EncodedTexts:
    """Return a column of text without nulls by its bytes.

    Examples
    --------
    >>> list(encoded_texts(pa.array(["tea", "café", ""])[1:]))
    ['café', '']
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_large_string(array.type) and not pa.types.is_string(array.type):
        array = array.cast(pa.large_string())
    if array.null_count:
        raise ValueError("a column of attributes must hold no nulls.")
    if not len(array):
        return EncodedTexts(np.zeros(1, np.int64), np.empty(0, np.uint8))
    _, starts, data = array.buffers()
    kind = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets = np.frombuffer(starts, kind, len(array) + 1, array.offset * np.dtype(kind).itemsize)
    octets = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return EncodedTexts(offsets.astype(np.int64), octets)
