"""``most_likely``: distances of pairs by maximum likelihood, climbing rates of shared and own attributes.

The unbiased estimate adds up squares, of which most are noise where k is large. The likelihood knows which published
numbers noise alone would hardly make. Its estimates are not negative, and so too large on average next to zero.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from dimly.analyst.estimate import Arrays, Estimate, choose
from dimly.analyst.likelihood import kernels
from dimly.analyst.likelihood.rate_grid import MOST_BITS, Grid, Nodes, grid_of
from dimly.analyst.pairs import ComparedPairs, Pairs, pieces
from dimly.errors import ParameterError
from dimly.mechanisms.error.bounds import normal_quantile
from dimly.mechanisms.error.models import Floats
from dimly.mechanisms.plan import Plan

Method = Literal["unbiased", "likelihood"]

_PIECE = 1 << 14  # pairs at a time
_ROUNDS = 8  # most pairs need three
_STEPS = [1.25, 2.5, 3.75, *(5 * 1.4 ** np.arange(24))]
"""How far from the estimate, in standard errors, the ends of its interval are looked for."""
_STRAIGHT = 0.75  # gaps rise by as many standard errors about as a straight line does
_HALVINGS = 5
_DISTANCE, _GAP, _RATES = 0, 1, slice(2, 5)  # of places


def check_method(method: str, plan: Plan) -> None:
    """Refuse a method that there is not, or not for this plan.

    Raises
    ------
    ParameterError
        If so.
    """
    if method not in get_args(Method):
        raise ParameterError(f"method must be 'unbiased' or 'likelihood', got {method!r}.")
    if method == "likelihood":
        grid_of(plan, None)


def most_likely(
    compared: ComparedPairs, unbiased: Callable[[], Arrays], *, plan: Plan, confidence: float, largest: float
) -> Arrays:
    """Return the most likely squared distances of pairs of which one side at least is noisy.

    Parameters
    ----------
    compared : ComparedPairs
        Both sides, and moments, from which the search begins.
    unbiased : callable
        Asked for unbiased estimates of these pairs if some have published numbers beyond −128 … 127, of which there
        are no tables.
    plan : Plan
        Of counting or hashing, on bits.
    confidence : float
        In (0, 1).
    largest : float
        Largest squared distance there can be.

    Returns
    -------
    Estimate
        In [0, largest]. The interval is by profile likelihood: the squared distances at which the most likely numbers
        of attributes are not too much less likely than those of the estimate. The standard error is by Fisher's
        information there.

    Raises
    ------
    ParameterError
        If the plan has no likelihood here.
    """
    x, y, pairs, same, lost = compared
    wanted = ~(same | lost)
    k = plan.published_shape(1)[-1]
    total = None if y.noisy else y.total / k
    search = _Search(grid_of(plan, total), 0.0 if total is None else total, largest / k, _Cutoff.of(confidence))
    found = np.empty((4, len(lost)))
    start = 0
    for side_x, side_y in pieces(x, y):
        rows_x, rows_y = side_x.rows, side_y.rows.astype(side_x.rows.dtype, copy=False)
        n = min(len(lost) - start, max(len(rows_x), len(rows_y)))
        for first in range(0, n, _PIECE):
            piece = slice(first, min(n, first + _PIECE))
            whole = slice(start + piece.start, start + piece.stop)
            some_x, some_y = (rows if len(rows) == 1 else rows[piece] for rows in (rows_x, rows_y))
            found[:, whole] = search.all_of(some_x, some_y, _first_rates(pairs, whole, k), wanted[whole])
        start += n
    value, stderr, low, high = found * k
    # Which rounding may exceed.
    likely = Estimate(np.minimum(value, largest), stderr, np.minimum(low, largest), np.minimum(high, largest))
    untold = wanted & np.isnan(likely.value)
    if not untold.any():
        return likely
    other = unbiased()
    other = Estimate(np.clip(other.value, 0.0, largest), other.stderr, other.low, other.high)
    return choose(untold, other, likely)


class _Cutoff(NamedTuple):
    """How many standard errors from the truth an estimate may lie.

    Where both have the same attributes two rates are zero, and twice the loss is, with the probability that one or both
    of them are estimated above zero, chi-squared with one or two degrees of freedom. One is with one half.
    """

    usual: float
    both: Floats
    at_zero: Floats

    @classmethod
    def of(cls, confidence: float) -> "_Cutoff":
        usual = normal_quantile(confidence)
        both = np.linspace(0.0, 0.5, 129)
        low, high = np.full_like(both, usual), np.full_like(both, usual + 2.0)
        for _ in range(50):
            middle = (low + high) / 2
            enough = scipy.special.ndtr(-middle) + both * np.exp(-(middle**2) / 2) <= 1 - confidence
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return cls(usual, both, high)


def _first_rates(pairs: Pairs, piece: slice, k: int) -> Floats:
    """Return the rates by moments: of attributes that only the first has, only the second, and both."""
    norms = [np.maximum(norm[piece], 0.0) for norm in (pairs.squared_norm_x, pairs.squared_norm_y)]
    shared = np.clip(pairs.inner_product[piece], 0.0, np.minimum(*norms))
    return np.stack([norms[0] - shared, norms[1] - shared, shared], axis=1) / k


class _Search(NamedTuple):
    grid: Grid
    total: float
    """Of one's own vector, over k; 0 where there is none, and then not used."""
    most: float
    cut: _Cutoff

    def all_of(self, x: NDArray[Any], y: NDArray[Any], rates: Floats, known: NDArray[np.bool_]) -> Floats:
        """Return value, standard error and both ends of each pair, over k; NaN where nothing is known."""
        n = len(rates)
        x = np.broadcast_to(x, (n, x.shape[1])) if len(x) != n else x
        found = np.full((4, n), np.nan)
        # Numbers smaller than noise may be get no tables of their own; what no table holds is not known here.
        bits = np.maximum(np.maximum(_bits(x), _bits(y)), self.grid.least_bits)
        for size in range(self.grid.least_bits, MOST_BITS + 1):
            chosen = np.flatnonzero(known & (bits == size))
            if not len(chosen):
                continue
            some = _PairRows(x[chosen], y if len(y) == 1 else y[chosen], int(size))
            found[:, chosen] = self._some_of(some, rates[chosen])
        return found

    def _some_of(self, some: "_PairRows", rates: Floats) -> Floats:
        top = self._top(some, rates)
        beyond = np.flatnonzero(top.points[:, 0] + top.points[:, 1] > self.most)
        if len(beyond):  # then the likelihood is highest where the distance is the largest there can be
            y = some.y if len(some.y) == 1 else some.y[beyond]
            held = self._top(_PairRows(some.x[beyond], y, some.bits), top.points[beyond], held=True)
            for whole, part in zip(top, held, strict=True):
                whole[beyond] = part
        values = top.values
        low, high = (self._end(some, top, sign) for sign in (-1, 1))
        return np.stack([values, top.errors, np.minimum(low, values), np.maximum(high, values)])

    def _top(self, some: "_PairRows", rates: Floats, *, held: bool = False) -> "_Peak":
        """Return where the likelihood is highest: anywhere, or at the largest distance."""
        n = len(rates)
        points, scores, heights, errors = rates.copy(), np.empty((n, 4)), np.empty(n), np.empty(n)

        def climb(chosen: NDArray[np.int64], slots: NDArray[np.int64], nodes: Nodes) -> None:
            kernels.climb(
                chosen,
                slots,
                nodes.rates,
                nodes.information,
                nodes.bound if held else nodes.free,
                scores,
                self.most if held else 0.0,
                self.total,
                points,
                heights,
            )
            errors[chosen] = np.sqrt(nodes.spreads[slots])

        here = self._settle(some, points, scores, climb)
        return _Peak(points, scores, here, heights, errors)

    def _end(self, some: "_PairRows", top: "_Peak", sign: int) -> Floats:
        """Return the end of each interval below (sign = −1) or above the estimate.

        A walk away from the estimate, by steps that depend on the pair alone, until a gap exceeds the cut. Of all gaps
        so far the largest counts, which never falls, however the likelihood rises and falls on the way; within a step
        it is a straight line, between places that halve the step where it rises much. As none of this depends on the
        cut, a larger confidence walks as far or farther: intervals are nested, and hold the estimate.
        """
        values, limit = top.values, 0.0 if sign < 0 else self.most
        cut, last = self.cut.usual, self.cut.at_zero.max() if sign < 0 else self.cut.usual
        steps = [np.clip(values + sign * step * top.errors, 0.0, self.most) for step in (*_STEPS, _STEPS[-1])]
        walk = _Walk(self, some, top, last)
        walk.look_ahead(steps[0])
        before = walk.places.copy()
        near, far = before.copy(), before.copy()  # between these the interval ends
        zero = np.zeros(len(values), bool)
        active = np.arange(len(values))
        for here, after in pairwise(steps):
            walk.go(active, here[active], walk.ahead[active], after[active])
            inside = active[before[active, _GAP] <= cut]
            near[inside], far[inside] = before[inside], walk.places[inside]
            before[active] = walk.places[active]
            done = here[active] == limit
            if sign < 0:
                ended = active[done]
                cuts = np.interp(walk.both[ended], self.cut.both, self.cut.at_zero)
                zero[ended] = before[ended, _GAP] <= cuts  # zero itself is not excluded
            active = active[~done & (before[active, _GAP] <= last)]
            if not len(active):
                break
        return np.where(zero, 0.0, self._crossing(walk, near, far))

    def _crossing(self, walk: "_Walk", near: Floats, far: Floats) -> Floats:
        """Return the distances between two places each at which gaps cross the cut; the second where they do not."""
        for _ in range(_HALVINGS):
            active = np.flatnonzero((far[:, _GAP] - near[:, _GAP] > _STRAIGHT) & (far[:, _GAP] > self.cut.usual))
            if not len(active):
                break
            middle = (near[active] + far[active]) / 2
            walk.places[active] = near[active]
            walk.go(active, middle[:, _DISTANCE], middle[:, _RATES])
            middle = walk.places[active]
            middle[:, _GAP] = np.minimum(middle[:, _GAP], far[active, _GAP])
            inside = middle[:, _GAP] <= self.cut.usual
            near[active[inside]], far[active[~inside]] = middle[inside], middle[~inside]
        rise = far[:, _GAP] - near[:, _GAP]
        share = np.divide(self.cut.usual - near[:, _GAP], rise, out=np.ones(len(near)), where=rise > 0)
        ends: Floats = near[:, _DISTANCE] + np.minimum(share, 1.0) * (far[:, _DISTANCE] - near[:, _DISTANCE])
        return ends

    def _settle(
        self,
        some: "_PairRows",
        points: Floats,
        scores: Floats,
        move: Callable[[NDArray[np.int64], NDArray[np.int64], Nodes], None],
    ) -> NDArray[np.int64]:
        """Move points, each as its nearest node tells, until none leaves its node or returns to the one before.

        Return these nodes, of which ``scores`` tells.
        """
        active = np.arange(len(points))
        here = np.full(len(points), -1)
        before = np.full(len(points), -1)
        for _ in range(_ROUNDS):
            nearest = self.grid.nearest(points[active], bits=some.bits)
            moved = (nearest != here[active]) & (nearest != before[active])
            active, nearest = active[moved], nearest[moved]
            if not len(active):
                break
            before[active], here[active] = here[active], nearest
            for part, slots, nodes in self.grid.visit(nearest, bits=some.bits):
                chosen = active[part]
                kernels.score(some.x, some.y, chosen, slots, nodes.tables, some.bits, scores)
                move(chosen, slots, nodes)
        return here


