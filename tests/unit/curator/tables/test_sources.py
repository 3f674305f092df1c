# ruff: noqa: S608 - names that the database made itself
import csv
import gzip
import json
import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from tests.plans import plan_of

import dimly
from dimly.curator.options import Options
from dimly.curator.tables.csv import CsvOptions
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.shapes import RowsView, rows_view
from dimly.curator.tables.sources import open_source
from dimly.errors import DataError, DimlyError, ParameterError

# Ids that a careless reader would trim, split, unquote or turn into numbers.
USERS = ["007", " 8 ", 'a,"b"', "line\nbreak", "Zoë 東京", "x" * 200, "NULL", "O'Brien;|\\"]
HELD: dict[str, dict[str, float]] = {
    user: {name: 1.0 for place, name in enumerate(["tea", "1", "co,ffee"]) if (number >> place) & 1}
    for number, user in enumerate(USERS)
}

LONG = [{"who": user, "what": name, 'odd "name': "x"} for user, held in HELD.items() for name in held]
LISTS = [{"who": user, "what": list(held)} for user, held in HELD.items()]
WIDE = [{"who": user, **{name: int(name in held) for name in ("tea", "1", "co,ffee")}} for user, held in HELD.items()]
SHAPES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "long": (LONG, {"attribute": "what"}),
    "list": (LISTS, {"attributes": "what"}),
    "wide": (WIDE, {"columns": "all"}),
}


def write_csv(path: Path, rows: list[dict[str, Any]], encoding: str = "utf-8", **dialect: Any) -> Path:
    with path.open("w", encoding=encoding, newline="", errors="replace") as opened:
        writer = csv.DictWriter(opened, list(rows[0]), **dialect)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_json(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path, **options)
    return path


def write_sqlite(path: Path, rows: list[dict[str, Any]], types: dict[str, str] | None = None) -> Path:
    names = ", ".join('"' + name.replace('"', '""') + '" ' + (types or {}).get(name, "TEXT") for name in rows[0])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE things ({names})")
        connection.executemany(
            f"INSERT INTO things VALUES ({', '.join('?' * len(rows[0]))})", [tuple(row.values()) for row in rows]
        )
    return path


def write_duckdb(path: Path, rows: list[dict[str, Any]]) -> Path:
    with closing(duckdb.connect(path)) as connection:
        connection.register("rows", pa.Table.from_pylist(rows))
        connection.execute("CREATE TABLE things AS SELECT * FROM rows")
    return path


def halves(folder: Path, rows: list[dict[str, Any]], write: Callable[..., Path], suffix: str) -> Path:
    (folder / "part=1").mkdir()
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.txt").write_text("SECRET")
    write(folder / f"a [1]{suffix}", rows[::2])
    write(folder / "part=1" / f"b{suffix}", [dict(reversed(row.items())) for row in rows[1::2]])
    return folder


