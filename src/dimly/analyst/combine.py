"""``combine``: several releases of the same people as a weighted sum of their estimates.

The paper's multi-scale idea: sketches of several k, or releases that came at different times. Weights are inverse
variances at one public planning distance. Weights from the estimates themselves would bias the sum, because an estimate
that happens to be small looks more certain than it is.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dimly.analyst.estimate import Arrays, Estimate, Vector, choose, exactly, scalar, unknown
from dimly.analyst.intervals import MixedSkewness, distance_skewness, unified_interval
from dimly.analyst.joined_releases import Joined, common_users
from dimly.analyst.pairs import User, Whom, chosen, compared, distance_variance
from dimly.analyst.release import Release
from dimly.display import percent
from dimly.errors import ParameterError
from dimly.mechanisms.error.models import Floats, Polynomial
from dimly.mechanisms.plan import Plan
from dimly.release.reader import StoredSketches

_WORTH_IT = 0.05
"""A smaller gain over the best release alone is not worth the trouble."""


@dataclass(frozen=True, slots=True, eq=False)
class CombinedVector:
    """The analyst's own vector, as each of the combined releases sketches it. Made by :meth:`Combined.project`."""

    vectors: tuple[Vector, ...]


class Combined:
    """Distances by several releases of the same people. Made by :func:`combine`.

    The people are those who are in all of the releases.

    Attributes
    ----------
    releases : tuple of Release
    distance_planned : float
        The public squared distance that the weights are best for.
    weights : tuple of float
        What each release counts for between two people; their sum is 1. To a vector of one's own, which has no noise,
        others apply, by the same rule.
    stderr : float
        Predicted standard error of a squared distance at the planning distance.
    stderr_alone : tuple of float
        The same for each release alone.
    """

    def __init__(self, releases: tuple[Release, ...], *, distance: float, weight: float) -> None:
        self.releases = releases
        self.distance_planned = distance
        self._people = (weight, weight)
        variances = [self._planned(release.plan) for release in releases]
        self.weights = _inverse(variances)
        self.stderr = math.sqrt(1 / sum(1 / variance for variance in variances))
        self.stderr_alone = tuple(math.sqrt(variance) for variance in variances)

    @property
    def gain(self) -> float:
        """Share of the best single release's standard error that combining saves, at the planning distance."""
        return 1 - self.stderr / min(self.stderr_alone)

    @property
    def words(self) -> str:
        """What combining is good for, in a sentence or two."""
        alone = ", ".join(f"{error:,.3g}" for error in self.stderr_alone)
        best = 1 + self.stderr_alone.index(min(self.stderr_alone))
        found = (
            f"{len(self.releases)} releases together have a standard error of {self.stderr:,.3g} at squared distance "
            f"{self.distance_planned:g}; alone they have {alone}."
        )
        if self.gain < _WORTH_IT:
            found = f"{found} The gain is {percent(self.gain, 1)}: number {best} alone does as well."
        else:
            found = f"{found} That is {percent(self.gain)} less than number {best}, the best alone."
        return found if self.private else f"{found} NOT PRIVATE: at least one of them was made for tests only."

    @property
    def private(self) -> bool:
        """Whether all noise came from fresh secret keystreams, as far as the publisher's software says."""
        return all(release.private for release in self.releases)

    @cached_property
    def users(self) -> NDArray[Any]:
        """Ids of the people who are in all of the releases, in ascending order."""
        return common_users(self.releases)

    def __len__(self) -> int:
        return len(self.users)

    def __contains__(self, user: object) -> bool:
        return all(user in release for release in self.releases)

    def __repr__(self) -> str:
        shares = zip(self.weights, self.releases, strict=True)
        by = ", ".join(f"{weight:.2f} {release.plan.mechanism}" for weight, release in shares)
        return f"<Combined releases: {by}{'' if self.private else ', NOT PRIVATE'}>"

    def project(self, attributes: Iterable[object] | Mapping[Any, float]) -> CombinedVector:
        """Return the analyst's own vector; see :meth:`Release.project`."""
        given = list(attributes) if isinstance(attributes, Iterator) else attributes  # each release reads them
        return CombinedVector(tuple(release.project(given) for release in self.releases))

    def distance(
        self, a: User | CombinedVector, b: User | CombinedVector, *, confidence: float = 0.95
    ) -> Estimate[float]:
        """Return the squared distance of two people."""
        if any(not isinstance(who, CombinedVector | str) and np.ndim(who) for who in (a, b)):
            raise ParameterError("distance takes one user on each side. Use distances for several.")
        return scalar(self.distances(a, b, confidence=confidence))

    def distances(
        self, a: ArrayLike | CombinedVector, b: ArrayLike | CombinedVector, *, confidence: float = 0.95
    ) -> Arrays:
        """Return the squared distances of pairs, as :meth:`Release.distances` does.

        Unbiased, because the weights do not depend on the data. Of somebody who has a saturated number in any of the
        releases nothing is known.
        """
        for who in (a, b):
            if isinstance(who, Vector) or (
                isinstance(who, CombinedVector)
                and [v.plan for v in who.vectors] != [release.plan for release in self.releases]
            ):
                raise ParameterError("a vector must be made by project of these combined releases.")
        sides = 2 - isinstance(a, CombinedVector) - isinstance(b, CombinedVector)
        told = [_told(release, _of(a, i), _of(b, i)) for i, release in enumerate(self.releases)]
        if not sides:
            return exactly(told[0].value)
        weights = self.weights
        if sides == 1:
            weights = _inverse([self._planned(release.plan, one_sided=True) for release in self.releases])
        value = np.sum([weight * one.value for weight, one in zip(weights, told, strict=True)], axis=0)
        coefficients = zip(*(one.variance for one in told), strict=True)
        variance = Polynomial(*(_sum_of_squares(weights, parts) for parts in coefficients))
        skewness = MixedSkewness(weights, tuple(distance_skewness(r.plan, sides=sides) for r in self.releases))
        low, high = unified_interval(value, variance, confidence=confidence, largest=self._largest, skewness=skewness)
        stderr = np.sqrt(variance(np.clip(value, 0.0, self._largest)))
        lost = np.any([one.lost for one in told], axis=0)
        found = choose(
            lost, unknown(lost.shape, self._largest), Estimate(value, *np.broadcast_arrays(stderr, low, high))
        )
        return choose(told[0].same, exactly(np.zeros_like(value)), found)

    @property
    def _largest(self) -> float:
        return _largest(release.plan for release in self.releases)

    def _planned(self, plan: Plan, *, one_sided: bool = False) -> float:
        """Return the variance at the planning distance, between people with the planning weight."""
        return float(plan.error.distance(one_sided=one_sided, weights=self._people)(self.distance_planned))


