"""Which view of people gives the most telling groups, and how stable groups are.

Groups are judged by numbers that they were not made from (:mod:`~dimly.analyst.structure.held_out`). Of the plain
views, in which activity may set people apart, the one is taken whose groups tell most. Rays are taken only with proof:
their groups tell clearly more of tastes than those of any plain view, and clearly more than cuts through a cloud of
tastes without groups would. Where either is missing, the plain view stays.

References
----------
Y. Liu et al., "Statistical significance of clustering for high-dimension, low-sample size data", JASA 103 (2008).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dimly.analyst.structure.held_out import Fold, Told, folds_of, told_by, without_groups
from dimly.analyst.structure.points import Coordinates, Points, coordinates_of, sample
from dimly.analyst.structure.views import DIRECTIONS, View, WeightedPoints
from dimly.mechanisms.error.models import Floats
from dimly.release.reader import StoredSketches
from dimly.release.sketches import Sketches

_MOST = 2000  # people looked at
_MOST_NUMBERS = 1 << 24  # of them
_FEWEST = 200
_CLEARLY = 2.0  # standard errors, or standard deviations of what clouds show
_CLOUDS = 4
_HALVES = 8  # pairs of them
_RUNS_ON_HALVES = 3
_FEWEST_EACH = 10  # people a group, for its stability to be told


class Stability(NamedTuple):
    """How well runs on halves of the people agree, beyond what they do in clouds without groups.

    Attributes
    ----------
    score : float
        1 is perfect agreement, 0 what Gaussian clouds reach; below 0 is less than those.
    value : float
        From 0, what Gaussian clouds reach and one standard error more, to 1.
    """

    score: float
    value: float

    @classmethod
    def of(cls, found: Floats, chance: Floats) -> "Stability":
        """Return the stability of agreements, given those in clouds."""
        agreement, by_chance = float(found.mean()), min(float(chance.mean()), 0.999)
        errors = found.var(ddof=1) / len(found), chance.var(ddof=1) / len(chance)
        zero = min(by_chance + float(sum(errors)) ** 0.5, 0.999)
        value = min(max((agreement - zero) / (1 - zero), 0.0), 1.0)
        return cls((agreement - by_chance) / (1 - by_chance), value)


NOT_STABLE = Stability(0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Some people of a release, by whom views are judged. Make one with :meth:`of`.

    Attributes
    ----------
    people : ndarray of float32 (n, dimension)
        Not centered.
    coordinates : Coordinates
    width : int
        Directions that are looked for among some of the coordinates.
    """

    people: Points
    coordinates: Coordinates
    width: int
    _folds: dict[int, list[Fold]] = field(default_factory=dict)
    _clouds: dict[int, tuple[Points, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, sketches: Sketches | StoredSketches, view: View) -> "Judge":
        """Return the judge of views like ``view``; people are evenly spaced ones."""
        coordinates = Coordinates.of(sketches.plan)
        n = int(min(_MOST, max(_MOST_NUMBERS // coordinates.dimension, _FEWEST)))
        return cls(sample(sketches, n, coordinates_of(sketches.plan)), coordinates, max(view.width, DIRECTIONS))

    def choose(self, count: int, views: Sequence[View]) -> View:
        """Return the view in which ``count`` groups say most."""
        if len(views) == 1 or not 1 < count <= len(self.people) or not self._held_out():
            return views[0]
        told = [told_by(self._held_out(), count, view) for view in views]
        plain = [(one, view) for one, view in zip(told, views, strict=True) if view.activity]
        rays = [(one, view) for one, view in zip(told, views, strict=True) if not view.activity]
        chosen = max(plain, key=lambda each: each[0].everything.mean())[1]
        for found, view in rays:
            rival = max((one for one, _ in plain), key=lambda one: one.tastes.mean())
            if _clearly_more(found, rival) and self._forms_groups(count, view, found):
                return view
        return chosen

    def stability(self, count: int, view: View, *, above: float = -1.0) -> Stability:
        """Return how well runs on halves of the people agree.

        The adjusted Rand index of two groupings of everybody, each fitted to one half, on average over eight splits,
        against the same in Gaussian clouds. Not stable are fewer than 10 people a group.

        Parameters
        ----------
        count : int
        view : View
        above : float
            Lower scores are of no interest: where it is out of reach, the value is 0 and the score an upper bound,
            found in half the time.
        """
        if count == 1 or len(self.people) < _FEWEST_EACH * count:
            return NOT_STABLE
        projected = view.project(self.coordinates.centered(self.people))
        seen = view.look(projected)
        found = np.array([_agreement(seen, count, seed) for seed in range(_HALVES)])
        if found.mean() <= above:  # the score is no higher, whatever chance does
            return Stability(float(found.mean()), 0.0)
        if view.width not in self._clouds:
            clouds = (_gaussian(projected, np.random.default_rng(seed)) for seed in range(_HALVES))
            self._clouds[view.width] = tuple(clouds)
        chance = [_agreement(view.look(cloud), count, seed) for seed, cloud in enumerate(self._clouds[view.width])]
        return Stability.of(found, np.array(chance))

    def _held_out(self) -> list[Fold]:
        if 0 not in self._folds:
            self._folds[0] = folds_of(self.people, self.coordinates, self.width)
        return self._folds[0]

    def _forms_groups(self, count: int, view: View, found: Told) -> bool:
        """Return whether tastes form groups: they tell clearly more than those of people without groups."""
        told = []
        for seed in range(1, _CLOUDS + 1):
            if seed not in self._folds:
                made = without_groups(self.people, self.coordinates, self.width, seed)
                self._folds[seed] = folds_of(made, self.coordinates, self.width)
            told.append(told_by(self._folds[seed], count, view).tastes.mean())
        return bool(found.tastes.mean() > np.mean(told) + _CLEARLY * np.std(told, ddof=1))


def _clearly_more(one: Told, other: Told) -> bool:
    """Return whether groups tell more of tastes than others do, beyond chance in who is asked."""
    more = one.tastes - other.tastes
    return bool(more.mean() > _CLEARLY * more.std() / len(more) ** 0.5)


def _gaussian(people: Points, generator: np.random.Generator) -> Points:
    """Return as many people, drawn from the Gaussian law with their covariances."""
    n, width = people.shape
    centered = people - people.mean(axis=0)
    if width < n:
        variances, basis = np.linalg.eigh((centered.T @ centered).astype(np.float64) / n)
        root = (basis * np.sqrt(np.maximum(variances, 0.0))).astype(np.float32)
        drawn: Points = generator.standard_normal((n, width), np.float32) @ root.T
        return drawn
    # Sums of the people themselves with Gaussian weights have their covariances, in any number of coordinates.
    drawn = generator.standard_normal((n, n), np.float32) @ centered
    drawn /= np.float32(n**0.5)
    return drawn


def _agreement(seen: WeightedPoints, count: int, seed: int) -> float:
    from sklearn.metrics import adjusted_rand_score  # noqa: PLC0415 (slow to import)

    order = np.random.default_rng(seed).permutation(len(seen.points))
    middle = len(seen.points) // 2
    halves = [seen.some(half).grouped(count, _RUNS_ON_HALVES) for half in (order[:middle], order[middle:])]
    return float(adjusted_rand_score(*(fitted.predict(seen.points) for fitted in halves)))
