"""``dimly.spark.survey``: opens a table; workers count; only counts come to the driver, which perturbs them.

Whatever differs from a survey on one machine is in this file: who has what, each once, is kept by Spark, and every
statistic is an exact sum of integers over it. People are paired by the same keyed order, without sorting them all.
"""

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly import api
from dimly.curator import kernels
from dimly.curator.diagnosis import open_diagnosed
from dimly.curator.options import Options
from dimly.curator.people import Pseudonyms
from dimly.curator.perturb import ListedTexts, Texts
from dimly.curator.survey.exact_counts import (
    KEY_DIGITS,
    CountingTable,
    ExactCounts,
    Integers,
    boundaries_for,
    bucket_codes,
    order_key,
)
from dimly.curator.survey.run import CountingSource, SurveyOutcome, SurveyTable, check_survey_file
from dimly.curator.tables.input_files import Stamp
from dimly.curator.tables.public_lists import check_before_reading, read_vocabulary
from dimly.errors import DataError, ParameterError
from dimly.mechanisms.projection.directions import Buckets, Directions
from dimly.mechanisms.projection.rows import IntArray
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import Budget
from dimly.release.documents.profiles_file import Profiles
from dimly.release.documents.survey_file import Survey
from dimly.spark.cluster import Batches, asked, check_frame, frame_of, mapped, streamed
from dimly.spark.file_frames import FrameSource
from dimly.spark.hadoop import is_address
from dimly.spark.origins import check_types_are_stated
from dimly.spark.publishing import check_frames_apart, check_left_out, own_files
from dimly.spark.table import SparkTable, coded_list, open_rows, spark_type
from dimly.spark.workers.pieces import CHANGED
from dimly.spark.workers.private_rows import ReadSteps

MOST_NAMES: Final = 1 << 24
"""Different attributes whose counts come to the driver, where no list bounds them: about a gigabyte."""
_PREFIX: Final = 3
"""Hexadecimal digits of a hash by which people are put into groups that are sorted apart: 4,096 of them."""
_CELLS: Final = 1 << 20


def survey(frame: Any, budget: Budget, **options: Any) -> Survey | Profiles | Directions | SurveyOutcome[Any]:
    """Ask a Spark DataFrame what planning needs to know, for a share of its budget.

    The survey is the one that :func:`dimly.survey` makes: same questions, same noise, same file, same charge, same
    errors. Workers count exactly, and only counts come to the driver. The frame is computed several times: if it is
    costly or not always the same, write it to files first.

    Parameters
    ----------
    frame : DataFrame
        Of a classic session, Spark 3.5 or later.
    budget : Budget
        Of all answers together.
    **options
        Those of :func:`dimly.survey`, but for the ones about reading files and matrices and those about the resources
        of one machine. ``out`` is a file of the driver. ``roster`` may be a DataFrame, too.

    Returns
    -------
    Survey, Profiles, Directions or SurveyOutcome
        As :func:`dimly.survey` does.

    Raises
    ------
    ParameterError, DataError, BudgetError
        As :func:`dimly.survey` does.
    DimlyError
        If Spark fails.
    """
    check_frame(frame, "frame")
    found: Survey | Profiles | Directions | SurveyOutcome[Any] = api.survey(
        SurveyedFrame(FrameSource(frame)), budget, **options
    )
    return found


@dataclass(frozen=True)
class SurveyedFrame(CountingSource):
    """A frame that is to be surveyed."""

    source: FrameSource

    @property
    def files(self) -> tuple[Stamp, ...]:
        """What it was opened from, as far as the driver knows."""
        return self.source.files

    def open_survey(self, plan: SurveyPlan, options: Options) -> SurveyTable:
        """Return a table that is to be read. What is public is read and checked now."""
        check_left_out(options)
        if options.out is not None and is_address(options.out):
            raise ParameterError("out must be a file of the driver's machine for a survey, got an address.")
        check_survey_file(options, [one.path for one in self.files])
        check_before_reading(self.source.frame, options, files=own_files(self.source, options))
        check_frames_apart(self.source.frame, options.roster, options.user_column)
        check_types_are_stated(self.source.frame)
        vocabulary = None
        if options.vocabulary is not None:
            vocabulary = read_vocabulary(options.vocabulary, attribute_column=options.attribute)
        pseudonyms = None if options.pseudonyms is None else Pseudonyms.from_file(options.pseudonyms)
        opening = open_rows(self.source, plan, options, vocabulary, pseudonyms, coded=True, keeping=False)
        looked = open_diagnosed(opening, plan, options, vocabulary)
        return SurveyTable(_kept(looked), vocabulary, options.roster_kind)


