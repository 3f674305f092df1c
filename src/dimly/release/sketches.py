"""``Sketches``: published numbers in memory with their plan, and parts of them as a folder has."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ReleaseError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.projection.directions import Directions
from dimly.release.format import column_of, layout_of, row_start, text_ids, user_type_of


@dataclass(frozen=True, slots=True, eq=False)
class Sketches:
    """What is published: one row of integers per person, ordered by user.

    Parameters
    ----------
    plan : Plan
    users : ndarray
        Ids, int64 or text, rising.
    values : ndarray
        Sketches: (users, k) of the plan's type. Randomized response: uint8 (users, ⌈d/8⌉), bit i in byte i//8 as
        bit i%8. Noisy distances: one-dimensional, the pairs i < j row after row of the upper triangle.
    private : bool
        Whether the noise came from a fresh secret keystream. Only publishing says so; what is put together by hand,
        or with injected words, is not private.
    roster, pseudonyms, volunteers
        What a manifest says of the people: see :class:`~dimly.release.manifest.Users`.

    Raises
    ------
    ReleaseError
        If the parts do not fit each other.
    """

    plan: Plan
    users: NDArray[Any]
    values: NDArray[Any]
    private: bool = False
    roster: Literal["given", "found"] = "found"
    pseudonyms: bool = False
    volunteers: bool = False

    def __post_init__(self) -> None:
        for name in ("users", "values"):
            # A read-only view: large arrays are not copied, and the caller's own stay as they are.
            view = np.asarray(getattr(self, name)).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)
        if self.users.ndim == 1 and self.users.dtype.kind == "T":
            object.__setattr__(self, "users", text_ids(self.users.tolist()))
            self.users.flags.writeable = False
        is_list = self.users.ndim == 1 and self.users.dtype.kind in "iO"
        if not is_list or (self.textual and not all(isinstance(user, str) for user in self.users)):
            raise ReleaseError("users must be a list of integers or of text.")
        if (self.users[1:] <= self.users[:-1]).any():
            raise ReleaseError("users must be in ascending order, without repeats.")
        if not self.plan.admits(len(self.users)):
            raise ReleaseError(f"users must be at most {self.plan.n_users}, as the plan says, got {len(self.users)}.")
        dtype, shape = self.plan.published_dtype, self.plan.published_shape(len(self.users))
        if self.values.dtype != dtype or self.values.shape != shape:
            got = f"{self.values.dtype} of {self.values.shape}"
            raise ReleaseError(f"values must be {dtype} of shape {shape} for this plan, got {got}.")

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        stamp = "" if self.private else ", NOT PRIVATE"
        return f"<Sketches of {len(self)} users by {self.plan.mechanism}, plan {self.plan.digest[:12]}…{stamp}>"

    @property
    def textual(self) -> bool:
        """Whether ids are text."""
        return user_type_of(self.users) == "text"

    @property
    def users_per_part(self) -> int:
        """Number of people in each piece but the last: as many as a file of such a release would hold."""
        return layout_of(self.plan).users_per_part

    @property
    def n_parts(self) -> int:
        """Number of pieces that :meth:`parts` gives."""
        return layout_of(self.plan).n_parts(len(self))

    @property
    def directions(self) -> Directions | None:
        """The public directions that people are published along; None where there are none."""
        return self.plan.matrix

    def parts(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Return users and values piece by piece, as a stored release does."""
        return map(self.read_part, range(self.n_parts))

    def read_part(self, index: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return users and values of people from ``index · users_per_part`` on; views."""
        start, stop = self._cut(index)
        return self.users[start:stop], self.read_values(index)

    def read_values(self, index: int) -> NDArray[Any]:
        """Return the values alone of people from ``index · users_per_part`` on; a view."""
        column = column_of(self.plan)
        start, stop = (column.start(position, len(self)) for position in self._cut(index))
        return self.values[start:stop]

    def locate(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return the positions of ids of the release's own type; −1 where nobody has the id."""
        places = np.searchsorted(self.users, ids)
        found = places < len(self)
        found[found] = self.users[places[found]] == ids[found]
        return np.where(found, places, -1)

    def named(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        """Return the ids of the people at some positions."""
        return np.asarray(self.users[positions])

    def take(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        """Return the rows of the people at some positions; for noisy distances see :meth:`pairs`."""
        rows = np.asarray(self.values[positions])
        rows.flags.writeable = False  # as of all published numbers: kernels are compiled for one kind of array
        return rows

    def pairs(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[Any]:
        """Return the noisy distances of pairs of positions; 0 within a person."""
        found = np.zeros(len(rows), self.values.dtype)
        other, low, high = ordered_pairs(rows, columns)
        found[other] = self.values[row_start(len(self), low) + high - low - 1]
        return found

    def _cut(self, index: int) -> tuple[int, int]:
        step = self.users_per_part
        return index * step, min(len(self), (index + 1) * step)


def ordered_pairs(
    rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Return which pairs are of two people, and their positions in order."""
    other = rows != columns
    return other, np.minimum(rows, columns)[other], np.maximum(rows, columns)[other]
