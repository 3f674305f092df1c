"""Writing a release in a hidden folder (``Staging``): parts from any thread, sealed, visible by one rename.

It is made in a hidden place beside its target, and renamed. The hidden place is a folder of mode 0700 that a living
process locks (see :mod:`dimly.files`); in it the release grows with the modes it will have. After a crash it stays,
readable by its owner only, until the next run that publishes into the same parent folder removes it.
"""

import contextlib
import errno
import os
import secrets
import stat
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dimly.errors import DimlyError, ParameterError, ReleaseError, check_path
from dimly.files import (
    EXCHANGE,
    NO_REPLACE,
    check_outside_releases,
    locked_folder,
    names_held,
    renameat2,
    sweep,
    sync_folder,
)
from dimly.mechanisms.guarantee import RosterKind
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release import parts
from dimly.release.documents.directions_file import encode_directions
from dimly.release.format import (
    ATTRIBUTES,
    DIRECTIONS,
    DIRECTIONS_PER_GROUP,
    MANIFEST,
    PARTS_FOLDER,
    PROJECTION,
    README,
    FileRecord,
    UserType,
    column_of,
    layout_of,
)
from dimly.release.manifest import AboutRelease, Manifest, Users, read_manifest
from dimly.release.parts import WrittenPart
from dimly.release.sketches import Sketches

PREFIX: Final = ".dimly-staging-"
_FULL = {errno.ENOSPC, errno.EDQUOT}
_CHUNK_ENTRIES = 1 << 22  # of P at a time


class Staging:
    """A place beside the target for a release to grow in; a context manager that leaves what was published only.

    Parameters
    ----------
    target : str or Path
        Where the release will be. Its parent folder must exist and be writable.
    overwrite : bool
        Whether a release that is there may be replaced. Anything else that is there never is.
    replaces : str, optional
        Id of the only release that may be replaced, because the new one was made from it.

    Attributes
    ----------
    target : Path
        Absolute: the working directory may change.
    path : Path
        Where to write.

    Raises
    ------
    ParameterError
        If the target cannot be made; before anything is written.
    """

    def __init__(self, target: str | Path, *, overwrite: bool = False, replaces: str | None = None) -> None:
        self.target = check_target(target, overwrite=overwrite)  # refused now rather than after hours of work
        self._overwrite = overwrite
        self._replaces = replaces
        self._renamed = False
        sweep(self.target.parent, PREFIX)
        try:
            self._locked = locked_folder(self.target.parent, PREFIX)
        except OSError as error:
            if error.errno in _FULL:
                raise full_disk(self.target) from None
            raise _not_writable(self.target) from None
        self.path = self._locked.path / "release"
        with self.tidy_on_error(), disk_errors(self.target):
            self.path.mkdir(0o755)
            self._identity = self.path.stat()

    @property
    def place(self) -> str:
        """Where the release will be, for texts."""
        return str(self.target)

    @property
    def is_published(self) -> bool | None:
        """Whether the release came to its target; None where nobody can tell.

        Asked of the disk, too, because a signal may follow the rename.
        """
        try:
            return self._renamed or os.path.samestat(self.target.lstat(), self._identity)
        except OSError:
            return False

    def check_free(self) -> bool:
        """Return whether there is a release to replace; refuse whatever else is at the target by now.

        Raises
        ------
        ParameterError
            If something is in the way.
        ReleaseError
            If the release that is to be replaced has changed.
        """
        found = _is_replaceable(self.target, overwrite=self._overwrite)
        if self._replaces is not None and (not found or _release_at(self.target) != self._replaces):
            raise _changed(self.target)
        return found

    def publish(self) -> Path:
        """Make the release visible, all at once, and return where it is.

        Files must be on the disk already; folders are put there now.

        A release that it replaces is removed only after the new one can be seen; if it cannot be removed, the next
        run does it.

        Raises
        ------
        ParameterError
            If something has appeared at the target meanwhile.
        ReleaseError
            If the release that is to be replaced has changed.
        DimlyError
            If the disk fails; the text says whether the release can be seen.
        """
        with disk_errors(self.target):
            for folder in (*(path for path in self.path.iterdir() if path.is_dir()), self.path, self._locked.path):
                sync_folder(folder)
            with names_held(self.target.parent):
                if self.check_free():
                    self._exchange()
                else:
                    _rename_new(self.path, self.target)
                self._renamed = True
        try:
            sync_folder(self.target.parent)
        except OSError as error:
            text = f"{self.target} was published, but the disk does not confirm it: {error.strerror}. Verify it."
            raise DimlyError(text) from None
        with contextlib.suppress(OSError):
            self._locked.remove()
        return self.target

    def _exchange(self) -> None:
        """Put the release in the place of another; of a program that takes no lock, put back what it put there."""
        _exchange(self.path, self.target)
        if self._replaces is None or _release_at(self.path) == self._replaces:
            return
        if os.path.samestat(self.target.lstat(), self._identity):
            _exchange(self.path, self.target)
        else:  # another one again: what came out must not be removed with the staging
            self.path.rename(_aside(self.target))
        raise _changed(self.target)

    def discard(self) -> None:
        """Remove all that was not published. A second call does nothing.

        Raises
        ------
        OSError
            If something cannot be removed; the next run tries again.
        """
        self._locked.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._locked.__exit__(kind, error, trace)

    @contextlib.contextmanager
    def tidy_on_error(self) -> Iterator[None]:
        """Remove the staging if the block fails."""
        try:
            yield
        except BaseException as error:
            self._locked.__exit__(type(error), error, error.__traceback__)
            raise


