"""Audits of plans see nearly all of ε where noise is right, and more than the claim where it is not.

Correct mechanisms are contradicted once in a million audits. Each broken one below is caught with a probability above
0.99, which ``test_power`` takes from the binomial law for the smallest number of draws that is used here.
"""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import special, stats
from tests.plans import plan_of
from tests.streams import Recorded
from tests.unit.audit.faulty import Clipped, result

from dimly.audit import plan_audit as audited
from dimly.audit.guess_bounds import (
    Errors,
    Guesses,
    delta_from_separation,
    epsilon_from_guesses,
    separation_from_errors,
)
from dimly.audit.plan_audit import Audit, Check, audit_plan, floored
from dimly.curator import perturb
from dimly.curator.options import Silence
from dimly.curator.people import People
from dimly.curator.sampling import NoiseSampler, flip_lanes
from dimly.errors import ParameterError
from dimly.mechanisms import MECHANISMS, Directions, Plan
from dimly.mechanisms.noise.gaussian import RoundedGaussian
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.tables import BitFlip
from dimly.privacy import Budget

NUMBERS = 1 << 19
TIGHT = 1 << 21
ALONG = 1 << 23  # along directions a coin takes several numbers, and most of them say little
DIRECTIONS = Directions.of_values(
    [f"a{i}" for i in range(60)], np.random.default_rng(1).laplace(size=(60, 6)) / 10, origin="made up"
)


def bound(plan: Plan, **options: Any) -> float:
    found = audit_plan(plan, **({"numbers": NUMBERS, "processes": False, "threads": 1} | options))
    over = found.epsilon_lower_bound > plan.cost.epsilon or found.delta_lower_bound > plan.cost.delta
    assert found.contradicts == (over or any(check.failed for check in found.checks))
    return found.epsilon_lower_bound


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("name", ["counting+laplace", "hashing+laplace", "randomized-response", "directions+laplace"])
@pytest.mark.thorough(but=2)
def test_at_least_four_fifths_of_the_claim_is_seen(name: str, epsilon: float) -> None:
    more: dict[str, Any] = {"k": 32}
    if name == "randomized-response":
        more = {"n_attributes": 64}
    elif name.startswith("directions"):
        more = {"directions": DIRECTIONS}
    # Along directions at epsilon 1: 0.905, with a standard deviation of 0.008 in eight audits.
    numbers = ALONG if name.startswith("directions") else NUMBERS
    assert 0.8 * epsilon <= bound(Plan.of(name, Budget(epsilon), **more), numbers=numbers) <= epsilon


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.thorough(but=4)
def test_no_correct_mechanism_is_contradicted(mechanism: str) -> None:
    found = audit_plan(plan_of(mechanism), numbers=NUMBERS, processes=False, threads=1)
    assert not found.contradicts, found


@pytest.mark.parametrize("mechanism", ["counting+laplace", "randomized-response", "hashing+gaussian"])
@pytest.mark.thorough(but=1)
def test_correct_mechanisms_are_contradicted_no_more_often_than_stated(mechanism: str) -> None:
    """At a rate of a quarter that can be counted: 23, 10 and 5 of 150 audits were. False alarms of this test: 1e-6."""
    plan, rate, audits = plan_of(mechanism), 0.25, 150
    call: Any = {"numbers": 1 << 14, "processes": False, "threads": 1, "false_alarm": rate}
    alarms = sum(audit_plan(plan, **call).contradicts for _ in range(audits))
    assert alarms <= stats.binom.isf(1e-6, audits, rate)


@pytest.mark.parametrize("mechanism", ["counting+laplace", "randomized-response", "hashing+gaussian"])
def test_columns_and_values(mechanism: str) -> None:
    assert 0.5 < bound(plan_of(mechanism, unit="column")) <= 1.0
    if mechanism != "randomized-response":
        assert 0.5 < bound(plan_of(mechanism, resolution=7)) <= 1.0


def test_power() -> None:
    """A fifth less noise is ε = 1.25. Half of all numbers are drawn in each way, one coin a number."""
    coins = NUMBERS // 2
    right = int(stats.binom.ppf(0.01, coins, special.expit(1.25)))
    assert epsilon_from_guesses(Guesses(coins, coins, right), false_alarm=audited.FALSE_ALARM / 5) > 1.2


def test_a_fifth_too_little_laplace_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    less = DiscreteLaplace.of(Budget(1.25), l1_sensitivity=1)
    monkeypatch.setattr(perturb, "NoiseSampler", lambda _: NoiseSampler(less))
    assert bound(plan_of("counting+laplace")) > 1.2
    assert bound(plan_of("hashing+laplace")) > 1.2


def test_a_fifth_too_few_flips(monkeypatch: pytest.MonkeyPatch) -> None:
    less = BitFlip.of(Budget(1.25))
    monkeypatch.setattr(perturb, "flip_lanes", lambda _, words, out: flip_lanes(less, words, out))
    assert bound(plan_of("randomized-response")) > 1.2


