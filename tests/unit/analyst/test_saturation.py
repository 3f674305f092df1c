"""Published numbers at the end of their type say "at least", and nothing is made of them."""

import math
from typing import Any

import numpy as np
import pytest

from dimly.analyst import Release
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release import Sketches

LIMITS = np.iinfo(np.int16)


def release_with(value: int, *, resolution: int = 1) -> Release:
    plan = Plan.of("counting+laplace", Budget(1.0), k=8, resolution=resolution, n_attributes=50)
    values = np.ones((3, 8), np.int16)
    values[1, 5] = value
    return Release(Sketches(plan, np.arange(3), values))


@pytest.mark.parametrize("limit", [LIMITS.min, LIMITS.max])
def test_of_somebody_saturated_nothing_is_known(limit: int) -> None:
    release = release_with(limit)
    answers: dict[str, Any] = {
        "distance": release.distance(0, 1),
        "inner product": release.inner_product(1, 2),
        "norm": release.norm(1),
        "cosine": release.cosine(1, 0),
        "jaccard": release.jaccard(0, 1),
        "attribute": release.attribute(1, "17"),
        "own": release.distance(1, release.project({"3"})),
    }
    for what, answer in answers.items():
        largest = 1.0 if what in ("cosine", "jaccard", "attribute") else 50.0
        assert math.isnan(answer.value), what
        assert (answer.stderr, answer.low, answer.high) == (math.inf, 0.0, largest), what
    assert release.distance(1, 1).value == 0  # that much is known
    matrix = release.distance_matrix()
    assert np.isnan(matrix.value).tolist() == [[False, True, False], [True, False, True], [False, True, False]]


def test_one_step_inside_the_type_is_a_number_like_others() -> None:
    for near in (LIMITS.min + 1, LIMITS.max - 1):
        assert math.isfinite(release_with(near).distance(0, 1).value)
    assert math.isfinite(release_with(LIMITS.max).distance(0, 2).value)  # others are not concerned


def test_noisy_distances_are_lost_one_by_one() -> None:
    plan = Plan.of("noisy-distances", Budget(1.0, 1e-6), n_users=3, n_attributes=50)
    release = Release(Sketches(plan, np.arange(3), np.array([7, LIMITS.max, 9], np.int16)))
    assert math.isnan(release.distance(0, 2).value)
    assert release.distance(0, 1).value == 7
    assert np.isnan(release.distance_matrix().value).sum() == 2


def test_norms_need_no_list_of_attributes() -> None:
    plan = Plan.of("randomized-response", Budget(1.0), vocabulary=["tea", "milk"])
    release = Release(Sketches(plan, np.arange(1), np.array([[3]], np.uint8)))
    assert math.isfinite(release.norm(0).value)
