"""Whom a question is about: people of a release by their ids, or a vector of the analyst's own."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dimly.analyst import neighbor_kernels as kernels
from dimly.analyst.estimate import Arrays, Estimate, scalar
from dimly.analyst.readers import Pairs, Reader, Side
from dimly.analyst.vector import Vector
from dimly.errors import ParameterError
from dimly.release.sketches import Sketches
from dimly.release.stored import StoredSketches

User = int | str | np.integer[Any]
Who = User | Vector
Whom = Who | ArrayLike
Published = Sketches | StoredSketches

# Rows of many pairs are fetched in pieces of about this many bytes a side, however many pairs there are.
_PIECE_BYTES = 1 << 26
_FEW = 1 << 16  # numbers that are not worth the compiler's time, if these are the first


@dataclass(frozen=True, slots=True)
class Chosen:
    """People or a vector of one's own, whose rows are fetched when they are needed. Offers what ``Side`` does."""

    sketches: Published
    positions: NDArray[np.int64] | None = None
    """Of the people in the release, None for one's own vector."""
    vector: Vector | None = None

    @property
    def ndim(self) -> int:
        """One, as of a list of users: answers about them are arrays."""
        return 1

    def __len__(self) -> int:
        return 1 if self.positions is None else len(self.positions)

    @property
    def noisy(self) -> bool:
        """Whether these are published rows."""
        return self.vector is None

    @property
    def total(self) -> float:
        """Sum of one's own vector: the largest inner product that it can have with values in [0, 1]."""
        return np.inf if self.vector is None else self.vector.total

    @property
    def squared_norm(self) -> float | None:
        """Of one's own vector, exactly."""
        return None if self.vector is None else self.vector.squared_norm

    @property
    def rows(self) -> NDArray[Any]:
        """All rows at once."""
        return self.cut(slice(None)).rows

    def cut(self, piece: slice) -> Side:
        """Return some of the rows; one row stands for any piece."""
        if self.vector is not None:
            return Side(self.vector.row[None, :], noisy=False, squared_norm=self.squared_norm, total=self.total)
        assert self.positions is not None  # noqa: S101
        positions = _piece_of(self.positions, piece)
        return Side(self.sketches.take(positions), noisy=True, positions=positions)


class Compared(NamedTuple):
    """Both sides, the analyst's own vector second if there is one, and their estimates."""

    x: Chosen
    y: Chosen
    pairs: Pairs
    same: NDArray[np.bool_]
    """Who is compared with himself."""
    lost: NDArray[np.bool_]
    """Whose published numbers are saturated: they say "at least", and no more."""


def chosen(sketches: Published, who: "Whom | Chosen") -> Chosen:
    """Return whom a question is about.

    Raises
    ------
    ParameterError
        If somebody is not in the release, or a vector belongs to another one.
    """
    if isinstance(who, Chosen):
        return who
    if isinstance(who, Vector):
        if who.plan != sketches.plan:
            raise ParameterError("a vector must be made by project of this release: it belongs to another plan.")
        return Chosen(sketches, vector=who)
    return Chosen(sketches, positions_of(sketches, who))


def positions_of(sketches: Published, users: Any) -> NDArray[np.int64]:
    """Return the positions of one user or a list of users.

    Raises
    ------
    ParameterError
        If they are of another type than the release's, or not in it.
    """
    textual = sketches.textual
    try:
        ids = _as_ids(users, textual=textual)
    except (TypeError, ValueError):
        raise ParameterError(f"users must be {'text' if textual else 'integers'}, as in this release.") from None
    if ids.ndim != 1:
        raise ParameterError("users must be one id or a list of ids.")
    wanted = ids.astype(np.dtypes.StringDType() if textual else np.int64)
    positions = np.where(wanted == ids, sketches.locate(wanted), -1)  # a large unsigned id is none of ours
    if (positions < 0).any():
        raise ParameterError("users must be in this release, and some are not. `user in release` tells.")
    return positions


