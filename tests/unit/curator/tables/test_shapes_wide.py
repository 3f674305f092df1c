# ruff: noqa: S608 - names that the database made itself
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.plans import plan_of

from dimly.curator.options import Options
from dimly.curator.tables import formats
from dimly.curator.tables.condition import apply_condition, wide_columns
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.numbered_table import open_table
from dimly.curator.tables.shapes import RowsView, rows_view
from dimly.curator.tables.sources import open_source
from dimly.errors import DataError, DimlyError, ParameterError

BITS = plan_of("counting+laplace")
TENTHS = plan_of("counting+laplace", resolution=10)
BY_COLUMN = plan_of("counting+laplace", unit="column")
TENTHS_BY_COLUMN = plan_of("counting+laplace", unit="column", resolution=10)


def view_of(database: PrivateDatabase, table: Any, *, apart: bool = False, **options: Any) -> RowsView:
    plan = options.pop("plan", BITS)
    arguments: dict[str, Any] = {"user": "u", "columns": "all"}
    chosen = Options(**(arguments | options))
    data = pa.table(table) if isinstance(table, dict) else table
    source = open_source(database, data, wide=wide_columns(chosen) if apart else None)
    return rows_view(database, apply_condition(database, source, chosen), plan, chosen)


def rows(database: PrivateDatabase, view: RowsView) -> list[tuple[Any, ...]]:
    value = ", v" if view.has_values else ""
    return sorted(database.fetch(f"SELECT u, {view.attribute_text_sql('a')}{value} FROM {view.name}"))


def people(database: PrivateDatabase, view: RowsView) -> list[Any]:
    return sorted(u for (u,) in database.fetch(view.people_sql))


NUMBERS = {
    "u": [1, 2, 3],
    "bool": [True, False, False],
    "int": pa.array([0, 1, 0], pa.uint8()),
    "float": [1.0, 1.0, 0.0],
    "decimal": pa.array([1, 0, 0], pa.int64()).cast(pa.decimal128(20, 1)),
}


@pytest.mark.parametrize("plan", [BITS, TENTHS, BY_COLUMN])
def test_numbers_of_any_type(database: PrivateDatabase, plan: Any) -> None:
    view = view_of(database, NUMBERS, plan=plan)
    view.check()
    expected = [(1, "bool"), (1, "decimal"), (1, "float"), (2, "float"), (2, "int")]
    assert [row[:2] for row in rows(database, view)] == expected
    assert view.has_values == (plan is TENTHS)
    assert people(database, view) == [1, 2, 3]
    assert {a for (a,) in database.fetch(f"SELECT a FROM {view.name}")} == {0, 1, 2, 3}


def test_values(database: PrivateDatabase) -> None:
    view = view_of(database, {"u": [1, 1], "x": [0.25, 0.75], "y": [False, True]}, plan=TENTHS)
    view.check()  # several rows of a person: the largest counts, which the kernel takes
    assert rows(database, view) == [(1, "x", 0.25), (1, "x", 0.75), (1, "y", 1.0)]


def test_chosen_columns(database: PrivateDatabase) -> None:
    view = view_of(database, NUMBERS, columns=("float",))
    assert rows(database, view) == [(1, "float"), (2, "float")]


def test_text_columns(database: PrivateDatabase) -> None:
    table = {
        "u": ["p", "q", "r"],
        "color": ["red", "blue", ""],
        "size": pa.array(["S", "S", "L"]).dictionary_encode(),
        "fan": [True, False, True],
        "it's {}": [0, 1, 0],
    }
    view = view_of(database, table, plan=BY_COLUMN)
    view.check()
    assert rows(database, view) == [
        ("p", "color=red"),
        ("p", "fan"),
        ("p", "size=S"),
        ("q", "color=blue"),
        ("q", "it's {}"),
        ("q", "size=S"),
        ("r", "color="),
        ("r", "fan"),
        ("r", "size=L"),
    ]
    valued = view_of(database, table, plan=TENTHS_BY_COLUMN, columns=["color"])
    assert rows(database, valued) == [("p", "color=red", 1.0), ("q", "color=blue", 1.0), ("r", "color=", 1.0)]


