"""Unbiased estimates for pairs from published rows (Algorithms 2 and 6); which people are meant; saturation."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dimly.analyst.estimate import Arrays, Estimate, Vector, exactly, scalar
from dimly.analyst.intervals import quadratic
from dimly.analyst.neighbors import kernels
from dimly.errors import ParameterError
from dimly.mechanisms.error.bounds import normal_quantile, ratio_interval
from dimly.mechanisms.error.models import ErrorModel, FlippedBitsError, Floats, Polynomial, SketchError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_kinds import DirectionsPlan, DistancePlan, ResponsePlan, SketchPlan
from dimly.release.format import text_ids
from dimly.release.reader import StoredSketches
from dimly.release.sketches import Sketches

# Pairs are worked through in pieces of about this many published numbers.
_PIECE = 1 << 20
# Ids that are named where another is not in the release: how many, how long, how alike, and of how many people.
_MOST_NAMED: Final = 3
_LONGEST_NAMED: Final = 60
_ALIKE: Final = 0.75
_MOST_COMPARED: Final = 100_000

_NEXT_TO_ONE: Final = 1 - 1e-12
_LEAST_VARIANCE: Final = 1e-12
_HALVINGS: Final = 20  # of what is left of a range from 0 to 1


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


class PairSums(NamedTuple):
    """Sums of pairs of rows, in published units."""

    x: Floats
    y: Floats
    xx: Floats
    yy: Floats
    xy: Floats


class Reader(Protocol):
    """Turns published rows into estimates."""

    def sums(self, x: Side, y: Side) -> PairSums:
        """Return the sums of each pair of rows; a side with one row is taken for all."""

    def gram(self, x: Side, y: Side) -> PairSums:
        """Return the sums of every row of x with every row of y."""

    def pairs(self, sums: PairSums, x: Side, y: Side) -> Pairs:
        """Return unbiased estimates from sums."""


@dataclass(frozen=True, slots=True)
class SketchReader:
    """For sketches of every family."""

    k: int
    scale: float
    error: SketchError

    def sums(self, x: Side, y: Side) -> PairSums:
        """Return the sums of each pair of rows; a side with one row is taken for all."""
        n = max(len(x.rows), len(y.rows)) if len(x.rows) and len(y.rows) else 0
        if n * self.k > _PIECE:  # fewer are not worth the compiler's time, if these are the first
            found = np.empty((n, 5))
            kernels.sums_in_step(x.rows, y.rows, found)
            return PairSums(*found.T)
        parts = [
            (a.sum(axis=1), b.sum(axis=1), *(np.einsum("nk,nk->n", u, v) for u, v in ((a, a), (b, b), (a, b))))
            for a, b in _pieces(x, y, np.float64)
        ]
        return PairSums(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def gram(self, x: Side, y: Side) -> PairSums:
        """Return the sums of every row of x with every row of y."""
        a, b = x.rows.astype(np.float64), y.rows.astype(np.float64)
        ones_a, ones_b = a.sum(axis=1)[:, None], b.sum(axis=1)[None, :]
        squares_a, squares_b = (a**2).sum(axis=1)[:, None], (b**2).sum(axis=1)[None, :]
        return PairSums(*np.broadcast_arrays(ones_a, ones_b, squares_a, squares_b, a @ b.T))

    def pairs(self, sums: PairSums, x: Side, y: Side) -> Pairs:
        """Return unbiased estimates from sums."""
        k, s = self.k, self.scale
        vx, vy = (self.error.noise.variance if side.noisy else 0.0 for side in (x, y))
        ones_x, ones_y = s * sums.x, s * sums.y
        xx, yy, xy = s**2 * sums.xx, s**2 * sums.yy, s**2 * sums.xy
        if self.error.centered:
            gain, b = self.error.gain, self.error.blend
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

    def sums(self, x: Side, y: Side) -> PairSums:
        """Return the sums of each pair of rows; a side with one row is taken for all."""
        parts = [(_count(a), _count(b), _count(a, b)) for a, b in _pieces(x, y, np.uint8)]
        ones_x, ones_y, both = (np.concatenate(part).astype(np.float64) for part in zip(*parts, strict=True))
        return PairSums(ones_x, ones_y, ones_x, ones_y, both)

    def gram(self, x: Side, y: Side) -> PairSums:
        """Return the sums of every row of x with every row of y."""
        both = np.empty((len(x.rows), len(y.rows)))
        for i, row in enumerate(x.rows):
            both[i] = _count(y.rows, row)
        ones_x, ones_y = (_count(side.rows).astype(np.float64) for side in (x, y))
        return PairSums(*np.broadcast_arrays(ones_x[:, None], ones_y[None, :], ones_x[:, None], ones_y[None, :], both))

    def pairs(self, sums: PairSums, x: Side, y: Side) -> Pairs:
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


_READERS: Final[Mapping[type[Plan], Callable[[Any], Reader | None]]] = {
    SketchPlan: lambda plan: SketchReader(plan.k, plan.scale, plan.error),
    DirectionsPlan: lambda plan: SketchReader(plan.k, plan.scale, plan.error),
    ResponsePlan: lambda plan: BitReader(plan.error),
    DistancePlan: lambda _: None,
}


def reader_of(plan: Plan) -> Reader | None:
    """Return the reader for a plan's published rows; None where distances themselves are published."""
    return _READERS[type(plan)](plan)


