"""``dimly plan``: all of its options, checked, and which of its ways is taken.

The command line becomes records, and one of four ways is taken: everything is tried out on a sample (plan_sample), a
mechanism is named with all that belongs to it, or theory chooses for several scales or for a purpose (plan_choice).
Each way shows its own answer.
"""

from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dimly.cli.commands.plan_choice import FixedMechanism, PlanOutput, plan_by_advice, plan_by_name, plan_by_scales
from dimly.cli.options import (
    PROMISE,
    AllColumns,
    AsJson,
    AttributeColumn,
    Columns,
    Debug,
    Delimiter,
    Encoding,
    ListColumn,
    Protect,
    Table,
    ValueColumn,
    chosen_columns,
    numbers_between,
    size_in_bytes,
    without_linear_algebra,
)
from dimly.errors import ParameterError
from dimly.files import check_output

if TYPE_CHECKING:
    from dimly.cli.commands.plan_interactive import GivenOptions, PlanAnswers
    from dimly.mechanisms import Directions, Vocabulary
    from dimly.planner import Brief
    from dimly.privacy import Budget
    from dimly.release.documents.survey_file import Survey

_PURPOSE, _DATA = "What it is for", "What the data are"
_SAMPLE = "Trying it out on public people"
_SKETCH, _OUTPUT = "What is published, instead of letting Dimly choose", "Output"
_MANY_ROWS = 1_000_000  # some seconds
_CHOOSING = ("distance", "max_bytes_per_user", "weight", "purpose", "n_groups", "survey")
"""What is said of a purpose. Where nothing is chosen it would mean nothing."""


