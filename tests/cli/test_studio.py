"""How ``dimly studio`` begins; tests/studio looks at its pages."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from tests.cli.lines import answer, refusal, run

from dimly.curator.ledger.ledger import Ledger
from dimly.studio import app


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Serve nothing, and note what would have been."""
    found: list[Any] = []

    def serve(workspace: Any, *, port: int | None, browser: bool, ready: Any) -> None:
        found.append((workspace, port, browser))
        ready("http://127.0.0.1:1/?token=t")
        raise KeyboardInterrupt  # as by Ctrl-C, which is how it ends

    monkeypatch.setattr(app, "serve", serve)
    return found


def test_what_is_named_is_open_and_the_address_is_told(served: list[Any], tmp_path: Path) -> None:
    ledger, sample = tmp_path / "ledger.db", tmp_path / "sample.csv"
    Ledger.create(ledger)
    sample.write_text("person,place\n1,mill\n", encoding="utf-8")
    said = answer("studio", "--ledger", ledger, "--sample", sample, "--port", 9000, "--no-browser")
    assert said == {"address": "http://127.0.0.1:1/?token=t"}
    workspace, port, browser = served[0]
    assert (list(workspace.ledgers), workspace.sample, port, browser) == ([str(ledger)], str(sample), 9000, False)
    result = run("studio")
    assert result.exit_code == 0
    assert "http://127.0.0.1:1/?token=t" in result.stdout


@pytest.mark.parametrize(
    ("line", "words", "code"),
    [
        ("--port 70000", "port must be from 0 to 65535, got 70000", 2),
        ("--sample nowhere.csv", "sample must be a file", 2),
        ("--ledger nowhere.db", "ledger", 2),
        ("nowhere", "nowhere", 1),
    ],
)
def test_what_cannot_be_opened_is_refused_before_anything_is_served(
    line: str, words: str, code: int, served: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in refusal("studio", *line.split(), code=code)
    assert not served


def test_without_its_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "nicegui" else found(name))
    assert "Run pip install 'dimly[studio]'." in refusal("studio", code=1)
