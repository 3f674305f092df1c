"""Passes over a release by workers: equal to the local ones."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.folders import people, small_parts, write
from tests.plans import plan_of
from tests.spark import spark, uses_spark

from dimly.analyst.release import Release, open_release
from dimly.analyst.segments.segments import Segments
from dimly.analyst.structure.denoise import Denoiser, Moments, moments_of
from dimly.errors import MissingExtraError, ParameterError
from dimly.release import Sketches
from dimly.spark import analysis, assign_segments, covariance

__all__ = ["small_parts", "spark"]  # fixtures


@pytest.fixture
def release(tmp_path: Path) -> Release:
    """Return a release whose ids are text and one of whose people is saturated."""
    sketches = people(plan_of("counting+laplace"), text=True)
    values = sketches.values.copy()
    values[3, 0] = 2**15 - 1
    return open_release(write(tmp_path / "out", Sketches(sketches.plan, sketches.users, values)))


def same(found: Moments, local: Moments) -> None:
    assert found.n_people == local.n_people == 29
    np.testing.assert_allclose(found.mean, local.mean, rtol=1e-12)
    np.testing.assert_allclose(found.covariance, local.covariance, rtol=1e-9, atol=1e-12)


def numbers(*some: int) -> Any:
    return iter([pa.record_batch({"id": pa.array(some, pa.int64())})])


@uses_spark
def test_covariance_is_the_local_one(spark: Any, release: Release) -> None:
    found = covariance(release, session=spark)
    same(found, moments_of(release._sketches))
    denoiser = Denoiser.of(release._sketches, moments=found)
    np.testing.assert_allclose(denoiser.gains, release.denoiser.gains, rtol=1e-5)


@uses_spark
def test_segments_are_the_local_ones(spark: Any, release: Release) -> None:
    segments = release.segments(3)
    rows = assign_segments(release, segments).collect()
    assert {row.user: row.segment for row in rows} == labels_by_user(release, segments)
    assert -1 in segments.labels


def labels_by_user(release: Release, segments: Segments) -> dict[Any, int]:
    return dict(zip(release.users.tolist(), segments.labels.tolist(), strict=True))


@pytest.mark.usefixtures("small_parts")
def test_parts_of_a_release_add_up(release: Release) -> None:
    path = str(release._sketches.path)  # type: ignore[union-attr]
    sums = [batch for some in ((0, 2), (1,), (3,)) for batch in analysis._SumParts(path)(numbers(*some))]
    (added,) = analysis._add(iter(sums))
    same(analysis._unpacked(added.column(0)[0].as_py()), moments_of(release._sketches))
    assert not list(analysis._add(iter(())))
    segments = release.segments(3)
    found = pa.Table.from_batches(analysis._AssignParts(path, segments._assigner)(numbers(2, 0, 3, 1)))
    users, labels = (column.to_pylist() for column in found.columns)
    assert dict(zip(users, labels, strict=True)) == labels_by_user(release, segments)


@uses_spark
def test_many_sums_are_added_by_the_workers(spark: Any, release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "_MOST_SUMS", 1)
    path = str(release._sketches.path)  # type: ignore[union-attr]
    monkeypatch.setattr(analysis, "_parts", lambda *_: spark.createDataFrame([(0,)], "id bigint").repartition(2))
    same(covariance(release), moments_of(open_release(path)._sketches))


def test_what_cannot_be_asked(release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory = Release(people(plan_of("counting+laplace")))
    with pytest.raises(ParameterError, match="release must be one in a folder that all workers see, got one in memory"):
        covariance(in_memory)
    other = open_release(write(tmp_path / "other", people(plan_of("hashing+laplace"))))
    with pytest.raises(ParameterError, match="segments must be of a release by the same plan"):
        assign_segments(other, release.segments(2))
    distances = open_release(write(tmp_path / "distances", people(plan_of("noisy-distances"))))
    with pytest.raises(ParameterError, match="noisy"):
        covariance(distances)
    pyspark = pytest.importorskip("pyspark.sql")
    monkeypatch.setattr(pyspark.SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(ParameterError, match="session must be a Spark session, got none, and none is active"):
        covariance(release)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dimly\[spark\]'"):
        covariance(release)
