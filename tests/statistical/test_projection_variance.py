"""Projected squared distances have the stated mean and variance, and rows the stated laws.

Every check has a false-alarm rate of ALPHA, two-sided, and beside it stands its power: the same check on a
statement that is wrong must fail. Seeds are fixed, so that a run either always passes or always fails.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.statistical.checks import ALPHA, Floats, alarm, mean_is, variance_is

from dimly.mechanisms.projection.random_matrix import FAMILIES, Projection
from dimly.mechanisms.projection.rows import DenseRows, HashedRows
from dimly.mechanisms.vocabulary import Vocabulary

N_SEEDS, TRIALS_PER_SEED = 250, 100
DIFFERENCES = {
    "bits": np.array([1, 1, -1, 0, 1, 1]),  # few ones: ‖z‖₄⁴ weighs, so that κ shows
    "values": np.array([3, -2, 1, 0, -1, 2]),  # units of a resolution
}
CASES = {
    "counting": ("counting", 8, 1, None),
    "hashing": ("hashing", 8, 1, None),
    "sparse": ("sparse", 12, 3, None),
    "dasgupta": ("dasgupta", 12, 2, None),
    "sign": ("sign", 8, 1, None),
    "ternary": ("ternary", 8, 1, None),
    "gaussian": ("gaussian", 8, 1, 8),
    "gaussian-coarse": ("gaussian", 16, 1, 2),  # one step of the grid is one standard deviation of an entry
}
Sample = Callable[[str, str], NDArray[np.int64]]


@pytest.fixture(scope="module")
def seeds() -> list[bytes]:
    generator = np.random.default_rng(20240229)
    return [generator.bytes(32) for _ in range(N_SEEDS)]


@pytest.fixture(scope="module")
def sample(seeds: list[bytes]) -> Sample:
    """Return integer sketches zP: fresh seeds, and for each of them many disjoint groups of attributes."""
    kept: dict[str, NDArray[np.int64]] = {}

    def draw(case: str, difference: str) -> NDArray[np.int64]:
        z = DIFFERENCES[difference]
        if case not in kept:
            family, k, blocks, grid_bits = CASES[case]
            names = Vocabulary.numbered(TRIALS_PER_SEED * len(z))
            drawn = [Projection(family, k, blocks, seed, grid_bits).rows(names).to_dense() for seed in seeds]
            kept[case] = np.concatenate(drawn).reshape(-1, len(z), k)
        sketches: NDArray[np.int64] = np.einsum("i,nik->nk", z, kept[case])
        return sketches

    return draw


def squared_distances(case: str, sketches: NDArray[np.int64]) -> tuple[Floats, int]:
    """Return the analyst's estimates without noise, and what stands in the place of k in their variance."""
    name, k, blocks, grid_bits = CASES[case]
    if name == "counting":
        centered = sketches - sketches.mean(axis=1, keepdims=True)
        return k / (k - 1) * (centered**2).sum(axis=1), k - 1
    return FAMILIES[name].scale(k, blocks=blocks, grid_bits=grid_bits) ** 2 * (sketches**2).sum(axis=1), k


def stated_variance(difference: str, kurtosis: float, k: int) -> float:
    z = DIFFERENCES[difference].astype(np.float64)
    return float((2 * (z**2).sum() ** 2 + (kurtosis - 3) * (z**4).sum()) / k)


every_case = pytest.mark.parametrize("case", CASES)
every_difference = pytest.mark.parametrize("difference", DIFFERENCES)


@every_case
@every_difference
def test_mean_of_a_squared_distance(case: str, difference: str, sample: Sample) -> None:
    estimates, _ = squared_distances(case, sample(case, difference))
    true = float((DIFFERENCES[difference] ** 2).sum())
    assert mean_is(estimates, true), alarm(f"{case}, mean", estimates, true)
    assert not mean_is(estimates, 1.05 * true)
    assert not mean_is(estimates, 0.95 * true)


@every_case
@every_difference
def test_variance_of_a_squared_distance(case: str, difference: str, sample: Sample) -> None:
    estimates, k = squared_distances(case, sample(case, difference))
    true = float((DIFFERENCES[difference] ** 2).sum())
    name, _, blocks, _ = CASES[case]
    kurtosis = FAMILIES[name].kurtosis(blocks)
    stated = stated_variance(difference, kurtosis, k)
    assert variance_is(estimates, true, stated), alarm(f"{case}, variance", (estimates - true) ** 2, stated)
    assert not variance_is(estimates, true, 1.2 * stated)
    assert not variance_is(estimates, true, 0.8 * stated)
    for wrong in {1.0, 3.0} - {kurtosis}:  # the κ of another family
        assert not variance_is(estimates, true, stated_variance(difference, wrong, k))
    if name == "counting":  # centering costs one coordinate, and that shows
        assert not variance_is(estimates, true, stated_variance(difference, kurtosis, k + 1))


