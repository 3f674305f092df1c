"""A private table of a Spark cluster: its rows checked, its people known and in order; nothing of it on the driver."""

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import pyarrow as pa

from dimly.curator.canonical import SEVERAL_ROWS, RowsView
from dimly.curator.column_names import check_names
from dimly.curator.database import MIN_MEMORY, PrivateDatabase
from dimly.curator.job import Job
from dimly.curator.public_lists import only_or_named, read_roster
from dimly.curator.readings import read_user
from dimly.errors import DataError, ParameterError
from dimly.mechanisms.plan import Plan
from dimly.release.layout import UserType, layout_of
from dimly.spark.files import FrameSource
from dimly.spark.frames import asked, check_frame, column, frame_of, mapped, streamed
from dimly.spark.placing import places
from dimly.spark.reading import ODD_IDS, FindPeople, NamePeople, Places, Reader, Shape, people_schema, problem_of

_PARTITIONS = 200  # Spark's own default
_ROWS_BITS = 33  # of monotonically_increasing_id: the row within its partition


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
    people : DataFrame
        Published ids ``u`` in order, kept by Spark; own ids in ``own`` if there are pseudonyms.
    shape : Shape
    view : RowsView
        Of an empty table like it.
    user_type : {"int64", "text"}
        Of the published ids.
    counts : tuple of int
        Number of people in each partition of ``people``.
    listed : bool
        Whether the people were given by a roster.
    """

    rows: Any
    people: Any
    shape: Shape
    view: RowsView
    user_type: UserType
    counts: tuple[int, ...]
    listed: bool

    @property
    def n_users(self) -> int:
        """How many people there are."""
        return sum(self.counts)

    def own_ids(self) -> Iterator[pa.Array]:
        """Return everybody's own id, pseudonyms or not, a piece at a time."""
        own = self.people.select("own" if "own" in self.people.columns else "u")
        for table in streamed(own, "reading the people"):
            yield table.column(0)

    def diagnostics(self) -> dict[str, int]:
        """Return nothing: Spark's own pages count rows."""
        return {}

    def places(self, plan: Plan) -> Places:
        """Return where people go: the first one of each part comes to the driver, and nobody else."""
        from pyspark.sql import functions

        step = layout_of(plan).users_per_part if plan.n_users is None else self.n_users
        starts = [sum(self.counts[:i]) for i in range(len(self.counts))]
        offset = f"element_at(array({', '.join(f'{start}L' for start in starts)}), spark_partition_id() + 1)"
        row = f"(monotonically_increasing_id() & {(1 << _ROWS_BITS) - 1}L)"
        numbered = self.people.select("u", functions.expr(f"{offset} + {row}").alias("position"))
        found = asked(numbered.where(f"position % {step} = 0").collect, "finding the borders of parts")
        return Places([row.u for row in sorted(found, key=itemgetter("position"))], places(len(found)))


@contextlib.contextmanager
def open_frame(source: FrameSource, job: Job) -> Iterator[SparkTable]:
    """Check a table and find its people; Spark forgets them at the end.

    Raises
    ------
    ParameterError
        If columns are not there, or cannot be what they are said to be.
    DataError
        If rows do not fit. The text holds nothing of them.
    """
    job.progress.phase("reading")
    frame = source.frame
    names = _wanted(job, frame)
    options = job.options("user", "attribute", "attributes", "columns", "value", "nulls", "values")
    shape = Shape(
        job.plan.to_json(),
        options,
        None if job.pseudonyms is None else job.pseudonyms.hand_over(),
        numbers=len(job.vocabulary) if job.vocabulary is not None and job.vocabulary.is_numbered else None,
        coded=job.plan.projection is None,
        cells=source.cells,
    )
    view = Reader.check(shape, _arrow_schema(frame, names))
    rows = _selected(frame, names)
    roster, roster_type = _roster(frame.sparkSession, job)
    shape = replace(shape, as_text=roster is not None and roster_type != view.user_type)
    own: UserType = "text" if shape.as_text else view.user_type
    user_type: UserType = "text" if shape.key is not None else own
    columns = people_schema(spark_type(user_type), spark_type(own) if shape.key is not None else None)
    if roster is None:
        people = mapped(rows, FindPeople(shape, everybody=True), columns)
    else:
        people = mapped(roster, NamePeople(roster.columns[0], shape.key, shape.as_text), columns)
    n_partitions = _n_partitions(frame.sparkSession)
    with _in_order(people, n_partitions) as ordered:
        counts, problem, repeated = _counted(ordered, n_partitions)
        if roster is None:
            _check(view, problem, repeated=repeated)
        else:
            _check_roster(problem)
            _check_rows(rows, shape, view, columns)
        if not sum(counts):
            where = "The table has no rows" if roster is None else "The roster is empty"
            raise DataError(f"there must be at least one person to publish. {where}.")
        yield SparkTable(rows, ordered, shape, view, user_type, counts, roster is not None)
        source.check_unchanged()