def test_text_columns_need_the_unit(database: PrivateDatabase) -> None:
    with pytest.raises(
        ParameterError, match=r"got 'color' of type VARCHAR.* moves two of them: plan with unit=\"column\""
    ):
        view_of(database, {"u": [1], "n": [1], "color": ["SECRET"]})


@pytest.mark.parametrize("user", [1, "p"])
def test_text_columns_need_one_row_a_person(database: PrivateDatabase, user: object) -> None:
    table = {"u": [user, user], "color": ["SECRET", "SECRET"]}
    with pytest.raises(DataError, match="some people have several rows") as caught:
        view_of(database, table, plan=BY_COLUMN).check()
    assert "SECRET" not in str(caught.value)


def test_rows_of_nobody_are_not_of_one_person(database: PrivateDatabase) -> None:
    view = view_of(database, {"u": [None, None, 1], "c": ["x", "y", "z"]}, plan=BY_COLUMN, nulls="drop")
    view.check()
    assert rows(database, view) == [(1, "c=z")]


def test_missing_text(database: PrivateDatabase) -> None:
    table = {"u": [1, 2], "c": ["x", None]}
    with pytest.raises(DataError, match="some values of column 'c' are missing"):
        view_of(database, table, plan=BY_COLUMN).check()
    view = view_of(database, table, plan=BY_COLUMN, nulls="drop")
    view.check()
    assert rows(database, view) == [(1, "c=x")]
    assert people(database, view) == [1, 2]


def test_columns_of_csv_are_numbers_or_text_by_the_plan(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("u,x,y\n01,1,0\n02,true,1.0\n")
    view = view_of(database, path)
    view.check()
    assert rows(database, view) == [("01", "x"), ("02", "x"), ("02", "y")]
    by_column = view_of(database, path, plan=BY_COLUMN)
    by_column.check()
    assert rows(database, by_column) == [("01", "x=1"), ("01", "y=0"), ("02", "x=true"), ("02", "y=1.0")]


@pytest.mark.parametrize("apart", [False, True])
def test_cells_of_json_go_by_their_own_type(database: PrivateDatabase, tmp_path: Path, apart: bool) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"u": 1, "x": 1, "y": "red"}\n{"u": 2, "x": "1", "y": true}\n')
    view = view_of(database, path, apart=apart, plan=BY_COLUMN)
    view.check()
    assert rows(database, view) == [("1", "x"), ("1", "y=red"), ("2", "x=1"), ("2", "y")]
    with pytest.raises(DataError, match="some values of a column are not numbers"):
        view_of(database, path, apart=apart).check()
    path.write_text('{"u": 1, "x": [1]}\n')
    with pytest.raises(DataError, match="some values of a column are not numbers"):
        view_of(database, path, apart=apart, plan=BY_COLUMN).check()
    path.write_text('{"u": 1, "x": 1}\n{"u": 2}\n')
    with pytest.raises(DataError, match="some values of a column are missing"):
        view_of(database, path, apart=apart, plan=BY_COLUMN).check()


def outcome(database: PrivateDatabase, path: Path, **options: Any) -> Any:
    try:
        view = view_of(database, path, **options)
        view.check()
    except DimlyError as error:
        return type(error)
    return rows(database, view), people(database, view), view.has_values


_CELLS: tuple[Any, ...] = (0, 1, True, False, 0.5, 1e-300, -0.0, 2, -1, "1", "red", None, [1], {"k": 1}, "null", 10**30)


