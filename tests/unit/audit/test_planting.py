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

from dimly.audit.planting import Planted, planted
from dimly.curator.options import Options
from dimly.curator.tables.numbered import open_table
from dimly.errors import DimlyError, ParameterError
from dimly.mechanisms import Plan
from dimly.privacy import Budget

IDS = [2**62 + 5, 2**62 + 5, 2**62 + 9]
ROWS = Planted(IDS, ["1900000001", "1900000001", "1900000002"])
LONG = Options(user="person", attribute="page")
PLAN = Plan.of("counting+laplace", Budget(1.0), k=4)


@pytest.mark.parametrize("name", FORMATS)
def test_everybody_is_read(name: str, tmp_path: Path) -> None:
    source, folder = write(name, tmp_path), tmp_path / "planted"
    folder.mkdir()
    before = Path(source).read_bytes()
    files = planted(source, ROWS, LONG, folder)
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
    files = planted([source], ROWS, Options(user="person", attribute="page", value="much"), folder)
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
        ("short.parquet", LONG, "could not be added"),
    ],
)
def test_what_does_not_fit_is_refused(source: Any, options: Options, said: str, tmp_path: Path) -> None:
    write("t.csv", tmp_path)
    with closing(sqlite3.connect(tmp_path / "two.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE a (person TEXT, page TEXT)")
        connection.execute("CREATE TABLE b (person TEXT, page TEXT)")
    with duckdb.connect(tmp_path / "view.duckdb") as database:
        database.execute("CREATE VIEW v AS SELECT 'secret' AS person, 'tea' AS page")
    pq.write_table(pa.table({"person": pa.array([7], pa.int16()), "page": ["secret"]}), tmp_path / "short.parquet")
    folder = tmp_path / "planted"
    folder.mkdir()
    with pytest.raises(DimlyError, match=said) as caught:
        planted(tmp_path / source if isinstance(source, str) else source, ROWS, options, folder)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_table_of_several_is_named(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "two.duckdb") as database:
        for name in ("a", "b"):
            database.execute(f"CREATE TABLE {name} (person VARCHAR, page VARCHAR)")
    options = Options(user="person", attribute="page", table="b")
    (tmp_path / "planted").mkdir()
    (file,) = planted(tmp_path / "two.duckdb", ROWS, options, tmp_path / "planted")
    with duckdb.connect(file) as database:
        assert database.sql("SELECT count(*) FROM b").fetchall() == [(3,)]
        assert database.sql("SELECT count(*) FROM a").fetchall() == [(0,)]


def test_columns_that_are_not_read_are_empty() -> None:
    assert ROWS.column("other", LONG) is None
    with pytest.raises(ParameterError, match="data must be files"):
        planted(object(), ROWS, LONG, Path())