class _PairEstimates(NamedTuple):
    """What one release tells of pairs: unbiased estimates, and their variance as a function of the truth."""

    value: Floats
    variance: Polynomial
    same: NDArray[np.bool_]
    """Who is compared with themselves."""
    lost: NDArray[np.bool_]
    """Whose published numbers are saturated."""


def _told(release: Release, a: Whom, b: Whom) -> _PairEstimates:
    error, reader = release.plan.error, release._reader
    if reader is None:
        published = release.distances(a, b)
        return _PairEstimates(published.value, error.distance(), published.stderr == 0, np.isnan(published.value))
    _, y, pairs, same, lost = compared(reader, *(chosen(release._sketches, who) for who in (a, b)))
    variance = distance_variance(error, pairs, one_sided=not y.noisy)
    return _PairEstimates(pairs.squared_distance, variance, same, lost)


def _sum_of_squares(weights: tuple[float, ...], parts: tuple[ArrayLike, ...]) -> Floats:
    """Return what coefficients of variances add up to."""
    return np.asarray(sum(weight**2 * np.asarray(part) for weight, part in zip(weights, parts, strict=True)))


@overload
def combine(releases: Iterable[Release], *, distance: float, weight: float | None = None) -> Combined: ...
@overload
def combine(releases: Iterable[Release]) -> Joined: ...


