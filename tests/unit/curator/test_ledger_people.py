from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.curator import ledger_people
from dimly.curator.ledger_people import _meet, tag_chunks
from dimly.errors import DataError, ParameterError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

KEY = bytes(range(32))


def tags(*batches: Any, key: bytes = KEY) -> np.ndarray:
    return np.concatenate([np.empty(0, np.uint64), *tag_chunks(batches, key=key)])


def test_a_tag_is_eight_bytes_of_keyed_blake2b_of_the_text() -> None:
    expected = blake2b("Zoë, 1".encode(), digest_size=8, key=KEY).digest()
    assert tags(["Zoë, 1"]).tolist() == [int.from_bytes(expected, "little")]
    assert tags(["Zoë, 1"], key=bytes(32)).tolist() != tags(["Zoë, 1"]).tolist()


NUMBERS = [7, -3, 42]
TEXTS = ["7", "-3", "42"]


@pytest.mark.parametrize(
    "batch",
    [
        NUMBERS,
        tuple(NUMBERS),
        np.array(NUMBERS),
        np.array(NUMBERS, np.int8),
        np.array(NUMBERS, object),
        pa.array(NUMBERS),
        pa.chunked_array([[7], [-3, 42]]),
        pd.Series(NUMBERS),
        pl.Series(NUMBERS),
        TEXTS,
        np.array(TEXTS),
        np.array(TEXTS, object),
        np.array(TEXTS, np.dtypes.StringDType()),
        pa.array(TEXTS),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS).dictionary_encode(),
        pa.array(TEXTS, pa.string_view()),
        pd.Series(TEXTS),
        pl.Series(TEXTS),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_one_person_is_one_tag_in_whatever_type_the_id_comes(batch: Any) -> None:
    assert tags(batch).tolist() == tags(TEXTS).tolist()


def test_text_is_taken_as_it_is() -> None:
    different = ["42", "042", " 42", "42 ", "+42", "A", "a", "\u00e9", "e\u0301", "x" * 300, "", "a\nb", "a,b", '"a"']
    assert len(set(tags(different).tolist())) == len(different)
    assert tags(np.array([2**64 - 1], np.uint64)).tolist() == tags([str(2**64 - 1)]).tolist()


@given(st.lists(st.lists(st.integers(0, 10**6), max_size=9), max_size=9))
def test_pieces_are_full_sorted_and_hold_everybody(batches: list[list[int]]) -> None:
    everybody = [user for batch in batches for user in batch]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_people, "CHUNK", 4)
        pieces = list(tag_chunks(batches, key=KEY))
    assert [len(piece) for piece in pieces[:-1]] == [4] * (len(pieces) - 1)
    assert all((np.diff(piece.astype(object)) >= 0).all() for piece in pieces)
    assert sorted(np.concatenate(pieces).tolist() if pieces else []) == sorted(tags(everybody).tolist())


def test_batches_are_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_people, "CHUNK", 10)
    taken = 0

    def stream() -> Iterator[list[int]]:
        nonlocal taken
        for start in range(0, 1000, 5):
            taken += 1
            yield list(range(start, start + 5))

    next(tag_chunks(stream(), key=KEY))
    assert taken == 2


@pytest.mark.parametrize(
    "batch",
    [
        [1.5],
        np.array([1.0]),
        [True],
        [b"bytes"],
        [1, "a"],
        [2**64],
        [object()],
        ["\ud800"],
        pa.array([[1]]),
        np.array(["2024-01-01"], "datetime64[D]"),
        np.array([[1, 2]]),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_ids_that_are_neither_integers_nor_text_are_refused_without_quoting_them(batch: Any) -> None:
    with pytest.raises(DataError, match="users must be integers that fit 64 bits, or text") as caught:
        tags(batch)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    "batch", [[1, None], pa.array(["a", None]), np.array(["a", None], object)], ids=lambda batch: type(batch).__name__
)
def test_missing_ids_are_refused(batch: Any) -> None:
    with pytest.raises(DataError, match="users must all have an id, and some have none"):
        tags(batch)


@pytest.mark.parametrize("batch", ["abc", b"abc", 5])
def test_ids_instead_of_batches_of_ids_are_refused(batch: Any) -> None:
    with pytest.raises(ParameterError, match=r"users must come in arrays or lists of ids, got (str|bytes|int)\."):
        tags(batch)


def test_nobody_has_no_tags() -> None:
    assert tags().tolist() == tags([], np.array([]), pa.array([], pa.string())).tolist() == []


SETS = st.lists(st.integers(0, 50) | st.sampled_from([2**63, 2**64 - 1]), min_size=1, max_size=8)


@given(SETS, SETS)
def test_sets_meet_if_they_share_a_tag(one: list[int], two: list[int]) -> None:
    arrays = (np.sort(np.array(each, np.uint64)) for each in (one, two))
    assert _meet(*arrays) == bool(set(one) & set(two))
