"""Unbiased estimates from published integers: the paper's Algorithms 2 and 6, and counting's.

Everything is computed from five sums of a pair of rows: Σx, Σy, Σx², Σy², Σxy. In doubles they are exact below 2⁵³,
that is, for 16-bit numbers always, and a saturated 32-bit number does not overflow them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dimly.analyst import neighbor_kernels as kernels
from dimly.mechanisms.error_models import CountingError, FlippedBitsError, Floats, SignedSketchError
from dimly.mechanisms.plan import Plan

# Pairs are worked through in pieces of about this many published numbers.
_PIECE = 1 << 20


class Side(NamedTuple):
    """One side of pairs: published rows, or one row of the analyst's own, which carries no noise."""

    rows: NDArray[Any]
    noisy: bool
    positions: NDArray[np.int64] | None = None
    """Of the people in the release, None for one's own vector."""
    squared_norm: float | None = None
    """Of one's own vector, exactly."""
    total: float = np.inf
    """Sum of one's own vector: the largest inner product that it can have with values in [0, 1]."""


class Pairs(NamedTuple):
    """Unbiased estimates of pairs, as arrays."""

    squared_norm_x: Floats
    squared_norm_y: Floats
    inner_product: Floats
    squared_distance: Floats

    @property
    def possible_norms(self) -> tuple[Floats, Floats]:
        """Both squared norms, not below zero: what variances are computed with."""
        return np.maximum(self.squared_norm_x, 0.0), np.maximum(self.squared_norm_y, 0.0)


class Sums(NamedTuple):
    """Sums of pairs of rows, in published units."""

    x: Floats
    y: Floats
    xx: Floats
    yy: Floats
    xy: Floats


class Reader(Protocol):
    """Turns published rows into estimates."""

    def sums(self, x: Side, y: Side) -> Sums:
        """Return the sums of each pair of rows; a side with one row is taken for all."""

    def gram(self, x: Side, y: Side) -> Sums:
        """Return the sums of every row of x with every row of y."""

    def pairs(self, sums: Sums, x: Side, y: Side) -> Pairs:
        """Return unbiased estimates from sums."""


