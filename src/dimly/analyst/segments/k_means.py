"""k-means on a ``View`` of people: plain points, or rays, where everybody is divided by their activity.

People of one group like the same things, some more of them than others: a group is a ray from zero, on which each
stands as far out as they are active. To find rays, everybody is divided by their activity a and counts a² times: then
Σ a²·‖x/a − c‖² = Σ ‖x − a·c‖², and k-means minimizes what rays leave unexplained.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from dimly.analyst.structure import kernels
from dimly.analyst.structure.coordinates import Points
from dimly.analyst.structure.denoise import Denoiser

DIRECTIONS = 32
"""Enough for k-means: c groups differ in c − 1 of them, and the weaker ones hold mostly noise."""
_LEAST_ACTIVE = 0.05  # of the average
_SMALL = 1 << 26  # numbers of people who are grouped by our own kernels
_MOST_ROUNDS = 300


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """What k-means is given: where people are, and how much each counts."""

    points: Points
    weights: Points

    @cached_property
    def _mean(self) -> Points:
        mean: Points = self.points.mean(axis=0)
        return mean

    @cached_property
    def _centered(self) -> Points:
        return np.ascontiguousarray(self.points - self._mean)

    @cached_property
    def _tiles(self) -> Points:
        return _tiles_of(self._centered)

    @cached_property
    def _tolerance(self) -> float:
        return 1e-4 * float(np.var(self._centered, axis=0).mean())

    def some(self, which: Any) -> "WeightedPoints":
        """Return some of the people."""
        return WeightedPoints(self.points[which], self.weights[which])

    def grouped(self, count: int, runs: int) -> "Grouping":
        """Return the best of several runs of k-means: scikit-learn's, with its random numbers.

        Hundreds of small groupings are made, each of which takes longer to check than to make: those are made by
        kernels of our own. Where a group loses all of its people, which is rare, scikit-learn knows what to do.
        """
        if not 0 < self.points.size <= _SMALL or not self.weights.min() > 0:
            return self._by_scikit_learn(count, runs)
        points, trials = self._centered, 2 + int(np.log(count))
        generator, best = np.random.RandomState(0), np.inf
        for _ in range(runs):
            draws = generator.random_sample(1 + (count - 1) * trials)
            centers = kernels.first_centers(points, self.weights, count, draws, trials)
            labels = np.empty(len(points), np.int32)
            left = kernels.settle(points, self._tiles, self.weights, centers, labels, _MOST_ROUNDS, self._tolerance)
            if left < 0:
                return self._by_scikit_learn(count, runs)
            if left < best * (1 - 1e-7):  # the same groups under other names differ in last digits
                best, found = left, Grouping(labels, centers + self._mean)
        return found

    def _by_scikit_learn(self, count: int, runs: int) -> "Grouping":
        from sklearn.cluster import KMeans  # noqa: PLC0415 (slow to import)

        with threadpool_limits(1):  # its own threads can be limited only once it is loaded
            fitted = KMeans(count, n_init=runs, random_state=0).fit(self.points, sample_weight=self.weights)
        return Grouping(fitted.labels_, fitted.cluster_centers_)


class Grouping(NamedTuple):
    """Everybody's group, and where the groups are."""

    labels: Any
    centers: Points

    def predict(self, points: Points) -> Any:
        """Return the nearest group of each point."""
        labels = np.empty(len(points), np.int32)
        kernels.assign(_tiles_of(points), self.centers, labels)
        return labels


def _tiles_of(points: Points) -> Points:
    """Return points as kernels compare them, each attribute's numbers side by side: (tiles, attributes, PEOPLE)."""
    (n, k), size = points.shape, kernels.PEOPLE
    tiles, whole = np.zeros((-(-n // size), k, size), np.float32), n // size
    tiles[:whole] = points[: whole * size].reshape(whole, size, k).transpose(0, 2, 1)
    tiles[whole:, :, : n % size] = points[whole * size :].T
    return tiles


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
        return cls(denoiser, min(denoiser.rank, max(DIRECTIONS, 2 * count)) if denoise else 0)

    def others(self, count: int) -> list["View"]:
        """Return the other views that ``count`` groups may be found in.

        The ``count`` strongest directions and no shrinking, the points as they are published, and rays.
        """
        plain = [replace(self, plain=min(count, self.width)), replace(self, width=0)] if self.width else []
        return [*plain, *([replace(self, activity=False)] if self._believed else [])]

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
        mean, noise = self.denoiser.mean, self.denoiser.coordinates.noise_variance
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
