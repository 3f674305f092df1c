"""docs/projections.md is enough to re-implement P: its vectors, decoded a second time from its words."""

import hashlib
import json
import re
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest

from dimly.mechanisms.attributes import Vocabulary, attribute_text
from dimly.mechanisms.families import FAMILY_NAMES
from dimly.mechanisms.projection import Projection

PAGE = Path(__file__).parents[2] / "docs" / "projections.md"


def _page_vectors() -> dict[str, Any]:
    (block,) = re.findall(r"^```json\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    parsed: dict[str, Any] = json.loads(block)
    return parsed


VECTORS = _page_vectors()
SEED = bytes.fromhex(VECTORS["seed"])


def decode(family: str, k: int, s: int, text: str, grid_bits: int | None = None) -> list[int]:  # noqa: C901
    """Read the page word by word: plain Python integers, one attribute at a time."""

    def u32(number: int) -> bytes:
        return number.to_bytes(4, "little")

    name = text.encode("utf-8")
    shake = hashlib.shake_256()
    for piece in (
        b"dimly/1",
        b"\x00",
        family.encode("ascii"),
        b"\x00",
        u32(k),
        u32(s),
        SEED,
        u32(len(name)),
        name,
    ):
        shake.update(piece)
    stream = shake.digest(16 * k + 16 * s + 64)

    def word(index: int) -> int:
        return int.from_bytes(stream[8 * index : 8 * index + 8], "little")

    def sign(first_byte: int, bit: int) -> int:
        return -1 if stream[first_byte + bit // 8] >> (bit % 8) & 1 else 1

    row = [0] * k
    if family == "counting":
        row[word(0) * k >> 64] = 1
    elif family == "hashing":
        row[word(0) * k >> 64] = sign(8, 0)
    elif family == "sparse":
        for t in range(s):
            row[t * (k // s) + (word(t) * (k // s) >> 64)] = sign(8 * s, t)
    elif family == "dasgupta":
        for t in range(s):
            row[word(t) * k >> 64] += sign(8 * s, t)
    elif family == "sign":
        row = [sign(0, j) for j in range(k)]
    elif family == "ternary":
        usable = [byte % 6 for byte in stream if byte < 252]
        row = [{0: 1, 1: -1}.get(value, 0) for value in usable[:k]]
    else:
        assert family == "gaussian"
        assert grid_bits is not None

        def deviate(w: int) -> float:
            if w < 2**52:
                return NormalDist().inv_cdf((w + 0.5) / 2**53)
            return -NormalDist().inv_cdf((2**53 - 1 - w + 0.5) / 2**53)

        row = [round(deviate(word(j) >> 11) * 2**grid_bits / k**0.5) for j in range(k)]
    return row


def _stated(vector: dict[str, Any]) -> list[int]:
    if "row" in vector:
        row: list[int] = vector["row"]
        return row
    row = [0] * vector["k"]
    for position, entry in zip(vector["at"], vector["values"], strict=True):
        row[position] = entry
    return row


def _title(vector: dict[str, Any]) -> str:
    return f"{vector['family']}-k{vector['k']}-s{vector['s']}-{vector['text']!a}"


@pytest.mark.parametrize("vector", VECTORS["rows"], ids=_title)
def test_a_vector_of_the_page_is_what_dimly_computes(vector: dict[str, Any]) -> None:
    projection = Projection(vector["family"], vector["k"], vector["s"], SEED, vector.get("grid_bits"))
    assert projection.rows([vector["text"]]).to_dense()[0].tolist() == _stated(vector)


@pytest.mark.parametrize("vector", VECTORS["rows"], ids=_title)
def test_a_vector_of_the_page_is_what_its_words_say(vector: dict[str, Any]) -> None:
    row = decode(vector["family"], vector["k"], vector["s"], vector["text"], vector.get("grid_bits"))
    assert row == _stated(vector)


@pytest.mark.parametrize(
    ("family", "k", "s", "grid_bits"),
    [
        ("counting", 1000, 1, None),
        ("hashing", 40_009, 1, None),
        ("sparse", 99, 9, None),
        ("dasgupta", 7, 17, None),
        ("sign", 77, 1, None),
        ("ternary", 501, 1, None),
        ("gaussian", 33, 1, 12),
    ],
)
def test_many_more_attributes_than_the_page_can_show(family: str, k: int, s: int, grid_bits: int | None) -> None:
    texts = [str(i) for i in range(100)] + ["", "café", "naïve ☕", "x" * 1000]
    rows = Projection(family, k, s, SEED, grid_bits).rows(texts)
    assert rows.to_dense().tolist() == [decode(family, k, s, text, grid_bits) for text in texts]


def test_every_family_has_a_vector() -> None:
    assert {vector["family"] for vector in VECTORS["rows"]} == set(FAMILY_NAMES)


def test_the_stated_vocabulary_digest() -> None:
    vocabulary = VECTORS["vocabulary"]
    encoded = [text.encode("utf-8") for text in vocabulary["attributes"]]
    joined = b"".join(len(name).to_bytes(4, "little") + name for name in encoded)
    assert hashlib.sha256(joined).hexdigest() == vocabulary["sha256"]
    assert Vocabulary.listed(vocabulary["attributes"]).digest == vocabulary["sha256"]


def test_the_page_names_the_texts_it_shows() -> None:
    page = PAGE.read_text(encoding="utf-8")
    zone = timezone(timedelta(hours=1))
    for value in (
        42,
        -7,
        0,
        True,
        False,
        date(2024, 2, 29),
        datetime(2024, 2, 29, 13, 5),
        datetime(2024, 2, 29, 13, 5, 0, 250_000),
        datetime(2024, 2, 29, 13, 5, tzinfo=zone),
        datetime(2024, 2, 29, 12, 5, tzinfo=UTC),
    ):
        assert f"`{attribute_text(value)}`" in page
