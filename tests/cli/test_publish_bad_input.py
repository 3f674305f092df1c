"""Bad input by the front door: one line, an exit code, nothing written and nothing charged."""

from pathlib import Path
from typing import Any

import pytest
from tests.cli.bad_input import CASES, GOOD, LONG, MARKS, Case
from tests.cli.lines import refusal, run

from dimly.curator.ledger import Ledger
from dimly.mechanisms import Plan


def ledger_at(path: Path) -> Path:
    """Make a ledger with a dataset that has room, and one that has none."""
    ledger = Ledger.create(path)
    ledger.add_dataset("visits", epsilon=8.0, delta=1e-4)
    ledger.add_dataset("small", epsilon=0.5)
    return path


def command_line(folder: Path, case: Case) -> list[object]:
    """Write the files of a case into ``folder``, and return the command line that it stands for."""
    ledger_at(folder / "ledger.db")
    (folder / "temp").mkdir()
    plan = folder / "plan.json"
    plan.write_text(case.plan.to_json() if isinstance(case.plan, Plan) else case.plan, encoding="utf-8")
    options: dict[str, Any] = {
        "out": Path("out"),
        "ledger": Path("ledger.db"),
        "dataset": "visits",
        "temp": Path("temp"),
        **case.options,
    }
    line: list[object] = ["publish", case.make(folder), "--plan", plan]
    for name, option in options.items():
        if name == "columns":
            line += ["--all-columns"] if option == "all" else ["--columns", ",".join(option)]
        else:
            flag = "--attribute-list" if name == "attributes" else f"--{name}"
            line += [flag, folder / option if isinstance(option, Path) else option]
    return line


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
