"""``Perturber``, from people to published rows: exact sums, then noise, by the kind of plan; rows of P kept."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol, overload

import numpy as np
import scipy
from numpy.typing import NDArray

from dimly.curator import kernels
from dimly.curator.people import People
from dimly.curator.randomness import WordSource
from dimly.curator.sampling import NoiseSampler, flip_lanes
from dimly.errors import DataError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_kinds import DirectionsPlan, DistancePlan, ResponsePlan, SketchPlan
from dimly.mechanisms.projection.rows import DenseRows, IntArray, Rows

Integers = NDArray[np.integer[Any]]


class Texts(Protocol):
    """Canonical texts of attributes by number, wherever they are kept."""

    def __len__(self) -> int: ...

    def between(self, start: int, stop: int) -> Sequence[str]:
        """Return the texts of the attributes ``start`` … ``stop`` − 1."""

    def at(self, codes: IntArray) -> Sequence[str]:
        """Return the texts of these attributes, whose numbers rise."""


class ListedTexts:
    """Texts of attributes in a list, such as a closed vocabulary."""

    def __init__(self, attributes: Sequence[str]) -> None:
        self._attributes = attributes

    def __len__(self) -> int:
        return len(self._attributes)

    def between(self, start: int, stop: int) -> list[str]:
        """Return the texts of the attributes ``start`` … ``stop`` − 1."""
        return list(self._attributes[start:stop])

    def at(self, codes: IntArray) -> list[str]:
        """Return the texts of these attributes."""
        return [self._attributes[code] for code in codes.tolist()]


class RowCache:
    """Projects people whose attributes are numbered; a row of P is derived once if there is room to keep it.

    Numbers should fall with frequency: the first rows are kept, as many as ``memory`` holds, and those of rare
    attributes are derived again for each batch in which they occur.

    Parameters
    ----------
    plan : Plan
        One that sketches.
    texts : Texts
    memory : int
        Bytes for the rows that are kept.
    """

    def __init__(self, plan: Plan, texts: Texts, *, memory: int) -> None:
        self._plan = plan
        self._texts = texts
        self._capacity = max(1, memory // plan.row_bytes)
        self._kept = plan.rows(_FirstTexts(texts, min(len(texts), self._capacity)))
        self.k = self._kept.k

    def __len__(self) -> int:
        return len(self._texts)

    def project(
        self, indptr: Integers, indices: Integers, values: Integers | None = None, *, out: IntArray | None = None
    ) -> IntArray:
        """Return the exact sketches of people in compressed sparse rows, as :meth:`~dimly.mechanisms.Rows.project`."""
        if len(self._texts) <= self._capacity:
            return self._kept.project(indptr, indices, values, out=out)
        used = slice(int(indptr[0]), int(indptr[-1]))
        indptr, indices = indptr - indptr[0], indices[used]
        values = None if values is None else values[used]
        kept = indices < len(self._kept)
        out = self._project_some(self._kept, kept, indices, (indptr, values), out)
        rare = np.unique(indices[~kept]).astype(np.int64)
        for start in range(0, len(rare), self._capacity):
            codes = rare[start : start + self._capacity]
            mask = (indices >= codes[0]) & (indices <= codes[-1])
            positions = np.searchsorted(codes, indices)
            out += self._project_some(self._plan.rows(self._texts.at(codes)), mask, positions, (indptr, values), None)
        return out

    def _project_some(
        self,
        rows: Rows,
        mask: NDArray[np.bool_],
        positions: Integers,
        people: tuple[Integers, Integers | None],
        out: IntArray | None,
    ) -> IntArray:
        indptr, values = people
        starts = np.concatenate([[0], np.cumsum(mask)])[indptr]
        return rows.project(starts, positions[mask], None if values is None else values[mask], out=out)


class _FirstTexts(Sequence[str]):
    """The first ``size`` texts, fetched slice by slice."""

    def __init__(self, texts: Texts, size: int) -> None:
        self._texts = texts
        self._size = size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        chosen = range(self._size)[index]
        if isinstance(chosen, int):
            return self._texts.between(chosen, chosen + 1)[0]
        found = self._texts.between(chosen.start, max(chosen.start, chosen.stop))
        return found if chosen.step == 1 else found[:: chosen.step]


# Sketches are made, perturbed and written in pieces that stay in a second cache of one megabyte.
_PIECE = 1 << 16
_LAID_OUT = 1 << 26  # bytes of directions for the attributes at hand; finding the row each time takes twice as long


class Perturber:
    """Turns batches of people into published rows, by one plan, for one list of attributes.

    Deriving the projection's rows and the sampler's tables is done here, once for any number of batches. Batches
    may be perturbed by several threads at once, each with words of its own.

    Parameters
    ----------
    plan : Plan
    attributes : sequence of str or RowCache
        Canonical texts; what :class:`People` index. With a closed vocabulary, the vocabulary itself. A cache where
        their rows may not fit in memory. Not needed where attributes are positions in the plan's vocabulary.
    """

    def __init__(self, plan: Plan, attributes: Sequence[str] | RowCache = ()) -> None:
        plan.prove()
        self.plan = plan
        self._kind: _KindPerturber = _PERTURBERS[type(plan)](plan, attributes)

    @classmethod
    def numbered(cls, plan: Plan, texts: Texts, *, memory: int) -> "Perturber":
        """Return the perturber of people whose attributes are numbers of ``texts``, which may be many.

        Parameters
        ----------
        plan : Plan
        texts : Texts
        memory : int
            Bytes for rows of P.
        """
        kind: type[_KindPerturber] = _PERTURBERS[type(plan)]
        return cls(plan, kind.prepared(plan, texts, memory))

    def with_attributes(self, attributes: Sequence[str]) -> "Perturber":
        """Return a perturber for other attributes; it shares the sampler, whose tables take the longest to make."""
        other = copy.copy(self)
        other._kind = self._kind.with_attributes(attributes)
        return other

    def perturb(self, people: People, words: WordSource, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return what is published of ``people``, in their order, with noise from ``words``.

        Parameters
        ----------
        people : People
        words : WordSource
        out : ndarray, optional
            Where to write it; contiguous, of the shape and type below.

        Whoever they come from and whatever was checked before: each attribute of a person counts once, with a value in
        0…resolution, so that the plan's sensitivity holds here.

        Returns
        -------
        ndarray
            Sketches: shape (people, k) of the plan's type. Randomized response: uint8 of shape (people, ⌈d/8⌉), bit i
            in byte i//8 as bit i%8. Noisy distances: all pairs i < j, row after row of the upper triangle.
        """
        people = people.bounded(width=self._kind.width, resolution=self.plan.resolution)
        return self._kind.perturb(people, words, out)

    def perturb_one(self, rows: Rows, values: NDArray[np.int64] | None, words: WordSource) -> NDArray[Any]:
        """Return what is published of one person: the sketch of ``rows``, whose attributes this person has.

        Parameters
        ----------
        rows : Rows
            Of the plan's projection, each attribute once.
        values : ndarray of int64, optional
            One for each row, taken as 0…resolution whatever they are; None: all ones.
        words : WordSource

        Returns
        -------
        ndarray of shape (k,) of the plan's type
        """
        if values is not None:
            values = np.minimum(np.maximum(values, 0), self.plan.resolution)
        return self._kind.perturb_one(rows, values, words)

    def perturb_texts(self, attributes: Collection[str], words: WordSource) -> NDArray[Any]:
        """Return what is published of one person of bits, by a plan that sketches.

        Parameters
        ----------
        attributes : collection of str
            Canonical texts, no two of them the same.
        words : WordSource

        Returns
        -------
        ndarray of shape (k,) of the plan's type
        """
        return self._kind.perturb_texts(attributes, words)


