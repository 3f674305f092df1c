import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.errors import DimlyError, ParameterError
from dimly.privacy import UNITS, VALUES_MOVED, Budget


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
