"""A private Spark table: rows checked, people in order and placed with tasks (Spark's hash)."""

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.curator.diagnosis import LeftOutRows
from dimly.curator.options import Options
from dimly.curator.people import Pseudonyms
from dimly.curator.tables.columns import check_names, read_user
from dimly.curator.tables.condition import columns_to_read
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.public_lists import nobody_there, only_or_named, read_roster
from dimly.curator.tables.shapes import SEVERAL_ROWS, Grain, RowsView
from dimly.errors import DataError, ParameterError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release.format import UserType, layout_of
from dimly.release.parts import check_excess
from dimly.spark.cluster import asked, check_frame, column, frame_of, mapped
from dimly.spark.file_frames import FrameSource
from dimly.spark.workers.people_in_order import (
    KNOWN,
    ColumnDigest,
    CutPeople,
    DigestPeople,
    MergePeople,
    SampledPiece,
    Segment,
    UnpackPeople,
    range_borders,
    segments_schema,
)
from dimly.spark.workers.pieces import CHANGED, Places, SortedRows
from dimly.spark.workers.private_rows import (
    KEPT,
    ROSTER_PROBLEMS,
    WORKER_MEMORY,
    NamePeople,
    PieceReader,
    ReadAttributes,
    ReadTable,
    TableReading,
    problem_of,
)

_SEED = 42  # of Spark's hash(), which is Murmur3 x86 32-bit
_MOST_TASKS = 1 << 14


def n_tasks(n_parts: int) -> int:
    """Return how many tasks write the parts of a release: one each, up to 16,384."""
    return min(n_parts, _MOST_TASKS)