def gzipped(path: Path) -> Path:
    target = path.with_name(path.name + ".gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    return target


def zstd(path: Path) -> Path:
    target = path.with_name(path.name + ".zst")
    target.write_bytes(pa.compress(path.read_bytes(), codec="zstd", asbytes=True))
    return target


Rows = list[dict[str, Any]]
FLAT: dict[str, Callable[[Path, Rows], Any]] = {
    "csv": lambda folder, rows: write_csv(folder / "t.csv", rows),
    "csv, semicolons, CRLF": lambda folder, rows: write_csv(
        folder / "t.csv", rows, delimiter=";", lineterminator="\r\n"
    ),
    "tsv": lambda folder, rows: str(write_csv(folder / "t.tsv", rows, delimiter="\t")),
    "txt, pipes": lambda folder, rows: write_csv(folder / "t.txt", rows, delimiter="|"),
    "csv, BOM": lambda folder, rows: write_csv(folder / "t.csv", rows, "utf-8-sig"),
    "csv, UTF-16": lambda folder, rows: write_csv(folder / "t.csv", rows, "utf-16"),
    "csv.gz": lambda folder, rows: gzipped(write_csv(folder / "t.csv", rows)),
    "csv.zst": lambda folder, rows: zstd(write_csv(folder / "t.csv", rows)),
    "csv folder": lambda folder, rows: halves(folder, rows, write_csv, ".csv"),
    "sqlite": lambda folder, rows: write_sqlite(folder / "t.sqlite", rows),
    "sqlite without types": lambda folder, rows: write_sqlite(folder / "t.db", rows, dict.fromkeys(rows[0], "")),
}
NESTED: dict[str, Callable[[Path, Rows], Any]] = {
    "parquet": lambda folder, rows: write_parquet(folder / "t.parquet", rows),
    "parquet, row groups": lambda folder, rows: [write_parquet(folder / "t.pq", rows, row_group_size=2)],
    "parquet folder": lambda folder, rows: halves(folder, rows, write_parquet, ".parquet"),
    "parquet glob": lambda folder, rows: str(halves(folder, rows, write_parquet, ".parquet")) + "/**/*.parquet",
    "jsonl": lambda folder, rows: write_json(folder / "t.jsonl", rows),
    "json": lambda folder, rows: write_json(folder / "t.json", rows),
    "ndjson.gz": lambda folder, rows: gzipped(write_json(folder / "t.ndjson", rows)),
    "json folder": lambda folder, rows: halves(folder, rows, write_json, ".jsonl"),
    "duckdb": lambda folder, rows: write_duckdb(folder / "t.duckdb", rows),
    "duckdb.db": lambda folder, rows: write_duckdb(folder / "t.db", rows),
    "pandas": lambda _, rows: pd.DataFrame(rows),
    "polars": lambda _, rows: pl.DataFrame(rows),
    "polars, lazy": lambda _, rows: pl.LazyFrame(rows),
    "arrow": lambda _, rows: pa.Table.from_pylist(rows),
    "arrow batch": lambda _, rows: pa.RecordBatch.from_pylist(rows),
    "arrow reader": lambda _, rows: pa.Table.from_pylist(rows).to_reader(max_chunksize=3),
    "arrow dataset": lambda folder, rows: pyarrow.dataset.dataset(write_parquet(folder / "t.parquet", rows)),
    "duckdb relation": lambda _, rows: duckdb.connect().from_arrow(pa.Table.from_pylist(rows)),
}
SOURCES = FLAT | NESTED


def canonical(database: PrivateDatabase, view: RowsView) -> dict[str, dict[str, float]]:
    """Return who has what, as text, of a view of canonical rows."""
    people: dict[str, dict[str, float]] = {str(u): {} for (u,) in database.fetch(view.people_sql)}
    value = "v" if view.has_values else "1.0"
    for user, attribute, held in database.fetch(f"SELECT u, {view.attribute_text_sql('a')}, {value} FROM {view.name}"):
        people[str(user)][attribute] = max(held, people[str(user)].get(attribute, 0.0))
    return people


@pytest.mark.parametrize(
    ("kind", "shape"), [(kind, shape) for kind in SOURCES for shape in SHAPES if shape != "list" or kind in NESTED]
)
def test_every_source_and_shape_gives_the_same_rows(
    database: PrivateDatabase, tmp_path: Path, kind: str, shape: str
) -> None:
    rows, options = SHAPES[shape]
    if kind.startswith("sqlite") and shape == "wide":
        types = (
            {name: "INTEGER" for name in rows[0] if name != "who"} if kind == "sqlite" else dict.fromkeys(rows[0], "")
        )
        data: Any = write_sqlite(tmp_path / "t.sqlite", rows, types)
    else:
        data = SOURCES[kind](tmp_path, rows)
    # Where a comma is in a name, the header alone does not tell what separates names.
    delimiter = {"csv, semicolons, CRLF": ";", "txt, pipes": "|"}.get(kind) if shape == "wide" else None
    source = open_source(database, data, csv=CsvOptions(delimiter=delimiter))
    view = rows_view(database, source, plan_of("counting+laplace"), Options(user="who", **options))
    view.check()
    expected = {user: held for user, held in HELD.items() if held or shape != "long"}
    assert canonical(database, view) == expected
    assert canonical(database, view) == expected  # read twice
    assert view.user_type == "text"
    source.check_unchanged()


INTEGERS = [{"who": number % 3, "what": number % 5} for number in range(30)]


@pytest.mark.parametrize("kind", [kind for kind in NESTED if "json" not in kind])
def test_integers_stay_integers(database: PrivateDatabase, tmp_path: Path, kind: str) -> None:
    source = open_source(database, NESTED[kind](tmp_path, INTEGERS))
    view = rows_view(database, source, plan_of("counting+laplace"), Options(user="who", attribute="what"))
    assert view.user_type == "int64"
    assert database.columns(view.name) == [("u", "BIGINT"), ("a", "BIGINT")]
    assert sorted(database.fetch(f"SELECT u, a FROM {view.name}")) == sorted((n % 3, n % 5) for n in range(30))


def test_cursors_see_tables_of_python(database: PrivateDatabase) -> None:
    source = open_source(database, pd.DataFrame(INTEGERS))
    view = rows_view(database, source, plan_of("counting+laplace"), Options(user="who", attribute="what"))
    with database.cursor() as cursor:
        assert cursor.fetch(f"SELECT count(*) FROM {view.name}") == [(30,)]


@pytest.mark.parametrize("column", ["u", 'a"b', "select", "two words", "größe", "v; DROP TABLE x", "{}", "?"])
def test_columns_of_any_name(database: PrivateDatabase, tmp_path: Path, column: str) -> None:
    rows = [{column: "x", "a": "tea", "n": 1}]
    for name, write in (
        ("t.parquet", write_parquet),
        ("t.csv", write_csv),
        ("t.jsonl", write_json),
        ("t.db", write_sqlite),
    ):
        source = open_source(database, write(tmp_path / name, rows), csv=CsvOptions(delimiter=","))
        view = rows_view(database, source, plan_of("counting+laplace"), Options(user=column, attribute="a"))
        view.check()
        assert canonical(database, view) == {"x": {"tea": 1.0}}
        if name != "t.db":
            wide = rows_view(database, source, plan_of("counting+laplace"), Options(user="a", columns=["n"]))
            assert canonical(database, wide) == {"tea": {"n": 1.0}}
    source = open_source(database, pa.table({"who": [1], column: [True]}))
    view = rows_view(database, source, plan_of("counting+laplace"), Options(user="who", columns="all"))
    assert canonical(database, view) == {"1": {column: 1.0}}


@pytest.mark.parametrize("names", [["User", "user"], ["x", "x"]])
def test_columns_that_duckdb_cannot_tell_apart(database: PrivateDatabase, tmp_path: Path, names: list[str]) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=names)
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text(",".join(names) + "\n1,2\n")
    frame = pd.DataFrame([[1, 2]], columns=names)
    for source in (table, tmp_path / "t.parquet", tmp_path / "t.csv", frame):
        # The first line of a CSV file without a header is a person's row.
        got = (
            "two that do not"
            if isinstance(source, Path) and source.suffix == ".csv"
            else f"'{names[0]}' and '{names[1]}'"
        )
        with pytest.raises(ParameterError, match=f"upper and lower case, got {got}"):
            open_source(database, source)


