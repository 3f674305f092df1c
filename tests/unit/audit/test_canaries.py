"""Canaries attain what the plan says, and the careless form of a person is the same person."""

from typing import Any

import numpy as np
import pytest
from tests.plans import plan_of
from tests.streams import NO_FLIPS, NO_NOISE

from dimly.audit.canaries import Canaries, canaries_of, invented
from dimly.audit.coin_trials import numbers_of
from dimly.curator.perturb import Perturber
from dimly.errors import ParameterError
from dimly.mechanisms import MECHANISMS, Directions, Plan
from dimly.mechanisms.projection.directions import Buckets
from dimly.privacy import Budget

ROWS = [name for name in MECHANISMS if name != "noisy-distances"]
RNG = np.random.default_rng(3)
DIRECTIONS = Directions.of_values(
    [f"color={i}" for i in range(40)], RNG.laplace(size=(40, 6)) / 20, origin="made up", scale=64
)


def plans() -> list[Plan]:
    found = [plan_of(mechanism) for mechanism in ROWS]
    found += [plan_of(mechanism, unit="column") for mechanism in ("counting+laplace", "randomized-response")]
    found += [plan_of(mechanism, resolution=5) for mechanism in ("hashing+laplace", "sparse+gaussian")]
    for law in ("laplace", "gaussian"):
        for unit in ("attribute", "column"):
            found.append(Plan.of(f"directions+{law}", Budget(1.0, 1e-6), directions=DIRECTIONS, unit=unit))
    return found


def exact(plan: Plan, canaries: Canaries, people: Any) -> Any:
    perturber = Perturber(plan, () if plan.by_position else canaries.attributes)
    words = NO_FLIPS if plan.dtype == "bit" else NO_NOISE
    return numbers_of(plan, perturber.perturb(people, words))


@pytest.mark.parametrize("plan", plans(), ids=lambda plan: f"{plan.mechanism} {plan.unit} {plan.resolution}")
def test_each_canary_moves_as_far_as_the_plan_says_and_no_other_number(plan: Plan) -> None:
    canaries = canaries_of(plan)
    nothing, each = np.zeros((1, len(canaries)), bool), np.eye(len(canaries), dtype=bool)
    before = exact(plan, canaries, canaries.held(nothing))
    moved = exact(plan, canaries, canaries.held(each)) - before
    l1, l2 = np.abs(moved).sum(axis=1), (moved**2).sum(axis=1)
    if "gaussian" in plan.mechanism.split("+")[-1]:
        assert (l2 == plan.sensitivity.l2_squared).all()
    else:
        assert (l1 == plan.sensitivity.l1).all()
    expected = np.zeros_like(moved)
    for c in range(len(canaries)):
        np.add.at(expected[c], canaries.columns[c], canaries.moves[c])
    np.testing.assert_array_equal(moved, expected)
    for c in range(len(canaries)):
        place = canaries.columns[c][canaries.moves[c] != 0]
        np.testing.assert_array_equal(before[0, place], canaries.start[c][canaries.moves[c] != 0])
    all_at_once = exact(plan, canaries, canaries.held(np.ones((1, len(canaries)), bool)))
    np.testing.assert_array_equal(all_at_once - before, expected.sum(axis=0, keepdims=True))


@pytest.mark.parametrize("plan", plans(), ids=lambda plan: f"{plan.mechanism} {plan.unit} {plan.resolution}")
def test_careless_people_are_the_same_people(plan: Plan) -> None:
    canaries = canaries_of(plan)
    coins = RNG.integers(0, 2, (30, len(canaries))).astype(bool)
    careful, careless = canaries.held(coins), canaries.held_carelessly(coins)
    assert len(careless.indices) == 2 * len(careful.indices)
    np.testing.assert_array_equal(exact(plan, canaries, careful), exact(plan, canaries, careless))
    assert careless.values is not None
    assert careless.values.min(initial=10**9) > plan.resolution


def test_one_entry_families_hold_a_canary_for_nearly_every_number() -> None:
    assert len(canaries_of(plan_of("counting+laplace"))) == 32
    assert len(canaries_of(plan_of("counting+laplace"), together=5)) == 5
    assert len(canaries_of(plan_of("sign+laplace"))) == 1


def test_long_lists_and_buckets() -> None:
    listed = [f"name {i}" for i in range(50)]
    plan = Plan.of("ternary+laplace", Budget(1.0), k=16, vocabulary=listed)
    with pytest.raises(ParameterError, match="vocabulary must be given"):
        canaries_of(plan)
    assert set(canaries_of(plan, vocabulary=listed).attributes) <= set(listed)
    named = Plan.of("randomized-response", Budget(1.0), vocabulary=listed)
    assert canaries_of(named).attributes == ()
    assert canaries_of(named, vocabulary=listed).attributes == tuple(listed)
    buckets = Directions.of_values(Buckets(8), RNG.laplace(size=(8, 3)), origin="made up")
    plan = Plan.of("directions+laplace", Budget(1.0), directions=buckets)
    assert np.abs(canaries_of(plan).moves).sum() == plan.sensitivity.l1


def test_lists_that_are_too_long_to_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan.of("ternary+laplace", Budget(1.0), k=4, n_attributes=3000, seed=bytes(32))
    monkeypatch.setattr("dimly.audit.canaries._LARGEST_LOOK", 4 * 500)  # in six pieces
    assert np.abs(canaries_of(plan).moves[0]).sum() == plan.sensitivity.l1
    monkeypatch.setattr("dimly.audit.canaries._LOOKED_AT", 1000)  # a third of them
    assert np.abs(canaries_of(plan).moves[0]).sum() == plan.sensitivity.l1


def test_what_has_no_canaries_is_refused() -> None:
    with pytest.raises(ParameterError, match="all pairs"):
        canaries_of(plan_of("noisy-distances"))
    with pytest.raises(ParameterError, match="two attributes"):
        canaries_of(Plan.of("randomized-response", Budget(1.0), n_attributes=1, unit="column"))


def test_invented_names_differ() -> None:
    assert invented(0) != invented(1)
