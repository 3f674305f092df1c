"""How surely an audit of a plan notices each break at ε = 1, computed from the law of what it counts.

An alarm needs more right guesses than ε = 1 gives once in five million audits. Coins are independent, so that the
number of right ones is binomial, and both rates are exact. What is computed is then tried: each break is put into the
real perturbing path, and audits with a thousandth of the command's draws find it.
"""

from typing import Any

import numpy as np
import pytest
from scipy import special, stats
from tests.plans import plan_of
from tests.streams import Recorded

from dimly.audit import plan_audit
from dimly.audit.coin_trials import trials_of
from dimly.audit.guess_bounds import Guesses, epsilon_from_guesses
from dimly.audit.plan_audit import FALSE_ALARM, Check, audit_plan
from dimly.audit.repeated_noise import errors_by_repeats, processes_draw_alike, wanted
from dimly.curator import perturb
from dimly.curator.people import People
from dimly.curator.sampling import NoiseSampler
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.privacy import Budget

SHARE = FALSE_ALARM / 5  # of each of the five attacks
COINS = plan_audit._NUMBERS // 2  # by either attack of the command: a number of `counting` is a coin
FEW = COINS >> 10
Q = np.exp(-1.0)


def beyond(least: int) -> float:
    """Return how often noise of ε = 1 is at least this, or at most minus this; ``least`` is 0 or more."""
    return float(Q**least / (1 + Q))


# Right guesses by the sign of the plan's likelihood ratio: "present" from 1 on. Noise is added to 0, or to what the
# break makes of an attribute. A coin is fair, so that the share is the mean of both.
ABSENT = 1 - beyond(1)
SHARES = {
    "too little noise": float(special.expit(1.25)),
    "duplicates count twice": (ABSENT + 1 - beyond(2)) / 2,
    "no clamp": (ABSENT + 1 - beyond(2 * 1998)) / 2,
}


def alarm(coins: int) -> int:
    """Return how many right guesses refute ε = 1."""
    return int(stats.binom.isf(SHARE, coins, special.expit(1.0))) + 1


@pytest.mark.parametrize("coins", [FEW, COINS])
def test_an_alarm_is_as_rare_as_stated(coins: int) -> None:
    least = alarm(coins)
    assert epsilon_from_guesses(Guesses(coins, coins, least), false_alarm=SHARE) > 1.0
    assert epsilon_from_guesses(Guesses(coins, coins, least - 2), false_alarm=SHARE) < 1.0
    assert stats.binom.sf(least - 1, coins, special.expit(1.0)) <= SHARE


@pytest.mark.parametrize("broken", SHARES)
def test_power(broken: str) -> None:
    """More than is asked for, from a thousandth of the draws on: the audits below fail once in a million runs."""
    for coins in (FEW, COINS):
        assert stats.binom.cdf(alarm(coins) - 1, coins, SHARES[broken]) < 1e-6


def checks_of(**options: Any) -> dict[str, Check]:
    found = audit_plan(plan_of("counting+laplace"), numbers=2 * FEW, processes=False, threads=1, **options)
    assert found.contradicts
    return {check.name: check for check in found.checks}


def right(check: Check) -> float:
    """Return the share of right guesses that a check tells."""
    guesses, made = (int(word.replace(",", "")) for word in check.words.split()[:3:2])
    return guesses / made


def test_too_little_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    less = DiscreteLaplace.of(Budget(1.25), l1_sensitivity=1)
    monkeypatch.setattr(perturb, "NoiseSampler", lambda _: NoiseSampler(less))
    checks = checks_of()
    for name in ("likelihood", "repeated rows"):
        assert checks[name].epsilon_lower_bound > 1
        assert right(checks[name]) == pytest.approx(SHARES["too little noise"], abs=0.02)
    assert checks["law of the noise"].failed


def counted_twice(people: People, *, width: int, resolution: int) -> People:
    del width
    return People(
        people.indptr, people.indices, None if people.values is None else np.clip(people.values, 0, resolution)
    )


def unclamped(people: People, *, width: int, resolution: int) -> People:
    del resolution
    return bounded(people, width=width, resolution=2**40)


bounded = People.bounded
BREAKS = {"duplicates count twice": counted_twice, "no clamp": unclamped}


@pytest.mark.parametrize("broken", BREAKS)
def test_one_attribute_that_moves_too_much(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attacker may find a rule that proves more than the sign of the ratio, whose power was computed."""
    monkeypatch.setattr(People, "bounded", BREAKS[broken])
    checks = checks_of()
    assert checks["likelihood"].epsilon_lower_bound < 1
    assert checks["repeated rows"].epsilon_lower_bound > 1
    assert right(checks["repeated rows"]) > SHARES[broken] - 0.02


def test_a_keystream_that_is_used_again() -> None:
    """Every person who has the attribute is found: it stays unnoticed only if no coin says so, once in 2¹⁰²⁴ audits."""
    assert wanted(1.0, 256) >= 1024
    errors = errors_by_repeats(trials_of(plan_of("counting+laplace"), words=lambda: Recorded(0)))
    assert errors is not None
    assert errors.absent + errors.present >= 1024
    assert (errors.false_alarms, errors.misses) == (0, 0)


@pytest.mark.parametrize("seed", ["7", "os.getuid()"])
def test_a_seeded_generator(seed: str) -> None:
    """What a seed says is said again by another process: nothing is left to chance."""
    assert processes_draw_alike(
        prelude=f"import os, random\nimport dimly.curator.randomness\nos.urandom = random.Random({seed}).randbytes\n"
    )
