"""Calls of publish that must be refused: for the command line and for Python, which must refuse alike.

Private cells carry a mark, so that no text can quote one unnoticed.
"""

import gzip
import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from tests.engines.tables import plan_for

MARK: Final = "SECRET"
VALUE: Final = 0.3141592
MARKS: Final = (MARK, "3141592", "2718281", MARK.encode().hex())
ADA, BOB, TEA, JAM = f"{MARK} ada", f"{MARK} bob", f"{MARK} tea", f"{MARK} jam"
LONG: Final = {"user": "person", "attribute": "page"}
WITH_VALUE: Final = {**LONG, "value": "share"}
COLUMNS: Final = "The table has: person, page, share."

Options = dict[str, Any]
BITS = plan_for("hashing+laplace", listed=False)
VALUES = plan_for("hashing+laplace", values=True, listed=False)
CATEGORIES = plan_for("hashing+laplace", categories=True, listed=False)
CLOSED = plan_for("randomized-response")


class Case(NamedTuple):
    """A call that is refused.

    Attributes
    ----------
    make : callable
        Writes the files into a folder, and returns the source.
    options : dict
        Keywords of :func:`dimly.publish`; paths are relative to the folder.
    says : tuple of str
        What stands in the error.
    code : int
        2: a bad call. 1: a failed job.
    plan : Plan or str
        A str is the text of the plan's file.
    """

    make: Callable[[Path], Any]
    options: Mapping[str, Any]
    says: tuple[str, ...]
    code: int = 2
    plan: Any = BITS


def parquet(**columns: Any) -> Callable[[Path], Path]:
    """Return what writes columns over those of a good table of two people."""
    table = {"person": [ADA, BOB], "page": [TEA, JAM], "share": [1.0, 1.0]} | columns

    def make(folder: Path) -> Path:
        pq.write_table(pa.table(table), folder / "t.parquet")
        return folder / "t.parquet"

    return make


def written(name: str, content: str | bytes) -> Callable[[Path], Path]:
    """Return what writes a file."""

    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return folder / name

    return make


def spoiled(change: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    """Return what writes a Parquet file of many people, and spoils it."""

    def make(folder: Path) -> Path:
        path = folder / "t.parquet"
        people = [f"{MARK} {i}" for i in range(5000)]
        pq.write_table(
            pa.table({"person": people, "page": people[::-1], "share": [1.0] * 5000}), path, row_group_size=1000
        )
        path.write_bytes(change(path.read_bytes()))
        return path

    return make


def also(make: Callable[[Path], Any], name: str, content: str | bytes = b"") -> Callable[[Path], Any]:
    """Return what writes a second file, too."""

    def both(folder: Path) -> Any:
        written(name, content)(folder)
        return make(folder)

    return both


def _sqlite(folder: Path) -> Path:
    path = folder / "t.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE visits (person TEXT, page TEXT, share REAL)")
        connection.execute("CREATE TABLE other (person TEXT)")
        connection.execute("INSERT INTO visits VALUES (?, ?, 1.0)", (ADA, TEA))
        connection.execute("INSERT INTO visits VALUES (?, ?, ?)", (BOB, JAM, f"{MARK} text"))
    return path


def _edited(**changes: Any) -> str:
    fields = json.loads(BITS.to_json())
    return json.dumps(fields | changes)


def _folder(folder: Path) -> Path:
    (folder / "data").mkdir()
    return folder / "data"


def _mixed(folder: Path) -> Path:
    parquet()(_folder(folder))
    written("t.csv", "person,page\n")(folder / "data")
    return folder / "data"


def _open_key(folder: Path) -> Any:
    written("key", MARK * 9)(folder).chmod(0o644)  # whatever the mask would make of it
    return GOOD(folder)


def _short_key(folder: Path) -> Path:
    written("key", MARK)(folder).chmod(0o600)
    return GOOD(folder)


GOOD = parquet()
LINES = f"person,page,share\n{ADA},{TEA},1\n{BOB},{JAM},1\n"

