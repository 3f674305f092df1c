"""Directions learned from the private table itself: which attributes go together, counted with noise.

Where no volunteers published their data, a share of the budget and many people can take their place. Counts of pairs of
attributes are perturbed once. What they say about directions is computed from the noisy counts alone.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from dimly.curator import kernels
from dimly.curator.engine import cut, people_of_sorted
from dimly.curator.options import Options
from dimly.curator.randomness import Keystream, WordSource, is_secret
from dimly.curator.sampling import NoiseSampler
from dimly.curator.survey_run import CountedTable, CountingTable, Surveyed, count_table, having, made_by, open_survey
from dimly.errors import DimlyError, ParameterError
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.projection.directions import Directions, bounded, rotated, rounded
from dimly.mechanisms.survey import SurveyPlan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release.directions import encode_directions

MOST_ATTRIBUTES: Final = 4096
"""Attributes whose pairs are counted: 64 MB of counts."""
LEAST_ATTRIBUTES: Final = 50
MOST_DIRECTIONS: Final = 12
_CLEAR: Final = 1.1
"""Eigenvalues in multiples of the largest that noise alone has."""
_STRONG: Final = 0.45
"""Eigenvalues in shares of the largest, below which a direction costs more noise than it tells."""
_CAP: Final = 0.8
_SCALE: Final = 128
_STEP: Final = 1 << 16
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
) -> Surveyed[LearnedFile]:
    """Learn directions from a private table by ``plan``, which asks for directions alone.

    Raises
    ------
    ParameterError
        If there is no roster or no list, or too few people for the noise: then nothing is charged.
    DimlyError
        If nothing stands out from the noise once it was added. The charge stays.
    """
    asked = open_survey(source, plan, options)
    if asked.roster == "found":
        raise ParameterError(
            "roster must be given to learn directions, got none: how many people suffice must be known beforehand, "
            "and must not follow from the data. Add --roster."
        )
    if asked.vocabulary is None:
        raise ParameterError(
            "vocabulary must be given to learn directions, got none: directions name attributes. Add --vocabulary with "
            "a public list, or with a survey that found the frequent ones."
        )
    vocabulary = asked.vocabulary
    asked = replace(asked, checked=lambda n: size_for(plan, n, len(vocabulary)))

    def answered(table: CountedTable, n_users: int | None, begin: Callable[[], None]) -> LearnedFile:
        n = n_users or 0
        size = size_for(plan, n, len(vocabulary))
        selecting = size < len(vocabulary)
        exact = (
            count_table(table, plan, vocabulary=vocabulary, progress=options.watcher).attributes if selecting else None
        )
        noise = plan.pairs_noise(selecting=selecting)
        begin()
        chosen = np.arange(len(vocabulary))
        if exact is not None:
            chosen = _most_frequent(exact, size, plan, words())
        names = _in_public_order([vocabulary[at] for at in chosen.tolist()], plan)
        pairs = count_pairs(table, plan, names, vocabulary)
        above = np.triu_indices(len(names), 1)
        noisy = np.empty(len(above[0]), np.int64)
        NoiseSampler(noise).add(pairs[above], words(), noisy)
        learned = directions_from(noisy, names, n_users=n, variance=noise.variance)
        return _described(learned, plan, n, private=is_secret(words()))

    return made_by(asked, plan, options, answered)


def size_for(plan: SurveyPlan, n_users: int, n_attributes: int) -> int:
    """Return of how many attributes the pairs are counted: as many as the noise leaves something of.

    Noise of standard deviation σ in each pair of m attributes has a spectral norm of 2σ√m, and groups of people with W
    attributes each have eigenvalues of the order of nW/100 (measured; docs/survey.md). So m ≤ (nW/200σ)².

    Raises
    ------
    ParameterError
        If that is too few to tell anything.
    """
    sigma = math.sqrt(plan.pairs_noise(selecting=True).variance)
    members = plan.members or 0
    most = math.floor((n_users * members / (200 * sigma)) ** 2)
    if most < min(n_attributes, LEAST_ATTRIBUTES):
        needed = math.ceil(200 * sigma * math.sqrt(min(n_attributes, LEAST_ATTRIBUTES)) / members)
        raise ParameterError(
            f"epsilon must be larger to learn directions from {n_users:,} people: noise would hide them. At this "
            f"epsilon it takes {needed:,} people. Nothing was charged. Use public volunteers instead (dimly directions "
            "learn)."
        )
    return min(most, n_attributes, MOST_ATTRIBUTES)


def count_pairs(table: CountedTable, plan: SurveyPlan, names: Sequence[str], vocabulary: Vocabulary) -> Integers:
    """Return above the diagonal how many people have each two of these attributes among their first W."""
    column = np.full(len(vocabulary), -1, np.int32)
    place = {name: at for at, name in enumerate(names)}
    for at, name in enumerate(vocabulary):
        column[at] = place.get(name, -1)
    if isinstance(table, CountingTable):
        return table.count_pairs(column, size=len(names), members=plan.members or 0)
    counts = np.zeros((len(names), len(names)), np.int64)
    for batch in cut(table.rows(), n_users=table.n_users, step=_STEP):
        people = having(people_of_sorted(batch, resolution=plan.resolution))
        kernels.count_pairs(people.indptr, people.indices, column, plan.members, counts)
    return counts


def directions_from(noisy: Integers, names: Sequence[str], *, n_users: int, variance: float) -> LearnedFile:
    """Return directions from noisy counts of pairs: post-processing, and nothing private.

    The first eigenvector is how frequent attributes are. Of the others those count that stand out from the noise,
    and are not much weaker than the strongest.

    Raises
    ------
    DimlyError
        If none does.
    """
    size = len(names)
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
    loadings: Floats = bounded(rotated(vectors[:, order]), _CAP)
    loadings *= np.where((loadings**3).sum(axis=0) < 0, -1.0, 1.0)  # a sign is arbitrary
    learned = Directions.of_values(names, rounded(loadings, _SCALE), scale=_SCALE, kind="surveyed", origin="a survey")
    return LearnedFile(learned, tuple(float(value) for value in values[order]), edge)


def _leading(matrix: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues and their vectors, the same for the same matrix."""
    if len(matrix) <= _SMALL:
        values, vectors = np.linalg.eigh(matrix)
        return values[-count:], vectors[:, -count:]
    found: tuple[Floats, Floats] = eigsh(matrix, k=count, which="LA", v0=1 / np.arange(1.0, len(matrix) + 1))
    return found


