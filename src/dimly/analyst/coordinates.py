"""Published rows as points: what is ranked, clustered and handed to other tools.

The squared distance of two people's points is, on average, their squared distance plus a constant that the plan knows.
Raw sketches of ``counting`` do not have this property: theirs is off by the squared difference of the weights over k,
so that they are centered first.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.vector import Vector
from dimly.errors import ParameterError
from dimly.mechanisms.error_models import CountingError, FlippedBitsError, SignedSketchError
from dimly.mechanisms.plan import Plan

Points = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Coordinates:
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

    @classmethod
    def of(cls, plan: Plan) -> "Coordinates":
        """Return the coordinates of a plan's releases.

        Raises
        ------
        ParameterError
            For noisy distances, which place nobody anywhere.
        """
        error = plan.error
        if isinstance(error, FlippedBitsError):
            p, d = error.flip, error.n_attributes
            return cls(plan, d, d * p * (1 - p) / (1 - 2 * p) ** 2)
        if not isinstance(error, SignedSketchError | CountingError):
            raise ParameterError("noisy distances give no points. Publish sketches instead.")
        return cls(plan, error.k, error.k * error.noise.variance)

    def points(self, rows: NDArray[Any]) -> Points:
        """Return the points of published rows, as :class:`~dimly.release.Sketches` lays them out."""
        error = self.plan.error
        if isinstance(error, FlippedBitsError):
            bits = np.unpackbits(rows, axis=1, count=self.dimension, bitorder="little").astype(np.float32)
            return (bits - np.float32(error.flip)) / np.float32(1 - 2 * error.flip)
        return self._scaled(rows)

    def own(self, vector: Vector) -> Points:
        """Return the point of a vector of one's own."""
        if isinstance(self.plan.error, FlippedBitsError):
            bits: Points = np.unpackbits(vector.row, count=self.dimension, bitorder="little").astype(np.float32)
            return bits
        point: Points = self._scaled(vector.row[None, :])[0]
        return point

    def _scaled(self, rows: NDArray[Any]) -> Points:
        points = rows.astype(np.float32)
        scale = self.plan.scale
        if isinstance(self.plan.error, CountingError):
            points -= points.mean(axis=1, keepdims=True)
            scale *= (self.dimension / (self.dimension - 1)) ** 0.5
        points *= np.float32(scale)
        return points
