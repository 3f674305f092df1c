"""``NoiseSampler``: integer noise by inverse CDF on a plan's table, and coin flips, exact and in bulk."""

import numpy as np
from numpy.typing import NDArray

from dimly.curator import kernels
from dimly.curator.randomness import WordSource
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.tables import FLIP_BITS, BitFlip, Cells, NoiseTable

_FLIPS_AT_ONCE = 1 << 13  # words at once: with the random words for them they stay in the second cache
_REST = FLIP_BITS - kernels.LANE_ROUNDS


def flip_lanes(flip: BitFlip, words: WordSource, out: NDArray[np.uint64]) -> None:
    """Set each bit of ``out``, which is flat, with the probability of ``flip``, exactly and independently.

    All lanes draw the leading bits of a uniform number; the few that are still equal to the threshold's draw the rest.
    """
    threshold = flip.numerator
    leading = [(threshold >> (FLIP_BITS - 1 - r)) & 1 for r in range(kernels.LANE_ROUNDS)]
    masks = np.array([(1 << 64) - 1 if bit else 0 for bit in leading], np.uint64)
    random = np.empty(kernels.LANE_ROUNDS * min(_FLIPS_AT_ONCE, len(out)), np.uint64)
    equal = np.empty(min(_FLIPS_AT_ONCE, len(out)), np.uint64)
    for start in range(0, len(out), _FLIPS_AT_ONCE):
        below = out[start : start + _FLIPS_AT_ONCE]
        size = len(below)
        drawn = random[: kernels.LANE_ROUNDS * size]
        words.fill(drawn)
        count = kernels.compare_lanes(drawn.reshape(kernels.LANE_ROUNDS, size), masks, below, equal[:size])
        own = np.empty(count, np.uint64)
        words.fill(own)
        kernels.settle_lanes(own, threshold & ((1 << _REST) - 1), _REST, below, equal[:size])


# Where sixteen bits settle fewer samples than this, thirty-two are drawn at once; where those settle fewer than the
# second, a further look would be the rule, and sixty-four are.
_LEAST_SETTLED = 0.98
_LEAST_SETTLED_TWICE = 0.4
_PREFIXES = 1 << 16
_PIECE = 1 << 16
_MOST_ROOMS = 64
_NO_GUIDE = np.iinfo(np.int16).min
# Asking NumPy takes as long as perturbing one person.
_LIMITS = {kind: (int(np.iinfo(kind).min), int(np.iinfo(kind).max)) for kind in map(np.dtype, ("i2", "i4", "i8"))}


class _Room:
    """Scratch memory of one call: fresh pages for each piece would cost a tenth of its time."""

    def __init__(self) -> None:
        self.words = np.empty(_PIECE, np.uint32)
        self.prefixes = self.words.view(np.uint16)
        self.noise = np.empty(kernels.GUIDED_AT_ONCE, np.int16)
        self.entries = np.empty(kernels.GUIDED_AT_ONCE, np.uint32)
        self.flags = np.empty(kernels.GUIDED_AT_ONCE, np.bool_)
        self.high = np.empty(_PIECE, np.uint64)
        self.refined = 0
        self.unsettled = np.empty(_PIECE + 1, np.int64)
        self.undecided = np.empty(_PIECE + 1, np.int64)

    def forget(self, size: int) -> None:
        """Overwrite what whoever knew it could take the noise off again by."""
        self.words[:size] = 0
        self.high[: self.refined] = 0
        self.refined = 0
        self.noise[:size] = 0
        self.entries[:size] = 0


# Rooms that nobody uses. A call takes one out and gives it back, so that no other call can have the same, not even one
# inside of it: a signal handler or a finalizer that sketches runs in the thread that it interrupts. To take and to give
# back are single steps of the interpreter, which nothing interrupts.
_rooms: list[_Room] = []