@pytest.mark.parametrize("seed", range(40))
def test_objects_that_are_taken_apart_give_the_same_rows(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wide JSON is taken apart some objects at a time; with a column for each name the rows are the same."""
    monkeypatch.setattr(formats, "_PIECE", 150)
    draws = random.Random(seed)  # noqa: S311 - of tables
    names = ["a", 'q"x', "x y", "'z'", "É", "é", "long" * 30]
    held = (0, 1, True) if seed % 2 else _CELLS
    lines = [
        json.dumps({"u": i % 4, **{name: draws.choice(held) for name in names if draws.random() < 0.8}})
        for i in range(draws.randint(1, 12))
    ]
    path = tmp_path / "t.json"
    path.write_text("\n".join(lines) if seed % 3 else f"[{','.join(lines)}]")
    options: dict[str, Any] = {
        "nulls": draws.choice(["refuse", "drop"]),
        "values": draws.choice(["refuse", "clamp"]),
        "plan": draws.choice([BITS, TENTHS, BY_COLUMN, TENTHS_BY_COLUMN]),
        "where": draws.choice([None, "u <> '1'"]),
    }
    with PrivateDatabase(memory=1 << 27, threads=1) as one, PrivateDatabase(memory=1 << 27, threads=1) as other:
        assert outcome(one, path, **options) == outcome(other, path, apart=True, **options)


def test_names_of_objects_become_no_part_of_a_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB plans each of them in memory that its limit does not know: 3,000 names took 1.4 GB."""
    path = tmp_path / "t.jsonl"
    path.write_text(
        "\n".join(json.dumps({"u": i, **{f"secret{n}": (i + n) % 2 for n in range(200)}}) for i in range(9))
    )
    asked: list[str] = []
    run = PrivateDatabase.fetch

    def fetch(self: PrivateDatabase, sql: str, parameters: Any = ()) -> Any:
        asked.append(sql)
        return run(self, sql, parameters)

    monkeypatch.setattr(PrivateDatabase, "fetch", fetch)
    for columns in ("all", [f"secret{n}" for n in range(200)]):
        with open_table(path, BITS, Options(user="u", columns=columns)) as table:
            assert sum(len(chunk) for chunk in table.rows()) == 900
    assert not any("secret" in sql for sql in asked)


def test_wide_json_is_refused_as_it_was(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for text, match in (
        ('{"u": 1, "a": 1, "a": 0}', "one JSON object per line, with each name once"),
        ('{"u": 1, "a": 1}\n[1]', "one JSON object per line"),
        ('{"u": 1, "a": 1, "A": 0}', "differ in more than upper and lower case"),
        ('{"u": 1, "": 1}', "names that are not empty"),
        ("{}", "with names in them, got none"),
        ('{"u": 1}\n{"a": 1}', "some rows have no user"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=match):
            view_of(database, path, apart=True).check()
    path.write_text('{"u": 1}')
    with pytest.raises(ParameterError, match="at least one column besides the user's"):
        view_of(database, path, apart=True)
    with pytest.raises(ParameterError, match="user must be a column of the table, got 'v'"):
        view_of(database, path, apart=True, user="v")
    with pytest.raises(ParameterError, match="of another name than 'Dimly object'"):
        view_of(database, path, apart=True, user="Dimly object")
    with pytest.raises(ParameterError, match="columns must be a column of the table, got 'c0'"):
        view_of(database, path, apart=True, columns=[f"c{n}" for n in range(101)])


def test_the_first_column_with_a_fault_is_named(database: PrivateDatabase) -> None:
    table = {"u": [1, 2], **{f"c{n}": [1, 0] for n in range(300)}, "bad": [1, 7], "worse": [9, 0]}
    with pytest.raises(DataError, match="column 'bad'"):
        view_of(database, table).check()


def test_many_columns(database: PrivateDatabase) -> None:
    table = {"u": [1, 2], **{f"c{n}": [n % 2, n % 3 == 0] for n in range(1200)}}
    view = view_of(database, {name: pa.array(map(int, cells)) for name, cells in table.items()})
    view.check()
    assert len(rows(database, view)) == 600 + 400


def test_cells_of_one_type_are_read_by_one_expression(database: PrivateDatabase) -> None:
    """The time to plan a query grows with the square of its expressions: minutes for thousands of columns of text."""
    others = {"v": [0.5, 1.0], "A": [True, False], "a!": pa.array([0, 1], pa.int8())}
    expressions = []
    for n, more in ((3, {}), (300, {}), (300, others)):
        view = view_of(database, {"u": [1, 2], **{f"c{i}": [1.0, 0.0] for i in range(n)}, **more}, plan=TENTHS)
        ((sql,),) = database.fetch("SELECT sql FROM duckdb_views() WHERE view_name = ?", [view.name[1:-1]])
        expressions.append(sql.upper().count("ISFINITE"))
        found = rows(database, view)
    assert len(set(expressions)) == 1
    assert len(found) == 300 + 4
    of_others = [(1, "A", 1.0), (1, "v", 0.5), (2, "a!", 1.0), (2, "v", 1.0)]
    assert [row for row in found if not row[1].startswith("c")] == of_others
