"""Progress bars in a terminal or a notebook, for work that takes longer than two seconds."""

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from dimly.errors import ParameterError

OnProgress = Callable[[int, int], None]
"""Told of (done, in all)."""
PATIENCE: Final = 2.0
"""Seconds before a bar appears."""
_EVERY: Final = 0.1  # seconds between two pictures of a bar in a notebook


def is_watched() -> bool:
    """Return whether somebody looks at what is printed: a terminal, or a notebook."""
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def in_notebook() -> bool:
    """Return whether this runs in a notebook: IPython with a kernel, which can show what changes."""
    shell = sys.modules.get("IPython")
    here = None if shell is None else shell.get_ipython()
    return here is not None and hasattr(here, "kernel")


class LateBar:
    """A bar that appears once work has taken two seconds; takes what progress of any kind in this house says.

    Counts never exceed the total: several threads may report the same people.
    """

    def __init__(self, name: str, *, patience: float = PATIENCE) -> None:
        self._name, self._patience = name, patience
        self._begun = time.monotonic()
        self._bar: _TerminalBar | _NotebookBar | None = None
        self._done, self._total = 0, 0

    def phase(self, name: str) -> None:
        """Say what begins now."""
        self._name, self._done, self._total = name, 0, 0
        self._show()

    def start(self, n_users: int) -> None:
        """Say of how many people the present phase is."""
        self._done, self._total = 0, n_users
        self._show()

    def advance(self, n_users: int) -> None:
        """Say that so many more are done."""
        self._done = min(self._done + n_users, self._total or self._done + n_users)
        self._show()

    def reach(self, done: int, total: int) -> None:
        """Say how much is done of how much."""
        self._done, self._total = min(done, total), total
        self._show()

    __call__ = reach

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _show(self) -> None:
        if self._bar is None:
            if time.monotonic() - self._begun < self._patience:
                return
            self._bar = _NotebookBar() if in_notebook() else _TerminalBar()
        self._bar.show(self._name, self._done, self._total)


class _TerminalBar:
    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415  (only where a bar is shown)
        from rich.progress import Progress  # noqa: PLC0415

        self._bar = Progress(console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("", total=None)

    def show(self, name: str, done: int, total: int) -> None:
        self._bar.update(self._task, description=name, completed=done, total=total or None)

    def close(self) -> None:
        self._bar.stop()


class _NotebookBar:
    """The browser's own bar: Rich's would take ipywidgets, and warn where they are missing."""

    def __init__(self) -> None:
        from IPython.display import HTML, display  # noqa: PLC0415  (there, as this is a notebook)

        self._html = HTML
        self._shown = display(HTML(""), display_id=True)
        self._last = 0.0

    def show(self, name: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last < _EVERY:
            return
        self._last = now
        part = f'max="{total}" value="{done}"' if total else ""
        self._shown.update(self._html(f"{html.escape(name)} <progress {part}></progress>"))

    def close(self) -> None:
        self._shown.update(self._html(""))


@contextmanager
def progress_bar(progress: Any, name: str) -> Iterator[Any]:
    """Give the progress that was asked for, or a bar of its own where somebody looks.

    Parameters
    ----------
    progress : Progress, callable, False or None
        None: a bar, if there is a terminal or a notebook. False: nothing.
    name : str
        What is being done.
    """
    if progress is False:
        yield None
        return
    if progress is not None and not callable(progress) and not hasattr(progress, "phase"):
        raise ParameterError(
            f"progress must be something that is told how far the work is, got {type(progress).__name__}. Leave it out "
            "for a bar, or pass False for none."
        )
    if progress is not None or not is_watched():
        yield progress
        return
    bar = LateBar(name)
    try:
        yield bar
    finally:
        bar.close()
