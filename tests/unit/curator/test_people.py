import copy
import hashlib
import hmac
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dimly.curator.people import People, Pseudonyms, people_of, user_ids
from dimly.errors import DataError, DimlyError, ParameterError

MARKER = 0.123456  # a private value that no text may quote


def read(table: Any, *, resolution: int = 1, n_columns: int | None = None, attributes: Any = None) -> People:
    return people_of(table, resolution=resolution, n_columns=n_columns, attributes=attributes)[0]


def dense(people: People, width: int) -> NDArray[np.int64]:
    """Return the table that ``people`` stand for, after checking that every attribute is there at most once."""
    table = np.zeros((len(people), width), np.int64)
    assert people.indptr.dtype == np.int64
    assert people.indptr[0] == 0
    for row in range(len(people)):
        own = slice(people.indptr[row], people.indptr[row + 1])
        assert len(set(people.indices[own].tolist())) == len(people.indices[own])
        table[row, people.indices[own]] = 1 if people.values is None else people.values[own]
    return table


BITS = np.array([[1, 0, 0, 1, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 1], [1, 1, 1, 1, 1]])
VALUES = np.array([[0.5, 0, 0, 1, 0.25], [0, 0, 0, 0, 0], [0, 0.1, 0, 0, 0.9], [1, 1, 1, 1, 1]])

Make = Callable[[NDArray[Any]], Any]
FORMATS: dict[str, Make] = {
    "list": lambda table: table.tolist(),
    "array": lambda table: table,
    "Fortran order": np.asfortranarray,
    **{
        f"{name}_{kind}": getattr(scipy.sparse, f"{name}_{kind}")
        for name in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")
        for kind in ("array", "matrix")
    },
}
every_format = pytest.mark.parametrize("make", FORMATS.values(), ids=FORMATS.keys())


# Formats and kinds of numbers are told apart by different code: each format meets one kind, and each kind two formats.
@every_format
def test_bits_are_read_from_every_kind_of_matrix(make: Make) -> None:
    _check_bits(make(BITS.astype(bool)))


@pytest.mark.parametrize("make", [FORMATS["array"], FORMATS["csr_array"]], ids=["array", "csr"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64, np.uint64, np.float32, np.float64])
def test_bits_are_read_from_every_kind_of_number(make: Make, kind: type) -> None:
    _check_bits(make(BITS.astype(kind)))


def _check_bits(table: Any) -> None:
    people = read(table)
    assert people.values is None
    np.testing.assert_array_equal(dense(people, 5), BITS)
    steps = read(table, resolution=10)
    np.testing.assert_array_equal(dense(steps, 5), 10 * BITS)


@every_format
def test_values_are_rounded_to_the_resolution(make: Make) -> None:
    for resolution in (2, 3, 4, 10, 100, 65536):
        people = read(make(VALUES), resolution=resolution)
        assert people.values is not None
        assert people.values.dtype == np.int64
        np.testing.assert_array_equal(dense(people, 5), np.rint(VALUES * resolution))


def test_values_of_few_bits_are_rounded_as_what_they_stand_for() -> None:
    for kind in (np.float16, np.float32, np.longdouble):
        table = np.array([[0.3, 0.75, 1.0, 0.0]], kind)
        expected = np.rint(table.astype(np.float64) * 1000)
        np.testing.assert_array_equal(dense(read(table, resolution=1000), 4), expected)


@given(value=st.floats(0, 1), resolution=st.integers(2, 1 << 16))
def test_rounding_is_to_the_nearest_step_and_stays_within_the_range(value: float, resolution: int) -> None:
    people = read(np.array([[value, 1.0]]), resolution=resolution)
    step = dense(people, 2)[0, 0]
    assert 0 <= step <= resolution
    assert abs(step - value * resolution) <= 0.5


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("make", [make for name, make in FORMATS.items() if not name.startswith(("bsr", "list"))])
def test_tables_without_rows_or_without_columns(make: Make, shape: tuple[int, int]) -> None:
    table = make(np.zeros(shape))
    for resolution in (1, 7):
        people = read(table, resolution=resolution)
        assert len(people) == shape[0]
        assert len(people.indices) == 0
        assert people.indptr.tolist() == [0] * (shape[0] + 1)


