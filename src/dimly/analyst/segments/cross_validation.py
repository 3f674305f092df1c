"""How groups are judged: by coordinates held out of k-means, clouds without groups, stability of halves.

Groups are judged by numbers that they were not made from. Each coordinate of a sketch has noise of its own and mostly
attributes of its own. So whatever groups that were made from three quarters of the coordinates explain of the last
quarter, they have not read off its noise, nor off single people's own tastes: it is what attributes have in common. The
averages that predict are taken over half of the people and judged by the other half. All views are judged by the same
numbers, so that they compare whatever their scales.

Of the plain views, in which activity may set people apart, the one is taken whose groups tell most. Rays are taken only
with proof: their groups tell clearly more of tastes than those of any plain view, and clearly more than cuts through a
cloud of tastes without groups would. Where either is missing, the plain view stays.

References
----------
A. Owen and P. Perry, "Bi-cross-validation of the SVD and the nonnegative matrix factorization", Annals of Applied
Statistics 3 (2009).
W. Fu and P. Perry, "Estimating the number of clusters using cross-validation", Journal of Computational and Graphical
Statistics 29 (2020).
Y. Liu et al., "Statistical significance of clustering for high-dimension, low-sample size data", JASA 103 (2008).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.segments.k_means import DIRECTIONS, View, WeightedPoints
from dimly.analyst.structure.coordinates import Coordinates, JoinedCoordinates, Points, coordinates_of, sample
from dimly.analyst.structure.denoise import Denoiser
from dimly.mechanisms.error.models import Floats
from dimly.release.reader import StoredSketches
from dimly.release.sketches import Sketches

_MOST = 2000  # people looked at
_MOST_NUMBERS = 1 << 24  # of them
_FEWEST = 200
_CLEARLY = 2.0  # standard errors, or standard deviations of what clouds show
_CLOUDS = 4
_HALVES = 8  # pairs of them
_RUNS_ON_HALVES = 3
_FEWEST_EACH = 10  # people a group, for its stability to be told
_FOLDS = 4  # ways to hold coordinates out
_RUNS = 2


class Told(NamedTuple):
    """What groups explain of each person's held-out coordinates: squared lengths, whatever noise does in them.

    Attributes
    ----------
    tastes : ndarray of float64 (n,)
        By rays through the groups, along which people stand as they are active, beyond the one ray of everybody.
    everything : ndarray of float64 (n,)
        By the groups' averages, beyond the average of everybody. Cuts by activity alone tell much of this.
    """

    tastes: Floats
    everything: Floats


class _Ruler(NamedTuple):
    """How far out people stand, those who predict and those who are asked, and what one ray of everybody explains."""

    fit: Points
    rest: Points
    by_one_ray: Any


class _Half(NamedTuple):
    """Who predicts and who is asked, with their held-out coordinates; rulers by activity, and the same for all."""

    fit: NDArray[np.bool_]
    rest: NDArray[np.bool_]
    shown: Points
    asked: Points
    rulers: list[_Ruler]


@dataclass(frozen=True, eq=False)
class Fold:
    """Some people's coordinates in two parts.

    Attributes
    ----------
    shown : ndarray of float32 (n, k − h)
        What groups are made from.
    hidden : ndarray of float32 (n, h)
        What they are judged by.
    denoiser : Denoiser
        Of what is shown.
    """

    shown: Points
    hidden: Points
    denoiser: Denoiser
    _seen: dict[int, Points] = field(default_factory=dict)

    def told(self, count: int, view: View) -> Told:
        """Return what ``count`` groups tell that are found in a view like the given one, of what is shown."""
        here = View.of(self.denoiser, denoise=view.width > 0, count=count)
        here = View(self.denoiser, here.width, view.activity, min(view.plain, here.width))
        labels = here.look(self._projected(here)).grouped(count, _RUNS).labels
        found = Told(np.empty(len(labels)), np.empty(len(labels)))
        for half in self._halves:
            own, asked = labels[half.fit], labels[half.rest]
            for told, by in zip(found, half.rulers, strict=True):
                rays = _rays(half.shown, by.fit, own, count)
                told[half.rest] = _explained(half.asked, by.rest, rays, asked) - by.by_one_ray
        return found

    @cached_property
    def _halves(self) -> list["_Half"]:
        """Either half of the people, who are asked about what the other half predicts: the same for all groups."""
        everyone = View(self.denoiser, self.denoiser.rank)
        active = everyone.active(self._projected(everyone))
        first = np.random.default_rng(0).permutation(len(active)) < len(active) // 2
        halves = []
        for fit in (first, ~first):
            shown, asked = self.hidden[fit], self.hidden[~fit]
            rulers = []
            for by in (active, np.ones_like(active)):
                ray = _ray(shown, by[fit])[None, :]
                rulers.append(_Ruler(by[fit], by[~fit], _explained(asked, by[~fit], ray, 0)))
            halves.append(_Half(fit, ~fit, shown, asked, rulers))
        return halves

    def _projected(self, view: View) -> Points:
        if view.width not in self._seen:
            self._seen[view.width] = view.project(self.shown)
        return self._seen[view.width]


def folds_of(people: Points, coordinates: Coordinates, width: int) -> list[Fold]:
    """Return people in several ways to hold coordinates out; none where there are too few coordinates.

    Parameters
    ----------
    people : ndarray of float32 (n, k)
        Not centered: each part is centered by itself, so that neither tells of the other.
    coordinates : Coordinates
    width : int
        Directions that are looked for.
    """
    k = people.shape[1]
    n_folds = min(_FOLDS, k // 2)
    if n_folds < 2:
        return []
    # Joined releases have several averages each; theirs are taken off over all of a release's coordinates.
    joined = isinstance(coordinates, JoinedCoordinates)
    people = coordinates.centered(people) if joined else people
    centered = (lambda part: part) if joined else coordinates.centered
    folds, places = [], np.random.default_rng(0).permutation(k) % n_folds
    for fold in range(n_folds):
        shown = centered(people[:, places != fold])
        denoiser = Denoiser.of_points(shown, coordinates, most=width)
        folds.append(Fold(shown, centered(people[:, places == fold]), denoiser))
    return folds


def told_by(folds: Sequence[Fold], count: int, view: View) -> Told:
    """Return what groups tell of all coordinates, each held out once."""
    found = [fold.told(count, view) for fold in folds]
    return Told(sum(one.tastes for one in found), sum(one.everything for one in found))  # type: ignore[arg-type]


def without_groups(people: Points, coordinates: Coordinates, width: int, seed: int) -> Points:
    """Return people who are as active as the given ones, and whose tastes have their covariances and form no groups.

    Tastes are Gaussian. Noise, and what chance makes of directions, is taken off the variances first: in units of the
    noise's, a variance λ is that of a direction ℓ with λ = (1 + ℓ)(1 + β/ℓ), for β coordinates a person.
    """
    generator = np.random.default_rng([1, seed])
    denoiser, noise = Denoiser.of_points(people, coordinates, most=width), coordinates.noise_variance
    view = View(denoiser, denoiser.rank)
    active = view.active(view.project(people))
    ray = _ray(people, active)
    n, k = people.shape
    own = people - np.outer(active, ray)
    tastes = Denoiser.of_points(own, coordinates, most=width)
    lengths = tastes.variances.astype(np.float64) / noise - k / n - 1
    spikes = noise / 2 * (lengths + np.sqrt(np.maximum(lengths**2 - 4 * k / n, 0.0)))
    spread = np.sqrt(spikes / float((active**2).mean())).astype(np.float32)
    drawn = generator.standard_normal((n, k), np.float32) * np.float32(noise**0.5)
    drawn += active[:, None] * (
        ray + (generator.standard_normal((n, tastes.rank), np.float32) * spread) @ tastes.basis.T
    )
    return drawn


def _ray(people: Points, active: Points) -> Points:
    """Return the direction that explains most of people who stand on it as they are active."""
    ray: Points = (active @ people) / np.float32(max(float(active @ active), 1e-30))
    return ray


def _rays(people: Points, active: Points, labels: NDArray[Any], count: int) -> Points:
    """Return the same of each group; of one without people, everybody's."""
    inside = (labels == np.arange(count)[:, None]).astype(np.float32)
    lengths = inside @ active**2
    rays: Points = ((inside * active) @ people) / np.maximum(lengths, np.float32(1e-30))[:, None]
    rays[~inside.any(axis=1)] = _ray(people, active)
    return rays


