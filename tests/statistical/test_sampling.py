"""Sampled noise has the shares that its table says, and flipped bits are as many and as independent as they should be.

Every check has a false-alarm rate of ALPHA, and beside it stands its power: noise with 20 % less spread, or flips that
are 20 % too rare, must fail it. Words are recorded, so that a run either always passes or always fails.
"""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.statistical.checks import ALPHA, alarm, mean_is, variance_is
from tests.streams import Recorded

from dimly.curator.people import People
from dimly.curator.perturb import Perturber
from dimly.curator.randomness import Keystream
from dimly.curator.sampling import NoiseSampler
from dimly.mechanisms import Plan, Vocabulary
from dimly.mechanisms.noise.gaussian import RoundedGaussian
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.tables import TOTAL, NoiseTable, symmetric
from dimly.privacy import Budget

N = 200_000
Floats = NDArray[np.float64]


def laplace(epsilon: float) -> DiscreteLaplace:
    return DiscreteLaplace.of(Budget(epsilon), l1_sensitivity=1)


# Beside each table one of the same kind with 20 % less noise.
TABLES: dict[str, Callable[[], tuple[NoiseTable, NoiseTable]]] = {
    "laplace": lambda: (laplace(1.0), laplace(1.2)),
    "laplace, little noise": lambda: (laplace(4.0), laplace(4.4)),
    "laplace, wide": lambda: (laplace(0.01), laplace(0.0125)),
    "gaussian, narrow": lambda: (RoundedGaussian.of(0.75), RoundedGaussian.of(0.6)),
    "gaussian": lambda: (RoundedGaussian.of(4.225), RoundedGaussian.of(3.38)),
    "gaussian, wide": lambda: (RoundedGaussian.of(250.0), RoundedGaussian.of(200.0)),
    "gaussian, a thousand steps": lambda: (RoundedGaussian.of(1000.0), RoundedGaussian.of(800.0)),
}
every_table = pytest.mark.parametrize("name", TABLES)


@cache
def tables_of(name: str) -> tuple[NoiseTable, NoiseTable]:
    return TABLES[name]()


@cache
def sample(name: str, wrong: bool) -> NDArray[np.int64]:
    return NoiseSampler(tables_of(name)[wrong]).draw(N, Recorded(20240229))


def shares(table: NoiseTable) -> tuple[Floats, int]:
    """Return the probability of each value, and the first value; tails of Laplace noise are its outermost values."""
    if isinstance(table, DiscreteLaplace):
        weights, first = [table.overflow, *symmetric(table.head), table.overflow], -len(table.head)
    else:
        assert isinstance(table, RoundedGaussian)
        weights, first = symmetric(table.half), 1 - len(table.half)
    return np.array([weight / TOTAL for weight in weights]), first


def fits(values: NDArray[np.int64], table: NoiseTable) -> bool:
    """Chi-square test at level ALPHA; neighboring values are joined until 200 samples are expected of each cell."""
    probabilities, first = shares(table)
    filled = np.cumsum(probabilities) * len(values) / 200
    cell = np.minimum(np.floor(filled).astype(np.int64), math.floor(filled[-1]) - 1)
    _, cell = np.unique(cell, return_inverse=True)
    expected = np.bincount(cell, probabilities) * len(values)
    assert expected.min() > 50
    clipped = np.clip(values - first, 0, len(probabilities) - 1)
    counts = np.bincount(cell[clipped], minlength=len(expected))
    return bool(((counts - expected) ** 2 / expected).sum() <= stats.chi2.isf(ALPHA, len(expected) - 1))


@every_table
def test_every_value_comes_as_often_as_its_weight_says(name: str) -> None:
    table, _ = tables_of(name)
    assert fits(sample(name, wrong=False), table), f"{name}: fails by chance at a rate of {ALPHA:g}"
    assert not fits(sample(name, wrong=True), table)
    shift = max(1, round(table.variance**0.5 / 10))
    assert not fits(sample(name, wrong=False) + shift, table)


@every_table
def test_mean_and_variance_are_those_of_the_table(name: str) -> None:
    table, _ = tables_of(name)
    values = sample(name, wrong=False).astype(np.float64)
    assert mean_is(values, 0.0), alarm(f"{name}, mean", values, 0.0)
    assert variance_is(values, 0.0, table.variance), alarm(f"{name}, variance", values**2, table.variance)
    assert not variance_is(sample(name, wrong=True).astype(np.float64), 0.0, table.variance)


@every_table
def test_the_secret_keystream_gives_the_same_law(name: str) -> None:
    table, _ = tables_of(name)
    values = NoiseSampler(table).draw(N, Keystream())
    assert fits(values, table), f"{name}: fails once in {1 / ALPHA:g} runs"