def _pieces(x: Side, y: Side, dtype: Any) -> Iterator[tuple[NDArray[Any], ...]]:
    """Return the rows of both sides in step, in pieces; one row stands for as many as the other side has."""
    n = max(len(x.rows), len(y.rows))
    step = max(1, _PIECE // x.rows.shape[1])
    for start in range(0, max(n, 1), step):
        cut = (side.rows if len(side.rows) == 1 else side.rows[start : start + step] for side in (x, y))
        yield tuple(np.broadcast_arrays(*(rows.astype(dtype, copy=False) for rows in cut)))


def _count(packed: NDArray[np.uint8], both: NDArray[np.uint8] | None = None) -> NDArray[np.int64]:
    """Return the ones of each row, or those that a row of ``both`` has, too."""
    counted = np.zeros(len(packed), np.int64)
    for start in range(0, packed.shape[1], _PIECE):  # rows may be long, and each step makes copies
        piece = packed[:, start : start + _PIECE]
        shared = piece if both is None else piece & both[..., start : start + _PIECE]
        counted += np.bitwise_count(shared).sum(axis=1, dtype=np.int64)
    return counted


User = int | str | np.integer[Any]
Who = User | Vector
Whom = Who | ArrayLike
Published = Sketches | StoredSketches

# Rows of many pairs are fetched in pieces of about this many bytes a side, however many pairs there are.
_PIECE_BYTES = 1 << 26
_FEW = 1 << 16  # numbers that are not worth the compiler's time, if these are the first


@dataclass(frozen=True, slots=True)
class ChosenSide:
    """People or a vector of one's own, whose rows are fetched when they are needed. Offers what ``Side`` does."""

    sketches: Published
    positions: NDArray[np.int64] | None = None
    """Of the people in the release, None for one's own vector."""
    vector: Vector | None = None
    held: NDArray[Any] | None = None
    """Published rows that were fetched already."""

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
        rows = self.sketches.take(positions) if self.held is None else _piece_of(self.held, piece)
        return Side(rows, noisy=True, positions=positions)

    def fetched(self) -> "ChosenSide":
        """Return the same people, whose rows are fetched now, and only once."""
        return replace(self, held=self.rows)


class ComparedPairs(NamedTuple):
    """Both sides, the analyst's own vector second if there is one, and their estimates."""

    x: ChosenSide
    y: ChosenSide
    pairs: Pairs
    same: NDArray[np.bool_]
    """Who is compared with themselves."""
    lost: NDArray[np.bool_]
    """Whose published numbers are saturated: they say "at least", and no more."""


def chosen(sketches: Published, who: "Whom | ChosenSide") -> ChosenSide:
    """Return whom a question is about.

    Raises
    ------
    ParameterError
        If somebody is not in the release, or a vector belongs to another one.
    """
    if isinstance(who, ChosenSide):
        return who
    if isinstance(who, Vector):
        if who.plan != sketches.plan:
            raise ParameterError("a vector must be made by project of this release: it belongs to another plan.")
        return ChosenSide(sketches, vector=who)
    return ChosenSide(sketches, positions_of(sketches, who))


def positions_of(sketches: Published, users: Any) -> NDArray[np.int64]:
    """Return the positions of one user or a list of users.

    Raises
    ------
    ParameterError
        If they are of another type than the release's, or not in it.
    """
    ids, positions = located(sketches, users)
    if (positions < 0).any():
        missing = ids[positions < 0].tolist()
        raise ParameterError(
            f"users must be in this release, but {not_there(missing)}.{near_ids(sketches, missing[0])} release.users "
            "lists everybody."
        )
    return positions


def located(sketches: Published, users: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return ids as of the release's type, and their positions: −1 of those who are not in it.

    Raises
    ------
    ParameterError
        If they are of another type than the release's.
    """
    textual = sketches.textual
    try:
        ids = _as_ids(users, textual=textual)
    except (TypeError, ValueError):
        raise ParameterError(f"users must be {'text' if textual else 'integers'}, as in this release.") from None
    if ids.ndim != 1:
        raise ParameterError("users must be one id or a list of ids.")
    wanted = ids if textual else ids.astype(np.int64)
    return ids, np.where(wanted == ids, sketches.locate(wanted), -1)  # a large unsigned id is none of ours


def not_there(missing: Sequence[int | str]) -> str:
    """Return which of the ids that somebody asked for are not in a release: the first few of them, shortened.

    Examples
    --------
    >>> not_there(["zoe"]), not_there([8, 9]), not_there([5, 6, 7, 8])
    ("'zoe' is not", '8 and 9 are not', '5, 6, 7 and 1 more are not')
    """
    named = [
        repr(f"{one[:_LONGEST_NAMED]}…" if isinstance(one, str) and len(one) > _LONGEST_NAMED else one)
        for one in missing[:_MOST_NAMED]
    ]
    if len(missing) > _MOST_NAMED:
        named.append(f"{len(missing) - _MOST_NAMED:,} more")
    together = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    return f"{together} {'is' if len(missing) == 1 else 'are'} not"


def near_ids(sketches: Published, missing: Any) -> str:
    """Return a sentence on published ids that are spelled much like one that is not in the release, or nothing."""
    if not len(sketches):
        return ""
    if not sketches.textual:
        first, last = sketches.named(np.array([0, len(sketches) - 1])).tolist()
        if not first <= int(missing) <= last:
            return f" Ids go from {first} to {last}."
    asked = str(missing)
    if len(asked) > _LONGEST_NAMED:
        return ""
    plain = asked.strip()
    near: list[str] = []
    if sketches.textual:
        spellings = dict.fromkeys((plain, plain.lower(), plain.upper(), plain.title()))
        near = [one for one in spellings if sketches.locate(text_ids([one]))[0] >= 0]
    if not near and len(sketches) <= _MOST_COMPARED:
        ids = [one for one in map(str, sketches.users.tolist()) if len(one) <= _LONGEST_NAMED]
        padded = [one for one in ids if plain and one.lstrip("0") == plain.lstrip("0")]
        near = padded[:_MOST_NAMED] or get_close_matches(asked, ids, _MOST_NAMED, _ALIKE)
    named = [repr(one) if sketches.textual else one for one in near]
    return f" Did you mean {' or '.join(named)}?" if named else ""


def compared(reader: Reader, x: ChosenSide, y: ChosenSide) -> ComparedPairs:
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
        return ComparedPairs(x, y, exact, np.array([False]), np.array([False]))
    found, lost = [], []
    for side_x, side_y in pieces(x, y):
        found.append(reader.pairs(reader.sums(side_x, side_y), side_x, side_y))
        lost.append(np.broadcast_to(saturated(side_x) | saturated(side_y), found[-1].inner_product.shape))
    pairs, unknown = Pairs(*map(np.concatenate, zip(*found, strict=True))), np.concatenate(lost)
    if x.positions is None or y.positions is None:
        return ComparedPairs(x, y, pairs, np.zeros(len(unknown), np.bool_), unknown)
    same = np.broadcast_to(x.positions == y.positions, unknown.shape)
    # A person's noise is the same on both sides: the product with oneself is told by the squared norm.
    pairs = pairs._replace(inner_product=np.where(same, pairs.squared_norm_x, pairs.inner_product))
    return ComparedPairs(x, y, pairs, same, unknown)


def pieces(x: ChosenSide, y: ChosenSide) -> Iterator[tuple[Side, Side]]:
    """Return the rows of both sides in step, so many pairs at a time that memory is bounded; at least one piece."""
    n = max(len(x), len(y)) if len(x) and len(y) else 0
    step = max(1, int(_PIECE_BYTES / max(1.0, x.sketches.plan.bytes_per_user)))
    for start in range(0, max(n, 1), step):
        piece = slice(start, min(n, start + step))
        if x.positions is None or y.positions is None or x.held is not None or y.held is not None:
            yield x.cut(piece), y.cut(piece)
        else:  # both at once, since random pairs of a stored release are all over it
            yield _cut_both(x.sketches, _piece_of(x.positions, piece), _piece_of(y.positions, piece))


def _piece_of(several: NDArray[Any], piece: slice) -> NDArray[Any]:
    return several if len(several) == 1 else several[piece]


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
    """Return ids as a list of integers or of text; ValueError if they are something else.

    1 and "1" are one person, as in every source; "01" is another.
    """
    users = _of_its_type(users, textual=textual)
    given = np.asarray(users) if hasattr(users, "__array__") else users
    kind = given.dtype.kind if isinstance(given, np.ndarray) else "O"
    if textual:
        if kind not in "OUT":
            raise ValueError(kind)
        texts = np.atleast_1d(np.asarray(given, dtype=object))
        if not all(isinstance(one, str) for one in texts.flat):
            raise ValueError(kind)
        return texts
    ids = np.atleast_1d(np.array(given.tolist() if kind == "O" and isinstance(given, np.ndarray) else given))
    if ids.size == 0:
        return ids.astype(np.int64)
    if ids.dtype.kind not in "iu":
        raise ValueError(kind)
    return ids


def _of_its_type(users: Any, *, textual: bool) -> Any:
    """Return ids that are written as the other type, as the release's own."""
    if isinstance(users, np.ndarray | list | tuple) and not (isinstance(users, np.ndarray) and users.ndim == 0):
        if isinstance(users, np.ndarray) and (users.dtype.kind in "iu") != textual:
            return users
        items = users.tolist() if isinstance(users, np.ndarray) else users
        return [_of_its_type(one, textual=textual) for one in items] if len(items) else users
    if textual:
        is_integer = isinstance(users, int | np.integer) and not isinstance(users, bool)
        return str(int(users)) if is_integer else users
    if isinstance(users, str) and re.fullmatch(r"0|-?[1-9][0-9]{0,18}", users):
        return int(users)
    return users


def distance_variance(error: ErrorModel, pairs: Pairs, *, one_sided: bool) -> Polynomial:
    """Return the variance of estimated squared distances as a function of the true ones.

    Where counting blends weights in, it depends on these, and of a person only an estimate ŵ is known, which errs
    together with the distance. Against the analyst's own vector that shows: where noise makes both too large, the
    variance at a smaller distance would be that of people who share more than the vector has. So the weight depends on
    the distance that is asked about. Start from the possible pair that is nearest to what was estimated, and move along
    the regression, w(μ) = ŵ + β(μ − est) with β = Cov(ŵ, est)/Var(est): what is left of ŵ then does not err together
    with est. But what is shared, (w + wy − μ)/2, is from 0 to wy: so 1 − β is at most wy over two standard errors. The
    variance stays a quadratic in μ. Of two people, the product of their noises prevails, and weights matter little.
    """
    weights = pairs.possible_norms
    if not one_sided or not isinstance(error, SketchError) or not error.blend:
        return error.distance(one_sided=one_sided, weights=weights)
    ours, theirs = weights[1], weights[0]
    at = np.clip(pairs.squared_distance, np.abs(theirs - ours), theirs + ours)
    shared = np.clip(pairs.inner_product, 0.0, ours)
    joint = error.joint((np.maximum(theirs, shared), ours), shared, one_sided=True)
    norm, both, product = joint[..., 0, 0], joint[..., 0, 2], joint[..., 2, 2]
    total = np.maximum(norm - 4 * both + 4 * product, _LEAST_VARIANCE)
    slope = np.clip(np.maximum((norm - 2 * both) / total, 1 - ours / (2 * np.sqrt(total))), 0.0, 1.0)

    def variance(distance: float) -> Floats:
        moved = error.distance(one_sided=True, weights=(theirs + slope * (distance - at), ours))
        square, linear, constant = (np.asarray(part) for part in moved)
        found: Floats = (square * distance + linear) * distance + constant
        return found

    return quadratic(variance)


def cosine_of(
    pairs: Pairs, joint: Callable[[Floats], Floats] | None, confidence: float, *, least: float = 0.0
) -> Arrays:
    """Return cosines, NaN where a squared norm is not positive.

    The interval holds the cosines from which the estimate is not farther than it may be by chance *there* (delta
    method), in its own units or in Fisher's, atanh, whose errors are alike everywhere: an estimate near 1 says little
    of how much it errs, because cosines near 1 err less than others.

    Parameters
    ----------
    pairs : Pairs
    joint : callable, optional
        From inner products to covariances (pairs, 3, 3) of the two squared norms and the inner product; None if these
        are exact.
    confidence : float
    least : float, default=0
        Least cosine there can be.
    """
    nx, ny = (np.where(n > 0, n, np.nan) for n in (pairs.squared_norm_x, pairs.squared_norm_y))
    lengths = np.sqrt(nx * ny)
    value = pairs.inner_product / lengths
    if joint is None:
        return exactly(value)
    known = ~np.isnan(value)

    def stderr(cosine: Floats) -> Floats:
        gradient = np.stack([-cosine / (2 * nx), -cosine / (2 * ny), 1 / lengths], axis=-1)
        variance = np.einsum("ni,nij,nj->n", gradient, joint(np.where(known, cosine * lengths, 0.0)), gradient)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

    middle = np.clip(np.where(known, value, least), least, 1.0)
    quantile, error = normal_quantile(confidence), stderr(middle)
    # It never shrinks to a point: an outlier is no better evidence than 0 or 1 itself.
    least_half = quantile * error * (middle != value)

    def fisher(cosine: Floats) -> Floats:
        return np.arctanh(np.clip(cosine, -_NEXT_TO_ONE, _NEXT_TO_ONE))

    def end(farthest: float) -> Floats:
        inside = middle + np.clip(farthest - middle, -least_half, least_half)
        outside = np.full_like(middle, farthest)
        for _ in range(_HALVINGS):
            between = (inside + outside) / 2
            far = np.minimum(np.abs(middle - between), (1 - between**2) * np.abs(fisher(middle) - fisher(between)))
            near = far <= quantile * stderr(between)
            inside, outside = np.where(near, between, inside), np.where(near, outside, between)
        return np.where(known, outside, farthest)

    return Estimate(value, np.where(known, error, np.inf), end(least), end(1.0))


def jaccard_of(pairs: Pairs, covariance: Floats | None, confidence: float) -> Arrays:
    """Return Jaccard similarities with Fieller's intervals, NaN where the number of all attributes is not positive.

    Parameters
    ----------
    pairs, covariance, confidence
        Covariances are (pairs, 3, 3), of both squared norms and the inner product; None if these are exact. Of exact
        pairs without any attribute, two empty sets are alike.
    """
    either = pairs.squared_norm_x + pairs.squared_norm_y - pairs.inner_product
    value = pairs.inner_product / np.where(either > 0, either, np.nan)
    if covariance is None:
        return exactly(np.where(either > 0, value, 1.0))
    # c − J·(nx + ny − c) is the product of (nx, ny, c) with (0, 0, 1) + J·(−1, −1, 1).
    fixed, along = np.array([0.0, 0.0, 1.0]), np.array([-1.0, -1.0, 1.0])
    square, cross, constant = (
        np.einsum("i,nij,j->n", u, covariance, v) for u, v in ((along, along), (fixed, along), (fixed, fixed))
    )
    variance = Polynomial(square, 2 * cross, constant)
    low, high = ratio_interval(pairs.inner_product, either, variance, confidence=confidence)
    spread = np.sqrt(variance(np.clip(np.nan_to_num(value), 0.0, 1.0)))
    stderr = np.divide(spread, either, out=np.full_like(spread, np.inf), where=either > 0)
    return Estimate(value, stderr, low, high)
