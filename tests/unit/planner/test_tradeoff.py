from typing import Any

import pytest

from dimly.errors import ParameterError
from dimly.lab.planning import advise
from dimly.planner.brief import Brief
from dimly.planner.tradeoff import epsilon_for_error, error_at, error_curve
from dimly.privacy import Budget

TOLD: dict[str, Any] = {
    "weight": 60.0,
    "n_attributes": 10_000,
    "n_users": 100_000,
    "distance": (60, 110),
    "purpose": "neighbors",
}
BRIEF = Brief(Budget(1.0), **TOLD)


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_the_error_is_that_of_the_advice(epsilon: float) -> None:
    found, advice = error_at(BRIEF, epsilon), advise(Budget(epsilon), **TOLD)
    assert found is not None
    assert (found.mechanism, found.verdict) == (advice.chosen.mechanism, advice.verdict)
    assert found.stderr == pytest.approx(advice.stderr)
    assert found.figure == pytest.approx(advice.figure)


def test_more_epsilon_is_less_error() -> None:
    errors = [one.stderr for one in error_curve(BRIEF, [0.1, 0.5, 1.0, 4.0])]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("protect", [1, 3])
def test_an_error_needs_the_smallest_epsilon_that_gives_it(protect: int) -> None:
    brief = Brief(Budget(1.0), protect=protect, **TOLD)
    epsilon = epsilon_for_error(brief, 30.0)
    assert epsilon is not None
    at, below = error_at(brief, epsilon), error_at(brief, 0.93 * epsilon)
    assert at is not None
    assert below is not None
    assert at.stderr <= 30.0 < below.stderr


def test_several_protected_together_cost_as_many_times() -> None:
    several = Brief(Budget(1.0), protect=4, **TOLD)
    assert error_at(several, 4.0) == error_at(BRIEF, 1.0)._replace(epsilon=4.0)  # type: ignore[union-attr]


def test_what_no_epsilon_gives() -> None:
    assert epsilon_for_error(BRIEF, 1e-6) is None
    assert epsilon_for_error(BRIEF, 1e9) == 0.001
    with pytest.raises(ParameterError, match="stderr must be a number > 0"):
        epsilon_for_error(BRIEF, 0.0)


def test_where_no_mechanism_can_serve_there_is_no_error() -> None:
    brief = Brief(Budget(1.0), mechanisms=["sign+gaussian"], **TOLD)
    assert error_at(brief, 1.0) is None
    assert error_curve(brief, [1.0]) == ()
