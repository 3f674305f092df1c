"""The commands explain themselves, and the page about them is theirs."""

import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import wrap
from typing import Any

import pytest
from tests.cli.lines import refusal, run

import dimly
from dimly.cli.reference import commands, reference

ROOT = Path(__file__).parents[2]
HEAVY = ("numpy", "scipy", "numba", "pyarrow", "duckdb", "flint", "pandas", "polars", "cryptography", "sqlite3")
COMMANDS = dict(commands())


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from dimly.cli import main\n"
        "sys.argv = ['dimly', 'publish', '--help']\n"
        "try:\n    main()\n"
        f"except SystemExit as leave:\n    print(leave.code, [m for m in {HEAVY} if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.splitlines()[-1] == "0 []"


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_the_front_door_shows_all_commands(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 0
    for name in ("plan", "publish", "ledger", "distance", "neighbors", "segments", "inspect", "verify"):
        assert name in result.stdout


def test_the_ledger_alone_shows_its_commands() -> None:
    result = run("ledger")
    assert result.exit_code == 0
    for name in ("init", "show", "export", "forgive"):
        assert name in result.stdout


def test_version() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"dimly {dimly.__version__}\n")


def test_python_m_dimly_is_dimly() -> None:
    done = subprocess.run([sys.executable, "-m", "dimly", "plan"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: --epsilon must be given, got none. Add --epsilon 1, or --interactive to be asked.\n"


def test_bad_calls_are_one_line() -> None:
    assert refusal("plam") == "error: No such command 'plam'. Did you mean 'plan'? See dimly --help."
    assert refusal("plan", "--epsilom", "1").startswith("error: No such option: --epsilom")
    assert "'--epsilon'" in refusal("plan", "--epsilon", "much")
    assert "is not one of 'attribute', 'column'" in refusal("plan", "--epsilon", "1", "--unit", "row")


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_says_its_purpose_and_shows_an_example(path: str) -> None:
    command = COMMANDS[path]
    purpose, more, example = command.help.split("\n\n")
    assert purpose.endswith(".")
    assert more.endswith(".")
    for line in example.splitlines():
        words = shlex.split(line.removeprefix("$ ").partition(" > ")[0])
        name = max((known for known in COMMANDS if words[: len(known.split())] == known.split()), key=len)
        assert path == "dimly" or name.startswith(path)
        COMMANDS[name].make_context(name, words[len(name.split()) :])  # it parses


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_has_help(path: str) -> None:
    command: Any = COMMANDS[path]
    for param in command.params:
        assert param.help, f"{path} {param.name} has no help"
        assert param.help.endswith("."), f"{path} {param.name}: {param.help}"
    if not hasattr(command, "commands"):
        names = [name for param in command.params for name in param.opts]
        assert {"--json", "--debug"} <= set(names)
        assert len(set(names)) == len(names)


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == reference(), "run: python -m dimly.cli.reference > docs/cli.md"
    for path in COMMANDS:
        assert path == "dimly" or f"\n## {path}\n" in page


@pytest.mark.parametrize("path", ["dimly", "dimly plan", "dimly ledger", "dimly ledger forgive"])
def test_paragraphs_of_help_fill_the_terminal_and_flags_have_no_type(path: str) -> None:
    shown = run(*path.split()[1:], "-h").stdout
    _, more, _ = COMMANDS[path].help.split("\n\n")
    assert wrap(more, 198) == [
        line for line in map(str.strip, shown.splitlines()) if line and line in " ".join(more.split())
    ]
    assert "<bool>" not in shown
