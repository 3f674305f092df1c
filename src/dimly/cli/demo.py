"""``dimly demo``: the whole story in under a minute."""

import contextlib
import io
import itertools
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dimly.cli.options import AsJson, Debug
from dimly.cli.output import print_json, print_lines, print_table
from dimly.errors import ParameterError

if TYPE_CHECKING:
    from dimly.lab.demo import Ending


def demo(
    *,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            metavar="DIR",
            help="Where to put its files; must not exist. dimly-demo by default, or the next.",
        ),
    ] = None,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Show everything at work on 20,000 people who do not exist: plan, publish, verify, ask, report.

    Every step is printed with its command, to be repeated on data of your own. The end shows what was recovered beside
    the truth, and what the paper's mechanism recovers at the same epsilon.

    $ dimly demo
    """
    started = time.perf_counter()
    folder = _made(folder)
    from dimly.lab.demo import STEPS, Ending, read_labels

    said = io.StringIO()
    with contextlib.chdir(folder):
        for number, step in enumerate(STEPS, 1):
            if not as_json:
                typer.echo(typer.style(f"\n{number}. {step.words}", bold=True))
                typer.echo(typer.style(f"$ dimly {step.command}", fg="green"))
            with contextlib.redirect_stdout(said) if as_json else contextlib.nullcontext():
                _run(step.command.split())
        from dimly.api import open_release
        from dimly.lab.charts import save

        ending = Ending.of(open_release(Path("release")), read_labels(Path("segments.parquet")))
        save(ending.chart(), Path("recovered.png"))
    seconds = time.perf_counter() - started
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "report": str(folder / "report.html"),
                "ours": ending.ours.to_dict(),
                "paper": ending.papers.to_dict(),
                "factor": ending.factor,
                "seconds": round(seconds, 1),
            }
        )
        return
    _end(ending, folder, seconds)


def _made(folder: Path | None) -> Path:
    """Make the folder that is asked for, or the first of its kind that is not there."""
    if folder is None:
        numbers = itertools.count(2)
        folder = Path("dimly-demo")
        while folder.exists():
            folder = Path(f"dimly-demo-{next(numbers)}")
    try:
        folder.mkdir()
    except FileExistsError:
        raise ParameterError(f"folder must not exist, got {str(folder)!r}. Name another, or remove it.") from None
    except FileNotFoundError:
        raise ParameterError(f"folder must be in a folder that exists, got {str(folder)!r}.") from None
    return folder


def _run(command: list[str]) -> None:
    """Run a command of our own, as if it had been typed."""
    from dimly.cli.app import app

    try:
        app(command)
    except SystemExit as end:
        if end.code:
            raise typer.Exit(int(end.code)) from None


def _end(ending: "Ending", folder: Path, seconds: float) -> None:
    from dimly.lab.demo import AGAIN, EPSILON, N_GROUPS, rounded

    ours, papers = ending.ours, ending.papers
    print_lines(["", typer.style("What was recovered, beside the truth", bold=True)])
    header = ["", "error of a squared distance", "predicted", "95 % intervals that hold", "segments agree with groups"]
    rows = [
        [name, f"{one.error:,.0f}", f"{one.predicted:,.0f}", f"{one.coverage:.0%}", f"{one.agreement:.2f} of 1"]
        for name, one in ((f"Dimly ({ours.mechanism}, δ = 0)", ours), ("the paper (its best k, δ = 1e-6)", papers))
    ]
    print_table(header, rows, numbers=header[1:])
    median = sorted(ending.truth.squared_distances.tolist())[len(ending.truth.squared_distances) // 2]
    words = (
        f"The median squared distance is {median:,}. At the same ε = {EPSILON:g} the paper's mechanism is "
        f"{rounded(ending.factor)} times as far off; there are {N_GROUPS} groups to find."
    )
    meaning = (
        f"What ε = {EPSILON:g} means: a coin-flip guess about one place that somebody visited becomes at most "
        f"{math.ceil(1000 * ending.sure) / 10:g} % sure."
    )
    again = f"To measure it again, with fresh noise, in {folder}:"
    where = f"Look at {folder / 'report.html'} in a browser, and at {folder / 'recovered.png'}."
    command = typer.style(f"$ dimly {AGAIN}", fg="green")
    print_lines(["", words, meaning, "", again, command, "", f"{seconds:.0f} seconds. {where}"])
