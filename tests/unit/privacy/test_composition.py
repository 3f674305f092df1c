import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from dimly.errors import DimlyError, ParameterError
from dimly.privacy import composition
from dimly.privacy.budget import stated
from dimly.privacy.calibration import epsilon_of
from dimly.privacy.composition import METHODS, ORDERS, RESERVE, Composition, Cost, Method, compose, privacy_loss


def gaussian(multiplier: float, **fields: Any) -> Cost:
    return Cost(max(epsilon_of(multiplier, delta=1e-6), 1e-6), 1e-6, noise_multiplier=multiplier, **fields)


PURE = st.builds(Cost, st.floats(1e-4, 5.0))
GAUSSIAN = st.builds(gaussian, st.floats(0.3, 100.0))
FAILING = st.builds(Cost, st.floats(1e-4, 5.0), st.floats(1e-12, 1e-9))
COSTS = st.lists(PURE | GAUSSIAN | FAILING, min_size=1, max_size=6)


# --- the sum


@given(st.lists(st.floats(1e-9, 100.0), min_size=1, max_size=30))
def test_the_sum_is_rounded_up_by_less_than_one_unit_in_the_last_place(epsilons: list[float]) -> None:
    exact = sum(map(stated, epsilons), Fraction(0))
    found = compose(map(Cost, epsilons), delta=0.0, method="sum").epsilon
    assert stated(math.nextafter(found, 0.0)) < exact <= stated(found)


@pytest.mark.parametrize(("part", "n", "whole"), [(0.1, 10, 1.0), (0.1, 3, 0.3), (1.1, 3, 3.3), (0.7, 10, 7.0)])
def test_decimals_add_up_as_people_add_them(part: float, n: int, whole: float) -> None:
    assert compose([Cost(part)] * n, delta=0.0, method="sum").epsilon == whole


@given(st.integers(1, 200), st.sampled_from([0.125, 0.5, 1.0, 3.0]))
def test_equal_pure_costs_multiply(n: int, epsilon: float) -> None:
    for method in ("sum", "renyi", "auto"):
        assert compose([Cost(epsilon)] * n, delta=0.0, method=method).epsilon == n * epsilon


def test_deltas_add_and_the_claim_is_what_was_spent() -> None:
    total = compose([Cost(1.0, 0.25), Cost(2.0, 0.125), Cost(0.5)], delta=0.5, method="sum")
    assert total == Composition(epsilon=3.5, delta=0.375, method="sum", n_costs=3)


def test_a_sum_above_delta_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"delta must be at least 0\.375, .* got 0\.374"):
        compose([Cost(1.0, 0.25), Cost(2.0, 0.125)], delta=0.374, method="sum")


# --- the Rényi filter


def filter_in_balls(costs: list[Cost], delta: float) -> float:
    """The same formula, from cosh and in 53-bit balls, without the rounding to the safe side."""
    readings = []
    for order in map(arb, ORDERS):
        rho = arb(0)
        for cost in costs:
            if cost.noise_multiplier is None:
                ratio = ((order - arb(0.5)) * cost.epsilon).cosh() / (arb(cost.epsilon) / 2).cosh()
                rho += ratio.log() / (order - 1)
            else:
                rho += order / (2 * arb(cost.noise_multiplier) ** 2)
        share = arb(1 - RESERVE) * delta / len(ORDERS)
        readings.append(float(rho + ((order - 1) / order).log() - (share * order).log() / (order - 1)))
    return max(0.0, min(readings))


@given(st.lists(PURE, max_size=3), st.lists(GAUSSIAN, min_size=1, max_size=3), st.floats(1e-12, 0.1))
def test_the_filter_is_its_formula_rounded_up(pure: list[Cost], gaussians: list[Cost], delta: float) -> None:
    expected = filter_in_balls(pure + gaussians, delta)
    found = compose(pure + gaussians, delta=delta, method="renyi").epsilon
    assert expected - 1e-13 <= found <= expected * (1 + 1e-10) + 1e-10


@pytest.mark.parametrize("epsilon", [1e-9, 1e-5, 0.003, 0.0039, 0.004, 0.39, 0.41, 5.0, 600.0])
@pytest.mark.parametrize("order", [2.5, 256.0])
def test_the_divergence_of_a_coin_has_twelve_digits_in_both_of_its_forms(order: float, epsilon: float) -> None:
    e, a = arb(epsilon), arb(order)
    with ctx.workprec(300):
        exact = float((((a - arb(0.5)) * e).cosh() / (e / 2).cosh()).log() / (a - 1))
    assert composition._coin_divergence(order, epsilon) == pytest.approx(exact, rel=1e-12, abs=0.0)


