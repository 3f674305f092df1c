"""Commands of the lab."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dimly.cli.app import application
from dimly.lab import compare as comparison
from dimly.lab import demo as story
from dimly.lab.demo import Step
from dimly.lab.population import Population


def run(*arguments: object) -> Any:
    return CliRunner().invoke(application(), [str(argument) for argument in arguments])


def answer(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    said: dict[str, Any] = json.loads(result.stdout)
    return said


def refusal(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 2
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    return str(lines[0])


class TestCompare:
    def test_json_holds_every_combination_and_the_best(self) -> None:
        said = answer("compare", "--epsilon", "1,4", "--distance", "400", "--n-attributes", "1000,100000")
        assert len(said["predictions"]) == 2 * 2 * 4
        best = {(one["epsilon"], one["n_attributes"]): one["best"] for one in said["best"]}
        assert best[1.0, 100000] == "counting+laplace"
        assert best[4.0, 1000] == "randomized-response"

    def test_for_people(self, tmp_path: Path) -> None:
        result = run("compare", "--epsilon", "1", "--mechanism", "paper", "--mechanism", "counting+laplace")
        assert result.exit_code == 0
        assert "81.8 (99)*" in result.stdout
        assert "squared distance 400, 100,000 attributes" in result.stdout
        assert run("compare", "--figure", tmp_path / "c.svg", "--epsilon", "1,2").exit_code == 0
        assert (tmp_path / "c.svg").read_text().startswith("<?xml")

    def test_who_cannot_serve_says_why(self) -> None:
        result = run("compare", "--epsilon", "1,2", "--delta", 0)
        assert result.exit_code == 0
        assert result.stdout.count("-: paper: it needs a delta above 0.\n") == 1

    def test_the_whole_menu(self) -> None:
        said = answer("compare", "--all", "--epsilon", "1", "--n-users", "1000")
        assert {one["mechanism"] for one in said["predictions"]} > {"paper", "sparse+laplace", "noisy-distances"}
        assert all((one["stderr"] is None) == bool(one["reason"]) for one in said["predictions"])

    def test_refusals(self) -> None:
        assert "epsilon must be numbers" in refusal("compare", "--epsilon", "much")
        for number in ("10.5", "inf", "nan"):
            assert "--n-attributes must be whole numbers" in refusal("compare", "--n-attributes", number)
        assert "without --mechanism" in refusal("compare", "--all", "--mechanism", "paper")
        assert "mechanism must be" in refusal("compare", "--mechanism", "magic")

    @pytest.mark.parametrize(
        ("asked", "said"),
        [
            (("c.gif",), "figure must end in .png"),
            (("c.png", "--distance", "100,200,400", "--n-attributes", "1000,5000"), "got 6. Name fewer, or draw"),
        ],
    )
    def test_a_figure_that_cannot_be_is_refused_before_anything_is_computed(
        self, asked: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(comparison, "compare", None)
        assert said in refusal("compare", "--figure", *asked)
        assert list(tmp_path.iterdir()) == []

    def test_distances_named_twice_are_one_combination(self, tmp_path: Path) -> None:
        twice = ("--epsilon", "1,2", "--distance", "100,200,100", "--n-attributes", "5000,1000,5000")
        assert run("compare", *twice, "--mechanism", "paper", "--figure", tmp_path / "c.svg").exit_code == 0


class TestFigure:
    @pytest.mark.parametrize("name", ["privacy-curves", "error-by-k", "error-by-epsilon"])
    def test_numbers_and_file(self, name: str, tmp_path: Path) -> None:
        said = answer("figure", name, "-o", tmp_path / "f.svg")
        assert said["lines"]
        assert (tmp_path / "f.svg").stat().st_size > 1000
        assert "f.svg" in refusal("figure", name, "-o", tmp_path / "f.svg")  # it exists

    def test_winners(self, tmp_path: Path) -> None:
        said = answer("figure", "winners", "-o", tmp_path / "w.png", "--mechanism", "counting+laplace")
        assert {name for row in said["best"] for name in row} == {"counting+laplace", "no such pairs"}
        assert (tmp_path / "w.png").read_bytes().startswith(b"\x89PNG")

    def test_refusals(self, tmp_path: Path) -> None:
        assert "--out must end in" in refusal("figure", "winners", "-o", tmp_path / "w.gif")
        assert "distance must be > 0" in refusal("figure", "error-by-k", "--distance", 0, "-o", tmp_path / "w.png")
        assert "must name one that sketches" in refusal(
            "figure", "error-by-k", "--mechanism", "randomized-response", "-o", tmp_path / "w.png"
        )


class TestSimulate:
    def test_outcomes_and_predictions(self) -> None:
        people = ("--users", 300, "--attributes", 1000, "--weight", 40, "--groups", 2, "--taste", 60)
        said = answer("simulate", *people, "--epsilon", 4, "--mechanism", "counting+laplace", "--mechanism", "paper")
        ours, papers = said["outcomes"]
        assert (ours["plan"], papers["plan"]) == ("counting+laplace", "paper")
        assert 4 * ours["error"]["predicted"] < papers["error"]["predicted"]  # measured: tests/statistical/test_lab.py
        assert set(ours["error"]) == set(ours["ranking"]) == {"predicted", "measured"}
        assert said["population"]["users"] == 300
        assert said["population"]["median_squared_distance"] > 40
        assert said["figure"] is None

    def test_columns_have_names_of_their_own(self) -> None:
        people = ("--users", 200, "--attributes", 500, "--no-segments", "--mechanism", "counting+laplace")
        result = run("simulate", *people)
        assert result.exit_code == 0
        header = re.split(r"\s{2,}", result.stdout.splitlines()[0].strip())
        assert len(set(header)) == len(header)
        assert {"error", "predicted error", "near < far", "predicted near < far"} <= set(header)

    @pytest.mark.thorough
    def test_a_release_is_measured_and_drawn(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        shape = ("--attributes", 500, "--weight", 40)
        people = ("--users", 200, *shape)
        columns = ("--user", "person", "--attribute", "place", "--roster", "r.parquet")
        to = ("--out", "release", "--ledger", "l.db", "--dataset", "v")
        for command in (
            ("simulate", *people, "--out", "v.parquet", "--roster", "r.parquet"),
            ("plan", "--mechanism", "counting+laplace", "--k", 32, "--epsilon", 4, "-o", "p.json"),
            ("ledger", "init", "l.db", "--dataset", "v", "--epsilon", 4),
            ("publish", "v.parquet", "--plan", "p.json", *columns, *to),
        ):
            assert run(*command).exit_code == 0
        release = ("--no-segments", "--release", "release")
        asked = ("simulate", *people, *release)
        first = answer(*asked, "--figure", "f.svg")
        assert [(one["plan"], one["k"]) for one in first["outcomes"]] == [("release", 32)]
        assert first["figure"] == "f.svg"
        assert "release (counting+laplace)" in Path("f.svg").read_text()
        assert answer(*asked)["outcomes"] == first["outcomes"]  # the same release, not a new one
        assert "which exists" in refusal(*asked, "--figure", "f.svg")
        assert "release must be of the people that are made up" in refusal("simulate", "--users", 300, *shape, *release)
        # Other people of the same number: the ids fit, the distances do not.
        others = run(*asked, "--seed", 1)
        assert others.exit_code == 0
        assert re.fullmatch(
            r"warning: release: the release does not fit these people: its errors are [\d.]+ times the predicted "
            r"ones\. Was it made with the same options and seed\?\n",
            others.stderr,
        )

    def test_a_release_whose_list_holds_no_attribute_of_the_people_is_told_of(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A list of numbers leaves out all that is text. One number among it, so that publishing does not stop."""
        monkeypatch.chdir(tmp_path)
        pq.write_table(pa.table({"person": [0], "place": ["0"]}), tmp_path / "one.parquet")
        people = ("--users", 100, "--attributes", 200, "--weight", 40)
        columns = ("--user", "person", "--attribute", "place", "--roster", "r.parquet")
        for command in (
            ("simulate", *people, "--out", "v.parquet", "--roster", "r.parquet"),
            ("plan", "--mechanism", "randomized-response", "--n-attributes", 200, "--epsilon", 4, "-o", "p.json"),
            ("publish", "v.parquet", "one.parquet", "--plan", "p.json", *columns, "--out", "release"),
        ):
            assert run(*command).exit_code == 0
        stopped = run("publish", "v.parquet", "--plan", "p.json", *columns, "--out", "other")
        assert (stopped.exit_code, (tmp_path / "other").exists()) == (1, False)
        assert "only noise would be published" in stopped.stderr
        said = run("simulate", *people, "--no-segments", "--release", "release").stderr
        assert said.endswith("seed? Are their attributes on the list that its plan has?\n")

    @pytest.mark.thorough
    def test_plans_from_files(self, tmp_path: Path) -> None:
        assert (
            run(
                "plan", "--mechanism", "hashing+laplace", "--k", 32, "--epsilon", 1, "-o", tmp_path / "p.json"
            ).exit_code
            == 0
        )
        result = run("simulate", "--users", 200, "--attributes", 500, "--plan", tmp_path / "p.json", "--no-segments")
        assert result.exit_code == 0
        assert "32" in result.stdout
        few = ("simulate", "--users", 200, "--attributes", 500, "--no-segments", "--plan", tmp_path / "p.json")
        said = answer(*few, "--mechanism", "paper", "--mechanism", "sparse+laplace", "--k", 8)
        assert [(one["mechanism"], one["k"]) for one in said["outcomes"]] == [
            ("hashing+laplace", 32),
            ("gaussian+gaussian", 8),
            ("sparse+laplace", 8),
        ]

    def test_people_are_written(self, tmp_path: Path) -> None:
        said = answer(
            "simulate",
            "--users",
            100,
            "--out",
            tmp_path / "v.parquet",
            "--truth",
            tmp_path / "g.parquet",
            "--roster",
            tmp_path / "r.parquet",
        )
        assert pq.read_table(tmp_path / "r.parquet").num_rows == 100
        assert pq.read_table(tmp_path / "v.parquet").num_rows == said["rows"]
        assert pq.read_table(tmp_path / "g.parquet").column_names == ["person", "group"]
        assert run("simulate", "--users", 100, "--out", tmp_path / "v.csv").exit_code == 0
        assert (tmp_path / "v.csv").read_text().startswith("person,place\n")

    @pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
    def test_where_one_file_cannot_be_written_none_stays(
        self, fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_: Population, path: Path) -> None:
            path.write_bytes(b"half")
            raise fault

        kept = tmp_path / "v.csv"
        kept.write_text("mine")
        monkeypatch.setattr(Population, "write_groups", fail)
        files = ("--out", kept, "--roster", tmp_path / "r.parquet", "--truth", tmp_path / "g.parquet")
        assert run("simulate", "--users", 20, *files, "--overwrite").exit_code != 0
        assert list(tmp_path.iterdir()) == [kept]
        assert kept.read_text() == "mine"

    def test_refusals(self, tmp_path: Path) -> None:
        assert "must stand without --figure" in refusal("simulate", "--out", "v.csv", "--figure", "f.png")
        assert "must stand without --figure" in refusal("simulate", "--out", "v.csv", "--release", "release")
        assert "--found must stand without" in refusal("simulate", "--found", "f.png", "--no-segments")
        assert "figure must end in .png" in refusal("simulate", "--figure", tmp_path / "f.gif")
        assert "must come with --out" in refusal("simulate", "--truth", tmp_path / "g.parquet")
        assert "must end in .csv or .parquet" in refusal("simulate", "--users", 20, "--out", tmp_path / "v.txt")
        assert "--plan must stand without" in refusal("simulate", "--users", 20, "--plan", "p.json", "--k", 3)
        assert "users must be more than 10" in refusal("simulate", "--users", 9)
        assert "overlap must be from 0 to 1" in refusal("simulate", "--overlap", 2)
        assert "seed must be 0 or more" in refusal("simulate", "--seed", -1)
        assert "taste must be from 1 to 1e+06" in refusal("simulate", "--taste", "nan")
        assert "taste must be from 1 to 1e+06" in refusal("simulate", "--taste", "inf")
        assert "a quarter of n_attributes = 200" in refusal("simulate", "--attributes", 200)

    def test_files_that_would_overwrite_each_other_or_lie_are_refused_before_anything_is_written(
        self, tmp_path: Path
    ) -> None:
        visits = tmp_path / "v.parquet"
        few = ("simulate", "--users", 20, "--out", visits)
        assert "roster must be another file than out" in refusal(*few, "--roster", visits)
        assert "truth must end in .parquet" in refusal(*few, "--truth", tmp_path / "g.csv")
        assert list(tmp_path.iterdir()) == []


