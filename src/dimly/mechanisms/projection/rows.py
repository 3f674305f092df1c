"""Integer rows of P, hashed or dense: norms, exact sketches from them; what a family must offer."""

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ParameterError
from dimly.mechanisms.projection import kernels
from dimly.mechanisms.projection.streams import Streams

IntArray = NDArray[np.int64]
Integers = NDArray[np.integer[Any]]
Unsigned = NDArray[np.unsignedinteger[Any]]

_NARROW: Final = 8  # coordinates up to which sums are kept in registers


class Rows(ABC):
    """Integer rows of P for some attributes, in their order."""

    k: int

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def to_dense(self) -> IntArray:
        """Return the rows as a matrix of shape (attributes, k)."""

    @property
    def l1_norms(self) -> IntArray:
        """The ℓ₁ norm of each row."""
        return self._norms[0]

    @property
    def l2_squared_norms(self) -> IntArray:
        """The squared ℓ₂ norm of each row."""
        return self._norms[1]

    @property
    def l1(self) -> int:
        """The largest ℓ₁ norm of these rows."""
        return int(self.l1_norms.max(initial=0))

    @property
    def l2_squared(self) -> int:
        """The largest squared ℓ₂ norm of these rows."""
        return int(self.l2_squared_norms.max(initial=0))

    def project(
        self,
        indptr: Integers,
        indices: Integers,
        values: Integers | None = None,
        *,
        out: IntArray | None = None,
    ) -> IntArray:
        """Return the exact integer sketches X·P of people in compressed sparse rows.

        Parameters
        ----------
        indptr : integer array of length n + 1
            Person i has ``indices[indptr[i]:indptr[i + 1]]``. Need not start at zero nor reach the end.
        indices : integer array
            Positions in these rows; repeated ones add up.
        values : integer array of the length of ``indices``, optional
            Factors; all ones if None.
        out : int64 array of shape (n, k), optional
            Where to write, contiguous; what it held is overwritten.

        Returns
        -------
        int64 array of shape (n, k)

        Raises
        ------
        ParameterError
            For a shape, type or index that does not fit; the kernels themselves check nothing.
        """
        starts = _integers("indptr", indptr).astype(np.int64, copy=False)
        indices = _integers("indices", indices)
        # Compared and not subtracted: differences of hostile offsets can wrap around.
        rises = len(starts) > 0 and bool((starts[1:] >= starts[:-1]).all())
        if not rises or starts[0] < 0 or starts[-1] > len(indices):
            raise ParameterError("indptr must rise from ≥ 0 to at most the length of indices.")
        lengths = np.diff(starts)
        if indices.dtype != np.int32:  # so that each kernel is compiled for two types of index, not eight
            indices = indices.astype(np.int64, copy=False)
        used = slice(int(starts[0]), int(starts[-1]))
        # Read as unsigned, a negative index is a huge one: one pass instead of two.
        unsigned = indices[used].view(np.uint32 if indices.dtype == np.int32 else np.uint64)
        if len(unsigned) and unsigned.max() >= len(self):
            raise ParameterError("indices must be ≥ 0 and below the number of rows.")
        bound = int(lengths.max(initial=0)) * self._largest
        factors = None
        if values is not None:
            factors = _integers("values", values).astype(np.int64, copy=False)
            if len(factors) != len(indices):
                raise ParameterError("values must be as long as indices, or None for all ones.")
            bound *= max(int(factors[used].max(initial=0)), -int(factors[used].min(initial=0)))
        if bound > np.iinfo(np.int64).max:
            raise ParameterError("values must be small enough for 64-bit sums. Scale them down.")
        shape = (len(lengths), self.k)
        if out is None:
            out = np.empty(shape, dtype=np.int64)
        elif out.dtype != np.int64 or out.shape != shape or not out.flags.carray:
            raise ParameterError("out must be a writeable contiguous int64 array of shape (len(indptr) − 1, k).")
        self._project(starts, indices, factors, out=out, bound=bound)
        return out

    @abstractmethod
    def take(self, positions: Integers) -> "Rows":
        """Return the rows at some positions, which must be in range."""

    def total(self, values: Integers | None = None) -> IntArray:
        """Return the exact integer sketch of one person who has all of these attributes.

        As :meth:`project` for that person, in a quarter of the time where the attributes are few.

        Parameters
        ----------
        values : integer array, optional
            A factor for each row; all ones if None.

        Returns
        -------
        int64 array of shape (k,)
        """
        factors = None
        bound = len(self) * self._largest
        if values is not None:
            factors = _integers("values", values).astype(np.int64, copy=False)
            if len(factors) != len(self):
                raise ParameterError("values must be as many as the rows, or None for all ones.")
            bound *= max(int(factors.max(initial=0)), -int(factors.min(initial=0)))
        if bound > np.iinfo(np.int64).max:
            raise ParameterError("values must be small enough for 64-bit sums. Scale them down.")
        out = np.empty(self.k, np.int64)
        everything = np.arange(len(self), dtype=np.int32)
        self._project(np.array([0, len(self)]), everything, factors, out=out[None, :], bound=bound)
        return out

    @property
    @abstractmethod
    def _norms(self) -> tuple[IntArray, IntArray]:
        """The ℓ₁ and the squared ℓ₂ norm of each row."""

    @property
    @abstractmethod
    def _largest(self) -> int:
        """A bound on the absolute value of every entry."""

    @abstractmethod
    def _project(
        self, indptr: IntArray, indices: Integers, values: IntArray | None, *, out: IntArray, bound: int
    ) -> None:
        """Write the sketches into ``out``, no partial sum of which exceeds ``bound``."""


