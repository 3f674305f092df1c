"""How many listed neighbors are true ones, and whether that comes true."""

import math

import numpy as np
import pytest
from tests.releases import every_mechanism, readable, release_of

from dimly.analyst.neighbors.expected import Noisy, expected_number
from dimly.analyst.neighbors.spaces import Metric
from dimly.api import publish
from dimly.lab.population import make_population
from dimly.mechanisms import Plan
from dimly.privacy import Budget


def test_without_noise_all_are_true_and_with_nothing_else_none_beyond_chance() -> None:
    keys = np.random.default_rng(1).exponential(size=2_000)
    keys.sort()
    assert expected_number(Noisy(keys, np.full(2_000, 1e-12)), np.ones(2_000), 20) == pytest.approx(20, abs=0.5)
    assert expected_number(Noisy(keys, np.full(2_000, 9.0)), np.ones(2_000), 20) == pytest.approx(20 * 20 / 2_000)


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
def test_it_comes_true_for_normal_noise(noise: float) -> None:
    generator = np.random.default_rng(7)
    found, told = [], []
    for _ in range(30):
        true = generator.gamma(3.0, size=1_000)
        seen = true + noise * generator.normal(size=1_000)
        order = np.argsort(seen)
        nearest = set(np.argsort(true)[:20].tolist())
        found.append(len(nearest & set(order[:20].tolist())))
        told.append(expected_number(Noisy(seen[order], np.full(1_000, noise**2)), np.ones(1_000), 20))
    # A standard error of the mean found is below 0.4, and the prior is estimated from the same people.
    assert np.mean(told) == pytest.approx(np.mean(found), abs=0.15 * float(np.mean(found)) + 1.0)
    assert np.mean(found) < 18


def test_people_of_whom_nothing_is_known_do_not_count() -> None:
    keys = np.arange(100.0)
    weights = np.ones(100)
    weights[3] = 0.0
    found = expected_number(Noisy(keys, np.full(100, 1e-9)), weights, 10)
    assert found == pytest.approx(9, abs=0.5)


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


@pytest.mark.parametrize("denoise", [True, False])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "jaccard"])
def test_it_comes_true_of_releases(metric: Metric, denoise: bool) -> None:
    table = make_population(600, 500, mean_weight=40, seed=3).table
    release = publish(table, Plan.of("hashing+laplace", Budget(10.0), k=256))
    people = np.asarray(table.toarray() if hasattr(table, "toarray") else table, np.float64)
    asked, sizes, shared = range(5, 600, 15), people.sum(axis=1), people @ people.T
    either = sizes[:, None] + sizes - shared
    keys = {
        "euclidean": either - shared,
        "cosine": -shared / np.sqrt(np.outer(sizes, sizes)),
        "jaccard": -shared / either,
    }
    found, told = [], []
    for person in asked:
        order = np.argsort(keys[metric][person], kind="stable")
        true = order[order != person][:10]
        listed = release.neighbors(person, 10, metric=metric, denoise=denoise)
        found.append(len(set(true.tolist()) & set(listed.users.tolist())))
        told.append(listed.expected)
    # Rather too low than too high: true keys are taken to spread more than they seem to.
    assert 0.4 * np.mean(found) < np.mean(told) < 1.3 * np.mean(found) + 0.5


def test_more_noise_means_fewer_and_the_words_say_so() -> None:
    people = make_population(600, 500, mean_weight=40, seed=3).table
    told = []
    # Person 5 has so many others at nearly the same distance that a smaller k tells but 3 of the nearest 10.
    for epsilon in (0.1, 30.0):
        release = publish(people, Plan.of("hashing+laplace", Budget(epsilon), k=1024))
        told.append(release.neighbors(5, 10))
    assert told[0].expected < 0.5
    assert told[1].expected > 3
    assert told[0].words.startswith("Mostly noise: fewer than 1 of these 10 can be expected to be among the 10 truly")
    assert not math.isnan(told[1].expected)
