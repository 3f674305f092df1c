"""Who is in a Spark table: everybody once and in order by ranges of ids, and digests of them.

Workers name the people of what they read, sorted, with a few ids from all over these. From the few the driver chooses
ranges of ids; each range is merged by one task.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dimly.release.parts import excess_of
from dimly.spark.cluster import Batches
from dimly.spark.workers.pieces import SortedRows, kept_rows, numbered_together

KNOWN: Final = "range int, n bigint, repeated boolean, people binary"
"""The columns of a frame of people in order: of each piece its range, how many, and whether somebody has two rows."""

_SAMPLE = 64  # ids of each piece that go to the driver
_HELD = 1 << 22  # ids that a worker holds before it looks who of them are the same
_PIECE = 1 << 17  # people of a piece
_PEOPLE, _BYTES = 1 << 20, 1 << 25  # that one task should merge, at least


def sample_of(users: pa.Array, number: int) -> pa.Array:
    """Return ids from all over some sorted ones: with other numbers others, so that many pieces tell more than one."""
    size = min(_SAMPLE, len(users))
    spread = np.arange(size) + np.random.default_rng(number).random(size)
    return users.take(pa.array((spread * (len(users) / max(size, 1))).astype(np.int64)))


@dataclass(frozen=True, slots=True)
class SampledPiece:
    """What the driver is told of a piece: how many people it has, their bytes, and some of them."""

    n: int
    size: int
    sample: Sequence[Any]


def range_borders(pieces: Iterable[SampledPiece], *, most: int) -> list[Any]:
    """Return the ids at which ranges of about as many people begin, but for the first range; there are few of few.

    How people are divided has no influence on what is published of them.

    Parameters
    ----------
    pieces : iterable of SampledPiece
    most : int
        Number of ranges.
    """
    told = list(pieces)
    load = max(sum(piece.n for piece in told) / _PEOPLE, sum(piece.size for piece in told) / _BYTES)
    ranges = max(1, min(most, int(np.ceil(load))))
    weighed = sorted((one, piece.n / len(piece.sample)) for piece in told for one in piece.sample)
    if ranges == 1 or not weighed:
        return []
    reached = np.cumsum([weight for _, weight in weighed])
    cuts = np.searchsorted(reached, reached[-1] * np.arange(1, ranges) / ranges)
    return sorted({weighed[int(cut)][0] for cut in cuts})


@dataclass(frozen=True)
class CutPeople:
    """Yields people in pieces of one range each: ``place`` and ``people``."""

    borders: Sequence[Any]
    places: Sequence[int]

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition of what :func:`kept_rows` takes."""
        for rows in kept_rows(batches):
            cuts = [0, *rows.cut_at(self.borders), len(rows)]
            pieces = [rows.between(start, stop).packed()[0] for start, stop in pairwise(cuts)]
            columns = {"place": pa.array(self.places, pa.int32()), "people": pa.array(pieces, pa.binary())}
            yield pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True)
class MergePeople:
    """Yields everybody of a range once and in order: see :data:`KNOWN`.

    Attributes
    ----------
    ranges : mapping of int to int
        Number of the range by its place.
    """

    ranges: Mapping[int, int]

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition, which has the pieces of one range."""
        held: list[SortedRows] = []
        place = 0
        for batch in batches:
            place = batch.column("place")[0].as_py()
            held += kept_rows(iter([batch.select(["people"])]))
            if sum(map(len, held)) > _HELD:
                held = [_merged(held)]
        if not held:
            return
        people = _merged(held)
        repeated = people.marks is not None and people.marks.max(initial=0) > 1
        for start in range(0, len(people), _PIECE):
            some = people.between(start, min(start + _PIECE, len(people)))
            columns = {
                "range": pa.array([self.ranges[place]], pa.int32()),
                "n": pa.array([len(some)]),
                "repeated": pa.array([bool(repeated)]),
                "people": pa.array([some.packed()[0]], pa.binary()),
            }
            yield pa.RecordBatch.from_pydict(columns)


def _merged(pieces: Sequence[SortedRows]) -> SortedRows:
    """Return the people of all pieces; whoever has marks in several has all of them."""
    if len(pieces) == 1:
        return pieces[0]
    who, users = numbered_together([piece.users for piece in pieces])
    own = marks = None
    if pieces[0].own is not None:
        all_of_them = np.concatenate(who)
        first = np.empty(len(users), np.int64)
        first[all_of_them] = np.arange(len(all_of_them))
        own = pa.concat_arrays([piece.own for piece in pieces]).take(pa.array(first))
    if pieces[0].marks is not None:
        marks = np.zeros(len(users), np.int32)
        for people, piece in zip(who, pieces, strict=True):
            marks[people] += piece.marks if piece.marks is not None else 0
    none = np.zeros(len(users), np.int32)
    return SortedRows(users.cast(pieces[0].users.type), own, none, marks, none[:0], None, None, is_list=True)


@dataclass(frozen=True)
class UnpackPeople:
    """Yields people as rows: published ids ``u``."""

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition of ``people``."""
        for people in kept_rows(batches):
            yield pa.record_batch({"u": people.users})


