"""``Dictionary``: distinct texts or integers of a column, numbered as they are first seen, in bounded memory.

Two values are the same if they are equal, byte by byte: a hash only says where to look first. Numbers depend on the
order of the rows, so nothing that is published may follow from them; whoever uses them puts the values in order.
"""

from abc import ABC, abstractmethod
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.curator.tables import kernels
from dimly.curator.tables.columns import encoded_texts
from dimly.errors import DataError
from dimly.release.format import as_column, numbers_of

OTHER_ROWS: Final = "the table must hold the same rows whenever it is read, but it does not."
_LEAST = 1 << 12
MOST: Final = 1 << 31
"""Numbers are below it: they fit half of a key, which has a sign."""


class NoRoomError(Exception):
    """The values of a column do not fit the memory that they were given, or collide on purpose.

    Hashes have no secret key, so that anybody can make up ids that collide: what is published stays the same.
    """


class Dictionary(ABC):
    """Values of one column, and how often each one came.

    Attributes
    ----------
    memory : int
        Bytes that it may take; to be set before each batch.
    """

    def __init__(self) -> None:
        self.memory = 0

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers there are; some may stand for values that never came."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes that it takes."""

    @abstractmethod
    def number(self, column: pa.Array) -> NDArray[np.int64]:
        """Return the number of each value of a batch without nulls.

        Raises
        ------
        NoRoomError
            If it would take more than its memory. It is of no use afterwards.
        """

    @abstractmethod
    def values(self) -> pa.Table:
        """Return the distinct values ``x``, their numbers ``seen`` and counts ``n``, and forget them."""


class TextDictionary(Dictionary):
    """Texts, each held once: its number and length, its hash and its bytes, in words of eight."""

    def __init__(self) -> None:
        super().__init__()
        self._slots = np.zeros(_LEAST, np.uint64)
        self._arena = np.empty(4 * _LEAST, np.uint64)
        self._counts = np.zeros(_LEAST, np.uint32)
        self._state = np.zeros(4, np.int64)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return int(self._state[kernels.COUNT])

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self._slots.nbytes + self._arena.nbytes + self._counts.nbytes

    def number(self, column: pa.Array) -> NDArray[np.int64]:
        """Return the number of each value of a batch; see :meth:`Dictionary.number`."""
        texts = encoded_texts(column)
        hashes = np.empty(len(texts), np.uint64)
        kernels.hash_texts(texts.offsets, texts.data, hashes)
        found = np.empty(len(texts), np.int64)
        self._state[kernels.AT] = 0
        while True:
            kernels.number_texts(
                texts.offsets, texts.data, hashes, self._slots, self._arena, self._counts, self._state, found
            )
            if self._state[kernels.END] == kernels.DONE:
                return found
            self._grow(texts.offsets)

    def _grow(self, offsets: NDArray[np.int64]) -> None:
        count, used, at, state = self._state.tolist()
        if state == kernels.CROWDED or count >= MOST:
            raise NoRoomError
        words = 2 + max(2, (int(offsets[at + 1] - offsets[at]) + 7) // 8)
        arena = len(self._arena) if used + words <= len(self._arena) else max(used + words, used + used // 2)
        counts = len(self._counts) if count < len(self._counts) else count + count // 2
        slots = len(self._slots) * (1 + _is_crowded(count, len(self._slots)))
        if 8 * arena + 4 * counts + 8 * slots > self.memory:
            raise NoRoomError
        _resize(self._arena, arena)
        _resize(self._counts, counts)
        if slots > len(self._slots):
            del self._slots
            self._slots = np.zeros(slots, np.uint64)
            hashes, places = np.empty(count, np.uint64), np.empty(count, np.int64)
            kernels.text_places(self._arena, hashes, places)
            if not kernels.fill_slots(hashes, places, self._slots):
                raise NoRoomError

    def values(self) -> pa.Table:
        """Return the distinct values; see :meth:`Dictionary.values`."""
        count, used = self.size, int(self._state[kernels.USED])
        del self._slots
        offsets = np.empty(count + 1, np.int64)
        size = kernels.text_offsets(self._arena, used, offsets)
        data = np.empty(size, np.uint8)
        kernels.copy_texts(self._arena, offsets, data)
        del self._arena
        texts = pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))
        return _as_table(texts, np.arange(count), self._counts[:count])


