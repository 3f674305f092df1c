"""Texts of attributes as Arrow lays them out: UTF-8 end to end, and where each begins. No object for each of them."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ParameterError


def not_text() -> ParameterError:
    """Return the error about attributes that are no text, or have no UTF-8 form."""
    return ParameterError("attributes must be text. Use attribute_text.")


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
            raise not_text() from None

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
