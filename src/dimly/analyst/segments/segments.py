"""``Segments``: labels and sizes of groups, how many there are, stability in words; everybody assigned."""

import operator
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dimly.analyst.estimate import Arrays, Estimate
from dimly.analyst.intervals import unified_interval
from dimly.analyst.segments.cross_validation import NOT_STABLE, Stability, ViewJudge
from dimly.analyst.segments.differences import Averages, Profile, SegmentDifferences, profiles_of
from dimly.analyst.segments.k_means import View, WeightedPoints
from dimly.analyst.structure.coordinates import (
    Block,
    Coordinates,
    JoinedCoordinates,
    Points,
    blocks,
    coordinates_of,
    known,
    placed,
    sample,
)
from dimly.analyst.structure.denoise import Denoiser
from dimly.analyst.structure.one_thread import one_thread
from dimly.analyst.structure.parallel_analysis import Structure
from dimly.display import MOST_ROWS, Shown, data_frame
from dimly.errors import ParameterError
from dimly.mechanisms.error.models import Floats, Polynomial
from dimly.mechanisms.plan_kinds import DirectionsPlan
from dimly.mechanisms.plan_parts import LaplaceNoise
from dimly.progress import OnProgress
from dimly.release.reader import StoredSketches
from dimly.release.sketches import Sketches

if TYPE_CHECKING:
    from dimly.analyst.release import Release


Labels = NDArray[np.int32]
Count = int | Literal["auto"]
Activity = bool | Literal["auto"]

