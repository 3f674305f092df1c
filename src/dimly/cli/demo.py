"""``dimly demo``: the whole story in under a minute."""

import contextlib
import io
import itertools
import json
import math
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from dimly.cli.options import AsJson, Debug
from dimly.cli.output import print_json, print_lines
from dimly.errors import ParameterError


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
    from dimly.cli.simulate import print_outcomes
    from dimly.lab.demo import STEPS

    with contextlib.chdir(folder):
        for number, step in enumerate(STEPS, 1):
            if not as_json:
                typer.echo(typer.style(f"\n{number}. {step.words}", bold=True))
                typer.echo(typer.style(f"$ dimly {step.command}", fg="green"))
            last, said = number == len(STEPS), io.StringIO()
            with contextlib.redirect_stdout(said) if as_json or last else contextlib.nullcontext():
                _run([*step.command.split(), *(["--json"] if last else [])])
        ending = json.loads(said.getvalue())
    ours, papers = ending["outcomes"]
    factor = papers["error"]["measured"] / ours["error"]["measured"]
    seconds = time.perf_counter() - started
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "report": str(folder / "report.html"),
                "figure": str(folder / ending["figure"]),
                "ours": ours,
                "paper": papers,
                "factor": factor,
                "seconds": round(seconds, 1),
            }
        )
        return
    print_outcomes(ending["outcomes"], ending["figure"])
    _end(ending["population"], ours, factor, folder, seconds)


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


def _end(population: dict[str, Any], ours: dict[str, Any], factor: float, folder: Path, seconds: float) -> None:
    from dimly.lab.demo import EPSILON, rounded, seen_in_words
    from dimly.privacy import Budget

    words = (
        f"The median squared distance is {population['median_squared_distance']:,.0f}. At the same ε = {EPSILON:g} the "
        f"paper's mechanism is {rounded(factor)} times as far off, though it promises less (δ = 1e-6, ours 0); there "
        f"are {population['groups']} groups to find."
    )
    seen = seen_in_words(ours["agreement"], ours["recall"])
    sure = math.ceil(1000 * Budget(EPSILON).posterior(0.5)) / 10
    meaning = (
        f"What ε = {EPSILON:g} means: a coin-flip guess about one place that somebody visited becomes at most "
        f"{sure:g} % sure."
    )
    again = "The commands, typed in an empty folder, do all of this again, with fresh noise."
    where = f"Look at {folder / 'report.html'} in a browser, and at {folder / 'recovered.png'}."
    print_lines(["", words, *([seen] if seen else []), meaning, "", again, f"{seconds:.0f} seconds. {where}"])
