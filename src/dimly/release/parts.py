"""One part as a Parquet file: encoded and written, its footer, digest, ids and lists checked when read.

Encodings, measured on noisy values: delta-packed integers without compression take 0.6 bytes a value, half of what
general compression is slower to reach; every Parquet reader that we test knows them. No Arrow schema is embedded, so
that nothing in a file is for one library only.
"""

import contextlib
import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dimly.errors import ParameterError, ReleaseError
from dimly.mechanisms.plan import Plan
from dimly.release.format import (
    ATTRIBUTES,
    PROJECTION,
    VERY_FEW_ROWS,
    FileRecord,
    UserType,
    attributes_schema,
    column_of,
    elements_of,
    layout_of,
    numbers_of,
    part_path,
    part_schema,
    plain_values,
    projection_schema,
    text_ids,
)
from dimly.release.page_headers import BYTES_PER_TEXT, SLACK, check_claims

WRONG_DIGEST = "{} must have the SHA-256 that the manifest states, but it has another. Copy the release again."
UNREADABLE = "{} must be a Parquet file, but it cannot be read. Copy the release again."
ATTRIBUTES_PER_GROUP: Final = 1 << 20
"""Rows of each row group of the list of attributes, but the last."""
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A part that was written outside of its release, as :func:`write_part` does, and is to become one of it.

    Attributes
    ----------
    index : int
    folder : Path
        What ``record.path`` starts from; on the release's own file system.
    record : FileRecord
    first, last : int or str
        Its first and last user.
    after : int or None
        Noisy distances: how many people come after it.
    """

    index: int
    folder: Path
    record: FileRecord
    first: Any
    last: Any
    after: int | None


def as_user_column(users: Any, user_type: UserType) -> pa.Array:
    """Return ids as an Arrow array of the release's type, without copying integers.

    Raises
    ------
    ReleaseError
        If they are of another type, missing, or not in rising order, each once.
    """
    column = users.combine_chunks() if isinstance(users, pa.ChunkedArray) else users
    if not isinstance(column, pa.Array):
        column = pa.array(column, None if len(column) else _user_kind(user_type))
    fits = pa.types.is_integer if user_type == "int64" else _is_text
    kind = _user_kind(user_type)
    try:
        if column.null_count or not fits(column.type):
            column = None
        elif column.type != kind:
            column = column.cast(kind)
    except pa.ArrowInvalid:  # whose text quotes the id that does not fit
        column = None
    if column is None:
        raise ReleaseError(f"users must be {user_type}, none missing, as this release says.")
    if not _rising(column):
        raise ReleaseError("users must be in ascending order, without repeats.")
    return column


def write_part(folder: Path, index: int, users: pa.Array, values: NDArray[Any], plan: Plan) -> FileRecord:
    """Write part ``index`` into a release's ``folder``, and have it on the disk.

    It is written while it is encoded, so that beside the values there is never more of it than one row group. May be
    called from several threads at once for different parts; most of the time is spent outside of Python's lock.

    Parameters
    ----------
    folder : Path
    index, users, values, plan
        As :func:`encode_part` takes them.

    Raises
    ------
    ReleaseError
        If the values do not fit the plan.
    OSError
        If the disk is full, or the file exists.
    """
    encode = _encoder(users, values, plan)
    path = part_path(index)
    with _new_file(folder / path) as file:
        out = _Digested(file)
        encode(out)
    return FileRecord(path=path, bytes=out.size, sha256=out.digest.hexdigest(), rows=len(users))


def encode_part(index: int, users: pa.Array, values: NDArray[Any], plan: Plan) -> tuple[FileRecord, pa.Buffer]:
    """Return what the file of part ``index`` holds, and what the manifest says of it.

    Parameters
    ----------
    index : int
    users : Array
        Of the release's type; see :func:`as_user_column`.
    values : ndarray
        What is published of these people, as :class:`~dimly.release.Sketches` lays it out; contiguous. Noisy
        distances: the rows of these people end to end, whose number says how many people come after them.
    plan : Plan

    Raises
    ------
    ReleaseError
        If the values do not fit the plan.
    """
    out = io.BytesIO()  # grows in place: Arrow's own holds a large part up to three times
    _encoder(users, values, plan)(out)
    buffer = pa.py_buffer(out.getbuffer())
    return _record(part_path(index), buffer, len(users)), buffer


def _encoder(users: pa.Array, values: NDArray[Any], plan: Plan) -> Callable[[Any], None]:
    """Return what writes a part to a file that is open, once users and values are known to fit the plan."""
    check_ids(users, plan)
    column = column_of(plan)
    sketches = column.to_arrow(values, len(users))
    user_type: UserType = "int64" if pa.types.is_integer(users.type) else "text"
    fields = part_schema(plan, user_type)
    # Lists of one length are written straight from their numbers; in the file they are plain lists.
    schema = pa.schema([fields.field("user"), pa.field("sketch", sketches.type, nullable=False)])
    table = pa.Table.from_arrays([users, sketches], schema=schema)
    encoding = {column.leaf: column.encoding, "user": "DELTA_BINARY_PACKED" if user_type == "int64" else "PLAIN"}
    compression = {column.leaf: "none", "user": "none" if user_type == "int64" else "zstd"}
    rows_per_group = layout_of(plan).users_per_group
    return partial(
        _write_parquet,
        schema=schema,
        tables=[table],
        encoding=encoding,
        compression=compression,
        rows_per_group=rows_per_group,
        statistics=["user"],
    )


def write_attributes(folder: Path, attributes: Iterable[str]) -> FileRecord:
    """Write a public list of attributes, in its order, and have it on the disk."""
    schema = attributes_schema()
    table = pa.Table.from_arrays([pa.array(attributes, pa.string())], schema=schema)
    buffer = parquet_bytes(
        schema, [table], {"attribute": "PLAIN"}, {"attribute": "zstd"}, rows_per_group=ATTRIBUTES_PER_GROUP
    )
    return write_file(folder, ATTRIBUTES, buffer, table.num_rows)


def write_projection(folder: Path, chunks: Iterable[tuple[list[str], NDArray[Any]]], plan: Plan) -> FileRecord:
    """Write rows of P, given as chunks of attributes and their rows, and have them on the disk."""
    schema = projection_schema(plan)
    element = schema.field("row").type.value_type

    def tables() -> Iterator[pa.Table]:
        for attributes, rows in chunks:
            offsets = pa.array(np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32))
            numbers = pa.array(rows.reshape(-1).astype(element.to_pandas_dtype()))
            lists = pa.ListArray.from_arrays(offsets, numbers, type=schema.field("row").type)
            yield pa.Table.from_arrays([pa.array(attributes, pa.string()), lists], schema=schema)

    encoding = {"attribute": "PLAIN", "row.list.element": "DELTA_BINARY_PACKED"}
    buffer = parquet_bytes(schema, tables(), encoding, dict.fromkeys(encoding, "zstd"))
    return write_file(folder, PROJECTION, buffer, pq.read_metadata(pa.BufferReader(buffer)).num_rows)


def check_footer(
    file: pq.ParquetFile,
    record: FileRecord,
    schema: pa.Schema,
    *,
    groups: list[int] | None,
    entries: Callable[[int, int], int] = lambda _, rows: rows,
) -> None:
    """Refuse a file whose columns, rows, row groups or entries are not what they must be. Reads no values.

    ``entries`` says how many entries the lists of some rows have together, given the first of them and their number.

    Raises
    ------
    ReleaseError
        Naming the file and what is wrong.
    """
    metadata = file.metadata
    # Field by field: a reader without an embedded Arrow schema gives exactly these types.
    if not file.schema_arrow.equals(schema):
        raise ReleaseError(f"{record.path} must hold the columns {_columns(schema)}. It was changed.")
    if metadata.num_rows != record.rows:
        raise ReleaseError(f"{record.path} must hold {record.rows} rows, got {metadata.num_rows}. It was changed.")
    found = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    if groups is not None and found != groups:
        raise ReleaseError(f"{record.path} must hold row groups of {groups[0]} users. It was changed.")
    check_claims(file, record.path, schema, list(map(entries, accumulate(found, initial=0), found)))


def open_parquet(source: Any, path: str) -> pq.ParquetFile:
    """Open a Parquet file; what is none is a damaged release.

    Raises
    ------
    ReleaseError
        Naming the file.
    """
    try:
        return pq.ParquetFile(source)
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # the last of names in its footer
        raise ReleaseError(UNREADABLE.format(path)) from None


def path_of(folder: Path, record: FileRecord) -> Path:
    """Return where a file of a release is, if it is a file of the stated size and no link leads to it.

    Raises
    ------
    ReleaseError
        Naming the file.
    """
    path = folder / record.path
    links = [place for place in (path.parent, path) if place != folder and place.is_symlink()]
    if links or not path.is_file():
        raise ReleaseError(
            f"{record.path} must be a file of the release, but it is {'a link' if links else 'missing'}."
        )
    if (size := path.stat().st_size) != record.bytes:
        raise ReleaseError(f"{record.path} must hold {record.bytes} bytes, got {size}. Copy the release again.")
    return path


def read_table(
    file: pq.ParquetFile, path: str, *, columns: list[str] | None = None, group: int | None = None
) -> pa.Table:
    """Return all that a file holds, or some columns or one row group of it, without one missing entry.

    Raises
    ------
    ReleaseError
        If its pages are damaged, or something is missing.
    """
    try:
        read = file.read if group is None else partial(file.read_row_group, group)
        table = read(columns=columns, use_threads=False)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        raise ReleaseError(f"{path} must be a Parquet file, but it is damaged. Copy the release again.") from None
    for column in table.columns:
        nested = [elements_of(piece) for piece in column.chunks] if pa.types.is_list(column.type) else []
        if any(part.null_count for part in (column, *nested)):
            raise ReleaseError(f"{path} must not hold missing values, but it does.")
    return table


def users_of(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of ids: int64 or text."""
    if pa.types.is_integer(column.type):
        return numbers_of(column)
    return text_ids(column.to_pylist())


