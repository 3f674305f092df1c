"""A release is read without Dimly: by pandas, DuckDB, polars and Spark, for every published layout."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from tests.folders import people, small_parts, write
from tests.plans import plan_of
from tests.spark import spark, uses_spark

pd: Any = pytest.importorskip("pandas")  # ships no type information

__all__ = ["small_parts", "spark"]

Rows = dict[int | str, Any]
LAYOUTS = ["counting+laplace", "randomized-response", "noisy-distances"]


def by_pandas(folder: Path) -> Rows:
    frame = pd.read_parquet(folder)
    return {user: _plain(sketch) for user, sketch in zip(frame["user"].tolist(), frame["sketch"], strict=True)}


def by_duckdb(folder: Path) -> Rows:
    found = duckdb.read_parquet(f"{folder}/*.parquet")
    return {user: _plain(sketch) for user, sketch in found.fetchall()}


def by_polars(folder: Path) -> Rows:
    frame = pl.read_parquet(folder / "*.parquet")
    return {user: _plain(sketch) for user, sketch in frame.iter_rows()}


def _plain(sketch: Any) -> Any:
    return bytes(sketch) if isinstance(sketch, bytes | bytearray) else list(sketch)


def expected(mechanism: str, text: bool, target: Path) -> tuple[Path, Rows]:
    sketches = people(plan_of(mechanism), text=text)
    path = write(target, sketches)
    n = len(sketches)
    if mechanism == "noisy-distances":
        full = np.zeros((n, n), np.int16)
        full[np.triu_indices(n, 1)] = sketches.values
        rows = [full[i, i + 1 :].tolist() for i in range(n)]
    elif mechanism == "randomized-response":
        rows = [row.tobytes() for row in sketches.values]
    else:
        rows = sketches.values.tolist()
    return path / "sketches", dict(zip(sketches.users.tolist(), rows, strict=True))


@pytest.mark.parametrize("mechanism", LAYOUTS)
@pytest.mark.parametrize("text", [False, True], ids=["int64", "text"])
@pytest.mark.parametrize("read", [by_pandas, by_duckdb, by_polars])
def test_others_read_the_same(
    read: Callable[[Path], Rows], text: bool, mechanism: str, small_parts: int, tmp_path: Path
) -> None:
    folder, rows = expected(mechanism, text, tmp_path / "out")
    found = read(folder)
    assert found == rows
    assert list(found) == list(rows)


@uses_spark
@pytest.mark.parametrize("mechanism", LAYOUTS)
@pytest.mark.parametrize("text", [False, True], ids=["int64", "text"])
def test_spark_reads_the_same(spark: Any, text: bool, mechanism: str, small_parts: int, tmp_path: Path) -> None:
    folder, rows = expected(mechanism, text, tmp_path / "out")
    frame = spark.read.parquet(str(folder))
    assert frame.schema.simpleString() == (
        f"struct<user:{'string' if text else 'bigint'},"
        f"sketch:{'binary' if mechanism == 'randomized-response' else 'array<smallint>'}>"
    )
    assert {row.user: _plain(row.sketch) for row in frame.collect()} == rows
    # Rows are found by id without reading every part.
    wanted = next(iter(rows))
    assert [_plain(row.sketch) for row in frame.where(frame.user == wanted).collect()] == [rows[wanted]]


@uses_spark
def test_wide_numbers_and_public_lists_are_read_too(spark: Any, tmp_path: Path) -> None:
    plan = plan_of("gaussian+gaussian", dtype="int32")
    sketches = people(plan)
    path = write(tmp_path / "out", sketches)
    rows = plan.rows([str(i) for i in range(100)]).to_dense().tolist()
    for read in (
        lambda file: pd.read_parquet(file).to_dict("list"),
        lambda file: {
            name: [row[i] for row in duckdb.read_parquet(str(file)).fetchall()]
            for i, name in enumerate(duckdb.read_parquet(str(file)).columns)
        },
        lambda file: pl.read_parquet(file).to_dict(as_series=False),
        lambda file: {
            name: [row[name] for row in spark.read.parquet(str(file)).collect()]
            for name in spark.read.parquet(str(file)).columns
        },
    ):
        found = read(path / "sketches" / "part-000000.parquet")
        assert [list(row) for row in found["sketch"]] == sketches.values.tolist()
        assert found["user"] == sketches.users.tolist()
        found = read(path / "projection.parquet")
        assert found["attribute"] == [str(i) for i in range(100)]
        assert [list(row) for row in found["row"]] == rows
        assert read(path / "attributes.parquet")["attribute"] == [str(i) for i in range(100)]
