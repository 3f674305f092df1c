"""Files as Spark reads them: all that the local engine reads, or a refusal; nothing is left out in silence."""

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.engine import LocalEngine, SparkEngine, carried, silence
from tests.engines.tables import check, plan_for
from tests.spark import spark, uses_spark

from dimly.curator.options import Options
from dimly.curator.tables.csv import CsvOptions
from dimly.curator.tables.input_files import Stamp
from dimly.errors import DataError, DimlyError, ParameterError
from dimly.spark import file_frames as files
from dimly.spark.file_frames import FrameSource, read_files
from dimly.spark.publishing import publish_frame

__all__ = ["spark"]  # a fixture

PLAN = plan_for("hashing+laplace", listed=False)
LONG: dict[str, Any] = {"user": "person", "attribute": "page"}
pytestmark = uses_spark


def rows_of(source: FrameSource) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in source.frame.collect())


def write(path: Path, **columns: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return str(path)


def test_parquet_is_read_from_paths_patterns_folders_and_addresses(spark: Any, tmp_path: Path) -> None:
    names = [
        write(tmp_path / "in" / f"{name}.parquet", person=[name]) for name in ("a [1]", "b{1,2}", "c\\*?", "d %20")
    ]
    expected = sorted((Path(name).stem,) for name in names)
    for given in (names, str(tmp_path / "in" / "*.parquet"), str(tmp_path / "in"), [*names, names[0]]):
        source = read_files(spark, given)
        assert rows_of(source) == expected
        assert source.cells == "typed"
        assert len(source.files) == len(names)
    write(tmp_path / "far" / "day=007" / "e.parquet", person=["e"])
    write(tmp_path / "far" / "day=8" / "f.parquet", person=["f"], more=[1])
    frame = read_files(spark, (tmp_path / "far").as_uri()).frame
    assert {"person", "more", "day"} == set(frame.columns)  # of all files, and not of one
    assert frame.count() == 2


def test_what_spark_would_leave_out_or_misread_is_refused(spark: Any, tmp_path: Path) -> None:
    def refused(match: str, *names: str, kind: type[Exception] = ParameterError) -> None:
        with pytest.raises(kind, match=match):
            read_files(spark, list(names))

    plain = write(tmp_path / "a.parquet", person=["a"], page=["tea"])
    for name in ("_b", ".b", "b:c"):  # Spark skips the first two and says nothing
        refused(
            "must have a name that Spark reads", plain, write(tmp_path / f"{name}.parquet", person=["b"], page=["b"])
        )
    refused("files must have the same columns", plain, write(tmp_path / "more.parquet", person=["b"]))
    other = write(tmp_path / "other.parquet", person=["b"], page=[7])
    refused(r"columns of the same types, but 'page' of .*other\.parquet", plain, other)
    times = write(tmp_path / "times.parquet", person=["b"], page=[datetime.time(1, 2)])
    refused("must be Parquet that Spark reads, but it is not", times, kind=DataError)
    (tmp_path / "t.sqlite").touch()
    refused("data must be Parquet, CSV or JSON lines with --engine spark, got SQLite", str(tmp_path / "t.sqlite"))
    refused("data must be Parquet where it is an address, got s3a://bucket/t.csv.gz", "s3a://bucket/t.csv.gz")
    refused("data must be paths or addresses, got some of each", plain, "s3a://bucket/a.parquet")
    refused("none must be Parquet that Spark can read, but it is not", (tmp_path / "none").as_uri(), kind=DataError)


def test_types_that_are_alike_in_parquet_are_alike(spark: Any, tmp_path: Path) -> None:
    texts = pa.array(["tea", "jam"])
    kinds = [texts, texts.dictionary_encode(), texts.cast(pa.large_string()), texts.cast(pa.string_view())]
    names = [write(tmp_path / f"{i}.parquet", person=["a", "b"], page=kind) for i, kind in enumerate(kinds)]
    assert len(rows_of(read_files(spark, names))) == 8
    lists = [pa.array([["tea"]]), pa.array([["tea"]], pa.large_list(pa.large_string()))]
    names = [write(tmp_path / f"lists-{i}.parquet", person=["a"], pages=kind) for i, kind in enumerate(lists)]
    assert len(rows_of(read_files(spark, names))) == 2


def test_csv_is_text_as_it_is_written(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'person,"odd `name`, 1"\n007,"two\nlines"\n7,\n8,""\n')
    (tmp_path / "b.csv").write_bytes('"odd `name`, 1";person\n né ;1e3\n'.encode("utf-16"))
    source = read_files(spark, [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")])
    assert source.frame.columns == ["person", "odd `name`, 1"]
    assert source.cells == "text"
    expected = [("007", "two\nlines"), ("1e3", " né "), ("7", None), ("8", None)]
    assert rows_of(source) == expected
    (tmp_path / "c.txt").write_bytes(b"person~page\na,b~'x'\n")
    options = CsvOptions(delimiter="~", quote="")
    assert rows_of(read_files(spark, str(tmp_path / "c.txt"), csv=options)) == [("a,b", "'x'")]


DAMAGED = [
    ("t.csv", b"person,page\nada,tea\nZelda-Q7\n"),
    ("t.csv", b"person,page\nada,tea\nZelda-Q7,tea,jam\n"),
    ("t.csv", b'person,page\nada,tea\n"Zelda-Q7" x,tea\n'),
    ("t.csv", b"person,page\nada," + b"tea " * 70_000 + b"\nZelda-Q7,\xff\n"),
    ("t.jsonl", b'{"person": "ada", "page": "tea"}\n{"person": "Zelda-Q7", "page": \n'),
    ("t.jsonl", b'{"person": "ada", "page": "tea"}\n["Zelda-Q7"]\n'),
    ("t.jsonl", b"{}\n"),
    ("t.jsonl", b'{"person": "ada", "Person": "bob"}\n'),
]


def numbers(_: object, n: int) -> Any:
    return [pa.record_batch({"id": pa.array(range(n))})]


def run_here(batches: Any, work: Callable[[Any], Any], _: str) -> Any:
    """Do what a worker would, in this process; whoever looks finds a frame of what came of it."""
    found = list(work(iter(batches)))
    rows = [SimpleNamespace(**row) for batch in found for row in batch.to_pylist()]
    return SimpleNamespace(distinct=lambda: SimpleNamespace(collect=lambda: rows))


@pytest.mark.parametrize(("name", "content"), DAMAGED)
def test_damaged_files_are_refused_in_the_local_engines_words(
    name: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_numbers", numbers)
    monkeypatch.setattr(files, "mapped", run_here)
    (tmp_path / name).write_bytes(content)
    refusals = []
    for read in (
        lambda: LocalEngine().publish(tmp_path / name, PLAN, out=tmp_path / "out", **LONG),
        lambda: read_files(None, str(tmp_path / name)),
    ):
        with pytest.raises(DimlyError) as caught:
            read()
        assert "Zelda" not in str(caught.value)
        refusals.append((type(caught.value), str(caught.value)))
    assert refusals[0] == refusals[1]


def test_so_they_are_by_workers(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(DAMAGED[0][1])
    said = []
    for engine in (LocalEngine(), SparkEngine()):
        with pytest.raises(DataError) as caught:
            engine.publish(tmp_path / "t.csv", PLAN, out=tmp_path / "out", **LONG)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert os.listdir(tmp_path) == ["t.csv"]


def test_json_keeps_every_digit_and_finds_every_name(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"person": 12345678901234567890123, "page": ["tea", 7]}\n', encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"person": "007", "page": null}\n\n{"late": true}\n', encoding="utf-8")
    (tmp_path / "c.jsonl").touch()
    source = read_files(spark, str(tmp_path / "*.jsonl"))
    assert source.frame.columns == ["late", "page", "person"]
    options: dict[str, Any] = {"user": "person", "attributes": "page", "nulls": "drop"}
    publish_frame(source, PLAN, Options(out=tmp_path / "out", **options), words=carried(silence(PLAN)))
    local = LocalEngine().publish(str(tmp_path / "*.jsonl"), PLAN, out=tmp_path / "local", **options)
    assert (tmp_path / "out" / "manifest.json").read_bytes() == (tmp_path / "local" / "manifest.json").read_bytes()
    check(local, {"12345678901234567890123": {"tea": 1.0, "7": 1.0}, "007": {}})


def test_files_that_change_meanwhile_are_refused(spark: Any, tmp_path: Path) -> None:
    source = read_files(spark, write(tmp_path / "t.parquet", person=["ada"], page=["tea"]))
    os.utime(tmp_path / "t.parquet", ns=(1, 1))
    with pytest.raises(DataError, match="must not change while it is read, but it did"):
        publish_frame(source, PLAN, Options(out=tmp_path / "out", **LONG), words=carried(silence(PLAN)))
    assert os.listdir(tmp_path) == ["t.parquet"]


def test_a_file_that_a_worker_does_not_see_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("person\nada\n", encoding="utf-8")
    work = files._ReadFiles((Stamp.of(path),), ("person",), "CSV", CsvOptions())
    assert [batch.to_pylist() for batch in work(iter(numbers(None, 1)))] == [[{"person": "ada"}]]
    os.utime(path, ns=(1, 1))
    with pytest.raises(DataError, match=r"t\.csv must be the same file for the driver and all workers"):
        list(work(iter(numbers(None, 1))))
    path.unlink()
    with pytest.raises(DataError, match=r"t\.csv must be the same file for the driver and all workers"):
        list(work(iter(numbers(None, 1))))