class TestDemo:
    def test_the_whole_story(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        steps = tuple(
            Step(s.words, s.command.replace("20000", "600").replace("volunteers 300", "volunteers 40"))
            for s in story.STEPS
        )
        monkeypatch.setattr(story, "STEPS", steps)
        monkeypatch.chdir(tmp_path)
        result = run("demo")
        assert (result.exit_code, result.stderr) == (0, "")
        for step in steps:
            assert f"$ dimly {step.command}\n" in result.stdout
        assert "without volunteers to" in result.stdout
        recall = float(measured_of(result.stdout)[7])
        assert ("single neighbors" in result.stdout) == (recall < story.HARDLY)
        assert "at most 55 % sure" in result.stdout  # 54.98: rounded up
        folder = tmp_path / "dimly-demo"
        assert {path.name for path in folder.iterdir()} >= {"report.html", "recovered.png", "release", "ledger.db"}
        assert Path.cwd() == tmp_path
        assert "folder must not exist" in refusal("demo", "--folder", folder)
        assert "in a folder that exists" in refusal("demo", "--folder", tmp_path / "no" / "where")
        # The last command, typed by hand, tells the same of the same release; the paper's takes long, and is left out.
        monkeypatch.chdir(folder)
        ending = steps[-1].command.replace(" --mechanism paper", "").replace(" --plan without-volunteers.json", "")
        again = run(*ending.split(), "--overwrite").stdout
        assert measured_of(again) == measured_of(result.stdout)

    @pytest.mark.thorough
    def test_json_tells_of_ours_and_of_the_papers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plans = "--mechanism counting+laplace --mechanism hashing+laplace --mechanism paper --found recovered.png"
        monkeypatch.setattr(story, "STEPS", (Step("", f"simulate --users 60 --attributes 200 --weight 20 {plans}"),))
        said = answer("demo", "--folder", tmp_path / "here")
        whose = [said[name]["mechanism"] for name in ("ours", "without", "paper")]
        assert whose == ["counting+laplace", "hashing+laplace", "gaussian+gaussian"]
        assert Path(said["figure"]).is_file()


def measured_of(text: str) -> list[str]:
    """Return the row that a table has of the release."""
    (row,) = [line.replace(" %", "%").split() for line in text.splitlines() if re.match(r"release +(-|\d+) +\d", line)]
    return row
