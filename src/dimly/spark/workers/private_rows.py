"""Workers read private rows by the local engine's SQL, find and name people, and place rows with tasks.

Every piece of a partition goes through the same SQL of the same database as a whole table on one machine. So whatever a
column holds, both engines see the same people and attributes, and refuse the same tables in the same words.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimly.curator.engine import Batch, people_of_sorted
from dimly.curator.options import Options
from dimly.curator.people import Pseudonyms
from dimly.curator.tables.columns import check_names, quoted, read_user
from dimly.curator.tables.condition import apply_condition
from dimly.curator.tables.database import MIN_MEMORY, PrivateDatabase
from dimly.curator.tables.numbered_table import NumberedRows
from dimly.curator.tables.public_lists import MISSING_IDS, ODD_IDS
from dimly.curator.tables.shapes import RowsView, rows_view
from dimly.curator.tables.sources import Source
from dimly.errors import DataError
from dimly.privacy import Unit
from dimly.release.format import UserType
from dimly.release.parts import excess_of
from dimly.spark.cluster import Batches, in_pieces

CellKind = Literal["typed", "text", "json"]
"""What the cells of a table are: of their columns' types; text that means anything (CSV); or JSON, one type each."""

CHANGED = (
    "the table must stay as it is while it is read, but it changed: it is computed twice. Write it to files first."
)
"""What to say of a table whose people are not the same each time."""

ROSTER_PROBLEMS = (ODD_IDS, MISSING_IDS)
"""Problems of a roster, the first one first."""
WORKER_MEMORY = 4 * MIN_MEMORY
_ROWS, _BYTES = 1 << 17, 1 << 25  # of a piece
_PEOPLE = 1 << 21  # whom a worker holds back, at most
_SCAN = 1 << 20  # checks of one scan, to number them throughout
_NOBODY = pa.chunked_array([[]], pa.null())


@dataclass(frozen=True)
class TableReading:
    """How a table is to be read, in a form that travels to the workers.

    Attributes
    ----------
    unit, resolution
        As of the plan, or of the survey.
    options : Options
        Those that say what the columns are.
    key : bytes or None
        Of pseudonyms.
    as_text : bool
        Whether ids are compared as text, because the roster's are of another type.
    numbers : int or None
        Size of a vocabulary that is numbers: others are left out.
    coded : bool
        Whether attributes of such a vocabulary are given by number.
    closed : bool
        Whether there is a vocabulary at all, so that all rows of a person may be left out.
    cells : {"typed", "text", "json"}
        What the local engine would know of the table's cells.
    """

    unit: Unit
    resolution: int
    options: Options
    key: bytes | None = field(default=None, repr=False)
    as_text: bool = False
    numbers: int | None = None
    coded: bool = False
    closed: bool = False
    cells: CellKind = "typed"


