"""Every part finds a task of its own."""

from typing import Any

import numpy as np
import pytest
from tests.spark import spark, uses_spark

import dimly.spark
from dimly.spark import table as placing
from dimly.spark.table import n_tasks, places, spark_hash

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
