"""The simulations behind the planner on a few people, and what is made of their figures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks import planning, planning_errors, planning_report, planning_verdicts
from benchmarks.planning import COUNTING, RESPONSE, Cell, Truth, World

from dimly.planner.brief import PURPOSES

SMALL = World("groups", 60, 200, 12, 4.0)


@pytest.mark.parametrize("structure", planning.STRUCTURES)
def test_people_have_about_their_weight(structure: str) -> None:
    people = World(structure, 80, 300, 20, 1.0).people
    assert people.table.shape == (80, 300)
    assert 14 < people.weights.mean() < 26


@pytest.mark.thorough
def test_measuring_storing_and_judging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MENU", {COUNTING: (8, 16), "sparse+laplace": (8, 4096)})
    truth = Truth(SMALL.people, planning.MEASURES)
    cells = list(planning.measured(SMALL, runs=1, truth=truth))
    ways = {(COUNTING, 8), (COUNTING, 16), ("sparse+laplace", 8), (RESPONSE, None)}
    assert {(cell.mechanism, cell.k) for cell in cells} == ways
    assert {cell.measure for cell in cells} == set(planning.MEASURES)
    wide = list(planning.wider(SMALL, runs=1, truth=Truth(SMALL.people, ("agreement",))))
    least = planning.planned(wide[0]).k
    assert least is not None
    assert [cell.k for cell in wide] == [m * least for m in planning.MULTIPLES]
    path = tmp_path / "planning.json"
    planning.store(path, cells)
    planning.store(path, wide)
    planning.store(path, cells)
    assert len(planning.load(path)) == len(cells) + len(wide)
    judged = planning_report.judged(cells, "error")
    assert [one.world for one in judged] == [SMALL]
    assert judged[0].loss < 1


def test_friends_are_near_and_all_others_far() -> None:
    truth = Truth(World("circles", 110, 2_000, 80, 1.0).people, ())
    assert truth.nearest < 40
    assert np.quantile(truth.distances, 0.5) > 100


def test_a_real_table(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    users, attributes = np.nonzero(generator.random((40, 30)) < 0.3)
    pq.write_table(pa.table({"user": users, "attribute": attributes}), tmp_path / "shop.parquet")
    cells = list(planning.real_people(tmp_path / "shop.parquet", runs=1, n_people=40))
    assert {cell.world.structure for cell in cells} == {"shop"}
    assert {cell.measure for cell in cells} == {"closeness", "recall"}
    assert planning_report.judged(cells, "closeness") == []


def cell(mean: float, k: int | None, measure: str = "closeness") -> Cell:
    return Cell(SMALL, measure, COUNTING if k else RESPONSE, k, 10, 30, 12.0, (mean - 0.01, mean + 0.01))


def test_shares_of_the_best() -> None:
    flipped = planning_report.judged([cell(0.9, None), cell(0.6, 16)], "closeness")[0]
    assert (flipped.mechanism, flipped.best_mechanism) == (RESPONSE, RESPONSE)
    assert flipped.loss == 0
    assert planning_report.judged([cell(0.1, None), cell(0.2, 16)], "closeness") == []
    least = planning.planned(cell(0.0, 16)).k
    assert least is not None
    found = planning_report.multiples([cell(0.4, least), cell(0.8, 2 * least), cell(0.6, 4 * least)], "closeness")
    assert found == pytest.approx({1: 0.5, 2: 1.0, 4: 0.75})


def test_pairs_differ_in_what_they_should() -> None:
    table = planning_errors.pairs_table(3, 5, 2).toarray()
    assert table.shape == (6, 21)
    assert np.array_equal(np.abs(table[::2] - table[1::2]).sum(axis=1), [5, 5, 5])
    assert np.array_equal((table[::2] * table[1::2]).sum(axis=1), [2, 2, 2])
    assert (table.sum(axis=0) > 0).all()


def test_random_pairs_differ_in_what_they_should() -> None:
    table = planning_errors.random_pairs_table(4, 6, 3, 50).toarray()
    assert table.shape == (8, 50)
    assert np.array_equal(np.abs(table[::2] - table[1::2]).sum(axis=1), [6, 6, 6, 6])
    assert np.array_equal((table[::2] * table[1::2]).sum(axis=1), [3, 3, 3, 3])
    assert table.max() == 1


def test_verdicts_stand_beside_what_was_measured(tmp_path: Path) -> None:
    truth = Truth(SMALL.people, ())
    trials = list(planning_verdicts.trials(SMALL, truth, runs=1))
    assert {(one.purpose, one.mechanism) for one in trials} == {(p, m) for p in PURPOSES for m in (COUNTING, RESPONSE)}
    planning_verdicts.store(tmp_path / "verdicts.json", trials)
    planning_verdicts.store(tmp_path / "verdicts.json", trials[:1])  # in the place of the older ones
    stored = planning_verdicts.load(tmp_path / "verdicts.json")
    assert len(stored) == len(trials) - 1
    for one in stored:
        said, measured = planning_verdicts.judged(one)
        assert {*said, measured} <= {"good", "coarse", "not feasible"}
    best = replace(trials[-1], runs=(1.0,))
    assert planning_verdicts.judged(best)[1] == "good"
    assert "| first | segments | made up |" in planning_report.verdicts(trials)


def test_the_share_in_the_right_order() -> None:
    true = np.array([10, 10, 50, 50])
    assert planning_verdicts.ordered(true, np.array([1.0, 2.0, 3.0, 4.0]), 10, 50) == 1.0
    assert planning_verdicts.ordered(true, np.array([1.0, 4.0, 3.0, 2.0]), 10, 50) == 0.5
    assert planning_verdicts.ordered(true, np.ones(4), 10, 50) == 0.5  # by equal estimates neither is nearer
