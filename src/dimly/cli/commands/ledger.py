"""``dimly ledger init|show|enter|export|forgive|confirm``: what may be spent, and what has been."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dimly.cli.options import AsCsv, AsJson, Debug, ReleaseFolder, check_one_output
from dimly.cli.terminal import print_csv, print_fields, print_json, print_lines, print_table, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dimly.curator.ledger.ledger import ChargeRecord, DatasetStatus


ledger = typer.Typer(rich_markup_mode="rich", invoke_without_command=True)
_METHODS = {"sum": "all charges added up", "renyi": "by a Rényi filter"}
_HEADER = ("charge", "kind", "state", "epsilon", "delta", "recipient", "people", "reserved", "plan", "release")
_SHORT = 12
"""Digits of a digest that people compare; --json and export give all of them."""

_File = Annotated[Path, typer.Argument(metavar="FILE", help="The ledger.", show_default=False)]


@ledger.callback()
def _ledger(context: typer.Context) -> None:
    """Keep count of what all releases of a dataset spend together, whoever got them.

    A release that would exceed the budget is refused before any data is read.

    $ dimly ledger init ledger.db --dataset visits --epsilon 4
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


@ledger.command()
def init(
    file: _File,
    *,
    dataset: Annotated[str, typer.Option(metavar="NAME", help="What the budget is for.", show_default=False)],
    epsilon: Annotated[float, typer.Option(help="All releases together may cost this much.", show_default=False)],
    delta: Annotated[float, typer.Option(help="And this much delta; 0 allows only releases with delta 0.")] = 0.0,
    unit: Annotated[
        Literal["attribute", "column"], typer.Option(help="What is protected; cannot be changed later.")
    ] = "attribute",
    method: Annotated[
        Literal["sum", "renyi"] | None,
        typer.Option(help="How costs are added up; cannot be changed later. By default sum if delta is 0, else renyi."),
    ] = None,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Make a ledger with a dataset and its budget, or add a dataset to one.

    The budget is for all releases of the dataset together, whoever gets them, and cannot be changed later.

    $ dimly ledger init ledger.db --dataset visits --epsilon 4
    """
    from dimly.curator.ledger.ledger import DatasetBudget, Ledger

    DatasetBudget.of(dataset, epsilon=epsilon, delta=delta, unit=unit, method=method)  # what cannot be makes no file
    book = Ledger.create(file)
    book.add_dataset(dataset, epsilon=epsilon, delta=delta, unit=unit, method=method)
    _print_status(file, [book.status(dataset)], as_json=as_json)


@ledger.command()
def show(
    file: _File,
    *,
    dataset: Annotated[str | None, typer.Option(metavar="NAME", help="Only this dataset.")] = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Show what was spent, for what, and what is left.

    A charge counts from the moment it is reserved until it is given back or forgiven.

    $ dimly ledger show ledger.db
    """
    from dimly.curator.ledger.ledger import Ledger

    check_one_output(as_json=as_json, as_csv=as_csv)
    book = Ledger(file)
    names = book.datasets() if dataset is None else [dataset]
    if as_csv:
        rows = [(name, *_row(charge)) for name in names for charge in book.status(name).charges]
        print_csv(["dataset", *_HEADER], rows)
        return
    _print_status(file, [book.status(name) for name in names], as_json=as_json)


@ledger.command()
def enter(
    file: _File,
    release: ReleaseFolder,
    *,
    dataset: Annotated[str, typer.Option(metavar="NAME", help="What it is a release of.", show_default=False)],
    recipient: Annotated[str | None, typer.Option(metavar="TEXT", help="Who got it; kept in the ledger.")] = None,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Charge a release that was published without this ledger.

    Its cost is already spent, so it counts even beyond the budget. Each release is entered once; enter earlier ones of
    the same people, too. Later, dimly publish --append and --update refuse it.

    $ dimly ledger enter ledger.db release --dataset visits
    """
    from dimly.curator.ledger.ledger import Ledger

    book = Ledger(file)
    entered = book.enter(dataset, release, recipient=recipient)
    status = book.status(dataset)
    if _is_over(status):
        warn(f"dataset {dataset!r} is over its budget. Nothing more can be published for it.")
    if not as_json:
        print_lines([f"entered: charge {entered.id}", ""])
    _print_status(file, [status], as_json=as_json)


@ledger.command()
def export(file: _File, *, as_json: AsJson = False, _debug: Debug = False) -> None:
    """Print the whole ledger as JSON, for the records: everything but its secret key and its people.

    With --json it is one line.

    $ dimly ledger export ledger.db > ledger.json
    """
    from dimly.curator.ledger.ledger import Ledger

    print_json(Ledger(file).export(), indent=None if as_json else 2)


@ledger.command()
def forgive(
    file: _File,
    charge: Annotated[int, typer.Argument(metavar="CHARGE", help="The charge's number.", show_default=False)],
    *,
    reason: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="How you know that nobody saw any noise; kept in the ledger.", show_default=False
        ),
    ],
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Even if its process may be alive, or noise was drawn. Make sure that nobody read what it staged.",
        ),
    ] = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Cancel the charge of a run that was killed before it drew noise.

    Once noise was drawn, somebody may have read the numbers, so the charge stays. --force cancels it on your word
    that nobody did. The charge and the reason stay in the ledger.

    $ dimly ledger forgive ledger.db 3 --reason "killed while it sorted"
    """
    from dimly.curator.ledger.ledger import Ledger

    Ledger(file).forgive(charge, reason=reason, force=force)
    if as_json:
        print_json({"ledger": str(file), "forgiven": charge, "reason": reason})
    else:
        print_lines([f"forgiven: charge {charge}"])


@ledger.command()
def confirm(
    file: _File,
    charge: Annotated[int, typer.Argument(metavar="CHARGE", help="The charge's number.", show_default=False)],
    *,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Record that the release of a charge was published, if publishing could not record it.

    Needed only if dimly publish says so, for example because the ledger's disk was full.

    $ dimly ledger confirm ledger.db 3
    """
    from dimly.curator.ledger.ledger import Ledger

    Ledger(file).confirm(charge)
    if as_json:
        print_json({"ledger": str(file), "confirmed": charge})
    else:
        print_lines([f"visible: charge {charge}"])


def _print_status(file: Path, datasets: "Sequence[DatasetStatus]", *, as_json: bool) -> None:
    if as_json:
        print_json({"ledger": str(file), "datasets": [status.to_dict() for status in datasets]})
        return
    for number, status in enumerate(datasets):
        if number:
            print_lines([""])
        print_fields(
            {
                "dataset": status.name,
                "budget": f"epsilon = {status.epsilon:g}, delta = {status.delta:g} for any one {status.unit}",
                "spent": f"epsilon = {status.spent.epsilon:.6g}, delta = {status.spent.delta:.6g} "
                f"({_METHODS[status.spent.method if status.charges else status.method]})",
                "left": _left(status),
            }
        )
        if status.charges:
            print_lines([""])
            print_table(_HEADER, [_row(charge) for charge in status.charges], numbers=["charge", "epsilon", "people"])
            print_lines(f"charge {charge.id}: {charge.reason}" for charge in status.charges if charge.reason)
            print_lines(_together(charge) for charge in status.charges if charge.cost and charge.cost.together > 1)


def _is_over(status: "DatasetStatus") -> bool:
    """Return whether more was spent than the budget allows, as only releases that were entered can."""
    return status.spent.epsilon > status.epsilon or status.spent.delta > status.delta


def _left(status: "DatasetStatus") -> str:
    if status.left:
        return f"one release of epsilon = {status.left:.12g}, delta = 0"
    return "nothing: the budget is exceeded" if _is_over(status) else "nothing"


def _together(charge: "ChargeRecord") -> str:
    from dimly.mechanisms.group_privacy import budget_together
    from dimly.mechanisms.guarantee import odds_together

    cost = charge.cost
    assert cost is not None  # noqa: S101 - as the caller saw
    words = odds_together(budget_together(cost.claim, cost.together))
    return f"charge {charge.id}: any {cost.together} {cost.unit}s of one person together: {words}"


def _row(charge: "ChargeRecord") -> tuple[object, ...]:
    return (
        charge.id,
        charge.kind or "",
        charge.label,
        "0" if charge.cost is None else f"{charge.cost.epsilon:g}",
        "" if charge.cost is None else f"{charge.cost.delta:g}",
        charge.recipient or "",
        "" if charge.n_users is None else f"{charge.n_users:,}",
        charge.reserved_at,
        charge.plan_digest[:_SHORT],
        (charge.release_id or "")[:_SHORT],
    )
