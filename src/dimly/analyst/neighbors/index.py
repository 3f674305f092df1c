"""An approximate index for one person after another among millions: cells, measured recall.

People are put into cells by k-means on what they are ranked by. A question looks at the people of the cells that are
nearest to the person, and ranks them by the same keys as the scan of everybody: whoever lies in another cell is missed.
How many of the scan's neighbors are found is measured when the index is made, with people drawn at random who had no
part in choosing how many cells are looked at. Only published numbers are used: an index costs nothing in privacy.

References
----------
H. Jégou et al., "Product quantization for nearest neighbor search", IEEE TPAMI 33 (2011), on inverted files.
"""

import hashlib
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dimly.analyst.disk_cache import KeptValues, cells_kept, forget_cells, keep_cells, values_kept
from dimly.analyst.estimate import Vector
from dimly.analyst.neighbors.query import (
    Neighbors,
    Positions,
    check,
    nearest_to,
    neighbors_at,
    space_of,
)
from dimly.analyst.neighbors.spaces import DenoisedSpace, SketchSpace, Space
from dimly.analyst.pairs import ChosenSide, Who, chosen, lost_rows
from dimly.analyst.segments.k_means import Grouping
from dimly.analyst.structure.coordinates import Points, known, parts_of, sample
from dimly.display import percent
from dimly.errors import ParameterError, ReleaseError
from dimly.progress import OnProgress
from dimly.release.reader import StoredSketches
from dimly.release.sketches import Sketches

if TYPE_CHECKING:
    from dimly.analyst.release import Release

_MOST_CELLS = 4096
_TAUGHT = 32  # people a cell, by whom cells are found
_ROUNDS = 10
_TUNING, _TESTING = 128, 256  # people by whom cells to look at are chosen, and by whom recall is measured
_LISTED = 10  # of each
_LEAST = 200  # people looked at: a small release is searched whole


