"""The one place that draws secret randomness: an AES-256-CTR keystream, keyed by the operating system and forgotten.

AES in counter mode gives random bits at several gigabytes a second on one core, twenty times faster than asking the
operating system for each of them, and as strong as AES: every privacy claim is computational at that strength.
"""

import os
import threading
from typing import NoReturn, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

Words = NDArray[np.uint16] | NDArray[np.uint64]

_KEY_BYTES = 32
_ZEROS = bytes(1 << 16)  # encrypting zeros in pieces that stay in the first caches


class WordSource(Protocol):
    """Where perturbing gets its random words from. Anything but a :class:`Keystream` leaves a stamp on the release."""

    def fill(self, out: Words) -> None:
        """Overwrite ``out``, which is contiguous, with uniform words."""


# Counts the forks that led to this process. A number of its own, because process ids are used again, and differ in
# nothing between name spaces.
_generation = 0
_restarting = threading.Lock()


def _count_fork() -> None:
    global _generation, _restarting  # noqa: PLW0603 - one of each for the process
    _generation += 1
    _restarting = threading.Lock()  # another thread may have held the old one, and is not here to let it go


if hasattr(os, "register_at_fork"):  # elsewhere nothing forks
    os.register_at_fork(after_in_child=_count_fork)


class Keystream:
    """A fresh secret keystream. Make one for each batch, and let it go with the batch.

    Never the same twice: the key comes from the operating system, is held by no name, and a process that was forked
    off gets a new one. It cannot be pickled or copied, so that no other process or retry can replay it.
    """

    __slots__ = ("_encryptor", "_generation", "_lock")  # so that no instance can be given another `fill`

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._generation = _generation
        self._lock = threading.Lock()  # a fork may have left the old one locked for ever
        cipher = Cipher(algorithms.AES256(os.urandom(_KEY_BYTES)), modes.CTR(bytes(16)))
        self._encryptor: CipherContext = cipher.encryptor()

    def fill(self, out: Words) -> None:
        """Overwrite ``out``, which is flat and contiguous, with uniform words."""
        if out.ndim != 1:
            raise ValueError("a keystream fills flat arrays only: pass array.reshape(-1).")
        with _restarting:
            if self._generation != _generation:
                self._start()
        target = out.view(np.uint8).data
        with self._lock:
            for start in range(0, len(target), len(_ZEROS)):
                piece = target[start : start + len(_ZEROS)]
                zeros = _ZEROS if len(piece) == len(_ZEROS) else bytes(len(piece))
                self._encryptor.update_into(zeros, piece)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Keystream cannot be pickled or copied: noise that is used twice reveals what it hides.")


def is_secret(source: WordSource) -> bool:
    """Return whether what this source gives may be published: only a :class:`Keystream` itself, no subclass."""
    return type(source) is Keystream
