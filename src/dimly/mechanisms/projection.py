"""Rows of P from a public seed.

A row depends on the family, its size, the seed and the attribute's text only: no worker needs the matrix,
and a new attribute needs no new plan. ``docs/projections.md`` says the bytes, with test vectors.
"""

import hashlib
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dimly.errors import ParameterError
from dimly.mechanisms import kernels
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.families import Family, check_shape, family_named
from dimly.mechanisms.rows import DenseRows, HashedRows, Integers, Rows

SEED_BYTES: Final = 32
_MOST_REALIZED: Final = 1 << 32  # entries of P whose norms are looked at: minutes, but not hours
_CHUNK_BYTES: Final = 1 << 24  # of streams and rows that are held at once while decoding


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Farthest that one attribute can move an integer sketch (the paper's Definition 2).

    Examples
    --------
    >>> Sensitivity(l1=4, l2_squared=4).l2
    2.0
    """

    l1: int
    l2_squared: int

    @property
    def l2(self) -> float:
        """The ℓ₂ sensitivity, rounded up where it is not a whole number."""
        root = math.isqrt(self.l2_squared)
        if root * root == self.l2_squared:
            return float(root)
        above = math.sqrt(self.l2_squared)
        while Fraction(above) ** 2 < self.l2_squared:
            above = math.nextafter(above, math.inf)
        return above


@dataclass(frozen=True, slots=True)
class Projection:
    """A public random matrix P, one row for each attribute that there is or ever will be.

    Parameters
    ----------
    family : str
        One of :data:`~dimly.mechanisms.families.FAMILY_NAMES`.
    k : int
        Coordinates of a sketch.
    blocks : int
        Entries of a row (s) for ``sparse`` and ``dasgupta``; 1 for the others.
    seed : bytes
        32 public bytes.
    grid_bits : int, optional
        For ``gaussian`` only: entries are multiples of 2^-grid_bits.

    Examples
    --------
    >>> projection = Projection("hashing", 8, 1, bytes(range(32)))
    >>> projection.rows(["0", "42"]).to_dense().tolist()
    [[0, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0]]
    """

    family: str
    k: int
    blocks: int
    seed: bytes
    grid_bits: int | None = None

    def __post_init__(self) -> None:
        check_shape(self.record, self.k, self.blocks, grid_bits=self.grid_bits)
        if type(self.seed) is not bytes or len(self.seed) != SEED_BYTES:
            raise ParameterError(f"seed must be {SEED_BYTES} bytes, got {self.seed!r}.")

    @property
    def record(self) -> Family:
        """What is known of the family."""
        return family_named(self.family)

    @property
    def scale(self) -> float:
        """The factor that turns integer rows into rows of expected squared norm 1."""
        return self.record.scale(self.k, blocks=self.blocks, grid_bits=self.grid_bits)

    def rows(self, attributes: Sequence[str]) -> Rows:
        """Return the integer rows of attributes that are given by their canonical text.

        Parameters
        ----------
        attributes : sequence of str
            As :func:`~dimly.mechanisms.attributes.attribute_text` spells them; a
            :class:`~dimly.mechanisms.attributes.Vocabulary` is one.
        """
        if isinstance(attributes, str | bytes):
            raise ParameterError(f"attributes must be a list of them, got {type(attributes).__name__}.")
        if self.record.layout == "dense":
            matrix = np.empty((len(attributes), self.k), dtype=self._dense_type)
            for part in self._parts(attributes):
                matrix[part] = self._dense_chunk(attributes[part])
            return DenseRows(matrix)
        columns = np.empty((len(attributes), self.blocks), dtype=np.int32)
        signs = np.empty((len(attributes), self.blocks), dtype=np.int8)
        width, stride = (self.k // self.blocks,) * 2 if self.family == "sparse" else (self.k, 0)
        for part in self._parts(attributes):
            streams = self._streams(attributes[part], 8 * self.blocks + -(-self.blocks // 8))
            kernels.hashed_entries(streams, width, stride, self.record.signed, columns[part], signs[part])
        return HashedRows(self.k, columns, signs)

    @property
    def _dense_type(self) -> type[np.signedinteger[Any]]:
        # By the family's bound and not by the rows at hand, so that every batch has one type.
        if self.grid_bits is None:
            return np.int8
        return np.int16 if 8.3 * 2.0**self.grid_bits / math.sqrt(self.k) < 2**15 - 1 else np.int32

    def _parts(self, attributes: Sequence[str]) -> Iterator[slice]:
        size = max(1, _CHUNK_BYTES // (8 * self.record.entries(self.k, blocks=self.blocks)))
        return (slice(start, start + size) for start in range(0, len(attributes), size))

    def _streams(self, attributes: Sequence[str], length: int) -> NDArray[np.uint8]:
        """Return the first bytes of each attribute's stream, one attribute a row."""
        size = struct.pack("<II", self.k, self.blocks)
        base = hashlib.shake_256(b"dimly/1\0" + self.family.encode() + b"\0" + size + self.seed)
        try:
            names = [attribute.encode() for attribute in attributes]
        except (AttributeError, UnicodeEncodeError):
            raise ParameterError("attributes must be text. Use attribute_text.") from None
        digests = []
        for name in names:
            state = base.copy()
            state.update(len(name).to_bytes(4, "little") + name)
            digests.append(state.digest(length))
        return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(len(digests), length)

    def _dense_chunk(self, attributes: Sequence[str]) -> Integers:
        if self.family == "sign":
            return _signs(self._streams(attributes, -(-self.k // 8)), self.k)
        if self.family == "ternary":
            return self._ternary_chunk(attributes, _ternary_length(self.k))
        deviates = _deviates(self._streams(attributes, 8 * self.k).view("<u8"))
        return np.rint(deviates * (2.0 ** (self.grid_bits or 0) / math.sqrt(self.k))).astype(self._dense_type)

    def _ternary_chunk(self, attributes: Sequence[str], length: int) -> NDArray[np.int8]:
        streams = self._streams(attributes, length)
        usable = streams < 252  # the largest multiple of 6 that a byte can hold
        rank = np.cumsum(usable, axis=1, dtype=np.int32)
        if (rank[:, -1] < self.k).any():  # the stream goes on: a longer digest begins with the shorter one
            return self._ternary_chunk(attributes, 2 * length)
        chosen = streams[usable & (rank <= self.k)].reshape(-1, self.k)
        return _TERNARY[chosen]


_TERNARY: Final = np.array([(1, -1, 0, 0, 0, 0)[byte % 6] for byte in range(256)], dtype=np.int8)


def _ternary_length(k: int) -> int:
    """Return a number of bytes of which k are below 252 nearly always: 1/64 of them are not."""
    return k + k // 32 + 24


def _deviates(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return Φ⁻¹((w + ½)/2⁵³) for the upper 53 bits w of each word.

    From the lower half of the law only: above 2⁵² a double cannot hold w + ½, and the largest w would
    become an infinity.
    """
    w = (words >> np.uint64(11)).astype(np.int64)
    upper = w >= 2**52
    lower: NDArray[np.float64] = ndtri((np.where(upper, 2**53 - 1 - w, w) + 0.5) * 2.0**-53)
    return np.where(upper, -lower, lower)


def _signs(packed: NDArray[np.uint8], count: int) -> NDArray[np.int8]:
    """Return ±1 from bits, least significant first; a set bit is −1."""
    bits = np.unpackbits(packed, axis=1, count=count, bitorder="little").view(np.int8)
    return 1 - 2 * bits


def realized_sensitivity(projection: Projection, vocabulary: Vocabulary) -> Sensitivity:
    """Return the largest norms of the rows of a public vocabulary, in bounded memory.

    Examples
    --------
    >>> realized_sensitivity(Projection("dasgupta", 4, 3, bytes(32)), Vocabulary.numbered(1000))
    Sensitivity(l1=3, l2_squared=9)
    """
    entries = len(vocabulary) * projection.record.entries(projection.k, blocks=projection.blocks)
    if entries > _MOST_REALIZED:
        raise ParameterError(
            f"vocabulary must have at most {_MOST_REALIZED} entries of {projection.family} in all, got {entries}. "
            "Use a family whose rows all have the same norms: counting, hashing, sparse or sign."
        )
    l1 = l2_squared = 0
    for part in projection._parts(vocabulary):
        rows = projection.rows(vocabulary[part])
        l1, l2_squared = max(l1, rows.l1), max(l2_squared, rows.l2_squared)
    return Sensitivity(l1, l2_squared)


def sensitivity(projection: Projection, vocabulary: Vocabulary | None) -> Sensitivity:
    """Return the farthest that one attribute can move an integer sketch.

    Parameters
    ----------
    projection : Projection
    vocabulary : Vocabulary or None
        Public. Needed for the families whose rows have different norms (``dasgupta``, ``ternary``,
        ``gaussian``); for the others every possible row has the same norms.

    Raises
    ------
    ParameterError
        If the family needs a vocabulary and there is none.

    Examples
    --------
    >>> sensitivity(Projection("sparse", 64, 4, bytes(32)), None)
    Sensitivity(l1=4, l2_squared=4)
    """
    family = projection.record
    l1 = family.l1(projection.k, blocks=projection.blocks)
    l2_squared = family.l2_squared(projection.k, blocks=projection.blocks)
    if l1 is not None and l2_squared is not None:
        return Sensitivity(l1, l2_squared)
    if vocabulary is None:
        raise ParameterError(
            f"vocabulary must be stated for {family.name}, got None. Its sensitivity is a maximum over a "
            "public list: over the attributes that happen to occur in the data it would itself leak."
        )
    return realized_sensitivity(projection, vocabulary)