def compared(reader: Reader, x: Chosen, y: Chosen) -> Compared:
    """Return unbiased estimates of pairs, of which a side of one takes part in all.

    Raises
    ------
    ParameterError
        If both sides are several, and not equally many.
    """
    if not x.noisy and y.noisy:
        x, y = y, x
    check_lengths(len(x), len(y))
    if x.vector is not None and y.vector is not None:  # nothing to estimate
        norms, inner = (x.vector.squared_norm, y.vector.squared_norm), x.vector.inner_product(y.vector)
        exact = Pairs(*(np.array([float(n)]) for n in (*norms, inner, sum(norms) - 2 * inner)))
        return Compared(x, y, exact, np.array([False]), np.array([False]))
    found, lost = [], []
    for side_x, side_y in pieces(x, y):
        found.append(reader.pairs(reader.sums(side_x, side_y), side_x, side_y))
        lost.append(np.broadcast_to(saturated(side_x) | saturated(side_y), found[-1].inner_product.shape))
    pairs, unknown = Pairs(*map(np.concatenate, zip(*found, strict=True))), np.concatenate(lost)
    if x.positions is None or y.positions is None:
        return Compared(x, y, pairs, np.zeros(len(unknown), np.bool_), unknown)
    same = np.broadcast_to(x.positions == y.positions, unknown.shape)
    # A person's noise is the same on both sides: the product with oneself is told by the squared norm.
    pairs = pairs._replace(inner_product=np.where(same, pairs.squared_norm_x, pairs.inner_product))
    return Compared(x, y, pairs, same, unknown)


def pieces(x: Chosen, y: Chosen) -> Iterator[tuple[Side, Side]]:
    """Return the rows of both sides in step, so many pairs at a time that memory is bounded; at least one piece."""
    n = max(len(x), len(y)) if len(x) and len(y) else 0
    step = max(1, int(_PIECE_BYTES / max(1.0, x.sketches.plan.bytes_per_user)))
    for start in range(0, max(n, 1), step):
        piece = slice(start, min(n, start + step))
        if x.positions is None or y.positions is None:
            yield x.cut(piece), y.cut(piece)
        else:  # both at once, since random pairs of a stored release are all over it
            yield _cut_both(x.sketches, _piece_of(x.positions, piece), _piece_of(y.positions, piece))


def _piece_of(positions: NDArray[np.int64], piece: slice) -> NDArray[np.int64]:
    return positions if len(positions) == 1 else positions[piece]


def _cut_both(sketches: Published, x: NDArray[np.int64], y: NDArray[np.int64]) -> tuple[Side, Side]:
    rows = sketches.take(np.concatenate([x, y]))
    return Side(rows[: len(x)], noisy=True, positions=x), Side(rows[len(x) :], noisy=True, positions=y)


def saturated(side: Side) -> NDArray[np.bool_]:
    """Return which rows hold a number at the limit of its type; packed bits and vectors of one's own have none."""
    return lost_rows(side.rows) if side.noisy else np.zeros(len(side.rows), np.bool_)


def lost_rows(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which published rows hold a number at the limit of its type."""
    lost = np.zeros(len(rows), np.bool_)
    if rows.dtype == np.uint8:
        return lost
    if rows.size > _FEW:
        limits = np.iinfo(rows.dtype)
        kernels.rows_at_limit(rows, limits.min, limits.max, lost)
    else:
        np.any(at_limit(rows), axis=1, out=lost)
    return lost


def at_limit(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which numbers are the least or the greatest of their type."""
    limits = np.iinfo(values.dtype)
    extreme: NDArray[np.bool_] = np.logical_or(values == limits.min, values == limits.max)
    return extreme


def check_lengths(n: int, m: int) -> None:
    """Refuse sides of which neither is one, and that are not equally many.

    Raises
    ------
    ParameterError
        If so.
    """
    if n != m and 1 not in (n, m):
        raise ParameterError(f"both sides must name equally many users, got {n} and {m}.")


def is_one(*given: Any) -> bool:
    """Return whether each is one user or vector."""
    # Ragged lists have no dimension; whoever looks for their users will say so.
    return all(
        isinstance(who, Vector | str) or (not isinstance(who, list | tuple) and np.ndim(who) == 0) for who in given
    )


def like_input(estimate: Arrays, *inputs: Any) -> Estimate[Any]:
    """Return plain numbers if every input was one user or vector, else arrays."""
    return scalar(estimate) if is_one(*inputs) else estimate


def _as_ids(users: Any, *, textual: bool) -> NDArray[Any]:
    """Return ids as a list of integers or of text; ValueError if they are something else."""
    given = np.asarray(users) if hasattr(users, "__array__") else users
    kind = given.dtype.kind if isinstance(given, np.ndarray) else "O"
    if textual:
        if kind not in "OUT":
            raise ValueError(kind)
        return np.atleast_1d(np.asarray(given, dtype=np.dtypes.StringDType(coerce=False)))
    ids = np.atleast_1d(np.array(given.tolist() if kind == "O" and isinstance(given, np.ndarray) else given))
    if ids.size == 0:
        return ids.astype(np.int64)
    if ids.dtype.kind not in "iu":
        raise ValueError(kind)
    return ids