def check_target(target: str | Path, *, overwrite: bool = False) -> Path:
    """Return the absolute path of a release to be, if it can be made there.

    Raises
    ------
    ParameterError
        If its parent folder is missing, cannot be written to or belongs to another release, or if anything is there
        that may not be replaced.
    """
    given = Path(target)
    check_path("out", given)
    if given.name in ("", ".."):
        raise ParameterError(f"out must name a new folder, such as release, got {os.fspath(target)!r}.")
    try:
        # Links on the way are followed as the kernel does; the name itself is not.
        parent = given.parent.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        parent = None
    if parent is None or not parent.is_dir():
        raise ParameterError(f"out must be in a folder that exists, but {given.parent} is not one. Make it first.")
    check_outside_releases(parent, "out")
    absolute = parent / given.name
    _is_replaceable(absolute, overwrite=overwrite)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise _not_writable(absolute)
    return absolute


def _is_replaceable(target: Path, *, overwrite: bool) -> bool:
    """Return whether there is a release to replace; refuse whatever else is in the way."""
    try:
        found = target.lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ParameterError(f"out must be a path that can be made, got {target}: {error.strerror}.") from None
    if stat.S_ISLNK(found.st_mode):
        raise ParameterError(f"out must not be a symbolic link, got {target}. Name the folder itself.")
    if not stat.S_ISDIR(found.st_mode):
        raise ParameterError(f"out must be a new folder, but {target} is a file. Choose another name.")
    try:
        read_manifest(target)
    except ReleaseError:
        raise ParameterError(
            f"out must be a new folder, but {target} exists and is not a release. Choose another name."
        ) from None
    if not overwrite:
        raise ParameterError(
            f"out must be a new folder, but {target} is already a release. Choose another name, or replace it with "
            "overwrite=True (--overwrite)."
        )
    return True


