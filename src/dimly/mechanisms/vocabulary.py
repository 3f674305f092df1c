"""Attributes as text, one canonical spelling each, and ``Vocabulary``: a public closed list with a digest.

Every engine must reach the same row of the projection for the same attribute, so every value that
names an attribute is first turned into one text. Text is taken as it is: no trimming, no change of
case, no Unicode normalization.
"""

import contextlib
import hashlib
import operator
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any, Final, overload

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ParameterError

_CHUNK: Final = 1 << 14  # attributes that are joined into one buffer before hashing


def attribute_text(value: object) -> str:
    """Return the one canonical text of an attribute.

    Parameters
    ----------
    value : str, int, bool, date, datetime, or the NumPy scalar of one of these
        Text as it is; integers in decimal; ``true`` and ``false``; dates as ``YYYY-MM-DD``; times as
        ``YYYY-MM-DDTHH:MM:SS`` with a fraction only where it is not zero and without trailing zeros,
        in UTC and ending in ``+00:00`` if they carry a time zone.

    Returns
    -------
    str
        Text that encodes to UTF-8.

    Raises
    ------
    ParameterError
        For floats, ``None``, missing times, text that is not Unicode, and every other type.

    Examples
    --------
    >>> attribute_text(42) == attribute_text("42") == "42"
    True
    >>> attribute_text(True), attribute_text(np.datetime64("2024-02-29"))
    ('true', '2024-02-29')
    """
    # Nearly all are one of these two, and each of the checks below takes as long as hashing the text does.
    if type(value) is str and value.isascii():
        return value
    if type(value) is int:
        return _decimal(value)
    if isinstance(value, str):
        text = str.__str__(value)  # an enumeration that is also text means its value, not its name
        if not (text.isascii() or is_unicode(text)):
            raise ParameterError(
                "attribute must be text that encodes to UTF-8, got a str with lone surrogates. "
                "Decode the source with its true encoding."
            )
        return text
    if isinstance(value, bool | np.bool_):  # before int: bool is one of its subclasses
        return "true" if value else "false"
    if isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64):  # NumPy calls it one
        return _decimal(int(value))
    if isinstance(value, date | np.datetime64):
        return _time_text(value)
    reason = (
        " Engines print floats differently: use integers, text, or bins with names."
        if isinstance(value, float | np.floating)
        else " Turn it into text first."
    )
    raise ParameterError(
        f"attribute must be text, an integer, a boolean or a date, got {type(value).__name__}.{reason}"
    )


def attribute_texts(attributes: Iterable[object]) -> tuple[str, ...]:
    """Return the canonical texts of a list of attributes, in its order.

    Raises
    ------
    ParameterError
        For one text, a set, whose order differs from run to run, and what cannot be listed at all.
    """
    if isinstance(attributes, str | bytes | set | frozenset) or not isinstance(attributes, Iterable):
        raise ParameterError(
            f"attributes must be a list of attributes in a fixed order, got {type(attributes).__name__}."
        )
    return tuple(map(attribute_text, attributes))


def _found_twice(texts: Sequence[str]) -> str | None:
    """Return the first text that came before; a set of all of them would take as much memory as they do."""
    hashes = np.fromiter(map(hash, texts), np.int64, len(texts))
    hashes.sort()
    if not (hashes[1:] == hashes[:-1]).any():
        return None
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            return text
        seen.add(text)
    return None


