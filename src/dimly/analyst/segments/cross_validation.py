"""How groups are judged: by coordinates held out of k-means, clouds without groups, stability of halves.

Groups are judged by numbers that they were not made from. Each coordinate of a sketch has noise of its own and mostly
attributes of its own. So whatever groups that were made from three quarters of the coordinates explain of the last
quarter, they have not read off its noise, nor off single people's own tastes: it is what attributes have in common. The
averages that predict are taken over half of the people and judged by the other half. All views are judged by the same
numbers, so that they compare whatever their scales.

Of the plain views, in which activity may set people apart, the one is taken whose groups explain most; the first one,
if none of them explains anything. Rays are taken only with proof: their groups explain clearly more of tastes than
those of any plain view, and are more stable than pieces of a cloud of tastes without groups, among people who are as
active. Where either is missing, the plain view stays.

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
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.segments.k_means import DIRECTIONS, View, WeightedPoints
from dimly.analyst.structure import kernels
from dimly.analyst.structure.coordinates import Coordinates, JoinedCoordinates, Points, coordinates_of, sample
from dimly.analyst.structure.denoise import Denoiser
from dimly.mechanisms.error.models import Floats
from dimly.release.reader import StoredSketches, for_all
from dimly.release.sketches import Sketches

_Found = TypeVar("_Found")

_MOST = 2000  # people looked at
_MOST_NUMBERS = 1 << 24  # of them
_FEWEST = 200
_CLEARLY = 2.0  # standard errors
_SURELY = 5.0  # standard errors by which some folds decide for all
_HALVES = 8  # pairs of them
_RUNS_ON_HALVES = 3
_FEWEST_EACH = 10  # people a group, for its stability to be told
_STABLE = 0.3  # rays, to be groups
_FOLDS = 4  # ways to hold coordinates out
_RUNS = 2


class _Once(cached_property[_Found]):
    """A cached property without its lock, which in Python 3.11 all objects share: threads would wait in turn."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return what was found before, or find it."""
        if instance is None:
            return self
        kept = instance.__dict__
        if self.attrname not in kept:
            kept[self.attrname] = self.func(instance)
        return kept[self.attrname]


class Explained(NamedTuple):
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


@dataclass(frozen=True, eq=False)
class Fold:
    """Some people's coordinates in two parts, each centered by itself, so that neither tells of the other.

    Attributes
    ----------
    people : ndarray of float32 (n, k)
    held_out : ndarray of bool (k,)
        Coordinates that groups are judged by.
    coordinates : Coordinates
    width : int
        Directions that are looked for.
    """

    people: Points
    held_out: NDArray[np.bool_]
    coordinates: Coordinates
    width: int
    _seen: dict[tuple[int, bool, int], WeightedPoints] = field(default_factory=dict)
    _projected: dict[int, Points] = field(default_factory=dict)

    @_Once
    def shown(self) -> Points:
        """What groups are made from: (n, k − h)."""
        return self._centered(~self.held_out)

    @_Once
    def hidden(self) -> Points:
        """What they are judged by: (n, h)."""
        return self._centered(self.held_out)

    @_Once
    def denoiser(self) -> Denoiser:
        """Of what is shown."""
        return Denoiser.of_points(self.shown, self.coordinates, most=self.width)

    def _centered(self, which: NDArray[np.bool_]) -> Points:
        # Joined releases have several averages each, which are taken off over all of a release's coordinates before.
        part: Points = self.people[:, which]
        return part if isinstance(self.coordinates, JoinedCoordinates) else self.coordinates.centered(part)

    def prepare(self) -> None:
        """Compute what all views of these people share, before threads would each do so."""
        _ = self.hidden, self._active, self._first_half

    def explained(self, count: int, view: View) -> Explained:
        """Return what ``count`` groups explain that are found in a view like the given one, of what is shown."""
        here = View.of(self.denoiser, denoise=view.width > 0, count=count)
        here = View(self.denoiser, here.width, view.activity, min(view.plain, here.width))
        labels = self._looked_at(here).grouped(count, _RUNS).labels
        found = Explained(np.empty(len(labels)), np.empty(len(labels)))
        for explained, standing in zip(found, (self._active, np.ones_like(self._active)), strict=True):
            kernels.explain(self.hidden, standing, self._first_half, labels, count, explained)
        return found

    @_Once
    def _active(self) -> Points:
        everyone = View(self.denoiser, self.denoiser.rank)
        return everyone.active(everyone.project(self.shown))

    @_Once
    def _first_half(self) -> NDArray[np.bool_]:
        """The people who are asked about what the others predict, and the other way round."""
        return np.random.default_rng(0).permutation(len(self.people)) < len(self.people) // 2

    def _looked_at(self, view: View) -> WeightedPoints:
        """Return what is seen of what is shown, which hardly depends on the number of groups."""
        kind = view.width, view.activity, view.plain
        if kind not in self._seen:
            if view.width not in self._projected:
                self._projected[view.width] = view.project(self.shown)
            self._seen[kind] = view.look(self._projected[view.width])
        return self._seen[kind]


