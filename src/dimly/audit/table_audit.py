"""``audit_table``: a publication with invented people in it, from a table's files to a release's bytes."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimly.audit.canaries import MOST_CANARIES, Canaries, canaries_of
from dimly.audit.coin_trials import (
    PersonTrials,
    ScoredCoins,
    Words,
    coin_source,
    collision_bits,
    numbers_of,
    scored,
)
from dimly.audit.guess_bounds import Guesses, epsilon_from_guesses
from dimly.audit.guessing_rules import best_rule
from dimly.audit.noise_law import NoiseLaw, Signs, dependence, fair_signs
from dimly.audit.plan_audit import (
    FALSE_ALARM,
    Audit,
    Check,
    GaussianJudge,
    dependence_check,
    law_check,
    repeats_check,
)
from dimly.audit.planted_people import InventedRows, first_free_id, free_names, plant
from dimly.audit.repeated_noise import SURPRISE, judged, wanted
from dimly.curator.options import Options, Silence
from dimly.curator.publication import publish_table
from dimly.curator.randomness import Keystream
from dimly.curator.tables.database import private_folder
from dimly.curator.tables.public_lists import plan_along, vocabulary_for
from dimly.errors import ParameterError
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_kinds import ResponsePlan
from dimly.mechanisms.projection.rows import IntArray
from dimly.privacy import VALUES_MOVED
from dimly.release.format import layout_of, text_ids
from dimly.release.reader import open_folder

_COINS: Final = 1 << 20
_MOST_PEOPLE: Final = 1 << 20
_NUMBERS: Final = 1 << 28  # of all invented people, at most
_CONVINCING: Final = 1 << 14  # pairs that refute any claim
_LONG: Final = 1 << 14
_LONGEST: Final = 1 << 21  # numbers whose every distance is looked at
_LAW: Final = 1 << 24  # numbers of noise that are compared with their law
_PREFIX: Final = "dimly-audit-"
_PILOT: Final = 1 << 18
_SHARES: Final = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)  # of the coins, that are guessed where δ > 0
_UNREAD: Final = ("roster", "pseudonyms", "ledger", "dataset", "recipient", "append", "update", "diagnose")

Publishing = Callable[[list[str], Plan, Options], object]
"""Publishes files by a plan: this machine, or a cluster."""


class _InventedPeople(NamedTuple):
    """The invented people: those with many coins, then pairs of a known and a hidden one."""

    coins: NDArray[np.bool_]
    hidden: NDArray[np.bool_]
    places: IntArray
    """Where each of them comes among all, in the order of ids."""

    @property
    def order(self) -> IntArray:
        """Everybody's number, in the order of ids."""
        return np.argsort(self.places)

    @property
    def rows(self) -> NDArray[np.bool_]:
        """Coins of everybody, a row each."""
        pairs = np.zeros((2 * len(self.hidden), self.coins.shape[1]), bool)
        pairs[1::2, 0] = self.hidden
        return np.concatenate([self.coins, pairs])


def audit_table(
    source: Any,
    plan: Plan,
    options: Options,
    *,
    publishing: Publishing | None = None,
    coins: int = _COINS,
    false_alarm: float = FALSE_ALARM,
    words: Words = Keystream,
) -> Audit:
    """Publish a table once with invented people in it, and guess from their rows what coins gave them.

    Each invented person has attributes that coins were tossed for, written into the table twice. All of the table is
    read by the real source, engine and files, and published into a folder that nobody else can read. Invented people
    alone are on the roster: no noise is drawn for anybody else, so that nothing is to be charged.

    Parameters
    ----------
    source : path, glob, folder or list of these
        A long table.
    plan : Plan
        Any but noisy distances, which are of all people at once.
    options : Options
        How the table is read. No roster: it is that of the invented people.
    publishing : callable, optional
        How to publish, on another engine.
    coins : int
        How many to toss, about.
    false_alarm : float, default=1e-6
    words : callable
        For tests: where noise comes from.

    Raises
    ------
    ParameterError
        If the plan or the options do not fit.
    DimlyError
        If the table cannot be published.
    """
    if not plan.places_people:
        raise ParameterError("data must be left out for noisy distances, which have no row of one person.")
    for name in _UNREAD:
        if getattr(options, name) is not None:
            raise ParameterError(f"{name} must be left out of an audit, which publishes nothing that stays.")
    if options.where is not None:
        raise ParameterError("where must be left out of an audit: invented people have none of the other columns.")
    if options.attribute is None:
        raise ParameterError("attribute must name the column of attributes: only long tables are audited so far.")
    plan = plan_along(plan, options)
    vocabulary = vocabulary_for(plan, options) if plan.vocabulary is not None else None
    names = free_names(source, options)
    canaries = canaries_of(plan, vocabulary=vocabulary, together=_together(plan), names=names)
    source_of_coins = coin_source()
    room = _NUMBERS // _width(plan)
    n = max(64, min(_MOST_PEOPLE, room, math.ceil(coins / len(canaries))))
    pairs = _n_pairs(plan, n, room, coins)
    invented = _InventedPeople(
        source_of_coins.integers(0, 2, (n, len(canaries))).astype(bool),
        source_of_coins.integers(0, 2, pairs).astype(bool),
        source_of_coins.permutation(n + 2 * pairs),  # so that known and hidden people are mixed
    )
    rows = invented.rows
    ids = first_free_id(source, options, people=len(rows)) + invented.places
    with private_folder(options.temp, _PREFIX) as held:
        folder = held.path / "table"  # publishing waits for the lock of the folder that it writes to
        folder.mkdir(0o700)
        files = plant(source, _written(canaries, rows, ids, source_of_coins), options, folder)
        # A noisy row of a real person would be a release to whoever can read the folder, and would have to be charged.
        chosen = replace(options, out=folder / "release", roster=ids.tolist(), progress=options.progress or Silence())
        if publishing is None:
            publish_table(files if len(files) > 1 else files[0], plan, chosen, words=words)
        else:
            publishing(files, plan, chosen)
        published = _rows_of(folder / "release", ids)
    return _judged(plan, canaries, invented, published, false_alarm)


