"""Two releases compared: who is in both, whether their distances agree, what they cost together."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from dimly.analyst.release import Release
from dimly.errors import ParameterError
from dimly.mechanisms.error.models import Floats
from dimly.privacy.composition import compose

_PAIRS: Final = 2_000
_ALIKE: Final = 1.25
"""How many times more than their errors two releases may differ, and still be taken to show the same people alike."""


@dataclass(frozen=True, slots=True, eq=False)
class ReleasePair:
    """How two releases compare.

    Attributes
    ----------
    n_common : int
        People who are in both, by id.
    first, second : ndarray
        Estimated squared distances of the same random pairs of these people by each release; empty where none can be
        compared.
    ratio : float
        How far the two differ over what their errors allow: about 1 where both show the same table; NaN without pairs.
    epsilon, delta : float
        What both cost together by plain addition, if they are about the same people's same attributes.
    comparable : bool
        Whether both measure the same distance: not where one is along directions.
    """

    n_common: int
    first: Floats
    second: Floats
    ratio: float
    epsilon: float
    delta: float
    comparable: bool

    @property
    def words(self) -> str:
        """Whether they agree, in a sentence."""
        if self.n_common < 2:
            return "The two releases have no two people in common, by id, so that nothing can be compared."
        if not self.comparable:
            return "The two releases measure different distances (one is along directions), so these are not compared."
        if not math.isfinite(self.ratio):
            return "No pair of people could be compared."
        if self.ratio <= _ALIKE:
            return "They agree: distances differ by no more than noise explains. Both show the same people alike."
        return (
            f"They differ {self.ratio:.1f} times as much as noise explains: people changed from one to the other, or "
            "the "
            "tables are not the same."
        )


def compare_releases(a: Release, b: Release, *, n_pairs: int = _PAIRS, seed: int = 0) -> ReleasePair:
    """Return how two releases compare, by random pairs of people who are in both.

    Examples
    --------
    >>> from dimly.api import publish
    >>> from dimly.mechanisms import Plan
    >>> from dimly.privacy import Budget
    >>> people = np.random.default_rng(0).random((400, 300)) < 0.2
    >>> plans = [Plan.of("counting+laplace", Budget(4.0), k=64) for _ in range(2)]
    >>> found = compare_releases(*(publish(people, plan) for plan in plans))
    >>> found.n_common, found.epsilon, 0.8 < found.ratio < 1.2
    (400, 8.0, True)
    """
    if a.users.dtype.kind != b.users.dtype.kind:
        raise ParameterError(
            "releases must name people alike to be compared, but one has numbers as ids, the other text."
        )
    users = np.intersect1d(a.users, b.users, assume_unique=True)
    costs = [a.plan.cost, b.plan.cost]
    delta = sum(cost.delta for cost in costs)
    epsilon = sum(cost.epsilon for cost in costs)
    if costs[0].unit == costs[1].unit:
        epsilon = compose(costs, delta=min(delta, math.nextafter(1.0, 0.0)), method="sum").epsilon
    comparable = a.plan.measures_attributes and b.plan.measures_attributes
    empty = np.empty(0)
    if len(users) < 2 or not comparable:
        return ReleasePair(len(users), empty, empty, math.nan, epsilon, delta, comparable)
    chance = np.random.default_rng(seed)
    left = chance.integers(len(users), size=n_pairs)
    right = (left + chance.integers(1, len(users), size=n_pairs)) % len(users)
    found = [release.distances(users[left], users[right]) for release in (a, b)]
    known = np.isfinite(found[0].value) & np.isfinite(found[1].value)
    first, second = (one.value[known] for one in found)
    errors = sum(one.stderr[known] ** 2 for one in found)
    ratio = math.sqrt(float(((first - second) ** 2).mean() / np.mean(errors))) if known.any() else math.nan
    return ReleasePair(len(users), first, second, ratio, epsilon, delta, comparable)
