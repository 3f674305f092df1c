"""``--append`` and ``--update``: new people merged with the parts of an earlier release, or in their place."""

import bisect
import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.errors import ParameterError, ReleaseError
from dimly.mechanisms.guarantee import RosterKind
from dimly.mechanisms.plan import Plan
from dimly.release.format import PARTS_FOLDER, FileRecord, UserType, layout_of
from dimly.release.manifest import read_manifest
from dimly.release.parts import (
    WrittenPart,
    as_user_column,
    check_ids,
    open_parquet,
    path_of,
    read_table,
    users_of,
    values_of,
    write_part,
)
from dimly.release.reader import open_folder
from dimly.release.verify import verify
from dimly.release.writer import ReleaseWriter

Rows = tuple[NDArray[Any], NDArray[Any]]
"""Ids, rising, and what is published of these people, a row each."""


def merged(old: Iterable[Rows], new: Iterable[Rows], *, size: int, replace: bool) -> Iterator[Rows]:
    """Return the people of both, ``size`` at a time (the last ones may be fewer), in the order of their ids.

    Parameters
    ----------
    old, new : iterable of Rows
        Each in the order of ids. One piece of either is held at a time.
    size : int
    replace : bool
        Whether somebody in both is taken from ``new``; else that is refused.

    Raises
    ------
    ReleaseError
        If somebody is in both and may not be.
    """
    sides = (_PieceStream(old), _PieceStream(new))
    pending: list[Rows] = []
    while sum(side.fill() for side in sides):  # both, where `any` would stop at the first
        # Nobody who comes later has a smaller id than the smaller of the last ids in hands.
        limit = min(side.users[-1] for side in sides if len(side.users))
        users, values = _sorted([side.take(limit) for side in sides if len(side.users)], replace=replace)
        pending.append((users, values))
        while sum(len(users) for users, _ in pending) >= size:
            users, values = _joined(pending)
            yield users[:size], values[:size]
            pending = [(users[size:], values[size:])]
    rest = [piece for piece in pending if len(piece[0])]
    if rest:
        yield _joined(rest)


class _PieceStream:
    """One of the two, read piece by piece."""

    def __init__(self, pieces: Iterable[Rows]) -> None:
        self._pieces = iter(pieces)
        self.users: NDArray[Any] = np.empty(0, np.int64)
        self._values: NDArray[Any] = np.empty(0)

    def fill(self) -> bool:
        """Have people in hands if there are any left; return whether there are."""
        while not len(self.users):
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self.users, self._values = piece
        return True

    def take(self, limit: Any) -> Rows:
        """Return the people up to ``limit``, and let them go."""
        stop = bisect.bisect_right(self.users, limit)  # NumPy's own search is unsafe on text: numpy issue 31533
        taken = self.users[:stop], self._values[:stop]
        self.users, self._values = self.users[stop:], self._values[stop:]
        return taken


def _sorted(pieces: list[Rows], *, replace: bool) -> Rows:
    users, values = _joined(pieces)
    order = np.argsort(users, kind="stable")
    ranked = users[order]
    older = np.append(ranked[:-1] == ranked[1:], np.False_)  # the new one comes second
    if older.any():
        if not replace:
            raise ReleaseError("people must be in one of the two releases only, but some are in both.")
        order = order[~older]
    return users[order], values[order]


def _joined(pieces: list[Rows]) -> Rows:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate([users for users, _ in pieces]), np.concatenate([values for _, values in pieces])


