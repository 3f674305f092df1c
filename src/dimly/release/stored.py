"""A release in a folder: opened at once at any size, read when it is asked for."""

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.errors import ParameterError, ReleaseError
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.plan import Plan
from dimly.release import parts
from dimly.release.files import Files
from dimly.release.groups import Groups, check_rising, for_all
from dimly.release.layout import ATTRIBUTES
from dimly.release.manifest import Manifest, read_manifest
from dimly.release.sketches import ordered_pairs, published_layout, row_start
from dimly.release.verify import verify as verify_folder


class StoredSketches:
    """What is published, in a folder. Offers what :class:`~dimly.release.Sketches` does; see :func:`open_folder`.

    All users and all values are read from the disk when they are first asked for, and kept; :meth:`parts` reads them
    piece by piece, and keeps nothing; :meth:`locate` and :meth:`take` read the row groups of the people asked for. A
    file is checked against its digest before the first of its numbers is used.

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
        self._files = Files(path, manifest)
        self._groups = Groups(self._files, manifest)

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
        """Ids of the people, int64 or text, rising.

        Raises
        ------
        ReleaseError
            If the files were changed since the release was opened, or do not hold what they must.
        """
        users = self._no_users(len(self))
        step = self.users_per_part

        def read(index: int) -> None:
            part = parts.users_of(self._table(index, "user"))
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
        values = np.empty(published_layout(self.plan, len(self))[1], published_layout(self.plan, 0)[0])

        def read(index: int) -> None:
            start = index * self.users_per_part
            if self.plan.n_users is not None:
                start = row_start(len(self), start)
            part = self.read_values(index)
            values[start : start + len(part)] = part

        for_all(read, range(self.n_parts))
        values.flags.writeable = False
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
        table = self._table(index)
        return parts.users_of(table), self._values(index, table)

    def read_values(self, index: int) -> NDArray[Any]:
        """Return the values alone of part ``index``; see :meth:`read_part`."""
        return self._values(index, self._table(index, "sketch"))

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
            return np.asarray(self.values[positions])
        dtype, shape = published_layout(self.plan, len(positions))
        rows = np.empty(shape, dtype)
        self._groups.gather("sketch", positions, rows)
        return rows

    def pairs(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[Any]:
        """Return the noisy distances of pairs of positions; 0 for somebody with himself. Raises as :meth:`locate`."""
        found = np.zeros(len(rows), published_layout(self.plan, 0)[0])
        other, low, high = ordered_pairs(rows, columns)
        between = found[other]
        self._groups.gather_pairs(low, high, between)
        found[other] = between
        return found

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The closed list of attributes, if it was published; it is the plan's.

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
            return self.plan.vocabulary.resolve(column.to_pylist())
        except ParameterError as error:
            raise ReleaseError(f"{record.path}: {error}") from None

    def _table(self, index: int, *columns: str) -> pa.Table:
        record = self._parts[index]
        with self._files.whole(record) as file:
            return parts.read_table(file, record.path, columns=list(columns) or None)

    def _values(self, index: int, table: pa.Table) -> NDArray[Any]:
        path, rest = self._parts[index].path, self.manifest.users_after(index)
        return parts.values_of(table, self.plan, path, rest=rest)

    def _no_users(self, n: int) -> NDArray[Any]:
        return np.empty(n, np.dtypes.StringDType() if self.textual else np.int64)


def open_folder(path: str | Path, *, verify: bool = False) -> StoredSketches:
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
    folder = Path(os.path.abspath(path))  # the working directory may change
    if verify:
        verify_folder(folder)
    manifest = read_manifest(folder)
    files = Files(folder, manifest)
    for_all(lambda record: files.footer(record).close(), manifest.files)
    return StoredSketches(folder, manifest)
