"""``dimly survey`` on the command line: the file, the ledger, one JSON object, one line for what is wrong."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.lines import answer, refusal, run
from tests.surveys import LIST, ROSTER, cells, table

from dimly.curator.ledger.ledger import Ledger
from dimly.release.documents.survey_file import read_survey


@pytest.fixture
def line(tmp_path: Path) -> list[object]:
    """Return a command line without questions and promise."""
    pq.write_table(table(cells()), tmp_path / "visits.parquet")
    (tmp_path / "people.csv").write_text("who\n" + "\n".join(map(str, ROSTER)) + "\n")
    (tmp_path / "places.txt").write_text("\n".join(LIST) + "\n")
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", epsilon=4.0, delta=1e-4)
    known = ["--user", "who", "--attribute", "what", "--roster", tmp_path / "people.csv"]
    return ["survey", tmp_path / "visits.parquet", *known, "--ledger", tmp_path / "ledger.db", "--dataset", "visits"]


def test_a_survey_and_its_file(tmp_path: Path, line: list[object]) -> None:
    out = tmp_path / "survey.json"
    told = answer(*line, "--vocabulary", tmp_path / "places.txt", "--epsilon", 3, "-o", out)
    stored = read_survey(out)
    assert (told["survey"], told["id"], told["users"], told["n_attributes"]) == (str(out), stored.id, 200, 30)
    assert told["shares"] == {"counts": 1.0, "weights": 1.0, "distances": 1.0}
    assert told["ledger"]["charge"] == 1
    assert set(told["weights"]) == set(told["distances"]) == {"0.1", "0.5", "0.9"}
    fields = json.loads(out.read_text())
    assert set(fields["weights"]["quantiles"]["0.5"]) == {"value", "low", "high"}
    assert "still fits" in refusal(*line, "--epsilon", 2, "-o", tmp_path / "again.json", code=1)


def test_names_for_people(tmp_path: Path, line: list[object]) -> None:
    asked = ["--ask", "vocabulary,weights", "--share", "vocabulary=3", "--epsilon", 3, "--delta", 1e-5]
    result = run(*line, *asked, "-o", tmp_path / "survey.json")
    assert result.exit_code == 0, result.stderr
    for text in ("vocabulary 2.25, weights 0.75", "attributes of a person", "95 % interval", "and 10 more", "e^3"):
        assert text in result.stdout
    dry = run(*line, "--epsilon", 0.9, "--dry-run")
    assert "none: a dry run" in dry.stdout
    (charge,) = Ledger(tmp_path / "ledger.db").status("visits").charges
    assert (charge.state, charge.kind) == ("visible", "survey")
    assert "survey  visible" in run("ledger", "show", tmp_path / "ledger.db").stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epsilon", 1], "--out must be a file to make, got none"),
        (["--epsilon", 1, "-o", "s.json", "--ask", "weight"], "ask must be some of"),
        (["--epsilon", 1, "-o", "s.json", "--ask", "vocabulary"], "delta must be > 0 to ask for vocabulary"),
        (["--epsilon", 1, "-o", "s.json", "--share", "weights"], "share must be a question and its part"),
        (["--epsilon", 1, "-o", "s.json", "--share", "weights=1,weights=2"], "each question once, got 'weights' twice"),
        (["--epsilon", 0.01, "-o", "s.json"], "epsilon must be larger to ask 200 people"),
        (["--epsilon", 1, "-o", "s.json", "--columns", "a", "--all-columns"], "got both. Use one."),
    ],
)
def test_refusals(
    tmp_path: Path, line: list[object], options: list[object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refusal(*line, *options)
    assert not (tmp_path / "s.json").exists()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("ledger.db", "--out must not replace a database"),
        ("visits.parquet", "--out must be another file than those that are read"),
        ("people.csv", "--out must be another file than those that are read"),
        ("places.txt", "--out must be another file than those that are read"),
        ("link.csv", "--out must be another file than those that are read"),
    ],
)
def test_what_is_read_is_never_replaced(tmp_path: Path, line: list[object], target: str, message: str) -> None:
    (tmp_path / "link.csv").symlink_to(tmp_path / "people.csv")
    before = (tmp_path / target).read_bytes()
    asked = ["--vocabulary", tmp_path / "places.txt", "--epsilon", 3, "-o", tmp_path / target, "--overwrite"]
    assert message in refusal(*line, *asked)
    assert (tmp_path / target).read_bytes() == before
    assert Ledger(tmp_path / "ledger.db").status("visits").charges == ()


def test_other_commands_keep_what_they_read_and_ledgers(tmp_path: Path, line: list[object]) -> None:
    plan, release, ledger = tmp_path / "plan.json", tmp_path / "release", tmp_path / "ledger.db"
    chosen = ["plan", "--epsilon", 1, "--mechanism", "counting+laplace", "--k", 16, "--overwrite"]
    answer(*chosen, "-o", plan)
    answer("publish", *line[1:], "--plan", plan, "--out", release)
    manifest, table_file, people = release / "manifest.json", tmp_path / "visits.parquet", tmp_path / "people.csv"
    kept = {path: path.read_bytes() for path in (manifest, table_file, people, ledger)}
    for target in (manifest, ledger):
        refusal("segments", release, "--count", 2, "--out", target, "--overwrite")
        refusal("export", release, "--to", "numpy", "--out", target, "--overwrite")
        refusal("report", release, "--count", 2, "-o", target, "--overwrite")
    refusal(*chosen, "-o", ledger)
    refusal("plan", "--epsilon", 1, "--sample", table_file, "--user", "who", "-o", table_file, "--overwrite")
    for target in (table_file, ledger):
        learn = ["directions", "learn", table_file, "--user", "who", "--attribute", "what"]
        refusal(*learn, "-o", target, "--overwrite")
    refusal("directions", "make", people, "-o", people, "--overwrite")
    assert kept == {path: path.read_bytes() for path in kept}


def test_a_plan_and_a_release_by_a_survey(tmp_path: Path, line: list[object]) -> None:
    out = tmp_path / "survey.json"
    answer(*line, "--ask", "vocabulary,weights,distances", "--epsilon", 3, "--delta", 1e-5, "-o", out)
    measured = ["plan", "--epsilon", 0.9, "--survey", out]
    told = answer(*measured)
    stored = read_survey(out)
    assert stored.distances is not None
    assert told["distance"] == [stored.distances.quantiles[share].value for share in ("0.1", "0.9")]
    assert len(told["measured"]) >= 2
    shown = run(*measured)
    assert "measured near pairs differ in" in " ".join(shown.stdout.split())
    plan = tmp_path / "plan.json"
    answer("plan", "--epsilon", 0.9, "--mechanism", "randomized-response", "--vocabulary", out, "-o", plan)
    publish = ["publish", *line[1:], "--plan", plan, "--vocabulary", out, "--out", tmp_path / "release"]
    assert answer(*publish)["users"] == 200
    assert [one.state for one in Ledger(tmp_path / "ledger.db").status("visits").charges] == ["visible"] * 2
    assert "resolution must be 1" in refusal(*measured, "--resolution", 4)
    assert "survey must be left out" in refusal(*measured, "--mechanism", "counting+laplace", "--k", 8)
    assert "scales must be given without" in refusal(*measured, "--scales", "50,200")
    out.write_text(out.read_text().replace('"n_users": 200', '"n_users": 201'))
    assert "It was changed" in refusal(*measured, code=1)
    assert "It was changed" in refusal(*publish, code=1)


def test_profiles_of_the_segments_of_a_release(tmp_path: Path, line: list[object]) -> None:
    plan, release, segments = tmp_path / "plan.json", tmp_path / "release", tmp_path / "segments.parquet"
    answer("plan", "--epsilon", 1, "--mechanism", "counting+laplace", "--k", 16, "-o", plan)
    answer("publish", *line[1:], "--plan", plan, "--out", release)
    answer("segments", release, "--count", 2, "--out", segments)
    known = [word for word in line if word not in ("--roster", tmp_path / "people.csv")]
    asked = [*known, "--vocabulary", tmp_path / "places.txt", "--by", segments, "--epsilon", 1]
    figure = tmp_path / "profiles.svg"
    assert "figure must end in" in refusal(*asked, "-o", tmp_path / "x.parquet", "--figure", tmp_path / "x.txt")
    assert "figure must be given together with --by" in refusal(*line, "--epsilon", 1, "-o", "x", "--figure", figure)
    assert "--out must be a Parquet file for profiles" in refusal(*asked, "-o", tmp_path / "profiles.json")
    shown = run(*asked, "-o", tmp_path / "profiles.parquet", "--figure", figure)
    assert shown.exit_code == 0, shown.stderr
    assert "more than others" in shown.stdout
    assert re.search(r"[+-]\d+ points", shown.stdout)
    drawn = figure.read_text()
    assert "segment 1," in drawn
    assert any(name in drawn for name in LIST)
    assert pq.read_table(tmp_path / "profiles.parquet").num_rows == 2 * len(LIST)
    again = answer(*asked, "-o", tmp_path / "again.parquet")
    assert again["shares"] == {"profiles": 1.0}
    assert "members must be given for directions only" in refusal(*asked, "--members", 5, "-o", tmp_path / "x.parquet")
    assert "ask must be left out with --by" in refusal(*asked, "--ask", "weights", "-o", tmp_path / "x.parquet")


def test_directions_from_the_table(tmp_path: Path) -> None:
    from dimly.lab.population import make_population  # noqa: PLC0415

    people = make_population(3_000, 120, n_groups=2, mean_weight=25, taste=60, seed=1)
    people.write(tmp_path / "visits.parquet")
    people.write_people(tmp_path / "people.parquet")
    (tmp_path / "places.txt").write_text("".join(f"place {at}\n" for at in range(120)))
    out = tmp_path / "directions.parquet"
    lists = ["--roster", tmp_path / "people.parquet", "--vocabulary", tmp_path / "places.txt"]
    asked = ["survey", tmp_path / "visits.parquet", "--user", "person", "--attribute", "place", *lists]
    promise = ["--ask", "directions", "--epsilon", 1, "--delta", 1e-6, "--members", 40]
    assert "--out must be a Parquet file for directions" in refusal(*asked, *promise, "-o", tmp_path / "survey.json")
    shown = run(*asked, *promise, "-o", out)
    assert shown.exit_code == 0, shown.stderr
    assert "noise alone reaches" in shown.stdout
    assert "learned from the private table of 3000 people" in shown.stdout
    told = answer("plan", "--epsilon", 0.5, "--directions", out)
    assert told["plan"]["directions"]["kind"] == "surveyed"
    shown = run("plan", "--epsilon", 0.5, "--directions", out, "-o", tmp_path / "plan.json")
    assert "learned from the private table by a survey" in " ".join(shown.stdout.split())
    assert "made without the private table" not in shown.stdout
    again = run(*asked, *promise, "-o", out, "--overwrite", "--json")
    assert json.loads(again.stdout)["count"] >= 1
    assert json.loads(again.stdout)["buckets"] is None
    unlisted = [word for word in asked if word not in lists[2:]]
    dry = [*unlisted, *promise, "--dry-run"]
    assert json.loads(run(*dry, "--buckets", 100, "--json").stdout)["buckets"] == 100
    assert "4,096 hash buckets, as stated or because there is no list" in " ".join(run(*dry).stdout.split())
    assert "buckets must be an integer from 64 to 65536" in refusal(*dry, "--buckets", 10)


def test_one_budget_for_a_survey_and_a_release(tmp_path: Path, line: list[object]) -> None:
    out, listed = tmp_path / "survey.json", ["--vocabulary", tmp_path / "places.txt"]
    told = answer(*line, *listed, "--ask", "counts,weights", "--epsilon", 4, "--total", "-o", out)
    assert told["epsilon"] == 0.4
    planned = ["plan", "--survey", out, "--total", *listed]
    assert answer(*planned, "--epsilon", 4)["epsilon"] == 3.6
    assert "Of epsilon = 4, delta = 0 the survey leaves epsilon = 3.6" in run(*planned, "--epsilon", 4).stderr
    named = answer(*planned, "--epsilon", 4, "--mechanism", "counting+laplace", "--k", 8)
    assert named["epsilon"] == 3.6
    assert "budget must be more than what was spent" in refusal(*planned, "--epsilon", 0.3)
    plan = tmp_path / "plan.json"
    assert run(*planned, "--epsilon", 4, "-o", plan, "--force").exit_code == 0
    publish = ["publish", *line[1:], *listed, "--plan", plan, "--out", tmp_path / "release"]
    assert run(*publish).exit_code == 0
    assert Ledger(tmp_path / "ledger.db").status("visits").left == 0  # all of it, and not more


def test_several_attributes_together(tmp_path: Path, line: list[object]) -> None:
    out = tmp_path / "survey.json"
    done = run(*line, "--epsilon", 4, "--delta", 1e-5, "--protect", 2, "-o", out)
    assert done.exit_code == 0, done.stderr
    assert "Any 2 attributes of one person together: their odds change by at most e^4" in done.stdout
    found = read_survey(out)
    assert (found.plan.protect, found.plan.epsilon, found.plan.delta < 5e-6) == (2, 2.0, True)
    (charge,) = Ledger(tmp_path / "ledger.db").status("visits").charges
    assert charge.cost is not None
    assert charge.cost.together == 2
    assert "any 2 attributes of one person together" in run("ledger", "show", tmp_path / "ledger.db").stdout
