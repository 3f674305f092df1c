"""The Parquet file of directions: encoded, written, and read back with nothing taken on trust.

Columns: ``attribute`` (text) or ``bucket`` (its number), ``category`` (text, for categories alone), and ``direction``,
a list of integers. The file's key-value metadata holds one JSON object, ``dimly.directions``: what the integers mean.
"""

import os
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, Field, ValidationError

from dimly.errors import ParameterError, ReleaseError, check_path
from dimly.files import write_bytes
from dimly.mechanisms.plan_parts import STRICT
from dimly.mechanisms.projection.directions import (
    LONGEST_ORIGIN,
    MAX_COUNT,
    MAX_ENTRIES,
    MAX_SCALE,
    Buckets,
    Directions,
    Kind,
)
from dimly.mechanisms.projection.streams import StreamVersion
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release.format import DIRECTIONS_PER_GROUP, LONGEST_FACTS, directions_schema, flattened, lengths_of
from dimly.release.page_headers import byte_reader, check_claims, check_pages
from dimly.release.parts import parquet_bytes, read_table

_KEY: Final = "dimly.directions"
_HASHES: Final[dict[int, Literal["dimly/1 counting", "dimly/2 counting"]]] = {
    1: "dimly/1 counting",
    2: "dimly/2 counting",
}
"""How files name the hash of buckets, by the version of the streams."""


class _Facts(BaseModel):
    """What the columns do not say."""

    model_config = STRICT

    format: Literal[1] = 1
    kind: Kind
    origin: str = Field(max_length=LONGEST_ORIGIN)
    scale: int = Field(ge=1, le=MAX_SCALE)
    count: int = Field(ge=1, le=MAX_COUNT)
    l1: int = Field(ge=1)
    l2_squared: int = Field(ge=1)
    hash: Literal["dimly/1 counting", "dimly/2 counting"] | None = None
    seed: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    digest: str = Field(pattern="^[0-9a-f]{64}$")


def encode_directions(directions: Directions) -> pa.Buffer:
    """Return the file of these directions: the same bytes for the same directions and library."""
    matrix = directions.matrix.astype(np.int16)
    buckets, group = directions.buckets, directions.category_of
    columns: dict[str, pa.Array] = {}
    if buckets is not None:
        columns["bucket"] = pa.array(np.arange(buckets.count, dtype=np.int32))
    else:
        columns["attribute"] = pa.array(list(directions.vocabulary or ()), pa.string())
    if directions.categories is not None and group is not None:
        columns["category"] = pa.array(directions.categories, pa.string()).take(pa.array(group))
        matrix = matrix[group]
    offsets = pa.array(np.arange(0, matrix.size + 1, matrix.shape[1], dtype=np.int32))
    schema = directions_schema(buckets=buckets is not None, categories=directions.merges)
    numbers = pa.array(matrix.reshape(-1))
    columns["direction"] = pa.ListArray.from_arrays(offsets, numbers, type=schema.field("direction").type)
    facts = _Facts(
        kind=directions.kind,
        origin=directions.origin,
        scale=directions.scale,
        count=directions.count,
        l1=directions.sensitivity.l1,
        l2_squared=directions.sensitivity.l2_squared,
        hash=None if buckets is None else _HASHES[buckets.stream],
        seed=None if buckets is None else buckets.seed.hex(),
        digest=directions.digest,
    )
    encoding = {"bucket": "DELTA_BINARY_PACKED", "attribute": "PLAIN", "category": "PLAIN"}
    encoding = {name: law for name, law in encoding.items() if name in columns}
    encoding["direction.list.element"] = "DELTA_BINARY_PACKED"
    table = pa.Table.from_arrays(list(columns.values()), schema=schema)
    return parquet_bytes(
        schema,
        [table],
        encoding,
        dict.fromkeys(encoding, "zstd"),
        rows_per_group=DIRECTIONS_PER_GROUP,
        facts={_KEY: facts.model_dump_json(exclude_none=True)},
    )


def write_directions(path: Path, directions: Directions, *, overwrite: bool = False) -> None:
    """Write directions into a file, in one step.

    Raises
    ------
    ParameterError
        If the file exists and is not to be replaced, or its folder does not.
    """
    write_bytes(path, memoryview(encode_directions(directions)), overwrite=overwrite)


