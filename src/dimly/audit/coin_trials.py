"""Coins tossed for canaries, published by the real perturber, and scored: what guesses are made from."""

import math
import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dimly.audit.canaries import MOST_CANARIES, Canaries, canaries_of
from dimly.curator.people import People
from dimly.curator.perturb import Perturber
from dimly.curator.randomness import Keystream, WordSource
from dimly.errors import ParameterError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_kinds import DistancePlan, ResponsePlan
from dimly.mechanisms.plan_parts import FlipNoise, GaussianNoise
from dimly.mechanisms.projection.rows import IntArray
from dimly.privacy import VALUES_MOVED

_MOST_AT_ONCE = 1 << 21  # numbers that are drawn at a time
_LONG_ROW = 1 << 20  # numbers of a row that are looked at where it is noise alone
_OF_A_RELEASE = 2_000  # numbers that are drawn in the time that a small release takes besides

Words = Callable[[], WordSource]


class ScoredCoins(NamedTuple):
    """Coins, and for each how much more likely what was published is if it says "present": above 0, or below."""

    coins: NDArray[np.bool_]
    scores: IntArray
    extremes: tuple[IntArray, ...] = ()
    """The number that lies farthest to the side of "present", and the one farthest to the side of "absent"."""


def coin_source() -> np.random.Generator:
    """Return a source of coins: not the one that noise comes from, which is under suspicion."""
    return np.random.default_rng(int.from_bytes(os.urandom(32)))


class CoinTrials(Protocol):
    """How coins are tossed for one kind of plan."""

    numbers: int
    """How many random numbers one draw takes, or could have taken in the same time."""

    @property
    def draws_at_once(self) -> int:
        """How many draws fit into memory."""

    @property
    def coins_in_a_draw(self) -> int:
        """How many coins one draw tosses."""

    def seen(self, draws: int, *, careless: bool) -> ScoredCoins:
        """Toss the coins of so many draws, publish, and score."""

    def noise(self, draws: int) -> IntArray:
        """Publish people who have nothing so many times, and return what is published: noise alone."""


def trials_of(plan: Plan, *, vocabulary: Iterable[object] | None = None, words: Words = Keystream) -> "CoinTrials":
    """Return how to toss coins for a plan.

    Parameters
    ----------
    plan : Plan
        With its directions, if it names some.
    vocabulary : iterable, optional
        The list that the plan was made with; needed where rows of the projection differ in length.
    words : callable
        Where noise comes from, one source for each draw: fresh keystreams, unless a test injects others.
    """
    if isinstance(plan, DistancePlan):
        return DistanceTrials(plan, words)
    return PersonTrials(plan, canaries_of(plan, vocabulary=vocabulary, together=MOST_CANARIES), words)


def scores_of(plan: Plan, canaries: Canaries, values: IntArray) -> IntArray:
    """Return the score of every canary of published numbers, shape (people, canaries); bits are unpacked.

    Laplace and flipped bits: the log of the likelihood ratio over the cost of one step. Gaussian: that log times σ²,
    doubled.
    """
    offset = values[:, canaries.columns] - canaries.start
    moves = canaries.moves
    if isinstance(plan.noise, GaussianNoise):
        score = (2 * offset * moves - moves * moves).sum(axis=2)
    else:
        score = (np.abs(offset) - np.abs(offset - moves)).sum(axis=2)
    found: IntArray = score
    return found


def extremes_of(canaries: Canaries, values: IntArray) -> tuple[IntArray, IntArray]:
    """Return of every canary of published numbers the one farthest to either side, shape (people, canaries) each.

    What noise never adds cannot be seen there without the coin. Of a canary that moves one number it is that number.
    """
    offset, moves = values[:, canaries.columns] - canaries.start, canaries.moves
    sign, none = np.sign(moves), np.iinfo(np.int64).max
    farthest = np.where(moves != 0, offset * sign, -none).max(axis=2)
    return farthest, np.where(moves != 0, (offset - moves) * sign, none).min(axis=2)


