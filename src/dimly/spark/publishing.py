"""``dimly.spark.publish``: charges on the driver, sends work to workers; a roster told from the frame.

It writes a release and never hands back a lazy frame of sketches: each action on one would draw new noise, and spend
the budget again.
"""

import contextlib
import os
import tempfile
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Unpack, overload
from urllib.parse import unquote, urlsplit

from dimly.analyst.release import Release, open_release
from dimly.curator.diagnosis import open_diagnosed
from dimly.curator.options import Options, Progress, PublishOptions, check_keywords, takes_fields
from dimly.curator.people import Pseudonyms
from dimly.curator.publication import PublishOutcome, ReleaseParts, publish_by, rehearse
from dimly.curator.randomness import RunSecret, WordSource, is_secret
from dimly.curator.tables.input_files import Stamp
from dimly.curator.tables.public_lists import (
    check_before_reading,
    not_public,
    only_or_named,
    plan_along,
    vocabulary_for,
)
from dimly.errors import ParameterError, PrivacyWarning
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release.format import FileRecord, part_path
from dimly.release.parts import WrittenPart
from dimly.release.writer import ReleaseWriter, full_disk
from dimly.spark.cluster import asked, check_frame, mapped
from dimly.spark.file_frames import FrameSource, stamp_here
from dimly.spark.hadoop import HadoopFolder, is_address
from dimly.spark.origins import Origin, check_types_are_stated, is_same, leaves, read_files_of
from dimly.spark.remote import RemoteWriter
from dimly.spark.table import PlacedTable, SparkTable, coded_list, n_tasks, open_frame, small_list, spark_type
from dimly.spark.workers.parts import WRITTEN, SendParts, WriteParts, carried_plan
from dimly.spark.workers.pieces import PIECES, CutRows, PackRows, Places, PlainRows

_OF_FILES = ("table", "query", "delimiter", "quote", "escape", "encoding")
_OF_ONE_MACHINE = ("memory", "threads", "temp")


@overload
def publish(frame: Any, plan: Plan, *, dry_run: Literal[True], **options: Unpack[PublishOptions]) -> PublishOutcome: ...
@overload
def publish(
    frame: Any, plan: Plan, *, dry_run: Literal[False] = False, **options: Unpack[PublishOptions]
) -> Release | PublishOutcome: ...