@dataclass(frozen=True, slots=True)
class SketchReader:
    """For sketches of every family."""

    k: int
    scale: float
    error: SignedSketchError | CountingError

    def sums(self, x: Side, y: Side) -> Sums:
        """Return the sums of each pair of rows; a side with one row is taken for all."""
        n = max(len(x.rows), len(y.rows)) if len(x.rows) and len(y.rows) else 0
        if n * self.k > _PIECE:  # fewer are not worth the compiler's time, if these are the first
            found = np.empty((n, 5))
            kernels.sums_in_step(x.rows, y.rows, found)
            return Sums(*found.T)
        parts = [
            (a.sum(axis=1), b.sum(axis=1), *(np.einsum("nk,nk->n", u, v) for u, v in ((a, a), (b, b), (a, b))))
            for a, b in _pieces(x, y, np.float64)
        ]
        return Sums(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def gram(self, x: Side, y: Side) -> Sums:
        """Return the sums of every row of x with every row of y."""
        a, b = x.rows.astype(np.float64), y.rows.astype(np.float64)
        ones_a, ones_b = a.sum(axis=1)[:, None], b.sum(axis=1)[None, :]
        squares_a, squares_b = (a**2).sum(axis=1)[:, None], (b**2).sum(axis=1)[None, :]
        return Sums(*np.broadcast_arrays(ones_a, ones_b, squares_a, squares_b, a @ b.T))

    def pairs(self, sums: Sums, x: Side, y: Side) -> Pairs:
        """Return unbiased estimates from sums."""
        k, s = self.k, self.scale
        vx, vy = (self.error.noise.variance if side.noisy else 0.0 for side in (x, y))
        ones_x, ones_y = s * sums.x, s * sums.y
        xx, yy, xy = s**2 * sums.xx, s**2 * sums.yy, s**2 * sums.xy
        if isinstance(self.error, CountingError):
            gain, b = k / (k - 1), self.error.blend
            inner = gain * (xy - ones_x * ones_y / k)
            norm_x = b * ones_x + (1 - b) * gain * (xx - ones_x**2 / k - (k - 1) * vx)
            norm_y = b * ones_y + (1 - b) * gain * (yy - ones_y**2 / k - (k - 1) * vy)
        else:
            inner, norm_x, norm_y = xy, xx - k * vx, yy - k * vy
        # From the sketches alone: what the two norms and the product have in common cancels.
        distance = norm_x + norm_y - 2 * inner
        if y.squared_norm is not None:
            norm_y = np.full_like(norm_y, y.squared_norm)
        return Pairs(norm_x, norm_y, inner, distance)


@dataclass(frozen=True, slots=True)
class BitReader:
    """For randomized response: packed bits, counted by population."""

    error: FlippedBitsError

    def sums(self, x: Side, y: Side) -> Sums:
        """Return the sums of each pair of rows; a side with one row is taken for all."""
        parts = [(_count(a), _count(b), _count(a & b)) for a, b in _pieces(x, y, np.uint8)]
        ones_x, ones_y, both = (np.concatenate(part).astype(np.float64) for part in zip(*parts, strict=True))
        return Sums(ones_x, ones_y, ones_x, ones_y, both)

    def gram(self, x: Side, y: Side) -> Sums:
        """Return the sums of every row of x with every row of y."""
        both = np.empty((len(x.rows), len(y.rows)))
        for i, row in enumerate(x.rows):
            both[i] = _count(y.rows & row)
        ones_x, ones_y = (_count(side.rows).astype(np.float64) for side in (x, y))
        return Sums(*np.broadcast_arrays(ones_x[:, None], ones_y[None, :], ones_x[:, None], ones_y[None, :], both))

    def pairs(self, sums: Sums, x: Side, y: Side) -> Pairs:
        """Return unbiased estimates from sums."""
        d, p = self.error.n_attributes, self.error.flip
        px, py = (p if side.noisy else 0.0 for side in (x, y))
        norm_x, norm_y = (sums.x - d * px) / (1 - 2 * px), (sums.y - d * py) / (1 - 2 * py)
        shrink = (1 - 2 * px) * (1 - 2 * py)
        inner = (sums.xy - py * sums.x - px * sums.y + d * px * py) / shrink
        # Bits differ after flipping with probability px + py − 2·px·py where they agreed before.
        differ = sums.x + sums.y - 2 * sums.xy
        distance = (differ - d * (px + py - 2 * px * py)) / shrink
        return Pairs(norm_x, norm_y, inner, distance)


def reader_of(plan: Plan) -> Reader | None:
    """Return the reader for a plan's published rows; None where distances themselves are published."""
    if isinstance(plan.error, FlippedBitsError):
        return BitReader(plan.error)
    if plan.projection is None:
        return None
    assert isinstance(plan.error, SignedSketchError | CountingError)  # noqa: S101
    return SketchReader(plan.projection.k, plan.scale, plan.error)


def _pieces(x: Side, y: Side, dtype: Any) -> Iterator[tuple[NDArray[Any], ...]]:
    """Return the rows of both sides in step, in pieces; one row stands for as many as the other side has."""
    n = max(len(x.rows), len(y.rows))
    step = max(1, _PIECE // x.rows.shape[1])
    for start in range(0, max(n, 1), step):
        cut = (side.rows if len(side.rows) == 1 else side.rows[start : start + step] for side in (x, y))
        yield tuple(np.broadcast_arrays(*(rows.astype(dtype, copy=False) for rows in cut)))


def _count(packed: NDArray[np.uint8]) -> NDArray[np.int64]:
    counted: NDArray[np.int64] = np.bitwise_count(packed).sum(axis=1, dtype=np.int64)
    return counted