def test_twins_in_json(database: PrivateDatabase, tmp_path: Path) -> None:
    for names in (["User", "user"], ["User", ""]):
        with pytest.raises(DataError, match="differ in more than upper and lower case") as caught:
            open_source(database, write_json(tmp_path / "t.jsonl", [{name: 1} for name in names]))
        assert "User" not in str(caught.value)
        assert caught.value.__context__ is None


def test_letters_beyond_ascii_keep_their_case(database: PrivateDatabase) -> None:
    assert list(open_source(database, pa.table({"É": [1], "é": [2]})).columns) == ["É", "é"]


def test_columns_need_names(database: PrivateDatabase, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,,b\n1,2,3\n")
    with pytest.raises(ParameterError, match="must all have names"):
        open_source(database, tmp_path / "t.csv")


def test_a_table_needs_columns(database: PrivateDatabase, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({}), tmp_path / "t.parquet")
    for source in (tmp_path / "t.parquet", pa.table({}), pd.DataFrame(index=[1, 2])):
        with pytest.raises(ParameterError, match=r"must have columns, got none"):
            open_source(database, source)


def _unchecked(*texts: bytes) -> pa.Array:
    """Return text as somebody made it who did not look whether it is."""
    ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(texts), [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(texts))]
    )


@pytest.mark.parametrize(
    "ids",
    [
        _unchecked(b"ada", b"\xff\xfe"),
        _unchecked(b"ada", b"ada\xff"),  # which would sort as another ada
        _unchecked(b"\xed\xa0\x80", b"bob"),
        pa.DictionaryArray.from_arrays(pa.array([0, 7]), pa.array(["ada", "bob"]), safe=False),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), _unchecked(b"ada", b"\xff"), safe=False),
    ],
)
def test_memory_that_is_not_what_it_says_is_refused(database: PrivateDatabase, ids: pa.Array) -> None:
    plain = pa.array(["tea", "jam"])
    for table in (pa.table({"person": ids, "page": plain}), pa.table({"person": plain, "page": ids})):
        with pytest.raises(DataError, match="what its types say") as caught:
            open_source(database, table)
        assert caught.value.__context__ is None
        with pytest.raises(DataError, match="what its types say"):
            dimly.publish(table, plan_of("counting+laplace"), user="person", attribute="page")
        assert open_source(database, table.append_column("more", plain), wanted={"more"}).columns["more"] == "VARCHAR"


