"""``distance``, ``neighbors`` and ``segments``: what Python answers, as text and as JSON."""

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.cli.lines import answer, refusal, run
from tests.folders import people, release_folder, write
from tests.matrices import publish_matrix
from tests.plans import plan_of
from tests.releases import PEOPLE
from tests.streams import Recorded

from dimly.analyst import Estimate, Release
from dimly.analyst.release import open_release
from dimly.cli.options import AskedRelease, estimate_facts, interval_text, number_text
from dimly.errors import ParameterError
from dimly.release import ReleaseWriter

IDS = [7 * i - 20 for i in range(30)]


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a release whose ids are integers, some of them negative."""
    return release_folder(tmp_path_factory.mktemp("numbered") / "release")


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a release whose ids are text, and some look like integers."""
    return release_folder(tmp_path_factory.mktemp("named") / "release", "hashing+laplace", text=True)


def as_dict(estimate: Estimate[float]) -> dict[str, float]:
    return {part: getattr(estimate, part) for part in ("value", "stderr", "low", "high")}


def spoil(path: Path) -> None:
    part = next((path / "sketches").iterdir())
    part.chmod(0o600)
    part.write_bytes(part.read_bytes()[:-9])


def tamper(path: Path) -> None:
    """Change published numbers, and nothing that a footer or a size would tell."""
    part = next((path / "sketches").iterdir())
    part.chmod(0o600)
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)


class TestDistance:
    def test_json_is_what_python_says(self, numbered: Path) -> None:
        release = open_release(numbered)
        assert answer("distance", numbered, 1, 8) == as_dict(release.distance(1, 8))
        wide = answer("distance", numbered, 1, 8, "--confidence", 0.99)
        assert wide == as_dict(release.distance(1, 8, confidence=0.99))
        likely = answer("distance", numbered, 1, 8, "--method", "likelihood")
        assert likely == as_dict(release.distance(1, 8, method="likelihood"))
        assert likely != wide

    def test_for_people(self, numbered: Path) -> None:
        result = run("distance", numbered, 1, 8)
        found = open_release(numbered).distance(1, 8)
        assert (result.exit_code, result.stderr) == (0, "")
        lines = result.stdout.splitlines()
        assert lines[0] == f"squared distance  {number_text(found.value)}"
        assert lines[1] == f"standard error    {number_text(found.stderr)}"
        assert lines[2] == f"95 % interval     {interval_text(found)}"

    def test_ids_are_of_the_releases_own_type(self, numbered: Path, named: Path) -> None:
        said = json.loads(run("distance", "--json", numbered, "--", -20, "+1").stdout)
        assert said == as_dict(open_release(numbered).distance(-20, 1))
        assert answer("distance", named, "007", "7") == as_dict(open_release(named).distance("007", "7"))
        assert (
            refusal("distance", numbered, "ada", 1) == "error: A must be an integer, as all users of this release are."
        )
        assert "A must be an integer" in refusal("distance", numbered, "1_0", 1)
        assert "A must be a user of this release, but '8' is not." in refusal("distance", named, "8", "7")
        assert "Did you mean '007' or '7'?" in refusal("distance", named, "07", "7")
        assert f"B must be a user of this release, but {'9' * 18} is not. Ids go from " in refusal(
            "distance", numbered, 1, "9" * 18
        )

    def test_bad_calls(self, numbered: Path, tmp_path: Path) -> None:
        assert "confidence must be" in refusal("distance", numbered, 1, 8, "--confidence", 1)
        assert "is not one of" in refusal("distance", numbered, 1, 8, "--method", "guess")
        assert "Missing argument 'B'" in refusal("distance", numbered, 1)
        assert "must be a release folder" in refusal("distance", tmp_path, 1, 8, code=1)

    def test_likelihood_refuses_what_it_cannot(self, tmp_path: Path) -> None:
        path = release_folder(tmp_path / "release", "randomized-response")
        assert "method" in refusal("distance", path, 1, 8, "--method", "likelihood")

    def test_a_damaged_release_is_one_line(self, tmp_path: Path) -> None:
        path = release_folder(tmp_path / "release")
        spoil(path)
        assert "part-000000.parquet" in refusal("distance", path, 1, 8, code=1)

    def test_what_is_unknown_is_null(self, tmp_path: Path) -> None:
        with ReleaseWriter(tmp_path / "release", plan_of("counting+laplace", k=8), user_type="int64") as writer:
            values = np.zeros((3, 8), np.int16)
            values[1] = np.iinfo(np.int16).max
            writer.write_part(0, np.arange(3), values)
            writer.seal(roster="given")
            path = writer.publish()
        assert answer("distance", path, 0, 1) == {"value": None, "stderr": None, "low": 0.0, "high": None}
        shown = run("distance", path, 0, 1).stdout
        assert "unknown" in shown
        assert "0 to any" in shown

    def test_a_release_made_for_tests_says_so(self, tmp_path: Path) -> None:
        path = write(tmp_path / "release", people(plan_of("counting+laplace"), words=Recorded(1)))
        result = run("distance", path, 1, 8, "--json")
        assert result.exit_code == 0
        assert json.loads(result.stdout)["value"] is not None
        assert result.stderr.startswith("warning: this release was made for tests only and is NOT PRIVATE")


