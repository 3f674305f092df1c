"""The statistical tests are themselves tested."""

import numpy as np
from scipy import stats
from tests.statistical.checks import ALPHA, studentized


def test_the_test_itself_keeps_its_level() -> None:
    """The data are more skewed, and the samples smaller, than those above; the level is one that can be counted."""
    generator = np.random.default_rng(7)
    trials, level = 8000, 1e-3
    limit = stats.norm.isf(level / 2)
    rejected = rejected_plain = 0
    for _ in range(trials):
        values = (generator.standard_normal(2500) ** 2 - 1) ** 2
        rejected += abs(studentized(values, 2.0)) > limit
        rejected_plain += abs(studentized(values, 2.0, corrected=False)) > limit
    most = stats.binom.isf(ALPHA, trials, 1.5 * level)
    assert rejected <= most, f"{rejected} of {trials} rejected at a level of {level:g} (α = {ALPHA:g})"
    assert rejected_plain > most  # the check would notice a test that is too eager
