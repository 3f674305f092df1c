"""Tables hold the law that they say, derivatives included, however little memory there is for them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.plans import K, plan_of

from dimly.analyst.likelihood import kernels
from dimly.analyst.likelihood import rate_grid as likelihood_tables
from dimly.analyst.likelihood.rate_grid import Grid, noise_law
from dimly.mechanisms.plan_kinds import SketchPlan

Floats = NDArray[np.float64]
BITS = 5
HALF = 1 << (BITS - 1)
MECHANISMS = ["counting+laplace", "hashing+laplace", "counting+gaussian", "hashing+gaussian"]
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)
RATES = (0.7, 0.4, 1.3)


def grid(mechanism: str, total: float | None = None, **changes: Any) -> Grid:
    if mechanism.endswith("gaussian"):
        changes["rule"] = "exact"
    plan = plan_of(mechanism, **changes)
    assert isinstance(plan, SketchPlan)
    return Grid(plan, total)


def law_at(tables: Grid, rates: Floats, bits: int = BITS) -> tuple[Floats, Floats]:
    a, b, c = rates.tolist()
    return tables._law_of_pairs(a, b, c, bits)


def law_by_enumeration(mechanism: str, rates: tuple[float, float, float], *, own: bool = False) -> Floats:
    """Return p(x, y) for −16 ≤ x, y < 16: a sum over every A, B, C and the noise of one side at a time."""
    law = noise_law(plan_of(mechanism))
    reach = 60
    signal = np.arange(-reach, reach + 1)
    if mechanism.startswith("hashing"):
        parts = [stats.skellam.pmf(signal, rate / 2, rate / 2) for rate in rates]
    else:
        parts = [stats.poisson.pmf(signal, rate) for rate in rates]
    wide = np.arange(-2 * reach, 2 * reach + 1)
    noise = np.interp(wide, np.arange(len(law)) - len(law) // 2, law, left=0.0, right=0.0)
    published = np.arange(-HALF, HALF)
    first = np.array(
        [[(parts[0] * noise[x - c - signal + 2 * reach]).sum() for c in range(-30, 31)] for x in published]
    )
    if own:
        second = np.array([[parts[1][y - c + reach] for c in range(-30, 31)] for y in published])
    else:
        second = np.array(
            [[(parts[1] * noise[y - c - signal + 2 * reach]).sum() for c in range(-30, 31)] for y in published]
        )
    law_of_pairs: Floats = (first * parts[2][reach - 30 : reach + 31]) @ second.T
    return law_of_pairs


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace"])
@pytest.mark.parametrize("own", [False, True])
def test_probabilities_are_the_law(mechanism: str, own: bool) -> None:
    a, b, c = RATES
    found, _ = grid(mechanism, b + c if own else None)._law_of_pairs(a, b, c, BITS)
    np.testing.assert_allclose(found, law_by_enumeration(mechanism, RATES, own=own), rtol=1e-9, atol=1e-18)


@every_mechanism
def test_derivatives_are_differences(mechanism: str) -> None:
    tables = grid(mechanism)
    _, derivatives = law_at(tables, np.array(RATES))
    for i, derivative in enumerate(derivatives):
        step = np.eye(3)[i] * 1e-4
        ahead, behind = (law_at(tables, np.array(RATES) + s)[0] for s in (step, -step))
        np.testing.assert_allclose(derivative, (ahead - behind) / 2e-4, rtol=1e-5, atol=1e-11)


@every_mechanism
def test_noise_is_the_plans(mechanism: str) -> None:
    plan = plan_of(mechanism)
    law = noise_law(plan)
    values = np.arange(len(law)) - len(law) // 2
    assert law.sum() == pytest.approx(1.0, rel=1e-12)
    assert law @ values**2 == pytest.approx(plan.table.variance, rel=1e-8)
    assert law @ values**4 == pytest.approx(plan.table.fourth_moment, rel=1e-8)


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace"])
def test_scores_are_sums_over_coordinates(mechanism: str) -> None:
    """Also where the number of coordinates is odd, and where one row stands for all."""
    tables = grid(mechanism)
    key = tables.nearest(np.array([RATES]), bits=BITS)
    _, slots, nodes = next(tables.visit(key, bits=BITS))
    generator = np.random.default_rng(0)
    for k, many in ((1, True), (65, True), (130, False), (131, True)):
        x = generator.integers(-HALF, HALF, (3, k)).astype(np.int16)
        y = generator.integers(-HALF, HALF, (3 if many else 1, k)).astype(np.int16)
        out = np.full((3, 4), np.nan)
        kernels.score(x, y, np.array([2, 0]), np.repeat(slots, 2), nodes.tables, BITS, out)
        probability, derivatives = law_at(tables, nodes.rates[slots[0]])
        cells = np.stack([np.log(probability), *(derivatives / probability)])
        for i in (0, 2):
            expected = cells[:, x[i].astype(int) + HALF, y[i if many else 0].astype(int) + HALF].sum(axis=1)
            np.testing.assert_allclose(out[i], expected, rtol=1e-5, atol=1e-4)
        assert np.isnan(out[1]).all()


def test_information_is_the_variance_of_scores() -> None:
    tables = grid("hashing+laplace")
    _, slots, nodes = next(tables.visit(tables.nearest(np.array([RATES]), bits=7), bits=7))
    probability, derivatives = law_at(tables, nodes.rates[slots[0]], 7)
    assert probability.sum() == pytest.approx(1.0, abs=1e-9)
    expected = K * np.einsum("ixy,jxy,xy->ij", derivatives, derivatives, 1 / probability)
    np.testing.assert_allclose(nodes.information[slots[0]], expected, rtol=1e-6)


def test_highest_points_solve_their_equations() -> None:
    """Against Lagrange's conditions, for every set of zero rates, with and without a given distance and total."""
    information = np.array([[5.0, 1.0, 2.0], [1.0, 4.0, 1.5], [2.0, 1.5, 6.0]])
    pull = np.array([1.0, -2.0, 3.0])
    distance, total = 0.8, 1.1
    for own in (False, True):
        for bound in (False, True):
            maps = likelihood_tables._maps(information, own=own, bound=bound)
            for zeros, found in enumerate(maps):
                rows = [np.eye(3)[i] for i in range(3) if zeros >> i & 1]
                values = [0.0] * len(rows)
                if bound:
                    rows, values = [*rows, np.array([1.0, 1.0, 0.0])], [*values, distance]
                if own:
                    rows, values = [*rows, np.array([0.0, 1.0, 1.0])], [*values, total]
                given = np.array(rows).reshape(-1, 3)
                if np.linalg.matrix_rank(given) < len(given):
                    assert np.isnan(found).all()
                    continue
                point = found @ np.array([*pull, distance, total])
                np.testing.assert_allclose(given @ point, values, atol=1e-7)
                slope = pull - information @ point
                rest = slope - given.T @ np.linalg.lstsq(given.T, slope, rcond=None)[0] if len(given) else slope
                np.testing.assert_allclose(rest, 0.0, atol=1e-6)