@every_difference
def test_uncentered_counting_is_noticed(difference: str, sample: Sample) -> None:
    sketches = sample("counting", difference)
    true = float((DIFFERENCES[difference] ** 2).sum())
    k = sketches.shape[1]
    plain = (sketches**2).sum(axis=1).astype(np.float64)
    assert not mean_is(plain, true)
    assert not mean_is(plain * k / (k - 1), true)


def test_a_grid_without_its_rescaling_is_noticed(sample: Sample) -> None:
    bits = CASES["gaussian-coarse"][3]
    assert bits is not None
    sketches = sample("gaussian-coarse", "bits")
    true = float((DIFFERENCES["bits"] ** 2).sum())
    assert not mean_is(4.0**-bits * (sketches**2).sum(axis=1), true)


N_ATTRIBUTES = 60_000


def fits(counts: NDArray[np.int64], shares: Floats) -> bool:
    """Chi-square test of cell counts at level ALPHA, with enough in each cell for the law to hold."""
    expected = shares / shares.sum() * counts.sum()
    assert expected.min() > 100
    return bool(((counts - expected) ** 2 / expected).sum() <= stats.chi2.isf(ALPHA, len(counts) - 1))


@pytest.mark.parametrize(
    ("family", "k", "blocks"), [("counting", 97, 1), ("hashing", 97, 1), ("sparse", 90, 9), ("dasgupta", 97, 3)]
)
def test_buckets_and_signs_are_uniform_together(family: str, k: int, blocks: int, seeds: list[bytes]) -> None:
    rows = Projection(family, k, blocks, seeds[0]).rows(Vocabulary.numbered(N_ATTRIBUTES))
    assert isinstance(rows, HashedRows)
    width = k // blocks if family == "sparse" else k
    uniform = np.ones(width if family == "counting" else 2 * width)
    for t in range(blocks):
        buckets = rows.columns[:, t].astype(np.int64) - (t * width if family == "sparse" else 0)
        minus = rows.signs[:, t] < 0

        def counted(buckets: NDArray[np.int64], minus: NDArray[np.bool_]) -> NDArray[np.int64]:
            return np.bincount(buckets + width * minus, minlength=len(uniform))

        assert fits(counted(buckets, minus), uniform), f"{family}, hash {t}: fails by chance at a rate of {ALPHA:g}"
        # A bucket that is never hit; and signs that follow one bit of the bucket.
        assert not fits(counted(buckets * (width - 1) // width, minus), uniform)
        if family != "counting":
            assert not fits(counted(buckets, buckets % 2 == 1), uniform)


@pytest.mark.parametrize("family", ["hashing", "sparse", "dasgupta", "sign"])
def test_signs_are_balanced(family: str, seeds: list[bytes]) -> None:
    blocks = {"sparse": 4, "dasgupta": 3}.get(family, 1)
    rows = Projection(family, 12, blocks, seeds[1]).rows(Vocabulary.numbered(N_ATTRIBUTES))
    for signs in (rows.matrix if isinstance(rows, DenseRows) else rows.signs).T:  # type: ignore[attr-defined]
        plus = int((signs > 0).sum())
        counts = np.array([plus, N_ATTRIBUTES - plus])
        assert fits(counts, np.ones(2)), f"{family}: fails by chance at a rate of {ALPHA:g}"
        assert not fits(counts + np.array([1500, -1500]), np.ones(2))  # 52.5 % plus


def test_ternary_entries_have_their_shares(seeds: list[bytes]) -> None:
    entries = Projection("ternary", 5, 1, seeds[2]).rows(Vocabulary.numbered(N_ATTRIBUTES)).to_dense()
    for column in entries.T:
        counts = np.bincount(column + 1, minlength=3)
        assert fits(counts, np.array([1.0, 4.0, 1.0])), f"fails by chance at a rate of {ALPHA:g}"
        assert not fits(counts, np.array([1.0, 3.8, 1.2]))  # 20 % too few +1


def test_gaussian_entries_are_normal(seeds: list[bytes]) -> None:
    k, bits = 5, 16
    entries = Projection("gaussian", k, 1, seeds[3], bits).rows(Vocabulary.numbered(N_ATTRIBUTES)).to_dense()
    cells = 64
    for column in entries.T:
        ranks = stats.norm.cdf(column * (math.sqrt(k) / 2**bits))
        assert fits(np.bincount((ranks * cells).astype(np.int64), minlength=cells), np.ones(cells)), (
            f"fails by chance at a rate of {ALPHA:g}"
        )
        wrong = stats.norm.cdf(1.05 * column * (math.sqrt(k) / 2**bits))  # 5 % too wide
        assert not fits(np.bincount((wrong * cells).astype(np.int64), minlength=cells), np.ones(cells))
