"""What goes wrong is told without a word of the private table: in errors and their chains, logs, warnings and files."""

import logging
import os
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.bad_input import CASES, GOOD, LONG, MARKS, Case
from tests.cli.lines import run
from tests.cli.test_publish_bad_input import command_line, ledger_at

from dimly.api import publish_table
from dimly.errors import DimlyError
from dimly.mechanisms import Plan

# A command line has to read its plan from a file; Python is given a plan, or none.
CALLS = {name: case for name, case in CASES.items() if isinstance(case.plan, Plan)}


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that it came from, also what Python would not print."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and one not in seen:
            seen.append(one)
            waiting += [one.__cause__, one.__context__]
            yield one


def check_quiet(*texts: str | bytes) -> None:
    for text in texts:
        for mark in MARKS:
            assert (mark.encode() if isinstance(text, bytes) else mark) not in text


def ledger_bytes(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.glob("ledger.db*")]


@pytest.mark.parametrize("case", CALLS.values(), ids=CALLS.keys())
def test_errors_and_logs(case: Case, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ledger_at(tmp_path / "ledger.db")
    (tmp_path / "temp").mkdir()
    source = case.make(tmp_path)
    options: dict[str, Any] = {"out": Path("out"), "ledger": Path("ledger.db"), "dataset": "visits", "temp": Path("temp")}
    options = {
        name: tmp_path / option if isinstance(option, Path) else option
        for name, option in {**options, **case.options}.items()
    }
    with warnings.catch_warnings(record=True) as warned, pytest.raises(DimlyError) as caught:
        warnings.simplefilter("always")
        publish_table(source, case.plan, **options)
    for error in chain(caught.value):
        check_quiet(str(error), repr(error), repr(error.args), *getattr(error, "__notes__", []))
    check_quiet("".join(traceback.format_exception(caught.value)))
    check_quiet(caplog.text, *(repr(record.__dict__) for record in caplog.records))
    check_quiet(*(str(warning.message) for warning in warned))
    check_quiet(*ledger_bytes(tmp_path))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_command_with_debug_and_diagnostics(case: Case, tmp_path: Path) -> None:
    result = run(*command_line(tmp_path, case), "--debug", "--private-diagnostics", "--json")
    assert (result.exit_code, result.stdout) == (case.code, "")
    check_quiet(result.stderr, *ledger_bytes(tmp_path))


def test_success_is_quiet_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    line = command_line(tmp_path, Case(GOOD, LONG, ()))
    result = run(*line)
    assert result.exit_code == 0
    check_quiet(result.stdout, result.stderr, caplog.text, *ledger_bytes(tmp_path))
    # The ids are in the parts, as they must be, and nowhere else.
    check_quiet(*(path.read_bytes() for path in (tmp_path / "out").glob("*.json")))


def test_python_prints_nothing_at_exit_either(tmp_path: Path) -> None:
    case = CASES["Parquet with a hole"]
    line = [sys.executable, "-X", "dev", "-m", "dimly", *map(str, command_line(tmp_path, case)), "--debug"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=os.environ | {"NO_COLOR": "1"})  # noqa: S603
    assert done.returncode == case.code
    check_quiet(done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("error: ")


def test_the_check_would_notice() -> None:
    with pytest.raises(AssertionError):
        check_quiet("some SECRET text")
    try:
        try:
            raise ValueError("inner")
        except ValueError:
            raise DimlyError("outer") from None
    except DimlyError as error:
        assert [str(one) for one in chain(error)] == ["outer", "inner"]