def _explained(people: Points, active: Points, rays: Points, which: Any) -> Any:
    """Return ‖x‖² − ‖x − a·r‖² of each person and the ray that is theirs."""
    along = np.einsum("nk,nk->n", people, np.broadcast_to(rays[which], people.shape))
    squares = np.einsum("nk,nk->n", rays, rays)[which]
    return 2 * active * along - active**2 * squares


class Stability(NamedTuple):
    """How well runs on halves of the people agree, beyond what they do in clouds without groups.

    Attributes
    ----------
    score : float
        1 is perfect agreement, 0 what Gaussian clouds reach; below 0 is less than those.
    value : float
        From 0, what Gaussian clouds reach and one standard error more, to 1.
    cut_short : bool
        Whether only as much was found out as that the score is at most what it says; the value is 0 then.
    """

    score: float
    value: float
    cut_short: bool = False

    @classmethod
    def of(cls, found: Floats, chance: Floats) -> "Stability":
        """Return the stability of agreements, given those in clouds."""
        agreement, by_chance = float(found.mean()), min(float(chance.mean()), 0.999)
        errors = found.var(ddof=1) / len(found), chance.var(ddof=1) / len(chance)
        zero = min(by_chance + float(sum(errors)) ** 0.5, 0.999)
        value = min(max((agreement - zero) / (1 - zero), 0.0), 1.0)
        return cls((agreement - by_chance) / (1 - by_chance), value)


