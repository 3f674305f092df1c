"""``dimly plan``: the best plan for a purpose, or one from explicit choices."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dimly.cli.advice import show_advice, show_scales
from dimly.cli.description import plan_facts, plan_fields, promise
from dimly.cli.files import write_text
from dimly.cli.options import AsJson, Debug, numbers_between, size_in_bytes
from dimly.cli.output import print_fields, print_json, print_lines, warn
from dimly.errors import ParameterError

if TYPE_CHECKING:
    from dimly.mechanisms import Plan, Vocabulary

_PROMISE, _PURPOSE, _DATA = "What is promised", "What it is for", "What the data are"
_MANY_ROWS = 1_000_000  # some seconds
_SKETCH, _OUTPUT = "What is published, instead of letting Dimly choose", "Output"


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
    purpose: Annotated[
        Literal["distances", "neighbors", "segments"],
        typer.Option(help="What the release will be asked for.", rich_help_panel=_PURPOSE),
    ] = "distances",
    distance: Annotated[
        str | None,
        typer.Option(
            metavar="R2|LOW:HIGH",
            help="Squared distances of near and of far pairs; one number is that of far ones, 400 by default.",
            rich_help_panel=_PURPOSE,
        ),
    ] = None,
    scales: Annotated[
        str | None,
        typer.Option(
            metavar="R2,R2,…",
            help="Squared distances that get a sketch each and share the budget, beside one sketch for all.",
            rich_help_panel=_PURPOSE,
        ),
    ] = None,
    max_bytes_per_user: Annotated[
        int | None,
        typer.Option(
            metavar="SIZE",
            help="Largest size of what is published per person, such as 512 or 4kB.",
            parser=size_in_bytes,
            rich_help_panel=_PURPOSE,
        ),
    ] = None,
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
        typer.Option(
            help="How many attributes there are. Where the list must be closed, they are 0 to this minus 1.",
            rich_help_panel=_DATA,
        ),
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
        int | None,
        typer.Option(
            help="Number of people, with which delta is compared; the largest possible one for noisy-distances.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    weight: Annotated[
        float | None, typer.Option(help="Attributes of a person, about, if known.", rich_help_panel=_DATA)
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
            help="Where to write the plan. Without it only a plan of a given mechanism and k is printed.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file.", rich_help_panel=_OUTPUT)
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write the plan even if it is not feasible.", rich_help_panel=_OUTPUT)
    ] = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Make a plan: what will be published and what it promises, decided before any data is touched.

    Finds the mechanism and k that are best for a purpose, and says what they will be good for; with --mechanism and
    --k, makes that plan. A plan is public, and its noise is proven to keep the promise. Its digest is what a
    privacy officer signs.

    $ dimly plan --epsilon 1 --n-attributes 100000 --distance 100:800 -o plan.json
    """
    from dimly.mechanisms.mechanism import NOISY_DISTANCES, sketching
    from dimly.mechanisms.request import MAX_USERS, as_integer
    from dimly.privacy import Budget

    budget = Budget(epsilon, delta)
    listed = None if vocabulary is None else _listed(vocabulary)
    choosing = {
        "distance": distance is not None,
        "scales": scales is not None,
        "max_bytes_per_user": max_bytes_per_user is not None,
        "weight": weight is not None,
        "purpose": purpose != "distances",
    }
    if mechanism is not None and (listed is not None or n_attributes is not None):
        _announce(mechanism, n_attributes if listed is None else len(listed))
    # Without a sketch there is no k to find; whoever states distances wants to know what it is good for.
    if mechanism is not None and (k is not None or (sketching(mechanism) is None and not any(choosing.values()))):
        _refuse(choosing, "must be left out where mechanism and k are given: nothing is chosen then.")
        from dimly.mechanisms import Plan

        made = Plan.of(
            mechanism,
            budget,
            k=k,
            blocks=blocks,
            n_attributes=n_attributes,
            vocabulary=listed,
            n_users=n_users if mechanism == NOISY_DISTANCES else None,  # of others, δ is compared with it
            resolution=resolution,
            unit=unit,
            rule=rule,
            dtype=dtype,
            seed=seed,
            blend=blend,
        )
        if n_users is not None:
            from dimly.planner.meaning import doubts

            for text in doubts(budget, as_integer("n_users", n_users, 2, MAX_USERS), made):
                warn(text)
        _show_made(made, output, overwrite=overwrite, as_json=as_json)
        return
    if k is not None:
        raise ParameterError(f"k must be given together with mechanism, got k = {k} alone. Without both it is chosen.")
    given = {
        "rule": rule != "exact",
        "blocks": blocks != 1,
        "blend": blend is not None,
        "dtype": dtype != "int16",
    }
    _refuse(given, "must be given together with mechanism and k. Without them it is chosen.")
    arguments: dict[str, Any] = {
        "n_attributes": n_attributes,
        "vocabulary": listed,
        "n_users": n_users,
        "weight": weight,
        "values": "bits" if resolution == 1 else "unit",
        "resolution": resolution,
        "unit": unit,
        "mechanisms": None if mechanism is None else [mechanism],
        "max_bytes_per_user": max_bytes_per_user,
    }
    if scales is not None:
        if distance is not None or purpose != "distances" or seed is not None:
            raise ParameterError(
                "scales must be given without distance, purpose and seed: each is a distance of its own."
            )
        from dimly.planner import plan_scales

        show_scales(
            plan_scales(budget, numbers_between("scales", scales, ","), **arguments),
            output,
            overwrite=overwrite,
            force=force,
            as_json=as_json,
        )
        return
    from dimly.planner import advise

    if distance is not None:
        ends = numbers_between("distance", distance, ":")
        arguments["distance"] = ends if len(ends) > 1 else ends[0]
    found = advise(budget, purpose=purpose, seed=seed, **arguments)
    show_advice(found, output, overwrite=overwrite, force=force, as_json=as_json)


def _announce(mechanism: str, n_attributes: int | None) -> None:
    """Say what takes long: where rows differ in norm, all of them are drawn to find the longest."""
    from dimly.mechanisms.families import family_named
    from dimly.mechanisms.mechanism import sketching

    kind = sketching(mechanism)
    if kind is None or family_named(kind.family).open_vocabulary or (n_attributes or 0) < _MANY_ROWS:
        return
    typer.echo(f"Drawing {n_attributes:,} rows of {kind.family} to find the longest; this may take minutes.", err=True)


def _refuse(given: dict[str, bool], why: str) -> None:
    for name, was_given in given.items():
        if was_given:
            raise ParameterError(f"{name} {why}")


def _show_made(made: "Plan", output: Path | None, *, overwrite: bool, as_json: bool) -> None:
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
