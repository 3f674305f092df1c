"""Pseudonyms: user ids replaced by a keyed hash, so that who lacks the key cannot look anybody up by id.

They hide ids, not people: whoever holds the key can undo them by trying all ids, the same key gives the same person the
same pseudonym in every release, and sketches of people whose attributes are known can be matched. They are no part of
what a plan promises.
"""

import hmac
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NoReturn

from dimly.errors import ParameterError

MIN_KEY_BYTES: Final = 32
_MAX_KEY_BYTES: Final = 1 << 16
_DIGITS: Final = 32  # 128 bits: among a billion people two alike in one of 10^20 releases


class Pseudonyms:
    """The pseudonyms of one key: HMAC-SHA256 of the id's canonical text, its first 32 hexadecimal digits.

    Parameters
    ----------
    key : bytes
        At least 32 bytes, random and secret.

    Raises
    ------
    ParameterError
        If the key is shorter.

    Examples
    --------
    >>> Pseudonyms(bytes(32)).of(["42"])
    ['96ce0a5a8208370ab4abd635460c4c9a']
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) < MIN_KEY_BYTES:
            raise ParameterError(
                f"the key of pseudonyms must be at least {MIN_KEY_BYTES} random bytes, got {len(key)}. "
                "Make one: head -c 32 /dev/urandom > key"
            )
        self._key = key

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "Pseudonyms":
        """Read a key: all bytes of a file, line ends included.

        Raises
        ------
        ParameterError
            If the file cannot be read, is too short or too long, or can be read or changed by everybody.
        """
        name = os.fspath(path)
        try:
            with Path(path).open("rb") as opened:
                mode = os.fstat(opened.fileno()).st_mode
                key = opened.read(_MAX_KEY_BYTES + 1)
        except OSError:
            mode, key = 0, None
        if key is None:
            raise ParameterError(f"pseudonyms must be a file that can be read, got {name}.")
        if os.name == "posix" and mode & (stat.S_IROTH | stat.S_IWOTH):
            raise ParameterError(
                f"{name} must be closed to others: it is the key to who is who. Run chmod o-rwx on it."
            )
        if len(key) > _MAX_KEY_BYTES:
            raise ParameterError(f"{name} must be a key of at most {_MAX_KEY_BYTES} bytes. Is it another file?")
        return cls(key)

    def of(self, texts: Iterable[str]) -> list[str]:
        """Return the pseudonym of each id, given as canonical text."""
        key = self._key
        return [hmac.digest(key, text.encode(), "sha256").hex()[:_DIGITS] for text in texts]

    def hand_over(self) -> bytes:
        """Return the key, for the workers of the curator's own cluster."""
        return self._key

    def __repr__(self) -> str:
        return "<Pseudonyms>"  # the key stays out of tracebacks and logs

    def __reduce__(self) -> NoReturn:
        raise TypeError("Pseudonyms cannot be pickled or copied: their key stays in this process.")
