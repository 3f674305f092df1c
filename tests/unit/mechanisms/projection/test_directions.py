"""Directions: exact norms, digests and buckets that never change, and what is refused."""

import itertools
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from dimly.errors import ParameterError
from dimly.mechanisms.projection.directions import Buckets, Directions
from dimly.mechanisms.vocabulary import Vocabulary

SEED = bytes(range(32))
MATRICES = arrays(
    np.int64, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.integers(-32767, 32767)
).filter(np.any)


def named(matrix: Any, names: Any = None, **others: Any) -> Directions:
    names = [f"a{number}" for number in range(len(matrix))] if names is None else names
    return Directions("embeddings", "by hand", 128, np.asarray(matrix), Vocabulary.listed(names), **others)


def norms(vectors: Any) -> tuple[int, int]:
    """The largest norms of some vectors, in Python's integers."""
    return (
        max(sum(abs(int(entry)) for entry in vector) for vector in vectors),
        max(sum(int(entry) ** 2 for entry in vector) for vector in vectors),
    )


@given(MATRICES)
def test_norms_are_the_largest_over_all_rows(matrix: Any) -> None:
    found = named(matrix).sensitivity
    assert (found.l1, found.l2_squared) == norms(matrix)


@given(MATRICES.filter(lambda matrix: len(matrix) > 1), st.sampled_from(["", "color_", "color=", "c{}="]))
def test_a_column_can_exchange_any_two_rows_whatever_they_are_called(matrix: Any, name: str) -> None:
    rows = [*matrix.tolist(), [0] * matrix.shape[1]]
    between = norms([np.subtract(one, other) for one, other in itertools.combinations(rows, 2)])
    listed = named(matrix, [f"{name.format(number)}{number}" for number in range(len(matrix))])
    for found in (listed, Directions("learned", "by hand", 1, matrix, None, Buckets(len(matrix)))):
        assert (found.difference.l1, found.difference.l2_squared) == between


