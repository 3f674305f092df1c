"""Neighboring tables as files of every source and shape, and what may differ between what is published of them.

One person has one cell more, or another value in a cell, and the cell is as odd as a mutation can make it. Both tables
are published with the same injected noise: with a roster or without one, by a condition, pseudonyms, a list or
directions, or into a release that grows; or they are surveyed, by segments too, or directions are learned from them.
Then only that person's row may differ, and by no more than the plan says; file shapes, manifests and whatever is said
must be the same. A run may stop, but says nothing of the table, and leaves an older release as it was.
"""

import csv
import datetime as dt
import gzip
import io
import json
import os
import random
import re
import shutil
import sqlite3
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from decimal import Decimal
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.plans import SEED
from tests.privacy.moves import check, moved
from tests.privacy.shared_duckdb import one_duckdb
from tests.streams import Recorded

from dimly.curator.ledger.ledger import Ledger
from dimly.curator.options import Options
from dimly.curator.people import Pseudonyms
from dimly.curator.publication import PublishOutcome, publish_table
from dimly.curator.sampling import NoiseSampler
from dimly.curator.survey import private_directions
from dimly.curator.survey.private_directions import learn_from_table
from dimly.curator.survey.profiles import profile_table
from dimly.curator.survey.questions import survey_table
from dimly.errors import DimlyError
from dimly.mechanisms import Directions, Plan
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.privacy import Budget
from dimly.privacy.budget import Unit
from dimly.release.documents.segments_file import Labels

MARK: Final = "q7zxw"
PEOPLE: Final = ["ada", "bob", "cy", "dee", "eve"]
PERSON: Final = 1
# Other dialects would read them too, as something else.
USUAL: Final = ["tea", "C:\\x", "it's\\\\a; b|c\td", "Zoë \\\\n", "007"]

T = TypeVar("T")
Row = tuple[Any, Any]
Written = Callable[[list[Row], Path], tuple[Any, dict[str, Any]]]
"""Writes rows into a folder, and returns the source and the options that it needs."""


class LeakError(AssertionError):
    """Something differs that may not."""


# Cells.

ATOMS: Final = [
    '"', '""', "'", "\\", "\\\\", '\\"', "\\n", ",", ";", "\t", "|", ":", "=", "#", "\n", "\r\n", "\r", "\0", "\ufeff",
    "\u00a0", "\u2028", "\u200f", "é", "e\u0301", "ß", "İ", "😀", "\U0010ffff", " ", "  ", "Tea", "TEA", "tea", "NULL",
    "null", "NaN", "nan", "inf", "-0", "1e3", "0x1f", "007", "7", "7.0", "1_000", "true", "False", "2024-02-29",
    "2024-02-29T12:00:00", "2024-02-29T12:00:00+02:00", "12:00", "29.02.2024", "{}", "[1]", '{"a":1}', "%s", "$1", "--",
    "/*", "../", "SELECT", "x" * 3000, "",
]  # fmt: skip
TYPED: Final[list[Callable[[random.Random], Any]]] = [
    lambda r: r.choice([0, 1, -1, 7, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**70)]),
    lambda r: r.choice([0.5, 7.0, 1e300, float("nan"), float("inf"), -0.0]),
    lambda r: r.choice([True, False, None]),
    lambda r: dt.date(2024, 2, r.randint(1, 29)),
    lambda r: dt.datetime(2024, 2, 29, 12, tzinfo=r.choice([None, dt.UTC, dt.timezone(dt.timedelta(hours=2))])),
    lambda r: Decimal(r.choice(["7", "7.5", "1e20"])),
    lambda r: r.choice([b"tea", b"\xff\xfe", "\ud800", [1], {"a": 1}]),
]


def odd_text(chance: random.Random) -> str:
    """Return a text of odd pieces around a mark that must never be told."""
    pieces = [chance.choice(ATOMS) for _ in range(chance.randint(0, 4))]
    pieces.insert(chance.randint(0, len(pieces)), MARK)
    return "".join(pieces)


def odd_cell(chance: random.Random) -> Any:
    """Return a text, or something of another type."""
    return odd_text(chance) if chance.random() < 0.6 else chance.choice(TYPED)(chance)


def odd_bytes(chance: random.Random) -> bytes:
    """Return raw bytes that stand for one cell of a CSV file: no line ends in it, and no field."""
    text = odd_text(chance).encode()
    broken = bytes(chance.choices([0, 9, 34, 39, 92, 128, 195, 233, 254, 255, 65], k=chance.randint(0, 4)))
    return re.sub(rb'[,\t;|\r\n"]', b"", text) + broken.replace(b'"', b"").replace(b"\t", b"")


def quoted_bytes(chance: random.Random) -> bytes:
    """Return a cell in quotes as people write it by hand: quotes in it are doubled, escaped or alone, and may not end.

    Which of these dialects a file has is what a reader might guess from it.
    """
    pieces = [chance.choice(_IN_QUOTES) for _ in range(chance.randint(1, 5))]
    pieces.insert(chance.randint(0, len(pieces)), MARK)
    return b'"' + "".join(pieces).encode() + b'"'


_IN_QUOTES: Final = ['\\"', '\\"', '""', '"', "\\\\", "\\", "\\n", "5", " ", "pipe", ",", ";", "'", "é", "tea"]


# Sources.


def _write_csv(file: Any, rows: Iterable[tuple[Any, ...]], **form: Any) -> None:
    """Write rows; Python leaves a carriage return without quotes, which ends a line for others."""
    writer, quoting = (
        csv.writer(file, lineterminator="\n", **(form | more)) for more in ({}, {"quoting": csv.QUOTE_ALL})
    )
    for row in rows:
        (quoting if any("\r" in str(cell) for cell in row) else writer).writerow(row)


def _csv_file(
    *, suffix: str = "csv", packed: bool = False, options: dict[str, Any] | None = None, **form: Any
) -> Written:
    encoding = form.pop("encoding", "utf-8")

    def write(rows: list[Row], folder: Path) -> tuple[Any, dict[str, Any]]:
        path = folder / f"t.{suffix}"
        opened: Any = gzip.open if packed else open
        with opened(path, "wt", encoding=encoding, newline="", errors="surrogateescape") as file:
            _write_csv(file, [("person", "page"), *rows], **form)
        return path, options or {}

    return write


