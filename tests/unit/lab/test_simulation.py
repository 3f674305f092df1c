import numpy as np
import pytest

import dimly
from dimly.errors import ParameterError
from dimly.lab.comparison import blocks_of
from dimly.lab.population import make_population
from dimly.lab.simulation import Truth, best_plan, outcome, random_pairs, simulate


@pytest.fixture(scope="module")
def truth() -> Truth:
    return Truth.of(make_population(300, 800, mean_weight=40, n_groups=2, taste=60.0))


def test_the_truth_is_true(truth: Truth) -> None:
    bits = truth.people.table.toarray().astype(np.int64)
    a, b = truth.pairs
    np.testing.assert_array_equal(((bits[a] - bits[b]) ** 2).sum(axis=1), truth.squared_distances)
    of_first = ((bits - bits[truth.asked[1]]) ** 2).sum(axis=1).astype(float)
    of_first[truth.asked[1]] = np.inf
    np.testing.assert_array_equal(of_first, truth.distances_of_asked[1])
    assert truth.best_agreement > 0.5


def test_without_noise_all_is_found(truth: Truth) -> None:
    plan = dimly.Plan.of("randomized-response", dimly.Budget(40.0), n_attributes=800)
    found = outcome(dimly.publish(truth.people.table, plan), truth)
    assert found.error.measured < 0.1
    assert found.recall == found.recall_undenoised == 1.0
    assert found.ranking == (1.0, 1.0)
    assert found.agreement is not None
    assert found.agreement > 0.9


@pytest.mark.parametrize("mechanism", ["paper", "counting+laplace", "randomized-response", "noisy-distances"])
def test_what_is_predicted_comes_out(mechanism: str, truth: Truth) -> None:
    plan = best_plan(mechanism, 2.0, truth.people)
    (found,) = simulate(truth.people, [plan], segments=False, told=lambda *_: None)
    assert found.error.measured == pytest.approx(found.error.predicted, rel=0.35)  # one P for all pairs
    assert found.ranking.measured == pytest.approx(found.ranking.predicted, abs=0.2)  # and few numbers
    assert found.coverage > 0.85
    assert (found.recall is None) == (mechanism == "noisy-distances")
    assert found.to_dict()["mechanism"] == plan.mechanism


def test_too_few_people_are_refused() -> None:
    with pytest.raises(ParameterError, match="users must be more than 10"):
        Truth.of(make_population(10, 100, mean_weight=10))


def test_pairs_are_of_different_people() -> None:
    a, b = random_pairs(7, 1000)
    assert (a != b).all()
    assert set(a.tolist()) | set(b.tolist()) == set(range(7))


def test_sparse_is_tried_as_it_is_compared(truth: Truth) -> None:
    part = best_plan("sparse+laplace", 2.0, truth.people).projection
    assert part is not None
    assert part.blocks == blocks_of("sparse+laplace") == 4  # with 1 it would be hashing
