"""Our figures beside those of other accountants, and the traps that those hold."""

import functools
import math
from collections.abc import Callable

import dp_accounting
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from dimly.privacy.calibration import epsilon_of
from dimly.privacy.composition import ORDERS, RESERVE, Cost, compose, privacy_loss

REPLACE_ONE = dp_accounting.NeighboringRelation.REPLACE_ONE


def gaussian(multiplier: float) -> Cost:
    return Cost(max(epsilon_of(multiplier, delta=1e-6), 1e-6), 1e-6, noise_multiplier=multiplier, declared="together")


def pure(epsilon: float) -> Cost:
    return Cost(epsilon, declared="together")


CASES = {
    "ten coins": [pure(0.1)] * 10,
    "a hundred coins": [pure(0.1)] * 100,
    "large coins": [pure(4.0)] * 3,
    "different coins": [pure(0.1 + i / 100) for i in range(25)],
    "one gaussian": [gaussian(1.0)],
    "little noise": [gaussian(0.4)],
    "three gaussians": [gaussian(4.225)] * 3,
    "five hundred gaussians": [gaussian(50.0)] * 500,
    "both": [pure(0.5)] * 4 + [gaussian(4.2)] * 3 + [pure(1.0)],
    "failing": [Cost(0.5, 1e-11, declared="together")] * 5 + [gaussian(3.0)],
}
cases = pytest.mark.parametrize("costs", CASES.values(), ids=CASES.keys())
deltas = pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])


@cases
@deltas
def test_the_discretized_accountant_agrees_with_the_exact_one(costs: list[Cost], delta: float) -> None:
    found = compose(costs, delta=delta, method="pld").alternatives
    # 0.05 % of discretization, and as much again where atoms are merged.
    assert found["exact"] * (1 - 5e-4) <= found["pld"] <= found["exact"] * (1 + 1e-3)


@cases
@deltas
def test_the_filter_lies_above_the_exact_accountant_and_not_far(costs: list[Cost], delta: float) -> None:
    exact = privacy_loss(costs).epsilon(delta)
    found = compose(costs, delta=delta, method="renyi").epsilon
    assert exact <= found <= (1.25 if delta <= 1e-6 else 1.5) * exact


@settings(deadline=None)
@given(
    st.lists(st.floats(1e-3, 4.0), max_size=8),
    st.lists(st.floats(0.3, 200.0), max_size=5),
    st.floats(1e-12, 0.3),
)
def test_the_filter_never_undercuts_the_exact_accountant(
    epsilons: list[float], multipliers: list[float], delta: float
) -> None:
    costs = [*map(pure, epsilons), *map(gaussian, multipliers)]
    assert compose(costs, delta=delta, method="renyi").epsilon >= privacy_loss(costs).epsilon(delta) * (1 - 1e-6)


@deltas
def test_the_filter_is_an_rdp_accountant_at_a_share_of_delta(delta: float) -> None:
    # Gaussians and (ε = 1)-randomized response: noise_parameter p answers truly with 1 − p/2.
    accountant = RdpAccountant(ORDERS, REPLACE_ONE)
    accountant.compose(dp_accounting.GaussianDpEvent(4.0), 5)
    accountant.compose(dp_accounting.RandomizedResponseDpEvent(2 / (1 + math.e), 2), 3)
    expected = accountant.get_epsilon((1 - RESERVE) * delta / len(ORDERS))
    found = compose([gaussian(4.0)] * 5 + [pure(1.0)] * 3, delta=delta, method="renyi").epsilon
    assert found == pytest.approx(expected, rel=1e-9)


def largest_delta(coins: tuple[float, ...], *, budget: float, admits: Callable[[list[Cost]], bool]) -> float:
    """Return δ at ε = ``budget`` of an adversary who picks each next coin after seeing all outputs.

    He sees the loss so far, and plays to maximize E(1 − e^(ε − loss))₊: dynamic programming over all his choices.
    """

    @functools.cache
    def fits(counts: tuple[int, ...]) -> bool:
        return admits([Cost(coin) for coin, n in zip(coins, counts, strict=True) for _ in range(n)])

    @functools.cache
    def value(counts: tuple[int, ...], net: tuple[int, ...]) -> float:
        best = max(0.0, -math.expm1(budget - sum(coin * n for coin, n in zip(coins, net, strict=True))))
        for i, coin in enumerate(coins):
            more = tuple(n + (j == i) for j, n in enumerate(counts))
            if fits(more):
                true = 1 / (1 + math.exp(-coin))
                up, down = (tuple(n + s * (j == i) for j, n in enumerate(net)) for s in (1, -1))
                best = max(best, true * value(more, up) + (1 - true) * value(more, down))
        return best

    start = (0,) * len(coins)
    return value(start, start)