def _csv_files(rows: list[Row], folder: Path) -> tuple[Any, dict[str, Any]]:
    """Three files that a pattern names, one of them packed: each has a first line of its own."""
    for i, name in enumerate(("a.csv", "b.csv", "c.csv.zst")):
        text = io.StringIO()
        _write_csv(text, [("person", "page"), *rows[i::3]])
        compression = "zstd" if name.endswith(".zst") else None
        with pa.output_stream(folder / name, compression=compression) as file:
            file.write(text.getvalue().encode(errors="surrogateescape"))
    return str(folder / "*.csv*"), {}


def _raw_csv(rows: list[Row], folder: Path) -> tuple[Any, dict[str, Any]]:
    """Cells that are bytes already stand as they are."""
    lines = [b"person,page"]
    for who, cell in rows:
        quoted = cell if isinstance(cell, bytes) else b'"' + str(cell).replace('"', '""').encode() + b'"'
        lines.append(who.encode() + b"," + quoted)
    (folder / "raw.csv").write_bytes(b"\n".join(lines) + b"\n")
    return folder / "raw.csv", {}


def _json_rows(rows: list[Row]) -> list[str]:
    return [json.dumps({"person": who, "page": cell}) for who, cell in rows]


def _json_lines(rows: list[Row], folder: Path) -> tuple[Any, dict[str, Any]]:
    (folder / "t.jsonl").write_text("\n".join(_json_rows(rows)))
    return folder / "t.jsonl", {}


def _json_list(rows: list[Row], folder: Path) -> tuple[Any, dict[str, Any]]:
    (folder / "t.json").write_text("[" + ",\n".join(_json_rows(rows)) + "]")
    return folder / "t.json", {}


def _arrow(rows: list[Row]) -> pa.Table:
    return pa.table({"person": [who for who, _ in rows], "page": pa.array([cell for _, cell in rows], pa.string())})


def _parquet(rows: list[Row], folder: Path) -> tuple[Any, dict[str, Any]]:
    pq.write_table(_arrow(rows), folder / "t.parquet", row_group_size=2)
    return folder / "t.parquet", {}


def _parquet_folder(rows: list[Row], folder: Path) -> tuple[Any, dict[str, Any]]:
    (folder / "data").mkdir()
    for i, piece in enumerate((rows[:3], rows[3:])):
        pq.write_table(_arrow(piece), folder / "data" / f"{i}.parquet")
    return folder / "data", {}


def _sqlite(declared: str) -> Written:
    def write(rows: list[Row], folder: Path) -> tuple[Any, dict[str, Any]]:
        with closing(sqlite3.connect(folder / "t.sqlite")) as connection, connection:
            connection.execute(f"CREATE TABLE t (person TEXT, page {declared})")
            connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        return folder / "t.sqlite", {}

    return write


def _duckdb(kind: str) -> Written:
    def write(rows: list[Row], folder: Path) -> tuple[Any, dict[str, Any]]:
        with duckdb.connect(folder / "t.duckdb") as connection:
            connection.register("rows", _arrow(rows))
            if kind == "table":
                connection.execute("CREATE TABLE t AS SELECT * FROM rows")
            else:
                pq.write_table(_arrow(rows), folder / "inner.parquet")
                connection.read_parquet(str(folder / "inner.parquet")).create_view("t")
        return folder / "t.duckdb", {}

    return write


def _pandas(rows: list[Row], _: Path) -> tuple[Any, dict[str, Any]]:
    cells = pd.Series([cell for _, cell in rows], dtype=object)
    return pd.DataFrame({"person": [who for who, _ in rows], "page": cells}), {}


def _polars(rows: list[Row], _: Path) -> tuple[Any, dict[str, Any]]:
    return pl.from_arrow(_arrow(rows)), {}


def _in_memory(rows: list[Row], _: Path) -> tuple[Any, dict[str, Any]]:
    return _arrow(rows), {}


def _held(rows: list[Row]) -> dict[Any, list[Any]]:
    return {who: [cell for owner, cell in rows if owner == who] for who in dict.fromkeys(who for who, _ in rows)}


_OF_LISTS: Final = {"attribute": None, "attributes": "pages"}


def _json_lists(rows: list[Row], folder: Path) -> tuple[Any, dict[str, Any]]:
    """Objects with a list, and with one that nobody reads, in which other things are nested."""
    lines = [json.dumps({"person": who, "pages": cells, "more": {"a": cells}}) for who, cells in _held(rows).items()]
    (folder / "t.jsonl").write_text("\n".join(lines))
    return folder / "t.jsonl", _OF_LISTS


def _pandas_lists(rows: list[Row], _: Path) -> tuple[Any, dict[str, Any]]:
    held = _held(rows)
    return pd.DataFrame({"person": list(held), "pages": pd.Series(list(held.values()), dtype=object)}), _OF_LISTS


def _lists(rows: list[Row], folder: Path) -> tuple[Any, dict[str, Any]]:
    held = _held(rows)
    kind = pa.list_(pa.string())
    pq.write_table(pa.table({"person": list(held), "pages": pa.array(held.values(), kind)}), folder / "t.parquet")
    return folder / "t.parquet", _OF_LISTS


# Wide tables: a row a person, and a column an attribute or a category.

NUMBERS: Final = {"tea": [1, 0, 1, 0, 1], "milk": [0, 0, 1, 1, 0], "rye": [0, 1, 0, 1, 1]}
NAMES: Final = {"drink": USUAL, "blood": ["A", "0", "A", "AB", "B"], "smokes": ["1", "0", "0", "1", "0"]}
NUMBER_TEXTS: Final = [
    "1", "0", "1.0", "01", "+1", "-0", "1e0", "1E-3", "0x1", "true", "TRUE", "t", "yes", "", " 1", "1 ", "NULL", "nan",
    "inf", "-1", "2", "0.5", "0,5", "0.25", "1e999", "1_0", "١", "1\u00a0", MARK, f"0{MARK}", '"1"', "'1'",
]  # fmt: skip
NUMBER_CELLS: Final = [0, 1, 0.5, 0.0, -0.0, 1.0, 2.0, -1.0, float("nan"), float("inf"), 5e-324, None]
MIXED_CELLS: Final = [True, False, 1, 0, 0.5, "1", "0", MARK, None, float("nan"), Decimal(1), b"1", 2**70, np.int8(1)]

Wide = dict[str, list[Any]]


def _named(columns: Wide) -> list[str]:
    """Return whose rows these are: few people, or a crowd."""
    count = len(next(iter(columns.values())))
    return PEOPLE if count == len(PEOPLE) else [f"p{i:04}" for i in range(count)]


def _wide_csv(columns: Wide, folder: Path) -> Any:
    with (folder / "wide.csv").open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        _write_csv(file, [("person", *columns), *zip(_named(columns), *columns.values(), strict=True)])
    return folder / "wide.csv"


