"""Noise that is right passes, at a false-alarm rate of 1e-6; noise that ends too early or goes with noise does not.

Power is 1 where noise is clipped: what must come often enough never comes. ``test_how_far_clipping_is_seen`` says for
how many draws that holds.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.plans import plan_of
from tests.streams import Recorded
from tests.unit.audit.faulty import Clipped

from dimly.audit import noise_law
from dimly.audit.coin_trials import trials_of
from dimly.audit.noise_law import NoiseComparison, NoiseLaw, dependence, dependence_drawn, fair_signs
from dimly.curator import perturb
from dimly.curator.options import Silence
from dimly.curator.randomness import Keystream
from dimly.curator.sampling import NoiseSampler, flip_lanes
from dimly.mechanisms import MECHANISMS, Plan
from dimly.mechanisms.noise.gaussian import RoundedGaussian
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.tables import BitFlip
from dimly.privacy import Budget

RATE = 1e-6
NUMBERS = 1 << 22


def broken(mechanism: str, numbers: int = NUMBERS, **changes: Any) -> str | None:
    plan = plan_of(mechanism, **changes)
    return compared(plan, numbers)[0]


def compared(plan: Plan, numbers: int) -> tuple[str | None, int]:
    trials = trials_of(plan)
    comparison = NoiseComparison(trials, plan, false_alarm=RATE)
    comparison.draw(max(1, numbers // trials.numbers), Silence())
    return comparison.result()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_law_of_a_plan(mechanism: str) -> None:
    plan = plan_of(mechanism)
    law = NoiseLaw.of(plan)
    assert math.isclose(law.shares.sum(), 1.0, abs_tol=1e-12)
    assert (np.diff(law.edges) > 0).all()
    if plan.dtype != "bit":
        assert np.allclose(law.shares, law.shares[::-1], rtol=1e-9)
        assert law.shares[-1] < 1e-9  # to the very ends
    wrong, drawn = compared(plan, 1 << 19)
    assert wrong is None
    assert drawn > 1 << 17


@pytest.mark.parametrize("most", [1, 4, 8, 10])
def test_laplace_noise_that_is_clipped(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perturb, "NoiseSampler", lambda table: Clipped(table, most))
    assert "were expected" in str(broken("counting+laplace"))


def test_the_plainest_difference_is_named() -> None:
    """Of many that are impossible: that nothing came far out, and not that a little too much came elsewhere."""
    law = NoiseLaw.of(plan_of("counting+laplace"))
    counts = np.rint(law.shares * 2**28).astype(np.int64)
    middle = len(counts) // 2
    counts[middle] += counts[-30:].sum()
    counts[-30:] = 0
    said = law.wrong(counts, false_alarm=RATE)
    assert said is not None
    assert " or more came 0 times" in said


def test_how_far_clipping_is_seen() -> None:
    """With the 2²⁸ numbers of an audit, Laplace noise of ε = 1 may end at 16 at the earliest; with 2²² at 11."""
    law = NoiseLaw.of(plan_of("counting+laplace"))
    for n, last in ((1 << 28, 15), (1 << 22, 10)):
        for most in (last, last + 1):
            counts = stats.multinomial.rvs(n, law.shares, random_state=1)
            low, high = np.searchsorted(law.edges, [-most, most], side="right")
            counts[low] += counts[:low].sum()
            counts[high] += counts[high + 1 :].sum()
            counts[:low] = counts[high + 1 :] = 0
            assert (law.wrong(counts, false_alarm=RATE / 5) is not None) == (most == last)


def test_noise_of_another_width(monkeypatch: pytest.MonkeyPatch) -> None:
    less = DiscreteLaplace.of(Budget(1.02), l1_sensitivity=1)
    monkeypatch.setattr(perturb, "NoiseSampler", lambda _: NoiseSampler(less))
    assert broken("hashing+laplace") is not None
    sigma = plan_of("hashing+gaussian").noise.sigma  # type: ignore[union-attr]
    narrow = RoundedGaussian.of(0.98 * sigma)
    monkeypatch.setattr(perturb, "NoiseSampler", lambda _: NoiseSampler(narrow))
    assert broken("hashing+gaussian") is not None


def test_a_sampler_that_looks_at_sixteen_bits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has less than 2⁻¹⁶ then never comes, or comes as often as that."""

    class Coarse:
        def __init__(self, table: Any) -> None:
            cells = table.cells()
            self._first, self._begin = cells.first, cells.high >> np.uint64(48)

        def add(self, sketch: Any, words: Any, out: Any) -> None:
            drawn = np.empty(sketch.size, np.uint16)
            words.fill(drawn)
            out[...] = sketch + self._first + np.searchsorted(self._begin, drawn.astype(np.uint64))

    monkeypatch.setattr(perturb, "NoiseSampler", Coarse)
    assert broken("counting+laplace", numbers=1 << 23) is not None


