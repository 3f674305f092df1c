"""``covariance`` and ``assign_segments`` of a release by Spark's workers, each reading some parts."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dimly.analyst.release import Release
from dimly.analyst.segments.segments import Assigner, Segments
from dimly.analyst.structure.coordinates import Coordinates
from dimly.analyst.structure.denoise import Moments, moments_of
from dimly.errors import ParameterError
from dimly.release.parts import as_user_column
from dimly.release.reader import StoredSketches, open_folder
from dimly.spark.cluster import Batches, asked, mapped, need_spark

_MOST_SUMS = 16  # brought to the driver, each of dimension² numbers


def covariance(release: Release, *, session: Any = None) -> Moments:
    """Return mean and covariance of everybody's published point: the pass that denoising starts from.

    Unlike ``release.denoiser``, it leaves nobody out of a large release; pass it on as
    ``Denoiser.of(…, moments=covariance(release))``. Sums are of floats and added up in no fixed order: equal to the
    local ones but for the last digits.

    Parameters
    ----------
    release : Release
        Opened from a folder that all workers see.
    session : SparkSession, optional
        The active one by default.

    Raises
    ------
    ParameterError
        If the release is in memory, or of noisy distances, which place nobody anywhere.
    """
    sketches = _stored(release)
    Coordinates.of(sketches.plan)
    parts = _parts(session, sketches)
    sums = mapped(parts, _SumParts(str(sketches.path)), "sums binary")
    if parts.rdd.getNumPartitions() > _MOST_SUMS:
        sums = mapped(sums.repartition(_MOST_SUMS), _add, "sums binary")
    found = asked(lambda: [_unpacked(row.sums) for row in sums.toLocalIterator()], "reading the release")
    return reduce(add, found)


def assign_segments(release: Release, segments: Segments, *, session: Any = None) -> Any:
    """Return the segment of everybody in a release, as a DataFrame of ``user`` and ``segment``.

    Parameters
    ----------
    release : Release
        Opened from a folder that all workers see; the one that the segments are of, or a larger one by the same plan.
    segments : Segments
        Found by ``release.segments(…)``, which needs some of the people only.
    session : SparkSession, optional
        The active one by default.

    Returns
    -------
    DataFrame
        Lazy, which does no harm: it is about what is published. Segment −1: a saturated number, so that nothing is
        known. Otherwise as ``segments.labels``.

    Raises
    ------
    ParameterError
        If the release is in memory, or by another plan.
    """
    sketches = _stored(release)
    if segments._coordinates.plan.digest != sketches.plan.digest:
        raise ParameterError("segments must be of a release by the same plan. Find them in this one.")
    user = "string" if sketches.textual else "bigint"
    return mapped(
        _parts(session, sketches), _AssignParts(str(sketches.path), segments._assigner), f"user {user}, segment int"
    )


def _stored(release: Release) -> StoredSketches:
    sketches = release._sketches
    if not isinstance(sketches, StoredSketches):
        raise ParameterError("release must be one in a folder that all workers see, got one in memory. Publish it.")
    return sketches


def _parts(session: Any, sketches: StoredSketches) -> Any:
    """Return a frame of the numbers of all parts, some for each core."""
    need_spark()
    from pyspark.sql import SparkSession

    session = session or SparkSession.getActiveSession()
    if session is None:
        raise ParameterError("session must be a Spark session, got none, and none is active. Start one first.")
    tasks = min(sketches.n_parts, session.sparkContext.defaultParallelism)
    return session.range(0, sketches.n_parts, numPartitions=tasks)


def _numbers(batches: Batches) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


@lru_cache(maxsize=2)
def _opened(path: str) -> StoredSketches:
    return open_folder(Path(path))


@dataclass(frozen=True)
class _SumParts:
    path: str

    def __call__(self, batches: Batches) -> Batches:
        yield _packed(moments_of(_opened(self.path), parts=_numbers(batches)))


@dataclass(frozen=True)
class _AssignParts:
    path: str
    assigner: Assigner

    def __call__(self, batches: Batches) -> Batches:
        sketches = _opened(self.path)
        for index in _numbers(batches):
            users, rows = sketches.read_part(index)
            column = as_user_column(users, "text" if sketches.textual else "int64")
            yield pa.RecordBatch.from_arrays([column, pa.array(self.assigner(rows))], names=["user", "segment"])


def _add(batches: Batches) -> Batches:
    found = [_unpacked(piece.as_py()) for batch in batches for piece in batch.column(0)]
    if found:
        yield _packed(reduce(add, found))


def _packed(moments: Moments) -> pa.RecordBatch:
    numbers = np.concatenate([[float(moments.n_people)], moments.total, moments.products.reshape(-1)])
    return pa.RecordBatch.from_arrays([pa.array([numbers.tobytes()], pa.binary())], names=["sums"])


def _unpacked(packed: bytes) -> Moments:
    numbers = np.frombuffer(packed, np.float64)
    dimension = round((4 * len(numbers) - 3) ** 0.5 - 1) // 2  # 1 + d + d² numbers
    return Moments(int(numbers[0]), numbers[1 : dimension + 1], numbers[dimension + 1 :].reshape(dimension, dimension))
