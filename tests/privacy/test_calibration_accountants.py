"""Scales against an accountant that is not ours: dp_accounting."""

import math

import pytest
from dp_accounting.pld import common, privacy_loss_mechanism

from dimly.privacy import Budget, delta_of, epsilon_of, gaussian_scale

GRID = [(e, d) for e in (0.01, 0.1, 0.5, 1.0, 3.0, 8.0, 20.0) for d in (1e-3, 1e-6, 1e-10)]


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_exact_scale_and_its_inverses(epsilon: float, delta: float) -> None:
    sigma = gaussian_scale(Budget(epsilon, delta), l2_sensitivity=1.0)
    theirs = privacy_loss_mechanism.GaussianPrivacyLoss.from_privacy_guarantee(
        common.DifferentialPrivacyParameters(epsilon, delta)
    )
    # Theirs is a raw root, good to about 1e-7 of either side.
    assert sigma == pytest.approx(theirs.standard_deviation, rel=2e-6)
    ours = privacy_loss_mechanism.GaussianPrivacyLoss(sigma)
    assert ours.get_delta_for_epsilon(epsilon) <= delta * (1 + 1e-9)
    assert delta_of(sigma, epsilon=epsilon) == pytest.approx(ours.get_delta_for_epsilon(epsilon), rel=1e-6)
    assert epsilon_of(sigma, delta=delta) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_the_papers_rules_are_safe_for_the_accountant_too(epsilon: float, delta: float) -> None:
    for rule in ("lemma1", "theorem1"):
        sigma = gaussian_scale(Budget(epsilon, delta), l2_sensitivity=1.0, rule=rule)
        assert privacy_loss_mechanism.GaussianPrivacyLoss(sigma).get_delta_for_epsilon(epsilon) < delta
    if epsilon < math.log(1 / delta):
        sigma = gaussian_scale(Budget(epsilon, delta), l2_sensitivity=2.0, rule="lemma2", k=100, n_attributes=1000)
        worst = privacy_loss_mechanism.GaussianPrivacyLoss(sigma, sensitivity=2.0)
        assert worst.get_delta_for_epsilon(epsilon) < delta
