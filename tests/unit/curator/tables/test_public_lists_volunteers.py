"""Volunteers among the people are refused before anything is charged, or excepted from the promise by name."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.directions import named

from dimly.analyst.release import open_release
from dimly.api import publish
from dimly.curator.ledger.ledger import Ledger
from dimly.curator.sketcher import Sketcher
from dimly.errors import DataError, ParameterError, PrivacyWarning
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release.documents.directions_file import write_directions
from dimly.release.verify import verify

TABLE = pd.DataFrame({"person": [1, 1, 2, 3], "place": ["4", "7", "9", "30"]})
COLUMNS: Any = {"user": "person", "attribute": "place", "roster": [1, 2, 3]}


def plan_along(kind: str = "learned") -> Plan:
    return Plan.of("directions+laplace", Budget(1.0), directions=named(kind))


@pytest.mark.parametrize(
    "volunteers",
    [
        [3, 8],
        ["3", "x"],
        np.array([8, 3]),
        pd.DataFrame({"person": [8, 8, 3], "place": ["1", "2", "3"]}),
    ],
    ids=["integers", "text", "array", "table"],
)
def test_somebody_in_both_lists_is_refused_and_nothing_is_charged(tmp_path: Path, volunteers: object) -> None:
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", epsilon=1.0)
    charged: Any = {"out": tmp_path / "release", "ledger": tmp_path / "ledger.db", "dataset": "visits"}
    for options in (charged, {**charged, "dry_run": True}, {}):
        with pytest.raises(
            DataError, match="volunteers must not be among the people to publish, but some are"
        ) as error:
            publish(TABLE, plan_along(), **COLUMNS, volunteers=volunteers, **options)
        assert "3" not in str(error.value)
    assert not (tmp_path / "release").exists()
    publish(TABLE, plan_along(), **COLUMNS, volunteers=[8], **charged)  # for which all of the budget is needed


def test_ids_of_different_kinds_are_compared_as_numbers() -> None:
    """A list from a file without types: zeros in front and blanks around are how somebody wrote a number."""
    for volunteers in (["00003"], [" 3"], ["+3"], ["x", "03"]):
        with pytest.raises(DataError, match="volunteers must not be among"):
            publish(TABLE, plan_along(), **COLUMNS, volunteers=volunteers)
    textual = TABLE.assign(person=["1", "1", "2", "0003"])
    named: Any = COLUMNS | {"roster": ["1", "2", "0003"]}
    with pytest.raises(DataError, match="volunteers must not be among"):
        publish(textual, plan_along(), **named, volunteers=[3])
    publish(textual, plan_along(), **named, volunteers=["3"])  # text is compared as it is written …
    for volunteers in (["0003 "], ["\t0003"], ["\u00a00003"]):  # … but for spaces around it, which nobody sees
        with pytest.raises(DataError, match="volunteers must not be among"):
            publish(textual, plan_along(), **named, volunteers=volunteers)
    publish(TABLE, plan_along(), **COLUMNS, volunteers=["30", "x3", "3.0"])
    with pytest.raises(DataError, match="volunteers must have ids of the kind that the people have"):
        publish(TABLE, plan_along(), **COLUMNS, volunteers=["ada", "bob"])
    by_name = TABLE.assign(person=["ada", "ada", "bob", "cy"])
    with pytest.raises(DataError, match="volunteers must have ids of the kind that the people have"):
        publish(by_name, plan_along(), **(COLUMNS | {"roster": ["ada", "bob", "cy"]}), volunteers=[3])


@pytest.mark.filterwarnings("ignore::dimly.errors.PrivacyWarning")
def test_sketches_that_were_made_one_by_one_are_compared_too(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", epsilon=1.0)
    charged: Any = {"ledger": tmp_path / "ledger.db", "dataset": "visits", "create": True, "roster": [1, 2]}
    write_directions(tmp_path / "directions.parquet", named("learned"))
    sketcher = Sketcher(Plan.from_json(plan_along().to_json()), directions=tmp_path / "directions.parquet")
    sketches = {1: sketcher.sketch(["4"])}
    with pytest.raises(DataError, match="volunteers must not be among"):
        sketcher.merge_into(tmp_path / "release", sketches, volunteers=[2], **charged)
    sketcher.merge_into(tmp_path / "release", sketches, volunteers=[2], except_volunteers=True, **charged)
    assert any(line.startswith("Excepted are people") for line in said(tmp_path / "release"))


def test_people_of_a_matrix_are_compared_too() -> None:
    people = np.eye(4, 90, dtype=int)
    with pytest.raises(DataError, match="volunteers must not be"):
        publish(people, plan_along(), volunteers=[2])
    assert len(publish(people, plan_along(), volunteers=[7])) == 4


@pytest.mark.filterwarnings("ignore::dimly.errors.PrivacyWarning")
def test_excepted_volunteers_stand_in_the_promise_and_stay_there(tmp_path: Path) -> None:
    out, ledger = tmp_path / "release", tmp_path / "ledger.db"
    Ledger.create(ledger).add_dataset("visits", epsilon=9.0)
    charged: Any = {"ledger": ledger, "dataset": "visits"}
    publish(TABLE, plan_along(), **COLUMNS, volunteers=[3], except_volunteers=True, out=out, **charged)
    assert any(line.startswith("Excepted are people whom the directions were learned from") for line in said(out))
    verify(out)
    more = pd.DataFrame({"person": [4], "place": ["4"]})
    publish(more, plan_along(), **(COLUMNS | {"roster": [4]}), volunteers=[3], append=out, **charged)
    assert json.loads((out / "manifest.json").read_text(encoding="utf-8"))["users"]["volunteers"] is True
    assert "Excepted are people" in open_release(out).guarantee
    verify(out)


@pytest.mark.filterwarnings("ignore::dimly.errors.PrivacyWarning")
@pytest.mark.parametrize(
    ("mechanism", "options", "without"),
    [
        ("randomized-response", {"vocabulary": ["4", "7", "9"]}, 1),
        ("counting+laplace", {"k": 4, "stream": 1}, 1),
        ("counting+laplace", {"k": 4}, 2),  # streams of version 2 came with format 2
    ],
    ids=["randomized-response", "counting+laplace stream 1", "counting+laplace"],
)
def test_volunteers_of_any_plan_are_checked_and_excepted(
    tmp_path: Path, mechanism: str, options: dict[str, Any], without: int
) -> None:
    """A list of attributes that was made of a sample shows what its people have, so that they must be elsewhere."""
    plan = Plan.of(mechanism, Budget(1.0), **options)
    given: Any = COLUMNS | {name: value for name, value in options.items() if name == "vocabulary"}
    with pytest.raises(DataError, match="volunteers must not be among the people to publish"):
        publish(TABLE, plan, **given, volunteers=[3], out=tmp_path / "none")
    publish(TABLE, plan, **given, volunteers=[8], out=tmp_path / "apart")
    assert not any("Excepted" in line for line in said(tmp_path / "apart"))
    publish(TABLE, plan, **given, volunteers=[3], except_volunteers=True, out=tmp_path / "both")
    assert any(
        "Excepted are people of the public sample that the plan was made from" in one for one in said(tmp_path / "both")
    )
    for name, version in (("apart", without), ("both", 2)):
        assert json.loads((tmp_path / name / "manifest.json").read_text(encoding="utf-8"))["format"] == version
        verify(tmp_path / name)


@pytest.mark.filterwarnings("ignore:No (ledger|roster)")
def test_without_a_list_a_warning_says_what_must_hold(tmp_path: Path) -> None:
    with pytest.warns(PrivacyWarning, match="learned from people who must not be among those published"):
        publish(TABLE, plan_along(), **COLUMNS, out=tmp_path / "release")
    assert not any("Excepted" in line for line in said(tmp_path / "release"))
    assert "volunteers" not in json.loads((tmp_path / "release/manifest.json").read_text(encoding="utf-8"))["users"]
    publish(TABLE, plan_along(), **COLUMNS, volunteers=[8], out=tmp_path / "checked")
    publish(TABLE, plan_along("embeddings"), **COLUMNS, out=tmp_path / "made")


def said(folder: Path) -> list[str]:
    lines: list[str] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["guarantee"]
    return lines


def test_lists_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="volunteers must be given where except_volunteers"):
        publish(TABLE, plan_along(), **COLUMNS, except_volunteers=True)
    with pytest.raises(ParameterError, match="volunteers must name at least one person"):
        publish(TABLE, plan_along(), **COLUMNS, volunteers=[])
    with pytest.raises(ParameterError, match="volunteers must be an existing file"):
        publish(TABLE, plan_along(), **COLUMNS, volunteers=tmp_path / "none.parquet")
    with pytest.raises(ParameterError, match="volunteers must be all integers or all text"):
        publish(TABLE, plan_along(), **COLUMNS, volunteers=[1.5, 2])
