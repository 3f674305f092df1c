"""Writing a release: parts in any order and from any thread, then sealed, then visible all at once."""

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ParameterError, ReleaseError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release import parts
from dimly.release.directions import encode_directions
from dimly.release.format import (
    ATTRIBUTES,
    DIRECTIONS,
    DIRECTIONS_PER_GROUP,
    MANIFEST,
    PARTS_FOLDER,
    PROJECTION,
    UserType,
    column_of,
    layout_of,
)
from dimly.release.manifest import About, Manifest, Roster, Users
from dimly.release.parts import FileRecord, WrittenPart
from dimly.release.readme import README, readme_of
from dimly.release.sketches import Sketches
from dimly.release.staging import Staging, check_target, disk_errors

_CHUNK_ENTRIES = 1 << 22  # of P at a time


class _BegunPart(NamedTuple):
    """What is known of a part that was begun."""

    n_users: int
    first: Any
    last: Any
    after: int | None
    """Noisy distances: how many people come after it."""


class ReleaseWriter:
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
        self._staging = Staging(target, overwrite=overwrite, replaces=replaces)
        with self._staging.tidy_on_error(), disk_errors(self.target):
            (self._folder / PARTS_FOLDER).mkdir(0o755)

    @property
    def target(self) -> Path:
        """Where the release will be; absolute."""
        return self._staging.target

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
            record = parts.write_part(self._folder, index, column, values, self.plan)
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
        (part.folder / part.record.path).rename(self._folder / part.record.path)

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
            self._records[ATTRIBUTES] = parts.write_attributes(self._folder, vocabulary)

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
                self._folder, projection_chunks(self.plan, vocabulary), self.plan
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
            self._records[DIRECTIONS] = parts.write_file(self._folder, DIRECTIONS, buffer, directions.size)

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
        roster: Roster,
        pseudonyms: bool = False,
        volunteers: bool = False,
        ledger: str | None = None,
        private: bool = True,
        about: About | None = None,
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
        about : About, optional
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
            parts.write_synced(self._folder / README, readme_of(manifest).encode())
            parts.write_synced(self._folder / MANIFEST, manifest.to_json().encode())
        self._sealed = True
        return manifest

    def publish(self) -> Path:
        """Make the release visible, all at once, and return where it is."""
        if not self._sealed:
            raise ValueError("a release must be sealed before it is published.")
        self._staging.publish()
        return self.target

    def check_free(self) -> None:
        """Refuse, before anything is drawn, a target that :meth:`publish` would refuse by now; it raises as that."""
        self._staging.check_free()

    def make_scratch(self, name: str = "scratch") -> Path:
        """Return a new folder beside the release for what is not part of it; it is removed with the staging."""
        folder = self._folder.with_name(name)
        with disk_errors(self.target):
            folder.mkdir(0o700)
        return folder

    @property
    def place(self) -> str:
        """Where the release will be, for texts."""
        return str(self.target)

    @property
    def is_published(self) -> bool | None:
        """Whether the release can be seen; None where nobody can tell."""
        return self._staging.is_published

    def discard(self) -> None:
        """Remove all that was not published. A second call does nothing.

        Raises
        ------
        OSError
            If something cannot be removed: numbers that were drawn are left. The next run tries again.
        """
        self._staging.remove()

    @staticmethod
    def check_target(target: str | Path, *, overwrite: bool = False) -> None:
        """Refuse a target that a writer would refuse, and make nothing.

        Raises
        ------
        ParameterError
            If the target cannot be made.
        """
        check_target(target, overwrite=overwrite)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._staging.__exit__(kind, error, trace)

    @property
    def _folder(self) -> Path:
        return self._staging.path

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
    about: About | None = None,
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
