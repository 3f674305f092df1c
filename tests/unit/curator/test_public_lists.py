# ruff: noqa: S608 - names that the database made itself
import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from dimly.curator.csv_dialect import CsvOptions
from dimly.curator.database import PrivateDatabase
from dimly.curator.public_lists import read_roster, read_vocabulary
from dimly.errors import DataError, ParameterError
from dimly.mechanisms.attributes import Vocabulary, attribute_text


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


def test_csv_options_of_a_roster(database: PrivateDatabase, tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("x^who\n1^p\n")
    assert people(database, path, csv=CsvOptions(delimiter="^")) == ["p"]


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
    table.to_pandas().to_csv(tmp_path / "latin.csv", index=False, sep=";", encoding="latin-1")
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


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", b"a\n\nb\n", "an attribute in each line"),
        ("v.txt", b"a\xff\n", "text in utf-8"),
        ("v.csv", b'what\n""\n', "an attribute in each line"),
        ("v.csv", b"n,what\n1\n", "as many fields in each line"),
        ("v.csv", b'n,what\n1,"a\n', "as many fields in each line|names its columns"),
        ("v.jsonl", b'{"what": "a"}\n[1]\n', "one JSON object a line"),
        ("v.jsonl", b"{", "one JSON object a line"),
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
