"""Values are the same if they are equal, whatever their hashes; memory is bounded; numbers go by first sight."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.curator.tables import kernels
from dimly.curator.tables.dictionary import (
    Dictionary,
    IntegerDictionary,
    NoRoomError,
    RangeDictionary,
    TextDictionary,
)
from dimly.errors import DataError

INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3))
TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(["", "\0", "a", "a\0"])
)


def numbered(one: Dictionary, batches: list[list[Any]], type_: pa.DataType) -> list[int]:
    one.memory = 1 << 30
    return [int(code) for batch in batches for code in one.number(pa.array(batch, type_))]


def check(one: Dictionary, batches: list[list[Any]], type_: pa.DataType) -> None:
    codes = numbered(one, batches, type_)
    rows = [value for batch in batches for value in batch]
    first = {value: number for number, value in enumerate(dict.fromkeys(rows))}
    assert codes == [first[value] for value in rows]
    assert one.size == len(first)
    found = one.values()
    assert found["x"].to_pylist() == list(first)
    assert found["seen"].to_pylist() == list(range(len(first)))
    assert found["n"].to_pylist() == [rows.count(value) for value in first]


@given(st.lists(TEXTS, max_size=3))
def test_texts(batches: list[list[str]]) -> None:
    check(TextDictionary(), batches, pa.string())


@given(st.lists(INTEGERS, max_size=3))
def test_integers(batches: list[list[int]]) -> None:
    check(IntegerDictionary(), batches, pa.int64())


@given(st.lists(st.binary(max_size=40), min_size=1), st.integers(0, 9))
def test_equal_texts_have_equal_hashes_wherever_they_stand(texts: list[bytes], more: int) -> None:
    """At the end of the data a text is read byte by byte, elsewhere in words that reach into the next one."""

    def hashes(*parts: bytes) -> list[int]:
        offsets = np.cumsum([0, *map(len, parts)])
        found = np.empty(len(parts), np.uint64)
        kernels.hash_texts(offsets, np.frombuffer(b"".join(parts), np.uint8), found)
        return [int(one) for one in found]

    alone = {text: hashes(text)[0] for text in texts}
    assert hashes(*texts, b"\xff" * more)[: len(texts)] == [alone[text] for text in texts]
    assert len(set(alone.values())) == len(alone)


def test_a_slice_of_an_array_has_its_own_texts() -> None:
    one = TextDictionary()
    one.memory = 1 << 20
    assert one.number(pa.array(["tea", "jam", "tea", "café"])[1:]).tolist() == [0, 1, 2]
    assert one.values()["x"].to_pylist() == ["jam", "tea", "café"]


def test_a_range_counts_from_its_least() -> None:
    one = RangeDictionary(-5, 40)
    assert numbered(one, [[3, -5], [40, 3]], pa.int64()) == [8, 0, 45, 8]
    assert RangeDictionary.bytes_for(-5, 40) == one.nbytes
    assert one.size == 46
    assert one.values().to_pydict() == {"x": [-5, 3, 40], "seen": [0, 8, 45], "n": [1, 2, 1]}
    for outside in (-6, 41, 2**63 - 1, -(2**63)):
        with pytest.raises(DataError, match="same rows"):
            one.number(pa.array([outside]))


@pytest.mark.parametrize("kept_bits", [0, 24, 40])
def test_texts_whose_hashes_agree_are_told_apart(kept_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the hash, its place alone or its tag alone."""
    hashed = kernels.hash_texts

    def agreeing(offsets: Any, data: Any, out: Any) -> None:
        hashed(offsets, data, out)
        out &= np.uint64((1 << kept_bits) - 1) if kept_bits != 40 else ~np.uint64(0xFFFFFF)

    monkeypatch.setattr(kernels, "hash_texts", agreeing)
    texts = [f"{'person' * (n % 4)} {n}" for n in range(900)]
    check(TextDictionary(), [texts, texts[::-1], texts[:7] * 3], pa.string())


def test_too_many_that_agree_leave_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "hash_texts", lambda *given: given[-1].fill(7))
    with pytest.raises(NoRoomError):
        numbered(TextDictionary(), [[str(n) for n in range(2000)]], pa.string())


def test_integers_that_agree_leave_no_room() -> None:
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    # mixed = n < 2^20, so that hashes differ in the tag alone
    colliding = np.array([(n * inverse) % (1 << 64) for n in range(2000)], np.uint64).view(np.int64)
    check(IntegerDictionary(), [colliding[:900].tolist() * 2], pa.int64())
    with pytest.raises(NoRoomError):
        numbered(IntegerDictionary(), [colliding.tolist()], pa.int64())


@pytest.mark.parametrize(("one", "value"), [(TextDictionary(), "person {}".format), (IntegerDictionary(), int)])
def test_memory_is_bounded(one: Dictionary, value: Any) -> None:
    def fill() -> None:
        for start in range(0, 100_000, 1_000):
            one.number(pa.array([value(n) for n in range(start, start + 1_000)]))
            assert one.nbytes <= one.memory

    one.memory = 1 << 20
    with pytest.raises(NoRoomError):
        fill()
    assert one.size > 10_000


def test_many_values_survive_growing() -> None:
    numbers = np.random.default_rng(0).permutation(60_000)
    check_all = [f"p{n}" * (1 + n % 5) for n in numbers.tolist()]
    texts, integers = TextDictionary(), IntegerDictionary()
    for _ in range(2):
        assert numbered(texts, [check_all], pa.string()) == list(range(60_000))
        assert numbered(integers, [numbers.tolist()], pa.int64()) == list(range(60_000))
    assert texts.values()["x"].to_pylist() == check_all
    found = integers.values()
    assert found["x"].to_pylist() == numbers.tolist()
    assert found["n"].to_pylist() == [2] * 60_000