def test_nodes_are_near_and_the_same_for_every_asker() -> None:
    tables = grid("counting+laplace")
    rates = np.random.default_rng(0).exponential(1.0, (200, 3))
    keys = tables.nearest(rates, bits=BITS)
    met: dict[int, Floats] = {}
    for part, slots, nodes in tables.visit(keys, bits=BITS):
        for i, slot in zip(part.tolist(), slots.tolist(), strict=True):
            node = nodes.rates[slot]
            np.testing.assert_allclose(node, met.setdefault(int(keys[i]), node.copy()))
            assert (np.abs(node - rates[i]) <= 0.3 * (1 + rates[i])).all()
    assert len(met) == len(np.unique(keys))


def test_little_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = np.random.default_rng(0).exponential(1.0, (300, 3))

    def visited(tables: Grid) -> Floats:
        out = np.empty((len(rates), 1 << (2 * BITS), 4))
        for part, slots, nodes in tables.visit(tables.nearest(rates, bits=BITS), bits=BITS):
            out[part] = nodes.tables[slots]
        return out

    roomy = visited(grid("counting+laplace"))
    monkeypatch.setattr(likelihood_tables, "_MEMORY", 40 << 14)  # forty tables
    tight = grid("counting+laplace")
    for _ in range(2):
        np.testing.assert_array_equal(visited(tight), roomy)


def test_threads_share_tables() -> None:
    tables = grid("counting+laplace")
    rates = np.random.default_rng(0).exponential(1.0, (300, 3))
    alone = grid("counting+laplace")

    def total(of: Grid, seed: int) -> float:
        order = np.random.default_rng(seed).permutation(len(rates))
        return sum(
            float(nodes.tables[slots].astype(np.float64).sum())
            for _, slots, nodes in of.visit(of.nearest(rates[order], bits=BITS), bits=BITS)
        )

    expected = total(alone, 0)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda seed: total(tables, seed), range(8)):
            assert found == pytest.approx(expected, rel=1e-9)