class NoiseSampler:
    """Adds noise from one table, exactly: every value has the probability that its weight says.

    Parameters
    ----------
    table : NoiseTable
        Proven when it was made.
    """

    def __init__(self, table: NoiseTable) -> None:
        self._cells = table.cells()
        self._tail = table.tail_cells() if isinstance(table, DiscreteLaplace) else None
        self._begin = _begins(self._cells)
        self._guide = self._build_guide()
        self._guide_twice = self._build_guide_twice() if self._guide is None else None

    def add(self, sketch: NDArray[np.int64], words: WordSource, out: NDArray[np.signedinteger]) -> None:
        """Write ``sketch`` plus fresh noise to ``out``, saturated to its type. Both are flat and contiguous."""
        try:
            room = _rooms.pop()
        except IndexError:
            room = _Room()
        try:
            for start in range(0, sketch.size, _PIECE):
                piece = slice(start, start + _PIECE)
                self._add_piece(sketch[piece], words, out[piece], room)
        finally:
            room.forget(sketch.size)
            if len(_rooms) < _MOST_ROOMS:
                _rooms.append(room)

    def draw(self, count: int, words: WordSource) -> NDArray[np.int64]:
        """Return ``count`` samples."""
        out = np.empty(count, np.int64)
        self.add(np.zeros(count, np.int64), words, out)
        return out

    def _add_piece(
        self, sketch: NDArray[np.int64], words: WordSource, out: NDArray[np.signedinteger], room: _Room
    ) -> None:
        begun: NDArray[np.unsignedinteger] | None = None
        if self._guide is not None:
            begun, places = self._add_guided(sketch, words, out, room)
        elif self._guide_twice is not None:
            begun, places = self._add_guided_twice(sketch, words, out, room)
        else:
            places = np.arange(sketch.size)
        if not len(places):  # as it mostly is for one person: the next look would cost as much as all before
            return
        room.refined = max(room.refined, len(places))
        high = room.high[: len(places)]
        words.fill(high)
        if begun is not None:
            kernels.prolong(begun, places, high)
        count = kernels.add_searched(
            sketch,
            places,
            high,
            self._cells.high,
            self._begin,
            self._cells.first,
            self._tail is not None,
            *_LIMITS[out.dtype],
            out,
            room.undecided,
        )
        smallest, largest = _LIMITS[out.dtype]
        for j in room.undecided[:count].tolist():
            noise = self._value(int(high[j]), words)
            out[places[j]] = min(max(int(sketch[places[j]]) + noise, smallest), largest)

    def _add_guided(
        self, sketch: NDArray[np.int64], words: WordSource, out: NDArray[np.signedinteger], room: _Room
    ) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """Add noise by sixteen bits; return them, and where they do not settle it."""
        assert self._guide is not None  # noqa: S101 - for the type checker
        drawn = room.prefixes[: sketch.size]
        words.fill(drawn)
        count = kernels.add_guided(
            sketch, drawn, self._guide, *_LIMITS[out.dtype], out, room.unsettled, room.noise, room.flags
        )
        return drawn, room.unsettled[:count]

    def _add_guided_twice(
        self, sketch: NDArray[np.int64], words: WordSource, out: NDArray[np.signedinteger], room: _Room
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Add noise by thirty-two bits; return them, and where they do not settle it."""
        assert self._guide_twice is not None  # noqa: S101 - for the type checker
        drawn = room.words[: sketch.size]
        words.fill(drawn)
        count = kernels.add_guided_twice(
            sketch, drawn, self._guide_twice, *_LIMITS[out.dtype], out, room.unsettled, room.entries, room.flags
        )
        return drawn, room.unsettled[:count]

    def _value(self, high: int, words: WordSource) -> int:
        """Return the value of a 128-bit number of which the upper half is given; once in 2⁴⁰ samples."""
        cell = _cell_of(self._cells, high, _word(words))
        value = self._cells.first + cell
        if self._tail is None or 0 < cell < len(self._cells) - 1:
            return value
        beyond = self._draw_tail(words) - 1  # the outermost cells are one step beyond the head themselves
        return value + beyond if value > 0 else value - beyond

    def _draw_tail(self, words: WordSource) -> int:
        """Return how far beyond the head a value lies, at least 1."""
        assert self._tail is not None  # noqa: S101
        repeats = len(self._tail) - 1
        reach = 0
        while (cell := _cell_of(self._tail, _word(words), _word(words))) == repeats:
            reach += repeats
        return reach + cell + 1

    def _build_guide(self) -> NDArray[np.signedinteger] | None:
        """Return the value that each sixteen bits settle, if they settle enough and the values are small enough."""
        start, end = self._begin[:-1], self._begin[1:]
        settled = (start == end) & self._inside(start)
        settled[-1] = False  # the kernel knows by it how the others are marked
        values = self._cells.first + start
        largest = np.abs(values[settled]).max(initial=0)
        if settled.mean() < _LEAST_SETTLED or largest >= np.iinfo(np.int16).max:
            return None
        kind: type[np.signedinteger] = np.int8 if largest < np.iinfo(np.int8).max else np.int16
        return np.where(settled, values, np.iinfo(kind).min).astype(kind)

    def _build_guide_twice(self) -> NDArray[np.uint32] | None:
        """Return value and border of each sixteen bits that at most two cells share, if those are enough."""
        start, end = self._begin[:-1], self._begin[1:]
        settled = (end <= start + 1) & self._inside(start) & self._inside(end)
        values = self._cells.first + start
        if settled.mean() < _LEAST_SETTLED_TWICE or np.abs(values[settled]).max(initial=0) >= np.iinfo(np.int16).max:
            return None
        borders = (self._cells.high[start] >> np.uint64(32)) & np.uint64(0xFFFF)
        borders[start == end] = 0xFFFF  # nobody is beyond, and who is at it is looked up once more
        chosen = np.where(settled, values, _NO_GUIDE).astype(np.int16).view(np.uint16).astype(np.uint32)
        return (chosen << np.uint32(16)) | borders.astype(np.uint32)

    def _inside(self, cells: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which cells are a value each; the outermost may stand for tails."""
        return np.full(len(cells), True) if self._tail is None else (cells != 0) & (cells != len(self._cells) - 1)


def _begins(cells: Cells) -> NDArray[np.int64]:
    """Return the cell of the smallest number of each sixteen-bit prefix, and the last cell at the end."""
    smallest = np.arange(_PREFIXES, dtype=np.uint64) << np.uint64(48)
    begin = np.searchsorted(cells.high, smallest, side="left")
    return np.append(begin, len(cells) - 1).astype(np.int64)


def _cell_of(cells: Cells, high: int, low: int) -> int:
    """Return the first cell whose last number is not below the given one."""
    first = int(np.searchsorted(cells.high, np.uint64(high), side="left"))
    while cells.high[first] == high and cells.low[first] < low:
        first += 1
    return first


def _word(words: WordSource) -> int:
    one = np.empty(1, np.uint64)
    words.fill(one)
    return int(one[0])