def _described(learned: LearnedFile, plan: SurveyPlan, n_users: int, *, private: bool) -> LearnedFile:
    """Return the same with an origin that says what it cost."""
    old = learned.directions
    warning = "" if private else "NOT PRIVATE, for tests only: "
    origin = (
        f"{warning}learned from the private table of {n_users} people under epsilon = {plan.epsilon!r}, delta = "
        f"{plan.delta!r} (unit {plan.unit}): co-occurrence of {len(old.matrix)} attributes, at most {plan.members} "
        f"of a person, with rounded Gaussian noise; {old.count} eigenvectors above the noise; survey {plan.digest}"
    )
    named = Directions(old.kind, origin, old.scale, old.matrix, old.vocabulary)
    return LearnedFile(named, learned.eigenvalues, learned.noise)


def _most_frequent(exact: Integers, size: int, plan: SurveyPlan, words: WordSource) -> Integers:
    """Return the attributes that seem most frequent by noisy counts, in the list's order."""
    noise = DiscreteLaplace.of(plan.selecting, l1_sensitivity=plan.moved)
    noisy = np.empty(len(exact), np.int64)
    NoiseSampler(noise).add(exact, words, noisy)
    return np.sort(np.argsort(-noisy, kind="stable")[:size])


def _in_public_order(names: list[str], plan: SurveyPlan) -> list[str]:
    """Return attributes in an order that has nothing to do with the data: the first W of a person count."""
    return sorted(names, key=lambda name: hashlib.sha256(f"dimly/survey {plan.seed} {name}".encode()).hexdigest())
