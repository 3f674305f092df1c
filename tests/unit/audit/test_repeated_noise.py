"""Noise that comes twice is found by matching, and never by chance."""

from typing import Any

import pytest
from tests.plans import plan_of
from tests.streams import Recorded

from dimly.audit.coin_trials import collision_bits, trials_of
from dimly.audit.guess_bounds import Errors
from dimly.audit.plan_audit import repeats_check
from dimly.audit.repeated_noise import errors_by_repeats, processes_draw_alike, wanted
from dimly.errors import DimlyError
from dimly.mechanisms import MECHANISMS, Plan
from dimly.privacy import Budget


def found(plan: Plan, **words: Any) -> Errors:
    errors = errors_by_repeats(trials_of(plan, **words))
    assert errors is not None
    return errors


@pytest.mark.parametrize("mechanism", [*MECHANISMS])
def test_fresh_noise_is_never_matched_and_old_noise_always(mechanism: str) -> None:
    plan = plan_of(mechanism)
    fresh = found(plan)
    assert (fresh.false_alarms, fresh.misses) == (0, fresh.present)
    assert fresh.present > 0
    again = found(plan, words=lambda: Recorded(5))
    assert (again.false_alarms, again.misses) == (0, 0)


@pytest.mark.parametrize("unit", ["attribute", "column"])
def test_short_rows_are_matched_by_several_people(unit: str) -> None:
    plan = Plan.of("hashing+laplace", Budget(1.0), k=2, unit=unit)  # type: ignore[arg-type]
    fresh = found(plan)
    assert fresh.misses == fresh.present
    again = found(plan, words=lambda: Recorded(5))
    assert (again.false_alarms, again.misses) == (0, 0)


def test_too_few_distances_are_left_alone() -> None:
    plan = plan_of("noisy-distances", n_users=3)
    assert errors_by_repeats(trials_of(plan, words=lambda: Recorded(5))) is None


def test_too_little_noise_is_left_alone() -> None:
    plan = Plan.of("counting+laplace", Budget(16.0), k=64)  # pieces of 96 bits would take gigabytes
    assert errors_by_repeats(trials_of(plan)) is None


def test_a_single_match_is_proof() -> None:
    plan = Plan.of("counting+laplace", Budget(8.0), k=64)
    check = repeats_check(Errors(100, 0, 100, 99), plan, 1e-6)
    assert check.failed
    assert check.epsilon_lower_bound < 8
    assert not repeats_check(Errors(100, 0, 100, 100), plan, 1e-6).failed


def test_more_epsilon_wants_more_matches() -> None:
    assert wanted(1.0, 1) < wanted(5.0, 1) < wanted(9.0, 1)
    assert wanted(9.0, 1 << 22) == 16


def test_collisions_are_rarer_the_more_noise_there_is() -> None:
    few, many = (collision_bits(Plan.of("counting+laplace", Budget(epsilon), k=4)) for epsilon in (4.0, 0.5))
    assert 0 < few < 1 < many


def test_new_processes() -> None:
    assert not processes_draw_alike()
    seeded = (
        "import os\n"
        "import dimly.curator.randomness as randomness\n"
        "import random; generator = random.Random(7)\n"
        "os.urandom = generator.randbytes\n"
    )
    assert processes_draw_alike(prelude=seeded)


def test_new_processes_of_a_cluster() -> None:
    """A secret of the run that is always the same, where keystreams of this machine are fresh."""
    constant = (
        "import dimly.curator.randomness as randomness\n"
        "def begin(self): self._secret = bytes(32)\n"
        "randomness.RunSecret.__init__ = begin\n"
    )
    assert processes_draw_alike(prelude=constant)


def test_processes_that_fail() -> None:
    with pytest.raises(DimlyError, match="a new process must draw random numbers"):
        processes_draw_alike(prelude="raise SystemExit(1)\n")
