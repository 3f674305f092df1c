"""Group privacy: what several attributes cost together never exceeds the budget, in exact arithmetic."""

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.errors import ParameterError
from dimly.planner.protect import budget_for_each
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
