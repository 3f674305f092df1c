"""Kernels are compiled when one is first called, together with those that it calls, by whichever thread is first."""

import subprocess
import sys
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
    assert not isinstance(_twice, module._Waiting)  # the module holds the compiled one from now on


def test_threads_that_come_first_get_the_same_answer() -> None:
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(_slow_start, range(8))) == {9}


@compiled
def _added(number: int) -> int:
    return number + 9


def _slow_start(number: int) -> int:
    return _added(number) - number


@pytest.mark.parametrize("room", ["analyst", "curator.publication", "planner", "api"])
def test_importing_a_room_does_not_load_the_compiler(room: str) -> None:
    line = f"import sys, dimly.{room}; assert 'dimly.mechanisms' in sys.modules; print('numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)  # noqa: S603
    assert found.stdout == "False\n"
