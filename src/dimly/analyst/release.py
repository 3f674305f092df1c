"""A release as the analyst sees it: distances with intervals, inner products, norms, similarities, attributes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dimly.analyst.estimate import Estimate, scalar
from dimly.analyst.readers import Pairs, Reader, Side, reader_of
from dimly.errors import ParameterError
from dimly.mechanisms.attributes import Vocabulary, attribute_text
from dimly.mechanisms.error_models import Floats, Polynomial
from dimly.mechanisms.intervals import invert_interval, normal_quantile, ratio_interval
from dimly.mechanisms.plan import Plan
from dimly.release.guarantee import guarantee
from dimly.release.sketches import Sketches

Arrays = Estimate[NDArray[np.float64]]
_MOST_IN_A_MATRIX = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """The analyst's own vector, sketched like a person's but without noise. Made by :meth:`Release.project`."""

    row: NDArray[Any]
    steps: Mapping[str, int]
    """Its attributes, in the plan's steps of resolution."""
    plan: Plan

    @property
    def squared_norm(self) -> float:
        """Exactly."""
        return self.inner_product(self)

    def inner_product(self, other: "Vector") -> float:
        """Return the inner product of two vectors of one's own, exactly."""
        product = sum(count * other.steps.get(name, 0) for name, count in self.steps.items())
        return product / self.plan.resolution**2


User = int | str | np.integer[Any]
Who = User | Vector
Whom = Who | ArrayLike