class HashedRows(Rows):
    """Rows with s entries of ±1, ``signs`` int8[d, s] in ``columns`` int32[d, s]; collisions add up."""

    def __init__(self, k: int, columns: NDArray[np.int32], signs: NDArray[np.int8]) -> None:
        self.k = k
        self.columns = columns
        self.signs = signs

    def __len__(self) -> int:
        return len(self.columns)

    def to_dense(self) -> IntArray:
        """Return the rows as a matrix of shape (attributes, k)."""
        dense = np.zeros((len(self), self.k), dtype=np.int64)
        np.add.at(dense, (np.arange(len(self))[:, None], self.columns), self.signs)
        return dense

    def take(self, positions: Integers) -> "HashedRows":
        """Return the rows at some positions, which must be in range."""
        return HashedRows(self.k, self.columns[positions], self.signs[positions])

    @cached_property
    def _norms(self) -> tuple[IntArray, IntArray]:
        l1, l2_squared = np.empty(len(self), dtype=np.int64), np.empty(len(self), dtype=np.int64)
        kernels.hashed_norms(self.columns, self.signs, np.zeros(self.k, dtype=np.int64), l1, l2_squared)
        return l1, l2_squared

    @property
    def _largest(self) -> int:
        return int(self.columns.shape[1])  # all in one column

    @cached_property
    def _places(self) -> Unsigned:
        """The columns as the kernels want them."""
        return self.columns.astype(np.uint16 if self.k <= 1 << 16 else np.uint32)

    @cached_property
    def _all_plus(self) -> bool:
        return bool((self.signs == 1).all())

    def _project(
        self,
        indptr: IntArray,
        indices: Integers,
        values: IntArray | None,
        *,
        out: IntArray,
        bound: int,  # noqa: ARG002 - single additions gain nothing from narrower sums
    ) -> None:
        if self.columns.shape[1] == 1:
            signs = None if self._all_plus else self.signs.reshape(-1)
            kernels.project_single(self._places.reshape(-1), signs, indptr, indices, values, out)
        else:
            kernels.project_blocks(self._places, self.signs, indptr, indices, values, out)


