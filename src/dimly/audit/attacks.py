"""Attributes read, inferred or averaged from repeats, pseudonyms linked; reconstruction without noise.

Everybody here is made up, and published by the real perturbing function.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dimly.audit.canaries import canaries_of
from dimly.audit.coin_trials import PersonTrials
from dimly.curator.options import Progress, Silence
from dimly.curator.people import People
from dimly.curator.perturb import Perturber
from dimly.curator.randomness import Keystream
from dimly.errors import ParameterError
from dimly.mechanisms.plan import Plan
from dimly.privacy import Budget

N_ATTRIBUTES: Final = 1000
WEIGHT: Final = 10
K: Final = 64
EPSILONS: Final = (0.1, 0.3, 1.0, 3.0, 10.0)
REPEATS: Final = (1, 2, 4, 8, 16, 32)
KNOWN: Final = (1, 2, 3, 4, 6, 8, 10)
LINKED: Final = (1.0, 3.0, 10.0, math.inf)
"""Of the linkage; infinite is a release without noise."""
DELTA: Final = 1e-6
_CROWD: Final = 1000
TRIES: Final = 1 << 16
"""Guesses about one attribute, at least, by which it is told how often they are right."""
_SEED: Final = bytes(32)


@dataclass(frozen=True)
class AttributesRead:
    """How much of people's attributes the attacker of a projection reads."""

    epsilon: float
    """Infinite without noise."""
    people: int
    exactly: float
    """Share of people whose whole set is read."""
    attributes: float
    """Share of the attributes that are read."""


@dataclass(frozen=True)
class Inference:
    """How often the best attacker is right about one attribute, who knows all others and had an even guess."""

    mechanism: str
    epsilon: float
    right: float
    bound: float
    """e^ε/(1+e^ε), or with δ what it allows."""

    @property
    def chance(self) -> float:
        """How far off ``right`` may be by chance: 1.96 standard errors of so many guesses."""
        return 1.96 * math.sqrt(max(self.right * (1 - self.right), 1 / TRIES) / TRIES)


@dataclass(frozen=True)
class Averaging:
    """The same after several releases with fresh noise."""

    repeats: int
    right: float
    one: float
    """What one release would have allowed."""
    bound: float
    """What all of them together allow."""


@dataclass(frozen=True)
class Linkage:
    """How often somebody who knows some attributes of a person finds that person's row among pseudonyms.

    And how often this somebody is then right about a further attribute, which the person has or not by a coin.
    """

    epsilon: float
    known: int
    found: float
    """Share of people whose row is found."""
    inferred: float
    """Share of right guesses about the further attribute, from the row that was taken for the person's."""
    inferred_knowing_row: float
    """The same by somebody who knows which row is the person's."""
    bound: float
    """What the promise allows both: e^ε/(1+e^ε)."""


@dataclass(frozen=True)
class Attacks:
    """All of them."""

    reading: tuple[AttributesRead, ...]
    inference: tuple[Inference, ...]
    averaging: tuple[Averaging, ...]
    linkage: tuple[Linkage, ...]
    crowd: int = _CROWD

    def to_dict(self) -> dict[str, Any]:
        """Return the figures, ready for JSON; null is no noise."""

        def facts(one: Any) -> dict[str, Any]:
            fields: dict[str, Any] = dict(vars(one))
            if "epsilon" in fields and math.isinf(fields["epsilon"]):
                fields["epsilon"] = None
            return fields

        return {
            "reconstruction": [facts(one) for one in self.reading],
            "inference": [facts(one) for one in self.inference],
            "averaging": [facts(one) for one in self.averaging],
            "linkage": [facts(one) for one in self.linkage],
            "people_among_whom": self.crowd,
        }


def run_attacks(*, people: int = 40, seed: int = 0, progress: Progress | None = None) -> Attacks:
    """Attack made-up people, and return how well it went.

    Parameters
    ----------
    people : int, default=40
        Whose attributes are read from each projection; and ten times as many pseudonyms are looked for.
    seed : int
        Of the people. Noise is fresh in every run.
    progress : Progress, optional
    """
    if people < 1:
        raise ParameterError(f"people must be at least 1, got {people!r}.")
    watcher = Silence() if progress is None else progress
    watcher.phase("reading attributes")
    watcher.start(people * (1 + len(EPSILONS)))
    reading = [read_people(epsilon, people=people, seed=seed, progress=watcher) for epsilon in (math.inf, *EPSILONS)]
    watcher.phase("guessing one attribute")
    inference = [infer(name, epsilon) for name in MECHANISMS for epsilon in EPSILONS]
    watcher.phase("averaging repeated releases")
    averaging = [average(repeats) for repeats in REPEATS]
    watcher.phase("finding pseudonyms")
    linkage = [one for epsilon in LINKED for one in link(epsilon, people=10 * people, seed=seed)]
    return Attacks(tuple(reading), tuple(inference), tuple(averaging), tuple(linkage))


