"""Directions learned from the private table: noisy counts of pairs of attributes, their eigenvectors.

Where no volunteers published their data, a share of the budget and many people can take their place. Three steps, each
with noise of its own: how many people have each attribute, how strong the second eigenvalue of the counts of pairs is,
and these counts themselves. The first two are cheap, and the run stops after either if the third would tell nothing:
then only what was drawn is charged. What is said about directions is computed from the noisy counts alone.

"Column" is an attribute of a list or, where there is none or a very long one, a hash bucket of attributes; see
:mod:`dimly.curator.survey.exact_counts`, which counts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from dimly.curator.engine import NamedTable
from dimly.curator.options import Options
from dimly.curator.randomness import Keystream, WordSource, is_secret
from dimly.curator.sampling import NoiseSampler
from dimly.curator.survey.exact_counts import count_columns, count_pairs, count_table
from dimly.curator.survey.run import Settle, SurveyOutcome, open_survey, run_survey
from dimly.errors import DimlyError, ParameterError
from dimly.mechanisms.noise.gaussian import RoundedGaussian
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.projection.directions import Buckets, Directions, bounded, rotated, rounded
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import Budget
from dimly.release.documents.directions_file import encode_directions

MOST_COLUMNS: Final = 4096
"""Attributes or buckets whose pairs are counted: 64 MB of counts."""
LEAST_COLUMNS: Final = 50
LONG_LIST: Final = 1 << 20
"""Attributes of a list beyond which they are put into buckets: of so many, noise makes thousands seem frequent."""
MOST_DIRECTIONS: Final = 12
_FEWEST: Final = 3
_ROOM: Final = 2.5
"""How many attributes of a person count, in multiples of the average."""
_USUAL: Final = 0.01
"""Second eigenvalues of counts of pairs, over nW, by which attributes are chosen: so groups were found best."""
_STRONGEST: Final = 0.1
"""The same over n times the average number of a person, of which real tables have 0.01 to 0.09."""
_CLEAR_STRENGTH: Final = 1.6
"""Eigenvalues in multiples of σ√m from which noise is likely to leave them clear, below: x + 1/x > 2 · 1.1 (Benaych-
Georges and Nadakuditi 2011, theorem 2.1)."""
_LUCK: Final = 1.4  # 7 % of Laplace noise is larger, in standard deviations
_AFFORDABLE: Final = 5.0
_SMALLER: Final = 8
_CLEAR: Final = 1.1
"""Eigenvalues in multiples of the largest that noise alone has."""
_STRONG: Final = 0.45
"""Eigenvalues in shares of the largest, below which a direction costs more noise than it tells."""
_TELLING: Final = 3.0
"""Entries in standard deviations of their error: smaller ones count for nothing, as most of a long list does."""
_CAP: Final = 0.5
_SCALE: Final = 128
_SMALL: Final = 500  # attributes up to which all eigenvectors are computed

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LearnedFile:
    """Directions that were learned under a promise, as a file. Public.

    Attributes
    ----------
    directions : Directions
    eigenvalues : tuple of float
        Of each direction, the largest first.
    noise : float
        The largest eigenvalue that noise alone would have.
    """

    directions: Directions
    eigenvalues: tuple[float, ...]
    noise: float

    @property
    def id(self) -> str:
        """The digest of the directions."""
        return self.directions.digest

    def content(self) -> bytes:
        """Return the file."""
        return bytes(encode_directions(self.directions))


def learn_from_table(
    source: Any, plan: SurveyPlan, options: Options, *, words: Callable[[], WordSource] = Keystream
) -> SurveyOutcome[LearnedFile]:
    """Learn directions from a private table by ``plan``, which asks for directions alone.

    Raises
    ------
    ParameterError
        If there is no roster, or too few people for the noise: then nothing is charged.
    DimlyError
        If nothing stands out from the noise. Of the charge stays what was spent on finding that out: in most cases the
        first two steps, by noisy counts of attributes and by a noisy eigenvalue.
    """
    if options.target is not None and options.target.suffix.lower() == ".json":
        raise ParameterError(
            f"output must be a Parquet file for directions, got {options.target.name!r}. End its name in .parquet."
        )
    asked = open_survey(source, plan, options)
    if asked.roster == "found":
        raise ParameterError(
            "roster must be given to learn directions, got none: how many people suffice must be known beforehand, "
            "and must not follow from the data. Add a roster (--roster)."
        )
    vocabulary = asked.vocabulary
    plan = with_columns(plan, None if vocabulary is None else len(vocabulary))
    buckets = None if plan.buckets is None else Buckets(plan.buckets, bytes.fromhex(plan.seed))
    columns = vocabulary if buckets is None else buckets
    assert columns is not None  # noqa: S101 - without a list there are buckets
    width = len(columns) if isinstance(columns, Vocabulary) else columns.count
    asked = replace(asked, checked=lambda n: check_people(plan, n, width))

    def answered(table: NamedTable, n_users: int | None, begin: Callable[[], Settle]) -> LearnedFile:
        n = n_users or 0
        if buckets is None:
            exact = count_table(table, plan, vocabulary=vocabulary, progress=options.watcher).attributes
        else:
            options.watcher.phase("counting")
            exact = count_columns(table, plan, buckets)
        stop = partial(_stopped, plan, begin())
        scope = PairScope.of(plan, n, _counted(exact, plan, words()))
        if not scope.promising:
            raise stop(_too_rare(scope), plan.selecting)
        while True:
            pairs = count_pairs(table, plan, scope.chosen, width=width, members=scope.members, buckets=buckets)
            found = _strength(pairs, scope, words())
            if found >= scope.needed:
                break
            if scope.size < 2 * LEAST_COLUMNS:
                raise stop(_too_weak(scope, found), plan.selecting, *map(plan.testing, scope.tested))
            scope = scope.smaller()
        noise = scope.noise
        above = np.triu_indices(scope.size, 1)
        noisy = np.empty(len(above[0]), np.int64)
        NoiseSampler(noise).add(pairs[above], words(), noisy)
        learned = directions_from(noisy, n_users=n, variance=noise.variance)
        return _named(learned, scope, columns, private=is_secret(words()))

    return run_survey(asked, plan, options, answered)


def with_columns(plan: SurveyPlan, n_attributes: int | None) -> SurveyPlan:
    """Return the plan with buckets where none were stated and there is no list of attributes, or a very long one.

    By public facts alone: the length of the list.
    """
    if plan.buckets is not None or (n_attributes is not None and n_attributes <= LONG_LIST):
        return plan
    return plan.model_copy(update={"buckets": MOST_COLUMNS})


def check_people(plan: SurveyPlan, n_users: int, n_columns: int) -> None:
    """Refuse so few people that noise would hide groups as distinct as any that are known, whatever the table holds.

    By public numbers alone, for the case that people have half of the most frequent attributes.

    Raises
    ------
    ParameterError
        If there are too few people or columns.
    """
    if n_columns < _FEWEST:
        raise ParameterError(f"vocabulary must hold at least {_FEWEST} attributes to learn directions from.")
    assert plan.members is not None  # noqa: S101 - as directions say
    size = min(n_columns, LEAST_COLUMNS)
    members = min(plan.members, max(2, size // 2))
    hidden = _CLEAR_STRENGTH * _noise_of_one(plan) * math.sqrt(2 * (members - 1) * size)
    needed = math.ceil(hidden / (_STRONGEST * members))
    if n_users < needed:
        raise ParameterError(
            f"epsilon must be larger to learn directions from {n_users:,} people: noise would hide them. At this "
            f"epsilon it takes at least {needed:,} people. Nothing was charged. Use public volunteers instead (dimly "
            "directions learn)."
        )
    for most in (size, min(n_columns, MOST_COLUMNS)):  # tables that cannot be made are refused now
        plan.strength_noise(size=most, members=plan.members, n_users=n_users)


@dataclass(frozen=True, slots=True)
class PairScope:
    """Of which columns pairs are counted, and how many of a person; by public numbers and noisy counts alone.

    Attributes
    ----------
    plan : SurveyPlan
    n_users : int
    chosen : ndarray of int
        The columns that seem most frequent, in the order of the list or of buckets.
    weight : float
        How many of them a person has on average, by the noisy counts.
    members : int
        How many of a person count at most.
    tested : tuple of int
        The sizes of this and of earlier, larger ones: the test of each has its cost.
    counts : ndarray of int
        The noisy counts of all columns.
    """

    plan: SurveyPlan
    n_users: int
    chosen: Integers
    weight: float
    members: int
    tested: tuple[int, ...]
    counts: Integers

    @classmethod
    def of(cls, plan: SurveyPlan, n_users: int, noisy: Integers) -> Self:
        """Return as many attributes as the noise is likely to leave something of.

        Noise of standard deviation σ in each pair of m attributes has a spectral norm of 2σ√m. Groups of people of
        whom W attributes count have eigenvalues of the order of nW/100 (docs/survey.md tells what was measured). σ
        grows with √W, so that W is no more than 2.5 times what people have on average.
        """
        order = np.argsort(-noisy, kind="stable")
        least, most = (min(len(noisy), size) for size in (LEAST_COLUMNS, MOST_COLUMNS))
        sizes = np.arange(least, most + 1)
        weights = np.cumsum(np.clip(noisy[order[:most]], 0, n_users))[sizes - 1] / n_users
        members = _members_for(weights, sizes, plan)
        strengths = _USUAL * n_users * np.minimum(members, _ROOM * weights)
        fits = np.flatnonzero(strengths >= 2 * _noise_of_one(plan) * np.sqrt(2 * (members - 1) * sizes))
        return cls._sized(plan, n_users, noisy, size=int(sizes[fits[-1]]) if len(fits) else least, tested=())

    @classmethod
    def _sized(cls, plan: SurveyPlan, n_users: int, noisy: Integers, *, size: int, tested: tuple[int, ...]) -> Self:
        order = np.argsort(-noisy, kind="stable")[:size]
        weight = float(np.clip(noisy[order], 0, n_users).sum() / n_users)
        members = int(_members_for(weight, size, plan))
        return cls(plan, n_users, np.sort(order), weight, members, (*tested, size), noisy)

    def smaller(self) -> Self:
        """Return the same with fewer attributes, whose pairs have less noise together."""
        size = max(min(self.size, LEAST_COLUMNS), self.size // _SMALLER)
        return self._sized(self.plan, self.n_users, self.counts, size=size, tested=self.tested)

    @property
    def size(self) -> int:
        """How many attributes."""
        return len(self.chosen)

    @property
    def what(self) -> str:
        """What columns are."""
        return "attributes" if self.plan.buckets is None else "buckets"

    @property
    def noise(self) -> RoundedGaussian:
        """The noise of each pair."""
        return self.plan.pairs_noise(members=self.members, tested=self.tested)

    @property
    def hidden(self) -> float:
        """The largest eigenvalue of counts that noise hides: what it has alone, and what people differ in by chance."""
        counted = min(self.weight, self.members)
        by_chance = self.n_users * (counted / self.size) ** 2
        return _CLEAR_STRENGTH * math.sqrt(self.size * (self.noise.variance + by_chance))

    @property
    def promising(self) -> bool:
        """Whether groups as distinct as any that are known would stand out."""
        return _STRONGEST * self.n_users * min(self.weight, self.members) > self.hidden

    @property
    def needed(self) -> float:
        """The perturbed eigenvalue from which pairs are worth their share: rarely there by luck of its own noise."""
        table, step = self.plan.strength_noise(size=self.size, members=self.members, n_users=self.n_users)
        return self.hidden + _LUCK * step * math.sqrt(table.variance)


def _members_for(weights: Any, sizes: Any, plan: SurveyPlan) -> Any:
    """Return how many attributes of a person count, by how many they have on average."""
    return np.clip(np.ceil(_ROOM * weights), 2, np.minimum(sizes, plan.members or 2))


def _noise_of_one(plan: SurveyPlan) -> float:
    """Return the noise of a pair, in multiples of √(2(W − 1))."""
    assert plan.members is not None  # noqa: S101 - as directions say
    return math.sqrt(plan.pairs_noise().variance / (2 * (plan.members - 1)))


def _counted(exact: Integers, plan: SurveyPlan, words: WordSource) -> Integers:
    """Return how many people have each attribute, with the noise of the first step."""
    noisy = np.empty(len(exact), np.int64)
    NoiseSampler(DiscreteLaplace.of(plan.selecting, l1_sensitivity=plan.moved)).add(exact, words, noisy)
    return noisy


def _strength(pairs: Integers, scope: PairScope, words: WordSource) -> float:
    """Return the second eigenvalue of the exact counts of pairs, with the noise of the second step."""
    table, step = scope.plan.strength_noise(size=scope.size, members=scope.members, n_users=scope.n_users)
    matrix = (pairs + pairs.T).astype(np.float64)
    second = scope.size - 2
    (value,) = scipy.linalg.eigh(
        matrix, eigvals_only=True, subset_by_index=[second, second], overwrite_a=True, check_finite=False
    )
    noisy = np.empty(1, np.int64)
    NoiseSampler(table).add(np.array([round(value / step)]), words, noisy)
    return float(noisy[0] * step)


def _stopped(plan: SurveyPlan, settle: Settle, why: str, *steps: Budget) -> DimlyError:
    """Lower the charge to the steps that were taken, and return what to say."""
    cost = plan.spent(*steps)
    settle(cost)
    return DimlyError(
        f"no direction stands out from the noise, so that none is written: {why} Only epsilon = {cost.epsilon:g} of "
        f"{plan.epsilon:g} was spent on finding this out. Learn from more people, with a larger epsilon, or from "
        "public volunteers (dimly directions learn)."
    )


def _too_rare(scope: PairScope) -> str:
    return (
        f"people have about {scope.weight:.2g} of the {scope.size} most frequent {scope.what} on average, and noise "
        "would hide even groups as distinct as any that are known."
    )


def _too_weak(scope: PairScope, found: float) -> str:
    strongest = f"the strongest has {max(found, 0):,.0f} (a noisy eigenvalue), and it takes {scope.needed:,.0f}."
    enough = scope.plan.epsilon * scope.needed / found if found > 0 else math.inf
    return f"{strongest} An epsilon of about {enough:.2g} might be enough." if enough < _AFFORDABLE else strongest


@dataclass(frozen=True, slots=True)
class LeadingDirections:
    """What noisy counts of pairs tell: how much each column counts along each direction. Public.

    Attributes
    ----------
    loadings : ndarray of float, shape (columns, directions)
        Bounded and rounded to multiples of 1/128.
    eigenvalues : tuple of float
    noise : float
        The largest eigenvalue that noise alone would have.
    """

    loadings: Floats
    eigenvalues: tuple[float, ...]
    noise: float


def directions_from(noisy: Integers, *, n_users: int, variance: float) -> LeadingDirections:
    """Return directions from noisy counts of pairs, row by row above the diagonal: post-processing, nothing private.

    The first eigenvector is how frequent columns are. Of the others those count that stand out from the noise,
    and are not much weaker than the strongest.

    Raises
    ------
    DimlyError
        If none does.
    """
    size = (1 + math.isqrt(1 + 8 * len(noisy))) // 2
    matrix = np.zeros((size, size))
    above = np.triu_indices(size, 1)
    matrix[above] = noisy / n_users
    matrix += matrix.T
    sampling = max(0.0, float(noisy.mean()))  # what people who differ by chance alone add
    edge = 2 * math.sqrt(size * (variance + sampling)) / n_users
    values, vectors = _leading(matrix, min(MOST_DIRECTIONS + 1, size))
    order = np.argsort(-values)[1:]
    order = order[values[order] > max(_CLEAR * edge, _STRONG * values[order[0]])]
    if not len(order):
        raise DimlyError(
            "no direction stands out from the noise, so that none is written. Learn from more people, with a larger "
            "epsilon, or from public volunteers (dimly directions learn)."
        )
    # To first order an eigenvector is off by its product with the noise over its eigenvalue, alike in all columns.
    off = edge / (2 * math.sqrt(size) * float(values[order].mean()))
    axes = vectors[:, order] if len(order) == 1 else _votes(vectors[:, [int(values.argmax()), *order]])
    telling = np.abs(axes) > _TELLING * off
    loadings = bounded(_turned(np.where(telling, axes, 0.0) if telling.any() else axes), _CAP)
    loadings = loadings[:, loadings.any(axis=0)]
    return LeadingDirections(rounded(loadings, _SCALE), tuple(float(value) for value in values[order]), edge)


def _votes(vectors: Floats) -> Floats:
    """Return each column for or against the one group that it tells most of.

    People of g groups have counts of pairs of rank g, so that the first g eigenvectors, how frequent columns are among
    them, span the groups' profiles. Varimax turns them such that each axis is about one group. A column whose weight is
    spread over several axes would move as many numbers, and noise is for all of them together.
    """
    axes = _turned(rotated(vectors))
    apart: Floats = axes - axes.mean(axis=1, keepdims=True)
    strongest = np.abs(apart).argmax(axis=1)
    votes: Floats = np.where(np.arange(apart.shape[1]) == strongest[:, None], apart, 0.0)
    return votes


def _turned(axes: Floats) -> Floats:
    """Return the same with the stronger end of each axis positive: a sign is arbitrary."""
    turned: Floats = axes * np.where((axes**3).sum(axis=0) < 0, -1.0, 1.0)
    return turned


def _leading(matrix: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues and their vectors, the same for the same matrix."""
    if len(matrix) <= _SMALL:
        values, vectors = np.linalg.eigh(matrix)
        return values[-count:], vectors[:, -count:]
    found: tuple[Floats, Floats] = scipy.sparse.linalg.eigsh(
        matrix, k=count, which="LA", v0=1 / np.arange(1.0, len(matrix) + 1)
    )
    return found


