"""A picture of what noise does: made-up groups as they are, and as a release would show them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

from dimly.analyst.structure.plane import plane_of
from dimly.api import publish_public
from dimly.mechanisms.error.models import Floats
from dimly.mechanisms.plan import Plan

SHOWN: Final = 200
MOST_MADE: Final = 2_000
"""People who are made up and published, of whom 200 are shown: the more there are, the better noise is told apart."""
MOST_ATTRIBUTES: Final = 20_000
GROUPS: Final = 3
"""A plane shows three groups that are equally far apart as they are, and no more."""
_HAS: Final = 0.8  # part of its group's list that a member has


@dataclass(frozen=True, slots=True, eq=False)
class MadePeople:
    """People as a table of ones, and the group that each belongs to."""

    table: scipy.sparse.csr_array
    groups: NDArray[np.int64]


def people_at(
    near: float,
    far: float,
    *,
    weight: float,
    n_attributes: int | None = None,
    n_people: int = MOST_MADE,
    n_groups: int = GROUPS,
    seed: int = 0,
) -> MadePeople:
    """Return made-up people whose squared distances are about ``near`` within a group and ``far`` between two.

    All have some attributes in common; a group has a list of its own, of which each member has four fifths; the rest is
    anybody's own. With c attributes from the list of a group and o of one's own, two of one group differ in 2o + 0.4c
    on average, two of different groups in 2o + 2c, as long as own attributes seldom meet.

    Parameters
    ----------
    near, far : float
        Squared distances, near < far.
    weight : float
        Attributes of a person; at least far/2.
    n_attributes : int, optional
        How many there are; as many as are needed by default, and no more than are needed and 20,000.

    Examples
    --------
    >>> people = people_at(20, 60, weight=40, n_people=300, n_groups=2)
    >>> weights, shared = people.table.sum(axis=1), (people.table @ people.table.T).toarray()
    >>> apart = weights[:, None] + weights - 2 * shared
    >>> same = people.groups[:, None] == people.groups
    >>> bool(18 < apart[same].mean() < 22), bool(56 < apart[~same].mean() < 64), bool(38 < weights.mean() < 42)
    (True, True, True)
    """
    has = _HAS if near / 2 - (1 - _HAS) * (far - near) / (2 * _HAS) >= 1 else 1.0
    of_group = (far - near) / (2 * has)
    own = max(1, round(near / 2 - (1 - has) * of_group))
    listed = max(1, round(of_group / has))
    common = max(0, round(weight - own - of_group))
    first = common + n_groups * listed
    width = max(first + 4 * own, min(n_attributes or first + 40 * own, MOST_ATTRIBUTES))
    chance = np.random.default_rng(seed)
    groups = chance.integers(n_groups, size=n_people)
    rows = np.empty((n_people, common + listed + own), np.int64)
    rows[:, :common] = np.arange(common)
    rows[:, common : common + listed] = common + groups[:, None] * listed + np.arange(listed)
    rows[:, common + listed :] = first + _chosen(chance, n_people, own, width - first)
    held = np.ones(rows.shape, np.bool_)
    held[:, common : common + listed] = chance.random((n_people, listed)) < has
    indptr = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
    table = scipy.sparse.csr_array((np.ones(indptr[-1], np.int8), rows[held], indptr), shape=(n_people, width))
    return MadePeople(table, groups)


def _chosen(chance: np.random.Generator, n: int, size: int, among: int) -> NDArray[np.int64]:
    """Return ``size`` different numbers below ``among`` for each of ``n``, rising."""
    step = among // size
    # One of each stretch: different, and as good as any for a picture.
    return np.arange(size) * step + chance.integers(step, size=(n, size))


@dataclass(frozen=True, slots=True, eq=False)
class Blur:
    """Some people on a plane, as they are and as a release shows them.

    Attributes
    ----------
    before, after : ndarray (shown, 2)
        In units of their own spread; ``after`` is turned so that it looks like ``before`` as far as it can.
    groups : ndarray of int64 or None
        Of those who are shown, if they are known.
    n_published : int
        How many people were published, of whom these are some.
    kept : float
        Part of how people differ in ``before`` that ``after`` still shows, from 0 to 1.
    """

    before: Floats
    after: Floats
    groups: NDArray[np.int64] | None
    n_published: int
    kept: float


def blur_of(
    plan: Plan,
    table: scipy.sparse.csr_array,
    *,
    groups: NDArray[np.int64] | None = None,
    attributes: Sequence[str] | None = None,
    shown: int = SHOWN,
) -> Blur:
    """Publish people by a plan, and return how some of them look before and after.

    Parameters
    ----------
    plan : Plan
        Any that places people.
    table : csr_array
        Made-up or public people: values in [0, 1].
    groups : ndarray, optional
    attributes : sequence of str, optional
        Names of the columns; numbers by default.
    """
    before = _principal_places(table)
    plane = plane_of(publish_public(table, plan, attributes=attributes))
    some = np.linspace(0, table.shape[0] - 1, min(shown, table.shape[0])).astype(np.int64)
    first, second = (_in_own_units(places[some]) for places in (before, plane.points.astype(np.float64)))
    turn, match = scipy.linalg.orthogonal_procrustes(second, first)
    kept = (match / max(float(np.linalg.norm(first) * np.linalg.norm(second)), 1e-12)) ** 2
    return Blur(first, second @ turn, None if groups is None else groups[some], table.shape[0], float(kept))


def _principal_places(table: scipy.sparse.csr_array) -> Floats:
    """Return people along the two directions in which they differ most."""
    exact = scipy.sparse.csr_array(table, dtype=np.float64)
    mean = np.asarray(exact.mean(axis=0)).reshape(-1)
    n, d = exact.shape
    basis = np.random.default_rng(0).standard_normal((d, min(8, d)))
    for _ in range(6):  # block power iteration on the covariance; a picture needs no more
        basis, _ = np.linalg.qr(exact.T @ (exact @ basis) - n * np.outer(mean, mean @ basis))
    places = exact @ basis - mean @ basis
    _, turn = np.linalg.eigh(places.T @ places)
    found: Floats = places @ turn[:, ::-1][:, :2]
    return found if found.shape[1] == 2 else np.column_stack([found[:, 0], np.zeros(n)])


def _in_own_units(places: Floats) -> Floats:
    centered: Floats = places - places.mean(axis=0)
    centered /= max(math.sqrt(float((centered**2).mean())), 1e-12)
    return centered
