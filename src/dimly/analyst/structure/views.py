"""Which view of people gives the most telling groups, judged by numbers that the groups were not made from.

People of one group like the same things, some more of them than others: a group is a ray from zero, on which each
stands as far out as they are active. To find rays, everybody is divided by their activity a and counts a² times: then
Σ a²·‖x/a − c‖² = Σ ‖x − a·c‖², and k-means minimizes what rays leave unexplained.

Noise of a known variance v can be split: of a published point p and fresh noise z of the same law, p + z/2 and p − 2z
have independent noise, of variances 5v/4 and 5v. Groups made from the first are judged by how much their rays explain
of the second, beyond the one ray of the average person. Groups that are only more and less active explain nothing in
this sense. All views are judged by the same numbers, so that they compare whatever their scales.

Tastes may form no groups at all. So they are compared with clouds of people without groups, of the same covariances:
where they are neither explained better by groups, nor grouped in a more stable way, any segments are cuts through a
cloud, and the cuts are taken that explain most of people, activity included.

References
----------
A. Neufeld et al., "Data thinning for convolution-closed distributions", JMLR 25 (2024).
Y. Liu et al., "Statistical significance of clustering for high-dimension, low-sample size data", JASA 103 (2008).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dimly.analyst.structure.denoise import Denoiser, noise_variance
from dimly.analyst.structure.points import Points, coordinates_of, placed, sample
from dimly.mechanisms.error.models import Floats
from dimly.release.reader import StoredSketches
from dimly.release.sketches import Sketches

if TYPE_CHECKING:
    from sklearn.cluster import KMeans

_DIRECTIONS = 32  # enough for k-means: c groups differ in c − 1, and the weaker ones hold mostly noise
_LEAST_ACTIVE = 0.05  # of the average


class WeightedPoints(NamedTuple):
    """What k-means is given: where people are, and how much each counts."""

    points: Points
    weights: Points

    def some(self, which: Any) -> "WeightedPoints":
        """Return some of the people."""
        return WeightedPoints(self.points[which], self.weights[which])

    def grouped(self, count: int, runs: int) -> "KMeans":
        """Return the best of several runs of k-means."""
        from sklearn.cluster import KMeans  # noqa: PLC0415 (slow to import)

        return KMeans(count, n_init=runs, random_state=0).fit(self.points, sample_weight=self.weights)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """From points to what k-means is given. Make one with :meth:`of`.

    Attributes
    ----------
    denoiser : Denoiser
    width : int
        Directions that people are projected on, the strongest; 0: the points as they are published.
    activity : bool
        Whether how active people are may set them apart. If not, everybody is divided by their activity and counts by
        its square: groups are rays from zero.
    plain : int
        If not 0, only so many of these directions are seen, and nothing is shrunk: principal components.
    """

    denoiser: Denoiser
    width: int
    activity: bool = True
    plain: int = 0

    @classmethod
    def of(cls, denoiser: Denoiser, *, denoise: bool, count: int = 1) -> "View":
        """Return the view that ``count`` groups are found in first: denoised, with activity."""
        return cls(denoiser, min(denoiser.rank, max(_DIRECTIONS, 2 * count)) if denoise else 0)

    def others(self, count: int) -> list["View"]:
        """Return the other views that ``count`` groups may be found in, of the same :meth:`project`."""
        components = [replace(self, plain=min(count, self.width))] if self.width else []
        return [*components, *([replace(self, activity=False)] if self._believed else [])]

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates that are seen."""
        return self.plain or self.width or self.denoiser.coordinates.dimension

    def __call__(self, points: Points) -> WeightedPoints:
        """Return what is seen of points."""
        return self.look(self.project(points))

    def project(self, points: Points) -> Points:
        """Return deviations from the average in coordinates that all views of this width share.

        The directions that people are projected on, and what they leave of the average person's own direction; all
        coordinates where points are seen as they are published.
        """
        deviations: Points = points - self.denoiser.mean
        return deviations @ self._frame if self.width else deviations

    def look(self, projected: Points) -> WeightedPoints:
        """Return what is seen of projected people."""
        if self.activity:
            return WeightedPoints(self._scaled(projected), np.ones(len(projected), np.float32))
        active, average = self.active(projected), self.average
        return WeightedPoints(self._scaled((projected + average) / active[:, None] - average), active**2)

    def active(self, projected: Points) -> Points:
        """Return how active each of the projected people is, on average 1: the best linear guess."""
        average = self.average
        along = projected @ (average / np.float32(max(float(average @ average), 1e-30)))
        active: Points = np.maximum(1 + np.float32(self._believed) * along, np.float32(_LEAST_ACTIVE))
        return active

    @property
    def _believed(self) -> float:
        """Part of people's variance along the average person that is not noise: how far activity can be seen."""
        mean, noise = self.denoiser.mean, noise_variance(self.denoiser.coordinates)
        along = (self.denoiser.basis.T @ mean) ** 2 / np.float32(max(float(mean @ mean), 1e-30))
        signal = float(along @ np.maximum(self.denoiser.variances - np.float32(noise), 0.0))
        return signal / (signal + noise)

    @property
    def average(self) -> Points:
        """The average person in the coordinates of :meth:`project`, from nobody's zero."""
        mean = self.denoiser.mean
        return self._frame.T @ mean if self.width else mean

    @property
    def _frame(self) -> Points:
        mean, basis = self.denoiser.mean, self.denoiser.basis[:, : self.width]
        rest = mean - basis @ (basis.T @ mean)
        frame: Points = np.column_stack([basis, rest / np.float32(max(float(np.linalg.norm(rest)), 1e-30))])
        return frame

    def _scaled(self, projected: Points) -> Points:
        if self.plain or not self.width:
            return projected[:, : self.n_coordinates]
        scaled: Points = projected[:, : self.width] * self.denoiser.gains[: self.width]
        return scaled


