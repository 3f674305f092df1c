"""A map of people: the two directions in which segments differ most, and where people lie along them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.structure.points import blocks
from dimly.analyst.structure.segments import Segments
from dimly.mechanisms.error.models import Floats

if TYPE_CHECKING:
    from dimly.analyst.release import Release

_MOST_POINTS = 1500  # a page must stay small, and a cloud of more is a blot


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Where people lie.

    Attributes
    ----------
    points : ndarray (n, 2)
        Of some people.
    labels : ndarray of int
        Their segments.
    centers : ndarray (count, 2)
        Averages of the segments, of everybody.
    shares : tuple of float
        Part of the variance of denoised points that lies along each of the two directions.
    """

    points: Floats
    labels: Any
    centers: Floats
    shares: tuple[float, float]


def map_of(people: "Release", segments: Segments, *, positions: NDArray[np.int64]) -> Map | None:
    """Return the map; None where there is no structure, or people differ in one way at most.

    The directions are those in which the segments were searched for: without activity, where that was left out.

    Parameters
    ----------
    people : Release
        Those to be shown.
    segments : Segments
        Of the release that they are from.
    positions : ndarray of int64
        Where they are in it.
    """
    view = segments._assigner.view
    if segments.structure.components == 0 or view.denoiser.rank < 2:
        return None
    seen = np.concatenate([view(block.points).points for block in blocks(people._sketches)]).astype(np.float64)
    average = seen.mean(axis=0)
    centered = seen - average
    variances, basis = np.linalg.eigh(centered.T @ centered)
    flat = centered @ basis[:, :-3:-1]
    total = max(float(variances.sum()), 1e-30)
    some = np.random.default_rng(0).permutation(len(flat))[:_MOST_POINTS]
    centers = (segments._assigner.middles - average) @ basis[:, :-3:-1]
    shares = (float(variances[-1]) / total, float(variances[-2]) / total)
    return Map(flat[some], segments.labels[positions[some]], centers, shares)
