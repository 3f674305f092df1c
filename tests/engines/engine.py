"""What the contract asks of an engine: one way in, whatever runs behind it."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import tests.streams
from tests.spark import session, use_workers
from tests.streams import NO_FLIPS, NO_NOISE

from dimly.analyst.release import Release, open_release
from dimly.curator.options import Options
from dimly.curator.publication import publish_table
from dimly.curator.randomness import WordSource
from dimly.curator.tables.csv import CsvOptions
from dimly.curator.tables.formats import arrow_data
from dimly.mechanisms import Plan
from dimly.release import format as layout

_AS_WRITTEN: Final = CsvOptions()
_MOST_USERS = layout._MOST_USERS  # before any test changes it


class Engine(Protocol):
    """Publishes tables with injected words, by default such that no noise is added."""

    def publish(self, source: Any, plan: Plan, *, words: WordSource | None = None, **options: Any) -> Release:
        """Publish into the folder ``out``, or grow a release; the options are those of :func:`dimly.publish`."""


def silence(plan: Plan) -> WordSource:
    """Return words by which a plan adds no noise."""
    return NO_FLIPS if plan.dtype == "bit" else NO_NOISE


class LocalEngine:
    """DuckDB, threads and Parquet in this process."""

    def publish(self, source: Any, plan: Plan, *, words: WordSource | None = None, **options: Any) -> Release:
        """Publish, and open what was made."""
        options = {"memory": 1 << 30, "threads": 2} | options
        published = publish_table(source, plan, Options(**options), words=lambda: words or silence(plan))
        assert published.path == Path(options.get("append") or options["out"])
        release = open_release(published.path)
        assert not release.private  # injected words leave their stamp
        return release


class SparkEngine:
    """A Spark of two threads, whose workers are processes of their own."""

    def publish(self, source: Any, plan: Plan, *, words: WordSource | None = None, **options: Any) -> Release:
        """Publish, and open what was made."""
        from dimly.spark.publishing import publish_frame  # noqa: PLC0415 - only where there is a Spark

        options.pop("threads", None)  # Spark's own affair
        with tempfile.TemporaryDirectory() as folder:
            dialect = {name: options.pop(name) for name in ("encoding", "escape") if name in options}
            frame = frame_of(source, Path(folder), CsvOptions(**dialect))
            published = publish_frame(frame, plan, Options(**options), words=carried(words or silence(plan)))
        assert published.path == Path(options.get("append") or options["out"])
        release = open_release(published.path)
        assert not release.private
        return release


def frame_of(source: Any, folder: Path, csv: CsvOptions = _AS_WRITTEN) -> Any:
    """Return files as the command reads them, or a table as a DataFrame in three pieces, one of them empty."""
    if isinstance(source, str | Path | list):
        from dimly.spark.file_frames import read_files  # noqa: PLC0415 - only where there is a Spark

        return read_files(session(), [str(source)] if isinstance(source, Path) else source, csv=csv)
    table = arrow_data(source)
    assert isinstance(table, pa.Table)
    half = table.num_rows // 2
    for name, piece in (("a", table[:half]), ("b", table[half:]), ("c", table[:0])):
        pq.write_table(piece, folder / f"{name}.parquet")
    return session().read.parquet(str(folder))


def carried(words: WordSource) -> Callable[[bytes], WordSource]:
    """Return what makes these words on a worker, which knows no tests, and cuts parts as they are cut here."""
    from pyspark import cloudpickle  # noqa: PLC0415

    cloudpickle.register_pickle_by_value(tests.streams)  # type: ignore[no-untyped-call]
    most_users = layout._MOST_USERS
    if most_users != _MOST_USERS:
        use_workers(f"parts of {most_users}")  # not those of other tests, which would go on to cut small parts

    def make(_: bytes) -> WordSource:
        from dimly.release import format as of_worker  # noqa: PLC0415

        of_worker._MOST_USERS = most_users  # type: ignore[misc,unused-ignore]
        return words

    make.__module__ = "__main__"  # so that it travels as it is, not by name
    return make


ENGINES: Final[dict[str, Engine]] = {"local": LocalEngine(), "Spark": SparkEngine()}
