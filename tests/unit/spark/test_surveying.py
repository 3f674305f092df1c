"""Surveys on Spark: charged as any other, and what a frame's survey is refused for. The counts: tests/engines."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark import spark, uses_spark
from tests.surveys import LIST, ROSTER, cells

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