def _wide_arrow(columns: Wide) -> pa.Table:
    kind = pa.string() if isinstance(next(iter(columns.values()))[0], str) else pa.float64()
    return pa.table({"person": _named(columns)} | {name: pa.array(cells, kind) for name, cells in columns.items()})


def _wide_parquet(columns: Wide, folder: Path) -> Any:
    pq.write_table(_wide_arrow(columns), folder / "wide.parquet", row_group_size=2)
    return folder / "wide.parquet"


def _wide_pandas(columns: Wide, _: Path) -> Any:
    cells = {name: pd.Series(column, dtype=object) for name, column in columns.items()}
    return pd.DataFrame({"person": _named(columns)} | cells)


WIDE: Final[dict[str, tuple[Callable[[Wide, Path], Any], Wide, "Cell"]]] = {
    "wide CSV of numbers": (_wide_csv, NUMBERS, lambda r: r.choice(NUMBER_TEXTS)),
    "wide CSV of names": (_wide_csv, NAMES, odd_text),
    "wide Parquet of numbers": (_wide_parquet, NUMBERS, lambda r: r.choice(NUMBER_CELLS)),
    "wide Parquet of names": (_wide_parquet, NAMES, odd_text),
    "wide pandas of numbers": (_wide_pandas, NUMBERS, lambda r: r.choice(MIXED_CELLS)),
    "wide pandas of names": (_wide_pandas, NAMES, odd_cell),
}

Cell = Callable[[random.Random], Any]
SOURCES: Final[dict[str, tuple[Written, Cell]]] = {
    "CSV": (_csv_file(), odd_text),
    "CSV, semicolons": (_csv_file(delimiter=";", quoting=csv.QUOTE_ALL), odd_text),
    "CSV, tabs": (_csv_file(suffix="tsv", delimiter="\t"), odd_text),
    "CSV, latin-1": (_csv_file(encoding="latin-1", options={"encoding": "latin-1"}), lambda r: _latin(odd_text(r))),
    "CSV, backslashes": (
        _csv_file(escapechar="\\", doublequote=False, quoting=csv.QUOTE_ALL, options={"escape": "\\"}),
        odd_text,
    ),
    "CSV, packed": (_csv_file(suffix="csv.gz", packed=True), odd_text),
    "CSV, raw": (_raw_csv, odd_bytes),
    "CSV, quoted by hand": (_raw_csv, quoted_bytes),
    "JSON lines": (_json_lines, lambda r: _jsonable(odd_cell(r))),
    "JSON list": (_json_list, lambda r: _jsonable(odd_cell(r))),
    "Parquet": (_parquet, odd_text),
    "Parquet folder": (_parquet_folder, odd_text),
    "SQLite, text": (_sqlite("TEXT"), lambda r: _storable(odd_cell(r))),
    "SQLite, numeric": (_sqlite("NUMERIC"), lambda r: _storable(odd_cell(r))),
    "SQLite, none": (_sqlite(""), lambda r: _storable(odd_cell(r))),
    "DuckDB table": (_duckdb("table"), odd_text),
    "DuckDB view": (_duckdb("view"), odd_text),
    "pandas": (_pandas, odd_cell),
    "polars": (_polars, odd_text),
    "Arrow": (_in_memory, odd_text),
    "lists": (_lists, odd_text),
    "CSV files": (_csv_files, odd_text),
    "JSON lists": (_json_lists, lambda r: _jsonable(odd_cell(r))),
    "pandas lists": (_pandas_lists, odd_cell),
}


def _latin(text: str) -> str:
    return text.encode("latin-1", errors="ignore").decode("latin-1")


def _jsonable(cell: Any) -> Any:
    return cell if isinstance(cell, str | bool | int | list | dict | None) else str(cell)


def _storable(cell: Any) -> Any:
    if isinstance(cell, int) and abs(cell) >= 2**63:
        return str(cell)
    if isinstance(cell, str):
        return cell.encode(errors="replace").decode()
    return cell if isinstance(cell, float | bytes | int | None) else str(cell)


# What is published, and what may differ.


class Outcome(NamedTuple):
    """What a publication left behind: numbers, and everything else that anybody may see. Or why it stopped."""

    sketches: Any
    seen: Any
    stopped: str | None


@cache
def plan_at(*, resolution: int = 1, unit: Unit = "attribute") -> Plan:
    """Return a small plan whose every attribute has one place and a sign."""
    return Plan.of("hashing+laplace", Budget(1.0), k=24, seed=SEED, resolution=resolution, unit=unit)


LISTED: Final = [*USUAL, MARK, "7", "true", "2024-02-29", f"{MARK}7", f"7{MARK}", f"{MARK}tea"]
"""A public list of attributes: what everybody has, and some of what an odd cell may be."""
KEY: Final = bytes(range(32))


class Way(NamedTuple):
    """What a curator says beside the source: a plan, further options, and whether an earlier release grows by it."""

    plan: Callable[[], Plan]
    options: dict[str, Any]
    grows: Literal["append", "update"] | None = None

    def said(self, folder: Path) -> dict[str, Any]:
        """Return the options; what they name is written into the folder first."""
        said = dict(self.options)
        if "pseudonyms" in said:
            said["pseudonyms"] = write_key(folder)
        if self.grows is not None:
            for name, content in _earlier_release(self).items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
            place = folder / "release"
            if self.grows == "update":
                place = place.rename(folder / "earlier")
            else:
                said["out"] = None
            said |= {self.grows: place} | _charged(folder)
        return said

    @property
    def earlier(self) -> list[str]:
        """Who is in the earlier release: others alone where people are added; where they are replaced, some of them."""
        return [*EARLIER, *(PEOPLE[:2] if self.grows == "update" else [])] if self.grows else []

    @property
    def person(self) -> int:
        """Where the person is published whose cell is odd."""
        people = sorted({*PEOPLE, *self.earlier})
        named = pseudonyms_of(people) if "pseudonyms" in self.options else people
        return sorted(named).index(named[people.index(PEOPLE[PERSON])])


EARLIER: Final = ["abe", "bo", "zoe"]


def write_key(folder: Path) -> Path:
    """Write a key of pseudonyms."""
    key = folder / "key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    return key


def pseudonyms_of(people: Iterable[str]) -> list[str]:
    """Return what people are called by this key."""
    return Pseudonyms(KEY).of(people)


def _charged(folder: Path) -> dict[str, Any]:
    return {"ledger": folder / "ledger.db", "dataset": "visits"}


