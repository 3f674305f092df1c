"""Releases that grow: new people beside those of an earlier release, or in the place of some of them.

What was published of the others is taken over as it is, number by number: to draw their noise again would cost again.
"""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from numpy.typing import NDArray

from dimly.errors import ParameterError, ReleaseError
from dimly.mechanisms.plan import Plan
from dimly.release.layout import PARTS_FOLDER, UserType
from dimly.release.manifest import read_manifest
from dimly.release.merging import Rows, merged
from dimly.release.parts import (
    FileRecord,
    WrittenPart,
    as_user_column,
    located,
    opened,
    read_table,
    users_of,
    values_of,
    write_part,
)
from dimly.release.stored import open_folder
from dimly.release.verify import verify
from dimly.release.writer import ReleaseWriter

RosterKind = Literal["given", "found"]


class Base:
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
        if plan.n_users is not None:
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

    def check_unchanged(self) -> None:
        """Refuse to go on if another release is at its place by now."""
        if read_manifest(self.path).release != self.sketches.manifest.release:
            raise ReleaseError(f"{self.path} must not change while it grows, and did. Try again.")

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
            with opened(located(self._folder, record), record.path) as file:
                table = read_table(file, record.path)
            yield users_of(table), values_of(table, self._plan, record.path, rest=0)

    def remove(self) -> None:
        """Remove them."""
        shutil.rmtree(self._folder)
