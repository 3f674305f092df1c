"""Directions learned from a sample: recipes (singular vectors, groups, mixtures), compared on points of others.

Several recipes are tried, and the sample itself says which is best: each learns from a part of the people and is tried
out on the others, whose noisy sketches are asked what an analyst would ask. For segments: do they find the groups that
are found without noise? For neighbors: how near are those found? For distances: how much of them is explained? Floats
are allowed here, because everything is public; what comes out are integers, whose norms are taken after rounding.

How well the choice does, and what was tried and left out, is in docs/measurements.md ("Directions").
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import Any, Final, Literal, get_args

import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dimly.analyst.segments.cross_validation import adjusted_rand_index
from dimly.analyst.structure.denoise import shrinkage
from dimly.analyst.structure.one_thread import one_thread
from dimly.curator.options import READING, Options, check_keywords
from dimly.errors import ParameterError, as_integer, check_choice
from dimly.lab.sample import Sample, cosines_of, read_sample
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.projection.directions import (
    MAX_SCALE,
    PUBLIC_SEED,
    Buckets,
    Directions,
    bounded,
    rotated,
    rounded,
)
from dimly.planner.brief import DEFAULT_RESOLUTION
from dimly.privacy import VALUES_MOVED, Budget, Unit

Purpose = Literal["segments", "neighbors", "distances"]
Floats = NDArray[np.float64]

COUNTS: Final = (1, 2, 3, 4, 6, 8, 12)
"""Numbers of directions that are compared."""
GROUPS: Final = (2, 3, 4, 6, 8)
"""Numbers of segments that an analyst may ask for."""
CAPS: Final = (0.25, 0.5, 0.8)
SCALES: Final = (128, 64, 32, 16, 8)
_FOLDS: Final = 5
_REPEATS: Final = 8  # noisy sketches of each person who is judged by
_NEARLY: Final = 0.95  # of the best merit: what a few hundred people do not tell from it
_ENOUGH: Final = 2  # parts, after which recipes are dropped that are this far behind the best, and a little more
_BEHIND: Final = 0.3
_LEVEL: Final = 0.02
_STEPS: Final = 3  # of k-means, from where the groups are
_LEAST_JUDGED: Final = 12  # people, below whom there is nobody to hold back
_MOST_JUDGED: Final = 3_000  # people whom recipes are compared on; more would not change the choice
_MOST_GROUPED: Final = 20_000  # people who are grouped; the others join the groups found
_SMALL: Final = 2_000  # rows or columns up to which all singular vectors are computed
_STARTS: Final = 8
_LARGEST_COUNT: Final = 64


@dataclass(frozen=True, slots=True)
class Recipe:
    """One way from people to directions.

    Attributes
    ----------
    kind : {"singular", "scaled", "strongest", "contrasts", "votes"}
        Singular vectors; those of scaled people; those of people of the same length, each attribute along one alone;
        contrasts between groups; each attribute for or against one group.
    groups : {"k-means", "mixture", ""}
        How the groups were found.
    count : int
    cap : float
        Rows are bounded by this quantile of their ℓ₁ norms: the strongest attributes would set the noise for all.
    """

    kind: str
    groups: str
    count: int
    cap: float

    def __str__(self) -> str:
        how = {
            "singular": "singular vectors",
            "scaled": "singular vectors of people scaled by their weight and attributes by their frequency",
            "strongest": "singular vectors of people divided by their length, each attribute along its strongest alone",
            "contrasts": f"contrasts of {self.count + 1} groups found by {self.groups}",
            "votes": f"attributes for or against one of {self.count} groups found by {self.groups}",
        }[self.kind]
        return f"{how}, rows capped at their {self.cap:g} quantile"


@dataclass(frozen=True, slots=True)
class LearnedDirections:
    """Directions, and how they were chosen.

    Attributes
    ----------
    directions : Directions
    recipe : Recipe
    tried : dict of Recipe to float
        What every recipe that was compared reached on people who were not learned from, 1 without noise and 0 by
        chance; empty if the sample is too small to hold people back.
    """

    directions: Directions
    recipe: Recipe
    tried: dict[Recipe, float]

    @property
    def merit(self) -> float | None:
        """What the recipe reached; None if nothing was compared."""
        return self.tried.get(self.recipe)


def learn_directions(
    volunteers: Any,
    *,
    user: str | None = None,
    attribute: str | None = None,
    attributes: Any = None,
    columns: Any = None,
    value: str | None = None,
    count: int | Literal["auto"] = "auto",
    epsilon: float = 0.2,
    purpose: Purpose = "segments",
    groups: int | None = None,
    unit: Unit = "attribute",
    buckets: int | None = None,
    seed: bytes = PUBLIC_SEED,
    scale: int | None = None,
    origin: str | None = None,
    **reading: Any,
) -> Directions:
    """Learn directions from people whose data is public, or who agreed to its publication.

    They must not have been chosen by anything private, and must not be in the release. Rare attributes can be read from
    directions, so that what the volunteers agree to is the publication of their data.

    Parameters
    ----------
    volunteers : path, list of paths, data frame, Arrow table, array_like or SciPy sparse matrix
        As :func:`dimly.publish` takes them; at least two people, better some hundreds.
    user, attribute, attributes, columns, value : optional
        As of :func:`dimly.publish`.
    count : int or "auto", default="auto"
        How many directions, 1 to 64; by default as many as the sample and ``epsilon`` bear.
    epsilon : float, default=0.2
        Of the release that is planned: the smaller, the fewer and bolder the directions.
    purpose : {"segments", "neighbors", "distances"}, default="segments"
        What they are chosen for.
    groups : int, optional
        How many segments will be asked for, if that is known: 2 to 64.
    unit : {"attribute", "column"}, default="attribute"
        As the plan's.
    buckets : int, optional
        For an open vocabulary: one row for each of so many hash buckets, instead of one for each attribute.
    seed : bytes
        Of the buckets; public.
    scale : int, optional
        Entries are rounded to multiples of 1/scale; by default 128, or less if ``epsilon`` is so small that the noise
        would not fit its table.
    origin : str, optional
        Where the volunteers come from, in words; kept with the directions, and public.
    **reading
        ``users``, ``table``, ``query``, ``nulls``, ``values``, ``delimiter``, ``quote``, ``escape`` and ``encoding`` of
        :func:`dimly.publish`.

    Returns
    -------
    Directions
        The same for the same people, on the same machine.

    Raises
    ------
    ParameterError
        If the call cannot work, or the sample cannot tell anything.

    Examples
    --------
    >>> people = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 1, 1, 1]] * 5
    >>> directions = learn_directions(people, count=1, origin="four kinds of people")
    >>> directions.count, directions.scale, directions.sensitivity.l1
    (1, 128, 128)
    """
    check_keywords(
        reading, function="learn_directions", known=(*signature(learn_directions).parameters, *READING, "values")
    )
    options = Options(user=user, attribute=attribute, attributes=attributes, columns=columns, value=value, **reading)
    sample = read_sample(volunteers, options, unit=unit)
    if buckets is not None:
        sample = sample.in_buckets(Buckets(buckets, seed))
    return learn(
        sample, count=count, epsilon=epsilon, purpose=purpose, groups=groups, unit=unit, scale=scale, origin=origin
    ).directions


def fitting_scale(epsilon: float, *, unit: Unit, resolution: int) -> int:
    """Return the scale that directions are rounded at: 128, or less where the noise of a plan would not fit its table.

    Noise is then so much larger than an entry that a coarser grid costs next to nothing.

    Examples
    --------
    >>> fitting_scale(0.1, unit="attribute", resolution=1), fitting_scale(0.1, unit="attribute", resolution=16)
    (128, 64)
    """
    budget = Budget(min(max(epsilon, 1e-9), 100.0))  # beyond, every scale fits or none does
    room = DiscreteLaplace.largest_sensitivity(budget) // (VALUES_MOVED[unit] * resolution)
    return next((scale for scale in SCALES if scale <= room), SCALES[-1])


def learn(
    sample: Sample,
    *,
    count: int | Literal["auto"] = "auto",
    epsilon: float = 0.2,
    purpose: Purpose = "segments",
    groups: int | None = None,
    unit: Unit = "attribute",
    resolution: int | None = None,
    scale: int | None = None,
    origin: str | None = None,
) -> LearnedDirections:
    """Learn directions as :func:`learn_directions` does, and tell how they were chosen.

    ``unit`` and ``resolution`` are those of the plan; they matter where no scale is stated.
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ParameterError(f"epsilon must be a number above 0, got {epsilon!r}.")
    check_choice("purpose", purpose, get_args(Purpose))
    if groups is not None and (type(groups) is not int or not 2 <= groups <= _LARGEST_COUNT):
        raise ParameterError(f"groups must be 2 to {_LARGEST_COUNT} segments, or None, got {groups!r}.")
    if groups is not None and purpose != "segments":
        raise ParameterError(f"groups must be given for segments only, got purpose {purpose!r}.")
    table = sample.table
    if scale is None:
        steps = resolution or (1 if (table.data == 1).all() else DEFAULT_RESOLUTION)
        scale = fitting_scale(epsilon, unit=unit, resolution=steps)
    scale = as_integer("scale", scale, 1, MAX_SCALE)
    comparison = Comparison(sample, purpose=purpose, groups=groups, count=count)
    recipe = comparison.best(epsilon)
    directions = directions_by_recipe(
        sample, recipe, scale=scale, what_for=f"for {purpose} at epsilon {epsilon:g}", origin=origin
    )
    return LearnedDirections(directions, recipe, comparison.merits(epsilon))