@contextlib.contextmanager
def disk_errors(target: Path) -> Iterator[None]:
    """Turn what the operating system says of a disk into one line of ours."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise full_disk(target) from None
        raise DimlyError(f"{target} cannot be written: {error.strerror}. Nothing was published.") from None


def full_disk(target: Path) -> DimlyError:
    """Return what to say of a full disk."""
    return DimlyError(f"the disk of {target.parent} is full. Free some space; nothing was published.")


def _not_writable(target: Path) -> ParameterError:
    return ParameterError(f"out must be in a folder that can be written to, but {target.parent} cannot.")


def _rename_new(source: Path, target: Path) -> None:
    """Rename a folder to a name that nobody has."""
    try:
        if renameat2(source, target, NO_REPLACE):
            return
        # Without the kernel's help: what could be lost between the look and the rename is an empty folder at most,
        # because a folder is never renamed over anything else.
        if not os.path.lexists(target):
            source.rename(target)
            return
    except (FileExistsError, NotADirectoryError):
        pass
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
    raise ParameterError(f"out must be a new folder, but {target} has appeared meanwhile. Choose another name.")


def _exchange(source: Path, target: Path) -> None:
    """Put a folder in the place of another one, which then is where the first was."""
    if renameat2(source, target, EXCHANGE):
        return
    # Without the kernel's help there is a moment without any release at the target. A crash in it leaves the old one
    # under a name that no sweep removes.
    aside = _aside(target)
    try:
        target.rename(aside)
        source.rename(target)
    except BaseException:
        if os.path.lexists(aside) and not os.path.lexists(target):
            aside.rename(target)
        raise
    aside.rename(source)


def _aside(target: Path) -> Path:
    return target.with_name(f"{target.name[:200]}.replaced-{secrets.token_hex(8)}")


def _release_at(folder: Path) -> str | None:
    """Return the id of the release in a folder; None if it holds none."""
    try:
        return read_manifest(folder).release
    except ReleaseError:
        return None


def _changed(target: Path) -> ReleaseError:
    return ReleaseError(f"{target} must not change while people are added, but it did. Try again.")


class _BegunPart(NamedTuple):
    """What is known of a part that was begun."""

    n_users: int
    first: Any
    last: Any
    after: int | None
    """Noisy distances: how many people come after it."""


class ReleaseWriter(Staging):
    """Writes one release; a context manager that leaves a complete release or nothing.

    Parameters
    ----------
    target : str or Path
        The folder to make.
    plan : Plan
    user_type : {"int64", "text"}, optional
        May be set later, before the first part.
    overwrite : bool, default=False
        Whether a release at the target may be replaced.
    replaces : str, optional
        Id of the only release that may be replaced, because the new one was made from it.

    Attributes
    ----------
    layout : Layout
        How many people each part takes.

    Raises
    ------
    ParameterError
        If the target cannot be made.

    Examples
    --------
    >>> import tempfile
    >>> from dimly.privacy import Budget
    >>> plan = Plan.of("counting+laplace", Budget(1.0), k=4, seed=bytes(32))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ReleaseWriter(f"{folder}/example", plan, user_type="int64") as writer:
    ...         writer.write_part(0, np.arange(3), np.zeros((3, 4), np.int16))
    ...         manifest = writer.seal(roster="given", private=False)
    ...         path = writer.publish()
    ...     sorted(entry.name for entry in path.iterdir()), manifest.n_users
    (['README.md', 'manifest.json', 'sketches'], 3)
    """

    def __init__(
        self,
        target: str | Path,
        plan: Plan,
        *,
        user_type: UserType | None = None,
        overwrite: bool = False,
        replaces: str | None = None,
    ) -> None:
        self.plan = plan
        self.layout = layout_of(plan)
        self.user_type = user_type
        self._records: dict[str, FileRecord] = {}
        self._parts: dict[int, _BegunPart] = {}
        self._lock = threading.Lock()
        self._sealed = False
        super().__init__(target, overwrite=overwrite, replaces=replaces)
        with self.tidy_on_error(), disk_errors(self.target):
            (self.path / PARTS_FOLDER).mkdir(0o755)

    def write_part(self, index: int, users: Any, values: NDArray[Any]) -> None:
        """Write part ``index``; in any order, from any thread, each once.

        Parameters
        ----------
        index : int
            The part holds the people from ``index · layout.users_per_part`` on, in the order of their ids.
        users : ndarray or Arrow array
            Their ids, rising.
        values : ndarray
            What is published of them, as :class:`~dimly.release.Sketches` lays it out. Noisy distances: their rows of
            the upper triangle end to end, so that person p = 0 … n − 1 has n − 1 − p numbers.

        Raises
        ------
        ReleaseError
            If users or values do not fit.
        DimlyError
            If the disk is full.
        """
        if self._sealed or self.user_type is None:
            raise ValueError("parts are written before sealing, and after user_type is set.")
        column = parts.as_user_column(users, self.user_type)
        if not 0 < len(column) <= self.layout.users_per_part:
            raise ValueError(f"a part must hold 1…{self.layout.users_per_part} users, got {len(column)}.")
        after = column_of(self.plan).users_after(len(column), values.size)
        self._begin(index, _BegunPart(len(column), column[0].as_py(), column[-1].as_py(), after))
        with disk_errors(self.target):
            record = parts.write_part(self.path, index, column, values, self.plan)
        with self._lock:
            self._records[record.path] = record

    def adopt_part(self, part: WrittenPart) -> None:
        """Take a part that was written to the same file system already: its file is moved, not copied.

        Raises
        ------
        DimlyError
            If the file cannot be moved.
        """
        if self._sealed or self.user_type is None:
            raise ValueError("parts are adopted before sealing, and after user_type is set.")
        self._begin(part.index, _BegunPart(part.record.rows, part.first, part.last, part.after))
        with disk_errors(self.target):
            self._take(part)
        with self._lock:
            self._records[part.record.path] = part.record

    def _take(self, part: WrittenPart) -> None:
        """Have a part's file among those of the release."""
        (part.folder / part.record.path).rename(self.path / part.record.path)

    def _begin(self, index: int, part: _BegunPart) -> None:
        with self._lock:
            if index in self._parts:
                raise ValueError(f"part {index} must be written once.")
            self._parts[index] = part

    def write_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Write the plan's closed list of attributes.

        Raises
        ------
        ParameterError
            If the plan's vocabulary is open, or another one.
        """
        self._check_vocabulary(ATTRIBUTES, vocabulary)
        with disk_errors(self.target):
            self._records[ATTRIBUTES] = parts.write_attributes(self.path, vocabulary)

    def write_projection(self, vocabulary: Vocabulary) -> None:
        """Write the rows of P for the plan's closed list of attributes, so that readers need not derive them.

        Raises
        ------
        ParameterError
            If the plan has no projection, or its vocabulary is open, or another one.
        """
        self._check_vocabulary(PROJECTION, vocabulary)
        with disk_errors(self.target):
            self._records[PROJECTION] = parts.write_projection(
                self.path, projection_chunks(self.plan, vocabulary), self.plan
            )

    def write_directions(self) -> None:
        """Write the plan's directions, so that everybody can check how far one attribute moves a sketch.

        Raises
        ------
        ParameterError
            If the plan names none, or was not given them.
        """
        directions = self.plan.matrix
        if directions is None:
            raise ParameterError(f"directions must be the plan's to be published, and {self.plan.mechanism} has none.")
        if self._sealed or DIRECTIONS in self._records:
            raise ValueError(f"{DIRECTIONS} must be written once, before sealing.")
        buffer = encode_directions(directions)
        with disk_errors(self.target):
            self._records[DIRECTIONS] = parts.write_file(self.path, DIRECTIONS, buffer, directions.size)

    def write_public(self, vocabulary: Vocabulary | None) -> None:
        """Write what is public knowledge: the plan's directions or list of attributes, and P where readers need it."""
        if DIRECTIONS in column_of(self.plan).needed_files:
            self.write_directions()
        # A list that the plan knows nothing of only says what is left out.
        if vocabulary is None or self.plan.vocabulary is None:
            return
        if not vocabulary.is_numbered:
            self.write_vocabulary(vocabulary)
        if self.plan.ships_rows:
            self.write_projection(vocabulary)

    def seal(
        self,
        *,
        roster: RosterKind,
        pseudonyms: bool = False,
        volunteers: bool = False,
        ledger: str | None = None,
        private: bool = True,
        about: AboutRelease | None = None,
    ) -> Manifest:
        """Write the manifest, and have everything on the disk. Nothing is visible yet.

        Parameters
        ----------
        roster : {"given", "found"}
            Whether the list of people was given beforehand or found in the private table.
        pseudonyms : bool, default=False
            Whether user ids are keyed hashes.
        volunteers : bool, default=False
            Whether the promise excepts people whom the directions were learned from.
        ledger : str, optional
            Name of the dataset that was charged in a ledger; None: none was.
        private : bool, default=True
            Whether all noise came from fresh secret keystreams.
        about : AboutRelease, optional
            What the publisher says of the release.

        Raises
        ------
        ReleaseError
            If a part is missing or short, or users do not rise from part to part.
        """
        if self._sealed or self.user_type is None:
            raise ValueError("a release is sealed once, and after user_type is set.")
        n_users = self._count_users()
        users = Users(type=self.user_type, roster=roster, pseudonyms=pseudonyms, volunteers=volunteers)
        manifest = Manifest.of(
            self.plan,
            users=users,
            n_users=n_users,
            files=self._records.values(),
            ledger=ledger,
            private=private,
            about=about,
        )
        with disk_errors(self.target):
            parts.write_synced(self.path / README, manifest.readme().encode())
            parts.write_synced(self.path / MANIFEST, manifest.to_json().encode())
        self._sealed = True
        return manifest

    def publish(self) -> Path:
        """Make the release visible, all at once, and return where it is."""
        if not self._sealed:
            raise ValueError("a release must be sealed before it is published.")
        return super().publish()

    def make_scratch(self, name: str = "scratch") -> Path:
        """Return a new folder beside the release for what is not part of it; it is removed with the staging."""
        folder = self.path.with_name(name)
        with disk_errors(self.target):
            folder.mkdir(0o700)
        return folder

    def _check_vocabulary(self, path: str, vocabulary: Vocabulary) -> None:
        if self.plan.vocabulary is None:
            raise ParameterError("vocabulary must be closed by the plan to be published. Make a plan with one.")
        self.plan.vocabulary_of(vocabulary)
        if self._sealed or path in self._records:
            raise ValueError(f"{path} must be written once, before sealing.")

    def _count_users(self) -> int:
        """Return the number of people, if the parts are those of one release."""
        written = sorted(self._parts)
        if not written or written != list(range(len(written))) or len(self._written) != len(written):
            raise ReleaseError("a release must hold all its parts, from the first on, but it does not.")
        ordered = [self._parts[index] for index in written]
        if any(part.n_users != self.layout.users_per_part for part in ordered[:-1]):
            raise ReleaseError("every part but the last must be full, but one is not.")
        if any(part.last >= following.first for part, following in pairwise(ordered)):
            raise ReleaseError("users must be in ascending order from part to part, without repeats.")
        n_users = done = sum(part.n_users for part in ordered)
        for part in reversed(ordered):
            if part.after not in (None, n_users - done):
                raise ReleaseError("values must hold the distances to all users after each, but they do not.")
            done -= part.n_users
        return n_users

    @property
    def _written(self) -> list[str]:
        """Paths of the parts that are on the disk: one that failed has been begun only."""
        with self._lock:
            return [path for path in self._records if path.startswith(PARTS_FOLDER)]


