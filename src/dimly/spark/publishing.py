"""Publishing from Spark: the workers read, perturb and write; the driver knows who goes where, charges, and renames.

It writes a release and never hands back a lazy frame of sketches: each action on one would draw new noise, and spend
the budget again.
"""

import contextlib
import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Unpack, overload
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from dimly.analyst.release import Release
from dimly.api import PublishOptions, open_release
from dimly.curator.job import Job
from dimly.curator.progress import Progress
from dimly.curator.publishing_tables import Public, Published, ReleaseParts, publish_by, rehearse
from dimly.curator.randomness import Keystream, WordSource, is_secret
from dimly.errors import DataError, ParameterError, PrivacyWarning
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.plan import Plan
from dimly.release.layout import part_path
from dimly.release.parts import FileRecord, WrittenPart
from dimly.release.staging import full_disk
from dimly.release.writer import ReleaseWriter
from dimly.spark.files import FrameSource
from dimly.spark.frames import asked, check_frame, frame_of, mapped
from dimly.spark.hadoop import HadoopFolder, is_address
from dimly.spark.placing import n_tasks
from dimly.spark.reading import PlacePeople, PlaceRows
from dimly.spark.remote import RemoteWriter
from dimly.spark.table import SparkTable, open_frame, spark_type
from dimly.spark.writing import WRITTEN, SendParts, WriteParts

_OF_FILES = ("table", "query", "delimiter", "quote", "escape", "encoding")
_OF_ONE_MACHINE = ("memory", "threads", "temp")
_FOLDERS = ("out", "append", "update")
_SMALL_LIST = 1 << 23  # bytes of a vocabulary that every worker may hold


@overload
def publish(frame: Any, plan: Plan, *, dry_run: Literal[True], **options: Unpack[PublishOptions]) -> Published: ...
@overload
def publish(
    frame: Any, plan: Plan, *, dry_run: Literal[False] = False, **options: Unpack[PublishOptions]
) -> Release | Published: ...


def publish(frame: Any, plan: Plan, *, dry_run: bool = False, **options: Unpack[PublishOptions]) -> Release | Published:
    """Publish a Spark DataFrame by ``plan``, with fresh secret noise, into a release folder.

    The release is the one that :func:`dimly.publish` makes: same format, same manifest, same charge, same errors. The
    frame is computed twice, to check it and to publish it: if it is costly or not always the same, write it to files
    first.

    Parameters
    ----------
    frame : DataFrame
        Of a classic session, Spark 3.5 or later.
    plan : Plan
        Made before the table was looked at.
    dry_run : bool, default=False
        Check everything, say what it would cost, and draw no noise.
    **options
        Those of :func:`dimly.publish`, but for the ones about reading files and matrices and those about the resources
        of one machine. ``out`` is a path, or a ``file:`` address, that the driver and all workers see as the same
        folder; or the address of a new folder in any file system that Spark can write to, such as ``hdfs://…``.
        ``roster`` may be a DataFrame, too.

    Returns
    -------
    Release
        Opened at ``out``. After a dry run, and where ``out`` is an address, a :class:`Published`: copy the folder to
        this machine to open it.

    Raises
    ------
    ParameterError
        If the call cannot work.
    DataError
        If the table does not fit the plan. The text holds nothing of the table.
    BudgetError
        If the ledger does not allow it.
    DimlyError
        If Spark fails. Nothing is visible then.
    """
    published = publish_frame(frame, plan, dry_run=dry_run, **options)
    for text in published.warnings:
        warnings.warn(text, PrivacyWarning, stacklevel=2)
    return open_release(published.path) if isinstance(published.path, Path) else published


def publish_frame(
    frame: Any, plan: Plan, *, words: Callable[[], WordSource] = Keystream, **arguments: Any
) -> Published:
    """Publish as :func:`publish` does, a frame or a :class:`~dimly.spark.files.FrameSource`; return what was done.

    ``words`` is for tests: a release made with anything but fresh keystreams is stamped as not private.
    """
    source = frame if isinstance(frame, FrameSource) else FrameSource(frame)
    check_frame(source.frame, "frame")
    out = arguments.get("out")
    if out is None or not is_address(out):
        return _publish(source, plan, words, arguments)
    if not isinstance(out, str):
        raise ParameterError(
            f"out must be text where it is an address, got a {type(out).__name__}, which loses slashes."
        )
    for name in ("overwrite", "append", "update"):
        if arguments.get(name):
            raise ParameterError(
                f"{name} must be left out where out is an address: releases elsewhere are only made anew."
            )
    folder = HadoopFolder(source.frame.sparkSession, out)
    if arguments.get("dry_run"):
        folder.check()
        return _publish(source, plan, words, arguments | {"out": None})
    with tempfile.TemporaryDirectory() as local:
        there = Path(local) / "release"
        published = _publish(
            source, plan, words, arguments | {"out": there}, writing=lambda: RemoteWriter(folder, there, plan)
        )
    return replace(published, path=folder.address)


