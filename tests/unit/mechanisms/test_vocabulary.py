"""One attribute, one text; and public lists of attributes."""

import hashlib
import pickle
import sys
import tracemalloc
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.errors import ParameterError
from dimly.mechanisms.vocabulary import Vocabulary, _found_twice, attribute_text

EAST, WEST = (timezone(timedelta(hours=hours)) for hours in (5, -5))


class Drink(str, Enum):  # noqa: UP042 - people have these, and str() of one is not its value
    TEA = "tea"


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("tea", "tea"),
        ("", ""),
        (" Tea ", " Tea "),
        ("café", "café"),
        (np.str_("tea"), "tea"),
        (Drink.TEA, "tea"),
        (42, "42"),
        (-7, "-7"),
        (np.int8(-7), "-7"),
        (np.uint64(2**64 - 1), "18446744073709551615"),
        (Level.HIGH, "3"),
        (True, "true"),
        (np.False_, "false"),
        (date(2024, 2, 29), "2024-02-29"),
        (np.datetime64("2024-02-29"), "2024-02-29"),
        (np.datetime64("2024-02"), "2024-02-01"),
        (np.datetime64("2024"), "2024-01-01"),
        (datetime(2024, 2, 29), "2024-02-29T00:00:00"),
        (np.datetime64("2024-02-29T00"), "2024-02-29T00:00:00"),
        (np.datetime64("2024-02-29T00:00:00.000000000"), "2024-02-29T00:00:00"),
        (datetime(2024, 2, 29, 1, 2, 3, 250_000), "2024-02-29T01:02:03.25"),
        (np.datetime64("2024-02-29T01:02:03.250"), "2024-02-29T01:02:03.25"),
        (datetime(2024, 2, 29, 1, tzinfo=timezone(timedelta(hours=1))), "2024-02-29T00:00:00+00:00"),
        (datetime(2024, 2, 29, 0, 0, 0, 500_000, tzinfo=UTC), "2024-02-29T00:00:00.5+00:00"),
    ],
)
def test_canonical_text(value: object, text: str) -> None:
    assert attribute_text(value) == text
    assert type(attribute_text(value)) is str


def test_a_number_and_its_text_are_one_attribute() -> None:
    assert attribute_text(42) == attribute_text("42") == attribute_text(np.int64(42))


@pytest.mark.parametrize("value", [1.5, 2.0, float("nan"), np.float32(1)])
def test_floats_are_refused(value: object) -> None:
    with pytest.raises(ParameterError, match="Engines print floats differently"):
        attribute_text(value)


@pytest.mark.parametrize("value", [None, b"tea", Decimal(1), time(1), ("a",), 1j, np.timedelta64(1, "s")])
def test_other_types_are_refused_by_the_name_of_their_type(value: object) -> None:
    with pytest.raises(ParameterError, match=f"got {type(value).__name__}"):
        attribute_text(value)


def test_a_missing_time_is_refused() -> None:
    with pytest.raises(ParameterError, match="missing"):
        attribute_text(np.datetime64("NaT", "s"))


@pytest.mark.parametrize("value", [datetime(1, 1, 1, 4, tzinfo=EAST), datetime(9999, 12, 31, 23, tzinfo=WEST)])
def test_a_time_that_utc_does_not_have_is_refused(value: datetime) -> None:
    with pytest.raises(ParameterError, match="of the years 1 to 9999 in UTC") as caught:
        attribute_text(value)
    assert caught.value.__context__ is None


def test_a_lone_surrogate_is_refused_and_not_quoted() -> None:
    with pytest.raises(ParameterError, match="lone surrogates") as caught:
        attribute_text("tea\ud800")
    assert "tea" not in str(caught.value)


def test_numbered_equals_listed_with_the_same_content() -> None:
    numbered, listed = Vocabulary.numbered(12), Vocabulary.listed([str(i) for i in range(12)])
    assert numbered == listed
    assert hash(numbered) == hash(listed)
    assert numbered.digest == listed.digest
    assert numbered.attributes == listed.attributes
    assert list(numbered) == list(listed)
    assert numbered[2:11:3] == listed[2:11:3] == ["2", "5", "8"]
    assert numbered[-1] == listed[-1] == "11"


def test_different_content_differs() -> None:
    assert Vocabulary.numbered(3) != Vocabulary.numbered(4)
    assert Vocabulary.listed(["a", "b"]) != Vocabulary.listed(["b", "a"])
    assert Vocabulary.listed(["ab", "c"]).digest != Vocabulary.listed(["a", "bc"]).digest
    assert Vocabulary.numbered(1) != ("0",)


def test_the_digest_is_over_length_and_text_of_each() -> None:
    joined = b"\x01\x00\x00\x00a\x05\x00\x00\x00caf\xc3\xa9"
    assert Vocabulary.listed(["a", "café"]).digest == hashlib.sha256(joined).hexdigest()


