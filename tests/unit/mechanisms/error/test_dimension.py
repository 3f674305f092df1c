import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimly.errors import ParameterError
from dimly.mechanisms.error.dimension import best_k, nominal_noise
from dimly.mechanisms.make import MECHANISMS, Sketching, sketching
from dimly.mechanisms.plan import Plan
from dimly.privacy import Budget, gaussian_scale

SKETCHES = [name for name in MECHANISMS if sketching(name)]


def variance(mechanism: str, budget: Budget, k: int, r2: float, blocks: int = 1) -> float:
    plan = Plan.of(mechanism, budget, k=k, blocks=blocks, n_attributes=200, seed=bytes(32), dtype="int32")
    return float(plan.error.distance()(r2))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_papers_rule(epsilon: float) -> None:
    budget = Budget(epsilon, 1e-6)
    sigma = gaussian_scale(budget, l2_sensitivity=1.0)
    for r2 in (4e3, 4e5):
        assert best_k("gaussian+gaussian", budget, squared_distance=r2) == pytest.approx(
            r2 / (2 * sigma**2), rel=2e-3, abs=1
        )


def test_laplace_rule_of_thumb() -> None:
    # k* = √(A/B) with A = 2r⁴, B = 2(m₄ + v²): 0.189·r²ε² for small ε.
    for epsilon in (0.1, 0.25):
        k = best_k("hashing+laplace", Budget(epsilon), squared_distance=1e5)
        assert k == pytest.approx(0.189 * 1e5 * epsilon**2, rel=0.02)


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace", "hashing+gaussian", "counting+gaussian"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_best_k_is_best_among_real_plans(mechanism: str, epsilon: float) -> None:
    budget, r2 = Budget(epsilon, 1e-6), 300.0
    k = best_k(mechanism, budget, squared_distance=r2)
    found = variance(mechanism, budget, k, r2)
    others = [variance(mechanism, budget, max(2, k + step), r2) for step in (-3, -2, -1, 1, 2, 3)]
    assert found <= min(others) * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", SKETCHES)
