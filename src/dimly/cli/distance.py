"""``dimly distance``: how far apart two people are, and how sure that is."""

from typing import Annotated, Literal

import typer

from dimly.cli.options import AsJson, Debug
from dimly.cli.output import print_fields, print_json
from dimly.cli.questions import ReleaseFolder, estimate_facts, interval_text, number_text, open_to_ask


def distance(
    release: ReleaseFolder,
    a: Annotated[str, typer.Argument(metavar="A", help="Id of one person.", show_default=False)],
    b: Annotated[
        str,
        typer.Argument(metavar="B", help="Id of another; ids that begin with - come after --.", show_default=False),
    ],
    *,
    method: Annotated[
        Literal["unbiased", "likelihood"],
        typer.Option(help="How to estimate; likelihood is for counting and hashing on bits, and has less error."),
    ] = "unbiased",
    confidence: Annotated[float, typer.Option(help="Of the interval, from 0 to 1.")] = 0.95,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Estimate the squared distance of two people, with its standard error and an interval.

    Of bits, it is the number of attributes in which the two differ.

    $ dimly distance release ada bob
    """
    asked = open_to_ask(release)
    found = asked.release.distance(
        asked.user(a, name="A"), asked.user(b, name="B"), method=method, confidence=confidence
    )
    if as_json:
        print_json(estimate_facts(found))
        return
    print_fields(
        {
            "squared distance": number_text(found.value),
            "standard error": number_text(found.stderr),
            f"{100 * confidence:.4g} % interval": interval_text(found),
        }
    )
