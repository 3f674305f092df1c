"""The Parquet file that says who is in which segment, and of which release: ``Labels``.

Segments of a release are public, as everything is that follows from a release alone. Only such labels may divide people
in a survey: labels that were made from the private table would tell about it without any noise.
"""

import json
import os
import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dimly.errors import ParameterError, ReleaseError, check_path
from dimly.release.format import UserType
from dimly.release.parts import as_user_column

_KEY: Final = b"dimly.segments"
MOST_SEGMENTS: Final = 10_000
_ID: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The segment of each person.

    Attributes
    ----------
    users : pyarrow.Array
        Ids, each once.
    segments : ndarray of int64
        From 0; −1 for those of whom nothing is known.
    release : str
        Id of the release that they were found in.
    """

    users: pa.Array
    segments: NDArray[np.int64]
    release: str

    @property
    def count(self) -> int:
        """How many segments there are."""
        return int(self.segments.max(initial=-1)) + 1


def encode_segments(users: Any, labels: NDArray[np.int32], *, user_type: UserType, release: str) -> memoryview:
    """Return the file."""
    facts = {_KEY: json.dumps({"format": 1, "release": release}).encode()}
    table = pa.table({"user": as_user_column(users, user_type), "segment": pa.array(labels, pa.int32())})
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(facts), sink)
    return memoryview(sink.getvalue())


def read_segments(path: str | os.PathLike[str]) -> Labels:
    """Read a file made by ``dimly segments``.

    Raises
    ------
    ParameterError
        If there is no such file, or it does not say which release its segments are of.
    ReleaseError
        If it does, and is damaged.
    """
    check_path("by", path)
    try:
        table = pq.read_table(path, partitioning=None)
    except (pa.ArrowException, OSError):
        raise ParameterError(
            f"by must be a Parquet file made by dimly segments, got {os.fspath(path)!r}, which cannot be read as one. "
            "Make one by dimly segments RELEASE --out segments.parquet."
        ) from None
    try:
        facts = json.loads((table.schema.metadata or {}).get(_KEY, b"null"))
        release = str(facts["release"]) if facts["format"] == 1 else ""
    except (ValueError, TypeError, KeyError, RecursionError):
        release = ""
    if not _ID.fullmatch(release):
        raise ParameterError(
            f"by must hold segments of a release, made by dimly segments, got {os.fspath(path)!r}, which does not say "
            "of which release. Labels from anywhere else may tell about the private table. Make it again by dimly "
            "segments."
        )
    if table.column_names != ["user", "segment"] or not _are_ids_and_numbers(*table.schema.types):
        raise ReleaseError(
            "by must have the columns user, of integers or text, and segment, of integers. It was changed: make it "
            "again."
        )
    users = table.column("user").combine_chunks()
    segments = table.column("segment").to_numpy().astype(np.int64)
    fits = len(segments) and segments.min() >= -1 and segments.max() < MOST_SEGMENTS and not users.null_count
    if not fits or len(users.unique()) < len(users):
        raise ReleaseError(
            f"by must give each person once, and a segment from 0 to {MOST_SEGMENTS - 1}, or -1. It was changed: make "
            "it again."
        )
    return Labels(users, segments, release)


def _are_ids_and_numbers(ids: pa.DataType, numbers: pa.DataType) -> bool:
    kinds = pa.types
    are_ids = kinds.is_signed_integer(ids) or kinds.is_string(ids) or kinds.is_large_string(ids)
    return bool(are_ids and kinds.is_signed_integer(numbers))