def plan(
    *,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="The odds of any one attribute change by at most e^epsilon. Required unless --interactive is given.",
            rich_help_panel=PROMISE,
        ),
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", help="Ask questions in plain words instead; no other options are needed.")
    ] = False,
    delta: Annotated[
        float,
        typer.Option(
            help="How much the probability of any outcome may change beyond that factor. Only Gaussian noise "
            "needs it; keep it well below 1 / number of people.",
            rich_help_panel=PROMISE,
        ),
    ] = 0.0,
    unit: Annotated[
        Literal["attribute", "column"],
        typer.Option(
            help="What is protected: one attribute, or one categorical column (needed for columns of text).",
            rich_help_panel=PROMISE,
        ),
    ] = "attribute",
    protect: Protect = 1,
    total: Annotated[
        bool,
        typer.Option(
            "--total",
            help="Epsilon and delta are for the survey and this plan together: what the survey spent is subtracted.",
            rich_help_panel=PROMISE,
        ),
    ] = False,
    rule: Annotated[
        Literal["exact", "lemma1", "theorem1", "lemma2"],
        typer.Option(help="How Gaussian noise is calibrated; exact is never worse.", rich_help_panel=PROMISE),
    ] = "exact",
    purpose: Annotated[
        Literal["distances", "neighbors", "segments"],
        typer.Option(help="What the release will be asked for.", rich_help_panel=_PURPOSE),
    ] = "distances",
    distance: Annotated[
        str | None,
        typer.Option(
            metavar="R2|LOW:HIGH",
            help="Squared distances of near and far pairs: to neighbors and to anybody, or within a group and between "
            "two. One number is that of far pairs. By default what --weight allows.",
            rich_help_panel=_PURPOSE,
        ),
    ] = None,
    scales: Annotated[
        str | None,
        typer.Option(
            metavar="R2,R2,…",
            help="Plan a sketch for each of these squared distances, which share the budget, and compare them with one"
            " sketch for all.",
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
            help="A projection and a noise such as counting+laplace, or randomized-response, or noisy-distances; with "
            "--directions, directions+laplace (the default) or directions+gaussian.",
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
        Literal["int16", "int32"] | None,
        typer.Option(
            help="Type of a published number; int16 by default, along directions int32 if they may need it.",
            rich_help_panel=_SKETCH,
        ),
    ] = None,
    directions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Publish along these public directions, made by dimly directions; nothing else is chosen then.",
            rich_help_panel=_SKETCH,
        ),
    ] = None,
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
            help="Counting only, from 0 to 1: how much the sums of sketches are used; less is better for near pairs of"
            " people with many attributes.",
            rich_help_panel=_SKETCH,
        ),
    ] = None,
    n_attributes: Annotated[
        int | None,
        typer.Option(
            help="How many attributes there are. For a closed list, add --vocabulary or --numbered.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    numbered: Annotated[
        bool,
        typer.Option(
            "--numbered",
            help="Attributes are the numbers from 0 to --n-attributes minus 1; a plan may close the list to these.",
            rich_help_panel=_DATA,
        ),
    ] = False,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The public list of attributes; no others are published. Never make it from the data.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    survey: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file made by dimly survey: gives distances, weight and numbers of people and attributes, unless "
            "stated here.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    n_users: Annotated[
        int | None,
        typer.Option(
            help="Number of people. Verdicts on neighbors and segments need it, and delta is compared with it.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    n_groups: Annotated[
        int | None,
        typer.Option(help="For segments: about how many groups there are; 6 by default.", rich_help_panel=_DATA),
    ] = None,
    weight: Annotated[
        float | None, typer.Option(help="About how many attributes a person has, if known.", rich_help_panel=_DATA)
    ] = None,
    resolution: Annotated[
        int, typer.Option(help="1 for bits; R for values from 0 to 1 in steps of 1/R.", rich_help_panel=_DATA)
    ] = 1,
    sample: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A table of people whose data is public. Plans are tried out on them, and no distances need to be "
            "stated.",
            rich_help_panel=_SAMPLE,
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column of people's ids in the sample.", rich_help_panel=_SAMPLE),
    ] = None,
    attribute: AttributeColumn = None,
    value: ValueColumn = None,
    attribute_list: ListColumn = None,
    columns: Columns = None,
    all_columns: AllColumns = False,
    table: Table = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    directions_out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where to write directions, if they are best; by default beside the plan, under its name.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
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
    verbose: Annotated[
        bool,
        typer.Option(
            "-v",
            "--verbose",
            help="Also show all mechanisms, why this one was chosen, and all limits of the promise.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Make a plan: what will be published and what it promises. It looks at no private data.

    Finds the mechanism and k that are best for a purpose, and says what they will be good for: by theory, from what is
    stated, or with --sample by trying everything out on public people. With --mechanism and --k, or with --directions,
    makes that plan. A plan is public, and its noise is proven to keep the promise. Its digest is what a privacy officer
    signs.

    $ dimly plan --epsilon 1 --n-attributes 100000 --distance 100:800 -o plan.json
    $ dimly plan --epsilon 0.2 --sample public.parquet --user person --attribute place --purpose segments -o plan.json
    """
    if sample is None:
        without_linear_algebra()
    from dimly.mechanisms.group_privacy import budget_for_each
    from dimly.planner import Brief

    if interactive:
        from dimly.cli.commands.plan_interactive import GivenOptions

        told = _answers(epsilon, GivenOptions(n_users, vocabulary, n_attributes, weight, distance, output, overwrite))
        epsilon, purpose, n_users, n_attributes = told.epsilon, told.purpose, told.n_users, told.n_attributes
        vocabulary, weight, distance, output = told.vocabulary, told.weight, told.distance, told.output
    budget = _budget(epsilon, delta)
    _check_kept([output, directions_out], (sample, vocabulary, survey, directions), overwrite=overwrite)
    fixed = FixedMechanism(
        directions=_read_directions(directions), k=k, rule=rule, blocks=blocks, blend=blend, dtype=dtype
    )
    mechanism = mechanism or (None if fixed.directions is None else "directions+laplace")
    brief = Brief(
        budget_for_each(budget, protect),
        purpose=purpose,
        n_attributes=n_attributes,
        n_users=n_users,
        distance=_ends(distance),
        weight=weight,
        values="bits" if resolution == 1 else "unit",
        mechanisms=None if mechanism is None else [mechanism],
        max_bytes_per_user=max_bytes_per_user,
        vocabulary=_read_vocabulary(vocabulary),
        numbered=numbered,
        n_groups=n_groups,
        resolution=resolution,
        unit=unit,
        protect=protect,
        seed=seed,
        survey=_read_survey(survey),
    )
    if total:
        brief = _less_spent(brief, fixed.directions, quiet=as_json)
        if sample is not None or fixed.k is not None or fixed.directions is not None:
            # The survey says nothing beside these but what it cost.
            brief = replace(brief, survey=None)
    reading: dict[str, Any] = {
        "user": user,
        "attribute": attribute,
        "attributes": attribute_list,
        "columns": chosen_columns(columns, all_columns=all_columns),
        "value": value,
        "table": table,
        "delimiter": delimiter,
        "encoding": encoding,
    }
    written = PlanOutput(path=output, overwrite=overwrite, force=force, as_json=as_json, verbose=verbose)
    if sample is not None:
        from dimly.cli.commands.plan_sample import plan_by_sample
        from dimly.curator.options import Options

        beside = _said(scales=scales is not None, numbered=numbered)
        plan_by_sample(brief, sample, Options(**reading), written, directions_out, refused=[*beside, *_changed(fixed)])
        return
    of_sample = _said(**{name: one is not None for name, one in (reading | {"directions_out": directions_out}).items()})
    _refuse(of_sample, "must be given together with --sample FILE.")
    if numbered and (n_attributes is None or vocabulary is not None):
        raise ParameterError("numbered must be given with --n-attributes, and without --vocabulary.")
    choosing = [*_said(scales=scales is not None), *(name for name in _changed(brief) if name in _CHOOSING)]
    if mechanism is not None:
        _announce(mechanism, brief)
    if mechanism is not None and _is_whole(mechanism, fixed, choosing):
        _refuse(choosing, "must be left out where mechanism and k, or directions, are given: nothing is chosen then.")
        plan_by_name(mechanism, brief, fixed, written)
        return
    _check_free(fixed)
    if scales is not None:
        plan_by_scales(brief, numbers_between("scales", scales, ","), written)
    else:
        plan_by_advice(brief, written)


def _answers(epsilon: float | None, given: "GivenOptions") -> "PlanAnswers":
    """Ask in plain words, and say how to do the same without questions."""
    from dimly.cli.commands.plan_interactive import ask

    if epsilon is not None:
        raise ParameterError("--interactive asks for epsilon. Leave --epsilon out, or --interactive.")
    told = ask(given)
    typer.echo(f"The same without questions: {told.command}", err=True)
    return told


def _budget(epsilon: float | None, delta: float) -> "Budget":
    from dimly.privacy import Budget

    if epsilon is None:
        raise ParameterError("epsilon must be given, got none. Add --epsilon 1, or --interactive to be asked.")
    return Budget(epsilon, delta)


def _less_spent(brief: "Brief", directions: "Directions | None", *, quiet: bool) -> "Brief":
    """Return the brief with what is left of its budget, and say how much that is unless ``quiet``."""
    from dimly.planner.survey_facts import less_spent

    left = less_spent(brief, directions)
    if quiet:
        return left
    whole, rest = (f"epsilon = {one.budget.epsilon:g}, delta = {one.budget.delta:g}" for one in (brief, left))
    of = "" if brief.protect == 1 else f" for each {brief.unit}"
    typer.echo(f"Of {whole}{of} the survey leaves {rest}, which this plan is made for.", err=True)
    return left


def _is_whole(mechanism: str, fixed: FixedMechanism, choosing: list[str]) -> bool:
    """Return whether the command line says all of the plan, so that there is nothing to choose.

    Without a sketch there is no k to find; but whoever states distances wants to know what it is good for.
    """
    from dimly.mechanisms.make import sketching

    return fixed.k is not None or fixed.directions is not None or (sketching(mechanism) is None and not choosing)


def _check_free(fixed: FixedMechanism) -> None:
    """Refuse what would fix a part of what is chosen. 16 bits are what is chosen from anyway."""
    if fixed.k is not None:
        raise ParameterError(
            f"k must be given together with mechanism, got k = {fixed.k} alone. Add --mechanism NAME, or leave --k "
            "out: both are chosen then."
        )
    said = [name for name in _changed(fixed) if name != "dtype" or fixed.dtype != "int16"]
    _refuse(said, "must be given together with mechanism and k. Without them it is chosen.")


def _changed(record: "Brief | FixedMechanism") -> list[str]:
    """Return the names of what is not as it is by default."""
    return [one.name for one in fields(record) if getattr(record, one.name) != one.default]


def _said(**given: bool) -> list[str]:
    return [name for name, was_given in given.items() if was_given]


def _refuse(names: Iterable[str], why: str) -> None:
    for name in names:
        raise ParameterError(f"{name} {why}")


def _announce(mechanism: str, brief: "Brief") -> None:
    """Say what takes long: where rows differ in norm, all of them are drawn to find the longest."""
    from dimly.mechanisms.make import SKETCHING, Sketching, is_open

    size = len(brief.listed) if brief.listed is not None else brief.n_attributes or 0
    if mechanism not in SKETCHING or is_open(mechanism) or size < _MANY_ROWS:
        return
    family = Sketching.of(mechanism).family
    typer.echo(f"Drawing {size:,} rows of {family} to find the longest; this may take minutes.", err=True)


def _ends(distance: str | None) -> float | tuple[float, float] | None:
    """Return what --distance says: that of far pairs, or those of near and of far ones."""
    if distance is None:
        return None
    ends = numbers_between("distance", distance, ":")
    return ends[0] if len(ends) == 1 else ends  # type: ignore[return-value]  # the planner refuses three


def _read_directions(path: Path | None) -> "Directions | None":
    if path is None:
        return None
    from dimly.release.documents.directions_file import read_directions

    return read_directions(path)


def _read_vocabulary(path: Path | None) -> "Vocabulary | None":
    if path is None:
        return None
    from dimly.curator.tables.public_lists import read_vocabulary

    return read_vocabulary(path)


def _read_survey(path: Path | None) -> "Survey | None":
    if path is None:
        return None
    from dimly.release.documents.survey_file import read_survey

    return read_survey(path)


def _check_kept(outputs: list[Path | None], inputs: Any, *, overwrite: bool) -> None:
    """Refuse to replace what the plan is made from."""
    for path in outputs:
        if path is not None and overwrite:
            check_output(path, overwrite=True, inputs=inputs)