def read_directions(path: str | os.PathLike[str]) -> Directions:
    """Read directions, and check that they have the digest that their file states.

    What the file claims is checked before any of it is decoded.

    Raises
    ------
    ParameterError
        If there is no such file.
    ReleaseError
        If it is no directions file, or was changed.
    """
    check_path("directions", path)
    path = Path(path)
    if not path.is_file():
        raise ParameterError(f"directions must be an existing file, got {str(path)!r}. Make one by dimly directions.")
    return decode_directions(path, path.name)


def decode_directions(source: Path | pa.Buffer, name: str) -> Directions:
    """Return the directions that a file, or a buffer, holds; ``name`` is for errors. See :func:`read_directions`."""
    try:
        file = pq.ParquetFile(source)
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # the last of names in its footer
        raise _no_directions(name) from None
    with file:
        facts = _facts(file, name)
        wanted = directions_schema(buckets=facts.seed is not None, categories=facts.kind == "categories")
        if not file.schema_arrow.remove_metadata().equals(wanted):
            raise _no_directions(name)
        if not 1 <= file.metadata.num_rows * facts.count <= MAX_ENTRIES:
            raise ReleaseError(f"{name} must hold 1 to {MAX_ENTRIES} numbers in all. It was changed.")
        groups = range(file.metadata.num_row_groups)
        check_claims(file, name, wanted, [facts.count * file.metadata.row_group(group).num_rows for group in groups])
        check_pages(file, name, byte_reader(source))
        table = read_table(file, name)
    if (lengths_of(table.column("direction")) != facts.count).any():
        raise ReleaseError(f"{name} must hold lists of exactly {facts.count} numbers. It was changed.")
    try:
        found = _directions(table, facts)
    except ParameterError as error:
        raise ReleaseError(f"{name}: {error}") from None
    stated = (facts.digest, facts.l1, facts.l2_squared)
    if (found.digest, found.sensitivity.l1, found.sensitivity.l2_squared) != stated:
        raise ReleaseError(f"{name} must have the digest and the norms that it states. It was changed: make it again.")
    return found


def _no_directions(name: str) -> ReleaseError:
    return ReleaseError(f"{name} must be a directions file of this version. Make one by dimly directions.")


def _facts(file: pq.ParquetFile, name: str) -> _Facts:
    stated = (file.metadata.metadata or {}).get(_KEY.encode(), b"")
    if not stated or len(stated) > LONGEST_FACTS:
        raise _no_directions(name)
    try:
        return _Facts.model_validate_json(stated)
    except ValidationError:
        raise _no_directions(name) from None


def _directions(table: pa.Table, facts: _Facts) -> Directions:
    matrix: Any = flattened(table.column("direction")).reshape(table.num_rows, facts.count)
    if facts.seed is not None:
        numbers = table.column("bucket").to_numpy()
        if not np.array_equal(numbers, np.arange(len(numbers))):
            raise ParameterError("buckets must be numbered from 0 in order.")
        # Files have said their hash since the first: without one they were changed, and their digest differs.
        stream: StreamVersion = 2 if facts.hash == _HASHES[2] else 1
        buckets = Buckets(len(numbers), bytes.fromhex(facts.seed), stream)
        return Directions(facts.kind, facts.origin, facts.scale, matrix, None, buckets)
    attributes = table.column("attribute").to_pylist()
    count = len(attributes)
    numbered = all(text == str(number) for number, text in enumerate(attributes))
    vocabulary = Vocabulary.numbered(count) if numbered else Vocabulary.listed(attributes)
    if facts.kind != "categories":
        return Directions(facts.kind, facts.origin, facts.scale, matrix, vocabulary)
    coded = table.column("category").combine_chunks().dictionary_encode()  # numbers in the order of appearance
    group = coded.indices.to_numpy()
    first = np.unique(group, return_index=True)[1]
    if (matrix != matrix[first][group]).any():
        raise ParameterError("attributes of one category must have one direction.")
    names = tuple(coded.dictionary.to_pylist())
    return Directions(facts.kind, facts.origin, facts.scale, matrix[first], vocabulary, None, names, group)
