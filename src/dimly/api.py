"""The short way through the rooms."""

from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike

from dimly.analyst.release import Release
from dimly.curator.publishing import publish_matrix
from dimly.errors import ParameterError
from dimly.mechanisms.attributes import Vocabulary, attribute_texts
from dimly.mechanisms.plan import Plan


def publish(
    table: Any, plan: Plan, *, users: ArrayLike | None = None, attributes: Iterable[object] | None = None
) -> Release:
    """Publish a private table by ``plan``, with fresh secret noise.

    Parameters
    ----------
    table : array_like or SciPy sparse matrix
        One row per person, one column per attribute: booleans, 0 and 1, or values in [0, 1] if the plan's
        resolution is above 1.
    plan : Plan
        Made before the table was looked at.
    users : array_like, optional
        Ids of the people, integers or text; 0, 1, … by default.
    attributes : iterable, optional
        Names of the columns; "0", "1", … by default. Columns whose names have the same text are one attribute.

    Returns
    -------
    Release
        Holds the published numbers and nothing of the table.

    Raises
    ------
    DataError
        If the table does not fit the plan. The text holds nothing of the table.

    Examples
    --------
    >>> from dimly.mechanisms import Plan
    >>> from dimly.privacy import Budget
    >>> release = publish([[1, 0, 1], [0, 1, 1]], Plan.of("counting+laplace", Budget(1.0), k=4))
    >>> release.values.shape, release.values.dtype.name
    ((2, 4), 'int16')
    """
    if not isinstance(plan, Plan):
        raise ParameterError(f"plan must be a Plan, got {type(plan).__name__}. Call publish(table, plan).")
    names = None if attributes is None else attribute_texts(attributes)
    sketches = publish_matrix(table, plan, users=users, attributes=names)
    if plan.vocabulary is None or plan.vocabulary.sha256 is None:
        return Release(sketches)
    # The plan holds only the digest of its list; the release can name it, because the columns were that list.
    listed = Vocabulary.numbered(plan.vocabulary.size) if names is None else dict.fromkeys(names)
    return Release(sketches, vocabulary=listed)
