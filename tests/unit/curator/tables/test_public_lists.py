# ruff: noqa: S608 - names that the database made itself
import gzip
import json
import os
import sqlite3
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

import dimly
from dimly.curator.options import Options
from dimly.curator.tables import public_lists
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.public_lists import check_apart, plan_along, read_roster, read_vocabulary
from dimly.errors import DataError, ParameterError
from dimly.mechanisms import Plan
from dimly.mechanisms.vocabulary import Vocabulary, attribute_text
from dimly.privacy import Budget


def people(database: PrivateDatabase, roster: Any, **options: Any) -> list[Any]:
    found = read_roster(database, roster, user_column="who", **options)
    users = [u for (u,) in database.fetch(f"SELECT u FROM {found.name}")]
    assert all(isinstance(u, int if found.user_type == "int64" else str) for u in users)
    return sorted(users)


IDS = ["007", " 8", 'a,"b"', "Zoë"]


def test_lines(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "roster.txt"
    path.write_text("\n".join(IDS), encoding="utf-8")
    assert people(database, path) == sorted(IDS)
    path.write_bytes("".join(f"{user}\r\n" for user in [*IDS, "007"]).encode("utf-8-sig"))
    assert people(database, str(path)) == sorted(IDS)


@pytest.mark.parametrize("names", [["who"], ["only"], ["x", "who"]])
def test_files_of_people(database: PrivateDatabase, tmp_path: Path, names: list[str]) -> None:
    table = pa.table({name: IDS if name in {"who", "only"} else ["?"] * 4 for name in names})
    pyarrow.parquet.write_table(table, tmp_path / "r.parquet")
    table.to_pandas().to_csv(tmp_path / "r.csv", index=False)
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, table.to_pylist())))
    for name in ("r.parquet", "r.csv", "r.jsonl"):
        assert people(database, tmp_path / name) == sorted(IDS)
    assert people(database, table) == people(database, table.to_pandas()) == sorted(IDS)


@pytest.mark.parametrize(
    "roster",
    [
        [3, 1, 1],
        (1, np.int32(3)),
        {3, 1},
        iter([1, 3]),
        range(1, 4, 2),
        np.array([3, 1], np.uint16),
        np.array([3, 1], object),
        pd.Series([3, 1]),
        pl.Series([3, 1]),
        pa.array([3, 1]),
        pa.table({"who": [3, 1]}),
    ],
)
def test_integers_of_python(database: PrivateDatabase, roster: Any) -> None:
    assert people(database, roster) == [1, 3]


@pytest.mark.parametrize(
    "roster",
    [["b", "007"], np.array(["b", "007"]), np.array(["b", "007"], np.dtypes.StringDType()), pl.Series(["b", "007"])],
)
def test_text_of_python(database: PrivateDatabase, roster: Any) -> None:
    assert people(database, roster) == ["007", "b"]


def test_large_integers_are_text(database: PrivateDatabase) -> None:
    assert people(database, [2**64, 1]) == ["1", str(2**64)]
    assert people(database, np.array([2**63, 1], np.uint64)) == ["1", str(2**63)]


