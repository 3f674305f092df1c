import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimly.errors import ParameterError
from dimly.privacy import RULES, Budget, Rule, delta_of, epsilon_of, gaussian_scale, laplace_scale

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
# δ = 1e-6, sensitivity 1; from solving the four formulas independently.
TABLE: dict[Rule, tuple[float, ...]] = {
    "lemma2": (29.735, 14.868, 7.434, 3.717, 1.858),
    "theorem1": (10.439, 5.315, 2.750, 1.463, 0.812),
    "lemma1": (10.343, 5.219, 2.656, 1.372, 0.726),
    "exact": (8.058, 4.225, 2.230, 1.194, 0.653),
}
SIZE = {"k": 64, "n_attributes": 3706}

budgets = st.builds(Budget, st.floats(0.01, 20), st.floats(-15, -3).map(lambda e: 10.0**e))
paper_rules = st.sampled_from(["lemma1", "theorem1"])


def profile(sigma: float, epsilon: float, w: float = 1.0) -> mpmath.mpf:
    """δ(ε) of the Gaussian mechanism with 80 digits, independently of the package."""
    with mpmath.workdps(80):
        mu, e = mpmath.mpf(w) / mpmath.mpf(sigma), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)


@pytest.mark.parametrize("rule", RULES)
def test_the_published_table(rule: Rule) -> None:
    scales = [gaussian_scale(Budget(e, 1e-6), l2_sensitivity=1.0, rule=rule, **SIZE) for e in EPSILONS]
    assert scales == pytest.approx(TABLE[rule], abs=5e-4)


def test_any_kind_of_number_will_do() -> None:
    plain = gaussian_scale(Budget(1.0, 1e-6), l2_sensitivity=2.0)
    assert gaussian_scale(Budget(1.0, 1e-6), l2_sensitivity=np.int64(2)) == plain  # type: ignore[arg-type]
    assert delta_of(np.float32(1.0), epsilon=np.int64(1)) == delta_of(1.0, epsilon=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [1e-4, 1e-8, 1e-12, 1e-20])
def test_exact_stays_tight_where_epsilon_is_tiny(epsilon: float) -> None:
    # There δ is the total variation, 2Φ(1/2σ) − 1, about 1/(σ√2π).
    sigma = gaussian_scale(Budget(epsilon, 1e-2), l2_sensitivity=1.0)
    assert sigma == pytest.approx(1 / (1e-2 * math.sqrt(2 * math.pi)), rel=0.02)


def test_figure_1_point() -> None:
    assert delta_of(1.0, epsilon=1.0) == pytest.approx(0.12694, abs=1e-5)
    assert epsilon_of(1.0, delta=0.12694) == pytest.approx(1.0, abs=1e-4)
    exact = gaussian_scale(Budget(1.0, 0.12694), l2_sensitivity=1.0)
    assert exact == pytest.approx(1.0, abs=1e-4)
    assert all(gaussian_scale(Budget(1.0, 0.12694), l2_sensitivity=1.0, rule=r) > 1.0 for r in ("lemma1", "theorem1"))


def test_lemma_1_as_printed_in_the_paper_would_be_another_number() -> None:
    # The paper's last line has √(2ε) where the root of its own quadratic has √2·ε.
    log_term = math.log(1 / 2e-6)
    printed = (math.sqrt(log_term) + math.sqrt(log_term + 4)) / math.sqrt(2 * 4)
    ours = gaussian_scale(Budget(4.0, 1e-6), l2_sensitivity=1.0, rule="lemma1")
    assert printed == pytest.approx(2 * ours, rel=1e-9)
    # At ε < 1 the printed one is too small to be private:
    printed_low = (math.sqrt(log_term) + math.sqrt(log_term + 0.25)) / math.sqrt(2 * 0.25)
    assert delta_of(printed_low, epsilon=0.25) > 1e-6


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10, 1e-15])
def test_no_rule_ever_exceeds_delta(epsilon: float, delta: float) -> None:
    for rule in RULES:
        if rule == "lemma2" and epsilon >= math.log(1 / delta):
            continue
        w = 2.0 if rule == "lemma2" else 3.7
        size = {"k": 1000, "n_attributes": 3706} if rule == "lemma2" else {}
        sigma = gaussian_scale(Budget(epsilon, delta), l2_sensitivity=w, rule=rule, **size)
        assert profile(sigma, epsilon, w) <= mpmath.mpf(delta)
        if rule == "exact":  # safe, but not by much
            assert profile(sigma * (1 - 1e-12), epsilon, w) > mpmath.mpf(delta)