class TestNeighbors:
    @pytest.mark.parametrize("options", [(), ("--no-denoise",), ("--metric", "cosine"), ("--metric", "jaccard")])
    def test_json_is_what_python_says(self, numbered: Path, options: tuple[str, ...]) -> None:
        said = answer("neighbors", numbered, "--user", 1, "-n", 4, *options)["neighbors"]
        metric = options[1] if len(options) == 2 else "euclidean"
        found = open_release(numbered).neighbors(1, n=4, metric=metric, denoise="--no-denoise" not in options)  # type: ignore[arg-type]
        assert [one["user"] for one in said] == found.users.tolist()
        assert [one["rank"] for one in said] == [1, 2, 3, 4]
        for part in ("value", "stderr", "low", "high"):
            # What cannot be told from noise is null: of people with no attributes that can be seen, for instance.
            numbers = [math.nan if one[part] is None else one[part] for one in said]
            np.testing.assert_allclose(numbers, getattr(found.estimates, part))

    def test_names_and_attributes(self, named: Path) -> None:
        said = answer("neighbors", named, "--user", "007", "-n", 3)["neighbors"]
        assert "007" not in [one["user"] for one in said]
        assert all(isinstance(one["user"], str) for one in said)
        release = open_release(named)
        said = answer("neighbors", named, "--attribute", "1", "--attribute", "x", "-n", 3)["neighbors"]
        assert [one["user"] for one in said] == release.neighbors(release.project({"1", "x"}), n=3).users.tolist()

    def test_an_index_finds_the_same_among_few(self, numbered: Path) -> None:
        exact, found = (
            answer("neighbors", numbered, "--user", 1, "-n", 4, *options) for options in ((), ("--approximate",))
        )
        assert found["neighbors"] == exact["neighbors"]
        for options in (("--attribute", "1"), ("--user", "1", "--metric", "cosine")):
            result = run("neighbors", numbered, "--approximate", *options)
            assert result.exit_code == 2
            assert "--approximate must be with --user and squared distances" in result.stderr

    def test_an_empty_attribute_is_refused(self, named: Path) -> None:
        result = run("neighbors", named, "--attribute", "", "-n", 2)
        assert result.exit_code == 2
        assert "--attribute must not be empty" in result.stderr

    def test_for_people(self, named: Path) -> None:
        result = run("neighbors", named, "--user", "007", "-n", 2, "--metric", "cosine")
        assert (result.exit_code, result.stderr) == (0, "")
        lines = result.stdout.splitlines()
        assert "of these 2 can be expected to be among the 2 truly nearest" in lines[0]
        assert lines[2].split()[:2] == ["rank", "user"]
        assert "cosine" in lines[2]
        assert len(lines) == 7
        assert lines[-1].startswith("Rank 1 is the best guess")
        lines = run("neighbors", named, "--user", "007", "-n", 2).stdout.splitlines()
        assert len(lines) == 9
        assert lines[-3].startswith("Rank 1 is the best guess")
        assert "may be noise" in lines[-2]
        assert "look nearer than they are" in lines[-1]
        plain = run("neighbors", named, "--user", "007", "-n", 2, "--no-denoise").stdout
        assert "look nearer than they are" in plain
        assert "without denoising" in plain

    def test_text_csv_and_json_are_in_one_order_and_no_value_is_outside_of_its_interval(self, named: Path) -> None:
        asked = ("neighbors", named, "--user", "007", "-n", 8)
        header, *rows = csv.reader(run(*asked, "--csv").stdout.splitlines())
        assert header == ["rank", "user", "value", "low", "high", "stderr"]
        assert [row[0] for row in rows] == [str(rank) for rank in range(1, 9)]
        assert all(float(row[3]) <= float(row[2]) <= float(row[4] or "inf") for row in rows)
        said = answer(*asked)["neighbors"]
        assert [[str(one["rank"]), one["user"], str(one["value"])] for one in said] == [row[:3] for row in rows]
        printed = run(*asked).stdout.splitlines()[3:11]
        assert [re.split("  +", line.strip())[:2] for line in printed] == [row[:2] for row in rows]

    def test_bad_calls(self, numbered: Path, tmp_path: Path) -> None:
        words = "one of --user and --attribute must be given"
        assert f"{words}, got neither" in refusal("neighbors", numbered)
        assert f"{words}, got both" in refusal("neighbors", numbered, "--user", 1, "--attribute", "x")
        assert "--user must be an integer" in refusal("neighbors", numbered, "--user", "ada")
        assert "--user must be a user of this release, but 2 is not" in refusal("neighbors", numbered, "--user", 2)
        assert "--count must be" in refusal("neighbors", numbered, "--user", 1, "-n", 30)
        assert "--count must be" in refusal("neighbors", numbered, "--user", 1, "-n", 0)
        assert "is not one of" in refusal("neighbors", numbered, "--user", 1, "--metric", "taxicab")
        closed = release_folder(tmp_path / "release", "randomized-response")
        assert "attributes must be of the plan's vocabulary" in refusal("neighbors", closed, "--attribute", "x")

    def test_a_damaged_release_is_one_line(self, tmp_path: Path) -> None:
        path = release_folder(tmp_path / "release")
        spoil(path)
        assert "part-000000.parquet" in refusal("neighbors", path, "--user", 1, code=1)


