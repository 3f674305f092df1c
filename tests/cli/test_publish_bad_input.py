"""Bad input by the front door: one line, an exit code, nothing written and nothing charged."""

from pathlib import Path

import pytest
from tests.cli.bad_input import CASES, GOOD, LONG, MARKS, Case
from tests.cli.lines import refusal, run
from tests.cli.publishing import command_line

from dimly.curator.ledger.ledger import Ledger


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return all files and folders but the ledger."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if not path.name.startswith("ledger.db")
    }


def charged(folder: Path) -> list[str]:
    """Return the states of charges that count."""
    ledger = Ledger(folder / "ledger.db")
    return [
        charge.state
        for name in ledger.datasets()
        for charge in ledger.status(name).charges
        if charge.state != "returned"
    ]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_one_line_and_nothing_else(case: Case, tmp_path: Path) -> None:
    line = command_line(tmp_path, case)
    before = tree(tmp_path)
    said = refusal(*line, code=case.code)
    assert said.startswith("error: ")
    for words in case.says:
        assert words in said
    for mark in MARKS:
        assert mark not in said
    assert tree(tmp_path) == before
    assert charged(tmp_path) == []


def test_the_good_table_is_published(tmp_path: Path) -> None:
    result = run(*command_line(tmp_path, Case(GOOD, LONG, ())))
    assert result.exit_code == 0, result.stderr
    assert charged(tmp_path) == ["visible"]
    assert (tmp_path / "out" / "manifest.json").exists()
    assert list((tmp_path / "temp").iterdir()) == []


@pytest.mark.parametrize("name", ["null user", "null attribute", "null value", "NaN", "value above 1", "value below 0"])
def test_what_is_refused_can_be_allowed(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    line = command_line(tmp_path, case)
    result = run(*line, "--nulls", "drop", "--values", "clamp")
    assert result.exit_code == 0, result.stderr
    assert charged(tmp_path) == ["visible"]