@takes_fields(Options)
def publish(
    frame: Any, plan: Plan, *, dry_run: bool = False, **options: Unpack[PublishOptions]
) -> Release | PublishOutcome:
    """Publish a Spark DataFrame by ``plan``, with fresh secret noise, into a release folder.

    The release is the one that :func:`dimly.publish` makes: same format, same manifest, same charge, same errors.
    What is published of the frame is computed once; what Spark loses of it is computed again, and so is some of it to
    see whether a roster or a list leaves anything. If the frame is not always the same, write it to files first.

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
        Opened at ``out``. After a dry run, and where ``out`` is an address, a :class:`PublishOutcome`: copy the folder
        to this machine to open it.

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
    check_keywords(options)
    published = publish_frame(frame, plan, Options(dry_run=dry_run, **options))
    for text in published.warnings:
        warnings.warn(text, PrivacyWarning, stacklevel=2)
    return open_release(published.path) if isinstance(published.path, Path) else published


def publish_frame(
    frame: Any, plan: Plan, options: Options, *, words: Callable[[bytes], WordSource] | None = None
) -> PublishOutcome:
    """Publish as :func:`publish` does, a frame or a :class:`~dimly.spark.file_frames.FrameSource`; tell what was done.

    ``words`` is for tests: a release made with anything but keystreams of a secret is stamped as not private.
    """
    source = frame if isinstance(frame, FrameSource) else FrameSource(frame)
    check_frame(source.frame, "frame")
    plan = plan_along(plan, options)
    out = options.out
    if out is None or not is_address(out):
        here, append, update = (_folder(name, getattr(options, name)) for name in ("out", "append", "update"))
        return _publish(source, plan, replace(options, out=here, append=append, update=update), words)
    if not isinstance(out, str):
        raise ParameterError(
            f"out must be text where it is an address, got a {type(out).__name__}, which loses slashes."
        )
    for name in ("overwrite", "update"):
        if getattr(options, name):
            raise ParameterError(
                f"{name} must be left out where out is an address: releases elsewhere are only made anew."
            )
    folder = HadoopFolder(source.frame.sparkSession, out)
    if options.dry_run:
        folder.check()
        return _publish(source, plan, replace(options, out=None), words)
    with tempfile.TemporaryDirectory() as local:
        there = Path(local) / "release"
        published = _publish(
            source, plan, replace(options, out=there), words, writing=lambda: RemoteWriter(folder, there, plan)
        )
    return replace(published, path=folder.address)


def _publish(
    source: FrameSource,
    plan: Plan,
    options: Options,
    words: Callable[[bytes], WordSource] | None,
    *,
    writing: Callable[[], ReleaseWriter] | None = None,
) -> PublishOutcome:
    """Publish with folders that are paths of this machine."""
    check_left_out(options)
    check_before_reading(source.frame, options, files=own_files(source, options))
    check_frames_apart(source.frame, options.roster, options.user_column)
    check_types_are_stated(source.frame)
    vocabulary = vocabulary_for(plan, options)
    pseudonyms = None if options.pseudonyms is None else Pseudonyms.from_file(options.pseudonyms)
    opening: AbstractContextManager[Any] = open_diagnosed(
        open_frame(source, plan, options, vocabulary, pseudonyms), plan, options, vocabulary
    )
    if options.dry_run:
        return rehearse(opening, plan, options, vocabulary=vocabulary)
    return publish_by(
        lambda writer: SparkEngine(plan, vocabulary, options.watcher, writer, words or RunSecret().keystream),
        opening,
        plan,
        options,
        vocabulary=vocabulary,
        writing=writing,
    )


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Publishes a table of a cluster, through a folder that all of its machines see, or through Spark's own files.

    ``words`` makes the random words of each batch, and travels to the workers with the tasks. That is by a secret of
    this run, which is forgotten with it.
    """

    plan: Plan
    vocabulary: Vocabulary | None
    progress: Progress
    writer: ReleaseWriter
    words: Callable[[bytes], WordSource]

    @property
    def private(self) -> bool:
        """Whether all noise comes from secret keystreams."""
        return is_secret(self.words(b""))

    def publish(self, table: PlacedTable, parts: ReleaseParts, *, before_noise: Callable[[], None]) -> None:
        """Have the workers perturb everybody and write the parts; adopt those of the attempts that count."""
        self.progress.phase("numbering")
        places = table.places()
        tasks = n_tasks(len(places.firsts))
        pieces = self._pieces(table, places).repartition(tasks, "place")
        if tasks < len(places.firsts):
            pieces = pieces.sortWithinPartitions("place")
        with carried_plan(self.plan, pieces.sparkSession.sparkContext) as plan:
            work: dict[str, Any] = {
                "plan": plan,
                "user_type": table.user_type,
                "parts": {place: part for part, place in enumerate(places.places.tolist())},
                "people": table.segments_by_part(),
                "listed": table.listed,
                "words": self.words,
            }

            def begin() -> None:
                table.source.check_unchanged()  # now, because what is drawn is spent
                before_noise()
                self.progress.phase("publishing")
                self.progress.start(table.n_users)

            if isinstance(self.writer, RemoteWriter):
                written = self.writer.receive(pieces, SendParts(**work), begin)
            else:
                written = self._through_folder(pieces, work, spark_type(table.user_type), begin)
        for part in written:
            parts.adopt_part(part)
            self.progress.advance(part.record.rows)

    def _through_folder(
        self, pieces: Any, work: dict[str, Any], user: str, before_noise: Callable[[], None]
    ) -> list[WrittenPart]:
        """Have the workers write to a folder that they all see; return the parts of the attempts that count."""
        attempts = self.writer.make_scratch("attempts")
        written = mapped(pieces, WriteParts(**work, folder=str(attempts)), WRITTEN.format(user))
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

    def _pieces(self, table: SparkTable, places: Places) -> Any:
        """Return all rows in pieces, each of one place; people without attributes are in these, too."""
        vocabulary = self.vocabulary
        kept = table.kept.select("problem", "last", "people", "rows")
        if vocabulary is None or vocabulary.is_numbered or small_list(vocabulary) is not None:
            pieces = mapped(kept, CutRows(places), PIECES)
        else:  # too large for every worker to hold: what was kept has all attributes
            columns = f"u {spark_type(table.user_type)}, a string"
            columns += ", v double" * table.view.has_values + ", m boolean" * table.view.one_row_each
            rows = self._coded(mapped(kept, PlainRows(), columns), vocabulary, coded=table.shape.coded)
            pieces = mapped(rows, PackRows(places), PIECES)
        if table.listed:
            pieces = pieces.unionByName(mapped(table.known.select("people"), CutRows(places), PIECES))
        return pieces

    def _coded(self, rows: Any, vocabulary: Vocabulary, *, coded: bool) -> Any:
        """Return the rows with attributes of a list only, by number if ``coded``."""
        from pyspark.sql import functions

        kept = rows.join(coded_list(rows.sparkSession, vocabulary), "a", "left").where("a IS NULL OR code IS NOT NULL")
        others = [name for name in rows.columns if name not in ("u", "a")]
        return kept.select("u", functions.col("code").alias("a") if coded else "a", *others)