class PieceReader:
    """Reads pieces of a table; a context manager."""

    def __init__(self, shape: TableReading, schema: pa.Schema) -> None:
        self._shape = shape
        self._database = PrivateDatabase(memory=WORKER_MEMORY, threads=1)
        try:
            self._name = self._database.register(schema.empty_table())
            source = apply_condition(self._database, self._source(schema.names), shape.options)
            self.view: RowsView = rows_view(self._database, source, shape, shape.options)
        except BaseException:
            self._database.close()
            raise

    @classmethod
    def check(cls, shape: TableReading, schema: pa.Schema) -> RowsView:
        """Refuse columns that cannot work, before anything is read; return what knows the problems by number."""
        check_names(schema.names, "the table")
        with cls(shape, schema) as reader:
            return reader.view

    def _source(self, names: Sequence[str]) -> Source:
        name = self._name
        if self._shape.cells == "json":
            columns = ", ".join(f"CAST({quoted(one)} AS JSON) AS {quoted(one)}" for one in names)
            name = self._database.create_view(f"SELECT {columns} FROM {name}")
        return Source(
            name,
            dict(self._database.columns(name)),
            has_types=self._shape.cells != "text",
            has_private_names=self._shape.cells == "json",
        )

    def load(self, piece: pa.Table) -> None:
        """Take the next piece."""
        self._database.register_again(self._name, piece)

    def problem(self) -> int | None:
        """Return the number of the first problem in this piece."""
        found = self.view.problem()
        return None if found is None else found[0] * _SCAN + found[1]

    def people(self) -> pa.Array:
        """Return the ids of the people in this piece, each once."""
        return self._database.table(f"SELECT {self._user} AS u FROM ({self.view.people_sql})").column(0)

    def rows(self, *, with_people: bool) -> pa.Table:
        """Return the canonical rows of this piece: ``u``, ``a`` and, if there are any, values ``v``.

        If ``with_people``, everybody has a row without an attribute, too. Where nobody may have several rows of the
        table, each of those leaves one without an attribute, and ``m`` is true there.

        Raises
        ------
        DataError
            If somebody has no id: a pass before this one saw that everybody has.
        """
        view, shape = self.view, self._shape
        value, none = (", v", ", NULL") if view.has_values else ("", "")
        sql = f"SELECT {self._user} AS u, {view.attribute_text_sql('a')} AS a{value} FROM {view.name}"
        kind = "VARCHAR"
        if shape.numbers is not None:
            numbered = f"SELECT *, TRY_CAST(a AS BIGINT) AS code FROM ({sql})"
            fits = f"code >= 0 AND code < {shape.numbers} AND CAST(code AS VARCHAR) = a"
            kind = "INTEGER" if shape.coded else kind
            a = "CAST(code AS INTEGER) AS a" if shape.coded else "a"
            sql = f"SELECT u, {a}{value} FROM ({numbered}) WHERE {fits}"
        if view.one_row_each:
            marks = f"SELECT {self._user} AS u, CAST(NULL AS {kind}) AS a{none}, true AS m FROM ({view.each_row_sql})"
            sql = f"SELECT *, NULL AS m FROM ({sql}) UNION ALL {marks}"
        elif with_people and (shape.closed or not view.people_in_rows):
            sql += f" UNION ALL SELECT {self._user}, CAST(NULL AS {kind}){none} FROM ({view.people_sql})"
        found = self._database.table(sql)
        if found.column("u").null_count:
            raise DataError(CHANGED)
        return found

    @property
    def _user(self) -> str:
        return "CAST(u AS VARCHAR)" if self._shape.as_text and self.view.user_type == "int64" else "u"

    def __enter__(self) -> "PieceReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()


def problem_of(number: int) -> tuple[int, int]:
    """Return scan and check of a problem's number."""
    return divmod(number, _SCAN)


@dataclass(frozen=True)
class FindPeople:
    """Yields who is in a partition: ``u``, own id ``own`` if there are pseudonyms, and ``problem``.

    In a table in no order every row names its person anew, and Spark would have to group all of these. So each person
    is given once for many pieces, but where a table has one row for each: there Spark counts who comes again.
    """

    shape: TableReading
    everybody: bool

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition."""
        named = partial(_people, key=self.shape.key, as_text=self.shape.as_text)
        kind: UserType = "int64"
        found: list[pa.ChunkedArray] = []
        for reader, piece in _read(self.shape, batches):
            reader.load(piece)
            kind, problem = reader.view.user_type, reader.problem()
            if problem is not None:
                yield from named(_NOBODY, problem, kind=kind)
            elif self.everybody and reader.view.one_row_each:
                yield from named(reader.people(), None, kind=kind)
            elif self.everybody:
                found.append(reader.people())
                if _is_much(found):
                    found = [_each_once(found)]
                    if _is_much(found, share=0.5):  # most of them are new: to hold them back gains little
                        yield from named(found.pop(), None, kind=kind)
        if found:
            yield from named(_each_once(found), None, kind=kind)


def _is_much(ids: Sequence[pa.ChunkedArray], *, share: float = 1.0) -> bool:
    return sum(map(len, ids)) > share * _PEOPLE or sum(one.nbytes for one in ids) > share * _BYTES


def _each_once(ids: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    chunks = [chunk for one in ids for chunk in one.chunks]
    return pa.chunked_array([pc.unique(pa.chunked_array(chunks, ids[0].type))])


@dataclass(frozen=True)
class NamePeople:
    """Yields the people of a public list, as :class:`FindPeople` does."""

    column: str
    key: bytes | None = field(repr=False)
    as_text: bool

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition."""
        with PrivateDatabase(memory=WORKER_MEMORY, threads=1) as database:
            for piece in in_pieces(batches, rows=_ROWS, size=_BYTES):
                name = database.register(piece)
                reading, kind = read_user(self.column, dict(database.columns(name))[self.column], columns="")
                asked = f"bool_or(({reading.sql}) IS NULL), bool_or({reading.wrong or 'false'})"
                ((missing, odd),) = database.fetch(f"SELECT {asked} FROM {name}")
                problem = 0 if odd else 1 if missing else None  # of ROSTER_PROBLEMS
                own = _NOBODY
                if problem is None:
                    user = f"CAST({reading.sql} AS VARCHAR)" if self.as_text else reading.sql
                    own = database.table(f"SELECT DISTINCT {user} AS u FROM {name}").column(0)
                yield from _people(own, problem, key=self.key, kind=kind, as_text=self.as_text)