def values_of(table: pa.Table, plan: Plan, path: str, *, rest: int) -> NDArray[Any]:
    """Return the published numbers of a part, as :func:`write_part` took them.

    Raises
    ------
    ReleaseError
        If a list has another length than the plan says.
    """
    return column_of(plan).to_values(table.column("sketch"), path, rest=rest)


def check_ids(users: pa.Array, plan: Plan) -> None:
    """Refuse ids of a part that no reader would take from a file of ours.

    Raises
    ------
    ReleaseError
        If they are too long.
    """
    if pa.types.is_integer(users.type):
        return
    step = layout_of(plan).users_per_group
    check_excess(excess_of(users.slice(start, step)) for start in range(0, len(users), step))


def check_excess(groups: Iterable[int]) -> None:
    """Refuse ids if those of a row group take too many bytes beyond what readers allow: see :func:`excess_of`.

    Raises
    ------
    ReleaseError
        If they are too long.
    """
    if any(excess > SLACK // 2 for excess in groups):
        raise ReleaseError("users must be texts of at most 1,000 bytes on average. Use shorter ids, or pseudonyms.")


def check_attributes(attributes: Sequence[str], *, rows_per_group: int) -> None:
    """Refuse a list of attributes that no reader would take from a file of ours.

    Raises
    ------
    ParameterError
        If they are too long.
    """
    excess = [
        excess_of(pa.array(attributes[start : start + rows_per_group], pa.large_string()))
        for start in range(0, len(attributes), rows_per_group)
    ]
    if max(*excess, sum(excess)) > SLACK // 2:  # of each group, and of the whole file
        raise ParameterError(
            "vocabulary must hold attributes of at most 1,000 bytes on average, because it is published and readers "
            "take no longer ones. Use shorter names."
        )


def excess_of(texts: pa.Array) -> int:
    """Return how many bytes texts take beyond what readers allow for each; half of the slack is room to spare."""
    if len(texts) <= VERY_FEW_ROWS:
        n_bytes = sum(map(len, plain_values(texts)))
    else:
        import pyarrow.compute as pc  # noqa: PLC0415 (slow to import)

        n_bytes = int(pc.sum(pc.binary_length(texts)).as_py() or 0)
    return n_bytes - (BYTES_PER_TEXT - 4) * len(texts)


def parquet_bytes(
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    encoding: dict[str, str],
    compression: dict[str, str],
    *,
    rows_per_group: int | None = None,
    statistics: list[str] | bool = False,
    facts: dict[str, str] | None = None,
) -> pa.Buffer:
    """Return a Parquet file in memory: it is at most some tens of megabytes, and its digest costs no second reading."""
    out = io.BytesIO()
    _write_parquet(
        out,
        schema=schema,
        tables=tables,
        encoding=encoding,
        compression=compression,
        rows_per_group=rows_per_group,
        statistics=statistics,
        facts=facts,
    )
    return pa.py_buffer(out.getbuffer())


def _write_parquet(
    out: Any,
    *,
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    encoding: dict[str, str],
    compression: dict[str, str],
    rows_per_group: int | None,
    statistics: list[str] | bool,
    facts: dict[str, str] | None = None,
) -> None:
    with pq.ParquetWriter(
        out,
        schema,
        version="2.6",
        data_page_version="1.0",
        use_dictionary=False,
        column_encoding=encoding,
        compression=compression,
        write_statistics=statistics,
        store_schema=False,
    ) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=rows_per_group)
        if facts:
            writer.add_key_value_metadata(facts)
    pa.default_memory_pool().release_unused()  # else what encoding took stays beside the next part