class DenseRows(Rows):
    """Rows with k entries each, in the smallest integer type that holds the family's."""

    def __init__(self, matrix: Integers) -> None:
        self.k = matrix.shape[1]
        self.matrix = matrix

    def __len__(self) -> int:
        return len(self.matrix)

    def to_dense(self) -> IntArray:
        """Return the rows as a matrix of shape (attributes, k)."""
        return self.matrix.astype(np.int64)

    def take(self, positions: Integers) -> "DenseRows":
        """Return the rows at some positions, which must be in range."""
        return DenseRows(self.matrix[positions])

    @cached_property
    def _norms(self) -> tuple[IntArray, IntArray]:
        l1: IntArray = np.abs(self.matrix).sum(axis=1, dtype=np.int64)
        l2_squared: IntArray = np.einsum("ij,ij->i", self.matrix, self.matrix, dtype=np.int64)
        return l1, l2_squared

    @cached_property
    def _largest(self) -> int:
        return max(int(self.matrix.max(initial=0)), -int(self.matrix.min(initial=0)))

    def _project(
        self, indptr: IntArray, indices: Integers, values: IntArray | None, *, out: IntArray, bound: int
    ) -> None:
        if self.k <= _NARROW:
            kernels.project_narrow(self.matrix, indptr, indices, values, out)
            return
        kind = next(kind for kind in (np.int16, np.int32, np.int64) if bound <= np.iinfo(kind).max)
        kernels.project_dense(self.matrix, indptr, indices, values, np.empty(self.k, dtype=kind), out)


def _integers(name: str, array: Integers) -> Integers:
    array = np.asarray(array)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not np.can_cast(array.dtype, np.int64):
        raise ParameterError(f"{name} must be a flat array of integers that fit int64, got {array.dtype}.")
    return np.ascontiguousarray(array)


MAX_K: Final = 2**31 - 1
"""Column numbers are stored as signed 32-bit integers."""


class Shape(NamedTuple):
    """Size of a projection: coordinates, entries of a row for the families that have blocks, and the grid of one."""

    k: int
    blocks: int = 1
    grid_bits: int | None = None


Chunks = Iterable[tuple[slice, Streams]]
"""Streams of some attributes at a time, and which they are."""


@dataclass(frozen=True)
class Family(ABC):
    """One family of projections: what a row looks like, its scale, its norms, its error.

    Attributes
    ----------
    name : str
        How plans spell it, and the bytes that enter the stream of P.
    layout : {"hashed", "dense"}
        Hashed rows hold one ±1 for each block; dense rows hold k entries.
    open_vocabulary : bool
        Whether every possible row has the same norms. If not, the sensitivity is a maximum over a
        public vocabulary, and there must be one.
    signed : bool
        Whether entries have mean zero. If not (``counting``), the analyst centers sketches.
    has_blocks : bool
        Whether ``blocks`` may differ from 1.
    """

    name: ClassVar[str]
    layout: ClassVar[Literal["hashed", "dense"]]
    open_vocabulary: ClassVar[bool] = True
    signed: ClassVar[bool] = True
    has_blocks: ClassVar[bool] = False

    @abstractmethod
    def scale(self, k: int, *, blocks: int = 1, grid_bits: int | None = None) -> float:
        """Return the factor that turns an integer row into one of expected squared norm 1."""

    @abstractmethod
    def entries(self, k: int, *, blocks: int = 1) -> int:
        """Return how many coordinates one attribute touches at most: 1, s or k."""

    @abstractmethod
    def row_bytes(self, k: int, *, blocks: int = 1) -> int:
        """Return what one row takes in memory, at most."""

    @abstractmethod
    def derive(self, n: int, shape: Shape, chunks: Chunks) -> "Rows":
        """Return the rows of ``n`` attributes from their streams."""

    def kurtosis(self, blocks: int = 1) -> float:
        """Return κ of V_P = (2r⁴ + (κ − 3)‖z‖₄⁴)/k, the variance of a projected squared distance.

        For ``counting`` after centering, with k − 1 in the place of k.
        """
        del blocks
        return 1.0

    def l1(self, k: int, *, blocks: int = 1) -> int | None:
        """Return the ℓ₁ norm of every integer row, or None where rows differ from each other."""
        return self.entries(k, blocks=blocks) if self.open_vocabulary else None

    def l2_squared(self, k: int, *, blocks: int = 1) -> int | None:
        """Return the squared ℓ₂ norm of every integer row, or None where rows differ from each other."""
        return self.l1(k, blocks=blocks)  # every entry that an open family touches is ±1

    def likely_norms(self, k: int, *, blocks: int, row_scale: float, tail: float | None) -> tuple[int, int]:
        """Return ℓ₁ and squared ℓ₂ norms that a row exceeds with probability ``tail``; None: of an average row."""
        del row_scale, tail
        return self.entries(k, blocks=blocks), self.entries(k, blocks=blocks)

    def check(self, k: int, blocks: int, *, grid_bits: int | None = None) -> None:
        """Refuse a size that a family cannot have.

        Parameters
        ----------
        k : int
            Coordinates of a sketch: 1 to 2³¹ − 1, and at least 2 for ``counting``.
        blocks : int
            1, except for ``sparse`` (a divisor of k) and ``dasgupta``.
        grid_bits : int, optional
            For ``gaussian`` only, and there needed: 1 to 24, with 4^grid_bits ≥ k.

        Raises
        ------
        ParameterError
            Naming the parameter, the range and the value.
        """
        check_integer("k", k, 1, MAX_K)
        check_integer("blocks", blocks, 1, MAX_K)
        self._check_size(k, blocks)
        self._check_grid(k, grid_bits)

    def _check_size(self, k: int, blocks: int) -> None:
        del k
        if blocks != 1 and not self.has_blocks:
            raise ParameterError(
                f"blocks must be 1 for {self.name}, got {blocks}. Only sparse and dasgupta have blocks."
            )

    def _check_grid(self, k: int, grid_bits: int | None) -> None:
        del k
        if grid_bits is not None:
            raise ParameterError(
                f"grid_bits must be None for {self.name}, got {grid_bits!r}. Only gaussian has a grid."
            )