@every_table
def test_noise_of_different_coordinates_is_independent(name: str) -> None:
    """By the correlation of ranks, at the distances at which pieces begin and rows follow each other."""
    values = sample(name, wrong=False)
    signs = np.sign(values).astype(np.float64)
    large = (np.abs(values) > np.median(np.abs(values))).astype(np.float64)
    for shift in (1, 2, 3, 4, 7, 8, 16, 32, 64, 1 << 13, 1 << 16, 1 << 17):
        for what in (signs, large - large.mean()):
            products = what[shift:] * what[:-shift]
            spread = (what**2).mean() * math.sqrt(len(products))
            limit = stats.norm.isf(ALPHA / 2) * spread
            assert abs(products.sum()) <= limit, f"{name}, shift {shift}: fails by chance at a rate of {ALPHA:g}"
    # Power: one sample in twenty copied from its neighbor.
    copied = signs.copy()
    copied[20::20] = copied[19:-1:20]
    products = copied[1:] * copied[:-1]
    assert abs(products.sum()) > stats.norm.isf(ALPHA / 2) * (copied**2).mean() * math.sqrt(len(products))


FLIPS = {"one word": 64, "with padding": 100, "many words": 640}


def flipped(epsilon: float, d: int, n: int) -> tuple[NDArray[np.uint8], float]:
    """Return the bits that are published of people without attributes, and the probability of a one."""
    plan = Plan.of("randomized-response", Budget(epsilon), n_attributes=d)
    nobody = People(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), None)
    published = Perturber(plan, Vocabulary.numbered(d)).perturb(nobody, Recorded(7))
    bits = np.unpackbits(published, axis=1, bitorder="little")
    assert not bits[:, d:].any()
    assert plan.noise.law == "bit-flip"
    return bits[:, :d], plan.noise.probability


def share_is(ones: NDArray[np.int64], trials: int, probability: float) -> bool:
    """Two-sided binomial test of many counts at level ALPHA together."""
    level = ALPHA / 2 / ones.size
    few, many = stats.binom.isf(1 - level, trials, probability), stats.binom.isf(level, trials, probability)
    return bool((ones >= few - 1).all() and (ones <= many).all())


@pytest.mark.parametrize("d", FLIPS.values(), ids=FLIPS.keys())
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 4.0])
def test_bits_are_flipped_with_their_probability_in_every_position(epsilon: float, d: int) -> None:
    n = 20_000
    bits, p = flipped(epsilon, d, n)
    ones = bits.sum(axis=0, dtype=np.int64)
    assert share_is(ones, n, p), f"fails by chance at a rate of {ALPHA:g}"
    assert share_is(ones.sum(keepdims=True), n * d, p), f"fails by chance at a rate of {ALPHA:g}"
    # All positions 20 % and 4 % too rare, and one of them at half its rate.
    assert not share_is((0.8 * ones.sum(keepdims=True)).astype(np.int64), n * d, p)
    assert not share_is((0.96 * ones.sum(keepdims=True)).astype(np.int64), n * d, p)
    ones[d // 2] //= 2
    assert not share_is(ones, n, p)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_flips_are_independent_across_lanes_words_and_people(epsilon: float) -> None:
    """Both of two bits are flipped with p²; within a word, across words, and from one person to the next."""
    n, d = 30_000, 192
    bits, p = flipped(epsilon, d, n)
    pairs = [bits[:, lag:] & bits[:, :-lag] for lag in (1, 2, 7, 8, 31, 32, 63, 64, 128)]
    pairs += [bits[lag:] & bits[:-lag] for lag in (1, 2, 3, 8, 1 << 13)]
    for both in pairs:
        ones = both.sum(axis=0, dtype=np.int64)
        assert share_is(ones, len(both), p * p), f"fails by chance at a rate of {ALPHA:g}"
        dependent = bits[: len(both), : both.shape[1]].sum(axis=0, dtype=np.int64)  # the two always together
        assert not share_is(dependent, len(both), p * p)


def test_the_number_of_flips_of_a_person_varies_as_it_should() -> None:
    bits, p = flipped(1.0, 640, 20_000)
    counts = bits.sum(axis=1).astype(np.float64)
    stated = 640 * p * (1 - p)
    assert mean_is(counts, 640 * p), alarm("flips, mean", counts, 640 * p)
    assert variance_is(counts, 640 * p, stated), alarm("flips, variance", (counts - 640 * p) ** 2, stated)
    assert not variance_is(counts, 640 * p, 0.8 * stated)
    assert not variance_is(counts, 640 * p, 1.2 * stated)