CASES: Final[dict[str, Case]] = {
    # Columns and shapes
    "no such user": Case(GOOD, LONG | {"user": "who"}, ("user must be a column", "'who'", COLUMNS)),
    "no such attribute": Case(GOOD, LONG | {"attribute": "what"}, ("attribute must be", "'what'", COLUMNS)),
    "no such value": Case(GOOD, LONG | {"value": "how much"}, ("value must be", "'how much'", COLUMNS)),
    "no such list": Case(GOOD, {"user": "person", "attributes": "all"}, ("attributes must be", "'all'", COLUMNS)),
    "no such column": Case(GOOD, {"user": "person", "columns": ["share", "x"]}, ("columns must be", "'x'", COLUMNS)),
    "no such user in CSV": Case(written("t.csv", LINES), LONG | {"user": "who"}, ("'who'", COLUMNS)),
    "no such user in JSON": Case(
        written("t.jsonl", json.dumps({"person": ADA, "page": TEA})),
        LONG | {"user": "who"},
        ("user must be a column", "'who'", "names that its rows hold may be private"),
    ),
    "a name in JSON that somebody lacks": Case(
        written("t.jsonl", f'{{"person": "{ADA}", "{MARK}": 1}}\n{{"person": "{BOB}"}}\n'),
        {"user": "person", "columns": "all"},
        ("some values of a column are missing", "--nulls drop"),
        1,
    ),
    "a name in JSON with a value out of range": Case(
        written("t.jsonl", f'{{"person": "{ADA}", "{MARK}": 2.718281828}}\n'),
        {"user": "person", "columns": "all"},
        ("some values of a column are outside",),
        1,
    ),
    "a name in JSON with text": Case(
        written("t.jsonl", f'{{"person": "{ADA}", "{MARK}": [1]}}\n'),
        {"user": "person", "columns": "all"},
        ("some values of a column are not numbers",),
        1,
    ),
    "names in JSON that differ in case": Case(
        written("t.jsonl", f'{{"person": "{ADA}", "{MARK}": 1}}\n{{"person": "{ADA}", "{MARK.lower()}": 1}}\n'),
        LONG,
        ("differ in more than upper and lower case",),
        1,
    ),
    "no shape of JSON": Case(
        written("t.jsonl", f'{{"person": "{ADA}", "{MARK}": 1}}\n'), {"user": "person"}, ("must be given, got none",)
    ),
    "CSV without a header": Case(
        written("t.csv", f"{ADA},{TEA}\n{BOB},{JAM}\n"),
        LONG,
        (
            "user must be a column",
            "'person'",
            "first line of the file lacks some of the names given",
            "is not shown here",
        ),
    ),
    "CSV without a header and two cells alike": Case(
        written("t.csv", f"{ADA},{ADA}\n{BOB},{JAM}\n"), LONG, ("differ in more than", "two that do not")
    ),
    "CSV in another encoding than stated": Case(
        written("t.csv", f"person,page\n{ADA},{TEA}\n"),
        LONG | {"encoding": "cp037"},
        ("user must be a column", "first line of the file lacks some of the names given"),
    ),
    "users that are floats": Case(
        parquet(person=[VALUE, 2.0]), LONG, ("user must be a column of integers or text", "'person'", "DOUBLE", COLUMNS)
    ),
    "users that are truths": Case(parquet(person=[True, False]), LONG, ("user must be", "BOOLEAN", COLUMNS)),
    "users that are lists": Case(parquet(person=[[ADA], [BOB]]), LONG, ("user must be", "LIST", COLUMNS)),
    "float attributes": Case(
        parquet(page=[VALUE, 2.0]), LONG, ("attribute must be a column of text", "'page'", "DOUBLE", "floats", COLUMNS)
    ),
    "float attributes in a list": Case(
        parquet(page=[[VALUE], [2.0]]), {"user": "person", "attributes": "page"}, ("'page'", "DOUBLE", COLUMNS)
    ),
    "attributes that are bytes": Case(parquet(page=[TEA.encode(), b""]), LONG, ("'page'", "BLOB", COLUMNS)),
    "attributes that are lists": Case(parquet(page=[[TEA], [JAM]]), LONG, ("'page'", "LIST", COLUMNS)),
    "a list column that is none": Case(
        GOOD, {"user": "person", "attributes": "page"}, ("must be a column of lists", "'page'", "VARCHAR", COLUMNS)
    ),
    "values that are lists": Case(
        parquet(share=[[VALUE], [1.0]]), WITH_VALUE, ("value must be a column of numbers", "'share'", COLUMNS)
    ),
    "a wide column of lists": Case(
        parquet(page=[[TEA], [JAM]]), {"user": "person", "columns": "all"}, ("columns must be", "'page'", COLUMNS)
    ),
    "two shapes": Case(GOOD, LONG | {"columns": ["share"]}, ("must be given, got attribute and columns", COLUMNS)),
    "no shape": Case(GOOD, {"user": "person"}, ("must be given, got none", COLUMNS)),
    "value of a list": Case(
        parquet(page=[[TEA], [JAM]]),
        {"user": "person", "attributes": "page", "value": "share"},
        ("value must come with attribute",),
    ),
    "one column twice": Case(
        GOOD, LONG | {"attribute": "person"}, ("attribute must be a column of its own", "'person'")
    ),
    "text in a wide table": Case(
        GOOD, {"user": "person", "columns": "all"}, ("'page'", 'unit="column"', "doubles the sensitivity")
    ),
    "several rows with text": Case(
        parquet(person=[ADA, ADA]),
        {"user": "person", "columns": ["page"]},
        ("some people have several rows",),
        1,
        CATEGORIES,
    ),
    # Missing and impossible cells
    "null user": Case(parquet(person=[ADA, None]), LONG, ("some rows have no user", "--nulls drop"), 1),
    "empty user": Case(parquet(person=[ADA, ""]), LONG, ("some rows have no user",), 1),
    "null attribute": Case(parquet(page=[TEA, None]), LONG, ("some rows have no attribute", "--nulls drop"), 1),
    "null attribute in CSV": Case(
        written("t.csv", f"person,page\n{ADA},{TEA}\n{BOB},\n"), LONG, ("some rows have no attribute",), 1
    ),
    "null list": Case(
        parquet(page=[[TEA], None]), {"user": "person", "attributes": "page"}, ("some rows have no attribute",), 1
    ),
    "null in a list": Case(
        parquet(page=[[TEA], [JAM, None]]), {"user": "person", "attributes": "page"}, ("no attribute",), 1
    ),
    "null value": Case(parquet(share=[VALUE, None]), WITH_VALUE, ("'share'", "missing", "--nulls drop"), 1, VALUES),
    "null in a wide table": Case(
        parquet(share=[1.0, None]), {"user": "person", "columns": ["share"]}, ("'share'", "missing"), 1
    ),
    "NaN": Case(parquet(share=[VALUE, float("nan")]), WITH_VALUE, ("'share'", "missing"), 1, VALUES),
    "NaN in a wide table": Case(
        parquet(share=[VALUE, float("nan")]), {"user": "person", "columns": ["share"]}, ("'share'",), 1, VALUES
    ),
    "value above 1": Case(
        parquet(share=[1.0, 2.718281828]), WITH_VALUE, ("'share'", "outside [0, 1]", "--values clamp"), 1, VALUES
    ),
    "value below 0": Case(parquet(share=[1.0, -VALUE]), WITH_VALUE, ("'share'", "outside [0, 1]"), 1, VALUES),
    "infinite value": Case(parquet(share=[1.0, float("inf")]), WITH_VALUE, ("outside [0, 1]",), 1, VALUES),
    "value above 1 in CSV": Case(
        written("t.csv", f"person,page,share\n{ADA},{TEA},2.718281828\n"), WITH_VALUE, ("outside [0, 1]",), 1, VALUES
    ),
    "value that is no number": Case(
        written("t.csv", f"person,page,share\n{ADA},{TEA},{MARK}\n"), WITH_VALUE, ("'share'", "not numbers"), 1, VALUES
    ),
    "value that is no bit": Case(
        parquet(share=[1.0, VALUE]), WITH_VALUE, ("'share'", "neither 0 nor 1", "resolution"), 1
    ),
    "float attribute in JSON": Case(
        written("t.jsonl", json.dumps({"person": ADA, "page": 2.718281828})), LONG, ("some attributes are neither",), 1
    ),
    "nested user in JSON": Case(
        written("t.jsonl", json.dumps({"person": {MARK: ADA}, "page": TEA})), LONG, ("some users are neither",), 1
    ),
    "date of no year": Case(
        parquet(page=pa.array([-800_000, 1], pa.date32())), LONG, ("some attributes are neither",), 1
    ),
    # Nobody, and files that are broken
    "zero users": Case(
        parquet(person=pa.array([], pa.string()), page=pa.array([], pa.string()), share=pa.array([], pa.float64())),
        LONG,
        ("at least one person",),
        1,
    ),
    "zero users in CSV": Case(written("t.csv", "person,page\n"), LONG, ("at least one person",), 1),
    "empty CSV": Case(written("t.csv", ""), LONG, ("t.csv", "first line is empty"), 1),
    "empty JSON": Case(written("t.jsonl", ""), LONG, ("t.jsonl",), 1),
    "empty Parquet": Case(written("t.parquet", b""), LONG, ("t.parquet must be a readable Parquet file",), 1),
    "no Parquet": Case(written("t.parquet", LINES), LONG, ("t.parquet must be a readable Parquet file",), 1),
    "truncated Parquet": Case(
        spoiled(lambda content: content[: len(content) // 2]), LONG, ("t.parquet must be a readable Parquet",), 1
    ),
    "Parquet without its beginning": Case(
        spoiled(lambda content: content[len(content) // 2 :]), LONG, ("t.parquet must be a readable Parquet",), 1
    ),
    "Parquet with a hole": Case(
        spoiled(lambda content: content[:4000] + bytes(20000) + content[24000:]),
        LONG,
        ("t.parquet must be a readable Parquet",),
        1,
    ),
    "CSV with a short line": Case(written("t.csv", LINES + f"{MARK}\n"), LONG, ("t.csv must have as many fields",), 1),
    "CSV with a long line": Case(
        written("t.csv", LINES + f"{MARK},{MARK},1,{MARK}\n"), LONG, ("t.csv must have as many fields",), 1
    ),
    "CSV that gets ragged": Case(
        written("t.csv", LINES + f"{ADA},{TEA},1\n" * 30_000 + f"{MARK},{MARK}\n"),
        LONG,
        ("t.csv must have as many",),
        1,
    ),
    "CSV with a quote left open": Case(written("t.csv", LINES + f'{ADA},"{MARK},1\n'), LONG, ("t.csv",), 1),
    "CSV that is not UTF-8": Case(
        written("t.csv", LINES.encode() + f"{MARK} é,{TEA},1\n".encode("latin-1")),
        LONG,
        ("t.csv must be text in UTF-8", "--encoding"),
        1,
    ),
    "CSV that stops being UTF-8": Case(
        written("t.csv", LINES.encode() + f"{ADA},{TEA},1\n".encode() * 30_000 + f"{MARK}é,x,1\n".encode("latin-1")),
        LONG,
        ("t.csv must be text in UTF-8", "--encoding"),
        1,
    ),
    "packed CSV that breaks off": Case(
        written("t.csv.gz", gzip.compress((LINES + f"{ADA},{TEA},1\n" * 30_000).encode())[:-40]), LONG, ("t.csv.gz",), 1
    ),
    "packed CSV that is not": Case(written("t.csv.gz", LINES), LONG, ("t.csv.gz",), 1),
    "broken JSON": Case(
        written("t.jsonl", json.dumps({"person": ADA, "page": TEA}) + f'\n{{"person": "{MARK}'), LONG, ("t.jsonl",), 1
    ),
    "JSON that is no object": Case(
        written("t.jsonl", f'["{MARK}"]\n'), LONG, ("t.jsonl must hold one JSON object",), 1
    ),
    "no SQLite": Case(written("t.sqlite", LINES), LONG, ("t.sqlite must be a readable SQLite file",), 1),
    "no DuckDB": Case(written("t.duckdb", LINES), LONG, ("t.duckdb must be a readable DuckDB file",), 1),
    "SQLite with a cell of another type": Case(
        _sqlite, WITH_VALUE | {"table": "visits"}, ("column 'share' must hold",), 1
    ),
    "SQLite with several tables": Case(_sqlite, LONG, ("table must say which table", "other, visits")),
    "SQLite without such a table": Case(
        _sqlite, LONG | {"table": "people"}, ("table must be one of", "'people'", "other, visits")
    ),
    "SQLite query that is none": Case(_sqlite, LONG | {"query": "DROP TABLE visits"}, ("query must be one SELECT",)),
    "table of a file without tables": Case(GOOD, LONG | {"table": "visits"}, ("table must be left out",)),
    # Sources that are not there
    "no file": Case(lambda folder: folder / "none.parquet", LONG, ("DATA must be an existing file", "none.parquet")),
    "no match": Case(lambda folder: folder / "*.parquet", LONG, ("which matches none",)),
    "empty folder": Case(_folder, LONG, ("DATA must be a folder with files in it",)),
    "two formats": Case(_mixed, LONG, ("DATA must be files of one format",)),
    "unknown suffix": Case(written("t.xlsx", LINES), LONG, ("t.xlsx must end in", ".xlsx")),
    # Public lists and keys
    "no roster": Case(GOOD, LONG | {"roster": Path("none.txt")}, ("roster must be an existing file", "none.txt")),
    "empty roster": Case(also(GOOD, "roster.txt"), LONG | {"roster": Path("roster.txt")}, ("at least one person",)),
    "roster of several columns": Case(
        also(GOOD, "roster.csv", f"a,b\n{ADA},{BOB}\n"),
        LONG | {"roster": Path("roster.csv")},
        ("roster must have one column, or one named 'person'", "a, b"),
    ),
    "roster with a gap": Case(
        also(GOOD, "roster.csv", f"person,x\n{ADA},1\n,1\n"), LONG | {"roster": Path("roster.csv")}, ("roster must",), 1
    ),
    "no vocabulary": Case(
        GOOD, LONG | {"vocabulary": Path("none.txt")}, ("vocabulary must be an existing file",), 2, CLOSED
    ),
    "vocabulary not given": Case(GOOD, LONG, ("vocabulary must be given",), 2, CLOSED),
    "another vocabulary": Case(
        also(GOOD, "v.txt", f"{TEA}\n{JAM}\n"), LONG | {"vocabulary": Path("v.txt")}, ("digest differs",), 2, CLOSED
    ),
    "vocabulary with a repeat": Case(
        also(GOOD, "v.txt", "tea\ntea\n"), LONG | {"vocabulary": Path("v.txt")}, ("must differ", "'tea'"), 2, CLOSED
    ),
    "no key": Case(GOOD, LONG | {"pseudonyms": Path("none")}, ("pseudonyms must be a file",)),
    "open key": Case(_open_key, LONG | {"pseudonyms": Path("key")}, ("key must be closed to others",)),
    "short key": Case(_short_key, LONG | {"pseudonyms": Path("key")}, ("must be at least 32 random bytes",)),
    # Plans
    "plan of nonsense": Case(
        GOOD, LONG, ("plan field 'budget': epsilon",), 2, _edited(budget={"epsilon": -1, "delta": 0})
    ),
    "plan with less noise": Case(GOOD, LONG, ("plan field 'noise",), 2, _edited(noise={"law": "discrete-laplace"})),
    "plan with an unknown field": Case(GOOD, LONG, ("plan field 'extra'",), 2, _edited(extra=1)),
    "plan of another version": Case(GOOD, LONG, ("plan field 'format'",), 2, _edited(format=2)),
    "plan that is no JSON": Case(GOOD, LONG, ("plan",), 2, "{"),
    # Targets
    "target that exists": Case(also(GOOD, "out"), LONG, ("out",)),
    "target in a missing folder": Case(GOOD, LONG | {"out": Path("none/out")}, ("none",)),
    # Limits
    "no temp": Case(GOOD, LONG | {"temp": Path("none")}, ("temp must be a folder", "none")),
    "little memory": Case(GOOD, LONG | {"memory": 1 << 20}, ("memory must be at least",)),
    # Ledgers
    "no ledger": Case(GOOD, LONG | {"ledger": Path("none.db")}, ("none.db",)),
    "no such dataset": Case(GOOD, LONG | {"dataset": "taste"}, ("taste",)),
    "over budget": Case(
        GOOD, LONG | {"dataset": "small"}, ("dataset 'small' must stay within epsilon 0.5", "still fits"), 1
    ),
}