class _KindPerturber(ABC):
    """How people become published rows by one kind of plan."""

    width: int
    """How many attributes there are."""

    @classmethod
    def prepared(cls, plan: Plan, texts: Texts, memory: int) -> "Sequence[str] | RowCache":
        """Return what is needed of attributes that are numbered: nothing where they are positions."""
        del plan, texts, memory
        return ()

    @abstractmethod
    def perturb(self, people: People, words: WordSource, out: NDArray[Any] | None) -> NDArray[Any]:
        """Return what is published of ``people``, whose attributes come once, in range."""

    def with_attributes(self, attributes: Sequence[str]) -> "_KindPerturber":
        """Return the same for attributes that are given by their texts; where they are numbers, they stay so."""
        del attributes
        return self

    def perturb_one(self, rows: Rows, values: IntArray | None, words: WordSource) -> NDArray[Any]:
        """Return what is published of one person whose rows of P are given."""
        raise NotImplementedError

    def perturb_texts(self, attributes: Collection[str], words: WordSource) -> NDArray[Any]:
        """Return what is published of one person who has these attributes."""
        raise NotImplementedError


class _SketchPerturber(_KindPerturber):
    """The exact sketches, with noise on each number."""

    def __init__(self, plan: SketchPlan, attributes: Sequence[str] | RowCache) -> None:
        self._plan = plan
        self._rows = attributes if isinstance(attributes, RowCache) else plan.rows(attributes)
        self._projection = plan.projection.matrix
        self._sampler = NoiseSampler(plan.table)
        self.width = len(self._rows)

    @classmethod
    def prepared(cls, plan: Plan, texts: Texts, memory: int) -> Sequence[str] | RowCache:
        return RowCache(plan, texts, memory=memory)

    def with_attributes(self, attributes: Sequence[str]) -> "_SketchPerturber":
        other = copy.copy(self)
        other._rows = self._plan.rows(attributes)
        other.width = len(other._rows)
        return other

    def perturb(self, people: People, words: WordSource, out: NDArray[Any] | None) -> NDArray[Any]:
        return _perturbed(people, self._rows, self._sampler, words, _rows_for(self._plan, people, out))

    def perturb_one(self, rows: Rows, values: IntArray | None, words: WordSource) -> NDArray[Any]:
        return self._perturbed_total(rows.total(values), words)

    def perturb_texts(self, attributes: Collection[str], words: WordSource) -> NDArray[Any]:
        return self._perturbed_total(self._projection.total(attributes), words)

    def _perturbed_total(self, exact: IntArray, words: WordSource) -> NDArray[Any]:
        out = np.empty(len(exact), self._plan.dtype)
        self._sampler.add(exact, words, out)
        exact.fill(0)  # nothing of this person stays behind in memory that others will use
        return out


