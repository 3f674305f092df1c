"""Published rows as points: coordinates of sketches, bits or joined releases; blocks and samples of them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dimly.analyst.estimate import Vector
from dimly.errors import ParameterError
from dimly.mechanisms.error.models import Floats
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_kinds import DirectionsPlan, ResponsePlan, SketchPlan
from dimly.release.reader import StoredSketches
from dimly.release.sketches import Sketches

Points = NDArray[np.float32]


@dataclass(frozen=True)
class Coordinates(ABC):
    """How a plan's published rows become points. Make one with :meth:`of`.

    Attributes
    ----------
    dimension : int
        k, or the number of attributes for randomized response.
    bias : float
        What noise adds to the squared norm of a point: E‖p(x) − p(y)‖² = ‖x − y‖² + 2·bias, and once for a vector of
        one's own, which has no noise.
    """

    plan: Plan
    dimension: int
    bias: float

    @staticmethod
    def of(plan: Plan) -> "Coordinates":
        """Return the coordinates of a plan's releases.

        Raises
        ------
        ParameterError
            For noisy distances, which place nobody anywhere.
        """
        if not plan.places_people:
            raise ParameterError("noisy distances give no points. Publish sketches instead.")
        return _COORDINATES[type(plan)](plan)

    @property
    def free(self) -> int:
        """In how many directions points can differ."""
        return self.dimension

    @property
    def projected(self) -> float:
        """What a projection adds to the variance of a squared distance r², over r⁴, at most."""
        return 0.0

    @property
    def noise_variance(self) -> float:
        """Variance that noise has in each direction in which it can go."""
        return self.bias / self.free

    @property
    def noise_kurtosis(self) -> float:
        """Kurtosis of the noise of one coordinate; 3 is Gaussian."""
        return float(self.plan.error.noise_kurtosis)

    @abstractmethod
    def points(self, rows: NDArray[Any]) -> Points:
        """Return the points of published rows, as :class:`~dimly.release.Sketches` lays them out."""

    @abstractmethod
    def uncentered(self, rows: NDArray[Any]) -> Points:
        """Return points that are not centered."""

    @abstractmethod
    def centered(self, people: Points) -> Points:
        """Return the points of what :meth:`uncentered` gave."""

    @abstractmethod
    def own(self, vector: Vector) -> Points:
        """Return the point of a vector of one's own."""

    @abstractmethod
    def products(self, columns: Floats) -> tuple[Floats, Floats]:
        """Return what turns published numbers into products of their points with columns: a matrix, and an addend."""

    @abstractmethod
    def lengths(self, mean: Floats) -> "Lengths":
        """Return what gives squared lengths of points less ``mean``."""


class Lengths(NamedTuple):
    """Squared lengths ‖p − m‖² of points less their mean, from sums of published numbers x (or bits)."""

    mean: Floats
    total: float
    square_of_total: float
    squares: float
    products: float
    constant: float


@dataclass(frozen=True)
class SketchCoordinates(Coordinates):
    """Of sketches: k numbers times the plan's scale, centered where the family has no signs."""

    plan: SketchPlan | DirectionsPlan

    @classmethod
    def by(cls, plan: SketchPlan | DirectionsPlan) -> "SketchCoordinates":
        """Return the coordinates of a plan's sketches."""
        return cls(plan, plan.k, plan.k * plan.error.noise.variance)

    @property
    def free(self) -> int:
        """In how many directions points can differ."""
        return self.plan.error.free

    @property
    def projected(self) -> float:
        """Of averages, which are no bits."""
        return self.plan.error.projected

    @property
    def _gain(self) -> float:
        return self.plan.scale * math.sqrt(self.plan.error.gain)

    def points(self, rows: NDArray[Any]) -> Points:
        """Return the points of published rows."""
        points: Points = rows.astype(np.float32)
        if self.plan.error.centered:
            points -= points.mean(axis=1, keepdims=True)
        points *= np.float32(self._gain)
        return points

    def uncentered(self, rows: NDArray[Any]) -> Points:
        """Return points that are not centered."""
        return rows.astype(np.float32) * np.float32(self.plan.scale)

    def centered(self, people: Points) -> Points:
        """Return the points of what :meth:`uncentered` gave."""
        if not self.plan.error.centered:
            return people
        centered: Points = people - people.mean(axis=1, keepdims=True)
        k = people.shape[1]
        centered *= np.float32((k / (k - 1)) ** 0.5)
        return centered

    def own(self, vector: Vector) -> Points:
        """Return the point of a vector of one's own."""
        point: Points = self.points(vector.row[None, :])[0]
        return point

    def products(self, columns: Floats) -> tuple[Floats, Floats]:
        """Return a matrix for published numbers; points are centered, and so may be what they are multiplied by."""
        centered = columns - columns.mean(axis=0) if self.plan.error.centered else columns
        return self._gain * centered, np.zeros(columns.shape[1])

    def lengths(self, mean: Floats) -> Lengths:
        """Return what gives squared lengths of p − m, with p = s·x, or p = s·(x − Σx/k)."""
        gain, square = self._gain, float(mean @ mean)
        if not self.plan.error.centered:
            return Lengths(mean, 0.0, 0.0, gain**2, -2 * gain, square)
        return Lengths(mean - mean.mean(), 0.0, -(gain**2) / len(mean), gain**2, -2 * gain, square)


