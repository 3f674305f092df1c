"""Published numbers in memory, with the plan that they were made by."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ReleaseError
from dimly.mechanisms.plan import Plan


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

    Raises
    ------
    ReleaseError
        If the parts do not fit each other.
    """

    plan: Plan
    users: NDArray[Any]
    values: NDArray[Any]
    private: bool = False

    def __post_init__(self) -> None:
        for name in ("users", "values"):
            # A read-only view: large arrays are not copied, and the caller's own stay as they are.
            view = np.asarray(getattr(self, name)).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)
        if self.users.ndim != 1 or self.users.dtype.kind not in "iT":
            raise ReleaseError("users must be a list of integers or of text.")
        if (self.users[1:] <= self.users[:-1]).any():
            raise ReleaseError("users must be in rising order, each once.")
        if self.plan.n_users is not None and len(self.users) > self.plan.n_users:
            raise ReleaseError(f"users must be at most {self.plan.n_users}, as the plan says, got {len(self.users)}.")
        dtype, shape = published_layout(self.plan, len(self.users))
        if self.values.dtype != dtype or self.values.shape != shape:
            got = f"{self.values.dtype} of {self.values.shape}"
            raise ReleaseError(f"values must be {dtype} of shape {shape} for this plan, got {got}.")

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        stamp = "" if self.private else ", NOT PRIVATE"
        return f"<Sketches of {len(self)} users by {self.plan.mechanism}, plan {self.plan.digest[:12]}…{stamp}>"


def published_layout(plan: Plan, n_users: int) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return type and shape of what a plan publishes of ``n_users`` people."""
    if plan.projection is not None:
        return np.dtype(plan.dtype), (n_users, plan.projection.k)
    if plan.dtype == "bit":
        return np.dtype(np.uint8), (n_users, -(-(plan.n_attributes or 0) // 8))
    return np.dtype(plan.dtype), (n_users * (n_users - 1) // 2,)
