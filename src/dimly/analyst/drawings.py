"""Drawings of a release on matplotlib axes: a map of people, and distances beside their noise."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.segments.segments import Count, Segments
from dimly.analyst.structure.coordinates import Coordinates, known
from dimly.analyst.structure.plane import map_of
from dimly.display import percent
from dimly.errors import ParameterError
from dimly.plots import histogram, scatter_groups

if TYPE_CHECKING:
    from dimly.analyst.release import Release

_MOST = 1 << 14  # people who are looked at
_MOST_POINTS = 1500  # a cloud of more is a blot
_PAIRS = 20_000


def draw_map(release: "Release", color: Any, count: Count, ax: Any) -> Any:
    """Draw some people; see :meth:`Release.plot_map`."""
    Coordinates.of(release.plan)  # refuses noisy distances, which place nobody
    positions = np.unique(np.linspace(0, len(release) - 1, min(len(release), _MOST)).astype(np.int64))
    segments, labels = _colors(release, color, count)
    some = type(release)(_taken(release, positions))
    shown = None if segments is None else map_of(some, segments, positions=positions)
    if shown is not None:
        points, centers = shown.points, shown.centers
        # The map picks people by itself; other colors than its segments are looked up in the same way.
        own = shown.labels if labels is None else labels[positions[_picked(len(positions))]]
        ax = scatter_groups(points, own, centers if labels is None else None, ax=ax)
        first, second = (percent(share) for share in shown.shares)
        ax.set_xlabel(f"strongest direction ({first} of what is left after denoising)")
        ax.set_ylabel(f"second ({second})")
        if labels is None and segments is not None:
            ax.set_title(f"{len(release):,} people, {len(segments)} segments, stability {segments.stability:.2f}")
        return ax
    rows = release._sketches.take(positions)
    everybody = Coordinates.of(release.plan).points(rows).astype(np.float64)
    everybody[~known(rows)] = 0.0
    centered = everybody - everybody.mean(axis=0)
    basis = np.linalg.svd(centered[: _MOST_POINTS * 2], full_matrices=False)[2][:2]
    points = (centered @ basis.T)[_picked(len(positions))]
    if points.shape[1] < 2:
        points = np.column_stack([points, np.zeros(len(points))])
    own = None if labels is None else labels[positions[_picked(len(positions))]]
    ax = scatter_groups(points, own, None, ax=ax)
    ax.set_xlabel("direction of the largest variance")
    ax.set_ylabel("second")
    if segments is not None:
        ax.set_title("No structure beyond noise: this cloud is mostly noise")
    return ax


def _taken(release: "Release", positions: NDArray[np.int64]) -> Any:
    from dimly.release.sketches import Sketches  # noqa: PLC0415  (drawn rarely)

    rows = release._sketches.take(positions)
    return Sketches(release.plan, np.arange(len(positions)), rows, private=release.private)


def _picked(n: int) -> NDArray[np.int64]:
    return np.random.default_rng(0).permutation(n)[:_MOST_POINTS]


def _colors(release: "Release", color: Any, count: Count) -> tuple[Segments | None, NDArray[Any] | None]:
    if isinstance(color, Segments):
        if len(color.users) != len(release):
            raise ParameterError("color must be segments of this release. Use release.segments().")
        return color, None
    if isinstance(color, str):
        if color != "segments":
            raise ParameterError(
                f'color must be "segments", Segments, a number for each person or None, got {color!r}.'
            )
        return release.segments(count), None
    if color is None:
        return None, None
    labels = np.asarray(color)
    if labels.shape != (len(release),) or labels.dtype.kind not in "iu":
        raise ParameterError(f"color must be one integer for each of the {len(release)} people, in the order of users.")
    return None, labels


def draw_distances(release: "Release", positions: NDArray[np.int64] | None, ax: Any) -> Any:
    """Draw distances of random pairs; see :meth:`Release.plot_distances`."""
    generator = np.random.default_rng(0)
    everybody = np.arange(len(release)) if positions is None else positions
    if len(everybody) < 2:
        raise ParameterError("users must be at least two people, to have a distance.")
    n_pairs = min(_PAIRS, len(everybody) * (len(everybody) - 1) // 2)
    first = generator.integers(len(everybody), size=n_pairs)
    second = (first + 1 + generator.integers(len(everybody) - 1, size=n_pairs)) % len(everybody)
    users = release._sketches.named(everybody)
    found = release.distances(users[first], users[second])
    known_ones = np.isfinite(found.value)
    if not known_ones.any():
        raise ParameterError("users must have distances that are known, but all their numbers are saturated.")
    noise = float(np.sqrt((found.stderr[known_ones] ** 2).mean()))
    return histogram(found.value[known_ones], spread_of_noise=noise, ax=ax, what=release.plan.measured)