def _n_partitions(session: Any) -> int:
    """Return into how many pieces Spark sorts; where it wants to decide that itself (auto), as many as by default."""
    said = str(session.conf.get("spark.sql.shuffle.partitions"))
    return int(said) if said.isdecimal() else _PARTITIONS


def _selected(frame: Any, names: Collection[str]) -> Any:
    """Return those columns of a frame that matter; what is not there was refused before."""
    return frame.select(*(column(name) for name in frame.columns if name in names))


def _wanted(job: Job, frame: Any) -> Collection[str]:
    """Return the names of the columns that matter."""
    given = job.given
    names = {given[name] for name in ("user", "attribute", "attributes", "value") if isinstance(given.get(name), str)}
    columns = given.get("columns", ())
    return set(frame.columns) if columns == "all" else names | {name for name in columns if isinstance(name, str)}


def _arrow_schema(frame: Any, names: Collection[str]) -> pa.Schema:
    """Return the types of all columns as Arrow has them; some of those that do not matter may have none."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    check_names(frame.columns, "the table")
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


def _roster(session: Any, job: Job) -> tuple[Any, UserType | None]:
    """Return the list of people as a frame of one column, and the type of their ids."""
    roster, user = job.given.get("roster"), job.given["user"]
    if roster is None:
        return None, None
    with PrivateDatabase(memory=4 * MIN_MEMORY, threads=1) as database:
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
def _in_order(people: Any, n_partitions: int) -> Iterator[Any]:
    """Give everybody once and in order, kept by Spark: positions hold only as long as nothing is computed anew."""
    from pyspark.sql import functions

    kept = [functions.min(name).alias(name) for name in people.columns if name != "u"]
    once = people.groupBy("u").agg(*kept, functions.count("*").alias("pieces"))
    ordered = once.repartitionByRange(n_partitions, "u").sortWithinPartitions("u").persist()
    try:
        yield ordered
    finally:
        with contextlib.suppress(Exception):  # what went wrong first is what the caller must hear of
            ordered.unpersist()


def _counted(people: Any, n_partitions: int) -> tuple[tuple[int, ...], int | None, int]:
    """Return the number of people in each partition, the first problem, and most pieces that anybody occurs in."""
    from pyspark.sql import functions

    found = people.groupBy(functions.spark_partition_id().alias("p")).agg(
        functions.count("u").alias("n"), functions.min("problem").alias("x"), functions.max("pieces").alias("m")
    )
    rows = asked(found.collect, "reading the table")
    counts = [0] * n_partitions
    for row in rows:
        counts[row.p] = row.n
    problems = [row.x for row in rows if row.x is not None]
    return tuple(counts), min(problems, default=None), max((row.m for row in rows), default=0)


def _check(view: RowsView, problem: int | None, *, repeated: int) -> None:
    if problem is not None:
        raise DataError(view.text_of(problem_of(problem)))
    if view.one_row_each and repeated > 1:
        raise DataError(SEVERAL_ROWS)


def _check_rows(rows: Any, shape: Shape, view: RowsView, columns: str) -> None:
    """Check a table whose people are known."""
    from pyspark.sql import functions

    found = mapped(rows, FindPeople(shape, everybody=view.one_row_each), columns)
    pieces = functions.count("*").alias("m")
    if view.one_row_each:
        found = found.groupBy("u").agg(functions.min("problem").alias("problem"), pieces)
    else:
        found = found.select("problem", functions.lit(1).alias("m"))
    least = found.agg(functions.min("problem").alias("x"), functions.max("m").alias("m"))
    (row,) = asked(least.collect, "reading the table")
    _check(view, row.x, repeated=row.m or 0)


def _check_roster(problem: int | None) -> None:
    if problem == ODD_IDS:
        raise DataError("roster must hold integers or text, and some ids are neither. Turn them all into text.")
    if problem is not None:
        raise DataError("roster must give everybody an id, and some are missing. Remove the empty ones.")