def _rows_for(plan: Plan, people: People, out: NDArray[Any] | None) -> NDArray[Any]:
    return np.empty(plan.published_shape(len(people)), plan.published_dtype) if out is None else out


def _perturbed(
    people: People, rows: Rows | RowCache, sampler: NoiseSampler, words: WordSource, out: NDArray[Any]
) -> NDArray[Any]:
    """Write the exact sketches of people, with noise on each number, to ``out``."""
    k = out.shape[1]
    step = max(1, _PIECE // k)
    piece = np.empty((min(step, len(people)), k), np.int64)
    for start in range(0, len(people), step):
        stop = min(start + step, len(people))
        sketch = piece[: stop - start]
        rows.project(people.indptr[start : stop + 1], people.indices, people.values, out=sketch)
        sampler.add(sketch.reshape(-1), words, out[start:stop].reshape(-1))
    return out


class _DirectionsPerturber(_KindPerturber):
    """Sums of public rows, with noise on each number. Attributes without a row count for nothing."""

    def __init__(self, plan: DirectionsPlan, attributes: Sequence[str]) -> None:
        self._plan = plan
        self._directions = plan.matrix
        self._sampler = NoiseSampler(plan.table)
        self._number(attributes)

    @classmethod
    def prepared(cls, plan: Plan, texts: Texts, memory: int) -> Sequence[str]:
        del plan, memory  # rows are kept once, however many attributes have them
        return _FirstTexts(texts, len(texts))

    def with_attributes(self, attributes: Sequence[str]) -> "_DirectionsPerturber":
        other = copy.copy(self)
        other._number(attributes)
        return other

    def _number(self, attributes: Sequence[str]) -> None:
        """Find the row of each attribute, and lay the rows out by attributes where there is room for them."""
        self.width = len(attributes)
        self._codes = np.full(self.width, -1, np.int32)
        for start in range(0, self.width, _PIECE):
            self._codes[start : start + _PIECE] = self._directions.codes(attributes[start : start + _PIECE])
        matrix = self._directions.matrix
        self._laid_out: DenseRows | None = None
        if not self._directions.merges and self.width * matrix[:1].nbytes <= max(_LAID_OUT, matrix.nbytes):
            listed = self._codes >= 0
            rows = matrix[np.where(listed, self._codes, 0)]
            rows[~listed] = 0  # an attribute without a row counts nothing
            self._laid_out = DenseRows(rows)

    def perturb(self, people: People, words: WordSource, out: NDArray[Any] | None) -> NDArray[Any]:
        rows: Rows | None = self._laid_out
        if rows is None:
            people, rows = self._mapped(people), self._directions.rows
        return _perturbed(people, rows, self._sampler, words, _rows_for(self._plan, people, out))

    def _mapped(self, people: People) -> People:
        """Return the people by the rows of their attributes.

        A category that a person has by several attributes counts once, with the largest of their values. Attributes
        that share a bucket are different attributes, and each of them counts.
        """
        codes = self._codes[people.indices]
        kept, indptr, values = codes >= 0, people.indptr, people.values
        if not kept.all():
            indptr = np.concatenate([[0], np.cumsum(kept)])[indptr]
            codes, values = codes[kept], None if values is None else values[kept]
        mapped = People(indptr, codes, values)
        if not self._directions.merges:
            return mapped
        return mapped.bounded(width=len(self._directions.matrix), resolution=self._plan.resolution)


class _ResponsePerturber(_KindPerturber):
    """A bit for each attribute, flipped."""

    def __init__(self, plan: ResponsePlan, attributes: Sequence[str]) -> None:
        self._plan = plan
        self.width = len(attributes) or plan.n_attributes

    def perturb(self, people: People, words: WordSource, out: NDArray[Any] | None) -> NDArray[Any]:
        n, width = self._plan.published_shape(len(people))
        # The flips of all rows end to end, then seen as bytes: nothing is drawn for nothing, and nothing copied where
        # the place for them can be seen as words.
        fits = out is not None and out.nbytes % 8 == 0 and out.flags.c_contiguous and out.ctypes.data % 8 == 0
        flips = out.reshape(-1).view("<u8") if fits and out is not None else np.empty(-(-n * width // 8), "<u8")
        flip_lanes(self._plan.noise.flip, words, flips)
        rows = flips.view(np.uint8)[: n * width].reshape(n, width)
        kernels.toggle_bits(rows, people.indptr, people.indices)
        rows[:, -1] &= ~self._plan.padding
        return rows if fits else _placed(rows, out)


class _DistancePerturber(_KindPerturber):
    """The exact distances of all pairs, with noise on each."""

    def __init__(self, plan: DistancePlan, attributes: Sequence[str]) -> None:
        self._plan = plan
        self._sampler = NoiseSampler(plan.table)
        self.width = len(attributes) or plan.n_attributes

    def perturb(self, people: People, words: WordSource, out: NDArray[Any] | None) -> NDArray[Any]:
        n = len(people)
        if not self._plan.admits(n):
            raise DataError(f"the table must have at most {self._plan.n_users} people, as the plan says.")
        values = np.ones(len(people.indices), np.int64) if people.values is None else people.values
        matrix = scipy.sparse.csr_array((values, people.indices, people.indptr), shape=(n, self.width))
        norms = np.asarray(matrix.multiply(matrix).sum(axis=1)).reshape(-1)
        found = np.empty(n * (n - 1) // 2, self._plan.dtype)
        at = 0
        step = max(1, _PIECE // max(n, 1))
        for start in range(0, n - 1, step):
            block = range(start, min(start + step, n - 1))
            products = (matrix[block.start : block.stop] @ matrix.T).toarray()
            for i in block:
                row = norms[i] + norms[i + 1 :] - 2 * products[i - start, i + 1 :]
                self._sampler.add(row, words, found[at : at + len(row)])
                at += len(row)
        return _placed(found, out)


def _placed(found: NDArray[Any], out: NDArray[Any] | None) -> NDArray[Any]:
    if out is not None:
        out[...] = found
    return found


# The only place where perturbing depends on the kind of plan.
_PERTURBERS: Final[Mapping[type[Plan], Any]] = {
    SketchPlan: _SketchPerturber,
    DirectionsPlan: _DirectionsPerturber,
    ResponsePlan: _ResponsePerturber,
    DistancePlan: _DistancePerturber,
}
