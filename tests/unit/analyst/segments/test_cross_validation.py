import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from dimly.analyst.segments.cross_validation import adjusted_rand_index


@pytest.mark.parametrize(("groups", "others"), [(1, 1), (1, 4), (3, 3), (12, 5)])
def test_agreement_is_that_of_scikit_learn(groups: int, others: int) -> None:
    generator = np.random.default_rng(groups)
    one, other = generator.integers(groups, size=500), generator.integers(others, size=500)
    mixed = np.where(generator.random(500) < 0.7, one, other)
    for first, second in ((one, other), (one, mixed), (mixed, one), (one, one)):
        assert adjusted_rand_index(first, second) == adjusted_rand_score(first, second)
