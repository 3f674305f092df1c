"""Matrices of people, published in memory with any noise."""

from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike

from dimly.curator.perturb import Perturber
from dimly.curator.randomness import WordSource
from dimly.curator.tables.matrix import matrix_people, publish_people
from dimly.mechanisms import Plan
from dimly.release import Sketches


def publish_matrix(
    table: Any,
    plan: Plan,
    *,
    users: ArrayLike | None = None,
    attributes: Iterable[object] | None = None,
    words: WordSource | None = None,
) -> Sketches:
    """Return what :func:`dimly.publish` would publish of a matrix, with noise from ``words``."""
    people, known = matrix_people(table, plan, attributes=attributes)
    return publish_people(people, Perturber(plan, known), users=users, words=words)
