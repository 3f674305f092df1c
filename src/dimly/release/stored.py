"""A release in a folder: opened at once at any size, read when it is asked for."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dimly.errors import ParameterError, ReleaseError
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.plan import Plan
from dimly.release import parts
from dimly.release.layout import ATTRIBUTES, PARTS_FOLDER
from dimly.release.manifest import Manifest, read_manifest
from dimly.release.sketches import published_layout
from dimly.release.verify import verify as verify_folder

_THREADS = min(8, os.cpu_count() or 1)


class StoredSketches:
    """What is published, in a folder. Offers what :class:`~dimly.release.Sketches` does; see :func:`open_folder`.

    Users and values are read from the disk when they are first asked for, and kept; :meth:`parts` reads them piece by
    piece, and keeps nothing.

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
        users = np.empty(len(self), np.int64 if self.manifest.users.type == "int64" else np.dtypes.StringDType())
        step = self.manifest.layout.users_per_part

        def read(index: int) -> None:
            part = parts.users_of(self._table(index, "user"))
            users[index * step : index * step + len(part)] = part

        self._for_all(read)
        if (users[1:] <= users[:-1]).any():
            raise ReleaseError(f"{PARTS_FOLDER} must hold users in rising order, each once, and does not.")
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
        step = self.manifest.layout.users_per_part

        def read(index: int) -> None:
            start = index * step
            if self.plan.n_users is not None:  # where the distances of its first person start
                start = start * (2 * len(self) - start - 1) // 2
            part = self._values(index, self._table(index, "sketch"))
            values[start : start + len(part)] = part

        self._for_all(read)
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
        with _checked_file(self.path, self.manifest, record) as file:
            column = parts.read_table(file, record.path).column("attribute")
        try:
            return self.plan.vocabulary.resolve(column.to_pylist())
        except ParameterError as error:
            raise ReleaseError(f"{record.path}: {error}") from None

    def _table(self, index: int, *columns: str) -> pa.Table:
        record = self._parts[index]
        with _checked_file(self.path, self.manifest, record) as file:
            return parts.read_table(file, record.path, columns=list(columns) or None)

    def _values(self, index: int, table: pa.Table) -> NDArray[Any]:
        path, rest = self._parts[index].path, self.manifest.users_after(index)
        return parts.values_of(table, self.plan, path, rest=rest)

    def _for_all(self, read: Callable[[int], None]) -> None:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(read, range(self.n_parts)))


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
    with ThreadPoolExecutor(_THREADS) as pool:
        for file in pool.map(lambda record: _checked_file(folder, manifest, record), manifest.files):
            file.close()
    return StoredSketches(folder, manifest)


def _checked_file(folder: Path, manifest: Manifest, record: parts.FileRecord) -> pq.ParquetFile:
    """Open one file of a release, and check its size and footer."""
    file = parts.opened(parts.located(folder, record), record.path)
    try:
        manifest.check_footer(file, record)
    except BaseException:
        file.close()
        raise
    return file