_MOST = 2000  # people looked at
_WORK = 1 << 33  # multiplications of drawing a cloud
_CLEARLY = 2.0  # standard deviations
_NEARLY = 0.75  # as much told of tastes
_FOUND_AGAIN = 0.3  # of a stability of 1
_NOISE = 0.5  # part of fresh noise that is added to what groups are made from
_NOISE_SPLITS = 4
_CLOUDS = 4
_RUNS = 2
_HALVES = 8  # pairs of them
_RUNS_ON_HALVES = 3
_FEWEST_EACH = 10  # people a group, for its stability to be told


class Stability(NamedTuple):
    """How well runs on halves of the people agree, beyond what they do in clouds without groups.

    Attributes
    ----------
    score : float
        1 is perfect agreement, 0 what Gaussian clouds reach; below 0 is less than those.
    error : float
        Its standard error.
    value : float
        From 0, what Gaussian clouds reach and one standard error more, to 1.
    """

    score: float
    error: float
    value: float

    @classmethod
    def of(cls, found: Floats, chance: Floats) -> "Stability":
        """Return the stability of agreements, given those in clouds."""
        agreement, by_chance = float(found.mean()), min(float(chance.mean()), 0.999)
        errors = found.var(ddof=1) / len(found), chance.var(ddof=1) / len(chance)
        zero = min(by_chance + float(sum(errors)) ** 0.5, 0.999)
        value = min(max((agreement - zero) / (1 - zero), 0.0), 1.0)
        room = 1 - by_chance
        # Of s = (f − c)/(1 − c), ds = df/(1 − c) − (1 − f)·dc/(1 − c)²: near perfect agreement chance hardly matters.
        error = float(errors[0] + ((1 - agreement) / room) ** 2 * errors[1]) ** 0.5 / room
        return cls((agreement - by_chance) / room, error, value)


