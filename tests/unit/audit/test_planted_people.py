"""Invented people stand in a table's own format, and what is wrong is told without a word of the table."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.audit.visits import FORMATS, write

from dimly.audit.planted_people import InventedRows, first_free_id, free_names, plant
from dimly.curator.options import Options
from dimly.curator.tables.numbered_table import open_table
from dimly.errors import DimlyError, ParameterError
from dimly.mechanisms import Plan
from dimly.privacy import Budget

IDS = [2**62 + 5, 2**62 + 5, 2**62 + 9]
ROWS = InventedRows(IDS, ["1900000001", "1900000001", "1900000002"])
LONG = Options(user="person", attribute="page")
PLAN = Plan.of("counting+laplace", Budget(1.0), k=4)


@pytest.mark.parametrize("name", FORMATS)
def test_everybody_is_read(name: str, tmp_path: Path) -> None:
    source, folder = write(name, tmp_path), tmp_path / "planted"
    folder.mkdir()
    before = Path(source).read_bytes()
    files = plant(source, ROWS, LONG, folder)
    with open_table(files if len(files) > 1 else files[0], PLAN, LONG) as table:
        found = [str(one) for one in table.users(0, table.n_users).to_pylist()]
    assert len(found) == 4 + 2
    assert {str(one) for one in IDS} < set(found)
    assert Path(source).read_bytes() == before


def test_other_columns_and_values(tmp_path: Path) -> None:
    source = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"when": pa.array([1, 2], pa.timestamp("s")), "page": [1, 2], "much": [0.5, 1.0], "person": [1, 2]}),
        source,
    )
    folder = tmp_path / "planted"
    folder.mkdir()
    files = plant([source], ROWS, Options(user="person", attribute="page", value="much"), folder)
    written = pq.read_table(files[-1])
    assert written.to_pydict() == {
        "when": [None] * 3,
        "page": [1900000001, 1900000001, 1900000002],
        "much": [1.0] * 3,
        "person": IDS,
    }


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (pa.table({"person": [1]}), LONG, "data must be files"),
        ("t.csv", Options(user="person", columns="all"), "only long tables"),
        ("t.csv", Options(user="nobody", attribute="page"), "a column 'nobody'"),
        ("two.sqlite", LONG, "table must name"),
        ("view.duckdb", LONG, "table must name"),
        ("beside.sqlite", LONG, "table must name"),
        ("beside.sqlite", Options(user="person", attribute="page", table="v"), "table must be no view"),
        ("view.duckdb", Options(user="person", attribute="page", table="v"), "table must be no view"),
        ("short.parquet", LONG, "person must be a column .* one of int16 does not"),
    ],
)
def test_what_does_not_fit_is_refused(source: Any, options: Options, said: str, tmp_path: Path) -> None:
    write("t.csv", tmp_path)
    with closing(sqlite3.connect(tmp_path / "two.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE a (person TEXT, page TEXT)")
        connection.execute("CREATE TABLE b (person TEXT, page TEXT)")
    with closing(sqlite3.connect(tmp_path / "beside.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE a (person TEXT, page TEXT)")
        connection.execute("CREATE VIEW v AS SELECT * FROM a")
    with duckdb.connect(tmp_path / "view.duckdb") as database:
        database.execute("CREATE VIEW v AS SELECT 'secret' AS person, 'tea' AS page")
    pq.write_table(pa.table({"person": pa.array([7], pa.int16()), "page": ["secret"]}), tmp_path / "short.parquet")
    folder = tmp_path / "planted"
    folder.mkdir()
    with pytest.raises(DimlyError, match=said) as caught:
        plant(tmp_path / source if isinstance(source, str) else source, ROWS, options, folder)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("keys.jsonl", '{"person": "ada", "secret": 1}\n'),  # an attribute of hers
        ("joined.csv", "person,place,secret,tea\nbob,milk,x,y\n"),  # her row, without the line end before it
    ],
)
def test_what_stands_in_the_place_of_names_is_not_told(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / "planted").mkdir()
    with pytest.raises(ParameterError, match="must have a column 'page'") as caught:
        plant(tmp_path / name, ROWS, LONG, tmp_path / "planted")
    assert "secret" not in str(caught.value)


def test_a_long_first_object(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"note": "' + 70_000 * "x" + '", "person": "ada", "page": "tea"}\n')
    (tmp_path / "planted").mkdir()
    assert len(plant(tmp_path / "t.jsonl", ROWS, LONG, tmp_path / "planted")) == 2


def test_a_table_of_several_is_named(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "two.duckdb") as database:
        for name in ("a", "b"):
            database.execute(f"CREATE TABLE {name} (person VARCHAR, page VARCHAR)")
    options = Options(user="person", attribute="page", table="b")
    (tmp_path / "planted").mkdir()
    (file,) = plant(tmp_path / "two.duckdb", ROWS, options, tmp_path / "planted")
    with duckdb.connect(file) as database:
        assert database.sql("SELECT count(*) FROM b").fetchall() == [(3,)]
        assert database.sql("SELECT count(*) FROM a").fetchall() == [(0,)]


def test_columns_that_are_not_read_are_empty() -> None:
    assert ROWS.column("other", LONG) is None
    with pytest.raises(ParameterError, match="data must be files"):
        plant(object(), ROWS, LONG, Path())


NARROW = [
    (pa.int32(), pa.int32()),
    (pa.uint32(), pa.int64()),
    (pa.int64(), pa.int16()),
    (pa.int64(), pa.uint8()),
    (pa.int16(), pa.string()),
    (pa.string(), pa.date32()),
    (pa.int64(), pa.bool_()),
    (pa.dictionary(pa.int32(), pa.int32()), pa.dictionary(pa.int32(), pa.string())),
]


def narrow(form: str, types: tuple[pa.DataType, pa.DataType], folder: Path) -> Path:
    """Write a table of these types: people 1 to 3."""
    cells = [pa.array(["1", "2", "3"]), pa.array(["1", "0", "1"])]
    if pa.types.is_date(types[1]):
        cells[1] = pa.array(["2024-02-29", "2024-03-01", "2024-02-29"])
    table = pa.table([c.cast(t) for c, t in zip(cells, types, strict=True)], names=["person", "page"])
    source = folder / f"narrow.{form}"
    if form == "parquet":
        pq.write_table(table, source)
    else:
        with duckdb.connect(source) as database:
            database.register("given", table)
            database.execute("CREATE TABLE t AS SELECT * FROM given")
    return source


@pytest.mark.parametrize("form", ["parquet", "duckdb"])
@pytest.mark.parametrize("types", NARROW, ids=str)
def test_narrow_columns(form: str, types: tuple[pa.DataType, pa.DataType], tmp_path: Path) -> None:
    source = narrow(form, types, tmp_path)
    names = free_names(source, LONG) or ["1900000001", "1900000002"]
    first = first_free_id(source, LONG, people=3000)
    ids = [first, first, first + 2999]
    assert first > 3
    (tmp_path / "planted").mkdir()
    files = plant(source, InventedRows(ids, [names[0], names[0], names[1]]), LONG, tmp_path / "planted")
    with open_table(files if len(files) > 1 else files[0], PLAN, LONG) as table:
        found = {str(one) for one in table.users(0, table.n_users).to_pylist()}
    assert found == {"1", "2", "3", str(ids[0]), str(ids[2])}


def test_ids_go_where_there_is_room(tmp_path: Path) -> None:
    source = tmp_path / "t.parquet"

    def first(ids: list[int], kind: pa.DataType, people: int) -> int:
        pq.write_table(pa.table({"person": pa.array(ids, kind), "page": ["a"] * len(ids)}), source)
        return first_free_id(source, LONG, people=people)

    assert first([5, 32_000], pa.int16(), 767) == 32_001
    assert first([5, 32_000], pa.int16(), 32_768) == -32_768
    assert -32_768 <= first([-100, 32_000], pa.int16(), 30_000) <= -30_100
    for kind in (pa.int16(), pa.uint8()):
        with pytest.raises(ParameterError, match=f"one of {kind} has too little"):
            first([-5 if kind == pa.int16() else 5, 32_000 if kind == pa.int16() else 99], kind, 32_768)
    assert first([1], pa.int64(), 10) >= 2**62


@pytest.mark.parametrize("form", ["sqlite", "duckdb"])
def test_a_key_of_person_and_attribute(form: str, tmp_path: Path) -> None:
    """No row can stand twice there; SQLite's own table of numbered rows is none of the curator's."""
    source = tmp_path / f"t.{form}"
    made = "CREATE TABLE t (person INTEGER, page INTEGER, PRIMARY KEY (person, page))"
    if form == "duckdb":
        with duckdb.connect(source) as database:
            database.execute(made)
    else:
        with closing(sqlite3.connect(source)) as connection, connection:
            connection.execute(made)
    first = first_free_id(source, LONG, people=2)
    (tmp_path / "planted").mkdir()
    (file,) = plant(source, InventedRows([first, first, first + 1], ["7", "7", "8"]), LONG, tmp_path / "planted")
    with open_table(file, PLAN, LONG) as table:
        assert table.users(0, table.n_users).to_pylist() == [first, first + 1]


def test_numbered_rows_of_sqlite(tmp_path: Path) -> None:
    source = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(source)) as connection, connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, person INTEGER, page TEXT)")
        connection.execute("INSERT INTO t (person, page) VALUES (1, 'tea')")
    (tmp_path / "planted").mkdir()
    (file,) = plant(source, ROWS, LONG, tmp_path / "planted")
    with open_table(file, PLAN, LONG) as table:
        assert table.n_users == 3


@pytest.mark.parametrize("name", ["t.parquet", "t.duckdb"])
def test_a_file_that_is_damaged_is_not_quoted(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PAR1 secret PAR1")
    with pytest.raises(DimlyError) as caught:
        first_free_id(tmp_path / name, LONG, people=1)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
