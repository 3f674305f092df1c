"""Two releases by one plan as one: people side by side, in the order of their ids. Of published numbers only."""

import bisect
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ReleaseError

Rows = tuple[NDArray[Any], NDArray[Any]]
"""Ids, rising, and what is published of these people, a row each."""


def merged(old: Iterable[Rows], new: Iterable[Rows], *, size: int, replace: bool) -> Iterator[Rows]:
    """Return the people of both, ``size`` at a time (the last ones may be fewer), in the order of their ids.

    Parameters
    ----------
    old, new : iterable of Rows
        Each in the order of ids. One piece of either is held at a time.
    size : int
    replace : bool
        Whether somebody in both is taken from ``new``; else that is refused.

    Raises
    ------
    ReleaseError
        If somebody is in both and may not be.
    """
    sides = (_Side(old), _Side(new))
    pending: list[Rows] = []
    while sum(side.fill() for side in sides):  # both, where `any` would stop at the first
        # Nobody who comes later has a smaller id than the smaller of the last ids in hands.
        limit = min(side.users[-1] for side in sides if len(side.users))
        users, values = _sorted([side.take(limit) for side in sides if len(side.users)], replace=replace)
        pending.append((users, values))
        while sum(len(users) for users, _ in pending) >= size:
            users, values = _joined(pending)
            yield users[:size], values[:size]
            pending = [(users[size:], values[size:])]
    rest = [piece for piece in pending if len(piece[0])]
    if rest:
        yield _joined(rest)


class _Side:
    """One of the two, read piece by piece."""

    def __init__(self, pieces: Iterable[Rows]) -> None:
        self._pieces = iter(pieces)
        self.users: NDArray[Any] = np.empty(0, np.int64)
        self._values: NDArray[Any] = np.empty(0)

    def fill(self) -> bool:
        """Have people in hands if there are any left; return whether there are."""
        while not len(self.users):
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self.users, self._values = piece
        return True

    def take(self, limit: Any) -> Rows:
        """Return the people up to ``limit``, and let them go."""
        stop = bisect.bisect_right(self.users, limit)  # NumPy's own search is unsafe on text: numpy issue 31533
        taken = self.users[:stop], self._values[:stop]
        self.users, self._values = self.users[stop:], self._values[stop:]
        return taken


def _sorted(pieces: list[Rows], *, replace: bool) -> Rows:
    users, values = _joined(pieces)
    order = np.argsort(users, kind="stable")
    ranked = users[order]
    older = np.append(ranked[:-1] == ranked[1:], np.False_)  # the new one comes second
    if older.any():
        if not replace:
            raise ReleaseError("people must be in one of the two releases only, and some are in both.")
        order = order[~older]
    return users[order], values[order]


def _joined(pieces: list[Rows]) -> Rows:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate([users for users, _ in pieces]), np.concatenate([values for _, values in pieces])
