"""From people to published rows: the only code that touches private values, for every mechanism and every engine."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dimly.curator import kernels
from dimly.curator.flipping import flip_lanes
from dimly.curator.people import People
from dimly.curator.randomness import WordSource
from dimly.curator.row_cache import RowCache
from dimly.curator.sampling import NoiseSampler
from dimly.errors import DataError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_parts import FlipNoise
from dimly.mechanisms.rows import Rows

# Sketches are made, perturbed and written in pieces that stay in the second cache.
_PIECE = 1 << 17


class Perturber:
    """Turns batches of people into published rows, by one plan, for one list of attributes.

    Deriving the projection's rows and the sampler's tables is done here, once for any number of batches. Batches
    may be perturbed by several threads at once, each with words of its own.

    Parameters
    ----------
    plan : Plan
    attributes : sequence of str or RowCache
        Canonical texts; what :class:`People` index. With a closed vocabulary, the vocabulary itself. A cache where
        their rows may not fit in memory.
    """

    def __init__(self, plan: Plan, attributes: Sequence[str] | RowCache) -> None:
        self.plan = plan
        self._rows: Rows | RowCache | None = None
        self._n_attributes = 0  # of no interest to sketches, whose rows check indices themselves
        if isinstance(attributes, RowCache):
            self._rows = attributes
        elif plan.projection is not None:
            self._rows = plan.rows(attributes)
        else:
            self._n_attributes = len(attributes)
        self._sampler = None if isinstance(plan.noise, FlipNoise) else NoiseSampler(plan.table)

    def with_attributes(self, attributes: Sequence[str]) -> "Perturber":
        """Return a perturber for other attributes; it shares the sampler, whose tables take the longest to make."""
        other = copy.copy(self)
        other._rows = self.plan.rows(attributes)
        return other

    def perturb(self, people: People, words: WordSource, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return what is published of ``people``, in their order, with noise from ``words``.

        Parameters
        ----------
        people : People
        words : WordSource
        out : ndarray, optional
            Where to write it; contiguous, of the shape and type below.

        Returns
        -------
        ndarray
            Sketches: shape (people, k) of the plan's type. Randomized response: uint8 of shape (people, ⌈d/8⌉), bit i
            in byte i//8 as bit i%8. Noisy distances: all pairs i < j, row after row of the upper triangle.
        """
        if self._rows is not None:
            return self._sketches(people, words, out)
        published = self._flipped(people, words) if self._sampler is None else self._distances(people, words)
        if out is not None:
            out[...] = published
        return published

    def perturb_one(self, rows: Rows, values: NDArray[np.int64] | None, words: WordSource) -> NDArray[Any]:
        """Return what is published of one person: the sketch of ``rows``, whose attributes this person has.

        Parameters
        ----------
        rows : Rows
            Of the plan's projection, each attribute once.
        values : ndarray of int64, optional
            In 0…resolution, one for each row; None: all ones.
        words : WordSource

        Returns
        -------
        ndarray of shape (k,) of the plan's type
        """
        assert self._sampler is not None  # noqa: S101
        exact = rows.total(values)
        out = np.empty(rows.k, self.plan.dtype)
        self._sampler.add(exact, words, out)
        exact.fill(0)  # nothing of this person stays behind in memory that others will use
        return out

    def _sketches(self, people: People, words: WordSource, out: NDArray[Any] | None) -> NDArray[Any]:
        assert self._rows is not None  # noqa: S101
        assert self._sampler is not None  # noqa: S101
        k = self._rows.k
        if out is None:
            out = np.empty((len(people), k), self.plan.dtype)
        step = max(1, _PIECE // k)
        piece = np.empty((min(step, len(people)), k), np.int64)
        for start in range(0, len(people), step):
            stop = min(start + step, len(people))
            sketch = piece[: stop - start]
            self._rows.project(people.indptr[start : stop + 1], people.indices, people.values, out=sketch)
            self._sampler.add(sketch.reshape(-1), words, out[start:stop].reshape(-1))
        return out

    def _flipped(self, people: People, words: WordSource) -> NDArray[np.uint8]:
        assert isinstance(self.plan.noise, FlipNoise)  # noqa: S101
        d = self._n_attributes
        width = -(-d // 8)
        # The flips of all rows end to end, then seen as bytes: nothing is drawn for nothing, and nothing copied.
        flips = np.empty(-(-len(people) * width // 8), "<u8")
        flip_lanes(self.plan.noise.flip, words, flips)
        rows = flips.view(np.uint8)[: len(people) * width].reshape(len(people), width)
        kernels.toggle_bits(rows, people.indptr, people.indices)
        if d % 8:  # padding carries nothing
            rows[:, -1] &= np.uint8((1 << (d % 8)) - 1)
        return rows

    def _distances(self, people: People, words: WordSource) -> NDArray[Any]:
        assert self._sampler is not None  # noqa: S101
        n = len(people)
        if self.plan.n_users is not None and n > self.plan.n_users:
            raise DataError(f"the table must have at most {self.plan.n_users} people, as the plan says.")
        values = np.ones(len(people.indices), np.int64) if people.values is None else people.values
        matrix = scipy.sparse.csr_array((values, people.indices, people.indptr), shape=(n, self._n_attributes))
        norms = np.asarray(matrix.multiply(matrix).sum(axis=1)).reshape(-1)
        out = np.empty(n * (n - 1) // 2, self.plan.dtype)
        at = 0
        step = max(1, _PIECE // max(n, 1))
        for start in range(0, n - 1, step):
            block = range(start, min(start + step, n - 1))
            products = (matrix[block.start : block.stop] @ matrix.T).toarray()
            for i in block:
                row = norms[i] + norms[i + 1 :] - 2 * products[i - start, i + 1 :]
                self._sampler.add(row, words, out[at : at + len(row)])
                at += len(row)
        return out
