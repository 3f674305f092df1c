"""``dimly audit``: of a plan, or of a table's whole way to a release; certificate."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dimly.cli import options as shared
from dimly.cli.options import AsJson, Debug, one_or_all, options_of
from dimly.cli.terminal import ProgressBar, people, print_fields, print_json
from dimly.errors import ParameterError
from dimly.files import read_text

if TYPE_CHECKING:
    from dimly.audit.plan_audit import Audit
    from dimly.curator.options import Options
    from dimly.mechanisms import Directions, Plan


@shared.with_groups
def audit(
    plan: Annotated[
        Path,
        typer.Argument(
            metavar="PLAN", help="The plan, made by dimly plan, or a release made by it.", show_default=False
        ),
    ],
    *,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough",
            help="512 times as many draws: about an hour. Ctrl-C prints what was found so far. Not with --data.",
        ),
    ] = False,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA",
            help="Audit the whole path from these files instead: invented people are added, published and thrown away.",
            rich_help_panel=shared.SHAPE,
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="With --data: the column of people's ids.", rich_help_panel=shared.SHAPE),
    ] = None,
    attribute: shared.AttributeColumn = None,
    value: shared.ValueColumn = None,
    vocabulary: shared.Vocabulary = None,
    directions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The public directions that the plan was made with.", rich_help_panel=shared.PUBLIC
        ),
    ] = None,
    table: shared.Table = None,
    reading: shared.ReadingOptions,
    engine: Annotated[
        Literal["local", "spark"],
        typer.Option(help="With --data: this machine alone, or a Spark cluster.", rich_help_panel=shared.ENGINE),
    ] = "local",
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="With --engine spark: the cluster.", rich_help_panel=shared.ENGINE),
    ] = None,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Attack a plan: guess attributes from what it publishes, and bound its epsilon from below.

    Runs the real perturbing function on the worst cases of the plan. With --data, adds invented people to the table,
    publishes only these, and removes the result. Nothing is charged. The bound holds with a confidence of 99.9999 %.
    Exits with 1 if it exceeds the claim. See docs/audit.md.

    $ dimly audit plan.json
    $ dimly audit release
    $ dimly audit plan.json --data visits.csv --user person --attribute place
    """
    read, own_directions = _plan_at(plan)
    if data is None:
        stray = {"user": user, "attribute": attribute, "value": value, "table": table}
        for name, given in (stray | _said(reading)).items():
            if given is not None:
                option = f"--{name.replace('_', '-')}"
                raise ParameterError(f"data must be given where {option} is, got none. Add --data FILE.")
        if engine == "spark":
            raise ParameterError("data must be given with --engine spark, got none. Add --data FILE.")
    elif user is None or attribute is None:
        raise ParameterError(
            "user and --attribute must name columns of the data. Add --user COLUMN --attribute COLUMN."
        )
    elif thorough:
        raise ParameterError("thorough must be left out with --data, which publishes once.")
    if master is not None and engine != "spark":
        raise ParameterError(f"master must come with --engine spark, got {master!r} alone. Add --engine spark.")
    with ProgressBar(amount=people if data else draws_text) as progress:
        options = options_of(
            reading,
            user=user,
            attribute=attribute,
            value=value,
            vocabulary=vocabulary,
            directions=own_directions if directions is None else directions,
            table=table,
            progress=progress,
        )
        found = (
            audit_of_plan(read, options, thorough=thorough)
            if data is None
            else _of_table(data, read, options, engine=engine, master=master)
        )
    if as_json:
        print_json(found.to_dict())
    else:
        print_fields(audit_fields(found))
    if found.contradicts:
        raise typer.Exit(1)


def _plan_at(path: Path) -> "tuple[Plan, Directions | None]":
    """Read a plan from its file; or from a release, which says by which plan it was made, with its directions."""
    if path.is_dir() or path.name == "manifest.json":
        from dimly.release.reader import open_folder

        held = open_folder(path if path.is_dir() else path.parent)
        return held.plan, held.directions
    from dimly.mechanisms import Plan

    return Plan.from_json(read_text("plan", path, hint="Make one with dimly plan.")), None


def _said(reading: shared.ReadingOptions) -> dict[str, Any]:
    """Return what was said about files, which a plan alone has not: all but the number of threads."""
    usual = asdict(shared.ReadingOptions())
    return {name: given for name, given in asdict(reading).items() if given != usual[name] and name != "threads"}


def draws_text(count: float) -> str:
    """Return a number of draws for people."""
    return f"{count:,.0f} draws"


def audit_fields(found: "Audit") -> dict[str, str]:
    """Return what an audit found, for people."""
    fields = {"epsilon": found.verdict}
    if found.delta_words is not None:
        fields["delta"] = found.delta_words
    fields |= {check.name: check.words for check in found.checks}
    if found.stopped_early:
        fields["stopped early"] = "the figures are of what was drawn until then, and hold as well"
    return fields | {
        "confidence": f"{100 * found.confidence:.6g} %, in {found.trials:,} trials",
        "not proven": "that epsilon is not larger: other attacks may see more, and other machines may run other code",
    }


def audit_of_plan(plan: "Plan", options: "Options", *, thorough: bool) -> "Audit":
    """Audit a plan with the public lists that options name."""
    from dimly.audit.plan_audit import audit_plan
    from dimly.curator.tables.public_lists import plan_along, vocabulary_for

    plan = plan_along(plan, options)
    listed = vocabulary_for(plan, options) if options.vocabulary is not None else None
    return audit_plan(plan, vocabulary=listed, thorough=thorough, threads=options.threads, progress=options.progress)


def _of_table(data: list[str], plan: "Plan", options: "Options", *, engine: str, master: str | None) -> "Audit":
    from dimly.audit.table_audit import audit_table

    if engine == "local":
        return audit_table(one_or_all(data), plan, options)
    from dimly.cli.commands.publish import publish_by_spark

    def publishing(files: list[str], of: "Plan", chosen: "Options") -> Any:
        return publish_by_spark(files, of, master, chosen)

    return audit_table(one_or_all(data), plan, options, publishing=publishing)