def test_the_digest_does_not_depend_on_how_it_is_chunked() -> None:
    size = 40_000  # several chunks
    joined = b"".join(len(str(i)).to_bytes(4, "little") + str(i).encode() for i in range(size))
    assert Vocabulary.numbered(size).digest == hashlib.sha256(joined).hexdigest()


def test_a_large_numbered_vocabulary_costs_nothing_until_asked() -> None:
    vocabulary = Vocabulary.numbered(10**15)
    assert len(vocabulary) == 10**15
    assert vocabulary[10**14] == "1" + "0" * 14
    assert vocabulary.index_of(10**15 - 1) == 10**15 - 1
    assert vocabulary.index_of(10**15) == -1


@pytest.mark.parametrize("text", ["007", "+7", "-1", " 7", "٧", "7.0", "", "1e3", "12", "9" * 5000])
def test_a_numbered_vocabulary_knows_canonical_numbers_only(text: str) -> None:
    assert Vocabulary.numbered(12).index_of(text) == -1
    assert text not in Vocabulary.numbered(12)


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8")), min_size=1, unique=True))
def test_listed_round_trips(texts: list[str]) -> None:
    vocabulary = Vocabulary.listed(texts)
    assert vocabulary.attributes == tuple(texts)
    assert vocabulary.codes(vocabulary).tolist() == list(range(len(texts)))
    assert all(text in vocabulary for text in texts)


@given(st.lists(st.integers(-5, 30), max_size=20), st.integers(1, 25))
def test_codes_of_numbers_agree_by_every_way(numbers: list[int], size: int) -> None:
    expected = [number if 0 <= number < size else -1 for number in numbers]
    numbered, listed = Vocabulary.numbered(size), Vocabulary.listed(range(size))
    for vocabulary in (numbered, listed):
        for given_as in (numbers, map(str, numbers), np.array(numbers, dtype=np.int16)):
            codes = vocabulary.codes(given_as)
            assert codes.dtype == np.int64
            assert codes.tolist() == expected


def test_codes_of_unsigned_numbers_beyond_64_bits_signed() -> None:
    assert Vocabulary.numbered(5).codes(np.array([4, 2**64 - 1], dtype=np.uint64)).tolist() == [4, -1]


def test_duplicates_are_named() -> None:
    with pytest.raises(ParameterError, match="'42' twice"):
        Vocabulary.listed(["tea", 42, "42"])


def test_a_long_list_is_checked_in_less_memory_than_it_takes() -> None:
    names = [f"place {number}" for number in range(50_000)]
    tracemalloc.start()
    listed = Vocabulary.listed(names)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 * len(names)  # a set of them would take 64 bytes each
    assert listed.nbytes == sum(sys.getsizeof(name) + 8 for name in names)
    assert Vocabulary.numbered(50_000).nbytes == 0


class _SameHash(str):
    __slots__ = ()

    def __hash__(self) -> int:
        return 1


def test_texts_of_one_hash_may_differ() -> None:
    assert _found_twice([_SameHash("tea"), _SameHash("coffee")]) is None
    assert _found_twice([_SameHash("tea"), _SameHash("coffee"), _SameHash("tea")]) == "tea"


@pytest.mark.parametrize("attributes", [[], iter(())])
def test_an_empty_list_is_refused(attributes: object) -> None:
    with pytest.raises(ParameterError, match="at least one"):
        Vocabulary.listed(attributes)  # type: ignore[arg-type]


@pytest.mark.parametrize("attributes", ["tea", b"tea"])
def test_one_text_is_not_a_list(attributes: str | bytes) -> None:
    with pytest.raises(ParameterError, match="must be a list"):
        Vocabulary.listed(attributes)


@pytest.mark.parametrize("d", [0, -1, True, 2.0, "3", None])
def test_a_wrong_number_of_attributes_is_refused(d: object) -> None:
    with pytest.raises(ParameterError, match=r"^d must be an integer"):
        Vocabulary.numbered(d)  # type: ignore[arg-type]


def test_it_is_immutable_and_has_named_constructors_only() -> None:
    vocabulary = Vocabulary.numbered(3)
    with pytest.raises(AttributeError, match="immutable"):
        vocabulary._size = 4
    with pytest.raises(ParameterError, match=r"Vocabulary\.numbered"):
        Vocabulary()


@pytest.mark.parametrize("vocabulary", [Vocabulary.numbered(3), Vocabulary.listed(["a"])])
def test_it_travels(vocabulary: Vocabulary) -> None:
    assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary  # noqa: S301 - our own bytes


def test_repr_is_short() -> None:
    assert repr(Vocabulary.numbered(3)) == "Vocabulary.numbered(3)"
    assert repr(Vocabulary.listed(["a"])).startswith("<Vocabulary of 1 attributes, sha256 ")
