"""What workers find in the rows of a partition, without Spark."""

from typing import Any

import pyarrow as pa
import pytest

from dimly.curator.options import Options
from dimly.spark.workers import private_rows as reading
from dimly.spark.workers.pieces import SortedRows, kept_rows
from dimly.spark.workers.private_rows import Kept, ReadTable, TableReading

PEOPLE = [3, 1, 3, 2, 1, 1, 2, 3, 4, 1, 5, 6, 7, 8, 9, 1]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_ROWS", 2)


def found(shape: TableReading, rows: pa.Table, kept: Kept = "people", **work: Any) -> list[SortedRows]:
    read = list(ReadTable(shape, kept, with_people=True, **work)(iter(rows.to_batches(max_chunksize=2))))
    told = [row for batch in read for row in batch.to_pylist() if row["n"] is not None]
    assert {row["problem"] for row in told} == {None}
    made = list(kept_rows(batch.select(["problem", "last", "people", "rows"]) for batch in read))
    assert [len(one) for one in made] == [row["n"] for row in told]
    assert all(set(row["sample"]) <= set(one.users.to_pylist()) for one, row in zip(made, told, strict=True))
    return made


@pytest.mark.parametrize("kept", ["people", "rows"])
@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_everybody_is_found_once_in_many_pieces(key: bytes | None, as_text: bool, kept: Kept) -> None:
    rows = pa.table({"person": PEOPLE, "place": [str(i) for i in range(len(PEOPLE))]})
    shape = TableReading("attribute", 1, Options(user="person", attribute="place"), key, as_text)
    (people,) = found(shape, rows, kept)
    own = people.users if people.own is None else people.own
    assert sorted(map(int, own.to_pylist())) == list(range(1, 10))
    assert people.counts.sum() == (len(PEOPLE) if kept == "rows" else 0)


def test_no_more_rows_are_held_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_KEPT_ROWS", 4)
    rows = pa.table({"person": PEOPLE, "place": [str(i) for i in range(len(PEOPLE))]})
    made = found(TableReading("attribute", 1, Options(user="person", attribute="place")), rows, "rows")
    assert [one.counts.sum() for one in made] == [4] * 4
    assert {who for one in made for who in one.users.to_pylist()} == set(PEOPLE)


@pytest.mark.parametrize("kept", ["people", "rows"])
def test_rows_of_spark_are_short(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hands thousands of them to a worker at once, and stands still where these do not fit into its memory."""
    monkeypatch.setattr(reading, "_ROWS", 1 << 17)
    people = [f"{'long' * 8} {i % 3000:05d}" for i in range(4000)]
    rows = pa.table({"person": people, "place": [f"{'wide' * 8} {i}" for i in range(len(people))]})
    shape = TableReading("attribute", 1, Options(user="person", attribute="place"))
    read = list(ReadTable(shape, kept, with_people=True)(iter(rows.to_batches())))
    cells = [cell for batch in read for name in ("people", "rows") for cell in batch.column(name).to_pylist()]
    assert max(len(cell) for cell in cells if cell is not None) <= 1 << 14
    (found,) = kept_rows(iter(pa.Table.from_batches(read).to_batches(max_chunksize=3)))
    assert found.users.to_pylist() == sorted(set(people))
    if kept == "rows":
        assert found.texts is not None
        assert sorted(found.texts.take(pa.array(found.codes)).to_pylist()) == sorted(rows.column("place").to_pylist())


@pytest.mark.parametrize("coded", [False, True])
def test_only_attributes_of_a_list_are_kept_and_everybody_is(coded: bool) -> None:
    rows = pa.table({"person": [1, 2, 3, 1], "place": ["b", "c", "x", "x"]})
    shape = TableReading("attribute", 1, Options(user="person", attribute="place"), coded=coded, closed=True)
    (made,) = found(shape, rows, "rows", listed=pa.array(["c", "b"]))
    assert (made.users.to_pylist(), made.counts.tolist()) == ([1, 2, 3], [1, 1, 0])
    attributes = made.codes.tolist() if made.texts is None else made.texts.take(pa.array(made.codes)).to_pylist()
    assert attributes == ([1, 0] if coded else ["b", "c"])


@pytest.mark.parametrize("kept", ["people", "rows", "problems"])
def test_rows_of_a_wide_table_are_counted(kept: Kept) -> None:
    rows = pa.table({"person": [1, 2, 3, 1], "tea": ["green", "black", "green", "white"]})
    (people,) = found(TableReading("column", 1, Options(user="person", columns=["tea"])), rows, kept)
    assert people.marks is not None
    assert (people.users.to_pylist(), people.marks.tolist()) == ([1, 2, 3], [2, 1, 1])


def test_a_problem_stands_for_its_rows() -> None:
    rows = pa.table({"person": [1, 2, 3, None], "place": ["b", "c", "x", "x"]})
    shape = TableReading("attribute", 1, Options(user="person", attribute="place"))
    read = ReadTable(shape, "rows", with_people=True)(iter(rows.to_batches(max_chunksize=2)))
    told = pa.Table.from_batches(read).to_pylist()
    assert [row["problem"] is None for row in told] == [False, True]
    assert told[1]["sample"] == [1, 2]