@dataclass(frozen=True)
class BitCoordinates(Coordinates):
    """Of randomized response: (bit − p)/(1 − 2p) for each attribute."""

    plan: ResponsePlan

    @classmethod
    def by(cls, plan: ResponsePlan) -> "BitCoordinates":
        """Return the coordinates of a plan's bits."""
        return cls(plan, plan.n_attributes, plan.n_attributes * plan.error.bit_variance)

    def points(self, rows: NDArray[Any]) -> Points:
        """Return the points of published rows."""
        flip = self.plan.error.flip
        bytes_ = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(np.float32)
        of_byte: Points = (bytes_ - np.float32(flip)) / np.float32(1 - 2 * flip)
        return np.ascontiguousarray(of_byte[rows].reshape(len(rows), 8 * rows.shape[1])[:, : self.dimension])

    def uncentered(self, rows: NDArray[Any]) -> Points:
        """Return the points, which nothing centers."""
        return self.points(rows)

    def centered(self, people: Points) -> Points:
        """Return the points as they are."""
        return people

    def own(self, vector: Vector) -> Points:
        """Return the point of a vector of one's own."""
        bits: Points = np.unpackbits(vector.row, count=self.dimension, bitorder="little").astype(np.float32)
        return bits

    def products(self, columns: Floats) -> tuple[Floats, Floats]:
        """Return a matrix for bits, and what is added."""
        matrix = columns / (1 - 2 * self.plan.error.flip)
        return matrix, -self.plan.error.flip * matrix.sum(axis=0)

    def lengths(self, mean: Floats) -> Lengths:
        """Return what gives squared lengths of p − m, with p = (x − f)/(1 − 2f), and x² = x."""
        f, gain = self.plan.error.flip, 1 / (1 - 2 * self.plan.error.flip)
        constant = float(mean @ mean) + len(mean) * (f * gain) ** 2 + 2 * f * gain * float(mean.sum())
        return Lengths(mean, gain, 0.0, 0.0, -2 * gain, constant)


@dataclass(frozen=True)
class JoinedPlan:
    """Plans of several releases of the same people, whose numbers stand side by side."""

    plans: tuple[Plan, ...]

    @property
    def places_people(self) -> bool:
        """Whether each person is a point: in every one of the releases."""
        return all(plan.places_people for plan in self.plans)