@settings(max_examples=60)
@given(budgets, st.floats(1e-3, 1e3))
def test_exact_is_safe_and_tight_everywhere(budget: Budget, w: float) -> None:
    sigma = gaussian_scale(budget, l2_sensitivity=w)
    assert profile(sigma, budget.epsilon, w) <= mpmath.mpf(budget.delta)
    assert profile(sigma * (1 - 1e-11), budget.epsilon, w) > mpmath.mpf(budget.delta)
    assert sigma <= gaussian_scale(budget, l2_sensitivity=w, rule="lemma1")
    assert sigma == pytest.approx(w * gaussian_scale(budget, l2_sensitivity=1.0), rel=1e-12)


@given(budgets)
def test_lemma_1_is_never_worse_than_theorem_1(budget: Budget) -> None:
    lemma1, theorem1 = (gaussian_scale(budget, l2_sensitivity=1.0, rule=r) for r in ("lemma1", "theorem1"))
    assert lemma1 <= theorem1


@settings(max_examples=60)
@given(budgets, st.sampled_from(RULES))
def test_inverses_undo_the_scale_on_the_safe_side(budget: Budget, rule: Rule) -> None:
    size = {"k": 100_000, "n_attributes": 3706}
    if rule == "lemma2" and budget.epsilon >= math.log(1 / budget.delta):
        return
    sigma = gaussian_scale(budget, l2_sensitivity=1.0, rule=rule, **size)
    assert epsilon_of(sigma, delta=budget.delta, rule=rule, **size) == pytest.approx(budget.epsilon, rel=1e-9)
    delta = delta_of(sigma, epsilon=budget.epsilon, rule=rule, **size)
    assert delta == pytest.approx(budget.delta, rel=1e-8)
    assert profile(sigma, budget.epsilon) <= mpmath.mpf(delta)


