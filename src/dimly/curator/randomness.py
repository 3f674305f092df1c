"""The one place that draws secret randomness: an AES-256-CTR keystream, keyed by the operating system.

AES in counter mode gives random bits at several gigabytes a second on one core, twenty times faster than asking the
operating system for each of them, and as strong as AES: every privacy claim is computational at that strength.

On a cluster a task may be tried again. There a run has a secret of its own, also from the operating system, and the key
of a keystream follows from it and from exactly what is perturbed: the same rows get the same noise again, and other
rows get noise that has nothing to do with it.
"""

import hmac
import os
import threading
from typing import NoReturn, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

Words = NDArray[np.uint16] | NDArray[np.uint32] | NDArray[np.uint64]

_KEY_BYTES = 32
_KEYED = b"dimly/noise/1\0"
_ZEROS = bytes(1 << 16)  # encrypting zeros in pieces that stay in the first caches


class WordSource(Protocol):
    """Where perturbing gets its random words from. Anything but a :class:`Keystream` leaves a stamp on the release."""

    def fill(self, out: Words) -> None:
        """Overwrite ``out``, which is contiguous, with uniform words."""


# Counts the forks that led to this process. A number of its own, because process ids are used again, and differ in
# nothing between name spaces.
_generation = 0
# Re-entrant, as that of each stream is: a signal handler that sketches runs in the thread that it interrupts.
_restarting = threading.RLock()


def _count_fork() -> None:
    global _generation, _restarting  # noqa: PLW0603 - one of each for the process
    _generation += 1
    _restarting = threading.RLock()  # another thread may have held the old one, and is not here to let it go


if hasattr(os, "register_at_fork"):  # elsewhere nothing forks
    os.register_at_fork(after_in_child=_count_fork)


class Keystream:
    """A secret keystream. Make one for each batch, and let it go with the batch.

    A fresh one is never the same twice: the key comes from the operating system, is held by no name, and a process that
    was forked off gets a new one. It cannot be pickled or copied, so that no other process can replay it. Those of
    :class:`RunSecret` have a key that the same rows of the same run get again; nobody else can choose a key.
    """

    __slots__ = ("_encryptor", "_generation", "_lock")  # so that no instance can be given another `fill`

    def __init__(self) -> None:
        self._start(os.urandom(_KEY_BYTES))

    def _start(self, key: bytes) -> None:
        generation = _generation
        cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16)))
        self._encryptor: CipherContext = cipher.encryptor()
        self._lock = threading.RLock()  # a fork may have left the old one locked for ever
        self._generation = generation  # at last: whoever interrupts this must not take an old key for a new one

    def fill(self, out: Words) -> None:
        """Overwrite ``out``, which is flat and contiguous, with uniform words."""
        if out.ndim != 1:
            raise ValueError("a keystream fills flat arrays only: pass array.reshape(-1).")
        with _restarting:
            if self._generation != _generation:
                self._start(os.urandom(_KEY_BYTES))
        target = out.view(np.uint8).data
        with self._lock:
            for start in range(0, len(target), len(_ZEROS)):
                piece = target[start : start + len(_ZEROS)]
                zeros = _ZEROS if len(piece) == len(_ZEROS) else bytes(len(piece))
                self._encryptor.update_into(zeros, piece)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Keystream cannot be pickled or copied: noise that is used twice reveals what it hides.")


class RunSecret:
    """The secret of one run on a cluster, from which the keys of its keystreams follow.

    It can be pickled, because workers need it, and is shown by nothing. Make one for each run, and let it go with the
    run: whoever has it and a release can check guesses at the rows, whatever the noise.
    """

    __slots__ = ("_secret",)

    def __init__(self) -> None:
        self._secret = os.urandom(_KEY_BYTES)

    def keystream(self, rows: bytes) -> Keystream:
        """Return the keystream whose key is HMAC-SHA256 of this secret over ``rows``.

        Parameters
        ----------
        rows : bytes
            What no other rows of the run have: a digest of all that is perturbed, and of where it stands in the
            release. The same noise on different rows would reveal their difference.
        """
        stream = Keystream.__new__(Keystream)
        stream._start(hmac.digest(self._secret, _KEYED + rows, "sha256"))
        return stream

    def __repr__(self) -> str:
        return "<RunSecret>"


def is_secret(source: WordSource) -> bool:
    """Return whether what this source gives may be published: only a :class:`Keystream` itself, no subclass."""
    return type(source) is Keystream
