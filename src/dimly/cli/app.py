"""The Typer application: its commands, ``--version``, how help looks."""

import sys
from collections.abc import Sequence
from inspect import cleandoc
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import dimly
from dimly.cli import faults
from dimly.cli.commands.attack import attack
from dimly.cli.commands.audit import audit
from dimly.cli.commands.compare import compare
from dimly.cli.commands.demo import demo
from dimly.cli.commands.directions import directions
from dimly.cli.commands.distance import distance
from dimly.cli.commands.export import export
from dimly.cli.commands.figure import figure
from dimly.cli.commands.inspect import inspect
from dimly.cli.commands.ledger import ledger
from dimly.cli.commands.neighbors import neighbors
from dimly.cli.commands.plan import plan
from dimly.cli.commands.publish import publish
from dimly.cli.commands.report import report
from dimly.cli.commands.segments import segments
from dimly.cli.commands.simulate import simulate
from dimly.cli.commands.studio import studio
from dimly.cli.commands.survey import survey
from dimly.cli.commands.verify import verify
from dimly.cli.options import asks_for_debug
from dimly.cli.terminal import show_own_warnings
from dimly.errors import ParameterError


def option_names(group: Any, arguments: Sequence[str]) -> dict[str, str]:
    """Return the options of the command that a line calls, by what Python calls them: ``{"out": "--out"}``."""
    found = group
    for argument in arguments:
        inside = getattr(found, "commands", {}).get(argument)
        found = found if inside is None else inside
    names: dict[str, str] = {}
    for one in found.params:
        if one.name is not None and one.opts[0].startswith("-"):  # the first long form is the one that we write
            names[one.name] = next((form for form in one.opts if form.startswith("--")), one.opts[0])
        elif one.name == "data":
            names["source"] = "DATA"  # what publishing calls the table
    if "out" in names:
        names.setdefault("output", names["out"])  # what files are called where they are checked
    return names


HELP_OPTIONS = ["-h", "--help"]


def _tidy_help(command: Any) -> None:
    """Let paragraphs of a command's help fill the terminal, and show flags without a type: they take no value."""
    paragraphs = cleandoc(command.help).split("\n\n")
    command.help = "\n\n".join(text if text.startswith("$ ") else text.replace("\n", " ") for text in paragraphs)
    asking = command.get_help_option(typer.Context(command, help_option_names=HELP_OPTIONS))
    for option in [*command.params, asking]:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    for inner in getattr(command, "commands", {}).values():
        _tidy_help(inner)


class FrontDoor(TyperGroup):
    """The group of all commands; its ``main`` turns whatever goes wrong into one line and an exit code."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> NoReturn:
        """Run a command line and exit; ``python -m dimly`` is called dimly too."""
        arguments = list(sys.argv[1:] if args is None else args)
        if args is None:  # a shell that asks what could come next
            self._main_shell_completion({}, "dimly", "_DIMLY_COMPLETE")
        if len(arguments) < 2 or not set(HELP_OPTIONS).isdisjoint(arguments):  # help may be shown
            _tidy_help(self)
        meta: dict[str, Any] = {}

        def command() -> None:
            nonlocal meta
            for argument in arguments:  # Python keeps bytes that are no UTF-8 as halves of characters
                if any("\ud800" <= letter <= "\udfff" for letter in argument):
                    raise ParameterError(f"arguments must be text in UTF-8, got {argument!r}. Rename what it names.")
            with show_own_warnings(), self.make_context("dimly", arguments) as context:
                meta = context.meta
                self.invoke(context)

        known = option_names(self, arguments)
        sys.exit(faults.run(command, debug=lambda: asks_for_debug(meta), last=args is None, options=known))


app = typer.Typer(
    cls=FrontDoor,
    context_settings={"help_option_names": HELP_OPTIONS},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"dimly {dimly.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _front_door(
    context: typer.Context,
    *,
    _version: Annotated[
        bool, typer.Option("-V", "--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """See how far apart people are, without seeing who they are.

    A curator makes a plan, publishes a table of people by it, and gives the release folder away.
    An analyst estimates distances from it, and finds neighbors and segments. A ledger counts what has been spent.

    $ dimly plan --epsilon 1 --distance 100:800 -o plan.json
    $ dimly publish visits.parquet --plan plan.json --user person --attribute place --out release
    $ dimly verify release
    $ dimly neighbors release --user ada
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


app.command(rich_help_panel="Curator")(plan)
app.command(rich_help_panel="Curator")(survey)
app.add_typer(directions, name="directions", rich_help_panel="Curator")
app.command(rich_help_panel="Curator")(publish)
app.add_typer(ledger, name="ledger", rich_help_panel="Curator")
app.command(rich_help_panel="Analyst")(distance)
app.command(rich_help_panel="Analyst")(neighbors)
app.command(rich_help_panel="Analyst")(segments)
app.command(rich_help_panel="Analyst")(export)
app.command(rich_help_panel="Anyone")(inspect)
app.command(rich_help_panel="Anyone")(verify)
app.command(rich_help_panel="Anyone")(audit)
app.command(rich_help_panel="Anyone")(studio)
app.command(rich_help_panel="Lab")(demo)
app.command(rich_help_panel="Lab")(simulate)
app.command(rich_help_panel="Lab")(compare)
app.command(rich_help_panel="Lab")(figure)
app.command(rich_help_panel="Lab")(attack)
app.command(rich_help_panel="Lab")(report)
