"""Steps that no signal may come between: each is short, and what they do is recorded in two places."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_HELD = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None]


@contextlib.contextmanager
def interrupts_held(*, forget: bool = False) -> Iterator[None]:
    """Let signals that end a program wait until the block is left; they are then handled as if they had just come.

    Only the main thread of a program handles signals, so that elsewhere this does nothing.

    Parameters
    ----------
    forget : bool, default=False
        Whether to let them pass instead: for the last steps of a job, after which there is nothing left to end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    handlers = {number: signal.signal(number, lambda *signals: came.append(signals)) for number in _HELD}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came and not forget:
            number, frame = came[0]
            handler = handlers[number]
            if callable(handler):
                handler(number, frame)
            elif handler == signal.SIG_DFL:
                os.kill(os.getpid(), number)
