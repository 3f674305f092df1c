"""Integer rows of P for some attributes, hashed or dense: norms, totals, exact sketches from them."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ParameterError
from dimly.mechanisms.projection import kernels

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
