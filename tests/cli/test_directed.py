"""Planning, publishing and asking along directions, on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.lines import answer, refusal, run
from tests.directions import named

from dimly.api import publish
from dimly.mechanisms import Directions, Plan
from dimly.privacy import Budget
from dimly.release.documents.directions_file import write_directions

pytestmark = pytest.mark.filterwarnings("ignore::dimly.errors.PrivacyWarning")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_directions(tmp_path / "directions.parquet", named("learned"))
    generator = np.random.default_rng(0)
    rows = [f"{user},{attribute}" for user in range(30) for attribute in generator.choice(95, 20, replace=False)]
    (tmp_path / "visits.csv").write_text("\n".join(["person,place", *rows]) + "\n", encoding="utf-8")
    return tmp_path


def test_from_the_directions_to_an_answer(folder: Path) -> None:
    plan, release = folder / "plan.json", folder / "release"
    said = answer("plan", "--epsilon", 2, "--directions", folder / "directions.parquet", "-o", plan)
    assert said["digest"] == Plan.of("directions+laplace", Budget(2.0), directions=named("learned")).digest
    assert (said["mechanism"], said["k"]) == ("directions+laplace", 3)
    line = ("publish", folder / "visits.csv", "--plan", plan, "--user", "person", "--attribute", "place")
    assert "directions must be given" in refusal(*line, "--out", release)
    result = run(*line, "--directions", folder / "directions.parquet", "--out", release)
    assert result.exit_code == 0, result.stderr
    assert answer("distance", release, 1, 2)["measure"] == "squared distance along the directions"
    assert "squared distance along the directions" in run("distance", release, 1, 2).stdout
    assert answer("neighbors", release, "--user", 1)["measure"] == "squared distance along the directions"
    assert "squared distance along the directions" in run("neighbors", release, "--user", 1).stdout
    shown = run("inspect", release).stdout
    assert named("learned").digest in shown
    assert "along the directions" in shown
    assert run("verify", release).exit_code == 0
    assert run("segments", release, "--count", 2, "--out", folder / "segments.parquet").exit_code == 0
    assert run("report", release, "--output", folder / "report.html").exit_code == 0
    assert "All distances here are along these directions." in (folder / "report.html").read_text(encoding="utf-8")


def test_every_output_says_that_distances_are_along_the_directions(folder: Path) -> None:
    release, along = folder / "release", "along the directions"
    plan = Plan.of("directions+laplace", Budget(50.0), directions=named("learned"))
    table = (np.random.default_rng(0).random((60, 90)) < 0.3) * 1
    publish(table, plan, out=release)
    assert answer("neighbors", release, "--user", 1, "--metric", "cosine")["measure"] == f"cosine {along}"
    said = answer("export", release, "--to", "parquet", "--out", folder / "points.parquet")
    assert said["measure"] == f"squared distance {along}"
    assert along in run("export", release, "--to", "numpy", "--out", folder / "points.npz").stdout
    assert answer("report", release, "-o", folder / "report.html", "--count", 2)["measure"] == said["measure"]
    shown = answer("inspect", release)
    assert (shown["directions"]["kind"], shown["directions"]["origin"]) == ("learned", "tests")
    profiles = answer("segments", release, "--count", 2, "--out", folder / "segments.parquet")["profiles"]
    assert len(profiles) == 2
    told = run("segments", release, "--count", 2, "--out", folder / "again.parquet").stdout
    assert "told apart by" in told
    assert "directions say nothing" in refusal("neighbors", release, "--user", 1, "--metric", "jaccard")
    assert "'unbiased' for directions+laplace" in refusal("distance", release, 1, 2, "--method", "likelihood")


def test_made_up_people_are_measured_along_the_directions(folder: Path) -> None:
    people = ("--users", 60, "--attributes", 90, "--groups", 2, "--weight", 15)
    assert run("simulate", *people, "--out", folder / "made.parquet", "--roster", folder / "who.parquet").exit_code == 0
    directions = Directions.of_values([f"place {i}" for i in range(90)], np.eye(90)[:, :2], origin="tests")
    plan = Plan.of("directions+laplace", Budget(700.0), directions=directions)
    made, who, out = (folder / name for name in ("made.parquet", "who.parquet", "release"))
    publish(made, plan, user="person", attribute="place", roster=who, out=out)
    line = ("simulate", *people, "--release", folder / "release", "--no-segments")
    (outcome,) = answer(*line)["outcomes"]
    assert outcome["measure"] == "squared distance along the directions"
    assert outcome["error"]["measured"] < 0.1  # there is next to no noise, and most true distances are above that
    assert "of squared distances along the directions" in run(*line).stdout
    assert "figure must be of releases" in refusal(*line, "--figure", folder / "figure.png")


def test_gaussian_noise_is_asked_for_by_name(folder: Path) -> None:
    line = ("plan", "--epsilon", 2, "--delta", 1e-6, "--directions", folder / "directions.parquet")
    assert answer(*line)["mechanism"] == "directions+laplace"
    assert answer(*line, "--mechanism", "directions+gaussian")["mechanism"] == "directions+gaussian"
    assert json.loads(run(*line).stdout)["directions"]["sha256"] == named("learned").digest


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--distance", 10), "distance must be left out"),
        (("--k", 10), "k must be left out"),
        (("--n-attributes", 10), "--n-attributes must be left out"),
        (("--mechanism", "counting+laplace", "--k", 4), "directions must be left out for counting+laplace"),
    ],
)
def test_what_directions_say_is_not_said_again(folder: Path, options: tuple[object, ...], words: str) -> None:
    assert words in refusal("plan", "--epsilon", 1, "--directions", folder / "directions.parquet", *options)


def test_directions_that_are_missing(folder: Path) -> None:
    assert "must be an existing file" in refusal("plan", "--epsilon", 1, "--directions", folder / "none.parquet")
    assert "directions must be given" in refusal("plan", "--epsilon", 1, "--mechanism", "directions+laplace")
    for command in ("plan", "compare"):
        line = (command, "--epsilon", 1, "--distance", 100, "--mechanism", "directions+laplace")
        assert "must be one that is judged without directions" in refusal(*line)


def test_bad_input_is_one_line_and_charges_nothing(folder: Path) -> None:
    """What issue 16 lists, on local publishing; directions learn and make have theirs in test_directions."""
    ledger, known = folder / "ledger.db", folder / "directions.parquet"
    assert run("ledger", "init", ledger, "--dataset", "visits", "--epsilon", 1).exit_code == 0
    plan, other, twice = folder / "plan.json", folder / "other.parquet", folder / "both.csv"
    write_directions(other, Directions.of_values(["tea", "rye"], np.eye(2), origin="tests"))
    assert run("plan", "--epsilon", 1, "--directions", known, "-o", plan).exit_code == 0
    assert run("plan", "--epsilon", 1, "--directions", other, "-o", folder / "tea.json").exit_code == 0
    twice.write_text("person,place\n3,1\n99,2\n", encoding="utf-8")
    charged = ("--ledger", ledger, "--dataset", "visits", "--out", folder / "release")
    table = ("publish", folder / "visits.csv", "--user", "person", "--attribute", "place", *charged)
    cases: list[tuple[tuple[object, ...], str, int]] = [
        (("--plan", plan), "directions must be given", 2),
        (("--plan", plan, "--directions", folder / "none.parquet"), "must be an existing file", 2),
        (("--plan", plan, "--directions", other), "must be those that the plan was made with", 2),
        (("--plan", folder / "tea.json", "--directions", other), "must have rows for attributes of the table", 1),
        (("--plan", plan, "--directions", known, "--volunteers", twice), "volunteers must not be among", 1),
        (("--plan", plan, "--directions", known, "--except-volunteers"), "volunteers must be given where", 2),
        (
            ("--plan", plan, "--directions", known, "--volunteers", folder / "no.csv"),
            "volunteers must be an existing",
            2,
        ),
    ]
    for options, words, code in cases:
        assert words in refusal(*table, *options, code=code)
        assert not (folder / "release").exists()
    said = run(*table, "--plan", plan, "--directions", known, "--volunteers", twice, "--except-volunteers")
    assert said.exit_code == 0, said.stderr  # for which all of the budget was needed
    assert "Excepted are people whom the directions were learned from" in run("inspect", folder / "release").stdout
