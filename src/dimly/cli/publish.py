"""``dimly publish``: a table of people becomes a release folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dimly.cli.files import read_text
from dimly.cli.options import AsJson, Debug, names_between_commas, size_in_bytes
from dimly.cli.output import print_fields, print_json, print_lines, size_text, warn
from dimly.cli.progress import ProgressBar
from dimly.errors import ParameterError

if TYPE_CHECKING:
    from dimly.curator.publishing_tables import Published
    from dimly.mechanisms import Plan
    from dimly.privacy import Cost

_SHAPE = "What the table looks like"
_PUBLIC = "Public lists"
_LEDGER = "Ledger"
_READING = "Reading"
_ENGINE = "Engine"
_OUTPUT = "Output"


def publish(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA",
            help="Files, globs or folders of Parquet, CSV or JSON lines, or one DuckDB or SQLite file.",
            show_default=False,
        ),
    ],
    *,
    plan: Annotated[Path, typer.Option(metavar="FILE", help="The plan, made by dimly plan.", show_default=False)],
    user: Annotated[str, typer.Option(metavar="COLUMN", help="The column of people's ids.", show_default=False)],
    out: Annotated[
        # No Path: one would lose a slash of an address.
        str | None, typer.Option(metavar="DIR", help="The release folder to make; not with --append.")
    ] = None,
    attribute: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="One attribute a row: the column that names it.", rich_help_panel=_SHAPE),
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="With --attribute: its value from 0 to 1; else 1.", rich_help_panel=_SHAPE),
    ] = None,
    attribute_list: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="A list of attributes a row: that column.", rich_help_panel=_SHAPE),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="C1,C2,...",
            help="One attribute a column: these columns. Text becomes column=value, if the plan's unit is column.",
            rich_help_panel=_SHAPE,
            parser=names_between_commas,
        ),
    ] = None,
    all_columns: Annotated[
        bool,
        typer.Option("--all-columns", help="One attribute a column: all but the user's.", rich_help_panel=_SHAPE),
    ] = False,
    roster: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The public list of people: each gets a row, nobody else does. Without it: those in the data.",
            rich_help_panel=_PUBLIC,
        ),
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The public list of attributes that the plan was made with; others are left out.",
            rich_help_panel=_PUBLIC,
        ),
    ] = None,
    pseudonyms: Annotated[
        Path | None,
        typer.Option(
            metavar="KEYFILE",
            help="Replace ids by a keyed hash; the file holds 32 secret bytes or more.",
            rich_help_panel=_PUBLIC,
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Charge this ledger, made by dimly ledger init.", rich_help_panel=_LEDGER),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="The dataset in the ledger.", rich_help_panel=_LEDGER)
    ] = None,
    recipient: Annotated[
        str | None,
        typer.Option(
            metavar="WHO", help="Noted in the ledger; all recipients count together.", rich_help_panel=_LEDGER
        ),
    ] = None,
    append: Annotated[
        Path | None,
        typer.Option(
            metavar="RELEASE",
            help="Add people who are not in this release yet, in its place; costs nothing more. Needs the ledger.",
            rich_help_panel=_LEDGER,
        ),
    ] = None,
    update: Annotated[
        Path | None,
        typer.Option(
            metavar="RELEASE",
            help="Some people of this release changed: a new release, where they are published anew and charged.",
            rich_help_panel=_LEDGER,
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="TABLE", help="The table of a database file.", rich_help_panel=_READING)
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="SQL", help="A query of a database file.", rich_help_panel=_READING)
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            metavar="CHAR", help="CSV: what separates fields; found out by default.", rich_help_panel=_READING
        ),
    ] = None,
    quote: Annotated[
        str | None,
        typer.Option(metavar="CHAR", help="CSV: what quotes a field; found out by default.", rich_help_panel=_READING),
    ] = None,
    escape: Annotated[
        str | None,
        typer.Option(
            metavar="CHAR",
            help="CSV: what escapes a quote, itself or a backslash; found out by default.",
            rich_help_panel=_READING,
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="CSV: the encoding; found out by default.", rich_help_panel=_READING),
    ] = None,
    nulls: Annotated[
        Literal["refuse", "drop"],
        typer.Option(help="Rows without a user or an attribute.", rich_help_panel=_READING),
    ] = "refuse",
    values: Annotated[
        Literal["refuse", "clamp"],
        typer.Option(help="Values below 0 or above 1.", rich_help_panel=_READING),
    ] = "refuse",
    memory: Annotated[
        int | None,
        typer.Option(
            metavar="SIZE",
            help="Most memory to use, such as 512MB or 1.5GiB; the rest is sorted on disk. 2GiB by default.",
            rich_help_panel=_ENGINE,
            parser=size_in_bytes,
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads; all cores by default.", rich_help_panel=_ENGINE)
    ] = None,
    temp: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where private data is spilled, not encrypted, while it is sorted; the system's by default.",
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    engine: Annotated[
        Literal["local", "spark"],
        typer.Option(help="This machine alone, or a Spark cluster (docs/scale.md).", rich_help_panel=_ENGINE),
    ] = "local",
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="With --engine spark: the cluster, such as yarn; this machine's cores by default.",
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace an existing release; a full new charge.", rich_help_panel=_OUTPUT),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check everything and say cost and size; no charge.", rich_help_panel=_OUTPUT),
    ] = False,
    private_diagnostics: Annotated[
        bool,
        typer.Option(
            "--private-diagnostics",
            help="Print rows read and the like on stderr: NOT covered by the promise, not to be passed on.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Publish a table of people by a plan: a folder of noisy sketches that may go out.

    The folder appears complete or not at all. With a ledger nothing appears uncharged.

    $ dimly publish visits.parquet --plan plan.json --user person --attribute place --out release
    """
    from dimly.mechanisms import Plan

    if out is None and append is None and not dry_run:
        raise ParameterError("out must be a folder to make, got none. Add --out DIR, or --dry-run to check only.")
    if columns and all_columns:
        raise ParameterError("columns must be given by --columns or by --all-columns, got both. Use one.")
    if master is not None and engine != "spark":
        raise ParameterError(f"master must come with --engine spark, got {master!r} alone. Add --engine spark.")
    if private_diagnostics and engine == "spark":
        raise ParameterError("private-diagnostics must be left out with --engine spark, whose own pages count rows.")
    read = Plan.from_json(read_text("plan", plan, hint="Make one with dimly plan."))
    with ProgressBar() as progress:
        publishing = _publish_by_spark if engine == "spark" else _publish_here
        published = publishing(
            data,
            read,
            master,
            user=user,
            attribute=attribute,
            attributes=attribute_list,
            columns="all" if all_columns else _flat(columns),
            value=value,
            roster=roster,
            vocabulary=vocabulary,
            pseudonyms=pseudonyms,
            out=out,
            ledger=ledger,
            dataset=dataset,
            recipient=recipient,
            append=append,
            update=update,
            table=table,
            query=query,
            delimiter=_character(delimiter),
            quote=quote,
            escape=escape,
            encoding=encoding,
            memory=memory,
            threads=threads,
            temp=temp,
            nulls=nulls,
            values=values,
            overwrite=overwrite,
            dry_run=dry_run,
            progress=progress,
        )
    for text in published.warnings:
        warn(text)
    if private_diagnostics:
        print_lines(["private, not covered by the promise, not to be passed on:"], err=True)
        print_fields(published.diagnostics, err=True)
    if as_json:
        print_json(_facts(published))
    else:
        print_fields(_fields(published))


