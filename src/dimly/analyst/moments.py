"""Mean and covariance of everybody's published point, by sums that can be made anywhere and added up."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.coordinates import Coordinates, Points
from dimly.analyst.people import blocks
from dimly.release.sketches import Sketches
from dimly.release.stored import StoredSketches

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sums over people; those of two groups of people add up to those of both.

    Attributes
    ----------
    n_people : int
        Of whom something is known: without saturated numbers.
    total : ndarray of float64 (dimension,)
    products : ndarray of float64 (dimension, dimension)
        Of each coordinate with each.
    """

    n_people: int
    total: Floats
    products: Floats

    @classmethod
    def of(cls, batches: Iterable[Points], dimension: int) -> Self:
        """Return the sums of points, batch by batch."""
        n_people, total, products = 0, np.zeros(dimension), np.zeros((dimension, dimension))
        for batch in batches:
            points = batch.astype(np.float64)
            n_people += len(points)
            total += points.sum(axis=0)
            products += points.T @ points
        return cls(n_people, total, products)

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.n_people + other.n_people, self.total + other.total, self.products + other.products)

    @property
    def mean(self) -> Floats:
        """The average point."""
        return self.total / max(self.n_people, 1)

    @property
    def covariance(self) -> Floats:
        """Of the published points, their noise included: (dimension, dimension)."""
        mean = self.mean
        covariance: Floats = self.products / max(self.n_people, 1) - np.outer(mean, mean)
        return covariance


def moments_of(
    sketches: Sketches | StoredSketches, *, most: int | None = None, parts: Iterable[int] | None = None
) -> Moments:
    """Return the sums over the people of a release.

    Parameters
    ----------
    sketches : Sketches or StoredSketches
        Not noisy distances, which place nobody.
    most : int, optional
        Stop reading at about this many people; see :func:`~dimly.analyst.people.blocks`.
    parts : iterable of int, optional
        Only the people of these parts.
    """
    everybody = blocks(sketches, most=most, parts=parts)
    dimension = Coordinates.of(sketches.plan).dimension
    return Moments.of((block.points[block.known] for block in everybody), dimension)
