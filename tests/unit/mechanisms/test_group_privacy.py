"""Group privacy: what several attributes cost together never exceeds the budget, in exact arithmetic."""

import json
from fractions import Fraction

import mpmath
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dimly import advise
from dimly.errors import ParameterError
from dimly.mechanisms import Plan
from dimly.mechanisms.group_privacy import budget_for_each, budget_together
from dimly.privacy import Budget, gaussian_scale


@given(st.floats(0.01, 8), st.sampled_from([0.0, 1e-12, 1e-6, 0.01]), st.integers(1, 50))
def test_all_of_them_together_keep_the_budget(epsilon: float, delta: float, together: int) -> None:
    each = budget_for_each(Budget(epsilon, delta), together)
    assert Fraction(repr(each.epsilon)) * together <= Fraction(repr(epsilon))
    assert each.epsilon * together >= epsilon * (1 - 1e-5)
    with mpmath.workdps(50):
        one, factor = mpmath.mpf(repr(each.delta)), mpmath.exp((together - 1) * mpmath.mpf(repr(each.epsilon)))
        assert together * one * factor <= mpmath.mpf(repr(delta))
        assert together * one * factor >= mpmath.mpf(repr(delta)) * (1 - mpmath.mpf("1e-4"))


def test_one_attribute_is_the_budget_itself() -> None:
    assert budget_for_each(Budget(0.1, 1e-7), 1) == Budget(0.1, 1e-7)


def test_gaussian_noise_is_a_little_more_than_as_many_times_the_noise_of_one() -> None:
    each = gaussian_scale(budget_for_each(Budget(1.0, 1e-6), 5), l2_sensitivity=1.0)
    together = gaussian_scale(Budget(1.0, 1e-6), l2_sensitivity=5.0)
    assert together <= each <= 1.2 * together


@pytest.mark.parametrize("together", [0, -1, 20_000, 1.5, True])
def test_bad_numbers(together: object) -> None:
    with pytest.raises(ParameterError, match="protect must be an integer"):
        budget_for_each(Budget(1.0), together)  # type: ignore[arg-type]


def test_a_delta_that_vanishes_is_refused() -> None:
    with pytest.raises(ParameterError, match="protect must be smaller"):
        budget_for_each(Budget(700.0, 1e-12), 100)


@given(st.floats(0.01, 8), st.sampled_from([0.0, 1e-12, 1e-6]), st.integers(1, 50))
def test_what_several_cost_is_not_told_too_low(epsilon: float, delta: float, together: int) -> None:
    assume(together * epsilon < 8)
    told = budget_together(Budget(epsilon, delta), together)
    assert Fraction(repr(told.epsilon)) >= Fraction(repr(epsilon)) * together
    with mpmath.workdps(50):
        factor = mpmath.exp((together - 1) * mpmath.mpf(repr(epsilon)))
        assert mpmath.mpf(repr(told.delta)) >= together * mpmath.mpf(repr(delta)) * factor


def test_what_was_divided_comes_out_again() -> None:
    for together in (2, 3, 7, 10):
        assert budget_together(budget_for_each(Budget(0.5, 1e-6), together), together) == Budget(0.5, 1e-6)


@pytest.mark.parametrize(("budget", "together"), [(Budget(8.0), 100), (Budget(1.0, 1e-6), 20)])
def test_so_many_that_nothing_is_promised_are_refused(budget: Budget, together: int) -> None:
    with pytest.raises(ParameterError, match="protect must be smaller"):
        budget_together(budget, together)


def test_a_plan_says_what_several_cost() -> None:
    each = budget_for_each(Budget(1.0, 1e-6), 3)
    plan = Plan.of("sign+gaussian", each, k=8, seed=bytes(32), protect=3)
    assert plan.together == Budget(1.0, 1e-6)
    assert plan.cost.together == 3
    assert Plan.from_json(plan.to_json()) == plan
    assert json.loads(plan.to_json())["protect"] == 3
    alone = Plan.of("sign+gaussian", each, k=8, seed=bytes(32))
    assert alone.together is None
    assert "protect" not in json.loads(alone.to_json())
    assert alone.digest != plan.digest
    assert alone.noise == plan.noise  # a note: the noise is that of the budget


def test_plans_of_bad_numbers_are_refused() -> None:
    with pytest.raises(ParameterError, match="protect must be an integer"):
        Plan.of("counting+laplace", Budget(1.0), k=8, protect=0)
    with pytest.raises(ParameterError, match="protect must be smaller"):
        Plan.of("counting+laplace", Budget(1.0), k=8, protect=900)
    fields = json.loads(Plan.of("counting+laplace", Budget(1.0), k=8, protect=2).to_json())
    with pytest.raises(ParameterError, match="protect"):
        Plan.from_json(json.dumps(fields | {"protect": 1}))


def test_plan_and_advise_divide_the_budget() -> None:
    found = advise(Budget(1.0), distance=(100, 800), protect=4)
    assert (found.plan.budget.epsilon, found.plan.protect) == (0.25, 4)
    assert found.plan.together == Budget(1.0)
    assert advise(Budget(0.25), distance=(100, 800)).plan.protect is None
