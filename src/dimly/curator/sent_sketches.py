"""Sketches that ``Sketcher`` made elsewhere become a release: collected, checked by the plan, not perturbed."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.curator.options import Options
from dimly.curator.people import Pseudonyms, user_ids
from dimly.curator.publication import PublishOutcome, ReleaseParts, publish_by, with_short_ids
from dimly.errors import DataError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release.format import UserType, layout_of, text_ids, user_type_of


class PublishedPeople:
    """People and their published rows, ordered by published id: table and engine in one. Make one with :meth:`of`."""

    private = True  # by the word of those who made the sketches; what is added here is from fresh keystreams

    def __init__(
        self,
        own: NDArray[Any],
        published: NDArray[Any],
        rows: list[NDArray[Any]],
        plan: Plan,
        *,
        nothing: Callable[[], NDArray[Any]],
    ) -> None:
        self._order = np.argsort(published, kind="stable")
        self._own = own[self._order]
        self._published = published[self._order]
        self._rows = rows
        self._nothing = nothing
        self._plan = plan
        self.n_users = len(own)
        self.user_type: UserType = user_type_of(published)

    @classmethod
    def of(
        cls,
        pairs: Iterable[tuple[Any, Any]],
        plan: Plan,
        *,
        roster: Iterable[Any] | None,
        nothing: Callable[[], NDArray[Any]],
        pseudonyms: Pseudonyms | None,
        must_hold_any: bool = False,
    ) -> "PublishedPeople":
        """Return the people of ``pairs``, checked.

        Parameters
        ----------
        pairs : iterable of (id, integers)
        plan : Plan
        roster : iterable, optional
            Everybody's id. Whoever is not among the pairs gets a row of ``nothing``.
        nothing : callable
            Makes the row of a person without attributes.
        pseudonyms : Pseudonyms, optional
        must_hold_any : bool, default=False
            Whether a roster alone is refused.

        Raises
        ------
        DataError
            If ids are not all different and of one kind, somebody is not on the roster, or a row is not the plan's.
        """
        ids, rows = [], []
        for pair in pairs:
            try:
                user, row = pair
            except (TypeError, ValueError):
                raise DataError("sketches must be a mapping from ids to integers, or pairs of both.") from None
            ids.append(user)
            rows.append(_row(row, plan))
        own = user_ids(ids, len(ids))
        if not rows and must_hold_any:
            raise DataError("sketches must be of at least one person, got none, so that only noise would be published.")
        if roster is not None:
            everybody = list(roster)
            listed = user_ids(everybody, len(everybody))
            sent = set(own.tolist())
            if not sent <= set(listed.tolist()):
                raise DataError("sketches must be of people on the roster, but some are not.")
            missing = [user for user in listed.tolist() if user not in sent]
            own = user_ids([*own.tolist(), *missing], len(ids) + len(missing))
        published = own
        if pseudonyms is not None:
            published = text_ids(pseudonyms.of(map(str, own.tolist())))
        return cls(own, published, rows, plan, nothing=nothing)

    def publish(self, _: object, parts: ReleaseParts, *, before_noise: Callable[[], None]) -> None:
        """Write everybody's row; noise for those who sent nothing is drawn only now, when the ledger knows."""
        before_noise()
        rows = self._rows + [self._nothing() for _ in range(self.n_users - len(self._rows))]
        shape = self._plan.published_shape(len(rows))
        values = np.array(rows, self._plan.published_dtype).reshape(shape)[self._order]
        step = layout_of(self._plan).users_per_part
        for index, start in enumerate(range(0, self.n_users, step)):
            stop = min(start + step, self.n_users)
            parts.write_part(index, self.users(start, stop), values[start:stop])

    def users(self, start: int, stop: int) -> pa.Array:
        """Return the published ids of people ``start`` … ``stop`` − 1."""
        return _as_arrow(self._published[start:stop])

    def published_ids(self) -> Iterator[pa.Array]:
        """Return everybody's published id, in order."""
        yield self.users(0, self.n_users)

    def own_ids(self) -> Iterator[pa.Array]:
        """Return everybody's own id, pseudonyms or not."""
        yield _as_arrow(self._own)

    def diagnostics(self) -> dict[str, int]:
        """Return private figures about the table: there are none."""
        return {}


def merge(
    pairs: Iterable[tuple[Any, Any]],
    plan: Plan,
    options: Options,
    *,
    vocabulary: Vocabulary | None,
    nothing: Callable[[], NDArray[Any]],
) -> PublishOutcome:
    """Publish sketches together with those of a release: :meth:`~dimly.curator.sketcher.Sketcher.merge_into`."""
    keyed = None if options.pseudonyms is None else Pseudonyms.from_file(options.pseudonyms)
    makes_new = options.grows is None
    table = PublishedPeople.of(
        pairs, plan, roster=options.roster, nothing=nothing, pseudonyms=keyed, must_hold_any=makes_new
    )
    opening = with_short_ids(nullcontext(table), plan)
    return publish_by(lambda _: table, opening, plan, options, vocabulary=vocabulary)


def _row(row: Any, plan: Plan) -> NDArray[Any]:
    """Return one person's row in the plan's type."""
    dtype, (_, *width) = plan.published_dtype, plan.published_shape(1)
    limits = np.iinfo(dtype)
    try:
        numbers = np.asarray(row)
    except ValueError:  # lists of different lengths
        numbers = np.empty(0)
    if numbers.shape != tuple(width) or numbers.dtype.kind not in "iu":
        raise DataError(f"a sketch must be {width[0]} integers by this plan, but some are not.")
    if numbers.size and not (limits.min <= numbers.min() and numbers.max() <= limits.max):
        raise DataError(f"a sketch must be integers that fit {dtype} by this plan, but some are not.")
    if numbers[-1] & plan.padding:
        raise DataError("the bits beyond the last attribute must be 0, but some are not.")
    return numbers.astype(dtype)


def _as_arrow(users: NDArray[Any]) -> pa.Array:
    return pa.array(users) if user_type_of(users) == "int64" else pa.array(users.tolist(), pa.string())