class HashedFamily(Family):
    """Rows of ±1 in few places, which a hash says."""

    layout = "hashed"

    def scale(self, k: int, *, blocks: int = 1, grid_bits: int | None = None) -> float:
        """Return 1/√s."""
        self.check(k, blocks, grid_bits=grid_bits)
        return 1.0 / math.sqrt(blocks)

    def entries(self, k: int, *, blocks: int = 1) -> int:
        """Return s."""
        del k
        return blocks

    def row_bytes(self, k: int, *, blocks: int = 1) -> int:
        """Return the bytes of s columns and signs."""
        del k
        return 5 * blocks

    def derive(self, n: int, shape: Shape, chunks: Chunks) -> "HashedRows":
        """Return the rows of ``n`` attributes from their streams."""
        k, blocks, _ = shape
        columns, signs = np.empty((n, blocks), dtype=np.int32), np.empty((n, blocks), dtype=np.int8)
        for part, streams in chunks:
            streams.place(*self.places(k, blocks), self.signed, columns[part], signs[part])
        return HashedRows(k, columns, signs)

    def places(self, k: int, blocks: int) -> tuple[int, int]:
        """Return of how many places a hash chooses, and how far those of the next hash are from them."""
        del blocks
        return k, 0


class DenseFamily(Family):
    """Rows of k entries."""

    layout = "dense"

    def scale(self, k: int, *, blocks: int = 1, grid_bits: int | None = None) -> float:
        """Return 1/√k."""
        self.check(k, blocks, grid_bits=grid_bits)
        return 1.0 / math.sqrt(k)

    def entries(self, k: int, *, blocks: int = 1) -> int:
        """Return k."""
        del blocks
        return k

    def row_bytes(self, k: int, *, blocks: int = 1) -> int:
        """Return the bytes of k entries of at most 32 bits."""
        del blocks
        return 4 * k

    def derive(self, n: int, shape: Shape, chunks: Chunks) -> "DenseRows":
        """Return the rows of ``n`` attributes from their streams."""
        # Of a type by the family's bound and not by the rows at hand, so that every batch has one type.
        matrix = np.empty((n, shape.k), dtype=self._entry_type(shape))
        for part, streams in chunks:
            matrix[part] = self._decoded(streams, shape)
        return DenseRows(matrix)

    def _entry_type(self, shape: Shape) -> type[np.signedinteger[Any]]:
        del shape
        return np.int8

    @abstractmethod
    def _decoded(self, streams: Streams, shape: Shape) -> NDArray[Any]:
        """Return the entries that bytes stand for."""


def check_integer(name: str, value: int, low: int, high: int) -> None:
    """Refuse what is no integer in a range."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ParameterError(f"{name} must be an integer, got {value!r}.") from None
    if isinstance(value, bool) or not low <= number <= high:
        raise ParameterError(f"{name} must be an integer from {low} to {high}, got {value!r}.")
