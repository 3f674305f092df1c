"""Odd values of every option, and of names in files: one line that can be shown anywhere, and an exit code."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from tests.cli.lines import refusal, run

from dimly.cli.app import application

ODD = (
    *("", "0", "-1", "nan", "inf", "1e308", "5e-324", "99999999999999999999", "x" * 5000, "a\nb", "--", "*", "2:1"),
    *("\x1b[31mred", "a\u202eb", "bad\udcff", "folder", "visits.parquet", "/dev/null", "/dev/full", "no/such/x"),
)
# Options that are refused or ignored before any long work, whatever their value; the long work has tests of its own.
CALLS: dict[str, list[str]] = {
    "plan": ["--epsilon", "1", "--mechanism", "counting+laplace", "--k", "8"],
    "publish": ["none.parquet", "--plan", "plan.json", "--user", "person", "--attribute", "place", "--dry-run"],
    "distance": ["none", "ada", "bob"],
    "neighbors": ["none", "--user", "ada"],
    "segments": ["none"],
    "export": ["none", "--out", "points.parquet"],
    "inspect": ["none"],
    "verify": ["none"],
    "report": ["none"],
    "audit": ["none.json"],
    "survey": ["none.parquet", "--epsilon", "1", "--user", "person", "--attribute", "place", "--roster", "people.txt"],
    "directions learn": ["none.parquet", "--user", "person", "--attribute", "place", "-o", "directions.parquet"],
    "directions make": ["none.csv", "-o", "directions.parquet"],
    "directions show": ["none.parquet"],
    "studio": ["none", "--sample", "none.csv"],  # two that are not there: it must never come to serve
    "ledger init": ["none.db"],
    "ledger show": ["none.db"],
    "ledger enter": ["none.db", "none", "--dataset", "visits"],
    "ledger export": ["none.db"],
    "ledger confirm": ["none.db", "1"],
    "ledger forgive": ["none.db", "1"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with a table, a plan and a folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    pq.write_table(pa.table({"person": ["ada", "bob"], "place": ["mill", "tea"]}), "visits.parquet")
    assert run("plan", *CALLS["plan"], "-o", "plan.json").exit_code == 0
    return tmp_path


def commands() -> dict[str, Any]:
    """Return all commands by name, those of groups with the group's."""
    top: Any = typer.main.get_command(application())
    found: dict[str, Any] = {}
    for name, command in top.commands.items():
        inner = getattr(command, "commands", None)
        found |= {f"{name} {one}": part for one, part in inner.items()} if inner else {name: command}
    return found


def check_lines(*arguments: str) -> None:
    """Check that a call ends well, or with one line that a terminal can show and that blames the caller or the job."""
    done = run(*arguments)
    assert done.exit_code in (0, 1, 2), (arguments, done.stderr)
    if done.exit_code:
        assert done.stderr.startswith("error: "), (arguments, done.stderr)
        assert done.stderr.count("\n") == 1, (arguments, done.stderr)
        assert done.stderr.removesuffix("\n").isprintable(), (arguments, done.stderr)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_odd_values_of_options(folder: Path, name: str) -> None:
    command, call = commands()[name], CALLS[name]
    for number, option in enumerate(command.params):
        if option.param_type_name != "option" or option.is_flag:
            continue
        long = max(option.opts, key=len)
        at = call.index(long) if long in call else len(call)
        for odd in ODD[number % 4 :: 4]:  # all of them in turns: each with each would take minutes
            check_lines(*name.split(), *call[:at], *call[at + 2 :], long, odd)
    for odd in ODD:
        check_lines(*name.split(), odd, *call[1:])


def test_every_command_has_a_call_or_a_reason() -> None:
    lab = {"attack", "demo", "simulate", "compare", "figure"}  # minutes of work for values that are odd and valid
    assert {name for name in commands() if name.split()[0] not in lab} == set(CALLS)


def test_names_in_files_cannot_move_the_cursor(folder: Path) -> None:
    pq.write_table(pa.table({"\x1b[2Jperson": ["ada"], "pl\x9bace": ["mill"]}), "odd.parquet")
    line = refusal("publish", "odd.parquet", "--plan", "plan.json", "--user", "x", "--attribute", "y", "--out", "out")
    assert "'\\x1b[2Jperson', 'pl\\x9bace'" in line
    odd = pa.table({"person": ["a\x1b[31mda", "bob"], "place": ["mill", "tea"]})
    pq.write_table(odd, "people.parquet")
    made = run("publish", "people.parquet", *CALLS["publish"][1:-1], "--out", "release")
    assert made.exit_code == 0, made.stderr
    shown = run("neighbors", "release", "--user", "bob", "-n", "1")
    assert "a\\x1b[31mda" in shown.stdout
    assert "\x1b" not in shown.stdout


def test_a_path_that_is_not_utf8_is_refused(folder: Path) -> None:
    bad = os.fsdecode(b"b\xffd")
    (folder / bad).mkdir()
    os.link("visits.parquet", f"{bad}/visits.parquet")
    for role, call in (
        ("arguments", ["publish", f"{bad}/visits.parquet", *CALLS["publish"][1:]]),
        ("arguments", ["inspect", bad]),
        ("arguments", ["ledger", "init", f"{bad}/ledger.db"]),
    ):
        assert f"{role} must be text in UTF-8, got" in refusal(*call)
    os.chdir(bad)  # then every path is such a one
    call = ["publish", "visits.parquet", "--plan", "../plan.json", "--user", "person", "--attribute", "place"]
    assert "must be a path in UTF-8" in refusal(*call, "--out", "release")
    assert "must be a path in UTF-8" in refusal("inspect", ".")


_EARLY = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "dimly.cli.app":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from dimly.cli import main
main()
"""


def test_ctrl_c_while_commands_are_imported_is_quiet() -> None:
    def ready() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever those who run the tests have ignored

    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", _EARLY, "--version"], capture_output=True, text=True, check=False, preexec_fn=ready
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
