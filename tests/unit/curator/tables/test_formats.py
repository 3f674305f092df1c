# ruff: noqa: S608 - names that the database made itself
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.plans import plan_of

from dimly.curator.options import Options
from dimly.curator.tables import formats as database_files
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.shapes import rows_view
from dimly.curator.tables.sources import open_source
from dimly.errors import DataError, ParameterError

SQL = [
    "CREATE TABLE visits (who TEXT, what INTEGER, share REAL, free)",
    "INSERT INTO visits VALUES ('007', 1, 0.5, 'x'), (' 8', 2, 1, 7), (NULL, NULL, NULL, NULL)",
    'CREATE TABLE "odd ""name" (u INTEGER)',
]


@pytest.fixture(params=["sqlite", "duckdb"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"it's {request.param}?#%.{request.param}"
    with closing(sqlite3.connect(path) if request.param == "sqlite" else duckdb.connect(path)) as connection:
        for statement in SQL:
            connection.execute(statement if request.param == "sqlite" else statement.replace("free)", "free VARCHAR)"))
        connection.commit()
    return path


def test_a_table(database: PrivateDatabase, path: Path) -> None:
    source = open_source(database, path, table="visits")
    assert list(source.columns) == ["who", "what", "share", "free"]
    assert sorted(database.fetch(f"SELECT who, what, share FROM {source.name}"), key=repr) == [
        (" 8", 2, 1.0),
        ("007", 1, 0.5),
        (None, None, None),
    ]
    with database.cursor() as cursor:
        assert cursor.fetch(f"SELECT count(*) FROM {source.name}") == [(3,)]


def test_a_table_of_an_odd_name(database: PrivateDatabase, path: Path) -> None:
    assert list(open_source(database, path, table='odd "name').columns) == ["u"]


def test_a_query(database: PrivateDatabase, path: Path) -> None:
    query = "SELECT who AS u, what + 1 AS a FROM visits WHERE who IS NOT NULL"
    source = open_source(database, path, query=query)
    view = rows_view(database, source, plan_of("counting+laplace"), Options(user="u", attribute="a"))
    view.check()
    assert sorted(database.fetch(f"SELECT u, {view.attribute_text_sql('a')} FROM {view.name}")) == [
        (" 8", "3"),
        ("007", "2"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"table must say which table of .* to read\. It has: odd \"name, visits\."),
        ({"table": "SECRET"}, r"table must be one of .*, got 'SECRET'\. It has: odd \"name, visits\."),
        ({"table": "visits", "query": "SELECT 1"}, "table and query must not be given both"),
        ({"query": "SELECT nope FROM visits"}, "query must be"),
        ({"query": "DELETE FROM visits"}, "query must be"),
        ({"query": "SELECT 1; SELECT 2"}, "query must be"),
        ({"query": "nonsense"}, "query must be"),
        ({"query": "SELECT 1 AS u, 2 AS t, 3 AS T"}, "^the columns of the query must differ in more than upper"),
    ],
)
def test_tables_and_queries_that_cannot_be(
    database: PrivateDatabase, path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        open_source(database, path, **options)
    assert caught.value.__context__ is None


def test_an_empty_database(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")
    with pytest.raises(ParameterError, match="It has: none"):
        open_source(database, path)


def test_the_file_is_left_alone(database: PrivateDatabase, path: Path) -> None:
    before = (path.read_bytes(), sorted(os.listdir(path.parent)))
    open_source(database, path, table="visits")
    assert (path.read_bytes(), sorted(os.listdir(path.parent))) == before


def test_schemas_of_duckdb(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    with closing(duckdb.connect(path)) as connection:
        connection.execute(
            'CREATE SCHEMA "a.b"; CREATE TABLE "a.b"."c.d" AS SELECT 1 AS u; CREATE VIEW v AS SELECT 2 AS u'
        )
    assert database.fetch(f"SELECT * FROM {open_source(database, path, table='a.b.c.d').name}") == [(1,)]
    assert database.fetch(f"SELECT * FROM {open_source(database, path, table='v').name}") == [(2,)]


def test_a_name_of_two_tables_of_duckdb(database: PrivateDatabase, tmp_path: Path) -> None:
    with closing(duckdb.connect(tmp_path / "t.duckdb")) as connection:
        connection.execute('CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 1 AS u; CREATE TABLE "s.t" AS SELECT 2 AS u')
    with pytest.raises(ParameterError, match=r"table must name one table of .*, but two are called 's\.t'"):
        open_source(database, tmp_path / "t.duckdb", table="s.t")


def test_a_generated_column_is_computed_once(database: PrivateDatabase, tmp_path: Path) -> None:
    """What is checked in one pass holds in the next, also of a table that computes a column by chance."""
    with closing(duckdb.connect(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t (n INTEGER, u DOUBLE GENERATED ALWAYS AS (random()))")
        connection.execute("INSERT INTO t SELECT range FROM range(100)")
    query = f"SELECT * FROM {open_source(database, tmp_path / 't.duckdb').name} ORDER BY n"
    assert database.fetch(query) == database.fetch(query)


def test_a_view_of_what_is_gone_is_not_called_a_bad_query(database: PrivateDatabase, tmp_path: Path) -> None:
    with closing(duckdb.connect(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS u; CREATE VIEW v AS SELECT * FROM t; DROP TABLE t")
    with pytest.raises(ParameterError, match=r"view 'v' of .*t\.duckdb must be one that DuckDB can read"):
        open_source(database, tmp_path / "t.duckdb")


def test_a_database_that_another_program_writes_to(database: PrivateDatabase, tmp_path: Path) -> None:
    with closing(duckdb.connect(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS u")
    held = f"import duckdb; held = duckdb.connect({str(tmp_path / 't.duckdb')!r}); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", held], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:  # noqa: S603
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(DataError, match=r"t\.duckdb must not be open for writing in another program"):
            open_source(database, tmp_path / "t.duckdb")
        other.communicate(b"\n")


def sqlite_of(folder: Path, column: str, *cells: object) -> Path:
    path = folder / "t.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE t (u TEXT, x {column})")
        connection.executemany("INSERT INTO t VALUES ('p', ?)", [(cell,) for cell in cells])
    return path


@pytest.mark.parametrize(
    ("declared", "type_"),
    [
        ("BIGINT UNSIGNED", "BIGINT"),
        ("VARCHAR(9)", "VARCHAR"),
        ("DOUBLE", "DOUBLE"),
        ("BLOB", "JSON"),
        ("DATE", "JSON"),
        ("", "JSON"),
    ],
)
def test_declared_types(database: PrivateDatabase, tmp_path: Path, declared: str, type_: str) -> None:
    assert open_source(database, sqlite_of(tmp_path, declared)).columns == {"u": "VARCHAR", "x": type_}


def test_columns_without_a_type_go_by_the_cell(database: PrivateDatabase, tmp_path: Path) -> None:
    source = open_source(database, sqlite_of(tmp_path, "", 7, "007", 'a "b"', 2**62, "é"))
    view = rows_view(database, source, plan_of("counting+laplace"), Options(user="u", attribute="x"))
    view.check()
    found = {a for (a,) in database.fetch(f"SELECT a FROM {view.name}")}
    assert found == {"7", "007", 'a "b"', str(2**62), "é"}
    for odd in (0.5, float("inf")):
        (tmp_path / "t.sqlite").unlink()
        source = open_source(database, sqlite_of(tmp_path, "", odd))
        with pytest.raises(DataError, match="some attributes"):
            rows_view(database, source, plan_of("counting+laplace"), Options(user="u", attribute="x")).check()


@pytest.mark.parametrize(
    ("declared", "cell", "message"),
    [
        ("INTEGER", "SECRET", r"column 'x' must hold what its declared type says \(BIGINT\)"),
        ("REAL", "SECRET", r"column 'x' must hold what its declared type says \(DOUBLE\)"),
        ("TEXT", b"SECRET", r"column 'x' must hold what its declared type says \(VARCHAR\)"),
        ("", b"SECRET", r"column 'x' must hold text and numbers"),
    ],
)
def test_cells_of_another_type(
    database: PrivateDatabase, tmp_path: Path, declared: str, cell: object, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        open_source(database, sqlite_of(tmp_path, declared, cell))
    assert "SECRET" not in str(caught.value)


def test_generated_columns_are_columns(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE t (u TEXT, x INTEGER, more INTEGER GENERATED ALWAYS AS (x > 1), "
            "kept INTEGER GENERATED ALWAYS AS (x > 2) STORED)"
        )
        connection.executemany("INSERT INTO t VALUES (?, ?)", [("a", 0), ("b", 2), ("c", 3)])
    source = open_source(database, path)
    assert source.columns == {"u": "VARCHAR", "x": "BIGINT", "more": "BIGINT", "kept": "BIGINT"}
    assert sorted(database.fetch(f"SELECT * FROM {source.name}")) == [
        ("a", 0, 0, 0),
        ("b", 2, 1, 0),
        ("c", 3, 1, 1),
    ]


def test_text_that_is_not_unicode(database: PrivateDatabase, tmp_path: Path) -> None:
    path = sqlite_of(tmp_path, "TEXT")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO t VALUES ('p', CAST(x'534543524554ff' AS TEXT))")
    with pytest.raises(DataError, match="readable SQLite file") as caught:
        open_source(database, path)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None


def test_batches(database: PrivateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_files, "_BATCH", 3)
    source = open_source(database, sqlite_of(tmp_path, "INTEGER", *range(10)))
    assert database.fetch(f"SELECT sum(x), count(*) FROM {source.name}") == [(45, 10)]
