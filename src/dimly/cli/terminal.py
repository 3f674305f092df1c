"""Printing: tables, fields, JSON and CSV to stdout; warnings and progress bars to stderr."""

import contextlib
import csv
import io
import json
import math
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

from dimly.cli.faults import options_alone
from dimly.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


def people(number: float) -> str:
    """Return a number of people, in words."""
    return f"{number:,.0f} people"


class ProgressBar:
    """Tells on stderr, if that is a terminal, what a job is at; otherwise nothing.

    Parameters
    ----------
    amount : callable or None, default=people
        Says what is counted, in words; None says the share alone, where the count is private.
    console : Console, optional
        Where to; stderr by default.
    """

    def __init__(self, *, amount: Callable[[float], str] | None = people, console: "Console | None" = None) -> None:
        self._bar: Progress | None = None
        # Not Rich's own view of it: FORCE_COLOR would put a moving bar into logs.
        if console is not None or (sys.stderr is not None and sys.stderr.isatty()):
            from dimly.cli.moving_bar import moving_bar  # loads Rich

            self._bar = moving_bar(amount, console)
            self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def phase(self, name: str) -> None:
        """Say what begins now; how long it takes is not known yet."""
        if self._bar is not None:
            self._bar.remove_task(self._task)  # Rich cannot forget a total
            self._task = self._bar.add_task(name, total=None)

    def start(self, n_users: int) -> None:
        """Say of how many people the present phase is."""
        if self._bar is not None:
            self._bar.reset(self._task, total=n_users)

    def advance(self, n_users: int) -> None:
        """Say that so many more are done; from any thread."""
        if self._bar is not None:
            task = next((one for one in self._bar.tasks if one.id == self._task), None)
            left = n_users if task is None or task.total is None else max(0.0, task.total - task.completed)
            self._bar.advance(self._task, min(n_users, left))  # whoever is published twice is one person

    def reach(self, done: int, total: int) -> None:
        """Say how much is done of how much."""
        if self._bar is not None:
            self._bar.update(self._task, completed=min(done, total), total=total)


_WIDEST = 10_000
_NARROWEST = 30
_PACKAGE = Path(__file__).parents[1]


def print_json(answer: Mapping[str, object], *, indent: int | None = None) -> None:
    """Print one JSON object, in one line unless indented; ASCII, so that no terminal can spoil it."""
    typer.echo(json.dumps(answer, allow_nan=False, indent=indent))


def print_fields(fields: Mapping[str, object], *, err: bool = False) -> None:
    """Print names and what they are, two columns, without those of which nothing is said.

    On a terminal, long ones take several lines.
    """
    fields = {name: value for name, value in fields.items() if value != ""}
    width = max(map(len, fields), default=0)
    room = shutil.get_terminal_size().columns - width - 2
    folds = (sys.stderr if err else sys.stdout).isatty() and room >= _NARROWEST
    for name, value in fields.items():
        text = printable(str(value))
        if folds:  # a name of a file or a digest stays whole
            lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
            text = ("\n" + " " * (width + 2)).join(lines)
        typer.echo(f"{typer.style(name.ljust(width), bold=True)}  {text}", err=err)


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[str] = ()) -> None:
    """Print a table; the columns named in ``numbers`` are set to the right."""
    from rich.console import Console  # Rich takes 0.05 seconds to load, and most commands print no table
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in header:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
    console = Console(file=sys.stdout, highlight=False)
    if not sys.stdout.isatty():  # also where FORCE_COLOR asks for colors
        console.size = (_WIDEST, console.height)  # a pipe has no width to fold to
    console.print(table)


def print_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table as CSV, one line a row; unknown and unlimited numbers are left empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(["" if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row])
    typer.echo(out.getvalue(), nl=False)


def print_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print sentences, one a line."""
    for line in lines:
        typer.echo(printable(line), err=err)


def warn(text: str) -> None:
    """Print a warning on stderr, in one line."""
    typer.echo(printable(f"warning: {options_alone(' '.join(text.split()))}"), err=True)


@contextlib.contextmanager
def show_own_warnings() -> Iterator[None]:
    """Show Dimly's own warnings on stderr; those of libraries are dropped, because they may quote data."""

    def show(message: Warning | str, _category: type[Warning], filename: str, *_: object) -> None:
        if Path(filename).is_relative_to(_PACKAGE):
            warn(message if isinstance(message, str) else str(message.args[0]))  # with the options in it

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show  # type: ignore[assignment]  # it is called by position
        yield


def size_text(n_bytes: float) -> str:
    """Return a number of bytes for people.

    Examples
    --------
    >>> size_text(512), size_text(1_500_000)
    ('512 bytes', '1.5 MB')
    """
    size = float(n_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"