def test_an_adversary_who_adapts_breaks_an_undeclared_loss_distribution_but_not_the_filter() -> None:
    coins, budget, delta = (0.3, 0.9), 5.0, 1e-3

    def exactly(costs: list[Cost]) -> bool:
        return privacy_loss(costs).epsilon(delta) <= budget

    def filtered(costs: list[Cost]) -> bool:
        return compose(costs, delta=delta, method="renyi").epsilon <= budget

    assert largest_delta(coins, budget=budget, admits=exactly) > 1.5 * delta
    assert 0 < largest_delta(coins, budget=budget, admits=filtered) <= delta


# --- traps


def test_trap_their_accountant_ignores_the_count_of_randomized_response() -> None:
    event = dp_accounting.RandomizedResponseDpEvent(2 / (1 + math.e), 2)
    once = PLDAccountant(REPLACE_ONE).compose(event).get_epsilon(1e-6)
    ten = PLDAccountant(REPLACE_ONE).compose(event, 10).get_epsilon(1e-6)
    assert once == ten == pytest.approx(1.0, abs=1e-3)
    one_by_one = PLDAccountant(REPLACE_ONE)
    for _ in range(10):
        one_by_one.compose(event)
    ours = compose([pure(1.0)] * 10, delta=1e-6, method="pld").epsilon
    assert ours == pytest.approx(one_by_one.get_epsilon(1e-6), rel=2e-3)
    assert ours > 9


def test_trap_replace_one_doubles_the_sensitivity_in_pld_but_not_in_rdp() -> None:
    event = dp_accounting.GaussianDpEvent(4.0)
    pld = {
        relation: PLDAccountant(relation).compose(event).get_epsilon(1e-6)
        for relation in (REPLACE_ONE, dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    }
    rdp = {
        RdpAccountant(ORDERS, relation).compose(event).get_epsilon(1e-6)
        for relation in (REPLACE_ONE, dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    }
    assert len(rdp) == 1
    assert pld[REPLACE_ONE] == pytest.approx(privacy_loss([gaussian(2.0)]).epsilon(1e-6), rel=1e-3)
    ours = compose([gaussian(4.0)], delta=1e-6, method="pld").epsilon
    assert ours == pytest.approx(pld[dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE], rel=1e-3)
    assert pld[REPLACE_ONE] > 2 * ours


def test_trap_a_continuous_laplace_undercounts_a_discrete_one() -> None:
    # One step of the discrete law at Δ = 1 has loss ±ε only; the continuous one has everything between.
    n, epsilon, delta = 30, 0.5, 1e-6
    continuous = PLDAccountant().compose(dp_accounting.LaplaceDpEvent(1 / epsilon), n).get_epsilon(delta)
    discrete = PLDAccountant().compose(dp_accounting.dp_event.DiscreteLaplaceDpEvent(epsilon, 1), n).get_epsilon(delta)
    ours = compose([pure(epsilon)] * n, delta=delta, method="pld").epsilon
    assert continuous < 0.95 * discrete
    assert ours == pytest.approx(discrete, rel=2e-3)


def test_equal_claims_are_never_better_than_what_they_claim_about() -> None:
    # Composing Gaussians by their (ε, δ) claims instead of their multipliers must cost more.
    claim = common.DifferentialPrivacyParameters(1.0, 1e-6)
    one = privacy_loss_distribution.from_privacy_parameters(claim)
    by_claims = one.self_compose(4).get_epsilon_for_delta(1e-5)
    assert by_claims > 1.2 * compose([gaussian(4.225)] * 4, delta=1e-5, method="pld").epsilon
