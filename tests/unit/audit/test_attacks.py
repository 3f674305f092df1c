"""Attacks succeed where there is no noise, and stay within the promise where there is.

False-alarm rate 1e-6 for each comparison with a bound, of 65,536 coins.
"""

import math
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from dimly.audit import attacks
from dimly.audit.attacks import MECHANISMS, average, infer, link, made_people, read_people, run_attacks
from dimly.errors import ParameterError

COINS = 1 << 16
SLACK = float(stats.norm.isf(1e-6)) * 0.5 / math.sqrt(COINS * 0.9)  # coins come in whole people


def test_people_are_read_without_noise_and_not_with_it() -> None:
    assert read_people(math.inf, people=6).exactly >= 0.5  # nearly all: more than 3 of 6 missed once in 10,000 seeds
    noisy = read_people(1.0, people=2)
    assert noisy.exactly == 0
    assert noisy.attributes < 0.5


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_nobody_guesses_better_than_the_promise_allows(mechanism: str) -> None:
    found = infer(mechanism, 1.0)
    assert 0.5 < found.right < found.bound + SLACK
    if mechanism in ("counting+laplace", "randomized-response"):
        assert found.right > found.bound - SLACK


def test_averaging_undoes_noise() -> None:
    one, many = average(1), average(16)
    assert abs(one.right - one.one) < SLACK
    assert one.one + 0.1 < many.right < many.bound


def test_what_is_known_of_a_person_finds_the_row() -> None:
    exact = link(math.inf, people=50)
    noisy = link(1.0, people=50)
    assert [one.known for one in exact] == list(attacks.KNOWN)
    assert exact[-1].found > 0.9
    assert exact[0].found < 0.2
    assert noisy[-1].found < exact[-1].found - 0.3


def test_a_further_attribute_is_read_no_better_than_allowed() -> None:
    """Of 1,000 people, by a row that was found and by the right one; false alarms 1e-6."""
    slack = float(stats.norm.isf(1e-6)) * 0.5 / math.sqrt(1000)
    for one in (*link(1.0, people=1000), *link(0.1, people=1000)):
        assert one.inferred <= one.bound + slack
        assert one.inferred_knowing_row <= one.bound + slack
    exact = link(math.inf, people=200)[-1]
    assert exact.bound == 1.0
    assert exact.inferred > 0.9  # power: without noise it is read
    assert exact.inferred_knowing_row > 0.9


def test_people_are_made_alike_for_everybody() -> None:
    sets = made_people(20, seed=3)
    np.testing.assert_array_equal(sets, made_people(20, seed=3))
    assert (np.diff(sets, axis=1) > 0).all()


def test_all_together_and_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacks, "EPSILONS", (1.0,))
    monkeypatch.setattr(attacks, "LINKED", (math.inf,))
    monkeypatch.setattr(attacks, "REPEATS", (1,))
    monkeypatch.setattr(attacks, "TRIES", 1 << 10)
    found = run_attacks(people=1).to_dict()
    assert [one["epsilon"] for one in found["reconstruction"]] == [None, 1.0]
    assert found["linkage"][0]["epsilon"] is None
    with pytest.raises(ParameterError, match="people"):
        run_attacks(people=0)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_people_are_looked_for_one_at_a_time(epsilon: float) -> None:
    """All pairs at once took gigabytes."""
    tracemalloc.start()
    try:
        link(epsilon, people=1000)
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()
