"""Surveys on Spark: charged as any other, and what a frame's survey is refused for. The counts: tests/engines."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark import spark, uses_spark
from tests.surveys import LIST, ROSTER, cells
from tests.unit.spark.test_publishing import Flagging, changing

import dimly
from dimly.curator.ledger.ledger import Ledger
from dimly.curator.survey.run import SurveyOutcome
from dimly.errors import BudgetError, DataError, DimlyError, ParameterError
from dimly.release.documents.survey_file import Survey, read_survey
from dimly.spark import surveying
from dimly.spark.surveying import survey

__all__ = ["spark"]  # a fixture
pytestmark = uses_spark
LONG: dict[str, Any] = {"user": "who", "attribute": "what"}
ASK: dict[str, Any] = {**LONG, "roster": ROSTER, "vocabulary": LIST, "ask": ["counts"]}


@pytest.fixture
def frame(spark: Any) -> Any:
    """Return a table as a frame."""
    return spark.createDataFrame(sorted(cells()), "who bigint, what string")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Return a ledger with room for one survey."""
    path = tmp_path / "ledger.db"
    Ledger.create(path).add_dataset("d", epsilon=3.0)
    return path


def states(ledger: Path) -> list[str]:
    return [one.state for one in Ledger(ledger).status("d").charges]


def test_a_survey_of_a_frame_is_like_any_other(frame: Any, ledger: Path, tmp_path: Path) -> None:
    out = tmp_path / "survey.json"
    found: Any = survey(frame, dimly.Budget(2.0), **ASK, ledger=ledger, dataset="d", out=out)
    assert isinstance(found, Survey)
    assert read_survey(out) == found
    assert found.private
    assert found.counts is not None
    assert [one.attribute for one in found.counts.attributes] == LIST
    assert states(ledger) == ["visible"]
    with pytest.raises(BudgetError):
        survey(frame, dimly.Budget(2.0), **ASK, ledger=ledger, dataset="d", out=tmp_path / "other.json")


@pytest.mark.thorough
def test_a_dry_run_draws_and_charges_nothing(frame: Any, ledger: Path) -> None:
    done = survey(frame, dimly.Budget(2.0), **ASK, ledger=ledger, dataset="d", dry_run=True)
    assert isinstance(done, SurveyOutcome)
    assert done.survey is None
    assert states(ledger) == []


@pytest.mark.thorough
def test_the_charge_comes_back_if_spark_fails_before_noise(
    frame: Any, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise DimlyError("Spark failed while counting.")

    out = tmp_path / "survey.json"
    monkeypatch.setattr(surveying, "streamed", fails)
    with pytest.raises(DimlyError, match="while counting"):
        survey(frame, dimly.Budget(2.0), **ASK, ledger=ledger, dataset="d", out=out)
    assert not out.exists()
    assert "visible" not in states(ledger)
    monkeypatch.undo()
    survey(frame, dimly.Budget(3.0), **ASK, ledger=ledger, dataset="d", out=out)  # all of it is left


def test_what_a_frame_is_refused_for(frame: Any, spark: Any, tmp_path: Path) -> None:
    visits = tmp_path / "visits.parquet"
    pq.write_table(pa.table({"who": [1], "what": ["tea"]}), visits)
    with pytest.raises(ParameterError, match="vocabulary must be a public list, got the private table itself"):
        survey(spark.read.parquet(str(visits)), dimly.Budget(2.0), **ASK | {"vocabulary": visits})
    for more, match in (
        ({"memory": 1 << 30}, "memory must be left out with Spark"),
        ({"delimiter": ";"}, "delimiter must be left out with Spark"),
        ({"out": "hdfs://there/survey.json"}, "out must be a file of the driver's machine"),
        ({"roster": frame.select("who")}, "roster must be"),
    ):
        with pytest.raises(ParameterError, match=match):
            survey(frame, dimly.Budget(2.0), **ASK | more)
    with pytest.raises(ParameterError, match="frame must be a Spark DataFrame"):
        survey(pa.table({"who": [1]}), dimly.Budget(2.0), **ASK)


def test_more_names_than_the_driver_holds_are_refused(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "MOST_NAMES", 5)
    with pytest.raises(DataError, match="fewer different attributes"):
        survey(frame, dimly.Budget(2.0, 1e-3), **LONG)


def test_people_who_change_are_refused(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying.FrameCounts, "n_users", 150)
    with pytest.raises(DataError, match="must stay as it is"):
        survey(frame, dimly.Budget(2.0), **ASK | {"ask": ["distances"]})


@pytest.mark.parametrize("listed", [True, False])
def test_nobody_gets_a_second_row_between_two_passes(spark: Any, tmp_path: Path, listed: bool) -> None:
    """Of a category the promise is about one for each person: four rows would move eight counts for one of them."""
    flag = tmp_path / "flag"

    def doubled(table: pa.Table) -> pa.Table:
        return pa.concat_tables([table, table.set_column(1, table.schema.field(1), pa.array(["blue"] * len(table)))])

    frame = changing(spark.range(200).selectExpr("id AS who", "'red' AS color"), flag, doubled)
    options: dict[str, Any] = {"user": "who", "columns": ["color"], "unit": "column", "roster": list(range(200))}
    if listed:
        options |= {"vocabulary": ["color=red"], "ask": ["counts"]}
    budget = dimly.Budget(2.0, 0.0 if listed else 1e-6)
    found: Any = survey(frame, budget, **options)
    assert found is not None
    with pytest.raises(DataError, match="the table must stay as it is while it is read"):
        survey(frame, budget, **options, progress=Flagging(flag, "counting"))


@pytest.mark.parametrize("resolution", [1, 4])
def test_an_attribute_counts_at_most_once_in_a_distance(
    spark: Any, monkeypatch: pytest.MonkeyPatch, resolution: int
) -> None:
    """Also of a pair that has become three people, because Spark had to find the people again."""
    have = spark.range(3).selectExpr("id AS u", "'tea' AS a", f"CAST({resolution} AS bigint) AS s")
    monkeypatch.setattr(surveying.FrameCounts, "_pairs", lambda *_: spark.range(3).selectExpr("id AS u", "0 AS pair"))
    counts = surveying.FrameCounts(None, have)  # type: ignore[arg-type]
    plan: Any = SimpleNamespace(resolution=resolution)
    assert [row.x for row in counts._distances(plan).collect()] == [0]


def test_text_that_is_no_utf_8_is_refused_before_noise(spark: Any, ledger: Path, tmp_path: Path) -> None:
    frame = spark.range(60).selectExpr("id AS who", "CAST(X'FF6164' AS string) AS what")
    with pytest.raises(DataError, match="the table must hold what its types say, but some of it is no UTF-8"):
        survey(frame, dimly.Budget(2.0), **ASK, ledger=ledger, dataset="d", out=tmp_path / "survey.json")
    assert states(ledger) == ["returned"]