def check_left_out(options: Options) -> None:
    """Refuse options that say nothing of a frame."""
    for name in (*_OF_FILES, *_OF_ONE_MACHINE):
        if getattr(options, name) is not None:
            of = "the DataFrame is a table already" if name in _OF_FILES else "Spark's own settings say it"
            raise ParameterError(f"{name} must be left out with Spark: {of}.")


def own_files(source: FrameSource, options: Options) -> tuple[Stamp, ...]:
    """Return the files that the table's ids come from, as far as this machine sees them: no list may be one of these.

    Others that the frame reads may be public lists, of customers or of pages, that the table was joined with.
    """
    frame, user = source.frame, options.user_column
    listed = any(isinstance(one, str | os.PathLike) for one in (options.roster, options.vocabulary))
    if source.files or not listed or user not in frame.columns:
        return source.files
    read = asked(lambda: read_files_of(Origin.of(frame, user).node), "opening the table")
    return tuple(stamp for address in sorted(read) if (stamp := stamp_here(address)) is not None)


def check_frames_apart(frame: Any, roster: Any, user: str) -> None:
    """Refuse a frame of people that is the table's own column of ids, whatever was left out of it on the way.

    A roster may share sources with the table: another column of the same files, or a list of customers that the table
    was joined with. It may not be made from the column that the table's ids come from, and from nothing else.
    """
    if not hasattr(roster, "inputFiles"):
        return
    check_frame(roster, "roster")
    name = only_or_named(roster.columns, user, "roster")
    if user not in frame.columns:
        return  # refused when the table is opened

    def is_own() -> bool:
        known = leaves(frame)
        made_of_it = all(any(is_same(leaf, one) for one in known) for leaf in leaves(roster))
        return made_of_it and Origin.of(frame, user).is_same(Origin.of(roster, name))

    if asked(is_own, "opening the roster"):
        raise not_public("roster", f"the private table's own column {user!r}")


def _folder(name: str, given: Any) -> Path | None:
    """Return a path that was given as one, or as an address of the file system."""
    if given is None:
        return None
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
