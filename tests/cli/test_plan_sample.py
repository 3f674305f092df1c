import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dimly.cli.app import app_for
from dimly.lab.by_example import tryout
from dimly.lab.directions import from_sample as learning
from dimly.mechanisms import Plan
from dimly.release.documents.directions_file import read_directions

N, D = 36, 40
TABLE = ("--user", "person", "--attribute", "place")


@pytest.fixture(autouse=True)
def few_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "COUNTS", (1,))
    monkeypatch.setattr(learning, "GROUPS", (2,))
    monkeypatch.setattr(learning, "CAPS", (0.5,))
    monkeypatch.setattr(tryout, "LADDER", (0.25,))


@pytest.fixture
def volunteers(tmp_path: Path) -> Path:
    """Two kinds of people who share next to nothing."""
    generator = np.random.default_rng(3)
    likes = np.full((2, D), 0.03)
    likes[0, : D // 2] = likes[1, D // 2 :] = 0.85
    people, places = np.nonzero(generator.random((N, D)) < likes[np.arange(N) % 2])
    path = tmp_path / "volunteers.parquet"
    pq.write_table(pa.table({"person": people, "place": [f"place {i}" for i in places]}), path)
    return path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app_for(["plan"]), ["plan", *map(str, arguments)])


def test_a_plan_and_its_directions_are_written_side_by_side(volunteers: Path, tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    groups = ("--purpose", "segments", "--n-groups", 2, "--n-users", 120, "--mechanism", "directions+laplace")
    done = run("--epsilon", 1, "--sample", volunteers, *TABLE, *groups, "-o", output, "--json")
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    beside = tmp_path / "plan.directions.parquet"
    assert answer["files"] == {"path": str(output), "directions": str(beside), "attributes": None}
    plan = Plan.from_json(output.read_text())
    assert plan.directions is not None
    assert plan.directions.sha256 == read_directions(beside).digest
    assert answer["mechanism"] == "directions+laplace"
    assert answer["verdict"] in ("good", "coarse")
    assert {"value", "low", "high"} == set(answer["figure"])
    assert answer["sample"]["people"] == N
    assert [one["epsilon"] for one in answer["ladder"]] == [0.25, 1.0]
    assert "only as good as" in answer["caveat"]
    assert any("too small to tell" in text for text in answer["warnings"])
    again = run("--epsilon", 1, "--sample", volunteers, *TABLE, *groups, "-o", output)
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr


def test_what_was_measured_is_printed(volunteers: Path, tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    menu = ("--mechanism", "randomized-response", "--n-users", 100)
    done = run("--epsilon", 3, "--sample", volunteers, *TABLE, *menu, "-o", output, "--verbose")
    assert done.exit_code == 0, done.stderr
    short, _, long = done.stdout.partition("Measured on ")
    assert long.startswith(f"{N} public people")
    assert short.startswith("verdict")
    assert f"on {N} public people, those judged held back; 90 % intervals" in short
    assert "randomized-response" in short
    assert "Good:" in done.stdout
    listed = tmp_path / "plan.attributes.jsonl"
    assert f"--vocabulary {listed} --volunteers {volunteers}" in " ".join(done.stdout.split())
    assert "part of the release: by the volunteers' consent it is public" in " ".join(done.stdout.split())
    assert len(listed.read_text().splitlines()) == D
    assert "warning: the sample of 36 people" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--distance", "100"), "distance must be left out where a sample is given"),
        (("--weight", "10"), "weight must be left out where a sample is given"),
        (("--k", "8"), "k must be left out where a sample is given"),
        (("--n-attributes", "8"), "--n-attributes must be left out where a sample is given"),
        (("--all-columns", "--columns", "a"), "by --columns or by --all-columns"),
        (("--directions-out", "d.parquet"), "--directions-out must be given together with output"),
    ],
)
def test_what_contradicts_a_sample_is_refused(volunteers: Path, arguments: tuple[str, ...], text: str) -> None:
    done = run("--epsilon", 1, "--sample", volunteers, *TABLE, *arguments)
    assert done.exit_code == 2
    assert text in " ".join(done.stderr.split())
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--attribute", "place"), "user"),
        (("--user", "person"), "attribute"),
        (("--user", "nobody", "--attribute", "place"), "nobody"),
    ],
)
def test_a_sample_needs_its_columns(volunteers: Path, arguments: tuple[str, ...], text: str) -> None:
    done = run("--epsilon", 1, "--sample", volunteers, *arguments)
    assert done.exit_code in (1, 2)
    assert text in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_epsilon_is_above_zero(volunteers: Path) -> None:
    done = run("--epsilon", 0, "--sample", volunteers, *TABLE)
    assert done.exit_code == 2
    assert "epsilon" in done.stderr


@pytest.mark.parametrize("n", [1, 5])
def test_too_few_people_are_refused(tmp_path: Path, n: int) -> None:
    path = tmp_path / "few.csv"
    path.write_text("person,place\n" + "".join(f"{i},{i % 3}\n{i},x\n" for i in range(n)))
    done = run("--epsilon", 1, "--sample", path, *TABLE)
    assert done.exit_code == 2
    assert f"got {n}" in done.stderr


def test_nulls_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "nulls.parquet"
    pq.write_table(pa.table({"person": [1, 2, None], "place": ["a", None, "b"]}), path)
    done = run("--epsilon", 1, "--sample", path, *TABLE)
    assert done.exit_code in (1, 2)
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("option", ["--user", "--attribute", "--value", "--directions-out"])
def test_options_of_a_sample_need_one(option: str) -> None:
    done = run("--epsilon", 1, option, "x")
    assert done.exit_code == 2
    assert "together with --sample" in done.stderr


def test_a_plan_that_is_not_feasible_needs_force(volunteers: Path, tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    asked = ("--sample", volunteers, *TABLE, "--mechanism", "counting+laplace", "--n-users", 60, "-o", output)
    refused = run("--epsilon", 0.005, *asked)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert refused.stdout.startswith("verdict  ")  # what was measured is shown all the same
    assert "Nothing was written" not in refused.stdout
    assert not output.exists()
    facts = json.loads(run("--epsilon", 0.005, *asked, "--json").stdout)
    assert facts["verdict"] == "not feasible"
    assert facts["path"] is None
    assert run("--epsilon", 0.005, *asked, "--force").exit_code == 0
    assert output.exists()


def test_several_attributes_are_protected_together(volunteers: Path, tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    done = run("--epsilon", 8, "--protect", 2, "--sample", volunteers, *TABLE, "-o", output, "--force")
    assert done.exit_code == 0, done.stderr
    assert "Any 2 attributes of one person together: their odds change by at most e^8" in done.stdout
    plan = Plan.from_json(output.read_text())
    assert (plan.protect, plan.budget.epsilon) == (2, 4.0)