class Release:
    """What an analyst can tell from published numbers. Users are always named by their ids.

    Wherever a user is taken, so is a :class:`Vector` of the analyst's own.

    Parameters
    ----------
    sketches : Sketches
    vocabulary : iterable of attributes, optional
        The plan's listed vocabulary, where it has one; needed for :meth:`project` and :meth:`attribute` only.

    Examples
    --------
    >>> import numpy as np
    >>> from dimly.api import publish
    >>> from dimly.mechanisms import Plan
    >>> from dimly.privacy import Budget
    >>> people = np.random.default_rng(0).random((20, 500)) < 0.3
    >>> release = publish(people, Plan.of("counting+laplace", Budget(8.0), k=256))
    >>> estimate = release.distance(0, 1)
    >>> estimate.low <= estimate.value <= estimate.high, 7 in release, len(release)
    (True, True, 20)
    """

    def __init__(self, sketches: Sketches, *, vocabulary: Iterable[object] | None = None) -> None:
        self._sketches = sketches
        self._attributes = vocabulary
        self._reader: Reader | None = reader_of(sketches.plan)

    @property
    def plan(self) -> Plan:
        """The plan that the release was made by."""
        return self._sketches.plan

    @property
    def users(self) -> NDArray[Any]:
        """Ids of the people in the release, rising."""
        return self._sketches.users

    @property
    def values(self) -> NDArray[Any]:
        """The published numbers, as :class:`~dimly.release.Sketches` lays them out."""
        return self._sketches.values

    @property
    def private(self) -> bool:
        """Whether the noise came from a fresh secret keystream, as far as the publisher's software says."""
        return self._sketches.private

    @property
    def guarantee(self) -> str:
        """What is promised, and what is not, in words."""
        return guarantee(self.plan, len(self), private=self.private)

    def __len__(self) -> int:
        return len(self._sketches)

    def __contains__(self, user: object) -> bool:
        return isinstance(user, int | str | np.integer) and not isinstance(user, bool) and self._find(user) is not None

    def __repr__(self) -> str:
        return repr(self._sketches).replace("Sketches", "Release", 1)

    def distance(self, a: Who, b: Who, *, confidence: float = 0.95) -> Estimate[float]:
        """Return the squared distance of two people.

        For bits it is the number of attributes in which they differ.
        """
        return scalar(self.distances(a, b, confidence=confidence))

    def distances(self, a: Whom, b: Whom, *, confidence: float = 0.95) -> Arrays:
        """Return the squared distances of pairs: of equally many users on both sides, or of one with many.

        Examples
        --------
        ``release.distances([0, 5], [1, 9])`` is about the pairs (0, 1) and (5, 9).
        """
        if self._reader is None:
            return self._published_distances(a, b, confidence)
        x, y, pairs = self._pairs(a, b)
        return self._distance_estimate(pairs, x, y, confidence)

    def distance_matrix(self, users: ArrayLike | None = None, *, confidence: float = 0.95) -> Arrays:
        """Return the squared distances of all pairs of a small set of users (all of them by default)."""
        positions = np.arange(len(self)) if users is None else self._positions(users)
        n = len(positions)
        if n > _MOST_IN_A_MATRIX:
            raise ParameterError(f"users must be at most {_MOST_IN_A_MATRIX} for a matrix, got {n}. Use distances.")
        if self._reader is None:
            rows, columns = np.meshgrid(positions, positions, indexing="ij")
            estimate = self._condensed(rows.reshape(-1), columns.reshape(-1), confidence)
            full = Estimate(
                *(part.reshape(n, n) for part in (estimate.value, estimate.stderr, estimate.low, estimate.high))
            )
        else:
            side = Side(self.values[positions], noisy=True)
            pairs = self._reader.pairs(self._reader.gram(side, side), side, side)
            full = self._distance_estimate(pairs, side, side, confidence)
        same = positions[:, None] == positions[None, :]  # nobody is at any distance from himself
        return Estimate(*(np.where(same, 0.0, part) for part in (full.value, full.stderr, full.low, full.high)))

    def inner_product(self, a: Whom, b: Whom, *, confidence: float = 0.95) -> Estimate[Any]:
        """Return the inner product of two people; for bits the number of attributes that they share."""
        x, y, pairs = self._pairs(a, b)
        norms = _possible(pairs)
        variance = _as_polynomial(lambda c: self.plan.error.inner_product(norms, c, one_sided=not y.noisy))
        found = _inverted(pairs.inner_product, variance, confidence, largest=self._largest)
        return _like_input(found if x.noisy else _exactly(pairs.inner_product), a, b)

    def norm(self, a: Whom, *, confidence: float = 0.95) -> Estimate[Any]:
        """Return the squared norm of one person; for bits the number of attributes."""
        self._need_reader("norms")
        x, _, pairs = self._pairs(a, self.project({}))
        value = pairs.squared_norm_x
        variance = self.plan.error.distance(one_sided=True, weights=(np.maximum(value, 0.0), np.zeros_like(value)))
        found = _inverted(value, variance, confidence, largest=self._largest)
        return _like_input(found if x.noisy else _exactly(value), a)

    def cosine(self, a: Whom, b: Whom, *, confidence: float = 0.95) -> Estimate[Any]:
        """Return the cosine of two people, ⟨x, y⟩/(‖x‖‖y‖): a plug-in, biased where norms are uncertain.

        NaN, with every cosine possible, where a squared norm is estimated at zero or below.
        """
        x, y, pairs = self._pairs(a, b)
        nx, ny = (np.where(n > 0, n, np.nan) for n in (pairs.squared_norm_x, pairs.squared_norm_y))
        value = pairs.inner_product / np.sqrt(nx * ny)
        if not x.noisy:
            return _like_input(_exactly(value), a, b)
        gradient = np.stack([-value / (2 * nx), -value / (2 * ny), 1 / np.sqrt(nx * ny)], axis=-1)
        variance = np.einsum("ni,nij,nj->n", gradient, self._joint(pairs, y), gradient)
        stderr = np.where(np.isnan(value), np.inf, np.sqrt(np.maximum(variance, 0.0)))
        return _like_input(_within_one(value, stderr, confidence), a, b)

    def jaccard(self, a: Whom, b: Whom, *, confidence: float = 0.95) -> Estimate[Any]:
        """Return the Jaccard similarity of two people, shared over all attributes: a plug-in; bits only.

        The interval is Fieller's, for a ratio of two estimates with known covariances.
        """
        self._need_bits("Jaccard similarity")
        x, y, pairs = self._pairs(a, b)
        either = pairs.squared_norm_x + pairs.squared_norm_y - pairs.inner_product
        value = pairs.inner_product / np.where(either > 0, either, np.nan)
        if not x.noisy:
            return _like_input(_exactly(np.where(either > 0, value, 1.0)), a, b)
        # c − J·(nx + ny − c) is the product of (nx, ny, c) with (0, 0, 1) + J·(−1, −1, 1).
        covariance = self._joint(pairs, y)
        fixed, along = np.array([0.0, 0.0, 1.0]), np.array([-1.0, -1.0, 1.0])
        square, cross, constant = (
            np.einsum("i,nij,j->n", u, covariance, v) for u, v in ((along, along), (fixed, along), (fixed, fixed))
        )
        variance = Polynomial(square, 2 * cross, constant)
        low, high = ratio_interval(pairs.inner_product, either, variance, confidence=confidence)
        stderr = np.sqrt(variance(np.clip(np.nan_to_num(value), 0.0, 1.0))) / np.where(either > 0, either, np.nan)
        return _like_input(Estimate(value, stderr, low, high), a, b)

    def hamming(self, a: Whom, b: Whom, *, confidence: float = 0.95) -> Estimate[Any]:
        """Return the number of attributes in which two people differ; bits only."""
        self._need_bits("Hamming distance")
        return _like_input(self.distances(a, b, confidence=confidence), a, b)

    def attribute(self, user: Whom, attribute: object, *, confidence: float = 0.95) -> Estimate[Any]:
        """Return one attribute of one person. The promise is that this estimate is poor: see its interval."""
        self._need_reader("attributes")
        x, _, pairs = self._pairs(user, self.project({attribute}))
        value = pairs.inner_product
        if not x.noisy:
            return _like_input(_exactly(value), user)
        variance = self.plan.error.attribute(_possible(pairs)[0], np.clip(value, 0.0, 1.0))
        return _like_input(_within_one(value, np.sqrt(variance), confidence), user)

    def project(self, attributes: Iterable[object] | Mapping[Any, float]) -> Vector:
        """Return the analyst's own vector: a set of attributes, or a mapping from attributes to values in [0, 1].

        Raises
        ------
        ParameterError
            If values are out of range, or an attribute is not of the plan's closed vocabulary.
        """
        self._need_reader("vectors of one's own")
        steps = self._own_steps(attributes)
        names = list(steps)
        plan = self.plan
        counts = np.fromiter(steps.values(), np.int64, len(names))
        if plan.vocabulary is not None and (self.vocabulary.codes(names) < 0).any():
            raise ParameterError("attributes must be of the plan's vocabulary. Leave out those that are not.")
        if plan.projection is None:
            bits = np.zeros(8 * self.values.shape[1], np.uint8)
            bits[self.vocabulary.codes(names)] = 1
            row: NDArray[Any] = np.packbits(bits, bitorder="little")
        else:
            row = plan.rows(names).project(np.array([0, len(names)]), np.arange(len(names)), counts)[0]
        return Vector(row, steps, plan)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The plan's closed vocabulary."""
        if self.plan.vocabulary is None:
            raise ParameterError("vocabulary must be closed to be listed: this plan takes any attribute.")
        return self.plan.vocabulary.resolve(self._attributes)

    def _own_steps(self, attributes: Iterable[object] | Mapping[Any, float]) -> dict[str, int]:
        """Return a person's attributes as the curator would write them: text, integer steps, the largest of repeats."""
        if isinstance(attributes, str | bytes):
            raise ParameterError("attributes must be a set of attributes or a mapping to values, got text.")
        resolution = self.plan.resolution
        items = attributes.items() if isinstance(attributes, Mapping) else ((name, 1.0) for name in attributes)
        steps: dict[str, int] = {}
        for name, value in items:
            if not 0 <= value <= 1 or (resolution == 1 and value not in (0, 1)):
                allowed = "0 or 1" if resolution == 1 else "in [0, 1]"
                raise ParameterError(f"values of attributes must be {allowed} for this plan, got {value!r}.")
            text = attribute_text(name)
            steps[text] = max(steps.get(text, 0), round(float(value) * resolution))
        return {text: count for text, count in steps.items() if count}

    @property
    def _largest(self) -> float:
        return np.inf if self.plan.n_attributes is None else float(self.plan.n_attributes)

    def _pairs(self, a: Whom, b: Whom) -> tuple[Side, Side, Pairs]:
        """Return both sides, the analyst's own vector second if there is one, and their estimates."""
        self._need_reader("inner products")
        assert self._reader is not None  # noqa: S101
        x, y = self._side(a), self._side(b)
        if not x.noisy and y.noisy:
            x, y = y, x
        if len(x.rows) != len(y.rows) and 1 not in (len(x.rows), len(y.rows)):
            raise ParameterError(f"both sides must name equally many users, got {len(x.rows)} and {len(y.rows)}.")
        if isinstance(a, Vector) and isinstance(b, Vector):  # nothing to estimate
            norms, inner = (a.squared_norm, b.squared_norm), a.inner_product(b)
            return x, y, Pairs(*(np.array([float(n)]) for n in (*norms, inner, sum(norms) - 2 * inner)))
        return x, y, self._reader.pairs(self._reader.sums(x, y), x, y)

    def _side(self, who: Whom) -> Side:
        if isinstance(who, Vector):
            if who.plan != self.plan:
                raise ParameterError("a vector must be made by project of this release: it belongs to another plan.")
            return Side(who.row[None, :], noisy=False, squared_norm=who.squared_norm)
        return Side(self.values[self._positions(who)], noisy=True)

    def _distance_estimate(self, pairs: Pairs, x: Side, y: Side, confidence: float) -> Arrays:
        if not x.noisy:  # both are the analyst's own
            return _exactly(pairs.squared_distance)
        weights = tuple(np.maximum(n, 0.0) for n in (pairs.squared_norm_x, pairs.squared_norm_y))
        variance = self.plan.error.distance(one_sided=not y.noisy, weights=weights)  # type: ignore[arg-type]
        return _inverted(pairs.squared_distance, variance, confidence, largest=self._largest)

    def _joint(self, pairs: Pairs, y: Side) -> Floats:
        norms = _possible(pairs)
        inner = np.clip(pairs.inner_product, 0.0, np.sqrt(norms[0] * norms[1]))
        return self.plan.error.joint(norms, inner, one_sided=not y.noisy)

    def _published_distances(self, a: Whom, b: Whom, confidence: float) -> Arrays:
        if isinstance(a, Vector) or isinstance(b, Vector):
            raise ParameterError("noisy distances hold pairs of published people only. Publish sketches instead.")
        rows, columns = np.broadcast_arrays(self._positions(a), self._positions(b))
        if (rows == columns).any():
            raise ParameterError("users must differ: a person's distance to himself is not published, and is zero.")
        return self._condensed(rows, columns, confidence)

    def _condensed(self, rows: NDArray[np.int64], columns: NDArray[np.int64], confidence: float) -> Arrays:
        """Look pairs of positions up in the upper triangle; those on the diagonal get an arbitrary entry."""
        n = len(self)
        low, high = np.minimum(rows, columns), np.maximum(rows, columns)
        places = low * (2 * n - low - 1) // 2 + (high - low - 1)
        value = self.values[np.clip(places, 0, len(self.values) - 1)] * self.plan.scale
        return _inverted(value, self.plan.error.distance(), confidence, largest=self._largest)

    def _positions(self, users: Any) -> NDArray[np.int64]:
        ids = np.atleast_1d(np.asarray(users))
        if ids.dtype.kind == "O":
            ids = np.array(ids.tolist())
        if ids.ndim != 1:
            raise ParameterError("users must be one id or a list of ids.")
        textual = self.users.dtype.kind == "T"
        if ids.dtype.kind not in ("UT" if textual else "iu"):
            raise ParameterError(f"users must be {'text' if textual else 'integers'}, as in this release.")
        wanted = ids.astype(self.users.dtype)
        places = np.searchsorted(self.users, wanted)
        found = places < len(self.users)
        found[found] = self.users[places[found]] == wanted[found]
        if not found.all():
            raise ParameterError("users must be in this release, and some are not. `user in release` tells.")
        return places

    def _find(self, user: User) -> int | None:
        try:
            return int(self._positions(user)[0])
        except ParameterError:
            return None

    def _need_reader(self, what: str) -> None:
        if self._reader is None:
            raise ParameterError(f"noisy distances do not tell {what}. Publish sketches instead.")

    def _need_bits(self, what: str) -> None:
        if self.plan.resolution != 1:
            raise ParameterError(
                f"{what} is about bits: this release holds values in steps of 1/{self.plan.resolution}."
            )


