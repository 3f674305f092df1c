"""docs/scale.md: its examples run, and its figures are those that were measured."""

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.lines import run
from tests.spark import spark, uses_spark

__all__ = ["spark"]  # fixtures

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
REPORT = json.loads((ROOT / "benchmarks" / "scale.json").read_bytes())
COSTS = {engine: [cost for cost in REPORT["costs"] if cost["engine"] == engine] for engine in ("local", "Spark")}


@uses_spark
@pytest.mark.filterwarnings("ignore::dimly.errors.PrivacyWarning")
@pytest.mark.thorough
def test_the_examples_run(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"spark": spark}
    publishing, analyzing = re.findall(r"^```py\n(.*?)^```$", PAGE, re.M | re.S)
    exec(compile(publishing, "snippet", "exec"), names)  # noqa: S102
    assert capsys.readouterr().out.startswith("['ada', 'bob', 'cy']")
    exec(compile(analyzing, "snippet", "exec"), names)  # noqa: S102
    assert capsys.readouterr().out == "3 3\n"


@uses_spark
@pytest.mark.thorough
def test_the_command_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"person": [1, 2], "page": ["tea", "jam"]}), "visits.parquet")
    assert run(*shlex.split("plan --mechanism counting+laplace --k 8 --epsilon 1 -o plan.json")).exit_code == 0
    (line,) = re.findall(r"^dimly (publish .*)$", PAGE, re.M)
    result = run(*shlex.split(line))
    assert result.exit_code == 0, result.stderr
    assert run("verify", "release").exit_code == 0


def test_the_table_is_what_was_measured() -> None:
    before = None
    rows = re.findall(
        r"^\| ([\d,]+) \| ([\d.]+) s \| ([\d.]+) s \| (\d*)(?: µs)? \| (\d+) B \| (\d+) B \|$", PAGE, re.M
    )
    assert len(rows) == len(COSTS["Spark"]) >= 3
    for cells, local, cost in zip(rows, COSTS["local"], COSTS["Spark"], strict=True):
        n = cost["n_users"]
        slope = ""
        if before is not None:
            slope = f"{1e6 * (cost['cpu_seconds'] - before['cpu_seconds']) / (n - before['n_users']):.0f}"
        assert cells == (
            f"{n:,}",
            f"{local['cpu_seconds']:.1f}",
            f"{cost['cpu_seconds']:.1f}",
            slope,
            f"{cost['bytes_shuffled'] / n:.0f}",
            f"{cost['bytes_written'] / n:.0f}",
        )
        before = cost


def test_the_cost_of_one_more_person_is_flat() -> None:
    found = COSTS["Spark"]
    slopes = [(b["cpu_seconds"] - a["cpu_seconds"]) / (b["n_users"] - a["n_users"]) for a, b in pairwise(found)]
    each = REPORT["per_person"]["Spark"]["cpu_microseconds"] / 1e6
    assert max(abs(slope / each - 1) for slope in slopes) < 0.2


def test_the_plan_for_a_billion_follows_from_its_formula() -> None:
    each, small = REPORT["per_person"]["Spark"], REPORT["small_pieces"]
    n, m, cores, busy = small["n_users"], 100, 512, 0.6
    microseconds, size = small["cpu_microseconds_a_row"], small["bytes_a_row"]
    a_row = each["cpu_microseconds"] / 20 + microseconds
    assert f"{each['cpu_microseconds']:.1f} µs / 20 rows + {microseconds:.1f} µs = {a_row:.1f} µs\n" in PAGE
    seconds = n * m * a_row / 1e6
    assert f"{round(seconds, -3):,.0f} core seconds, {seconds / 3600:.0f} core hours" in PAGE
    assert f"| {seconds / 60 / cores / busy:.0f} minutes |" in PAGE
    assert f"b = {size:.0f} B; " in PAGE
    assert f"{n * m * size / 1e12:.1f} TB" in PAGE
    assert f"{n * each['bytes_written'] / 1e9:.0f} GB in {-(-n // 65_536):,} files" in PAGE
