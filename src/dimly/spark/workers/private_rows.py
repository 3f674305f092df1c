"""Workers read private rows by the local engine's SQL, and keep them sorted by person.

Every piece of a partition goes through the same SQL of the same database as a whole table on one machine. So whatever a
column holds, both engines see the same people and attributes, and refuse the same tables in the same words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dimly.curator.engine import Batch, people_of_sorted
from dimly.curator.options import Options
from dimly.curator.tables.columns import check_names, quoted, read_user
from dimly.curator.tables.condition import apply_condition
from dimly.curator.tables.database import MIN_MEMORY, PrivateDatabase
from dimly.curator.tables.numbered_table import NumberedRows
from dimly.curator.tables.public_lists import MISSING_IDS, ODD_IDS
from dimly.curator.tables.shapes import RowsView, rows_view
from dimly.curator.tables.sources import Source, check_sound
from dimly.errors import DataError
from dimly.privacy import Unit
from dimly.release.format import UserType
from dimly.spark.cluster import Batches, in_pieces
from dimly.spark.workers.people_in_order import sample_of
from dimly.spark.workers.pieces import CHANGED, SortedRows, pseudonyms_of

CellKind = Literal["typed", "text", "json"]
"""What the cells of a table are: of their columns' types; text that means anything (CSV); or JSON, one type each."""

ROSTER_PROBLEMS = (ODD_IDS, MISSING_IDS)
"""Problems of a roster, the first one first."""
WORKER_MEMORY = 4 * MIN_MEMORY
_ROWS, _BYTES = 1 << 17, 1 << 25  # of a piece
_KEPT_ROWS, _KEPT_BYTES = 1 << 21, 1 << 26  # that a worker sorts together: the more, the fewer name a person again
_SLICE = 1 << 14  # bytes of one of Spark's rows: it hands 10,000 of them to a worker at once, and holds these in memory
_SCAN = 1 << 20  # checks of one scan, to number them throughout


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
    has_private_names : bool
        Whether columns may be called as some row says, so that no error may list them.
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
    has_private_names: bool = False


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
        options = self._shape.options
        return Source(
            name,
            dict(self._database.columns(name)),
            has_types=self._shape.cells != "text",
            has_private_names=self._shape.has_private_names,
        ).naming({options.user_column, *(options.named_columns or ())}, self._database)

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


KEPT: Final = "problem bigint, n bigint, size bigint, sample array<{}>, last boolean, people binary, rows binary"
"""The columns of a frame of what was read: problems, or people in order and their rows, with what the driver is told
of them: how many there are, how long their ids, and a few of these, which are of the type in braces. A piece takes
several rows, which follow each other: the first one has what the driver is told, and ``last`` is true at the end."""

Kept = Literal["rows", "people", "problems"]
"""What is kept of a table that is read: everything, who is in it, or no more than what is wrong with it."""


