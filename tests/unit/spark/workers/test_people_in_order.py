"""Who is there: everybody once and in order, however they were named."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dimly.release.parts import excess_of
from dimly.spark.workers import people_in_order as people
from dimly.spark.workers.people_in_order import (
    CutPeople,
    DigestPeople,
    MergePeople,
    SampledPiece,
    Segment,
    UnpackPeople,
    is_same,
    range_borders,
    sample_of,
)
from dimly.spark.workers.pieces import SortedRows

KEY = b"k" * 32


def named(ids: pa.Array, *, key: bytes | None = None) -> pa.RecordBatch:
    """Return people as a worker names them."""
    packed, _ = SortedRows.of_people(ids, key=key).packed()
    return pa.record_batch({"problem": pa.nulls(1, pa.int64()), "people": [packed]})


def known(number: int, ids: pa.Array) -> pa.RecordBatch:
    """Return people of a range, who are in order."""
    return pa.record_batch({"range": [number], "people": named(ids).column("people")})


def found(pieces: list[pa.RecordBatch], borders: list[Any]) -> list[list[SortedRows]]:
    """Return who is found in each range."""
    places = [10 * number for number in range(len(borders) + 1)]
    cut = [batch for piece in pieces for batch in CutPeople(borders, places)(iter([piece]))]
    table = pa.Table.from_batches(cut)
    made = []
    for number, place in enumerate(places):
        mine = [row for row in table.to_pylist() if row["place"] == place]
        batches = pa.Table.from_pylist(mine, table.schema).to_batches(max_chunksize=2)
        merged = MergePeople({place: number})(iter(batches))
        rows = [row for batch in merged for row in batch.to_pylist()]
        assert {row["range"] for row in rows} <= {number}
        assert not any(row["repeated"] for row in rows)
        made.append([SortedRows.unpacked(row["people"], None) for row in rows])
        assert [len(one) for one in made[-1]] == [row["n"] for row in rows]
    return made


@pytest.mark.parametrize("held", [1, 1 << 20])
@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
@pytest.mark.parametrize("borders", [[], ["20", "50", "51"]])
def test_everybody_is_found_once_and_in_order(
    borders: list[Any], kind: pa.DataType, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "_HELD", held)
    monkeypatch.setattr(people, "_PIECE", 7)
    generator = np.random.default_rng(1)
    some = [pa.array(generator.integers(10, 80, n)).cast(kind) for n in (50, 1, 30)]
    at = pa.array(borders, pa.string()).cast(kind).to_pylist()
    ranges = found([named(ids) for ids in some], at)
    users = [who for pieces in ranges for one in pieces for who in one.users.to_pylist()]
    assert users == sorted({who for ids in some for who in ids.to_pylist()})
    for number, border in enumerate(at):
        assert all(who >= border for one in ranges[number + 1] for who in one.users.to_pylist())
    batches = [pa.record_batch({"people": [one.packed()[0]]}) for pieces in ranges for one in pieces]
    assert [who for batch in UnpackPeople()(iter(batches)) for who in batch.column("u").to_pylist()] == users


def test_own_ids_stay_with_pseudonyms() -> None:
    ((one,),) = found([named(pa.array(some), key=KEY) for some in ([3, 1, 2], [2, 9])], [])
    alone = SortedRows.of_people(pa.array([1, 2, 3, 9]), key=KEY)
    assert one.own is not None
    assert alone.own is not None
    assert (one.users.to_pylist(), one.own.to_pylist()) == (alone.users.to_pylist(), alone.own.to_pylist())


@pytest.mark.parametrize("apart", [False, True])
def test_second_rows_are_noticed(apart: bool) -> None:
    rows = pa.table({"u": [1, 2, 1], "a": pa.nulls(3, pa.string()), "m": [True] * 3})
    for last, repeated in ((2, False), (3, True)):
        pieces = [rows.slice(i, 1) for i in range(last)] if apart else [rows.slice(0, last)]
        packed = [SortedRows.of(piece, key=None).packed()[0] for piece in pieces]
        batch = pa.record_batch({"place": pa.array([0] * len(packed), pa.int32()), "people": packed})
        (merged,) = MergePeople({0: 0})(iter([batch]))
        assert merged.column("repeated").to_pylist() == [repeated]


def test_ranges_have_about_as_many_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "_PEOPLE", 1000)
    generator = np.random.default_rng(0)
    ids = np.unique((generator.pareto(1.0, 20_000) * 1e6).astype(np.int64))
    some = [pa.array(np.sort(generator.choice(ids, n, replace=False))) for n in (9_000, 500, 8_000)]
    told = [SampledPiece(len(one), one.nbytes, sample_of(one, i).to_pylist()) for i, one in enumerate(some)]
    assert all(len(one.sample) <= 64 for one in told)
    borders = range_borders(told, most=10)
    sizes = np.diff(np.searchsorted(ids, [0, *borders, ids[-1] + 1]))
    assert len(sizes) == 10
    assert sizes.max() < 1.5 * len(ids) / 10
    assert len(range_borders(told, most=100)) < 18  # a thousand people at least
    assert range_borders(told, most=1) == range_borders([], most=10) == []
    same = [SampledPiece(5_000, 40_000, [7])]
    assert range_borders(same, most=10) == [7]


@pytest.mark.parametrize("n", [0, 1, 5, 64, 65, 1000])
def test_a_sample_is_from_all_over(n: int) -> None:
    sample = sample_of(pa.array(range(n)), 3).to_pylist()
    assert len(sample) == min(n, 64)
    assert sample == sorted(sample)
    assert np.diff([0, *sample, n]).max() <= 2 * max(n / 64, 1)


def test_the_same_people_have_the_same_digest() -> None:
    ids = pa.array(range(20))
    rows = [row for batch in DigestPeople((0,), 8, 4)(iter([known(0, ids)])) for row in batch.to_pylist()]
    segments = [Segment(row["position"], row["n"], row["first"], row["digest"]) for row in rows]
    assert [(one.position, one.n, one.first) for one in segments] == [(0, 8, 0), (8, 8, 8), (16, 4, 16)]
    assert is_same(ids, segments)
    assert not is_same(pa.array([*range(19), 20]), segments)
    assert not is_same(pa.array(range(19)), segments)


@pytest.mark.parametrize(("piece", "kind"), [(1, "string"), (3, "large_string"), (100, "string")])
def test_the_length_of_ids_is_known_of_every_row_group(piece: int, kind: str) -> None:
    """Ranges and pieces end anywhere, row groups after each fourth person and parts after each eighth."""
    lengths = np.random.default_rng(1).integers(1, 3_000, 45)
    ids = pa.array([f"{i:02d}{'x' * length}" for i, length in enumerate(lengths.tolist())]).cast(kind)
    starts, found, n = (0, 5, 5, 30), Counter[int](), 0
    for number, (start, stop) in enumerate(zip(starts, (*starts[1:], 45), strict=True)):
        some = [known(number, ids.slice(at, min(piece, stop - at))) for at in range(start, stop, piece)]
        for batch in DigestPeople(starts, 8, 4)(iter(some)):
            (row,) = batch.to_pylist()
            found.update({row["position"] // 4 + i: excess for i, excess in enumerate(row["excess"])})
            n += row["n"]
    assert n == 45
    assert found == {group: excess_of(ids.slice(4 * group, 4)) for group in range(12)}
