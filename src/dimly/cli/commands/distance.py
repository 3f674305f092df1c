"""``dimly distance``: how far apart two people are, and how sure that is."""

from typing import Annotated, Literal

import typer

from dimly.cli.options import (
    AsJson,
    Debug,
    ReleaseFolder,
    estimate_facts,
    interval_text,
    measure_facts,
    number_text,
    open_to_ask,
    without_linear_algebra,
)
from dimly.cli.terminal import print_fields, print_json


def distance(
    release: ReleaseFolder,
    a: Annotated[str, typer.Argument(metavar="A", help="Id of one person.", show_default=False)],
    b: Annotated[
        str,
        typer.Argument(
            metavar="B", help="Id of another person. Ids that begin with - come after --.", show_default=False
        ),
    ],
    *,
    method: Annotated[
        Literal["unbiased", "likelihood"],
        typer.Option(help="How to estimate; likelihood is for counting and hashing on bits, and has less error."),
    ] = "unbiased",
    confidence: Annotated[float, typer.Option(help="Confidence of the interval, from 0 to 1.")] = 0.95,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Estimate the squared distance between two people, with its standard error and an interval.

    For bits, it is the number of attributes in which the two differ. In a release along directions, it is the
    squared distance along the directions only, and the answer says so.

    $ dimly distance release ada bob
    """
    without_linear_algebra()
    asked = open_to_ask(release)
    found = asked.release.distance(
        asked.user(a, name="A"), asked.user(b, name="B"), method=method, confidence=confidence
    )
    if as_json:
        print_json({**estimate_facts(found), **measure_facts(asked.release.plan)})
        return
    print_fields(
        {
            asked.release.plan.measured: number_text(found.value),
            "standard error": number_text(found.stderr),
            f"{100 * confidence:.4g} % interval": interval_text(found),
        }
    )
