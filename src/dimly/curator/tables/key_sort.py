"""``KeySort``: any number of integer keys in order, by buckets; in memory, or in a private file beyond that.

Keys that are spilled are written twice, one after another, and read in pieces of a bucket each: time grows with their
number and no faster. The files have no name, so that nothing of them is left whatever ends the process.
"""

import os
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimly.curator.tables import kernels
from dimly.errors import DimlyError

Keys = NDArray[np.int64]

PIECE: Final = 1 << 20
"""Keys that are put into buckets at a time."""
_BUCKETS: Final = 1 << 8
_FULL: Final = (
    "temp must be on a disk with room for the data: writing rows there failed. Free some space or pass another."
)


class KeySpool:
    """Keys in pieces: in memory until :meth:`spill` is called, then in a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: list[Keys] = []
        self._file: BinaryIO | None = None
        self._ends = [0]

    def __len__(self) -> int:
        return self._ends[-1]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return 0 if self._file else 8 * len(self)

    @property
    def is_spilled(self) -> bool:
        """Whether keys are in a file."""
        return self._file is not None

    def append(self, keys: Keys) -> None:
        """Add a piece.

        Raises
        ------
        DimlyError
            If the disk is full.
        """
        self._ends.append(len(self) + len(keys))
        if self._file is None:
            self._kept.append(keys)
        else:
            self._write(keys)

    def spill(self) -> None:
        """Move everything to a file; raises as :meth:`append` does."""
        if self._file is None:
            try:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - closed by the next line
            except OSError:
                raise DimlyError(_FULL) from None
            weakref.finalize(self, self._file.close)
            kept, self._kept = self._kept[::-1], []
            while kept:
                self._write(kept.pop())

    def read(self, piece: int, start: int, stop: int) -> Keys:
        """Return some keys of a piece."""
        if self._file is None:
            return self._kept[piece][start:stop]
        return self._read(self._ends[piece] + start, stop - start)

    def drain(self) -> Iterator[Keys]:
        """Return all keys in pieces of :data:`PIECE`, and forget them."""
        if self._file is not None:
            for start in range(0, len(self), PIECE):
                yield self._read(start, min(PIECE, len(self) - start))
            self._file.close()
            return
        waiting, self._kept = self._kept[::-1], []
        while waiting:
            some = [waiting.pop()]
            while waiting and sum(map(len, some)) + len(waiting[-1]) <= PIECE:
                some.append(waiting.pop())
            yield np.concatenate(some)

    @property
    def _descriptor(self) -> int:
        return -1 if self._file is None else self._file.fileno()

    def _write(self, keys: Keys) -> None:
        left = keys.view(np.uint8)
        try:
            while len(left):
                left = left[os.write(self._descriptor, left.data) :]
        except OSError:
            raise DimlyError(_FULL) from None

    def _read(self, start: int, size: int) -> Keys:
        keys = np.empty(size, np.int64)
        left = keys.view(np.uint8)
        while len(left):
            got = os.preadv(self._descriptor, [left.data], 8 * (start + size) - len(left))
            if got == 0:
                raise DimlyError("temp must keep the files that are written to it, but one was cut short.")
            left = left[got:]
        return keys


class PartedKeys(NamedTuple):
    """Some keys, bucket after bucket, and where each bucket starts."""

    keys: Keys
    starts: NDArray[np.int64]


class KeySort:
    """Keys put into buckets by their upper bits; each bucket is sorted when it is asked for.

    Parameters
    ----------
    folder : Path
        Private, for files.
    first, stop : int
        Keys are at least ``first`` and below ``stop``.
    spilled : bool
        Whether they are written to a file.
    most : int
        Keys that may be sorted at once; a bucket that has more is divided again, unless they are all the same.
    """

    def __init__(self, folder: Path, *, first: int, stop: int, spilled: bool, most: int) -> None:
        self._folder = folder
        self._first = first
        self._most = most
        self._shift = max(0, (stop - first - 1).bit_length() - _BUCKETS.bit_length() + 1)
        self._buckets = ((stop - first - 1) >> self._shift) + 1
        self._spool = KeySpool(folder)
        if spilled:
            self._spool.spill()
        self._starts: list[NDArray[np.int64]] = []
        self._divided: dict[int, KeySort] = {}

    def part(self, keys: Keys) -> PartedKeys:
        """Return some keys, bucket after bucket; several threads may do it at once."""
        parted = PartedKeys(np.empty_like(keys), np.zeros(self._buckets + 1, np.int64))
        kernels.part_keys(keys, self._first, self._shift, parted.starts, parted.keys)
        return parted

    def add(self, piece: PartedKeys) -> None:
        """Take some keys; raises as :meth:`KeySpool.append` does."""
        self._spool.append(piece.keys)
        self._starts.append(piece.starts)

    def settle(self) -> None:
        """Divide buckets that are too large: nothing is written from then on. Raises as :meth:`add` does."""
        for bucket, size in enumerate(self._sizes()):
            if size > self._most and self._shift > 0:
                self._divided[bucket] = self._divide(bucket)

    def __iter__(self) -> Iterator[Keys]:
        """Return all keys in order, in pieces of any size; can be asked for again."""
        for bucket, size in enumerate(self._sizes()):
            if bucket in self._divided:
                yield from self._divided[bucket]
            elif self._shift == 0:
                yield from self._pieces(bucket)  # all the same
            elif size:
                keys = np.empty(size, np.int64)
                at = 0
                for piece in self._pieces(bucket):
                    keys[at : at + len(piece)] = piece
                    at += len(piece)
                keys.sort()
                yield keys

    def _sizes(self) -> list[int]:
        sizes: list[int] = sum(map(np.diff, self._starts), np.zeros(self._buckets, np.int64)).tolist()
        return sizes

    def _pieces(self, bucket: int) -> Iterator[Keys]:
        for piece, starts in enumerate(self._starts):
            if starts[bucket + 1] > starts[bucket]:
                yield self._spool.read(piece, int(starts[bucket]), int(starts[bucket + 1]))

    def _divide(self, bucket: int) -> "KeySort":
        first = self._first + (bucket << self._shift)
        smaller = KeySort(
            self._folder,
            first=first,
            stop=first + (1 << self._shift),
            spilled=self._spool.is_spilled,
            most=self._most,
        )
        some: list[Keys] = []
        for piece in self._pieces(bucket):
            some.append(piece)
            if sum(map(len, some)) >= PIECE:
                smaller.add(smaller.part(np.concatenate(some)))
                some = []
        if some:
            smaller.add(smaller.part(np.concatenate(some)))
        smaller.settle()
        return smaller
