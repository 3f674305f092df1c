"""Segments: people grouped by k-means on denoised points, with how far to believe in the groups."""

import operator
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dimly.analyst.confidence import unified_interval
from dimly.analyst.coordinates import Coordinates, Points
from dimly.analyst.denoising import Denoiser, directions
from dimly.analyst.estimate import Arrays, Estimate
from dimly.analyst.neighbors import Progress
from dimly.analyst.people import Block, blocks, coordinates_of, known, placed, sample
from dimly.analyst.stability import Cloud
from dimly.analyst.structure import Structure
from dimly.analyst.views import View
from dimly.errors import ParameterError
from dimly.mechanisms.error_models import FlippedBitsError, Floats, Polynomial
from dimly.release.sketches import Sketches
from dimly.release.stored import StoredSketches

if TYPE_CHECKING:
    from dimly.analyst.release import Release

Labels = NDArray[np.int32]
Count = int | Literal["auto"]
Activity = bool | Literal["auto"]

_MOST_AT_ONCE = 100_000  # people; more are read in parts
_MOST_NUMBERS = 1 << 27  # held at once, half a gigabyte
_RUNS = 10
_LARGEST_COUNT = 12  # groups looked for
_ACTIVE = 1 / 10  # part of what sets segments apart, beyond which they might be segments of activity
_ALIKE = 0.05  # stabilities
_LEAST_STABLE = 0.2  # of what is called groups without being asked for them


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Groups of people, the largest first, and how far to believe in them.

    Attributes
    ----------
    users : ndarray
        Ids, in the order of the release.
    labels : ndarray of int32
        Segment of each, from 0; −1 for those with a saturated number, of whom nothing is known.
    centers : ndarray of float64 (count, dimension)
        Average published point of each segment, with no shrinking: its coordinates are unbiased for the members'
        average, and noise has in each of them its variance over the size. See :meth:`distances`.
    sizes : ndarray of int64
        Number of people in each.
    stability : float
        How well runs on halves of the people agree: from 0, what data without groups reach, to 1, always the same.
        0 where there is no structure.
    activity : bool
        Whether how active people are was allowed to set them apart.
    structure : Structure
        Whether attributes go together at all.
    """

    users: NDArray[Any]
    labels: Labels
    centers: Floats
    sizes: NDArray[np.int64]
    stability: float
    activity: bool
    structure: Structure
    _coordinates: Coordinates = field(repr=False)
    _assigner: "Assigner" = field(repr=False)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def signal(self) -> float:
        """Part of people's variance, noise taken off, that attributes which go together explain; from 0 to 1."""
        return self.structure.share

    @property
    def words(self) -> str:
        """How far to believe in these segments, in a sentence."""
        if self.structure.components == 0:
            return f"No segments to speak of: {self.structure.words}."
        found = f"Found {self.structure.words}."
        if len(self) == 1:
            return f"{found} It does not fall into groups."
        kind = "" if self.activity else ", by taste and not by activity,"
        if self.stability == 0:
            return (
                f"{found} These {len(self)} segments{kind} are no more stable than cuts through a cloud without groups."
            )
        return f"{found} Stability of these {len(self)} segments{kind.rstrip(',')}: {self.stability:.2f} of 1."

    def distances(self, *, confidence: float = 0.95) -> Arrays:
        """Return the squared distances between the segments' averages, as (count, count) estimates.

        ‖c − c'‖² less the noise of both averages; the interval accounts for noise and projection. Who is where was
        decided by the same noise, so that segments which overlap look farther apart than they are.

        Parameters
        ----------
        confidence : float, default=0.95
            In (0, 1).
        """
        k = directions(self._coordinates)
        noise = self._coordinates.bias / k * (1 / self.sizes[:, None] + 1 / self.sizes[None, :])
        squares = (self.centers**2).sum(axis=1)
        value = squares[:, None] + squares[None, :] - 2 * self.centers @ self.centers.T - k * noise
        same = np.eye(len(self), dtype=np.bool_)
        # V_P ≤ 2r⁴/k for averages, which are no bits; randomized response projects nothing.
        projected = 0.0 if isinstance(self._coordinates.plan.error, FlippedBitsError) else 2 / k
        variance = Polynomial(projected, 4 * noise, 2 * k * noise**2)
        low, high = unified_interval(value, variance, confidence=confidence)
        stderr = np.sqrt(variance(np.maximum(value, 0.0)))
        return Estimate(*(np.where(same, 0.0, part) for part in (value, stderr, low, high)))


