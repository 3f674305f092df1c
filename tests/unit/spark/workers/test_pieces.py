"""Rows that travel in pieces: the same ones arrive, in order, whatever the pieces are."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.plans import plan_of

from dimly.spark.workers import pieces
from dimly.spark.workers.batches import batches_of_places
from dimly.spark.workers.pieces import PackRows, in_order, packed

TEXTS = ["tea", "jam", "", "Tee\n", "ü", "\x00", "ẞ"]


def rows_of(generator: np.random.Generator, kind: str, n: int) -> pa.Table:
    """Return placed rows whose people are of one place each."""
    who = generator.integers(0, 40, n)
    ids: dict[str, Any] = {
        "near": pa.array(who - 20),
        "far": pa.array((who - 20) * (1 << 58)),  # further apart than 32 bits tell
        "text": pa.array([f"üser {i:02d}" for i in who]),
    }
    columns = {
        "place": pa.array(who // 10, pa.int32()),
        "u": ids[kind],
        "a": pa.array([None if i == 7 else TEXTS[i] for i in generator.integers(0, 8, n)], pa.string()),
        "v": pa.array([None if i == 0 else i / 8 for i in generator.integers(0, 8, n)], pa.float64()),
    }
    return pa.table(columns)


def arriving(made: list[pa.RecordBatch]) -> Any:
    """Return pieces as Spark sorts them: by place, and otherwise in any order."""
    table = pa.Table.from_batches(made)
    return iter(table.take(np.argsort(table.column("place").to_numpy(), kind="stable")).to_batches(max_chunksize=3))


def as_counter(tables: list[pa.Table]) -> Counter[Any]:
    """Return how often each row occurs."""
    return Counter(tuple(row.values()) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("out_of_core", [False, True])
@pytest.mark.parametrize("kind", ["near", "far", "text"])
def test_rows_arrive_in_order(kind: str, out_of_core: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if out_of_core:
        monkeypatch.setattr(pieces, "_IN_MEMORY", 1000)
    monkeypatch.setattr(pieces, "_ROWS", 50)
    generator = np.random.default_rng(3)
    tables = [rows_of(generator, kind, n) for n in (1, 30, 0, 400, 7)]
    people = pa.table({"place": pa.array([0, 2, 9], pa.int32()), "u": tables[0].column("u").take([0, 0, 0])})
    made = [*packed(tables), *packed([people])]
    schema = tables[0].schema.remove(0)
    found = [pa.Table.from_batches([batch]) for batch in in_order(arriving(made), schema)]
    assert all(table.schema.names == tables[0].schema.names for table in found)
    alone = people.append_column("a", pa.nulls(3, pa.string())).append_column("v", pa.nulls(3, pa.float64()))
    assert as_counter(found) == as_counter([*tables, alone])
    order = [(row["place"], row["u"]) for table in found for row in table.select(["place", "u"]).to_pylist()]
    assert order == sorted(order)


@pytest.mark.parametrize("kind", ["near", "text"])
def test_batches_are_the_same_in_memory_and_out_of_core(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task has places of either kind: whichever are sorted how, the batches and so their noise are the same."""
    generator = np.random.default_rng(5)
    tables = [rows_of(generator, kind, 400), rows_of(generator, kind, 400).slice(0, 200)]
    tables[1] = tables[1].filter(pc.equal(tables[1].column("place"), 2))  # one place has more than the others
    schema, plan = tables[0].schema.remove(0), plan_of("counting+laplace", resolution=4, blend=0.0)
    found = []
    for in_memory in (1 << 20, 3000, 0):
        monkeypatch.setattr(pieces, "_IN_MEMORY", in_memory)
        rows = list(in_order(arriving(list(packed(tables))), schema))
        batches = batches_of_places(iter(rows), plan, listed=False, most_rows=30)
        found.append([(place, number, len(people), people.digest()) for place, number, people in batches])
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 4


def test_sizes_of_texts_do_not_matter() -> None:
    """Spark can be told to hand over texts with offsets of 64 bits, and a list of people comes as Spark has it."""
    rows = rows_of(np.random.default_rng(2), "text", 30)
    schema = rows.schema
    wide = schema.set(1, pa.field("u", pa.large_string()))
    people = rows.select(["place", "u"]).cast(wide.remove(3).remove(2))
    wide = wide.set(2, pa.field("a", pa.large_string()))
    made = [*packed([rows]), *packed([people]), *packed([rows.cast(wide)])]
    found = [pa.Table.from_batches([batch]) for batch in in_order(arriving(made), schema.remove(0))]
    assert sum(map(len, found)) == 90
    assert {str(table.schema.field("u").type) for table in found} == {"string"}


def test_nothing_makes_no_piece() -> None:
    assert not list(packed([]))
    assert not list(packed([rows_of(np.random.default_rng(0), "near", 0)]))
    assert not list(in_order(iter([]), pa.schema({"u": pa.int64()})))


@pytest.mark.parametrize("coded", [False, True])
def test_only_attributes_of_a_list_are_packed(coded: bool) -> None:
    rows = rows_of(np.random.default_rng(1), "near", 60)
    work = PackRows(lambda _: iter([rows]), pa.array(["ü", "tea"]), coded=coded)
    schema = rows.schema.remove(0).set(1, pa.field("a", pa.int32() if coded else pa.string()))
    found = [pa.Table.from_batches([batch]) for batch in in_order(arriving(list(work(iter([])))), schema)]
    kept = [row for row in rows.to_pylist() if row["a"] in (None, "ü", "tea")]
    codes = {"ü": 0, "tea": 1, None: None}
    expected = Counter((row["place"], row["u"], codes[row["a"]] if coded else row["a"], row["v"]) for row in kept)
    assert as_counter(found) == expected
    assert 0 < len(kept) < 60


def test_pieces_hold_texts_once_and_numbers_in_32_bits() -> None:
    n = 10_000
    rows = pa.table({
        "place": pa.array(np.zeros(n, np.int32)),
        "u": pa.array(np.arange(n) + (1 << 40)),
        "a": pa.array(["a rather long attribute"] * n),
    })  # fmt: skip
    (batch,) = packed([rows])
    assert len(batch.column("piece")[0].as_buffer()) < 8.3 * n
