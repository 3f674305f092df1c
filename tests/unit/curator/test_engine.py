import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plans import N_ATTRIBUTES, plan_of
from tests.streams import NO_NOISE

from dimly.curator import engine as local
from dimly.curator.engine import Batch, LocalEngine, cut_batches, people_of_sorted
from dimly.curator.options import Resources, Silence
from dimly.curator.people import people_of
from dimly.curator.perturb import ListedTexts, Perturber
from dimly.curator.tables.matrix import MatrixTable
from dimly.curator.tables.numbered_table import NumberedRows
from dimly.errors import DataError
from dimly.mechanisms import Plan, Vocabulary
from dimly.release import format as layouts

NAMES = Vocabulary.numbered(N_ATTRIBUTES)


def coded(users: list[int], attributes: list[int], values: list[float] | None = None) -> NumberedRows:
    numbers = None if values is None else np.array(values)
    return NumberedRows.of(np.array(users, np.int64), np.array(attributes, np.int64), numbers)


def chunks_of(rows: NumberedRows, size: int) -> Iterator[NumberedRows]:
    for start in range(0, len(rows), size):
        yield rows.slice(start, start + size)


def flat(batches: list[Batch]) -> list[tuple[int, int]]:
    return [(key >> 32, key & 0xFFFFFFFF) for batch in batches for piece in batch.pieces for key in piece.keys.tolist()]


@given(
    counts=st.lists(st.integers(0, 6), min_size=1, max_size=40),
    chunk=st.integers(1, 30),
    step=st.integers(1, 12),
    most=st.integers(1, 20),
)
def test_batches_are_whole_people_in_order_and_never_cross_a_step(
    counts: list[int], chunk: int, step: int, most: int
) -> None:
    users = np.repeat(np.arange(len(counts)), counts).tolist()
    rows = coded(users, list(range(len(users))))
    batches = list(cut_batches(chunks_of(rows, chunk), n_users=len(counts), step=step, most_rows=most))
    assert [batch.first for batch in batches] == [0, *(batch.stop for batch in batches[:-1])]
    assert batches[-1].stop == len(counts)
    assert flat(batches) == list(zip(users, range(len(users)), strict=True))
    for batch in batches:
        assert batch.first < batch.stop
        assert batch.first // step == (batch.stop - 1) // step
        found = [user for user, _ in flat([batch])]
        assert all(batch.first <= user < batch.stop for user in found)
        # Larger than allowed only by what one chunk added, or because one person has it all.
        assert len(found) <= most + chunk or len(set(found)) == 1


def test_one_person_may_have_more_rows_than_a_batch() -> None:
    rows = coded([0] * 50 + [1], [*range(50), 3])
    batches = list(cut_batches(chunks_of(rows, 7), n_users=3, step=8, most_rows=10))
    assert [(batch.first, batch.stop) for batch in batches] == [(0, 3)] or batches[0].stop == 1
    assert flat(batches) == [*((0, i) for i in range(50)), (1, 3)]


def test_many_rows_of_one_person_are_held_once_each() -> None:
    """Whoever visits the same place a million times takes the memory of one visit, beyond what a batch may have."""
    rows = coded([0] * 500 + [1], [*sorted([*range(5)] * 100), 3])
    batches = list(cut_batches(chunks_of(rows, 7), n_users=3, step=8, most_rows=10))
    assert max(sum(map(len, batch.pieces)) for batch in batches) < 100
    assert sorted(set(flat(batches))) == [*((0, i) for i in range(5)), (1, 3)]


def test_rows_with_values_count_twice_because_they_take_twice_the_memory() -> None:
    users = list(range(40))
    batches = list(cut_batches(chunks_of(coded(users, users, [0.5] * 40), 2), n_users=40, step=40, most_rows=10))
    assert max(sum(map(len, batch.pieces)) for batch in batches) <= 6
    assert flat(batches) == list(zip(users, users, strict=True))


