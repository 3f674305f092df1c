"""``dimly plan --interactive``: the same questions as the options, in plain words."""

import contextlib
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple

import typer

from dimly.cli.faults import options_alone
from dimly.errors import ParameterError
from dimly.files import check_output

Purpose = Literal["distances", "neighbors", "segments"]
# Commas are taken between thousands only: to many, 0,5 is a half, and epsilon must not become 5.
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
_PURPOSES: dict[str, Purpose] = {"1": "distances", "2": "neighbors", "3": "segments"}


class PlanAnswers(NamedTuple):
    """What was answered, as the options of ``dimly plan``."""

    epsilon: float
    purpose: Purpose
    n_users: int | None
    vocabulary: Path | None
    n_attributes: int | None
    weight: float | None
    distance: str | None
    output: Path | None

    @property
    def command(self) -> str:
        """The command that says the same, to be repeated without questions."""
        said: dict[str, Any] = {
            "--epsilon": f"{self.epsilon:g}",
            "--purpose": self.purpose,
            "--n-users": self.n_users,
            "--vocabulary": self.vocabulary,
            "--n-attributes": self.n_attributes,
            "--weight": None if self.weight is None else f"{self.weight:g}",
            "--distance": self.distance,
            "-o": self.output,
        }
        given = (f"{name} {shlex.quote(str(value))}" for name, value in said.items() if value is not None)
        return "dimly plan " + " ".join(given)


class GivenOptions(NamedTuple):
    """What the options say already: the answers in brackets."""

    n_users: int | None = None
    vocabulary: Path | None = None
    n_attributes: int | None = None
    weight: float | None = None
    distance: str | None = None
    output: Path | None = None
    overwrite: bool = False


def ask(given: GivenOptions) -> PlanAnswers:
    """Ask on the terminal. An empty answer is the one in brackets, or "I do not know".

    What could not be used is asked again at once.

    Raises
    ------
    ParameterError
        If nobody answers.
    """
    try:
        return _asked(given)
    except (EOFError, typer.Abort):
        raise ParameterError(
            "the questions of --interactive must be answered on a terminal, but the input ended. Give the options "
            "instead: see dimly plan --help."
        ) from None


def _asked(given: GivenOptions) -> PlanAnswers:
    typer.echo("How sure may somebody become of one single fact about one person?", err=True)
    typer.echo("  epsilon 0.1: from 50 % to 52.5 %;  0.5: 62 %;  1: 73 %;  2: 88 %;  4: 98 %", err=True)
    epsilon = _number("epsilon", default="1")
    typer.echo("What will people do with the release?", err=True)
    typer.echo("  1 compare two people   2 find who is like somebody   3 find groups of people", err=True)
    while (choice := _text("1, 2 or 3", default="3")) not in _PURPOSES:
        typer.echo("  Please answer 1, 2 or 3.", err=True)
    typer.echo(
        "These figures must be public knowledge, not counted in the private table. Leave out what you do not know.",
        err=True,
    )
    n_users = _number("About how many people?", default=_shown(given.n_users), whole=True)
    vocabulary = _public_list(given)
    n_attributes = None
    if vocabulary is None:
        n_attributes = _number(
            "About how many different attributes are there (products, places, words)?",
            default=_shown(given.n_attributes),
            whole=True,
        )
    most = float("inf") if n_attributes is None else n_attributes
    weight = _number("About how many of them does a person have?", default=_shown(given.weight), most=most)
    near, _, far = (given.distance or "").rpartition(":")
    typer.echo("In how many attributes do two people differ?", err=True)
    while True:
        low = _number("  two who are alike", default=near, most=most)
        high = _number("  any two", default=far, most=most)
        if low is None or high is None or low <= high:
            break
        typer.echo("  Two who are alike differ in no more attributes than any two. Please answer both again.", err=True)
    distance = None if high is None else f"{high:g}" if low is None else f"{low:g}:{high:g}"
    output = _new_file(given)
    return PlanAnswers(
        epsilon=1.0 if epsilon is None else epsilon,
        purpose=_PURPOSES[choice],
        n_users=None if n_users is None else int(n_users),
        vocabulary=vocabulary,
        n_attributes=None if n_attributes is None else int(n_attributes),
        weight=weight,
        distance=distance,
        output=output,
    )


def _shown(number: float | None) -> str:
    return "" if number is None else f"{number:.15g}"


def _public_list(given: GivenOptions) -> Path | None:
    typer.echo("Is there a public list of all attributes, such as a catalog, made without the private table?", err=True)
    default = "" if given.vocabulary is None else str(given.vocabulary)
    while answer := _text("  its file, with one name a line; nothing if there is none", default=default):
        if Path(answer).is_file():
            return Path(answer)
        typer.echo(f"  There is no file {answer!r}.", err=True)
    return None


def _new_file(given: GivenOptions) -> Path | None:
    default = "plan.json" if given.output is None else str(given.output)
    while answer := _text("File to write the plan to", default=default):
        try:
            check_output(Path(answer), overwrite=given.overwrite)
        except ParameterError as error:
            typer.echo(f"  {options_alone(error.with_options).replace('output', 'The file', 1)}", err=True)
        else:
            return Path(answer)
    return None


def _text(question: str, *, default: str) -> str:
    # Of what is asked on stderr the last space goes to stdout, which may be a file for the plan or its JSON.
    with contextlib.redirect_stdout(sys.stdout if sys.stdout.isatty() else sys.stderr):
        answer: str = typer.prompt(question, default=default, show_default=bool(default), err=True)
    return answer.strip()


def _number(question: str, *, default: str, most: float = float("inf"), whole: bool = False) -> float | None:
    while True:
        answer = _text(question, default=default)
        if not answer:
            return None
        if "," in answer and not _THOUSANDS.fullmatch(answer):
            typer.echo("  Please answer with a point, as in 0.5, and without commas.", err=True)
            continue
        try:
            number = float(answer.replace(",", "").replace("_", ""))
        except ValueError:
            number = -1.0
        if whole and number > 0 and not number.is_integer():
            typer.echo("  Please answer with a whole number, such as 1000, or with nothing.", err=True)
            continue
        if 0 < number <= most and number < float("inf"):
            return number
        if number > most:
            typer.echo(
                f"  There are {most:,.0f} attributes: please answer with at most that many, or nothing.", err=True
            )
            continue
        typer.echo("  Please answer with a number above 0, or with nothing.", err=True)
