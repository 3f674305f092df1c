"""The decorator ``@compiled``: numba is loaded when a kernel is first called, not when it is imported."""

import _thread
import threading
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Final, ParamSpec, TypeVar, overload

Given = ParamSpec("Given")
Found = TypeVar("Found")

_lock: Final = threading.RLock()


@overload
def compiled(function: Callable[Given, Found]) -> Callable[Given, Found]: ...
@overload
def compiled(*, fastmath: set[str]) -> Callable[[Callable[Given, Found]], Callable[Given, Found]]: ...
def compiled(function: Callable[..., Any] | None = None, *, fastmath: set[str] | None = None) -> Callable[..., Any]:
    """Return a function that is compiled when it is first called, keeps its machine code on disk and frees the GIL.

    ``fastmath`` is what the compiler may do with sums of floats, such as ``{"reassoc"}``.
    """
    if function is None:
        return lambda named: _Uncompiled(named, fastmath)
    return _Uncompiled(function, fastmath)


class _Uncompiled:
    """A function that is not compiled yet. From the first call on, its module holds the compiled one in its place."""

    def __init__(self, function: Callable[..., Any], fastmath: set[str] | None) -> None:
        self._function = function
        self._fastmath = fastmath or False
        self._made: Callable[..., Any] | None = None
        update_wrapper(self, function)

    def __call__(self, *given: Any) -> Any:
        return (self._made or undisturbed(self._make))(*given)

    def _make(self) -> Callable[..., Any]:
        """Make this one and those that it calls, which numba looks up where each function was defined."""
        with _lock:
            if self._made is not None:
                return self._made
            reached = [self]
            for one in reached:  # which grows meanwhile
                reached += [other for other in one._waiting().values() if other not in reached]
            made = {one: one._made or one._dispatcher() for one in reached}
            for one in reached:
                one._function.__globals__.update({name: made[other] for name, other in one._waiting().items()})
            for one in reached:
                one._made = made[one]
            return made[self]

    def _waiting(self) -> dict[str, "_Uncompiled"]:
        """Those that the function may call, by name."""
        return {name: one for name, one in list(self._function.__globals__.items()) if isinstance(one, _Uncompiled)}

    def _dispatcher(self) -> Callable[..., Any]:
        from numba import njit  # noqa: PLC0415 - the reason for this module

        made: Any = njit(nogil=True, cache=True, fastmath=self._fastmath)(self._function)
        compile_for = made._compile_for_args  # which numba calls for each new combination of types
        made._compile_for_args = lambda *given, **named: undisturbed(lambda: compile_for(*given, **named))
        return made  # type: ignore[no-any-return]


def undisturbed(work: Callable[[], Found]) -> Found:
    """Return what ``work`` returns, which another thread does if this is the main one.

    Signal handlers run in the main thread, between any two of its steps. Numba stands that neither while it is imported
    nor while it compiles: a handler that called a kernel then ended the process, and Ctrl-C left a numba that no later
    call could use. Between threads it is safe: such a handler waits for the work to be done. So does one that wants a
    lock that ``work`` holds, which would otherwise wait for itself.
    """
    if threading.get_ident() != threading.main_thread().ident:
        return work()
    found: list[Found] = []
    failed: list[BaseException] = []
    # Not a threading.Thread: to start and to join one takes locks that a handler would wait for in vain, if it
    # interrupts just that and comes here itself.
    done = _thread.allocate_lock()
    done.acquire()

    def do() -> None:
        try:
            found.append(work())
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)
        finally:
            done.release()

    try:
        _thread.start_new_thread(do, ())
    except RuntimeError:  # no thread can be had, as while Python ends
        return work()
    try:
        done.acquire()  # handlers run meanwhile
    except BaseException:
        done.acquire()  # Python must not end before the work does
        raise
    if failed:
        raise failed[0]
    return found[0]
