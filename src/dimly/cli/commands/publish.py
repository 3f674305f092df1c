"""``dimly publish``: options to one record, here or on Spark; audit before, cost and facts after."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dimly.cli import options as shared
from dimly.cli.faults import account
from dimly.cli.options import (
    AsJson,
    Debug,
    check_master,
    files_on_spark,
    one_or_all,
    options_of,
    without_linear_algebra,
)
from dimly.cli.terminal import ProgressBar, print_fields, print_json, print_lines, size_text, warn
from dimly.errors import DimlyError, ParameterError
from dimly.files import read_text

if TYPE_CHECKING:
    from dimly.audit.plan_audit import Audit
    from dimly.curator.options import Options
    from dimly.curator.publication import PublishOutcome
    from dimly.mechanisms import Plan
    from dimly.privacy import Cost


_FOUND = "those found in the table; a dry run tells their number only if a roster makes it public"


@shared.with_groups
def publish(
    data: shared.Data,
    *,
    plan: Annotated[Path, typer.Option(metavar="FILE", help="The plan, made by dimly plan.", show_default=False)],
    user: shared.UserColumn,
    out: Annotated[
        # No Path: one would lose a slash of an address.
        str | None, typer.Option("-o", "--out", metavar="DIR", help="The release folder to make; not with --append.")
    ] = None,
    shape: shared.ShapeOptions,
    roster: shared.Roster = None,
    vocabulary: shared.Vocabulary = None,
    directions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The public directions that the plan was made with; they become part of the release.",
            rich_help_panel=shared.PUBLIC,
        ),
    ] = None,
    volunteers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The people whose public data the plan was made from: refused if any of them is to be published.",
            rich_help_panel=shared.PUBLIC,
        ),
    ] = None,
    except_volunteers: Annotated[
        bool,
        typer.Option(
            "--except-volunteers",
            help="Publish volunteers, too; the promise then says that it does not hold for them.",
            rich_help_panel=shared.PUBLIC,
        ),
    ] = False,
    pseudonyms: Annotated[
        Path | None,
        typer.Option(
            metavar="KEYFILE",
            help="Replace ids by a keyed hash; the file holds 32 secret bytes or more.",
            rich_help_panel=shared.PUBLIC,
        ),
    ] = None,
    charging: shared.LedgerOptions,
    append: Annotated[
        Path | None,
        typer.Option(
            metavar="RELEASE",
            help="Add people who are not in this release yet, and replace it; costs nothing more. Needs the ledger.",
            rich_help_panel=shared.LEDGER,
        ),
    ] = None,
    update: Annotated[
        Path | None,
        typer.Option(
            metavar="RELEASE",
            help="Make a new release from this one, in which people who changed are published again and charged.",
            rich_help_panel=shared.LEDGER,
        ),
    ] = None,
    about: shared.AboutOptions,
    table: shared.Table = None,
    query: shared.Query = None,
    where: shared.Where = None,
    reading: shared.ReadingOptions,
    engine: shared.Engine = "local",
    master: shared.Master = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace an existing release; charges the full price again.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check everything and show the cost, and with a roster the size; nothing is charged.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = False,
    audit: Annotated[
        bool,
        typer.Option(
            "--audit",
            help="Attack the plan first, and put a certificate beside the release: DIR.audit.json. Takes seconds.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = False,
    diagnose: shared.Diagnose = None,
    private_diagnostics: Annotated[
        bool,
        typer.Option(
            "--private-diagnostics",
            help="Print private figures, such as rows read, on stderr: NOT covered by the promise. Do not pass them "
            "on.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Publish a table of people by a plan: a folder of noisy sketches that you can hand over.

    The folder appears complete or not at all. With a ledger, the charge comes first, and comes back only if the run
    fails before any noise is drawn.

    $ dimly publish visits.parquet --plan plan.json --user person --attribute place --out release
    """
    if engine == "local" and not audit:
        without_linear_algebra()
    from dimly.curator.publication import publish_table
    from dimly.mechanisms import Plan

    if out is None and append is None and not dry_run:
        raise ParameterError("out must be a folder to make, got none. Add --out DIR, or --dry-run to check only.")
    check_master(engine, master)
    if private_diagnostics and engine == "spark":
        raise ParameterError("private-diagnostics must be left out with --engine spark, whose own pages count rows.")
    read = Plan.from_json(read_text("plan", plan, hint="Make one with dimly plan."))
    certificate = _certificate_path(out, append, overwrite=overwrite, dry_run=dry_run) if audit else None
    with ProgressBar() as progress:
        options = options_of(
            shape,
            reading,
            charging,
            about,
            user=user,
            roster=roster,
            vocabulary=vocabulary,
            directions=directions,
            volunteers=volunteers,
            except_volunteers=except_volunteers,
            pseudonyms=pseudonyms,
            out=out,
            append=append,
            update=update,
            table=table,
            query=query,
            where=where,
            diagnose=diagnose,
            overwrite=overwrite,
            dry_run=dry_run,
            progress=progress,
        )
        audited = None if certificate is None else _audit_first(read, options)
        if engine == "spark":
            published = publish_by_spark(data, read, master, options)
        else:
            published = publish_table(one_or_all(data), read, options)
    with account(_done_text(published)):
        facts, fields = _facts(published), _fields(published)
        if certificate is not None and audited is not None:
            _certify(audited, published, certificate)
            facts["certificate"] = str(certificate)
            fields["audit"] = audited.verdict
            fields["certificate"] = str(certificate)
        for text in published.warnings:
            warn(text)
        if private_diagnostics:
            print_lines(["private, not covered by the promise, not to be passed on:"], err=True)
            print_fields(published.diagnostics, err=True)
        if as_json:
            print_json(facts)
        else:
            print_fields(fields)
            print_lines(["", _next_text(published)])


