"""Rows that travel in pieces: the same ones arrive, whatever the pieces are and however they are cut."""

import tempfile
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.spark.sorted_rows import piece

from dimly.curator.people import Pseudonyms
from dimly.errors import DataError
from dimly.spark.workers import pieces
from dimly.spark.workers.pieces import (
    CutRows,
    PackRows,
    Places,
    PlainRows,
    SortedRows,
    kept_rows,
    numbered_together,
    of_places,
)

TEXTS = ["tea", "jam", "", "Tee\n", "ü", "\x00", "ẞ"]
KINDS = ["near", "far", "text", "large text"]


def ids_of(who: Any, kind: str) -> pa.Array:
    """Return ids of different kinds, in the order of some numbers below 40."""
    who = np.asarray(who, np.int64)
    if kind == "near":
        return pa.array(who - 20)
    if kind == "far":  # further apart than 32 bits tell
        return pa.array((who - 20) * (1 << 58))
    return pa.array([f"üser {i:02d}" for i in who], pa.string() if kind == "text" else pa.large_string())


def rows_of(generator: np.random.Generator, kind: str, n: int, *, values: bool = True) -> pa.Table:
    """Return rows in no order, some of which only name a person."""
    columns = {
        "u": ids_of(generator.integers(0, 40, n), kind),
        "a": pa.array([None if i == 7 else TEXTS[i] for i in generator.integers(0, 8, n)], pa.string()),
    }
    if values:
        columns["v"] = pa.array(generator.integers(1, 8, n) / 8)
    return pa.table(columns)


def as_counter(tables: list[pa.Table]) -> Counter[Any]:
    """Return how often each row with an attribute occurs."""
    return Counter(tuple(row.values()) for table in tables for row in table.to_pylist() if row["a"] is not None)


def repacked(rows: SortedRows) -> SortedRows:
    return SortedRows.unpacked(*rows.packed())


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_sorted_by_person(kind: str) -> None:
    rows = rows_of(np.random.default_rng(3), kind, 400)
    found = repacked(SortedRows.of(rows, key=None))
    users = found.users.to_pylist()
    assert users == sorted(set(rows.column("u").to_pylist()))
    assert found.counts.sum() == len(found.codes) == rows.column("a").is_valid().to_numpy().sum()
    assert as_counter([found.as_table()]) == as_counter([rows])
    assert found.as_table().num_rows == len(found.codes) + len(users)


def test_bits_come_once() -> None:
    rows = rows_of(np.random.default_rng(3), "near", 400, values=False)
    found = repacked(SortedRows.of(rows, key=None))
    assert as_counter([found.as_table()]) == Counter(as_counter([rows]).keys())
    assert len(found.codes) < rows.column("a").is_valid().to_numpy().sum()


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_cut_between_people(kind: str) -> None:
    rows = rows_of(np.random.default_rng(4), kind, 400)
    firsts = ids_of([7, 15, 16, 39], kind).to_pylist()
    places = Places(firsts, np.array([5, 2, 9, 1], np.int32))
    made = SortedRows.of(rows, key=None)
    (people, content), nothing = made.packed(), pa.nulls(1, pa.int64())
    batch = pa.record_batch({"problem": nothing, "people": [people], "rows": [content]})
    cut = {place: held for place, (held,) in of_places(CutRows(places)(iter([batch])))}
    assert list(cut) == [5, 2, 9, 1]
    for place, start, stop in zip(cut, firsts, [*firsts[1:], None], strict=True):
        mine = [row for row in rows.to_pylist() if row["u"] >= start and (stop is None or row["u"] < stop)]
        assert as_counter([cut[place].as_table()]) == Counter(
            tuple(row.values()) for row in mine if row["a"] is not None
        )
        assert cut[place].users.to_pylist() == sorted({row["u"] for row in mine})
        texts = cut[place].texts
        assert texts is not None
        assert set(texts.to_pylist()) == {row["a"] for row in mine} - {None}  # and no others travel


@pytest.mark.parametrize("coded", [False, True])
def test_rows_that_spark_looked_into_are_packed_again(coded: bool) -> None:
    rows = rows_of(np.random.default_rng(1), "near", 100)
    if coded:
        rows = rows.set_column(1, "a", rows.column("a").combine_chunks().dictionary_encode().indices)
    people, content = SortedRows.of(rows, key=None).packed()
    batch = pa.record_batch({"problem": pa.nulls(1, pa.int64()), "people": [people], "rows": [content]})
    places = Places([-20], np.array([3], np.int32))
    ((place, (found,)),) = of_places(PackRows(places)(PlainRows()(iter([batch]))))
    assert place == 3
    assert found.users.equals(SortedRows.of(rows, key=None).users)
    assert as_counter([found.as_table()]) == as_counter([rows])


def test_marks_are_counted() -> None:
    rows = pa.table({
        "u": [2, 1, 2, 9, 2], "a": pa.array(["tea", *[None] * 4]), "m": pa.array([None, True, True, None, True])
    })  # fmt: skip
    found = repacked(SortedRows.of(rows, key=None))
    assert (found.users.to_pylist(), found.counts.tolist()) == ([1, 2, 9], [0, 1, 0])
    assert found.marks is not None
    assert found.marks.tolist() == [1, 2, 0]
    again = SortedRows.of(found.as_table(), key=None)
    assert again.marks is not None
    assert again.marks.tolist()[:2] == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_people_under_pseudonyms_are_in_their_order(kind: str) -> None:
    key = b"k" * 32
    rows = rows_of(np.random.default_rng(2), kind, 100)
    found = repacked(SortedRows.of(rows, key=key))
    assert found.own is not None
    names = Pseudonyms(key).of([str(one) for one in found.own.to_pylist()])
    assert found.users.to_pylist() == names == sorted(names)
    named = dict(zip(found.own.to_pylist(), names, strict=True))
    expected = Counter((named[who], what, value) for who, what, value in as_counter([rows]).elements())
    assert as_counter([found.as_table()]) == expected