def test_types_that_only_their_makers_know_are_not_read_as_what_they_are_stored_in(database: PrivateDatabase) -> None:
    months = pd.DataFrame({"u": ["ada"], "month": pd.period_range("2024-02", periods=1, freq="M")})
    with pytest.raises(ParameterError, match=r"column 'month' must be of a type that DuckDB knows, got pandas\.period"):
        open_source(database, months)
    opaque = pa.ExtensionArray.from_storage(pa.opaque(pa.int32(), "months", "vendor"), pa.array([0], pa.int32()))
    nested = pa.table({"u": ["ada"], "l": pa.ListArray.from_arrays([0, 1], opaque)})
    with pytest.raises(ParameterError, match=r"column 'l' must be of a type that DuckDB knows, got arrow\.opaque"):
        open_source(database, nested)
    known = pa.table({"id": pa.array([bytes(16)], pa.uuid()), "cell": pa.array(['"tea"'], pa.json_())})
    assert open_source(database, known).columns == {"id": "UUID", "cell": "JSON"}


def test_types_of_which_a_parquet_file_holds_only_the_integers_are_refused(
    database: PrivateDatabase, tmp_path: Path
) -> None:
    own = {"ARROW:extension:name": "pandas.period", "ARROW:extension:metadata": '{"freq": "M"}'}
    months = pa.field("month", pa.int64(), metadata=own)
    file = tmp_path / "t.parquet"
    # Pandas makes its type known to Arrow once it needs it: then Arrow reads one here, and integers before.
    pyarrow.parquet.write_table(pa.table([["ada"], [649]], pa.schema([("u", pa.string()), months])), file)
    for source in (file, pa.table([["ada"], [649]], pa.schema([("u", pa.string()), months]))):
        with pytest.raises(ParameterError, match=r"'month' must be of a type that DuckDB knows, got pandas\.period"):
            open_source(database, source)
    assert list(open_source(database, file, wanted={"u"}).columns) == ["u", "month"]
    pyarrow.parquet.write_table(pa.table({"u": ["ada"], "a": pa.array([5], pa.duration("s"))}), file)
    with pytest.raises(ParameterError, match=r"column 'a' must not hold durations"):
        open_source(database, file)
    empty = tmp_path / "empty.parquet"  # and has no type of its own, whichever comes first
    pyarrow.parquet.write_table(pa.table({"u": ["bob"], "a": pa.nulls(1)}), empty)
    for files in ([file, empty], [empty, file]):
        with pytest.raises(ParameterError, match=r"column 'a' must not hold durations"):
            open_source(database, files)


def test_a_type_that_cannot_be_made_from_a_footer(database: PrivateDatabase, tmp_path: Path) -> None:
    pa.array(pd.period_range("2024-02", periods=1, freq="M"))  # pandas makes its type known to Arrow
    months = pa.field("month", pa.int64(), metadata={"ARROW:extension:name": "pandas.period"})  # without its frequency
    pyarrow.parquet.write_table(pa.table([["ada"], [649]], pa.schema([("u", pa.string()), months])), tmp_path / "t.pq")
    with pytest.raises(DataError, match=r"must be a readable Parquet file"):
        open_source(database, tmp_path / "t.pq")