def directions_by_recipe(
    sample: Sample, recipe: Recipe, *, scale: int, what_for: str, origin: str | None = None
) -> Directions:
    """Return the directions of people by a recipe."""
    with one_thread():
        matrix = bounded(_Ingredients(sample.table, recipe.count).loadings(recipe), recipe.cap)
    matrix *= np.where((matrix**3).sum(axis=0) < 0, -1.0, 1.0)  # a sign is arbitrary: the stronger end is positive
    matrix = matrix[:, matrix.any(axis=0)]  # a group that no attribute is strongest for would be noise alone
    words = origin or f"learned from {sample.table.shape[0]} people of {sample.name}"
    return Directions.of_values(
        sample.attributes,
        rounded(matrix, scale),
        scale=scale,
        kind="learned",
        origin=f"{words} ({recipe}; {what_for})",
    )


class _Ingredients:
    """What recipes are made of, computed once for a table."""

    def __init__(self, table: scipy.sparse.csr_array, most: int) -> None:
        self.table = table
        # Groups of n + 1 for n directions are looked for along two more than they are.
        self._most = min(int(table.shape[0]), int(table.shape[1]), most + 3)
        self._groups: dict[tuple[str, int], NDArray[np.int64]] = {}

    @cached_property
    def _plain(self) -> tuple[Floats, Floats]:
        return _singular(self.table, self._most)

    @cached_property
    def _leading(self) -> tuple[Floats, Floats]:
        return _singular(_scaled(self.table), self._most)

    @cached_property
    def _of_one_length(self) -> Floats:
        return _singular(_of_one_length(self.table), self._most)[0]

    def loadings(self, recipe: Recipe) -> Floats:
        """Return attributes × directions, neither bounded nor rounded."""
        if recipe.kind == "strongest":
            # An attribute's other entries would take room below its bound, for little that it tells along them.
            turned = rotated(self._of_one_length[:, : recipe.count])
            return np.where(np.arange(recipe.count) == np.abs(turned).argmax(axis=1)[:, None], turned, 0.0)
        if recipe.kind in ("singular", "scaled"):
            vectors = (self._plain if recipe.kind == "singular" else self._leading)[0]
            return rotated(vectors[:, : recipe.count])
        of = self.grouped(recipe.groups, recipe.count + (recipe.kind == "contrasts"))
        sizes = np.bincount(of)
        belongs = scipy.sparse.csr_array((np.ones(len(of)), (of, np.arange(len(of)))), shape=(len(sizes), len(of)))
        centers = np.asarray((belongs @ self.table).todense()) / np.maximum(sizes, 1)[:, None]
        apart = centers - np.asarray(self.table.mean(axis=0)).ravel()
        if recipe.kind == "votes":
            strongest = np.abs(apart).argmax(axis=0)
            return np.where(np.arange(len(sizes))[:, None] == strongest, apart, 0.0).T
        vectors = np.linalg.svd(apart * np.sqrt(sizes)[:, None], full_matrices=False)[2]
        return rotated(vectors[: recipe.count].T)

    def grouped(self, how: str, n_groups: int) -> NDArray[np.int64]:
        """Return the group of each person."""
        found = self._groups.get((how, n_groups))
        if found is None:
            found = self._k_means(n_groups) if how == "k-means" else self._mixture(n_groups)
            self._groups[how, n_groups] = found
        return found

    def _k_means(self, n_groups: int) -> NDArray[np.int64]:
        from sklearn.cluster import KMeans  # noqa: PLC0415  (slow to import)

        scores = self._leading[1][:, : n_groups + 2]
        search = KMeans(min(n_groups, len(np.unique(scores, axis=0))), n_init=_STARTS, random_state=0)
        found: NDArray[np.int64] = (
            search.fit(scores[_spread(len(scores), _MOST_GROUPED)]).predict(scores).astype(np.int64)
        )
        return found

    def _mixture(self, n_groups: int) -> NDArray[np.int64]:
        """Return groups by a mixture of multinomials, of the best of two starts: from k-means and from random ones."""
        some = self.table[_spread(self.table.shape[0], _MOST_GROUPED)]
        starts = self.grouped("k-means", n_groups)[_spread(self.table.shape[0], _MOST_GROUPED)]
        generator = np.random.default_rng(0)
        found = []
        for softness in (0.2, 1.0):
            belonging = (1 - softness) * np.eye(n_groups)[starts] + softness * generator.dirichlet(
                np.full(n_groups, 0.5), len(starts)
            )
            found.append(_fit_mixture(some, belonging))
        _, tastes, shares = max(found, key=lambda one: one[0])
        likeliest: NDArray[np.int64] = (self.table @ np.log(tastes).T + np.log(shares)).argmax(axis=1)
        return likeliest


