"""What workers make of sorted rows: whole people in files of one attempt, whatever the batches are."""

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.engine import silence
from tests.folders import small_parts
from tests.plans import plan_of

from dimly.errors import DataError
from dimly.mechanisms import Plan
from dimly.spark import writing
from dimly.spark.writing import WriteParts, whole_people

__all__ = ["small_parts"]  # a fixture

PLAN = plan_of("counting+laplace")
ROWS = [
    (5, "ada", "tea"), (5, "ada", "tea"), (5, "ada", None), (5, "bob", None), (9, "cy", "jam"), (9, "dee", "rye"),
    (9, "dee", None),
]  # fmt: skip


def batches(rows: list[Any], size: int) -> Any:
    kind = pa.int32() if any(isinstance(row[2], int) for row in rows) else pa.string()
    schema = pa.schema({"place": pa.int32(), "u": pa.string(), "a": kind})
    empty = schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], schema)]
    names = schema.names
    return iter(
        [
            *empty,
            *(
                pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows[i : i + size]], schema)
                for i in range(0, len(rows), size)
            ),
        ]
    )


def work(folder: Path, plan: Plan = PLAN, **changes: Any) -> WriteParts:
    options: dict[str, Any] = {"n_users": 4, "parts": {5: 0, 9: 1}, "listed": False, "words": lambda: silence(plan)}
    return WriteParts(plan_json=plan.to_json(), user_type="text", folder=str(folder), **(options | changes))


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_tables_end_between_people(size: int) -> None:
    tables = list(whole_people(batches(ROWS, size), most_rows=2))
    people = [list(dict.fromkeys(zip(*(table.column(i).to_pylist() for i in (0, 1)), strict=True))) for table in tables]
    found = [one for some in people for one in some]
    assert found == [(5, "ada"), (5, "bob"), (9, "cy"), (9, "dee")]  # each in one table
    assert pa.concat_tables(tables).num_rows == len(ROWS)
    assert size > 2 or len(tables) > 1
    assert len(list(whole_people(batches(ROWS, size), most_rows=None))) == 1
    assert not list(whole_people(batches([], size), most_rows=2))


def test_somebody_with_more_rows_than_a_table_takes_is_not_cut() -> None:
    rows = [(5, "ada", str(i)) for i in range(50)] + [(5, "bob", "1")]
    sizes = [table.num_rows for table in whole_people(batches(rows, 1), most_rows=3)]
    assert sizes[0] >= 50
    assert sum(sizes) == 51


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("size", [1, 100])
def test_every_attempt_has_files_of_its_own(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimly.release.layout._MOST_USERS", 2)
    made = [[row for batch in work(tmp_path)(batches(ROWS, size)) for row in batch.to_pylist()] for _ in range(2)]
    for records in made:
        assert [(r["part"], r["rows"], r["first"], r["last"], r["after"]) for r in records] == [
            (0, 2, "ada", "bob", None),
            (1, 2, "cy", "dee", None),
        ]
        tables = [
            pq.read_table(tmp_path / r["attempt"] / "sketches" / f"part-{r['part']:06d}.parquet") for r in records
        ]
        sketches = np.array([row for table in tables for row in table.column("sketch").to_pylist()])
        expected = PLAN.rows(["tea", "jam", "rye"]).to_dense()
        np.testing.assert_array_equal(sketches, [expected[0], 0 * expected[0], expected[1], expected[2]])
    assert len({record["attempt"] for records in made for record in records}) == 4


def test_with_a_roster_only_those_on_it_are_published(tmp_path: Path) -> None:
    (batch,) = work(tmp_path, listed=True, n_users=3, parts={5: 0, 9: 0})(batches([(5, *row[1:]) for row in ROWS], 100))
    (record,) = batch.to_pylist()
    assert (record["rows"], record["first"], record["last"]) == (3, "ada", "dee")


def test_noisy_distances_are_cut_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimly.release.layout._MOST_USERS", 2)
    plan = plan_of("noisy-distances")
    rows = [(0, who, code) for who, code in (("ada", 3), ("ada", 3), ("bob", 4), ("cy", None))]
    made = work(tmp_path, plan, n_users=3, parts={0: 0})
    records = [row for batch in made(batches(rows, 1)) for row in batch.to_pylist()]
    assert [(record["part"], record["rows"], record["after"]) for record in records] == [(0, 2, 1), (1, 1, 0)]
    with pytest.raises(DataError, match="the table must stay as it is while it is read"):
        list(work(tmp_path, plan, n_users=4, parts={0: 0})(batches(rows, 1)))


def test_a_table_that_changes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the table must stay as it is while it is read"):
        list(work(tmp_path, n_users=5, parts={5: 0, 9: 0})(batches([(5, *row[1:]) for row in ROWS], 100)))


def test_who_comes_after_the_end_of_the_job_fails(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(work(tmp_path / "gone", parts={5: 0, 9: 0})(batches([(5, *row[1:]) for row in ROWS], 100)))


def test_a_full_disk_is_no_reason_to_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = OSError(errno.ENOSPC, "No space left on device")

    def write_part(*_: object) -> None:
        raise failing

    monkeypatch.setattr(writing, "write_part", write_part)
    rows = [(5, *row[1:]) for row in ROWS]
    (batch,) = work(tmp_path, parts={5: 0})(batches(rows, 100))
    assert batch.to_pylist()[0]["full"]
    failing = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output"):
        list(work(tmp_path, parts={5: 0})(batches(rows, 100)))