@pytest.mark.parametrize("suffix", [".txt.gz", ".txt.zst"])
def test_packed_lines_have_no_header(database: PrivateDatabase, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"r{suffix}"
    with pa.output_stream(path) as out:  # packed as its name says
        out.write(b"ada\nbob\n")
    assert people(database, path) == ["ada", "bob"]
    assert list(read_vocabulary(path)) == ["ada", "bob"]


def test_lines_in_several_files_are_refused(database: PrivateDatabase, tmp_path: Path) -> None:
    folder = tmp_path / "lists"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("ada\nbob\n")
    with pytest.raises(ParameterError, match=r"roster must be one \.txt file, got .*Join them"):
        people(database, folder)
    with pytest.raises(ParameterError, match=r"vocabulary must be one \.txt file"):
        read_vocabulary(folder)


def test_parts_of_a_column_are_the_table_itself() -> None:
    table = pd.DataFrame({"u": np.arange(10), "a": ["x"] * 10})
    for part in (table.u[1:], table.u[::-1], table.u.to_numpy()[2:5]):
        with pytest.raises(ParameterError, match="roster must be a public list, got the private table itself"):
            check_apart(table, part, "roster")
    matrix = pd.DataFrame(np.arange(20).reshape(10, 2), columns=["u", "other"])  # columns between each other in memory
    check_apart(matrix[["u"]], matrix["other"], "roster")
    with pytest.raises(ParameterError, match="the private table itself"):
        check_apart(matrix, matrix["u"][3:], "roster")


@pytest.mark.parametrize(
    ("roster", "error", "message"),
    [
        ([], ParameterError, "at least one person"),
        (pa.array([], pa.int64()), ParameterError, "at least one person"),
        ([1, None], DataError, "some are missing"),
        (["SECRET", ""], DataError, "some are missing"),
        (["SECRET", None], DataError, "some are missing"),
        ([1, "SECRET"], ParameterError, "all integers or all text"),
        ([True], ParameterError, "all integers or all text"),
        ([0.5], ParameterError, "all integers or all text"),
        ([np.timedelta64(1, "s")], ParameterError, "all integers or all text"),
        (5, ParameterError, "roster must be a path, a list, a column or a table, got int"),
        (pa.array([0.5]), ParameterError, "user must be a column of integers or text"),
        (pa.table({"a": [1], "b": [2]}), ParameterError, r"one column, or one named 'who'\. The table has: a, b\."),
        ("missing.txt", ParameterError, "roster must be an existing file, got missing.txt"),
        ("missing.csv", ParameterError, "existing file"),
    ],
)
def test_rosters_that_cannot_be(database: PrivateDatabase, roster: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        people(database, roster)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [("SECRET\n\nx\n", "some are missing"), ("", "at least one person"), (b"SECRET\xff\n", "UTF-8")],
)
def test_lines_that_cannot_be(database: PrivateDatabase, tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "r.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises((DataError, ParameterError), match=message) as caught:
        people(database, path)
    assert "SECRET" not in str(caught.value)


def test_cells_of_json_that_name_nobody(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"who": 1}\n{"who": [2]}\n')
    with pytest.raises(DataError, match="some ids are neither"):
        people(database, path)


NAMES = ["tea", "coffee, black", "Zoë", "7"]


def test_files_of_attributes(tmp_path: Path) -> None:
    expected = Vocabulary.listed(NAMES)
    table = pa.table({"n": range(4), "what": NAMES})
    pyarrow.parquet.write_table(table, tmp_path / "v.parquet", row_group_size=1)
    table.to_pandas().to_csv(tmp_path / "v.csv", index=False)
    table.to_pandas().to_csv(tmp_path / "wide.csv", index=False, sep=";", encoding="utf-16")
    (tmp_path / "v.csv.gz").write_bytes(gzip.compress((tmp_path / "v.csv").read_bytes()))
    (tmp_path / "v.jsonl").write_text("\n\n".join(json.dumps(row) for row in table.to_pylist()))
    (tmp_path / "v.txt").write_bytes("\r\n".join(NAMES).encode("utf-8-sig"))
    (tmp_path / "w.txt").write_text("\n".join([*NAMES, ""]), encoding="utf-8")
    for path in tmp_path.iterdir():
        assert read_vocabulary(path, attribute_column="what") == expected, path.name
    assert read_vocabulary(str(tmp_path / "w.txt")) == expected


@pytest.mark.parametrize(
    "vocabulary",
    [
        Vocabulary.listed(NAMES),
        NAMES,
        iter(NAMES),
        np.array(NAMES),
        pd.Series(NAMES),
        pl.Series(NAMES),
        pa.array(NAMES),
        pa.array(NAMES).dictionary_encode(),
        pa.table({"only": NAMES}),
        pa.table({"only": NAMES}).to_reader(),
        pd.DataFrame({"n": range(4), "what": NAMES}),
        pl.LazyFrame({"what": NAMES}),
    ],
)
def test_attributes_of_python(vocabulary: Any) -> None:
    assert read_vocabulary(vocabulary, attribute_column="what") == Vocabulary.listed(NAMES)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times(unit: Any) -> None:
    ticks = [0, 1, -1, 1_500_000_000]
    times = [attribute_text(np.datetime64(tick, unit)) for tick in ticks]
    assert list(read_vocabulary(pa.array(ticks, pa.timestamp(unit)))) == times
    zoned = read_vocabulary(pa.array(ticks, pa.timestamp(unit, "Asia/Tokyo")))
    assert list(zoned) == [f"{time}+00:00" for time in times]


def test_integers_and_dates() -> None:
    assert list(read_vocabulary(pa.array([3, 1], pa.uint64()))) == ["3", "1"]
    assert list(read_vocabulary(pa.array([0], pa.date32()))) == ["1970-01-01"]
    assert list(read_vocabulary(pa.array([True, False]))) == ["true", "false"]


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (["a", "a"], "got 'a' twice"),
        ([], "at least one attribute"),
        ({"a", "b"}, "fixed order, got set"),
        (5, "got int"),
        ([0.5], "Engines print floats differently"),
        (pa.array([0.5]), "Engines print floats differently"),
        (pa.array(["a", None]), "got NoneType"),
        (pa.array([1, None], pa.timestamp("s")), "missing"),
        (
            pa.table({"a": [1], "b": [2]}),
            r"vocabulary must have one column, or one named 'what'\. The table has: a, b\.",
        ),
        (pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "A"]), "upper and lower case"),
    ],
)
def test_vocabularies_that_cannot_be(vocabulary: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        read_vocabulary(vocabulary, attribute_column="what")


def test_a_list_of_two_columns_where_none_is_named() -> None:
    with pytest.raises(ParameterError, match=r"vocabulary must have one column\. The table has: a, b\."):
        read_vocabulary(pa.table({"a": [1], "b": [2]}))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", b"a\n\nb\n", "an attribute in each line"),
        ("v.txt", b"a\xff\n", "text in UTF-8"),
        ("v.csv", b'what\na\n""\n', "an attribute in each line"),
        ("v.csv", b'what\n""\n', "at least one attribute, but it is empty"),
        ("v.txt", b"", "at least one attribute, but it is empty"),
        ("v.csv", b"n,what\n1\n", "as many fields in each line"),
        ("v.csv", b'n,what\n1,"a\n', "as many fields in each line|names its columns"),
        ("v.jsonl", b'{"what": "a"}\n[1]\n', "one JSON object per line"),
        ("v.jsonl", b"{", "one JSON object per line"),
        ("v.jsonl", b'{"what": "a"}\n{}\n', "got NoneType"),
        ("v.parquet", b"PAR1", "readable Parquet file"),
        ("v.xlsx", b"", "must end in"),
    ],
)
def test_files_that_hold_no_vocabulary(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises((DataError, ParameterError), match=message):
        read_vocabulary(path, attribute_column="what")


def test_databases_hold_no_vocabulary(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "v.sqlite")) as connection:
        connection.execute("CREATE TABLE t (what TEXT)")
    (tmp_path / "a.csv").write_text("what\nx\n")
    (tmp_path / "b.csv").write_text("what\ny\n")
    for source in (tmp_path / "v.sqlite", str(tmp_path / "*.csv")):
        with pytest.raises(ParameterError, match="vocabulary must be one text, CSV, Parquet or JSON lines file"):
            read_vocabulary(source)