def test_every_sketch_has_one(mechanism: str) -> None:
    blocks = 4 if mechanism.startswith(("sparse", "dasgupta")) else 1
    k = best_k(mechanism, Budget(2.0, 1e-6), squared_distance=2000.0, blocks=blocks, n_attributes=200)
    assert k >= 2
    assert k % blocks == 0
    if not mechanism.endswith("+laplace") or blocks == 1:
        # Within 15 % of plans with half and with twice as many, whose sensitivity is realized and not nominal.
        found = variance(mechanism, Budget(2.0, 1e-6), k, 2000.0, blocks)
        for other in (max(blocks, k // 2 // blocks * blocks), 2 * k):
            if other >= 2:
                assert found <= 1.15 * variance(mechanism, Budget(2.0, 1e-6), other, 2000.0, blocks)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(SKETCHES), st.floats(0.2, 8), st.integers(8, 128))
def test_nominal_noise_is_that_of_the_plan(mechanism: str, epsilon: float, k: int) -> None:
    kind = sketching(mechanism)
    assert kind is not None
    if kind.family in ("dasgupta", "ternary", "gaussian"):
        return  # realized, not nominal
    budget = Budget(epsilon, 1e-6)
    plan = Plan.of(mechanism, budget, k=k, dtype="int32")
    nominal = nominal_noise(kind, budget, k=k)
    assert plan.table.variance * plan.scale**2 == pytest.approx(nominal.variance, rel=0.02)
    assert plan.table.fourth_moment * plan.scale**4 == pytest.approx(nominal.fourth_moment, rel=0.1)


def test_nominal_noise_of_realized_families_is_near() -> None:
    for family in ("dasgupta", "ternary", "gaussian"):
        blocks = 4 if family == "dasgupta" else 1
        for law in ("laplace", "gaussian"):
            plans = [
                Plan.of(
                    f"{family}+{law}",
                    Budget(1.0, 1e-6),
                    k=64,
                    blocks=blocks,
                    n_attributes=1000,
                    seed=bytes([seed] * 32),
                    dtype="int32",
                )
                for seed in range(1 if family == "gaussian" else 25)
            ]
            kind = Sketching(family, law)
            nominal = nominal_noise(kind, Budget(1.0, 1e-6), k=64, blocks=blocks, n_attributes=1000)
            # The nominal longest row is the median one, and single draws of 1,000 rows are some way off.
            found = np.median([math.sqrt(plan.table.variance) * plan.scale for plan in plans])
            assert found == pytest.approx(math.sqrt(nominal.variance), rel=0.15)


def test_values_and_columns_need_other_k() -> None:
    bits = best_k("hashing+laplace", Budget(1.0), squared_distance=400.0)
    column = best_k("hashing+laplace", Budget(1.0), squared_distance=400.0, unit="column")
    assert column == best_k("hashing+laplace", Budget(0.5), squared_distance=400.0) < bits
    values = best_k("hashing+laplace", Budget(1.0), squared_distance=400.0, resolution=16)
    assert values < bits  # continuous noise is a little wider than discrete noise at the same ε
    lemma2 = best_k("gaussian+gaussian", Budget(1.0, 1e-6), squared_distance=4e5, rule="lemma2", n_attributes=100)
    assert lemma2 == pytest.approx(4e5 / 2 / 14.868**2, rel=0.01)


def test_the_weight_of_people_matters_to_counting_only() -> None:
    light, heavy = (best_k("counting+laplace", Budget(1.0), squared_distance=400.0, weight=w) for w in (200, 2000))
    assert light == best_k("counting+laplace", Budget(1.0), squared_distance=400.0)
    assert heavy > 2 * light
    signed = {best_k("hashing+laplace", Budget(1.0), squared_distance=400.0, weight=w) for w in (None, 200, 2000)}
    assert len(signed) == 1


def test_narrow_integers_do_not_wrap_around() -> None:
    wide = best_k("sparse+laplace", Budget(1.0), squared_distance=400.0, blocks=4, resolution=200, unit="column")
    narrow = best_k(
        "sparse+laplace",
        Budget(1.0),
        squared_distance=400.0,
        blocks=np.int8(4),  # type: ignore[arg-type]
        resolution=np.uint8(200),  # type: ignore[arg-type]
        unit="column",
    )
    assert narrow == wide


def test_by_deviation_bound() -> None:
    budget = Budget(1.0, 1e-6)
    far = best_k("gaussian+gaussian", budget, squared_distance=1e5, criterion="deviation", probability=0.05)
    # The paper: Θ(√log(1/μ)·r²/σ²), a constant times the rule by variance.
    by_variance = best_k("gaussian+gaussian", budget, squared_distance=1e5)
    assert 0.5 < far / by_variance < 5
    near = best_k("gaussian+gaussian", budget, squared_distance=1.0, criterion="deviation", probability=0.05)
    assert near == math.floor(24 * math.log(6 / 0.05)) + 1  # where Theorem 2 begins to speak


@pytest.mark.parametrize(
    ("mechanism", "changes", "text"),
    [
        ("randomized-response", {}, "one that sketches"),
        ("counting+cauchy", {}, "mechanism must be"),
        ("hashing+laplace", {"squared_distance": 0.0}, "squared_distance must be"),
        ("hashing+laplace", {"criterion": "deviation"}, "rests on Theorem 2"),
        ("hashing+laplace", {"criterion": "luck"}, "criterion must be"),
        ("hashing+laplace", {"blocks": 2}, "blocks must be 1"),
        ("sparse+laplace", {"blocks": 0}, "blocks must be"),
        ("sparse+laplace", {"blocks": -1}, "blocks must be"),
        ("hashing+laplace", {"resolution": 0}, "resolution must be"),
        ("hashing+laplace", {"unit": "x"}, "unit must be"),
        ("hashing+laplace", {"rule": "x"}, "rule must be"),
        ("hashing+gaussian", {"rule": "lemma2"}, "about gaussian projections"),
        ("gaussian+gaussian", {"rule": "lemma2"}, "n_attributes and a delta"),
        ("sign+gaussian", {"criterion": "deviation", "probability": 2.0}, "probability must be"),
        ("counting+laplace", {"weight": 10.0}, "weight must be at least half"),
        ("hashing+laplace", {"squared_distance": 1e300}, "squared_distance must be"),
    ],
)
def test_what_has_no_best_k(mechanism: str, changes: dict[str, object], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        best_k(mechanism, Budget(1.0, 1e-6), **({"squared_distance": 100.0} | changes))  # type: ignore[arg-type]