def _publish_here(data: list[str], plan: "Plan", _: str | None, **options: Any) -> "Published":
    from dimly.api import publish_table

    return publish_table(data[0] if len(data) == 1 else data, plan, **options)


def _publish_by_spark(data: list[str], plan: "Plan", master: str | None, **options: Any) -> "Published":
    from dimly.curator.csv_dialect import CsvOptions
    from dimly.spark.files import read_files
    from dimly.spark.publishing import publish_frame
    from dimly.spark.sessions import running_session

    csv = CsvOptions(**{name: options.pop(name) for name in ("delimiter", "quote", "escape", "encoding")})
    with running_session(master=master, memory=options.pop("memory")) as session:
        return publish_frame(read_files(session, data, csv=csv), plan, **options)


def _flat(groups: Any) -> list[str] | None:
    """Return the names of all --columns; each was a list already."""
    return [name for group in groups for name in group] if groups else None


def _character(text: str | None) -> str | None:
    r"""Return a delimiter; a tab is hard to type, so that \t and tab mean it."""
    return "\t" if text in ("\\t", "tab") else text


def _facts(published: "Published") -> dict[str, Any]:
    return {
        "release": None if published.path is None else str(published.path),
        "users": published.n_users,
        "bytes": published.bytes,
        "epsilon": published.cost.epsilon if published.cost else 0.0,
        "delta": published.cost.delta if published.cost else 0.0,
        "plan_digest": published.plan_digest,
        "ledger": published.ledger,
    }


def _cost_text(cost: "Cost | None") -> str:
    return "nothing more" if cost is None else f"epsilon = {cost.epsilon:g}, delta = {cost.delta:g}"


def _fields(published: "Published") -> dict[str, str]:
    fields = {
        "release": "none: a dry run" if published.path is None else str(published.path),
        "id": published.release_id or "",
        "people": f"{published.n_users:,}",
        "numbers": f"{size_text(published.bytes)}, less on disk",
        "cost": _cost_text(published.cost),
        "plan digest": published.plan_digest,
        "ledger": "none",
    }
    if published.ledger is not None:
        fields["ledger"] = ", ".join(f"{name} {value}" for name, value in published.ledger.items())
    return {name: text for name, text in fields.items() if text}
