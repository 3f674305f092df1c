"""How people are compared in a search: a key for each pair, of sketches, bits or denoised points."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.estimate import Vector
from dimly.analyst.neighbors import kernels
from dimly.analyst.pairs import BitReader, Pairs, PairSums, Side, SketchReader
from dimly.analyst.structure.coordinates import Lengths, Points
from dimly.analyst.structure.denoise import Denoiser
from dimly.mechanisms.error.models import Floats

Metric = Literal["euclidean", "cosine", "jaccard"]
Rows = NDArray[Any]
Positions = NDArray[np.int64]


class Space(Protocol):
    """What is kept of people, and the keys of pairs of them. People with saturated numbers are for the caller."""

    def rows(self, published: Rows) -> Rows:
        """Return what is kept of published rows."""

    def own(self, vector: Vector) -> Rows:
        """Return what is kept of a vector of one's own: one row."""

    def keys(self, one: Rows, many: Rows, *, own: Vector | None = None, limit: float = np.inf) -> Floats:
        """Return the keys of one row, of ``own`` if that is given, with many; any larger number above the limit."""

    def near(self, one: Rows, published: Rows, *, limit: float, own: Vector | None = None) -> Floats:
        """Return the keys of one row with published ones; any larger number instead of a key above the limit."""

    def keys_of_pairs(self, rows: Rows, first: Positions, second: Positions) -> Floats:
        """Return the keys of pairs of rows."""

    def tile(self, x: Rows, y: Rows) -> NDArray[np.float32]:
        """Return about the keys of all rows of x with all of y, up to a factor."""


@dataclass(frozen=True, slots=True)
class SketchSpace:
    """Sketches as they are published, in integer arithmetic: no copy of them is made, and ties are ties."""

    reader: SketchReader
    metric: Metric
    floor: float

    def rows(self, published: Rows) -> Rows:
        """Return the published rows."""
        return published

    def own(self, vector: Vector) -> Rows:
        """Return the vector's row."""
        return vector.row[None, :]

    def keys(
        self,
        one: Rows,
        many: Rows,
        *,
        own: Vector | None = None,
        limit: float = np.inf,  # noqa: ARG002
    ) -> Floats:
        """Return the keys of one row with many."""
        y = one[0].astype(np.float64)
        found = self._sums(many, y)
        sums = PairSums(found[:, 0], y.sum(), found[:, 1], (y**2).sum(), found[:, 2])
        return self._keys(sums, Side(one, noisy=own is None, squared_norm=None if own is None else own.squared_norm))

    def near(self, one: Rows, published: Rows, *, limit: float, own: Vector | None = None) -> Floats:  # noqa: ARG002
        """Return the keys of one row with published ones."""
        return self.keys(one, published, own=own)

    def keys_of_pairs(self, rows: Rows, first: Positions, second: Positions) -> Floats:
        """Return the keys of pairs of rows."""
        sums = np.empty((len(first), 5))
        kernels.sums_of_pairs(rows, first, second, sums)
        return self._keys(PairSums(*sums.T), Side(rows, noisy=True))

    def tile(self, x: Rows, y: Rows) -> NDArray[np.float32]:
        """Return about the keys of all rows of x with all of y."""
        a, b = self.vectors(x), self.vectors(y)
        if self.metric != "jaccard":
            return tile_of(self, a, b)
        # One factor more makes an inner product in steps that of two people.
        a *= np.float32(self.reader.error.gain * self.reader.scale**2)
        return jaccard_tile(self, a, b, sketch_norms(self.reader, x), sketch_norms(self.reader, y))

    def vectors(self, rows: Rows) -> Points:
        """Return rows as vectors, in steps: those of integers are compared exactly below 2²⁴."""
        vectors: Points = rows.astype(np.float32)
        if self.reader.error.centered:
            vectors -= vectors.mean(axis=1, keepdims=True)
        if self.metric == "cosine":
            vectors *= weights(self, sketch_norms(self.reader, rows))
        return vectors

    def _sums(self, rows: Rows, one: Floats) -> Floats:
        sums = np.empty((len(rows), 3))
        kernels.sums_with_one(rows, one, sums)
        return sums

    def _keys(self, sums: PairSums, y: Side) -> Floats:
        if self.metric == "euclidean":
            squares = sums.xx + sums.yy - 2 * sums.xy
            if self.reader.error.centered:  # times k, to stay with integers
                squares = self.reader.k * squares - (sums.x - sums.y) ** 2
            return squares
        return similarity_keys(self.reader.pairs(sums, y._replace(noisy=True, squared_norm=None), y), self)


