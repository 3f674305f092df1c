"""``NoiseSampler``: integer noise by a look-up in a plan's table, and coin flips, exact and in bulk."""

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


_LEAST_SETTLED = 0.5  # of the samples, by sixteen bits; else 64 are drawn at once
_FEW_OPEN = 0.99  # of the samples settled by sixteen bits: from here on most runs of 32 are settled whole
_PREFIXES = 1 << 16
_PIECE = 1 << 16
_MOST_ROOMS = 64
# Asking NumPy takes as long as perturbing one person.
_LIMITS = {kind: (int(np.iinfo(kind).min), int(np.iinfo(kind).max)) for kind in map(np.dtype, ("i2", "i4", "i8"))}


class _Room:
    """Scratch memory of one call: fresh pages for each piece would cost a tenth of its time."""

    def __init__(self) -> None:
        self.prefixes = np.empty(_PIECE, np.uint16)
        self.noise = np.empty(kernels.GUIDED_AT_ONCE, np.int16)
        self.high = np.empty(_PIECE, np.uint64)
        self.refined = 0
        self.unsettled = np.empty(_PIECE + 1, np.int64)
        self.undecided = np.empty(_PIECE + 1, np.int64)

    def forget(self, size: int) -> None:
        """Overwrite what whoever knew it could take the noise off again by."""
        self.prefixes[:size] = 0
        self.high[: self.refined] = 0
        self.refined = 0
        self.noise[:size] = 0


# Rooms that nobody uses. A call takes one out and gives it back, so that no other call can have the same, not even one
# inside of it: a signal handler or a finalizer that sketches runs in the thread that it interrupts. To take and to give
# back are single steps of the interpreter, which nothing interrupts.
_rooms: list[_Room] = []


class NoiseSampler:
    """Adds noise from one table, exactly: every value has the probability that its weight says.

    Noise is a function of a uniform number of 128 bits, of which few are drawn as a rule. Each value gets as many
    sixteen-bit prefixes as fit into its weight, and a table of 2¹⁶ entries says which prefix is whose. What then is
    left of the weights shares the other prefixes, half of which are the first and half the last, and there the value is
    searched for. So a value is that of exactly as many numbers as its weight says, and mirrored numbers have opposite
    values if the table is symmetric.

    Parameters
    ----------
    table : NoiseTable
        Proven when it was made.

    References
    ----------
    G. Marsaglia, W. W. Tsang, J. Wang, Fast generation of discrete random variables, J. Stat. Softw. 11(3) (2004).
    """

    def __init__(self, table: NoiseTable) -> None:
        cells = table.cells()
        self._tail = table.tail_cells() if isinstance(table, DiscreteLaplace) else None
        prefixes = _whole_prefixes(cells, has_tails=self._tail is not None)
        self._settled = int(prefixes.sum())
        self._below = (_PREFIXES - self._settled) // 2
        self._guide = self._build_guide(cells.first, prefixes)
        # What is left of the cells, as if it were moved together: whole prefixes leave the lower halves as they are.
        self._cells = Cells(cells.first, cells.high - (np.cumsum(prefixes) << np.uint64(48)), cells.low)
        self._shift, self._begin = _begins(self._cells, _PREFIXES - self._settled)

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
        drawn = room.prefixes[: sketch.size]
        if self._guide is not None:
            words.fill(drawn)
            limits, many_open = _LIMITS[out.dtype], self._settled < _FEW_OPEN * _PREFIXES
            count = kernels.add_guided(sketch, drawn, self._guide, *limits, out, room.unsettled, room.noise, many_open)
            places = room.unsettled[:count]
        else:
            places = np.arange(sketch.size)
        if not len(places):  # as it mostly is for one person: the next look would cost as much as all before
            return
        room.refined = max(room.refined, len(places))
        high = room.high[: len(places)]
        words.fill(high)
        if self._guide is not None:
            kernels.prolong(drawn, self._below, self._settled, places, high)
        count = kernels.add_searched(
            sketch,
            places,
            high,
            self._cells.high,
            self._begin,
            self._shift,
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

    def _build_guide(self, first: int, prefixes: NDArray[np.uint64]) -> NDArray[np.signedinteger] | None:
        """Return the value that each sixteen bits settle; None if they settle none."""
        if self._settled == 0:
            return None
        values = np.repeat(first + np.arange(len(prefixes)), prefixes.astype(np.int64))
        kind: type[np.signedinteger] = np.int8 if np.abs(values).max() < np.iinfo(np.int8).max else np.int16
        guide = np.full(_PREFIXES, np.iinfo(kind).min, kind)  # which marks the others
        guide[self._below : self._below + self._settled] = values
        return guide


def _whole_prefixes(cells: Cells, *, has_tails: bool) -> NDArray[np.uint64]:
    """Return how many sixteen-bit prefixes each cell gets for itself, which leaves some of each cell.

    None if that would be few, or their values are beyond sixteen bits.
    """
    high_before = np.append(~np.uint64(0), cells.high[:-1])  # the last number before each cell; −1 before the first
    low_before = np.append(~np.uint64(0), cells.low[:-1])
    # (last − first) // 2¹¹²: a cell of exactly so many prefixes keeps one of them in what is left.
    prefixes = (cells.high - high_before - (cells.low <= low_before)) >> np.uint64(48)
    prefixes[len(prefixes) // 2] &= ~np.uint64(1)  # so that those of a symmetric table are an even number
    if has_tails:  # for which the outermost cells stand
        prefixes[[0, -1]] = 0
    values = np.flatnonzero(prefixes) + cells.first
    if prefixes.sum() < _LEAST_SETTLED * _PREFIXES or np.abs(values).max() >= np.iinfo(np.int16).max:
        prefixes[:] = 0
    return prefixes


def _begins(cells: Cells, n_prefixes: int) -> tuple[int, NDArray[np.int32]]:
    """Return where to search for a number, by its first bits: how far to shift them, and the first cell of each.

    As many bits as make at most 2¹⁶ entries, and one more entry, the last cell, at the end.
    """
    more = 16 - (n_prefixes - 1).bit_length()
    shift = 48 - more
    smallest = np.arange(n_prefixes << more, dtype=np.uint64) << np.uint64(shift)
    begin = np.searchsorted(cells.high, smallest, side="left")
    return shift, np.append(begin, len(cells) - 1).astype(np.int32)


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