_MOST_AT_ONCE = 100_000  # people; more are read in parts
_MOST_NUMBERS = 1 << 27  # held at once, half a gigabyte
_RUNS = 10
_MOST_MOVED = 1 << 22  # points that are moved along a direction to tell what noise did to averages
_LARGEST_COUNT = 12  # groups looked for
_ALIKE = 0.05  # stabilities
_BLURRED = (
    " Groups whose borders noise has blurred look the same: along directions that were made to tell groups apart, "
    "segments may be near to them, and published numbers alone cannot tell."
)
_NOT_SEEN = " Groups that noise hides, or that differ only in how active people are, would not show here."
_OTHER_VIEW = (
    " Activity is how many attributes people have; where it counts too (activity=True), they may fall into other "
    "segments."
)
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
        average, and noise has in each of them its variance over the size. See :meth:`distances`. Of several kinds of
        releases that were combined: their points side by side, in units of the deviation of noise.
    sizes : ndarray of int64
        Number of people in each.
    stability : float
        How well runs on halves of the people agree: from 0, what data without groups reach, to 1, always the same.
        0 where there is no structure.
    activity : bool
        Whether how active people are was allowed to set them apart.
    structure : Structure
        Whether attributes go together at all.

    See Also
    --------
    describe : the attributes that tell each segment apart, where people are published along directions.
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
    _described: "SegmentDifferences | None" = field(default=None, repr=False)
    _tried: "Mapping[int, Stability]" = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.sizes)

    def __repr__(self) -> str:
        return self._shown().text()

    def _repr_html_(self) -> str:
        return self._shown().html()

    def _shown(self) -> Shown:
        rows: list[tuple[object, ...]] = list(enumerate(self.sizes.tolist()))
        header: tuple[str, ...] = ("segment", "people")
        if self.is_described:
            rows = [(*row, profile.words) for row, profile in zip(rows, self.describe(most=3), strict=True)]
            header = (*header, "told apart by")
        title = f"{len(self)} segment{'' if len(self) == 1 else 's'} of {len(self.users):,} people"
        counts = self.words_on_counts
        lines = [self.words, *([f"Stability by number of segments: {counts}."] if counts else [])]
        return Shown(title, lines, header, rows[:MOST_ROWS], len(rows) - min(len(rows), MOST_ROWS))

    def to_pandas(self) -> Any:
        """Return a data frame: user and segment, −1 for those of whom nothing is known.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        return data_frame({"user": self.users.tolist(), "segment": self.labels})

    @property
    def signal(self) -> float:
        """Part of people's variance, noise taken off, that attributes which go together explain; from 0 to 1."""
        return self.structure.share

    @property
    def words(self) -> str:
        """How far to believe in these segments, in a sentence."""
        if self.structure.components == 0:
            return f"No segments to speak of: {self.structure.words}.{_NOT_SEEN}"
        found = f" Found {self.structure.words}."
        if len(self) == 1:
            looked_for = len(self._tried) > 1
            return (
                "People do not fall into groups." if looked_for else "Everybody is in one segment, as asked."
            ) + found
        kind, other = ("", "") if self.activity else (", by taste and not by activity,", _OTHER_VIEW)
        if self.stability == 0:
            return (
                f"These {len(self)} segments{kind} are no more stable than cuts through a cloud without groups."
                + (_BLURRED if self.is_described else other)
                + found
            )
        stable = f"Stability of these {len(self)} segments{kind.rstrip(',')}: {self.stability:.2f} of 1."
        return f"{stable}{other}{found}"

    @property
    def stabilities(self) -> dict[int, float]:
        """How stable each number of segments is that was tried, by ``count="auto"`` or because it was asked for.

        Numbers that could not come near the best were given up early: of these it is the most that it could be.
        """
        return {
            count: min(max(one.score, 0.0), 1.0) if one.cut_short else one.value for count, one in self._tried.items()
        }

    @property
    def words_on_counts(self) -> str:
        """The same in a line, with "<" before what was given up early; empty where one number was tried alone."""
        if len(self._tried) < 2:
            return ""
        return ", ".join(
            f"{count}: {'<' if self._tried[count].cut_short else ''}{value:.2f}"
            for count, value in self.stabilities.items()
        )

    def describe(self, *, most: int = 5, confidence: float = 0.95) -> tuple[Profile, ...]:
        """Return what tells each segment from everybody else, by the attributes that count along the directions.

        For releases along directions. It is post-processing of published numbers, and costs nothing. Where a segment
        does not differ beyond noise along any direction, nothing is named; see :class:`Profile`.

        Parameters
        ----------
        most : int, default=5
            Attributes to name at each end.
        confidence : float, default=0.95
            Of the intervals along the directions, in (0, 1).

        Raises
        ------
        ParameterError
            If the release is not along directions.
        """
        if self._described is None:
            raise ParameterError(
                "describe needs a release along directions: other sketches do not say what people have in common. "
                "See docs/directions.md."
            )
        if type(most) is not int or most < 1:
            raise ParameterError(f"most must be an integer of at least 1, got {most!r}.")
        if not 0 < confidence < 1:
            raise ParameterError(f"confidence must be above 0 and below 1, such as 0.95, got {confidence!r}.")
        return profiles_of(*self._described, most=most, confidence=confidence)

    @property
    def is_described(self) -> bool:
        """Whether :meth:`describe` can tell attributes: people are published along directions."""
        return self._described is not None

    def distances(self, *, confidence: float = 0.95) -> Arrays:
        """Return the squared distances between the segments' averages, as (count, count) estimates.

        ‖c − c'‖² less the noise of both averages; the interval accounts for noise and projection. Who is where was
        decided by the same noise, so that segments which overlap look farther apart than they are.

        Parameters
        ----------
        confidence : float, default=0.95
            In (0, 1).
        """
        if isinstance(self._coordinates, JoinedCoordinates):
            raise ParameterError(
                "distances of segments must be of one kind of release. Ask segments of each release alone for theirs."
            )
        k = self._coordinates.free
        noise = self._coordinates.bias / k * (1 / self.sizes[:, None] + 1 / self.sizes[None, :])
        squares = (self.centers**2).sum(axis=1)
        value = squares[:, None] + squares[None, :] - 2 * self.centers @ self.centers.T - k * noise
        same = np.eye(len(self), dtype=np.bool_)
        variance = Polynomial(self._coordinates.projected, 4 * noise, 2 * k * noise**2)
        low, high = unified_interval(value, variance, confidence=confidence)
        stderr = np.sqrt(variance(np.maximum(value, 0.0)))
        return Estimate(*(np.where(same, 0.0, part) for part in (value, stderr, low, high)))