def combine(
    releases: Iterable[Release], *, distance: float | None = None, weight: float | None = None
) -> Combined | Joined:
    """Return several releases of the same people as one, more certain than any of them.

    Releases along directions and others, or along other directions, are joined to rank people and to find segments
    only, without ``distance``: their distances differ in kind and are never averaged. See
    :class:`~dimly.analyst.joined_releases.Joined`.

    Its ``words`` tell whether that is worth it. It is no way to spend a budget: an ε that is split over several
    releases buys less than one release that has it all. Combine releases that exist anyway.

    Parameters
    ----------
    releases : iterable of Release
        Two or more, by any mechanisms, of the same attributes of the same people, each with noise of its own. Sketches
        of one family and k need seeds of their own, too. A release that took people over from another one
        (``publish(…, update=…)``) has their noise as well: these two must not be combined, which is refused for
        sketches and cannot be noticed otherwise.
    distance : float, optional
        For releases of one kind: squared distance that the weights should be best for; > 0. Public knowledge, not an
        estimate.
    weight : float, optional
        Number of ones of either person at that distance, on which the error of counting depends too. Half of
        ``distance`` by default: two people who share nothing.

    Raises
    ------
    ParameterError
        If the releases cannot be combined; the text says why.

    Examples
    --------
    >>> from dimly.api import publish
    >>> from dimly.privacy import Budget
    >>> people = np.random.default_rng(0).random((20, 500)) < 0.3
    >>> releases = [publish(people, Plan.of("hashing+laplace", Budget(1.0), k=k)) for k in (64, 256)]
    >>> combined = combine(releases, distance=200)
    >>> [round(error) for error in combined.stderr_alone], round(combined.stderr)
    ([86, 128], 72)
    >>> estimate = combined.distance(0, 1)
    >>> bool(estimate.low <= estimate.value <= estimate.high)
    True
    """
    given: tuple[Any, ...] = tuple(releases) if hasattr(releases, "__iter__") else (releases,)
    if not all(isinstance(release, Release) for release in given):
        raise ParameterError("releases must be a list of releases. Open each with open_release.")
    if len(given) < 2:
        raise ParameterError(f"releases must be two or more, got {len(given)}. Ask a single one itself.")
    _check_users(given)
    _check_noise(given)
    if _differ_in_kind(given):
        if distance is not None or weight is not None:
            raise ParameterError(
                "distance and weight must be left out where releases are not along the same directions: distances of "
                "different kinds are never averaged. combine(releases) ranks and groups people by all of them."
            )
        return Joined(given)
    _check_data(given)
    farthest = _largest(release.plan for release in given)
    planned = _number(distance)
    if not 0 < planned < math.inf or planned > farthest:
        limit = "" if farthest == math.inf else f" and at most the number of attributes, {farthest:g}"
        raise ParameterError(
            f"distance must be a squared distance > 0{limit}, got {distance!r}. State how far apart typical pairs are: "
            "combine([...], distance=100)."
        )
    ones = planned / 2 if weight is None else _number(weight)
    if not planned / 2 <= ones < math.inf:
        raise ParameterError(f"weight must be at least half of distance, got {weight!r}.")
    return Combined(given, distance=planned, weight=ones)


def _differ_in_kind(releases: tuple[Release, ...]) -> bool:
    """Return whether releases are along different directions, or some along directions and others not."""
    along = {release.plan.directions and release.plan.directions.sha256 for release in releases}
    return len(along) > 1


def _check_users(releases: tuple[Release, ...]) -> None:
    """Refuse releases that are not of the same people, as far as that is public."""
    _check_equal(
        releases,
        lambda release: release._sketches.textual,
        "users of all releases must be of one type, integers or text.",
    )


def _check_data(releases: tuple[Release, ...]) -> None:
    """Refuse releases that are not of the same attributes, as far as that is public."""
    _check_equal(
        releases,
        lambda release: release.plan.resolution,
        "releases must have one resolution, or they estimate different distances.",
    )
    closed = tuple(release for release in releases if release.plan.vocabulary is not None)
    _check_equal(
        closed,
        lambda release: release.plan.vocabulary,
        "releases must have one vocabulary where it is closed, or they estimate different distances.",
    )


def _check_noise(releases: tuple[Release, ...]) -> None:
    """Refuse releases whose errors are not independent."""
    for i, release in enumerate(releases):
        for other in releases[:i]:
            if _are_one(release, other):
                raise ParameterError("releases must be different ones, but two are the same: they share their noise.")
            drawn = release.plan.drawn_from
            if drawn and drawn == other.plan.drawn_from:
                raise ParameterError(
                    f"releases must have different seeds, but two by {drawn[0]} with k = {drawn[1]} share one: what "
                    "projecting loses is the same in both and does not average out. Make plans with fresh seeds."
                )


def _check_equal(releases: tuple[Release, ...], what: Callable[[Release], object], complaint: str) -> None:
    if any(what(release) != what(releases[0]) for release in releases):
        raise ParameterError(complaint)


def _are_one(one: Release, other: Release) -> bool:
    """Return whether two releases hold the same numbers, under whatever title: then they share their noise."""
    a, b = one._sketches, other._sketches
    if isinstance(a, StoredSketches) and isinstance(b, StoredSketches):
        return [part.sha256 for part in a.manifest.parts] == [part.sha256 for part in b.manifest.parts]
    if isinstance(a, StoredSketches) or isinstance(b, StoredSketches):  # one may have been saved as the other
        return a.plan.digest == b.plan.digest and np.array_equal(a.values, b.values)
    return a is b


def _largest(plans: Iterable[Plan]) -> float:
    """Return the largest squared distance there can be."""
    return min(math.inf if plan.n_attributes is None else float(plan.n_attributes) for plan in plans)


def _inverse(variances: list[float]) -> tuple[float, ...]:
    total = sum(1 / variance for variance in variances)
    return tuple(1 / variance / total for variance in variances)


def _of(who: Any, index: int) -> Any:
    """Return what one of the releases is to be asked about."""
    return who.vectors[index] if isinstance(who, CombinedVector) else who


def _number(value: object) -> float:
    """Return a number, NaN if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return math.nan
    return float(value)
