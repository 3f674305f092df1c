"""docs/planning.md and its evidence: commands run, and tables say what was measured and what theory says."""

import re
import shlex
from pathlib import Path

import pytest
from benchmarks import planning_report
from benchmarks.planning import STRUCTURES
from benchmarks.planning_verdicts import BOUNDS, FRESH, FRESH_EPSILONS, LARGE, TABLE_EPSILONS, WORLDS, is_fresh, load
from tests.cli.lines import run

from dimly.planner.brief import PURPOSES, RESPONSE, WIDER
from dimly.planner.paper import crossover_distance, crossover_users, paper_distance, paper_users
from dimly.planner.verdicts import COARSE, GOOD
from dimly.privacy import Budget

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
EVIDENCE = (ROOT / "docs" / "planning-evidence.md").read_text(encoding="utf-8")
SENTENCES = " ".join(f"{PAGE} {EVIDENCE}".split())  # wherever lines end
COMMANDS = [
    line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S) for line in block.splitlines() if line.strip()
]
BUDGET = Budget(1.0, 1e-6)


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(line)
    result = run(*arguments)
    assert (program, result.exit_code, result.stderr) == ("dimly", 0, "")
    assert result.stdout


def test_tables_are_what_was_measured() -> None:
    for table in planning_report.tables():
        assert table in EVIDENCE, f"python -m benchmarks.planning_report prints:\n{table}"


def test_thresholds_and_factors() -> None:
    for purpose in PURPOSES:
        assert f"| ≥ {GOOD[purpose]} | ≥ {COARSE[purpose]} |" in next(
            line for line in PAGE.splitlines() if line.startswith(f"| {purpose} | ") and "≥" in line
        )
    for purpose, (good, coarse) in BOUNDS.items():
        assert f"{good} and {coarse} for {purpose}" in SENTENCES
    assert f"**Segments**: {WIDER['segments']} k" in SENTENCES
    assert WIDER["neighbors"] == WIDER["distances"] == 1
    factors = f"multiplied by {RESPONSE['neighbors']} for neighbors and by {RESPONSE['segments']} for segments"
    assert factors in SENTENCES


def test_every_world_of_the_check_was_measured_and_no_other() -> None:
    worlds = {trial.world for trial in load()}
    made = {world for world in worlds if world.structure in STRUCTURES}
    assert made == {*WORLDS, *FRESH, *LARGE}
    first, second = ({world for world in worlds - made if is_fresh(world) == fresh} for fresh in (False, True))
    assert {world.epsilon for world in first} == set(TABLE_EPSILONS)
    assert {world.structure for world in first} == {"garments", "mushrooms"}
    assert {world.epsilon for world in second} == set(FRESH_EPSILONS)
    assert {world.structure for world in second} == {"garments", "mushrooms", "retail", "reviews"}
    assert all(len(trial.runs) == 1 for trial in load())


def rows(cells: int) -> list[list[str]]:
    """Return the rows of numbers in tables of that many columns."""
    pattern = r" \| ".join([r"([\d,]+)"] * cells)
    found = re.findall(rf"^\| {pattern} \|$", PAGE, re.M)
    return [[cell.replace(",", "") for cell in row] for row in found]


def test_crossovers() -> None:
    people = [row for row in rows(4) if int(row[0]) < 1_000]
    assert len(people) == 3
    for r2, paper, counting, stated in people:
        at = float(r2)
        assert crossover_users("gaussian+gaussian", BUDGET, squared_distance=at) == int(paper)
        assert crossover_users("counting+laplace", BUDGET, squared_distance=at) == int(counting)
        assert round(paper_users(BUDGET, weight=at / 2)) == int(stated)
    by_bounds = [row for row in rows(4) if int(row[0]) > 1_000]
    assert len(by_bounds) == 4
    for d, *cells in by_bounds:
        found = [
            crossover_distance("gaussian+gaussian", BUDGET, n_attributes=int(d), k=256, criterion="variance"),
            crossover_distance("gaussian+gaussian", BUDGET, n_attributes=int(d), k=256, criterion="deviation"),
            paper_distance(BUDGET, n_attributes=int(d), k=256),
        ]
        assert [f"{value:.0f}" for value in found] == cells
    assert len(rows(7)) == 3
    for d, *cells in rows(7):
        found = [
            crossover_distance(mechanism, Budget(epsilon), n_attributes=int(d))
            for mechanism in ("counting+laplace", "hashing+laplace")
            for epsilon in (1.0, 2.0, 4.0)
        ]
        assert [f"{value:.0f}" for value in found] == cells