def test_a_fifth_too_little_gaussian_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("hashing+gaussian")
    less = RoundedGaussian.of(0.8 * plan.noise.sigma)  # type: ignore[union-attr]
    monkeypatch.setattr(perturb, "NoiseSampler", lambda _: NoiseSampler(less))
    found = audit_plan(plan, numbers=TIGHT, processes=False, threads=1)
    assert found.epsilon_lower_bound > 1.1
    # The true delta is 4.6e-5 and 1e-6 is claimed; guesses find it, and not the law alone.
    assert found.delta_lower_bound > 1e-5
    assert {check.name for check in found.checks if check.delta_lower_bound > 1e-5} == {"likelihood", "repeated rows"}


def test_power_for_delta() -> None:
    """A fifth less Gaussian noise: coins are called right with Φ(μ/2), and at the worst hundredth δ exceeds 1e-6."""
    sigma = 0.8 * plan_of("hashing+gaussian").noise.sigma  # type: ignore[union-attr]
    coins = TIGHT // 4  # of each side, in one of the two ways
    wrong = int(stats.binom.ppf(0.995, coins, special.ndtr(-0.5 / sigma)))
    separation = separation_from_errors(Errors(coins, wrong, coins, wrong), false_alarm=1e-7)
    assert delta_from_separation(separation, epsilon=1.0) > 1e-5


@pytest.mark.parametrize("mechanism", ["hashing+gaussian", "sparse+gaussian"])
def test_how_much_of_delta_is_seen(mechanism: str) -> None:
    found = audit_plan(plan_of(mechanism), numbers=TIGHT, processes=False, threads=1)
    assert 0 < found.delta_lower_bound <= 1e-6


def test_a_fifth_too_little_noise_along_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan.of("directions+laplace", Budget(1.0), directions=DIRECTIONS)
    less = DiscreteLaplace.of(Budget(1.25), l1_sensitivity=plan.sensitivity.l1)
    monkeypatch.setattr(perturb, "NoiseSampler", lambda _: NoiseSampler(less))
    assert bound(plan, numbers=ALONG) > 1.0  # 1.16, with a standard deviation of 0.017 in repeated audits


ENDING = [
    (plan_of("counting+laplace"), 1),
    (plan_of("counting+laplace"), 3),
    (plan_of("hashing+laplace", unit="column"), 4),
    (plan_of("hashing+gaussian"), 6),
    (Plan.of("sparse+laplace", Budget(1.0), k=32, blocks=4), 8),
    (Plan.of("sign+laplace", Budget(1.0), k=16), 20),
]