REPEATED = {  # person 0 has attribute 2 three times and attribute 0 once
    "coo": lambda data: scipy.sparse.coo_array((data, ([0, 1, 0, 0, 0], [2, 1, 0, 2, 2])), shape=(3, 4)),
    "csr": lambda data: scipy.sparse.csr_array((data[[0, 2, 3, 4, 1]], [2, 0, 2, 2, 1], [0, 4, 5, 5]), shape=(3, 4)),
    "csc": lambda data: scipy.sparse.csc_array((data[[2, 1, 0, 3, 4]], [0, 1, 0, 0, 0], [0, 1, 2, 5, 5]), shape=(3, 4)),
    "bsr": lambda data: scipy.sparse.bsr_array(
        (data[[0, 2, 3, 4, 1]].reshape(5, 1, 1), [2, 0, 2, 2, 1], [0, 4, 5, 5]), shape=(3, 4)
    ),
}


@pytest.mark.parametrize("make", REPEATED.values(), ids=REPEATED.keys())
def test_of_repeated_entries_the_largest_counts_and_not_their_sum(make: Make) -> None:
    bits = make(np.ones(5))
    np.testing.assert_array_equal(dense(read(bits), 4), [[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    assert dense(read(make(np.array([True, True, False, False, True]))), 4)[0].tolist() == [0, 0, 1, 0]
    values = make(np.array([0.2, 0.3, 0.4, 0.7, 0.1]))
    np.testing.assert_array_equal(dense(read(values, resolution=10), 4), [[4, 0, 7, 0], [0, 3, 0, 0], [0, 0, 0, 0]])


def test_the_callers_matrix_stays_as_it_is() -> None:
    table = REPEATED["csr"](np.array([0.2, 0.3, 0.4, 0.7, 0.1]))
    before = [array.copy() for array in (table.data, table.indices, table.indptr)]
    read(table, resolution=10, attributes=["a", "b", "a", "c"])
    for array, kept in zip((table.data, table.indices, table.indptr), before, strict=True):
        np.testing.assert_array_equal(array, kept)


def test_a_matrix_that_has_forgotten_its_repeats_is_not_believed() -> None:
    table = scipy.sparse.csr_array((np.ones(3), np.array([0, 1, 2]), np.array([0, 2, 3])), shape=(2, 3))
    assert table.has_canonical_format  # SciPy remembers the answer
    table.indices[1] = 0
    np.testing.assert_array_equal(dense(read(table), 3), [[1, 0, 0], [0, 0, 1]])


def _broken(kind: str, **parts: object) -> Any:
    table = scipy.sparse.eye_array(3, format=kind)
    for name, part in parts.items():
        setattr(table, name, part)
    return table


def _longer_list() -> Any:
    table = scipy.sparse.lil_array(np.eye(3))
    table.data[0] = [1.0, 1.0]
    return table


BROKEN = {
    "coo-row-beyond": lambda: _broken("coo", coords=(np.array([0, 1, 9]), np.arange(3))),  # made ten people of three
    "coo-row-below": lambda: _broken("coo", coords=(np.array([0, -1, 2]), np.arange(3))),
    "coo-lengths": lambda: _broken("coo", coords=(np.arange(3), np.arange(2))),
    "coo-short": lambda: _broken("coo", coords=(np.arange(2), np.arange(2))),
    "csc-row-beyond": lambda: _broken("csc", indices=np.array([0, 7, 2])),
    "csc-falls": lambda: _broken("csc", indptr=np.array([0, 2, 1, 3])),
    "csc-ends-beyond": lambda: _broken("csc", indptr=np.array([0, 1, 2, 9])),  # SciPy writes beyond its memory
    "csc-lengths": lambda: _broken("csc", indptr=np.array([0, 3])),
    "csr-list": lambda: _broken("csr", data=[1.0, 1.0]),
    "csr-flat": lambda: _broken("csr", data=np.ones((3, 1))),
    "bsr-beyond": lambda: _broken("bsr", indices=np.array([9, 9, 9])),
    "bsr-ends-beyond": lambda: _broken("bsr", indptr=np.array([0, 1, 2, 9])),
    "lil-lengths": _longer_list,
}


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN.keys())
def test_sparse_matrices_of_any_format_must_be_valid(make: Callable[[], Any]) -> None:
    with pytest.raises(DataError, match=r"^the table must be a valid sparse matrix: [a-z ]+\.$"):
        read(make())


def test_columns_may_have_room_to_spare() -> None:
    table = scipy.sparse.csc_array(np.eye(3))
    table.data, table.indices = np.append(table.data, [5.0]), np.append(table.indices, np.int32(77))
    np.testing.assert_array_equal(dense(read(table), 3), np.eye(3))


@pytest.mark.parametrize("kind", [">f8", ">f4", ">i2", ">u8"])
def test_bytes_may_come_in_the_other_order(kind: str) -> None:
    np.testing.assert_array_equal(dense(read(np.eye(3).astype(kind)), 3), np.eye(3))
    table = _broken("csr", data=np.ones(3, kind), indices=np.arange(3).astype(">i4"))
    np.testing.assert_array_equal(dense(read(table), 3), np.eye(3))


def test_unsorted_indices_are_no_repeats() -> None:
    table = scipy.sparse.csr_array((np.array([0.1, 0.2, 0.3]), [2, 0, 1], [0, 3, 3]), shape=(2, 3))
    np.testing.assert_array_equal(dense(read(table, resolution=10), 3), [[2, 3, 1], [0, 0, 0]])


def test_zeros_that_are_stored_are_no_bits() -> None:
    table = scipy.sparse.csr_array((np.array([0, 1, 0, 1, 0]), [0, 1, 2, 0, 2], [0, 3, 3, 5]), shape=(3, 3))
    people = read(table)
    assert len(people.indices) == 2
    np.testing.assert_array_equal(dense(people, 3), [[0, 1, 0], [0, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(dense(read(table, resolution=4), 3), [[0, 4, 0], [0, 0, 0], [4, 0, 0]])


def test_entries_beyond_the_last_row_are_nobodys() -> None:
    table = scipy.sparse.csr_array((np.ones(2), [0, 1], [0, 1, 2]), shape=(2, 2))
    table.data, table.indices = np.ones(3), np.array([0, 1, 7])  # 7 is no column
    np.testing.assert_array_equal(dense(read(table), 2), np.eye(2))


def test_parts_of_different_lengths_are_no_matrix() -> None:
    for part, value in (("data", np.full(1, MARKER)), ("indptr", np.array([0, 1]))):
        table = scipy.sparse.csr_array((np.ones(2), [0, 1], [0, 1, 2]), shape=(2, 2))
        setattr(table, part, value)
        with pytest.raises(DataError, match="parts differ in length") as error:
            read(table)
        secretive(error, 2)


def test_negative_zero_is_zero() -> None:
    table = scipy.sparse.csr_array((np.array([-0.0, 1.0]), [0, 1], [0, 2]), shape=(1, 2))
    for resolution in (1, 3):
        np.testing.assert_array_equal(dense(read(table, resolution=resolution), 2), [[0, resolution]])


def test_columns_with_one_text_are_one_attribute() -> None:
    table = np.array([[1, 0, 0, 1], [0, 0, 1, 0], [1, 1, 1, 0]])
    names = [42, "tea", "42", True]
    people, distinct = people_of(table, resolution=1, n_columns=None, attributes=names)
    assert distinct == ("42", "tea", "true")
    np.testing.assert_array_equal(dense(people, 3), [[1, 0, 1], [1, 0, 0], [1, 1, 0]])
    people, distinct = people_of(
        np.array([[0.2, 0, 0.9, 1], [0.8, 1, 0.3, 0]]), resolution=10, n_columns=None, attributes=iter(names)
    )
    np.testing.assert_array_equal(dense(people, 3), [[9, 0, 10], [8, 10, 0]])


def test_columns_are_numbered_where_they_have_no_names() -> None:
    assert list(people_of(BITS, resolution=1, n_columns=5, attributes=None)[1]) == ["0", "1", "2", "3", "4"]


@given(
    table=st.lists(st.lists(st.integers(0, 7), min_size=6, max_size=6), max_size=5),
    names=st.lists(st.sampled_from([0, "0", 1, "1", "x"]), min_size=6, max_size=6),
    repeats=st.integers(1, 3),
)
def test_merging_is_a_maximum_over_columns_and_entries(table: list[list[int]], names: list[Any], repeats: int) -> None:
    array = np.array(table, np.float64).reshape(-1, 6) / 7
    rows, columns = np.indices(array.shape).reshape(2, -1)
    shares = np.linspace(1, 0.5, repeats)  # the first of the repeats is the largest
    sparse = scipy.sparse.coo_array(
        (np.outer(shares, array.reshape(-1)).reshape(-1), (np.tile(rows, repeats), np.tile(columns, repeats))),
        shape=array.shape,
    )
    people, distinct = people_of(sparse, resolution=7, n_columns=None, attributes=names)
    texts = [str(name) for name in names]
    assert distinct == tuple(dict.fromkeys(texts))
    expected = np.zeros((len(array), len(distinct)), np.int64)
    for column, text in enumerate(texts):
        at = distinct.index(text)
        expected[:, at] = np.maximum(expected[:, at], np.rint(array[:, column] * 7))
    np.testing.assert_array_equal(dense(people, len(distinct)), expected)


def test_people_can_be_put_in_another_order() -> None:
    order = np.array([3, 0, 2, 1])
    for resolution in (1, 20):
        people = read(VALUES > 0 if resolution == 1 else VALUES, resolution=resolution)
        np.testing.assert_array_equal(dense(people.take(order), 5), dense(people, 5)[order])
    assert len(read(np.zeros((0, 3))).take(np.array([], np.int64))) == 0
    assert len(read(np.zeros((3, 0))).take(np.array([2, 1, 0]))) == 3


def secretive(error: pytest.ExceptionInfo[DimlyError], *numbers: object) -> None:
    """Check that an error, and what it was raised from, quotes nothing of the data."""
    text = f"{error.value} {error.value.__cause__ or ''}"
    assert error.value.__cause__ is None
    assert error.value.__context__ is None
    for number in (MARKER, "secret", *numbers):
        assert not re.search(rf"(?<![\w.]){re.escape(str(number))}(?![\w.])", text), text
        assert "0.12" not in text
        assert "secret" not in text


def table_with(value: Any, kind: Any = np.float64) -> NDArray[Any]:
    table = np.zeros((17, 23), kind)
    table[11, 19] = value
    table[11, 20] = 1
    return table


BAD_VALUES = [
    ("a fraction", table_with(MARKER), 1, "for bits: values must be 0 or 1"),
    ("NaN", table_with(np.nan), 1, "must not hold NaN"),
    ("NaN among values", table_with(np.nan), 9, "must not hold NaN"),
    ("infinity", table_with(np.inf), 9, r"lie in \[0, 1\]"),
    ("minus infinity", table_with(-np.inf), 9, r"lie in \[0, 1\]"),
    ("infinity among bits", table_with(np.inf), 1, r"lie in \[0, 1\]"),
    ("above one", table_with(1 + MARKER), 9, r"lie in \[0, 1\]"),
    ("just above one", table_with(np.nextafter(1.0, 2.0)), 9, r"lie in \[0, 1\]"),
    ("negative", table_with(-MARKER), 9, r"lie in \[0, 1\]"),
    ("negative bit", table_with(-1, np.int8), 1, r"lie in \[0, 1\]"),
    ("two", table_with(2, np.uint8), 1, r"lie in \[0, 1\]"),
    ("two among values", table_with(2, np.int64), 9, r"lie in \[0, 1\]"),
    ("the largest integer", table_with(2**64 - 1, np.uint64), 9, r"lie in \[0, 1\]"),
    ("complex", table_with(MARKER * 1j, np.complex128), 9, "booleans or numbers, got complex128"),
]


@pytest.mark.parametrize(
    "make", [FORMATS["array"], FORMATS["csr_array"], FORMATS["coo_matrix"]], ids=["array", "csr", "coo"]
)
@pytest.mark.parametrize(
    ("table", "resolution", "text"), [case[1:] for case in BAD_VALUES], ids=[case[0] for case in BAD_VALUES]
)
def test_values_that_do_not_fit_are_refused_and_not_quoted(
    make: Make, table: NDArray[Any], resolution: int, text: str
) -> None:
    with pytest.raises(DataError, match=text) as error:
        read(make(table), resolution=resolution)
    secretive(error, 11, 17, 19, 23, 2, 253)


BAD_TABLES = [
    ("text", [["secret", "1"]], "booleans or numbers, got str_"),
    ("bytes", np.array([[b"secret"]]), "booleans or numbers, got bytes_"),
    ("objects", [[MARKER, None]], "booleans or numbers, got object_"),
    ("times", np.array([["2024-02-29"]], "M8[D]"), "booleans or numbers, got datetime64"),
    ("a number", MARKER, "two dimensions, people and attributes, got 0"),
    ("one dimension", np.full(17, MARKER), "two dimensions, people and attributes, got 1"),
    ("three dimensions", np.full((17, 3, 2), MARKER), "two dimensions, people and attributes, got 3"),
    ("one sparse dimension", scipy.sparse.coo_array(np.full(17, MARKER)), "two dimensions, got 1"),
    ("ragged rows", [[MARKER, 1.0], [1.0], [0.0]], "rows of one length"),
    (
        "an index beyond the columns",
        scipy.sparse.csr_array((np.ones(1), np.array([1170]), np.array([0, 1])), shape=(1, 17)),
        "indices do not fit its shape",
    ),
    (
        "a negative index",
        scipy.sparse.csr_array((np.ones(1), np.array([-17]), np.array([0, 1])), shape=(1, 23)),
        "indices do not fit its shape",
    ),
    (
        "a row beyond the end",
        scipy.sparse.csr_array((np.ones(2), np.array([0, 1]), np.array([0, 4, 1, 2])), shape=(3, 2)),
        "indices do not fit its shape",
    ),
    (
        "rows that end before they begin",
        scipy.sparse.csr_array((np.ones(2), np.array([0, 1]), np.array([0, 2, 1, 2])), shape=(3, 2)),
        "indices do not fit its shape",
    ),
]


@pytest.mark.parametrize(("table", "text"), [case[1:] for case in BAD_TABLES], ids=[case[0] for case in BAD_TABLES])
@pytest.mark.parametrize("resolution", [1, 9])
def test_what_is_no_table_of_numbers_is_refused_and_not_quoted(table: Any, text: str, resolution: int) -> None:
    with pytest.raises(DataError, match=text) as error:
        read(table, resolution=resolution)
    secretive(error, 17, 23, 1170)


@pytest.mark.parametrize("width", [0, 4, 6])
def test_a_table_of_another_width_than_the_plans_is_refused(width: int) -> None:
    with pytest.raises(DataError, match="must have 5 columns, as the plan says") as error:
        read(np.full((17, width), MARKER), resolution=9, n_columns=5)
    secretive(error, width, 17)


@pytest.mark.parametrize("names", [[], ["a"] * 22, ["a"] * 24])
def test_names_must_be_as_many_as_columns(names: list[str]) -> None:
    with pytest.raises(DataError, match="must name each of the table's columns") as error:
        read(table_with(MARKER), resolution=9, attributes=names)
    secretive(error, 17, 22, 23, 24)


def test_names_must_be_a_list_of_attributes() -> None:
    for text in ("ab", b"ab"):
        with pytest.raises(ParameterError, match="in a fixed order"):
            read(np.zeros((1, 2)), attributes=text)
    with pytest.raises(ParameterError, match="floats"):
        read(np.zeros((1, 1)), attributes=[MARKER])


GOOD_USERS = [
    ("integers", [3, 1, 2], np.int64),
    ("a range", range(3), np.int64),
    ("a tuple", (3, 1, 2), np.int64),
    ("short integers", np.array([3, 1, 2], np.int8), np.int64),
    ("unsigned integers", np.array([3, 1, 2**63 - 1], np.uint64), np.int64),
    ("the limits", [-(2**63), 0, 2**63 - 1], np.int64),
    ("integer objects", np.array([3, np.int16(1), 2], object), np.int64),
    ("text", ["b", "a", "ö"], None),
    ("text of NumPy", np.array(["b", "a", "ö"]), None),
    ("scalars of NumPy", [np.str_("b"), np.str_("a"), "c"], None),
    ("text objects", np.array(["b", "a", "c"], object), None),
    ("strings of NumPy", np.array(["b", "a", "c"], np.dtypes.StringDType()), None),
    ("empty text", ["", " ", "  "], None),
    ("text that ends in zeros", ["a", "a\0", "a\0\0"], None),
]


@pytest.mark.parametrize(("users", "kind"), [case[1:] for case in GOOD_USERS], ids=[case[0] for case in GOOD_USERS])
def test_users_are_integers_or_text(users: Any, kind: type | None) -> None:
    ids = user_ids(users, 3)
    assert ids.dtype == (kind or object)
    assert ids.tolist() == list(users)


def test_users_are_numbered_where_they_have_no_ids() -> None:
    assert user_ids(None, 4).tolist() == [0, 1, 2, 3]
    assert user_ids(None, 0).dtype == user_ids([], 0).dtype == np.int64


def test_the_callers_ids_are_not_shared() -> None:
    for users in (np.arange(3), np.array(["a", "b", "c"], np.dtypes.StringDType())):
        assert not np.shares_memory(user_ids(users, 3), users)


MISSING = np.array(["secret", None, "c"], np.dtypes.StringDType(na_object=None))
BAD_USERS = [
    ("too few", ["secret"], "one id for each row"),
    ("too many", ["secret", "b", "c", "d"], "one id for each row"),
    ("one text", "abc", "one id for each row"),
    ("an iterator", iter([1, 2, 3]), "one id for each row"),
    ("two dimensions", np.zeros((3, 1), np.int64), "one id for each row"),
    ("the same number twice", [771, 5, 771], "must all be different"),
    ("the same text twice", ["secret", "b", "secret"], "must all be different"),
    ("one number as two types", [771, np.int64(771), 5], "must all be different"),
    ("fractions", [771.5, 2.0, 3.0], "integers or text"),
    ("whole fractions", np.array([771.0, 2.0, 3.0]), "integers or text"),
    ("NaN", [771, 2, np.nan], "integers or text"),
    ("booleans", [True, False, True], "integers or text"),
    ("a boolean among integers", [771, 2, True], "integers or text"),
    ("None", ["secret", None, "c"], "integers or text"),
    ("a missing string", MISSING, "integers or text"),
    ("numbers and text", [771, "secret", 3], "integers or text"),
    ("bytes", [b"secret", b"b", b"c"], "integers or text"),
    ("times", np.array(["2024-02-29", "2024-03-01", "2024-03-02"], "M8[D]"), "integers or text"),
    ("spans of time", np.array([771, 2, 3], "m8[D]"), "integers or text"),
    ("lists", [["secret"], [1, 2], []], "integers or text"),
    ("a large integer", [2**63, 1, 2], "fit 64 bits"),
    ("a large unsigned integer", np.array([2**63, 1, 2], np.uint64), "fit 64 bits"),
    ("a very large integer", [2**70, 1, 2], "fit 64 bits"),
    ("a very small integer", [-(2**63) - 1, 1, 2], "fit 64 bits"),
    ("a lone surrogate", ["secret\ud800", "b", "c"], "encodes to UTF-8"),
    ("a lone surrogate of NumPy", np.array(["secret\ud800", "b", "c"]), "encodes to UTF-8"),
]


@pytest.mark.parametrize(("users", "text"), [case[1:] for case in BAD_USERS], ids=[case[0] for case in BAD_USERS])
def test_other_users_are_refused_and_not_quoted(users: Any, text: str) -> None:
    with pytest.raises(DataError, match=text) as error:
        user_ids(users, 3)
    secretive(error, 771, 3, 4, 2**63, 2**70, "2024-02-29")


def test_a_masked_table_is_refused() -> None:
    table = np.ma.masked_array(np.zeros((2, 2)), mask=[[True, False], [False, False]])
    with pytest.raises(DataError, match="must not be masked"):
        people_of(table, resolution=1, n_columns=None, attributes=None)


def test_starts_beyond_the_end_are_no_matrix() -> None:
    table = scipy.sparse.csr_array((2, 3), dtype=np.int8)
    table.indptr = np.array([0, 10**9, 0])
    with pytest.raises(DataError, match="valid sparse matrix"):
        people_of(table, resolution=1, n_columns=None, attributes=None)


KEY = bytes(range(32))


def key_file(folder: Path, key: bytes = KEY, mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_bytes(key)
    path.chmod(mode)
    return path


def test_pseudonyms_are_keyed_hashes(tmp_path: Path) -> None:
    made = Pseudonyms.from_file(key_file(tmp_path)).of(["42", "Zoë", "042"])
    assert made == [hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()[:32] for text in ("42", "Zoë", "042")]
    assert made != Pseudonyms(KEY[::-1]).of(["42", "Zoë", "042"])
    assert len(set(made)) == 3


def test_every_byte_of_the_file_counts(tmp_path: Path) -> None:
    with_line_end = Pseudonyms.from_file(key_file(tmp_path, KEY + b"\n"))
    assert with_line_end.of(["1"]) == Pseudonyms(KEY + b"\n").of(["1"]) != Pseudonyms(KEY).of(["1"])


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640])
def test_a_key_may_belong_to_a_group(tmp_path: Path, mode: int) -> None:
    assert Pseudonyms.from_file(key_file(tmp_path, mode=mode)).of([]) == []


@pytest.mark.parametrize("mode", [0o644, 0o602])
def test_a_key_that_is_open_to_all(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ParameterError, match=r"key must be closed to others: .* chmod o-rwx"):
        Pseudonyms.from_file(key_file(tmp_path, mode=mode))


@pytest.mark.parametrize(
    ("key", "message"), [(KEY[:31], "at least 32 random bytes, got 31"), (bytes(65537), "at most 65536 bytes")]
)
def test_keys_of_a_wrong_length(tmp_path: Path, key: bytes, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Pseudonyms.from_file(key_file(tmp_path, key))


def test_a_key_whose_path_is_none(tmp_path: Path) -> None:
    for name in ("\ud800", "a\0b"):
        with pytest.raises(ParameterError, match="pseudonyms must be a file that can be read"):
            Pseudonyms.from_file(tmp_path / name)


def test_a_key_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"file that can be read, got .*missing") as caught:
        Pseudonyms.from_file(tmp_path / "missing")
    assert caught.value.__context__ is None


def test_the_key_stays_inside() -> None:
    pseudonyms = Pseudonyms(KEY)
    assert repr(pseudonyms) == "<Pseudonyms>"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(pseudonyms)
    with pytest.raises(TypeError, match="cannot be pickled"):
        copy.copy(pseudonyms)