def test_categories_in_lists_of_fixed_length_are_not_read_as_codes(database: PrivateDatabase) -> None:
    kind = pl.Array(pl.Enum(["unused", "tea", "jam"]), 2)
    frame = pl.DataFrame({"u": ["ada"], "l": [["tea", "jam"]]}, schema={"u": pl.String, "l": kind})
    coded = pa.FixedSizeListArray.from_arrays(pa.array(["tea", "jam"]).dictionary_encode(), 2)
    for source in (frame, frame.lazy(), pa.table({"u": ["ada"], "l": coded})):
        with pytest.raises(ParameterError, match=r"column 'l' must hold its lists of fixed length as plain text"):
            open_source(database, source)
    plain = open_source(database, frame.with_columns(pl.col("l").cast(pl.List(pl.String))))
    assert database.fetch(f"SELECT l FROM {plain.name}") == [(["tea", "jam"],)]


@pytest.mark.parametrize(("write", "suffix"), [(write_csv, ".csv"), (write_parquet, ".parquet")])
def test_files_with_other_columns(
    database: PrivateDatabase, tmp_path: Path, write: Callable[..., Path], suffix: str
) -> None:
    write(tmp_path / f"a{suffix}", [{"u": 1, "a": 2}])
    write(tmp_path / f"b{suffix}", [{"u": 1, "b": 2}])
    with pytest.raises(ParameterError, match=rf"same columns, but .*b\{suffix} lacks ('a'|one) unlike .*a\{suffix}"):
        open_source(database, tmp_path)
    write(tmp_path / f"b{suffix}", [{"u": 1, "a": 2, "c": 3}])
    with pytest.raises(ParameterError, match=rf"b\{suffix} has ('c'|one)"):
        open_source(database, tmp_path)


def test_backslashes_as_they_are_said_to_be(database: PrivateDatabase, tmp_path: Path) -> None:
    dialect: dict[str, Any] = {"doublequote": False, "escapechar": "\\", "quoting": csv.QUOTE_ALL}
    source = open_source(database, write_csv(tmp_path / "t.csv", LONG, **dialect), csv=CsvOptions(escape="\\"))
    view = rows_view(database, source, plan_of("counting+laplace"), Options(user="who", attribute="what"))
    assert canonical(database, view) == {user: held for user, held in HELD.items() if held}


def test_files_with_other_types_are_refused(database: PrivateDatabase, tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [{"u": 1, "a": 2}])
    write_parquet(tmp_path / "b.parquet", [{"u": "01", "a": 2}])
    with pytest.raises(ParameterError, match=r"types, but 'u' of .*b\.parquet has another type than in .*a\.parquet"):
        open_source(database, tmp_path)


def test_only_columns_that_are_read_must_be_of_one_type(database: PrivateDatabase, tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [{"u": 1, "a": True, "note": 2, "b": 1}])
    write_parquet(tmp_path / "b.parquet", [{"b": 2, "note": {"c": "x"}, "a": False, "u": 2}])
    source = open_source(database, tmp_path, wanted={"u", "a"})
    assert source.columns == {"u": "BIGINT", "a": "BOOLEAN", "b": "BIGINT"}
    assert sorted(database.fetch(f"SELECT u, a, b FROM {source.name}")) == [(1, True, 1), (2, False, 2)]
    for wanted in ({"u", "note"}, None):
        with pytest.raises(ParameterError, match=r"but 'note' of .*b\.parquet has another type than in .*a\.parquet"):
            open_source(database, tmp_path, wanted=wanted)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("cell", [True, "tea", 7, ["tea"]])
def test_a_column_without_a_type_fits_any(database: PrivateDatabase, tmp_path: Path, cell: object, first: bool) -> None:
    write_parquet(tmp_path / ("a.parquet" if first else "z.parquet"), [{"u": 1, "a": None}])
    write_parquet(tmp_path / "m.parquet", [{"u": 2, "a": cell}])
    source = open_source(database, tmp_path)
    assert sorted(database.fetch(f"SELECT u, a FROM {source.name}")) == [(1, None), (2, cell)]


