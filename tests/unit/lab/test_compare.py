import math

import pytest

from dimly.errors import ParameterError
from dimly.lab.compare import PAPER, compare, predict, winners
from dimly.mechanisms import Plan
from dimly.planner.paper import PAPER as PAPERS_MECHANISM
from dimly.privacy import Budget


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace", "randomized-response"])
def test_predictions_are_those_of_the_plan(mechanism: str) -> None:
    one = predict(mechanism, Budget(1.0), distance=200.0, n_attributes=5000)
    plan = Plan.of(mechanism, Budget(1.0), k=one.k, n_attributes=5000)
    assert one.delta == 0
    assert one.stderr == pytest.approx(math.sqrt(float(plan.error.distance(weights=(100, 100))(200.0))), rel=0.02)


def test_the_paper_is_calibrated_by_its_theorem() -> None:
    one = predict(PAPER, Budget(1.0, 1e-6), distance=200.0, n_attributes=5000)
    plan = Plan.of(PAPERS_MECHANISM, Budget(1.0, 1e-6), k=one.k, n_attributes=5000, rule="theorem1", dtype="int32")
    assert one.stderr == pytest.approx(math.sqrt(float(plan.error.distance()(200.0))), rel=0.25)  # P's longest row
    exact = predict(PAPERS_MECHANISM, Budget(1.0, 1e-6), distance=200.0, n_attributes=5000)
    assert exact.stderr is not None
    assert one.stderr is not None
    assert one.stderr > 1.1 * exact.stderr


def test_who_cannot_serve_says_why() -> None:
    found = compare([1.0], distances=[50.0], mechanisms=["randomized-response", "noisy-distances"])
    assert [one.stderr for one in found] == [None, None]
    assert all("n_" in one.reason for one in found)
    assert winners(found) == {}


def test_the_winner_has_the_smallest_error() -> None:
    found = compare([1.0, 4.0], distances=[100.0], n_attributes=[200, 100_000])
    for (e, d, at), name in winners(found).items():
        here = [one for one in found if (one.epsilon, one.n_attributes, one.distance) == (e, d, at)]
        assert name == min((one for one in here if one.stderr is not None), key=lambda one: one.stderr or 0).mechanism


def test_the_paper_cannot_do_without_a_delta() -> None:
    (one,) = compare([1.0], distances=[400.0], n_attributes=[5000], mechanisms=[PAPER], delta=0.0)
    assert (one.stderr, one.reason) == (None, "it needs a delta above 0")


def test_nobody_differs_in_more_than_two_people_have() -> None:
    with pytest.raises(ParameterError, match="at least half of the largest distance, 400, got 150"):
        compare([1.0], distances=[100.0, 400.0], weight=150.0)
    assert compare([1.0], distances=[100.0, 400.0], weight=200.0)


def test_bad_names_are_refused() -> None:
    with pytest.raises(ParameterError, match="at least one"):
        compare([1.0], distances=[50.0], mechanisms=[])
    with pytest.raises(ParameterError, match="mechanism must be"):
        compare([1.0], distances=[50.0], mechanisms=["magic"])
