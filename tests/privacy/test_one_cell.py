"""One person's cell changes that person's row alone, whatever is in it and whatever the table is kept in.

How a table is read (delimiter, quote, escape, encoding, types, time zones) follows from its header, its types and the
call. A cell that does not fit stops the run, in words that say nothing of it; it never changes how others are read.
"""

import datetime as dt
import json
import re
import sqlite3
from collections import deque
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.tables import plan_for
from tests.streams import Recorded

from dimly.curator.options import Options
from dimly.curator.publication import publish_table
from dimly.curator.tables.formats import arrow_data
from dimly.errors import DimlyError
from dimly.release.reader import open_folder

PLAN: Final = plan_for("hashing+laplace", listed=False)
PEOPLE: Final = ["ada", "bob", "cy", "dee"]
PERSON: Final = 1  # bob, whose cell changes

Written = Callable[[Path, Any], Any]
"""Writes a table with a cell of bob's into a folder, and returns the source."""


def published(source: Any, folder: Path, name: str) -> Any:
    """Return what is published with recorded noise; what is said instead, if it is refused."""
    try:
        publish_table(
            source,
            PLAN,
            Options(user="person", attribute="page", roster=PEOPLE, out=folder / name, threads=1),
            words=lambda: Recorded(7),
        )
    except DimlyError as error:
        return f"{error}{error.__context__ or ''}"
    return np.asarray(open_folder(folder / name).values)


def check(write: Written, cell: Any, usual: Any, folder: Path) -> bool:
    """Only bob's row may differ from what the usual cell gives; or the run stops. Return whether it did not."""
    for name in ("usual", "odd"):
        (folder / name).mkdir()
    before = published(write(folder / "usual", usual), folder / "usual", "out")
    assert not isinstance(before, str), before
    after = published(write(folder / "odd", cell), folder / "odd", "out")
    if isinstance(after, str):
        said = after.replace(str(folder), "")
        assert repr(cell) not in said
        assert not re.search(r"(line|row|column) \d", said)
        return False
    others = [i for i in range(len(PEOPLE)) if i != PERSON]
    assert (before[others] == after[others]).all()
    return True


def csv_file(name: str, header: bytes = b"person,page", delimiter: bytes = b",") -> Written:
    def write(folder: Path, cell: bytes) -> Path:
        # Others hold what another dialect would read in another way.
        cells = [b'"C:\\x ""y"" \\"', cell, b"'it''s'", "Zoë \\n".encode()]
        lines = [header, *(who.encode() + delimiter + page for who, page in zip(PEOPLE, cells, strict=True))]
        (folder / name).write_bytes(b"\n".join(lines) + b"\n")
        return folder / name

    return write


RAW: Final[list[tuple[bytes, bool]]] = [  # a cell as it is written, and whether it can be read
    (b'"5\\" pipe"', False),
    (b'"5\\", pipe"', False),
    (b'"5"" pipe"', True),
    (b'5" pipe', True),
    (b"'x'", True),
    (b"\\", True),
    (b'"\\"', True),
    (b"\xe9", False),
    (b"\xff\xfe", False),
    (b"\xef\xbb\xbftea", True),
    (b'"a\nb"', True),
    (b'"a\r\nb"', True),
    (b"a\rb", False),
    (b"x\0y", True),
    (b"#x", True),
    (b"NULL", True),
    (b"NaN", True),
    (b"2024-01-01T00:00:00+02:00", True),
    (b"1e3", True),
    (b'"open', False),
]


@pytest.mark.parametrize(("cell", "fits"), RAW)
@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_csv(name: str, cell: bytes, fits: bool, tmp_path: Path) -> None:
    tabs = name.endswith("tsv")
    write = csv_file(name, b"person\tpage" if tabs else b"person,page", b"\t" if tabs else b",")
    assert check(write, cell, b"tea", tmp_path) == fits


@pytest.mark.parametrize("cell", [b"a;b", b"a\tb", b"a|b", b"a,b;c"])
def test_other_delimiters_in_a_cell(cell: bytes, tmp_path: Path) -> None:
    assert check(csv_file("t.csv"), cell, b"tea", tmp_path) == (b"," not in cell)


@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
@pytest.mark.parametrize(
    "cell", [7, 2**63, -(2**70), 0.5, True, None, "2024-01-01", "\ud800", "007", [1], {"x": 1}, "a\nb", ""]
)
def test_json(name: str, cell: Any, tmp_path: Path) -> None:
    def write(folder: Path, page: Any) -> Path:
        cells = ["12", page, 12, "2024-02-29T12:00:00Z"]
        rows = [json.dumps({"person": who, "page": one}) for who, one in zip(PEOPLE, cells, strict=True)]
        (folder / name).write_text("[" + ",\n".join(rows) + "]" if name == "t.json" else "\n".join(rows))
        return folder / name

    fits = isinstance(cell, int | str) and cell not in ("", "\ud800")
    assert check(write, cell, "tea", tmp_path) == (fits or cell == "")


@pytest.mark.parametrize("declared", ["INTEGER", "NUMERIC", ""])
@pytest.mark.parametrize("cell", [7, 0.5, "tea", b"tea", None])
def test_sqlite(declared: str, cell: Any, tmp_path: Path) -> None:
    def write(folder: Path, page: Any) -> Path:
        with closing(sqlite3.connect(folder / "t.sqlite")) as connection, connection:
            connection.execute(f"CREATE TABLE t (person TEXT, page {declared})")
            connection.executemany("INSERT INTO t VALUES (?, ?)", zip(PEOPLE, ["12", page, 12, "13"], strict=True))
        return folder / "t.sqlite"

    check(write, cell, 11, tmp_path)


