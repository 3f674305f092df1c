"""Ctrl-C and SIGTERM at any moment: one line, the right exit code, nothing left at once, the charge back or spent.

Moments are drawn as those of kills are, from the same seed; see ``test_kill.py``. What is asserted holds at every
moment from the first sign of the run on: one that was done before the signal came says so by its exit code.
"""

import signal

import pytest
from tests.crash.conftest import Published
from tests.crash.kills import JITTER, KILLS, share
from tests.crash.scenes import Event, Scene

pytestmark = pytest.mark.usefixtures("usual_signals")

EVENTS: tuple[Event | None, ...] = ("sampling", None, "visible", "staging", None, "sealed", "spilling", None, "noted")


@pytest.mark.parametrize("number", range(max(2, KILLS // 2)))
@pytest.mark.thorough(but=2)
def test_a_run_that_is_asked_to_end_leaves_nothing(number: int, scene: Scene, published: Published) -> None:
    sent = (signal.SIGINT, signal.SIGTERM)[number % 2]
    event = EVENTS[number % len(EVENTS)]
    moment = share(-1 - number) * (published.seconds if event is None else JITTER)
    with scene.start(out=scene.target) as run:
        run.wait_for(event or "staging", seconds=moment)
        ended = run.end(sent)
    assert scene.leftovers() == []
    scene.check_nothing_private()
    scene.check_all_charged()
    if ended.code == 0:
        assert ended.messages() == []
        assert scene.target.exists()
        line = None
    else:
        line = ended.check_one_line(128 + sent)
    charges = scene.charges()
    states = [charge.state for charge in charges]
    if scene.target.exists():
        assert states == ["visible"]
    elif states == ["sampling"]:  # noise was drawn, and could be read in the staging
        assert line is not None
        assert line.startswith(f"stopped by {sent.name}. Charge 1 stays in the ledger although nothing was published")
        assert charges[0].ended_at is not None
    else:
        assert states in ([], ["returned"])
        assert line == f"stopped by {sent.name}"
        assert all(charge.sampling_at is None for charge in charges)


def test_numbers_that_could_be_read_stay_charged(scene: Scene) -> None:
    with scene.start(out=scene.target, wide=True) as run:
        run.wait_for("part")
        ended = run.end(signal.SIGINT)
    (charge,) = scene.charges()
    if scene.target.exists():  # it was done before the signal came
        assert (ended.code, charge.state) == (0, "visible")
    else:
        assert (ended.code, charge.label) == (128 + signal.SIGINT, "sampling (run ended)")
    assert scene.leftovers() == []


@pytest.mark.thorough
def test_a_second_signal_does_not_stop_the_cleaning_up(scene: Scene) -> None:
    with scene.start(out=scene.target) as run:
        run.wait_for("spilling")
        run.send(signal.SIGINT)
        run.send(signal.SIGINT)
        ended = run.end(signal.SIGTERM)
    assert len(ended.messages()) == 1
    assert ended.code in {128 + signal.SIGINT, 128 + signal.SIGTERM}
    assert scene.leftovers() == []
    assert [charge.state for charge in scene.charges()] == ["returned"]
