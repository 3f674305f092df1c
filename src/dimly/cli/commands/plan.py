"""``dimly plan``: the best plan for a purpose, or one from explicit choices."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dimly.cli.options import (
    AllColumns,
    AsJson,
    AttributeColumn,
    Columns,
    Debug,
    Delimiter,
    Encoding,
    ListColumn,
    Table,
    ValueColumn,
    chosen_columns,
    numbers_between,
    plan_facts,
    plan_fields,
    promise,
    size_in_bytes,
)
from dimly.cli.terminal import print_fields, print_json, print_lines, print_table, size_text, warn
from dimly.errors import ParameterError
from dimly.files import check_output, write_text

if TYPE_CHECKING:
    from dimly.mechanisms import Directions, Plan, Vocabulary
    from dimly.planner import Advice, Candidate, Scales
    from dimly.privacy import Budget
    from dimly.release.survey import Survey


def show_advice(
    found: "Advice",
    output: Path | None,
    *,
    overwrite: bool,
    force: bool,
    as_json: bool,
    together: dict[str, Any],
) -> None:
    """Write the plan, and say what it will be good for."""
    if output is not None:
        if found.verdict == "not feasible" and not force:
            raise ParameterError(f"output must not be given for a plan that is not feasible. {_more(found)}")
        write_text(output, found.plan.to_json(), overwrite=overwrite)
    for text in found.doubts:
        warn(text)
    if as_json:
        print_json(_advice_facts(found) | together | {"path": None if output is None else str(output)})
        return
    _print_candidates(found)
    typer.echo()
    written = {} if output is None else {"plan": str(output), "digest": found.plan.digest}
    print_fields(_advice_fields(found) | written)
    print_lines(["", *_together_words(together), *found.meaning, *promise(found.plan)[2:]])


def _print_candidates(found: "Advice") -> None:
    asked = found.question
    header = ["mechanism", "k", f"at {asked.low:g}", f"at {asked.high:g}", "near first", "size", "promise"]
    what = "Predicted standard errors of squared distances, and how often a near pair ranks before a far one"
    rows = [_row(one, found) for one in found.candidates]
    if asked.purpose != "distances":
        what += f"; blur is what {asked.purpose} see of the errors once denoised"
        header.append("blur")
        rows = [[*row, _number(one.blur)] for row, one in zip(rows, found.candidates, strict=True)]
    print_lines([f"{what}:", ""])
    print_table(header, rows, numbers=[*header[1:6], "blur"])


def _advice_fields(found: "Advice") -> dict[str, str]:
    from dimly.planner.advice import reasons_of

    asked, chosen = found.question, found.chosen
    fields = {
        "choice": chosen.mechanism + (f", k = {chosen.k:,}" if chosen.k else ""),
        "because": found.reason,
        "verdict": found.words,
        "by": _clearness(found) if found.verdict != "unknown" else "",
    }
    if found.measured:
        fields["measured"] = "; ".join(found.measured)
    if found.assumed:
        fields["assumed"] = "; ".join(found.assumed)
    closed = found.plan.vocabulary
    if closed is not None and closed.sha256 is None:
        fields["attributes"] = (
            f"0 to {closed.size - 1:,}, by number: all others are left out. If yours have names, give their public "
            "list (--vocabulary)"
        )
    for rule in found.paper:
        fields[f"paper, by {rule.criterion}"] = (
            f"k = {rule.k:,} for gaussian+gaussian, with an error of {_number(rule.stderr)} at {asked.high:g} "
            f"(delta = {rule.delta:g})"
        )
    if found.left_out:
        fields["left out"] = reasons_of(found.left_out)
    return {name: text for name, text in fields.items() if text}


def show_scales(found: "Scales", output: Path | None, *, overwrite: bool, force: bool, as_json: bool) -> None:
    """Write a plan for each scale, and say how they compare with one sketch."""
    if output is not None and found.verdict == "not feasible" and not force:
        raise ParameterError(
            "output must not be given for plans that are not feasible: together they cannot tell the scales apart. "
            "Use a larger epsilon, one sketch, or --force."
        )
    paths = [
        None if output is None else output.with_stem(f"{output.stem}-{scale.distance:g}") for scale in found.scales
    ]
    for path in paths:
        if path is not None:
            check_output(path, overwrite=overwrite)
    for path, plan in zip(paths, found.plans, strict=True):
        if path is not None:
            write_text(path, plan.to_json(), overwrite=overwrite)
    for text in found.doubts:
        warn(text)
    rows: list[dict[str, Any]] = [
        {
            "distance": scale.distance,
            "mechanism": scale.plan.mechanism,
            "k": scale.plan.k,
            "epsilon": scale.plan.cost.epsilon,
            "delta": scale.plan.cost.delta,
            "stderr_alone": scale.alone,
            "stderr_together": scale.together,
            "stderr_one": scale.one,
            "digest": scale.plan.digest,
            "path": None if path is None else str(path),
        }
        for scale, path in zip(found.scales, paths, strict=True)
    ]
    if as_json:
        print_json(
            {
                "scales": rows,
                "one": _advice_facts(found.one),
                "worth_it": found.worth_it,
                "words": found.words,
                "verdict": found.verdict,
                "meaning": list(found.meaning),
                "warnings": list(found.doubts),
            }
        )
        return
    header = ["at", "mechanism", "k", "epsilon", "alone", "together", "one sketch"]
    cells = [
        (
            f"{row['distance']:g}",
            row["mechanism"],
            row["k"] or "",
            f"{row['epsilon']:.3g}",
            *(_number(row[name]) for name in ("stderr_alone", "stderr_together", "stderr_one")),
        )
        for row in rows
    ]
    print_table(header, cells, numbers=[name for name in header if name != "mechanism"])
    one = found.one.chosen
    fields = {
        "one sketch": one.mechanism + (f", k = {one.k:,}" if one.k else ""),
        "comparison": found.words,
        "verdict": found.judgment,
    }
    for scale, path in zip(found.scales, paths, strict=True):
        if path is not None:
            fields[f"plan for {scale.distance:g}"] = f"{path}, digest {scale.plan.digest}"
    typer.echo()
    print_fields(fields)
    print_lines(["", "All of them together:", *found.meaning])


def _advice_facts(found: "Advice") -> dict[str, Any]:
    asked, least = found.question, found.needed
    return {
        "mechanism": found.chosen.mechanism,
        "k": found.chosen.k,
        "stderr": found.stderr,
        "candidates": [_facts(one) for one in found.candidates],
        "verdict": found.verdict,
        "figure": found.figure,
        "unstated": list(found.unstated),
        "assumed": list(found.assumed),
        "measured": list(found.measured),
        "stated": asked.stated,
        "clarity": found.clarity,
        "share_found": found.share_found,
        "weight": asked.weight,
        "digest": found.plan.digest,
        "plan": found.plan.model_dump(mode="json", exclude_none=True),
        "purpose": asked.purpose,
        "distance": [asked.low, asked.high],
        "epsilon": found.plan.cost.epsilon,
        "delta": found.plan.cost.delta,
        "unit": found.plan.unit,
        "bytes_per_user": found.plan.bytes_per_user,
        "reason": found.reason,
        "words": found.words,
        "smallest_epsilon": {"coarse": least.coarse, "good": least.good},
        "paper": [rule._asdict() for rule in found.paper],
        "left_out": dict(found.left_out),
        "meaning": list(found.meaning),
        "warnings": list(found.doubts),
    }


def _facts(one: "Candidate") -> dict[str, Any]:
    return {
        "mechanism": one.mechanism,
        "k": one.k,
        "stderr_low": one.stderr_low,
        "stderr_high": one.stderr_high,
        "near_before_far": one.probability,
        "bytes_per_user": one.bytes_per_user,
        "pure": one.pure,
        "blur": one.blur,
        "own_group": one.own_group,
        "closeness": one.closeness,
        "agreement": one.agreement,
    }


def _row(one: "Candidate", found: "Advice") -> list[str]:
    budget = found.question.budget
    return [
        one.mechanism,
        f"{one.k:,}" if one.k else "",
        _number(one.stderr_low),
        _number(one.stderr_high),
        f"{one.probability:.1%}",
        size_text(one.bytes_per_user),
        "pure" if one.pure else f"({budget.epsilon:g}, {budget.delta:g})",
    ]


def _more(found: "Advice") -> str:
    least = found.needed
    if found.unstated:
        return "Use a larger epsilon, or --force."
    if least.coarse is None:
        return "No epsilon up to 32 would do. Add --force to write it all the same."
    return f"Use an epsilon of at least {least.coarse:g}, or --force."


def _clearness(found: "Advice") -> str:
    """Return the figure that the verdict goes by, beside the thresholds."""
    from dimly.planner.judge import COARSE, GOOD

    purpose = found.question.purpose
    good, coarse = GOOD[purpose], COARSE[purpose]
    most = "at most " if found.unstated and found.question.stated == "both" else ""
    if purpose == "neighbors":
        return (
            f"those found are {most}{found.figure:.0%} of the way from random people to the nearest; good from "
            f"{good:.0%}, coarse from {coarse:.0%}"
        )
    if purpose == "segments":
        return (
            f"segments agree with the groups by {most}{found.figure:.2f} (adjusted Rand index: 1 is the same, 0 is "
            f"chance); good from {good:g}, coarse from {coarse:g}"
        )
    return f"a near pair ranks before a far one with {found.figure:.1%}; good from {good:.0%}, coarse from {coarse:.0%}"


def _number(error: float) -> str:
    return f"{error:,.0f}" if error >= 100 else f"{error:.3g}"


_PROMISE, _PURPOSE, _DATA = "What is promised", "What it is for", "What the data are"
_MANY_ROWS = 1_000_000  # some seconds
_SAMPLE = "Trying it out on public people"
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
    protect: Annotated[
        int,
        typer.Option(
            metavar="M",
            help="Keep epsilon and delta for any M attributes of a person together, by group privacy.",
            rich_help_panel=_PROMISE,
        ),
    ] = 1,
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
            help="Squared distances of near and of far pairs (of neighbors and of anybody; within a group and between "
            "two); one number is that of far ones. By default what --weight allows.",
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
            help="Counting only, from 0 to 1: how far sums are trusted; less for near pairs of heavy people.",
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
            help="Attributes are the numbers from 0 to --n-attributes minus 1; a closed list may leave out all others.",
            rich_help_panel=_DATA,
        ),
    ] = False,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Closes the vocabulary to this public list; never the attributes found in the data.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    survey: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Made by dimly survey: distances, weight and numbers of people and attributes, where not stated here.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    n_users: Annotated[
        int | None,
        typer.Option(
            help="Number of people: delta is compared with it, and verdicts on neighbors and segments go by it.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    n_groups: Annotated[
        int | None,
        typer.Option(help="For segments: how many groups there are, about; 6 by default.", rich_help_panel=_DATA),
    ] = None,
    weight: Annotated[
        float | None, typer.Option(help="Attributes of a person, about, if known.", rich_help_panel=_DATA)
    ] = None,
    resolution: Annotated[
        int, typer.Option(help="1 for bits; R for values from 0 to 1 in steps of 1/R.", rich_help_panel=_DATA)
    ] = 1,
    sample: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="People whose data is public, as dimly publish takes tables: everything is tried out on them, and no "
            "distances need to be stated.",
            rich_help_panel=_SAMPLE,
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Of the sample: the column of people's ids.", rich_help_panel=_SAMPLE),
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
            help="Where directions are written, if they are best; by default beside the plan, by its name.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
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
    """Make a plan: what will be published and what it promises. Looks at no data but a public sample.

    Finds the mechanism and k that are best for a purpose, and says what they will be good for: by theory, from what is
    stated, or with --sample by trying everything out on public people. With --mechanism and --k, or with --directions,
    makes that plan. A plan is public, and its noise is proven to keep the promise. Its digest is what a privacy officer
    signs.

    $ dimly plan --epsilon 1 --n-attributes 100000 --distance 100:800 -o plan.json
    $ dimly plan --epsilon 0.2 --sample public.parquet --user person --attribute place --purpose segments -o plan.json
    """
    from dimly.mechanisms.make import NOISY_DISTANCES, is_open
    from dimly.planner.protect import budget_for_each
    from dimly.privacy import Budget

    _check_kept([output, directions_out], (sample, vocabulary, survey, directions), overwrite=overwrite)
    budget = budget_for_each(Budget(epsilon, delta), protect)
    of_sample = {
        "user": user,
        "attribute": attribute,
        "value": value,
        "attributes": attribute_list,
        "columns": chosen_columns(columns, all_columns=all_columns),
        "table": table,
        "delimiter": delimiter,
        "encoding": encoding,
    }
    if sample is not None:
        from dimly.cli.commands.plan_sample import plan_by_sample

        clash = {
            "distance": distance,
            "survey": survey,
            "protect": None if protect == 1 else protect,
            "weight": weight,
            "scales": scales,
            "n_attributes": n_attributes,
            "numbered": numbered or None,
            "directions": directions,
            "k": k,
            "rule": None if rule == "exact" else rule,
            "blocks": None if blocks == 1 else blocks,
            "blend": blend,
            "dtype": dtype,
        }
        in_place = "must be left out where a sample is given: everything is tried out on the sample instead."
        _refuse({name: one is not None for name, one in clash.items()}, in_place)
        plan_by_sample(
            budget,
            sample,
            output,
            directions_out,
            reading=of_sample,
            asked={
                "purpose": purpose,
                "n_users": n_users,
                "n_groups": n_groups,
                "mechanisms": mechanism and [mechanism],
                "max_bytes_per_user": max_bytes_per_user,
                "vocabulary": vocabulary and _listed(vocabulary),
                "resolution": resolution,
                "unit": unit,
                "seed": seed,
            },
            overwrite=overwrite,
            force=force,
            as_json=as_json,
        )
        return
    without = {name: text is not None for name, text in of_sample.items()}
    _refuse(without | {"directions_out": directions_out is not None}, "must be given together with --sample FILE.")
    along = _read_along(directions)
    mechanism = mechanism or (None if along is None else "directions+laplace")
    if numbered and (n_attributes is None or vocabulary is not None):
        raise ParameterError("numbered must be given with --n-attributes, and without --vocabulary.")
    listed = None if vocabulary is None else _listed(vocabulary)
    choosing = {
        "distance": distance is not None,
        "scales": scales is not None,
        "max_bytes_per_user": max_bytes_per_user is not None,
        "weight": weight is not None,
        "purpose": purpose != "distances",
        "n_groups": n_groups is not None,
        "survey": survey is not None,
    }
    if mechanism is not None and (listed is not None or n_attributes is not None):
        _announce(mechanism, n_attributes if listed is None else len(listed))
    # Without a sketch there is no k to find; whoever states distances wants to know what it is good for.
    if mechanism is not None and _is_given(mechanism, k, along, choosing):
        _refuse(choosing, "must be left out where mechanism and k, or directions, are given: nothing is chosen then.")
        from dimly.mechanisms import Plan

        made = Plan.of(
            mechanism,
            budget,
            k=k,
            blocks=blocks,
            n_attributes=n_attributes if numbered or along or not is_open(mechanism) else None,  # closed on request
            vocabulary=listed,
            n_users=n_users if mechanism == NOISY_DISTANCES else None,  # of others, δ is compared with it
            resolution=resolution,
            unit=unit,
            rule=rule,
            dtype=dtype,
            seed=seed,
            blend=blend,
            directions=along,
        )
        _doubt(made, budget, n_users)
        together = _together(protect, unit, epsilon, delta)
        _show_made(made, output, overwrite=overwrite, as_json=as_json, together=together)
        return
    if k is not None:
        raise ParameterError(f"k must be given together with mechanism, got k = {k} alone. Without both it is chosen.")
    given = {
        "rule": rule != "exact",
        "blocks": blocks != 1,
        "blend": blend is not None,
        "dtype": dtype not in (None, "int16"),
    }
    _refuse(given, "must be given together with mechanism and k. Without them it is chosen.")
    arguments: dict[str, Any] = {
        "n_attributes": n_attributes,
        "vocabulary": listed,
        "numbered": numbered,
        "n_groups": n_groups,
        "n_users": n_users,
        "weight": weight,
        "values": "bits" if resolution == 1 else "unit",
        "resolution": resolution,
        "unit": unit,
        "mechanisms": None if mechanism is None else [mechanism],
        "max_bytes_per_user": max_bytes_per_user,
    }
    if scales is not None:
        if distance is not None or purpose != "distances" or seed is not None or survey is not None:
            raise ParameterError(
                "scales must be given without distance, purpose, survey and seed: each is a distance of its own."
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
    found = advise(budget, purpose=purpose, seed=seed, survey=_surveyed(survey), **arguments)
    together = _together(protect, unit, epsilon, delta)
    show_advice(found, output, overwrite=overwrite, force=force, as_json=as_json, together=together)


def _doubt(made: "Plan", budget: "Budget", n_users: int | None) -> None:
    if n_users is None:
        return
    from dimly.mechanisms.make import MAX_USERS, as_integer
    from dimly.planner.judge import doubts

    for text in doubts(budget, as_integer("n_users", n_users, 2, MAX_USERS), made):
        warn(text)


def _announce(mechanism: str, n_attributes: int | None) -> None:
    """Say what takes long: where rows differ in norm, all of them are drawn to find the longest."""
    from dimly.mechanisms.make import SKETCHING, Sketching, is_open

    if mechanism not in SKETCHING or is_open(mechanism) or (n_attributes or 0) < _MANY_ROWS:
        return
    family = Sketching.of(mechanism).family
    typer.echo(f"Drawing {n_attributes:,} rows of {family} to find the longest; this may take minutes.", err=True)


def _read_along(path: Path | None) -> "Directions | None":
    if path is None:
        return None
    from dimly.release.directions import read_directions

    return read_directions(path)


def _together(protect: int, unit: str, epsilon: float, delta: float) -> dict[str, Any]:
    """Return what is promised for several attributes together, ready for JSON; nothing for one."""
    told = {"count": protect, "unit": unit, "epsilon": epsilon, "delta": delta}
    return {} if protect == 1 else {"together": told}


def _together_words(together: dict[str, Any]) -> list[str]:
    if not together:
        return []
    told = together["together"]
    text = (
        f"Any {told['count']} {told['unit']}s of one person together: their odds change by at most a factor of "
        f"e^{told['epsilon']:g} (epsilon = {told['epsilon']:g}, delta = {told['delta']:g}). The verdict and the "
        "smallest epsilon that would do are about one of them, as are the plan, the ledger and the release:"
    )
    return [text]


def _surveyed(path: Path | None) -> "Survey | None":
    if path is None:
        return None
    from dimly.release.survey import read_survey

    return read_survey(path)


def _is_given(mechanism: str, k: int | None, along: "Directions | None", choosing: dict[str, bool]) -> bool:
    """Return whether the command line says all of the plan, so that there is nothing to choose."""
    from dimly.mechanisms.make import sketching

    return k is not None or along is not None or (sketching(mechanism) is None and not any(choosing.values()))


def _check_kept(outputs: list[Path | None], inputs: Any, *, overwrite: bool) -> None:
    """Refuse to replace what the plan is made from."""
    for path in outputs:
        if path is not None and overwrite:
            check_output(path, overwrite=True, inputs=inputs)


def _refuse(given: dict[str, bool], why: str) -> None:
    for name, was_given in given.items():
        if was_given:
            raise ParameterError(f"{name} {why}")


def _show_made(made: "Plan", output: Path | None, *, overwrite: bool, as_json: bool, together: dict[str, Any]) -> None:
    if output is not None:
        write_text(output, made.to_json(), overwrite=overwrite)
    if as_json:
        path = None if output is None else str(output)
        print_json(
            {"plan": made.model_dump(mode="json", exclude_none=True), "digest": made.digest}
            | plan_facts(made)
            | _along_facts(made)
            | together
            | {"path": path}
        )
        return
    if output is None:
        typer.echo(made.to_json(), nl=False)
    err = output is None  # stdout is the plan itself
    fields = {"plan": str(output)} if output is not None else {}
    print_fields(fields | {"digest": made.digest} | plan_fields(made) | _along_fields(made), err=err)
    print_lines(["", *_together_words(together), *promise(made)], err=err)


def _along_facts(made: "Plan") -> dict[str, Any]:
    """Return what can be said of directions without a sample: how much noise there is, and no verdict."""
    from dimly.mechanisms.plan_kinds import DirectionsPlan

    if not isinstance(made, DirectionsPlan):
        return {}
    return {
        "origin": made.matrix.origin,
        "noise_stderr": made.error.noise.variance**0.5,
        "moved_by_one": made.directions.l1 / made.directions.scale,
        "verdict": "unknown",
    }


def _along_fields(made: "Plan") -> dict[str, str]:
    facts = _along_facts(made)
    if not facts:
        return {}
    return {
        "origin": facts["origin"],
        "noise": f"standard deviation {facts['noise_stderr']:.3g} on each number; one {made.unit} moves all of "
        f"them together by at most {facts['moved_by_one']:.3g}",
        "verdict": "Unknown: what these directions show depends on the people. Volunteers who are public can tell: "
        "dimly plan --sample FILE.",
    }


def _listed(path: Path) -> "Vocabulary":
    from dimly.curator.tables.public_lists import read_vocabulary

    return read_vocabulary(path)
