"""What workers make of sorted rows: whole people in files of one attempt, whatever the batches are."""

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from tests.engines.engine import silence
from tests.folders import small_parts
from tests.plans import plan_of
from tests.unit.spark.sorted_rows import ROWS, piece, pieces

from dimly.curator.randomness import RunSecret
from dimly.errors import DataError
from dimly.mechanisms import Plan
from dimly.spark.workers import parts as writing
from dimly.spark.workers.parts import CarriedPlan, WriteParts
from dimly.spark.workers.people_in_order import ColumnDigest, Segment
from dimly.spark.workers.pieces import SortedRows

__all__ = ["small_parts"]  # a fixture

PLAN = plan_of("counting+laplace")


def segments(*ids: str) -> tuple[Segment, ...]:
    """Return people in two segments."""
    made = []
    for some in (ids[:1], ids[1:]):
        digest = ColumnDigest()
        digest.update(pa.array(some, pa.string()))
        made.append(Segment(0, len(some), some[:1], digest.digest()))
    return tuple(made)


def work(folder: Path, plan: Plan = PLAN, *, people: dict[int, Any] | None = None, **changes: Any) -> WriteParts:
    people = people or {0: segments("ada", "bob", "cy", "dee")}
    options: dict[str, Any] = {
        "people": people,
        "parts": {5: 0, 9: 1},
        "listed": False,
        "words": lambda _: silence(plan),
    }
    return WriteParts(plan=CarriedPlan(plan.to_json()), user_type="text", folder=str(folder), **(options | changes))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("size", [1, 100])
