"""docs/cli.md, made from the commands themselves: ``python -m dimly.cli.reference > docs/cli.md``."""

import re
from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command

from dimly.cli.app import application

_HEAD = """\
# The command line

Every command, with every option. This page is made from the commands themselves by
`python -m dimly.cli.reference > docs/cli.md`, and a test compares the two.

- **stdout** has the answer: text for people, or with `--json` exactly one JSON object. After an error it is empty.
- **stderr** has everything else: progress, if it is a terminal; lines `warning: …`; one line `error: …`.
- **Exit codes**: 0 done; 1 the job failed; 2 a bad call; 130 stopped by Ctrl-C and 143 by SIGTERM, after cleaning up;
  141 the reader of stdout has left.
- **Private data.** No message quotes cells of a private table, not even with `--debug`. An `internal error: …` is a
  fault of Dimly's, and names only a line of code. Errors do name files and columns. If a CSV file has no header, its
  first row is taken for the names of columns.
- **A run that stops.** That it stopped, and why, depends on the table, and no promise covers it. Exact private figures
  are shown only on request: `--private-diagnostics` prints them on stderr, `--diagnose FILE` writes them to a new file.

What a release folder holds: [release format](release-format.md). How charges are counted: [ledger](ledger.md).
"""


def reference() -> str:
    """Return the page: every command and option with its help."""
    return _HEAD + "".join(_section(path, command) for path, command in commands() if path != "dimly")


def commands() -> Iterator[tuple[str, Any]]:
    """Yield all commands with their full names, groups before what is in them."""
    waiting: list[tuple[str, Any]] = [("dimly", get_command(application()))]
    while waiting:
        path, command = waiting.pop(0)
        waiting[:0] = [(f"{path} {name}", inner) for name, inner in getattr(command, "commands", {}).items()]
        yield path, command


def _section(path: str, command: Any) -> str:
    *purpose, example = command.help.split("\n\n")
    purpose = [_marked(paragraph) for paragraph in purpose]
    text = "\n\n".join([f"\n## {path}", *purpose, f"```sh\n{example}\n```"]) + "\n"
    context = typer.Context(command)
    options = [param for param in command.params if param.name != "help"]
    # A panel's options may stand apart in the signature, where those without a default come first.
    panels = dict.fromkeys(_panel(option) for option in options)
    for panel in panels:
        text += f"\n**{panel}**\n\n" + "".join(_item(option, context) for option in options if _panel(option) == panel)
    return text


def _marked(text: str) -> str:
    """Return the text with its options as code, which keeps their hyphens together."""
    return re.sub(r"(?<![\w-])(?:dimly \w+ )?--[a-z](?:[a-z-]*[a-z])?", r"`\g<0>`", text)


def _panel(option: Any) -> str:
    return option.rich_help_panel or "Arguments and options"


def _item(option: Any, context: typer.Context) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts]) if option.param_type_name == "option" else ""
    kind = "" if getattr(option, "is_flag", False) else option.metavar or option.display_type(context).strip("<>")
    default = "" if option.default is None or option.default is False else f" Default: {option.default}."
    required = " Required." if option.required else ""
    return f"- `{f'{names} {kind}'.strip()}`: {_marked(option.help)}{required}{default}\n"


if __name__ == "__main__":
    print(reference(), end="")