def _n_pairs(plan: Plan, n_others: int, room: int, coins: int) -> int:
    """Return how many pairs of a known and a hidden person look for noise that comes twice.

    Enough for two parts of a release, unless the audit is a small one: an engine draws the noise of each part from a
    keystream of its own, so that a key that is used again shows only where there are two. None where noise is so small
    that rows are equal by chance.
    """
    if _looked_at(plan) * collision_bits(plan) < SURPRISE:
        return 0
    convincing = min(wanted(plan.budget.epsilon, 1), _CONVINCING)
    two_parts = -(-max(0, 2 * layout_of(plan).users_per_part - n_others) // 2)
    return max(16, min(room // 4, max(convincing, min(two_parts, coins // 8))))


def _together(plan: Plan) -> int:
    """Return how many canaries a person may hold, so that an audit has people enough."""
    if isinstance(plan, ResponsePlan):
        return min(64, plan.n_attributes // VALUES_MOVED[plan.unit])
    return min(64, MOST_CANARIES)


def _width(plan: Plan) -> int:
    return plan.n_attributes if isinstance(plan, ResponsePlan) else int(plan.published_shape(1)[1])


def _looked_at(plan: Plan) -> int:
    """Return how many numbers of a row are looked at: of bits the beginning, where canaries are."""
    return min(_width(plan), _LONG) if isinstance(plan, ResponsePlan) else _width(plan)


def _written(canaries: Canaries, rows: NDArray[np.bool_], ids: IntArray, chance: np.random.Generator) -> InventedRows:
    """Return the table's rows, in which attributes stand twice."""
    chosen = np.where(rows, canaries.present, canaries.absent)
    person, canary = np.nonzero(chosen >= 0)
    users = np.tile(ids[person], 2)
    attributes = np.tile(np.array(canaries.attributes, object)[chosen[person, canary]], 2)
    order = chance.permutation(len(users))
    return InventedRows(users[order].tolist(), attributes[order].tolist())


def _rows_of(folder: Path, ids: IntArray) -> NDArray[Any]:
    """Return the published rows of these people, in this order."""
    sketches = open_folder(folder)
    known = text_ids(map(str, ids.tolist())) if sketches.textual else ids
    return sketches.take(sketches.locate(known))


def _judged(
    plan: Plan,
    canaries: Canaries,
    invented: _InventedPeople,
    published: NDArray[Any],
    false_alarm: float,
) -> Audit:
    """Guess by rules that were fixed before: by draws of the same plan that have nothing to do with the table."""
    values = numbers_of(plan, published, first=_looked_at(plan))
    n, share, delta = len(invented.coins), false_alarm / 4, plan.cost.delta  # of each of the four attacks
    seen = scored(plan, canaries, invented.coins, values[:n])
    pilot = PersonTrials(plan, canaries, Keystream)
    draws = pilot.seen(max(1, _PILOT // len(canaries)), careless=False)
    scale = len(seen.coins) / len(draws.coins)
    if delta == 0:
        guesses = best_rule(draws, false_alarm=share, scale=scale).guesses(seen)
        bound, seen_delta = epsilon_from_guesses(guesses, false_alarm=share), 0.0
    else:
        fraction = _best_fraction(draws, delta=delta, false_alarm=share / 3, scale=scale)
        guesses = guessed_most_certain(seen, fraction)
        judge = GaussianJudge(draws, plan, false_alarm=share * 2 / 3, scale=scale)
        judge.add(judge.counted(seen))
        independent = judge.check("invented people")
        in_one_run = epsilon_from_guesses(guesses, delta=delta, false_alarm=share / 3)
        bound, seen_delta = max(in_one_run, independent.epsilon_lower_bound), independent.delta_lower_bound
    said = f"{guesses.right:,} of {guesses.made:,} guesses about {n:,} invented people were right"
    checks = [Check("invented people", said, bound, guesses.trials, delta_lower_bound=seen_delta)]
    if len(invented.hidden):
        checks.append(_repeats(plan, canaries, invented.hidden, values[n:], share))
    some = invented.order[: max(64, _LAW // values.shape[1])]  # neighbors in the order of publication
    exact = _exact_of(canaries, invented.rows[some], values.shape[1])
    noise = values[some] - exact
    if isinstance(plan, ResponsePlan):
        noise = np.abs(noise)
    law = NoiseLaw.of(plan, largest=int(np.abs(exact).max()))
    checks.append(law_check(law.wrong(law.counted(noise.reshape(-1)), false_alarm=share), noise.size))
    signs = _signs(plan, noise)
    checks.append(dependence_check(dependence(signs, false_alarm=share), len(signs)))
    return Audit(plan.cost.epsilon, delta, 1 - false_alarm, tuple(checks))


def _exact_of(canaries: Canaries, rows: NDArray[np.bool_], width: int) -> IntArray:
    """Return the numbers of people with these coins as they are without noise."""
    present, start = np.zeros((len(canaries), width), np.int64), np.zeros(width, np.int64)
    for canary, (columns, moves, begins) in enumerate(
        zip(canaries.columns, canaries.moves, canaries.start, strict=True)
    ):  # columns that a canary does not move are named with moves of 0
        np.add.at(present[canary], columns, moves)
        np.add.at(start, columns, begins)
    # In floating point, which is exact for integers of this size and faster.
    exact: IntArray = start + (rows.astype(np.float64) @ present.astype(np.float64)).astype(np.int64)
    return exact


def _signs(plan: Plan, noise: IntArray) -> Signs:
    """Return fair signs of noise in the order in which it was published: of bits, of the two halves' difference."""
    flat = noise.reshape(-1)
    if isinstance(plan, ResponsePlan):
        half = len(flat) // 2
        flat = flat[:half] - flat[half : 2 * half]
    return fair_signs(flat[:_LONGEST])


def _repeats(
    plan: Plan, canaries: Canaries, hidden: NDArray[np.bool_], values: NDArray[Any], false_alarm: float
) -> Check:
    """Look for the noise of people who are known on the rows of people who are not."""
    absent = np.zeros(_looked_at(plan), np.int64)
    np.add.at(absent, canaries.columns, canaries.start)
    present = absent.copy()
    np.add.at(present, canaries.columns[0], canaries.moves[0])
    noise = [values[0::2] - absent, values[1::2] - absent, values[1::2] - present]
    if isinstance(plan, ResponsePlan):
        noise = [np.abs(one) for one in noise]
    errors = judged(hidden, {row.tobytes() for row in noise[0]}, noise[1], noise[2])
    return repeats_check(errors, plan, false_alarm)


def guessed_most_certain(seen: ScoredCoins, fraction: float) -> Guesses:
    """Guess a fixed share of the coins: those with the scores farthest from 0, ties in their order."""
    made = max(1, int(fraction * len(seen.coins)))
    order = np.argsort(-np.abs(seen.scores), kind="stable")[:made]
    right = int(((seen.scores[order] > 0) == seen.coins[order]).sum())
    return Guesses(len(seen.coins), made, right)


def _best_fraction(pilot: ScoredCoins, *, delta: float, false_alarm: float, scale: float) -> float:
    """Return which share of the coins to guess, so that the bound will be the largest."""
    found = []
    for fraction in _SHARES:
        trials, made, right = guessed_most_certain(pilot, fraction)
        careful = right - math.sqrt(made) / 2
        guesses = Guesses(*(max(0, int(scale * count)) for count in (trials, made, careful)))
        found.append((epsilon_from_guesses(guesses, delta=delta, false_alarm=false_alarm), fraction))
    return max(found)[1]
