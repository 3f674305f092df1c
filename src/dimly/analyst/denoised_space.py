"""People compared by denoised points, in the few directions that are kept."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimly.analyst import neighbor_kernels as kernels
from dimly.analyst.coordinates import Points
from dimly.analyst.denoising import Denoiser
from dimly.analyst.readers import Pairs
from dimly.analyst.spaces import (
    BitSpace,
    Metric,
    Positions,
    Rows,
    SketchSpace,
    jaccard_tile,
    similarity_keys,
    squares,
    tile_of,
    weights,
)
from dimly.analyst.vector import Vector
from dimly.mechanisms.error_models import CountingError, FlippedBitsError, Floats
from dimly.mechanisms.plan import Plan

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
    lengths: "_Lengths | None"

    @classmethod
    def of(cls, raw: SketchSpace | BitSpace, denoiser: Denoiser) -> "DenoisedSpace":
        """Return the space of a release's denoiser."""
        plan, k, rank = denoiser.coordinates.plan, denoiser.coordinates.dimension, denoiser.rank
        mean = denoiser.mean.astype(np.float64)
        kept, shift = _of_numbers(plan, denoiser.map.astype(np.float64))
        shift = shift - mean @ denoiser.map
        similar = raw.metric != "euclidean"
        lengths = _Lengths.of(denoiser) if denoiser.rest and not similar else None
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
            rest = self.lengths(published) - squares(rows)
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
            column, shift = _of_numbers(denoiser.coordinates.plan, matched[:, None])
            return np.append(column[:, 0], shift - denoiser.mean @ matched)[None, :].astype(np.float32)
        row = self.origin[None, :].copy()
        row[:, : denoiser.rank] += denoiser.reduce(point[None, :], noisy=False)
        return row

    def _rest_of(self, one: Rows) -> float:
        return 0.0 if self.lengths is None else float(one[0, self.denoiser.rank]) ** 2

    def keys(self, one: Rows, many: Rows, *, own: Vector | None = None) -> Floats:  # noqa: ARG002  (its row says all)
        """Return the keys of one row with many; of a vector of one's own, for similarities only."""
        if self.metric == "euclidean":
            found = np.empty(len(many))
            kernels.distances_with_one(many, self.asking(one)[0], found)
            return found + self._rest_of(one)
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
            keys += rest * (self.lengths(published) - squares(strongest))
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


def _of_numbers(plan: Plan, columns: Floats) -> tuple[Floats, Floats]:
    """Return what turns published numbers into products of their points with columns: a matrix, and what is added."""
    if isinstance(plan.error, FlippedBitsError):  # points are (bit − p)/(1 − 2p)
        matrix = columns / (1 - 2 * plan.error.flip)
        return matrix, -plan.error.flip * matrix.sum(axis=0)
    none = np.zeros(columns.shape[1])
    if isinstance(plan.error, CountingError):  # points are centered, and so may be what they are multiplied by
        k = len(columns)
        return plan.scale * (k / (k - 1)) ** 0.5 * (columns - columns.mean(axis=0)), none
    return plan.scale * columns, none


@dataclass(frozen=True, slots=True)
class _Lengths:
    """Squared lengths ‖p − m‖² of points less their mean, from sums of published numbers x (or bits)."""

    mean: Floats
    total: float
    square_of_total: float
    squares: float
    products: float
    constant: float

    @classmethod
    def of(cls, denoiser: Denoiser) -> "_Lengths":
        plan, mean = denoiser.coordinates.plan, denoiser.mean.astype(np.float64)
        square, k = float(mean @ mean), len(mean)
        if isinstance(plan.error, FlippedBitsError):  # p = (x − f)/(1 − 2f), and x² = x
            f, gain = plan.error.flip, 1 / (1 - 2 * plan.error.flip)
            constant = square + k * (f * gain) ** 2 + 2 * f * gain * float(mean.sum())
            return cls(mean, gain, 0.0, 0.0, -2 * gain, constant)
        if isinstance(plan.error, CountingError):  # p = s·(x − Σx/k)
            gain = plan.scale * (k / (k - 1)) ** 0.5
            return cls(mean - mean.mean(), 0.0, -(gain**2) / k, gain**2, -2 * gain, square)
        return cls(mean, 0.0, 0.0, plan.scale**2, -2 * plan.scale, square)

    def __call__(self, rows: Rows) -> Floats:
        sums = np.empty((len(rows), 3))
        kernels.sums_with_one(rows, self.mean, sums)
        total, square, product = sums.T
        lengths: Floats = (self.squares * square + self.products * product + self.constant) + total * (
            self.total + self.square_of_total * total
        )
        return lengths