NOON: Final = dt.datetime(2024, 2, 29, 12)
ZONE: Final = dt.timezone(dt.timedelta(hours=2))
OBJECTS: Final[list[tuple[Any, Any, bool]]] = [  # what others have, what bob has, and whether it can be read
    (NOON, NOON.replace(tzinfo=ZONE), False),
    (NOON.replace(tzinfo=ZONE), NOON, False),
    (NOON.replace(tzinfo=ZONE), NOON.replace(tzinfo=dt.UTC), True),
    (NOON, dt.date(2024, 2, 29), False),
    (dt.date(2024, 2, 29), NOON, False),
    (NOON, pd.Timestamp("2024-02-29T12:00:00.000000001"), True),
    (dt.date(2024, 2, 29), "2024-02-29", False),
    (7, 2**63, False),
    (7, 7.5, False),
    (7, True, False),
    (True, 7, False),
    (7, Decimal(7), False),
    ("tea", b"tea", False),
    ("tea", 7, False),
    ("tea", "\ud800", False),
    ("tea", np.str_("jam"), True),
    ("tea", None, False),
]


@pytest.mark.parametrize(("usual", "cell", "fits"), OBJECTS)
@pytest.mark.parametrize("place", [0, 3])
def test_pandas_objects(usual: Any, cell: Any, fits: bool, place: int, tmp_path: Path) -> None:
    order = np.roll(np.arange(len(PEOPLE)), place - PERSON)  # bob comes first, in between, or last

    def write(_: Path, page: Any) -> pd.DataFrame:
        cells = pd.Series([usual, page, usual, usual], dtype=object)
        frame = pd.DataFrame({"person": PEOPLE, "page": cells})
        return frame.iloc[order].reset_index(drop=True)

    assert check(write, cell, usual, tmp_path) == fits


@pytest.mark.parametrize(("usual", "cell", "fits"), OBJECTS)
def test_pandas_lists_and_categories(usual: Any, cell: Any, fits: bool) -> None:
    """The types of what is within are no more to follow from one of them."""
    makes: dict[str, Callable[[Any], Any]] = {
        "list": lambda one: pd.Series([[usual], [one], [usual]], dtype=object),
        "array": lambda one: pd.Series([np.array([usual], object), np.array([one, usual], object)], dtype=object),
        "set": lambda one: pd.Series([{usual}, {one}, {usual}], dtype=object),
        "set in a list": lambda one: pd.Series([[{usual}], [{one}]], dtype=object),
        "values": lambda one: pd.Series([{0: usual}.values(), {0: one}.values()], dtype=object),
    }
    if cell not in (2**63, "\ud800"):  # which Arrow has no scalar for
        makes["Arrow"] = lambda one: pd.Series([pa.scalar([usual]), pa.scalar([one])], dtype=object)
    if cell not in (None, usual, "\ud800"):  # which pandas cannot make a category of
        makes["category"] = lambda one: pd.Series(pd.Categorical([usual, one], pd.Index([usual, one], dtype=object)))
    for name, make in makes.items():
        try:
            array = arrow_data(pd.DataFrame({"page": make(cell)})).column("page")
        except DimlyError:
            assert not fits or name in ("category", "Arrow"), name
            continue
        assert fits or cell is None or isinstance(cell, float), name  # no attributes, by their type
        alone = {"category": usual, "set in a list": [[usual]]}.get(name, [usual])
        whole = arrow_data(pd.DataFrame({"page": pd.Series([alone], dtype=object)}))
        assert whole is not None
        assert array[0].as_py() == whole.column("page")[0].as_py()


@pytest.mark.parametrize(
    "cell", [frozenset({NOON}), deque([NOON]), np.array(7), np.ma.array([7], mask=[True]), range(3), iter([NOON])]
)
def test_other_containers_stop_the_run(cell: Any, tmp_path: Path) -> None:
    cells = pd.Series([None, None], dtype=object)
    cells.iat[0] = cell
    said = published(pd.DataFrame({"person": PEOPLE[:2], "page": cells}), tmp_path, "out")
    assert said == "column 'page' must hold cells of one type. Turn them all into text, for example."


def test_polars_objects_are_refused(tmp_path: Path) -> None:
    frame = pl.DataFrame({"person": PEOPLE, "page": pl.Series([object()] * 4, dtype=pl.Object)})
    assert "column 'page' must" in published(frame, tmp_path, "out")


PARTS: Final[list[Any]] = [
    pa.array([1.5]),
    pa.array([True]),
    pa.array([dt.date(2024, 2, 29)]),
    pa.array([NOON]),
    pa.array(["12"]),
    pa.array([12], pa.uint64()),
]


@pytest.mark.parametrize("cell", PARTS, ids=lambda array: str(array.type))
@pytest.mark.parametrize("column", ["person", "page"])
def test_files_of_a_folder_with_other_types_are_refused(column: str, cell: Any, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    pq.write_table(pa.table({"person": [1, 2], "page": [7, 8]}), folder / "a.parquet")
    pq.write_table(pa.table({"person": [3], "page": [9]} | {column: cell}), folder / "b.parquet")
    said = published(folder, tmp_path, "out")
    assert f"files must have columns of the same types, but {column!r} of" in said
    assert "\n" not in said
