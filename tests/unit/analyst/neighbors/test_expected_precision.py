"""How many listed neighbors are true ones, and whether that comes true."""

import math
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm
from tests.releases import every_mechanism, readable, release_of

from dimly.analyst import Release
from dimly.analyst.neighbors.expected_precision import likely_range
from dimly.analyst.neighbors.spaces import Metric
from dimly.api import publish
from dimly.mechanisms import Plan
from dimly.mechanisms.projection.directions import Directions
from dimly.privacy import Budget

N = 10
ASKED = range(0, 600, 5)
BIAS = {"directions": 0.5, "response": 1.0, "counting": 2.0, "hashing": 2.0}
"""What the expected number may be off by, of ten. People along directions are what the model takes them for; what a
projection does to people who share much is not in it, and makes it say up to two too few: see docs/measurements.md."""
ALARM = norm.isf(1e-6 / 2)
"""Standard errors that chance alone exceeds in one of a million tests."""


@cache
def people() -> NDArray[np.bool_]:
    """Return people of different tastes, but without groups or circles: second moments say all."""
    generator = np.random.default_rng(1)
    likes = np.exp(0.7 * generator.standard_normal((600, 4)) @ generator.standard_normal((4, 300)))
    odds = np.minimum(likes / likes.sum(axis=1, keepdims=True) * 40, 0.95)
    return np.asarray(generator.random(likes.shape) < odds, np.bool_)


@cache
def along() -> NDArray[np.float64]:
    return np.random.default_rng(2).choice([-0.125, 0.125], (300, 8))


@cache
def published(how: str) -> Release:
    table = people().astype(np.int8)
    if how == "directions":
        names = [str(i) for i in range(table.shape[1])]
        directions = Directions.of_values(names, along(), scale=8, origin="drawn by lot")
        return publish(table, Plan.of("directions+laplace", Budget(8.0), directions=directions))
    mechanism, epsilon, k = {
        "counting": ("counting+laplace", 5.0, 512),
        "hashing": ("hashing+laplace", 6.0, 512),
        "response": ("randomized-response", 4.0, None),
    }[how]
    return publish(table, Plan.of(mechanism, Budget(epsilon), k=k, n_attributes=None if k else table.shape[1]))


def true_keys(how: str, metric: Metric) -> NDArray[np.float64]:
    rows = people().astype(np.float64)
    rows = rows @ along() if how == "directions" else rows
    shared, lengths = rows @ rows.T, (rows**2).sum(axis=1)
    both = lengths[:, None] + lengths
    every: dict[Metric, Any] = {
        "euclidean": both - 2 * shared,
        "cosine": -shared / np.sqrt(np.outer(lengths, lengths)),
        "jaccard": -shared / (both - shared),
    }
    keys: NDArray[np.float64] = every[metric]
    np.fill_diagonal(keys, np.inf)
    return keys


def comes_true(found: NDArray[np.float64], told: NDArray[np.float64], bias: float) -> bool:
    """Return whether numbers agree but for the stated bias and chance."""
    error = (found - told).std(ddof=1) / len(found) ** 0.5
    return bool(abs(found.mean() - told.mean()) <= bias + ALARM * error)


@pytest.mark.parametrize(
    ("how", "metric", "denoise"),
    [
        ("directions", "euclidean", False),
        ("directions", "cosine", True),
        ("response", "euclidean", False),
        ("response", "cosine", True),
        ("counting", "euclidean", True),
        ("hashing", "jaccard", False),
    ],
)
@pytest.mark.thorough(but=2)
def test_it_comes_true(how: str, metric: Metric, denoise: bool) -> None:
    keys, release = true_keys(how, metric), published(how)
    found, told, held = [], [], []
    for person in ASKED:
        listed = release.neighbors(person, N, metric=metric, denoise=denoise)
        furthest = np.partition(keys[person], N - 1)[N - 1]
        found.append(np.count_nonzero(keys[person, listed.users] <= furthest + 1e-9))
        told.append(listed.expected)
        held.append(listed.expected_range[0] <= found[-1] <= listed.expected_range[1])
    count, expected = np.array(found, float), np.array(told)
    assert comes_true(count, expected, BIAS[how])
    # Of 120 ranges that each hold with probability 0.9, fewer than 90 do so in one of a million tests.
    assert sum(held) >= 90
    # A formula that is wrong by a factor of two is found out.
    assert not comes_true(count, 2 * expected, BIAS[how])
    assert not comes_true(count, expected / 2, BIAS[how])


def test_a_range_is_wider_than_chance_and_within_what_is_possible() -> None:
    told = partial(likely_range, others=2000)
    assert told(math.nan, 10) == (0, 10)
    assert told(0.0, 10) == (0, 1)
    assert told(10.0, 10) == (9, 10)
    assert told(5.0, 10) == (1, 9)
    assert told(50.0, 100) == (32, 68)


def test_among_more_people_than_stand_ins_can_tell_a_range_promises_nothing() -> None:
    assert likely_range(9.0, 10, others=40_960)[0] > 0
    assert likely_range(9.0, 10, others=40_961) == (0, 10)


@readable
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "jaccard"])
def test_every_mechanism_and_metric_tells_it(mechanism: str, metric: Metric) -> None:
    release = release_of(mechanism)
    for who in (7, release.project({"3", "5"})):
        for denoise in (True, False):
            found = release.neighbors(who, 3, metric=metric, denoise=denoise)
            assert 0 <= found.expected <= 3
            assert found.expected == release.neighbors(who, 3, metric=metric, denoise=denoise).expected


@every_mechanism
def test_of_everybody_it_is_an_average_and_all_others_are_all_true(mechanism: str) -> None:
    release = release_of(mechanism)
    assert 0 <= release.neighbor_graph(3).expected <= 3
    assert release.neighbors(7, len(release) - 1).expected == len(release) - 1


def test_distances_with_little_noise_are_right_and_with_much_are_not() -> None:
    table = people()[:60].astype(np.int8)
    few, all_ = (
        publish(table, Plan.of("noisy-distances", Budget(epsilon, 1e-6), n_users=60, n_attributes=300))
        .neighbors(5, N)
        .expected
        for epsilon in (0.2, 50.0)
    )
    assert few < 7  # by chance 1.7; at worst, the spread of 59 numbers says that little of it is noise
    assert all_ > 8


def test_more_noise_means_fewer_and_the_words_say_so() -> None:
    table = people().astype(np.int8)
    noisy, clear = (
        publish(table, Plan.of("hashing+laplace", Budget(epsilon), k=512)).neighbors(5, N) for epsilon in (0.1, 30.0)
    )
    assert noisy.expected < 2  # by chance 0.2
    assert noisy.words.startswith("Mostly noise: between 0 and ")
    assert clear.expected > 3
