"""Random bytes of a row of P from the seed and the attribute's text: SHAKE-256 (1) or SipHash (2).

Two versions, and a plan says which. **What may never change**: the bytes of either, which ``docs/projections.md`` says
with test vectors. Version 1 asks SHAKE-256 for each attribute, in Python; version 2 is SipHash-2-4 in compiled code, a
hundred times as fast.

P is public, and so is its seed: no promise of privacy rests on what anybody can or cannot compute from it. What is
asked of the hash is that the rows of attributes, which were named without looking at the seed, behave like independent
ones: the error theory rests on that. A keyed pseudorandom function is enough for it.
"""

import hashlib
import struct
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ParameterError
from dimly.mechanisms.projection import kernels, siphash
from dimly.mechanisms.vocabulary import Vocabulary

StreamVersion = Literal[1, 2]
STREAM_VERSIONS: Final[tuple[StreamVersion, ...]] = get_args(StreamVersion)
NEWEST: Final[StreamVersion] = 2
"""What new plans have."""

_NAME_BYTES: Final = 256  # of a name as text, its encoding and its stream, each an object of Python's


class Streams(ABC):
    """The streams of some attributes."""

    @abstractmethod
    def first(self, length: int) -> NDArray[np.uint8]:
        """Return the first bytes of each attribute's stream, one attribute a row."""

    @abstractmethod
    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the first words of each attribute's stream, eight bytes each, one attribute a row."""

    @abstractmethod
    def place(self, width: int, stride: int, signed: bool, columns: NDArray[np.int32], signs: NDArray[np.int8]) -> None:
        """Write where the entries of hashed rows are, one of ``width`` places each, and their signs."""


class StreamSource(ABC):
    """All streams of one projection: of whatever attributes are asked for."""

    @abstractmethod
    def parts(self, attributes: Sequence[str], *, row_bytes: int, at_once: int) -> Iterator[tuple[slice, Streams]]:
        """Yield the streams of all attributes, so many at a time that they and their rows take ``at_once`` bytes."""