@pytest.mark.parametrize("ids", [["a", "\ud800"], np.array(["\ud800"])])
def test_a_roster_that_is_not_unicode(database: PrivateDatabase, ids: object) -> None:
    with pytest.raises(DataError, match="roster must hold text that encodes to UTF-8") as caught:
        read_roster(database, ids, user_column="who")
    assert caught.value.__context__ is None


def written(folder: Path) -> Path:
    """Return a private table on disk."""
    path = folder / "visits.parquet"
    pyarrow.parquet.write_table(pa.table({"person": ["ada", "bob"], "page": ["tea", "jam"]}), path)
    return path


ITSELF = "must be a public list, got the private table itself"


@pytest.mark.parametrize("way", ["path", "relative", "symlink", "hard link", "folder", "pattern"])
@pytest.mark.parametrize("role", ["roster", "vocabulary"])
def test_a_public_list_is_not_the_private_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, role: str
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    source = written(tmp_path / "data")
    other = tmp_path / "people.parquet"
    if way == "symlink":
        other.symlink_to(source)
    elif way == "hard link":
        other.hardlink_to(source)
    ways: dict[str, Any] = {"path": source, "relative": "data/../data/visits.parquet", "folder": source.parent}
    given = ways.get(way, other) if way != "pattern" else f"{source.parent}/*.parquet"
    options: dict[str, Any] = {"user": "person", "attribute": "page", role: given, "out": tmp_path / "release"}
    plan = Plan.of("counting+laplace", Budget(1.0), k=8)
    for table in (source, source.parent, [source]):
        with pytest.raises(ParameterError, match=f"{role} {ITSELF}"):
            dimly.publish(table, plan, **options)
    assert not (tmp_path / "release").exists()