def segments_of(
    release: "Release", count: Count, *, denoise: bool, activity: Activity, progress: Progress | None = None
) -> Segments:
    """Return the people of a release in groups; see :meth:`Release.segments`."""
    sketches, coordinates = release._sketches, Coordinates.of(release.plan)
    if count != "auto":
        count = _checked_count(count, len(release))
    if activity != "auto" and not isinstance(activity, bool):
        raise ParameterError(f'activity must be True, False or "auto", got {activity!r}.')
    import sklearn.cluster  # noqa: F401, PLC0415 (slow to import; its threads are limited only once it is loaded)

    structure, denoiser = release.structure, release.denoiser
    # Many small fits: threads would only slow them down, and one thread adds up in the same order always. Where people
    # differ in fewer ways than there are segments, scikit-learn warns of empty ones; they are dropped.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Number of distinct clusters")
        chosen = _chosen(sketches, denoiser, structure, count, denoise=denoise, activity=activity)
        everyone = _Passes(sketches, progress)
        labels, middles = _grouped(everyone, chosen.n_segments, chosen.view)
    sizes = np.bincount(labels[labels >= 0], minlength=chosen.n_segments)
    order = np.argsort(-sizes, kind="stable")
    places = np.append(np.argsort(order), -1)  # the last one is for label −1
    labels = places[labels].astype(np.int32)
    sizes = sizes[order][: np.count_nonzero(sizes)]
    centers = np.zeros((len(sizes), coordinates.dimension))
    for block in everyone:
        inside = labels[block.start : block.start + len(block.points)]
        for label in np.unique(inside[inside >= 0]):
            centers[label] += block.points[inside == label].sum(axis=0, dtype=np.float64)
    centers /= sizes[:, None]
    return Segments(
        users=sketches.users,
        labels=labels,
        centers=centers,
        sizes=sizes,
        stability=chosen.stability,
        activity=chosen.view.activity,
        structure=structure,
        _coordinates=coordinates,
        _assigner=Assigner(chosen.view, middles[order][: len(sizes)]),
    )


@dataclass(slots=True)
class _Passes:
    """The people of a release, read again and again, and how much of it is done."""

    sketches: Sketches | StoredSketches
    progress: Progress | None
    n_read: int = 0

    def __iter__(self) -> Iterator[Block]:
        for block in blocks(self.sketches):
            yield block
            self.n_read += len(block.points)
            if self.progress is not None:
                self.progress(self.n_read, self.n_passes * len(self.sketches))

    @property
    def n_passes(self) -> int:
        """Number of times that everybody is read: to group and to average, and once more where they are too many."""
        return 2 + (len(self.sketches) > _MOST_AT_ONCE)


@dataclass(frozen=True, slots=True, eq=False)
class Assigner:
    """Tells the segment of anybody whose rows were published by the same plan.

    Attributes
    ----------
    view : View
        How people are looked at.
    middles : ndarray of float32 (count, view.n_coordinates)
        Where the segments are, seen so.
    """

    view: View
    middles: Points

    def __call__(self, rows: NDArray[Any]) -> Labels:
        """Return the segment of each published row; −1 for those with a saturated number."""
        from sklearn.metrics import pairwise_distances_argmin  # noqa: PLC0415 (slow to import)

        labels, sure = np.full(len(rows), -1, np.int32), known(rows)
        if sure.any():
            points = self.view.denoiser.coordinates.points(rows[sure])
            labels[sure] = pairwise_distances_argmin(self.view(points), self.middles)
        return labels


