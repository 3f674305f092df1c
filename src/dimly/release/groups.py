"""Some people of a stored release: found by what the footers say of each row group, and read from those groups alone.

A row group is an eighth of a part, some megabytes at most, so that whoever asks for two people reads two of them,
however large the release is.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from threading import Lock
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dimly.errors import ReleaseError
from dimly.release import parts
from dimly.release.files import Files
from dimly.release.layout import PARTS_FOLDER
from dimly.release.manifest import Manifest
from dimly.release.sketches import row_start, searched

NOT_RISING = f"{PARTS_FOLDER} must hold users in rising order, each once, and does not."
THREADS = min(8, os.cpu_count() or 1)

# Whoever asks about a few people tends to ask about them again: groups of so many bytes are kept, the latest ones.
_KEPT_BYTES = 1 << 25

Column = Literal["user", "sketch"]
Positions = NDArray[np.int64]
_Item = TypeVar("_Item")
_Done = TypeVar("_Done")


class Groups:
    """The row groups of a release's parts, numbered throughout.

    Parameters
    ----------
    files : Files
    manifest : Manifest
    """

    def __init__(self, files: Files, manifest: Manifest) -> None:
        self._files = files
        self._manifest = manifest
        self._records = manifest.parts
        self._size = manifest.layout.users_per_group
        self._per_part = -(-manifest.layout.users_per_part // self._size)
        self._kept: OrderedDict[tuple[Column, int], NDArray[Any]] = OrderedDict()
        self._lock = Lock()

    def locate(self, ids: NDArray[Any]) -> Positions:
        """Return the positions of ids of the release's own type; −1 where nobody has the id."""
        firsts, lasts = self._bounds
        groups = searched(firsts, ids, side="right") - 1
        inside = (groups >= 0) & (ids <= lasts[np.maximum(groups, 0)])
        positions = np.full(len(ids), -1, np.int64)
        asked = np.flatnonzero(inside)

        def find(group: int, chosen: Positions, users: NDArray[Any]) -> None:
            wanted = ids[asked[chosen]]
            places = searched(users, wanted)  # within, since nobody is after the last
            positions[asked[chosen]] = np.where(users[places] == wanted, group * self._size + places, -1)

        self._visit("user", groups[asked], find)
        return positions

    def gather(self, column: Column, positions: Positions, out: NDArray[Any]) -> None:
        """Write users, or rows of numbers, of some positions to ``out``."""

        def copy(group: int, chosen: Positions, rows: NDArray[Any]) -> None:
            out[chosen] = rows[positions[chosen] - group * self._size]

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
        keep = len(members) <= 2 * self._per_part

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

        for_all(visit, by_part)

    def _held(self, column: Column, group: int) -> NDArray[Any] | None:
        with self._lock:
            held = self._kept.get((column, group))
            if held is not None:
                self._kept.move_to_end((column, group))
            return held

    def _keep(self, column: Column, group: int, held: NDArray[Any]) -> None:
        with self._lock:
            self._kept[column, group] = held
            while len(self._kept) > 1 and sum(kept.nbytes for kept in self._kept.values()) > _KEPT_BYTES:
                self._kept.popitem(last=False)

    def _decoded(self, file: pq.ParquetFile, column: Column, part: int, group: int) -> NDArray[Any]:
        path = self._records[part].path
        table = parts.read_table(file, path, columns=[column], group=group - part * self._per_part)
        if column == "sketch":
            rest = self._manifest.n_users - group * self._size - table.num_rows
            return parts.values_of(table, self._manifest.plan, path, rest=rest)
        users = parts.users_of(table)
        check_rising(users)
        firsts, lasts = self._bounds
        if users[0] != firsts[group] or users[-1] != lasts[group]:
            raise ReleaseError(f"{path} must hold the users that its footer says, and does not. Copy it again.")
        return users

    @cached_property
    def _bounds(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """First and last user of every group; once, from the footers."""

        def read(part: int) -> list[tuple[Any, Any]]:
            record, found = self._records[part], []
            with self._files.footer(record) as file:
                for group in range(file.metadata.num_row_groups):
                    statistics = file.metadata.row_group(group).column(0).statistics
                    if statistics is not None and statistics.has_min_max:
                        found.append((statistics.min, statistics.max))
                    else:  # libraries leave out what is said of very long text
                        self._files.check_digest(record)
                        users = parts.users_of(parts.read_table(file, record.path, columns=["user"], group=group))
                        found.append((users[0], users[-1]))
                return found

        bounds = [pair for part in for_all(read, range(len(self._records))) for pair in part]
        kind = np.dtype(np.int64) if self._manifest.users.type == "int64" else np.dtypes.StringDType()
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