def _decimal(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # thousands of digits, which Python refuses to write
        raise ParameterError("attribute must be an integer of at most 4300 digits. Use a shorter name.") from None


def is_unicode(text: str) -> bool:
    """Return whether a text encodes to UTF-8: one with lone surrogates does not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _time_text(value: date | np.datetime64) -> str:
    if value != value:  # noqa: PLR0124 - only a missing time (NaT, also that of pandas) differs from itself
        raise ParameterError("attribute must be a date, got a missing one. Leave missing attributes out.")
    if isinstance(value, np.datetime64):
        # Whatever unit a column is stored in: days and coarser name a day, the rest a time to the second.
        unit = np.datetime_data(value.dtype)[0]
        if unit in ("Y", "M", "W"):
            value = value.astype("datetime64[D]")
        elif unit in ("h", "m"):
            value = value.astype("datetime64[s]")
        text = str(value)
    elif isinstance(value, datetime) and value.tzinfo is not None:
        return _without_trailing_zeros(_in_utc(value).isoformat().removesuffix("+00:00")) + "+00:00"
    else:
        text = value.isoformat()
    return _without_trailing_zeros(text)


def _in_utc(value: datetime) -> datetime:
    with contextlib.suppress(OverflowError):
        return value.astimezone(UTC)
    raise ParameterError("attribute must be a time of the years 1 to 9999 in UTC, too. Leave such times out.")


def _without_trailing_zeros(text: str) -> str:
    """One instant is one text, whether it was stored in seconds or in nanoseconds."""
    return text.rstrip("0").rstrip(".") if "." in text else text


class Vocabulary(Sequence[str]):
    """A public, closed, ordered list of attributes.

    It must come from public knowledge (a catalog, a code book, a number of columns), never from the
    private data: the attributes that happen to occur there are private.

    Make one with :meth:`numbered` or :meth:`listed`. Immutable; equal if the content is equal.

    Examples
    --------
    >>> Vocabulary.numbered(3) == Vocabulary.listed(["0", 1, "2"])
    True
    >>> Vocabulary.listed(["tea", "coffee"]).codes(["coffee", "milk"]).tolist()
    [1, -1]
    """

    _size: int
    _listed: tuple[str, ...] | None  # None: the decimal numbers below _size

    def __init__(self, *_: object, **__: object) -> None:
        raise ParameterError("Vocabulary must be made by Vocabulary.numbered(d) or Vocabulary.listed(names).")

    @classmethod
    def _make(cls, size: int, listed: tuple[str, ...] | None) -> "Vocabulary":
        self = cls.__new__(cls)
        self.__dict__.update(_size=size, _listed=listed)  # __setattr__ refuses
        return self

    @classmethod
    def numbered(cls, d: int) -> "Vocabulary":
        """Return the attributes "0", "1", … up to ``d`` - 1, without storing them.

        Parameters
        ----------
        d : int
            Number of attributes, ≥ 1.
        """
        try:
            size = operator.index(d)
        except TypeError:
            raise ParameterError(f"d must be an integer, got {type(d).__name__}.") from None
        if isinstance(d, bool) or size < 1:
            raise ParameterError(f"d must be an integer ≥ 1, got {d!r}. State how many attributes there are.")
        return cls._make(size, None)

    @classmethod
    def listed(cls, attributes: Iterable[object]) -> "Vocabulary":
        """Return the attributes of a list, in its order, as canonical text.

        Parameters
        ----------
        attributes : iterable of attribute values
            At least one; no two with the same canonical text.
        """
        texts = attribute_texts(attributes)
        if not texts:
            raise ParameterError("attributes must name at least one attribute, got none. Was the list empty?")
        twice = _found_twice(texts)
        if twice is not None:
            raise ParameterError(
                f"attributes must differ from each other as text, got {twice!r} twice. Remove one of them."
            )
        return cls._make(len(texts), texts)

    @property
    def is_numbered(self) -> bool:
        """Whether it was made by :meth:`numbered`, and its attributes are not stored."""
        return self._listed is None

    @property
    def nbytes(self) -> int:
        """Bytes that its texts take in memory."""
        return sum(map(sys.getsizeof, self._listed or ())) + 8 * len(self._listed or ())

    @property
    def attributes(self) -> tuple[str, ...]:
        """All attributes, in order. Of a numbered vocabulary they are written out at each call."""
        return self._listed if self._listed is not None else tuple(map(str, range(self._size)))

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, over u32(length) ‖ UTF-8 of each attribute in order (little-endian)."""
        state = hashlib.sha256()
        for start in range(0, self._size, _CHUNK):
            encoded = [text.encode() for text in self[start : start + _CHUNK]]
            state.update(b"".join([len(name).to_bytes(4, "little") + name for name in encoded]))
        return state.hexdigest()

    def index_of(self, attribute: object) -> int:
        """Return the position of an attribute, or -1 if the vocabulary does not hold it."""
        return self._position(attribute_text(attribute))

    def codes(self, attributes: Iterable[object]) -> NDArray[np.int64]:
        """Return the position of each attribute, or -1 where the vocabulary does not hold it."""
        if self._listed is None and isinstance(attributes, np.ndarray) and attributes.dtype.kind in "iu":
            known = (attributes >= 0) & (attributes < self._size)
            return np.where(known, np.where(known, attributes, 0).astype(np.int64), -1)
        listed = self._positions  # holds most of them; others go the long way, which refuses what is no attribute
        positions = (listed[one] if type(one) is str and one in listed else self.index_of(one) for one in attributes)
        return np.fromiter(positions, dtype=np.int64)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {text: position for position, text in enumerate(self._listed or ())}

    def _position(self, text: str) -> int:
        if self._listed is not None:
            return self._positions.get(text, -1)
        if len(text) > len(str(self._size)) or not (text.isascii() and text.isdecimal()):
            return -1
        number = int(text)
        return number if number < self._size and str(number) == text else -1  # "007" is not "7"

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            if self._listed is not None:
                return list(self._listed[index])
            return list(map(str, range(self._size)[index]))
        return self._listed[index] if self._listed is not None else str(range(self._size)[index])

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed) if self._listed is not None else map(str, range(self._size))

    def __contains__(self, attribute: object) -> bool:
        return self.index_of(attribute) >= 0

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Vocabulary is immutable: {name} cannot be set.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        if self._listed is None and other._listed is None:
            return self._size == other._size
        return self._size == other._size and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, tuple[int, tuple[str, ...] | None]]:
        return Vocabulary._make, (self._size, self._listed)

    def __repr__(self) -> str:
        if self._listed is None:
            return f"Vocabulary.numbered({self._size})"
        return f"<Vocabulary of {self._size} attributes, sha256 {self.digest[:12]}…>"
