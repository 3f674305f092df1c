"""Whether groups are there or were only cut: agreement of resampled runs, against people without groups.

K-means cuts any cloud, and along a cloud's longest side always nearly alike. So what it finds is compared with what it
finds in clouds of the same shape that have no groups: Gaussian ones with the same covariances, and where coordinates
hold attributes of their own, people whose attributes were shuffled.

References
----------
T. Lange et al., "Stability-based validation of clustering solutions", Neural Computation 16 (2004).
Y. Liu et al., "Statistical significance of clustering for high-dimension, low-sample size data", JASA 103 (2008).
R. Tibshirani, G. Walther and T. Hastie, "Estimating the number of clusters in a data set via the gap statistic",
JRSS B 63 (2001).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.coordinates import Coordinates, Points
from dimly.analyst.denoising import Denoiser
from dimly.analyst.people import coordinates_of, placed, sample
from dimly.analyst.structure import shuffled, unmixed
from dimly.release.sketches import Sketches
from dimly.release.stored import StoredSketches

Draw = Callable[[np.random.Generator], Points]

_MOST = 4000  # people looked at
_WORK = 1 << 34  # multiplications of drawing a cloud
_WIDEST = 1024  # coordinates that are shuffled: each time everything is fitted anew
_SPLITS = 6  # pairs of halves
_CLOUDS = 6  # without groups, when their number is sought
_SIGNIFICANT = 4.0  # standard deviations
LARGEST_COUNT = 12
"""Groups that are looked for at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Clouds:
    """Some people of a release in the coordinates that they are grouped by, and how to draw such without groups."""

    people: Points
    references: tuple[Draw, ...]

    @classmethod
    def of(cls, sketches: Sketches | StoredSketches, denoiser: Denoiser | None) -> "Clouds":
        """Return people of a release, denoised or as they are published."""
        plan = sketches.plan
        coordinates = Coordinates.of(plan)
        n = int(min(_MOST, max((_WORK / coordinates.dimension) ** 0.5, 200)))
        everybody = sample(sketches, n, coordinates_of(plan))
        points = placed(everybody, plan)
        people = points if denoiser is None else denoiser.reduce(points)

        def independent(generator: np.random.Generator) -> Points:
            made = placed(shuffled(everybody, generator), plan)
            return made if denoiser is None else _reduced(made, coordinates)

        references: tuple[Draw, ...] = (lambda generator: _gaussian(people, generator),)
        if unmixed(plan) and coordinates.dimension <= _WIDEST:
            references += (independent,)
        return cls(people, references)

    def stability(self, count: int) -> float:
        """Return how well runs on halves of the people agree, from 0 to 1.

        The adjusted Rand index of two groupings of everybody, each fitted to one half, on average over six splits: 0 is
        what clouds without groups reach (the more stable kind, and two standard errors), 1 is perfect agreement.
        """
        if count == 1 or len(self.people) < 4 * count:
            return 0.0
        found = np.array([_agreement(self.people, count, seed) for seed in range(_SPLITS)])
        chance = 0.0
        for draw in self.references:
            without = np.array([_agreement(draw(np.random.default_rng(seed)), count, seed) for seed in range(_SPLITS)])
            margin = 2 * ((found.var(ddof=1) + without.var(ddof=1)) / _SPLITS) ** 0.5
            chance = max(chance, float(without.mean() + margin))
        return float(np.clip((found.mean() - chance) / (1 - chance), 0.0, 1.0)) if chance < 1 else 0.0

    def best_count(self) -> int:
        """Return how many groups explain the people best, compared with Gaussian clouds; 1 if none do so significantly.

        The smallest number whose gap, of logarithms of squared distances to group centers, is within a standard error
        of the largest.
        """
        counts = range(2, 1 + min(LARGEST_COUNT, len(self.people) // 10))
        if not counts or self.people.shape[1] == 0:
            return 1
        draw = self.references[0]
        clouds = [draw(np.random.default_rng(seed)) for seed in range(_CLOUDS)]
        found = np.array([_scatter(self.people, count) for count in counts])
        without = np.array([[_scatter(cloud, count) for count in counts] for cloud in clouds])
        gaps = without.mean(axis=0) - found
        errors = without.std(axis=0, ddof=1) * (1 + 1 / _CLOUDS) ** 0.5
        if not (gaps > _SIGNIFICANT * errors).any():
            return 1
        best = int(gaps.argmax())
        return int(counts[int((gaps >= gaps[best] - errors[best]).argmax())])


def _reduced(points: Points, coordinates: Coordinates) -> Points:
    denoiser = Denoiser.of_points(points, coordinates)
    return denoiser.reduce(points) if denoiser.rank else points


def _gaussian(people: Points, generator: np.random.Generator) -> Points:
    """Return as many people, drawn from the Gaussian law with their covariances."""
    n, width = people.shape
    centered = people - people.mean(axis=0)
    if width < n:
        covariance = (centered.T @ centered).astype(np.float64) / n
        variances, basis = np.linalg.eigh(covariance)
        root = (basis * np.sqrt(np.maximum(variances, 0.0))).astype(np.float32)
        drawn: Points = generator.standard_normal((n, width), np.float32) @ root.T
        return drawn
    # Sums of the people themselves with Gaussian weights have their covariances, in any number of coordinates.
    drawn = generator.standard_normal((n, n), np.float32) @ centered
    drawn /= np.float32(n**0.5)
    return drawn


def _agreement(people: Points, count: int, seed: int) -> float:
    from sklearn.metrics import adjusted_rand_score  # noqa: PLC0415 (slow to import)

    order = np.random.default_rng(seed).permutation(len(people))
    halves = order[: len(people) // 2], order[len(people) // 2 :]
    labels = [_labels(people, half, count) for half in halves]
    return float(adjusted_rand_score(*labels))


def _labels(people: Points, fitted: NDArray[np.int64], count: int) -> NDArray[np.int32]:
    from sklearn.cluster import KMeans  # noqa: PLC0415 (slow to import)

    labels: NDArray[np.int32] = KMeans(count, n_init=3, random_state=0).fit(people[fitted]).predict(people)
    return labels


def _scatter(people: Points, count: int) -> float:
    from sklearn.cluster import KMeans  # noqa: PLC0415 (slow to import)

    return float(np.log(KMeans(count, n_init=3, random_state=0).fit(people).inertia_))
