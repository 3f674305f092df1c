"""Public people published among made-up children of others; how right neighbors, groups and distances come out.

What denoising and segments find depends on how many people are published, and a sample has few. So the people who are
judged stand among made-up ones: children of those who are not judged. A child has about half of its attributes from
one person and the others from somebody like that person, so that tastes go together as they do in the sample, while no
child is a copy that denoising could learn by heart. Nothing is ever asked about the children.

Everything is published by the plan itself, with noise from its own table, and asked by the analyst's own code.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dimly.analyst.neighbors.query import space_of
from dimly.analyst.neighbors.spaces import Metric
from dimly.analyst.release import Release
from dimly.analyst.segments.segments import labels_of
from dimly.api import publish_public
from dimly.lab.directions.from_sample import GROUPS
from dimly.lab.sample import cosines_of, squared_distances_of
from dimly.lab.simulate import agreement
from dimly.mechanisms.plan import Plan
from dimly.privacy import Budget

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
FigureName = Literal["error", "ranking", "closeness", "recall", "agreement"]

N_NEIGHBORS: Final = 10
SHARES: Final = (0.01, 0.02, 0.05, 0.1)
"""Parts of the people who are judged, as how many neighbors are asked for."""
LEAST_SHARE: Final = 1e-3
"""Ten neighbors of more people than this says are taken to be as those of ten thousand."""
_METRICS: Final[tuple[Metric, ...]] = ("euclidean", "cosine")
_REPEATS: Final = 6  # each person who is judged is published so many times, with noise of their own
_ALIKE: Final = 5  # people whom the other half of a child may come from
_NO_NOISE: Final = 32.0  # an epsilon at which noise is 0 but once in 10¹³
_WIDTH: Final = 512  # of the sketch that groups are found in without noise
_NEARLY: Final = 0.1  # difference of soundness that chance makes
_HALVES: Final = 2
_GROUPED: Final = 1_000  # people whose halves are compared
_MULTIPLIERS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True, eq=False)
class JudgedPeople:
    """People who are judged, followed by children of the others.

    Attributes
    ----------
    table : csr_array
        The people who are judged, all of them several times, and then the children.
    n_judged : int
        People who are judged.
    repeats : int
        How often each of them is published.
    listed : ndarray of bool
        Attributes that somebody has who is not judged: what a list made from the others would hold.
    """

    table: scipy.sparse.csr_array
    n_judged: int
    repeats: int
    listed: NDArray[np.bool_]
    _groups: dict[int, NDArray[np.int32]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, table: scipy.sparse.csr_array, judged: NDArray[np.bool_], *, size: int, seed: int = 0
    ) -> "JudgedPeople":
        """Return ``size`` people, or as many as are judged, if these are more."""
        people, others = table[judged], table[~judged]
        n_judged = int(people.shape[0])
        repeats = max(1, min(_REPEATS, size // (4 * n_judged)))
        rest = size - repeats * n_judged
        parts = [people] * repeats + ([children(others, rest, seed=seed)] if rest > 0 else [])
        whole = scipy.sparse.csr_array(scipy.sparse.vstack(parts, format="csr"))
        return cls(whole, n_judged, repeats, np.asarray(others.sum(axis=0)).ravel() > 0)

    def published(self, plan: Plan, attributes: Sequence[str]) -> Release:
        """Return everybody as published by a plan; what a closed list made from the others lacks is left out."""
        if plan.vocabulary is not None and plan.vocabulary.size < len(attributes):
            names = self.names(attributes)
            return publish_public(scipy.sparse.csr_array(self.table[:, self.listed]), plan, attributes=names)
        return publish_public(self.table, plan, attributes=attributes)

    def names(self, attributes: Sequence[str]) -> list[str]:
        """Return the attributes that a list made from the others would hold."""
        return [name for name, kept in zip(attributes, self.listed, strict=True) if kept]

    def measured(
        self, release: Release, figures: Iterable[FigureName], *, n_groups: int = 0, n_users: int = 0
    ) -> dict[str, float]:
        """Return what a release of these people is good for.

        Parameters
        ----------
        release : Release
        figures : iterable of {"error", "ranking", "closeness", "recall", "agreement"}
            ``error``: root mean square error of squared distances, as a part of their mean. ``ranking``: how often of a
            near and a far pair (below the lower, above the upper quartile) the near one is estimated to be nearer.
            ``closeness``: how much more alike (by cosine) the ten nearest are than anybody, as a part of what the true
            ten are, by the metric that finds the nearer ones. ``recall``: the share of true ones among a tenth of those
            who are judged. ``agreement``: adjusted Rand index of segments and those found without noise.
        n_groups, n_users : int
            Segments that are asked for; people among whom ten neighbors are looked for.
        """
        wanted = set(figures)
        found: dict[str, float] = {}
        if wanted & {"error", "ranking"}:
            found |= self._distances(release)
        if wanted & {"closeness", "recall"}:
            several = [self._neighbors(release, metric, n_users) for metric in _METRICS]
            found |= several[int(np.argmax([one["closeness"] for one in several]))]
        if "agreement" in wanted:
            found["agreement"] = agreement(self.groups(n_groups), labels_of(release, n_groups)[: self._n_rows])
        return {name: value for name, value in found.items() if name in wanted}

    def groups(self, count: int) -> NDArray[np.int32]:
        """Return the segments of those who are judged that are found without noise, by asking in the same way."""
        if count not in self._groups:
            self._groups[count] = labels_of(self._noiseless, count)[: self._n_rows]
        return self._groups[count]

    @cached_property
    def soundness(self) -> dict[int, float]:
        """How well groups of two halves of the people agree, for several numbers of them, without noise."""
        from sklearn.cluster import KMeans  # noqa: PLC0415  (slow to import)

        if self._noiseless.denoiser.rank == 0:
            return {}  # they differ in nothing
        points = np.asarray(self._noiseless.export.numpy(denoise=True), np.float64)
        points = points[:: max(1, len(points) // _GROUPED)]
        points = points - points.mean(axis=0)
        most = min(2 * max(GROUPS), *points.shape)
        points = points @ np.linalg.svd(points.T @ points)[0][:, :most]
        generator = np.random.default_rng(0)
        found: dict[int, list[float]] = {}
        with threadpool_limits(1):  # many small fits, which threads only slow down
            for _ in range(_HALVES):
                half = generator.permutation(len(points)) < len(points) // 2
                for count in GROUPS:
                    if 8 * count <= len(points):
                        one, other = (
                            KMeans(count, n_init=3, random_state=0).fit(points[which]).predict(points)
                            for which in (half, ~half)
                        )
                        found.setdefault(count, []).append(agreement(one, other))
        return {count: float(np.mean(values)) for count, values in found.items()}

    @property
    def soundest(self) -> int:
        """The largest number of groups that come out nearly as well again as any other number does."""
        best = max(self.soundness.values(), default=0.0)
        return max((count for count, value in self.soundness.items() if value >= best - _NEARLY), default=2)

    @property
    def _n_rows(self) -> int:
        return self.n_judged * self.repeats

    @property
    def _people(self) -> scipy.sparse.csr_array:
        return self.table[: self.n_judged]

    @cached_property
    def _noiseless(self) -> Release:
        resolution = 1 if not len(self.table.data) or bool((self.table.data == 1).all()) else 16
        plan = Plan.of("hashing+laplace", Budget(_NO_NOISE), k=_WIDTH, seed=bytes(32), resolution=resolution)
        return publish_public(self.table, plan)

    @cached_property
    def _true(self) -> tuple[Rows, Rows, Floats]:
        """Pairs of people who are judged, and their squared distances."""
        return squared_distances_of(self._people)

    def _distances(self, release: Release) -> dict[str, float]:
        a, b, true = self._true
        estimates = np.stack(
            [release.distances(a + start, b + start).value for start in range(0, self._n_rows, self.n_judged)]
        )
        low, high = np.quantile(true, [0.25, 0.75])
        near, far = np.flatnonzero(true <= low), np.flatnonzero(true >= high)
        generator = np.random.default_rng(0)
        count = max(len(near), len(far))
        first, second = generator.choice(near, count), generator.choice(far, count)
        before = np.nanmean(estimates[:, first] < estimates[:, second])
        error = float(np.sqrt(np.nanmean((estimates - true) ** 2)))
        return {"error": error / max(float(true.mean()), 1e-9), "ranking": float(before)}

    @cached_property
    def _cosines(self) -> Floats:
        return cosines_of(self._people)

    @cached_property
    def _nearest(self) -> Rows:
        """Everybody's others, the most alike first."""
        return np.argsort(-self._cosines, axis=1)

    def _neighbors(self, release: Release, metric: Metric, n_users: int) -> dict[str, float]:
        space = space_of(release, metric, denoise=True)
        if space is None:
            return {"closeness": 0.0, "recall": 0.0}
        cosines, n = self._cosines, self.n_judged
        share = max(N_NEIGHBORS / max(n_users, n), LEAST_SHARE)
        tops = sorted({max(1, round(share * n)), *(max(1, round(one * n)) for one in SHARES)})
        found: dict[int, list[float]] = {top: [] for top in tops}
        recalled = []
        usual = float(cosines[~np.eye(n, dtype=bool)].mean())
        order = self._nearest
        for start in range(0, self._n_rows, n):
            rows = space.rows(release.values[start : start + n])
            keys = np.array(space.tile(rows, rows), np.float64)
            np.fill_diagonal(keys, np.inf)
            nearest = np.argsort(keys, axis=1)
            for top in tops:
                best = float(np.take_along_axis(cosines, order[:, :top], axis=1).mean())
                near = float(np.take_along_axis(cosines, nearest[:, :top], axis=1).mean())
                found[top].append((near - usual) / max(best - usual, 1e-9))
            least = np.take_along_axis(cosines, order[:, tops[-1] - 1 : tops[-1]], axis=1)
            recalled.append(float((np.take_along_axis(cosines, nearest[:, : tops[-1]], axis=1) >= least).mean()))
        values = [float(np.mean(found[top])) for top in tops]
        # Ten of many are a smaller part than one of few.
        near = values[0] if share * n >= 1 else extrapolated([top / n for top in tops], values, share)
        return {"closeness": near, "recall": float(np.mean(recalled))}


