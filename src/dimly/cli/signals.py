"""Ctrl-C and SIGTERM end a command by an exception, so that everything is cleaned up on the way out."""

import signal
import threading
import time
from types import FrameType
from typing import Self

_PATIENCE = 5.0
"""Seconds in which a repeated signal is ignored: an impatient second Ctrl-C must not stop the cleaning up.

Later ones count again, in case that the first was lost in a place where Python cannot raise."""


class Interrupted(KeyboardInterrupt):
    """A signal asked the process to end."""


class Signals:
    """While entered, SIGINT, SIGTERM and SIGHUP raise :class:`Interrupted` in the main thread.

    A signal that the parent process told us to ignore (``nohup``) stays ignored. Outside of the main thread, where
    Python allows no handlers, nothing is changed.

    Parameters
    ----------
    last : bool, default=False
        Whether the process does nothing more afterwards: then they are ignored from there on, because the job is done
        and its exit code is known.
    """

    def __init__(self, *, last: bool = False) -> None:
        self._last = last
        self.received: signal.Signals | None = None
        self._raised_at = -_PATIENCE
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._end)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self._last else handler)

    def _end(self, number: int, _: FrameType | None) -> None:
        self.received = signal.Signals(number)
        now = time.monotonic()
        if now - self._raised_at >= _PATIENCE:
            self._raised_at = now
            raise Interrupted
