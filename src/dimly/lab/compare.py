"""Predicted errors of all mechanisms over budgets, attributes and distances, as `dimly compare` shows."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from dimly.errors import ParameterError
from dimly.mechanisms.make import MECHANISMS, check_undirected, is_open, sketching
from dimly.mechanisms.projection.random_matrix import family_named
from dimly.planner.brief import Brief, Question
from dimly.planner.candidates import BLOCKS, Candidate, candidate
from dimly.planner.paper import paper_rules
from dimly.privacy import Budget

PAPER = "paper"
"""The paper's own mechanism: ``gaussian+gaussian`` with the noise of its Theorem 1, at its best k."""
MENU = (PAPER, "hashing+laplace", "counting+laplace", "randomized-response")
DELTA = 1e-6
"""For the mechanisms that need one; the others have δ = 0."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One mechanism under one set of circumstances.

    Attributes
    ----------
    mechanism : str
        Of the menu, or "paper".
    epsilon, delta : float
        What it would promise; δ = 0 for pure mechanisms.
    n_attributes : int or None
    distance : float
        Squared.
    k : int or None
        The best one at this distance; None where nothing is projected, or it cannot serve.
    stderr : float or None
        Of an estimated squared distance; None if it cannot serve.
    bytes_per_user : float or None
    reason : str
        Why it cannot serve; empty if it can.
    """

    mechanism: str
    epsilon: float
    delta: float
    n_attributes: int | None
    distance: float
    k: int | None = None
    stderr: float | None = None
    bytes_per_user: float | None = None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return asdict(self)


def compare(
    epsilons: Iterable[float],
    *,
    distances: Iterable[float],
    n_attributes: Iterable[int | None] = (None,),
    mechanisms: Sequence[str] = MENU,
    delta: float = DELTA,
    weight: float | None = None,
    n_users: int | None = None,
) -> list[Prediction]:
    """Return every mechanism under every combination of circumstances, for people who are bits.

    Parameters
    ----------
    epsilons : iterable of float
    distances : iterable of float
        Squared.
    n_attributes : iterable of int, optional
        Needed by randomized response, and by families whose vocabulary must be known.
    mechanisms : sequence of str
        Of the menu, or "paper" for the paper's own with the noise of its Theorem 1.
    delta : float, default=1e-6
        For the mechanisms that need one.
    weight : float, optional
        Ones of a person, on which the error of counting depends; half the distance by default, and no less: people
        cannot differ in more than they have.
    n_users : int, optional
        Needed by noisy distances.

    Examples
    --------
    >>> for one in compare([1.0], distances=[400.0], n_attributes=[5000], mechanisms=["paper", "counting+laplace"]):
    ...     print(one.mechanism, one.k, round(one.stderr))
    paper 16 1040
    counting+laplace 99 82
    """
    if not mechanisms:
        raise ParameterError("mechanisms must name at least one, got none.")
    for mechanism in mechanisms:
        if mechanism != PAPER:
            check_undirected(mechanism)
    distances, epsilons = tuple(distances), tuple(epsilons)
    if weight is not None and not max(distances) / 2 <= weight < math.inf:
        raise ParameterError(
            f"weight must be at least half of the largest distance, {max(distances):g}, got {weight!r}. People cannot "
            "differ in more attributes than they have."
        )
    wanted = [(e, d, at) for d in n_attributes for at in distances for e in epsilons]
    return [
        predict(mechanism, Budget(e, delta), n_attributes=d, distance=at, weight=weight, n_users=n_users)
        for e, d, at in wanted
        for mechanism in mechanisms
    ]


def predict(
    mechanism: str,
    budget: Budget,
    *,
    distance: float,
    n_attributes: int | None = None,
    weight: float | None = None,
    n_users: int | None = None,
) -> Prediction:
    """Return one mechanism at its best k for a squared distance."""
    needed = mechanism == PAPER or mechanism in _closed()
    found = _predicted(mechanism, budget, distance, n_attributes if needed else None, weight, n_users)
    pure = isinstance(found, Candidate) and found.pure
    one = Prediction(mechanism, budget.epsilon, 0.0 if pure else budget.delta, n_attributes, distance)
    if isinstance(found, str):
        return _with(one, reason=found)
    if isinstance(found, Candidate):
        return _with(one, k=found.k, stderr=found.stderr_high, bytes_per_user=found.bytes_per_user)
    k, stderr = found
    return _with(one, k=k, stderr=stderr, bytes_per_user=4.0 * k)


def winners(predictions: Iterable[Prediction]) -> dict[tuple[float, int | None, float], str]:
    """Return who has the smallest error for each ε, number of attributes and distance, if anybody can serve."""
    best: dict[tuple[float, int | None, float], Prediction] = {}
    for one in predictions:
        key = one.epsilon, one.n_attributes, one.distance
        if one.stderr is not None and (key not in best or one.stderr < (best[key].stderr or 0.0)):
            best[key] = one
    return {key: one.mechanism for key, one in best.items()}


def blocks_of(mechanism: str) -> int:
    """Return the entries per attribute with which the lab shows a mechanism: several where one would be hashing.

    Examples
    --------
    >>> blocks_of("sparse+laplace"), blocks_of("counting+laplace"), blocks_of("paper")
    (4, 1, 1)
    """
    kind = None if mechanism == PAPER else sketching(mechanism)
    return BLOCKS if kind is not None and family_named(kind.family).has_blocks else 1


def _with(one: Prediction, **fields: Any) -> Prediction:
    return Prediction(**{**asdict(one), **fields})


@lru_cache(maxsize=1)
def _closed() -> frozenset[str]:
    """Return the mechanisms whose error depends on the number of attributes."""
    return frozenset(mechanism for mechanism in MECHANISMS if not is_open(mechanism))


@lru_cache(maxsize=1 << 14)
def _predicted(  # noqa: PLR0917  (what is remembered is found by position)
    mechanism: str, budget: Budget, distance: float, n_attributes: int | None, weight: float | None, n_users: int | None
) -> Candidate | tuple[int, float] | str:
    brief = Brief(
        budget,
        n_attributes=n_attributes,
        numbered=n_attributes is not None,
        n_users=n_users,
        distance=distance,
        weight=weight,
    )
    question = Question.of(brief).over(distance, distance)
    if mechanism != PAPER:
        return candidate(mechanism, question)
    if budget.delta == 0:  # the planner would show it at a δ of its own
        return "it needs a delta above 0"
    rules = paper_rules(question)
    return (rules[0].k, rules[0].stderr) if rules else "its Theorem 1 proves nothing at this budget"