@contextlib.contextmanager
def _kept(opening: AbstractContextManager[SparkTable]) -> Iterator["FrameCounts"]:
    """Open a table, and have Spark keep who has what until the end: each statistic is a sum over it."""
    with opening as table:
        have = _who_has_what(table).persist()
        try:
            yield FrameCounts(table, have)
        finally:
            with contextlib.suppress(Exception):  # what went wrong first is what the caller must hear of
                have.unpersist()


def _who_has_what(table: SparkTable) -> Any:
    """Return a frame of people ``u`` and what they have, each once: attributes ``a``, and their values in steps ``s``.

    Attributes of a list are numbers. People who are not on the roster are left out. Where nobody may have several rows,
    whoever has some now is refused: the table is read again here, and what was seen before is no promise.
    """
    from pyspark.sql import functions

    vocabulary = table.vocabulary
    user, kind = spark_type(table.user_type), "int" if vocabulary is not None and vocabulary.is_numbered else "string"
    rows = mapped(table.rows, ReadSteps(table.shape), f"u {user}, a {kind}, s bigint")
    if vocabulary is not None and not vocabulary.is_numbered:
        kind, listed = "int", coded_list(rows.sparkSession, vocabulary)
        rows = rows.join(listed, "a", "left").where("a IS NULL OR code IS NOT NULL").selectExpr("u", "code AS a", "s")
    if table.listed:
        people = table.people
        rows = rows.join(functions.broadcast(people) if table.is_small else people, "u", "left_semi")
    have = rows.groupBy("u", "a").agg(functions.max("s").alias("s"), functions.count("*").alias("n"))
    if table.view.one_row_each:
        have = mapped(have, WithoutMarks(), f"u {user}, a {kind}, s bigint, n bigint")
    return have.select("u", "a", "s")