@pytest.mark.parametrize(
    ("kind", "matrix", "words"),
    [
        ("weights", [[1, 1]], "at most one number in each row"),
        ("counted weights", [[1, -1]], "at most one number in each row"),
        ("counted weights", [[0, -1]], "must not be negative"),
        ("counted weights", [[1]], "at least 2 directions"),
    ],
)
def test_rows_of_weights_are_those_of_their_family(kind: Any, matrix: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Directions(kind, "by hand", 1, np.array(matrix), Vocabulary.listed(["a"]))


def test_too_many_rows_to_compare_are_bounded() -> None:
    matrix = np.arange(2**15 + 2).reshape(-1, 1) - 2**14
    directions = Directions("learned", "by hand", 1, matrix, None, Buckets(len(matrix)))
    assert directions.difference.l1 == 2 * directions.sensitivity.l1 == 2 * (2**14 + 1)
    assert directions.difference.l2_squared == 4 * directions.sensitivity.l2_squared


@pytest.mark.parametrize(
    ("directions", "digest"),
    [
        pytest.param(
            named([[1, -2], [3, 4]], ["tea", "café"]),
            "45fe2228f6a61b5f0b78bed7dff3dab59f34bb0fa0f8b61a9d7736c8f913b2e1",
            id="named",
        ),
        pytest.param(
            Directions("learned", "x", 7, np.eye(3, dtype=int), None, Buckets(3, SEED, stream=1)),
            "d0d7cd69119eeba2711c78da24031f2f9c8c16d7e75c7a25b198a3f6e31f0070",
            id="buckets",
        ),
        pytest.param(
            Directions("learned", "x", 7, np.eye(3, dtype=int), None, Buckets(3, SEED)),
            "6b4992cc4cdaef7d72ac0304173ae2cf15d815d578e2cd60dcd794c9d74c94ac",
            id="buckets by streams of version 2",
        ),
        pytest.param(
            Directions.of_categories([*"abc"], [*"xyx"], origin="x"),
            "c6dc9421ae6f35e6c4cb38036fcf5a97f2690c5f37bd8f89884659d049996134",
            id="categories",
        ),
        pytest.param(
            Directions.of_weights([*"abc"], [0, 0.5, 1], origin="x", count=4, seed=SEED),
            "4cb482d8e16ccc871d03f86f8661ae0cf71352b4ec7730b2dba87e92e69e7243",
            id="weights",
        ),
    ],
)
def test_digests_never_change(directions: Directions, digest: str) -> None:
    assert directions.digest == digest


def test_buckets_never_change() -> None:
    texts = ["", "0", "42", "tea", "café", "a" * 300]
    assert Buckets(1000, SEED, stream=1).codes(texts).tolist() == [444, 167, 995, 962, 353, 312]
    assert Buckets(1000, SEED).codes(texts).tolist() == [992, 90, 556, 429, 884, 894]
    assert Directions("learned", "x", 1, np.eye(5, dtype=int), None, Buckets(5, SEED)).codes(texts).max() < 5


@pytest.mark.parametrize(
    "other",
    [
        named([[1, -2], [3, 5]], ["tea", "cola"]),
        named([[1, -2], [3, 4]], ["tea", "water"]),
        Directions("learned", "by hand", 128, np.array([[1, -2], [3, 4]]), Vocabulary.listed(["tea", "cola"])),
        Directions("embeddings", "by foot", 128, np.array([[1, -2], [3, 4]]), Vocabulary.listed(["tea", "cola"])),
        Directions("embeddings", "by hand", 64, np.array([[1, -2], [3, 4]]), Vocabulary.listed(["tea", "cola"])),
        Directions("embeddings", "by hand", 128, np.array([[1, -2], [3, 4]]), None, Buckets(2)),
    ],
)
def test_whatever_decides_a_sketch_is_in_the_digest(other: Directions) -> None:
    assert named([[1, -2], [3, 4]], ["tea", "cola"]) != other


def test_attributes_without_a_row_count_nothing() -> None:
    assert named([[1], [2]], ["tea", 42]).codes(["42", "water", "tea"]).tolist() == [1, -1, 0]


def test_a_category_is_one_row_whatever_its_attributes() -> None:
    directions = Directions.of_categories(["tea", "coffee", "rye"], ["drinks", "drinks", "bread"], origin="x")
    assert directions.merges
    assert directions.codes(["coffee", "rye", "tea", "cola"]).tolist() == [0, 1, 0, -1]
    assert directions.matrix.tolist() == [[1, 0], [0, 1]]
    shared = Directions.of_categories(range(40), [number % 20 for number in range(40)], origin="x", count=4)
    assert (len(shared.matrix), shared.count, shared.sensitivity.l1) == (20, 4, 1)


def test_weighted_counting_adds_up_to_the_weights() -> None:
    weights = [0, 0.25, 0.5, 1]
    rows = Directions.of_weights([*"abcd"], weights, origin="x", count=3, family="counting", scale=4).matrix
    assert rows.sum(axis=1).tolist() == [0, 1, 2, 4]
    assert (np.count_nonzero(rows, axis=1) <= 1).all()


def test_the_matrix_cannot_be_changed_afterwards() -> None:
    matrix = np.array([[1, 2]])
    directions = named(matrix)
    matrix[0, 0] = 9
    assert directions.matrix[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        directions.matrix[0, 0] = 9


def test_a_direction_is_described_by_both_of_its_ends() -> None:
    directions = named([[10, 0], [-30, 5], [20, 0], [-5, 0]], ["tea", "cola", "coffee", "beer"])
    first, second = directions.describe(most=2)
    assert first.positive == (("coffee", 20 / 128), ("tea", 10 / 128))
    assert first.negative == (("cola", -30 / 128), ("beer", -5 / 128))
    assert second == ((("cola", 5 / 128),), ())
    bucketed = Directions("learned", "x", 1, np.array([[1], [-2]]), None, Buckets(2))
    assert bucketed.describe()[0].negative == (("bucket 1", -2.0),)
    assert "2 buckets" in repr(bucketed)


VALUES: dict[str, Any] = {"attributes": ["a", "b"], "values": [[1.0, 2.0], [3.0, 4.0]], "origin": "x"}
WEIGHTS: dict[str, Any] = {"attributes": ["a", "b"], "weights": [0.5, 1], "origin": "x", "count": 4}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: named(np.zeros((2, 2), int)), "a row that is not zero"),
        (lambda: named([[1]], ["a", "b"]), "2 rows"),
        (lambda: named([[40_000]]), "within ±32767"),
        (lambda: named([[0.5]]), "matrix of integers"),
        (lambda: named(np.zeros((1, 70_000), int)), "1 to 65536"),
        (lambda: named([[1], [2]], ["a", "a"]), "'a' twice"),
        (lambda: Directions(cast("Any", "random"), "x", 1, np.ones((1, 1), int), Vocabulary.numbered(1)), "kind"),
        (lambda: Directions("learned", " ", 1, np.ones((1, 1), int), Vocabulary.numbered(1)), "origin"),
        (lambda: Directions("learned", "x" * 20_000, 1, np.ones((1, 1), int), Vocabulary.numbered(1)), "10000 char"),
        (lambda: Directions("learned", "x", 0, np.ones((1, 1), int), Vocabulary.numbered(1)), "scale"),
        (lambda: Directions("learned", "x", 1, np.ones((1, 1), int), None), "a vocabulary or buckets"),
        (lambda: named([[1]], categories=("a",)), "for that kind only"),
        (
            lambda: Directions(
                "categories", "x", 1, np.eye(2, dtype=int), Vocabulary.numbered(2), None, ("a", "b"), np.array([0, 0])
            ),
            "at least one attribute",
        ),
        (
            lambda: Directions(
                "categories", "x", 1, np.eye(2, dtype=int), Vocabulary.numbered(2), None, ("a", "a"), np.array([0, 1])
            ),
            "different names",
        ),
        (lambda: Buckets(1), "buckets must be 2"),
        (lambda: Buckets(2, b"short"), "32 bytes"),
        (lambda: Directions.of_values(**VALUES | {"values": [[1, 2], [3]]}), "same length"),
        (lambda: Directions.of_values(**VALUES | {"values": [1, 2]}), "same length"),
        (lambda: Directions.of_values(**VALUES | {"values": [[1, 2], [3, np.nan]]}), "NaN"),
        (lambda: Directions.of_values(**VALUES | {"values": [[1, 2], [3, 400]]}), "within ±255"),
        (lambda: Directions.of_values(**VALUES, scale=cast("Any", 2.5)), "scale"),
        (lambda: Directions.of_weights(**WEIGHTS | {"weights": [0.5, 1.5]}), "in \\[0, 1\\]"),
        (lambda: Directions.of_weights(**WEIGHTS | {"weights": [0.5, np.nan]}), "NaN"),
        (lambda: Directions.of_weights(**WEIGHTS | {"weights": ["x", 1]}), "numbers in \\[0, 1\\]"),
        (lambda: Directions.of_weights(**WEIGHTS | {"weights": [1]}), "one number for each"),
        (lambda: Directions.of_weights(**WEIGHTS, family=cast("Any", "sign")), "hashing or counting"),
        (lambda: Directions.of_weights(range(2**20), np.ones(2**20), origin="x", count=512), "at most 268435456"),
        (lambda: Directions.of_categories([*"ab"], [*"x"], origin="x"), "one for each of 2"),
        (lambda: Directions.of_categories([*"aa"], [*"xy"], origin="x"), "'a' twice"),
    ],
)
def test_what_cannot_be_directions_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()
