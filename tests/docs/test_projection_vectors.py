"""docs/projections.md is enough to re-implement P: its vectors, decoded a second time from its words."""

import hashlib
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from tests.docs.vectors import PAGE, SEED, VECTORS, decode

from dimly.mechanisms.projection.random_matrix import FAMILY_NAMES, Projection
from dimly.mechanisms.projection.streams import STREAM_VERSIONS, StreamVersion
from dimly.mechanisms.vocabulary import Vocabulary, attribute_text


def _stated(vector: dict[str, Any]) -> list[int]:
    if "row" in vector:
        row: list[int] = vector["row"]
        return row
    row = [0] * vector["k"]
    for position, entry in zip(vector["at"], vector["values"], strict=True):
        row[position] = entry
    return row


def _title(vector: dict[str, Any]) -> str:
    return f"{vector.get('stream', 1)}-{vector['family']}-k{vector['k']}-s{vector['s']}-{vector['text']!a}"


@pytest.mark.parametrize("vector", VECTORS["rows"], ids=_title)
def test_a_vector_of_the_page_is_what_dimly_computes(vector: dict[str, Any]) -> None:
    version = vector.get("stream", 1)
    projection = Projection(vector["family"], vector["k"], vector["s"], SEED, vector.get("grid_bits"), version)
    assert projection.rows([vector["text"]]).to_dense()[0].tolist() == _stated(vector)


@pytest.mark.parametrize("vector", VECTORS["rows"], ids=_title)
def test_a_vector_of_the_page_is_what_its_words_say(vector: dict[str, Any]) -> None:
    size = vector["k"], vector["s"]
    version = vector.get("stream", 1)
    row = decode(vector["family"], *size, vector["text"], vector.get("grid_bits"), version=version)
    assert row == _stated(vector)


@pytest.mark.parametrize("version", STREAM_VERSIONS)
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
def test_many_more_attributes_than_the_page_can_show(
    family: str, k: int, s: int, grid_bits: int | None, version: StreamVersion
) -> None:
    texts = [str(i) for i in range(30)] + ["", "café", "naïve ☕", *("x" * size for size in (7, 8, 9, 16, 255, 300))]
    rows = Projection(family, k, s, SEED, grid_bits, version).rows(texts)
    assert rows.to_dense().tolist() == [decode(family, k, s, text, grid_bits, version=version) for text in texts]


def test_every_family_has_a_vector_of_each_version() -> None:
    shown = {(vector.get("stream", 1), vector["family"]) for vector in VECTORS["rows"]}
    assert shown == {(version, family) for version in STREAM_VERSIONS for family in FAMILY_NAMES}


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