NOT_STABLE = Stability(0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Some people of a release, by whom views are judged. Make one with :meth:`of`.

    Attributes
    ----------
    people : ndarray of float32 (n, dimension)
        Not centered.
    coordinates : Coordinates
    width : int
        Directions that are looked for among some of the coordinates.
    """

    people: Points
    coordinates: Coordinates
    width: int
    _folds: dict[int, list[Fold]] = field(default_factory=dict)
    _clouds: dict[int, tuple[Points, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, sketches: Sketches | StoredSketches, view: View) -> "Judge":
        """Return the judge of views like ``view``; people are evenly spaced ones."""
        coordinates = Coordinates.of(sketches.plan)
        n = int(min(_MOST, max(_MOST_NUMBERS // coordinates.dimension, _FEWEST)))
        return cls(sample(sketches, n, coordinates_of(sketches.plan)), coordinates, max(view.width, DIRECTIONS))

    def choose(self, count: int, views: Sequence[View]) -> View:
        """Return the view in which ``count`` groups say most."""
        if len(views) == 1 or not 1 < count <= len(self.people) or not self._held_out():
            return views[0]
        told = [told_by(self._held_out(), count, view) for view in views]
        plain = [(one, view) for one, view in zip(told, views, strict=True) if view.activity]
        rays = [(one, view) for one, view in zip(told, views, strict=True) if not view.activity]
        chosen = max(plain, key=lambda each: each[0].everything.mean())[1]
        for found, view in rays:
            rival = max((one for one, _ in plain), key=lambda one: one.tastes.mean())
            if _clearly_more(found, rival) and self._forms_groups(count, view, found):
                return view
        return chosen

    def stability(self, count: int, view: View, *, above: float = -1.0) -> Stability:
        """Return how well runs on halves of the people agree.

        The adjusted Rand index of two groupings of everybody, each fitted to one half, on average over eight splits,
        against the same in Gaussian clouds. Not stable are fewer than 10 people a group.

        Parameters
        ----------
        count : int
        view : View
        above : float
            Lower scores are of no interest: where it is out of reach, the value is 0 and the score an upper bound,
            found in half the time.
        """
        if count == 1 or len(self.people) < _FEWEST_EACH * count:
            return NOT_STABLE
        projected = view.project(self.coordinates.centered(self.people))
        seen = view.look(projected)
        found = np.array([_agreement(seen, count, seed) for seed in range(_HALVES)])
        if found.mean() <= above:  # the score is no higher, whatever chance does
            return Stability(float(found.mean()), 0.0, cut_short=True)
        if view.width not in self._clouds:
            self._clouds[view.width] = _gaussian(projected, range(_HALVES))
        chance = [_agreement(view.look(cloud), count, seed) for seed, cloud in enumerate(self._clouds[view.width])]
        return Stability.of(found, np.array(chance))

    def _held_out(self) -> list[Fold]:
        if 0 not in self._folds:
            self._folds[0] = folds_of(self.people, self.coordinates, self.width)
        return self._folds[0]

    def _forms_groups(self, count: int, view: View, found: Told) -> bool:
        """Return whether tastes form groups: they tell clearly more than those of people without groups."""
        told = []
        for seed in range(1, _CLOUDS + 1):
            if seed not in self._folds:
                made = without_groups(self.people, self.coordinates, self.width, seed)
                self._folds[seed] = folds_of(made, self.coordinates, self.width)
            told.append(told_by(self._folds[seed], count, view).tastes.mean())
        return bool(found.tastes.mean() > np.mean(told) + _CLEARLY * np.std(told, ddof=1))


def _clearly_more(one: Told, other: Told) -> bool:
    """Return whether groups tell more of tastes than others do, beyond chance in who is asked."""
    more = one.tastes - other.tastes
    return bool(more.mean() > _CLEARLY * more.std() / len(more) ** 0.5)


def _gaussian(people: Points, seeds: Sequence[int]) -> tuple[Points, ...]:
    """Return as many people for each seed, drawn from the Gaussian law with their covariances."""
    n, width = people.shape
    root = people - people.mean(axis=0)
    if width < n:
        variances, basis = np.linalg.eigh((root.T @ root).astype(np.float64) / n)
        root = (basis * np.sqrt(np.maximum(variances, 0.0))).astype(np.float32).T
    else:
        # Sums of the people themselves with Gaussian weights have their covariances, in any number of coordinates.
        root /= np.float32(n**0.5)
    drawn = (np.random.default_rng(seed).standard_normal((n, len(root)), np.float32) for seed in seeds)
    return tuple(weights @ root for weights in drawn)


def _agreement(seen: WeightedPoints, count: int, seed: int) -> float:
    order = np.random.default_rng(seed).permutation(len(seen.points))
    middle = len(seen.points) // 2
    halves = [seen.some(half).grouped(count, _RUNS_ON_HALVES) for half in (order[:middle], order[middle:])]
    return adjusted_rand_index(*(fitted.predict(seen.points) for fitted in halves))


def adjusted_rand_index(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return how well two groupings of people agree: 1 if they are the same, 0 on average if they are unrelated.

    As scikit-learn's ``adjusted_rand_score``, which takes longer to check labels than two small groupings take to make.

    Examples
    --------
    >>> adjusted_rand_index(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 2]))
    0.5714285714285714
    """
    width = int(other.max()) + 1
    shared = np.bincount(one.astype(np.int64) * width + other, minlength=(int(one.max()) + 1) * width)
    shared = shared.reshape(-1, width)
    in_both, in_one, in_other = (int((sizes**2).sum()) for sizes in (shared, shared.sum(axis=1), shared.sum(axis=0)))
    # Ordered pairs of people: together in both groupings, in one of them only, in neither.
    both, first, second = in_both - len(one), in_one - in_both, in_other - in_both
    neither = len(one) ** 2 - len(one) - both - first - second
    if first == second == 0:
        return 1.0
    chance = (both + first) * (first + neither) + (both + second) * (second + neither)
    return 2 * (both * neither - first * second) / chance