def numbers_of(plan: Plan, published: NDArray[Any], *, first: int | None = None) -> IntArray:
    """Return published rows as numbers, a bit as 0 or 1; the ``first`` of each row alone, where a row may be long."""
    if isinstance(plan, ResponsePlan):
        count = plan.n_attributes if first is None else min(first, plan.n_attributes)
        published = np.unpackbits(published[:, : -(-count // 8)], axis=1, bitorder="little", count=count)
    return published[:, :first].astype(np.int64)


def scored(plan: Plan, canaries: Canaries, coins: NDArray[np.bool_], values: IntArray) -> ScoredCoins:
    """Return the coins of people, a row each, with all that an attacker looks at in their published numbers."""
    extremes = tuple(one.reshape(-1) for one in extremes_of(canaries, values))
    return ScoredCoins(coins.reshape(-1), scores_of(plan, canaries, values).reshape(-1), extremes)


class PersonTrials:
    """Invented people who hold canaries, each published as a row of their own."""

    def __init__(self, plan: Plan, canaries: Canaries, words: Words) -> None:
        self.plan = plan
        self.canaries = canaries
        self.words = words
        # Where attributes are positions, the plan says how many there are.
        self.perturber = Perturber(plan, () if plan.by_position else canaries.attributes)
        self.numbers = math.prod(plan.published_shape(1)) * (8 if isinstance(plan, ResponsePlan) else 1)

    @property
    def draws_at_once(self) -> int:
        """How many people fit into memory."""
        return max(1, _MOST_AT_ONCE // self.numbers)

    @property
    def coins_in_a_draw(self) -> int:
        """How many canaries a person holds."""
        return len(self.canaries)

    def seen(self, draws: int, *, careless: bool) -> ScoredCoins:
        """Toss the coins of so many people, publish, and score."""
        coins = coin_source().integers(0, 2, (draws, len(self.canaries)), dtype=np.int8).astype(bool)
        people = self.canaries.held_carelessly(coins) if careless else self.canaries.held(coins)
        published = self.perturber.perturb(people, self.words())
        looked_at = int(self.canaries.columns.max()) + 1
        return scored(self.plan, self.canaries, coins, numbers_of(self.plan, published, first=looked_at))

    def noise(self, draws: int) -> IntArray:
        """Publish so many people who have nothing, in one batch."""
        nothing = People(np.zeros(draws + 1, np.int64), np.empty(0, np.int64), None)
        return numbers_of(self.plan, self.perturber.perturb(nothing, self.words()), first=_LONG_ROW)


class DistanceTrials:
    """One release of noisy distances a coin: one person's attribute moves the distances to everybody."""

    def __init__(self, plan: DistancePlan, words: Words) -> None:
        self.plan = plan
        self.words = words
        self.perturber = Perturber(plan)
        self.numbers = plan.published_shape(plan.n_users)[0] + _OF_A_RELEASE
        if plan.n_attributes < VALUES_MOVED[plan.unit]:
            raise ParameterError("vocabulary must have two attributes at least where the unit is a column.")

    @property
    def draws_at_once(self) -> int:
        """How many releases are made in a row."""
        return max(1, _MOST_AT_ONCE // self.numbers)

    @property
    def coins_in_a_draw(self) -> int:
        """One."""
        return 1

    def people(self, coin: bool, *, careless: bool) -> People:
        """Return everybody: the first one has attribute 0 if the coin says so. A column is 0 or 1, and 1 of others."""
        n, resolution = self.plan.n_users, self.plan.resolution
        other = [1] if self.plan.unit == "column" else []
        held = [[0] if coin else other] + [other] * (n - 1)
        if careless:
            held = [2 * one for one in held]
        indptr = np.concatenate([[0], np.cumsum([len(one) for one in held])])
        indices = np.array([i for one in held for i in one], np.int64)
        values = None
        if careless or resolution > 1:
            values = np.full(len(indices), resolution * (1998 if careless else 1), np.int64)
        return People(indptr, indices, values)

    def seen(self, draws: int, *, careless: bool) -> ScoredCoins:
        """Publish so many times, and score the distances of the first person."""
        coins = coin_source().integers(0, 2, draws).astype(bool)
        own = self.plan.n_users - 1
        move = VALUES_MOVED[self.plan.unit] * self.plan.resolution**2
        scores, highest, lowest = np.empty((3, draws), np.int64)
        for i, coin in enumerate(coins.tolist()):
            published = self.perturber.perturb(self.people(coin, careless=careless), self.words())
            distances = published[:own].astype(np.int64)
            scores[i] = 2 * move * int(distances.sum()) - own * move**2
            highest[i], lowest[i] = distances.max(), distances.min() - move
        return ScoredCoins(coins, scores, (highest, lowest))

    def noise(self, draws: int) -> IntArray:
        """Publish so many times people who have nothing, and so are nowhere apart."""
        nothing = People(np.zeros(self.plan.n_users + 1, np.int64), np.empty(0, np.int64), None)
        found = [self.perturber.perturb(nothing, self.words()).astype(np.int64) for _ in range(draws)]
        return np.stack(found)


def collision_bits(plan: Plan) -> float:
    """Return how many bits of surprise there are in two equal numbers of noise: −log₂ of their probability."""
    noise = plan.noise
    if isinstance(noise, FlipNoise):
        p = noise.probability
        return -math.log2(p * p + (1 - p) ** 2)
    cells = plan.table.cells()
    last = cells.high.astype(np.float64) / 2.0**64
    shares = np.diff(last, prepend=0.0)
    return max(0.0, -math.log2(float((shares**2).sum())))
