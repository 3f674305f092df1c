"""Command lines run in this process, as in another one but for the start."""

import json
from functools import cache
from typing import Any

import typer
from typer import testing
from typer.testing import CliRunner, Result

from dimly.cli.app import app_for

# Commands are built anew for each line, which takes longer than most lines do. Nothing is kept in them.
testing._get_command = cache(typer.main.get_command)  # type: ignore[attr-defined]


def run(*arguments: object) -> Result:
    """Run a command line and return what it printed and its exit code."""
    line = [str(argument) for argument in arguments]
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app_for(line), line)


def answer(*arguments: object) -> Any:
    """Return the JSON object that a command prints, which must be all that it prints."""
    result = run(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, ""), result.stderr
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


def refusal(*arguments: object, code: int = 2) -> str:
    """Return the one line that a refused command prints, with nothing on stdout."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (code, ""), result.stdout
    assert result.stderr.endswith("\n")
    assert result.stderr.count("\n") == 1
    return result.stderr.removesuffix("\n")
