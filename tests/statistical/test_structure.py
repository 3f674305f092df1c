"""Independent attributes show no structure and no segments; planted groups do.

False alarms are claimed to be rarer than 0.001. Each test allows as many of them as that rate exceeds with probability
ALPHA only. Its power stands beside it: groups planted in people of the same kind are found nearly always.
"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import adjusted_rand_score
from tests.statistical.checks import ALPHA

from dimly.analyst import Release
from dimly.analyst.structure import FALSE_ALARMS
from dimly.api import publish
from dimly.mechanisms import Plan
from dimly.privacy import Budget

N_USERS, N_ATTRIBUTES, WEIGHT = 500, 150, 30
PLANS = {
    "counting": Plan.of("counting+laplace", Budget(4.0), k=48),
    "hashing": Plan.of("hashing+laplace", Budget(4.0), k=48),
    "randomized-response": Plan.of("randomized-response", Budget(2.0), n_attributes=N_ATTRIBUTES),
    "sparse": Plan.of("sparse+laplace", Budget(8.0), k=48, blocks=4),
    "sign": Plan.of("sign+gaussian", Budget(8.0, 1e-6), k=48),
}
KINDS = [(zipf, heavy) for zipf in (False, True) for heavy in (False, True)]
RELEASES = 24  # of each kind
MOST_ALARMS = int(stats.binom.isf(ALPHA, RELEASES * len(KINDS), FALSE_ALARMS))


def people(
    seed: int, *, zipf: bool, heavy: bool, n_groups: int = 1, n_users: int = N_USERS
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return people of independent attributes, each group with its own odds; one group: no structure at all."""
    generator = np.random.default_rng(seed)
    popularity = (np.arange(N_ATTRIBUTES) + 1.0) ** -0.9 if zipf else np.ones(N_ATTRIBUTES)
    taste = np.where(generator.random((n_groups, N_ATTRIBUTES)) < 0.3, 4.0, 1.0) if n_groups > 1 else np.ones((1, 1))
    odds = taste * popularity
    odds *= WEIGHT / odds.sum(axis=1, keepdims=True)
    activity = generator.lognormal(-0.32, 0.8, (n_users, 1)) if heavy else np.ones((n_users, 1))
    groups = generator.integers(n_groups, size=n_users)
    return generator.random((n_users, N_ATTRIBUTES)) < -np.expm1(-activity * odds[groups]), groups


def published(name: str, table: NDArray[np.bool_]) -> Release:
    release = publish(table, PLANS[name])
    assert isinstance(release, Release)
    return release


@pytest.mark.parametrize("name", PLANS)
def test_independent_attributes_show_none(name: str) -> None:
    alarms = sum(
        published(name, people(seed, zipf=zipf, heavy=heavy)[0]).structure.components > 0
        for zipf, heavy in KINDS
        for seed in range(RELEASES)
    )
    assert alarms <= MOST_ALARMS, (
        f"{alarms} alarms; a rate of {FALSE_ALARMS} exceeds {MOST_ALARMS} in {ALPHA:g} of runs"
    )


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize(("zipf", "heavy"), KINDS)
def test_planted_groups_show(name: str, zipf: bool, heavy: bool) -> None:
    tables = (people(seed, zipf=zipf, heavy=heavy, n_groups=3)[0] for seed in range(4))
    assert sum(published(name, table).structure.components > 0 for table in tables) >= 3


@pytest.mark.parametrize(("zipf", "heavy"), KINDS)
def test_segments(zipf: bool, heavy: bool) -> None:
    without = published("counting", people(7, zipf=zipf, heavy=heavy)[0])
    assert len(without.segments("auto")) == 1
    assert without.segments(3).stability == 0
    table, groups = people(7, zipf=zipf, heavy=heavy, n_groups=3, n_users=1500)
    found = publish(table, Plan.of("counting+laplace", Budget(4.0), k=128)).segments(3)
    assert adjusted_rand_score(groups, found.labels) > 0.5
    assert found.stability > 0.2
    assert "Stability" in found.words
