import numpy as np
import pytest
import scipy.sparse

from dimly.lab.blur import SHOWN, blur_of, people_at
from dimly.mechanisms import Plan
from dimly.privacy import Budget


@pytest.mark.parametrize(("near", "far", "weight"), [(50, 100, 50), (2, 60, 40), (300, 400, 500)])
def test_made_people_are_as_far_apart_as_stated(near: float, far: float, weight: float) -> None:
    people = people_at(near, far, weight=weight, n_people=300, n_attributes=20_000)
    weights = people.table.sum(axis=1, dtype=np.int64)
    exact = people.table.astype(np.int64)
    apart = weights[:, None] + weights - 2 * (exact @ exact.T).toarray()
    same = people.groups[:, None] == people.groups
    assert apart[same & ~np.eye(300, dtype=bool)].mean() == pytest.approx(near, rel=0.1, abs=1)
    assert apart[~same].mean() == pytest.approx(far, rel=0.1, abs=1)
    assert weights.mean() == pytest.approx(weight, rel=0.05, abs=1)


def test_little_noise_keeps_the_picture_and_much_noise_does_not() -> None:
    people = people_at(20, 60, weight=40, n_people=600)
    kept = []
    for epsilon in (8.0, 0.05):
        blur = blur_of(Plan.of("counting+laplace", Budget(epsilon), k=128), people.table, groups=people.groups)
        assert blur.before.shape == blur.after.shape == (SHOWN, 2)
        assert blur.groups is not None
        assert blur.n_published == 600
        kept.append(blur.kept)
    assert kept[0] > 0.9
    assert kept[1] < 0.4


def test_people_with_one_attribute_in_all_and_names_of_columns() -> None:
    table = scipy.sparse.csr_array(np.array([[1], [0]] * 20, np.int8))
    plan = Plan.of("randomized-response", Budget(4.0), vocabulary=["tea", "coffee"])
    both = scipy.sparse.csr_array(scipy.sparse.hstack([table, table]))
    blur = blur_of(plan, both, attributes=["tea", "coffee"], shown=10)
    assert blur.groups is None
    assert np.isfinite(blur.before).all()
    assert blur.before.shape == (10, 2)
