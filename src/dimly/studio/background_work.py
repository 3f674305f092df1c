"""``Job``: long work in a thread that reports how far it is, and the bar that shows it."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any, Final, Generic, TypeVar

from nicegui import ui

from dimly.display import percent
from dimly.errors import DimlyError

Found = TypeVar("Found")
_EVERY: Final = 0.25  # seconds between two looks at a job


def sentence_of(error: BaseException) -> str:
    """Return what went wrong as a sentence for the page: never a stack trace, and nothing of the data.

    Examples
    --------
    >>> from dimly.errors import ReleaseError
    >>> sentence_of(ReleaseError("manifest.json must be there."))
    'manifest.json must be there.'
    """
    if isinstance(error, DimlyError):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return "A file is no longer there: it was moved or deleted while the studio was open. Open it again."
    if isinstance(error, MemoryError):
        return "There is not enough memory for this. Close other programs, or use a smaller release."
    if isinstance(error, OSError):
        return f"A file could not be read: {error.strerror or 'the system refused it'}."
    return f"This did not work ({type(error).__name__}). The other pages still do; dimly verify may tell more."


class Job(Generic[Found]):
    """Work in a thread. Also a :class:`~dimly.curator.options.Progress`, for the work to report to.

    Parameters
    ----------
    work : callable
        Is given the job, and returns what was found.
    """

    def __init__(self, work: "Callable[[Job[Found]], Found]") -> None:
        self.words = "waiting"
        self.part: float | None = None
        """How much is done, from 0 to 1; None where nobody knows."""
        self.began = time.monotonic()
        self._total = 0.0
        self._done = 0.0
        self._future: Future[Found] = Future()
        # A daemon: whoever stops the studio does not wait for what nobody will see.
        Thread(target=self._run, args=(work,), name="studio", daemon=True).start()

    def _run(self, work: "Callable[[Job[Found]], Found]") -> None:
        try:
            self._future.set_result(work(self))
        except BaseException as error:  # noqa: BLE001 (it is told on the page)
            self._future.set_exception(error)

    def phase(self, name: str) -> None:
        """Begin another part of the work."""
        self.words, self.part, self._done, self._total = name, None, 0.0, 0.0

    def start(self, total: float) -> None:
        """Tell how much there is to do."""
        self._total, self._done, self.part = total, 0.0, 0.0

    def advance(self, amount: float) -> None:
        """Tell that more is done."""
        self._done += amount
        if self._total > 0:
            self.part = min(self._done / self._total, 1.0)

    def reach(self, done: float, total: float) -> None:
        """Tell how much is done, and of how much."""
        self.part = min(done / total, 1.0) if total > 0 else None

    @property
    def is_done(self) -> bool:
        """Whether it ended, one way or the other."""
        return self._future.done()

    @property
    def error(self) -> str | None:
        """What went wrong, as a sentence."""
        if not self.is_done:
            return None
        error = self._future.exception()
        return None if error is None else sentence_of(error)

    @property
    def found(self) -> Found:
        """What was found; raises what went wrong."""
        return self._future.result()


def watch(job: Job[Any], done: Callable[[Job[Any]], None]) -> None:
    """Show a bar here until a job ends, then take it away and call ``done``."""
    with ui.element("div").classes("w-full").props("role=status") as box:
        text = ui.label(f"{job.words} …").classes("hint")
        bar = ui.linear_progress(show_value=False).props("indeterminate rounded size=8px")
    if job.is_done:  # found before: nothing to wait for
        box.delete()
        done(job)
        return

    def look() -> None:
        if job.is_done:
            timer.deactivate()
            parent = box.parent_slot.parent if box.parent_slot is not None else None
            box.delete()
            if parent is not None:
                with parent:
                    done(job)
            return
        seconds = time.monotonic() - job.began
        known = "" if job.part is None else f" {percent(job.part)}"
        text.set_text(f"{job.words} …{known}" + (f" ({seconds:.0f} s)" if seconds > 3 else ""))
        bar.props(
            remove="indeterminate" if job.part is not None else "", add="" if job.part is not None else "indeterminate"
        )
        if job.part is not None:
            bar.set_value(job.part)

    timer = ui.timer(_EVERY, look)