NOT_STABLE = Stability(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Some people of a release, by whom views are judged.

    Attributes
    ----------
    people : ndarray of float32 (n, r)
        In the coordinates of :meth:`View.project`.
    view : View
        One that projects people so.
    without_groups : tuple of ndarray
        As many people of a Gaussian law with the same covariances, several times.
    """

    people: Points
    view: View
    without_groups: tuple[Points, ...]

    @classmethod
    def of(cls, sketches: Sketches | StoredSketches, view: View) -> "Judge":
        """Return the judge of views that project people as ``view`` does; people are evenly spaced ones."""
        uncentered, plan = coordinates_of(sketches.plan), sketches.plan
        n = int(min(_MOST, max((_WORK / view.n_coordinates) ** 0.5, 200)))
        people = sample(sketches, n, lambda rows: view.project(placed(uncentered(rows), plan)))
        clouds = tuple(_gaussian(people, np.random.default_rng(seed)) for seed in range(_HALVES))
        return cls(people, view, clouds)

    def choose(self, count: int, views: Sequence[View]) -> View:
        """Return the view in which ``count`` groups say most."""
        if len(views) == 1 or not 1 < count <= len(self.people):
            return views[0]
        told = np.mean([self._told(self.people, count, views, seed) for seed in range(_NOISE_SPLITS)], axis=0)
        by_taste, by_all = (int(best) for best in told.argmax(axis=0))
        if by_taste == by_all:
            return views[by_all]
        # Tastes that tell little more than groups by activity do, and are not found again in other people, are no gain.
        with_activity = max(tastes for (tastes, _), view in zip(told, views, strict=True) if view.activity)
        if with_activity > _NEARLY * told[by_taste, 0] and self.stability(count, views[by_taste]).score < _FOUND_AGAIN:
            return views[by_all]
        if self._forms_groups(count, views[by_taste], told[by_taste, 0]):
            return views[by_taste]
        return views[by_all]

    def stability(self, count: int, view: View, *, above: float = -1.0) -> Stability:
        """Return how well runs on halves of the people agree.

        The adjusted Rand index of two groupings of everybody, each fitted to one half, on average over eight splits,
        against the same in Gaussian clouds. Not stable are fewer than 10 people a group.

        Parameters
        ----------
        count : int
        view : View
            One that projects people as the judge's does.
        above : float
            Lower scores are of no interest: where it is out of reach, the value is 0 and the score an upper bound,
            found in half the time.
        """
        if count == 1 or len(self.people) < _FEWEST_EACH * count:
            return NOT_STABLE
        seen = view.look(self.people)
        found = np.array([_agreement(seen, count, seed) for seed in range(_HALVES)])
        if found.mean() <= above:  # the score is no higher, whatever chance does
            return Stability(float(found.mean()), float(found.std(ddof=1)) / _HALVES**0.5, 0.0)
        chance = [_agreement(view.look(cloud), count, seed) for seed, cloud in enumerate(self.without_groups)]
        return Stability.of(found, np.array(chance))

    def _forms_groups(self, count: int, view: View, told: float) -> bool:
        """Return whether tastes form groups: more is told by those, or they are more stable, than in clouds."""
        if told > self._told_without_groups(count, view):
            return True
        stability = self.stability(count, view)
        return stability.score > _CLEARLY * stability.error

    @property
    def _noise(self) -> float:
        return noise_variance(self.view.denoiser.coordinates)

    def _told(self, people: Points, count: int, views: Sequence[View], seed: int) -> list[tuple[float, float]]:
        """Return what groups explain of tastes, and of everything, in each view; squared lengths, noise taken off."""
        fresh = np.random.default_rng(seed).standard_normal(people.shape, np.float32) * np.float32(self._noise**0.5)
        shown = people + np.float32(_NOISE) * fresh
        deviations = people - fresh / np.float32(_NOISE)
        held_out = deviations + self.view.average
        deviations -= deviations.mean(axis=0)
        active = self.view.active(shown)
        ones = np.ones_like(active)
        chance = self._noise * (1 + _NOISE**-2) * people.shape[1]
        found = []
        for view in views:
            labels = view.look(shown).grouped(count, _RUNS).labels_
            by_chance = (len(np.unique(labels)) - 1) * chance
            tastes = _explained(held_out, active, labels) - _explained(held_out, active, np.zeros_like(labels))
            found.append((tastes - by_chance, _explained(deviations, ones, labels) - by_chance))
        return found

    def _told_without_groups(self, count: int, view: View) -> float:
        """Return what is explained of tastes that form no groups, and two standard deviations more."""
        active, average = self.view.active(self.people), self.view.average
        people = self.people + average
        ray = (active @ people) / (active @ active)
        own = people - np.outer(active, ray)
        n, r = own.shape
        signal = (own.T @ own).astype(np.float64) / n - self._noise * np.eye(r)
        variances, basis = np.linalg.eigh(signal / float((active**2).mean()))
        root = (basis * np.sqrt(np.maximum(variances, 0.0))).T.astype(np.float32)
        told = []
        for seed in range(_CLOUDS):
            generator = np.random.default_rng([_CLOUDS, seed])
            tastes = generator.standard_normal((n, r), np.float32) @ root
            drawn = active[:, None] * (ray + tastes) - average
            drawn += np.float32(self._noise**0.5) * generator.standard_normal((n, r), np.float32)
            told.append(self._told(drawn, count, [view], seed)[0][0])
        return float(np.mean(told) + _CLEARLY * np.std(told, ddof=1))


def _explained(people: Points, active: Points, labels: Points) -> float:
    """Return the squared length that rays through the groups explain of people who stand on them as they are active."""
    total = 0.0
    for label in np.unique(labels):
        inside = labels == label
        far = active[inside]
        along = (far @ people[inside]).astype(np.float64)
        total += float(along @ along) / float(far @ far)
    return total


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
