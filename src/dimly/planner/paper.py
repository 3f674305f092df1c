"""The paper's own rules: its two choices of k, and crossovers between mechanisms (§4.2, §4.3.3)."""

import math
from collections.abc import Callable
from typing import NamedTuple

from dimly.errors import ParameterError, as_integer
from dimly.mechanisms.error.bounds import DENSE_FAMILIES, Hoeffding, theorem_two_width
from dimly.mechanisms.error.dimension import LARGEST_DISTANCE, Criterion, best_k, nominal_noise
from dimly.mechanisms.error.models import FlippedBitsError, sketch_error
from dimly.mechanisms.make import Sketching, default_blend
from dimly.mechanisms.noise.tables import BitFlip
from dimly.planner.brief import Question, as_number
from dimly.privacy import Budget, gaussian_scale

_DEVIATION = 0.05
"""Probability with which the widths that are compared are exceeded at most."""


def sketch_variance(
    mechanism: str,
    budget: Budget,
    *,
    squared_distance: float,
    k: int | None = None,
    weight: float | None = None,
) -> float:
    """Return the variance of a squared distance estimated from sketches of bits; at the best k unless one is given."""
    kind = Sketching.of(mechanism)
    at = as_number("squared_distance", squared_distance, LARGEST_DISTANCE)
    if k is None:
        k = best_k(mechanism, budget, squared_distance=at, weight=weight)
    noise = nominal_noise(kind, budget, k=k)
    model = sketch_error(
        kind.family, k=k, blocks=1, noise=noise, bits=True, blend=default_blend(kind.family, bits=True)
    )
    weights = None if weight is None else (weight, weight)
    return float(model.distance(weights=weights)(at))


def crossover_users(
    mechanism: str,
    budget: Budget,
    *,
    squared_distance: float,
    k: int | None = None,
    weight: float | None = None,
    delta: float | None = None,
) -> int:
    """Return the number of people from which on sketches beat noise on distances (§4.2).

    Noise on distances has a variance that grows with the number of people; that of sketches does not.

    Parameters
    ----------
    mechanism : str
        One that sketches.
    budget : Budget
    squared_distance : float
    k : int, optional
        The best one at this distance by default.
    weight : float, optional
        Ones of either person, for counting.
    delta : float, optional
        Of the noise on distances, where the sketches' own budget is pure.

    Examples
    --------
    >>> crossover_users("gaussian+gaussian", Budget(1.0, 1e-6), squared_distance=400)
    6402
    """
    noisy = budget if delta is None else Budget(budget.epsilon, delta)
    if noisy.is_pure:
        raise ParameterError("delta must be > 0 for noise on distances, got 0. Give one to compare with.")
    variance = sketch_variance(mechanism, budget, squared_distance=squared_distance, k=k, weight=weight)
    sigma = gaussian_scale(noisy, l2_sensitivity=1.0)
    # σ²(n − 1) + 1/12 > Var: rounding to whole distances adds the 1/12.
    return max(2, math.floor(max(variance - 1 / 12, 0.0) / sigma**2) + 2)


def paper_users(budget: Budget, *, weight: float) -> float:
    """Return the paper's asymptotic statement of §4.2: sketches win where μσ² = o(n), for people of at most μ ones."""
    return weight * gaussian_scale(budget, l2_sensitivity=1.0, rule="theorem1") ** 2


def crossover_attributes(
    mechanism: str,
    budget: Budget,
    *,
    squared_distance: float,
    k: int | None = None,
    weight: float | None = None,
) -> int:
    """Return the number of attributes from which on sketches beat randomized response at a squared distance (§4.3.3).

    Examples
    --------
    >>> crossover_attributes("counting+laplace", Budget(4.0), squared_distance=400)
    6505
    """
    variance = sketch_variance(mechanism, budget, squared_distance=squared_distance, k=k, weight=weight)
    each = float(_flipped(budget, 1).distance()(squared_distance))
    return math.floor(variance / each) + 1


