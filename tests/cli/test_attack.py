"""``dimly attack``."""

from pathlib import Path

import pytest
from tests.cli.lines import answer, refusal, run

from dimly.audit import attacks


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    found = attacks.Attacks(
        tuple(attacks.AttributesRead(epsilon, 1, 0.0, 0.1) for epsilon in (float("inf"), *attacks.EPSILONS)),
        tuple(attacks.Inference(name, e, 0.6, 0.7) for name in attacks.MECHANISMS for e in attacks.EPSILONS),
        tuple(attacks.Averaging(repeats, 0.6, 0.62, 0.9) for repeats in attacks.REPEATS),
        tuple(attacks.Linkage(e, known, 0.25, 0.6, 0.7, 0.73) for e in attacks.LINKED for known in attacks.KNOWN),
    )
    monkeypatch.setattr(attacks, "run_attacks", lambda **_: found)


def test_tables_and_figure(tmp_path: Path) -> None:
    shown = run("attack", "--figure", tmp_path / "a.png")
    assert shown.exit_code == 0
    for words in (
        "no noise",
        "allowed by all",
        "1,000 pseudonyms",
        "one more right",
        "knowing the row",
        "of 10 people",
    ):
        assert words in shown.stdout
    assert (tmp_path / "a.png").exists()
    assert "figure must end in" in refusal("attack", "--figure", tmp_path / "a.txt")
    assert refusal("attack", "--figure", tmp_path / "a.png")


def test_json() -> None:
    found = answer("attack", "--people", 1)
    assert found["figure"] is None
    assert found["reconstruction"][0] == {"epsilon": None, "people": 1, "exactly": 0.0, "attributes": 0.1}
