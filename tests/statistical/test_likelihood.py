"""Likelihood estimates err less than unbiased ones, as docs/likelihood.md says, and their intervals cover.

Trials are independent, each with attributes of its own, and noise comes from a seeded stream. What is correct fails any
of these checks for a share of ALPHA of all choices of seeds. Beside them stands their power.
"""

import re
from functools import cache
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import scipy.sparse
from scipy import stats
from tests.matrices import publish_matrix
from tests.statistical.checks import ALPHA, Floats, studentized
from tests.statistical.trials import Estimates, coverage, louder, seed_of, stacked
from tests.streams import Recorded

from dimly.analyst import Release
from dimly.analyst.likelihood.search import Method
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release import Sketches

# In one process, where several tests ask the same releases the same.
pytestmark = pytest.mark.xdist_group("tests/statistical/test_likelihood.py")

N = 2_500
PAGE = (Path(__file__).parents[2] / "docs" / "likelihood.md").read_text(encoding="utf-8")
ROWS = {
    (family, float(epsilon), int(r2)): [tuple(map(int, cell.split("→"))) for cell in cells.split("|")]
    for family, epsilon, r2, cells in re.findall(
        r"^\| (counting|hashing) \| ([\d.]+) \| (\d+) \| (.*→.*) \|$", PAGE, re.M
    )
}
SIZES = (64, 128, 256, 512, 1024, 2048)


@cache
def pairs(mechanism: str, epsilon: float, k: int, only_one: tuple[int, int], both: int, n: int = N) -> Release:
    """Publish n pairs, users 2i and 2i + 1, with so many attributes of the one, of the other and of both."""
    plan = Plan.of(mechanism, Budget(epsilon, 1e-6), k=k, seed=seed_of(mechanism).to_bytes(32))
    a, b = only_one
    size = a + b + both
    first, second = np.r_[: a + both], np.r_[a:size]
    columns = (np.arange(n)[:, None] * size + np.r_[first, second]).reshape(-1)
    people = np.r_[np.zeros(a + both, int), np.ones(b + both, int)]
    rows = (2 * np.arange(n)[:, None] + people).reshape(-1)
    table = scipy.sparse.csr_array((np.ones(len(rows), bool), (rows, columns)), shape=(2 * n, n * size))
    return Release(publish_matrix(table, plan, words=Recorded(seed_of(mechanism) % 1_000 + k + both)))


@cache
def ask(release: Release, method: Method) -> Estimates:
    n = len(release)
    return release.distances(np.arange(0, n, 2), np.arange(1, n, 2), method=method)


def errs_at_most(share: float, values: Floats, others: Floats, truth: float) -> bool:
    """One-sided test at level ALPHA that the root mean square error is at most this share of the others'."""
    differences = (values - truth) ** 2 - share**2 * (others - truth) ** 2
    return bool(studentized(differences, 0.0) <= stats.norm.isf(ALPHA))