def test_a_list_of_people_has_no_rows() -> None:
    found = repacked(SortedRows.of_people(pa.array(["b", "a", "b"]), key=None))
    assert found.is_list
    assert found.users.to_pylist() == ["a", "b"]
    assert not len(found.codes)


@pytest.mark.parametrize("in_memory", [0, 1500, 1 << 27])
def test_many_pieces_of_a_place_are_put_into_a_file(in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_IN_MEMORY", in_memory)
    files: list[Any] = []
    make = tempfile.TemporaryFile

    def made_file(**given: Any) -> Any:
        made = make(**given)
        files.extend([] if given else [made])  # not those of numba, which looks where it may write
        return made

    monkeypatch.setattr(tempfile, "TemporaryFile", made_file)
    generator = np.random.default_rng(5)
    tables = [rows_of(generator, "text", n) for n in (30, 1, 200, 7)]
    made = [piece(place, SortedRows.of(table, key=None)) for place in (8, 3) for table in tables]
    made.append(piece(3, SortedRows.of_people(pa.array(["z"]), key=None)))
    for place, held in of_places(iter(made)):
        assert as_counter([one.as_table() for one in held if not one.is_list]) == as_counter(tables)
        assert sum(one.is_list for one in held) == (place == 3)
    assert len(files) == (0 if in_memory == 1 << 27 else 2)
    assert all(file.closed for file in files)


def test_a_problem_that_was_not_there_before_is_refused() -> None:
    batch = pa.record_batch(
        {"problem": [None, 3], "people": pa.nulls(2, pa.binary()), "rows": pa.nulls(2, pa.binary())}
    )
    with pytest.raises(DataError, match="the table must stay as it is while it is read"):
        list(kept_rows(iter([batch])))


def test_pieces_hold_people_and_texts_once_and_numbers_in_few_bytes() -> None:
    n = 10_000
    rows = pa.table({
        "u": pa.array(np.repeat(np.arange(n // 10), 10) + (1 << 40)),
        "a": pa.array([f"a rather long attribute {i}" for i in range(10)] * (n // 10)),
    })  # fmt: skip
    people, content = SortedRows.of(rows, key=None).packed()
    assert content is not None
    assert len(people) + len(content) < 1.5 * n


def test_scattered_rows_take_fewer_bytes_than_coded_pairs() -> None:
    """Two million rows of ten million people, as a part gets them: hardly anybody has two, and texts have many codes.

    A pair of two numbers of 32 bits takes 8 bytes. People travel twice, also alone, to be put in order.
    """
    generator, n = np.random.default_rng(0), 13_700
    rows = pa.table({
        "u": pa.array(generator.integers(0, 1 << 16, n) + (1 << 40)),
        "a": pa.array([f"item {i}" for i in (generator.pareto(0.8, n) * 50).astype(np.int64) % 100_000]),
    })  # fmt: skip
    made = SortedRows.of(rows, key=None)
    people, content = made.packed()
    listed, _ = replace(made, is_list=True).packed()
    assert content is not None
    assert len(people) + len(content) + len(listed) < 8 * len(made.codes)


def test_numbers_of_any_size_are_packed() -> None:
    ends = [-(2**63), -(2**63) + 255, 0, 256, 2**63 - 1]
    counts = np.array([255, 0, 256, 65_536, 1], np.int32)
    codes = np.resize(np.array([65_536, 0, 65_535], np.int32), counts.sum())
    made = SortedRows(pa.array(ends), None, counts, counts[::-1], codes, None, None)
    for rows in (made, made.between(0, 2), made.between(4, 5), made.between(2, 2)):
        found = repacked(rows)
        assert found.users.equals(rows.users)
        assert found.marks is not None
        assert found.marks.tolist() == (rows.marks.tolist() if rows.marks is not None else None)
        assert (found.counts.tolist(), found.codes.tolist()) == (rows.counts.tolist(), rows.codes.tolist())


def test_nothing_is_sorted_and_cut_as_well() -> None:
    nothing = SortedRows.of(rows_of(np.random.default_rng(0), "near", 0), key=None)
    assert not len(repacked(nothing))
    assert not list(Places([1], np.array([1], np.int32)).cut(nothing))
    assert not list(of_places(iter([])))


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_numbered_together(kind: str) -> None:
    columns = [ids_of(some, kind) for some in ([5, 3, 3], [], [39, 5, 0])]
    numbers, found = numbered_together(columns)
    assert found.to_pylist() == ids_of([0, 3, 5, 39], kind).to_pylist()
    assert [some.tolist() for some in numbers] == [[2, 1, 1], [], [3, 2, 0]]


@pytest.mark.parametrize("apart", [1, 2, 7, 1 << 53])
def test_numbers_are_the_same_whether_they_lie_close_together_or_not(apart: int) -> None:
    generator = np.random.default_rng(6)
    parts = [np.sort(generator.choice(60, n, replace=False) - 31) * np.int64(apart) for n in (40, 0, 1, 25)]
    found, ids = numbered_together([pa.array(part, pa.int64()) for part in parts])
    everyone = np.unique(np.concatenate(parts))
    assert ids.to_pylist() == everyone.tolist()
    assert [one.tolist() for one in found] == [np.searchsorted(everyone, part).tolist() for part in parts]
    ends = pa.array([-(2**63), 2**63 - 1])
    assert numbered_together([ends])[1].equals(ends)
    assert numbered_together([ends[:0], ends[:0]])[1].to_pylist() == []
