"""Neighboring tables with the same noise differ by no more than the plan declares (the paper's Definitions 1 and 2).

That noise covers the declared sensitivity is proven elsewhere; here it is the whole way from a table to published
numbers that must keep it: canonical attributes, duplicates, rounding to the resolution, projection, saturation. The
recorded words also show that how many of them are drawn tells nothing: neighbors ask for the same.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.matrices import publish_matrix
from tests.plans import N_ATTRIBUTES, N_USERS, SEED, plan_of
from tests.privacy.moves import check, moved
from tests.streams import Recorded

from dimly.mechanisms import MECHANISMS, Plan
from dimly.privacy import Budget
from dimly.privacy.budget import Unit
from dimly.release import Sketches

RESOLUTION = 5
SKETCHING = [mechanism for mechanism in MECHANISMS if "+" in mechanism]
OPEN = [name for name in SKETCHING if name.startswith(("counting", "hashing", "sparse", "sign"))]
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)
every_unit = pytest.mark.parametrize("unit", ["attribute", "column"])
few = settings(max_examples=15, deadline=None)

# Columns 7 and 42 are one attribute, 3, 4 and 5 another, and so on for whoever is hit by chance.
NAMES: list[object] = [{7: 42, 4: "3", 5: 3, 60: "61"}.get(i, i if i % 3 else str(i)) for i in range(N_ATTRIBUTES)]
TEXTS = [str(name) for name in NAMES]


def plan_at(mechanism: str, *, resolution: int = 1, unit: Unit = "attribute") -> Plan:
    changes: dict[str, Any] = {} if unit == "attribute" else {"unit": unit}
    return plan_of(mechanism, **(changes if resolution == 1 else changes | {"resolution": resolution}))


def with_repeats(table: NDArray[np.float64], seed: int) -> Any:
    """Return the table as coordinates, every entry several times and in any order; smaller ones count for nothing."""
    generator = np.random.default_rng(seed)
    rows, columns = np.nonzero(np.ones_like(table))
    data = table[rows, columns]
    again = generator.integers(0, len(data), 2 * len(data))
    smaller = np.concatenate([data, data[again] * generator.integers(0, 1, len(again), endpoint=True)])
    order = generator.permutation(len(smaller))
    places = (np.concatenate([rows, rows[again]])[order], np.concatenate([columns, columns[again]])[order])
    return scipy.sparse.coo_array((smaller[order], places), shape=table.shape)


LAYOUTS: dict[str, Callable[[NDArray[np.float64]], Any]] = {
    "dense": lambda table: table,
    "compressed": scipy.sparse.csr_array,
    "with repeats": lambda table: with_repeats(table, 0),
}


def replay(plan: Plan, table: NDArray[np.float64], layout: str, **named: Any) -> tuple[Sketches, list[tuple[str, int]]]:
    words = Recorded(11)
    release = publish_matrix(LAYOUTS[layout](table), plan, attributes=NAMES, words=words, **named)
    return release, words.asked


class Table:
    """A table of people at a resolution, one of whom is about to change."""

    def __init__(self, seed: int, *, resolution: int, n: int = 6) -> None:
        generator = np.random.default_rng(seed)
        steps = generator.integers(0, resolution, (n, N_ATTRIBUTES), endpoint=True)
        self.values = steps * (generator.random((n, N_ATTRIBUTES)) < 0.4) / resolution
        self.person = int(generator.integers(n))
        self.column = int(generator.integers(N_ATTRIBUTES))
        self.other = int((self.column + generator.integers(1, N_ATTRIBUTES)) % N_ATTRIBUTES)
        self.users = generator.permutation(10 * n)[:n]

    @property
    def row(self) -> int:
        """Where the person is published."""
        return int((self.users < self.users[self.person]).sum())

    def changed(self, **values: float) -> NDArray[np.float64]:
        table = self.values.copy()
        for place, value in values.items():
            table[self.person, getattr(self, place)] = value
        return table


@every_mechanism
@every_unit
@few
@given(
    layout=st.sampled_from(list(LAYOUTS)),
    seed=st.integers(0, 10**6),
    special=st.sampled_from([None, 7, 42, 3, 4, 5, 60]),
)
def test_one_bit_moves_no_more_than_declared(
    mechanism: str, unit: Unit, layout: str, seed: int, special: int | None
) -> None:
    plan, table = plan_at(mechanism, unit=unit), Table(seed, resolution=1)
    table.column = table.column if special is None else special
    one, asked = replay(plan, table.changed(column=0), layout, users=table.users)
    other, asked_too = replay(plan, table.changed(column=1), layout, users=table.users)
    assert asked == asked_too
    check(plan, moved(plan, one, other), table.row)


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "randomized-response"])
@every_unit
@few
@given(
    layout=st.sampled_from(list(LAYOUTS)),
    seed=st.integers(0, 10**6),
    special=st.sampled_from([None, 7, 42, 3, 4, 5, 60]),
    ends=st.tuples(st.floats(0, 1), st.floats(0, 1)) | st.just((0.0, 1.0)),
)
def test_one_value_moves_no_more_than_declared(
    mechanism: str, unit: Unit, layout: str, seed: int, special: int | None, ends: tuple[float, float]
) -> None:
    plan, table = plan_at(mechanism, resolution=RESOLUTION, unit=unit), Table(seed, resolution=RESOLUTION)
    table.column = table.column if special is None else special
    one, asked = replay(plan, table.changed(column=ends[0]), layout, users=table.users)
    other, asked_too = replay(plan, table.changed(column=ends[1]), layout, users=table.users)
    assert asked == asked_too
    check(plan, moved(plan, one, other), table.row)


@every_mechanism
@few
@given(layout=st.sampled_from(list(LAYOUTS)), seed=st.integers(0, 10**6))
def test_another_category_moves_no_more_than_declared(mechanism: str, layout: str, seed: int) -> None:
    """The bits ``column=value`` of two categories flip, one from 1 to 0 and one from 0 to 1."""
    for resolution in (1, RESOLUTION):
        if mechanism == "randomized-response" and resolution > 1:
            continue
        plan, table = plan_at(mechanism, resolution=resolution, unit="column"), Table(seed, resolution=resolution)
        one, asked = replay(plan, table.changed(column=1, other=0), layout, users=table.users)
        other, asked_too = replay(plan, table.changed(column=0, other=1), layout, users=table.users)
        assert asked == asked_too
        check(plan, moved(plan, one, other), table.row)


@pytest.mark.parametrize("mechanism", OPEN)
@pytest.mark.parametrize("resolution", [1, RESOLUTION])
def test_open_families_attain_their_sensitivity_with_every_attribute(mechanism: str, resolution: int) -> None:
    plan = plan_at(mechanism, resolution=resolution)
    for attribute in ("0", "tea", "ö", "column=value"):
        one = publish_matrix([[0], [0]], plan, attributes=[attribute], words=Recorded(1))
        other = publish_matrix([[0], [1]], plan, attributes=[attribute], words=Recorded(1))
        own = (other.values.astype(np.int64) - one.values)[1]
        assert np.abs(own).sum() == plan.sensitivity.l1
        assert (own**2).sum() == plan.sensitivity.l2_squared
        assert np.count_nonzero(own) == plan.touched


@pytest.mark.parametrize("mechanism", OPEN)
def test_open_families_attain_their_sensitivity_with_some_change_of_category(mechanism: str) -> None:
    """Two attributes in the same places with opposite signs; counting has no signs, and cannot attain ℓ₂."""
    blocks = 4 if mechanism.startswith("sparse") else 1
    plan = Plan.of(mechanism, Budget(1.0, 1e-6), k=4, blocks=blocks, seed=SEED, unit="column")
    before, after = np.zeros((300, 301)), np.eye(300, 301, k=1)
    before[:, 0] = 1
    one, other = (publish_matrix(table, plan, words=Recorded(2)).values.astype(np.int64) for table in (before, after))
    assert np.abs(one - other).sum(axis=1).max() == plan.sensitivity.l1
    assert np.count_nonzero(one - other, axis=1).max() == plan.touched
    farthest = ((one - other) ** 2).sum(axis=1).max()
    assert farthest == (2 if mechanism.startswith("counting") else plan.sensitivity.l2_squared)


@pytest.mark.parametrize("mechanism", [name for name in SKETCHING if name not in OPEN])
@pytest.mark.parametrize("resolution", [1, RESOLUTION])
def test_closed_families_attain_their_sensitivity_with_an_attribute_of_their_vocabulary(
    mechanism: str, resolution: int
) -> None:
    plan = plan_at(mechanism, resolution=resolution)
    nothing = publish_matrix(np.zeros((N_ATTRIBUTES, N_ATTRIBUTES)), plan, words=Recorded(3))
    each = publish_matrix(np.eye(N_ATTRIBUTES), plan, words=Recorded(3))
    difference = each.values.astype(np.int64) - nothing.values
    assert np.abs(difference).sum(axis=1).max() == plan.sensitivity.l1
    assert (difference**2).sum(axis=1).max() == plan.sensitivity.l2_squared
    assert np.count_nonzero(difference, axis=1).max() <= plan.touched


@pytest.mark.parametrize("resolution", [1, RESOLUTION])
def test_noisy_distances_attain_their_sensitivity(resolution: int) -> None:
    plan = plan_at("noisy-distances", resolution=resolution)
    one, other = np.zeros((2, N_USERS, N_ATTRIBUTES))
    other[17, 3] = 1
    difference = moved(plan, *(publish_matrix(table, plan, words=Recorded(4)) for table in (other, one)))
    assert np.abs(difference).sum() == plan.sensitivity.l1
    assert (difference**2).sum() == plan.sensitivity.l2_squared
    assert np.count_nonzero(difference) == plan.touched


def test_randomized_response_attains_its_sensitivity() -> None:
    plan, table = plan_at("randomized-response"), np.zeros((3, N_ATTRIBUTES))
    one = publish_matrix(table, plan, words=Recorded(5))
    for column in range(N_ATTRIBUTES):
        table[1] = np.arange(N_ATTRIBUTES) == column
        difference = moved(plan, publish_matrix(table, plan, words=Recorded(5)), one)
        assert np.flatnonzero(difference[1]).tolist() == [column]
        assert np.count_nonzero(difference) == plan.sensitivity.l1 == 1


def test_saturation_only_brings_neighbors_together() -> None:
    """Sums below, at and beyond what sixteen bits hold."""
    plan = Plan.of("counting+laplace", Budget(0.05), k=2, seed=SEED)
    n, d = 40, 80_000
    weights = np.linspace(65_000, 66_000, n).astype(np.int64)
    owners = np.repeat(np.arange(n), weights)
    columns = np.concatenate([np.arange(1, 1 + weight) for weight in weights])
    one = scipy.sparse.coo_array((np.ones(len(columns)), (owners, columns)), shape=(n, d)).tocsr()
    other = one + scipy.sparse.coo_array((np.ones(n), (np.arange(n), np.zeros(n, np.int64))), shape=(n, d)).tocsr()
    low, high = (publish_matrix(table, plan, words=Recorded(6)).values.astype(np.int64) for table in (one, other))
    steps = np.abs(high - low).sum(axis=1)
    assert set(steps.tolist()) == {0, plan.sensitivity.l1}  # saturated, or not
    assert high.max() == 32767