def test_many_values_of_one_person_are_held_once_each_with_the_largest() -> None:
    attributes = sorted([*range(5)] * 100)
    values = [(i % 100) / 100 if i % 7 else math.nan for i in range(500)]
    rows = coded([0] * 500 + [1], [*attributes, 3], [*values, 0.25])
    whole = people_of_sorted(Batch(0, 3, [rows]), resolution=1000)
    batches = list(cut_batches(chunks_of(rows, 7), n_users=3, step=8, most_rows=10))
    assert max(sum(map(len, batch.pieces)) for batch in batches) < 120
    found = [people_of_sorted(batch, resolution=1000) for batch in batches]
    assert np.concatenate([people.indices for people in found]).tolist() == whole.indices.tolist()
    steps = np.concatenate([np.asarray(people.values) for people in found])
    assert steps.tolist() == np.asarray(whole.values).tolist() == [990, 990, 990, 980, 990, 250]


def test_nobody_has_rows() -> None:
    batches = list(cut_batches(iter(()), n_users=5, step=2))
    assert [(batch.first, batch.stop, batch.pieces) for batch in batches] == [(0, 2, []), (2, 4, []), (4, 5, [])]


def test_repeats_are_one_attribute_and_the_largest_value_counts() -> None:
    rows = coded([3, 3, 3, 5, 5], [1, 1, 4, 4, 4], [0.5, 1.0, 0.25, 0.0, 0.5])
    people = people_of_sorted(Batch(3, 7, list(chunks_of(rows, 2))), resolution=4)
    assert people.indptr.tolist() == [0, 2, 2, 3, 3]
    assert people.indices.tolist() == [1, 4, 4]
    assert people.values is not None
    assert people.values.tolist() == [4, 1, 2]


def test_steps_of_a_matrix_are_taken_as_they_are() -> None:
    people, names = people_of(np.array([[0.25, 0.0, 1.0], [0.0, 0.5, 0.0]]), resolution=8, n_columns=3, attributes=None)
    table = MatrixTable(people, np.arange(2), names, resolution=8)
    (rows,) = table.rows()
    assert rows.values is not None
    assert rows.values.tolist() == [2, 8, 4]
    found = people_of_sorted(Batch(0, 2, list(chunks_of(rows, 2))), resolution=8)
    assert (found.indices.tolist(), np.asarray(found.values).tolist()) == ([0, 2, 1], [2, 8, 4])
    twice = NumberedRows.of(np.zeros(2, np.int64), np.zeros(2, np.int64), np.array([8, 8]), in_steps=True)
    with pytest.raises(DataError, match="must be in the order of people and attributes"):
        people_of_sorted(Batch(0, 1, [twice]), resolution=8)


def test_without_values_an_attribute_is_one() -> None:
    rows = coded([0, 0, 1], [2, 2, 2])
    assert people_of_sorted(Batch(0, 2, [rows]), resolution=1).values is None
    values = people_of_sorted(Batch(0, 2, [rows]), resolution=8).values
    assert values is not None
    assert values.tolist() == [8, 8]


class Memory:
    """A table and the parts of its release, both in memory."""

    def __init__(self, n_users: int, rows: NumberedRows, chunk: int = 5) -> None:
        self.n_users = n_users
        self._rows = rows
        self._chunk = chunk
        self.parts: dict[int, tuple[list[int], np.ndarray]] = {}
        self.lock = threading.Lock()

    def users(self, start: int, stop: int) -> pa.Array:
        return pa.array(range(start, stop))

    def rows(self) -> Iterator[NumberedRows]:
        return chunks_of(self._rows, self._chunk)

    def texts(self) -> ListedTexts:
        return ListedTexts(NAMES)

    def write_part(self, index: int, users: pa.Array, values: np.ndarray) -> None:
        with self.lock:
            assert index not in self.parts
            self.parts[index] = (users.to_pylist(), values)

    @property
    def values(self) -> np.ndarray:
        return np.concatenate([self.parts[index][1] for index in sorted(self.parts)])