def _publish(
    source: FrameSource,
    plan: Plan,
    words: Callable[[], WordSource],
    arguments: dict[str, Any],
    *,
    writing: Callable[[], ReleaseWriter] | None = None,
) -> Published:
    job = Job(plan, arguments | {name: _folder(name, arguments[name]) for name in _FOLDERS if arguments.get(name)})
    job.check_table()
    for name in (*_OF_FILES, *_OF_ONE_MACHINE):
        if name in job.given:
            of = "the DataFrame is a table already" if name in _OF_FILES else "Spark's own settings say it"
            raise ParameterError(f"{name} must be left out with Spark: {of}.")
    public, destination = job.public, job.destination()

    def opening() -> Any:
        return open_frame(source, job)

    if arguments.get("dry_run"):
        return rehearse(
            opening,
            plan,
            out=destination.target,
            public=public,
            charging=job.charging,
            overwrite=destination.overwrite,
            base=destination.base,
        )
    assert destination.target is not None  # noqa: S101 - refused above
    return publish_by(
        lambda writer: SparkEngine(plan, public, job.progress, writer, words),
        opening,
        plan,
        out=destination.target,
        public=public,
        charging=job.charging,
        progress=job.progress,
        overwrite=destination.overwrite,
        base=destination.base,
        writing=writing,
    )


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Publishes a table of a cluster, through a folder that all of its machines see, or through Spark's own files."""

    plan: Plan
    public: Public
    progress: Progress
    writer: ReleaseWriter
    words: Callable[[], WordSource] = Keystream

    @property
    def private(self) -> bool:
        """Whether all noise comes from fresh secret keystreams."""
        return is_secret(self.words())

    def publish(self, table: SparkTable, parts: ReleaseParts, *, before_noise: Callable[[], None]) -> None:
        """Have the workers perturb everybody and write the parts; adopt those of the attempts that count."""
        if self.plan.n_users is not None and table.n_users > self.plan.n_users:
            raise DataError(f"the table must have at most {self.plan.n_users} people, as the plan says.")
        self.progress.phase("numbering")
        places = table.places(self.plan)
        tasks = n_tasks(len(places.firsts))
        rows = self._placed(table, places).repartition(tasks, "place").sortWithinPartitions("place", "u")
        work: dict[str, Any] = {
            "plan_json": table.shape.plan_json,
            "user_type": table.user_type,
            "n_users": table.n_users,
            "parts": {place: part for part, place in enumerate(places.places.tolist())},
            "listed": table.listed,
            "words": self.words,
        }

        def begin() -> None:
            before_noise()
            self.progress.phase("publishing")
            self.progress.start(table.n_users)

        if isinstance(self.writer, RemoteWriter):
            written = self.writer.receive(rows, SendParts(**work), begin)
        else:
            written = self._through_folder(rows, work, spark_type(table.user_type), begin)
        for part in written:
            parts.adopt_part(part)
            self.progress.advance(part.record.rows)

    def _through_folder(
        self, rows: Any, work: dict[str, Any], user: str, before_noise: Callable[[], None]
    ) -> list[WrittenPart]:
        """Have the workers write to a folder that they all see; return the parts of the attempts that count."""
        attempts = self.writer.make_scratch("attempts")
        written = mapped(rows, WriteParts(**work, folder=str(attempts)), WRITTEN.format(user))
        before_noise()
        try:
            records = asked(written.collect, "publishing")
            if any(record.full for record in records):
                raise full_disk(self.writer.target)
        except BaseException:
            # Tasks that still run must find no folder to write to, while it is being removed.
            with contextlib.suppress(OSError):
                attempts.rename(attempts.with_name("abandoned"))
            raise
        return [_written_part(record, attempts) for record in records]

    def _placed(self, table: SparkTable, places: Any) -> Any:
        """Return all rows with the places of their people; people without attributes have one, too."""
        user, vocabulary = spark_type(table.user_type), self.public.vocabulary
        kind = "int" if table.shape.coded and vocabulary is not None and vocabulary.is_numbered else "string"
        value = ", v double" if table.view.has_values else ""
        work = PlaceRows(table.shape, places, with_people=not table.listed)
        rows = mapped(table.rows, work, f"place int, u {user}, a {kind}{value}")
        if vocabulary is not None and not vocabulary.is_numbered:
            rows = self._coded(rows, vocabulary, coded=table.shape.coded)
        if table.listed:
            people = mapped(table.people.select("u"), PlacePeople(places), f"place int, u {user}")
            rows = rows.unionByName(people, allowMissingColumns=True)
        return rows

    def _coded(self, rows: Any, vocabulary: Vocabulary, *, coded: bool) -> Any:
        """Return the rows with attributes of a list only, by number if ``coded``."""
        from pyspark.sql import functions

        texts = pa.table(
            {"a": pa.array(list(vocabulary), pa.string()), "code": pa.array(range(len(vocabulary)), pa.int32())}
        )
        listed = frame_of(rows.sparkSession, [texts], "a string, code int")
        if texts.nbytes <= _SMALL_LIST:
            listed = functions.broadcast(listed)
        kept = rows.join(listed, "a", "left").where("a IS NULL OR code IS NOT NULL")
        others = [name for name in rows.columns if name not in ("place", "u", "a")]
        return kept.select("place", "u", functions.col("code").alias("a") if coded else "a", *others)


def _folder(name: str, given: Any) -> Path:
    """Return a path that was given as one, or as an address of the file system."""
    text = os.fspath(given)
    if not text.startswith("file:") and not is_address(text):
        return Path(given)
    address = urlsplit(text)
    if address.scheme != "file" or address.netloc not in ("", "localhost"):
        raise ParameterError(
            f"{name} must be a folder that the driver and all workers see, got an address of {address.scheme!r}. "
            "Copy the release to a mounted file system."
        )
    return Path(unquote(address.path))


def _written_part(record: Any, attempts: Path) -> WrittenPart:
    file = FileRecord(path=part_path(record.part), bytes=record.bytes, sha256=record.sha256, rows=record.rows)
    return WrittenPart(record.part, attempts / record.attempt, file, record.first, record.last, record.after)
