"""How likely each pair of published numbers is, as tables over a grid of rates (Poisson, noise).

Of the attributes of two people a·k are only the first's, b·k only the second's and c·k both's. A bucket of a sketch
with one entry for each attribute holds Poisson numbers A, B, C of them (differences of two for ``hashing``, whose
entries have signs), and the published numbers are A + C and B + C, each plus noise: given C they are independent.
A rate's derivative of a Poisson law is a difference of the law with itself, moved by one.
"""

import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dimly.errors import ParameterError
from dimly.mechanisms.noise.gaussian import RoundedGaussian
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.tables import TOTAL, symmetric
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_kinds import SketchPlan

Floats = NDArray[np.float64]

FAMILIES = ("counting", "hashing")
MOST_BITS = 8
"""Tables have at most 2⁸ cells a side."""
_MOST_NOISE = 64  # once in 100,000 draws: with more, tables take milliseconds each
_NEVER = 1e-30
_LEAST_PROBABILITY = 1e-250
_STEEPEST = 1e6
_MEMORY = 1 << 27  # bytes of tables of one size that are kept
# Then estimates are within about 0.03 standard errors of those with nodes everywhere, and ends of intervals too.
_DENSITY = 1.5
_RISING = np.array([1.0, 1.0, 0.0])  # the squared distance over k is a + b


class Nodes(NamedTuple):
    """What kernels need of some nodes, by slots."""

    tables: NDArray[np.float32]
    """Log-likelihood and derivatives of every cell."""
    rates: Floats
    information: Floats
    """Fisher's, of k buckets."""
    free: Floats
    """Maps to the highest point of the parabola: see ``_highest``."""
    bound: Floats
    """The same for a given distance."""
    variances: Floats
    """Of the squared distance over k, in the Poisson model."""
    spreads: Floats
    """The same given the numbers of attributes: these do not vary, buckets do."""
    both: Floats
    """Chance that estimates of a and b are positive together where there are none of either."""

    @classmethod
    def empty(cls, capacity: int, bits: int) -> "Nodes":
        """Return room for some nodes."""
        return cls(
            np.empty((capacity, 1 << (2 * bits), 4), np.float32),
            *(np.empty((capacity, *shape)) for shape in ((3,), (3, 3), (8, 3, 5), (8, 3, 5), (), (), ())),
        )