class Watching(Silence):
    def __init__(self) -> None:
        self.total = 0
        self.done = 0

    def start(self, n_users: int) -> None:
        self.total = n_users

    def advance(self, n_users: int) -> None:
        self.done += n_users


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "_MOST_USERS", 8)


def table() -> tuple[np.ndarray, NumberedRows]:
    matrix = (np.random.default_rng(1).random((37, N_ATTRIBUTES)) < 0.2).astype(np.int64)
    matrix[5] = 0
    matrix[16:24] = 0  # a part in which nobody has anything
    users, attributes = matrix.nonzero()
    return matrix, coded(users.tolist(), attributes.tolist())


def publish(plan: Plan, memory: Memory, threads: int, watching: Watching | None = None) -> None:
    engine = LocalEngine(plan, Resources.of(threads=threads), watching or Watching(), lambda: NO_NOISE)
    engine.publish(memory, memory)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("threads", [1, 3])
def test_parts_hold_everybody_in_order(threads: int) -> None:
    plan = plan_of("hashing+laplace")
    matrix, rows = table()
    memory, watching = Memory(len(matrix), rows), Watching()
    publish(plan, memory, threads, watching)
    assert [memory.parts[index][0] for index in range(5)] == [
        list(range(start, min(start + 8, 37))) for start in range(0, 37, 8)
    ]
    np.testing.assert_array_equal(memory.values, matrix @ plan.rows(NAMES).to_dense())
    assert (watching.total, watching.done) == (37, 37)


@pytest.mark.usefixtures("small_parts")
def test_noisy_distances_are_cut_by_people_too() -> None:
    plan = plan_of("noisy-distances")
    matrix, rows = table()
    memory = Memory(len(matrix), rows)
    publish(plan, memory, 2)
    expected = [((matrix[i] - matrix[j]) ** 2).sum() for i in range(37) for j in range(i + 1, 37)]
    np.testing.assert_array_equal(memory.values, expected)
    assert [len(part[0]) for part in memory.parts.values()] == [8, 8, 8, 8, 5]
    assert len(memory.parts[4][1]) == 4 + 3 + 2 + 1


@pytest.mark.parametrize("where", ["rows", "perturber", "parts"])
def test_the_first_failure_ends_the_run_and_nothing_is_spent_before_there_is_something_to_draw_with(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of("counting+laplace")
    matrix, rows = table()

    def fail(*_: Any, **__: Any) -> Any:
        raise DataError("no more")

    spent: list[bool] = []
    memory = Memory(len(matrix), rows)
    if where == "rows":
        memory.rows = fail  # type: ignore[method-assign]
    if where == "perturber":
        monkeypatch.setattr(Perturber, "numbered", fail)
    if where == "parts":
        memory.write_part = fail  # type: ignore[method-assign]
    engine = LocalEngine(plan, Resources.of(threads=2), Silence())
    with pytest.raises(DataError, match="no more"):
        engine.publish(memory, memory, before_noise=lambda: spent.append(True))
    assert spent == ([True] if where == "parts" else [])


def test_rows_are_let_go_before_they_are_perturbed(small_parts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[Batch] = []

    def reading(batch: Batch, *, resolution: int) -> Any:
        batches.append(batch)
        return people_of_sorted(batch, resolution=resolution)

    def perturb(*args: Any, **options: Any) -> Any:
        assert batches[-1].pieces == []
        return perturbed(*args, **options)

    perturbed = Perturber.perturb
    monkeypatch.setattr(local, "people_of_sorted", reading)
    monkeypatch.setattr(Perturber, "perturb", perturb)
    matrix, rows = table()
    publish(plan_of("counting+laplace"), Memory(len(matrix), rows), 1)
    assert len(batches) > 1