class ColumnDigest:
    """A SHA-256 of integers or texts in their order, however they are cut into pieces: of ids, or of attributes."""

    def __init__(self) -> None:
        self._lengths, self._content = hashlib.sha256(), hashlib.sha256()
        self.n = 0

    def update(self, cells: pa.Array) -> None:
        """Take the next ones."""
        self.n += len(cells)
        if pa.types.is_integer(cells.type):
            self._content.update(np.ascontiguousarray(cells.to_numpy()).data)
            return
        column = cells.cast(pa.large_string())
        _, offsets, content = column.buffers()
        starts = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        self._lengths.update(np.diff(starts).data)
        if content is not None and len(starts):
            self._content.update(content.slice(int(starts[0]), int(starts[-1] - starts[0])))

    def digest(self) -> bytes:
        """Return what no other column has."""
        return hashlib.sha256(self._lengths.digest() + self._content.digest()).digest()


@dataclass(frozen=True)
class Segment:
    """People who follow each other in one partition, and are of one part.

    Attributes
    ----------
    position : int
        Of the first of them among all people.
    n : int
    first : int or str
        Published id of the first of them.
    digest : bytes
        Of their ids: see :class:`ColumnDigest`.
    """

    position: int
    n: int
    first: Any
    digest: bytes


def segments_schema(user: str) -> str:
    """Return the columns of a frame of segments."""
    return f"position bigint, n bigint, first {user}, digest binary, excess array<bigint>"


def is_same(ids: pa.Array, segments: Sequence[Segment]) -> bool:
    """Return whether these are the ids of some segments, in their order."""
    at = 0
    for segment in segments:
        found = ColumnDigest()
        found.update(ids.slice(at, segment.n))
        if found.n != segment.n or found.digest() != segment.digest:
            return False
        at += segment.n
    return at == len(ids)


@dataclass(frozen=True)
class DigestPeople:
    """Yields the segments of each range of people, who are in order, and how long their ids are.

    Attributes
    ----------
    starts : tuple of int
        How many people come before each range.
    step : int
        People of a part.
    group : int
        People of a row group. For each that a segment has people of, ``excess`` says what
        :func:`~dimly.release.parts.excess_of` does of their ids; nothing of integers.
    """

    starts: tuple[int, ...]
    step: int
    group: int

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition, which has the pieces of one range: ``range`` and ``people``."""
        start, first, found = 0, None, ColumnDigest()
        excess: list[int] = []
        for number, users in _each(batches):
            start, ids = start or self.starts[number], users  # of the first piece
            while len(ids):
                if first is None:
                    first = ids.slice(0, 1)
                at = start + found.n
                some = ids.slice(0, min(self.step - at % self.step, self.group - at % self.group))
                found.update(some)
                if not pa.types.is_integer(some.type):
                    if found.n == len(some) or at % self.group == 0:
                        excess.append(0)
                    excess[-1] += excess_of(some)
                ids = ids.slice(len(some))
                if (start + found.n) % self.step == 0:
                    yield _segment(start, found, first, excess)
                    start, first, found, excess = start + found.n, None, ColumnDigest(), []
        if first is not None:
            yield _segment(start, found, first, excess)


def _each(batches: Batches) -> Iterator[tuple[int, pa.Array]]:
    for batch in batches:
        ranges = batch.column("range").to_pylist()
        for number, people in zip(ranges, kept_rows(iter([batch.select(["people"])])), strict=True):
            yield number, people.users


def _segment(position: int, found: ColumnDigest, first: pa.Array, excess: list[int]) -> pa.RecordBatch:
    columns = {
        "position": [position],
        "n": [found.n],
        "first": first,
        "digest": pa.array([found.digest()]),
        "excess": pa.array([excess], pa.list_(pa.int64())),
    }
    return pa.RecordBatch.from_pydict(columns)
