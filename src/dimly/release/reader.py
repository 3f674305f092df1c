"""A release folder opened at any size: `StoredSketches`, files held open, row groups decoded by threads, ids."""

import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dimly.errors import ParameterError, ReleaseError, check_path
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.projection.directions import Directions
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release import parts
from dimly.release.documents.directions_file import decode_directions
from dimly.release.format import ATTRIBUTES, DIRECTIONS, PARTS_FOLDER, FileRecord, column_of, row_start
from dimly.release.manifest import Manifest, read_manifest
from dimly.release.page_headers import byte_reader, check_pages
from dimly.release.sketches import ordered_pairs
from dimly.release.verify import verify as verify_folder

State = tuple[int, ...]
"""What the file system says of a file; another one where it was replaced or written to."""

_MOST_IDLE = 4  # files that a release keeps open while nobody reads them: all of a release of one part


class _OpenFile(NamedTuple):
    """A file of a release. It is closed once nobody holds it."""

    source: pa.OSFile
    parquet: pq.ParquetFile | None
    """What its footer says, once that was found right."""
    state: State
    """Of the file, from before it was opened: a change in between looks like one afterwards."""


class ReleaseFiles:
    """Opens the files of a release, and refuses those that are not what the manifest says.

    Damaged numbers look like any others, so that no number is used before the digest of its file was found right. Each
    file is opened once, and its digest taken once, by the handle that its numbers are then read from; and again if it
    changed on the disk. Handles are lent to one reader at a time; a few of those that nobody reads are kept open.

    Parameters
    ----------
    folder : Path
    manifest : Manifest
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest
        self._found_right: dict[str, State] = {}
        self._idle: OrderedDict[str, _OpenFile] = OrderedDict()
        self._lock = Lock()

    def footer(self, record: FileRecord) -> AbstractContextManager[pq.ParquetFile]:
        """Lend a file for what its footer says: its size, columns and rows are right, and nothing else was looked at.

        Raises
        ------
        ReleaseError
            Naming the file and what is wrong.
        """
        return self._lent(record, whole=False)

    def whole(self, record: FileRecord) -> AbstractContextManager[pq.ParquetFile]:
        """Lend a file for what it holds: every byte is the one that was published, and its pages hold what they must.

        Raises as :meth:`footer`.
        """
        return self._lent(record, whole=True)

    def check_unchanged(self, record: FileRecord) -> None:
        """Refuse a file that is no longer what it was when its numbers were read; raises as :meth:`footer`."""
        if self._found_right.get(record.path) != _state(parts.path_of(self._folder, record)):
            with self.whole(record):
                pass

    @contextmanager
    def _lent(self, record: FileRecord, *, whole: bool) -> Iterator[pq.ParquetFile]:
        path = parts.path_of(self._folder, record)
        state = _state(path)
        with self._lock:
            file = self._idle.pop(record.path, None)
        if file is None or file.state != state:  # the one that changed closes itself
            file = _OpenFile(_bytes_of(path, record.path), None, state)
            if _state(path) != state:
                raise ReleaseError(f"{record.path} must not change while it is read, but it did. Try again.")
        unknown = whole and self._found_right.get(record.path) != state
        if unknown:
            file.source.seek(0)
            if hashlib.file_digest(file.source, "sha256").hexdigest() != record.sha256:
                raise ReleaseError(parts.WRONG_DIGEST.format(record.path))
        if file.parquet is None:
            file = file._replace(parquet=parts.open_parquet(file.source, record.path))
            if self._found_right.get(record.path) != state:  # else it was checked then, and says the same
                self._manifest.check_footer(file.parquet, record)
        if unknown:
            check_pages(file.parquet, record.path, byte_reader(file.source))
            self._found_right[record.path] = state
        yield file.parquet
        with self._lock:
            self._idle[record.path] = file
            self._idle.move_to_end(record.path)
            if len(self._idle) > _MOST_IDLE:
                self._idle.popitem(last=False)


def _bytes_of(path: Path, name: str) -> pa.OSFile:
    try:
        return pa.OSFile(str(path))
    except OSError:
        raise ReleaseError(parts.UNREADABLE.format(name)) from None


def _state(path: Path) -> State:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


NOT_RISING = f"{PARTS_FOLDER} must hold users in ascending order, without repeats, but it does not."
THREADS = min(8, os.cpu_count() or 1)

# Whoever asks about a few people tends to ask about them again: groups of so many bytes are kept, the latest ones.
_KEPT_BYTES = 1 << 25
_SMALL = 1 << 26  # bytes of values up to which a release is kept once it was read; a part has no more

Column = Literal["user", "sketch"]
Positions = NDArray[np.int64]
_Item = TypeVar("_Item")
_Done = TypeVar("_Done")


class RowGroups:
    """The row groups of a release's parts, numbered throughout.

    Parameters
    ----------
    files : ReleaseFiles
    manifest : Manifest
    """

    def __init__(self, files: ReleaseFiles, manifest: Manifest) -> None:
        self._files = files
        self._manifest = manifest
        self._records = manifest.parts
        self._size = manifest.layout.users_per_group
        self._per_part = -(-manifest.layout.users_per_part // self._size)
        self._kept: OrderedDict[tuple[Column, int], NDArray[Any]] = OrderedDict()
        self._n_kept = 0  # bytes
        self._values: dict[int, NDArray[Any]] = {}  # of whole parts, of a small release
        self._large = self._size * manifest.plan.bytes_per_user > _KEPT_BYTES
        self._small = manifest.n_users * manifest.plan.bytes_per_user <= _SMALL
        self._lock = Lock()

    def values(self, part: int) -> NDArray[Any]:
        """Return the values of a part; read-only. Those of a small release are kept, and given again."""
        record = self._records[part]
        held = self._values.get(part)
        if held is not None:
            self._files.check_unchanged(record)
            return held
        first = part * self._per_part
        with self._files.whole(record) as file:
            values = np.concatenate(
                [
                    self._decoded(file, "sketch", part, group) if held is None else held
                    for group in range(first, first + file.metadata.num_row_groups)
                    for held in (self._held("sketch", group),)
                ]
            )
        values.flags.writeable = False
        if self._small:
            with self._lock:
                self._values[part] = values
                for group in range(first, first + self._per_part):
                    if ("sketch", group) in self._kept:
                        self._n_kept -= self._kept.pop(("sketch", group)).nbytes
        return values

    def forget_values(self) -> None:
        """Let go of the values of whole parts: somebody else has them."""
        self._values.clear()

    def locate(self, ids: NDArray[Any]) -> Positions:
        """Return the positions of ids of the release's own type; −1 where nobody has the id."""
        firsts, lasts = self._bounds
        groups = np.searchsorted(firsts, ids, side="right") - 1
        inside = (groups >= 0) & (ids <= lasts[np.maximum(groups, 0)])
        positions = np.full(len(ids), -1, np.int64)
        asked = np.flatnonzero(inside)

        def find(group: int, chosen: Positions, users: NDArray[Any]) -> None:
            wanted = ids[asked[chosen]]
            places = np.searchsorted(users, wanted)  # within, since nobody is after the last
            positions[asked[chosen]] = np.where(users[places] == wanted, group * self._size + places, -1)

        self._visit("user", groups[asked], find)
        return positions

    def gather(self, column: Column, positions: Positions, out: NDArray[Any]) -> None:
        """Write users, or rows of numbers, of some positions to ``out``."""

        def copy(group: int, chosen: Positions, rows: NDArray[Any]) -> None:
            for at in chosen if self._large else [chosen]:  # a selection is copied, a single row is not
                out[at] = rows[positions[at] - group * self._size]

        self._visit(column, positions // self._size, copy)

    def gather_pairs(self, low: Positions, high: Positions, out: NDArray[Any]) -> None:
        """Write noisy distances of pairs low < high to ``out``."""
        n = self._manifest.n_users

        def copy(group: int, chosen: Positions, flat: NDArray[Any]) -> None:
            rows = low[chosen]
            start = row_start(n, rows) - row_start(n, np.int64(group * self._size))
            out[chosen] = flat[start + high[chosen] - rows - 1]

        self._visit("sketch", low // self._size, copy)

    def _visit(self, column: Column, groups: Positions, use: Callable[[int, Positions, NDArray[Any]], None]) -> None:
        """Decode each of the groups once, and call ``use`` with its number, who is in it, and what it holds."""
        order = np.argsort(groups, kind="stable")
        numbers, starts = np.unique(groups[order], return_index=True)
        members = dict(zip(numbers.tolist(), np.split(order, starts[1:]), strict=False))
        by_part: dict[int, list[int]] = {}
        for group in members:
            by_part.setdefault(group // self._per_part, []).append(group)
        # A question about everybody would push out all that is kept, and gain nothing.
        keep = len(members) <= 2 * self._per_part and not self._large

        def visit(part: int) -> None:
            missing = []
            for group in by_part[part]:
                held = self._held(column, group)
                if held is None:
                    missing.append(group)
                else:
                    use(group, members[group], held)
            if missing:
                with self._files.whole(self._records[part]) as file:
                    for group in missing:
                        held = self._decoded(file, column, part, group)
                        if keep:
                            self._keep(column, group, held)
                        use(group, members[group], held)

        if self._large:  # one at a time: each takes several times its own bytes
            for part in by_part:
                visit(part)
        else:
            for_all(visit, by_part)

    def _held(self, column: Column, group: int) -> NDArray[Any] | None:
        values = self._values.get(group // self._per_part) if column == "sketch" else None
        if values is not None:
            return values[self._cut(group)]
        with self._lock:
            held = self._kept.get((column, group))
            if held is not None:
                self._kept.move_to_end((column, group))
            return held

    def _cut(self, group: int) -> slice:
        """Return where the values of a group are among those of its part."""
        plan, n = self._manifest.plan, self._manifest.n_users
        positions = group - group % self._per_part, group, group + 1
        part, start, stop = (column_of(plan).start(min(n, at * self._size), n) for at in positions)
        return slice(start - part, stop - part)

    def _keep(self, column: Column, group: int, held: NDArray[Any]) -> None:
        with self._lock:
            other = self._kept.pop((column, group), None)  # of a thread that decoded it, too
            self._kept[column, group] = held
            self._n_kept += held.nbytes - (0 if other is None else other.nbytes)
            while len(self._kept) > 1 and self._n_kept > _KEPT_BYTES:
                self._n_kept -= self._kept.popitem(last=False)[1].nbytes

    def _decoded(self, file: pq.ParquetFile, column: Column, part: int, group: int) -> NDArray[Any]:
        path = self._records[part].path
        table = parts.read_table(file, path, columns=[column], group=group - part * self._per_part)
        if column == "sketch":
            rest = self._manifest.n_users - group * self._size - table.num_rows
            return parts.values_of(table, self._manifest.plan, path, rest=rest)
        users = parts.users_of(table.column("user"))
        check_rising(users)
        firsts, lasts = self._bounds
        if users[0] != firsts[group] or users[-1] != lasts[group]:
            raise ReleaseError(f"{path} must hold the users that its footer says, but it does not. Copy it again.")
        return users

    @cached_property
    def _bounds(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """First and last user of every group; once, from the footers."""

        def read(part: int) -> list[tuple[Any, Any]]:
            record = self._records[part]
            with self._files.footer(record) as file:
                groups = range(file.metadata.num_row_groups)
                said = [file.metadata.row_group(group).column(0).statistics for group in groups]
            if all(statistics is not None and statistics.has_min_max for statistics in said):
                return [(statistics.min, statistics.max) for statistics in said]
            with self._files.whole(record) as file:  # libraries leave out what is said of very long text
                tables = (parts.read_table(file, record.path, columns=["user"], group=group) for group in groups)
                return [(users[0].as_py(), users[-1].as_py()) for users in (table.column("user") for table in tables)]

        bounds = [pair for part in for_all(read, range(len(self._records))) for pair in part]
        kind = np.dtype(np.int64) if self._manifest.users.type == "int64" else np.dtype(object)
        firsts, lasts = (np.array(side, kind) for side in zip(*bounds, strict=True))
        if (firsts > lasts).any() or (firsts[1:] <= lasts[:-1]).any():
            raise ReleaseError(NOT_RISING)
        return firsts, lasts


def for_all(work: Callable[[_Item], _Done], items: Iterable[_Item]) -> list[_Done]:
    """Do some work for every item, several at a time; return what is done in their order."""
    return list(in_turn(work, items))


def in_turn(work: Callable[[_Item], _Done], items: Iterable[_Item]) -> Iterator[_Done]:
    """Do some work for every item, several at a time; give what is done in their order. Stops at the first error."""
    listed = list(items)
    if min(THREADS, len(listed)) < 2:
        yield from map(work, listed)
        return
    with ThreadPoolExecutor(min(THREADS, len(listed))) as pool:
        yield from pool.map(work, listed)


def check_rising(users: NDArray[Any]) -> None:
    """Refuse users that are not in rising order, each once.

    Raises
    ------
    ReleaseError
        If they are not.
    """
    if (users[1:] <= users[:-1]).any():
        raise ReleaseError(NOT_RISING)


class StoredSketches:
    """What is published, in a folder. Offers what :class:`~dimly.release.Sketches` does; see :func:`open_folder`.

    All users and all values are read from the disk when they are first asked for, and kept; :meth:`parts` reads them
    piece by piece, and keeps the values of a small release; :meth:`locate` and :meth:`take` read the row groups of the
    people asked for. A file is checked against its digest before the first of its numbers is used.

    Attributes
    ----------
    path : Path
        The folder; absolute.
    manifest : Manifest
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._parts = manifest.parts
        self._files = ReleaseFiles(path, manifest)
        self._groups = RowGroups(self._files, manifest)

    def check_footers(self) -> None:
        """Refuse files whose size, columns or rows are not what the manifest says. No published number is read.

        Raises
        ------
        ReleaseError
            Naming the file and what is wrong.
        """

        def check(record: FileRecord) -> None:
            with self._files.footer(record):
                pass

        for_all(check, self.manifest.files)

    @property
    def plan(self) -> Plan:
        """The plan that the release was made by."""
        return self.manifest.plan

    @property
    def private(self) -> bool:
        """Whether the noise came from a fresh secret keystream, as far as the publisher's software says."""
        return self.manifest.private

    @property
    def n_parts(self) -> int:
        """Number of files that hold the people."""
        return len(self._parts)

    @property
    def users_per_part(self) -> int:
        """Number of people in each file but the last."""
        return self.manifest.layout.users_per_part

    @property
    def textual(self) -> bool:
        """Whether ids are text."""
        return self.manifest.users.type == "text"

    def __len__(self) -> int:
        return self.manifest.n_users

    def __repr__(self) -> str:
        stamp = "" if self.private else ", NOT PRIVATE"
        return f"<Sketches of {len(self)} users by {self.plan.mechanism}, plan {self.plan.digest[:12]}…{stamp}>"

    @cached_property
    def users(self) -> NDArray[Any]:
        """Ids of the people, int64 or text, in ascending order.

        Raises
        ------
        ReleaseError
            If the files were changed since the release was opened, or do not hold what they must.
        """
        users = self._no_users(len(self))
        step = self.users_per_part

        def read(index: int) -> None:
            part = self.read_users(index)
            users[index * step : index * step + len(part)] = part

        for_all(read, range(self.n_parts))
        check_rising(users)
        users.flags.writeable = False
        return users

    @cached_property
    def values(self) -> NDArray[Any]:
        """The published numbers of all, as :class:`~dimly.release.Sketches` lays them out.

        Raises
        ------
        ReleaseError
            If the files were changed since the release was opened, or do not hold what they must.
        """
        if self.n_parts == 1:
            return self.read_values(0)
        values = np.empty(self.plan.published_shape(len(self)), self.plan.published_dtype)

        def read(index: int) -> None:
            values[self._cut(index)] = self.read_values(index)

        for_all(read, range(self.n_parts))
        values.flags.writeable = False
        self._groups.forget_values()
        return values

    def parts(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Return users and values of one part after the other; see :meth:`read_part`."""
        return map(self.read_part, range(self.n_parts))

    def read_part(self, index: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return users and values of part ``index``: people from ``index · manifest.layout.users_per_part`` on.

        Noisy distances: values are the rows of these people in the upper triangle, end to end.

        Raises
        ------
        ReleaseError
            If the file was changed since the release was opened, or does not hold what it must.
        """
        return self.read_users(index), self.read_values(index)

    def read_users(self, index: int) -> NDArray[Any]:
        """Return the users alone of part ``index``; see :meth:`read_part`."""
        return parts.users_of(self._table(index, "user").column("user"))

    def read_values(self, index: int) -> NDArray[Any]:
        """Return the values alone of part ``index``, read-only; see :meth:`read_part`.

        Those of a release of up to 64 MiB are decoded once, and kept; that the file is still the same is checked.
        """
        if "values" not in self.__dict__:
            return self._groups.values(index)
        self._files.check_unchanged(self._parts[index])
        return self.values[self._cut(index)]

    def locate(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return the positions of ids of the release's own type; −1 where nobody has the id.

        Reads the footers once, and the users of the row groups that an id may be in.

        Raises
        ------
        ReleaseError
            If a file was changed since the release was opened, or does not hold what it must.
        """
        return self._groups.locate(ids)

    def named(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        """Return the ids of the people at some positions, read from their row groups; raises as :meth:`locate`."""
        users = self._no_users(len(positions))
        self._groups.gather("user", positions, users)
        return users

    def take(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        """Return the rows of the people at some positions, read from their row groups; raises as :meth:`locate`.

        For noisy distances see :meth:`pairs`.
        """
        if "values" in self.__dict__:  # all are in memory
            rows = np.asarray(self.values[positions])
        else:
            dtype, shape = self.plan.published_dtype, self.plan.published_shape(len(positions))
            rows = np.empty(shape, dtype)
            self._groups.gather("sketch", positions, rows)
        rows.flags.writeable = False  # as of all published numbers: kernels are compiled for one kind of array
        return rows

    def pairs(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[Any]:
        """Return the noisy distances of pairs of positions; 0 within a person. Raises as :meth:`locate`."""
        found = np.zeros(len(rows), self.plan.published_dtype)
        other, low, high = ordered_pairs(rows, columns)
        between = found[other]
        self._groups.gather_pairs(low, high, between)
        found[other] = between
        return found

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The closed list of attributes, if it was published; it is the plan's, by its digest.

        How far its rows move a sketch is not proven again, which takes long where they differ: ``verify`` does that.

        Raises
        ------
        ReleaseError
            If it is another one.
        """
        record = self.manifest.record(ATTRIBUTES)
        if record is None or self.plan.vocabulary is None:
            return None
        with self._files.whole(record) as file:
            column = parts.read_table(file, record.path).column("attribute")
        try:
            return self.plan.vocabulary.matching(column.to_pylist())
        except ParameterError as error:
            raise ReleaseError(f"{record.path}: {error}") from None

    @cached_property
    def directions(self) -> Directions | None:
        """The public directions that people are published along; None where there are none.

        Raises
        ------
        ReleaseError
            If they are not the plan's.
        """
        record = self.manifest.record(DIRECTIONS)
        if record is None:
            return None
        with self._files.whole(record):  # and by their own digest, which is in the plan
            found = decode_directions(parts.path_of(self.path, record), record.path)
        try:
            self.plan.along(found)
        except ParameterError as error:
            raise ReleaseError(f"{record.path}: {error}") from None
        return found

    def _table(self, index: int, column: str) -> pa.Table:
        record = self._parts[index]
        with self._files.whole(record) as file:
            return parts.read_table(file, record.path, columns=[column])

    def _cut(self, index: int) -> slice:
        """Return where the values of part ``index`` are among all."""
        column, step = column_of(self.plan), self.users_per_part
        start, stop = (column.start(min(len(self), at * step), len(self)) for at in (index, index + 1))
        return slice(start, stop)

    def _no_users(self, n: int) -> NDArray[Any]:
        return np.empty(n, object if self.textual else np.int64)


def _what_to_open(given: object) -> str:
    if hasattr(given, "guarantee"):
        return "It is open already."
    if hasattr(given, "columns"):
        return "Publish a table first: dimly.publish(table, plan)."
    return "Pass text or a pathlib.Path."


def open_folder(path: str | os.PathLike[str], *, verify: bool = False) -> StoredSketches:
    """Open a release: its manifest, and the size, columns and rows of every file. No published number is read.

    Parameters
    ----------
    path : str or Path
        The folder.
    verify : bool, default=False
        Whether to read and check everything too; see :func:`~dimly.release.verify.verify`.

    Raises
    ------
    ReleaseError
        Naming the file and what is wrong.
    """
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(f"release must be the path of a folder, got {type(path).__name__}. {_what_to_open(path)}")
    check_path("release", path)
    folder = Path(os.path.abspath(path))  # the working directory may change
    if verify:
        verify_folder(folder)
    stored = StoredSketches(folder, read_manifest(folder))
    stored.check_footers()
    return stored
