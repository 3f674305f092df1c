"""Canaries, the neighbors that a plan hides worst: attributes that move published numbers farthest.

A *canary* is one unit of privacy of an invented person, to be tossed for: an attribute that is present or not, or a
column that has one category or another. Canaries that move different numbers can share a person, and each is hidden
given all others.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dimly.curator.people import People
from dimly.errors import ParameterError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_kinds import DirectionsPlan, ResponsePlan
from dimly.mechanisms.plan_parts import GaussianNoise
from dimly.mechanisms.projection.rows import IntArray
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import VALUES_MOVED

MOST_CANARIES: Final = 1024
"""In one person: more of them would not make an audit sharper."""
_LOOKED_AT: Final = 1 << 17  # attributes of an open or a long list that are looked at for the longest row
_LARGEST_LOOK: Final = 1 << 24  # entries of P that are held at once
_COMPARED: Final = 1 << 10  # rows of which all pairs are compared for the farthest exchange

_FIRST_NAME: Final = 1_900_000_000

Bits = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Canaries:
    """Units of privacy of one invented person, and where they show.

    Attributes
    ----------
    attributes : tuple of str
        Texts of the attributes that a person can have.
    present, absent : ndarray of int64, shape (canaries,)
        Position of the attribute that a person has if the coin says so, and if it does not; −1 is none.
    columns, moves, start : ndarray of int64, shape (canaries, numbers)
        The published numbers that a canary moves, by how much, and what they are without it and without noise. Where
        it moves fewer numbers than others do, the rest move by 0.
    resolution : int
        The largest value of an attribute.
    """

    attributes: tuple[str, ...]
    present: IntArray
    absent: IntArray
    columns: IntArray
    moves: IntArray
    start: IntArray
    resolution: int

    def __len__(self) -> int:
        return len(self.present)

    def held(self, coins: Bits) -> People:
        """Return people whose canaries are as the coins say: a row of coins each."""
        chosen = np.where(coins, self.present, self.absent)
        kept = chosen >= 0
        indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        indices = chosen[kept]
        values = None if self.resolution == 1 else np.full(len(indices), self.resolution, np.int64)
        return People(indptr, indices, values)

    def held_carelessly(self, coins: Bits) -> People:
        """Return the same people as a careless reader of a table might hand them over: still one unit each.

        Attributes come twice, in no order, with values beyond the largest. The perturbing function promises to count
        each once, within its range.
        """
        people = self.held(coins)
        lengths = np.diff(people.indptr)
        # Each person's attributes backwards, then again.
        within = np.arange(len(people.indices)) - np.repeat(people.indptr[:-1], lengths)
        backwards = people.indices[np.repeat(people.indptr[1:], lengths) - 1 - within]
        indices = np.empty(2 * len(people.indices), people.indices.dtype)
        place = 2 * np.repeat(people.indptr[:-1], lengths) + within
        indices[place] = backwards
        indices[place + np.repeat(lengths, lengths)] = backwards
        values = np.full(len(indices), 1998 * self.resolution, np.int64)
        return People(2 * people.indptr, indices, values)


def canaries_of(
    plan: Plan,
    *,
    vocabulary: Iterable[object] | None = None,
    together: int = MOST_CANARIES,
    names: Sequence[str] | None = None,
) -> Canaries:
    """Return canaries that move what is published as far as the plan says, as many as fit into one person.

    Parameters
    ----------
    plan : Plan
        With its directions, if it names some.
    vocabulary : iterable, optional
        The list that the plan was made with, if it names one.
    together : int
        How many canaries one person holds at most.
    names : sequence of str, optional
        Attributes to choose from where the plan takes any.

    Raises
    ------
    ParameterError
        If the vocabulary is missing or another, or the plan is about distances, which have no rows.
    """
    if not plan.places_people:
        raise ParameterError("noisy distances are of all pairs: no canary has a row of its own.")
    if isinstance(plan, ResponsePlan):
        return _bits(plan, vocabulary, together)
    texts = _attributes(plan, vocabulary, names)
    rows = plan.rows(texts).to_dense() * plan.resolution
    by_l2 = isinstance(plan.noise, GaussianNoise)
    if plan.unit == "column":
        pairs = _exchanges(rows, by_l2=by_l2)
    else:
        norms = _norms(rows, by_l2=by_l2)
        pairs = np.stack([np.argsort(-norms, kind="stable"), np.full(len(norms), -1)], axis=1)
    chosen, columns = _disjoint(rows, pairs, by_l2=by_l2, together=together)
    return _assembled(plan, texts, rows, chosen, columns)


def invented(i: int) -> str:
    """Return the name of an attribute that is on no list: a number, so that columns of text and of integers take it."""
    return str(_FIRST_NAME + i)


def _norms(rows: IntArray, *, by_l2: bool) -> IntArray:
    found: IntArray = (rows**2 if by_l2 else np.abs(rows)).sum(axis=-1)
    return found


def _attributes(plan: Plan, vocabulary: Iterable[object] | None, names: Sequence[str] | None) -> list[str]:
    """Return the attributes to look at: of the plan's list or directions, or any."""
    if isinstance(plan, DirectionsPlan) and plan.matrix.vocabulary is not None:
        known = plan.matrix.vocabulary
        norms = _norms(plan.matrix.matrix.astype(np.int64), by_l2=isinstance(plan.noise, GaussianNoise))
        row = norms if plan.matrix.category_of is None else norms[plan.matrix.category_of]
        if plan.unit == "attribute":  # the longest alone: rows are looked at once, and never all held
            order = np.argsort(-row, kind="stable")[: max(1, _LARGEST_LOOK // plan.k)]
            return [known[int(i)] for i in order]
        return list(known)
    if plan.vocabulary is not None and not (vocabulary is None and plan.open_vocabulary):
        named = plan.vocabulary_of(vocabulary)
        return _longest(plan, list(named) if len(named) <= _LOOKED_AT else _some(named))
    if isinstance(plan, DirectionsPlan):
        return _longest(plan, _invented(_LOOKED_AT, names))
    return _invented(max(64, min(8 * (plan.k or 1), _LARGEST_LOOK // (plan.k or 1))), names)


def _invented(count: int, names: Sequence[str] | None) -> list[str]:
    return [invented(i) for i in range(count)] if names is None else list(names[:count])


def _some(named: Vocabulary) -> list[str]:
    step = len(named) // _LOOKED_AT
    return [named[i * step] for i in range(_LOOKED_AT)]


def _longest(plan: Plan, texts: list[str]) -> list[str]:
    """Return as many of these attributes as can be held at once, those with the longest rows first."""
    room = max(64, _LARGEST_LOOK // (plan.k or 1))
    if len(texts) <= room:
        return texts
    norms = np.concatenate(
        [
            _norms(
                plan.rows(texts[start : start + room]).to_dense(),
                by_l2=isinstance(plan.noise, GaussianNoise),
            )
            for start in range(0, len(texts), room)
        ]
    )
    return [texts[i] for i in np.argsort(-norms, kind="stable")[:room].tolist()]


def _exchanges(rows: IntArray, *, by_l2: bool) -> IntArray:
    """Return pairs of attributes, any two of which one column may exchange, the farthest apart first."""
    some = np.argsort(-_norms(rows, by_l2=by_l2), kind="stable")[:_COMPARED]
    first, second = np.triu_indices(len(some), 1)
    step = max(1, _LARGEST_LOOK // rows.shape[1])
    norms = np.concatenate(
        [
            _norms(rows[some[first[i : i + step]]] - rows[some[second[i : i + step]]], by_l2=by_l2)
            for i in range(0, len(first), step)
        ]
        or [np.empty(0, np.int64)]
    )
    best = np.argsort(-norms, kind="stable")[: 16 * MOST_CANARIES]
    lone = np.stack([some, np.full(len(some), -1)], axis=1)
    joined = np.concatenate([lone, np.stack([some[first[best]], some[second[best]]], axis=1)])
    moved = _norms(_moved(rows, joined), by_l2=by_l2)
    found: IntArray = joined[np.argsort(-moved, kind="stable")]
    return found


def _moved(rows: IntArray, pairs: IntArray) -> IntArray:
    absent = np.where(pairs[:, 1:] < 0, 0, rows[np.maximum(pairs[:, 1], 0)])
    moved: IntArray = rows[pairs[:, 0]] - absent
    return moved


def _disjoint(rows: IntArray, pairs: IntArray, *, by_l2: bool, together: int) -> tuple[IntArray, list[IntArray]]:
    """Return pairs that move as much as any does, and no number that another moves or begins from."""
    taken = np.zeros(rows.shape[1], bool)
    used = set()
    chosen: list[tuple[int, int]] = []
    columns: list[IntArray] = []
    farthest = None
    for present, absent in pairs.tolist():
        pair = np.array([[present, absent]])
        move = _moved(rows, pair)[0]
        farthest = int(_norms(move, by_l2=by_l2)) if farthest is None else farthest
        if int(_norms(move, by_l2=by_l2)) < farthest or len(chosen) == together:
            break
        touched = (rows[present] != 0) | ((rows[absent] != 0) if absent >= 0 else False)
        if (taken & touched).any() or present in used or absent in used:
            continue
        taken |= touched
        used |= {present} | ({absent} if absent >= 0 else set())
        chosen.append((present, absent))
        columns.append(np.flatnonzero(move))
        if taken.all():
            break
    return np.array(chosen), columns


def _assembled(plan: Plan, texts: list[str], rows: IntArray, chosen: IntArray, columns: list[IntArray]) -> Canaries:
    """Return the canaries of chosen pairs; a person's attributes are numbered canary by canary, so that they rise."""
    width = max(len(place) for place in columns)
    shape = (len(chosen), width)
    where, moves, start = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    names: list[str] = []
    present, absent = np.empty(len(chosen), np.int64), np.full(len(chosen), -1, np.int64)
    for c, ((a, b), place) in enumerate(zip(chosen.tolist(), columns, strict=True)):
        present[c] = len(names)
        names.append(texts[a])
        if b >= 0:
            absent[c] = len(names)
            names.append(texts[b])
            start[c, : len(place)] = rows[b, place]
        where[c, : len(place)] = place
        moves[c, : len(place)] = _moved(rows, np.array([[a, b]]))[0, place]
    return Canaries(tuple(names), present, absent, where, moves, start, plan.resolution)


def _bits(plan: ResponsePlan, vocabulary: Iterable[object] | None, together: int) -> Canaries:
    """Return a canary for each bit; for each two bits, where a column changes two."""
    size, part = VALUES_MOVED[plan.unit], plan.vocabulary
    count = min(together, part.size // size)
    if count == 0:
        raise ParameterError("vocabulary must have two attributes at least where the unit is a column.")
    # Bits are known by their position: a list is needed only by who writes a table.
    named = part.matching(vocabulary) if vocabulary is not None or part.sha256 is None else None
    names = () if named is None else tuple(named[i] for i in range(count * size))
    columns = np.arange(count * size).reshape(count, size)
    moves = np.tile(np.array([1, -1][:size]), (count, 1))
    start = np.tile(np.array([0, 1][:size]), (count, 1))
    absent = columns[:, 1].copy() if size == 2 else np.full(count, -1, np.int64)
    return Canaries(names, columns[:, 0].copy(), absent, columns, moves, start, 1)