def test_a_table_in_memory_is_not_its_own_roster_and_a_copy_is_not_recognized(tmp_path: Path) -> None:
    table = pa.table({"person": ["ada", "bob"], "page": ["tea", "jam"]})
    plan = Plan.of("counting+laplace", Budget(1.0), k=8)
    with pytest.raises(ParameterError, match=f"roster {ITSELF}"):
        dimly.publish(table, plan, user="person", attribute="page", roster=table)
    source, copy = written(tmp_path), tmp_path / "people.parquet"
    with pytest.raises(ParameterError, match=f"roster {ITSELF}"):
        dimly.publish(pyarrow.dataset.dataset(source), plan, user="person", attribute="page", roster=source)
    copy.write_bytes(source.read_bytes())
    assert len(dimly.publish(source, plan, user="person", attribute="page", roster=copy)) == 2


@pytest.mark.parametrize("suffix", ["duckdb", "sqlite"])
def test_a_database_is_not_its_own_roster(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"visits.{suffix}"
    connect = duckdb.connect if suffix == "duckdb" else sqlite3.connect
    with closing(connect(path)) as database:
        database.execute("CREATE TABLE visits (person TEXT, page TEXT)")
        database.execute("INSERT INTO visits VALUES ('ada', 'tea'), ('bob', 'jam')")
        database.commit()
    link = tmp_path / f"people.{suffix}"
    link.symlink_to(path)
    plan = Plan.of("counting+laplace", Budget(1.0), k=8)
    both: tuple[dict[str, Any], ...] = ({"table": "visits"}, {"query": "SELECT * FROM visits"})
    for chosen in both:
        with pytest.raises(ParameterError, match=f"roster {ITSELF}"):
            dimly.publish(path, plan, user="person", attribute="page", roster=link, **chosen)


FRAME = pd.DataFrame({"who": [3, 1, 2], "name": ["ann", "bob", "cem"], "what": ["tea", "tea", "jam"]})


@pytest.mark.parametrize(
    ("source", "roster"),
    [
        (FRAME, FRAME["who"]),
        (FRAME, FRAME["name"]),
        (FRAME, FRAME["who"].to_numpy()),
        (FRAME, FRAME["who"].array),
        (FRAME, FRAME["name"].array),
        (FRAME.astype(object), None),
        (pa.table({"who": [1, 2]}), None),
        (pl.DataFrame({"who": [1, 2]}), None),
        (pl.DataFrame({"who": ["a", "b"]}), None),
        (pl.DataFrame({"who": ["a", "b" * 99]}), None),
        (pl.DataFrame({"who": ["a", "b"]}).cast(pl.Categorical), None),
    ],
    ids=[
        "integers",
        "text",
        "array",
        "integers of pandas",
        "text of pandas",
        "objects",
        "Arrow",
        "polars",
        "polars text",
        "polars views",
        "categories",
    ],
)
def test_a_column_of_the_table_is_no_public_list(source: Any, roster: Any) -> None:
    given = source["who"] if roster is None else roster
    for role in ("roster", "vocabulary"):
        with pytest.raises(ParameterError, match=f"{role} must be a public list, got the private table itself"):
            check_apart(source, given, role)
    copied = given.to_pylist() if isinstance(given, pa.ChunkedArray) else list(given)
    # Of equal content: a table may hold the whole roster.
    for other in (copied, pa.array(copied), pd.Series(copied), pl.Series(copied)):
        check_apart(source, other, "roster")


def test_tables_of_polars_that_share_columns() -> None:
    public = pl.DataFrame({"who": ["a" * 20, "b" * 20, "c" * 20], "town": ["x", "y", "z"]})
    visits = pl.DataFrame({"who": ["a" * 20, "a" * 20, "c" * 20], "page": ["p", "q", "p"]})
    joined = visits.join(public, on="who")
    check_apart(joined, public, "roster")
    check_apart(joined, public["who"], "roster")
    for given in (joined.select("who"), joined["who"].head(2), joined.clone()):
        with pytest.raises(ParameterError, match="got the private table itself"):
            check_apart(joined, given, "roster")


@pytest.mark.parametrize("name", ["list.txt", "list.csv", "list.jsonl"])
def test_lists_of_absurd_sizes_are_not_read(database: PrivateDatabase, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("page\n", encoding="utf-8")
    os.truncate(path, 1 << 39)  # which takes no room on the disk
    with pytest.raises(ParameterError, match="vocabulary must take at most 4 GiB, got more"):
        read_vocabulary(path)
    with pytest.raises(ParameterError, match="roster must take at most 256 GiB, got more"):
        read_roster(database, path, user_column="who")


def test_a_packed_list_without_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(public_lists._MOST_BYTES, "vocabulary", 1 << 20)
    (tmp_path / "list.csv.gz").write_bytes(gzip.compress(b"page\n" + b"tea\n" * (1 << 20)))
    pyarrow.parquet.write_table(
        pa.table({"page": ["tea"] * (1 << 20)}), tmp_path / "list.parquet", use_dictionary=False
    )
    for name in ("list.csv.gz", "list.parquet"):
        with pytest.raises(ParameterError, match="vocabulary must take at most"):
            read_vocabulary(tmp_path / name)


def test_a_run_goes_by_what_its_plan_says_now() -> None:
    """Python has ways around a frozen plan, and what was found of it before must not be what is charged."""
    plan, other = (Plan.of("counting+laplace", Budget(epsilon), k=8, seed=bytes(32)) for epsilon in (0.5, 2.0))
    plan.__dict__["budget"] = other.budget
    assert plan.cost.epsilon == 0.5  # what was found when it was made
    assert plan_along(plan, Options()).cost == other.cost
    assert plan.digest == other.digest
    plan.__dict__["noise"] = plan.noise.model_copy(update={"l1_sensitivity": 0})
    with pytest.raises(ParameterError, match=r"noise.l1_sensitivity must be at least 1"):
        plan_along(plan, Options())


def test_a_vocabulary_that_cannot_be_read_is_refused_quietly(tmp_path: Path) -> None:
    """Arrow reads a dataset only now, and quotes what it cannot read."""
    (tmp_path / "list.csv").write_text("page\n1\nSECRET\n")
    schema = pa.schema([("page", pa.int64())])
    later = pyarrow.dataset.dataset(tmp_path / "list.csv", schema=schema, format="csv")

    def pieces() -> Any:
        yield pa.record_batch({"page": [1]})
        raise ValueError("SECRET")

    for listed in (later, pa.RecordBatchReader.from_batches(schema, pieces())):
        with pytest.raises(DataError, match="vocabulary must be a table that Arrow can read") as caught:
            read_vocabulary(listed)
        assert caught.value.__context__ is None


def test_a_vocabulary_of_bytes_that_are_no_text_is_refused() -> None:
    ends = pa.py_buffer(np.array([0, 3, 5], np.int32).tobytes())
    column = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"tea\xff\xfe")])
    with pytest.raises(DataError, match="vocabulary must hold text that encodes to UTF-8") as caught:
        read_vocabulary(pa.table({"page": column}))
    assert caught.value.__context__ is None
