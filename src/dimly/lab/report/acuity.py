"""How sharply a release sees: ``Acuity`` (distances told apart) and how spread its distances are."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy

from dimly.analyst.intervals import distance_skewness, unified_interval
from dimly.analyst.release import Release
from dimly.mechanisms.error.bounds import normal_quantile
from dimly.mechanisms.error.models import Floats, SketchError
from dimly.mechanisms.plan import Plan

CONFIDENCE = 0.95
FEWEST_PAIRS = 30
"""Of fewer, nothing is said of how distances differ."""
_MOST_RUNGS = 40
_USUAL = 1600.0  # reach, where nobody's distance is known
_CERTAIN = 3.0  # standard errors, beyond which a spread is taken for people's


class SeenDistance(NamedTuple):
    """What is to be seen of a squared distance."""

    distance: float
    stderr: float
    low: float
    high: float
    apart: float | None
    """The next farther distance that can be told from it; None: none can."""


@dataclass(frozen=True, slots=True)
class Acuity:
    """What the plan's error theory says of squared distances between people of average weight.

    Attributes
    ----------
    plan : Plan
    weight : float
        Average squared norm of a person. Only ``counting`` on bits errs by it, and for no pair is it less than half
        of the squared distance.
    """

    plan: Plan
    weight: float

    def stderr(self, distance: Any) -> Floats:
        """Return the standard error at a squared distance."""
        r2 = np.asarray(distance, np.float64)
        return np.sqrt(self.plan.error.distance(weights=self._weights(r2))(r2))

    @property
    def bend(self) -> float | None:
        """Twice the average weight, where the error begins to grow faster; None where weights do not matter.

        Two people cannot differ in more attributes than they have together: a pair farther apart is heavier than
        average, and counting errs more on it.
        """
        error = self.plan.error
        matters = isinstance(error, SketchError) and error.blend > 0 and self.weight > 0
        return 2 * self.weight if matters else None

    def apart(self, distance: float) -> float | None:
        """Return the nearest farther squared distance that can be told from this one.

        So far that of two pairs, four people in all, the nearer pair looks nearer in 39 of 40 cases: their difference
        is 1.96 times its standard error, √(Var(r²) + Var(s²)).
        """
        z, near = normal_quantile(CONFIDENCE), float(self.stderr(distance))

        def lacking(farther: float) -> float:
            return z * math.hypot(near, float(self.stderr(farther))) - (farther - distance)

        far = distance + 1.0
        while lacking(far) > 0:
            far = distance + 2 * (far - distance)
            if far > 1e12:  # errors grow as fast as distances
                return None
        found = float(scipy.optimize.brentq(lacking, distance, far)) if lacking(distance) > 0 else distance
        return found if found <= self._largest else None

    def rungs(self, reach: float) -> list[float]:
        """Return distances from 0 to ``reach``, each one told apart from the one before."""
        rungs = [0.0]
        while len(rungs) < _MOST_RUNGS:
            following = self.apart(rungs[-1])
            if following is None or following > reach or following <= rungs[-1]:
                break
            rungs.append(following)
        return rungs

    def seen(self, distances: list[float]) -> list[SeenDistance]:
        """Return what is to be seen of each squared distance, if it is the estimate."""
        r2 = np.array(distances)
        variance = self.plan.error.distance(weights=self._weights(r2))
        skewness = distance_skewness(self.plan, sides=2)
        low, high = unified_interval(r2, variance, confidence=CONFIDENCE, largest=self._largest, skewness=skewness)
        errors = self.stderr(r2)
        return [
            SeenDistance(d, float(errors[i]), float(low[i]), float(high[i]), self.apart(d))
            for i, d in enumerate(distances)
        ]

    def _weights(self, r2: Floats) -> tuple[Floats, Floats]:
        weights = np.maximum(self.weight, r2 / 2)
        return weights, weights

    @property
    def _largest(self) -> float:
        return math.inf if self.plan.n_attributes is None else float(self.plan.n_attributes)


@dataclass(frozen=True, slots=True, eq=False)
class Distances:
    """Estimated squared distances of random pairs. Make one with :func:`distances_of`.

    Attributes
    ----------
    values : ndarray
        The estimates; unbiased, and some may be negative.
    noise : float
        Standard deviation that noise and projection alone give them.
    drift : float
        How far off the average may be in proportion, since all pairs are seen through one projection.
    """

    values: Floats
    noise: float
    drift: float

    @property
    def mean(self) -> float:
        """Average squared distance."""
        return float(self.values.mean())

    @property
    def mean_error(self) -> float:
        """How far off the average may be: all pairs are seen through one projection, whose error they may share."""
        return self.drift * abs(self.mean) + self.spread / math.sqrt(len(self.values))

    @property
    def spread(self) -> float:
        """Standard deviation of the estimates: people's and noise's."""
        return float(self.values.std())

    @property
    def share(self) -> float:
        """Part of the estimates' variance that noise does not explain, from 0 to 1."""
        total = self.spread**2
        return float(np.clip(1 - self.noise**2 / total, 0.0, 1.0)) if total > 0 else 0.0

    @property
    def visible(self) -> bool:
        """Whether people's own differences in distance are seen at all: beyond three standard errors of a variance."""
        total = self.spread**2
        if len(self.values) < FEWEST_PAIRS or total == 0:
            return False
        kurtosis = float(((self.values - self.mean) ** 4).mean()) / total**2
        return self.share > _CERTAIN * math.sqrt(max(kurtosis - 1, 0.0) / len(self.values))

    @property
    def people(self) -> float:
        """Standard deviation of the true squared distances, noise taken off; 0 where none is seen."""
        return self.spread * math.sqrt(self.share) if self.visible else 0.0


