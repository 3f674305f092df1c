"""Streams of version 2: SipHash as published, of texts however they come, the same as the plain Python of the page."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.docs.vectors import siphash as plain_siphash

from dimly.errors import ParameterError
from dimly.mechanisms import Plan
from dimly.mechanisms.projection import siphash
from dimly.mechanisms.projection.random_matrix import FAMILY_NAMES, Projection
from dimly.mechanisms.projection.streams import EncodedTexts
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import Budget

SEED = bytes(range(32))
KEYS = bytes(range(16)) + bytes(range(100, 116))
KEY = np.frombuffer(KEYS, "<u8").astype(np.uint64)
NUMBERS = [0, 1, 9, 10, 42, 9999999, 10**7, 99999999, 10**15 - 1, 10**15, 10**16, 10**18, 2**63 - 1]
NUMBERS += [-number for number in NUMBERS[1:]] + [-(2**63)]


def hashes(texts: list[bytes]) -> list[int]:
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    out = np.empty(len(texts), np.uint64)
    siphash.hash_texts(offsets, np.frombuffer(b"".join(texts), np.uint8), KEY, out)
    return [int(word) for word in out]


def test_the_published_vectors() -> None:
    """Those of the reference implementation, for texts 00 01 02 … of 0 to 63 bytes: all 512 bytes by their digest."""
    found = hashes([bytes(range(size)) for size in range(64)])
    assert found[15] == 0xA129CA6149BE45E5  # the example in the paper
    joined = b"".join(word.to_bytes(8, "little") for word in found)
    assert hashlib.sha256(joined).hexdigest() == "0226a91002af9775a791b3ec5a48e643f8848d2d5774dea9be3438d5786bb58e"


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_texts_of_any_length_beside_each_other(texts: list[bytes]) -> None:
    assert hashes(texts) == [plain_siphash(KEYS[:16], text) for text in texts]


def test_texts_longer_than_the_length_that_is_hashed() -> None:
    texts = [b"x" * size for size in (255, 256, 257, 512, 1000)]
    assert hashes(texts) == [plain_siphash(KEYS[:16], text) for text in texts]


def test_numbers_are_their_decimal_text() -> None:
    out = np.empty(len(NUMBERS), np.uint64)
    siphash.hash_numbers(np.array(NUMBERS), KEY, out)
    assert out.tolist() == [plain_siphash(KEYS[:16], str(number).encode()) for number in NUMBERS]


def test_words_go_on_by_counting() -> None:
    first = np.array([0, 7, 2**64 - 1], np.uint64)
    out = np.empty((3, 5), np.uint64)
    siphash.count_on(first, KEY, out)
    for word, row in zip(first.tolist(), out.tolist(), strict=True):
        begun = int(word).to_bytes(8, "little")
        assert row == [word, *(plain_siphash(KEYS[16:], begun + i.to_bytes(8, "little")) for i in range(1, 5))]


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_numbers_texts_and_encoded_texts_have_the_same_rows(family: str) -> None:
    projection = Projection(family, 12, 3 if family == "sparse" else 1, SEED, 8 if family == "gaussian" else None)
    texts = [str(i) for i in range(200)]
    expected = projection.rows(texts).to_dense()
    for same in (Vocabulary.numbered(200), Vocabulary.listed(texts), tuple(texts), EncodedTexts.of(texts)):
        np.testing.assert_array_equal(projection.rows(same).to_dense(), expected)
    old = Projection(family, 12, projection.blocks, SEED, projection.grid_bits, stream=1)
    np.testing.assert_array_equal(old.rows(EncodedTexts.of(texts)).to_dense(), old.rows(texts).to_dense())
    assert not np.array_equal(old.rows(texts).to_dense(), expected)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_total_is_the_sum_of_its_rows(family: str) -> None:
    projection = Projection(family, 12, 3 if family == "sparse" else 1, SEED, 8 if family == "gaussian" else None)
    for texts in (["tea", "café", "", "x" * 40, "7"], ["zero\0inside", "tea", "\0"], []):
        expected = projection.rows(texts).to_dense().sum(axis=0)
        assert projection.total(texts).tolist() == expected.tolist()
        assert projection.total(dict.fromkeys(texts)).tolist() == expected.tolist()
    for bad in (["tea", 7], ["a\ud800"]):
        with pytest.raises(ParameterError, match="attributes must be text that encodes to UTF-8"):
            projection.total(bad)  # type: ignore[arg-type]


def test_plans_say_the_newer_version_and_not_the_older_one() -> None:
    new, old = (Plan.of("hashing+laplace", Budget(1.0), k=8, seed=SEED, stream=stream) for stream in (None, 1))
    assert '"stream": 2' in new.to_json()
    assert "stream" not in old.to_json()
    assert new == Plan.of("hashing+laplace", Budget(1.0), k=8, seed=SEED, stream=2)
    for plan in (new, old):
        assert Plan.from_json(plan.to_json()) == plan
    assert new.digest != old.digest
    assert new.drawn_from != old.drawn_from
    assert new.rows(["0", "1", "2"]).to_dense().tolist() != old.rows(["0", "1", "2"]).to_dense().tolist()


@pytest.mark.parametrize("stream", [0, 3, True, "2", 2.0])
def test_other_versions_are_refused(stream: object) -> None:
    with pytest.raises(ParameterError, match="stream must be 1 or 2"):
        Plan.of("hashing+laplace", Budget(1.0), k=8, stream=stream)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="stream"):
        Plan.from_json(Plan.of("hashing+laplace", Budget(1.0), k=8).to_json().replace('"stream": 2', '"stream": 3'))


def test_a_version_is_of_sketches_alone() -> None:
    with pytest.raises(ParameterError, match="stream must be left out for randomized-response"):
        Plan.of("randomized-response", Budget(1.0), n_attributes=9, stream=1)


def test_encoded_texts_are_a_sequence() -> None:
    texts = ["tea", "", "café", "x" * 20]
    encoded = EncodedTexts.of(texts)
    assert list(encoded) == texts == [encoded[i] for i in range(4)]
    assert encoded[-1] == texts[-1]
    assert list(encoded[1:3]) == texts[1:3]
    assert list(encoded[3:1]) == []
    assert list(encoded[::2]) == texts[::2]
    assert EncodedTexts.of(encoded) is encoded


@pytest.mark.parametrize("offsets", [[], [-1, 2], [0, 9], [0, 3, 2]])
def test_offsets_beyond_the_data_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ParameterError, match="offsets must rise"):
        EncodedTexts(np.array(offsets, np.int64), np.zeros(4, np.uint8))