@cache
def _earlier_release_by(plan: Callable[[], Plan], people: tuple[str, ...]) -> dict[str, bytes]:
    """Return a release and its ledger as files, in which other noise was drawn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Ledger.create(folder / "ledger.db").add_dataset("visits", epsilon=100.0)
        table = pa.table({"person": people, "page": ["tea"] * len(people)})
        options = Options(
            user="person", attribute="page", roster=list(people), out=folder / "release", threads=1, **_charged(folder)
        )
        publish_table(table, plan(), options, words=lambda: Recorded(8))
        return contents_of(folder)


def _earlier_release(way: Way) -> dict[str, bytes]:
    return _earlier_release_by(way.plan, tuple(way.earlier))


def contents_of(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@cache
def _listed_plan() -> Plan:
    return Plan.of("ternary+laplace", Budget(1.0), k=8, seed=SEED, vocabulary=LISTED)


@cache
def _along() -> Directions:
    rows = np.random.default_rng(3).laplace(size=(len(LISTED), 4)) / 10
    return Directions.of_values(LISTED, rows, origin="made up")


@cache
def _directed_plan() -> Plan:
    return Plan.of("directions+laplace", Budget(1.0), directions=_along())


WAYS: Final[dict[str, Way]] = {
    "with a roster": Way(plan_at, {}),
    "without a roster": Way(plan_at, {"roster": None}),
    "where a cell is not one": Way(plan_at, {"where": "page <> 'tea'"}),
    "where a cell is a number": Way(plan_at, {"where": "CAST(page AS DOUBLE) >= 0"}),
    "where a person is not one": Way(plan_at, {"where": "person <> 'cy'", "roster": None}),
    "without missing cells": Way(plan_at, {"nulls": "drop"}),
    "by pseudonyms": Way(plan_at, {"pseudonyms": True}),
    "of a list": Way(_listed_plan, {"vocabulary": LISTED}),
    "along directions": Way(_directed_plan, {"directions": _along()}),
    "by a list, where a cell is not one": Way(_listed_plan, {"vocabulary": LISTED, "where": "page <> 'tea'"}),
    "added to a release": Way(plan_at, {}, "append"),
    "added to a release, where a cell is not one": Way(plan_at, {"where": "page <> 'tea'"}, "append"),
    "in the place of earlier ones": Way(plan_at, {}, "update"),
}


def ways_of(name: str) -> list[str]:
    """Return the ways in which a source can be published: a condition on a list of attributes is refused."""
    conditions = {name: way.options.get("where", "") for name, way in WAYS.items()}
    return [way for way, condition in conditions.items() if "lists" not in name or "page" not in condition]


def by_this_machine(source: Any, plan: Plan, options: Options) -> PublishOutcome:
    """Publish with recorded noise."""
    return publish_table(source, plan, options, words=lambda: Recorded(7))


class Engine(NamedTuple):
    """Where tables are published and surveyed."""

    name: str
    publish: Callable[[Any, Plan, Options], PublishOutcome]
    asked: Callable[[Any, Options], tuple[Any, Options]]
    """Returns what is to be surveyed, and the options that are left to say of it."""


HERE: Final = Engine("here", by_this_machine, lambda source, options: (source, options))


def published(source: Any, plan: Plan, folder: Path, *, engine: Engine = HERE, **options: Any) -> Outcome:
    """Publish with recorded noise, on one engine or another, and return everything that anybody may see."""
    named: dict[str, Any] = {"user": "person", "attribute": "page", "roster": PEOPLE, "out": folder / "release"}
    before = contents_of(folder / "release")
    try:
        done = engine.publish(source, plan, Options(**(named | options)))
    except DimlyError as error:
        if contents_of(folder / "release") != before:
            raise LeakError("a run that stopped left something") from None
        return Outcome(None, None, _told(error))
    manifest = json.loads((folder / "release" / "manifest.json").read_text())
    seen = (_without_digests(manifest), _shapes(folder / "release"), done.warnings, done.n_users, done.bytes)
    return Outcome(Held.of(folder / "release"), seen, None)


def _told(error: DimlyError) -> str:
    chain = [error, error.__cause__, error.__context__]
    return " ".join([*(str(one) for one in chain if one is not None), *getattr(error, "__notes__", [])])


class Held(NamedTuple):
    """Who is in a release, and the numbers of everybody."""

    values: Any
    users: list[Any]

    @classmethod
    def of(cls, release: Path) -> "Held":
        """Read the files themselves: Dimly's reader would take as long again as a tenth of a publication."""
        parts = [pq.ParquetFile(path).read() for path in sorted((release / "sketches").iterdir())]
        rows = pa.concat_tables(parts)
        numbers = rows["sketch"].combine_chunks().flatten().to_numpy()
        return cls(numbers.reshape(len(rows), -1), rows["user"].to_pylist())


def _without_digests(fields: Any) -> Any:
    """Digests and packed sizes follow the published numbers, which are compared themselves."""
    if isinstance(fields, dict):
        left_out = {"sha256", "release", "bytes"}
        return {name: _without_digests(value) for name, value in fields.items() if name not in left_out}
    return [_without_digests(one) for one in fields] if isinstance(fields, list) else fields


def _shapes(folder: Path) -> list[Any]:
    found = []
    for path in sorted(folder.rglob("*")):
        groups = ()
        if path.suffix == ".parquet":
            footer = pq.read_metadata(path)
            groups = tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups))
        found.append((path.relative_to(folder).as_posix(), groups))
    return found


def compare(plan: Plan, one: Outcome, other: Outcome, *, planted: Any, folder: Path, person: int = PERSON) -> bool:
    """Raise if more differs than one person's row by the plan's norm; return whether both went through."""
    for outcome in (one, other):
        if outcome.stopped is not None:
            check_quiet(outcome.stopped.replace(str(folder), ""), planted)
    if one.stopped is not None or other.stopped is not None:
        return False
    if one.seen != other.seen or one.sketches.users != other.sketches.users:
        raise LeakError("file shapes, the manifest or what is said differ")
    try:
        check(plan, moved(plan, one.sketches, other.sketches), person)
    except AssertionError:
        raise LeakError("others moved, or one person moved too far") from None
    return True


def check_quiet(said: str, planted: Any) -> None:
    """Raise if a text tells what was planted, or anything exact."""
    if MARK in said or "Traceback" in said or (isinstance(planted, str) and len(planted) > 6 and planted in said):
        raise LeakError("a private value was told")
    if re.search(r"\b(line|row|rows|byte|position|offset)\b \d", said, re.IGNORECASE):
        raise LeakError("something exact was told")