class BaseRelease:
    """The release that another one grows from.

    Parameters
    ----------
    path : str or Path
        Its folder; every file is verified.
    plan : Plan
        Must be the release's own.
    replace : bool
        Whether people who are in it may be published anew (an update, which is charged); else only others (an append).

    Raises
    ------
    ParameterError
        If the plan is another, or its mechanism cannot grow.
    ReleaseError
        If the release is damaged.
    """

    def __init__(self, path: str | Path, plan: Plan, *, replace: bool) -> None:
        self.sketches = open_folder(path)
        if self.sketches.private:  # what is not private never verifies, and stays so
            verify(path)
        self.replace = replace
        if self.sketches.plan.digest != plan.digest:
            raise ParameterError("plan must be the one that the release was made by. Publish by another plan apart.")
        if not plan.places_people:
            raise ParameterError(
                "mechanism must be other than noisy-distances to grow: a new person changes everybody's list."
            )
        self._new: _NewParts | None = None

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.sketches.path

    def check(self, user_type: UserType, *, pseudonyms: bool) -> None:
        """Refuse people whose ids are of another kind."""
        users = self.sketches.manifest.users
        if users.type != user_type:
            raise ParameterError(f"users must be {users.type}, as in the release that is to grow, got {user_type}.")
        if users.pseudonyms != pseudonyms:
            raise ParameterError("pseudonyms must be used as in the release that is to grow, and by the same key.")

    def check_ids(self, new: Iterator[pa.Array]) -> None:
        """Refuse text ids that no reader would take from the larger release, before noise is drawn for it.

        Where its parts and row groups end, only the people of both together say.

        Parameters
        ----------
        new : iterator of Array
            Published ids of the new people, in order.

        Raises
        ------
        ReleaseError
            If ids are too long, or somebody is in both and may not be.
        """
        plan = self.sketches.plan
        old = (_without_values(self.sketches.read_users(index)) for index in range(self.sketches.n_parts))
        others = (_without_values(users_of(ids)) for ids in new)
        for users, _ in merged(old, others, size=layout_of(plan).users_per_part, replace=self.replace):
            check_ids(as_user_column(users, "text"), plan)

    def check_unchanged(self) -> None:
        """Refuse to go on if another release is at its place by now."""
        if read_manifest(self.path).release != self.sketches.manifest.release:
            raise ReleaseError(f"{self.path} must not change while people are added, but it did. Try again.")

    def replaced_at(self, target: str | Path) -> str | None:
        """Return the release's id if the larger one takes its place: then no other may be there."""
        try:
            is_same = os.path.samefile(target, self.path)
        except OSError:
            is_same = False
        return self.sketches.manifest.release if is_same or not self.replace else None

    def roster(self, roster: RosterKind) -> RosterKind:
        """Return whether all people of both were given beforehand."""
        return "given" if roster == self.sketches.manifest.users.roster == "given" else "found"

    def new_parts(self, folder: Path) -> "_NewParts":
        """Return where the new people's parts go for the time being."""
        self._new = _NewParts(folder, self.sketches.plan, self.sketches.manifest.users.type)
        return self._new

    def merge_into(self, writer: ReleaseWriter) -> None:
        """Write the people of both."""
        assert self._new is not None  # noqa: S101 - parts come first
        old, new = self.sketches.parts(), self._new.read()
        people = merged(old, new, size=writer.layout.users_per_part, replace=self.replace)
        for index, (users, values) in enumerate(people):
            writer.write_part(index, users, values)
        self._new.remove()


def _without_values(users: NDArray[Any]) -> Rows:
    return users, np.empty((len(users), 0), np.int8)


class _NewParts:
    """Parts of the new people, on disk until they are merged."""

    def __init__(self, folder: Path, plan: Plan, user_type: UserType) -> None:
        self._folder = folder
        self._plan = plan
        self._user_type: UserType = user_type
        self._records: dict[int, FileRecord] = {}
        self._lock = threading.Lock()
        (folder / PARTS_FOLDER).mkdir()

    def write_part(self, index: int, users: pa.Array, values: NDArray[Any]) -> None:
        """Take the people of one part, and what is published of them."""
        record = write_part(self._folder, index, as_user_column(users, self._user_type), values, self._plan)
        with self._lock:
            self._records[index] = record

    def adopt_part(self, part: WrittenPart) -> None:
        """Take a part that is in a file already."""
        (part.folder / part.record.path).rename(self._folder / part.record.path)
        self._records[part.index] = part.record

    def read(self) -> Iterator[Rows]:
        """Return the parts in their order."""
        for index in sorted(self._records):
            record = self._records[index]
            with open_parquet(path_of(self._folder, record), record.path) as file:
                table = read_table(file, record.path)
            yield users_of(table.column("user")), values_of(table, self._plan, record.path, rest=0)

    def remove(self) -> None:
        """Remove them."""
        shutil.rmtree(self._folder)
