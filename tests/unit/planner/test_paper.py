"""Crossovers agree with direct search among plans, and are compared with the paper's asymptotic statements."""

import math

import pytest

from dimly.errors import ParameterError
from dimly.mechanisms import Plan, best_k
from dimly.mechanisms.error.bounds import Hoeffding, theorem_two_width
from dimly.planner.paper import (
    crossover_attributes,
    crossover_distance,
    crossover_users,
    least_distance,
    paper_distance,
    paper_users,
    sketch_variance,
)
from dimly.privacy import Budget, gaussian_scale

BUDGET = Budget(1.0, 1e-6)


def sketched(mechanism: str, budget: Budget, r2: float, k: int | None = None) -> float:
    """Variance by a plan with its table, at the k that is best."""
    k = best_k(mechanism, budget, squared_distance=r2) if k is None else k
    return float(Plan.of(mechanism, budget, k=k).error.distance()(r2))


@pytest.mark.parametrize("mechanism", ["sign+gaussian", "counting+laplace"])
@pytest.mark.parametrize("r2", [5.0, 20.0])
def test_people(mechanism: str, r2: float) -> None:
    sketch = sketched(mechanism, BUDGET, r2)

    def noisy(n_users: int) -> float:
        plan = Plan.of("noisy-distances", BUDGET, n_users=n_users, n_attributes=50)
        return float(plan.error.distance()(r2))

    found = crossover_users(mechanism, BUDGET, squared_distance=r2)
    # Noise that is sampled is a trifle larger than on paper: the next person decides.
    assert noisy(max(found - 2, 2)) <= sketch * 1.02
    assert noisy(found + 1) > sketch * 0.98


def test_people_by_the_paper() -> None:
    """At the best k it is 16r² whatever σ; at the paper's k = μ it grows with σ², as the paper says."""
    for epsilon in (0.25, 0.5, 1.0):
        budget = Budget(epsilon, 1e-6)
        at_best = crossover_users("sign+gaussian", budget, squared_distance=1e5)
        assert at_best == pytest.approx(16e5, rel=0.01)
    exact, stated = [], []
    for epsilon in (0.1, 0.2):
        budget = Budget(epsilon, 1e-6)
        exact.append(crossover_users("sign+gaussian", budget, squared_distance=200, k=100))
        stated.append(paper_users(budget, weight=100))
    assert exact[0] / exact[1] == pytest.approx(stated[0] / stated[1], rel=0.1)
    assert stated[0] == pytest.approx(100 * gaussian_scale(Budget(0.1, 1e-6), l2_sensitivity=1.0, rule="theorem1") ** 2)


def test_people_with_pure_sketches() -> None:
    pure = crossover_users("counting+laplace", Budget(1.0), squared_distance=400, delta=1e-6)
    assert pure == crossover_users("counting+laplace", BUDGET, squared_distance=400)
    heavy = crossover_users("counting+laplace", BUDGET, squared_distance=400, weight=1_000)
    assert heavy > pure
    with pytest.raises(ParameterError, match="delta must be > 0 for noise on distances"):
        crossover_users("counting+laplace", Budget(1.0), squared_distance=400)


@pytest.mark.parametrize(("mechanism", "epsilon"), [("counting+laplace", 4.0), ("hashing+laplace", 1.0)])
def test_attributes(mechanism: str, epsilon: float) -> None:
    budget = Budget(epsilon)
    sketch = sketched(mechanism, budget, 400.0)
    errors = {
        d: float(Plan.of("randomized-response", budget, n_attributes=d).error.distance()(400.0))
        for d in (
            crossover_attributes(mechanism, budget, squared_distance=400.0) - 1,
            crossover_attributes(mechanism, budget, squared_distance=400.0),
        )
    }
    before, after = errors.values()
    assert before <= sketch * (1 + 1e-6)
    assert after > sketch * (1 - 1e-6)


@pytest.mark.parametrize(
    ("mechanism", "k"), [("counting+laplace", None), ("hashing+laplace", None), ("hashing+laplace", 64)]
)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_distances(mechanism: str, k: int | None, epsilon: float) -> None:
    budget, d = Budget(epsilon), 600
    flipped = float(Plan.of("randomized-response", budget, n_attributes=d).error.distance()(1.0))
    found = crossover_distance(mechanism, budget, n_attributes=d, k=k)
    # Everywhere, coarsely, and around the place, one by one.
    tried = {*range(1, d + 1, 97), *range(max(1, int(found) - 3), min(d, int(found) + 4))}
    better = [r2 for r2 in sorted(tried) if sketched(mechanism, budget, float(r2), k) < flipped]
    assert better == [r2 for r2 in sorted(tried) if r2 < found]
    assert len(better) < len(tried)


def test_distances_at_the_ends() -> None:
    assert crossover_distance("sign+gaussian", BUDGET, n_attributes=1_000, k=256) == 0.0
    assert crossover_distance("counting+laplace", Budget(0.1), n_attributes=1_000) == math.inf


def test_distances_by_the_papers_bounds() -> None:
    """By deviation bounds, as the paper compares, √(dk)/ε² is right for very many attributes, and for no others."""
    ratios = []
    for d in (10**6, 10**9, 10**11):
        found = crossover_distance("gaussian+gaussian", BUDGET, n_attributes=d, k=256, criterion="deviation")
        sigma = gaussian_scale(BUDGET, l2_sensitivity=1.0, rule="theorem1")
        width = theorem_two_width(0.05, found, k=256, sigma=sigma)
        flip = Plan.of("randomized-response", BUDGET, n_attributes=10).noise.probability  # type: ignore[union-attr]
        assert width == pytest.approx(Hoeffding(d, flip).width(0.05, found))
        ratios.append(found / paper_distance(BUDGET, n_attributes=d, k=256))
    assert ratios[0] < 0.1
    assert ratios[1:] == pytest.approx([1.0, 1.0], abs=0.15)


def test_the_least_distance() -> None:
    for k in (None, 256):
        found = least_distance("hashing+laplace", Budget(1.0), k=k)
        for at, above in ((0.99 * found, False), (1.01 * found, True)):
            error = math.sqrt(sketch_variance("hashing+laplace", Budget(1.0), squared_distance=at, k=k))
            assert (at > error) is above
    # The paper's O(√k): sixteen times the coordinates, four times the distance.
    wide, wider = (least_distance("hashing+laplace", Budget(1.0), k=k) for k in (4_096, 65_536))
    assert wider / wide == pytest.approx(4.0, rel=0.1)


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="mechanism must be one that sketches, got 'noisy-distances'"):
        crossover_users("noisy-distances", BUDGET, squared_distance=4)
    with pytest.raises(ParameterError, match="squared_distance must be a number > 0"):
        crossover_attributes("sign+gaussian", BUDGET, squared_distance=-1)
    for mechanism, k in (("hashing+gaussian", 256), ("gaussian+gaussian", None)):
        with pytest.raises(ParameterError, match="criterion must be 'variance' for"):
            crossover_distance(mechanism, BUDGET, n_attributes=100, k=k, criterion="deviation")
    for n_attributes in (0, -5, 2.5):
        with pytest.raises(ParameterError, match="n_attributes must be an integer from 1"):
            crossover_distance("sign+gaussian", BUDGET, n_attributes=n_attributes)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="criterion must be 'variance' or 'deviation', got 'luck'"):
        crossover_distance("sign+gaussian", BUDGET, n_attributes=100, criterion="luck")  # type: ignore[arg-type]
