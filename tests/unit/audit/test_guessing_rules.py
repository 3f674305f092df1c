"""Which coins an attacker guesses: by the plan's ratio where noise is as the plan says, else by what was counted."""

import numpy as np
import pytest

from dimly.audit.coin_trials import ScoredCoins
from dimly.audit.guess_bounds import Errors, epsilon_from_errors
from dimly.audit.guessing_rules import Frequencies, best_rule, best_test, best_threshold, erred, guessed


def tossed(n: int) -> tuple[np.random.Generator, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator, generator.integers(0, 2, n).astype(bool)


def test_the_attacker_is_silent_where_a_score_says_little() -> None:
    generator, coins = tossed(100_000)
    strong = generator.random(100_000) < 0.2
    right = generator.random(100_000) < np.where(strong, 0.95, 0.55)
    scores = np.where(strong, 7, 2) * np.where(coins == right, 1, -1)
    assert best_threshold(ScoredCoins(coins, scores), false_alarm=1e-6, scale=1.0)[0] == 7
    everywhere = np.where(coins == (generator.random(100_000) < 0.95), 7, -7)
    assert best_threshold(ScoredCoins(coins, everywhere), false_alarm=1e-6, scale=1.0)[0] == 7


def test_the_ratio_is_kept_where_it_says_all() -> None:
    generator, coins = tossed(50_000)
    scores = np.where(coins == (generator.random(50_000) < 0.73), 1, -1)
    rule = best_rule(ScoredCoins(coins, scores, (scores, scores)), false_alarm=1e-6, scale=1.0)
    assert rule.frequencies is None
    assert rule.guesses(ScoredCoins(coins, scores)) == guessed(ScoredCoins(coins, scores), 1)


def proven(errors: Errors) -> float:
    return epsilon_from_errors(errors, delta=1e-6)


@pytest.mark.parametrize("side", [True, False])
def test_what_is_seen_on_one_side_alone_is_counted(side: bool) -> None:
    """A number that comes with one side only: one coin in fifty."""
    generator, coins = tossed(50_000)
    scores = np.where(coins == (generator.random(50_000) < 0.73), 1, -1)
    number = np.where((coins == side) & (generator.random(50_000) < 0.04), 9, generator.integers(0, 9, 50_000))
    seen = ScoredCoins(coins, scores, (number, number))
    rule = best_rule(seen, false_alarm=1e-6, scale=1.0)
    assert rule.frequencies is not None
    _, made, right = rule.guesses(seen)
    assert made == right == (number == 9).sum()
    test = best_test(seen, proven, scale=1.0)
    errors = test.errors(seen)
    assert errors.false_alarms == 0
    assert errors.present - errors.misses == (number == 9).sum()
    assert test.side == (1 if side else -1)


def test_few_coins_and_many_values() -> None:
    generator, coins = tossed(100)
    few = ScoredCoins(coins[:9], np.arange(9), (np.arange(9),))
    assert set(Frequencies.of(few).scores(few).tolist()) == {0}
    assert best_rule(few, false_alarm=1e-6, scale=1.0).frequencies is None
    assert best_test(few, proven, scale=1.0).threshold == 1
    _, coins = tossed(100_000)
    values = generator.integers(-(10**9), 10**9, 100_000)
    many = Frequencies.of(ScoredCoins(coins, values))
    assert 100 < len(many.edges[0]) < 300
    assert erred(ScoredCoins(coins, values)).absent == (~coins).sum()