class IndexCells(NamedTuple):
    """Who is in which cell.

    Attributes
    ----------
    centers : ndarray of float32 (cells, width)
    starts : ndarray of int64 (cells + 1,)
        Where the people of each cell begin.
    order : ndarray of int64
        Positions of people, cell by cell, ascending within; without those of whom nothing is known.
    rows : ndarray
        What the space keeps of them, in that order; on disk for a release on disk, where there is a cache folder.
    n_probed : int
        Cells that are looked at.
    recall : float
        Part of the ten nearest that was found so.
    recall_stderr : float
        Its standard error.
    """

    centers: Points
    starts: Positions
    order: Positions
    rows: NDArray[Any]
    n_probed: int
    recall: float
    recall_stderr: float


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Answers who is near whom without looking at everybody. Make one with :meth:`Release.index`.

    Attributes
    ----------
    recall, recall_stderr : float
        Part of the ten nearest of the exact search that is found, on average over people, and the standard error of
        that; measured when the index was made. Of one person's ten it may be several fewer.
    looked_at : float
        Part of all people that a question looks at, about.
    """

    _release: "Release"
    _space: Space
    _cells: IndexCells
    _detail: str
    _values: KeptValues | None

    @property
    def recall(self) -> float:
        """Part of the ten nearest of the exact search that is found, on average."""
        return self._cells.recall

    @property
    def recall_stderr(self) -> float:
        """Standard error of the recall: it was measured with some people, drawn at random."""
        return self._cells.recall_stderr

    @property
    def looked_at(self) -> float:
        """Part of all people that a question looks at, about."""
        return self._cells.n_probed / len(self._cells.centers)

    def __repr__(self) -> str:
        return (
            f"Index({len(self._release):,} people in {len(self._cells.centers):,} cells, "
            f"recall {self.recall:.2f} ± {1.96 * self.recall_stderr:.2f}, "
            f"looks at {percent(self.looked_at, 1)} of them)"
        )

    def neighbors(self, who: Who, n: int | None = None) -> Neighbors:
        """Return about the n nearest people of a user; see :meth:`Release.neighbors`, and ``recall`` of the answer.

        Estimates and intervals are those of the exact search for the same people.

        Raises
        ------
        ParameterError
            If n cannot be, the user is not in the release, or it is a vector of one's own.
        """
        release, space, cells = self._release, self._space, self._cells
        if isinstance(who, Vector):
            raise ParameterError("an index answers for people of the release. Use release.neighbors for a vector.")
        side = self._fetched(chosen(release._sketches, who))
        if len(side) != 1:
            raise ParameterError(f"neighbors must be of one user, got {len(side)}. Use neighbor_graph for all.")
        n = check(release, n, "euclidean", others=len(release) - 1)
        mine = side.rows
        most = _least_people(release, n)
        if lost_rows(mine)[0] or most >= len(cells.order):
            denoise = isinstance(space, DenoisedSpace)
            return nearest_to(release, who, n, metric="euclidean", denoise=denoise, progress=None)
        order = np.argsort(_squares_from(_asking(space, mine), cells.centers)[0], kind="stable")
        probed = order[: max(cells.n_probed, _cells_with(most, order, cells.starts))]
        keys, places = _nearest_of(space, space.rows(mine), cells, probed, n + 1)
        near = np.lexsort((cells.order[places], keys))  # of equal keys, the first in the release
        assert side.positions is not None  # noqa: S101
        near = near[cells.order[places[near]] != side.positions[0]][:n]
        found = self._fetched(ChosenSide(release._sketches, cells.order[places[near]]))
        if not np.allclose(space.rows(found.rows), cells.rows[places[near]], rtol=1e-3, atol=1e-3):
            forget_cells(release._sketches, self._detail)
            raise ReleaseError("the index in the cache folder is not of this release. It was removed: ask again.")
        return neighbors_at(
            release,
            side,
            found,
            metric="euclidean",
            space=space,
            recall=self.recall,
            recall_stderr=self.recall_stderr,
        )

    def _fetched(self, side: ChosenSide) -> ChosenSide:
        """Return the same people with their rows: kept ones, or else from row groups that are decoded for it."""
        assert side.positions is not None  # noqa: S101
        rows = None if self._values is None else self._values.take(side.positions)
        return side.fetched() if rows is None else replace(side, held=rows)


def _least_people(release: "Release", n: int) -> int:
    """Return among how many people n neighbors are searched for at least."""
    return min(max(n, _LEAST), len(release) - 1)


def _cells_with(most: int, order: Positions, starts: Positions) -> int:
    """Return how many cells, in a given order, hold so many people besides oneself."""
    people = np.diff(starts)[order].cumsum()
    return int(np.searchsorted(people, most + 1)) + 1


def _nearest_of(
    space: Space, one: NDArray[Any], cells: IndexCells, probed: Positions, n: int
) -> tuple[NDArray[np.float64], Positions]:
    """Return the n smallest keys of one with the people of some cells, and all equal to the last; and who they are.

    The nearest cells come first: what was found in them is a limit beyond which nobody is looked at closely.
    """
    rows = np.asarray(cells.rows)
    keys, places, limit = np.empty(0), np.empty(0, np.int64), np.inf
    for start, stop in zip(cells.starts[probed].tolist(), cells.starts[probed + 1].tolist(), strict=True):
        found = space.keys(one, rows[start:stop], limit=limit)
        near = np.flatnonzero(found <= limit)
        if not len(near):
            continue
        keys, places = np.concatenate([keys, found[near]]), np.concatenate([places, start + near])
        if len(keys) >= n:
            limit = float(np.partition(keys, n - 1)[n - 1])
            within = keys <= limit
            keys, places = keys[within], places[within]
    return keys, places


def index_of(release: "Release", *, denoise: bool, recall: Any, progress: OnProgress | None) -> Index:
    """Return an index of the people of a release, kept or made; see :meth:`Release.index`."""
    if isinstance(recall, bool) or not isinstance(recall, int | float) or not 0 < recall < 1:
        raise ParameterError(f"recall must be in (0, 1), got {recall!r}.")
    space = space_of(release, "euclidean", denoise=denoise)
    if space is None:
        raise ParameterError("an index needs people as points, and noisy distances give none. Use neighbors.")
    if len(release) < 2:
        raise ParameterError(f"an index needs two people at least, got {len(release)}.")
    # Whatever cells depend on beside the release: another map of the same release has other cells.
    matrix = space.matrix if isinstance(space, DenoisedSpace) else np.zeros(0)
    detail = f"{recall!r} {hashlib.sha256(np.ascontiguousarray(matrix).tobytes()).hexdigest()}"
    kept = cells_kept(release._sketches, detail, like=space.rows(release._sketches.take(np.zeros(1, np.int64))))
    if kept is None:
        made = _cells(release, space, recall, progress)
        facts = np.array([made.n_probed, made.recall, made.recall_stderr])
        rows = keep_cells(release._sketches, detail, (made.centers, made.starts, made.order, facts), made.rows)
        return Index(release, space, made._replace(rows=rows), detail, values_kept(release._sketches))
    (centers, starts, order, facts), rows = kept
    n_probed, *measured = facts.tolist()
    cells = IndexCells(centers, starts, order, rows, int(n_probed), *measured)
    return Index(release, space, cells, detail, values_kept(release._sketches))


def _cells(release: "Release", space: Space, recall: float, progress: OnProgress | None) -> IndexCells:
    from sklearn.cluster import KMeans  # noqa: PLC0415 (slow to import)

    sketches, n = release._sketches, len(release)
    n_cells = min(max(int(2 * n**0.5), 1), _MOST_CELLS, n)
    generator = np.random.default_rng(0)
    asked = np.sort(generator.choice(n, min(_TUNING + _TESTING, n), replace=False))
    mine = sketches.take(asked)
    asked, mine = asked[known(mine)], mine[known(mine)]
    nearest = _Nearest(space, space.rows(mine), asked)
    labels = np.full(n, -1, np.int64)
    # One thread adds up in the same order always. Where many are published alike, some cells stay empty, of which
    # scikit-learn warns.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Number of distinct clusters")
        taught = sample(sketches, _TAUGHT * n_cells, lambda part: _vectors(space, part, space.rows(part)))
        if not len(taught):
            raise ParameterError("an index needs people without saturated numbers, but this release holds none.")
        n_cells = min(n_cells, len(taught))
        fitted = KMeans(n_cells, init="random", n_init=1, max_iter=_ROUNDS, random_state=0).fit(taught)
        grouping = Grouping(fitted.labels_, fitted.cluster_centers_.astype(np.float32))
        for start, part in parts_of(sketches, None):
            sure = known(part)
            rows = space.rows(part[sure])
            if len(rows):
                vectors = _vectors(space, part[sure], rows)
                labels[start : start + len(part)][sure] = grouping.predict(vectors)
                nearest.offer(start + np.flatnonzero(sure), rows)
            if progress is not None:
                progress(start + len(part), n)
        everybody = np.flatnonzero(labels >= 0)
        order = everybody[np.argsort(labels[everybody], kind="stable")]
        rows = _sorted_rows(space, sketches, order, labels >= 0)
    starts = np.concatenate([[0], np.bincount(labels[order], minlength=n_cells).cumsum()])
    # When a question comes to the cells of those that it should find: some of the people asked tell how many cells to
    # look at, the others how well that does.
    orders = np.argsort(_squares_from(_asking(space, mine), grouping.centers), axis=1, kind="stable")
    true = nearest.positions
    reached = np.take_along_axis(np.argsort(orders, axis=1), np.where(true < 0, 0, labels[true]), axis=1)
    is_tuning = generator.permutation(len(asked)) < len(asked) * _TUNING // (_TUNING + _TESTING)
    tuning = np.sort(reached[is_tuning][true[is_tuning] >= 0])
    n_probed = int(tuning[int(np.ceil(recall * len(tuning))) - 1]) + 1 if len(tuning) else n_cells
    most = _least_people(release, _LISTED)
    probed = [max(n_probed, _cells_with(most, nearest_cells, starts)) for nearest_cells in orders[~is_tuning]]
    exists = true[~is_tuning] >= 0
    shares = ((reached[~is_tuning] < np.reshape(probed, (-1, 1))) & exists).sum(axis=1) / np.maximum(
        exists.sum(axis=1), 1
    )
    return IndexCells(grouping.centers, starts, order, rows, n_probed, *_mean_and_error(shares))


def _mean_and_error(shares: NDArray[np.float64]) -> tuple[float, float]:
    """Return the average of parts that were found, and its standard error.

    The error is that with one more person, of whose neighbors none was found: however many were found of all others,
    such people may exist, and it is never zero.
    """
    if not len(shares):  # nothing is known of anybody who was asked, so that all cells are looked at
        return 1.0, 0.0
    return float(shares.mean()), float(np.append(shares, 0.0).std(ddof=1) / np.sqrt(len(shares) + 1))


def _sorted_rows(
    space: Space, sketches: Sketches | StoredSketches, order: Positions, sure: NDArray[np.bool_]
) -> NDArray[Any]:
    """Return what the space keeps of people, in a given order: read once more, so that they are in memory only once."""
    places = np.empty(len(sure), np.int64)
    places[order] = np.arange(len(order))
    rows = None
    for start, part in parts_of(sketches, None):
        here = sure[start : start + len(part)]
        made = space.rows(part[here])
        if rows is None:
            rows = np.empty((len(order), made.shape[1]), made.dtype)
        rows[places[start : start + len(part)][here]] = made
    assert rows is not None  # noqa: S101
    return rows


class _Nearest:
    """The nearest people of some, found while everybody is read."""

    def __init__(self, space: Space, rows: NDArray[Any], own: Positions) -> None:
        self._space, self._rows, self._own = space, rows, own
        self._keys = np.full((len(rows), _LISTED), np.inf, np.float32)
        self.positions = np.full((len(rows), _LISTED), -1, np.int64)

    def offer(self, positions: Positions, rows: NDArray[Any]) -> None:
        """Look at some people, who come after all before."""
        if not len(self._rows):
            return
        tile = self._space.tile(self._rows, rows)
        places = np.minimum(np.searchsorted(positions, self._own), len(positions) - 1)
        here = np.flatnonzero(positions[places] == self._own)
        tile[here, places[here]] = np.inf
        for i, keys in enumerate(tile):
            near = np.flatnonzero(keys < self._keys[i, -1])
            if len(near) > _LISTED:  # as among the first: few of them are worth sorting
                near = near[keys[near] <= np.partition(keys[near], _LISTED - 1)[_LISTED - 1]]
            both = np.concatenate([self._keys[i], keys[near]])
            best = np.argsort(both, kind="stable")[:_LISTED]
            self._keys[i], self.positions[i] = both[best], np.concatenate([self.positions[i], positions[near]])[best]


def _vectors(space: Space, published: NDArray[Any], rows: NDArray[Any]) -> Points:
    """Return the vectors whose squared distances are the keys of a space, up to a factor."""
    if isinstance(space, SketchSpace):
        return space.vectors(rows)
    return rows if isinstance(space, DenoisedSpace) else _bits(published)


def _bits(published: NDArray[Any]) -> Points:
    return np.unpackbits(published, axis=1, bitorder="little").astype(np.float32)


def _asking(space: Space, published: NDArray[Any]) -> Points:
    """Return the vectors of people whose neighbors are wanted."""
    vectors = _vectors(space, published, space.rows(published))
    return space.asking(vectors) if isinstance(space, DenoisedSpace) else vectors


def _squares_from(vectors: Points, centers: Points) -> Any:
    """Return squared distances from centers, up to the squared length of each vector."""
    return np.einsum("nk,nk->n", centers, centers) - 2 * vectors @ centers.T
