"""A picture of what noise does: people as they are, and as a release by a plan would show them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from dimly.analyst.release import Release
from dimly.analyst.structure.plane import plane_of
from dimly.curator.options import Options
from dimly.curator.run import publish_here
from dimly.mechanisms.error.models import Floats
from dimly.mechanisms.plan import Plan

SHOWN: Final = 200
MOST_MADE: Final = 2_000
"""People who are made up and published, of whom 200 are shown: the more there are, the better noise is told apart."""
MOST_ATTRIBUTES: Final = 20_000


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
    n_groups: int = 6,
    seed: int = 0,
) -> MadePeople:
    """Return made-up people whose squared distances are about ``near`` within a group and ``far`` between two.

    All have w − far/2 attributes in common, those of a group (far − near)/2 more, and near/2 are anybody's own. So two
    of one group differ in near/2 each, two of different groups in far/2 each, as long as own attributes seldom meet.

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
    >>> people = people_at(20, 60, weight=40, n_people=60, n_groups=2)
    >>> shared = (people.table @ people.table.T).toarray()
    >>> first = shared[people.groups == 0]
    >>> within, between = first[:, people.groups == 0], first[:, people.groups == 1]
    >>> 15 < 80 - 2 * np.median(within) <= 22, 55 < 80 - 2 * np.median(between) <= 62
    (True, True)
    """
    own = max(1, round(near / 2))
    of_group = max(1, round((far - near) / 2))
    common = max(0, round(weight) - own - of_group)
    least = common + n_groups * of_group + 4 * own
    width = max(least, min(n_attributes or 40 * own + least, MOST_ATTRIBUTES))
    chance = np.random.default_rng(seed)
    groups = chance.integers(n_groups, size=n_people)
    rows = np.empty((n_people, common + of_group + own), np.int64)
    rows[:, :common] = np.arange(common)
    rows[:, common : common + of_group] = common + groups[:, None] * of_group + np.arange(of_group)
    first = common + n_groups * of_group
    rows[:, common + of_group :] = first + _chosen(chance, n_people, own, width - first)
    table = scipy.sparse.csr_array(
        (np.ones(rows.size, np.int8), rows.reshape(-1), np.arange(n_people + 1) * rows.shape[1]),
        shape=(n_people, width),
    )
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
    beyond_noise : int
        How many of the two directions of ``after`` rise above the noise.
    """

    before: Floats
    after: Floats
    groups: NDArray[np.int64] | None
    n_published: int
    beyond_noise: int


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
    sketches, vocabulary = publish_here(table, plan, Options(attributes=attributes))
    plane = plane_of(Release(sketches, vocabulary=vocabulary))
    some = np.linspace(0, table.shape[0] - 1, min(shown, table.shape[0])).astype(np.int64)
    first, second = (_in_own_units(places[some]) for places in (before, plane.points.astype(np.float64)))
    turn, _ = scipy.linalg.orthogonal_procrustes(second, first)
    return Blur(first, second @ turn, None if groups is None else groups[some], table.shape[0], plane.beyond_noise)


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
    centered = places - places.mean(axis=0)
    return centered / max(math.sqrt(float((centered**2).mean())), 1e-12)
