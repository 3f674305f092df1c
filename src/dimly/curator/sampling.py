"""Integer noise by inverse CDF on a plan's table: sixteen random bits at first, more only where they are ambiguous."""

import numpy as np
from numpy.typing import NDArray

from dimly.curator import kernels
from dimly.curator.randomness import WordSource
from dimly.mechanisms.discrete_laplace import DiscreteLaplace
from dimly.mechanisms.tables import Cells, NoiseTable

# With more cells than this too many samples would need a second look: then 64 bits are drawn at once.
_MOST_GUIDED_CELLS = 4096
_PREFIXES = 1 << 16


class NoiseSampler:
    """Adds noise from one table, exactly: every value has the probability that its weight says.

    Parameters
    ----------
    table : NoiseTable
        Proven when it was made.
    """

    def __init__(self, table: NoiseTable) -> None:
        cells = table.cells()
        self._cells = cells
        self._tail = table.tail_cells() if isinstance(table, DiscreteLaplace) else None
        self._begin = _begins(cells)
        self._guide = self._build_guide() if len(cells) <= _MOST_GUIDED_CELLS else None

    def add(self, sketch: NDArray[np.int64], words: WordSource, out: NDArray[np.signedinteger]) -> None:
        """Write ``sketch`` plus fresh noise to ``out``, saturated to its type. Both are flat and contiguous."""
        limits = np.iinfo(out.dtype)
        if self._guide is None:
            places = np.arange(sketch.size)
            prefixes = None
        else:
            first = np.empty(sketch.size, np.uint16)
            words.fill(first)
            unsettled = np.empty(sketch.size + 1, np.int64)
            count = kernels.add_guided(sketch, first, self._guide, limits.min, limits.max, out, unsettled)
            places = unsettled[:count]
            prefixes = first[places]
        noise = self._search(len(places), prefixes, words)
        kernels.add_saturating(sketch, places, noise, limits.min, limits.max, out)

    def draw(self, count: int, words: WordSource) -> NDArray[np.int64]:
        """Return ``count`` samples."""
        out = np.empty(count, np.int64)
        self.add(np.zeros(count, np.int64), words, out)
        return out

    def _search(self, count: int, prefixes: NDArray[np.uint16] | None, words: WordSource) -> NDArray[np.int64]:
        """Return samples from 128 bits each, the first sixteen of which may be given."""
        high, low = np.empty(count, np.uint64), np.empty(count, np.uint64)
        words.fill(high)
        words.fill(low)
        if prefixes is not None:
            high = (high >> np.uint64(16)) | (prefixes.astype(np.uint64) << np.uint64(48))
        found = np.empty(count, np.int64)
        kernels.find_cells(high, low, self._cells.high, self._cells.low, self._begin, found)
        values = self._cells.first + found
        if self._tail is not None:
            for i in np.flatnonzero((found == 0) | (found == len(self._cells) - 1)):  # one sample in 2⁴⁰
                values[i] += np.sign(values[i]) * (self._draw_tail(words) - 1)
        return values

    def _draw_tail(self, words: WordSource) -> int:
        """Return how far beyond the head a value lies, at least 1."""
        assert self._tail is not None  # noqa: S101
        repeats = len(self._tail) - 1
        reach = 0
        while True:
            bits = np.empty(2, np.uint64)
            words.fill(bits)
            number = (int(bits[0]) << 64) | int(bits[1])
            last = ((int(h) << 64) | int(low) for h, low in zip(self._tail.high, self._tail.low, strict=True))
            cell = next(i for i, end in enumerate(last) if number <= end)
            if cell < repeats:
                return reach + cell + 1
            reach += repeats

    def _build_guide(self) -> NDArray[np.int16]:
        start, end = self._begin[:-1], self._begin[1:]
        settled = start == end
        if self._tail is not None:  # the outermost cells stand for the tails
            settled &= (start != 0) & (start != len(self._cells) - 1)
        return np.where(settled, self._cells.first + start, kernels.UNSETTLED).astype(np.int16)


def _begins(cells: Cells) -> NDArray[np.int64]:
    """Return the cell of the smallest number of each sixteen-bit prefix, and the last cell at the end."""
    smallest = np.arange(_PREFIXES, dtype=np.uint64) << np.uint64(48)
    begin = np.searchsorted(cells.high, smallest, side="left")
    return np.append(begin, len(cells) - 1).astype(np.int64)
