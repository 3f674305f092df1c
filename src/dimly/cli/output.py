"""What goes to stdout and what to stderr: answers here; warnings, progress and errors there."""

import contextlib
import json
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDEST = 10_000
_NARROWEST = 30
_PACKAGE = Path(__file__).parents[1]


def print_json(answer: Mapping[str, object], *, indent: int | None = None) -> None:
    """Print one JSON object, in one line unless indented; ASCII, so that no terminal can spoil it."""
    typer.echo(json.dumps(answer, allow_nan=False, indent=indent))


def print_fields(fields: Mapping[str, object], *, err: bool = False) -> None:
    """Print names and what they are, two columns; on a terminal, long ones in several lines."""
    width = max(map(len, fields), default=0)
    room = shutil.get_terminal_size().columns - width - 2
    folds = (sys.stderr if err else sys.stdout).isatty() and room >= _NARROWEST
    for name, value in fields.items():
        text = str(value)
        if folds:  # a name of a file or a digest stays whole
            lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
            text = ("\n" + " " * (width + 2)).join(lines)
        typer.echo(f"{typer.style(name.ljust(width), bold=True)}  {text}", err=err)


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[str] = ()) -> None:
    """Print a table; the columns named in ``numbers`` are set to the right."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in header:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = _WIDEST  # a pipe has no width to fold to
    console.print(table)


def print_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print sentences, one a line."""
    for line in lines:
        typer.echo(line, err=err)


def warn(text: str) -> None:
    """Print a warning on stderr, in one line."""
    typer.echo(f"warning: {' '.join(text.split())}", err=True)


@contextlib.contextmanager
def show_own_warnings() -> Iterator[None]:
    """Show Dimly's own warnings on stderr; those of libraries are dropped, because they may quote data."""

    def show(message: Warning | str, _category: type[Warning], filename: str, *_: object) -> None:
        if Path(filename).is_relative_to(_PACKAGE):
            warn(str(message))

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
