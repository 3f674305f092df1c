import numpy as np
import pytest

import dimly
from dimly.errors import ParameterError
from dimly.lab.compare import blocks_of
from dimly.lab.population import make_population
from dimly.lab.simulate import Outcome, PredictedAndFound, Truth, best_plan, outcome, random_pairs, recovered, simulate
from dimly.mechanisms import Plan
from dimly.privacy import Budget


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


def test_without_noise_all_is_found(truth: Truth) -> None:
    plan = dimly.Plan.of("randomized-response", dimly.Budget(40.0), n_attributes=800)
    found = outcome(dimly.publish(truth.people.table, plan), truth)
    assert found.error.measured < 0.1
    assert found.recall == found.recall_undenoised == 1.0
    assert found.ranking == (1.0, 1.0)
    assert found.agreement is not None
    assert found.agreement > 0.9


@pytest.mark.parametrize("mechanism", ["paper", "counting+laplace", "randomized-response", "noisy-distances"])
@pytest.mark.thorough(but=1)
def test_predicted_stands_beside_measured(mechanism: str, truth: Truth) -> None:
    """That both agree is a matter of statistics: tests/statistical/test_lab.py."""
    plan = best_plan(mechanism, 2.0, truth.people)
    told: list[tuple[int, int]] = []
    (found,) = simulate(truth, [plan], segments=False, told=lambda *numbers: told.append(numbers))
    assert told == [(1, 1)]
    (a, b), true, weights = truth.pairs, truth.squared_distances, truth.people.weights
    variances = [plan.error.distance(weights=(weights[i], weights[j]))(r2) for i, j, r2 in zip(a, b, true, strict=True)]
    assert found.error.predicted == pytest.approx(np.sqrt(np.mean(variances)))
    assert found.error.measured == pytest.approx(np.sqrt(np.mean((found.estimates - true) ** 2)))
    assert 0 <= found.coverage <= 1
    assert (found.recall is None) == (mechanism == "noisy-distances")
    assert (found.agreement, found.stability) == (None, None)
    assert found.to_dict()["mechanism"] == plan.mechanism
    assert "estimates" not in found.to_dict()


@pytest.mark.thorough
def test_a_release_that_is_there_is_measured_and_not_made_again(truth: Truth) -> None:
    release = dimly.publish(truth.people.table, best_plan("counting+laplace", 2.0, truth.people))
    found, again, _ = simulate(
        truth.people, [best_plan("hashing+laplace", 2.0, truth.people)], releases=[release, release], segments=False
    )
    np.testing.assert_array_equal(found.estimates, release.distances(*truth.pairs).value)
    assert found.to_dict() == again.to_dict()
    others = dimly.publish(truth.people.table[1:], release.plan)
    with pytest.raises(ParameterError, match="release must be of the people that are made up, numbered from 0 to 299"):
        simulate(truth, [], releases=[others])


def made_up(mechanism: str, epsilon: float, truth: Truth) -> Outcome:
    """Return estimates in steps of ten, as if published by a plan."""
    noise = np.random.default_rng(0).normal(0.0, 30.0, len(truth.squared_distances))
    estimates = (truth.squared_distances + noise).round(-1)
    return Outcome(
        Plan.of(mechanism, Budget(epsilon), k=16),
        PredictedAndFound(1.0, 1.0),
        0.95,
        PredictedAndFound(1.0, 1.0),
        estimates,
    )


def test_the_figure_holds_95_percent_of_the_estimates_around_the_truth(truth: Truth) -> None:
    names = ["paper", "counting+laplace", "hashing+laplace"]
    named = {name: made_up("sign+laplace" if name == "paper" else name, 4.0, truth) for name in names}
    named["plan.json"] = named["counting+laplace"]
    chart = recovered(truth, named)
    assert "of 300 people, ε = 4" in chart.title
    assert "4,000 random pairs of made-up people. The paper's: k =" in chart.note
    straight, *bands = chart.lines
    assert straight.label == "the truth"
    assert straight.x == straight.y
    assert chart.y.limits is not None
    assert chart.y.limits[0] < min(min(line.y) for line in bands)
    assert [band.label.partition(":")[0] for band in bands] == ["the paper's", *names[1:], "plan.json"]
    assert len({band.look for band in bands}) == len(bands)
    order = np.argsort(truth.squared_distances, kind="stable")
    for band, one in zip(bands, named.values(), strict=True):
        assert band.upper is not None
        parts = np.array_split(one.estimates[order], 14)[1:-1]
        for low, high, part in zip(band.y, band.upper, parts, strict=True):
            # Of estimates in steps, several lie on the border.
            assert np.mean((low <= part) & (part <= high)) > 0.95 - 2 / len(part)
            assert np.mean((low < part) & (part < high)) < 0.95 + 2 / len(part)


def test_a_figure_of_several_budgets_names_each(truth: Truth) -> None:
    chart = recovered(truth, {f"{e:g}.json": made_up("counting+laplace", e, truth) for e in (1.0, 4.0)})
    assert "ε" not in chart.title
    assert "1.json: ε = 1, k =" in chart.note
    assert chart.lines[1].label.startswith("1.json (counting+laplace)")


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
