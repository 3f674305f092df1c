"""Columns of text from Arrow, as the kernels that hash attributes read them: the same bytes, and nothing copied."""

import numpy as np
import pyarrow as pa

from dimly.mechanisms.projection.texts import EncodedTexts


def encoded_texts(column: pa.Array | pa.ChunkedArray) -> EncodedTexts:
    """Return a column of text without nulls by its bytes.

    Examples
    --------
    >>> list(encoded_texts(pa.array(["tea", "café", ""])[1:]))
    ['café', '']
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_large_string(array.type) and not pa.types.is_string(array.type):
        array = array.cast(pa.large_string())
    if array.null_count:
        raise ValueError("a column of attributes must hold no nulls.")
    if not len(array):
        return EncodedTexts(np.zeros(1, np.int64), np.empty(0, np.uint8))
    _, starts, data = array.buffers()
    kind = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets = np.frombuffer(starts, kind, len(array) + 1, array.offset * np.dtype(kind).itemsize)
    octets = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return EncodedTexts(offsets.astype(np.int64), octets)
