"""How a bar looks on a terminal; apart, because Rich is loaded only where somebody sees it."""

from collections.abc import Callable

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class _DoneColumn(ProgressColumn):
    """How much of how much, and how much a second."""

    def __init__(self, amount: Callable[[float], str]) -> None:
        super().__init__()
        self._amount = amount

    def render(self, task: Task) -> Text:
        """Return the text of one task."""
        if task.total is None:
            return Text("")
        rate = "" if task.speed is None else f", {self._amount(task.speed)}/s"
        return Text(f"{self._amount(task.completed)} of {self._amount(task.total)}{rate}")


def moving_bar(amount: Callable[[float], str] | None, console: Console | None) -> Progress:
    """Return a bar on a console, or on stderr; without ``amount`` it says the share alone."""
    out = console or Console(stderr=True, force_terminal=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn() if amount is None else _DoneColumn(amount),
        TimeRemainingColumn(),
        console=out,
        transient=True,
        disable=not out.is_terminal,
    )