def people_schema(user: str, own: str | None) -> str:
    """Return the columns of a frame of people: published ids, own ids if there are pseudonyms, and problems."""
    return f"u {user}, problem bigint" if own is None else f"u {user}, own {own}, problem bigint"


def _people(own: pa.ChunkedArray, problem: int | None, *, key: bytes | None, kind: UserType, as_text: bool) -> Batches:
    own = own.cast(pa.int64() if kind == "int64" and not as_text else pa.string())
    columns = [own] if key is None else [pseudonyms_of(own.cast(pa.string()), key), own]
    if problem is not None:  # instead of anybody
        columns = [pa.nulls(1, one.type) for one in columns]
    problems = pa.array([problem] * len(columns[0]), pa.int64())
    names = ["u", "problem"] if key is None else ["u", "own", "problem"]
    yield from pa.table([*columns, problems], names=names).to_batches()


def pseudonyms_of(texts: pa.ChunkedArray | pa.Array, key: bytes) -> pa.Array:
    """Return the pseudonyms of ids."""
    return pa.array(Pseudonyms(key).of(texts.to_pylist()), pa.string())


@dataclass(frozen=True)
class Places:
    """Where people go: the first id of every part, and the number by which Spark finds the part's task.

    Attributes
    ----------
    firsts : sequence of int or of str
        Rising; the first person of each part.
    places : ndarray of int32
        One for each part, all different.
    """

    firsts: Sequence[Any]
    places: NDArray[np.int32]

    def of(self, ids: pa.ChunkedArray) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return the places of some ids, and which of them have one: nobody comes before the first person."""
        if pa.types.is_integer(ids.type):
            parts = np.searchsorted(self._bounds, ids.to_numpy(), side="right") - 1
        else:
            coded = ids.combine_chunks().dictionary_encode()
            found = [bisect_right(self.firsts, text) - 1 for text in coded.dictionary.to_pylist()]
            parts = np.array(found, np.int64)[coded.indices.to_numpy()] if found else np.empty(0, np.int64)
        return self.places[parts], parts >= 0

    @cached_property
    def _bounds(self) -> NDArray[np.int64]:
        return np.array(self.firsts, np.int64)


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
    """Yields the segments of each partition of people, who are in order, and how long their ids are.

    Attributes
    ----------
    starts : tuple of int
        How many people come before each partition.
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
        """Go through a partition."""
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None  # noqa: S101 - workers run tasks
        start, first, found = self.starts[task.partitionId()], None, ColumnDigest()
        excess: list[int] = []
        for piece in in_pieces(batches, rows=_ROWS, size=_BYTES):
            ids = piece.column("u").combine_chunks()
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