class Grid:
    """Nodes near any rates, with a table for each that is asked for.

    The standard error of a rate t, the others known, is about √((A + t)/k), of which a count's mean tells, or
    √((A + t + 2t²)/k), where signs leave its variance only. Nodes lie as far apart with k′ = 1.5·k^⅔ in the place of k,
    so that what a parabola leaves out, of third order, stays the same at every k.

    Parameters
    ----------
    plan : Plan
    total : float or None
        Number of attributes of the second side over k if it is the analyst's own, which carries no noise.
    """

    def __init__(self, plan: SketchPlan, total: float | None) -> None:
        self._signed = not plan.error.centered
        self._k = plan.k
        self._law = noise_law(plan)
        self._total = total
        self._kept: dict[int, tuple[dict[int, int], Nodes]] = {}
        self._lock = threading.Lock()
        self.least_bits = max(4, int(np.ceil(np.log2(1 + _quantile(self._law)))) + 1)
        self._axis = self._spaced()

    def visit(
        self, keys: NDArray[np.int64], *, bits: int
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Nodes]]:
        """Go through nodes by their numbers: which of those given, their slots, and the nodes."""
        unique, inverse = np.unique(keys, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        starts = np.searchsorted(inverse[order], np.arange(len(unique) + 1))
        capacity = max(1, _MEMORY // (16 << (2 * bits)))
        for first in range(0, len(unique), capacity):
            part = unique[first : first + capacity]
            slots, nodes = self._slots(part.tolist(), bits, capacity)
            chosen = order[starts[first] : starts[first + len(part)]]
            yield chosen, slots[inverse[chosen] - first], nodes

    def nearest(self, rates: Floats, *, bits: int) -> NDArray[np.int64]:
        """Return the numbers of the nodes nearest to ``rates``, for tables of 2^bits numbers a side."""
        size = len(self._axis)
        # Beyond that the tables would hold next to nothing of the law.
        most = 4.0 ** (bits - 2) if self._signed else 2.0 ** (bits - 1)
        a, b, c = np.rint(np.interp(np.minimum(rates, most).T, self._axis, np.arange(size))).astype(np.int64)
        if self._total is not None:  # b and c tell each other, the smaller one better
            smaller = rates[:, 1] <= rates[:, 2]
            b, c = np.where(smaller, b, c), smaller.astype(np.int64)
        keys: NDArray[np.int64] = (a * size + b) * size + c
        return keys

    def _slots(self, keys: list[int], bits: int, capacity: int) -> tuple[NDArray[np.int64], Nodes]:
        with self._lock:
            known, nodes = self._kept.get(bits, ({}, Nodes.empty(0, bits)))
            missing = [key for key in keys if key not in known]
            room = len(nodes.rates)
            if len(known) + len(missing) > room:
                if len(known) + len(missing) > capacity:  # begin anew; whoever is at work keeps the old ones
                    known, missing, room = {}, keys, 0
                larger = Nodes.empty(min(capacity, max(2 * room, len(known) + len(missing), 32)), bits)
                for part in Nodes._fields:
                    getattr(larger, part)[: len(known)] = getattr(nodes, part)[: len(known)]
                nodes = larger
                known = dict(known)
            for key in missing:
                self._fill(nodes, len(known), key, bits)
                known[key] = len(known)
            self._kept[bits] = known, nodes
            return np.array([known[key] for key in keys], np.int64), nodes

    def _fill(self, nodes: Nodes, slot: int, key: int, bits: int) -> None:
        places = np.unravel_index(key, (len(self._axis),) * 3)
        a, b, c = (float(self._axis[i]) for i in places)
        if self._total is not None:
            smaller = min(b, self._total)
            b, c = (smaller, self._total - smaller) if places[2] else (self._total - smaller, smaller)
        probability, derivatives = self._law_of_pairs(a, b, c, bits)
        scores = np.clip(derivatives / probability, -_STEEPEST, _STEEPEST).reshape(3, -1)
        information = self._k * (scores * probability.reshape(-1)) @ scores.T
        nodes.tables[slot, :, 0] = np.log(probability).reshape(-1)
        nodes.tables[slot, :, 1:] = scores.T
        nodes.rates[slot] = a, b, c
        nodes.information[slot] = information
        own = self._total is not None
        nodes.free[slot] = _maps(information, own=own, bound=False)
        nodes.bound[slot] = _maps(information, own=own, bound=True)
        if self._total == 0:  # then b = 0 is part of the model
            for maps in (nodes.free[slot], nodes.bound[slot]):
                maps[0] = maps[2]
        covariance = nodes.free[slot, 0, :, :3]
        variance = float(_RISING @ covariance @ _RISING)
        # Given the numbers of attributes A, B, C are multinomial; of one's own attributes each is shared or not.
        varies = a + (b * c / (b + c) if b + c > 0 else 0.0) if own else a + b
        deviations = np.sqrt(covariance[0, 0] * covariance[1, 1])
        correlation = covariance[0, 1] / deviations if deviations > 0 else -1.0
        nodes.both[slot] = 0.25 + np.arcsin(np.clip(correlation, -1.0, 1.0)) / (2 * np.pi)
        nodes.variances[slot] = variance
        nodes.spreads[slot] = max(variance - varies / self._k, 1e-3 * variance)

    def _law_of_pairs(self, a: float, b: float, c: float, bits: int) -> tuple[Floats, Floats]:
        """Return probabilities of cells, and their derivatives by a, b and c."""
        half = 1 << (bits - 1)
        reach = 2 * half + 16  # of what both share
        far = half + reach
        noisy = _window(self._law, 2 * far)
        # Rows: the laws of A + noise, B + noise and C, and their derivatives.
        first, second = self._with_derivative(a, noisy, far), self._with_derivative(b, noisy, far)
        if self._total is not None:
            second = self._with_derivative(b, _window(np.ones(1), 2 * far), far)
        shared = self._with_derivative(c, _window(np.ones(1), 2 * reach), reach)
        likely = np.flatnonzero(np.abs(shared).max(axis=0) > _NEVER)
        shared = shared[:, likely]
        values = np.arange(-half, half)[:, None] - (likely - reach) + far
        given_first, given_second = first[:, values], second[:, values]
        weighted = given_first[0] * shared[0]
        probability = weighted @ given_second[0].T
        by_first = (given_first[1] * shared[0]) @ given_second[0].T
        by_second = weighted @ given_second[1].T
        by_shared = (given_first[0] * shared[1]) @ given_second[0].T
        return np.maximum(probability, _LEAST_PROBABILITY), np.stack([by_first, by_second, by_shared])

    def _with_derivative(self, rate: float, law: Floats, far: int) -> Floats:
        """Return the law of a Poisson number plus noise on −far … far, and its derivative by the rate."""
        if self._signed:
            ahead = _poisson(rate / 2, 2 * far)
            signal = np.convolve(ahead, ahead[::-1])
        else:
            signal = np.concatenate([np.zeros(2 * far), _poisson(rate, 2 * far)])
        # Both are on −2·far … 2·far; the middle of their convolution is 0.
        total = np.convolve(signal, law)[3 * far - 1 : 5 * far + 2]
        moved = (total[:-2] + total[2:]) / 2 if self._signed else total[:-2]
        return np.stack([total[1:-1], moved - total[1:-1]])

    def _spaced(self) -> Floats:
        """Return the values that a node's rates can have, rising from zero."""
        self._axis = np.zeros(1)
        _, _, nodes = next(self.visit(np.zeros(1, np.int64), bits=self.least_bits))
        self._kept.clear()
        spread = self._k / nodes.information[0].diagonal()[[0, 2]].max()
        density = np.sqrt(_DENSITY) * max(self._k, 64) ** (1 / 3)
        axis = [0.0]
        while axis[-1] < 1 << 16:
            square = 2 * axis[-1] ** 2 if self._signed else 0.0
            axis.append(axis[-1] + np.sqrt(spread + axis[-1] + square) / density)
        return np.array(axis)


@lru_cache(maxsize=4)
def grid_of(plan: Plan, total: float | None) -> Grid:
    """Return the grid of a plan, with what it has computed so far.

    Raises
    ------
    ParameterError
        If the plan has no likelihood here.
    """
    if not isinstance(plan, SketchPlan) or plan.projection.family not in FAMILIES or plan.resolution != 1:
        got = plan.mechanism if plan.resolution == 1 else f"{plan.mechanism} on values"
        raise ParameterError(
            f"method must be 'unbiased' for {got}: 'likelihood' is for counting and hashing, on bits. Leave method out."
        )
    if _quantile(noise_law(plan)) >= _MOST_NOISE:
        raise ParameterError(
            "method must be 'unbiased' where noise is so wide: tables of the likelihood would be too large. "
            "Leave method out."
        )
    return Grid(plan, total)


def noise_law(plan: Plan) -> Floats:
    """Return the probabilities of a plan's noise, symmetric around the middle."""
    table = plan.table
    if isinstance(table, DiscreteLaplace):  # what is sampled differs by less than 1e-9 of each probability
        rate = float(table.rate)
        cells = np.arange(int(50 / rate) + 2)
        half = np.tanh(rate / 2) * np.exp(-rate * cells)
        return np.concatenate([half[:0:-1], half])
    assert isinstance(table, RoundedGaussian)  # noqa: S101
    return np.array([weight / TOTAL for weight in symmetric(table.half)])


def _quantile(law: Floats) -> int:
    """Return what the noise exceeds once in 100,000 draws."""
    middle = len(law) // 2
    return int(np.searchsorted(-np.cumsum(law[middle:][::-1])[::-1], -1e-5))


def _window(law: Floats, reach: int) -> Floats:
    """Return a symmetric law on −reach … reach."""
    beyond = len(law) // 2 - reach
    return law[beyond : len(law) - beyond] if beyond >= 0 else np.pad(law, -beyond)


def _poisson(rate: float, most: int) -> Floats:
    counts = np.arange(most + 1)
    law: Floats = np.exp(scipy.special.xlogy(counts, rate) - rate - scipy.special.gammaln(counts + 1))
    return law


def _maps(information: Floats, *, own: bool, bound: bool) -> Floats:
    """Return the linear maps to the highest point of a parabola, for each set of rates that are zero.

    With Lagrange's multipliers: information·θ + Eᵀν = pull and Eθ = e; NaN where E has no solution.
    """
    scale = information.diagonal().max()
    information = information + 1e-9 * scale * np.eye(3)  # no direction may be quite unknown
    systems, possible = _constraints(own, bound)
    systems = systems.copy()
    systems[:, :3, :3] = information / scale
    inverses = np.linalg.inv(systems)[:, :3]
    maps = np.full((8, 3, 5), np.nan)
    maps[possible, :, :3] = inverses[:, :, :3] / scale
    maps[possible, :, 3:] = inverses[:, :, 3:5]
    return maps


@lru_cache(maxsize=4)
def _constraints(own: bool, bound: bool) -> tuple[Floats, NDArray[np.int64]]:
    """Return E, within the system that it is part of, for the sets of zero rates that leave a point.

    E holds a + b = distance if that is given, b + c = total for a vector of one's own, and the zeros. What does not
    apply has a multiplier of zero.
    """
    systems, possible = [], []
    for zeros in range(8):
        rows = np.array(
            [_RISING * bound, np.array([0.0, 1.0, 1.0]) * own, *(np.eye(3) * [[zeros >> i & 1] for i in range(3)])]
        )
        applies = rows.any(axis=1)
        if np.linalg.matrix_rank(rows) < applies.sum():
            continue
        system = np.zeros((8, 8))
        system[3:, :3], system[:3, 3:] = rows, rows.T
        system[3:, 3:] = np.diag(~applies)
        systems.append(system)
        possible.append(zeros)
    return np.array(systems), np.array(possible)
