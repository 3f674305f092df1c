"""Whether groups are there or were only cut: agreement of resampled runs, against people without groups.

K-means cuts any cloud, and along a cloud's longest side always nearly alike. So its agreement is compared with what it
reaches in Gaussian clouds, which have the same covariances and no groups.

References
----------
T. Lange et al., "Stability-based validation of clustering solutions", Neural Computation 16 (2004).
Y. Liu et al., "Statistical significance of clustering for high-dimension, low-sample size data", JASA 103 (2008).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dimly.analyst.coordinates import Points
from dimly.analyst.people import coordinates_of, placed, sample
from dimly.analyst.views import View
from dimly.release.sketches import Sketches
from dimly.release.stored import StoredSketches

if TYPE_CHECKING:
    from sklearn.cluster import KMeans

_MOST = 2000  # people looked at
_WORK = 1 << 33  # multiplications of drawing a cloud
_SPLITS = 8  # pairs of halves
_RUNS = 3
_FEWEST_EACH = 10  # people a group, for its stability to be told


@dataclass(frozen=True, slots=True, eq=False)
class Cloud:
    """Some people of a release, as they are seen but for activity, and as many of a Gaussian law, split by split."""

    people: Points
    without_groups: tuple[Points, ...]

    @classmethod
    def of(cls, sketches: Sketches | StoredSketches, view: View) -> "Cloud":
        """Return people of a release, evenly spaced."""
        uncentered, plan = coordinates_of(sketches.plan), sketches.plan
        n = int(min(_MOST, max((_WORK / view.n_coordinates) ** 0.5, 200)))
        people = sample(sketches, n, lambda rows: view.reduce(placed(uncentered(rows), plan)))
        return cls(people, tuple(_gaussian(people, np.random.default_rng(seed)) for seed in range(_SPLITS)))

    def stability(self, count: int, view: View) -> float:
        """Return how well runs on halves of the people agree, from 0 to 1.

        The adjusted Rand index of two groupings of everybody, each fitted to one half, on average over eight splits: 1
        is perfect agreement, 0 what Gaussian clouds reach, and one standard error more. 0 too for fewer than 10 people
        a group.
        """
        if count == 1 or len(self.people) < _FEWEST_EACH * count:
            return 0.0
        seen = view.finish(self.people)
        found = np.array([_agreement(seen, count, seed) for seed in range(_SPLITS)])
        chance = np.array(
            [_agreement(view.finish(cloud), count, seed) for seed, cloud in enumerate(self.without_groups)]
        )
        error = ((found.var(ddof=1) + chance.var(ddof=1)) / _SPLITS) ** 0.5
        zero = min(float(chance.mean() + error), 0.999)
        return float(np.clip((found.mean() - zero) / (1 - zero), 0.0, 1.0))

    def activity(self, count: int, view: View) -> float:
        """Return which part of what sets segments apart is how active their members are, from 0 to 1.

        Of the squared deviations of group centers: those along the average person.
        """
        labels = _fitted(self.people, count).labels_
        sizes = np.bincount(labels, minlength=count)
        centers = np.stack([self.people[labels == label].mean(axis=0) for label in range(count)])
        along = (sizes * (centers @ view.along) ** 2).sum()
        return float(along / max(float((sizes[:, None] * centers**2).sum()), 1e-30))


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


def _agreement(people: Points, count: int, seed: int) -> float:
    from sklearn.metrics import adjusted_rand_score  # noqa: PLC0415 (slow to import)

    order = np.random.default_rng(seed).permutation(len(people))
    middle = len(people) // 2
    labels = [_fitted(people[half], count).predict(people) for half in (order[:middle], order[middle:])]
    return float(adjusted_rand_score(*labels))


def _fitted(people: Points, count: int) -> "KMeans":
    from sklearn.cluster import KMeans  # noqa: PLC0415 (slow to import)

    return KMeans(count, n_init=_RUNS, random_state=0).fit(people)
