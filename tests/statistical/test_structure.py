"""Independent attributes show no structure and no segments; planted groups do.

False alarms are claimed to be rarer than 0.001. The test allows as many of them as that rate exceeds with probability
ALPHA only. Its power stands beside it: groups planted in people of the same kind are found, with strong tastes where
attributes are mixed.
"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import adjusted_rand_score
from tests.matrices import publish_matrix
from tests.statistical.checks import ALPHA
from tests.streams import Recorded

from dimly.analyst import Release
from dimly.mechanisms import Plan
from dimly.privacy import Budget

N_USERS, N_ATTRIBUTES, WEIGHT = 500, 150, 30
SEED = bytes(32)
PLANS = {
    "counting": Plan.of("counting+laplace", Budget(4.0), k=48, seed=SEED),
    "hashing": Plan.of("hashing+laplace", Budget(4.0), k=48, seed=SEED),
    "randomized-response": Plan.of("randomized-response", Budget(2.0), n_attributes=N_ATTRIBUTES),
    "sparse": Plan.of("sparse+laplace", Budget(8.0), k=48, seed=SEED, blocks=4),
    "sign": Plan.of("sign+gaussian", Budget(8.0, 1e-6), k=48, seed=SEED),
}
NAMES = list(PLANS)
PLANS["wide"] = Plan.of("counting+laplace", Budget(4.0), k=128, seed=SEED)
KINDS = [(zipf, heavy) for zipf in (False, True) for heavy in (False, True)]
RELEASES = 12  # of each kind
FALSE_ALARMS = 0.001  # what docs/denoising.md states
MOST_ALARMS = int(stats.binom.isf(ALPHA, RELEASES * len(KINDS), FALSE_ALARMS))


def people(
    seed: int, *, zipf: bool, heavy: bool, n_groups: int = 1, taste: float = 1.0, n_users: int = N_USERS
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return people of independent attributes, each group with its own odds; one group: no structure at all."""
    generator = np.random.default_rng(seed)
    popularity = (np.arange(N_ATTRIBUTES) + 1.0) ** -0.9 if zipf else np.ones(N_ATTRIBUTES)
    odds = np.where(generator.random((n_groups, N_ATTRIBUTES)) < 0.2, taste, 1.0) * popularity
    odds *= WEIGHT / odds.sum(axis=1, keepdims=True)
    activity = generator.lognormal(-0.32, 0.8, (n_users, 1)) if heavy else np.ones((n_users, 1))
    groups = generator.integers(n_groups, size=n_users)
    return generator.random((n_users, N_ATTRIBUTES)) < -np.expm1(-activity * odds[groups]), groups


def published(name: str, table: NDArray[np.bool_], seed: int) -> Release:
    return Release(publish_matrix(table, PLANS[name], words=Recorded(seed)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.thorough(but=2)
def test_independent_attributes_show_none(name: str) -> None:
    alarms = sum(
        published(name, people(seed, zipf=zipf, heavy=heavy)[0], seed).structure.components > 0
        for zipf, heavy in KINDS
        for seed in range(RELEASES)
    )
    assert alarms <= MOST_ALARMS, f"{alarms} alarms: more than {MOST_ALARMS} have probability {ALPHA:g}"


# Every mechanism where it is hardest, with heavy people and rare attributes; one of them everywhere.
@pytest.mark.parametrize(
    ("name", "zipf", "heavy"),
    [*((name, True, True) for name in NAMES), *((NAMES[0], *kind) for kind in KINDS if kind != (True, True))],
)
def test_planted_groups_show(name: str, zipf: bool, heavy: bool) -> None:
    taste = 30.0 if name in ("sparse", "sign") else 10.0
    tables = (people(seed, zipf=zipf, heavy=heavy, n_groups=3, taste=taste, n_users=800)[0] for seed in range(4))
    assert sum(published(name, table, seed).structure.components > 0 for seed, table in enumerate(tables)) >= 3


# The two ends; the kinds between are told apart, or not, by the evidence above.
@pytest.mark.parametrize(("zipf", "heavy"), [KINDS[0], KINDS[-1]])
@pytest.mark.thorough(but=1)
def test_segments(zipf: bool, heavy: bool) -> None:
    without = published("counting", people(7, zipf=zipf, heavy=heavy)[0], 7)
    assert len(without.segments("auto")) == 1
    assert without.segments(3).stability == 0
    table, groups = people(7, zipf=zipf, heavy=heavy, n_groups=3, taste=10.0, n_users=1500)
    found = published("wide", table, 7).segments("auto")
    assert len(found) == 3
    assert adjusted_rand_score(groups, found.labels) > 0.6
    assert found.stability > 0.5
    assert not (heavy and found.activity)  # tastes are told apart from activity where that is uneven