class TestSegments:
    def test_json_and_file_are_what_python_says(self, numbered: Path, tmp_path: Path) -> None:
        out = tmp_path / "segments.parquet"
        said = answer("segments", numbered, "--count", 3, "--out", out)
        found = open_release(numbered).segments(3)
        assert said == {
            "count": 3,
            "sizes": found.sizes.tolist(),
            "stability": pytest.approx(found.stability),
            "stabilities": {"3": pytest.approx(found.stability)} if found.structure.components else {},
            "signal": pytest.approx(found.signal),
            "activity": found.activity,
            "words": found.words,
            "profiles": None,
        }
        table = pq.read_table(out)
        assert table.column_names == ["user", "segment"]
        assert table["user"].to_pylist() == IDS
        assert table["segment"].to_pylist() == found.labels.tolist()

    def test_names_and_auto(self, named: Path, tmp_path: Path) -> None:
        out = tmp_path / "segments.parquet"
        said = answer("segments", named, "--count", "auto", "--out", out, "--no-denoise")
        assert sum(said["sizes"]) == 30
        table = pq.read_table(out)
        assert str(table.schema.field("user").type) == "string"
        assert table["user"].to_pylist() == open_release(named).users.tolist()

    def test_for_people(self, numbered: Path, tmp_path: Path) -> None:
        result = run("segments", numbered, "--count", 2, "--out", tmp_path / "segments.parquet")
        assert (result.exit_code, result.stderr) == (0, "")
        for words in ("stability", "from 0 (chance) to 1", open_release(numbered).segments(2).words, "people"):
            assert words in result.stdout

    def test_without_a_file_they_are_shown_and_an_ending_says_what_is_written(
        self, numbered: Path, tmp_path: Path
    ) -> None:
        shown = run("segments", numbered, "--count", 2)
        assert (shown.exit_code, shown.stderr) == (0, "")
        assert "stability" in shown.stdout
        out = tmp_path / "segments.csv"
        assert run("segments", numbered, "--count", 2, "-o", out).exit_code == 0
        rows = list(csv.reader(out.read_text().splitlines()))
        assert rows[0] == ["user", "segment"]
        assert [int(row[0]) for row in rows[1:]] == IDS
        printed = run("segments", numbered, "--count", 2, "--csv").stdout.splitlines()
        assert printed[0] == "segment,people"

    @pytest.mark.parametrize("activity", [True, False])
    def test_whether_activity_counts_can_be_said(self, numbered: Path, *, activity: bool) -> None:
        said = answer("segments", numbered, "--count", 2, "--activity" if activity else "--no-activity")
        found = open_release(numbered).segments(2, activity=activity)
        assert (said["activity"], said["sizes"]) == (activity, found.sizes.tolist())
        assert said["words"] == found.words.replace("activity=True", "--activity")
        assert answer("segments", numbered, "--count", 2)["activity"] == open_release(numbered).segments(2).activity

    def test_targets(self, numbered: Path, tmp_path: Path) -> None:
        out = tmp_path / "segments.parquet"
        out.write_text("mine", encoding="utf-8")
        assert "Add --overwrite" in refusal("segments", numbered, "--count", 2, "--out", out)
        assert out.read_text(encoding="utf-8") == "mine"
        assert run("segments", numbered, "--count", 2, "--out", out, "--overwrite").exit_code == 0
        assert pq.read_table(out).num_rows == 30
        assert "folder that exists" in refusal("segments", numbered, "--count", 2, "--out", tmp_path / "a" / "b.csv")
        assert list(tmp_path.iterdir()) == [out]

    @pytest.mark.parametrize("count", ["0", "-1", "many", "2.5", "²"])
    def test_counts_that_are_none(self, numbered: Path, tmp_path: Path, count: str) -> None:
        line = refusal("segments", numbered, "--count", count, "--out", tmp_path / "x")
        assert "must be a number of segments or auto" in line

    def test_bad_calls(self, numbered: Path, tmp_path: Path) -> None:
        out = tmp_path / "segments.parquet"
        assert "count must be" in refusal("segments", numbered, "--count", 31, "--out", out)
        assert "must end in .csv or .parquet" in refusal("segments", numbered, "--count", 2, "--out", tmp_path / "x")
        damaged = release_folder(tmp_path / "release")
        spoil(damaged)
        assert "part-000000.parquet" in refusal("segments", damaged, "--count", 2, "--out", out, code=1)
        assert not out.exists()


