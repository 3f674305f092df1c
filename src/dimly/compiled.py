"""Functions that are compiled by numba, which is loaded when the first of them is called: it takes a quarter second."""

from collections.abc import Callable
from functools import update_wrapper
from threading import RLock
from typing import Any, Final, ParamSpec, TypeVar, overload

Given = ParamSpec("Given")
Found = TypeVar("Found")

_lock: Final = RLock()


@overload
def compiled(function: Callable[Given, Found]) -> Callable[Given, Found]: ...
@overload
def compiled(*, fastmath: set[str]) -> Callable[[Callable[Given, Found]], Callable[Given, Found]]: ...
def compiled(function: Callable[..., Any] | None = None, *, fastmath: set[str] | None = None) -> Callable[..., Any]:
    """Return a function that is compiled when it is first called, keeps its machine code on disk and frees the GIL.

    ``fastmath`` is what the compiler may do with sums of floats, such as ``{"reassoc"}``.
    """
    if function is None:
        return lambda named: _Waiting(named, fastmath)
    return _Waiting(function, fastmath)


class _Waiting:
    """A function that is not compiled yet. From the first call on, its module holds the compiled one in its place."""

    def __init__(self, function: Callable[..., Any], fastmath: set[str] | None) -> None:
        self._function = function
        self._fastmath = fastmath or False
        self._made: Callable[..., Any] | None = None
        update_wrapper(self, function)

    def __call__(self, *given: Any) -> Any:
        return self._compiled()(*given)

    def _compiled(self) -> Callable[..., Any]:
        with _lock:
            if self._made is None:
                from numba import njit  # noqa: PLC0415 - the reason for this module

                self._made = njit(nogil=True, cache=True, fastmath=self._fastmath)(self._function)
                # Those that it calls, too: numba looks them up where the function was defined.
                names = self._function.__globals__
                for name, one in list(names.items()):
                    if isinstance(one, _Waiting):
                        names[name] = one._compiled()
            return self._made