def chance_of(name: str, seed: int) -> random.Random:
    """Return the choices of one pair; the first is its cell."""
    return random.Random(f"{name} {seed}")  # noqa: S311 - the same in every run


def pair(name: str, seed: int, folder: Path, *, way: str = "with a roster", engine: Engine = HERE) -> bool:
    """Publish two neighboring tables of one source, and compare; return whether both went through."""
    chance, chosen = chance_of(name, seed), WAYS[way]
    cell = _cell(name, chance, listed=chosen.plan is not plan_at)
    rows, changed_rows = _neighbors(chance, cell)
    changed = _published_rows(name, changed_rows, folder, chosen, engine=engine)
    if changed is None:
        return False  # no such file can be
    key = name, way, engine.name
    if key not in _usual:
        usual = _published_rows(name, rows, folder, chosen, engine=engine)
        if usual is None or usual.stopped is not None:
            raise LeakError(f"the usual table was refused: {usual and usual.stopped}")
        _usual[key] = usual
    return compare(chosen.plan(), _usual[key], changed, planted=cell, folder=folder, person=chosen.person)


def _cell(name: str, chance: random.Random, *, listed: bool) -> Any:
    """Return an odd cell; where only attributes of a public list count, one of the list in half of the cases."""
    cell = SOURCES[name][1](chance)
    return chance.choice(LISTED) if listed and chance.random() < 0.5 else cell


def _neighbors(
    chance: random.Random, cell: Any, *, rows: list[Row] | None = None, person: str = PEOPLE[PERSON]
) -> tuple[list[Row], list[Row]]:
    """Return the usual rows, and those in which one person has a cell more, wherever it stands."""
    rows = list(zip(PEOPLE, USUAL, strict=True)) if rows is None else rows
    place = chance.randint(0, len(rows))
    odd = [(person, cell)] * chance.choice([1, 1, 2])  # the same twice is one attribute
    return rows, [*rows[:place], *odd, *rows[place:]]


_usual: dict[Any, Outcome] = {}
"""What is published of the table that everybody's neighbor has; a test that breaks something clears it."""


def forget() -> None:
    """Publish the usual tables anew, and forget which cells stop a run."""
    _usual.clear()
    _stops.clear()


_UNWRITTEN: Final = (UnicodeError, csv.Error, pa.ArrowException, OverflowError, sqlite3.Error)


def _published_rows(
    name: str, rows: list[Row], folder: Path, way: Way = WAYS["with a roster"], **more: Any
) -> Outcome | None:
    """Write rows as a source and publish them; None if they cannot be written."""

    def write(inner: Path) -> tuple[Any, dict[str, Any]]:
        source, options = SOURCES[name][0](rows, inner)
        return source, options | way.said(inner)

    return _written(write, way.plan(), folder, **more)