@given(COSTS, st.floats(1e-7, 0.1), st.randoms(use_true_random=False))
def test_order_does_not_matter(costs: list[Cost], delta: float, random: Any) -> None:
    shuffled = random.sample(costs, len(costs))
    for method in ("renyi", "auto"):
        found, expected = (compose(each, delta=delta, method=method) for each in (shuffled, costs))
        assert found.method == expected.method
        assert found.epsilon == pytest.approx(expected.epsilon, rel=1e-12)


@given(COSTS, PURE | GAUSSIAN | FAILING, st.floats(1e-7, 0.1))
def test_another_cost_never_helps_and_a_larger_delta_never_hurts(
    costs: list[Cost], another: Cost, delta: float
) -> None:
    before = compose(costs, delta=delta, method="renyi").epsilon
    assert before <= compose([*costs, another], delta=delta, method="renyi").epsilon
    assert before >= compose(costs, delta=2 * delta, method="renyi").epsilon


@given(st.integers(2, 200), st.floats(1.0, 30.0), st.sampled_from([1e-6, 1e-9]))
def test_copies_of_a_gaussian_are_one_with_less_noise(n: int, multiplier: float, delta: float) -> None:
    one = [gaussian(multiplier / math.sqrt(n))]
    many = [gaussian(multiplier)] * n
    renyi = compose(many, delta=delta, method="renyi").epsilon
    assert renyi == pytest.approx(compose(one, delta=delta, method="renyi").epsilon, rel=1e-11)
    assert privacy_loss(many).epsilon(delta) == pytest.approx(privacy_loss(one).epsilon(delta), rel=1e-9)


def test_failures_and_inexact_sampling_live_on_a_reserve_of_their_own() -> None:
    # What they leave of it must not come back to the orders: see the derivation.
    plain = compose([gaussian(4.0)] * 3, delta=1e-6, method="renyi").epsilon
    inexact = compose([gaussian(4.0, sampling_distance=1e-22)] * 3, delta=1e-6, method="renyi").epsilon
    failing = compose([*[gaussian(4.0)] * 3, Cost(1e-9, 1e-7)], delta=1e-6, method="renyi").epsilon
    assert plain == inexact
    assert failing == pytest.approx(plain, abs=1e-8)