def made_people(n: int, *, seed: int, weight: int = WEIGHT) -> NDArray[np.int64]:
    """Return sets of attributes, a row each, all equally likely."""
    chance = np.random.default_rng(seed)
    return np.sort(np.argsort(chance.random((n, N_ATTRIBUTES)), axis=1)[:, :weight], axis=1)


def published(
    plan: Plan,
    sets: NDArray[np.int64],
    *,
    noise: bool = True,
    further: NDArray[np.int64] | None = None,
    of: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Publish people by the real perturbing function; or exactly, as a projection without noise would.

    Some people, ``of``, have a ``further`` attribute each.
    """
    texts = [str(i) for i in range(N_ATTRIBUTES)]
    owners = np.repeat(np.arange(len(sets)), sets.shape[1])
    held = sets.reshape(-1)
    if further is not None and of is not None:
        owners, held = np.concatenate([owners, of]), np.concatenate([held, further])
    order = np.lexsort((held, owners))
    indptr, indices = np.searchsorted(owners[order], np.arange(len(sets) + 1)), held[order]
    if not noise:
        return plan.rows(texts).project(indptr, indices)
    return Perturber(plan, texts).perturb(People(indptr, indices, None), Keystream()).astype(np.int64)


def read_people(epsilon: float, *, people: int, seed: int = 0, progress: Progress | None = None) -> AttributesRead:
    """Read whole sets of attributes from a dense projection: d = 1,000 attributes, ten of them, k = 64 numbers."""
    noise = math.isfinite(epsilon)
    plan = Plan.of("sign+laplace", Budget(epsilon if noise else 1.0), k=K, seed=_SEED)
    sets = made_people(people, seed=seed)
    sketches = published(plan, sets, noise=noise)
    reader = Reconstruction(plan.rows([str(i) for i in range(N_ATTRIBUTES)]).to_dense(), weight=WEIGHT, seed=seed)
    right = []
    for sketch, truth in zip(sketches, sets, strict=True):
        right.append(len(np.intersect1d(reader.read(sketch), truth)))
        if progress is not None:
            progress.advance(1)
    shares = np.array(right) / WEIGHT
    return AttributesRead(epsilon, people, float((shares == 1).mean()), float(shares.mean()))


MECHANISMS: Final[dict[str, dict[str, Any]]] = {
    "counting+laplace": {"k": K},
    "randomized-response": {"n_attributes": N_ATTRIBUTES},
    "sign+laplace": {"k": K},
    "sign+gaussian": {"k": K},
}


def infer(mechanism: str, epsilon: float) -> Inference:
    """Guess one attribute by the likelihood ratio, knowing all others."""
    return guess_one(Plan.of(mechanism, Budget(epsilon, DELTA), seed=_seed(mechanism), **MECHANISMS[mechanism]))


def guess_one(plan: Plan) -> Inference:
    """Guess one attribute of people who are published by a plan, knowing all others of theirs.

    Raises
    ------
    ParameterError
        For noisy distances, which hold nobody's attributes.
    """
    trials = PersonTrials(plan, canaries_of(plan), Keystream)
    n = max(1, TRIES // trials.coins_in_a_draw)
    seen = trials.seen(n, careless=False)
    right = float(((seen.scores > 0) == seen.coins).mean())
    epsilon, delta = plan.cost.epsilon, plan.cost.delta
    pure = 1 / (1 + math.exp(-epsilon))
    return Inference(plan.mechanism, epsilon, right, pure + delta * (1 - pure))


def _seed(mechanism: str) -> bytes | None:
    return None if mechanism == "randomized-response" else _SEED


def average(repeats: int, *, epsilon: float = 0.5) -> Averaging:
    """Guess one attribute from several releases with fresh noise, whose likelihood ratios multiply."""
    plan = Plan.of("counting+laplace", Budget(epsilon), k=K, seed=_SEED)
    canaries = canaries_of(plan)
    perturber = Perturber(plan, canaries.attributes)
    coins = np.random.default_rng().integers(0, 2, (max(1, TRIES // len(canaries)), len(canaries))).astype(bool)
    people = canaries.held(coins)
    total = np.zeros(coins.shape, np.int64)
    for _ in range(repeats):
        offset = perturber.perturb(people, Keystream()).astype(np.int64)[:, canaries.columns[:, 0]]
        total += np.abs(offset) - np.abs(offset - 1)
    # Where the evidence is even, the attacker tosses a coin.
    right = float(np.where(total == 0, 0.5, (total > 0) == coins).mean())
    return Averaging(repeats, right, 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(-repeats * epsilon)))


def link(epsilon: float, *, people: int, seed: int = 0) -> list[Linkage]:
    """Look for people among 1,000 pseudonyms, knowing some of their ten attributes; then ask for a further one.

    Whether a person has the further attribute was decided by a coin. The attacker reads it from the row that was taken
    for the person's, or, to compare, from the row that is the person's.
    """
    noise = math.isfinite(epsilon)
    plan = Plan.of("counting+laplace", Budget(epsilon if noise else 1.0), k=4 * K, seed=_SEED)
    chance = np.random.default_rng([seed, 1])
    drawn = chance.permuted(made_people(_CROWD, seed=seed, weight=WEIGHT + 1), axis=1)
    sets, further = drawn[:, :WEIGHT], drawn[:, WEIGHT]
    coins = chance.integers(0, 2, _CROWD).astype(bool)
    rows = plan.rows([str(i) for i in range(N_ATTRIBUTES)]).to_dense()
    sketches = published(plan, sets, noise=noise, further=further[coins], of=np.flatnonzero(coins))
    chosen = chance.permutation(_CROWD)[: min(people, _CROWD)]
    bucket = rows[further[chosen]].argmax(axis=1)
    bound = _even_odds(epsilon)
    found = []
    for known in KNOWN:
        profiles = rows[sets[chosen][:, :known]].sum(axis=1)
        # Up to a part that is the same for everybody, the log of the likelihood that all of these are there.
        scores = _scores(sketches, profiles) if noise else _overlaps(sketches, profiles)
        best = scores == scores.max(axis=1, keepdims=True)
        hits = best[np.arange(len(chosen)), chosen] / best.sum(axis=1)
        # Of several rows that fit as well, any one.
        taken = np.argmax(np.where(best, chance.random(best.shape), -1.0), axis=1)
        explained = profiles[np.arange(len(chosen)), bucket]
        by_found, by_own = (_told_right(sketches[who, bucket] - explained, coins[chosen]) for who in (taken, chosen))
        found.append(Linkage(epsilon, known, float(hits.mean()), by_found, by_own, bound))
    return found


def _told_right(left: NDArray[np.int64], coins: NDArray[np.bool_]) -> float:
    """Say "present" where what known attributes leave over is above 0, and return the share that is right."""
    return float(((left > 0) == coins).mean())


def _even_odds(epsilon: float) -> float:
    return 1 / (1 + math.exp(-epsilon))


def _scores(sketches: NDArray[np.int64], profiles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how much likelier each row is with these attributes than without, over the cost of one step."""
    scores = np.empty((len(profiles), len(sketches)), np.int64)
    for i, profile in enumerate(profiles):
        places = np.flatnonzero(profile)
        offset = sketches[:, places]
        scores[i] = (np.abs(offset) - np.abs(offset - profile[places])).sum(axis=1)
    return scores


def _overlaps(sketches: NDArray[np.int64], profiles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how much of what these attributes add each exact row has, a person at a time."""
    scores = np.empty((len(profiles), len(sketches)), np.int64)
    for i, profile in enumerate(profiles):
        places = np.flatnonzero(profile)
        scores[i] = np.minimum(sketches[:, places], profile[places]).sum(axis=1)
    return scores


Floats = NDArray[np.float64]

_STARTS: Final = 200


class Reconstruction:
    """An attacker who knows the projection and how many attributes a person has.

    Least squares over sets: from many starts, one attribute is exchanged for another as long as that brings the set's
    sketch nearer. Without noise the true set is at distance 0, so that the attacker knows when it is found.

    Parameters
    ----------
    rows : ndarray of shape (attributes, k)
        The projection.
    weight : int
        How many attributes a person has.
    seed : int
        Of the starts.
    """

    def __init__(self, rows: NDArray[np.int64], *, weight: int, seed: int = 0) -> None:
        self._rows = rows.astype(np.float64)
        self._products: Floats = self._rows @ self._rows.T
        self._weight = weight
        self._chance = np.random.default_rng(seed)

    def read(self, sketch: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the attributes of the set that is nearest to a published sketch, in order."""
        published = sketch.astype(np.float64)
        likeness = self._rows @ published
        best, nearest = np.zeros(0, np.int64), np.inf
        for start in range(_STARTS):
            chosen = (
                np.argsort(-likeness)[: self._weight]
                if start == 0
                else self._chance.choice(len(self._rows), self._weight, replace=False)
            )
            found, distance = self._improved(chosen.copy(), published, likeness)
            if distance < nearest:
                best, nearest = found, distance
            if nearest < 0.5:  # exact: sketches are integers
                break
        return np.sort(best)

    def _improved(
        self, chosen: NDArray[np.int64], published: Floats, likeness: Floats
    ) -> tuple[NDArray[np.int64], float]:
        products = self._products
        pull = products[:, chosen].sum(axis=1) - likeness
        distance = float(((self._rows[chosen].sum(axis=0) - published) ** 2).sum())
        norms = np.diag(products)
        while True:
            # By how much the squared distance changes if one of the set goes and another comes.
            change = 2 * (pull[None, :] - pull[chosen][:, None]) - 2 * products[chosen]
            change += norms[None, :] + norms[chosen][:, None]
            change[:, chosen] = np.inf
            place = int(np.argmin(change))
            gone, come = divmod(place, len(self._rows))
            if change[gone, come] >= -1e-6:
                return chosen, distance
            pull += products[:, come] - products[:, chosen[gone]]
            distance += float(change[gone, come])
            chosen[gone] = come
