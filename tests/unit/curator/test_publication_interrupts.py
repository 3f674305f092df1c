import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.processes import in_a_fork

from dimly.curator.publication import interrupts_held

# Python 3.12 and later warn of forks where there are threads; there are none that would hold a lock here.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


class StoppedError(Exception):
    pass


@pytest.fixture(autouse=True)
def handler(usual_signals: None) -> Iterator[Any]:
    def stop(number: int, _: Any) -> None:
        raise StoppedError(number)

    before = signal.signal(signal.SIGTERM, stop)
    yield stop
    signal.signal(signal.SIGTERM, before)


def test_a_signal_waits_for_the_end_of_the_block(handler: Any) -> None:
    done = []

    def work() -> None:
        with interrupts_held():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("all")

    with pytest.raises(StoppedError):
        work()
    assert done == ["all"]
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_signal_can_be_forgotten(handler: Any) -> None:
    with interrupts_held(forget=True):
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is handler


def test_ctrl_c_is_a_keyboard_interrupt_as_ever() -> None:
    def work() -> None:
        with interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        work()


def test_what_ends_the_program_ends_it_afterwards() -> None:
    def work() -> bytes:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with interrupts_held():
            os.kill(os.getpid(), signal.SIGTERM)
        return b"still there"

    assert in_a_fork(work) == b""


def test_other_threads_are_left_alone() -> None:
    seen = []

    def work() -> None:
        with interrupts_held():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    before = signal.getsignal(signal.SIGTERM)
    thread.start()
    thread.join()
    assert seen == [before]
