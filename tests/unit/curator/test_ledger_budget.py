import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.curator.ledger_budget import DatasetBudget, _down
from dimly.errors import BudgetError, ParameterError
from dimly.privacy.calibration import epsilon_of
from dimly.privacy.composition import compose
from dimly.privacy.cost import Cost


def budget(epsilon: float = 1.0, **fields: Any) -> DatasetBudget:
    stated: dict[str, Any] = {"epsilon": epsilon, "delta": 0.0, "unit": "attribute", "method": None} | fields
    return DatasetBudget.of("d", **stated)


def gaussian(multiplier: float, **fields: Any) -> Cost:
    return Cost(epsilon_of(multiplier, delta=1e-6), 1e-6, noise_multiplier=multiplier, **fields)


def test_the_method_follows_delta_and_can_be_stated() -> None:
    assert budget().method == "sum"
    assert budget(delta=1e-6).method == "renyi"
    assert budget(delta=1e-6, method="sum").method == "sum"
    assert budget(100.0, delta=1e-6, method="sum").epsilon == 100.0


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"epsilon": 0.0}, "epsilon must be > 0"),
        ({"delta": 1.0}, "delta must be in"),
        ({"unit": "person"}, "unit must be one of attribute, column, got 'person'"),
        ({"method": "pld"}, "method must be one of sum, renyi, got 'pld'"),
        ({"method": "renyi"}, "method 'renyi' must have delta > 0 .* got delta 0"),
        ({"delta": 1e-6, "epsilon": 33.0}, "at most 32, got delta 1e-06 and epsilon 33. Use method 'sum'"),
    ],
)
def test_parts_that_do_not_fit_are_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        budget(**fields)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201, None, 3])
def test_a_name_is_one_readable_line(name: Any) -> None:
    with pytest.raises(ParameterError, match="dataset must be one line of 1 to 200 characters"):
        DatasetBudget.of(name, epsilon=1.0, delta=0.0, unit="attribute", method=None)


@given(st.integers(1, 60), st.sampled_from([0.1, 0.3, 0.7, 1.1, 1 / 3]))
def test_n_parts_of_a_budget_fit_it_and_one_more_does_not(n: int, epsilon: float) -> None:
    whole = budget(float(f"{n * epsilon:.12g}"))
    whole.check([Cost(epsilon)] * (n - 1), Cost(epsilon))
    with pytest.raises(BudgetError, match=r"Nothing is left\."):
        whole.check([Cost(epsilon)] * n, Cost(epsilon))


def test_twelve_digits_are_compared_and_no_fewer() -> None:
    budget().check([], Cost(1 + 4e-12))
    with pytest.raises(BudgetError):
        budget().check([], Cost(1 + 6e-12))


def test_deltas_that_add_up_are_compared_to_twelve_digits_too() -> None:
    parts = budget(10.0, delta=1e-7, method="sum")
    tenth = Cost(0.1, 1e-8)
    with pytest.raises(ParameterError):
        compose([tenth] * 10, delta=1e-7, method="sum")  # in binary
    parts.check([tenth] * 9, tenth)
    with pytest.raises(BudgetError, match=r"does not fit: delta must be at least 1\.1e-07"):
        parts.check([tenth] * 10, tenth)
    with pytest.raises(BudgetError):
        parts.check([tenth] * 9, Cost(0.1, 1e-8 + 1e-18))


def test_a_refusal_says_what_is_left() -> None:
    with pytest.raises(BudgetError) as caught:
        budget().check([Cost(0.3)], Cost(0.8))
    assert str(caught.value) == (
        "dataset 'd' must stay within epsilon 1 at delta 0, and this release of epsilon 0.8 would make it 1.1. "
        "A pure release of epsilon 0.7 still fits."
    )


def test_gaussian_noise_in_a_pure_budget_is_refused_with_the_reason() -> None:
    with pytest.raises(BudgetError, match=r"delta must be at least 1e-06, .* A pure release of epsilon 1 still fits"):
        budget().check([], gaussian(10.0))


def test_a_filter_admits_more_than_a_sum() -> None:
    cost = gaussian(40.0)
    many = [cost] * 99
    filtered, summed = budget(delta=1e-5), budget(delta=1e-3, method="sum")
    filtered.check(many[:50], cost)
    with pytest.raises(BudgetError):
        summed.check(many[:50], cost)


COSTS = st.lists(st.builds(Cost, st.floats(1e-3, 1.0)) | st.builds(gaussian, st.floats(5.0, 50.0)), max_size=5)


@given(COSTS, st.floats(0.5, 8.0), st.sampled_from(["sum", "renyi"]))
def test_what_is_left_fits_and_a_little_more_does_not(costs: list[Cost], epsilon: float, method: Any) -> None:
    spent = budget(epsilon, delta=1e-4, method=method)
    left = spent.left(costs)
    assert 0 <= left <= epsilon * (1 + 1e-12)
    if left:
        spent.check(costs, Cost(left))
    if left < epsilon * (1 - 1e-6):
        with pytest.raises(BudgetError):
            spent.check(costs, Cost(left * (1 + 1e-9) + 1e-9))


@pytest.mark.parametrize(("n", "left"), [(0, 1.0), (3, 0.7), (7, 0.3), (9, 0.1), (10, 0.0), (11, 0.0)])
def test_what_is_left_is_a_number_as_people_write_it(n: int, left: float) -> None:
    assert budget().left([Cost(0.1)] * n) == left


def test_nothing_is_left_where_even_the_method_gives_up() -> None:
    costs = [gaussian(10.0), gaussian(10.0)]
    assert budget(delta=1e-9, method="sum").left(costs) == 0.0


def test_more_than_the_method_can_tell_is_told_as_a_sum() -> None:
    costs = [gaussian(10.0), gaussian(10.0)]
    told = budget(delta=1e-9, method="sum").spent(costs)
    assert told == compose(costs, delta=0.5, method="sum")


def test_a_plan_for_columns_protects_attributes_at_its_own_cost() -> None:
    column = gaussian(10.0, unit="column")
    assert budget(delta=1e-5).in_unit(column) == gaussian(10.0)
    assert budget(unit="column").in_unit(Cost(1.0, unit="column")).unit == "column"


def test_a_plan_for_attributes_does_not_protect_columns() -> None:
    with pytest.raises(BudgetError, match="plan must protect unit 'column', as dataset 'd' promises, got 'attribute'"):
        budget(unit="column").in_unit(Cost(1.0))


@given(st.floats(1e-9, 700.0))
def test_what_is_told_in_six_digits_never_exceeds_what_is_left(value: float) -> None:
    told = float(f"{_down(value):.6g}")
    assert told <= value
    assert math.isclose(told, value, rel_tol=2e-5)
