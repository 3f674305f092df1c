"""What the analyst's commands share: opening a release, ids as its own type, estimates as text and as JSON."""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dimly.cli.output import warn
from dimly.errors import ParameterError

if TYPE_CHECKING:
    from dimly.analyst import Estimate, Release

ReleaseFolder = Annotated[Path, typer.Argument(metavar="RELEASE", help="The release folder.", show_default=False)]
PARTS = ("value", "stderr", "low", "high")
"""Of an estimate, in the order that it is told in."""


class Opened(NamedTuple):
    """A release to be asked, and whether its people have names or numbers."""

    release: "Release"
    textual: bool

    def user(self, text: str, *, name: str) -> int | str:
        """Return an id from the command line, of the release's own type.

        Parameters
        ----------
        text : str
        name : str
            What the command calls it, to be told apart in a refusal: ids themselves are not repeated.

        Raises
        ------
        ParameterError
            If the release's ids are integers and this is none, or nobody has it.
        """
        if not self.textual and not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
            raise ParameterError(f"{name} must be an integer, as all users of this release are.")
        user = text if self.textual else int(text)
        if user not in self.release:
            raise ParameterError(f"{name} must be a user of this release, and is not.")
        return user


def open_to_ask(path: Path) -> Opened:
    """Open a release for questions; a warning on stderr if it was made for tests."""
    from dimly.analyst import Release
    from dimly.release.stored import open_folder

    sketches = open_folder(path)
    if not sketches.private:
        warn("this release was made for tests only and is NOT PRIVATE; it must not be given to anyone.")
    return Opened(Release(sketches, vocabulary=sketches.vocabulary), sketches.textual)


def estimate_facts(estimate: "Estimate[float]") -> dict[str, float | None]:
    """Return an estimate ready for JSON, which has neither NaN nor infinity: null is unknown, or without limit."""
    facts = {name: float(getattr(estimate, name)) for name in PARTS}
    return {name: number if math.isfinite(number) else None for name, number in facts.items()}


def number_text(number: float) -> str:
    """Return a number for people, with four digits and no more.

    Examples
    --------
    >>> number_text(1234.5), number_text(0.51234), number_text(float("nan"))
    ('1,234', '0.5123', 'unknown')
    """
    if not math.isfinite(number):
        return "unknown"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def interval_text(estimate: "Estimate[Any]") -> str:
    """Return an interval for people."""
    high = "any" if not math.isfinite(estimate.high) else number_text(estimate.high)
    return f"{number_text(estimate.low)} to {high}"
