"""Rows that were released by this process before, recognized without keeping them.

For tools that make releases from bare matrices, where no ledger knows the people: a tag of eight bytes for each row, by
content or by id, under a key that is drawn with the process and never leaves it. Limits: a person whose row changed is
not recognized by content, two people with equal rows are taken for one, and another process knows nothing of this one.
Different rows share a tag by chance at a rate of n·m/2⁶⁴ for n rows beside m; the second is then taken for a repeat.
"""

import threading
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimly.curator.randomness import Keystream
from dimly.privacy import Composition, Cost, compose

Tags = NDArray[np.uint64]

_lock = threading.Lock()


class _TagSet:
    """Tags in sorted arrays, each more than twice as long as the next: to add and to look up takes log n of them."""

    def __init__(self) -> None:
        self._arrays: list[Tags] = []

    def add(self, tags: Tags) -> None:
        self._arrays.append(np.unique(tags))
        while len(self._arrays) > 1 and len(self._arrays[-2]) <= 2 * len(self._arrays[-1]):
            last = self._arrays.pop()
            self._arrays[-1] = np.union1d(self._arrays[-1], last)

    def meets(self, tags: Tags) -> bool:
        """Return whether any of ``tags`` is in the set."""
        for known in self._arrays:
            if len(known):
                place = np.minimum(np.searchsorted(known, tags), len(known) - 1)
                if (known[place] == tags).any():
                    return True
        return False


class Register:
    """Which rows were released. One serves the process: :data:`REGISTER`.

    Rows that came with ids are told apart by these; rows without are told apart by content, from all others.
    """

    def __init__(self) -> None:
        key = np.empty(4, np.uint64)
        Keystream().fill(key)
        self._key = key.tobytes()
        self._users = _TagSet()
        self._identified = _TagSet()  # contents of rows that came with an id
        self._anonymous = _TagSet()  # contents of the others

    def contents(self, indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], *, width: int) -> Tags:
        """Return a tag for the content of each compressed sparse row, whose indices rise and values are not zero.

        Values are compared in single precision, so that a table is the same in whatever type it comes.
        """
        columns, numbers = indices.astype("<i8").tobytes(), values.astype("<f4").tobytes()
        start = blake2b(digest_size=8, key=self._key, person=b"row")
        start.update(width.to_bytes(8, "little"))

        def tag(first: int, stop: int) -> bytes:
            state = start.copy()
            state.update(columns[8 * first : 8 * stop])
            state.update(numbers[4 * first : 4 * stop])
            return state.digest()

        bounds = indptr.tolist()
        return np.frombuffer(b"".join(map(tag, bounds[:-1], bounds[1:])), np.uint64)

    def users(self, ids: Iterable[object]) -> Tags:
        """Return a tag for each id; 42 and "42" are one person."""
        start = blake2b(digest_size=8, key=self._key, person=b"user")

        def tag(user: object) -> bytes:
            state = start.copy()
            state.update(str(user).encode())
            return state.digest()

        return np.frombuffer(b"".join(map(tag, ids)), np.uint64)

    def enter(self, contents: Tags, users: Tags | None, *, repeats: bool) -> bool:
        """Enter rows that are about to be released, and return True; or return False if some were before.

        Check and entry are one step, so that of two threads with the same rows one is refused.

        Parameters
        ----------
        contents : ndarray
            Of :meth:`contents`.
        users : ndarray, optional
            Of :meth:`users`.
        repeats : bool
            Enter them in any case.
        """
        with _lock:
            if users is None:
                known = self._anonymous.meets(contents) or self._identified.meets(contents)
            else:
                known = self._users.meets(users) or self._anonymous.meets(contents)
            if known and not repeats:
                return False
            if users is None:
                self._anonymous.add(contents)
            else:
                self._users.add(users)
                self._identified.add(contents)
            return True


REGISTER = Register()
"""Of this process."""


class Account:
    """What the releases of one tool cost any one person together, at most.

    Releases of people without ids all add up: that two tables share nobody cannot be seen from their rows. Of people
    with ids, the releases that share somebody do.
    """

    def __init__(self) -> None:
        self._anonymous: Counter[Cost] = Counter()
        self._users: dict[Cost, list[Tags]] = {}

    def charge(self, cost: Cost, users: Tags | None) -> None:
        """Count a release."""
        with _lock:
            if users is None:
                self._anonymous[cost] += 1
            else:
                self._users.setdefault(cost, []).append(users)

    @property
    def spent(self) -> Composition:
        """The sum, which holds however the releases were chosen."""
        costs = list(self._counts().elements())
        return compose(costs, delta=min(sum(cost.delta for cost in costs) * (1 + 1e-12), 1 - 1e-12), method="sum")

    def _counts(self) -> Counter[Cost]:
        with _lock:
            counts = Counter(self._anonymous)
            for cost, tags in self._users.items():
                if sum(map(len, tags)):
                    counts[cost] += int(np.unique(np.concatenate(tags), return_counts=True)[1].max())
        return counts

    def __getstate__(self) -> dict[str, Any]:
        # Whoever holds tags and key could test who was released: numbers alone are stored.
        return {"_anonymous": self._counts(), "_users": {}}
