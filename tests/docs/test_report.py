"""Commands of docs/report.md run as they stand."""

import re
import shlex
from pathlib import Path

import pytest
from tests.cli.lines import run
from tests.folders import release_folder

PAGE = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ dimly (.*)$", PAGE, re.M)


def test_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release_folder(tmp_path / "release")
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) == 2
    for command in COMMANDS:
        result = run(*shlex.split(command))
        assert (result.exit_code, result.stderr) == (0, "")
    assert {file.name for file in tmp_path.glob("*.html")} == {"report.html", "quick.html"}