class IntegerDictionary(Dictionary):
    """Integers that may lie anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self._slots = np.zeros(_LEAST, np.uint64)
        self._values = np.empty(_LEAST, np.int64)
        self._counts = np.zeros(_LEAST, np.uint32)
        self._state = np.zeros(4, np.int64)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return int(self._state[kernels.COUNT])

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self._slots.nbytes + self._values.nbytes + self._counts.nbytes

    def number(self, column: pa.Array) -> NDArray[np.int64]:
        """Return the number of each value of a batch; see :meth:`Dictionary.number`."""
        integers = numbers_of(column)
        hashes = np.empty(len(integers), np.uint64)
        kernels.hash_integers(integers, hashes)
        found = np.empty(len(integers), np.int64)
        self._state[kernels.AT] = 0
        while True:
            kernels.number_integers(integers, hashes, self._slots, self._values, self._counts, self._state, found)
            if self._state[kernels.END] == kernels.DONE:
                return found
            self._grow()

    def _grow(self) -> None:
        count, _, _, state = self._state.tolist()
        if state == kernels.CROWDED or count >= MOST:
            raise NoRoomError
        values = len(self._values) if count < len(self._values) else count + count // 2
        slots = len(self._slots) * (1 + _is_crowded(count, len(self._slots)))
        if 12 * values + 8 * slots > self.memory:
            raise NoRoomError
        _resize(self._values, values)
        _resize(self._counts, values)
        if slots > len(self._slots):
            del self._slots
            self._slots = np.zeros(slots, np.uint64)
            hashes = np.empty(count, np.uint64)
            kernels.hash_integers(self._values[:count], hashes)
            if not kernels.fill_slots(hashes, np.arange(count), self._slots):
                raise NoRoomError

    def values(self) -> pa.Table:
        """Return the distinct values; see :meth:`Dictionary.values`."""
        del self._slots
        some = slice(self.size)
        return _as_table(as_column(self._values[some]), np.arange(self.size), self._counts[some])


class RangeDictionary(Dictionary):
    """Integers ``least`` … ``greatest``, of which many occur: each one's number is its distance from the least."""

    def __init__(self, least: int, greatest: int) -> None:
        super().__init__()
        self._least = least
        self._counts = np.zeros(greatest - least + 1, np.uint32)

    @staticmethod
    def bytes_for(least: int, greatest: int) -> int:
        """Return what it would take."""
        return 4 * (greatest - least + 1)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return len(self._counts)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self._counts.nbytes

    def number(self, column: pa.Array) -> NDArray[np.int64]:
        """Return the number of each value of a batch; see :meth:`Dictionary.number`."""
        integers = numbers_of(column)
        found = np.empty(len(integers), np.int64)
        if not kernels.number_range(integers, self._least, self._counts, found):
            raise DataError(OTHER_ROWS)
        return found

    def values(self) -> pa.Table:
        """Return the distinct values; see :meth:`Dictionary.values`."""
        seen = np.flatnonzero(self._counts)
        return _as_table(as_column(seen + self._least), seen, self._counts[seen])


def _as_table(values: pa.Array, seen: NDArray[np.int64], counts: NDArray[np.uint32]) -> pa.Table:
    return pa.table({"x": values, "seen": as_column(seen), "n": as_column(counts)})


def _resize(array: NDArray[Any], size: int) -> None:
    """Make an array longer where it is, if the system can; the old one and the new are not held at once."""
    if size > len(array):
        array.resize(size, refcheck=False)


def _is_crowded(count: int, slots: int) -> bool:
    return 2 * count >= slots