@dataclass(frozen=True)
class JoinedCoordinates(Coordinates):
    """Of several releases: their points side by side, each divided by the deviation of its noise, which is then 1."""

    parts: tuple[Coordinates, ...]

    @classmethod
    def by(cls, plan: JoinedPlan) -> "JoinedCoordinates":
        """Return the coordinates of joined releases."""
        parts = tuple(Coordinates.of(one) for one in plan.plans)
        free = sum(part.free for part in parts)
        return cls(plan, sum(part.dimension for part in parts), float(free), parts)  # type: ignore[arg-type]

    @property
    def free(self) -> int:
        """In how many directions points can differ."""
        return sum(part.free for part in self.parts)

    @property
    def noise_kurtosis(self) -> float:
        """The largest of the parts'."""
        return max(part.noise_kurtosis for part in self.parts)

    @property
    def units(self) -> tuple[float, ...]:
        """What a coordinate of 1 is in each of the parts: the standard deviation of its noise."""
        return tuple(math.sqrt(part.bias / part.free) for part in self.parts)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Where the points of each part stand."""
        ends = np.cumsum([part.dimension for part in self.parts]).tolist()
        return tuple(slice(end - part.dimension, end) for end, part in zip(ends, self.parts, strict=True))

    def points(self, rows: NDArray[Any]) -> Points:
        """Return the points of published rows, which stand side by side too."""
        return self._joined(part.points(cut) for part, cut in self._cut(rows))

    def uncentered(self, rows: NDArray[Any]) -> Points:
        """Return points that are not centered."""
        return self._joined(part.uncentered(cut) for part, cut in self._cut(rows))

    def centered(self, people: Points) -> Points:
        """Return the points of what :meth:`uncentered` gave."""
        cuts = zip(self.parts, self.slices, strict=True)
        return np.concatenate([part.centered(people[:, where]) for part, where in cuts], axis=1)

    def _cut(self, rows: NDArray[Any]) -> Iterator[tuple[Coordinates, NDArray[Any]]]:
        start = 0
        for part in self.parts:
            dtype, (_, width) = part.plan.published_dtype, part.plan.published_shape(1)
            # Bits are bytes again; integers stay in the type that holds all of them.
            cut = rows[:, start : start + width]
            yield part, cut.astype(dtype) if dtype == np.uint8 else cut
            start += width

    def _joined(self, points: Iterable[Points]) -> Points:
        return np.concatenate([part / np.float32(unit) for part, unit in zip(points, self.units, strict=True)], axis=1)

    def own(self, vector: Vector) -> Points:
        """Refuse: a vector belongs to one release."""
        raise NotImplementedError

    def products(self, columns: Floats) -> tuple[Floats, Floats]:
        """Refuse: neighbors of joined releases are compared as points."""
        raise NotImplementedError

    def lengths(self, mean: Floats) -> Lengths:
        """Refuse: neighbors of joined releases are compared as points."""
        raise NotImplementedError


_COORDINATES: Final[Mapping[type[Plan] | type[JoinedPlan], Callable[[Any], Coordinates]]] = {
    JoinedPlan: JoinedCoordinates.by,
    SketchPlan: SketchCoordinates.by,
    DirectionsPlan: SketchCoordinates.by,
    ResponsePlan: BitCoordinates.by,
}


_PART = 1 << 16  # people of one part of a release in memory
_BLOCK = 1 << 22  # coordinates of a block: 16 MB
_READ = 16  # people read for each one of a sample


class Block(NamedTuple):
    """Consecutive people."""

    start: int
    """Place of the first in the release."""
    points: Points
    known: NDArray[np.bool_]
    """Who has no saturated number: of the others nothing is known, and their points are not to be used."""


def blocks(
    sketches: Sketches | StoredSketches, *, most: int | None = None, parts: Iterable[int] | None = None
) -> Iterator[Block]:
    """Return the people of a release in order, in blocks of bounded size.

    Parameters
    ----------
    sketches : Sketches or StoredSketches
        Not noisy distances, which place nobody.
    most : int, optional
        Stop reading at about this many people: whole parts of the release, evenly spaced. Which ones depends on the
        number of people only.
    parts : iterable of int, optional
        Read these parts only.
    """
    coordinates = Coordinates.of(sketches.plan)
    step = max(1, _BLOCK // coordinates.dimension)
    for part_start, rows in parts_of(sketches, most, parts):
        for start in range(0, len(rows), step):
            cut = rows[start : start + step]
            yield Block(part_start + start, coordinates.points(cut), known(cut))


def sample(sketches: Sketches | StoredSketches, n: int, convert: Callable[[NDArray[Any]], Points]) -> Points:
    """Return about ``n`` people, evenly spaced, without those of whom nothing is known; all if there are fewer.

    Parameters
    ----------
    sketches : Sketches or StoredSketches
    n : int
    convert : callable
        From published rows to what is wanted of them; it is given few at a time.
    """
    most = _READ * n
    stride = max(1, min(len(sketches), most) // n)
    found = []
    for part_start, part in parts_of(sketches, most):
        rows = part[-part_start % stride :: stride]
        rows = rows[known(rows)]
        step = max(1, _BLOCK // (8 * rows.shape[1]))  # a byte may hold eight coordinates
        found += [convert(rows[start : start + step]) for start in range(0, max(len(rows), 1), step)]
    return np.concatenate(found)


def coordinates_of(plan: Plan, *, widest: int | None = None) -> Callable[[NDArray[Any]], Points]:
    """Return what turns published rows into coordinates about nobody's zero: those of points, but never centered.

    Parameters
    ----------
    plan : Plan
    widest : int, optional
        Where there are more coordinates, they are added up at random signs into as many. Which ones go together is
        fixed; each goes to one place, so that what was independent stays so.
    """
    coordinates = Coordinates.of(plan)
    d = coordinates.dimension
    convert = coordinates.uncentered
    if widest is None or d <= widest:
        return convert
    generator = np.random.default_rng(0)
    places, signs = generator.integers(widest, size=d), generator.choice([-1.0, 1.0], size=d)
    folding = scipy.sparse.csr_array((signs.astype(np.float32), (np.arange(d), places)), shape=(d, widest))
    return lambda rows: np.ascontiguousarray(convert(rows) @ folding)


def placed(people: Points, plan: Plan) -> Points:
    """Return the points of people whose coordinates are about nobody's zero."""
    return Coordinates.of(plan).centered(people)


def known(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whose published numbers all lie within the limits of their type; packed bits have none."""
    if rows.dtype == np.uint8:
        return np.ones(len(rows), np.bool_)
    limits = np.iinfo(rows.dtype)
    inside: NDArray[np.bool_] = (rows.min(axis=1) > limits.min) & (rows.max(axis=1) < limits.max)
    return inside


def parts_of(
    sketches: Sketches | StoredSketches, most: int | None, chosen: Iterable[int] | None = None
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Return the first place and the published rows of each part, or of those that :func:`blocks` would read."""
    size = sketches.manifest.layout.users_per_part if isinstance(sketches, StoredSketches) else _PART
    n_parts = max(1, -(-len(sketches) // size))  # nobody is an empty part
    wanted = n_parts if most is None else min(n_parts, max(1, -(-most // size)))
    for index in chosen if chosen is not None else (i * n_parts // wanted for i in range(wanted)):
        start = index * size
        if isinstance(sketches, StoredSketches):
            yield start, sketches.read_values(index)
        else:
            yield start, sketches.values[start : start + size]
