"""A matrix in memory as a table of the engine."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.curator.coding import CodedRows
from dimly.curator.people import People
from dimly.curator.row_cache import ListedTexts, Texts
from dimly.release.layout import UserType

_ROWS = 1 << 20


class MatrixTable:
    """People in compressed sparse rows, ordered by user.

    Parameters
    ----------
    people : People
    users : ndarray
        Ids, int64 or text, rising.
    attributes : sequence of str
        What the people index.
    resolution : int
        Of their values.
    """

    def __init__(self, people: People, users: NDArray[Any], attributes: Sequence[str], *, resolution: int) -> None:
        self.people = people
        self.ids = users
        self.attributes = attributes
        self._resolution = resolution
        self.n_users = len(users)
        self.user_type: UserType = "int64" if users.dtype.kind == "i" else "text"

    def users(self, start: int, stop: int) -> pa.Array:
        """Return the ids of people ``start`` … ``stop`` − 1."""
        ids = self.ids[start:stop]
        return pa.array(ids) if self.user_type == "int64" else pa.array(ids.tolist(), pa.string())

    def own_ids(self) -> Iterator[pa.Array]:
        """Return everybody's own id."""
        yield self.users(0, self.n_users)

    def rows(self) -> Iterator[CodedRows]:
        """Return all rows in the order of people and then attributes."""
        starts, n = self.people.indptr, len(self.people)
        first = 0
        while first < n:
            # As many whole people as fit, and at least one.
            stop = max(first + 1, int(np.searchsorted(starts, starts[first] + _ROWS, side="right")) - 1)
            stop = min(stop, n)
            used = slice(int(starts[first]), int(starts[stop]))
            users = np.repeat(np.arange(first, stop, dtype=np.int32), np.diff(starts[first : stop + 1]))
            values = None if self.people.values is None else self.people.values[used] / self._resolution
            yield CodedRows.of(users, self.people.indices[used], values)
            first = stop

    def texts(self) -> Texts:
        """Return what the numbers of attributes stand for."""
        return ListedTexts(self.attributes)

    def diagnostics(self) -> dict[str, int]:
        """Return private figures about the table, for the curator's own eyes."""
        return {"rows": int(self.people.indptr[-1] - self.people.indptr[0])}