@given(st.floats(0.05, 50), st.floats(1e-3, 15), st.floats(1e-3, 15))
def test_delta_falls_with_epsilon_and_with_noise(sigma: float, a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert delta_of(sigma, epsilon=high) <= delta_of(sigma, epsilon=low)
    assert delta_of(sigma * (1 + high), epsilon=low) <= delta_of(sigma, epsilon=low)


@pytest.mark.parametrize("rule", ["theorem1", "lemma1", "lemma2"])
def test_where_a_rule_proves_nothing_it_says_so(rule: Rule) -> None:
    assert delta_of(0.3, epsilon=0.01, rule=rule, **SIZE) == 1.0
    # Just above the reach of the rule its δ is below 1/2, and true.
    sigma = gaussian_scale(Budget(1.0, 0.4), l2_sensitivity=1.0, rule="theorem1")
    assert profile(sigma, 1.0) < delta_of(sigma, epsilon=1.0, rule="theorem1") < 0.5


def test_lemma_2_inverses_respect_its_conditions() -> None:
    assert epsilon_of(10.0, delta=1e-6, rule="lemma2", k=10, n_attributes=3706) == math.inf
    assert epsilon_of(10.0, delta=1e-6, l2_sensitivity=2.1, rule="lemma2", **SIZE) == math.inf
    assert epsilon_of(0.5, delta=1e-6, rule="lemma2", **SIZE) == math.inf  # ε would be above ln(1/δ)
    assert delta_of(10.0, epsilon=1.0, l2_sensitivity=2.1, rule="lemma2", **SIZE) == 1.0
    # k's condition, not the noise, limits δ here: 2d·e^(−k/2).
    limited = delta_of(1000.0, epsilon=1.0, rule="lemma2", k=40, n_attributes=10)
    assert limited == pytest.approx(20 * math.exp(-20), rel=1e-9)
    gaussian_scale(Budget(1.0, limited), l2_sensitivity=1.0, rule="lemma2", k=40, n_attributes=10)


def test_exact_hides_everything_at_epsilon_zero_if_delta_allows() -> None:
    assert epsilon_of(10.0, delta=0.5) == 0.0
    assert delta_of(10.0, epsilon=0.0) == pytest.approx(0.0398776, abs=1e-6)  # total variation, 2Φ(1/20) − 1


@pytest.mark.parametrize("delta", [0.5, 0.9, 0.999])
def test_exact_takes_any_delta(delta: float) -> None:
    sigma = gaussian_scale(Budget(0.5, delta), l2_sensitivity=1.0)
    assert profile(sigma, 0.5) <= delta < profile(sigma * (1 - 1e-11), 0.5)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: gaussian_scale(Budget(1.0), l2_sensitivity=1.0), "delta must be > 0"),
        (lambda: gaussian_scale(Budget(1.0, 0.5), l2_sensitivity=1.0, rule="theorem1"), "below 1/2"),
        (lambda: gaussian_scale(Budget(1.0, 1e-6), l2_sensitivity=0.0), "l2_sensitivity must be"),
        (lambda: gaussian_scale(Budget(1.0, 1e-6), l2_sensitivity=math.nan), "l2_sensitivity must be"),
        (lambda: gaussian_scale(Budget(1.0, 1e-6), l2_sensitivity=1.0, rule="best"), "rule must be one of"),  # type: ignore[arg-type]
        (lambda: gaussian_scale(Budget(1.0, 1e-6), l2_sensitivity=1.0, rule="lemma2", n_attributes=9), "k must be"),
        (lambda: gaussian_scale(Budget(1.0, 1e-6), l2_sensitivity=1.0, rule="lemma2", k=64), "n_attributes must be"),
        (
            lambda: gaussian_scale(Budget(1.0, 1e-6), l2_sensitivity=1.0, rule="lemma2", k=45, n_attributes=3706),
            "k must be above",
        ),
        (lambda: gaussian_scale(Budget(1.0, 1e-6), l2_sensitivity=2.1, rule="lemma2", **SIZE), "at most 2"),
        (
            lambda: gaussian_scale(Budget(14.0, 1e-6), l2_sensitivity=1.0, rule="lemma2", **SIZE),
            "epsilon must be below",
        ),
        (lambda: laplace_scale(Budget(1.0), l1_sensitivity=-1.0), "l1_sensitivity must be"),
        (lambda: delta_of(0.0, epsilon=1.0), "scale must be"),
        (lambda: delta_of("1", epsilon=None), "epsilon must be a number"),  # type: ignore[arg-type]
        (lambda: gaussian_scale(Budget(1.0, 1e-6), l2_sensitivity=None), "l2_sensitivity must be a number"),  # type: ignore[arg-type]
        (lambda: gaussian_scale(Budget(1.0, 1e-6), l2_sensitivity=1e300), "between 1e-150 and 1e150"),
        (
            lambda: gaussian_scale(Budget(1.0, 1e-6), l2_sensitivity=1.0, rule="lemma2", k=64.5, n_attributes=9),  # type: ignore[arg-type]
            "k must be",
        ),
        (
            lambda: gaussian_scale(Budget(1.0, 1e-6), l2_sensitivity=1.0, rule="lemma2", k=True, n_attributes=9),
            "k must be",
        ),
        (lambda: delta_of(1.0, epsilon=-1.0), "epsilon must be"),
        (lambda: delta_of(1.0, epsilon=math.inf), "epsilon must be"),
        (lambda: epsilon_of(1.0, delta=0.0), "delta must be"),
        (lambda: epsilon_of(1.0, delta=0.5, rule="lemma1"), "below 1/2"),
    ],
)
def test_a_call_that_cannot_work_names_the_parameter(call: object, text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        call()  # type: ignore[operator]


@given(st.floats(1e-3, 30), st.integers(1, 10**6))
def test_laplace_scale_is_rounded_up(epsilon: float, sensitivity: int) -> None:
    scale = laplace_scale(Budget(epsilon), l1_sensitivity=float(sensitivity))
    assert mpmath.mpf(scale) * mpmath.mpf(epsilon) >= sensitivity * (1 - mpmath.mpf(2) ** -50)
    assert scale == pytest.approx(sensitivity / epsilon, rel=1e-15)