def _possible(pairs: Pairs) -> tuple[Floats, Floats]:
    return np.maximum(pairs.squared_norm_x, 0.0), np.maximum(pairs.squared_norm_y, 0.0)


def _like_input(estimate: Arrays, *inputs: Any) -> Estimate[Any]:
    """Return plain numbers if every input was one user or vector, else arrays."""
    one = all(isinstance(given, Vector | str) or np.ndim(given) == 0 for given in inputs)
    return scalar(estimate) if one else estimate


def _exactly(value: Floats) -> Arrays:
    return Estimate(value, np.zeros_like(value), value, value)


def _within_one(value: Floats, stderr: Floats, confidence: float) -> Arrays:
    """Return a normal interval of something that lies in [0, 1]; all of that where nothing is known."""
    low, high = value - normal_quantile(confidence) * stderr, value + normal_quantile(confidence) * stderr
    unknown = ~np.isfinite(stderr)
    return Estimate(
        value,
        stderr,
        np.where(unknown, 0.0, np.clip(low, 0.0, 1.0)),
        np.where(unknown, 1.0, np.clip(high, 0.0, 1.0)),
    )


def _as_polynomial(variance: Callable[[float], Floats]) -> Polynomial:
    """Return a quadratic through three of its values."""
    at0, at1, at2 = (np.asarray(variance(c), dtype=np.float64) for c in (0.0, 1.0, 2.0))
    square = (at2 - 2 * at1 + at0) / 2
    return Polynomial(square, at1 - at0 - square, at0)


def _inverted(value: Floats, variance: Polynomial, confidence: float, *, largest: float) -> Arrays:
    low, high = invert_interval(value, variance, confidence=confidence, largest=largest)
    stderr = np.sqrt(variance(np.clip(value, 0.0, largest)))
    return Estimate(*(np.asarray(part, dtype=np.float64) for part in (value, stderr, low, high)))
