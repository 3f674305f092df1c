"""Commands of docs/lab.md run as they stand; the demo has tests of its own."""

import re
import shlex
from pathlib import Path

import pytest
from tests.cli.lines import run

from dimly.lab.demo import STEPS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "lab.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^dimly (.*)$", PAGE, re.M)
ENDING = STEPS[-1].command
"""What the demo ends with."""


def test_the_ending_of_the_demo_is_shown() -> None:
    assert COMMANDS.count(ENDING) == 1


@pytest.mark.parametrize("command", [line for line in COMMANDS if not line.startswith("demo") and line != ENDING])
@pytest.mark.thorough(but=1)
def test_commands_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*shlex.split(command))
    assert (result.exit_code, result.stderr) == (0, "")


def test_figures_are_there() -> None:
    figures = re.findall(r"\]\((figures/\S+)\)", PAGE)
    assert len(figures) == 5
    for figure in figures:
        assert (DOCS / figure).read_bytes().startswith(b"\x89PNG")
