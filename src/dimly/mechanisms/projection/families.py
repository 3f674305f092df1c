"""What a family of projections is: scale, norms and entries of its rows; counting, hashing, sparse and sign.

Each family is a random integer matrix P times one public scale, so that a sketch X·P of integer data is exact. A row
belongs to one attribute; what one attribute can move a sketch by is the norm of its row (the paper's Definition 2). The
paper's own families, whose rows differ in norm, are in ``closed.py``.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ParameterError, as_integer
from dimly.mechanisms.projection.rows import DenseRows, HashedRows, Rows
from dimly.mechanisms.projection.streams import Streams

MAX_K: Final = 2**31 - 1
"""Column numbers are stored as signed 32-bit integers."""


class Shape(NamedTuple):
    """Size of a projection: coordinates, entries of a row for the families that have blocks, and the grid of one."""

    k: int
    blocks: int = 1
    grid_bits: int | None = None


Chunks = Iterable[tuple[slice, Streams]]
Power = Literal[1, 2]
"""Of the norm that noise is calibrated by: ℓ₁ for Laplace, squared ℓ₂ for Gaussian noise."""
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
        """Return the factor that turns an integer row, of a size that was checked, into one of expected norm 1."""

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

    def norm(self, k: int, *, blocks: int = 1) -> int | None:
        """Return the ℓ₁ norm of every integer row, which is its squared ℓ₂ norm, too; None where rows differ."""
        return self.entries(k, blocks=blocks) if self.open_vocabulary else None  # each entry that it touches is ±1

    def likely_norm(self, k: int, *, power: Power, blocks: int, row_scale: float, tail: float | None) -> int:
        """Return the ℓ₁ or squared ℓ₂ norm that a row exceeds with probability ``tail``; None: of an average row."""
        del power, row_scale, tail
        return self.entries(k, blocks=blocks)

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
        as_integer("k", k, 1, MAX_K)
        as_integer("blocks", blocks, 1, MAX_K)
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
        del k, grid_bits
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
        places = self.places(k, blocks)
        columns, signs = np.empty((n, blocks), dtype=np.int32), np.empty((n, blocks), dtype=np.int8)
        for part, streams in chunks:
            streams.place(*places, self.signed, columns[part], signs[part])
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
        del blocks, grid_bits
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


class Counting(HashedFamily):
    """One +1 in k. The analyst centers, and the sum of a sketch is a person's weight."""

    name = "counting"
    signed = False

    def _check_size(self, k: int, blocks: int) -> None:
        if k < 2:
            raise ParameterError("k must be at least 2 for counting, got 1. Centering leaves k − 1 coordinates.")
        super()._check_size(k, blocks)


class Hashing(HashedFamily):
    """One ±1 in k (CountSketch)."""

    name = "hashing"


class Sparse(HashedFamily):
    """One ±1 in each of s blocks of k/s places (Kane–Nelson)."""

    name = "sparse"
    has_blocks = True

    def _check_size(self, k: int, blocks: int) -> None:
        if k % blocks:
            raise ParameterError(f"blocks must divide k = {k} for sparse, got {blocks}. Choose k as a multiple of it.")

    def places(self, k: int, blocks: int) -> tuple[int, int]:
        """Return k/s, and k/s again: each hash has a block of its own."""
        return k // blocks, k // blocks


class Sign(DenseFamily):
    """k of ±1 (Achlioptas), from bits, least significant first; a set bit is −1."""

    name = "sign"

    def _decoded(self, streams: Streams, shape: Shape) -> NDArray[Any]:
        packed = streams.first(-(-shape.k // 8))
        return 1 - 2 * np.unpackbits(packed, axis=1, count=shape.k, bitorder="little").view(np.int8)
