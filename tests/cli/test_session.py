"""A curator's evening, from a plan to a release that verifies, in real processes and without tricks."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.lines import answer, refusal, run

from dimly.curator.ledger.ledger import Ledger


@pytest.fixture
def evening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a table, a roster, a plan and a ledger; it is the working directory."""
    monkeypatch.chdir(tmp_path)
    rows = "person,place\nZelda-Q7,harbor\nZelda-Q7,mill\n0042,harbor\n0042,harbor\n"
    (tmp_path / "visits.csv").write_text(rows, encoding="utf-8")
    (tmp_path / "people.txt").write_text("Zelda-Q7\n0042\n42\n", encoding="utf-8")
    for line in (
        "plan --mechanism counting+laplace --k 8 --epsilon 1 -o plan.json",
        "ledger init ledger.db --dataset visits --epsilon 1.5",
    ):
        assert run(*line.split()).exit_code == 0
    return tmp_path


OUT = ("--out", "release")
PUBLISH = ("publish", "visits.csv", "--plan", "plan.json", "--user", "person", "--attribute", "place", *OUT)
CHARGED = (*PUBLISH, "--roster", "people.txt", "--ledger", "ledger.db", "--dataset", "visits", "--recipient", "ACME")


def test_from_a_plan_to_a_release_that_verifies(evening: Path) -> None:
    said = answer(*CHARGED)
    assert (Path(said["release"]).name, said["users"], said["epsilon"]) == ("release", 3, 1.0)
    assert said["plan_digest"] == answer("inspect", "release")["plan_digest"]
    assert (said["ledger"]["dataset"], said["ledger"]["left"]) == ("visits", 0.5)
    assert answer("verify", "release")["users"] == 3
    (status,) = answer("ledger", "show", "ledger.db")["datasets"]
    assert [(charge["state"], charge["recipient"]) for charge in status["charges"]] == [("visible", "ACME")]
    assert "is already a release" in refusal(*CHARGED)
    line = refusal(*CHARGED, "--overwrite", code=1)
    assert "A release of epsilon 0.5 and delta 0 still fits" in line


def test_one_more_attribute_changes_no_output(evening: Path) -> None:
    arguments = (*PUBLISH, "--roster", "people.txt", "--overwrite")
    assert run(*arguments).exit_code == 0  # all others replace a release, and say so

    def shown() -> list[str]:
        texts = []
        for more in ((), ("--json",), ("--dry-run",)):
            result = run(*arguments, *more)
            assert result.exit_code == 0
            texts.append(result.output.replace(answer("inspect", "release")["release"], "ID"))
        return texts

    first = shown()
    with (evening / "visits.csv").open("a", encoding="utf-8") as file:
        file.write("0042,lighthouse\n")
    assert shown() == first


def test_a_dry_run_leaves_nothing(evening: Path) -> None:
    before = sorted(evening.iterdir())
    said = answer(*CHARGED, "--dry-run")
    assert (said["release"], said["users"]) == (None, 3)
    assert sorted(evening.iterdir()) == before
    assert Ledger(evening / "ledger.db").status("visits").left == 1.5


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("person,place\nZelda-Q7,\n", 1),
        ("person,place\nZelda-Q7,harbor,1\n", 1),
        ("who,place\nZelda-Q7,harbor\n", 2),
        ("person,place\n", 1),
    ],
)
def test_bad_tables_are_one_line_that_quotes_nothing(content: str, code: int, evening: Path) -> None:
    (evening / "visits.csv").write_text(content, encoding="utf-8")
    before = sorted(evening.iterdir())
    arguments = (*PUBLISH, "--ledger", "ledger.db", "--dataset", "visits", "--delimiter", ",")
    line = refusal(*arguments, code=code)
    debugged = run(*arguments, "--debug")
    for text in (line, debugged.output):
        assert "Zelda" not in text
        assert "harbor" not in text
    assert not line.startswith("internal error")
    assert sorted(evening.iterdir()) == before
    assert Ledger(evening / "ledger.db").status("visits").left == 1.5


def test_a_job_that_is_stopped_leaves_a_release_or_nothing(evening: Path) -> None:
    generator = np.random.default_rng(0)
    n_rows = 1_000_000
    columns = {"person": generator.integers(0, 100_000, n_rows), "place": generator.integers(0, 1_000, n_rows)}
    pq.write_table(pa.table(columns), evening / "visits.parquet")
    (evening / "spill").mkdir()
    arguments = [*CHARGED, "--temp", "spill", "--json"]
    arguments[1] = "visits.parquet"
    arguments.remove("--roster")
    arguments.remove("people.txt")
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "dimly", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and not any((evening / "spill").iterdir()):
            time.sleep(0.01)
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert list((evening / "spill").iterdir()) == []
    assert not list(evening.glob(".*"))
    left = Ledger(evening / "ledger.db").status("visits").left
    if (evening / "release").exists():
        assert answer("verify", "release")["users"] == 100_000
        assert left == 0.5
        assert process.returncode == 143 or json.loads(out)["users"] == 100_000
    else:
        assert (process.returncode, out, err) == (143, "", "stopped by SIGTERM\n")
        assert left == 1.5
