import math
from collections.abc import Iterator

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from dimly.errors import ParameterError
from dimly.privacy import composition as module
from dimly.privacy.calibration import epsilon_of
from dimly.privacy.composition import Cost, gaussian_delta, privacy_loss


@pytest.fixture(autouse=True)
def _many_bits() -> Iterator[None]:
    before, ctx.prec = ctx.prec, 400
    yield
    ctx.prec = before


def normal_cdf(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2


def gaussian_delta_in_balls(epsilon: float, mu: float) -> float:
    e, m = arb(epsilon), arb(mu)
    return float(normal_cdf(m / 2 - e / m) - e.exp() * normal_cdf(-m / 2 - e / m))


def gaussian(multiplier: float) -> Cost:
    return Cost(max(epsilon_of(multiplier, delta=1e-6), 1e-6), 1e-6, noise_multiplier=multiplier)


@pytest.mark.parametrize("mu", [1e-5, 1e-3, 0.1, 1.0, 3.0, 30.0])
def test_the_gaussian_profile_has_nine_digits_everywhere(mu: float) -> None:
    where = np.concatenate([np.linspace(-9, 25, 35) * mu + mu * mu / 2, [-50.0, -1.0, 0.0]])
    expected = [gaussian_delta_in_balls(epsilon, mu) for epsilon in where]
    np.testing.assert_allclose(gaussian_delta(where, mu=mu), expected, rtol=1e-9)


def test_a_gaussian_below_the_smallest_mu_is_taken_for_a_worse_one() -> None:
    assert gaussian_delta(0.0, mu=1e-9) == gaussian_delta(0.0, mu=1e-5) > gaussian_delta_in_balls(0.0, 1e-9)


def test_no_gaussian_is_the_limit_of_small_ones() -> None:
    where = np.array([-3.0, -0.5, 0.0, 0.5])
    np.testing.assert_allclose(gaussian_delta(where, mu=0.0), [1 - math.exp(-3), 1 - math.exp(-0.5), 0, 0])
    np.testing.assert_allclose(gaussian_delta(where, mu=1e-5), gaussian_delta(where, mu=0.0), atol=1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 1.7, 2.9])
def test_delta_of_coins_and_a_gaussian_is_the_sum_over_their_atoms(epsilon: float) -> None:
    # Two coins of ε = 1, one of ε = ½ that fails with probability 1e-3, and a Gaussian, term by term.
    expected = arb(0)
    for first in (1, -1):
        for second in (1, -1):
            for third in (0.5, -0.5):
                weight = arb(1)
                for loss in (first, second, third):
                    weight /= 1 + (-arb(loss)).exp()
                expected += weight * gaussian_delta_in_balls(epsilon - first - second - third, 0.5)
    expected = arb(1) / 1000 + (1 - arb(1) / 1000) * expected
    found = privacy_loss([Cost(1.0), Cost(0.5, 1e-3), gaussian(2.0), Cost(1.0)]).delta(epsilon)
    assert float(expected) <= found <= float(expected) * (1 + 1e-7)


def test_binomial_weights_keep_their_digits_for_many_coins() -> None:
    n, epsilon = 200_000, 0.01
    loss = privacy_loss([Cost(epsilon)] * n)
    for true in (n // 2, 100_500, 101_500):
        exact = math.comb(n, true) * (1 + (-arb(epsilon)).exp()) ** -n * (-arb(epsilon) * (n - true)).exp()
        assert loss.weights[true] == pytest.approx(float(exact), rel=5e-9, abs=0.0)


@given(
    st.lists(st.floats(0.01, 3.0), max_size=5),
    st.lists(st.floats(0.3, 50.0), max_size=3),
    st.floats(1e-12, 0.5),
)
def test_epsilon_is_the_safe_side_of_the_inverse_of_delta(
    coins: list[float], multipliers: list[float], delta: float
) -> None:
    loss = privacy_loss([*map(Cost, coins), *map(gaussian, multipliers)])
    epsilon = loss.epsilon(delta)
    assert loss.delta(epsilon) <= delta
    assert epsilon == 0 or loss.delta(epsilon * (1 - 1e-10)) > delta


@given(st.lists(st.floats(0.01, 2.0), min_size=1, max_size=8), st.floats(0.0, 5.0))
def test_merging_atoms_never_helps_and_raises_losses_by_what_it_says(coins: list[float], epsilon: float) -> None:
    costs = list(map(Cost, coins))
    exact = privacy_loss(costs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_ATOMS", 1)
        coarsest = privacy_loss(costs)
        patch.setattr(module, "MAX_ATOMS", max(1, 2 ** len(set(coins)) - 1))
        merged = privacy_loss(costs)
    assert exact.rounding == 0
    for rounded in (coarsest, merged):
        assert rounded.weights.sum() == pytest.approx(1.0)
        # The margin of 1e-7 is what either may exceed the truth by.
        assert exact.delta(epsilon) <= rounded.delta(epsilon) * (1 + 1e-7)
        assert rounded.delta(epsilon) <= exact.delta(epsilon - rounded.rounding) * (1 + 1e-7) + 1e-13


def test_many_different_coins_are_merged() -> None:
    loss = privacy_loss([Cost(0.1 + i / 1000) for i in range(30)])
    assert len(loss.losses) < 1.01 * module.MAX_ATOMS
    assert 0 < loss.rounding <= 30 * 2 * 3.436 / module.MAX_ATOMS
    assert loss.epsilon(1e-6) < 0.9 * 3.435


def test_no_cost_at_all_loses_nothing() -> None:
    assert privacy_loss([]).epsilon(1e-9) == 0.0


@pytest.mark.parametrize("delta", [0.0, 1e-3, 1.0])
def test_a_delta_that_no_epsilon_reaches_is_refused(delta: float) -> None:
    with pytest.raises(ParameterError, match=r"delta must be below 1 and above 0\.001"):
        privacy_loss([Cost(1.0, 1e-3)]).epsilon(delta)