def _fit_mixture(table: scipy.sparse.csr_array, belonging: Floats) -> tuple[float, Floats, Floats]:
    """Return the log-likelihood, tastes and shares of groups, by EM that starts soft (deterministic annealing)."""
    average = np.asarray(table.mean(axis=0)).ravel()
    prior = 2 * average + 1e-9 * average.sum() + 1e-12
    before, total = -math.inf, -math.inf
    for step in range(60):
        warmth = max(1.0, 8 * 0.8**step)
        shares = (belonging.sum(axis=0) + 1) / (len(belonging) + belonging.shape[1])
        tastes = (table.T @ belonging).T + prior
        tastes /= tastes.sum(axis=1, keepdims=True)
        likelihoods = table @ np.log(tastes).T + np.log(shares)
        largest = likelihoods.max(axis=1, keepdims=True)
        total = float((largest[:, 0] + np.log(np.exp(likelihoods - largest).sum(axis=1))).sum())
        belonging = np.exp((likelihoods - largest) / warmth)
        belonging /= belonging.sum(axis=1, keepdims=True)
        if warmth == 1.0 and total - before < 1e-6 * abs(total):
            break
        before = total
    return total, tastes, shares


class Comparison:
    """Recipes compared on people who were held back, a fifth of a sample by turns.

    Groups and singular vectors of the others do not depend on ε: they are found once, however many ε are asked about.
    """

    def __init__(
        self, sample: Sample, *, purpose: Purpose, groups: int | None = None, count: int | Literal["auto"] = "auto"
    ) -> None:
        table = sample.table
        if not (table.max(axis=0) - table.min(axis=0)).nnz:
            raise ParameterError("volunteers must differ from each other, but all of them have the same attributes.")
        most = min(table.shape[0] - 1, table.shape[1], _LARGEST_COUNT)
        if count != "auto" and (type(count) is not int or not 1 <= count <= most):
            raise ParameterError(
                f'count must be "auto" or 1 to {most}, which is what {table.shape[0]} people with {table.shape[1]} '
                f"attributes can tell, got {count!r}."
            )
        self._counts = [one for one in COUNTS if one <= most] if count == "auto" else [count]
        self._purpose = purpose
        # In an order of its own: neighbors in a file are often alike.
        chosen = np.random.default_rng(0).permutation(_spread(table.shape[0], _MOST_JUDGED))
        self._table = table[chosen]
        self._groups = [n for n in GROUPS if n <= max(2, len(chosen) // 8)] if groups is None else [groups]
        self._parts = [np.arange(len(chosen)) % _FOLDS == fold for fold in range(_FOLDS)]
        self._merits: dict[float, dict[Recipe, float]] = {}

    def best(self, epsilon: float) -> Recipe:
        """Return the best recipe; for segments, of those that are nearly as good, one with the fewest directions.

        Along further directions people differ within their groups, and k-means may follow those instead.
        """
        tried = self.merits(epsilon)
        if not tried:
            return Recipe("singular", "", self._counts[0], CAPS[1])
        best = max(tried.values())
        least = min(best, _NEARLY * best) if self._purpose == "segments" else best  # a merit may be negative
        near = [recipe for recipe, merit in tried.items() if merit >= least]
        return min(near, key=lambda recipe: (recipe.count, -tried[recipe]))

    def merits(self, epsilon: float) -> dict[Recipe, float]:
        """Return the mean merit of each recipe on people whom it did not learn from.

        Recipes that are far behind after two parts of the people are not compared on the others. Those who are too few
        to hold some back compare nothing.
        """
        if epsilon not in self._merits:
            import sklearn.cluster  # noqa: F401, PLC0415 (slow to import; its threads are limited only once it is loaded)

            with threadpool_limits(1):  # many small products, which threads only slow down
                enough = self._table.shape[0] >= _LEAST_JUDGED
                self._merits[epsilon] = self._compared(epsilon) if enough else {}
        return self._merits[epsilon]

    def _compared(self, epsilon: float) -> dict[Recipe, float]:
        found: dict[Recipe, list[float]] = {}
        for part, people in enumerate(self._learners):
            judge = self._judge(part, epsilon)
            for plain in _recipes(self._counts, people.table.shape, self._purpose):
                recipes = [replace(plain, cap=cap) for cap in CAPS]
                recipes = [recipe for recipe in recipes if part == 0 or recipe in found]
                if not recipes:
                    continue
                loadings = people.loadings(plain)
                for recipe in recipes:
                    found.setdefault(recipe, []).append(judge.merit(bounded(loadings, recipe.cap)))
            if part + 1 >= _ENOUGH:
                means = {recipe: float(np.mean(merits)) for recipe, merits in found.items()}
                best = max(means.values())
                found = {one: found[one] for one, mean in means.items() if mean >= best - _BEHIND * abs(best) - _LEVEL}
        return {recipe: float(np.mean(merits)) for recipe, merits in found.items() if len(merits) == _FOLDS}

    def _judge(self, part: int, epsilon: float) -> "_HeldOutPeople":
        held = self._parts[part]
        others = self._table[held]
        if self._purpose == "segments":
            return _Agreement(others, epsilon, [(of[held], weight) for of, weight in self._references])
        return (_Closeness if self._purpose == "neighbors" else _ExplainedDistances)(others, epsilon)

    @cached_property
    def _learners(self) -> list["_Ingredients"]:
        most = max(*self._counts, *self._groups)
        return [_Ingredients(self._table[~held], most) for held in self._parts]

    @cached_property
    def _references(self) -> list[tuple[NDArray[np.int64], float]]:
        """Groups of everybody, for each number of segments that may be asked for, and how much they count.

        Groups that come out otherwise as soon as some people are missing are no groups to be found again.
        """
        everyone = _Ingredients(self._table, max(self._groups))
        found = []
        for n in self._groups:
            of = everyone.grouped("mixture", n)
            several = zip(self._parts, self._learners, strict=True)
            sound = np.mean([adjusted_rand_index(of[~held], one.grouped("mixture", n)) for held, one in several])
            found.append((of, max(float(sound), 0.01) ** 2))
        return found


def _recipes(counts: Sequence[int], shape: tuple[int, int], purpose: Purpose) -> Iterator[Recipe]:
    for count in counts:
        if count <= min(shape[0] - 1, shape[1]):
            yield Recipe("singular", "", count, 0.0)
            yield Recipe("scaled", "", count, 0.0)
            if purpose == "neighbors":  # what is nearest by cosine; for segments, votes and contrasts do as much
                yield Recipe("strongest", "", count, 0.0)
        for groups in ("k-means", "mixture"):
            if count + 1 < shape[0] // 2:
                yield Recipe("contrasts", groups, count, 0.0)
                if count > 2:  # two groups are one contrast
                    yield Recipe("votes", groups, count, 0.0)


class _HeldOutPeople(ABC):
    """People whom nothing was learned from, and what their noisy sketches would be good for."""

    def __init__(self, table: scipy.sparse.csr_array, epsilon: float) -> None:
        self._table = table
        self._epsilon = epsilon

    @abstractmethod
    def merit(self, matrix: Floats) -> float:
        """Return how good directions with rows of ℓ₁ norm up to 1 are: 1 as without noise, 0 as by chance."""

    def _noisy(self, matrix: Floats, repeats: int) -> Floats:
        """Return noisy sketches, ``repeats`` of each person; every recipe meets the same noise."""
        sketches = np.tile(self._table @ matrix, (repeats, 1))
        return sketches + np.random.default_rng(0).laplace(scale=1 / self._epsilon, size=sketches.shape)


class _ExplainedDistances(_HeldOutPeople):
    """For distances: the share of squared distances that the best linear prediction from noisy sketches explains.

    With Z the sketches, Y the people, both centered, and v = 2/ε² the variance of the noise, that prediction explains
    tr((Cov Z + vI)⁻¹ Cov(Z, Y) Cov(Y, Z)). A person's own part is left out (a U-statistic): chance explains no others.
    """

    def __init__(self, table: scipy.sparse.csr_array, epsilon: float) -> None:
        super().__init__(table, epsilon)
        mean = np.asarray(table.mean(axis=0)).ravel()
        self._spread = np.asarray((table * table).sum(axis=1)).ravel() - 2 * (table @ mean) + mean @ mean

    def merit(self, matrix: Floats) -> float:
        sketches = self._table @ matrix
        sketches = sketches - sketches.mean(axis=0)
        n = len(sketches)
        inverse = np.linalg.inv(sketches.T @ sketches / (n - 1) + 2 / self._epsilon**2 * np.eye(matrix.shape[1]))
        across = self._table.T @ sketches
        own = np.einsum("ij,jk,ik->i", sketches, inverse, sketches) @ self._spread
        return float((np.sum(inverse * (across.T @ across)) - own) / (n * (n - 1)) / max(self._spread.mean(), 1e-12))


class _Closeness(_HeldOutPeople):
    """For neighbors: the cosine of those found beyond that of anybody, as a share of the true neighbors' own.

    Found as an analyst finds them, among denoised points, by distance or by cosine, whichever finds the nearer ones.
    """

    def __init__(self, table: scipy.sparse.csr_array, epsilon: float) -> None:
        super().__init__(table, epsilon)
        self._cosines = cosines_of(table)
        n = len(self._cosines)
        self._asked = max(1, min(10, n // 10))
        self._usual = self._cosines[~np.eye(n, dtype=bool)].mean()
        self._nearest = np.sort(self._cosines, axis=1)[:, n - self._asked :].mean()

    def merit(self, matrix: Floats) -> float:
        noisy = self._noisy(matrix, _REPEATS)
        mean = noisy.mean(axis=0)
        deviations = noisy - mean
        n, count = noisy.shape
        variances, basis = np.linalg.eigh(deviations.T @ deviations / n)
        gains = shrinkage(variances, 2 / self._epsilon**2, count / n)
        points = deviations @ basis * (gains if gains.any() else 1.0)
        from_zero = points + mean @ basis
        from_zero /= np.maximum(np.linalg.norm(from_zero, axis=1, keepdims=True), 1e-9)
        near = []
        for vectors in (points, from_zero):
            people = np.split(vectors, _REPEATS)
            near.append(np.mean([self._found(2 * one @ one.T - (one**2).sum(axis=1)) for one in people]))
        return float((max(near) - self._usual) / max(self._nearest - self._usual, 1e-9))

    def _found(self, likeness: Floats) -> float:
        """Return the true cosine of those who seem most alike, on average."""
        np.fill_diagonal(likeness, -np.inf)
        rest = len(likeness) - self._asked
        nearest = np.argpartition(likeness, rest, axis=1)[:, rest:]
        return float(np.take_along_axis(self._cosines, nearest, axis=1).mean())


class _Agreement(_HeldOutPeople):
    """For segments: the adjusted Rand index of segments of noisy sketches and of groups found without noise.

    How many segments an analyst will ask for is not known: it is a weighted mean over several numbers. Each person
    stands for many, with noise of their own. k-means starts from where the groups are and takes a few steps: where it
    leaves them for something else that people differ in, as along too many directions, an analyst's would, too.
    """

    def __init__(
        self, table: scipy.sparse.csr_array, epsilon: float, groups: Sequence[tuple[NDArray[np.int64], float]]
    ) -> None:
        super().__init__(table, epsilon)
        self._groups = groups

    def merit(self, matrix: Floats) -> float:
        points = self._noisy(matrix, _REPEATS)
        found = []
        for groups, _ in self._groups:
            of = np.tile(groups, _REPEATS)
            sizes = np.bincount(of)
            centers = _centers(points, of, len(sizes))[sizes > 0]
            for _ in range(_STEPS):
                segments = _nearest(points, centers)
                taken = np.unique(segments)
                centers[taken] = _centers(points, segments, len(centers))[taken]
            segments = _nearest(points, centers)
            found.append(adjusted_rand_index(of, segments))
        return float(np.average(found, weights=[weight for _, weight in self._groups]))


def _centers(points: Floats, of: NDArray[np.int64], n_groups: int) -> Floats:
    """Return the average point of each group, zero for one without members."""
    sums = np.stack([np.bincount(of, column, minlength=n_groups) for column in points.T], axis=1)
    averages: Floats = sums / np.maximum(np.bincount(of, minlength=n_groups), 1)[:, None]
    return averages


def _nearest(points: Floats, centers: Floats) -> NDArray[np.int64]:
    nearest: NDArray[np.int64] = (points @ centers.T - (centers**2).sum(axis=1) / 2).argmax(axis=1)
    return nearest


def _spread(n: int, most: int) -> NDArray[np.int64]:
    """Return at most so many of n positions, evenly spread."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.int64)


def _scaled(table: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return people divided by the root of their weight, and attributes by that of their frequency.

    As in correspondence analysis: neither heavy people nor common attributes hide the others. Frequencies below a tenth
    of the mean count as that, so that the rarest do not, either.
    """
    weights = np.asarray(table.sum(axis=1)).ravel()
    people = np.sqrt(weights.mean() / np.maximum(weights, 1e-9)) * (weights > 0)
    frequencies = np.asarray(table.T @ people).ravel() / len(people)
    usual = frequencies.sum() / max(1, np.count_nonzero(frequencies))
    return scipy.sparse.csr_array(
        scipy.sparse.diags_array(people)
        @ table
        @ scipy.sparse.diags_array(1 / np.sqrt(np.maximum(frequencies + 0.1 * usual, 1e-12)))
    )


def _of_one_length(table: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return people divided by their length: inner products are then cosines."""
    lengths = np.sqrt(np.asarray((table * table).sum(axis=1)).ravel())
    return scipy.sparse.csr_array(scipy.sparse.diags_array(1 / np.maximum(lengths, 1e-9)) @ table)


def _singular(table: scipy.sparse.csr_array, count: int) -> tuple[Floats, Floats]:
    """Return the leading right singular vectors of the centered table, and the people along them."""
    n, d = table.shape
    mean = np.asarray(table.mean(axis=0), np.float64).ravel()
    if n <= _SMALL:
        gram = np.asarray((table @ table.T).todense(), np.float64)
        gram += gram.mean() - gram.mean(axis=0) - gram.mean(axis=1)[:, None]
        values, left = np.linalg.eigh(gram)
        values, left = np.maximum(values[::-1][:count], 0), left[:, ::-1][:, :count]
        vectors = table.T @ left - np.outer(mean, left.sum(axis=0))
        vectors /= np.maximum(np.sqrt(values), 1e-6 * math.sqrt(max(values.max(initial=0), 1e-30)))
    elif d <= _SMALL:
        moments = np.asarray((table.T @ table).todense(), np.float64) - n * np.outer(mean, mean)
        vectors = np.linalg.eigh(moments)[1][:, ::-1][:, :count]
    else:
        centered = scipy.sparse.linalg.LinearOperator(
            (n, d),
            matvec=lambda one: table @ one.ravel() - mean @ one.ravel(),
            rmatvec=lambda one: table.T @ one.ravel() - mean * one.sum(),
            dtype=np.float64,
        )
        found = scipy.sparse.linalg.svds(centered, k=count, v0=np.ones(min(n, d)), return_singular_vectors="vh")
        vectors = found[2][::-1].T
    return vectors, table @ vectors - mean @ vectors
