"""``Neighbors`` of one person or vector: chooses a space, scans the release once, estimates."""

import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dimly.analyst.estimate import PARTS, Arrays, Estimate, Vector
from dimly.analyst.neighbors.expected_precision import expected_true, likely_range
from dimly.analyst.neighbors.spaces import BitSpace, DenoisedSpace, Metric, SketchSpace, Space
from dimly.analyst.pairs import (
    BitReader,
    ChosenSide,
    Published,
    Reader,
    SketchReader,
    Who,
    at_limit,
    chosen,
    lost_rows,
)
from dimly.display import MOST_ROWS, Shown, data_frame, percent
from dimly.errors import ParameterError
from dimly.mechanisms.error.models import Floats
from dimly.plots import ladder
from dimly.progress import OnProgress
from dimly.release.reader import in_turn

if TYPE_CHECKING:
    from dimly.analyst.release import Release

Positions = NDArray[np.int64]

_MOST_MISSED = 0.3
_BLOCK = 1 << 18  # published numbers; as floats 1 MB


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The nearest people, the nearest first; people equally near in the order of their ids.

    Whoever has a saturated number comes last, and their estimate is NaN: nothing is known of them.

    Attributes
    ----------
    users : ndarray
        Ids: (n,) of one, (users, n) of everybody, in the order of the release.
    estimates : Estimate of arrays
        Of the same shape. Euclidean: the squared distances; else the cosines or Jaccard similarities. Each value is the
        unbiased one, moved into its interval if it is outside. They need not be in order, least of all where ranking is
        by denoised points. Of people who were picked as the nearest of many, distances are on the low side. Where
        people are published along directions, ``estimates.measure`` says that these are along them.
    metric : {"euclidean", "cosine", "jaccard"}
    denoised : bool
        Whether ranking was by denoised points.
    recall, recall_stderr : float, optional
        Where an index was asked: the part of the exact search's ten nearest that it finds, on average over people, and
        the standard error of that, measured when it was made. None: the search was exact.
    """

    users: NDArray[Any]
    estimates: Arrays
    metric: Metric
    denoised: bool
    recall: float | None = None
    recall_stderr: float | None = None
    _expect: Callable[[], float] = field(repr=False, kw_only=True)
    _others: int = field(repr=False, kw_only=True)

    @cached_property
    def expected(self) -> float:
        """How many of the people listed can be expected to be among those truly nearest; of everybody, on average.

        From the release's own noise, structure and size; see docs/measurements.md. NaN where nothing is known.
        """
        return self._expect()

    @property
    def expected_range(self) -> tuple[int, int]:
        """Between which numbers the true neighbors of one such list lie in nine cases of ten."""
        return likely_range(self.expected, self.users.shape[-1], others=self._others)

    @property
    def words(self) -> str:
        """How many of the people listed can be expected to be true neighbors, and whether all were looked at."""
        if self.recall is None or self.recall_stderr is None:
            return self._told
        found = f"{percent(self.recall)} (± {percent(1.96 * self.recall_stderr)})"
        return (
            f"{self._told} Approximate: on average, the index finds {found} of the nearest people of an exact search."
        )

    @property
    def _told(self) -> str:
        n = self.users.shape[-1]
        everybody = self.users.ndim > 1
        if math.isnan(self.expected):
            return "How many of these are true neighbors is not known: nothing is known about the person asked about."
        low, high = self.expected_range
        listed = f"{'each' if everybody else 'these'} {n}"
        told = f"between {low} and {high} of {listed} can be expected to be among the {n} truly nearest."
        return f"Mostly noise: {told}" if self.expected < n / 2 else told[0].upper() + told[1:]

    @property
    def words_on_order(self) -> str:
        """What the ranks of a list go by, and why its estimates may be in another order."""
        if self.denoised:
            return (
                "Rank 1 is the best guess, by denoised numbers. The estimates come from the numbers as published, so "
                "they need not be in the same order."
            )
        return "Rank 1 is the best guess, without denoising. The estimates need not be in quite the same order."

    def __len__(self) -> int:
        return len(self.users)

    def __iter__(self) -> Iterator[tuple[Any, "Estimate[float]"] | tuple[Any, ...]]:
        """Go through (user, estimate), nearest first; of everybody, through the neighbors of each."""
        if self.users.ndim > 1:
            return iter(map(tuple, self.users.tolist()))
        numbers = zip(*(getattr(self.estimates, part).tolist() for part in PARTS), strict=True)
        estimates = (Estimate(*four, measure=self.estimates.measure) for four in numbers)
        return zip(self.users.tolist(), estimates, strict=True)

    def __repr__(self) -> str:
        return self._shown().text()

    def _repr_html_(self) -> str:
        return self._shown().html()

    def _shown(self) -> Shown:
        what = self.estimates.measure or ("squared distance" if self.metric == "euclidean" else self.metric)
        if self.users.ndim > 1:
            return Shown(f"The {self.users.shape[1]} nearest of {len(self):,} people by {what}", [self.words])
        rows = [
            (rank, str(user), one.value, one.low, one.high)
            for rank, (user, one) in enumerate(islice(self, MOST_ROWS), start=1)
        ]
        header = ("rank", "user", what, "low", "high")
        return Shown(
            f"{len(self)} nearest people", [self.words, self.words_on_order], header, rows, len(self) - len(rows)
        )

    def plot(self, *, ax: Any = None) -> Any:
        """Draw how near each one is, with its interval, the best guess first; return the axes."""
        if self.users.ndim > 1:
            raise ParameterError(
                "plot draws the neighbors of one person, got everybody's. Use release.neighbors(user).plot()."
            )
        what = self.estimates.measure or ("squared distance" if self.metric == "euclidean" else self.metric)
        each = self.estimates
        ax = ladder(each.value, each.low, each.high, names=list(map(str, self.users.tolist())), ax=ax, what=what)
        ax.set_title(textwrap.fill(self.words, 55), fontsize="small", loc="left")
        return ax

    def to_pandas(self) -> Any:
        """Return a data frame: rank, user, value, stderr, low and high; of everybody, one row for each pair.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        n = self.users.shape[-1]
        everybody = self.users.ndim > 1
        columns: dict[str, Any] = {"position": np.repeat(np.arange(len(self)), n)} if everybody else {}
        columns["rank"] = np.tile(np.arange(1, n + 1), self.users.size // max(n, 1))
        columns["neighbor" if everybody else "user"] = self.users.reshape(-1).tolist()
        return data_frame(columns | {part: getattr(self.estimates, part).reshape(-1) for part in PARTS})


def nearest_to(
    release: "Release", who: Who, n: int | None, *, metric: Metric, denoise: bool, progress: OnProgress | None
) -> Neighbors:
    """Return the nearest people of one; see :meth:`Release.neighbors`."""
    sketches = release._sketches
    side = chosen(sketches, who)
    if len(side) != 1:
        raise ParameterError(f"neighbors must be of one user or vector, got {len(side)}. Use neighbor_graph for all.")
    n = check(release, n, metric, others=len(sketches) - side.noisy)
    space = space_of(release, metric, denoise=denoise)
    positions = _by_distances(sketches, side, n) if space is None else _by_reading(space, side, n, progress)
    return neighbors_at(release, side, ChosenSide(sketches, positions[:n]), metric=metric, space=space)


def neighbors_at(
    release: "Release",
    side: ChosenSide,
    found: ChosenSide,
    *,
    metric: Metric,
    space: Space | None,
    recall: float | None = None,
    recall_stderr: float | None = None,
) -> Neighbors:
    """Return people who were found, the nearest first, with their estimates."""
    assert found.positions is not None  # noqa: S101
    whom = side if side.vector is None else side.vector

    def expected() -> float:
        return expected_true(release, whom, len(found), metric=metric, space=space)

    return Neighbors(
        users=release._sketches.named(found.positions),
        estimates=estimate(release, metric)(whom, found).possible,
        metric=metric,
        denoised=isinstance(space, DenoisedSpace),
        recall=recall,
        recall_stderr=recall_stderr,
        _expect=expected,
        _others=len(release._sketches) - side.noisy,
    )


USUAL: Final = 10
"""How many neighbors are returned where nobody says how many."""


def check(release: "Release", n: Any, metric: Metric, *, others: int) -> int:
    """Return how many to search for, of so many others; refuse what cannot be searched for.

    Raises
    ------
    ParameterError
        If n is no number of other people, or the metric is not one of the release's.
    """
    if metric not in get_args(Metric):
        raise ParameterError(f"metric must be 'euclidean', 'cosine' or 'jaccard', got {metric!r}.")
    if others < 1:
        raise ParameterError("neighbors must be searched for among other people, and this release has none.")
    if n is None:
        n = min(USUAL, others)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ParameterError(f"n must be an integer of at least 1, got {n!r}.")
    if n > others:
        raise ParameterError(f"n must be at most the {others} other people of this release, got {n}.")
    if metric == "jaccard":
        release._need_bits("Jaccard similarity")
    if metric != "euclidean":
        release._need_reader("inner products")
    return int(n)


_SPACES: Final[dict[type[Reader], Any]] = {SketchReader: SketchSpace, BitReader: BitSpace}


def space_of(release: "Release", metric: Metric, *, denoise: bool) -> Space | None:
    """Return how people of a release are compared; None where their distances are published."""
    reader = release._reader
    if reader is None:
        return None
    floor = float(np.sqrt(release.plan.error.distance(one_sided=True, weights=(0.0, 0.0))(0.0)))
    raw: SketchSpace | BitSpace = _SPACES[type(reader)](reader, metric, floor)
    # Where nothing rises above the noise there is nothing to rank by but the points as they are; and these rank better
    # where most of what sets people apart lies in directions that were not searched.
    denoiser = release.denoiser if denoise else None
    useful = denoiser is not None and denoiser.rank and not (denoiser.searched and denoiser.missed >= _MOST_MISSED)
    return DenoisedSpace.of(raw, denoiser) if denoiser is not None and useful else raw


def estimate(release: "Release", metric: Metric) -> Callable[[Any, Any], Arrays]:
    """Return the question that a metric asks of pairs."""
    return {"euclidean": release.distances, "cosine": release.cosine, "jaccard": release.jaccard}[metric]


def smallest(keys: Floats, n: int) -> Positions:
    """Return where the n smallest keys are, in order; of equal ones those that come first."""
    if n < len(keys):
        limit = np.partition(keys, n - 1)[n - 1]
        candidates = np.flatnonzero(keys <= limit)
    else:
        candidates = np.arange(len(keys))
    order = np.argsort(keys[candidates], kind="stable")[:n]
    return candidates[order]


def own_threads() -> Any:
    """Leave the cores to our own threads for a while: matrix products inside of them shall not start others."""
    return threadpool_limits(1, user_api="blas")


def _by_reading(space: Space, side: ChosenSide, n: int, progress: OnProgress | None) -> Positions:
    sketches, step = side.sketches, side.sketches.users_per_part
    own = side.vector
    mine = side.rows
    one = space.rows(mine) if own is None else space.own(own)
    blank = own is None and bool(lost_rows(mine)[0])
    more = n + (own is None)

    limit = np.inf  # nobody beyond is among the nearest; every part may lower it

    def search(part: int) -> tuple[Floats, Positions]:
        nonlocal limit
        published = sketches.read_values(part)
        # Of somebody with a saturated number nothing is known, and nobody is near them.
        keys = np.full(len(published), np.inf) if blank else _keys(space, one, published, own=own, n=more, limit=limit)
        found = smallest(keys, more)
        if len(found) == more:
            limit = min(limit, float(keys[found[-1]]))
        return keys[found], found + part * step

    keys, positions = np.empty(0), np.empty(0, np.int64)
    with own_threads():
        for part, (more_keys, more_positions) in enumerate(in_turn(search, range(sketches.n_parts))):
            keys, positions = np.concatenate([keys, more_keys]), np.concatenate([positions, more_positions])
            best = smallest(keys, more)
            keys, positions = keys[best], positions[best]
            if progress is not None:
                progress(min((part + 1) * step, len(sketches)), len(sketches))
    return _without(positions, side)[:n]


def _keys(
    space: Space, one: NDArray[Any], published: NDArray[Any], *, own: Vector | None, n: int, limit: float
) -> Floats:
    """Return the keys of one with everybody of a part that are within the limit, in blocks that fit into a cache."""
    keys = np.empty(len(published))
    step = max(1, _BLOCK // published.shape[1])
    for start in range(0, len(published), step):
        block = published[start : start + step]
        found = space.near(one, block, limit=limit, own=own)
        within = np.flatnonzero(found <= limit)
        found[within[lost_rows(block[within])]] = np.inf
        if n <= len(within) < len(published):
            limit = min(limit, float(np.partition(found, n - 1)[n - 1]))
        keys[start : start + step] = found
    return keys


def _by_distances(sketches: Published, side: ChosenSide, n: int) -> Positions:
    if side.positions is None:
        raise ParameterError("noisy distances hold pairs of published people only. Publish sketches instead.")
    everyone = np.arange(len(sketches))
    steps = sketches.pairs(np.broadcast_to(side.positions, everyone.shape), everyone)
    keys = np.where(at_limit(steps), np.inf, steps.astype(np.float64))
    keys[side.positions] = -np.inf
    return _without(smallest(keys, n + 1), side)


def _without(positions: Positions, side: ChosenSide) -> Positions:
    return positions if side.positions is None else positions[positions != side.positions[0]]