def check_public(plan: Plan, vocabulary: Vocabulary | None) -> None:
    """Refuse lists of attributes that no reader would take from a release: before anything is charged or drawn.

    Raises
    ------
    ParameterError
        If their attributes are too long.
    """
    directions = plan.matrix
    if directions is not None:
        for names in (directions.vocabulary, directions.categories):
            if names is not None:
                parts.check_attributes(names, rows_per_group=DIRECTIONS_PER_GROUP)
    elif vocabulary is not None and plan.vocabulary is not None and not vocabulary.is_numbered:
        parts.check_attributes(vocabulary, rows_per_group=min(parts.ATTRIBUTES_PER_GROUP, _rows_at_a_time(plan)))


def _rows_at_a_time(plan: Plan) -> int:
    return max(1, _CHUNK_ENTRIES // (plan.k or 1))


def projection_chunks(plan: Plan, vocabulary: Vocabulary) -> Iterator[tuple[list[str], NDArray[np.int64]]]:
    """Return attributes and their rows of P, some at a time."""
    step = _rows_at_a_time(plan)
    for start in range(0, len(vocabulary), step):
        attributes = vocabulary[start : start + step]
        yield attributes, plan.rows(attributes).to_dense()


def save_sketches(
    path: str | Path,
    sketches: Sketches,
    *,
    vocabulary: Vocabulary | None,
    overwrite: bool = False,
    about: AboutRelease | None = None,
) -> Path:
    """Write numbers that were published in memory as a release folder: the same release, at no further cost.

    Raises
    ------
    ParameterError
        If the folder cannot be made.
    """
    user_type: UserType = "text" if sketches.textual else "int64"
    with ReleaseWriter(path, sketches.plan, user_type=user_type, overwrite=overwrite) as writer:
        for index, (users, values) in enumerate(sketches.parts()):
            writer.write_part(index, users, np.ascontiguousarray(values))
        writer.write_public(vocabulary)
        writer.seal(
            roster=sketches.roster,
            volunteers=sketches.volunteers,
            pseudonyms=sketches.pseudonyms,
            private=sketches.private,
            about=about,
        )
        return writer.publish()