def covers_at_least(share: float, found: Estimates, truth: float) -> bool:
    n = len(found.value)
    return bool(stats.binomtest(round(coverage(found, truth) * n), n, share, "less").pvalue > ALPHA)


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "k", "r2", "share"),
    [
        ("counting+laplace", 1.0, 128, 200, 0.95),  # the best k of the unbiased estimate …
        ("counting+laplace", 1.0, 1024, 200, 0.70),  # … and one that is eight times too large
        ("counting+laplace", 4.0, 1024, 200, 0.80),
        ("hashing+laplace", 1.0, 64, 200, 0.95),
        ("hashing+laplace", 1.0, 512, 200, 0.65),
        ("hashing+laplace", 2.0, 256, 50, 0.80),
        ("counting+gaussian", 4.0, 1024, 200, 0.90),
    ],
)
def test_gains(mechanism: str, epsilon: float, k: int, r2: int, share: float) -> None:
    release = pairs(mechanism, epsilon, k, (r2 // 2, r2 // 2), r2 // 2)
    likely, unbiased = (ask(release, method).value for method in ("likelihood", "unbiased"))
    assert errs_at_most(share, likely, unbiased, r2)
    # Cutting unbiased estimates at zero, which likelihood estimates imply, does not do it.
    assert not errs_at_most(share, np.maximum(unbiased, 0.0), unbiased, r2), "no power"


CASES = [
    ("counting+laplace", 1.0, 256, (100, 100), 100),
    ("hashing+laplace", 1.0, 256, (100, 100), 100),
    ("counting+laplace", 2.0, 64, (10, 10), 40),
    ("hashing+laplace", 2.0, 64, (10, 10), 40),
    ("counting+laplace", 4.0, 256, (60, 20), 40),
    ("hashing+laplace", 4.0, 256, (60, 20), 40),
    ("counting+gaussian", 4.0, 64, (100, 100), 100),
    ("hashing+gaussian", 4.0, 64, (100, 100), 100),
    ("counting+laplace", 1.0, 256, (0, 0), 100),
    ("hashing+laplace", 1.0, 256, (0, 0), 100),
    ("counting+laplace", 0.5, 256, (10, 10), 90),
    ("hashing+laplace", 0.5, 64, (10, 10), 90),
    ("hashing+laplace", 1.0, 1024, (10, 10), 90),
]


@pytest.mark.parametrize(("mechanism", "epsilon", "k", "only_one", "both"), CASES)
def test_intervals_cover(mechanism: str, epsilon: float, k: int, only_one: tuple[int, int], both: int) -> None:
    found = ask(pairs(mechanism, epsilon, k, only_one, both), "likelihood")
    assert covers_at_least(0.935, found, float(sum(only_one))), f"covers {coverage(found, float(sum(only_one))):.2%}"


@pytest.mark.parametrize(("mechanism", "epsilon", "k", "only_one", "both"), CASES[:8])
def test_away_from_zero_they_are_nearly_unbiased_and_as_spread_as_stated(
    mechanism: str, epsilon: float, k: int, only_one: tuple[int, int], both: int
) -> None:
    """Bias below an eighth of a standard error; the standard error, which goes in small steps, right to a tenth."""
    release = pairs(mechanism, epsilon, k, only_one, both)
    found = ask(release, "likelihood")
    errors, stated = found.value - sum(only_one), float(np.sqrt((found.stderr**2).mean()))
    assert studentized(errors, stated / 8) <= stats.norm.isf(ALPHA / 2), (
        f"biased by {errors.mean():.1f} of {stated:.1f}"
    )
    assert studentized(errors, -stated / 8) >= -stats.norm.isf(ALPHA / 2), f"biased by {errors.mean():.1f}"
    squares = errors**2
    limit = stats.norm.isf(ALPHA / 2)
    assert studentized(squares, (1.1 * stated) ** 2) <= limit, f"{squares.mean() ** 0.5:.1f}, stated {stated:.1f}"
    assert studentized(squares, (0.9 * stated) ** 2) >= -limit, f"{squares.mean() ** 0.5:.1f}, stated {stated:.1f}"


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace"])
def test_less_noise_than_stated_is_noticed(mechanism: str) -> None:
    """An analyst who was told a plan with 5/4 of the variance gets intervals that do not cover."""
    release = pairs(mechanism, 1.0, 256, (100, 100), 100)
    told = Release(Sketches(louder(release.plan), release.users, release.values))
    assert not covers_at_least(0.935, ask(told, "likelihood"), 200.0)


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace"])
@pytest.mark.thorough(but=1)
def test_own_vectors(mechanism: str) -> None:
    n, a, b, c = 1_000, 30, 20, 40
    release = pairs(mechanism, 2.0, 64, (a, b), c, n)
    size = a + b + c
    starts = size * np.arange(n)
    likely, unbiased = (
        stacked(
            [
                release.distance(2 * i, release.project(range(start + a, start + size)), method=method)
                for i, start in enumerate(starts.tolist())
            ]
        )
        for method in ("likelihood", "unbiased")
    )
    assert covers_at_least(0.935, likely, a + b)
    assert errs_at_most(0.9, likely.value, unbiased.value, a + b)


@pytest.mark.parametrize(
    ("family", "epsilon", "r2", "k"),
    [
        ("counting", 0.5, 50, 256),
        ("counting", 1.0, 200, 128),
        ("counting", 2.0, 50, 1024),
        ("counting", 4.0, 800, 256),
        ("hashing", 0.5, 200, 512),
        ("hashing", 1.0, 50, 256),
        ("hashing", 2.0, 200, 64),
        ("hashing", 4.0, 50, 128),
    ],
)
def test_the_page_shows_what_is_measured(family: str, epsilon: float, r2: int, k: int) -> None:
    """To a tenth, and half a unit for rounding."""
    assert len(ROWS) == 24
    shown = ROWS[family, epsilon, r2][SIZES.index(k)]
    release = pairs(f"{family}+laplace", epsilon, k, (r2 // 2, r2 // 2), r2 // 2)
    limit = stats.norm.isf(ALPHA / 2)
    for method, error in zip(get_args(Method), shown, strict=True):
        squares = (ask(release, method).value - r2) ** 2
        assert studentized(squares, (1.1 * error + 0.5) ** 2) <= limit, f"{method}: {squares.mean() ** 0.5:.1f}"
        assert studentized(squares, max(0.9 * error - 0.5, 0.0) ** 2) >= -limit, (
            f"{method}: {squares.mean() ** 0.5:.1f}"
        )