def extrapolated(shares: Sequence[float], values: Sequence[float], share: float) -> float:
    """Return a value at a smaller share of the people, by a line over the logarithms of shares.

    Examples
    --------
    >>> round(extrapolated([0.01, 0.1], [0.3, 0.4], 0.001), 3)
    0.2
    """
    if len(shares) < 2:
        return values[0]
    slope, start = np.polyfit(np.log(shares), values, 1)
    return float(start + slope * np.log(share))


def children(table: scipy.sparse.csr_array, count: int, *, seed: int = 0) -> scipy.sparse.csr_array:
    """Return made-up people: about half of the attributes of one, and others of somebody like them.

    As many of the other's as the first has, so that activity is as uneven as it is among the parents.
    """
    generator = np.random.default_rng(seed)
    n = int(table.shape[0])
    weights = np.asarray(table.sum(axis=1), np.float64).ravel()
    alike = np.argsort(-cosines_of(table), axis=1)[:, : max(1, min(_ALIKE, n - 1))]
    first = generator.integers(n, size=count)
    second = alike[first, generator.integers(alike.shape[1], size=count)]
    half = np.full(count, 0.5)
    other = np.minimum(0.5 * weights[first] / np.maximum(weights[second], 1e-9), 1.0)
    return scipy.sparse.csr_array(
        _kept(table[first], half, seed, upper=False).maximum(_kept(table[second], other, seed, upper=True))
    )


def _kept(table: scipy.sparse.csr_array, chances: Floats, seed: int, *, upper: bool) -> scipy.sparse.csr_array:
    """Return entries that a number of each person and attribute keeps: at the lower end, or at the upper."""
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    mixed = (rows.astype(np.uint64) << np.uint64(32)) + table.indices.astype(np.uint64) + np.uint64(seed)
    mixed *= _MULTIPLIERS[0]
    for multiplier in _MULTIPLIERS[1:]:  # SplitMix64
        mixed ^= mixed >> np.uint64(29)
        mixed *= multiplier
    number = (mixed >> np.uint64(11)).astype(np.float64) / 2**53
    keep = number >= 1 - chances[rows] if upper else number < chances[rows]
    counts = np.bincount(rows[keep], minlength=table.shape[0])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return scipy.sparse.csr_array((table.data[keep], table.indices[keep], indptr), shape=table.shape)