@pytest.mark.parametrize(("plan", "most"), ENDING, ids=[f"{plan.mechanism} at {most}" for plan, most in ENDING])
def test_noise_that_ends_too_early(plan: Plan, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the plan's likelihood ratio nothing is wrong: it cannot exceed e^epsilon, whatever the noise is.

    In 25 runs of each plan no bound was below 6, and they scatter by less than 0.3.
    """
    monkeypatch.setattr(perturb, "NoiseSampler", lambda table: Clipped(table, most))
    assert bound(plan) > 2.0


def clipped(people: People, *, width: int, resolution: int) -> People:
    del width
    values = None if people.values is None else np.clip(people.values, 0, resolution)
    return People(people.indptr, people.indices, values)


def without_repeats(people: People, *, width: int, resolution: int) -> People:
    del resolution
    return bounded(people, width=width, resolution=2**40)


bounded = People.bounded


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+gaussian"])
@pytest.mark.parametrize("broken", [clipped, without_repeats], ids=["duplicates count twice", "values are not clamped"])
def test_a_sensitivity_of_two(mechanism: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(People, "bounded", broken)
    assert bound(plan_of(mechanism)) > 1.1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_keystream_that_is_used_again(mechanism: str) -> None:
    plan = plan_of(mechanism, n_users=60) if mechanism == "noisy-distances" else plan_of(mechanism)
    found = audit_plan(plan, numbers=1 << 14, processes=False, words=lambda: Recorded(0))
    assert found.contradicts
    assert result(found, "repeated noise") == "noise was found twice"
    if mechanism != "randomized-response":  # of bits two batches are compared, and are the same
        assert "noise is correlated with the noise" in result(found, "correlation")


class Reverberating:
    """The same noise for every person of a batch, other noise in other batches."""

    def __init__(self) -> None:
        self._piece = np.random.default_rng().bytes(65 * 64)

    def fill(self, out: Any) -> None:
        out[...] = np.resize(np.frombuffer(self._piece, out.dtype), out.shape)


def test_noise_that_comes_again_within_a_batch() -> None:
    # 32 numbers a person, of 16 bits: 64 bytes. An odd number of people, so that known ones meet hidden ones.
    found = audit_plan(plan_of("counting+laplace"), numbers=1 << 14, processes=False, words=Reverberating)
    assert result(found, "repeated noise") == "noise was found twice"
    assert result(found, "correlation") == "noise is correlated with the noise 2080 numbers later, in the same batch"


def test_processes_that_draw_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    found = audit_plan(plan_of("counting+laplace"), numbers=1 << 12)
    assert found.checks[-1] == Check("processes", "new processes draw other random numbers", 0.0, 0)
    monkeypatch.setattr(audited, "processes_draw_alike", lambda: True)
    found = audit_plan(plan_of("counting+laplace"), numbers=1 << 12)
    assert found.contradicts
    assert "THIS CONTRADICTS THE CLAIM" in found.verdict
    assert found.to_dict()["contradicts"]
    assert [one["name"] for one in found.to_dict()["checks"] if one["failed"]] == ["processes"]


def test_tables_that_are_wrong_contradict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audited, "check_tables", lambda _: "weights do not add up")
    found = audit_plan(plan_of("counting+laplace"), numbers=1 << 12, processes=False)
    assert found.contradicts
    assert found.checks[0].words == "weights do not add up"


def test_a_rate_that_is_none_is_refused() -> None:
    with pytest.raises(ParameterError, match="false_alarm"):
        audit_plan(plan_of("counting+laplace"), false_alarm=0.0)


class Impatient(Silence):
    """Presses Ctrl-C when so many draws are done."""

    def __init__(self, patience: int) -> None:
        self.left = patience

    def advance(self, n_users: int) -> None:
        self.left -= n_users
        if self.left < 0:
            self.left = 1 << 60
            raise KeyboardInterrupt


def test_an_interrupted_audit_says_what_it_has_found() -> None:
    """Of 512 rounds of 128 numbers each, about three tenths are done."""
    plan = Plan.of("counting+laplace", Budget(1.0), k=16)
    call: Any = {"thorough": True, "numbers": 1 << 16, "processes": False, "threads": 1}
    whole = audit_plan(plan, **call)
    assert not whole.stopped_early
    stopped = audit_plan(plan, progress=Impatient(12_000), **call)
    assert stopped.stopped_early
    assert stopped.to_dict()["stopped_early"]
    assert not stopped.contradicts
    assert [check.name for check in stopped.checks] == [check.name for check in whole.checks]
    guessed, in_all = (found.checks[1].trials for found in (stopped, whole))
    assert in_all / 4 < guessed < in_all / 2
    assert 0.5 < stopped.epsilon_lower_bound < whole.epsilon_lower_bound


def test_an_audit_that_has_found_nothing_yet_is_interrupted() -> None:
    plan = Plan.of("counting+laplace", Budget(1.0), k=16)
    for thorough in (False, True):
        with pytest.raises(KeyboardInterrupt):
            audit_plan(plan, thorough=thorough, numbers=1 << 16, processes=False, threads=1, progress=Impatient(1))


def test_figures_and_words() -> None:
    found = Audit(1.0, 0.0, 0.999999, (Check("a", "b", 0.937, 10), Check("c", "d", 0.5, 20)))
    assert found.verdict == "claimed 1, at least 0.93 seen, nothing contradicts it"
    assert found.to_dict() == found.figures | {
        "contradicts": False,
        "stopped_early": False,
        "checks": [
            {
                "name": name,
                "words": words,
                "epsilon_lower_bound": seen,
                "trials": trials,
                "failed": False,
                "delta_lower_bound": 0.0,
            }
            for name, words, seen, trials in (("a", "b", 0.937, 10), ("c", "d", 0.5, 20))
        ],
    }
    assert found.figures == {
        "claimed_epsilon": 1.0,
        "claimed_delta": 0.0,
        "epsilon_lower_bound": 0.937,
        "delta_lower_bound": 0.0,
        "confidence": 0.999999,
        "trials": 30,
    }
    assert floored(0.3) == "0.30"
    assert found.delta_words is None
    seen = Audit(1.0, 1e-6, 0.999999, (Check("a", "b", 0.9, 10, delta_lower_bound=7.39e-7),))
    assert seen.delta_words == "claimed 1e-06 at that epsilon, at least 7.3e-07 seen"
    assert not seen.contradicts
    assert Audit(1.0, 7e-7, 0.999999, seen.checks).contradicts


def test_long_rows_of_bits_fit_into_memory() -> None:
    """Of ten million bits only the beginning is unpacked, where the canaries are."""
    plan = Plan.of("randomized-response", Budget(1.0), n_attributes=10**7)
    tracemalloc.start()
    try:
        found = audit_plan(plan, processes=False, threads=1, words=lambda: Recorded(0))
        assert tracemalloc.get_traced_memory()[1] < 500e6
    finally:
        tracemalloc.stop()
    assert result(found, "repeated noise") == "noise was found twice"
