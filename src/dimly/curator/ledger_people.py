"""Who is in a release, as keyed tags: enough to notice that somebody comes twice, and no names.

A tag is eight bytes of BLAKE2b under the ledger's own key. Two people share one by chance at a rate of n·m/2⁶⁴ for n
people beside m; the second is then refused, which is the safe side.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import product
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.errors import DataError, ParameterError

Tags = NDArray[np.uint64]

CHUNK: Final = 1 << 20
"""Tags in one stored piece, 8 MiB."""


def tag_chunks(batches: Iterable[Any], *, key: bytes) -> Iterator[Tags]:
    """Yield the tags of people in sorted pieces of at most :data:`CHUNK`, holding no more than one in memory.

    Parameters
    ----------
    batches : iterable of arrays
        User ids: Arrow arrays, NumPy arrays or lists of integers or of text. 42 and "42" are one person.
    key : bytes
        The ledger's own.

    Raises
    ------
    DataError
        If an id is missing, or neither an integer of 64 bits nor text.
    """
    held: list[Tags] = []
    size = 0
    for batch in batches:
        texts = _texts(batch)
        start = 0
        while start < len(texts):
            piece = texts.slice(start, CHUNK - size)
            start += len(piece)
            held.append(_tags(piece, key))
            size += len(piece)
            if size == CHUNK:
                yield np.sort(np.concatenate(held))
                held, size = [], 0
    if held:
        yield np.sort(np.concatenate(held))


def store_tags(connection: sqlite3.Connection, charge: int, chunk: int, tags: Tags) -> None:
    """Write one piece of a charge's people."""
    connection.execute("INSERT INTO people VALUES (?, ?, ?)", (charge, chunk, tags.astype("<u8").tobytes()))


def forget_people(connection: sqlite3.Connection, charge: int) -> None:
    """Remove the tags of a charge that does not count any more."""
    connection.execute("DELETE FROM people WHERE charge = ?", (charge,))


def share_people(connection: sqlite3.Connection, charge: int, others: Sequence[int]) -> bool:
    """Return whether anybody of a charge is among the people of others."""
    pairs = (pair for other in others for pair in product(_chunks(connection, other), _chunks(connection, charge)))
    return any(_meet(_read(connection, one), _read(connection, two)) for one, two in pairs)


def _chunks(connection: sqlite3.Connection, charge: int) -> list[int]:
    return [row[0] for row in connection.execute("SELECT rowid FROM people WHERE charge = ?", (charge,))]


def _read(connection: sqlite3.Connection, row: int) -> Tags:
    blob = connection.execute("SELECT tags FROM people WHERE rowid = ?", (row,)).fetchone()[0]
    return np.frombuffer(blob, "<u8")


def _meet(one: Tags, two: Tags) -> bool:
    few, many = (one, two) if len(one) < len(two) else (two, one)
    place = np.minimum(np.searchsorted(many, few), len(many) - 1)
    return bool((many[place] == few).any())


def _tags(texts: pa.Array, key: bytes) -> Tags:
    fresh = blake2b(digest_size=8, key=key).copy  # the key is hashed once, not for each person

    def tag(text: bytes) -> bytes:
        state = fresh()
        state.update(text)
        return state.digest()

    return np.frombuffer(b"".join(map(tag, texts.to_pylist())), "<u8")


def _texts(batch: Any) -> Any:
    """Return user ids as an Arrow array of UTF-8, whatever they came in."""
    if isinstance(batch, str | bytes) or not isinstance(batch, Iterable):
        raise ParameterError(f"users must come in arrays or lists of ids, got {type(batch).__name__}.")
    ids = batch if isinstance(batch, pa.Array | pa.ChunkedArray) else _as_arrow(batch)
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if ids.null_count:
        raise DataError("users must all have an id, and some have none.")
    if len(ids) == 0:
        return pa.array([], pa.large_binary())
    if not any(is_type(ids.type) for is_type in _ID_TYPES):
        raise DataError("users must be integers that fit 64 bits, or text.")
    return ids.cast(pa.large_string()).cast(pa.large_binary())


_ID_TYPES: Final = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
)


def _as_arrow(batch: Iterable[Any]) -> Any:
    if isinstance(batch, np.ndarray) and batch.dtype.kind in "TU":
        batch = batch.astype(object)  # NumPy's own text, which Arrow does not read in every version
    try:
        return pa.array(batch if isinstance(batch, np.ndarray) else list(batch))
    except (pa.ArrowException, OverflowError, TypeError, UnicodeError, ValueError):  # its text would quote an id
        raise DataError("users must be integers that fit 64 bits, or text, all of one kind.") from None
