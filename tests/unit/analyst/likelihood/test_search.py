"""Likelihood estimates in every form in which one can ask; tests/statistical says how good they are."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize
from tests import folders
from tests.matrices import publish_matrix
from tests.plans import N_ATTRIBUTES, plan_of
from tests.releases import PEOPLE, parts, release_of, same
from tests.streams import Recorded

from dimly.analyst import Release
from dimly.analyst.likelihood.rate_grid import Grid, grid_of
from dimly.analyst.release import open_release
from dimly.errors import ParameterError
from dimly.mechanisms import MECHANISMS, Plan
from dimly.privacy import Budget
from dimly.release import Sketches

Floats = NDArray[np.float64]
ONE_ENTRY = ["counting+laplace", "hashing+laplace", "counting+gaussian", "hashing+gaussian"]
one_entry = pytest.mark.parametrize("mechanism", ONE_ENTRY)
BITS = 6


def log_likelihood(grid: Grid, x: NDArray[np.int16], y: NDArray[np.int16]) -> Callable[[Floats], float]:
    half = 1 << (BITS - 1)

    def at(rates: Floats) -> float:
        a, b, c = np.maximum(rates, 0.0)
        probability, _ = grid._law_of_pairs(a, b, c, BITS)
        return float(np.log(probability[x.astype(int) + half, y.astype(int) + half]).sum())

    return at


def highest(at: Callable[[Floats], float], start: Floats, *, distance: float | None = None) -> tuple[float, float]:
    """Return the height and a + b, found by a general optimizer."""
    given = [] if distance is None else [{"type": "eq", "fun": lambda rates: rates[0] + rates[1] - distance}]
    options = {"ftol": 1e-9, "maxiter": 200}
    found = optimize.minimize(
        lambda rates: -at(rates), start, method="SLSQP", bounds=[(0, None)] * 3, constraints=given, options=options
    )
    return -float(found.fun), float(found.x[0] + found.x[1])


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace"])
def test_the_estimate_is_where_a_general_optimizer_finds_it(mechanism: str) -> None:
    """And at the ends the likelihood has fallen by as much as the cut says, the other rates being free."""
    k = 64
    plan = plan_of(mechanism, k=k)
    generator = np.random.default_rng(5)
    shared = generator.multinomial(60, np.full(k, 1 / k), 4)
    values = [shared + generator.multinomial(40, np.full(k, 1 / k), 4) for _ in range(2)]
    noise = [generator.geometric(0.63, (2, 4, k)) for _ in range(2)]
    x, y = ((value + n[0] - n[1]).astype(np.int16) for value, n in zip(values, noise, strict=True))
    found = Release(Sketches(plan, np.arange(8), np.concatenate([x, y]))).distances(
        np.arange(4), np.arange(4, 8), method="likelihood"
    )
    grid = grid_of(plan, None)
    for i in range(4):
        at = log_likelihood(grid, x[i], y[i])
        start = np.full(3, 0.6)
        height, rate = highest(at, start)
        assert found.value[i] == pytest.approx(k * rate, abs=0.1 * found.stderr[i])
        node = next(grid.visit(grid.nearest(np.array([[rate / 2, rate / 2, 0.9]]), bits=BITS), bits=BITS))
        slot, nodes = node[1][0], node[2]
        # What the cut would be at the estimate; it differs somewhat at the ends.
        cut = 1.96**2 * nodes.spreads[slot] / nodes.variances[slot]
        for end in (found.low[i], found.high[i]):
            if end > 0:
                loss = 2 * (height - highest(at, start, distance=end / k)[0])
                assert loss == pytest.approx(cut, rel=0.25)


@one_entry
def test_every_way_of_asking_gives_the_same(mechanism: str) -> None:
    release = release_of(mechanism)
    own = release.project({"3", "5", "8"})
    found = release.distances([0, 1, 2], [3, 4, 5], method="likelihood")
    assert parts(found).shape == (4, 3)
    alone = release.distance(1, 4, method="likelihood")
    np.testing.assert_allclose(parts(alone).reshape(4), parts(found)[:, 1], rtol=1e-9)
    same(release.distances([3, 4, 5], [0, 1, 2], method="likelihood"), found)
    same(release.distances([0, 1], 4, method="likelihood"), release.distances([0, 1], [4, 4], method="likelihood"))
    same(release.distances(own, [0, 1], method="likelihood"), release.distances([0, 1], own, method="likelihood"))
    assert parts(release.distances([], [], method="likelihood")).shape == (4, 0)


@one_entry
def test_estimates_are_possible(mechanism: str) -> None:
    release = release_of(mechanism)
    rows, columns = np.triu_indices(30, 1)
    for other in (columns, release.project(range(20)), release.project([])):
        found = release.distances(rows, other, method="likelihood")
        assert (found.low >= 0).all()
        assert (found.low <= found.value).all()
        assert (found.value <= found.high).all()
        assert np.isfinite(found.high).all()
        assert (found.stderr > 0).all()


CONFIDENCES = (0.01, 0.3, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 1 - 1e-6, 1 - 1e-12)


@given(
    mechanism=st.sampled_from(ONE_ENTRY),
    seed=st.integers(0, 2**32 - 1),
    k=st.sampled_from([8, 32, 100]),
    epsilon=st.sampled_from([1.0, 2.0, 8.0]),
    share=st.sampled_from([0.0, 0.05, 0.3, 0.9]),
    closed=st.booleans(),
    own=st.sampled_from(["people", "nothing", "some", "everything"]),
)
@settings(max_examples=60)
@example("hashing+laplace", 3, 32, 1.0, 0.3, True, "nothing")
@example("hashing+laplace", 3, 32, 1.0, 0.3, True, "people")
@example("counting+laplace", 3, 32, 1.0, 0.3, True, "everything")
def test_intervals_are_nested(
    mechanism: str, seed: int, k: int, epsilon: float, share: float, closed: bool, own: str
) -> None:
    """Whatever the likelihood looks like: each holds the estimate, and that of a smaller confidence, exactly."""
    d = 300
    plan = noisy_plan(mechanism, k, epsilon, d if closed else None)
    generator = np.random.default_rng(seed)
    people = (generator.random((40, d)) < share).astype(np.int64)
    release = Release(publish_matrix(people, plan, words=Recorded(seed)))
    rows = np.arange(10)
    held = {"people": 0, "nothing": 0, "some": 20, "everything": d}[own]
    other: Any = np.arange(20, 30) if own == "people" else release.project(range(held))
    inner = release.distances(rows, other, method="likelihood", confidence=CONFIDENCES[0])
    for confidence in CONFIDENCES:
        outer = release.distances(rows, other, method="likelihood", confidence=confidence)
        np.testing.assert_array_equal(outer.value, inner.value)
        assert (outer.low >= 0).all()
        assert (outer.low <= outer.value).all()
        assert (outer.value <= outer.high).all()
        assert np.isfinite(outer.high).all()
        assert (outer.low <= inner.low).all()
        assert (outer.high >= inner.high).all()
        inner = outer


@cache
def noisy_plan(mechanism: str, k: int, epsilon: float, n_attributes: int | None) -> Plan:
    return Plan.of(mechanism, Budget(epsilon, 1e-6), k=k, seed=bytes(range(32)), n_attributes=n_attributes)


@one_entry
def test_low_confidence_is_narrow(mechanism: str) -> None:
    release = release_of(mechanism)
    narrow = release.distances([0, 1, 2], [3, 4, 5], method="likelihood", confidence=0.1)
    assert (narrow.low <= narrow.value).all()
    assert (narrow.high - narrow.low < narrow.stderr).all()


@one_entry
def test_nobody_differs_from_himself_and_own_vectors_are_known(mechanism: str) -> None:
    release = release_of(mechanism)
    found = release.distances([0, 1], [0, 2], method="likelihood")
    assert parts(found)[:, 0].tolist() == [0, 0, 0, 0]
    assert found.stderr[1] > 0
    exact = release.distance(release.project({"1", "2"}), release.project({"2", "3"}), method="likelihood")
    assert parts(exact).tolist() == [2, 0, 2, 2]


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace"])
def test_with_next_to_no_noise_it_is_nearly_the_truth(mechanism: str) -> None:
    plan = Plan.of(mechanism, Budget(20.0), k=4096, seed=bytes(32), n_attributes=N_ATTRIBUTES)
    rows = plan.rows([str(i) for i in range(N_ATTRIBUTES)]).to_dense()
    release = Release(Sketches(plan, np.arange(30), (PEOPLE @ rows).astype(np.int16)))
    truth = (PEOPLE[:15] != PEOPLE[15:]).sum(axis=1)
    found = release.distances(np.arange(15), np.arange(15, 30), method="likelihood")
    np.testing.assert_allclose(found.value, truth, atol=3.0)
    assert (found.high <= N_ATTRIBUTES).all()
    own = release.project(np.flatnonzero(PEOPLE[15]).tolist())
    truth = (PEOPLE[:15] != PEOPLE[15]).sum(axis=1)
    np.testing.assert_allclose(release.distances(np.arange(15), own, method="likelihood").value, truth, atol=3.0)


def test_nothing_is_beyond_a_closed_vocabulary() -> None:
    plan = Plan.of("hashing+laplace", Budget(1.0), k=8, n_attributes=30)
    values = np.random.default_rng(0).integers(-20, 21, (20, 8)).astype(np.int16)
    release = Release(Sketches(plan, np.arange(20), values))
    found = release.distances(np.arange(10), np.arange(10, 20), method="likelihood")
    assert (found.value <= 30).all()
    assert (found.high == 30).all()
    assert (found.low < 30).all()  # an outlier is no better evidence than the limit itself


def release_with(value: int, mechanism: str = "counting+laplace") -> Release:
    plan = Plan.of(mechanism, Budget(1.0), k=8, n_attributes=50)
    values = np.ones((4, 8), np.int16)
    values[1, 5] = value
    return Release(Sketches(plan, np.arange(4), values))


def test_of_somebody_saturated_nothing_is_known() -> None:
    release = release_with(np.iinfo(np.int16).max)
    found = release.distances([0, 0, 1], [1, 2, 1], method="likelihood")
    assert math.isnan(found.value[0])
    assert (found.stderr[0], found.low[0], found.high[0]) == (math.inf, 0.0, 50.0)
    assert math.isfinite(found.value[1])
    assert found.value[2] == 0


@pytest.mark.parametrize("value", [128, -129])
def test_numbers_beyond_the_tables_are_left_to_the_unbiased_estimate(value: int) -> None:
    release = release_with(value)
    found, plain = (release.distances([0, 0], [1, 2], method=method) for method in ("likelihood", "unbiased"))
    assert found.value[0] == np.clip(plain.value[0], 0, 50)
    assert (found.stderr[0], found.low[0], found.high[0]) == (plain.stderr[0], plain.low[0], plain.high[0])
    assert found.stderr[1] != plain.stderr[1]
    alone = release.distance(0, 2, method="likelihood")
    assert alone.value == pytest.approx(found.value[1])
    last = 127 if value > 0 else -128
    assert release_with(last).distance(0, 1, method="likelihood").stderr != plain.stderr[0]


def test_no_pair_depends_on_its_company() -> None:
    release = release_of("counting+laplace")
    rows, columns = np.triu_indices(30, 1)
    together = release.distances(rows, columns, method="likelihood")
    grid_of.cache_clear()
    for i in (0, 100, 434):
        alone = release.distances([rows[i]], [columns[i]], method="likelihood")
        np.testing.assert_array_equal(parts(alone)[:, 0], parts(together)[:, i])


def test_releases_on_disk_answer_alike(tmp_path: Path) -> None:
    sketches = folders.people(plan_of("hashing+laplace"))
    stored = open_release(folders.write(tmp_path / "release", sketches))
    users = sketches.users
    same(
        stored.distances(users[:10], users[10:20], method="likelihood"),
        Release(sketches).distances(users[:10], users[10:20], method="likelihood"),
    )


def test_unknown_methods_are_refused() -> None:
    release = release_of("counting+laplace")
    with pytest.raises(ParameterError, match="method must be 'unbiased' or 'likelihood', got 'guess'"):
        release.distance(0, 1, method="guess")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="confidence"):
        release.distance(0, 1, method="likelihood", confidence=1.0)


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name not in ONE_ENTRY])
def test_other_mechanisms_are_refused(mechanism: str) -> None:
    with pytest.raises(ParameterError, match="'likelihood' is for counting and hashing, on bits"):
        release_of(mechanism).distances([0], [1], method="likelihood")


@one_entry
def test_values_are_refused(mechanism: str) -> None:
    with pytest.raises(ParameterError, match="on values: 'likelihood' is for counting and hashing, on bits"):
        release_of(mechanism, resolution=4).distances([0], [1], method="likelihood")


def test_too_much_noise_is_refused() -> None:
    plan = Plan.of("counting+laplace", Budget(0.1), k=8)
    release = Release(Sketches(plan, np.arange(2), np.ones((2, 8), np.int16)))
    with pytest.raises(ParameterError, match="method must be 'unbiased' where noise is so wide"):
        release.distance(0, 1, method="likelihood")
