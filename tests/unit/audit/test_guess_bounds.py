"""What guesses prove. The theorem is checked against mechanisms whose law is known, and against its published form."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dimly.audit.guess_bounds import (
    Errors,
    Guesses,
    chance_of,
    epsilon_from_errors,
    epsilon_from_guesses,
    epsilon_from_separation,
    separation_from_errors,
)
from dimly.errors import ParameterError
from dimly.privacy import Budget, gaussian_scale


def chance_as_published(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The theorem, term by term."""
    q = 1 / (1 + math.exp(-epsilon))
    tail = stats.binom.sf(v - 1, r, q)
    terms = [sum(stats.binom.pmf(v - j, r, q) for j in range(1, i + 1)) / i for i in range(1, v + 1)]
    return float(min(1.0, tail + 2 * m * delta * max(terms, default=0.0)))


@settings(max_examples=40)
@given(
    st.integers(1, 40), st.integers(0, 40), st.integers(0, 40), st.floats(0, 5), st.sampled_from([0.0, 1e-6, 1e-3, 0.1])
)
def test_the_chance_is_the_theorems(r: int, more: int, v: int, epsilon: float, delta: float) -> None:
    v = min(v, r)
    expected = chance_as_published(r + more, r, v, epsilon, delta)
    assert chance_of(Guesses(r + more, r, v), epsilon=epsilon, delta=delta) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("guesses", [(5, 6, 3), (5, 4, 5), (5, 5, -1)])
def test_guesses_that_cannot_be_are_refused(guesses: tuple[int, int, int]) -> None:
    with pytest.raises(ParameterError, match="right <= made <= trials"):
        chance_of(Guesses(*guesses), epsilon=1.0)


@given(st.integers(1, 5000), st.floats(0.5, 1), st.sampled_from([0.0, 1e-6]))
def test_a_bound_is_the_largest_epsilon_that_is_refuted(made: int, share: float, delta: float) -> None:
    guesses = Guesses(made, made, round(share * made))
    bound = epsilon_from_guesses(guesses, delta=delta)
    if bound > 0:
        assert chance_of(guesses, epsilon=bound * (1 - 1e-6), delta=delta) <= 1e-6 * (1 + 1e-4)
    assert chance_of(guesses, epsilon=bound + 1e-3, delta=delta) > 1e-6


def test_nothing_guessed_proves_nothing() -> None:
    assert epsilon_from_guesses(Guesses(100, 0, 0)) == 0
    assert epsilon_from_guesses(Guesses(100, 100, 0)) == 0
    assert epsilon_from_guesses(Guesses(100, 100, 50), delta=1e-6) == 0


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_a_mechanism_at_its_limit_is_refuted_as_rarely_as_stated(epsilon: float) -> None:
    """Of all numbers of right guesses, exactly summed up, those above the limit have probability at most 1 %."""
    made, q = 1000, 1 / (1 + math.exp(-epsilon))
    bounds = np.array([epsilon_from_guesses(Guesses(made, made, v), false_alarm=0.01) for v in range(made + 1)])
    law = stats.binom.pmf(np.arange(made + 1), made, q)
    assert law[bounds > epsilon].sum() <= 0.01
    assert law[bounds > epsilon].sum() > 0.005  # and not far more rarely: the bound is tight
    stronger = stats.binom.pmf(np.arange(made + 1), made, 1 / (1 + math.exp(-1.5 * epsilon)))
    assert stronger[bounds > epsilon].sum() > 0.9  # with half as much again, it nearly always is


def test_guesses_add_up() -> None:
    assert Guesses(3, 2, 1) + Guesses(10, 9, 8) == Guesses(13, 11, 9)
    assert Errors(1, 2, 3, 4) + Errors(1, 1, 1, 1) == Errors(2, 3, 4, 5)
    for one in (Guesses(3, 2, 1), Errors(1, 2, 3, 4)):
        with pytest.raises(TypeError):
            one + 1


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_separation_is_that_of_the_noise(epsilon: float) -> None:
    budget = Budget(epsilon, 1e-6)
    separation = 1 / gaussian_scale(budget, l2_sensitivity=1.0)
    n = 10**7
    wrong = round(n * stats.norm.sf(separation / 2))
    seen = separation_from_errors(Errors(n, wrong, n, wrong))
    assert 0.95 * separation < seen < separation
    assert epsilon_from_separation(separation, delta=1e-6) == pytest.approx(epsilon)
    assert 0.9 * epsilon < epsilon_from_separation(seen, delta=1e-6) < epsilon


def test_no_separation_is_none() -> None:
    assert separation_from_errors(Errors(100, 50, 100, 50)) == 0
    assert separation_from_errors(Errors(100, 100, 100, 0)) == 0
    assert epsilon_from_separation(0.0, delta=1e-6) == 0
    assert epsilon_from_separation(1e-8, delta=1e-6) == 0


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_one_test_of_independent_trials(delta: float) -> None:
    """Of all pairs of errors of a mechanism at its limit, those above it have probability at most 1 %."""
    n, epsilon = 200, 1.0
    low = (1 - delta) / (1 + math.exp(epsilon))
    high = delta + math.exp(epsilon) * low
    law_absent, law_hits = (stats.binom.pmf(np.arange(n + 1), n, share) for share in (low, high))
    refuted = 0.0
    for false_alarms in range(n + 1):
        for hits in range(n + 1):
            if law_absent[false_alarms] * law_hits[hits] > 1e-9:
                bound = epsilon_from_errors(Errors(n, false_alarms, n, n - hits), delta=delta, false_alarm=0.01)
                refuted += law_absent[false_alarms] * law_hits[hits] * (bound > epsilon)
    assert 0 < refuted <= 0.01


def test_a_test_that_says_nothing() -> None:
    assert epsilon_from_errors(Errors(10, 0, 10, 10)) == 0
    assert epsilon_from_errors(Errors(10, 10, 10, 0)) == 0
    assert epsilon_from_errors(Errors(10, 0, 10, 9), delta=0.5) == 0
    assert epsilon_from_errors(Errors(10**4, 0, 10**4, 0), delta=1e-6) > 6