def _written(
    write: Callable[[Path], tuple[Any, dict[str, Any]]], plan: Plan, folder: Path, **more: Any
) -> Outcome | None:
    """Write a table into an empty folder, and publish it; None if no such table can be."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        source, options = write(folder)
    except _UNWRITTEN:
        return None
    return published(source, plan, folder, **({"threads": 1} | options | more))


def wide_pair(name: str, seed: int, folder: Path) -> bool:
    """As :func:`pair`, for one cell of a wide table: another number, or another name."""
    chance = chance_of(name, seed)
    write, usual, odd = WIDE[name]
    cell, column = odd(chance), chance.choice(list(usual))
    lenient = chance.random() < 0.5
    changed = {
        one: [cell if one == column and place == PERSON else held for place, held in enumerate(cells)]
        for one, cells in usual.items()
    }
    plan = plan_of_wide(usual)
    outcomes = []
    for key, columns in ((f"{name} {lenient}", usual), (None, changed)):
        if key in _usual:
            outcomes.append(_usual[key])
            continue
        outcome = _written(
            lambda inner, columns=columns: (write(columns, inner), wide_options(lenient=lenient)),  # type: ignore[misc]
            plan,
            folder,
        )
        if outcome is None:
            return False  # no such file can be
        if key is not None:
            if outcome.stopped is not None:
                raise LeakError(f"the usual table was refused: {outcome.stopped}")
            _usual[key] = outcome
        outcomes.append(outcome)
    return compare(plan, *outcomes, planted=cell, folder=folder)


def plan_of_wide(columns: Wide) -> Plan:
    """Return a plan for columns of numbers, or of names, which change two attributes at once."""
    named = isinstance(next(iter(columns.values()))[0], str)
    return plan_at(unit="column") if named else plan_at(resolution=4)


def wide_options(*, lenient: bool) -> dict[str, Any]:
    """Return how a wide table is read: what does not fit is refused, or left out and clamped."""
    named: dict[str, Any] = {"attribute": None, "columns": "all"}
    return named | ({"nulls": "drop", "values": "clamp"} if lenient else {})


# Crowds: many odd cells in one table, beside people whose rows may not move at all.

CROWD: Final = 1000
_WITNESSES: Final = 8
_TRIED_ALONE: Final = 4  # of the cells of a table that probably stop it

# In the others most cells stop a run, by quotes that do not end or by types that do not mix: pairs are as quick.
CROWDED: Final = [
    name
    for name in [*SOURCES, *WIDE]
    if name not in {"CSV, raw", "CSV, quoted by hand", "SQLite, numeric"} and "pandas" not in name
]
# Columns of ids that can hold integers: those of other sources are text, whatever stands there.
_TYPED_IDS: Final = ("Parquet", "Parquet folder", "DuckDB table", "DuckDB view", "polars", "Arrow", "lists")


class Crowd(NamedTuple):
    """Who is in a table of one source: ids of text or integers, given as a roster or found, strict or lenient."""

    source: str
    integers: bool
    listed: bool
    lenient: bool

    @classmethod
    def of(cls, source: str, seed: int) -> "Crowd":
        """Take all forms in turn."""
        lenient = seed // 4 % 2 == 0 and source in WIDE
        return cls(source, seed % 2 == 1 and source in _TYPED_IDS, seed // 2 % 2 == 0, lenient)

    @property
    def people(self) -> list[Any]:
        """Everybody; the last ones are witnesses, who have no odd cell. Integers are small, or of all sizes."""
        count = CROWD + _WITNESSES
        if self.integers:
            return [(-1) ** i * (i + 1) * 10 ** (i % 15 if self.listed else 0) for i in range(count)]
        return [f"p{i:04}" for i in range(count)]

    def published(self, cells: dict[Any, Any], chance: random.Random, folder: Path) -> Outcome | None:
        """Publish the table in which some have an odd cell; None if no such file can be."""
        options: dict[str, Any] = {"threads": 1, "roster": self.people if self.listed else None}
        if self.source in WIDE:
            write, usual, _ = WIDE[self.source]
            columns: Wide = {
                name: [
                    cells.get(who, held[i % len(held)]) if i % len(usual) == place else held[i % len(held)]
                    for i, who in enumerate(self.people)
                ]
                for place, (name, held) in enumerate(usual.items())
            }
            more = wide_options(lenient=self.lenient)
            return _written(lambda inner: (write(columns, inner), more), plan_of_wide(usual), folder, **options)
        rows: list[Row] = [(who, USUAL[i % len(USUAL)]) for i, who in enumerate(self.people)]
        rows += [(who, cell) for who, cell in cells.items() for _ in range(chance.choice([1, 1, 2]))]
        chance.shuffle(rows)
        return _published_rows(self.source, rows, folder, **options)

    @property
    def plan(self) -> Plan:
        """By which it is published."""
        return plan_of_wide(WIDE[self.source][1]) if self.source in WIDE else plan_at()


def kinds_of(cell: Any) -> set[str]:
    """Return what is odd about a cell, of which some stop a run wherever they stand."""
    if isinstance(cell, str):
        return {atom for atom in ATOMS if atom and atom in cell} or {cell}
    if isinstance(cell, bytes) and MARK.encode() in cell:
        return {f"byte {one}" for one in cell if one < 32 or one > 126}
    return {repr(cell)}


class Stops:
    """Which kinds of cells stop a run of one form of table, as far as was seen."""

    def __init__(self) -> None:
        self._stopping: set[str] = set()
        self._harmless: set[str] = set()

    def expected(self, cell: Any) -> bool:
        """Return whether a cell has what stopped a run before."""
        return bool(kinds_of(cell) & self._stopping)

    def learn(self, cells: Iterable[Any], *, stopped: bool) -> None:
        """Take note of cells that were published together, or of one that was not."""
        kinds = set().union(*(kinds_of(cell) for cell in cells))
        if stopped:
            self._stopping |= kinds - self._harmless
        else:
            self._harmless |= kinds
            self._stopping -= kinds


_stops: dict[tuple[str, bool], Stops] = {}


def crowd(name: str, seed: int, folder: Path) -> Counter[str]:
    """Publish one table in which 1,000 people have an odd cell each; return how many were compared, and how many stop.

    Nobody's row may move by more than their own cell allows, and those of witnesses not at all. This sees what pairs
    see, unless two cells cancel out, at a fraction of the time. Where it stops, both halves are tried, down to single
    cells; of other cells with the same oddity a few are tried alone, and the rest is left out.
    """
    chance, form = chance_of(f"crowd {name}", seed), Crowd.of(name, seed)
    odd = WIDE[name][2] if name in WIDE else SOURCES[name][1]
    cells = {who: odd(chance) for who in form.people[:CROWD]}
    if form not in _usual:
        usual = form.published({}, chance, folder)
        if usual is None or usual.stopped is not None:
            raise LeakError(f"the usual crowd was refused: {usual and usual.stopped}")
        _usual[form] = usual
    stops, found = _stops.setdefault((name, form.lenient), Stops()), Counter[str]()
    waiting = [list(cells)]
    while waiting:
        group = waiting.pop()
        if len(group) > 1:
            expected = [who for who in group if stops.expected(cells[who])]
            alone = expected[: max(0, _TRIED_ALONE - found["stopped"])]
            found["left out"] += len(expected) - len(alone)
            group = [who for who in group if who not in expected]
            waiting += [[who] for who in alone]
        if not group or _went_through(form, {who: cells[who] for who in group}, chance, folder):
            found["published"] += len(group)
        elif len(group) == 1:
            found["stopped"] += 1
        else:
            waiting += [group[: len(group) // 2], group[len(group) // 2 :]]
    return found


def _went_through(form: Crowd, cells: dict[Any, Any], chance: random.Random, folder: Path) -> bool:
    """Publish these odd cells together, and compare; return whether the run did not stop."""
    outcome = form.published(cells, chance, folder)
    stops = _stops[form.source, form.lenient]
    if outcome is None or outcome.stopped is not None:
        if outcome is not None and outcome.stopped is not None:
            for cell in cells.values():
                check_quiet(outcome.stopped.replace(str(folder), ""), cell)
        if len(cells) == 1:
            stops.learn(cells.values(), stopped=True)
        return False
    _compare_crowds(form.plan, _usual[form], outcome, cells)
    stops.learn(cells.values(), stopped=False)
    return True


def _compare_crowds(plan: Plan, one: Outcome, other: Outcome, cells: dict[str, Any]) -> None:
    if one.seen != other.seen or one.sketches.users != other.sketches.users:
        raise LeakError("file shapes, the manifest or what is said differ")
    difference = moved(plan, one.sketches, other.sketches)
    for place, who in enumerate(one.sketches.users):
        own = difference[place]
        if who not in cells:  # a witness, or somebody whose cell is tried elsewhere
            if own.any():
                raise LeakError("the row of somebody else moved")
        elif np.abs(own).sum() > plan.sensitivity.l1 or (own**2).sum() > plan.sensitivity.l2_squared:
            raise LeakError("one person moved too far")


# Surveys.

QUESTIONS: Final = ("counts", "weights", "distances")
_RELEASE: Final = "0" * 64
GROUPED: Final[list[Row]] = [
    *((f"{who} {number}", name) for number in range(5) for who in PEOPLE for name in LISTED[number % 2 * 5 :][:7])
]
"""People in two groups that differ, so that there are directions to learn. They have more than count of each."""


class Asked(NamedTuple):
    """What a survey asks, of which rows, and how it is answered: numbers that may move by one in all, and the rest."""

    rows: list[Row]
    person: str
    options: dict[str, Any]
    answer: Callable[[Any, Options], tuple[list[Any], Any]]


def _usual_rows() -> list[Row]:
    return list(zip(PEOPLE, USUAL, strict=True))


def _curves(source: Any, options: Options) -> tuple[list[Any], Any]:
    plan = SurveyPlan.of(Budget(30.0), QUESTIONS, seed=SEED)
    survey = survey_table(source, plan, options, words=lambda: Recorded(7)).survey
    assert survey is not None
    assert survey.counts is not None
    answers = [np.array([one.count for one in survey.counts.attributes])]
    answers += [np.array(curve.noisy) for curve in (survey.weights, survey.distances) if curve is not None]
    return answers, survey.model_dump(exclude={"id", *QUESTIONS})


def _profiles(segment: int, *, renamed: bool = False) -> Callable[[Any, Options], tuple[list[Any], Any]]:
    """Return what counts people by segments; −1: nobody knows that of the person whose cell is odd."""

    def answer(source: Any, options: Options) -> tuple[list[Any], Any]:
        segments = np.array([0, 1, 0, 1, -1])
        segments[PERSON] = segment
        labels = Labels(pa.array(pseudonyms_of(PEOPLE) if renamed else PEOPLE), segments, _RELEASE)
        plan = SurveyPlan.of(Budget(30.0), ["profiles"], seed=SEED, release=_RELEASE)
        found = profile_table(source, plan, options, labels=labels, words=lambda: Recorded(7)).survey
        assert found is not None
        # Of nobody's counts but those of the person's own segment, if they have one.
        own = found.counts[[segment] if segment >= 0 else []]
        others = np.delete(found.counts, segment, axis=0) if segment >= 0 else found.counts
        return [own], (others.tolist(), found.attributes, found.sizes.tolist(), found.spread, found.private)

    return answer


class Replay:
    """Draws noise for a first table, and gives the second one the same answers after a look at how far it would move.

    Later steps of a survey follow from the answers to earlier ones. With the same answers they must be the same.
    """

    def __init__(self, farthest: Callable[[int, Any], bool]) -> None:
        self._farthest = farthest
        self._answers: list[tuple[Any, Any]] = []
        self._step: int | None = None

    def again(self) -> None:
        """Begin with the second table."""
        self._step = 0

    def sampler(self, table: Any) -> "Replay._Sampler":
        """Take the place of a sampler."""
        return Replay._Sampler(self, NoiseSampler(table))

    def finished(self) -> bool:
        """Return whether the second table was asked as often as the first."""
        return self._step == len(self._answers)

    class _Sampler(NamedTuple):
        replay: "Replay"
        sound: NoiseSampler

        def add(self, exact: Any, words: Any, out: Any) -> None:
            replay = self.replay
            if replay._step is None:
                self.sound.add(exact, words, out)
                replay._answers.append((exact.copy(), out.copy()))
                return
            if replay._step >= len(replay._answers):
                raise LeakError("more is asked of the second table")
            before, answer = replay._answers[replay._step]
            if before.shape != exact.shape or not replay._farthest(replay._step, exact - before):
                raise LeakError("an answer moved too far")
            out[...] = answer
            replay._step += 1


MEMBERS: Final = 4


def _few_enough(step: int, difference: Any) -> bool:
    """Return whether one attribute of a person can move an answer so far, by what docs/survey.md proves."""
    largest, moved = int(np.abs(difference).max(initial=0)), int((difference**2).sum())
    if step == 0:
        return moved <= 1
    if difference.size == 1:  # an eigenvalue, rounded
        return bool(largest <= np.sqrt(2 * (MEMBERS - 1)) + 1)
    return largest <= 1 and moved <= 2 * (MEMBERS - 1)


_replays: dict[Any, Replay] = {}


def _learned(source: Any, options: Options) -> tuple[list[Any], Any]:
    """Learn directions, in buckets if there is no list. What is written may not differ at all."""
    buckets = 64 if options.vocabulary is None else None
    plan = SurveyPlan.of(Budget(50.0, 1e-6), ["directions"], seed=SEED, members=MEMBERS, buckets=buckets)
    replay = _replays.get(buckets)
    with pytest.MonkeyPatch.context() as patch:
        if replay is None:
            replay = _replays[buckets] = Replay(_few_enough)
        else:
            replay.again()
        patch.setattr(private_directions, "NoiseSampler", replay.sampler)
        found = learn_from_table(source, plan, options, words=lambda: Recorded(7)).survey
    assert found is not None
    return [], (found.content(), found.eigenvalues, found.noise)


_OF_LIST: Final[dict[str, Any]] = {"vocabulary": LISTED, "roster": PEOPLE}
_RENAMED: Final[dict[str, Any]] = {"vocabulary": LISTED, "pseudonyms": True}
_OF_GROUPS: Final[dict[str, Any]] = {"roster": sorted({who for who, _ in GROUPED})}
SURVEYS: Final[dict[str, Asked]] = {
    "survey": Asked(_usual_rows(), PEOPLE[PERSON], _OF_LIST, _curves),
    "survey where a cell is not one": Asked(
        _usual_rows(), PEOPLE[PERSON], _OF_LIST | {"where": "page <> 'tea'"}, _curves
    ),
    "profiles": Asked(_usual_rows(), PEOPLE[PERSON], {"vocabulary": LISTED}, _profiles(1)),
    "profiles by pseudonyms": Asked(_usual_rows(), PEOPLE[PERSON], _RENAMED, _profiles(0, renamed=True)),
    "profiles of others": Asked(_usual_rows(), PEOPLE[PERSON], _RENAMED, _profiles(-1, renamed=True)),
    "directions": Asked(GROUPED, GROUPED[0][0], _OF_GROUPS | {"vocabulary": LISTED}, _learned),
    "directions of buckets": Asked(GROUPED, GROUPED[0][0], _OF_GROUPS, _learned),
}


def surveyed_pair(name: str, seed: int, folder: Path, *, kind: str = "survey", engine: Engine = HERE) -> bool:
    """As :func:`pair`, for a survey: each of its answers may move by one count, and nothing else may differ."""
    chance = chance_of(f"{kind} of {name}", seed)
    cell = _cell(name, chance, listed=True)
    rows, changed_rows = _neighbors(chance, cell, rows=SURVEYS[kind].rows, person=SURVEYS[kind].person)
    key = f"{kind} of {name} {engine.name}"
    _replays.clear()
    if key not in _usual or "directions" in kind:  # whose answers are compared as they are given
        usual = _surveyed(name, rows, folder, kind, engine)
        if usual is None or usual.stopped is not None:
            raise LeakError(f"the usual table was refused: {usual and usual.stopped}")
        _usual[key] = usual
    one, changed = _usual[key], _surveyed(name, changed_rows, folder, kind, engine)
    if changed is None:
        return False  # no such file can be
    if changed.stopped is not None:
        check_quiet(changed.stopped.replace(str(folder), ""), cell)
        return False
    if one.seen != changed.seen or not all(replay.finished() for replay in _replays.values()):
        raise LeakError("what is said differs")
    if any(int(np.abs(a - b).sum()) > 1 for a, b in zip(one.sketches, changed.sketches, strict=True)):
        raise LeakError("an answer moved too far")
    return True


def _surveyed(name: str, rows: list[Row], folder: Path, kind: str, engine: Engine) -> Outcome | None:
    """Write rows as a source and survey them with recorded noise; None if they cannot be written."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        source, options = SOURCES[name][0](rows, folder)
    except _UNWRITTEN:
        return None
    named: dict[str, Any] = {"user": "person", "attribute": "page"} | SURVEYS[kind].options | options | {"threads": 1}
    if "pseudonyms" in named:
        named["pseudonyms"] = write_key(folder)
    try:
        answers, seen = SURVEYS[kind].answer(*engine.asked(source, Options(**named)))
    except DimlyError as error:
        return Outcome(None, None, _told(error))
    return Outcome(answers, (seen, [len(one) for one in answers]), None)