def places(n_parts: int) -> NDArray[np.int32]:
    """Return a number for each part, all different: Spark sends part p to task p modulo the number of tasks.

    Examples
    --------
    >>> (spark_hash(places(5)).astype(int) % 5).tolist()
    [0, 1, 2, 3, 4]
    """
    tasks = n_tasks(n_parts)
    rounds = -(-n_parts // tasks)
    size = 64 * n_parts + 1024
    while True:
        candidates = np.arange(size, dtype=np.int32)
        targets = spark_hash(candidates).astype(np.int64) % tasks
        order = np.argsort(targets, kind="stable")
        counts = np.bincount(targets, minlength=tasks)
        if counts.min() >= rounds:
            starts = np.cumsum(counts) - counts
            parts = np.arange(n_parts)
            chosen: NDArray[np.int32] = candidates[order[starts[parts % tasks] + parts // tasks]]
            return chosen
        size *= 2


def spark_hash(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return what Spark's ``hash`` gives for integers of 32 bits."""
    mixed = _rotated(numbers.view(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    state = _rotated(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(4)  # bytes of one number
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (state ^ (state >> np.uint32(16))).view(np.int32)


def _rotated(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


_SMALL_LIST = 1 << 23  # bytes of a vocabulary that every worker may hold
_SMALL_ROSTER = 1 << 18  # people whom every worker may hold
_SAMPLE = 512  # rows that are looked at before all are
_PARTITIONS = 200  # Spark's own default
_position = attrgetter("position")


def spark_type(user_type: UserType) -> str:
    """Return Spark's name for ids."""
    return "bigint" if user_type == "int64" else "string"


@dataclass(frozen=True)
class SparkTable:
    """A table that was checked, and whose people are in order.

    Attributes
    ----------
    rows : DataFrame
        The table itself, with the columns that matter.
    kept : DataFrame
        What was read of it, sorted by person, packed and kept by Spark: ``KEPT`` of ``private_rows``.
    known : DataFrame
        Everybody, in order, packed and kept by Spark: ``KNOWN`` of ``people_in_order``.
    shape : TableReading
    view : RowsView
        Of an empty table like it.
    user_type : {"int64", "text"}
        Of the published ids.
    counts : tuple of int
        Number of people in each range of ``known``.
    listed : bool
        Whether the people were given by a roster.
    vocabulary : Vocabulary or None
        The attributes that count.
    source : FrameSource
        Where the rows come from.
    """

    rows: Any
    kept: Any
    known: Any
    shape: TableReading
    view: RowsView
    user_type: UserType
    counts: tuple[int, ...]
    listed: bool
    vocabulary: Vocabulary | None
    source: FrameSource

    @property
    def n_users(self) -> int:
        """How many people there are."""
        return sum(self.counts)

    @property
    def people(self) -> Any:
        """A frame of the published ids, ``u``."""
        return mapped(self.known.select("people"), UnpackPeople(), f"u {spark_type(self.user_type)}")

    @property
    def is_small(self) -> bool:
        """Whether every worker may hold all people."""
        return self.n_users <= _SMALL_ROSTER

    def diagnostics(self) -> dict[str, int]:
        """Return nothing: Spark's own pages count rows."""
        return {}

    def fits_list(self) -> bool:
        """Return whether any attribute of the table is in the list, whoever has it.

        A few rows nearly always answer that, and nothing is moved for them; all are asked only if none of them does.
        """
        if self.vocabulary is None or any(row.a in self.vocabulary for row in self._some):
            return True
        if len(self._some) < _SAMPLE:  # those were all
            return False
        return not asked(self._with_listed().where("listed").isEmpty, "reading the table")

    def fits_roster(self) -> bool:
        """Return whether anybody on the roster has any attribute; a few rows are asked first, as for the list."""
        from pyspark.sql import functions

        people = self.people
        users = {row.u for row in self._some}
        if users:
            kind = pa.int64() if self.user_type == "int64" else pa.string()
            some = pa.table({"u": pa.array(users, kind)})
            asking = frame_of(self.rows.sparkSession, [some], f"u {spark_type(self.user_type)}")
            known = people.join(functions.broadcast(asking), "u", "left_semi")
            if not asked(known.isEmpty, "reading the people"):
                return True
        if len(self._some) < _SAMPLE:
            return False
        kept = self._attributes().join(functions.broadcast(people) if self.is_small else people, "u", "left_semi")
        return not asked(kept.isEmpty, "reading the table")

    @cached_property
    def _some(self) -> list[Any]:
        """A few rows of who has which attribute, far apart."""
        found: list[Any] = asked(lambda: self._attributes(_SAMPLE).take(_SAMPLE), "reading the table")
        return found

    def left_out(self, most: int) -> LeftOutRows:
        """Return private figures: how much roster and list leave out, and the most frequent attributes of that."""
        from pyspark.sql import functions

        people = self.people.select("u", functions.expr("true").alias("known"))
        rows = (
            self._with_listed().join(people, "u", "left").selectExpr("u", "a", "listed", "known IS NOT NULL AS known")
        )
        sums = {
            "rows": "count(*)",
            "unknown": "count_if(NOT known)",
            "kept": "count_if(known AND listed)",
            "unlisted": "count_if(known AND NOT listed)",
            "touched": "count(DISTINCT CASE WHEN known AND NOT listed THEN u END)",
            "attributes": "count(DISTINCT a)",
            "outside": "count(DISTINCT CASE WHEN NOT listed THEN a END)",
        }
        (found,) = asked(
            rows.agg(*(functions.expr(sql).alias(name) for name, sql in sums.items())).collect, "reading the table"
        )
        counted = rows.where("NOT listed").groupBy("a").count().orderBy(functions.desc("count"), "a").limit(most)
        frequent = [(row[0], row[1]) for row in asked(counted.collect, "reading the table")]
        return LeftOutRows(**found.asDict(), people=self.n_users, frequent=frequent)

    def _attributes(self, most: int | None = None) -> Any:
        """Return a frame of who has which attribute; of each piece of the table no more than some rows."""
        shape = replace(self.shape, numbers=None, coded=False)
        return mapped(self.rows, ReadAttributes(shape, most), f"u {spark_type(self.user_type)}, a string")

    def _with_listed(self) -> Any:
        """Return a frame of who has which attribute, and whether it is in the list."""
        from pyspark.sql import functions

        rows = self._attributes()
        if self.vocabulary is None:
            return rows.withColumn("listed", functions.expr("true"))
        if self.vocabulary.is_numbered:
            size = len(self.vocabulary)
            number = rf"a RLIKE '^(0|[1-9][0-9]{{0,{len(str(size)) - 1}}})$' AND CAST(a AS BIGINT) < {size}"
            return rows.withColumn("listed", functions.expr(f"CASE WHEN {number} THEN true ELSE false END"))
        listed = coded_list(rows.sparkSession, self.vocabulary)
        return rows.join(listed, "a", "left").selectExpr("u", "a", "code IS NOT NULL AS listed")


@dataclass(frozen=True)
class PlacedTable(SparkTable):
    """A table whose people are published by ``plan``, each part of them by one task."""

    plan: Plan

    def own_ids(self) -> Iterator[pa.Array]:
        """Return everybody's own id, pseudonyms or not, a piece at a time.

        Raises
        ------
        DataError
            If Spark had to find the people again, and they are others now.
        """
        for people in self._streamed():
            yield people.users if people.own is None else people.own

    def published_ids(self) -> Iterator[pa.Array]:
        """Return everybody's published id, in order and a piece at a time; raises as :meth:`own_ids` does."""
        for people in self._streamed():
            yield people.users

    def _streamed(self) -> Iterator[SortedRows]:
        """Yield everybody; Java holds one range at a time, and never more."""
        rest, found = list(reversed(self.segments)), ColumnDigest()
        rows = asked(self.known.select("people").toLocalIterator, "reading the people")
        while (row := asked(lambda: next(rows, None), "reading the people")) is not None:
            people = SortedRows.unpacked(bytes(row.people), None)
            ids = people.users
            while len(ids) and rest:
                room = rest[-1].n - found.n
                found.update(ids.slice(0, room))
                ids = ids.slice(room)
                if found.n == rest[-1].n:
                    if found.digest() != rest.pop().digest:
                        raise DataError(CHANGED)
                    found = ColumnDigest()
            if len(ids):
                raise DataError(CHANGED)
            yield people
        if rest:
            raise DataError(CHANGED)

    @property
    def users_per_part(self) -> int:
        """How many people are perturbed and written together: distances need everybody at once."""
        return layout_of(self.plan).users_per_part if self.plan.places_people else self.n_users

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Who is published, by digests: whatever is computed again later must give the same people.

        Raises
        ------
        DataError
            If Spark had to find the people again, and they are not as many as before.
        """
        known = (Segment(row.position, row.n, row.first, bytes(row.digest)) for row in self._borders)
        found = sorted(known, key=_position)
        ends = [segment.position + segment.n for segment in found]
        if [0, *ends] != [*(segment.position for segment in found), self.n_users]:
            raise DataError(CHANGED)
        return tuple(found)

    @cached_property
    def _borders(self) -> list[Any]:
        """What workers say of the people between two borders of parts or ranges."""
        starts = tuple(sum(self.counts[:i]) for i in range(len(self.counts)))
        work = DigestPeople(starts, self.users_per_part, layout_of(self.plan).users_per_group)
        frame = mapped(self.known.select("range", "people"), work, segments_schema(spark_type(self.user_type)))
        found: list[Any] = asked(frame.collect, "finding the borders of parts")
        return found

    def check_ids(self) -> None:
        """Refuse ids that no reader would take from the release, before noise is drawn.

        Raises
        ------
        ReleaseError
            If they are too long.
        """
        size, groups = layout_of(self.plan).users_per_group, Counter[int]()
        for row in self._borders:
            groups.update({row.position // size + i: excess for i, excess in enumerate(row.excess)})
        check_excess(groups.values())

    def places(self) -> Places:
        """Return where people go: the first one of each part comes to the driver, and nobody else."""
        firsts = [segment.first for segment in self.segments if segment.position % self.users_per_part == 0]
        return Places(firsts, places(len(firsts)))

    def segments_by_part(self) -> dict[int, tuple[Segment, ...]]:
        """Return who is in each part."""
        parts: dict[int, tuple[Segment, ...]] = {}
        for segment in self.segments:
            part = segment.position // self.users_per_part
            parts[part] = (*parts.get(part, ()), segment)
        return parts


def coded_list(session: Any, vocabulary: Vocabulary) -> Any:
    """Return a closed list as a frame: ``a``, and its place in the list, ``code``. Each worker holds a small one."""
    from pyspark.sql import functions

    texts = pa.table(
        {"a": pa.array(list(vocabulary), pa.string()), "code": pa.array(range(len(vocabulary)), pa.int32())}
    )
    listed = frame_of(session, [texts], "a string, code int")
    return functions.broadcast(listed) if texts.nbytes <= _SMALL_LIST else listed


def small_list(vocabulary: Vocabulary) -> pa.Array | None:
    """Return the texts of a closed list that every worker may hold; None of a larger one."""
    texts = pa.array(list(vocabulary), pa.string())
    return texts if texts.nbytes <= _SMALL_LIST else None


@contextlib.contextmanager
def open_frame(
    source: FrameSource, plan: Plan, options: Options, vocabulary: Vocabulary | None, pseudonyms: Pseudonyms | None
) -> Iterator[PlacedTable]:
    """Open a table that is published by ``plan``, as :func:`open_rows` does; refuse ids that no reader would take."""
    with open_rows(source, plan, options, vocabulary, pseudonyms, coded=plan.by_position, keeping=True) as table:
        placed = PlacedTable(**{one.name: getattr(table, one.name) for one in fields(table)}, plan=plan)
        placed.check_ids()
        yield placed


@contextlib.contextmanager
def open_rows(
    source: FrameSource,
    grain: Grain,
    options: Options,
    vocabulary: Vocabulary | None,
    pseudonyms: Pseudonyms | None,
    *,
    coded: bool,
    keeping: bool,
) -> Iterator[SparkTable]:
    """Check a table and find its people; Spark forgets them at the end.

    If ``coded``, attributes of a list are given by number. If ``keeping``, all rows are kept where Spark keeps what it
    shuffles: they are read once, unless Spark loses some of them.

    Raises
    ------
    ParameterError
        If columns are not there, or cannot be what they are said to be.
    DataError
        If rows do not fit. The text holds nothing of them.
    """
    options.watcher.phase("reading")
    source = source.stamped()
    frame = source.frame
    named = columns_to_read(options)
    names = set(frame.columns) if named is None else named
    shape = TableReading(
        grain.unit,
        grain.resolution,
        options.only("user", "attribute", "attributes", "columns", "value", "nulls", "values", "where"),
        None if pseudonyms is None else pseudonyms.hand_over(),
        numbers=len(vocabulary) if vocabulary is not None and vocabulary.is_numbered else None,
        coded=coded,
        closed=vocabulary is not None,
        cells=source.cells,
        has_private_names=source.has_private_names,
    )
    view = PieceReader.check(shape, _arrow_schema(frame, names, shown=not shape.has_private_names))
    rows = _selected(frame, names)
    roster, roster_type = _roster(frame.sparkSession, options)
    shape = replace(shape, as_text=roster is not None and roster_type != view.user_type)
    user_type: UserType = "text" if shape.key is not None or shape.as_text else view.user_type
    listed = roster is not None
    texts = None if vocabulary is None or vocabulary.is_numbered else small_list(vocabulary)
    work = ReadTable(shape, "rows" if keeping else "problems" if listed else "people", not listed, texts)
    columns = KEPT.format(spark_type(user_type))
    with contextlib.ExitStack() as stack:
        kept = stack.enter_context(_persisted(mapped(rows, work, columns), on_disk=True))
        if listed:
            naming = NamePeople(roster.columns[0], shape.key, shape.as_text)
            named = stack.enter_context(_persisted(mapped(roster, naming, columns)))
            people = _found(named, "reading the roster")
            _check_roster(people.problem)
            found = _found(kept, "reading the table")
            _check(view, found.problem)
            if view.one_row_each:
                with _in_order(kept, found) as ordered:
                    _check_single(ordered)
        else:
            named, people = kept, _found(kept, "reading the table")
            _check(view, people.problem)
        known = stack.enter_context(_in_order(named, people))
        if view.one_row_each and not listed:
            _check_single(known)
        if not sum(known.counts):
            raise nobody_there("roster" if listed else "table")
        yield SparkTable(rows, kept, known.frame, shape, view, user_type, known.counts, listed, vocabulary, source)
        source.check_unchanged()


def _n_partitions(session: Any) -> int:
    """Return into how many pieces Spark sorts; where it wants to decide that itself (auto), as many as by default."""
    said = str(session.conf.get("spark.sql.shuffle.partitions"))
    return int(said) if said.isdecimal() else _PARTITIONS


def _selected(frame: Any, names: Collection[str]) -> Any:
    """Return those columns of a frame that matter; what is not there was refused before."""
    return frame.select(*(column(name) for name in frame.columns if name in names))


def _arrow_schema(frame: Any, names: Collection[str], *, shown: bool = True) -> pa.Schema:
    """Return the types of all columns as Arrow has them; some of those that do not matter may have none.

    ``shown``: whether an error may name columns that nobody has named.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    check_names(frame.columns, "the table", shown=shown)
    fields = []
    for field in frame.schema.fields:
        try:
            fields.append(pa.field(field.name, to_arrow_type(field.dataType)))
        except PySparkException:
            if field.name in names:
                raise ParameterError(
                    f"columns must be of types that Arrow has, got {field.name!r} of type "
                    f"{field.dataType.simpleString()}. Turn it into text first, or leave it out."
                ) from None
            fields.append(pa.field(field.name, pa.null()))
    return pa.schema(fields)


def _roster(session: Any, options: Options) -> tuple[Any, UserType | None]:
    """Return the list of people as a frame of one column, and the type of their ids."""
    roster, user = options.roster, options.user_column
    if roster is None:
        return None, None
    with PrivateDatabase(memory=WORKER_MEMORY, threads=1) as database:
        if not type(roster).__module__.startswith("pyspark."):
            read = read_roster(database, roster, user_column=user)
            tables = [database.table(f"SELECT u FROM {read.name}")]
            return frame_of(session, tables, f"u {spark_type(read.user_type)}"), read.user_type
        check_frame(roster, "roster")
        chosen = roster.select(column(only_or_named(roster.columns, user, "roster")))
        schema = _arrow_schema(chosen, chosen.columns)
        name = database.register(schema.empty_table())
        return chosen, read_user(schema.names[0], database.columns(name)[0][1], columns="")[1]


@contextlib.contextmanager
def _persisted(frame: Any, *, on_disk: bool = False) -> Iterator[Any]:
    """Have Spark keep a frame until the end; on disk: where it keeps what it shuffles, and nobody's memory is taken."""
    from pyspark import StorageLevel

    kept = frame.persist(StorageLevel.DISK_ONLY) if on_disk else frame.persist()
    try:
        yield kept
    finally:
        with contextlib.suppress(Exception):  # what went wrong first is what the caller must hear of
            kept.unpersist()


@dataclass(frozen=True)
class _ReadFindings:
    """What the driver is told of what was read: the first problem, and of each piece how many people it has."""

    problem: int | None
    pieces: tuple[SampledPiece, ...]


def _found(kept: Any, doing: str) -> _ReadFindings:
    told = kept.where("problem IS NOT NULL OR n > 0").select("problem", "n", "size", "sample")
    rows = asked(told.collect, doing)
    pieces = tuple(SampledPiece(row.n, row.size, row.sample) for row in rows if row.problem is None)
    return _ReadFindings(min((row.problem for row in rows if row.problem is not None), default=None), pieces)


@dataclass(frozen=True)
class _KnownPeople:
    """Everybody in order (``KNOWN``), how many each range has, and whether everybody has a single row."""

    frame: Any
    counts: tuple[int, ...]
    single: bool


@contextlib.contextmanager
def _in_order(named: Any, found: _ReadFindings) -> Iterator[_KnownPeople]:
    """Give everybody once and in order, kept by Spark: positions hold only as long as nothing is computed anew."""
    borders = range_borders(found.pieces, most=min(_n_partitions(named.sparkSession), _MOST_TASKS))
    where = places(len(borders) + 1).tolist()
    pieces = mapped(named.select("problem", "last", "people"), CutPeople(borders, where), "place int, people binary")
    merging = MergePeople({place: number for number, place in enumerate(where)})
    with _persisted(mapped(pieces.repartition(len(where), "place"), merging, KNOWN)) as known:
        rows = asked(known.select("range", "n", "repeated").collect, "finding the people")
        counts = [0] * len(where)
        for row in rows:
            counts[row.range] += row.n
        yield _KnownPeople(known, tuple(counts), not any(row.repeated for row in rows))


def _check(view: RowsView, problem: int | None) -> None:
    if problem is not None:
        raise DataError(view.text_of(problem_of(problem)))


def _check_single(known: _KnownPeople) -> None:
    if not known.single:
        raise DataError(SEVERAL_ROWS)


def _check_roster(problem: int | None) -> None:
    if problem is not None:
        raise DataError(ROSTER_PROBLEMS[problem])
