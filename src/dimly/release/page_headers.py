"""What the page headers of a Parquet file claim of sizes, checked before anything is decoded.

Runs of equal numbers pack without limit: a file of some kilobytes can hold a billion entries, and a reader that decodes
them first runs out of memory before it can count them. So the plan says how many entries there must be, the footer and
the header of each page must say the same, and only what cannot grow by decoding is accepted: plain values and
delta-packed integers, no dictionaries, no shared prefixes. Headers are Thrift's compact protocol, as the Parquet
format defines it; no library that we use shows them.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dimly.errors import ReleaseError

SLACK: Final = 1 << 24
"""Bytes that a column of a row group may take beyond what its numbers need."""

BYTES_PER_TEXT: Final = 1 << 10
"""Bytes that ids or attributes may take each, on average over a row group, beyond the slack."""

_BYTES_PER_NUMBER: Final = 16  # delta-packed ones take at most ten, and their levels less than one
_DATA_PAGE, _PLAIN, _DELTA_PACKED = 0, 0, 5
# Bytes of a header to look at: most take thirty; those with statistics of long texts, of 4 KiB each at most, some more.
_HEADERS: Final = (1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16)
_DEEPEST = 8
_STRUCT = 12

_CHANGED = "{} must hold {}. It was changed."
Fields = dict[int, Any]
ByteReader = Callable[[int, int], bytes]
"""Returns some bytes from some place of a file."""


class Claim(NamedTuple):
    """What a column of a row group must hold: how many entries, and at most how many bytes once unpacked."""

    n_values: int
    most_bytes: int

    @classmethod
    def of(cls, kind: pa.DataType, n_rows: int, n_values: int) -> "Claim":
        """Return what ``n_rows`` of a type may take; a list's entries are ``n_values``."""
        if pa.types.is_string(kind):
            return cls(n_rows, BYTES_PER_TEXT * n_rows + SLACK)
        if pa.types.is_fixed_size_binary(kind):
            return cls(n_rows, kind.byte_width * n_rows + SLACK)
        return cls(n_values, _BYTES_PER_NUMBER * n_values + SLACK)


def check_claims(file: pq.ParquetFile, path: str, schema: pa.Schema, entries: Sequence[int]) -> None:
    """Refuse a file whose footer says that a column holds more or less than it must. Reads no pages.

    Parameters
    ----------
    file : ParquetFile
    path : str
        Its name, for errors.
    schema : Schema
        What its columns are.
    entries : sequence of int
        How many entries the lists of each row group must have together.

    Raises
    ------
    ReleaseError
        Naming the file.
    """
    for group, chunk in _chunks(file):
        try:  # each chunk names its column, too: any bytes, and another name than the schema's
            name = chunk.path_in_schema.partition(".")[0]
        except UnicodeDecodeError:
            name = ""
        if name not in file.schema_arrow.names:
            raise ReleaseError(_CHANGED.format(path, "the columns that its footer says"))
        kind, rows = schema.field(name).type, file.metadata.row_group(group).num_rows
        wanted = Claim.of(kind, rows, entries[group] if pa.types.is_list(kind) else rows)
        if chunk.num_values != wanted.n_values:
            raise ReleaseError(_CHANGED.format(path, f"as many entries of {name} as the plan says"))
        if chunk.has_dictionary_page or chunk.file_path or chunk.total_uncompressed_size > wanted.most_bytes:
            raise ReleaseError(_CHANGED.format(path, f"{name} as the format says, in no more bytes than it takes"))


def check_pages(file: pq.ParquetFile, path: str, read: ByteReader) -> None:
    """Refuse a file whose pages hold more than its footer says, or what grows by decoding. Reads their headers alone.

    Parameters
    ----------
    file : ParquetFile
        Whose footer was found right.
    path : str
        Its name, for errors.
    read : callable
        Reads the file; see :func:`byte_reader`.

    Raises
    ------
    ReleaseError
        Naming the file.
    """
    for _, chunk in _chunks(file):
        at, n_values, n_bytes = chunk.data_page_offset, 0, 0
        end = at + chunk.total_compressed_size
        while at < end:
            page = _page(read, at, path)
            at, n_values, n_bytes = at + page.packed, n_values + page.n_values, n_bytes + page.unpacked
        if at != end or n_values != chunk.num_values or n_bytes != chunk.total_uncompressed_size:
            raise ReleaseError(_CHANGED.format(path, "pages of the sizes that its footer says"))


def byte_reader(source: Path | pa.Buffer | pa.NativeFile) -> ByteReader:
    """Return what reads a file, by its path or open, or a buffer that holds one."""
    if isinstance(source, pa.Buffer):
        view = memoryview(source)
        return lambda start, size: bytes(view[start : start + size])
    file = pa.OSFile(str(source)) if isinstance(source, Path) else source
    return lambda start, size: bytes(file.read_at(size, start))


class _Page(NamedTuple):
    """What the header of a data page says; sizes are with the header itself."""

    n_values: int
    packed: int
    unpacked: int


def _page(read: ByteReader, at: int, path: str) -> _Page:
    header, size = _header(read, at, path)
    data = header.get(5)
    if header.get(1) == _DATA_PAGE and isinstance(data, dict) and data.get(2) in (_PLAIN, _DELTA_PACKED):
        numbers: tuple[Any, ...] = (data.get(1), header.get(3), header.get(2))
        if all(isinstance(number, int) and number >= 0 for number in numbers):
            return _Page(numbers[0], numbers[1] + size, numbers[2] + size)
    raise ReleaseError(_CHANGED.format(path, "plain and delta-packed data pages alone"))


def _chunks(file: pq.ParquetFile) -> Iterator[tuple[int, Any]]:
    """Yield every column of every row group, with the group's number."""
    for group in range(file.metadata.num_row_groups):
        found = file.metadata.row_group(group)
        for column in range(found.num_columns):
            yield group, found.column(column)


def _header(read: ByteReader, at: int, path: str) -> tuple[Fields, int]:
    for size in _HEADERS:
        try:
            return _fields(read(at, size), 0, 0)
        except (IndexError, ValueError):
            continue
    raise ReleaseError(f"{path} must be a Parquet file, but it is damaged. Copy the release again.")


def _fields(data: bytes, at: int, depth: int) -> tuple[Fields, int]:
    """Return the fields of a struct by number, integers and structs with what they hold, and where it ends."""
    if depth > _DEEPEST:
        raise ValueError
    fields: Fields = {}
    number = 0
    while (mark := data[at]) != 0:
        at += 1
        kind, delta = mark & 15, mark >> 4
        if delta:
            number += delta
        else:
            signed, at = _varint(data, at)
            number = _unfolded(signed)
        fields[number], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):  # true and false are their types
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):
        folded, at = _varint(data, at)
        return _unfolded(folded), at
    if kind == 7:
        return None, at + 8
    if kind == 8:
        size, at = _varint(data, at)
        if at + size > len(data):
            raise IndexError
        return None, at + size
    if kind == _STRUCT:
        return _fields(data, at, depth + 1)
    raise ValueError  # lists, sets and maps: no header of a page has any


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError


def _unfolded(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
