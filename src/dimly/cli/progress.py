"""How far a long job is: a bar with people per second and the time left, on a terminal only."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


def people(number: float) -> str:
    """Return a number of people, in words."""
    return f"{number:,.0f} people"


class _Done(ProgressColumn):
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


class ProgressBar:
    """Tells on stderr, if that is a terminal, what a job is at; otherwise nothing.

    Parameters
    ----------
    amount : callable, default=people
        Says what is counted, in words.
    console : Console, optional
        Where to; stderr by default.
    """

    def __init__(self, *, amount: Callable[[float], str] = people, console: Console | None = None) -> None:
        out = console or Console(stderr=True)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            _Done(amount),
            TimeRemainingColumn(),
            console=out,
            transient=True,
            disable=not out.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def phase(self, name: str) -> None:
        """Say what begins now; how long it takes is not known yet."""
        self._bar.remove_task(self._task)  # Rich cannot forget a total
        self._task = self._bar.add_task(name, total=None)

    def start(self, n_users: int) -> None:
        """Say of how many people the present phase is."""
        self._bar.reset(self._task, total=n_users)

    def advance(self, n_users: int) -> None:
        """Say that so many more are done; from any thread."""
        self._bar.advance(self._task, n_users)

    def reach(self, done: int, total: int) -> None:
        """Say how much is done of how much."""
        self._bar.update(self._task, completed=done, total=total)