@dataclass(frozen=True)
class ReadTable:
    """Yields what a partition holds, sorted by person and packed: see :data:`KEPT`.

    Attributes
    ----------
    shape : TableReading
    kept : {"rows", "people", "problems"}
    with_people : bool
        Whether everybody in the table is to be named, also those without any attribute that counts.
    listed : Array or None
        The attributes that count; None: all, or the others are left out later.
    """

    shape: TableReading
    kept: Kept
    with_people: bool
    listed: pa.Array | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition."""
        held: list[pa.Table] = []
        number = 0
        for reader, piece in _read(self.shape, batches):
            reader.load(piece)
            problem = reader.problem()
            if problem is not None:
                yield _problem(problem, "text" if self.shape.key or self.shape.as_text else reader.view.user_type)
                continue
            if self.kept != "problems" or reader.view.one_row_each:
                held.append(self._rows(reader))
            if sum(map(len, held)) >= _KEPT_ROWS or sum(one.nbytes for one in held) >= _KEPT_BYTES:
                yield self._packed(held, number)
                held, number = [], number + 1
        if any(map(len, held)):
            yield self._packed(held, number)

    def _rows(self, reader: PieceReader) -> pa.Table:
        if self.kept == "rows" or reader.view.one_row_each:
            return self._of_list(reader.rows(with_people=self.with_people))
        people = reader.people()
        return pa.table({"u": people, "a": pa.nulls(len(people), pa.int32())})

    def _of_list(self, rows: pa.Table) -> pa.Table:
        if self.listed is None:
            return rows
        attributes = rows.column("a")
        codes = pc.index_in(attributes, value_set=self.listed)
        if self.shape.coded:
            rows = rows.set_column(rows.schema.get_field_index("a"), "a", codes)
        return rows.filter(pc.or_(pc.is_null(attributes), pc.is_valid(codes)))

    def _packed(self, held: list[pa.Table], number: int) -> pa.RecordBatch:
        rows = SortedRows.of(pa.concat_tables(held), key=self.shape.key)
        return _kept(rows if self.kept == "rows" else replace(rows, is_list=True), number)


@dataclass(frozen=True)
class NamePeople:
    """Yields the people of a public list, as :class:`ReadTable` does."""

    column: str
    key: bytes | None = field(repr=False)
    as_text: bool

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition."""
        with PrivateDatabase(memory=WORKER_MEMORY, threads=1) as database:
            for number, piece in enumerate(in_pieces(batches, rows=_ROWS, size=_BYTES)):
                check_sound(piece)
                name = database.register(piece)
                reading, kind = read_user(self.column, dict(database.columns(name))[self.column], columns="")
                asked = f"bool_or(({reading.sql}) IS NULL), bool_or({reading.wrong or 'false'})"
                ((missing, odd),) = database.fetch(f"SELECT {asked} FROM {name}")
                problem = 0 if odd else 1 if missing else None  # of ROSTER_PROBLEMS
                if problem is not None:
                    yield _problem(problem, "text" if self.key or self.as_text else kind)
                    continue
                user = f"CAST({reading.sql} AS VARCHAR)" if self.as_text else reading.sql
                own = database.table(f"SELECT DISTINCT {user} AS u FROM {name}").column(0).combine_chunks()
                own = own.cast(pa.int64() if kind == "int64" and not self.as_text else pa.string())
                yield _kept(SortedRows.of_people(own, key=self.key), number)


def _kept(rows: SortedRows, number: int) -> pa.RecordBatch:
    """Return a piece as rows of :data:`KEPT`."""
    people, content = map(_sliced, rows.packed())
    sample = sample_of(rows.users, number)
    more = max(len(people), len(content)) - 1
    columns = {
        "problem": pa.nulls(1 + more, pa.int64()),
        "n": pa.array([len(rows), *[None] * more], pa.int64()),
        "size": pa.array([rows.users.nbytes, *[None] * more], pa.int64()),
        "sample": pa.ListArray.from_arrays(pa.array([0, *[len(sample)] * (1 + more)], pa.int32()), sample),
        "last": pa.array([*[False] * more, True]),
        "people": pa.array([*people, *[None] * (1 + more - len(people))], pa.binary()),
        "rows": pa.array([*content, *[None] * (1 + more - len(content))], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _sliced(content: bytes | None) -> list[bytes]:
    return [] if content is None else [content[at : at + _SLICE] for at in range(0, len(content), _SLICE)]


def _problem(number: int, user_type: UserType) -> pa.RecordBatch:
    """Return a problem as a row of :data:`KEPT`."""
    kinds = {"problem": pa.int64(), "n": pa.int64(), "size": pa.int64()}
    kinds |= {"sample": pa.list_(pa.int64() if user_type == "int64" else pa.string())}
    kinds |= {"last": pa.bool_(), "people": pa.binary(), "rows": pa.binary()}
    return pa.RecordBatch.from_pydict({
        name: pa.array([number if name == "problem" else None], kind) for name, kind in kinds.items()
    })  # fmt: skip


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

    Values that are at most half a step are left out. Repeats are not. Where nobody may have several rows of the table,
    each of those has one without an attribute here.
    """

    shape: TableReading

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition."""
        resolution = self.shape.resolution
        for reader, piece in _read(self.shape, batches):
            reader.load(piece)
            rows = reader.rows(with_people=False)
            steps = np.full(len(rows), resolution, np.int64)
            if resolution > 1 and reader.view.has_values:
                coded = NumberedRows(np.arange(len(rows)), rows.column("v").to_numpy())
                steps = np.asarray(people_of_sorted(Batch(0, 1, [coded]), resolution=resolution).values)
            told = rows.select(["u", "a"]).append_column("s", pa.array(steps))
            if self.shape.key is not None:
                told = _renamed(told, self.shape.key)
            yield from told.filter(pc.or_(pa.array(steps > 0), pc.is_null(told.column("a")))).to_batches()


def _read(shape: TableReading, batches: Batches) -> Iterator[tuple[PieceReader, pa.Table]]:
    reader: PieceReader | None = None
    try:
        for piece in in_pieces(batches, rows=_ROWS, size=_BYTES):
            check_sound(piece)
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
