"""Every part finds a task of its own."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.spark import spark, uses_spark

import dimly.spark
from dimly.release.parts import excess_of
from dimly.spark import table as placing
from dimly.spark.table import n_tasks, places, spark_hash
from dimly.spark.workers.private_rows import DigestPeople

__all__ = ["spark"]  # a fixture


@uses_spark
def test_the_hash_is_sparks_own(spark: Any) -> None:
    rows = spark.range(-3, 200).selectExpr("CAST(id AS INT) AS i", "hash(CAST(id AS INT)) AS h").collect()
    numbers = np.array([row.i for row in rows], np.int32)
    assert spark_hash(numbers).tolist() == [row.h for row in rows]


@pytest.mark.parametrize("n_parts", [1, 2, 200, 3_000])
def test_parts_are_dealt_out_evenly(n_parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "_MOST_TASKS", 256)
    found, tasks = places(n_parts), n_tasks(n_parts)
    assert tasks == min(n_parts, 256)
    assert len(set(found.tolist())) == n_parts
    assert (spark_hash(found).astype(int) % tasks).tolist() == [part % tasks for part in range(n_parts)]


def test_more_numbers_are_tried_if_some_task_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def hash_of(numbers: Any) -> Any:
        tried.append(len(numbers))
        return np.minimum(numbers // 2_000, 2).astype(np.int32)

    monkeypatch.setattr(placing, "spark_hash", hash_of)
    assert places(3).tolist() == [0, 2_000, 4_000]
    assert len(tried) > 1


def test_the_room_is_honest_about_what_it_offers() -> None:
    for name in dimly.spark.__all__:
        assert callable(getattr(dimly.spark, name))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        dimly.spark.nonsense  # noqa: B018


@pytest.mark.parametrize(("piece", "kind"), [(1, "string"), (3, "large_string"), (100, "string")])
def test_the_length_of_ids_is_known_of_every_row_group(monkeypatch: pytest.MonkeyPatch, piece: int, kind: str) -> None:
    """Partitions and pieces end anywhere, row groups after each fourth person and parts after each eighth."""
    pyspark = pytest.importorskip("pyspark")
    lengths = np.random.default_rng(1).integers(1, 3_000, 45)
    ids = pa.array([f"{i:02d}{'x' * length}" for i, length in enumerate(lengths.tolist())]).cast(kind)
    starts, found, n = (0, 5, 5, 30), Counter[int](), 0
    for number, (start, stop) in enumerate(zip(starts, (*starts[1:], 45), strict=True)):
        task = SimpleNamespace(partitionId=lambda number=number: number)
        monkeypatch.setattr(pyspark.TaskContext, "get", lambda task=task: task)
        some = [pa.record_batch({"u": ids.slice(at, min(piece, stop - at))}) for at in range(start, stop, piece)]
        for batch in DigestPeople(starts, 8, 4)(iter(some)):
            (row,) = batch.to_pylist()
            found.update({row["position"] // 4 + i: excess for i, excess in enumerate(row["excess"])})
            n += row["n"]
    assert n == 45
    assert found == {group: excess_of(ids.slice(4 * group, 4)) for group in range(12)}
