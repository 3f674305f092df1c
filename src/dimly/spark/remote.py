"""A release that grows in another file system: parts sent by task attempts, checked, made visible.

Spark itself writes, with its own credentials and its own rule of which attempt at a task counts, into a hidden folder
beside the target. Where folders can be renamed in one step the release grows there and is renamed, elsewhere
its files are moved one by one and the manifest comes last: a folder without one is no release.
"""

import re
import secrets
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from dimly.errors import DimlyError, PrivacyWarning
from dimly.mechanisms.plan import Plan
from dimly.release.format import MANIFEST, PARTS_FOLDER, README
from dimly.release.manifest import Manifest
from dimly.release.parts import WrittenPart
from dimly.release.writer import PREFIX, ReleaseWriter
from dimly.spark.cluster import asked, mapped
from dimly.spark.hadoop import HadoopFolder
from dimly.spark.workers.parts import MARK, SendParts, SentPart, sent

_NAME = re.compile(r"(part-.*-c)(\d+)(.*\.txt)")
_PATIENCE = 60.0  # seconds that tasks of a failed job have to end
# What Spark says of attempts that failed for no reason of the file system's; at the start of a line, where Java names
# the failure and its causes.
_HARMLESS = re.compile(
    r"^(ExecutorLostFailure|FetchFailed|TaskResultLost|TaskCommitDenied"
    r"|(Caused by: )?org\.apache\.spark\.(api\.python\.PythonException"
    r"|SparkException: (\[\w+\] )?Python worker exited unexpectedly))",
    re.M,
)


class RemoteWriter(ReleaseWriter):
    """Writes one release to another file system; what is small passes through a folder of this machine.

    Parameters
    ----------
    folder : HadoopFolder
        To be made.
    local : Path
        A new folder of this machine, which is not left there.
    plan : Plan

    Raises
    ------
    ParameterError
        If the folder cannot be made.
    DimlyError
        If the file system fails.
    """

    def __init__(self, folder: HadoopFolder, local: Path, plan: Plan) -> None:
        folder.check()
        self._remote = folder
        self._hidden = folder.beside(f"{PREFIX}{secrets.token_hex(16)}")
        self._sources: dict[str, str] = {}
        self._moved: list[str] | None = None  # what is at the target without its manifest
        self._content = b""
        self._running: Callable[[], bool] = lambda: False
        super().__init__(local, plan)
        try:
            folder.make_private(self._hidden)
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise

    def receive(self, pieces: Any, work: SendParts, before_noise: Callable[[], None]) -> list[WrittenPart]:
        """Have Spark's workers perturb rows and write parts; return those of the attempts that count.

        Parameters
        ----------
        pieces : DataFrame
            Of rows, ordered by place.
        work : SendParts
        before_noise : callable
            Is called before anything is drawn.

        Raises
        ------
        DimlyError
            If Spark fails, or if an attempt may have failed for what it drew.
        """
        session, attempts = pieces.sparkSession, f"{self._hidden}/attempts"
        context, tag = session.sparkContext, f"dimly-{secrets.token_hex(8)}"
        written = mapped(pieces, work, "value string")
        # One file of each row, which ends as every Parquet file does.
        writer = written.write.options(lineSep=MARK.decode(), compression="none", maxRecordsPerFile=1)
        before_noise()
        self._running = lambda: _is_running(context, tag)
        context.addJobTag(tag)
        try:
            asked(lambda: writer.text(attempts), "publishing")
        except BaseException:
            context.cancelJobsWithTag(tag)
            raise
        finally:
            context.removeJobTag(tag)
        known = session.read.options(lineSep=MARK.decode(), pathGlobFilter="part-*-c*[13579].txt").text(attempts)
        texts = asked(known.selectExpr("value", "_metadata.file_path AS path").collect, "publishing")
        found = {_content_of(row.path): sent(row.value) for row in texts}
        sizes = self._remote.sizes(attempts)
        if any(sizes.get(name) != one.part.record.bytes for name, one in found.items()):
            raise DimlyError(f"{self._remote.address} cannot be written: files have other sizes than were written.")
        _check_attempts(context, list(found.values()))
        self._sources = {one.part.record.path: f"{attempts}/{name}" for name, one in found.items()}
        return [one.part for one in found.values()]

    def _take(self, part: WrittenPart) -> None:
        """Do nothing: files are moved when all are known."""

    def seal(self, **options: Any) -> Manifest:
        """Write the manifest; see :meth:`ReleaseWriter.seal`. Nothing is visible yet."""
        manifest = super().seal(**options)
        self._content = (self.path / MANIFEST).read_bytes()
        self._readme = (self.path / README).read_bytes()
        if self._remote.renames:
            self._fill(f"{self._hidden}/release")
        return manifest

    def check_free(self) -> bool:
        """Refuse a folder that cannot be made; there is never one to replace."""
        self._remote.check()
        return False

    def publish(self) -> Path:
        """Make the release visible; return nothing of use, because it is no path of this machine."""
        if not self._sealed:
            raise ValueError("a release must be sealed before it is published.")
        if not self._remote.renames:
            self._remote.check()
        try:
            if self._remote.renames:
                self._remote.rename_folder(f"{self._hidden}/release", self._remote.address)
            else:
                self._fill(self._remote.address)
        except DimlyError:
            if not self.is_published:  # the answer may have been lost, and not the request
                raise
        return self.target

    @property
    def place(self) -> str:
        """The release's address."""
        return self._remote.address

    @property
    def is_published(self) -> bool | None:
        """Whether the release can be seen; None: the file system does not say."""
        if not self._content:
            return False
        try:
            return self._remote.read(f"{self._remote.address}/{MANIFEST}") == self._content
        except DimlyError:
            return None

    def discard(self) -> None:
        """Remove all that was not published. A second call does nothing.

        Raises
        ------
        DimlyError
            If something cannot be removed: numbers that were drawn are left.
        """
        end = time.monotonic() + _PATIENCE
        while self._running():  # who comes after the end would make folders anew, and others could read them
            if time.monotonic() > end:
                raise DimlyError(f"{self._hidden} cannot be removed: tasks still run. Remove it when they have ended.")
            time.sleep(0.1)
        self._running = lambda: False
        if self._moved is not None and self.is_published is False:
            for path in self._moved:
                self._remote.remove(path)
            for folder in (f"{self._remote.address}/{PARTS_FOLDER}", self._remote.address):
                self._remote.remove_empty(folder)
        self._moved = None
        self._remote.remove(self._hidden)
        super().discard()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.discard()
        except DimlyError as failed:
            warnings.warn(f"{failed} {self._hidden} holds what was not published.", PrivacyWarning, stacklevel=2)
        finally:
            super().__exit__(kind, error, trace)

    def _fill(self, folder: str) -> None:
        """Have all files of the release in a folder, the manifest last."""
        begun: list[str] = []
        if folder == self._remote.address:
            self._moved = begun
        self._remote.make(f"{folder}/{PARTS_FOLDER}")
        self._remote.move_all([(source, f"{folder}/{path}") for path, source in self._sources.items()], begun)
        for path in self._records.keys() - self._sources.keys():
            self._remote.put(f"{folder}/{path}", (self.path / path).read_bytes())
            begun.append(f"{folder}/{path}")
        self._remote.put(f"{folder}/{README}", self._readme)
        begun.append(f"{folder}/{README}")
        self._remote.put(f"{folder}/{MANIFEST}", self._content)