def surveys_of(name: str) -> list[str]:
    """Return the surveys that a source can be asked: a condition on a list of attributes is refused."""
    return [kind for kind, asked in SURVEYS.items() if "lists" not in name or "where" not in asked.options]


LATER: Final = [0.0, 1.0, -1998.0, 1998.0, float("nan"), float("inf")]


def late_value(seed: int) -> float:
    """Return the value that a cell of the second table gets after it was checked."""
    return chance_of("values", seed).choice(LATER)


def valued_pair(seed: int, folder: Path) -> bool:
    """As :func:`pair`, for a column of values, which change between the first and the last reading.

    In half of the pairs the second table says the same attribute of that person twice, of which the larger one counts.
    """
    chance = chance_of("values", seed)
    resolution = 4
    later = chance.choice(LATER)
    values = [chance.choice([0.0, 0.25, 1.0]) for _ in range(2)]
    again = [chance.choice([0.25, 1.0])] * chance.choice([0, 1])
    outcomes = []
    for i, value in enumerate(values):
        more = again if i else []
        much = np.array([1.0] * PERSON + [value] + [1.0] * (len(PEOPLE) - PERSON - 1) + more)
        people = PEOPLE + [PEOPLE[PERSON]] * len(more)
        frame = pa.table({"person": people, "page": ["tea"] * len(people), "much": pa.array(much)})
        inner = folder / str(i)
        shutil.rmtree(inner, ignore_errors=True)
        inner.mkdir(parents=True)
        watcher = Meddler(much, later if i else value)
        options: dict[str, Any] = {"value": "much", "progress": watcher, "threads": 1}
        outcomes.append(published(frame, plan_at(resolution=resolution), inner, **options))
    return compare(plan_at(resolution=resolution), *outcomes, planted=None, folder=folder)


