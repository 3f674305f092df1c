"""From a private table in memory to a release in memory: the paper's Algorithms 1, 3 and 5."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dimly.curator.people import People, people_of, user_ids
from dimly.curator.perturbing import Perturber
from dimly.curator.randomness import Keystream, WordSource, is_secret
from dimly.errors import DataError
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.plan import Plan
from dimly.release.sketches import Sketches


def publish_matrix(
    table: Any,
    plan: Plan,
    *,
    users: ArrayLike | None = None,
    attributes: Iterable[object] | None = None,
    words: WordSource | None = None,
) -> Sketches:
    """Return what may be published of ``table``.

    Parameters
    ----------
    table : array_like or SciPy sparse matrix
        One row per person, one column per attribute.
    plan : Plan
    users : array_like, optional
        Ids, integers or text; 0, 1, … by default.
    attributes : iterable, optional
        Names of the columns; "0", "1", … by default. If the plan was made with a listed vocabulary, that list.
    words : WordSource, optional
        For tests only: what is made with anything but a fresh secret keystream is stamped as not private.

    Raises
    ------
    DataError
        If the table does not fit the plan; the text holds nothing of the table.
    """
    people, known = matrix_people(table, plan, attributes=attributes)
    return publish_people(people, Perturber(plan, known), users=users, words=words)


def matrix_people(table: Any, plan: Plan, *, attributes: Iterable[object] | None) -> tuple[People, Sequence[str]]:
    """Return the people of a matrix, and what they index: its attributes, or the plan's closed vocabulary."""
    n_columns = plan.n_attributes if attributes is None else None
    people, names = people_of(table, resolution=plan.resolution, n_columns=n_columns, attributes=attributes)
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
    vocabulary = plan.vocabulary.resolve(None if plan.vocabulary.sha256 is None else names)
    if isinstance(names, Vocabulary) and names == vocabulary:
        return people, vocabulary
    codes = vocabulary.codes(names)
    if (codes < 0).any():
        raise DataError("attributes must all be of the plan's vocabulary. Leave out the columns that are not.")
    if (codes == np.arange(len(codes))).all():
        return people, vocabulary
    return People(people.indptr, codes[people.indices], people.values), vocabulary