def _named(
    learned: LeadingDirections, scope: PairScope, columns: Vocabulary | Buckets, *, private: bool
) -> LearnedFile:
    """Return the directions of a list or of buckets, with an origin that says what they cost."""
    plan, count = scope.plan, learned.loadings.shape[1]
    warning = "" if private else "NOT PRIVATE, for tests only: "
    what = f"{scope.size} attributes" if isinstance(columns, Vocabulary) else f"{scope.size} of {columns.count} buckets"
    origin = (
        f"{warning}learned from the private table of {scope.n_users} people under epsilon = {plan.epsilon!r}, delta = "
        f"{plan.delta!r} (unit {plan.unit}): co-occurrence of {what}, at most {scope.members} of a person, with "
        f"rounded Gaussian noise; {count} directions by {len(learned.eigenvalues)} eigenvectors above the noise; "
        f"survey {plan.digest}"
    )
    if isinstance(columns, Vocabulary):
        names: list[str] | Buckets = [columns[at] for at in scope.chosen.tolist()]
        rows = learned.loadings
    else:
        names, rows = columns, np.zeros((columns.count, count))
        rows[scope.chosen] = learned.loadings  # rare buckets count for nothing
    directions = Directions.of_values(names, rows, scale=_SCALE, kind="surveyed", origin=origin)
    return LearnedFile(directions, learned.eigenvalues, learned.noise)