@pytest.mark.parametrize(
    ("costs", "delta", "text"),
    [
        ([Cost(1.0, 1e-7), Cost(1.0, 1e-7)], 1e-6, r"at least 1\.6e-06 for these costs, got 1e-06.* 'sum'"),
        ([gaussian(4.0, sampling_distance=1e-18)], 1e-6, r"at least 0\.000632 for these costs"),
        ([gaussian(4.0), Cost(1.0)], 0.0, "delta must be > 0 and at least 0 for these costs"),
        ([gaussian(0.1, sampling_distance=1e-30)], 1e-6, "costs must stay within epsilon 32 together, got"),
    ],
)
def test_the_filter_refuses_what_it_cannot_cover(costs: list[Cost], delta: float, text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        compose(costs, delta=delta, method="renyi")


def test_a_large_total_is_answered_where_sampling_is_exact() -> None:
    assert compose([gaussian(0.1)], delta=1e-6, method="renyi").epsilon > 32


# --- loss distributions


def test_a_declared_set_is_claimed_by_the_larger_of_two_accountants() -> None:
    costs = [Cost(0.5, declared="a")] * 4 + [gaussian(4.0, declared="a")] * 2
    found = compose(costs, delta=1e-6, method="pld")
    assert found.method == "pld"
    assert found.n_costs == 6
    assert found.alternatives["exact"] == privacy_loss(costs).epsilon(1e-6)
    assert found.epsilon == max(found.alternatives.values()) == pytest.approx(found.alternatives["exact"], rel=1e-3)


def test_discretization_never_lifts_a_declared_set_above_its_sum() -> None:
    found = compose([Cost(1.0, declared="a")] * 2, delta=1e-6, method="pld")
    assert found.epsilon == 2.0 < found.alternatives["pld"]


@pytest.mark.parametrize(
    "costs",
    [[Cost(1.0), Cost(1.0)], [Cost(1.0, declared="a"), Cost(1.0)], [Cost(1.0, declared="a"), Cost(1.0, declared="b")]],
)
def test_plans_that_were_not_declared_together_are_refused(costs: list[Cost]) -> None:
    with pytest.raises(ParameterError, match="costs must share one declaration for method 'pld'"):
        compose(costs, delta=1e-6, method="pld")


@pytest.mark.parametrize(("cost", "delta"), [(Cost(1.0), 1e-13), (Cost(1.0, 1e-6), 1e-6), (gaussian(1.0), 0.0)])
def test_a_delta_too_small_for_fourier_transforms_is_refused(cost: Cost, delta: float) -> None:
    with pytest.raises(ParameterError, match=r"delta must be at least .* for method 'pld', got"):
        compose([cost], delta=delta, method="pld")


class Skewed:
    """A discretized accountant that is wrong by a factor."""

    def __init__(self, inner: Any, factor: float) -> None:
        self.inner, self.factor = inner, factor

    def get_epsilon_for_delta(self, delta: float) -> float:
        return float(self.inner.get_epsilon_for_delta(delta)) * self.factor


@pytest.mark.parametrize("factor", [0.999, 1.002, math.inf])
def test_accountants_that_disagree_claim_nothing(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    honest: Callable[..., Any] = composition._discretize
    monkeypatch.setattr(composition, "_discretize", lambda *a, **k: Skewed(honest(*a, **k), factor))
    with pytest.raises(DimlyError, match=r"accountants must agree, got epsilon .* Nothing is claimed"):
        compose([gaussian(4.0, declared="a")] * 3, delta=1e-6)


# --- inexact sampling


@pytest.mark.parametrize("distance", [1e-33, 1e-12, 1e-8, 5e-8])
@pytest.mark.parametrize("method", ["pld", "auto"])
def test_inexact_sampling_is_paid_for_on_both_sides(distance: float, method: Method) -> None:
    cost = Cost(4.0, 1e-5, noise_multiplier=2.0, sampling_distance=distance)
    epsilon = compose([cost], delta=1e-6, method=method).epsilon
    loss = privacy_loss([cost])
    assert loss.delta(epsilon) + (1 + math.exp(epsilon)) * distance <= 1e-6
    smaller = epsilon * (1 - 2e-3 if method == "pld" else 1 - 1e-7)
    assert loss.delta(smaller) + (1 + math.exp(smaller)) * distance > 1e-6


@pytest.mark.parametrize("distance", [1e-7, 1e-3])
def test_sampling_too_coarse_for_delta_is_refused(distance: float) -> None:
    cost = Cost(4.0, 1e-5, noise_multiplier=2.0, sampling_distance=distance)
    with pytest.raises(ParameterError, match="delta must be larger beside a sampling_distance of"):
        compose([cost], delta=1e-6)


# --- choosing


def test_nothing_costs_nothing() -> None:
    assert compose([], delta=0.0) == Composition(epsilon=0.0, delta=0.0, method="sum", n_costs=0)


@pytest.mark.parametrize("cost", [Cost(1.0), Cost(2.0, 1e-7), gaussian(4.3)])
def test_one_cost_is_its_own_claim(cost: Cost) -> None:
    found = compose([cost], delta=1e-6)
    assert (found.epsilon, found.delta, found.method) == (cost.epsilon, cost.delta, "sum")


def test_one_gaussian_has_an_exact_claim_at_a_smaller_delta() -> None:
    found = compose([gaussian(4.3)], delta=1e-9)
    assert (found.epsilon, found.delta, found.method) == (privacy_loss([gaussian(4.3)]).epsilon(1e-9), 1e-9, "exact")


@pytest.mark.parametrize(("cost", "delta"), [(Cost(1.0, 1e-6), 1e-9), (gaussian(4.3), 0.0)])
def test_one_cost_without_a_claim_at_delta_is_refused(cost: Cost, delta: float) -> None:
    with pytest.raises(ParameterError, match="delta must be at least 1e-06"):
        compose([cost], delta=delta)


@pytest.mark.parametrize(
    ("costs", "delta", "method"),
    [
        ([Cost(1.0), Cost(1.0)], 1e-6, "sum"),
        ([Cost(0.1)] * 100, 1e-6, "renyi"),
        ([Cost(0.1)] * 100, 0.0, "sum"),
        ([Cost(1.0), gaussian(4.0)], 1e-6, "renyi"),
        ([Cost(1.0, declared="a"), gaussian(4.0, declared="a")], 1e-6, "pld"),
        ([Cost(1.0, declared="a"), gaussian(4.0, declared="a")], 1e-13, "renyi"),
        ([Cost(1.0, declared="a"), gaussian(4.0, declared="b")], 1e-6, "renyi"),
    ],
)
def test_auto_picks_by_what_is_in_the_list(costs: list[Cost], delta: float, method: str) -> None:
    found = compose(costs, delta=delta)
    assert found.method == method
    assert found.delta in (0.0, delta)


def test_alternatives_hold_the_sum_only_where_delta_allows_it() -> None:
    claim = gaussian(4.0).epsilon
    assert compose([gaussian(4.0)] * 2, delta=2e-6, method="renyi").alternatives["sum"] == 2 * claim
    assert "sum" not in compose([gaussian(4.0)] * 2, delta=1e-6, method="renyi").alternatives


@pytest.mark.parametrize("method", METHODS)
def test_units_do_not_mix(method: Method) -> None:
    with pytest.raises(ParameterError, match="costs must have one unit, got several"):
        compose([Cost(1.0), Cost(1.0, unit="column")], delta=1e-6, method=method)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ParameterError, match="method must be one of auto, sum, renyi, pld, got 'rdp'"):
        compose([], delta=0.0, method="rdp")  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [-1e-9, 1.0, float("nan"), "0.1", True])
