# ruff: noqa: S608 - names that the database made itself
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.plans import plan_of

from dimly.curator.options import Options
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.shapes import RowsView, rows_view
from dimly.curator.tables.sources import open_source
from dimly.errors import DataError, ParameterError

BITS = plan_of("counting+laplace")
TENTHS = plan_of("counting+laplace", resolution=10)


def view_of(database: PrivateDatabase, table: Any, **options: Any) -> RowsView:
    source = open_source(database, pa.table(table) if isinstance(table, dict) else table)
    plan = options.pop("plan", BITS)
    arguments: dict[str, Any] = {"user": "u"}
    return rows_view(database, source, plan, Options(**(arguments | options)))


def rows(database: PrivateDatabase, view: RowsView) -> list[tuple[Any, ...]]:
    return sorted(database.fetch(f"SELECT * FROM {view.name}"))


def people(database: PrivateDatabase, view: RowsView) -> list[Any]:
    return sorted(u for (u,) in database.fetch(view.people_sql))


def test_long(database: PrivateDatabase) -> None:
    view = view_of(database, {"u": [2, 1, 1, 1], "a": ["x", "x", "y", "y"]}, attribute="a")
    view.check()
    assert rows(database, view) == [(1, "x"), (1, "y"), (1, "y"), (2, "x")]
    assert (view.user_type, view.has_values, view.people_in_rows) == ("int64", False, True)
    assert people(database, view) == [1, 2]


def test_long_with_values(database: PrivateDatabase) -> None:
    table = {"u": ["p", "p", "q"], "a": [1, 2, 3], "w": [0.5, 1.0, 0.0]}
    view = view_of(database, table, attribute="a", value="w", plan=TENTHS)
    view.check()
    assert rows(database, view) == [("p", 1, 0.5), ("p", 2, 1.0)]
    assert (view.user_type, view.has_values, view.people_in_rows) == ("text", True, False)
    assert people(database, view) == ["p", "q"]  # whoever has nothing but zeros is there


def test_long_with_bits(database: PrivateDatabase) -> None:
    view = view_of(database, {"u": [1, 2], "a": [1, 2], "w": [1, 0]}, attribute="a", value="w")
    view.check()
    assert not view.has_values
    assert rows(database, view) == [(1, 1)]
    assert people(database, view) == [1, 2]


def test_lists(database: PrivateDatabase) -> None:
    table = pa.table({"u": [1, 2, 3, 1], "l": pa.array([["x", "y"], [], ["x"], ["z"]], pa.list_(pa.string()))})
    view = view_of(database, table, attributes="l")
    view.check()
    assert rows(database, view) == [(1, "x"), (1, "y"), (1, "z"), (3, "x")]
    assert people(database, view) == [1, 2, 3]
    assert not view.people_in_rows


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int16(), 2), pa.large_list(pa.int64()), pa.list_(pa.string()), pa.list_(pa.date32())]
)
def test_lists_of_any_kind(database: PrivateDatabase, kind: pa.DataType) -> None:
    view = view_of(database, {"u": [1], "l": pa.array([[1, 2]], pa.list_(pa.int32())).cast(kind)}, attributes="l")
    view.check()
    assert len(rows(database, view)) == 2


def test_lists_of_json(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"u": 1, "l": ["x", 7, true, 123456789012345678901]}\n{"u": "2", "l": []}\n')
    view = view_of(database, path, attributes="l")
    view.check()
    assert rows(database, view) == [("1", "123456789012345678901"), ("1", "7"), ("1", "true"), ("1", "x")]
    assert people(database, view) == ["1", "2"]