def test_too_many_flips(monkeypatch: pytest.MonkeyPatch) -> None:
    more = BitFlip.of(Budget(0.98))
    monkeypatch.setattr(perturb, "flip_lanes", lambda _, words, out: flip_lanes(more, words, out))
    assert "were expected" in str(broken("randomized-response"))


def test_wide_noise_is_counted_in_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    law = NoiseLaw.of(plan_of("counting+laplace"))
    values = np.random.default_rng(1).integers(-30, 31, 1000)
    found = law.counted(values)
    assert found.sum() == 1000
    monkeypatch.setattr(noise_law, "_HELD", 0)
    assert law.counted(values).tolist() == found.tolist()
    assert law.counted(values[:0]).sum() == 0


# Noise that goes with noise.


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_fresh_noise_goes_with_nothing(mechanism: str) -> None:
    plan = plan_of(mechanism)
    assert dependence_drawn(trials_of(plan), plan, numbers=1 << 18, false_alarm=RATE)[0] is None


class Overlapping:
    """A keystream that begins anew, so that a later piece repeats an earlier one at no row's beginning."""

    def __init__(self) -> None:
        self._piece = np.random.default_rng().bytes(1 << 17)

    def fill(self, out: Any) -> None:
        Keystream().fill(out)
        raw = out.reshape(-1).view(np.uint8)
        for start in (1000, 400_006):
            raw[start : start + len(self._piece)] = np.frombuffer(self._piece, np.uint8)[: max(0, len(raw) - start)]


def test_a_piece_that_comes_again_at_any_distance() -> None:
    plan = plan_of("hashing+laplace")
    wrong, _ = dependence_drawn(trials_of(plan, words=Overlapping), plan, numbers=1 << 20, false_alarm=RATE)
    assert wrong is not None


@pytest.mark.parametrize("mechanism", ["counting+laplace", "randomized-response", "noisy-distances"])
def test_the_same_words_for_every_batch(mechanism: str) -> None:
    plan = plan_of(mechanism)
    trials = trials_of(plan, words=lambda: Recorded(3))
    wrong, _ = dependence_drawn(trials, plan, numbers=1 << 16, false_alarm=RATE)
    assert wrong is not None or mechanism == "randomized-response"  # whose two batches cancel: freshness.py finds it


@pytest.mark.parametrize("shift", [-7, 0, 1, 300])
def test_noise_of_another_batch_that_is_shifted(shift: int) -> None:
    chance = np.random.default_rng(shift + 10)
    noise = chance.integers(-3, 4, 5000)
    other = np.roll(noise, shift)
    other[:1000] = chance.integers(-3, 4, 1000)
    wrong = dependence(fair_signs(noise), fair_signs(other), false_alarm=RATE)
    assert wrong == f"noise is correlated with the noise {shift} numbers later, in another batch"
    assert dependence(fair_signs(noise), fair_signs(-other), false_alarm=RATE) == wrong


def test_the_rate_of_false_alarms() -> None:
    """At a stated rate of one half, no more than half of 200 pieces raise an alarm; the bound is known to be loose."""
    alarms = 0
    for i in range(200):
        noise = np.random.default_rng(i).integers(-2, 3, (2, 500))
        alarms += dependence(fair_signs(noise[0]), fair_signs(noise[1]), false_alarm=0.5) is not None
    assert alarms <= stats.binom.isf(1e-6, 200, 0.5)


def test_the_rate_of_false_alarms_of_the_law() -> None:
    law = NoiseLaw.of(plan_of("counting+laplace"))
    chance = np.random.default_rng(5)
    alarms = sum(law.wrong(chance.multinomial(10_000, law.shares), false_alarm=0.2) is not None for _ in range(400))
    assert alarms <= stats.binom.isf(1e-6, 400, 0.2)
