"""``dimly plan --interactive``: the same questions as the options, in plain words."""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import typer

from dimly.errors import ParameterError

Purpose = Literal["distances", "neighbors", "segments"]
_PURPOSES: dict[str, Purpose] = {"1": "distances", "2": "neighbors", "3": "segments"}


class Answers(NamedTuple):
    """What was answered, as the options of ``dimly plan``."""

    epsilon: float
    purpose: Purpose
    n_users: int | None
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
            "--n-attributes": self.n_attributes,
            "--weight": None if self.weight is None else f"{self.weight:g}",
            "--distance": self.distance,
            "-o": self.output,
        }
        return "dimly plan " + " ".join(f"{name} {value}" for name, value in said.items() if value is not None)


def ask() -> Answers:
    """Ask on the terminal. An empty answer is the one in brackets, or "I do not know".

    Raises
    ------
    ParameterError
        If nobody answers.
    """
    try:
        return _asked()
    except (EOFError, typer.Abort):
        raise ParameterError(
            "the questions of --interactive must be answered on a terminal, but the input ended. Give the options "
            "instead: see dimly plan --help."
        ) from None


def _asked() -> Answers:
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
    n_users = _number("About how many people?", default="")
    n_attributes = _number("About how many different attributes are there (products, places, words)?", default="")
    weight = _number("About how many of them does a person have?", default="")
    typer.echo("In how many attributes do two people differ?", err=True)
    low = _number("  two who are alike", default="")
    high = _number("  any two", default="")
    distance = None if high is None else f"{high:g}" if low is None else f"{low:g}:{high:g}"
    output = _text("File to write the plan to", default="plan.json")
    return Answers(
        epsilon=1.0 if epsilon is None else epsilon,
        purpose=_PURPOSES[choice],
        n_users=None if n_users is None else int(n_users),
        n_attributes=None if n_attributes is None else int(n_attributes),
        weight=weight,
        distance=distance,
        output=Path(output) if output else None,
    )


def _text(question: str, *, default: str) -> str:
    answer: str = typer.prompt(question, default=default, show_default=bool(default), err=True)
    return answer.strip()


def _number(question: str, *, default: str) -> float | None:
    while True:
        answer = _text(question, default=default).replace(",", "").replace("_", "")
        if not answer:
            return None
        try:
            number = float(answer)
        except ValueError:
            number = -1.0
        if 0 < number < float("inf"):
            return number
        typer.echo("  Please answer with a number above 0, or with nothing.", err=True)