NOBODY = "some rows have no user"
NOTHING = "some rows have no attribute"


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({"u": [1, None], "a": ["SECRET", "x"]}, {"attribute": "a"}, NOBODY),
        ({"u": ["SECRET", ""], "a": ["x", "x"]}, {"attribute": "a"}, NOBODY),
        ({"u": [1, 2], "a": ["SECRET", None]}, {"attribute": "a"}, NOTHING),
        ({"u": [1, None], "l": [["SECRET"], ["x"]]}, {"attributes": "l"}, NOBODY),
        ({"u": [1, 2], "l": [["SECRET"], None]}, {"attributes": "l"}, NOTHING),
        ({"u": [1, 2], "l": [["SECRET"], ["x", None]]}, {"attributes": "l"}, NOTHING),
        ({"u": [1, 2], "a": [1, 2], "w": [1.0, None]}, {"attribute": "a", "value": "w"}, "column 'w' are missing"),
        (
            {"u": [1, 2], "a": [1, 2], "w": [1.0, float("nan")]},
            {"attribute": "a", "value": "w"},
            "column 'w' are missing",
        ),
        ({"u": [1, None], "b": [True, False]}, {"columns": "all"}, NOBODY),
        ({"u": [1, 2], "b": [True, None]}, {"columns": "all"}, "column 'b' are missing"),
        ({"u": [1, 2], "x": [1, 1], "b": [0.0, float("nan")]}, {"columns": "all"}, "column 'b' are missing"),
    ],
)
def test_what_is_missing_is_refused_or_dropped(
    database: PrivateDatabase, table: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    view = view_of(database, table, **options)
    with pytest.raises(DataError, match=rf'{message}.*nulls="drop" to leave') as caught:
        view.check()
    assert "SECRET" not in str(caught.value)
    assert not any(digit in str(caught.value) for digit in "0123456789")
    dropping = view_of(database, table, **options, nulls="drop")
    dropping.check()
    assert all(None not in row for row in rows(database, dropping))
    # Dropping leaves out the cell and not the person, unless nobody knows who it is.
    known = sorted({u for u in table["u"] if u not in {None, ""}})
    assert people(database, dropping) == known
    assert not dropping.people_in_rows


def test_dropping_keeps_the_rest(database: PrivateDatabase) -> None:
    table = {"u": [1, None, 2, 3, 3], "a": ["x", "x", None, "y", "z"], "w": [1.0, 1.0, 1.0, None, 1.0]}
    view = view_of(database, table, attribute="a", value="w", nulls="drop")
    view.check()
    assert rows(database, view) == [(1, "x"), (3, "z")]


@pytest.mark.parametrize(
    ("cells", "plan", "message"),
    [
        ([0.5, 1.5], TENTHS, r"outside \[0, 1\].*values=.clamp. to cut"),
        ([0.5, -0.1], TENTHS, r"outside \[0, 1\]"),
        ([0.5, float("inf")], TENTHS, r"outside \[0, 1\]"),
        ([1.0, 0.5], BITS, r"neither 0 nor 1, and the plan's resolution is 1"),
        ([1, 2], BITS, r"outside \[0, 1\]"),
        (["1", "SECRET"], TENTHS, r"not numbers"),
        (["1", "1e999"], TENTHS, r"outside \[0, 1\]|not numbers"),
    ],
)
@pytest.mark.parametrize("shape", ["long", "wide"])
def test_values_out_of_range(
    database: PrivateDatabase, cells: list[Any], plan: Any, message: str, shape: str, tmp_path: Path
) -> None:
    options = {"attribute": "a", "value": "w"} if shape == "long" else {"columns": ["w"]}
    path = tmp_path / "t.csv"
    path.write_text("u,a,w\n" + "".join(f"{n},{n},{cell}\n" for n, cell in enumerate(cells)))
    tables: list[Any] = [path] if isinstance(cells[0], str) else [path, {"u": [1, 2], "a": [1, 2], "w": cells}]
    for table in tables:
        with pytest.raises(DataError, match=f"some values of column 'w' are {message}") as caught:
            view_of(database, table, plan=plan, **options).check()
        assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("shape", ["long", "wide"])
def test_values_are_clamped(database: PrivateDatabase, shape: str) -> None:
    table = {"u": [1, 2, 3, 4], "a": ["w"] * 4, "w": [1.5, -0.5, 0.25, float("inf")]}
    options = {"attribute": "a", "value": "w"} if shape == "long" else {"columns": ["w"]}
    view = view_of(database, table, plan=TENTHS, values="clamp", **options)
    view.check()
    assert [(u, v) for u, _, v in rows(database, view)] == [(1, 1.0), (3, 0.25), (4, 1.0)]
    assert people(database, view) == [1, 2, 3, 4]
    bits = view_of(database, table, values="clamp", **options)
    with pytest.raises(DataError, match="neither 0 nor 1"):  # clamping does not round
        bits.check()


@pytest.mark.parametrize(
    ("cell", "message"), [("1.5", "some attributes"), ("{}", "some attributes"), ("[1]", "some attributes")]
)
def test_cells_of_json_that_are_no_attributes(
    database: PrivateDatabase, tmp_path: Path, cell: str, message: str
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f'{{"u": 1, "a": {cell}, "l": [{cell}]}}\n')
    for options in ({"attribute": "a"}, {"attributes": "l"}):
        for nulls in ("refuse", "drop"):
            with pytest.raises(DataError, match=message):
                view_of(database, path, **options, nulls=nulls).check()


@pytest.mark.parametrize("cell", ["1.5", "true", "[1]", "{}"])
def test_cells_of_json_that_name_nobody(database: PrivateDatabase, tmp_path: Path, cell: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f'{{"u": {cell}, "a": "SECRET"}}\n')
    for nulls in ("refuse", "drop"):
        with pytest.raises(DataError, match="some users are neither text nor integers"):
            view_of(database, path, attribute="a", nulls=nulls).check()


def test_a_list_of_json_must_be_one(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"u": 1, "l": ["x"]}\n{"u": 2, "l": "SECRET"}\n')
    with pytest.raises(DataError, match="some attributes"):
        view_of(database, path, attributes="l", nulls="drop").check()


def test_years_without_a_text(database: PrivateDatabase) -> None:
    source = database.create_table("SELECT 1 AS u, DATE '12000-01-01' AS a")
    view = rows_view(
        database,
        open_source(database, database.table(f"SELECT * FROM {source}")),
        BITS,
        Options(user="u", attribute="a"),
    )
    with pytest.raises(DataError, match="years 1 to 9999"):
        view.check()


TABLE = {"u": [1], "a": ["x"], "l": [["x"]], "w": [1.0], "b": [True]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"one of attribute .*, got none\. The table has: u, a, l, w, b\."),
        ({"attribute": "a", "columns": "all"}, "got attribute and columns"),
        ({"attribute": "a", "attributes": "l"}, "got attribute and attributes"),
        ({"attributes": "l", "value": "w"}, "value must come with attribute, got it with attributes"),
        (
            {"user": "SECRET", "attribute": "a"},
            r"user must be a column of the table, got 'SECRET'\. The table has: u, a",
        ),
        ({"user": "U", "attribute": "a"}, "user must be a column of the table, got 'U'. Did you mean 'u'?"),
        ({"columns": ["b;l"]}, "columns must be a column of the table, got 'b;l'. Separate the names with commas"),
        ({"attribute": "nope"}, r"attribute must be a column of the table, got 'nope'\. The table has"),
        ({"attributes": "nope"}, "attributes must be a column of the table, got 'nope'"),
        ({"columns": ["nope"]}, "columns must be a column of the table, got 'nope'"),
        ({"columns": ["b", 3]}, "columns must be a column of the table, got 3"),
        ({"columns": "b"}, r"columns must be a list of names or \"all\", got 'b'\. Write \['b'\]"),
        ({"columns": []}, "columns must name at least one"),
        ({"columns": ["b", "b"]}, "columns must name each column once, got 'b' twice. Leave one of them out"),
        ({"columns": ["u"]}, "columns must be a column of its own, got 'u', which is also user. Leave it out"),
        ({"attribute": "u"}, "attribute must be a column of its own, got 'u', which is also user. Name another"),
        ({"attribute": "a", "value": "a"}, "value must be a column of its own, got 'a', which is also attribute"),
        ({"attribute": "a", "value": "nope"}, "value must be a column of the table, got 'nope'"),
        ({"attribute": "a", "value": "l"}, "value must be a column of numbers, got 'l' of type LIST"),
        ({"attribute": "w"}, "attribute must be a column of text, integers, booleans or dates, got 'w' of type DOUBLE"),
        ({"attribute": "l"}, "attribute must be a column of text, integers, booleans or dates, got 'l' of type LIST"),
        ({"attributes": "a"}, "attributes must be a column of lists, got 'a' of type VARCHAR"),
        (
            {"user": "w", "attribute": "a"},
            r"user must be a column of integers or text, got 'w' of type DOUBLE\. Turn its numbers into integers",
        ),
        ({"columns": ["l"]}, "columns must be a column of numbers, got 'l' of type LIST"),
        ({"attribute": "a", "nulls": "skip"}, r"nulls must be \"refuse\" or \"drop\", got 'skip'"),
        ({"attribute": "a", "values": "round"}, r"values must be \"refuse\" or \"clamp\", got 'round'"),
    ],
)
def test_calls_that_cannot_work(database: PrivateDatabase, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        view_of(database, TABLE, **options)


def test_long_lists_of_columns_are_cut(database: PrivateDatabase) -> None:
    with pytest.raises(ParameterError, match=r"c18 and 11 more\.$"):
        view_of(database, {"u": [1], **{f"c{n}": [1] for n in range(30)}}, attribute="nope")


def test_one_row_of_json_may_lack_a_name(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, [{"u": 1, "a": "x"}, {"u": 2}])))
    with pytest.raises(DataError, match=NOTHING):
        view_of(database, path, attribute="a").check()
    view = view_of(database, path, attribute="a", nulls="drop")
    assert rows(database, view) == [("1", "x")]
    assert people(database, view) == ["1", "2"]
