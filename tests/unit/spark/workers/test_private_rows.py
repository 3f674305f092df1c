"""What workers find in the rows of a partition, without Spark."""

from typing import Any

import pyarrow as pa
import pytest

from dimly.curator.options import Options
from dimly.spark.workers import private_rows as reading
from dimly.spark.workers.private_rows import FindPeople, TableReading

PEOPLE = [3, 1, 3, 2, 1, 1, 2, 3, 4, 1, 5, 6, 7, 8, 9, 1]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_ROWS", 2)


def found(shape: TableReading, rows: pa.Table) -> list[dict[str, Any]]:
    batches = rows.to_batches(max_chunksize=2)
    return [row for batch in FindPeople(shape, everybody=True)(iter(batches)) for row in batch.to_pylist()]


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_everybody_is_found_once_in_many_pieces(key: bytes | None, as_text: bool) -> None:
    rows = pa.table({"person": PEOPLE, "place": [str(i) for i in range(len(PEOPLE))]})
    people = found(TableReading("attribute", 1, Options(user="person", attribute="place"), key, as_text), rows)
    own = sorted(int(person["u" if key is None else "own"]) for person in people)
    assert own == list(range(1, 10))
    assert {person["problem"] for person in people} == {None}


def test_no_more_are_held_back_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PEOPLE", 4)
    rows = pa.table({"person": PEOPLE, "place": [str(i) for i in range(len(PEOPLE))]})
    people = [
        person["u"] for person in found(TableReading("attribute", 1, Options(user="person", attribute="place")), rows)
    ]
    assert set(people) == set(PEOPLE)
    assert len(set(people)) < len(people) < len(PEOPLE)


def test_rows_of_a_wide_table_are_counted_by_spark() -> None:
    rows = pa.table({"person": [1, 2, 3, 1], "tea": ["green", "black", "green", "white"]})
    people = found(TableReading("column", 1, Options(user="person", columns=["tea"])), rows)
    assert sorted(person["u"] for person in people) == [1, 1, 2, 3]