def folds_of(people: Points, coordinates: Coordinates, width: int) -> list[Fold]:
    """Return people in several ways to hold coordinates out; none where there are too few coordinates.

    Parameters
    ----------
    people : ndarray of float32 (n, k)
        Not centered.
    coordinates : Coordinates
    width : int
        Directions that are looked for.
    """
    k = people.shape[1]
    n_folds = min(_FOLDS, k // 2)
    if n_folds < 2:
        return []
    people = coordinates.centered(people) if isinstance(coordinates, JoinedCoordinates) else people
    places = np.random.default_rng(0).permutation(k) % n_folds
    return [Fold(people, places == fold, coordinates, width) for fold in range(n_folds)]


@dataclass(frozen=True, slots=True, eq=False)
class ViewComparison:
    """What so many groups explain in several views, fold by fold.

    Views are compared by the same people, so that the first fold often tells them apart beyond doubt: the other folds
    are computed only where it does not.
    """

    folds: Sequence[Fold]
    count: int
    _explained: dict[View, list[Explained]] = field(default_factory=dict)

    def explained_by(self, view: View, n_folds: int) -> Explained:
        """Return what groups in a view explain of the coordinates of the first folds, each held out once."""
        explained = self._explained.setdefault(view, [])
        explained += [fold.explained(self.count, view) for fold in self.folds[len(explained) : n_folds]]
        tastes, everything = (sum(parts) for parts in zip(*explained[:n_folds], strict=True))
        return Explained(tastes, everything)

    def _each_explained_by(self, views: Sequence[View], n_folds: int) -> dict[View, Explained]:
        """Return the same for several views, which threads look at side by side."""
        for fold in self.folds[:n_folds]:
            fold.prepare()
        return dict(zip(views, for_all(lambda view: self.explained_by(view, n_folds), views), strict=True))

    def best(self, views: Sequence[View]) -> View:
        """Return the view in which groups explain most of everything; the first, if none of them explains anything.

        Then they are all alike. The denoised view may still show groups with everybody, of whom only some judge.
        """
        left = list(views)
        for n_folds in range(1, len(self.folds) + 1):
            explained = {view: found.everything for view, found in self._each_explained_by(left, n_folds).items()}
            first = max(left, key=lambda view: explained[view].mean())
            left = [view for view in left if _lead(explained[first], explained[view]) < _SURELY]
            if len(left) == 1:
                break
        return first if explained[first].mean() > 0 else views[0]

    def leads(self, one: View, others: Sequence[View]) -> bool:
        """Return whether groups in a view explain clearly more of tastes than in any other, whoever is asked."""
        left = list(others)
        for n_folds in range(1, len(self.folds) + 1):
            explained = {view: found.tastes for view, found in self._each_explained_by([one, *left], n_folds).items()}
            rival = max(left, key=lambda view: explained[view].mean())
            lead = _lead(explained[one], explained[rival])
            if abs(lead) > _SURELY:
                break
            left = [view for view in left if _lead(explained[rival], explained[view]) < _SURELY]
        return lead > _CLEARLY


def _lead(one: Floats, other: Floats) -> float:
    """Return by how many standard errors one view tells more of the same people than another."""
    more = one - other
    return float(more.mean() / max(more.std() / len(more) ** 0.5, 1e-30))


class Stability(NamedTuple):
    """How well runs on halves of the people agree, beyond what they do in clouds without groups.

    Attributes
    ----------
    score : float
        1 is perfect agreement, 0 what clouds reach; below 0 is less than those.
    value : float
        From 0, what clouds reach and one standard error more, to 1.
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
class ViewJudge:
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
    _folds: list[Fold] = field(default_factory=list)
    _clouds: dict[tuple[int, bool], tuple[Points, ...]] = field(default_factory=dict)
    _stabilities: dict[tuple[int, View], Stability] = field(default_factory=dict)

    @classmethod
    def of(cls, sketches: Sketches | StoredSketches, view: View) -> "ViewJudge":
        """Return the judge of views like ``view``; people are evenly spaced ones."""
        coordinates = Coordinates.of(sketches.plan)
        n = int(min(_MOST, max(_MOST_NUMBERS // coordinates.dimension, _FEWEST)))
        return cls(sample(sketches, n, coordinates_of(sketches.plan)), coordinates, max(view.width, DIRECTIONS))

    def choose(self, count: int, views: Sequence[View]) -> View:
        """Return the view in which ``count`` groups say most."""
        if len(views) == 1 or not 1 < count <= len(self.people) or not self._held_out():
            return views[0]
        comparison = ViewComparison(self._held_out(), count)
        plain = [view for view in views if view.activity]
        for rays in (view for view in views if not view.activity):
            if comparison.leads(rays, plain) and self.stability(count, rays, above=_STABLE).score > _STABLE:
                return rays
        return comparison.best(plain)

    def stability(self, count: int, view: View, *, above: float = -1.0) -> Stability:
        """Return how well runs on halves of the people agree.

        The adjusted Rand index of two groupings of everybody, each fitted to one half, on average over eight splits,
        against the same in clouds: people whose covariances are the same, or those of whose tastes are, and who form no
        groups. Not stable are fewer than 10 people a group.

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
        if (count, view) in self._stabilities:
            return self._stabilities[count, view]
        projected = view.project(self.coordinates.centered(self.people))
        seen = view.look(projected)
        found = np.array(for_all(lambda seed: _agreement(seen, count, seed), range(_HALVES)))
        if found.mean() <= above:  # the score is no higher, whatever chance does
            return Stability(float(found.mean()), 0.0, cut_short=True)
        kind = view.width, view.activity
        if kind not in self._clouds:
            self._clouds[kind] = (_gaussian if view.activity else _of_any_taste)(projected, view)
        clouds = self._clouds[kind]
        chance = for_all(lambda seed: _agreement(view.look(clouds[seed]), count, seed), range(_HALVES))
        self._stabilities[count, view] = Stability.of(found, np.array(chance))
        return self._stabilities[count, view]

    def _held_out(self) -> list[Fold]:
        if not self._folds:
            self._folds.extend(folds_of(self.people, self.coordinates, self.width))
        return self._folds


def _gaussian(projected: Points, _: View) -> tuple[Points, ...]:
    """Return as many people for each pair of halves, drawn from the Gaussian law with their covariances."""
    n, width = projected.shape
    root = projected - projected.mean(axis=0)
    if width < n:
        variances, basis = np.linalg.eigh((root.T @ root).astype(np.float64) / n)
        root = (basis * np.sqrt(np.maximum(variances, 0.0))).astype(np.float32).T
    else:
        # Sums of the people themselves with Gaussian weights have their covariances, in any number of coordinates.
        root /= np.float32(n**0.5)
    drawn = (np.random.default_rng(seed).standard_normal((n, len(root)), np.float32) for seed in range(_HALVES))
    return tuple(weights @ root for weights in drawn)


def _of_any_taste(projected: Points, view: View) -> tuple[Points, ...]:
    """Return as many people for each pair of halves, as active, whose tastes are Gaussian with their covariances.

    Tastes spread around one ray of everybody, and the more active a person is, the farther; noise is the same for all.
    """
    active, noise = view.active(projected), view.denoiser.coordinates.noise_variance
    people = projected + view.average
    ray = (active @ people) / np.float32(max(float(active @ active), 1e-30))
    own = people - np.outer(active, ray)
    tastes = Denoiser.of_points(own, view.denoiser.coordinates, most=max(view.width, DIRECTIONS))
    spread = np.sqrt(np.maximum(tastes.variances - noise, 0.0) / (active**2).mean())
    axes = (tastes.basis * spread.astype(np.float32)).T

    def drawn(seed: int) -> Points:
        generator = np.random.default_rng(seed)
        cloud = generator.standard_normal(people.shape, np.float32) * np.float32(noise**0.5)
        cloud += active[:, None] * (ray + generator.standard_normal((len(people), len(axes)), np.float32) @ axes)
        return cloud - view.average

    return tuple(drawn(seed) for seed in range(_HALVES))


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
