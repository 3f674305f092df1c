"""A map of the segments of a release: people as points in the two strongest directions, noise shrunk."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dimly.analyst.coordinates import Coordinates
from dimly.analyst.release import Release
from dimly.analyst.segments import Segments
from dimly.analyst.views import View
from dimly.mechanisms.error_models import Floats

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
        Averages of the segments, of everybody who was looked at.
    shares : tuple of float
        Part of the variance of denoised points that lies along each of the two directions.
    """

    points: Floats
    labels: Any
    centers: Floats
    shares: tuple[float, float]


def map_of(release: Release, segments: Segments) -> Map | None:
    """Return the map; None where there is no structure, or people differ in one way at most.

    The directions are those in which the segments were searched for: without activity, where that was left out.
    """
    denoiser = release.denoiser
    if segments.structure.components == 0 or denoiser.rank < 2:
        return None
    view = replace(View.of(denoiser, denoise=True, count=len(segments)), activity=segments.activity)
    coordinates = Coordinates.of(release.plan)
    step = max(1, (1 << 24) // coordinates.dimension)
    seen = np.concatenate(
        [view(coordinates.points(release.values[start : start + step])) for start in range(0, len(release), step)]
    ).astype(np.float64)
    centered = seen - seen.mean(axis=0)
    variances, basis = np.linalg.eigh(centered.T @ centered)
    flat = centered @ basis[:, :-3:-1]
    total = max(float(variances.sum()), 1e-30)
    some = np.random.default_rng(0).permutation(len(flat))[:_MOST_POINTS]
    centers = np.stack([flat[segments.labels == label].mean(axis=0) for label in range(len(segments))])
    shares = (float(variances[-1]) / total, float(variances[-2]) / total)
    return Map(flat[some], segments.labels[some], centers, shares)