def test_types_that_are_alike_in_parquet_are_alike(database: PrivateDatabase, tmp_path: Path) -> None:
    noon = pa.array([0], pa.timestamp("us"))
    for name, texts, times in (
        ("a", pa.array(["x"]), noon.cast(pa.timestamp("us", "UTC"))),
        ("b", pa.array(["x"], pa.large_string()), noon.cast(pa.timestamp("us", "Europe/Berlin"))),
        ("c", pa.array(["x"]).dictionary_encode(), noon.cast(pa.timestamp("us", "UTC"))),
    ):
        pyarrow.parquet.write_table(pa.table({"u": texts, "a": times}), tmp_path / f"{name}.parquet")
    source = open_source(database, tmp_path)
    assert source.columns == {"u": "VARCHAR", "a": "TIMESTAMP WITH TIME ZONE"}
    assert len(set(database.fetch(f"SELECT u, CAST(a AS VARCHAR) FROM {source.name}"))) == 1


def test_a_name_in_a_footer_that_is_not_utf8(database: PrivateDatabase, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "t.parquet", [{"u": 1, "caf?": 2}], store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"caf?", b"caf\xe9"))
    with pytest.raises(DataError, match=r"t\.parquet must be a readable Parquet file") as caught:
        open_source(database, path)
    assert caught.value.__context__ is None


def test_folders_named_by_a_column_add_none(database: PrivateDatabase, tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    write_parquet(tmp_path / "day=1" / "t.parquet", [{"u": 1}])
    assert list(open_source(database, tmp_path).columns) == ["u"]


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.jsonl", "t.duckdb", "t.sqlite", "t.csv.gz", "t.jsonl.gz"])
@pytest.mark.parametrize("content", [b"", b"\x00\x01SECRET\x80\xff" * 20, b"PAR1\0SECRET\0PAR1"])
def test_garbage_is_one_line_without_its_content(
    database: PrivateDatabase, tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DimlyError, match=re.escape(name)) as caught:
        open_source(database, path)
    assert "SECRET" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("name", ["t.parquet", "t.jsonl", "t.csv"])
def test_a_file_that_cannot_be_opened(database: PrivateDatabase, tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to(tmp_path / "away")
    with pytest.raises(ParameterError, match="existing file"):
        open_source(database, tmp_path / name)


def test_a_file_that_changes_is_noticed(database: PrivateDatabase, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "t.parquet", [{"u": 1}])
    source = open_source(database, path)
    source.check_unchanged()
    write_parquet(path, [{"u": 2}, {"u": 3}])
    with pytest.raises(DataError, match=rf"{re.escape(str(path))} must not change"):
        source.check_unchanged()
    path.unlink()
    with pytest.raises(DataError, match="must not change"):
        source.check_unchanged()


def test_the_working_directory_may_change(
    database: PrivateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "t.parquet", [{"u": 1}])
    monkeypatch.chdir(tmp_path)
    source = open_source(database, "t.parquet")
    monkeypatch.chdir("/")
    source.check_unchanged()
    assert database.fetch(f"SELECT u FROM {source.name}") == [(1,)]


@pytest.mark.parametrize("source", [None, 5, {"u": [1]}, ["a.csv", 5], b"t.csv"])
def test_what_is_no_source(database: PrivateDatabase, source: object) -> None:
    with pytest.raises(ParameterError, match=r"source must be a path, .* got "):
        open_source(database, source)


def test_a_spark_frame_is_sent_to_the_other_engine(database: PrivateDatabase) -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})()
    with pytest.raises(ParameterError, match=r"Use dimly\.spark\.publish, or dimly\.spark\.survey"):
        open_source(database, frame)


@pytest.mark.parametrize("options", [{"table": "t"}, {"query": "SELECT 1"}])
def test_tables_and_queries_are_for_databases(
    database: PrivateDatabase, tmp_path: Path, options: dict[str, Any]
) -> None:
    for source in (write_parquet(tmp_path / "t.parquet", [{"u": 1}]), pa.table({"u": [1]})):
        with pytest.raises(ParameterError, match=f"{next(iter(options))} must be left out"):
            open_source(database, source, **options)


def test_several_databases(database: PrivateDatabase, tmp_path: Path) -> None:
    for name in ("a.sqlite", "b.sqlite"):
        write_sqlite(tmp_path / name, [{"u": "1"}])
    with pytest.raises(ParameterError, match="one SQLite file"):
        open_source(database, tmp_path)


def test_csv_options_reach_the_file(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("u^a\n'1'^x\n")
    source = open_source(database, path, csv=CsvOptions(delimiter="^", quote="'"))
    assert database.fetch(f"SELECT u, a FROM {source.name}") == [("1", "x")]
    assert os.fspath(path) in database.inputs