@dataclass(frozen=True, slots=True)
class BitSpace:
    """Packed bits of randomized response, in words of 64, by the number of bits that differ."""

    reader: BitReader
    metric: Metric
    floor: float

    def rows(self, published: Rows) -> Rows:
        """Return packed bits in words."""
        width = published.shape[1]
        padded = np.zeros((len(published), -(-width // 8) * 8), np.uint8)
        padded[:, :width] = published
        return padded.view(np.uint64)

    def own(self, vector: Vector) -> Rows:
        """Return the vector's bits in words."""
        return self.rows(vector.row[None, :])

    def keys(
        self,
        one: Rows,
        many: Rows,
        *,
        own: Vector | None = None,
        limit: float = np.inf,  # noqa: ARG002
    ) -> Floats:
        """Return the keys of one row with many."""
        differ = np.empty((1, len(many)))
        kernels.differing_bits(one, many, differ)
        return self._keys(differ[0], many, one, noisy=own is None)

    def near(self, one: Rows, published: Rows, *, limit: float, own: Vector | None = None) -> Floats:  # noqa: ARG002
        """Return the keys of one row with published ones."""
        return self.keys(one, self.rows(published), own=own)

    def keys_of_pairs(self, rows: Rows, first: Positions, second: Positions) -> Floats:
        """Return the keys of pairs of rows."""
        differ = np.empty(len(first))
        kernels.differing_bits_of_pairs(rows, first, second, differ)
        if self.metric == "euclidean":
            return differ
        return self._similarities(differ, _ones(rows[first]), _ones(rows[second]), noisy=True)

    def tile(self, x: Rows, y: Rows) -> NDArray[np.float32]:
        """Return the keys of all rows of x with all of y."""
        differ = np.empty((len(x), len(y)), np.float32)
        kernels.differing_bits(x, y, differ)
        if self.metric == "euclidean":
            return differ
        return self._similarities(differ, _ones(x)[:, None], _ones(y)[None, :], noisy=True).astype(np.float32)

    def _keys(self, differ: Floats, many: Rows, one: Rows, *, noisy: bool) -> Floats:
        if self.metric == "euclidean":
            return differ
        return self._similarities(differ, _ones(many), _ones(one), noisy=noisy)

    def _similarities(self, differ: Rows, ones_x: Floats, ones_y: Floats, *, noisy: bool) -> Floats:
        both = (ones_x + ones_y - differ) / 2
        x, y = Side(differ, noisy=True), Side(differ, noisy=noisy)
        return similarity_keys(self.reader.pairs(PairSums(ones_x, ones_y, ones_x, ones_y, both), x, y), self)


def sketch_norms(reader: SketchReader, rows: Rows) -> Floats:
    """Return unbiased squared norms of sketches."""
    sums = np.empty((len(rows), 3))
    kernels.sums_with_one(rows, np.zeros(rows.shape[1]), sums)
    zero = np.zeros(())
    x = Side(rows, noisy=True)
    return reader.pairs(PairSums(sums[:, 0], zero, sums[:, 1], zero, zero), x, x._replace(noisy=False)).squared_norm_x


class _Floored(Protocol):
    @property
    def metric(self) -> Metric: ...

    @property
    def floor(self) -> float: ...


def similarity_keys(pairs: Pairs, space: _Floored) -> Floats:
    """Return the keys of cosine or Jaccard similarity."""
    x, y, shared = pairs.squared_norm_x, pairs.squared_norm_y, pairs.inner_product
    if space.metric == "cosine":
        divisor = np.sqrt(np.maximum(x, space.floor) * np.maximum(y, space.floor))
    else:
        divisor = np.maximum(np.maximum(x + y - shared, np.maximum(x, y)), space.floor)
    keys: Floats = -shared / divisor
    return keys


def weights(space: _Floored, norms: Rows) -> Points:
    """Return what makes cosines of inner products, up to a factor; a column."""
    weights: Points = (1 / np.sqrt(np.maximum(norms, space.floor))).astype(np.float32)[:, None]
    return weights


def tile_of(space: _Floored, a: Points, b: Points) -> NDArray[np.float32]:
    """Return squared distances of vectors, or negative inner products."""
    if space.metric == "cosine":
        similar: NDArray[np.float32] = -a @ b.T
        return similar
    tile: NDArray[np.float32] = a @ b.T
    kernels.distances_of(tile, squares(a), squares(b))
    return tile


def squares(vectors: Points) -> Points:
    """Return squared lengths."""
    found: Points = np.einsum("nk,nk->n", vectors, vectors)
    return found


def jaccard_tile(space: _Floored, a: Points, b: Points, norms_a: Rows, norms_b: Rows) -> NDArray[np.float32]:
    """Return keys of Jaccard similarity from vectors and squared norms."""
    tile: NDArray[np.float32] = a @ b.T
    kernels.negative_jaccard_of(tile, norms_a.astype(np.float32), norms_b.astype(np.float32), np.float32(space.floor))
    return tile


def _ones(words: Rows) -> Floats:
    counts: Floats = np.bitwise_count(words).sum(axis=1, dtype=np.float64)
    return counts


_FIRST = 16  # directions that are looked at first
_LEAST = 1e-30


@dataclass(frozen=True, slots=True)
class DenoisedSpace:
    """Denoised points, in the few directions that are kept. Make one with :meth:`of`.

    A row holds reduced coordinates z, one number more, and zeros up to a multiple of sixteen, which the machine adds up
    at a time. For inner products that number is the origin's: denoised points are m + z·Bᵀ with the columns of B
    orthonormal, so that ⟨x, y⟩ = ⟨z(x) + mB, z(y) + mB⟩ + ‖m‖² − ‖mB‖². For distances it is the root of what a person's
    rest counts: the key of a pair is ‖z(x) − z(y)‖² and its square for both.

    Attributes
    ----------
    matrix, shift
        From published numbers straight to rows, which are then shifted: one product, and no points in between.
    origin
        The row of the mean.
    lengths
        How long published rows are; None where the rest counts for nothing.
    """

    raw: SketchSpace | BitSpace
    denoiser: Denoiser
    matrix: Points
    origin: Points
    shift: Points
    lengths: Lengths | None

    @classmethod
    def of(cls, raw: SketchSpace | BitSpace, denoiser: Denoiser) -> "DenoisedSpace":
        """Return the space of a release's denoiser."""
        coordinates, k, rank = denoiser.coordinates, denoiser.coordinates.dimension, denoiser.rank
        mean = denoiser.mean.astype(np.float64)
        kept, shift = coordinates.products(denoiser.map.astype(np.float64))
        shift = shift - mean @ denoiser.map
        similar = raw.metric != "euclidean"
        lengths = coordinates.lengths(mean) if denoiser.rest and not similar else None
        width = -(-(rank + (similar or lengths is not None)) // 16) * 16
        matrix, origin = np.zeros((k, width), np.float32), np.zeros(width, np.float32)
        matrix[:, :rank] = kept
        if similar:
            inside = mean @ denoiser.basis
            origin[:rank] = inside
            origin[rank] = np.sqrt(max(0.0, float(mean @ mean - inside @ inside)))
        shifted = origin + np.pad(shift, (0, width - rank)).astype(np.float32)
        return cls(raw, denoiser, matrix, origin, shifted, lengths)

    @property
    def metric(self) -> Metric:
        """What is ranked by."""
        return self.raw.metric

    @property
    def floor(self) -> float:
        """Least squared norm to divide by: nothing is noisy here, and only zero is to be kept from."""
        return _LEAST

    def _unpacked(self, published: Rows) -> Rows:
        if isinstance(self.raw, BitSpace):
            return np.unpackbits(published, axis=1, count=len(self.matrix), bitorder="little")
        return published

    def rows(self, published: Rows) -> Rows:
        """Return denoised points."""
        published = self._unpacked(published)
        rows: Points = published.astype(np.float32) @ self.matrix
        rows += self.shift
        if self.lengths is not None:
            rest = _lengths(self.lengths, published) - squares(rows)
            rows[:, self.denoiser.rank] = np.sqrt(np.maximum(self.denoiser.rest * rest, 0.0))
        return rows

    def asking(self, vectors: Points) -> Points:
        """Return vectors as those whose neighbors are wanted: the rest of the other one counts."""
        if self.lengths is None:
            return vectors
        asking = vectors.copy()
        asking[:, self.denoiser.rank] = 0.0
        return asking

    def own(self, vector: Vector) -> Rows:
        """Return the projected point of the vector; for distances, what published numbers are multiplied by, and added.

        ‖x − y‖² of a point y and an own x is, up to ‖x‖², what is known of ‖y‖² less 2⟨x, y⟩, as far as that is known.
        """
        point, denoiser = self.denoiser.coordinates.own(vector), self.denoiser
        if self.metric == "euclidean":
            matched = denoiser.matching(point - denoiser.mean)
            column, shift = denoiser.coordinates.products(matched[:, None])
            return np.append(column[:, 0], shift - denoiser.mean @ matched)[None, :].astype(np.float32)
        row = self.origin[None, :].copy()
        row[:, : denoiser.rank] += denoiser.reduce(point[None, :], noisy=False)
        return row

    def _rest_of(self, one: Rows) -> float:
        return 0.0 if self.lengths is None else float(one[0, self.denoiser.rank]) ** 2

    def keys(
        self,
        one: Rows,
        many: Rows,
        *,
        own: Vector | None = None,  # noqa: ARG002  (its row says all)
        limit: float = np.inf,
    ) -> Floats:
        """Return the keys of one row with many; of a vector of one's own, for similarities only."""
        if self.metric == "euclidean":
            found, rest = np.empty(len(many)), self._rest_of(one)
            kernels.distances_within(many, self.asking(one)[0], limit - rest, found)
            return found + rest
        row, sums = one[0].astype(np.float64), np.empty((len(many), 3))
        kernels.sums_with_one(many, row, sums)
        return similarity_keys(Pairs(sums[:, 1], row @ row, sums[:, 2], sums[:, 2]), self)

    def near(self, one: Rows, published: Rows, *, limit: float, own: Vector | None = None) -> Floats:
        """Return the keys of one row with published ones, infinite for those above the limit.

        The strongest directions alone put most people beyond it where there is structure: with 16 of 64, seven of
        eight in a part of 2¹⁶, and more in a large release. That halves the work.
        """
        if self.metric == "euclidean" and own is not None:
            products = self._unpacked(published).astype(np.float32) @ one[0, :-1] + one[0, -1]
            keys = squares(self.rows(published)).astype(np.float64)
            keys -= 2 * products
            return keys
        if self.metric != "euclidean" or len(self.shift) <= _FIRST or not np.isfinite(limit):
            return self.keys(one, self.rows(published), own=own)
        published, target, rest = self._unpacked(published), self.asking(one)[0], self.denoiser.rest
        numbers = published.astype(np.float32)
        strongest = numbers @ self.matrix[:, :_FIRST]
        strongest += self.shift[:_FIRST]
        keys = np.empty(len(numbers))
        kernels.distances_with_one(strongest, target[:_FIRST], keys)
        least = 0.0  # what all other directions can add, or take off
        if self.lengths is not None:
            keys += rest * (_lengths(self.lengths, published) - squares(strongest))
            # (u − z)² − rest·z² is nowhere smaller.
            least = self._rest_of(one) - rest / (1 - rest) * float((target[_FIRST:].astype(np.float64) ** 2).sum())
        chosen: Any = np.flatnonzero(keys + least <= limit)
        if 4 * len(chosen) > len(keys):  # to pick so many costs more than it saves
            chosen = slice(None)
        others = numbers[chosen] @ self.matrix[:, _FIRST:]
        others += self.shift[_FIRST:]
        more = np.empty(len(others))
        kernels.distances_with_one(others, target[_FIRST:], more)
        if self.lengths is not None:
            more -= rest * squares(others)
        more += keys[chosen] + self._rest_of(one)
        keys[:] = np.inf
        keys[chosen] = more
        return keys

    def keys_of_pairs(self, rows: Rows, first: Positions, second: Positions) -> Floats:
        """Return the keys of pairs of rows."""
        if self.metric == "euclidean":
            found = np.empty(len(first))
            kernels.distances_of_pairs(rows, first, second, found)
            if self.lengths is not None:  # r² + s² and not (r − s)²
                roots = rows[:, self.denoiser.rank].astype(np.float64)
                found += 2 * roots[first] * roots[second]
            return found
        sums = np.empty((len(first), 5))
        kernels.sums_of_pairs(rows, first, second, sums)
        return similarity_keys(Pairs(sums[:, 2], sums[:, 3], sums[:, 4], sums[:, 4]), self)

    def tile(self, x: Rows, y: Rows) -> NDArray[np.float32]:
        """Return about the keys of all rows of x with all of y."""
        if self.metric == "jaccard":
            return jaccard_tile(self, x, y, squares(x), squares(y))
        if self.metric == "cosine":
            return tile_of(self, self.vectors(x), self.vectors(y))
        tile: NDArray[np.float32] = self.asking(x) @ y.T
        kernels.distances_of(tile, squares(x), squares(y))
        return tile

    def vectors(self, rows: Rows) -> Points:
        """Return rows as vectors."""
        if self.metric != "cosine":
            return rows
        vectors: Points = rows * weights(self, squares(rows))
        return vectors


def _lengths(by: Lengths, rows: Rows) -> Floats:
    """Return the squared lengths of people's points less their mean, from their published numbers."""
    sums = np.empty((len(rows), 3))
    kernels.sums_with_one(rows, by.mean, sums)
    total, square, product = sums.T
    lengths: Floats = (by.squares * square + by.products * product + by.constant) + total * (
        by.total + by.square_of_total * total
    )
    return lengths
