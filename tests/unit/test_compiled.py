"""Kernels are compiled when one is first called, together with those that it calls, by whichever thread is first."""

import _thread
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from dimly import compiled as module
from dimly.compiled import compiled


@compiled
def _twice(number: int) -> int:
    return 2 * number


@compiled(fastmath={"reassoc"})
def four_times(number: float) -> float:
    """Call one that is not compiled yet."""
    return _twice(number) + _twice(number)  # type: ignore[arg-type]  # numba takes both


def test_a_kernel_calls_another() -> None:
    assert four_times(2.5) == 10.0
    assert four_times.__doc__ == "Call one that is not compiled yet."
    assert not isinstance(_twice, module._Uncompiled)  # the module holds the compiled one from now on


def test_threads_that_come_first_get_the_same_answer() -> None:
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(_slow_start, range(8))) == {9}


@compiled
def _added(number: int) -> int:
    return number + 9


def _slow_start(number: int) -> int:
    return _added(number) - number


@compiled
def _first(number: int) -> int:
    return number + 1


@compiled
def _second(number: int) -> int:
    return number + 2


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no such signal")
def test_a_signal_handler_may_call_a_kernel_while_another_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba aborts if it is entered again by the thread in which it compiles: a handler waits for the other one."""
    from numba.core.dispatcher import Dispatcher  # noqa: PLC0415 - loaded by the first kernel

    compile_one: Callable[..., object] = Dispatcher.compile
    under_way: list[threading.Thread] = []
    entered_again: list[bool] = []
    found: list[int] = []

    def watched(*given: object) -> object:
        entered_again.append(threading.current_thread() in under_way)
        under_way.append(threading.current_thread())
        if len(entered_again) == 1:
            signal.raise_signal(signal.SIGUSR1)  # the handler runs in the main thread, at its next step
        try:
            return compile_one(*given)
        finally:
            under_way.remove(threading.current_thread())

    monkeypatch.setattr(Dispatcher, "compile", watched)
    before = signal.signal(signal.SIGUSR1, lambda *_: found.append(_second(1)))
    try:
        assert _first(1) == 2
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert found == [3]
    assert entered_again == [False, False]


def test_where_no_thread_can_be_had_kernels_are_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As while Python ends."""

    @compiled
    def thrice(number: int) -> int:
        return 3 * number

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    assert thrice(2) == 6


def test_a_handler_may_interrupt_the_start_of_a_thread() -> None:
    """The locks of Python's own threads are held then, and let go only when the handler returns."""
    found: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: found.append(module.undisturbed(lambda: 7)))
    try:
        with threading._active_limbo_lock:  # type: ignore[attr-defined]
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert found == [7]


def test_what_fails_in_the_other_thread_fails_here() -> None:
    with pytest.raises(ZeroDivisionError):
        module.undisturbed(lambda: 1 // 0)


_STORM = """
import _thread
import signal
from dimly import Budget, Plan, Sketcher
sketcher = Sketcher(Plan.of("counting+laplace", Budget(1.0), k=16))
made, under_way = [], []
def sketch_too(*_):
    if len(under_way) < 3:
        under_way.append(None)
        made.append(sketcher.sketch(["tea"]).shape)
        under_way.pop()
signal.signal(signal.SIGALRM, sketch_too)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
made.append(sketcher.sketch(["tea", "jam"]).shape)
signal.setitimer(signal.ITIMER_REAL, 0, 0)
assert len(made) > 1 and set(made) == {(16,)}, made
"""


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no such timer")
def test_signal_handlers_may_sketch_while_the_first_sketch_loads_the_compiler() -> None:
    subprocess.run([sys.executable, "-c", _STORM], check=True)  # noqa: S603


@pytest.mark.parametrize("room", ["analyst", "curator.publication", "planner", "api"])
def test_importing_a_room_does_not_load_the_compiler(room: str) -> None:
    line = f"import sys, dimly.{room}; assert 'dimly.mechanisms' in sys.modules; print('numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)  # noqa: S603
    assert found.stdout == "False\n"