def _next_text(published: "PublishOutcome") -> str:
    if published.path is None:
        return "Next: the same without --dry-run, and with --out DIR if it is not there yet."
    return f"Next: dimly report {shlex.quote(str(published.path))} --out report.html"


def _certificate_path(out: str | None, append: Path | None, *, overwrite: bool, dry_run: bool) -> Path:
    """Return where the certificate will lie; refuse now what could not be written then."""
    from dimly.audit.certificate import certificate_path
    from dimly.files import check_output

    if dry_run or (out is None and append is None):
        raise ParameterError("audit must be left out of a dry run. Run dimly audit PLAN.")
    if out is not None and "://" in out:
        raise ParameterError("audit must be left out where the release ends elsewhere. Run dimly audit PLAN.")
    path = certificate_path(Path(out) if append is None and out is not None else Path(str(append)))
    check_output(path, overwrite=overwrite or append is not None)
    return path


def _audit_first(plan: "Plan", options: "Options") -> "Audit":
    """Attack the plan before anything is charged; refuse to publish by one whose claim is false."""
    from dimly.cli.commands.audit import audit_of_plan

    found = audit_of_plan(plan, options, thorough=False)
    if found.contradicts:
        raise DimlyError(f"nothing was published: the audit of the plan says {found.verdict}. Run dimly audit PLAN.")
    return found


def _certify(audited: "Audit", published: "PublishOutcome", path: Path) -> None:
    from dimly.audit.certificate import Certificate
    from dimly.files import write_text

    made = Certificate.of(audited, release=published.release_id or "", plan_digest=published.plan_digest)
    write_text(path, made.to_json(), overwrite=True)


def publish_by_spark(data: list[str], plan: "Plan", master: str | None, options: "Options") -> "PublishOutcome":
    """Publish files on a Spark cluster."""
    from dimly.spark.publishing import publish_frame

    with files_on_spark(data, options, master) as (source, rest):
        return publish_frame(source, plan, rest)


def _done_text(published: "PublishOutcome") -> str | None:
    if published.path is None:
        return None
    charge = (published.ledger or {}).get("charge")
    recorded = "" if charge is None else f", and charge {charge} recorded"
    return f"{published.path} is published{recorded}: only what came after it failed."


def _facts(published: "PublishOutcome") -> dict[str, Any]:
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


def _fields(published: "PublishOutcome") -> dict[str, str]:
    fields = {
        "release": "none: a dry run" if published.path is None else str(published.path),
        "id": published.release_id or "",
        "people": _FOUND if published.n_users is None else f"{published.n_users:,}",
        "numbers": "" if published.bytes is None else f"{size_text(published.bytes)}, less on disk",
        "cost": _cost_text(published.cost),
        "plan digest": published.plan_digest,
        "ledger": "none",
    }
    if published.ledger is not None:
        fields["ledger"] = ", ".join(f"{name} {value}" for name, value in published.ledger.items() if value is not None)
    return {name: text for name, text in fields.items() if text}
