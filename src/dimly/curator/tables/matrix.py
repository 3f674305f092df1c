"""A matrix in memory (NumPy, SciPy) as a table of people, and its release in memory."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dimly.curator.people import People, people_of, user_ids
from dimly.curator.perturb import ListedTexts, Perturber, Texts
from dimly.curator.randomness import Keystream, WordSource, is_secret
from dimly.curator.tables.numbered_table import NumberedRows
from dimly.errors import DataError, ParameterError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release.format import UserType, user_type_of
from dimly.release.sketches import Sketches

_ROWS = 1 << 20


class MatrixTable:
    """People in compressed sparse rows, ordered by user.

    Parameters
    ----------
    people : People
        With positions in ``attributes``, in any order within a person.
    users : ndarray
        Ids, int64 or text, rising.
    attributes : sequence of str
        What the people index.
    resolution : int
        Of their values.
    """

    def __init__(self, people: People, users: NDArray[Any], attributes: Sequence[str], *, resolution: int) -> None:
        self.people = people.bounded(width=len(attributes), resolution=resolution)
        self.ids = users
        self.attributes = attributes
        self.n_users = len(users)
        self.user_type: UserType = user_type_of(users)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: what was in memory before stays there."""

    def users(self, start: int, stop: int) -> pa.Array:
        """Return the ids of people ``start`` … ``stop`` − 1."""
        ids = self.ids[start:stop]
        return pa.array(ids) if self.user_type == "int64" else pa.array(ids.tolist(), pa.string())

    def own_ids(self) -> Iterator[pa.Array]:
        """Return everybody's own id."""
        yield self.users(0, self.n_users)

    published_ids = own_ids

    def rows(self) -> Iterator[NumberedRows]:
        """Return all rows in the order of people and then attributes."""
        starts, n = self.people.indptr, len(self.people)
        first = 0
        while first < n:
            # As many whole people as fit, and at least one.
            stop = max(first + 1, int(np.searchsorted(starts, starts[first] + _ROWS, side="right")) - 1)
            stop = min(stop, n)
            used = slice(int(starts[first]), int(starts[stop]))
            users = np.repeat(np.arange(first, stop, dtype=np.int32), np.diff(starts[first : stop + 1]))
            values = None if self.people.values is None else self.people.values[used]
            yield NumberedRows.of(users, self.people.indices[used], values, in_steps=True)
            first = stop

    def texts(self) -> Texts:
        """Return what the numbers of attributes stand for."""
        return ListedTexts(self.attributes)

    def diagnostics(self) -> dict[str, int]:
        """Return private figures about the table, for the curator's own eyes."""
        return {"rows": int(self.people.indptr[-1] - self.people.indptr[0])}


def matrix_people(table: Any, plan: Plan, *, attributes: Iterable[object] | None) -> tuple[People, Sequence[str]]:
    """Return the people of a matrix, and what they index: its attributes, or the plan's closed vocabulary.

    Raises
    ------
    DataError
        If the table does not fit.
    ParameterError
        If none of its columns counts by the plan.
    """
    n_columns = plan.n_attributes if attributes is None else None
    people, names = people_of(table, resolution=plan.resolution, n_columns=n_columns, attributes=attributes)
    if not plan.counts_any(names):
        raise ParameterError(
            "attributes must have rows in the directions, but none of the columns has one, so that only noise would be "
            "published. Name the columns by attributes (of a data frame: by its columns), as the directions do."
        )
    return _in_vocabulary(people, names, plan)


def publish_people(
    people: People, perturber: Perturber, *, users: ArrayLike | None = None, words: WordSource | None = None
) -> Sketches:
    """Return what may be published of ``people``, ordered by user."""
    people, ids = ordered_by_user(people, users)
    source = Keystream() if words is None else words
    return Sketches(perturber.plan, ids, perturber.perturb(people, source), private=is_secret(source))


def ordered_by_user(people: People, users: ArrayLike | None) -> tuple[People, NDArray[Any]]:
    """Return people by id and never by arrival, whose order can say something about them, and the ids."""
    ids = user_ids(users, len(people))
    order = np.argsort(ids, kind="stable")
    if len(order) and (order[1:] < order[:-1]).any():
        people, ids = people.take(order), ids[order]
    return people, ids


def _in_vocabulary(people: People, names: Sequence[str], plan: Plan) -> tuple[People, Sequence[str]]:
    """Return people whose indices are positions in the plan's closed vocabulary, if it has one."""
    if plan.vocabulary is None:
        return people, names
    vocabulary = plan.vocabulary_of(None if plan.vocabulary.sha256 is None else names)
    if isinstance(names, Vocabulary) and names == vocabulary:
        return people, vocabulary
    codes = vocabulary.codes(names)
    if (codes < 0).any():
        raise DataError("attributes must all be of the plan's vocabulary. Leave out the columns that are not.")
    if (codes == np.arange(len(codes))).all():
        return people, vocabulary
    return People(people.indptr, codes[people.indices], people.values), vocabulary