class _Choice(NamedTuple):
    n_segments: int
    stability: float
    view: View


def _chosen(
    sketches: Sketches | StoredSketches,
    denoiser: Denoiser,
    structure: Structure,
    count: Count,
    *,
    denoise: bool,
    activity: Activity,
) -> _Choice:
    """Choose what was left open: whether activity is seen, and the number of segments, the most stable one."""
    view = View.of(denoiser, denoise=denoise, count=1 if count == "auto" else count)
    seen = replace(view, activity=activity is not False)
    if structure.components == 0 and count == "auto":
        return _Choice(1, 0.0, seen)
    cloud = Cloud.of(sketches, view)

    def tried(number: int) -> _Choice:
        # Without activity and length two directions are lost: there must be some left to tell segments apart by.
        open_to_it = activity == "auto" and 1 < number <= min(len(cloud.people), view.n_coordinates - 1)
        too_active = open_to_it and cloud.activity(number, view) > _ACTIVE
        chosen = replace(seen, activity=seen.activity and not too_active)
        # Whatever is stable where there is no structure is not a group.
        stability = cloud.stability(number, chosen) if structure.components else 0.0
        return _Choice(number, stability, chosen)

    if count != "auto":
        return tried(count)
    largest = min(_LARGEST_COUNT, len(cloud.people) // 10)
    every = [tried(number) for number in range(2, largest + 1)]
    best = max([choice.stability for choice in every], default=0.0)
    # Groups that are far apart can be joined as stably as told apart: of nearly equal ones, the most groups.
    return [_Choice(1, 0.0, seen), *(c for c in every if c.stability >= max(best - _ALIKE, _LEAST_STABLE))][-1]


def _checked_count(count: Any, n_users: int) -> int:
    try:
        whole = operator.index(count)
    except TypeError:
        whole = 0
    if isinstance(count, bool) or not 1 <= whole <= n_users:
        raise ParameterError(f'count must be "auto" or from 1 to the number of people, {n_users}, got {count!r}.')
    return whole


def _grouped(everyone: _Passes, count: int, view: View) -> tuple[Labels, Points]:
    """Return everybody's group, −1 where nothing is known, and where the groups are."""
    from sklearn.cluster import KMeans, MiniBatchKMeans  # noqa: PLC0415 (slow to import)

    sketches = everyone.sketches
    n_users = len(sketches)
    labels = np.full(n_users, -1, np.int32)
    most = min(_MOST_AT_ONCE, _MOST_NUMBERS // view.n_coordinates)
    if n_users <= most:
        everybody, sure = np.empty((n_users, view.n_coordinates), np.float32), np.empty(n_users, np.bool_)
        for block in everyone:
            here = slice(block.start, block.start + len(block.points))
            everybody[here], sure[here] = view(block.points), block.known
        _check_known(int(sure.sum()), count)
        fitted = KMeans(count, n_init=_RUNS, random_state=0).fit(everybody[sure])
        labels[sure] = fitted.labels_
        return labels, fitted.cluster_centers_
    uncentered = coordinates_of(sketches.plan)
    some = sample(sketches, most, lambda rows: view(placed(uncentered(rows), sketches.plan)))
    _check_known(len(some), count)
    first = KMeans(count, n_init=_RUNS, random_state=0).fit(some)
    # Everybody moves the centers once; none is given up for lack of people.
    model = MiniBatchKMeans(count, init=first.cluster_centers_, n_init=1, random_state=0, reassignment_ratio=0.0)
    for block in everyone:
        if block.known.any():
            model.partial_fit(view(block.points[block.known]))
    for block in everyone:
        if block.known.any():
            inside = model.predict(view(block.points[block.known]))
            labels[block.start : block.start + len(block.points)][block.known] = inside
    return labels, model.cluster_centers_


def _check_known(n_people: int, count: int) -> None:
    if not n_people:
        raise ParameterError("a release must hold people without saturated numbers to have segments, and holds none.")
    if n_people < count:
        raise ParameterError(f"count must be at most {n_people}, the people without saturated numbers, got {count}.")
