"""Sketches equal a plain matrix product, whatever the batch, and bad input never reaches the kernels."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dimly.errors import ParameterError
from dimly.mechanisms.projection.random_matrix import Projection
from dimly.mechanisms.projection.rows import DenseRows, HashedRows, Rows
from dimly.mechanisms.vocabulary import Vocabulary

SEED = bytes(range(32))
D = 30
ROWS: dict[str, Rows] = {
    "counting": Projection("counting", 7, 1, SEED).rows(Vocabulary.numbered(D)),
    "hashing": Projection("hashing", 7, 1, SEED).rows(Vocabulary.numbered(D)),
    "sparse": Projection("sparse", 8, 4, SEED).rows(Vocabulary.numbered(D)),
    "dasgupta": Projection("dasgupta", 5, 9, SEED).rows(Vocabulary.numbered(D)),
    "sign": Projection("sign", 70, 1, SEED).rows(Vocabulary.numbered(D)),
    "ternary": Projection("ternary", 9, 1, SEED).rows(Vocabulary.numbered(D)),
    "gaussian-int16": Projection("gaussian", 9, 1, SEED, 8).rows(Vocabulary.numbered(D)),
    "gaussian-int32": Projection("gaussian", 9, 1, SEED, 20).rows(Vocabulary.numbered(D)),
}
every_rows = pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
Array = NDArray[Any]


def reference(rows: Rows, indptr: Array, indices: Array, values: Array | None) -> Array:
    people = np.zeros((len(indptr) - 1, len(rows)), dtype=np.int64)
    factors = np.ones(len(indices), dtype=np.int64) if values is None else values
    for i in range(len(indptr) - 1):
        part = slice(indptr[i], indptr[i + 1])
        np.add.at(people[i], indices[part], factors[part])
    return people @ rows.to_dense()


@st.composite
def batches(draw: st.DrawFn) -> tuple[Array, Array, Array | None]:
    """People with no, few or repeated attributes, of any integer type, with or without values."""
    people = draw(st.lists(st.lists(st.integers(0, D - 1), max_size=12), max_size=6))
    index_type = draw(st.sampled_from([np.int32, np.int64, np.uint8, np.uint32]))
    indices = np.array([index for person in people for index in person], dtype=index_type)
    indptr = np.cumsum([0] + [len(person) for person in people])
    if draw(st.booleans()):
        return indptr, indices, None
    large = draw(st.sampled_from([1, 3, 1000, 2**31, 2**35]))
    numbers = draw(st.lists(st.integers(-large, large), min_size=len(indices), max_size=len(indices)))
    return indptr, indices, np.array(numbers, dtype=np.int64)


@every_rows
@given(batch=batches())
@settings(max_examples=60, deadline=None)
@pytest.mark.thorough(but=2)
def test_project_is_the_matrix_product(rows: Rows, batch: tuple[Array, Array, Array | None]) -> None:
    indptr, indices, values = batch
    sketches = rows.project(indptr, indices, values)
    assert sketches.dtype == np.int64
    assert np.array_equal(sketches, reference(rows, indptr, indices, values))


@every_rows
@given(batch=batches(), data=st.data())
@settings(max_examples=30, deadline=None)
@pytest.mark.thorough(but=2)
def test_splitting_a_batch_changes_nothing(
    rows: Rows, batch: tuple[Array, Array, Array | None], data: st.DataObject
) -> None:
    indptr, indices, values = batch
    cut = data.draw(st.integers(0, len(indptr) - 1))
    # The second part keeps its offsets, as a slice of an Arrow list does.
    parts = [rows.project(indptr[: cut + 1], indices, values), rows.project(indptr[cut:], indices, values)]
    assert np.array_equal(np.vstack(parts), rows.project(indptr, indices, values))


@pytest.mark.parametrize("entry", [1, -1])
@pytest.mark.parametrize("value", [1, 2**7, 2**8, 2**23, 2**24, 2**54])
def test_sums_are_exact_where_narrow_types_end(entry: int, value: int) -> None:
    # 127 to 129 times 2^8 and 2^24 pass the ends of int16 and of int32.
    rows = DenseRows(np.full((1, 3), entry, dtype=np.int8))
    for count in (127, 128, 129, 255, 256, 257):
        indptr, indices = np.array([0, count]), np.zeros(count, dtype=np.int32)
        sketches = rows.project(indptr, indices, np.full(count, value))
        assert sketches.tolist() == [[entry * count * value] * 3]


@pytest.mark.parametrize("count", [32_766, 32_767, 32_768, 70_000])
def test_many_ones_do_not_overflow(count: int) -> None:
    rows = DenseRows(np.full((1, 2), -1, dtype=np.int8))
    assert rows.project(np.array([0, count]), np.zeros(count, dtype=np.int32)).tolist() == [[-count] * 2]


def test_the_widest_entries_and_collisions_add_up() -> None:
    wide = DenseRows(np.array([[-(2**31), 2**31 - 1]], dtype=np.int32))
    assert wide.project(np.array([0, 3]), np.zeros(3, dtype=np.int64)).tolist() == [[-3 * 2**31, 3 * (2**31 - 1)]]
    hashed = HashedRows(3, np.array([[1, 1, 2]], dtype=np.int32), np.array([[1, 1, -1]], dtype=np.int8))
    assert hashed.to_dense().tolist() == [[0, 2, -1]]
    assert (hashed.l1, hashed.l2_squared) == (3, 5)
    assert hashed.project(np.array([0, 1]), np.array([0]), np.array([5])).tolist() == [[0, 10, -5]]


@every_rows
def test_out_is_overwritten_and_returned(rows: Rows) -> None:
    indptr, indices = np.array([0, 2, 2, 5]), np.array([1, 2, 3, 3, 0])
    out = np.full((3, rows.k), 99, dtype=np.int64)
    assert rows.project(indptr, indices, out=out) is out
    assert np.array_equal(out, reference(rows, indptr, indices, None))


@every_rows
def test_threads_agree(rows: Rows) -> None:
    generator = np.random.default_rng(5)
    indptr, indices = np.arange(0, 3001, 10), generator.integers(0, D, 3000)
    expected = rows.project(indptr, indices)
    with ThreadPoolExecutor(4) as pool:
        for sketches in pool.map(lambda _: rows.project(indptr, indices), range(16)):
            assert np.array_equal(sketches, expected)


@every_rows
def test_arrays_that_are_strided_or_read_only(rows: Rows) -> None:
    indptr, indices = np.array([0, 9, 2, 9, 4])[::2], np.arange(4)
    indices.flags.writeable = False  # as Arrow hands them out
    values = np.arange(8)[::-2]
    assert np.array_equal(rows.project(indptr, indices, values), reference(rows, indptr, indices, values))


@pytest.mark.parametrize(
    "indptr",
    [[], [-1, 2], [0, 4], [0, 2, 1, 3], [2, 0], [1, -(2**63), -1, 3]],
    ids=["empty", "negative", "long", "falls", "reversed", "wraps"],
)
def test_a_wrong_indptr_is_refused(indptr: list[int]) -> None:
    with pytest.raises(ParameterError, match="indptr must rise"):
        ROWS["sign"].project(np.array(indptr, dtype=np.int64), np.zeros(3, dtype=np.int64))


@every_rows
@pytest.mark.parametrize("index", [-1, D, 2**40, -(2**40)])
def test_an_index_out_of_range_is_refused(rows: Rows, index: int) -> None:
    with pytest.raises(ParameterError, match="indices must be ≥ 0 and below"):
        rows.project(np.array([0, 2]), np.array([0, index]))


def test_indices_that_no_person_uses_are_not_read() -> None:
    rows = ROWS["sign"]
    alone = rows.project(np.array([0, 1]), np.array([4]))
    assert np.array_equal(rows.project(np.array([1, 2]), np.array([-1, 4, 10**6])), alone)


@pytest.mark.parametrize("name", ["indptr", "indices", "values"])
@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(2),
        np.zeros((2, 1), np.int64),
        np.zeros(2, np.uint64),
        np.zeros(2, bool),
        np.array(["a", "b"]),
    ],
    ids=["floats", "matrix", "uint64", "bool", "text"],
)
def test_arrays_must_be_flat_integers(name: str, wrong: Array) -> None:
    arguments = {name_: np.zeros(2, dtype=np.int64) for name_ in ("indptr", "indices", "values")} | {name: wrong}
    with pytest.raises(ParameterError, match=f"^{name} must be a flat array of integers"):
        ROWS["hashing"].project(**arguments)


def test_values_must_match_indices() -> None:
    with pytest.raises(ParameterError, match="as long as indices"):
        ROWS["hashing"].project(np.array([0, 2]), np.array([0, 1]), np.array([1]))


@pytest.mark.parametrize("name", ["hashing", "dasgupta", "sign", "gaussian-int32"])
@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_values_whose_sums_might_overflow_are_refused(name: str, value: int) -> None:
    with pytest.raises(ParameterError, match="small enough for 64-bit sums"):
        ROWS[name].project(np.array([0, 2]), np.array([0, 1]), np.array([value, 0]))


def _read_only(shape: tuple[int, int]) -> Array:
    array = np.zeros(shape, dtype=np.int64)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((1, 7), np.int32),
        np.zeros((2, 7), np.int64),
        np.zeros((1, 8), np.int64),
        np.zeros((1, 14), np.int64)[:, ::2],
        _read_only((1, 7)),
    ],
    ids=["type", "people", "k", "strided", "read-only"],
)
def test_a_wrong_out_is_refused(out: Array) -> None:
    with pytest.raises(ParameterError, match="out must be a writeable contiguous int64 array"):
        ROWS["hashing"].project(np.array([0, 1]), np.array([0]), out=out)