def segments_of(
    release: "Release", count: Count, *, denoise: bool, activity: Activity, progress: OnProgress | None = None
) -> Segments:
    """Return the people of a release in groups; see :meth:`Release.segments`."""
    sketches, coordinates = release._sketches, Coordinates.of(release.plan)
    if count != "auto":
        count = _checked_count(count, len(release))
    if activity != "auto" and not isinstance(activity, bool):
        raise ParameterError(f'activity must be True, False or "auto", got {activity!r}.')
    structure, denoiser = release.structure, release.denoiser
    # Many small fits: threads would only slow them down, and one thread adds up in the same order always. Where people
    # differ in fewer ways than there are segments, scikit-learn warns of empty ones; they are dropped.
    with one_thread(), warnings.catch_warnings():
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
    assigner = Assigner(chosen.view, middles[order][: len(sizes)])
    directions = sketches.directions
    averages = None
    if directions is not None:
        averages = Averages(
            assigner.of_points,
            len(sizes),
            range(coordinates.dimension),
            noise=coordinates.noise_variance,
            laplace=isinstance(sketches.plan.noise, LaplaceNoise),
        )
    stride = max(1, len(sketches) * coordinates.dimension // _MOST_MOVED)
    for block in everyone:
        if averages is not None and block.known.any():
            averages.add(block.points[block.known][::stride])
        inside = labels[block.start : block.start + len(block.points)]
        for label in np.unique(inside[inside >= 0]):
            centers[label] += block.points[inside == label].sum(axis=0, dtype=np.float64)
    centers /= sizes[:, None]
    return Segments(
        users=sketches.users,
        labels=labels,
        centers=centers,
        sizes=sizes,
        # Whatever is stable where there is no structure is not a group.
        stability=chosen.stability.value if structure.components else 0.0,
        activity=chosen.view.activity,
        structure=structure,
        _coordinates=coordinates,
        _assigner=assigner,
        _described=None
        if directions is None or averages is None
        else SegmentDifferences(directions, *averages.apart()),
        _tried=chosen.tried if structure.components else {},
    )


def labels_of(release: "Release", count: int) -> Labels:
    """Return everybody's segment as :func:`segments_of` finds it, but neither in order of size nor with a stability.

    Saying how stable segments are takes most of the time that finding them does.
    """
    sketches = release._sketches
    with one_thread(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Number of distinct clusters")
        view, activity = _first_view(sketches, release.denoiser, count, denoise=True, activity="auto")
        seen = view if activity != "auto" else ViewJudge.of(sketches, view).choose(count, [view, *view.others(count)])
        return _grouped(_Passes(sketches, None), count, seen)[0]


@dataclass(slots=True)
class _Passes:
    """The people of a release, read again and again, and how much of it is done."""

    sketches: Sketches | StoredSketches
    progress: OnProgress | None
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
        labels, sure = np.full(len(rows), -1, np.int32), known(rows)
        if sure.any():
            labels[sure] = self.of_points(self.view.denoiser.coordinates.points(rows[sure]))
        return labels

    def of_points(self, points: Points) -> Labels:
        """Return the segment of each point."""
        from sklearn.metrics import pairwise_distances_argmin  # noqa: PLC0415 (slow to import)

        labels: Labels = pairwise_distances_argmin(self.view(points).points, self.middles).astype(np.int32)
        return labels


class _Choice(NamedTuple):
    n_segments: int
    stability: Stability
    view: View
    tried: Mapping[int, Stability] = MappingProxyType({})


def _first_view(
    sketches: Sketches | StoredSketches, denoiser: Denoiser, count: Count, *, denoise: bool, activity: Activity
) -> tuple[View, Activity]:
    """Return how people are looked at before other ways are compared with it, and whether any are."""
    view = View.of(denoiser, denoise=denoise, count=1 if count == "auto" else count)
    if activity == "auto" and isinstance(sketches.plan, DirectionsPlan):
        # Few directions were chosen to tell groups, and have signs: how far out people are along the average person is
        # not how active they are, and a weaker direction tells as much as a strong one. So nothing is shrunk or
        # divided: agreement at ε = 0.2 was 0.77 and 0.75 so on made people, 0.51 and 0.46 by comparing views.
        view, activity = replace(view, plain=view.width), True
    return (view if activity == "auto" else replace(view, activity=activity)), activity


def _chosen(
    sketches: Sketches | StoredSketches,
    denoiser: Denoiser,
    structure: Structure,
    count: Count,
    *,
    denoise: bool,
    activity: Activity,
) -> _Choice:
    """Choose what was left open: how people are looked at, and the number of segments."""
    view, activity = _first_view(sketches, denoiser, count, denoise=denoise, activity=activity)
    if structure.components == 0 and count == "auto":
        return _Choice(1, NOT_STABLE, view)
    judge = ViewJudge.of(sketches, view)

    def chosen(number: int, above: float = -1.0) -> _Choice:
        seen = judge.choose(number, [view, *view.others(number)] if activity == "auto" else [view])
        return _Choice(number, judge.stability(number, seen, above=above), seen)

    if count != "auto":
        only = chosen(count)
        return only._replace(tried={count: only.stability})
    every: list[_Choice] = []
    for number in range(2, min(_LARGEST_COUNT, len(judge.people) // 10) + 1):
        every.append(chosen(number, above=_least(every)))
    # Groups that are far apart can be joined as stably as told apart: of nearly equal ones, the most groups.
    least = _least(every)
    best = [_Choice(1, NOT_STABLE, view), *(choice for choice in every if choice.stability.value >= least)][-1]
    return best._replace(tried={choice.n_segments: choice.stability for choice in every})


def _least(found: list[_Choice]) -> float:
    """Return how stable a number of segments must be, given the others."""
    return max([choice.stability.value - _ALIKE for choice in found] + [_LEAST_STABLE])


def _checked_count(count: Any, n_users: int) -> int:
    try:
        whole = operator.index(count)
    except TypeError:
        whole = 0
    if isinstance(count, bool) or not 1 <= whole <= n_users:
        raise ParameterError(
            f'count must be "auto" or an integer from 1 to the number of people, {n_users}, got {count!r}.'
        )
    return whole


def _grouped(everyone: _Passes, count: int, view: View) -> tuple[Labels, Points]:
    """Return everybody's group, −1 where nothing is known, and where the groups are."""
    sketches = everyone.sketches
    n_users = len(sketches)
    labels = np.full(n_users, -1, np.int32)
    most = min(_MOST_AT_ONCE, _MOST_NUMBERS // view.n_coordinates)
    if n_users <= most:
        everybody = WeightedPoints(np.empty((n_users, view.n_coordinates), np.float32), np.empty(n_users, np.float32))
        sure = np.empty(n_users, np.bool_)
        for block in everyone:
            here = slice(block.start, block.start + len(block.points))
            seen = view(block.points)
            everybody.points[here], everybody.weights[here], sure[here] = seen.points, seen.weights, block.known
        _check_known(int(sure.sum()), count)
        fitted = everybody.some(sure).grouped(count, _RUNS)
        labels[sure] = fitted.labels
        return labels, fitted.centers
    uncentered = coordinates_of(sketches.plan)
    some = sample(sketches, most, lambda rows: view.project(placed(uncentered(rows), sketches.plan)))
    _check_known(len(some), count)
    first = view.look(some).grouped(count, _RUNS)
    return _moved(everyone, first.centers, view, labels)


def _moved(everyone: _Passes, centers: Points, view: View, labels: Labels) -> tuple[Labels, Points]:
    """Return the nearest of these centers, after everybody moved them once; none is given up for lack of people."""
    from sklearn.cluster import MiniBatchKMeans  # noqa: PLC0415 (slow to import)

    model = MiniBatchKMeans(len(centers), init=centers, n_init=1, random_state=0, reassignment_ratio=0.0)
    with threadpool_limits(1):  # its own threads can be limited only once it is loaded
        for block in everyone:
            if block.known.any():
                seen = view(block.points[block.known])
                model.partial_fit(seen.points, sample_weight=seen.weights)
        for block in everyone:
            if block.known.any():
                inside = model.predict(view(block.points[block.known]).points)
                labels[block.start : block.start + len(block.points)][block.known] = inside
    return labels, model.cluster_centers_


def _check_known(n_people: int, count: int) -> None:
    if not n_people:
        raise ParameterError(
            "a release must hold people without saturated numbers to have segments, but it holds none."
        )
    if n_people < count:
        raise ParameterError(f"count must be at most {n_people}, the people without saturated numbers, got {count}.")