def distances_of(release: Release) -> Distances | None:
    """Return the distances of pairs at random: everybody in one pair, or all pairs where distances are published.

    Var(estimate) = Var(truth) + E[Var(estimate | truth)]. The last is a quadratic of the truth that theory knows,
    a·r⁴ + b·r² + c; at the estimates it is on average larger by a·Var(estimate | truth), which is taken off. None for
    fewer than two people.
    """
    n = len(release)
    if release.plan.places_people:
        order = np.random.default_rng(0).permutation(n)
        a, b = order[: n // 2], order[n // 2 : 2 * (n // 2)]
    else:
        a, b = np.triu_indices(n, 1)
    values = release.distances(a, b).value if len(a) else np.empty(0)
    known = np.isfinite(values)  # a saturated distance says nothing
    if not known.any():
        return None
    values = values[known]
    weights = None
    if release.plan.places_people:
        weights = release.norm(a[known]).value, release.norm(b[known]).value
    polynomial = release.plan.error.distance(weights=weights)
    square, linear, constant = (np.asarray(part, np.float64) for part in polynomial)
    at_estimates = float(np.mean((square * values + linear) * values + constant))
    shared = float(np.mean(square))
    return Distances(values, math.sqrt(max(at_estimates / (1 + shared), 0.0)), math.sqrt(max(shared, 0.0)))


def acuity_of(release: Release) -> Acuity:
    """Return how sharply a release sees people of its own average weight, which noise hardly touches."""
    if not release.plan.places_people or not len(release):
        return Acuity(release.plan, 0.0)
    norms = release.norm(np.arange(len(release))).value
    return Acuity(release.plan, max(float(norms.mean()), 0.0))


def reach_of(acuity: Acuity, distances: Distances | None) -> float:
    """Return the squared distance up to which it is worth looking."""
    most = math.inf if acuity.plan.n_attributes is None else float(acuity.plan.n_attributes)
    if distances is None:
        return min(_USUAL, most)
    far = float(np.quantile(distances.values, 0.99))
    return min(max(far, distances.mean, 2 * float(acuity.stderr(0.0)), 1.0), most)
