"""``best_k``: the sketch dimension at which projection error and noise together are least."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

from dimly.errors import ParameterError, as_integer
from dimly.mechanisms.error.bounds import DENSE_FAMILIES, theorem_two_width
from dimly.mechanisms.error.models import Noise, sketch_error
from dimly.mechanisms.make import (
    PlanRequest,
    Sketching,
    default_blend,
    sketching,
)
from dimly.mechanisms.noise.gaussian import gaussian_moments
from dimly.mechanisms.noise.laplace import laplace_moments
from dimly.mechanisms.projection.closed import MAX_GRID_BITS
from dimly.mechanisms.projection.random_matrix import family_named, longest_row, root_above
from dimly.privacy import VALUES_MOVED, Budget, Rule, Unit, gaussian_scale

Criterion = Literal["variance", "deviation"]

LARGEST_K = 1 << 22
LARGEST_DISTANCE = 1e12
# Fine enough that rounding the entries of a gaussian P changes no choice of k.
_GRID_BITS = 12


def best_k(
    mechanism: str,
    budget: Budget,
    *,
    squared_distance: float,
    blocks: int = 1,
    resolution: int = 1,
    unit: Unit = "attribute",
    rule: Rule = "exact",
    n_attributes: int | None = None,
    weight: float | None = None,
    criterion: Criterion = "variance",
    probability: float = 0.05,
) -> int:
    """Return the sketch dimension with the smallest error at one public planning distance.

    Parameters
    ----------
    mechanism : str
        One that sketches.
    budget : Budget
    squared_distance : float
        At which the error should be smallest; > 0. Public knowledge, not measured on the private data.
    blocks, resolution, unit, rule, n_attributes
        As in :meth:`~dimly.mechanisms.Plan.of`.
    weight : float, optional
        Number of ones of either person, on which the error of counting depends too; public knowledge. Half of
        ``squared_distance`` by default: two people who share nothing.
    criterion : {"variance", "deviation"}, default="variance"
        "deviation" minimizes the width of the paper's Theorem 2 that is exceeded with ``probability``, its other
        rule for k; only for gaussian, sign and ternary with Gaussian noise.
    probability : float, default=0.05

    Returns
    -------
    int
        A multiple of ``blocks``. For families whose sensitivity is realized only with a vocabulary, the largest row
        is taken to be as long as ``n_attributes`` of them make likely, or average without it.

    Examples
    --------
    >>> best_k("hashing+laplace", Budget(1.0), squared_distance=400)
    79
    >>> best_k("gaussian+gaussian", Budget(1.0, 1e-6), squared_distance=400)  # the paper's r²/2σ²
    11
    """
    kind = sketching(mechanism)
    if kind is None:
        raise ParameterError(f"mechanism must be one that sketches to have a best k, got {mechanism!r}.")
    asked = _asked(
        mechanism,
        budget,
        blocks=blocks,
        n_attributes=n_attributes,
        resolution=resolution,
        unit=unit,
        rule=rule,
    )
    if not 0 < squared_distance <= LARGEST_DISTANCE:
        raise ParameterError(
            f"squared_distance must be > 0 and at most {LARGEST_DISTANCE:g}, got {squared_distance!r}."
        )
    if not 0 < probability < 1:
        raise ParameterError(f"probability must be in (0, 1), got {probability!r}.")
    if weight is not None and not squared_distance / 2 <= weight < math.inf:
        raise ParameterError(f"weight must be at least half of squared_distance, got {weight!r}.")

    def error_by(longest_of: int | None) -> Callable[[int], float]:
        def noise(k: int) -> Noise:
            return nominal_noise(
                kind,
                budget,
                k=k,
                blocks=asked.blocks,
                resolution=asked.resolution,
                unit=unit,
                rule=rule,
                n_attributes=longest_of,
            )

        if criterion == "variance":
            return _variance_at(kind, noise, asked, squared_distance, weight)
        return _deviation_at(noise, squared_distance, probability)

    smallest = _smallest_k(kind, criterion, probability)
    if rule == "lemma2":
        if n_attributes is None or budget.delta == 0:
            raise ParameterError("n_attributes and a delta must be given under lemma2.")
        smallest = max(smallest, math.floor(2 * math.log(2 * n_attributes / budget.delta)) + 1)
    step, error = asked.blocks, error_by(asked.n_attributes)
    # How long the longest of many rows is takes a while to find out where rows differ; it is longer than the average.
    several = rule != "lemma2" and asked.n_attributes is not None and asked.n_attributes > 1
    least = error_by(None) if several and kind.family == "gaussian" else error
    low, high = max(1, -(-smallest // step)), LARGEST_K // step
    return step * _lowest(lambda i: error(step * i), low, high, least=lambda i: least(step * i))


def _asked(mechanism: str, budget: Budget, *, blocks: int, **others: Any) -> PlanRequest:
    """Return the arguments checked as for a plan, at a k that every family can have."""
    k = 2 * as_integer("blocks", blocks, 1, LARGEST_K)
    request = PlanRequest.of(
        mechanism,
        budget,
        k=k,
        blocks=blocks,
        vocabulary=None,
        n_users=None,
        dtype="int32",
        seed=None,
        blend=None,
        **others,
    )
    family = Sketching.of(mechanism).family
    family_named(family).check(k, request.blocks, grid_bits=MAX_GRID_BITS if family == "gaussian" else None)
    return request


def _variance_at(
    kind: Sketching, noise: Callable[[int], Noise], asked: PlanRequest, squared_distance: float, weight: float | None
) -> Callable[[int], float]:
    bits = asked.resolution == 1
    blend = default_blend(kind.family, bits=bits)
    weights = None if weight is None else (weight, weight)

    def variance(k: int) -> float:
        model = sketch_error(kind.family, k=k, blocks=asked.blocks, noise=noise(k), bits=bits, blend=blend)
        return model.distance(weights=weights).at(squared_distance)

    return variance


def _smallest_k(kind: Sketching, criterion: str, probability: float) -> int:
    """Return the smallest k to look at; by deviation that which Theorem 2 speaks of, where λ_JL < 1/2."""
    if criterion == "variance":
        return 2
    if criterion != "deviation":
        raise ParameterError(f"criterion must be 'variance' or 'deviation', got {criterion!r}.")
    if kind.law != "gaussian" or kind.family not in DENSE_FAMILIES:
        raise ParameterError(
            f"criterion must be 'variance' for {kind.family}+{kind.law}, got 'deviation', which rests on Theorem 2."
        )
    return math.floor(24 * math.log(6 / probability)) + 1


def _deviation_at(noise: Callable[[int], Noise], squared_distance: float, probability: float) -> Callable[[int], float]:
    def width(k: int) -> float:
        return theorem_two_width(probability, squared_distance, k=k, sigma=math.sqrt(noise(k).variance))

    return width


def nominal_noise(
    kind: Sketching,
    budget: Budget,
    *,
    k: int,
    blocks: int = 1,
    resolution: int = 1,
    unit: Unit = "attribute",
    rule: Rule = "exact",
    n_attributes: int | None = None,
) -> Noise:
    """Return the moments of one coordinate's noise in the data's units, by the laws on paper.

    For looking at many k without building a table and drawing a projection for each.
    """
    family = family_named(kind.family)
    grid_bits = max(_GRID_BITS, math.ceil(math.log2(k) / 2)) if kind.family == "gaussian" else None
    family.check(k, blocks, grid_bits=grid_bits)
    row_scale = family.scale(k, blocks=blocks, grid_bits=grid_bits)
    row = longest_row(
        kind.family,
        k,
        power=1 if kind.law == "laplace" else 2,
        blocks=blocks,
        row_scale=row_scale,
        n_attributes=n_attributes,
    )
    steps = VALUES_MOVED[unit] * resolution
    scale = row_scale / resolution
    if kind.law == "laplace":
        v, m4 = laplace_moments(budget.epsilon / (steps * row))
    elif rule == "lemma2":
        sigma = gaussian_scale(budget, l2_sensitivity=1.0, rule=rule, k=k, n_attributes=n_attributes)
        v, m4 = gaussian_moments(sigma * root_above(steps**2 * row))
    else:
        v, m4 = gaussian_moments(root_above(steps**2 * row) * unit_scale(budget, rule))
    return Noise(v * scale**2, m4 * scale**4)


def _lowest(error: Callable[[int], float], low: int, high: int, *, least: Callable[[int], float]) -> int:
    """Return where ``error`` is lowest: on a coarse grid first, because realized norms make it jagged at small k.

    ``least`` is never above ``error``, and quickly known: few places are worth knowing more of.
    """
    grid = sorted({low, high, *(min(high, math.ceil(low * 1.15**i)) for i in range(_grid_size(low, high)))})
    best, lowest = 0, math.inf
    for bound, i in sorted((least(k), i) for i, k in enumerate(grid)):
        if bound > lowest:
            break
        if (found := (error(grid[i]), i)) < (lowest, best):
            lowest, best = found
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    while low < high:
        middle = (low + high) // 2
        if error(middle) <= error(middle + 1):
            high = middle
        else:
            low = middle + 1
    return min((low, grid[best]), key=error)


def _grid_size(low: int, high: int) -> int:
    return math.ceil(math.log(high / low, 1.15)) + 1


@lru_cache(maxsize=64)
def unit_scale(budget: Budget, rule: Rule = "exact") -> float:
    """Return the standard deviation of Gaussian noise for a sensitivity of 1: all others are multiples of it."""
    return gaussian_scale(budget, l2_sensitivity=1.0, rule=rule)