def _content_of(record: str) -> str:
    """Return the name of the file before the one that says what is known of it."""
    named = _NAME.fullmatch(record.rsplit("/", 1)[-1])
    assert named is not None  # noqa: S101 - Spark names them, and was asked for such only
    start, number, end = named.groups()
    return f"{start}{int(number) - 1:0{len(number)}d}{end}"


def _check_attempts(context: Any, found: Sequence[SentPart]) -> None:
    """Refuse a release if an attempt may have failed for what it drew, and another one may have drawn otherwise.

    How many bytes a part takes depends on its noise. The next attempt at the same rows draws the same; but were rows
    that change tried again until they fit, the release would come from another distribution than the one that was
    promised. Spark tries again whatever failed; so whatever is not known to be harmless fails the job.

    Raises
    ------
    DimlyError
        If Spark does not know every attempt, or knows one that may have.
    """
    tried = {(one.stage, one.partition): one.attempt for one in found}
    others: dict[tuple[int, int], int] = dict.fromkeys(tried, 0)
    for stage in {one.stage for one in found}:
        for partition, error in asked(lambda stage=stage: _other_attempts(context, stage), "publishing"):  # type: ignore[misc]
            if error is not None and not _HARMLESS.search(error):
                raise DimlyError(
                    "The file system failed a task of Spark's, which was tried again: such a release must not go out, "
                    "because how much room it takes depends on its noise. See that there is enough."
                )
            others[stage, partition] = others.get((stage, partition), 0) + 1
    if any(others[task] < attempt for task, attempt in tried.items()):
        raise DimlyError(
            "Spark does not say why it tried a task again, so that the release must not go out. Run again."
        )


def _other_attempts(context: Any, stage: int) -> list[tuple[int, str | None]]:
    """Return the partition and the failure, if it failed, of each attempt at a stage's tasks that was not used."""
    spark, status = context._jsc.sc(), context._jvm.org.apache.spark.status.api.v1
    spark.listenerBus().waitUntilEmpty()
    store, unused = spark.statusStore(), context._jvm.java.util.ArrayList()
    for name in ("FAILED", "KILLED", "RUNNING", "UNKNOWN"):
        unused.append(status.TaskStatus.valueOf(name))
    found = []
    for attempt in range(store.lastStageAttempt(stage).attemptId() + 1):
        tasks = store.taskList(stage, attempt, 0, 1 << 30, status.TaskSorting.ID, unused)
        for task in (tasks.apply(i) for i in range(tasks.size())):
            said = task.errorMessage()
            text = said.get() if said.isDefined() else ""
            found.append((task.partitionId(), text if task.status() == "FAILED" else None))
    return found


def _is_running(context: Any, tag: str) -> bool:
    """Return whether any task of the jobs with a tag runs."""

    def look() -> bool:
        spark, tracker = context._jsc.sc(), context.statusTracker()
        spark.listenerBus().waitUntilEmpty()
        jobs = spark.statusStore().jobsList(None)
        tagged = (job for job in (jobs.apply(i) for i in range(jobs.size())) if job.jobTags().contains(tag))
        stages = (job.stageIds().apply(i) for job in tagged for i in range(job.stageIds().size()))
        return any((info := tracker.getStageInfo(stage)) is not None and info.numActiveTasks for stage in stages)

    return asked(look, "ending")
