"""Plans on their way to the workers."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from tests.directions import named
from tests.plans import plan_of

from dimly.errors import ParameterError
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.spark.workers.parts import CarriedPlan, _perturber, carried_plan

DIRECTIONS = named("learned")
PLAN = Plan.of("directions+laplace", Budget(1.0), directions=DIRECTIONS)


class Broadcast:
    """What a Spark context makes: travels as a number, and is fetched where it is needed."""

    def __init__(self, value: Any) -> None:
        self.value, self.is_destroyed = value, False

    def destroy(self) -> None:
        self.is_destroyed = True

    def __reduce__(self) -> Any:
        return int, (7,)


def test_directions_travel_apart_from_the_tasks_and_are_forgotten() -> None:
    with carried_plan(PLAN, SimpleNamespace(broadcast=Broadcast)) as carried:
        assert carried.directions.value is DIRECTIONS
        assert len(pickle.dumps(carried)) < len(PLAN.to_json()) + 200
        assert not carried.directions.is_destroyed
        assert carried.perturber().plan == PLAN
    assert carried.directions.is_destroyed
    with (
        pytest.raises(KeyError, match="failed"),
        carried_plan(PLAN, SimpleNamespace(broadcast=Broadcast)) as carried,
    ):
        raise KeyError("failed")
    assert carried.directions.is_destroyed
    with carried_plan(plan_of("counting+laplace"), None) as carried:
        assert carried.directions is None


def test_a_worker_proves_a_plan_once_and_keeps_the_last_one_alone() -> None:
    first, again = (CarriedPlan(PLAN.to_json(), SimpleNamespace(value=DIRECTIONS)) for _ in range(2))
    assert first == again
    assert first.perturber() is again.perturber()
    CarriedPlan(plan_of("counting+laplace").to_json()).perturber()
    assert _perturber.cache_info().currsize == 1


def test_directions_that_are_not_the_plans_are_refused_by_the_worker() -> None:
    _perturber.cache_clear()
    wrong = CarriedPlan(PLAN.to_json(), SimpleNamespace(value=named("embeddings")))
    with pytest.raises(ParameterError, match="directions must be those that the plan was made with"):
        wrong.perturber()
