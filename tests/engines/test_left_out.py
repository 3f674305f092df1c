"""What roster and list leave out: publishing stops where that is everything, and tells the curator more on request."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.directions import named
from tests.engines.engine import Engine

from dimly.api import publish
from dimly.curator.diagnosis import WARNING
from dimly.curator.ledger.ledger import Ledger
from dimly.errors import DataError, DimlyError, ParameterError
from dimly.mechanisms import Plan
from dimly.privacy import Budget

NUMBERED = Plan.of("randomized-response", Budget(2.0), n_attributes=5_000)
LISTED = ("place 1", "place 2")
CLOSED = Plan.of("counting+laplace", Budget(2.0), k=8, vocabulary=LISTED)
LONG: dict[str, Any] = {"user": "person", "attribute": "place"}


def visits(*rows: tuple[int, str]) -> pa.Table:
    people, places = zip(*rows, strict=True)
    return pa.table({"person": pa.array(people, pa.int64()), "place": pa.array(places, pa.string())})


NAMED = visits((1, "place 102"), (1, "place 7"), (2, "place 102"), (3, "007"), (3, "5000"), (3, "-1"))


@pytest.fixture
def charged(tmp_path: Path) -> dict[str, Any]:
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", epsilon=10.0)
    return {"ledger": tmp_path / "ledger.db", "dataset": "visits", **LONG}


@pytest.mark.parametrize(("plan", "listed"), [(NUMBERED, None), (CLOSED, LISTED)], ids=["numbers", "names"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_nothing_in_the_list_stops_before_anything_is_charged(
    engine: Engine, plan: Plan, listed: Any, dry_run: bool, charged: dict[str, Any], tmp_path: Path
) -> None:
    # With a roster, and without one, the people are known; it is what they have that does not fit.
    for roster in (None, [1, 2, 4]):
        with pytest.raises(
            DataError, match=r"holds? none, so that only noise would be published\. .*diagnose=FILE says"
        ) as stop:
            engine.publish(
                NAMED, plan, vocabulary=listed, roster=roster, dry_run=dry_run, out=tmp_path / "out", **charged
            )
        assert "vocabulary=FILE" in str(stop.value) if listed is None else "spelled as the table is" in str(stop.value)
        assert "Check that attribute names the right column, got 'place'." in str(stop.value)
        assert "place 1" not in str(stop.value)
    assert not (tmp_path / "out").exists()
    assert Ledger(charged["ledger"]).status("visits").spent.n_costs == 0


@pytest.mark.filterwarnings("ignore:No volunteers")
@pytest.mark.parametrize("kind", ["learned", "categories"])
def test_no_attribute_with_a_row_stops_too(kind: str, charged: dict[str, Any], tmp_path: Path) -> None:
    plan = Plan.of("directions+laplace", Budget(2.0), directions=named(kind))
    options = {**charged, "out": tmp_path / "out", "diagnose": tmp_path / "diagnosis.json"}
    with pytest.raises(
        DataError, match=r"directions must have rows for attributes .* but have none, .*diagnose=FILE says"
    ):
        publish(NAMED, plan, **options)
    told = json.loads((tmp_path / "diagnosis.json").read_text())
    assert (told["rows_published"], told["rows_left_out_by_the_list"]) == (0, NAMED.num_rows)
    assert Ledger(charged["ledger"]).status("visits").spent.n_costs == 0
    with pytest.raises(ParameterError, match="vocabulary must hold attributes that have a row"):
        publish(NAMED, plan, vocabulary=["place 7"], out=tmp_path / "out", **charged)
    with pytest.raises(ParameterError, match="attributes must have rows in the directions"):
        publish([[0, 1], [1, 0]], plan, attributes=["place 7", "place 8"])
    assert publish(visits((1, "5"), (2, "place 7")), plan, **LONG).users.tolist() == [1, 2]


def test_private_files_do_not_go_out_with_a_release(charged: dict[str, Any], tmp_path: Path) -> None:
    plan = Plan.of("counting+laplace", Budget(1.0), k=8)
    publish(NAMED, plan, out=tmp_path / "out", roster=[1, 2, 3], **charged)
    options: list[dict[str, Any]] = [{"diagnose": tmp_path / "out" / "figures.json"}, {"temp": tmp_path / "out"}]
    for option in options:
        (name,) = option
        with pytest.raises(ParameterError, match=f"{name} must not be inside another release"):
            publish(NAMED, plan, out=tmp_path / "new", roster=[1, 2, 3], **option, **charged)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["README.md", "manifest.json", "sketches"]


def test_one_attribute_in_the_list_is_enough(engine: Engine, tmp_path: Path) -> None:
    rows = visits((1, "place 102"), (2, "4999"), (3, "place 7"))
    assert engine.publish(rows, NUMBERED, out=tmp_path / "out", **LONG).users.tolist() == [1, 2, 3]


def test_people_who_are_added_may_have_nothing(engine: Engine, charged: dict[str, Any], tmp_path: Path) -> None:
    options: dict[str, Any] = {**charged, "vocabulary": LISTED}
    engine.publish(visits((1, "place 1"), (2, "elsewhere")), CLOSED, out=tmp_path / "out", **options)
    rows = visits((3, "elsewhere"), (9, "place 1"))
    grown = engine.publish(rows, CLOSED, roster=[3, 4], append=tmp_path / "out", **options)
    assert grown.users.tolist() == [1, 2, 3, 4]
    changed = engine.publish(rows, CLOSED, roster=[3, 4], update=tmp_path / "out", out=tmp_path / "new", **options)
    assert changed.users.tolist() == [1, 2, 3, 4]


PEOPLE = pa.table({"person": ["ada", "ben", "ben"], "place": ["place 1", "hill", "sea"]})


@pytest.mark.parametrize(
    ("rows", "roster", "text"),
    [
        (PEOPLE, ["ADA", "Ben "], r"roster must hold people who have attributes in the table, but it holds none"),
        (PEOPLE, [1, 2], "roster must hold people who have attributes"),
        (PEOPLE.slice(3), ["ada"], "roster must hold people who have attributes"),
    ],
    ids=["spelling", "type", "no rows"],
)
@pytest.mark.thorough(but=1)
def test_roster_and_list_that_leave_nothing_stop_before_anything_is_charged(
    engine: Engine, rows: pa.Table, roster: list[Any], text: str, charged: dict[str, Any], tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)).hex().encode())
    key.chmod(0o600)
    plan = Plan.of("counting+laplace", Budget(2.0), k=8)
    options: dict[str, Any] = {**charged, "pseudonyms": key, "out": tmp_path / "out"}
    with pytest.raises(DataError, match=rf"^{text}.*only noise would be published\. .*ids are written alike") as stop:
        engine.publish(rows, plan, roster=roster, **options)
    assert "ada" not in str(stop.value).lower()
    assert "\n" not in str(stop.value)
    assert not (tmp_path / "out").exists()
    assert Ledger(charged["ledger"]).status("visits").spent.n_costs == 0


def test_nothing_tells_whether_somebody_has_an_attribute(engine: Engine, tmp_path: Path) -> None:
    # Ada has "place 1" and Ben has not. A stop for one of them would be an answer that nobody is charged for.
    for roster in (["ada"], ["ben"]):
        options: dict[str, Any] = {"vocabulary": LISTED, "out": tmp_path / roster[0], **LONG}
        assert engine.publish(PEOPLE, CLOSED, roster=roster, **options).users.tolist() == roster


def test_a_diagnosis_is_exact_and_for_its_owner_alone(engine: Engine, tmp_path: Path) -> None:
    rows = visits((1, "place 1"), (1, "sea"), (2, "sea"), (2, "sea"), (2, "hill"), (3, "place 2"), (9, "sea"))
    file = tmp_path / "private.json"
    engine.publish(rows, CLOSED, vocabulary=LISTED, roster=[1, 2, 3, 4], out=tmp_path / "out", diagnose=file, **LONG)
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text(encoding="utf-8")) == {
        "warning": WARNING,
        "rows": 7,
        "rows_of_people_not_on_the_roster": 1,
        "rows_published": 2,
        "rows_left_out_by_the_list": 4,
        "share_of_rows_left_out_by_the_list": 4 / 6,
        "people": 4,
        "share_of_people_with_something_left_out": 0.5,
        "attributes": 4,
        "attributes_left_out": 2,
        "most_frequent_left_out": [{"attribute": "sea", "rows": 4}, {"attribute": "hill", "rows": 1}],
    }


def test_a_diagnosis_is_written_where_publishing_stops(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "private.json"
    with pytest.raises(DataError, match="only noise"):
        engine.publish(NAMED, NUMBERED, out=tmp_path / "out", diagnose=file, **LONG)
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["share_of_rows_left_out_by_the_list"] == found["share_of_people_with_something_left_out"] == 1
    assert found["most_frequent_left_out"][0] == {"attribute": "place 102", "rows": 2}
    assert found["attributes_left_out"] == 5


@pytest.mark.parametrize(
    ("name", "text"), [("there.json", "must be a new file"), ("no/such/folder.json", "must be in a folder that exists")]
)
def test_a_diagnosis_that_cannot_be_written_is_refused_first(
    engine: Engine, name: str, text: str, charged: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "there.json").write_text("mine", encoding="utf-8")
    with pytest.raises(ParameterError, match=f"diagnose {text}"):
        engine.publish(NAMED, NUMBERED, out=tmp_path / "out", diagnose=tmp_path / name, **charged)
    assert (tmp_path / "there.json").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_cannot_be_written_to_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refuse(path: Any, flags: int, *mode: int, **options: Any) -> int:
        if flags & os.O_CREAT and tmp_path / "closed" in Path(path).parents:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, *mode, **options)

    (tmp_path / "closed").mkdir()
    monkeypatch.setattr(os, "open", refuse)
    file = tmp_path / "closed" / "private.json"
    with pytest.raises(ParameterError, match=r"diagnose must be in a folder that can be written to, .*: Permission"):
        publish(NAMED, NUMBERED, diagnose=file, **LONG)
    monkeypatch.setattr("dimly.curator.diagnosis.check_new_file", Path)
    with pytest.raises(DimlyError, match=r"private\.json cannot be written: Permission denied\. Name another file"):
        publish(NAMED, NUMBERED, diagnose=file, **LONG)
    with pytest.raises(DimlyError, match="its folder is gone"):
        publish(NAMED, NUMBERED, diagnose=tmp_path / "gone" / "private.json", **LONG)


def test_a_diagnosis_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DimlyError, match="cannot be written: No space left on device"):
        publish(NAMED, NUMBERED, diagnose=tmp_path / "private.json", **LONG)
    assert os.listdir(tmp_path) == []


def test_in_memory_too(tmp_path: Path) -> None:
    file = tmp_path / "private.json"
    with pytest.raises(DataError, match="only noise"):
        publish(NAMED, NUMBERED, diagnose=file, **LONG)
    assert json.loads(file.read_text(encoding="utf-8"))["rows"] == 6
    with pytest.raises(ParameterError, match="diagnose must be given for a table with columns only"):
        publish([[1, 0]], CLOSED, attributes=LISTED, diagnose=tmp_path / "other.json")
    with pytest.raises(DataError, match="roster must hold people who have attributes"):
        publish(visits((1, "sea")), Plan.of("counting+laplace", Budget(2.0), k=8), roster=["01"], **LONG)


def test_a_file_that_appears_in_between_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "private.json"
    file.symlink_to(tmp_path / "elsewhere.json")  # whoever follows it would write where another decided
    monkeypatch.setattr("dimly.curator.diagnosis.check_new_file", Path)
    with pytest.raises(ParameterError, match="diagnose must be a new file"):
        publish(visits((1, "0")), NUMBERED, diagnose=file, **LONG)
    assert not (tmp_path / "elsewhere.json").exists()


def test_rows_of_which_a_condition_is_not_true_are_not_read(engine: Engine, tmp_path: Path) -> None:
    table = NAMED.append_column("rating", pa.array([5.0, 0.0, 3.0, None, 2.0, 0.0]))
    plan = Plan.of("counting+laplace", Budget(2.0), k=64, seed=bytes(32))
    kept = engine.publish(table, plan, where="rating > 0", roster=[1, 2, 3], out=tmp_path / "kept", **LONG)
    left = table.take([0, 2, 4]).drop_columns("rating")
    same = engine.publish(left, plan, roster=[1, 2, 3], out=tmp_path / "same", **LONG)
    assert (kept.values == same.values).all()
    with pytest.raises(ParameterError, match="must not look at 'rating' without a roster"):
        engine.publish(table, plan, where="rating > 0", out=tmp_path / "refused", **LONG)
    with pytest.raises(ParameterError, match="got a subquery"):
        engine.publish(table, plan, where="rating > (SELECT 1)", out=tmp_path / "refused", **LONG)
