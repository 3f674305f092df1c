"""Groupings by our own kernels are scikit-learn's, from the same random numbers."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from dimly.analyst.segments.k_means import Grouping, WeightedPoints


@pytest.mark.parametrize("count", [1, 2, 5, 12, 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_groups_are_those_of_scikit_learn(count: int, weighted: bool) -> None:
    generator = np.random.default_rng(count)
    middles = generator.standard_normal((count, 6)) * 4
    points = (middles[np.arange(600) % count] + generator.standard_normal((600, 6)) + 3).astype(np.float32)
    weights = (generator.random(600) + 0.5 if weighted else np.ones(600)).astype(np.float32)
    found = WeightedPoints(points, weights).grouped(count, 3)
    expected = KMeans(count, n_init=3, random_state=0).fit(points, sample_weight=weights)
    np.testing.assert_array_equal(found.labels, expected.labels_)
    np.testing.assert_allclose(found.centers, expected.cluster_centers_, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found.predict(points[:50]), expected.predict(points[:50]))


@pytest.mark.parametrize(("n", "k", "count"), [(1, 1, 1), (127, 7, 3), (128, 8, 16), (129, 9, 17), (400, 33, 40)])
def test_the_nearest_group_is_found_in_whole_tiles_and_what_is_left_of_them(n: int, k: int, count: int) -> None:
    generator = np.random.default_rng(n)
    points, centers = (generator.integers(-4, 5, (rows, k)).astype(np.float32) for rows in (n, count))
    squares = ((points[:, None] - centers) ** 2).sum(axis=2)  # of integers: exact, and the first of equals is taken
    np.testing.assert_array_equal(Grouping(None, centers).predict(points), squares.argmin(axis=1))


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_fewer_kinds_of_people_than_groups() -> None:
    points = np.repeat(np.eye(2, dtype=np.float32), 20, axis=0)
    found = WeightedPoints(points, np.ones(40, np.float32)).grouped(3, 2)
    assert len(np.unique(found.labels[:20])) == len(np.unique(found.labels[20:])) == 1
    assert found.labels[0] != found.labels[-1]
