"""``dimly plan``: a plan from explicit choices."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dimly.cli.description import plan_facts, plan_fields, promise
from dimly.cli.files import write_text
from dimly.cli.options import AsJson, Debug
from dimly.cli.output import print_fields, print_json, print_lines
from dimly.errors import ParameterError

if TYPE_CHECKING:
    from dimly.mechanisms import Vocabulary

_PROMISE, _SKETCH, _DATA, _OUTPUT = "What is promised", "What is published", "What the data are", "Output"


def plan(
    *,
    epsilon: Annotated[
        float,
        typer.Option(help="The odds of any one attribute change by at most e^epsilon.", rich_help_panel=_PROMISE),
    ],
    delta: Annotated[
        float,
        typer.Option(
            help="Probability beyond that factor; needed by Gaussian noise only, well below 1 / number of people.",
            rich_help_panel=_PROMISE,
        ),
    ] = 0.0,
    unit: Annotated[
        Literal["attribute", "column"],
        typer.Option(
            help="What is protected: one attribute, or one categorical column (needed for columns of text).",
            rich_help_panel=_PROMISE,
        ),
    ] = "attribute",
    rule: Annotated[
        Literal["exact", "lemma1", "theorem1", "lemma2"],
        typer.Option(help="How Gaussian noise is calibrated; exact is never worse.", rich_help_panel=_PROMISE),
    ] = "exact",
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="A projection and a noise such as counting+laplace, or randomized-response, or noisy-distances.",
            rich_help_panel=_SKETCH,
        ),
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", help="Numbers published per person, for sketches.", rich_help_panel=_SKETCH)
    ] = None,
    blocks: Annotated[
        int, typer.Option(help="Entries per attribute of sparse and dasgupta.", rich_help_panel=_SKETCH)
    ] = 1,
    dtype: Annotated[
        Literal["int16", "int32"], typer.Option(help="Type of a published number.", rich_help_panel=_SKETCH)
    ] = "int16",
    seed: Annotated[
        str | None,
        typer.Option(
            metavar="HEX",
            help="Public seed of the projection, 64 hexadecimal digits; fresh by default.",
            rich_help_panel=_SKETCH,
        ),
    ] = None,
    blend: Annotated[
        float | None,
        typer.Option(
            help="Counting only, from 0 to 1: how far sums are trusted; less for near pairs of heavy people.",
            rich_help_panel=_SKETCH,
        ),
    ] = None,
    n_attributes: Annotated[
        int | None,
        typer.Option(help="Closes the vocabulary to the attributes 0 to this minus 1.", rich_help_panel=_DATA),
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Closes the vocabulary to this public list; never the attributes found in the data.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    n_users: Annotated[
        int | None, typer.Option(help="Largest number of people, for noisy-distances.", rich_help_panel=_DATA)
    ] = None,
    resolution: Annotated[
        int, typer.Option(help="1 for bits; R for values from 0 to 1 in steps of 1/R.", rich_help_panel=_DATA)
    ] = 1,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Where to write the plan; stdout by default.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file.", rich_help_panel=_OUTPUT)
    ] = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Make a plan: what will be published and what it promises, decided before any data is touched.

    A plan is public, and its noise is proven to keep the promise. Its digest is what a privacy officer signs.

    $ dimly plan --mechanism counting+laplace --k 256 --epsilon 1 -o plan.json
    """
    from dimly.mechanisms import MECHANISMS, Plan
    from dimly.privacy import Budget

    if mechanism is None:
        raise ParameterError(
            f"mechanism must be one of {', '.join(MECHANISMS)}, got none. For example: --mechanism counting+laplace "
            "--k 256."
        )
    made = Plan.of(
        mechanism,
        Budget(epsilon, delta),
        k=k,
        blocks=blocks,
        n_attributes=n_attributes,
        vocabulary=None if vocabulary is None else _listed(vocabulary),
        n_users=n_users,
        resolution=resolution,
        unit=unit,
        rule=rule,
        dtype=dtype,
        seed=seed,
        blend=blend,
    )
    if output is not None:
        write_text(output, made.to_json(), overwrite=overwrite)
    if as_json:
        path = None if output is None else str(output)
        print_json(
            {"plan": made.model_dump(mode="json", exclude_none=True), "digest": made.digest}
            | plan_facts(made)
            | {"path": path}
        )
        return
    if output is None:
        typer.echo(made.to_json(), nl=False)
    err = output is None  # stdout is the plan itself
    fields = {"plan": str(output)} if output is not None else {}
    print_fields(fields | {"digest": made.digest} | plan_fields(made), err=err)
    print_lines(["", *promise(made)], err=err)


def _listed(path: Path) -> "Vocabulary":
    from dimly.curator.public_lists import read_vocabulary

    return read_vocabulary(path)