@pytest.mark.parametrize(
    "call",
    [("distance", 1, 8), ("neighbors", "--user", 1), ("neighbors", "--attribute", "3"), ("segments", "--count", 2)],
    ids=["distance", "user", "attribute", "segments"],
)
def test_a_changed_number_is_one_line(call: tuple[object, ...], tmp_path: Path) -> None:
    path = release_folder(tmp_path / "release")
    tamper(path)
    command, *options = call
    out = ("--out", tmp_path / "segments.parquet") if command == "segments" else ()
    line = refusal(str(command), path, *options, *out, code=1)
    assert "part-000000.parquet must have the SHA-256 that the manifest states" in line


def test_numbers_for_people() -> None:
    assert [number_text(x) for x in (0.0, -3.25, 999.96, 12345.6, math.inf)] == [
        "0",
        "-3.25",
        "1000",
        "12,346",
        "unknown",
    ]
    assert interval_text(Estimate(1.0, 1.0, 0.5, math.inf)) == "0.5 to any"
    assert estimate_facts(Estimate(math.nan, math.inf, 0.0, 3.0)) == {
        "value": None,
        "stderr": None,
        "low": 0.0,
        "high": 3.0,
    }


def test_ids_for_the_release() -> None:
    plan = plan_of("hashing+laplace")
    named = Release(publish_matrix(PEOPLE[:2], plan, users=["007", "8"]))
    assert AskedRelease(named, textual=True).user("007", name="A") == "007"
    numbered = Release(publish_matrix(PEOPLE[:3], plan, users=[-3, 4, 7]))
    assert [AskedRelease(numbered, textual=False).user(text, name="A") for text in ("007", "-3", "+4")] == [7, -3, 4]
    for text in ("", "x", "1.0", " 1", "１", "9" * 20):
        with pytest.raises(ParameterError, match="A must be an integer"):
            AskedRelease(numbered, textual=False).user(text, name="A")
