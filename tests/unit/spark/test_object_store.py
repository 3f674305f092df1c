"""Releases in an object store: Hadoop's own connector for S3 and a server on this machine. Run by ``make test-s3``."""

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.engine import carried, silence
from tests.engines.tables import check, holdings, plan_for
from tests.folders import small_parts
from tests.spark import spark, uses_spark
from tests.unit.spark.failing_workers import failing_once, in_worker
from tests.unit.spark.fetching import fetched

import dimly
from dimly.curator.ledger.ledger import Ledger
from dimly.curator.options import Options
from dimly.errors import DimlyError, ParameterError
from dimly.release.format import MANIFEST
from dimly.spark import table as placing
from dimly.spark.file_frames import read_files
from dimly.spark.publishing import publish_frame

__all__ = ["small_parts", "spark"]  # fixtures

_SERVER = os.environ.get("DIMLY_TESTS_S3_SERVER")
PLAN = plan_for("hashing+laplace", listed=False)
LONG: dict[str, Any] = {"user": "person", "attribute": "page"}
PEOPLE = holdings()
pytestmark = [
    uses_spark,
    pytest.mark.skipif(_SERVER is None, reason="needs a connector and a server that are large: make test-s3"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Give the address and the log of an S3 server that forgets everything at the end."""
    assert _SERVER is not None
    log = tmp_path_factory.mktemp("s3") / "log"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with log.open("wb") as written:
        command = [_SERVER, "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=written, stderr=written)  # noqa: S603 - our own command
    address = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 60
        while True:
            try:
                urlopen(address).close()
                break
            except OSError:
                assert time.monotonic() < end, "the server does not start"
                time.sleep(0.2)
        yield address, log
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def bucket(spark: Any, server: tuple[str, Path], request: pytest.FixtureRequest) -> str:
    """Return the address of a new bucket."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in {
        "endpoint": server[0],
        "path.style.access": "true",
        "access.key": "a",
        "secret.key": "b",
        "attempts.maximum": "2",
    }.items():
        settings.set(f"fs.s3a.{name}", value)
    name = re.sub(r"[^a-z]+", "-", request.node.name)[:40].strip("-")
    urlopen(Request(f"{server[0]}/{name}", method="PUT")).close()  # noqa: S310
    return f"s3a://{name}"


@pytest.fixture
def frame(spark: Any) -> Any:
    """Return a table as a frame."""
    return spark.createDataFrame(
        [(who, what) for who, held in PEOPLE.items() for what in held], "person string, page string"
    )


def found(spark: Any, bucket: str) -> list[str]:
    """Return the names of all objects in a bucket."""
    path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path
    files = path(bucket).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    listed, names = files.listFiles(path(f"{bucket}/"), True), []
    while listed.hasNext():
        names.append(str(listed.next().getPath()).removeprefix(f"{bucket}/"))
    return sorted(names)


@pytest.mark.usefixtures("small_parts")
def test_a_release_in_a_bucket_is_like_any_other(
    spark: Any, frame: Any, bucket: str, server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "_MOST_TASKS", 2)
    words = carried(silence(PLAN))
    published = publish_frame(frame, PLAN, Options(out=f"{bucket}/new/out", **LONG), words=words)
    parts = [f"sketches/part-{index:06d}.parquet" for index in range(4)]
    assert found(spark, bucket) == [f"new/out/{name}" for name in ("README.md", MANIFEST, *parts)]
    copy = fetched(spark, str(published.path), tmp_path)
    check(dimly.open_release(copy), PEOPLE)
    publish_frame(frame, PLAN, Options(out=tmp_path / "here", **LONG), words=words)
    for name in (MANIFEST, *parts):
        assert (copy / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    put = re.findall(r"PUT /[a-z-]+/new/out/(\S+)", server[1].read_text(errors="replace"))
    assert put[-1] == MANIFEST  # when all else was there
    assert put.count(MANIFEST) == 1
    with pytest.raises(ParameterError, match=r"out must be a new folder, but .* exists"):
        publish_frame(frame, PLAN, Options(out=f"{bucket}/new/out", **LONG), words=words)


@pytest.mark.usefixtures("small_parts")
def test_only_the_attempt_that_counts_is_published(
    spark: Any, frame: Any, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "_MOST_TASKS", 1)
    log = tmp_path / "log"
    words = in_worker(failing_once(log), carried(silence(PLAN)))
    published = publish_frame(frame, PLAN, Options(out=f"{bucket}/out", **LONG), words=words)
    assert log.read_text().split() == ["0"] * 3 + ["1"] * 4
    check(dimly.open_release(fetched(spark, str(published.path), tmp_path)), PEOPLE)
    assert len(found(spark, bucket)) == 5


def test_a_failed_job_leaves_nothing_and_stays_charged(spark: Any, frame: Any, bucket: str, tmp_path: Path) -> None:
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", epsilon=3.0)

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    words = in_worker(fail, carried(silence(PLAN)))
    with pytest.raises(DimlyError, match=r"A worker failed while publishing: Input/output.*Charge 1 stays"):
        publish_frame(
            frame,
            PLAN,
            Options(out=f"{bucket}/out", ledger=tmp_path / "ledger.db", dataset="visits", **LONG),
            words=words,
        )
    assert found(spark, bucket) == []


def test_a_bucket_that_is_not_there_is_named(frame: Any, bucket: str) -> None:
    with pytest.raises(DimlyError, match=r"s3a://none/out cannot be written: UnknownStoreException\."):
        publish_frame(frame, PLAN, Options(out="s3a://none/out", **LONG))


def test_parquet_is_read_from_a_bucket(spark: Any, bucket: str, tmp_path: Path) -> None:
    path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path
    files = path(bucket).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    for name, table in {
        "a": pa.table({"person": ["ada"]}),
        "b": pa.table({"person": ["bob"], "page": ["tea"]}),
    }.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
        files.copyFromLocalFile(path(str(tmp_path / f"{name}.parquet")), path(f"{bucket}/visits/{name}.parquet"))
    rows = read_files(spark, f"{bucket}/visits").frame.select("person", "page").collect()
    assert sorted(tuple(row) for row in rows) == [("ada", None), ("bob", "tea")]