class FrameCounts(CountingTable):
    """Counts of a frame."""

    def __init__(self, table: SparkTable, have: Any) -> None:
        self._table = table
        self._have = have
        self._names: Texts | None = None

    @property
    def n_users(self) -> int:
        """How many people there are."""
        return self._table.n_users

    def texts(self) -> Texts:
        """Return the attributes that were counted: those of the list, or those that were found."""
        return self._names or ListedTexts(self._table.vocabulary or ())

    def count(self, plan: SurveyPlan, *, vocabulary: Vocabulary | None) -> ExactCounts:
        """Return exact counts of what ``plan`` asks for.

        Raises
        ------
        DataError
            If there are too many names, or the table changed.
        """
        at = boundaries_for(vocabulary)
        nothing = np.zeros(len(at), np.int64)
        weights = distances = nothing
        if "weights" in plan.topics:
            weights = self._cumulative(self._weights(), at, self.n_users)
        if "distances" in plan.topics:
            distances = self._cumulative(self._distances(plan), at * plan.resolution**2, self.n_users // 2)
        asks_names = not {"counts", "vocabulary", "directions"}.isdisjoint(plan.topics)
        attributes = self._attributes(vocabulary) if asks_names else np.zeros(len(self.texts()), np.int64)
        self._table.source.check_unchanged()  # now, because what is drawn is spent
        return ExactCounts(attributes, weights, distances)

    def _attributes(self, vocabulary: Vocabulary | None) -> Integers:
        """Return how many people have each attribute; where no list names them, take the names that are found."""
        counted = self._have.groupBy("a").count()
        if vocabulary is not None:
            found = np.zeros(len(vocabulary), np.int64)
            for piece in streamed(counted, "counting"):
                found[piece.column(0).to_numpy()] = piece.column(1).to_numpy()
            return found
        names, counts = [pa.chunked_array([], pa.string())], [np.empty(0, np.int64)]
        for piece in streamed(counted, "counting"):
            names.append(piece.column(0).cast(pa.string()))
            counts.append(piece.column(1).to_numpy())
            if sum(map(len, counts)) > MOST_NAMES:
                raise DataError(
                    "the table must have fewer different attributes than fit on the driver. Give a public list of "
                    "those that count as vocabulary (--vocabulary), and ask for counts."
                )
        self._names = _FoundTexts(pa.chunked_array([chunk for name in names for chunk in name.chunks], pa.string()))
        return np.concatenate(counts)

    def _weights(self) -> Any:
        """Return a frame of how many attributes people have, for those who have any."""
        return self._have.groupBy("u").count().selectExpr("count AS x")

    def _distances(self, plan: SurveyPlan) -> Any:
        """Return a frame of squared distances in steps, of pairs of whom somebody has anything.

        An attribute that only one of two has, with s, adds 2s² − s²; one that both have 2(s² + t²) − (s + t)². Whatever
        people Spark takes for a pair, if it had to find them again: it adds no less than 0, and no more than the square
        of the resolution.
        """
        from pyspark.sql import functions

        of_both = self._have.join(self._pairs(plan), "u").groupBy("pair", "a")
        between = f"greatest(0, least({plan.resolution**2}, 2 * sum(s * s) - sum(s) * sum(s)))"
        apart = of_both.agg(functions.expr(between).alias("x"))
        return apart.groupBy("pair").agg(functions.sum("x").alias("x")).select("x")

    def _pairs(self, plan: SurveyPlan) -> Any:
        """Return a frame of everybody ``u`` who is in a pair, and its number ``pair``.

        The first and the second by the order of their hashes are a pair, and so on. Places in this order are found
        within groups of hashes that begin alike, whose sizes come to the driver. They follow from the ids alone, so
        that it does not matter what Spark computes again.
        """
        from pyspark.sql import Window, functions

        key = functions.concat(functions.lit(order_key(plan)), functions.col("u").cast("string"))
        people = self._table.people.select("u", functions.sha2(key, 256).alias("h"))
        people = people.withColumn("start", functions.substring("h", 1, _PREFIX))
        groups = sorted((row[0], row[1]) for row in asked(people.groupBy("start").count().collect, "pairing people"))
        sizes = np.array([size for _, size in groups], np.int64)
        if sizes.sum() != self.n_users:
            raise DataError(CHANGED)
        before = pa.table({"start": [start for start, _ in groups], "before": np.cumsum(sizes) - sizes})
        known = functions.broadcast(frame_of(people.sparkSession, [before], "start string, before bigint"))
        number = functions.row_number().over(Window.partitionBy("start").orderBy("h", "u"))
        placed = people.withColumn("number", number).join(known, "start")
        pairs = placed.selectExpr("u", "shiftright(before + number - 1, 1) AS pair")
        return pairs.where(functions.col("pair") < self.n_users // 2)  # whoever is left over is in no pair

    def _cumulative(self, numbers: Any, at: Integers, total: int) -> Integers:
        """Return how many of ``total`` numbers are at most each boundary; those that a frame does not hold are 0."""
        from pyspark.sql import functions

        placed = mapped(numbers, PlaceNumbers(at), "place int, n bigint")
        rows = asked(placed.groupBy("place").agg(functions.sum("n")).collect, "counting")
        found = np.zeros(len(at) + 1, np.int64)
        for place, n in rows:
            found[place] = n
        found[0] += total - found.sum()  # the first boundary is 0
        return np.cumsum(found[: len(at)])

    def count_segments(self, users: pa.Array, segments: Integers, *, shape: tuple[int, int]) -> Integers:
        """Return how many of these people have each attribute of the list, by the number of their segment."""
        from pyspark.sql import functions

        user_type = self._table.user_type
        ids = users.cast(pa.int64() if user_type == "int64" else pa.string())
        told = pa.table({"u": ids, "segment": pa.array(segments, pa.int32())})
        labels = frame_of(self._have.sparkSession, [told], f"u {spark_type(user_type)}, segment int")
        joined = self._have.join(functions.broadcast(labels) if self._table.is_small else labels, "u")
        exact = np.zeros(shape, np.int64)
        for piece in streamed(joined.groupBy("segment", "a").count(), "counting"):
            segment, attribute, count = (column.to_numpy() for column in piece.columns)
            exact[segment, attribute] = count
        self._table.source.check_unchanged()
        return exact

    def count_buckets(self, buckets: Buckets) -> Integers:
        """Return how many people have each bucket."""
        exact = np.zeros(buckets.count, np.int64)
        for piece in streamed(self._in_buckets(buckets).groupBy("a").count(), "counting"):
            exact[piece.column(0).to_numpy()] = piece.column(1).to_numpy()
        self._table.source.check_unchanged()
        return exact

    def _in_buckets(self, buckets: Buckets) -> Any:
        """Return a frame of people ``u`` and the different buckets ``a`` of what they have."""
        listed = None if self._table.vocabulary is None else bucket_codes(ListedTexts(self._table.vocabulary), buckets)
        schema = f"u {spark_type(self._table.user_type)}, a int"
        return mapped(self._have.select("u", "a"), PutInBuckets(buckets, listed), schema).distinct()

    def count_pairs(
        self, column: NDArray[np.int32], *, size: int, members: int, key: str, buckets: Buckets | None
    ) -> Integers:
        """Return above the diagonal how many people have each two of ``size`` columns among their first ones."""
        from pyspark.sql import functions

        session = self._have.sparkSession
        codes = np.flatnonzero(column >= 0)
        told = pa.table({"a": pa.array(codes, pa.int32()), "place": pa.array(column[codes], pa.int32())})
        chosen = functions.broadcast(frame_of(session, [told], "a int, place int"))
        have = self._have if buckets is None else self._in_buckets(buckets)
        people = have.join(chosen, "a").groupBy("u").agg(functions.collect_list("place").alias("places"))
        hashed = functions.sha2(functions.concat(functions.lit(key), functions.col("u").cast("string")), 256)
        number = functions.conv(functions.substring(hashed, 1, KEY_DIGITS), 16, 10).cast("bigint")
        # Each task holds all counts and sends them on: few tasks, however many pieces Spark sorts in.
        people = people.select("places", number.alias("key")).coalesce(session.sparkContext.defaultParallelism)
        cells = mapped(people, CountPairs(size, members), "cell bigint, n bigint")
        counts = np.zeros(size * size, np.int64)
        for piece in streamed(cells.groupBy("cell").agg(functions.sum("n")), "counting"):
            counts[piece.column(0).to_numpy()] = piece.column(1).to_numpy()
        self._table.source.check_unchanged()
        return counts.reshape(size, size)


class _FoundTexts:
    """Texts of attributes that were found, as Arrow holds them."""

    def __init__(self, texts: pa.ChunkedArray) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def between(self, start: int, stop: int) -> list[str]:
        """Return the texts of the attributes ``start`` … ``stop`` − 1."""
        found: list[str] = self._texts.slice(start, stop - start).to_pylist()
        return found

    def at(self, codes: IntArray) -> list[str]:
        """Return the texts of these attributes."""
        found: list[str] = self._texts.take(pa.array(codes)).to_pylist()
        return found


@dataclass(frozen=True)
class WithoutMarks:
    """Yields who has what without the marks of rows, of which ``n`` says how many there are of each person.

    In Python, because Spark would leave the marks out before it has counted them.
    """

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition; raise DataError if somebody has several rows of the table."""
        for batch in batches:
            marks = batch.filter(batch.column("a").is_null())
            if marks.column("n").to_numpy().max(initial=0) > 1:
                raise DataError(CHANGED)
            yield batch.filter(batch.column("a").is_valid())


@dataclass(frozen=True, eq=False)
class PlaceNumbers:
    """Yields how many numbers ``x`` lie between which two boundaries: ``place`` is the first that is not below."""

    at: Integers

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition."""
        counts = np.zeros(len(self.at) + 1, np.int64)
        for batch in batches:
            places = np.searchsorted(self.at, batch.column(0).to_numpy(), side="left")
            counts += np.bincount(places, minlength=len(counts))
        found = np.flatnonzero(counts)
        yield pa.record_batch({"place": pa.array(found, pa.int32()), "n": pa.array(counts[found])})


@dataclass(frozen=True, eq=False)
class PutInBuckets:
    """Yields people and the buckets of their attributes, which are texts, or numbers whose buckets are ``listed``."""

    buckets: Buckets
    listed: NDArray[np.int32] | None

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition."""
        for batch in batches:
            names = batch.column(1)
            if self.listed is None:
                found = self.buckets.codes(names.to_pylist())
            else:
                found = self.listed[names.to_numpy(zero_copy_only=False)]
            yield pa.record_batch({"u": batch.column(0), "a": pa.array(found, pa.int32())})


@dataclass(frozen=True)
class CountPairs:
    """Yields in how many people two columns meet, from lists of each person's columns, in no order, and their keys."""

    size: int
    members: int

    def __call__(self, batches: Batches) -> Batches:
        """Go through a partition."""
        counts = np.zeros((self.size, self.size), np.int64)
        everyone = np.arange(self.size, dtype=np.int32)
        for batch in batches:
            lists = batch.column(0)
            starts = np.concatenate([[0], np.cumsum(lists.value_lengths().to_numpy(), dtype=np.int64)])
            keys = batch.column(1).to_numpy().astype(np.uint64)
            kernels.count_pairs(starts, lists.flatten().to_numpy(), everyone, keys, self.members, counts)
        flat = counts.reshape(-1)
        found = np.flatnonzero(flat)
        for start in range(0, len(found), _CELLS):
            some = found[start : start + _CELLS]
            yield pa.record_batch({"cell": pa.array(some), "n": pa.array(flat[some])})
