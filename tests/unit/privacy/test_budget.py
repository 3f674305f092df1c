import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.errors import DimlyError, ParameterError
from dimly.privacy import UNITS, VALUES_MOVED, Budget
from dimly.privacy.budget import stated
from dimly.privacy.calibration import delta_of, gaussian_scale


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 701.0, 10**400, "1", None, True])
def test_bad_epsilon_is_named(epsilon: object) -> None:
    with pytest.raises(ParameterError, match=r"^epsilon must be"):
        Budget(epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [-1e-9, 1, 2.0, math.nan, "0", None, False])
def test_bad_delta_is_named(delta: object) -> None:
    with pytest.raises(ParameterError, match=r"^delta must be"):
        Budget(1.0, delta)  # type: ignore[arg-type]


def test_a_parameter_error_is_a_value_error_and_ours() -> None:
    with pytest.raises(ValueError, match="epsilon") as caught:
        Budget(0)
    assert isinstance(caught.value, DimlyError)


def test_numbers_of_any_kind_become_floats() -> None:
    budget = Budget(np.int64(1), np.float32(0.25))  # type: ignore[arg-type]
    assert (type(budget.epsilon), type(budget.delta)) == (float, float)
    assert budget == Budget(1.0, 0.25)
    assert not budget.is_pure
    assert Budget(1.0).is_pure


@given(st.floats(1e-3, 30), st.floats(0.01, 0.99))
def test_posterior_changes_the_odds_by_e_to_the_epsilon(epsilon: float, prior: float) -> None:
    posterior = Budget(epsilon).posterior(prior)
    if posterior < 1 - 1e-9:
        assert posterior / (1 - posterior) == pytest.approx(math.exp(epsilon) * prior / (1 - prior), rel=1e-6)


def test_posterior_of_the_documents() -> None:
    assert Budget(4.0).posterior(0.5) == pytest.approx(0.98, abs=0.005)
    with pytest.raises(ParameterError, match="prior must be in"):
        Budget(1.0).posterior(1.0)


def test_a_category_moves_two_values() -> None:
    assert {unit: VALUES_MOVED[unit] for unit in UNITS} == {"attribute": 1, "column": 2}


@given(st.floats(1e-9, 700.0), st.floats(0.0, 0.99))
def test_rounded_down_no_float_exceeds_the_decimal_that_was_stated(epsilon: float, delta: float) -> None:
    rounded = Budget(epsilon, delta).rounded_down
    assert Fraction(rounded.epsilon) <= stated(epsilon)
    assert Fraction(rounded.delta) <= stated(delta)
    assert rounded.epsilon in (epsilon, math.nextafter(epsilon, 0.0))
    assert rounded.delta in (delta, math.nextafter(delta, 0.0))


def test_what_is_stated_is_what_was_typed() -> None:
    assert (stated(0.1), stated(1.0), stated(1e-6)) == (Fraction(1, 10), Fraction(1), Fraction(1, 10**6))
    assert Budget(0.1).rounded_down.epsilon < 0.1  # in binary a little more than a tenth
    assert Budget(0.3, 1e-6).rounded_down == Budget(0.3, 1e-6)  # in binary a little less than that


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.1, 2.3])
@pytest.mark.parametrize("delta", [1e-6, 1e-5, 3e-7])
def test_gaussian_noise_keeps_the_decimals_that_were_stated(epsilon: float, delta: float) -> None:
    sigma = gaussian_scale(Budget(epsilon, delta), l2_sensitivity=1.0)
    below = Budget(epsilon, delta).rounded_down
    assert delta_of(sigma, epsilon=below.epsilon) <= below.delta
