"""Columns of text from Arrow reach the kernels with the same bytes."""

import pyarrow as pa
import pytest

from dimly.curator.tables.columns import encoded_texts

TEXTS = ["tea", "", "café", "naïve ☕", "x" * 300]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_every_layout_of_text(kind: pa.DataType) -> None:
    column = pa.array(TEXTS).cast(kind) if kind != pa.string_view() else pa.array(TEXTS, kind)
    assert list(encoded_texts(column)) == TEXTS
    assert list(encoded_texts(column[1:4])) == TEXTS[1:4]


def test_chunks_and_nothing() -> None:
    assert list(encoded_texts(pa.chunked_array([TEXTS[:2], [], TEXTS[2:]], pa.string()))) == TEXTS
    assert list(encoded_texts(pa.chunked_array([], pa.string()))) == []
    assert list(encoded_texts(pa.array([""]))) == [""]


def test_missing_ones_are_refused() -> None:
    with pytest.raises(ValueError, match="no nulls"):
        encoded_texts(pa.array(["tea", None]))