def test_a_delta_out_of_range_is_refused(delta: Any) -> None:
    with pytest.raises(ParameterError, match=r"delta must be a number in \[0, 1\), got"):
        compose([Cost(1.0)], delta=delta)


def test_a_filter_does_not_load_the_slow_accountant() -> None:
    code = (
        "import sys; from dimly.privacy.composition import Cost, compose; "
        "compose([Cost(0.1)] * 100, delta=1e-6); sys.exit('dp_accounting' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


def test_a_pure_cost_needs_only_epsilon() -> None:
    cost = Cost(1)
    assert cost == Cost(epsilon=1.0, delta=0.0, noise_multiplier=None, sampling_distance=0.0, unit="attribute")
    assert cost.is_pure
    assert not Cost(1.0, 1e-6).is_pure


def test_a_cost_survives_json() -> None:
    cost = Cost(
        np.float64(0.5),
        Fraction(3, 1000),  # type: ignore[arg-type]
        noise_multiplier=np.float32(4.0),  # type: ignore[arg-type]
        sampling_distance=np.float64(1e-30),
        unit="column",
        declared="autumn",
    )
    assert Cost(**json.loads(json.dumps(asdict(cost)))) == cost
    assert {type(value) for value in asdict(cost).values()} == {float, str, int}


def test_a_cost_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Cost(1.0).epsilon = 0.5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"epsilon": 1.0, "together": 0}, "together must be an integer from 1 on, got 0"),
        ({"epsilon": 1.0, "together": 2.0}, r"together must be an integer from 1 on, got 2\.0"),
        ({"epsilon": 0.0}, r"epsilon must be > 0 and at most 700, got 0\.0"),
        ({"epsilon": 5e-324}, "epsilon must be at least 1e-20 and at most 700"),
        ({"epsilon": "1"}, "epsilon must be a number, got '1'"),
        ({"epsilon": 701.0}, r"epsilon must be > 0 and at most 700, got 701\.0"),
        ({"delta": 1.0}, r"delta must be in \[0, 1\), got 1\.0"),
        ({"noise_multiplier": "4"}, "noise_multiplier must be a number, got '4'"),
        ({"noise_multiplier": True}, "noise_multiplier must be a number, got True"),
        ({"noise_multiplier": 0.0}, r"noise_multiplier must be in \[0\.01, 1e9\], got 0\.0"),
        ({"noise_multiplier": float("nan")}, r"noise_multiplier must be in \[0\.01, 1e9\], got nan"),
        ({"noise_multiplier": float("inf")}, r"noise_multiplier must be in \[0\.01, 1e9\], got inf"),
        ({"noise_multiplier": 4.0, "delta": 0.0}, "delta must be > 0 with a noise_multiplier"),
        ({"noise_multiplier": 4.2}, "delta must be at least .* for noise_multiplier 4.2 at epsilon 1.0"),
        ({"sampling_distance": None}, "sampling_distance must be a number, got None"),
        (
            {"noise_multiplier": 4.0, "sampling_distance": 1.0},
            r"sampling_distance must be in \[0, 1\), got 1\.0",
        ),
        (
            {"noise_multiplier": 4.0, "sampling_distance": -1e-9},
            r"sampling_distance must be in \[0, 1\), got -1e-09",
        ),
        ({"sampling_distance": 1e-30}, "sampling_distance must be 0 without a noise_multiplier, got 1e-30"),
        ({"unit": "person"}, "unit must be one of attribute, column, got 'person'"),
        ({"declared": ""}, "declared must be None or a name, got ''"),
        ({"declared": 7}, "declared must be None or a name, got 7"),
    ],
)
def test_fields_out_of_range_are_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        Cost(**({"epsilon": 1.0, "delta": 1e-6} | fields))