def crossover_distance(
    mechanism: str,
    budget: Budget,
    *,
    n_attributes: int,
    k: int | None = None,
    criterion: Criterion = "variance",
) -> float:
    """Return the squared distance from which on randomized response beats sketches (§4.3.3).

    Randomized response has one error at all distances; that of sketches grows. The paper's "strength in preserving
    small distances" is what lies below.

    Parameters
    ----------
    mechanism : str
        One that sketches.
    budget : Budget
    n_attributes : int
    k : int, optional
        The best one at each distance by default. Needed by "deviation".
    criterion : {"variance", "deviation"}, default="variance"
        What is compared: variances, or the widths of the paper's Theorems 2 and 3 that are exceeded with 5 %, with
        its noise by Theorem 1; the latter for gaussian, sign and ternary with Gaussian noise.

    Returns
    -------
    float
        0 where randomized response is better at any distance; infinite where sketches are better up to
        ``n_attributes``.
    """
    flipped = _flipped(budget, as_integer("n_attributes", n_attributes, 1, int(LARGEST_DISTANCE)))
    if criterion == "variance":
        limit = float(flipped.distance()(1.0))
        error = _variance(mechanism, budget, k)
    elif criterion == "deviation":
        limit = Hoeffding(n_attributes, flipped.flip).width(_DEVIATION, 1.0)
        error = _deviation(mechanism, budget, k)
    else:
        raise ParameterError(f"criterion must be 'variance' or 'deviation', got {criterion!r}.")
    return _reaches(error, limit, float(n_attributes))


def paper_distance(budget: Budget, *, n_attributes: int, k: int) -> float:
    """Return the paper's asymptotic statement of §4.3.3: randomized response wins beyond √(dk)/ε²."""
    return math.sqrt(n_attributes * k) / budget.epsilon**2


def least_distance(mechanism: str, budget: Budget, *, k: int | None = None) -> float:
    """Return the squared distance below which an estimate's standard error exceeds the distance itself.

    The paper says that everything is inaccurate where squared distances are O(√k).
    """

    def excess(at: float) -> float:
        return at - math.sqrt(sketch_variance(mechanism, budget, squared_distance=at, k=k))

    return _reaches(excess, 0.0, LARGEST_DISTANCE)


def _flipped(budget: Budget, n_attributes: int) -> FlippedBitsError:
    return FlippedBitsError(n_attributes, BitFlip.of(budget).probability)


def _variance(mechanism: str, budget: Budget, k: int | None) -> Callable[[float], float]:
    return lambda at: sketch_variance(mechanism, budget, squared_distance=at, k=k)


def _deviation(mechanism: str, budget: Budget, k: int | None) -> Callable[[float], float]:
    kind = Sketching.of(mechanism)
    if kind.law != "gaussian" or kind.family not in DENSE_FAMILIES or k is None:
        raise ParameterError(
            f"criterion must be 'variance' for {mechanism} with k = {k}, got 'deviation', which rests on Theorem 2."
        )
    sigma = gaussian_scale(budget, l2_sensitivity=1.0, rule="theorem1")
    return lambda at: theorem_two_width(_DEVIATION, at, k=k, sigma=sigma)


def _reaches(error: Callable[[float], float], limit: float, largest: float) -> float:
    """Return where a growing ``error`` reaches ``limit``, to nine digits; 0 or infinity if that is beyond the ends."""
    low, high = 1e-6, largest
    if error(low) >= limit:
        return 0.0
    if error(high) < limit:
        return math.inf
    while high - low > 1e-9 * high:
        middle = math.sqrt(low * high) if high > 2 * low else (low + high) / 2
        if error(middle) >= limit:
            high = middle
        else:
            low = middle
    return high


PAPER = "gaussian+gaussian"
PLANNED_DELTA = 1e-6
"""Where the budget has no δ, which the paper's mechanism cannot do without."""


class PaperRule(NamedTuple):
    """One rule of the paper, and how far off its own mechanism would then be."""

    criterion: str
    k: int
    stderr: float
    """Of a squared distance of far pairs, with noise calibrated by the paper's Theorem 1."""
    delta: float


def paper_rules(question: Question) -> tuple[PaperRule, ...]:
    """Return k by the variance (r²/2σ² but for rounding) and by the deviation bound, at the far distance.

    Nothing where its mechanism cannot be calibrated at all.
    """
    delta = question.budget.delta or PLANNED_DELTA
    budget = Budget(question.budget.epsilon, delta)
    kind = Sketching.of(PAPER)
    shared = {
        "resolution": question.resolution,
        "unit": question.unit,
        "rule": "theorem1",
        "n_attributes": question.n_attributes,
    }
    rules = []
    for criterion in ("variance", "deviation"):
        try:
            k = best_k(PAPER, budget, squared_distance=question.high, criterion=criterion, **shared)  # type: ignore[arg-type]
            noise = nominal_noise(kind, budget, k=k, **shared)  # type: ignore[arg-type]
        except ParameterError:
            return ()
        model = sketch_error(kind.family, k=k, blocks=1, noise=noise, bits=question.bits)
        rules.append(PaperRule(criterion, k, math.sqrt(float(model.distance()(question.high))), delta))
    return tuple(rules)
