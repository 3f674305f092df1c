"""``dimly demo``: runs the steps of the demo one after the other."""

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
from dimly.cli.terminal import print_json, print_lines
from dimly.errors import ParameterError
from dimly.files import check_outside_releases


def demo(
    *,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            metavar="DIR",
            help="Where to put its files; must not exist. dimly-demo by default, or the next free name.",
        ),
    ] = None,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Show everything at work on 20,000 people who do not exist: learn, plan, publish, verify, ask, report.

    300 volunteers, who are not among them, show along which directions people differ. Every step is printed with its
    command, to be repeated on data of your own. The end shows which groups were recovered, beside what the best plan
    without volunteers and the paper's mechanism recover at the same epsilon.

    $ dimly demo
    """
    started = time.perf_counter()
    from dimly.lab.charts import need_plots

    need_plots()  # before a minute of work: the last step draws
    folder = _made(folder)
    from dimly.cli.commands.simulate import print_outcomes
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
    ours, without, papers = ending["outcomes"]
    seconds = time.perf_counter() - started
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "report": str(folder / "report.html"),
                "figure": str(folder / ending["found"]),
                "ours": ours,
                "without": without,
                "paper": papers,
                "seconds": round(seconds, 1),
            }
        )
        return
    print_outcomes(ending["outcomes"], ending["found"])
    _end(ending["population"], ending["outcomes"], folder, seconds)


def _made(folder: Path | None) -> Path:
    """Make the folder that is asked for, or the first of its kind that is not there."""
    if folder is None:
        numbers = itertools.count(2)
        folder = Path("dimly-demo")
        while folder.exists():
            folder = Path(f"dimly-demo-{next(numbers)}")
    check_outside_releases(folder.absolute().parent, "folder")
    try:
        folder.mkdir()
    except FileExistsError:
        raise ParameterError(f"folder must not exist, got {str(folder)!r}. Name another, or remove it.") from None
    except FileNotFoundError:
        raise ParameterError(f"folder must be in a folder that exists, got {str(folder)!r}.") from None
    return folder


def _run(command: list[str]) -> None:
    """Run a command of our own, as if it had been typed."""
    from dimly.cli.app import app_for

    try:
        app_for(command)(command)
    except SystemExit as end:
        if end.code:
            raise typer.Exit(int(end.code)) from None


def _end(population: dict[str, Any], outcomes: list[dict[str, Any]], folder: Path, seconds: float) -> None:
    from dimly.lab.demo import EPSILON, N_VOLUNTEERS, seen_in_words
    from dimly.privacy import Budget

    ours, without, papers = (one["agreement"] for one in outcomes)
    words = (
        f"There are {population['groups']} groups to find. With {N_VOLUNTEERS} volunteers segments agree with them to "
        f"{ours:.2f} of 1 at ε = {EPSILON:g}; without volunteers to {without:.2f}, and by the paper's mechanism to "
        f"{papers:.2f}, though that promises less (δ = 1e-6, ours 0)."
    )
    seen = seen_in_words(ours, outcomes[0]["recall"])
    sure = math.ceil(1000 * Budget(EPSILON).posterior(0.5)) / 10
    meaning = (
        f"What ε = {EPSILON:g} means: a coin-flip guess about one place that somebody visited becomes at most "
        f"{sure:g} % sure."
    )
    again = "The commands, typed in an empty folder, do all of this again, with fresh noise."
    where = f"Look at {folder / 'report.html'} in a browser, and at {folder / 'recovered.png'}."
    print_lines(["", words, *([seen] if seen else []), meaning, "", again, f"{seconds:.0f} seconds. {where}"])