class _Walk:
    """One place after another away from the top, each seen from the node nearest to the most likely rates there.

    A place of a pair is a distance, the most likely rates at it, and the largest gap on the way.
    """

    def __init__(self, search: _Search, some: "_PairRows", top: "_Peak", last: float) -> None:
        n = len(top.here)
        self._search, self._some, self._heights, self._last = search, some, top.heights, last
        self._scores, self._here = top.scores.copy(), top.here.copy()
        self._points, self._gaps = np.empty((n, 3)), np.empty(n)
        self.places = np.column_stack([top.values, np.zeros(n), top.points])
        self.ahead, self.both = top.points.copy(), np.empty(n)

    def look_ahead(self, nexts: Floats) -> None:
        """Foresee the rates at these distances, from the top."""
        self._look(np.arange(len(nexts)), self._here, self.places[:, _DISTANCE], nexts)

    def go(self, active: NDArray[np.int64], distances: Floats, foreseen: Floats, nexts: Floats | None = None) -> None:
        """Go to these distances, where about these rates are foreseen, and look ahead to the next distances."""
        nexts = distances if nexts is None else nexts
        grid, bits = self._search.grid, self._some.bits
        self._look(active, grid.nearest(foreseen, bits=bits), distances, nexts)
        nearest = grid.nearest(self._points[active], bits=bits)
        moved = nearest != self._here[active]
        if moved.any():
            self._look(active[moved], nearest[moved], distances[moved], nexts[moved])
        gaps = np.maximum(self.places[active, _GAP], self._gaps[active])
        self.places[active] = np.column_stack([distances, gaps, self._points[active]])

    def _look(self, active: NDArray[np.int64], keys: NDArray[np.int64], distances: Floats, nexts: Floats) -> None:
        some = self._some
        for part, slots, nodes in self._search.grid.visit(keys, bits=some.bits):
            chosen = active[part]
            moved = self._here[chosen] != keys[part]
            kernels.score(some.x, some.y, chosen[moved], slots[moved], nodes.tables, some.bits, self._scores)
            kernels.walk(
                chosen,
                slots,
                nodes.rates,
                nodes.information,
                nodes.bound,
                nodes.variances,
                nodes.spreads,
                self._scores,
                self._search.total,
                self._heights,
                distances[part],
                nexts[part],
                self._last,
                self._points,
                self.ahead,
                self._gaps,
            )
            self.both[chosen] = nodes.both[slots]
        self._here[active] = keys


class _PairRows(NamedTuple):
    """Rows of pairs for which tables of one size serve."""

    x: NDArray[Any]
    y: NDArray[Any]
    bits: int


class _Peak(NamedTuple):
    """Where the likelihood of each pair is highest, and what was seen there."""

    points: Floats
    scores: Floats
    here: NDArray[np.int64]
    """Nodes that the scores are of."""
    heights: Floats
    errors: Floats

    @property
    def values(self) -> Floats:
        """The squared distances over k."""
        values: Floats = self.points[:, 0] + self.points[:, 1]
        return values


def _bits(rows: NDArray[Any]) -> NDArray[np.int64]:
    """Return how many bits hold every number of a row, its sign included."""
    largest = np.empty(len(rows), np.int64)
    kernels.largest_of(rows, largest)
    return np.frexp(largest.astype(np.float64))[1].astype(np.int64) + 1
