"""Maps on a plane: of everybody by principal directions, and of segments where they differ most."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.segments.segments import Segments
from dimly.analyst.structure.coordinates import Points, blocks
from dimly.analyst.structure.denoise import _principal
from dimly.errors import ParameterError
from dimly.mechanisms.error.models import Floats
from dimly.progress import OnProgress

if TYPE_CHECKING:
    from dimly.analyst.release import Release

_MOST_POINTS = 1500  # a page must stay small, and a cloud of more is a blot


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """Where everybody lies on a plane.

    Attributes
    ----------
    points : ndarray of float32 (users, 2)
        In the order of the release; noise is in them.
    known : ndarray of bool
        Who has no saturated number; the points of the others mean nothing.
    beyond_noise : int
        How many of the two directions rise above the noise: with 0, the map shows nothing but noise.
    believed : tuple of float
        Part of the variance along each direction that is not noise, from 0 to 1.
    """

    points: Points
    known: NDArray[np.bool_]
    beyond_noise: int
    believed: tuple[float, float]


def plane_of(release: "Release", *, progress: OnProgress | None = None) -> Plane:
    """Return everybody's place along the two strongest directions of a release.

    These are the directions that denoising keeps, the strongest first; noise is not shrunk along them, since that would
    only stretch the map. Where denoising keeps fewer than two, the strongest of those that noise alone explains.

    Parameters
    ----------
    release : Release
    progress : callable, optional
        Told of (people placed, people in all).

    Raises
    ------
    ParameterError
        For noisy distances, which place nobody, and for releases in fewer than two coordinates.
    """
    sketches, denoiser = release._sketches, release.denoiser
    if denoiser.coordinates.dimension < 2:
        raise ParameterError("a map needs at least two numbers for each person, but this release has one.")
    axes, believed = denoiser.basis[:, :2], [float(gain) for gain in denoiser.gains[:2]]
    kept = axes.shape[1]
    if kept < 2:
        principal = _principal(sketches, denoiser.coordinates)
        axes = np.concatenate([axes, principal.basis[:, kept:2].astype(np.float32)], axis=1)
        believed += [0.0] * (2 - kept)
    points, known = np.zeros((len(sketches), 2), np.float32), np.zeros(len(sketches), np.bool_)
    for block in blocks(sketches):
        here = slice(block.start, block.start + len(block.points))
        points[here], known[here] = (block.points - denoiser.mean) @ axes, block.known
        if progress is not None:
            progress(here.stop, len(sketches))
    points[~known] = 0.0
    return Plane(points, known, kept, (believed[0], believed[1]))


@dataclass(frozen=True, slots=True, eq=False)
class SegmentMap:
    """Where some people lie, and their segments.

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


def map_of(people: "Release", segments: Segments, *, positions: NDArray[np.int64]) -> SegmentMap | None:
    """Return the map of segments; None where there is no structure, or people differ in one way at most.

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
    return SegmentMap(flat[some], segments.labels[positions[some]], centers, shares)
