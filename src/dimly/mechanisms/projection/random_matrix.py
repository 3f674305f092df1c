"""P itself: ``Projection``, rows of a family from a public seed, and its sensitivity; families by name.

A row depends on the family, its size, the seed and the attribute's text only: no worker needs the matrix, and a new
attribute needs no new plan. ``docs/projections.md`` says the bytes, with test vectors.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ParameterError
from dimly.mechanisms.projection.closed import Dasgupta, Gaussian, Ternary
from dimly.mechanisms.projection.families import Counting, Family, HashedFamily, Hashing, Power, Shape, Sign, Sparse
from dimly.mechanisms.projection.rows import Rows
from dimly.mechanisms.projection.streams import (
    NEWEST,
    SipSource,
    StreamSource,
    StreamVersion,
    check_stream,
    stream_source,
)
from dimly.mechanisms.vocabulary import Vocabulary

FamilyName = Literal["counting", "hashing", "sparse", "dasgupta", "sign", "ternary", "gaussian"]
FAMILY_NAMES: Final[tuple[FamilyName, ...]] = get_args(FamilyName)

FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {family.name: family for family in (Counting(), Hashing(), Sparse(), Dasgupta(), Sign(), Ternary(), Gaussian())}
)
"""The seven families by name.

Examples
--------
>>> FAMILIES["sparse"].scale(256, blocks=4)
0.5
>>> FAMILIES["sign"].norm(256), FAMILIES["ternary"].norm(256)
(256, None)
"""


def family_named(name: str) -> Family:
    """Return the family of that name, or refuse.

    Examples
    --------
    >>> family_named("hashing").open_vocabulary
    True
    """
    try:
        return FAMILIES[name]
    except (KeyError, TypeError):
        raise ParameterError(f"family must be one of {', '.join(FAMILIES)}, got {name!r}.") from None


SEED_BYTES: Final = 32
_MOST_REALIZED: Final = 1 << 32  # entries of P whose norms are looked at: minutes. Never less: old plans stay valid
_CHUNK_BYTES: Final = 1 << 24  # of names, streams and rows that are held at once while decoding


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
        return root_above(self.l2_squared)

    def times(self, steps: int) -> "Sensitivity":
        """Return how far so many steps of resolution can move it, if one moves it as far as this."""
        return Sensitivity(steps * self.l1, steps**2 * self.l2_squared)


def root_above(square: int) -> float:
    """Return the square root of a whole number, rounded up where it is not one itself."""
    root = math.isqrt(square)
    if root * root == square:
        return float(root)
    above = math.sqrt(square)
    while Fraction(above) ** 2 < square:
        above = math.nextafter(above, math.inf)
    return above


@dataclass(frozen=True)
class Projection:
    """A public random matrix P, one row for each attribute that there is or ever will be.

    Parameters
    ----------
    family : str
        One of :data:`~dimly.mechanisms.projection.random_matrix.FAMILY_NAMES`.
    k : int
        Coordinates of a sketch.
    blocks : int
        Entries of a row (s) for ``sparse`` and ``dasgupta``; 1 for the others.
    seed : bytes
        32 public bytes.
    grid_bits : int, optional
        For ``gaussian`` only: entries are multiples of 2^-grid_bits.
    stream : {1, 2}
        Version of the streams that rows are made of; the newest by default.

    Examples
    --------
    >>> projection = Projection("hashing", 8, 1, bytes(range(32)), stream=1)
    >>> projection.rows(["0", "42"]).to_dense().tolist()
    [[0, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0]]
    """

    family: str
    k: int
    blocks: int
    seed: bytes
    grid_bits: int | None = None
    stream: StreamVersion = NEWEST

    def __post_init__(self) -> None:
        self.record.check(self.k, self.blocks, grid_bits=self.grid_bits)
        if type(self.seed) is not bytes or len(self.seed) != SEED_BYTES:
            raise ParameterError(f"seed must be {SEED_BYTES} bytes, got {self.seed!r}.")
        check_stream(self.stream)

    @property
    def record(self) -> Family:
        """What is known of the family."""
        return family_named(self.family)

    @property
    def scale(self) -> float:
        """The factor that turns integer rows into rows of expected squared norm 1."""
        return self.record.scale(self.k, blocks=self.blocks, grid_bits=self.grid_bits)

    @property
    def entries(self) -> int:
        """How many coordinates one attribute touches at most."""
        return self.record.entries(self.k, blocks=self.blocks)

    def rows(self, attributes: Sequence[str]) -> Rows:
        """Return the integer rows of attributes that are given by their canonical text.

        Parameters
        ----------
        attributes : sequence of str
            As :func:`~dimly.mechanisms.vocabulary.attribute_text` spells them; a
            :class:`~dimly.mechanisms.vocabulary.Vocabulary` is one.
        """
        if isinstance(attributes, str | bytes):
            raise ParameterError(f"attributes must be a list of them, got {type(attributes).__name__}.")
        chunks = self._source.parts(attributes, row_bytes=8 * self.entries, at_once=_CHUNK_BYTES)
        return self.record.derive(len(attributes), Shape(self.k, self.blocks, self.grid_bits), chunks)

    def total(self, attributes: Collection[str]) -> NDArray[np.int64]:
        """Return the exact integer sketch of one person who has these attributes, given by their canonical text.

        As ``rows(attributes).total()``; of hashed rows in one pass that makes no rows.

        Examples
        --------
        >>> Projection("counting", 4, 1, bytes(32)).total(["tea", "jam", "rye"]).sum()
        np.int64(3)
        """
        if self._at_once is not None:
            source, arguments = self._at_once
            out = np.zeros(self.k, np.int64)
            if source.add_hashed(attributes, *arguments, out):
                return out
        return self.rows(tuple(attributes)).total()

    @property
    def adds_at_once(self) -> bool:
        """Whether :meth:`total` makes no rows, and is as fast as adding rows that were kept."""
        return self._at_once is not None

    @cached_property
    def _at_once(self) -> tuple[SipSource, tuple[int, tuple[int, int], bool]] | None:
        source, family = self._source, self.record
        if not isinstance(source, SipSource) or not isinstance(family, HashedFamily):
            return None
        return source, (self.blocks, family.places(self.k, self.blocks), family.signed)

    def rows_by_part(self, attributes: Sequence[str]) -> Iterator[Rows]:
        """Yield the integer rows of many attributes, some at a time."""
        shape = Shape(self.k, self.blocks, self.grid_bits)
        for part, streams in self._source.parts(attributes, row_bytes=8 * self.entries, at_once=_CHUNK_BYTES):
            n = part.stop - part.start
            yield self.record.derive(n, shape, [(slice(0, n), streams)])

    def __reduce__(self) -> tuple[Any, ...]:
        return Projection, (self.family, self.k, self.blocks, self.seed, self.grid_bits, self.stream)

    @cached_property
    def _source(self) -> StreamSource:
        return stream_source(self.stream, self.family, self.k, self.blocks, self.seed)


# A plan is proven when it is made, when it is read, and before it is used: the rows are derived once.
_REALIZED: Final[dict[tuple[Projection, int, str | None], Sensitivity]] = {}
_MOST_REMEMBERED: Final = 256


def realized_sensitivity(projection: Projection, vocabulary: Vocabulary) -> Sensitivity:
    """Return the largest norms of the rows of a public vocabulary, in bounded memory.

    Examples
    --------
    >>> realized_sensitivity(Projection("dasgupta", 4, 3, bytes(32)), Vocabulary.numbered(1000))
    Sensitivity(l1=3, l2_squared=9)
    """
    key = projection, len(vocabulary), None if vocabulary.is_numbered else vocabulary.digest
    known = _REALIZED.get(key)
    if known is not None:
        return known
    entries = len(vocabulary) * projection.entries
    if entries > _MOST_REALIZED:
        raise ParameterError(
            f"vocabulary must have at most {_MOST_REALIZED} entries of {projection.family} in all, got {entries}. "
            "Use a family whose rows all have the same norms: counting, hashing, sparse or sign."
        )
    l1 = l2_squared = 0
    for rows in projection.rows_by_part(vocabulary):
        l1, l2_squared = max(l1, rows.l1), max(l2_squared, rows.l2_squared)
    if len(_REALIZED) >= _MOST_REMEMBERED:
        _REALIZED.clear()
    _REALIZED[key] = Sensitivity(l1, l2_squared)
    return _REALIZED[key]


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
    norm = family.norm(projection.k, blocks=projection.blocks)
    if norm is not None:
        return Sensitivity(norm, norm)
    if vocabulary is None:
        raise ParameterError(
            f"vocabulary must be stated for {family.name}, got None. Its sensitivity is a maximum over a "
            "public list: over the attributes that happen to occur in the data it would itself leak."
        )
    return realized_sensitivity(projection, vocabulary)


def longest_row(name: str, k: int, *, power: Power, blocks: int, row_scale: float, n_attributes: int | None) -> int:
    """Return the norm of a row (ℓ₁, or ℓ₂ squared), or, where rows differ, the likely largest of ``n_attributes``.

    Without a number of attributes: that of an average row.
    """
    # Of one row: the largest of all has its median where a row is longer with this probability. None: the average row.
    tail = None if n_attributes is None else -math.expm1(-math.log(2) / n_attributes)
    return family_named(name).likely_norm(k, power=power, blocks=blocks, row_scale=row_scale, tail=tail)