class _Digested(io.RawIOBase):
    """A file that only grows, and the digest and size of what was written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        """Say that it can be written to."""
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.size

    def write(self, some: Any) -> int:
        """Write all of some bytes."""
        written = self._file.write(some)
        self.digest.update(some)
        self.size += written
        return written


def write_file(folder: Path, path: str, buffer: pa.Buffer, rows: int) -> FileRecord:
    """Write a file of a release that is in memory, and have it on the disk."""
    write_synced(folder / path, buffer)
    return _record(path, buffer, rows)


def _record(path: str, buffer: pa.Buffer, rows: int) -> FileRecord:
    return FileRecord(path=path, bytes=buffer.size, sha256=hashlib.sha256(buffer).hexdigest(), rows=rows)


def write_synced(path: Path, content: Any) -> None:
    """Write a new file of mode 0644 (less the process's mask), and have it on the disk."""
    with _new_file(path) as file:
        file.write(content)


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file to write, and have it on the disk at the end."""
    with open(os.open(path, _NEW_FILE, 0o644), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _rising(column: pa.Array) -> bool:
    # Text is compared byte by byte, which is the order of code points: that of NumPy, DuckDB and Parquet.
    if len(column) <= VERY_FEW_ROWS:
        return all(one < other for one, other in pairwise(plain_values(column)))
    import pyarrow.compute as pc  # noqa: PLC0415 (as above)

    return not (len(column) > 1 and pc.any(pc.less_equal(column[1:], column[:-1])).as_py())


def _user_kind(user_type: UserType) -> pa.DataType:
    return pa.int64() if user_type == "int64" else pa.string()


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)
