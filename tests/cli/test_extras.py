"""What the core install leaves out is refused in one line that names the command to install it, before any work."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from tests.cli.lines import refusal

from dimly.errors import MissingExtraError
from dimly.privacy import Cost, compose


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hide the packages of extras, as in an environment where only the core was installed."""
    found = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name in {"matplotlib", "dp_accounting"} else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "figure winners -o winners.png",
        "compare --epsilon 1 --distance 100 --n-attributes 1000 --figure errors.png",
        "simulate --figure distances.png",
        "simulate --found groups.png",
        "attack --figure attacks.png",
        "demo",
    ],
)
def test_figures_name_their_extra(line: str, core: Path) -> None:
    said = refusal(*line.split(), code=1)
    assert "Figures need matplotlib, which is not installed. Run pip install 'dimly[plots]'." in said
    assert not list(core.iterdir())


@pytest.mark.usefixtures("core")
def test_loss_distributions_name_their_extra() -> None:
    declared = [Cost(0.5, declared="spring"), Cost(0.5, declared="spring")]
    with pytest.raises(MissingExtraError, match=r"Run pip install 'dimly\[accounting\]'"):
        compose(declared, delta=1e-6)