class ShakeSource(StreamSource):
    """Version 1: SHAKE-256 of everything, the attribute's text last."""

    def __init__(self, family: str, k: int, blocks: int, seed: bytes) -> None:
        size = struct.pack("<II", k, blocks)
        self._base = hashlib.shake_256(b"dimly/1\0" + family.encode() + b"\0" + size + seed)

    def parts(self, attributes: Sequence[str], *, row_bytes: int, at_once: int) -> Iterator[tuple[slice, Streams]]:
        """Yield the streams of all attributes; see :meth:`StreamSource.parts`."""
        for part in _slices(len(attributes), at_once // (_NAME_BYTES + row_bytes)):
            try:
                names: list[bytes] | None = [attribute.encode() for attribute in attributes[part]]
            except (AttributeError, UnicodeEncodeError):
                names = None
            if names is None:  # outside of the handler: Python's error holds the text of an attribute
                raise not_text()
            yield part, _ShakeStreams(self._base, names)


class _ShakeStreams(Streams):
    def __init__(self, base: Any, names: list[bytes]) -> None:
        self._base = base
        self._names = names

    def first(self, length: int) -> NDArray[np.uint8]:
        digests = []
        for name in self._names:
            state = self._base.copy()
            state.update(len(name).to_bytes(4, "little") + name)
            digests.append(state.digest(length))
        return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(len(digests), length)

    def words(self, count: int) -> NDArray[np.uint64]:
        return self.first(8 * count).view("<u8")

    def place(self, width: int, stride: int, signed: bool, columns: NDArray[np.int32], signs: NDArray[np.int8]) -> None:
        s = columns.shape[1]
        kernels.hashed_entries(self.first(8 * s + -(-s // 8)), width, stride, signed, columns, signs)


class SipSource(StreamSource):
    """Version 2: the first word is SipHash-2-4 of the text; the others are of that word and their number."""

    def __init__(self, family: str, k: int, blocks: int, seed: bytes) -> None:
        size = struct.pack("<II", k, blocks)
        keys = hashlib.shake_256(b"dimly/2\0" + family.encode() + b"\0" + size + seed).digest(32)
        self._key = np.frombuffer(keys, "<u8").astype(np.uint64)

    def add_hashed(
        self, attributes: Collection[str], blocks: int, places: tuple[int, int], signed: bool, out: NDArray[np.int64]
    ) -> bool:
        """Add the hashed rows of attributes to one sketch, without making the rows; False if they cannot be told apart.

        That is if one holds a zero character.
        """
        try:
            joined: bytes | None = "\0".join([*attributes, ""]).encode()
        except (TypeError, UnicodeEncodeError):
            joined = None
        if joined is None:  # outside of the handler: Python's error holds the text of all attributes
            raise not_text()
        if joined.count(0) != len(attributes):
            return False
        siphash.add_texts(np.frombuffer(joined, np.uint8), self._key, blocks, *places, signed, out)
        return True

    def parts(self, attributes: Sequence[str], *, row_bytes: int, at_once: int) -> Iterator[tuple[slice, Streams]]:
        """Yield the streams of all attributes; see :meth:`StreamSource.parts`."""
        numbered = isinstance(attributes, Vocabulary) and attributes.is_numbered
        for part in _slices(len(attributes), at_once // (_NAME_BYTES + row_bytes)):
            hashes = np.empty(part.stop - part.start, np.uint64)
            if numbered:
                siphash.hash_numbers(np.arange(part.start, part.stop), self._key, hashes)
            else:
                texts = EncodedTexts.of(attributes[part])
                siphash.hash_texts(texts.offsets, texts.data, self._key, hashes)
            yield part, _SipStreams(self._key, hashes)


class _SipStreams(Streams):
    def __init__(self, key: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> None:
        self._key = key
        self._hashes = hashes

    def first(self, length: int) -> NDArray[np.uint8]:
        words = self.words(-(-length // 8)).astype("<u8", copy=False)
        return words.view(np.uint8)[:, :length]

    def words(self, count: int) -> NDArray[np.uint64]:
        if count == 1:
            return self._hashes[:, None]
        found = np.empty((len(self._hashes), count), np.uint64)
        siphash.count_on(self._hashes, self._key, found)
        return found

    def place(self, width: int, stride: int, signed: bool, columns: NDArray[np.int32], signs: NDArray[np.int8]) -> None:
        siphash.place_words(self.words(columns.shape[1]), width, stride, signed, columns, signs)


def check_stream(version: object) -> None:
    """Refuse what is no version of the streams."""
    if type(version) is not int or version not in STREAM_VERSIONS:
        raise ParameterError(f"stream must be 1 or 2, got {version!r}. Leave it out for the newest.")


def stream_source(version: StreamVersion, family: str, k: int, blocks: int, seed: bytes) -> StreamSource:
    """Return the streams of a projection."""
    return (ShakeSource if version == 1 else SipSource)(family, k, blocks, seed)


def _slices(n: int, size: int) -> Iterator[slice]:
    size = max(1, size)
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def not_text() -> ParameterError:
    """Return the error about attributes that are no text, or have no UTF-8 form."""
    return ParameterError(
        "attributes must be text that encodes to UTF-8. Decode the source with its true encoding; of other values "
        "attribute_text makes text."
    )


class EncodedTexts(Sequence[str]):
    """Texts by their bytes; a sequence of text to whoever looks at them.

    Parameters
    ----------
    offsets : ndarray of int64, length n + 1
        Rising, within the data.
    data : ndarray of uint8
        Text i is ``data[offsets[i]:offsets[i + 1]]``, in UTF-8.

    Examples
    --------
    >>> texts = EncodedTexts.of(["tea", "café"])
    >>> texts.offsets.tolist(), list(texts[1:])
    ([0, 3, 8], ['café'])
    """

    def __init__(self, offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> None:
        if len(offsets) < 1 or offsets[0] < 0 or offsets[-1] > len(data) or (offsets[1:] < offsets[:-1]).any():
            raise ParameterError("offsets must rise from ≥ 0 to at most the length of the data.")
        self.offsets = offsets
        self.data = data

    @classmethod
    def of(cls, texts: Sequence[Any]) -> "EncodedTexts":
        """Return texts by their bytes.

        Raises
        ------
        ParameterError
            If something is no text, or has no UTF-8 form.
        """
        if isinstance(texts, EncodedTexts):
            return texts
        try:
            joined = "".join(texts)
            sizes = map(len, texts) if joined.isascii() else (len(text.encode()) for text in texts)
            offsets = np.zeros(len(texts) + 1, np.int64)
            np.cumsum(np.fromiter(sizes, np.int64, len(texts)), out=offsets[1:])
            return cls(offsets, np.frombuffer(joined.encode(), np.uint8))
        except (TypeError, UnicodeEncodeError):
            pass
        raise not_text()  # outside of the handler: Python's error holds the text of all attributes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "EncodedTexts | list[str]": ...
    def __getitem__(self, index: int | slice) -> "str | EncodedTexts | list[str]":
        chosen = range(len(self))[index]
        if isinstance(chosen, int):
            return self._text(chosen)
        if chosen.step != 1:
            return [self._text(i) for i in chosen]
        return EncodedTexts(self.offsets[chosen.start : max(chosen.start, chosen.stop) + 1], self.data)

    def __iter__(self) -> Iterator[str]:
        return map(self._text, range(len(self)))

    def _text(self, i: int) -> str:
        return self.data[self.offsets[i] : self.offsets[i + 1]].tobytes().decode()