NAN: Final = float("nan")
RATINGS: Final[list[float | None]] = [0.25, 0.75, 7.0, -1.0, 1e30, NAN, float("inf"), None]
BY_RATING: Final = ["rating > 0.5", "NOT (rating = 0.25)", "rating + 1 > 1.5 OR rating < 0", "abs(rating) <= 7"]


def rated_pair(seed: int, folder: Path) -> bool:
    """As :func:`pair`, for a condition on a column of numbers, of which one person's is another."""
    chance = chance_of("ratings", seed)
    others: list[float | None] = chance.choice([[NAN], [NAN, 0.75], RATINGS])
    ratings = [chance.choice(others) for _ in PEOPLE]
    kind = chance.choice([pa.float64(), pa.float32()])
    groups, where = chance.choice([1, 2, len(PEOPLE)]), chance.choice(BY_RATING)
    how = chance.choice(["of a file", "of a file", "in memory", "by a query"])
    outcomes = []
    for i in range(2):
        ratings[PERSON] = chance.choice(RATINGS)
        table = pa.table({"person": PEOPLE, "page": USUAL, "rating": pa.array(ratings, kind)})
        inner = folder / str(i)
        shutil.rmtree(inner, ignore_errors=True)
        inner.mkdir(parents=True)
        file, source = inner / "t.parquet", table
        said: dict[str, Any] = {"where": where}
        pq.write_table(table, file, row_group_size=groups)
        if how == "of a file":
            source = file
        elif how == "by a query":
            source, said = inner / "t.duckdb", {"query": f"SELECT * FROM read_parquet('{file}') WHERE {where}"}  # noqa: S608
            duckdb.connect(source).close()
        outcomes.append(published(source, plan_at(), inner, threads=1, **said))
    return compare(plan_at(), *outcomes, planted=None, folder=folder)


class Meddler:
    """Changes a value when the table has been checked, and before it is read again."""

    def __init__(self, values: Any, later: float) -> None:
        self._values = values
        self._later = later

    def phase(self, name: str) -> None:
        if name == "sorting":
            self._values[PERSON] = self._later

    def start(self, n_users: int) -> None: ...

    def advance(self, n_users: int) -> None: ...


def run(pairs: int, folder: Path, *, start: int = 0) -> Counter[str]:
    """Try so many pairs, of all sources in turn; return how many went through and how many stopped."""
    found: Counter[str] = Counter()
    folder.mkdir(parents=True, exist_ok=True)
    with one_duckdb(folder.parent), pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)  # no power fails here
        for name, seed, work in islice(attempts(start, folder), pairs):
            found["published" if _tried(name, seed, work) else "stopped"] += 1
    return found


def run_crowds(name: str, crowds: int, folder: Path) -> Counter[str]:
    """Try so many crowds of one source; return how many cells went through, stopped, or were left out."""
    found: Counter[str] = Counter()
    for seed in range(crowds):
        found += _tried(f"crowd of {name}", seed, lambda seed=seed: crowd(name, seed, folder))  # type: ignore[misc]
    return found


def _tried(name: str, seed: int, work: Callable[[], T]) -> T:
    try:
        return work()
    except LeakError as error:
        raise LeakError(f"{name}, seed {seed}: {error}") from None
    except Exception:  # noqa: BLE001 - whatever it is, it is a fault
        raise LeakError(f"{name}, seed {seed}: {traceback.format_exc()}") from None


def attempts(start: int, folder: Path) -> Iterator[tuple[str, int, Callable[[], bool]]]:
    """Yield pairs to try, for ever."""
    seed = start
    while True:
        for i, name in enumerate(SOURCES):
            ways = ways_of(name)
            way = ways[(seed + i) % len(ways)]
            yield f"{name} {way}", seed, partial(pair, name, seed, folder, way=way)
        for name in WIDE:
            yield name, seed, partial(wide_pair, name, seed, folder)
        name = list(SOURCES)[seed % len(SOURCES)]
        for kind in surveys_of(name):
            yield f"{kind} of {name}", seed, partial(surveyed_pair, name, seed, folder, kind=kind)
        yield "values", seed, partial(valued_pair, seed, folder)
        yield "ratings", seed, partial(rated_pair, seed, folder)
        seed += 1
