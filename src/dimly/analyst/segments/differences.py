"""``Profile``: attributes of public directions along which a segment differs from all others; free.

A segment's average lies off that of everybody else. Part of that is noise: who is in a segment was decided by the same
noise, so that even a cloud of pure noise, cut in two, has two averages. How much it is can be told from the published
points p = x + e alone, without knowing x. For Laplace noise of scale b along one coordinate, and whether p is in a
segment A,

    E[e·1(p ∈ A)] = b·E[1(p + h ∈ A) − 1(p − h ∈ A)],   h exponential with mean b, drawn anew.

For (1 − b²∂²) undoes the smoothing by Laplace noise, and turns e·g(e) into 2b·sign(e)·g(e), where g is its density.
For Gaussian noise of deviation σ Stein's identity has a derivative in place of the difference; steps of h = σ/2,
counted σ times, come within 4 % of it. So whoever would change segments by a step tells how far noise has moved the
averages. What is left is unbiased for the people in the segments. A direction along which it is within its error names
nothing.

What is named are the attributes whose rows point the same way. All of it is computed from published numbers and public
directions, so that it costs nothing. It is the sum along a direction that is measured; that single attributes make it
up is what the directions say.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dimly.analyst.estimate import Arrays, Estimate
from dimly.analyst.structure.coordinates import Points
from dimly.mechanisms.error.models import Floats
from dimly.mechanisms.projection.directions import Directions

FALSE_ALARMS = 0.01
"""How often any segment is said to differ along a direction in which none does."""
_AS_STRONG = 0.5  # of what the strongest attribute counts
Labels = NDArray[np.int32]
DIRECTIONS_SAY = (
    "Sums along the directions are measured; that these attributes make them up is what the directions say."
)
Named = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """What tells one segment from everybody else.

    Attributes
    ----------
    toward : tuple of (attribute, part)
        The strongest attributes that count toward the segment. The part says how far one of them moves a person on the
        way from everybody else's average to the segment's, which is 1.
    away : tuple of (attribute, part)
        Those that count away from it; parts are negative.
    n_toward, n_away : int
        How many attributes count at least half as much as the strongest of their side: where these are many, those
        named are examples.
    along : Estimate of arrays (directions,)
        How far the segment's average lies from everybody else's along each direction.
    differs : ndarray of bool (directions,)
        Along which directions that is more than noise; where there is none, nothing is named.
    """

    toward: Named
    away: Named
    n_toward: int
    n_away: int
    along: Arrays
    differs: NDArray[np.bool_]

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        along = {name: getattr(self.along, name).tolist() for name in ("value", "stderr", "low", "high")}
        return {
            "toward": dict(self.toward),
            "away": dict(self.away),
            "n_toward": self.n_toward,
            "n_away": self.n_away,
            "along": along | {"differs": self.differs.tolist()},
        }

    @property
    def words(self) -> str:
        """Names alone, in a line."""
        if not self.differs.any():
            return "nothing beyond noise"
        if not (self.toward or self.away):
            return "no attribute: numbers of these directions are shared at random"
        sides = (("more", self.toward, self.n_toward), ("less", self.away, self.n_away))
        return "; ".join(_side(side, named, n_strong) for side, named, n_strong in sides if named)


def _side(side: str, named: Named, n_strong: int) -> str:
    others = n_strong - len(named)
    more = f" and {others:,} other{'s' * (others > 1)} as telling" if others > 0 else ""
    return f"{side}: {', '.join(name for name, _ in named)}{more}"


class Averages:
    """Averages of segments along some coordinates, with what noise did to them taken off; fed batch by batch.

    Parameters
    ----------
    assign : callable
        Returns the segment of each point.
    n_segments : int
    columns : range
        The coordinates.
    noise : float
        Variance of noise in each of them.
    laplace : bool
        Whether the noise is Laplace's; else it is Gaussian.
    """

    def __init__(
        self, assign: Callable[[Points], Labels], n_segments: int, columns: range, *, noise: float, laplace: bool
    ) -> None:
        self._assign, self._columns, self._noise, self._laplace = assign, columns, noise, laplace
        self._sizes = np.zeros(n_segments)
        self._totals, self._errors = np.zeros((2, n_segments, len(columns)))
        self._generator = np.random.default_rng(0)

    def add(self, points: Points) -> None:
        """Take some people of whom something is known."""
        n_segments = len(self._sizes)
        labels = self._assign(points)
        self._sizes += np.bincount(labels, minlength=n_segments)
        for place, column in enumerate(self._columns):
            along = points[:, column]
            steps, factor = self._steps(len(points))
            counts = []
            for sign in (1, -1):
                moved = points.copy()
                moved[:, column] += np.float32(sign) * steps
                counts.append(self._assign(moved))
            changed = np.flatnonzero(counts[0] != counts[1])
            gained = sum(
                sign * np.bincount(where[changed], minlength=n_segments)
                for sign, where in zip((1, -1), counts, strict=True)
            )
            touched = sum(np.bincount(where[changed], minlength=n_segments) for where in counts)
            self._totals[:, place] += np.bincount(labels, along, minlength=n_segments) - factor * gained
            self._errors[:, place] += factor**2 * touched

    def _steps(self, n: int) -> tuple[Points, float]:
        deviation = self._noise**0.5
        if self._laplace:
            mean = deviation / 2**0.5
            return self._generator.standard_exponential(n, np.float32) * np.float32(mean), mean
        return np.full(n, deviation / 2, np.float32), deviation

    def apart(self) -> tuple[Floats, Floats]:
        """Return how far each average lies from that of everybody else, (segments, columns), and standard errors."""
        sizes = np.maximum(self._sizes, 1e-9)[:, None]
        others = np.maximum(self._sizes.sum() - sizes, 1e-9)
        value = self._totals / sizes - (self._totals.sum(axis=0) - self._totals) / others
        # At most: people's own noise and who changed segments go the same way, and one is taken off the other.
        total = self._noise * sizes + self._errors
        elsewhere = self._noise * others + self._errors.sum(axis=0) - self._errors
        return value, np.sqrt(total / sizes**2 + elsewhere / others**2)


class SegmentDifferences(NamedTuple):
    """What segments differ in, before it is put into words.

    Attributes
    ----------
    directions : Directions
    value, stderr : ndarray of float64 (segments, directions)
        How far each segment's average lies from everybody else's; see :class:`Averages`.
    """

    directions: Directions
    value: Floats
    stderr: Floats


def profiles_of(
    directions: Directions, value: Floats, stderr: Floats, *, most: int, confidence: float
) -> tuple[Profile, ...]:
    """Return what tells each segment from everybody else, given what is :class:`SegmentDifferences`.

    Parameters
    ----------
    directions, value, stderr
    most : int
        Attributes to name at each end.
    confidence : float
        Of the intervals.
    """
    if len(value) < 2:  # nobody else
        value, stderr = np.zeros_like(value), np.zeros_like(stderr)
    reach = scipy.special.ndtri(0.5 + confidence / 2) * stderr
    certain = -scipy.special.ndtri(FALSE_ALARMS / (2 * max(value.size, 1))) * stderr
    found = []
    for segment, along in enumerate(value):
        differs = np.abs(along) > certain[segment]
        estimate = Estimate(along, stderr[segment], along - reach[segment], along + reach[segment])
        (toward, n_toward), (away, n_away) = _named(directions, np.where(differs, along, 0.0), most)
        found.append(Profile(toward, away, n_toward, n_away, estimate, differs))
    return tuple(found)


def _named(directions: Directions, way: Floats, most: int) -> tuple[tuple[Named, int], tuple[Named, int]]:
    """Return the attributes that count most along a way and against it, and how many are as strong."""
    length = float(way @ way)
    if not length or not directions.tells_names:
        return ((), 0), ((), 0)
    parts = directions.matrix @ (way / (length * directions.scale))
    names = directions.names
    order = np.argsort(-np.abs(parts), kind="stable")
    ends = []
    for sign in (1.0, -1.0):
        strongest = float((sign * parts).max(initial=0.0))
        chosen = order[(sign * parts)[order] > 0][:most]
        n_strong = int(np.count_nonzero(sign * parts >= _AS_STRONG * strongest)) if strongest > 0 else 0
        ends.append((tuple((names[int(row)], float(parts[row])) for row in chosen), n_strong))
    return ends[0], ends[1]