def test_every_attempt_has_files_of_its_own(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimly.release.format._MOST_USERS", 2)
    people = {0: segments("ada", "bob"), 1: segments("cy", "dee")}
    made = [
        [row for batch in work(tmp_path, people=people)(pieces(ROWS, size)) for row in batch.to_pylist()]
        for _ in range(2)
    ]
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


def published(made: WriteParts, rows: list[Any], size: int) -> tuple[bytes, NDArray[np.int64]]:
    """Return the file of the one part of an attempt, and its sketches."""
    (batch,) = made(pieces(rows, size))
    (record,) = batch.to_pylist()
    file = Path(made.folder) / record["attempt"] / "sketches" / f"part-{record['part']:06d}.parquet"
    return file.read_bytes(), np.array(pq.read_table(file).column("sketch").to_pylist())


@pytest.mark.parametrize("mechanism", ["counting+laplace", "counting+gaussian"])
def test_noise_belongs_to_the_rows_and_to_the_run(
    mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise that is equal in one of two independent draws of 4 × k numbers comes by chance at a rate below 1e-6."""
    plan, secret = plan_of(mechanism), RunSecret()
    rows = [(5, *row[1:]) for row in ROWS]
    made = work(tmp_path, plan, parts={5: 0}, words=secret.keystream)
    first, sketches = published(made, rows, 100)
    # Another attempt at the same rows, in other pieces, in another order and with more repeats.
    again = [rows[2], rows[1], rows[1], rows[0], *rows[3:], rows[-2]]
    assert published(made, rows, 1)[0] == published(made, again, 3)[0] == first

    exact = plan.rows(["tea", "jam", "rye", "ham"]).to_dense().astype(np.int64)
    before = sketches - np.array([exact[0], 0 * exact[0], exact[1], exact[2]])
    changed = [row if row[2] != "jam" else (5, "cy", "ham") for row in rows]

    def is_reused(draws: WriteParts, table: list[Any], of_cy: int) -> bool:
        after = published(draws, table, 100)[1] - np.array([exact[0], 0 * exact[0], exact[of_cy], exact[2]])
        return any((mine == theirs).all() for mine, theirs in zip(before, after, strict=True))

    assert before.any()
    assert not is_reused(made, changed, 3)
    assert not is_reused(work(tmp_path, plan, parts={5: 0}, words=RunSecret().keystream), rows, 1)  # another run
    assert not is_reused(work(tmp_path, plan, parts={5: 7}, people={7: made.people[0]}, words=made.words), rows, 1)
    # Power: were the rows not in the name of a batch, this would be noticed.
    monkeypatch.setattr(writing, "batch_name", lambda *_: b"")
    before = published(made, rows, 100)[1] - np.array([exact[0], 0 * exact[0], exact[1], exact[2]])
    assert is_reused(made, changed, 3)


def test_batches_of_a_part_have_noise_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four people without a row, two batches of one part; equal by chance at a rate below 1e-6."""
    monkeypatch.setattr(writing, "_MOST_ROWS", 1)
    rows = [(5, who, "tea") for who in ("ada", "bob", "cy", "dee")]
    asked: list[bytes] = []
    secret = RunSecret()

    def words(batch: bytes) -> Any:
        asked.append(batch)
        return secret.keystream(batch)

    _, sketches = published(work(tmp_path, parts={5: 0}, words=words), rows, 1)
    assert len(set(asked)) == len(asked) == 4
    assert len(np.unique(sketches, axis=0)) == 4


def test_with_a_roster_only_those_on_it_are_published(tmp_path: Path) -> None:
    wanted = {0: segments("ada", "bob", "dee")}
    listed = SortedRows.of_people(pa.array(["dee", "ada", "bob"]), key=None)
    given = iter([*pieces([(5, *row[1:]) for row in ROWS], 100), piece(5, listed)])
    (batch,) = work(tmp_path, listed=True, people=wanted, parts={5: 0})(given)
    (record,) = batch.to_pylist()
    assert (record["rows"], record["first"], record["last"]) == (3, "ada", "dee")


def test_noisy_distances_are_cut_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimly.release.format._MOST_USERS", 2)
    plan = plan_of("noisy-distances")
    rows = [(0, who, code) for who, code in (("ada", 3), ("ada", 3), ("bob", 4), ("cy", None))]
    made = work(tmp_path, plan, people={0: segments("ada", "bob", "cy")}, parts={0: 0})
    records = [row for batch in made(pieces(rows, 1)) for row in batch.to_pylist()]
    assert [(record["part"], record["rows"], record["after"]) for record in records] == [(0, 2, 1), (1, 1, 0)]
    with pytest.raises(DataError, match="the table must stay as it is while it is read"):
        list(work(tmp_path, plan, parts={0: 0})(pieces(rows, 1)))


@pytest.mark.parametrize(
    "others",
    [
        ("ada", "bob", "cy", "dee", "eve"),
        ("ada", "bob", "cy"),
        ("ada", "bob", "cy", "eve"),
        ("ada", "bo", "bcy", "dee"),
        ("ad", "abob", "cy", "dee"),
    ],
)
def test_a_table_with_other_people_is_refused(tmp_path: Path, others: tuple[str, ...]) -> None:
    made = work(tmp_path, people={0: segments(*others)}, parts={5: 0})
    with pytest.raises(DataError, match="the table must stay as it is while it is read"):
        list(made(pieces([(5, *row[1:]) for row in ROWS], 100)))


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.large_string()])
def test_a_digest_is_of_ids_in_order_however_they_are_cut(kind: pa.DataType, size: int) -> None:
    ids = pa.array(range(40), pa.int64()).cast(kind)
    whole, cut, turned = ColumnDigest(), ColumnDigest(), ColumnDigest()
    whole.update(ids)
    for start in range(0, 40, size):
        cut.update(ids.slice(start, size))
    turned.update(ids.take(pa.array([1, 0, *range(2, 40)])))
    assert whole.digest() == cut.digest() != turned.digest()
    assert whole.n == cut.n == 40


def test_who_comes_after_the_end_of_the_job_fails(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(work(tmp_path / "gone", parts={5: 0, 9: 0})(pieces([(5, *row[1:]) for row in ROWS], 100)))


def test_a_full_disk_is_no_reason_to_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = OSError(errno.ENOSPC, "No space left on device")

    def write_part(*_: object) -> None:
        raise failing

    monkeypatch.setattr(writing, "write_part", write_part)
    rows = [(5, *row[1:]) for row in ROWS]
    (batch,) = work(tmp_path, parts={5: 0})(pieces(rows, 100))
    assert batch.to_pylist()[0]["full"]
    failing = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output"):
        list(work(tmp_path, parts={5: 0})(pieces(rows, 100)))
