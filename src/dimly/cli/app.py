"""The Typer application: its commands, ``--version``, how help looks."""

import importlib
import sys
from collections.abc import Sequence
from functools import cache
from inspect import cleandoc
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

import dimly
from dimly.cli import faults
from dimly.cli.options import asks_for_debug
from dimly.cli.terminal import show_own_warnings
from dimly.errors import ParameterError

COMMANDS: Final = {
    "Curator": ("plan", "survey", "directions", "publish", "ledger"),
    "Analyst": ("distance", "neighbors", "segments", "export", "report"),
    "Anyone": ("inspect", "verify", "audit", "studio"),
    "Lab": ("demo", "simulate", "compare", "figure", "attack"),
}
"""What there is, by the panel of the help that lists it. A command is a function, or a group of them, in the file of
its name in ``commands``."""


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
        elif one.name is not None:
            names[one.name] = one.metavar or one.name.upper()
    for table in ("data", "sample", "volunteers"):  # what reading a table calls the source
        if table in names:
            names.setdefault("source", names[table])
    if "out" in names:
        names.setdefault("output", names["out"])  # what files are called where they are checked
    return names


def check_once(group: Any, arguments: Sequence[str]) -> None:
    """Refuse an option with one value that is given twice, or whose value is the next option.

    Of two the last would count, and the others without a word.

    Raises
    ------
    ParameterError
    """
    found, rest = group, list(arguments)
    for place, argument in enumerate(arguments):
        inside = getattr(found, "commands", {}).get(argument)
        if inside is not None:
            found, rest = inside, list(arguments[place + 1 :])
    if found is group:
        return
    try:
        values, _, given = found.make_parser(typer.Context(found, help_option_names=HELP_OPTIONS)).parse_args(rest)
    except typer.TyperException:  # which the command itself says
        return
    for one in given:
        if one.param_type_name == "option" and not (one.multiple or one.is_flag) and given.count(one) > 1:
            together = " Separate several by commas." if "," in (one.metavar or "") else " Leave one of them out."
            raise ParameterError(f"{one.name} must be given once, got it {given.count(one)} times.{together}")
    options = {form for one in found.params for form in one.opts if form.startswith("--")}
    for one in given:
        value = values.get(one.name)
        if one.param_type_name == "option" and isinstance(value, str) and value in options:
            remedy = f"Write {one.opts[0]} {one.metavar or 'VALUE'}."
            raise ParameterError(f"{one.name} must be followed by a value, got {value}. {remedy}")


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
            check_once(self, arguments)
            with show_own_warnings(), self.make_context("dimly", arguments) as context:
                meta = context.meta
                self.invoke(context)

        known = option_names(self, arguments)
        sys.exit(faults.run(command, debug=lambda: asks_for_debug(meta), last=args is None, options=known))


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Return the application as a command line needs it: with the command that it calls, or with all.

    Importing all commands and parsing their options takes longer than most of them do. All are there for a line that
    begins with no command: one for help, one with a misspelled name, or a shell that completes.
    """
    called = arguments[0] if arguments else ""
    return application(called) if any(called in names for names in COMMANDS.values()) else application()


@cache
def application(only: str | None = None) -> typer.Typer:
    """Return the application with all commands, or with one of them only."""
    app = typer.Typer(
        cls=FrontDoor,
        context_settings={"help_option_names": HELP_OPTIONS},
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        pretty_exceptions_show_locals=False,
    )
    app.callback(invoke_without_command=True)(_front_door)
    for panel, names in COMMANDS.items():
        for name in names if only is None else {only} & set(names):
            command = getattr(importlib.import_module(f"dimly.cli.commands.{name}"), name)
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=name, rich_help_panel=panel)
            else:
                app.command(rich_help_panel=panel)(command)
    return app


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"dimly {dimly.__version__}")
        raise typer.Exit


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