def _segment(position: int, found: ColumnDigest, first: pa.Array, excess: list[int]) -> pa.RecordBatch:
    columns = {
        "position": [position],
        "n": [found.n],
        "first": first,
        "digest": pa.array([found.digest()]),
        "excess": pa.array([excess], pa.list_(pa.int64())),
    }
    return pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True)
class PlaceRows:
    """Yields canonical rows with the place of each: ``place``, ``u``, ``a`` and, if there are any, ``v`` and ``m``."""

    shape: TableReading
    places: Places
    with_people: bool

    def __call__(self, batches: Batches) -> Iterator[pa.Table]:
        """Go through a partition."""
        for reader, piece in _read(self.shape, batches):
            reader.load(piece)
            rows = reader.rows(with_people=self.with_people)
            if self.shape.key is not None:
                rows = _renamed(rows, self.shape.key)
            yield _placed(rows, self.places)


@dataclass(frozen=True)
class ReadAttributes:
    """Yields who has which attribute: ``u`` as published, and ``a``; of each piece at most ``most`` rows, if given."""

    shape: TableReading
    most: int | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition."""
        for reader, piece in _read(self.shape, batches):
            reader.load(piece)
            rows = reader.rows(with_people=False).select(["u", "a"])
            rows = rows.filter(rows.column("a").is_valid())  # without the marks of rows
            if self.most is not None and len(rows) > self.most:  # far apart, so that many people are among them
                rows = rows.take(np.linspace(0, len(rows) - 1, self.most).astype(np.int64))
            yield from (rows if self.shape.key is None else _renamed(rows, self.shape.key)).to_batches()


@dataclass(frozen=True)
class ReadSteps:
    """Yields who has which attribute: ``u`` as published, ``a``, and its value in steps of the resolution, ``s``.

    Values that are at most half a step are left out. Repeats are not.
    """

    shape: TableReading

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition."""
        resolution = self.shape.resolution
        for reader, piece in _read(self.shape, batches):
            reader.load(piece)
            rows = reader.rows(with_people=False)
            rows = rows.filter(rows.column("a").is_valid())  # without the marks of rows
            steps = np.full(len(rows), resolution, np.int64)
            if resolution > 1 and reader.view.has_values:
                coded = NumberedRows(np.arange(len(rows)), rows.column("v").to_numpy())
                steps = np.asarray(people_of_sorted(Batch(0, 1, [coded]), resolution=resolution).values)
            rows = rows.select(["u", "a"]).append_column("s", pa.array(steps))
            if self.shape.key is not None:
                rows = _renamed(rows, self.shape.key)
            yield from (rows if steps.all() else rows.filter(pa.array(steps > 0))).to_batches()


@dataclass(frozen=True)
class PlacePeople:
    """Yields rows without an attribute for people who are known: ``place``, ``u``, and nothing else."""

    places: Places

    def __call__(self, batches: Batches) -> Iterator[pa.Table]:
        """Go through a partition."""
        for piece in in_pieces(batches, rows=_ROWS, size=_BYTES):
            yield _placed(piece.select(["u"]), self.places)


def _read(shape: TableReading, batches: Batches) -> Iterator[tuple[PieceReader, pa.Table]]:
    reader: PieceReader | None = None
    try:
        for piece in in_pieces(batches, rows=_ROWS, size=_BYTES):
            reader = reader or PieceReader(shape, piece.schema)
            yield reader, piece
    finally:
        if reader is not None:
            reader.__exit__()


def _renamed(rows: pa.Table, key: bytes) -> pa.Table:
    """Return rows under pseudonyms; each id is hashed once."""
    coded = rows.column("u").cast(pa.string()).combine_chunks().dictionary_encode()
    names = pseudonyms_of(coded.dictionary, key)
    return rows.set_column(0, "u", names.take(coded.indices))


def _placed(rows: pa.Table, places: Places) -> pa.Table:
    where, known = places.of(rows.column("u"))
    placed = rows.add_column(0, "place", pa.array(where, pa.int32()))
    return placed if known.all() else placed.filter(pa.array(known))
