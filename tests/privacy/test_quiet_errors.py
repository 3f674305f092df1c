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

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.cli.bad_input import BITS, CASES, GOOD, LONG, MARK, MARKS, Case
from tests.cli.lines import run
from tests.cli.publishing import command_line, ledger_at

from dimly.curator.options import Options
from dimly.curator.publication import publish_table
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
            assert mark.encode() not in (text if isinstance(text, bytes) else text.encode())


def ledger_bytes(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.glob("ledger.db*")]


@pytest.mark.parametrize("case", CALLS.values(), ids=CALLS.keys())
def test_errors_and_logs(case: Case, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ledger_at(tmp_path / "ledger.db")
    (tmp_path / "temp").mkdir()
    source = case.make(tmp_path)
    options: dict[str, Any] = {
        "out": Path("out"),
        "ledger": Path("ledger.db"),
        "dataset": "visits",
        "temp": Path("temp"),
    }
    options = {
        name: tmp_path / option if isinstance(option, Path) else option
        for name, option in {**options, **case.options}.items()
    }
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(DimlyError) as caught:
            publish_table(source, case.plan, Options(**options))
    for error in chain(caught.value):
        check_quiet(str(error), repr(error), repr(error.args), *getattr(error, "__notes__", []))
    check_quiet("".join(traceback.format_exception(caught.value)))
    check_quiet(caplog.text, *(repr(record.__dict__) for record in caplog.records))
    check_quiet(*(str(warning.message) for warning in warned))
    check_quiet(*ledger_bytes(tmp_path))


def breaking_off() -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"person": [MARK], "page": [MARK]})
    raise ValueError(f"{MARK} cannot be read")


class Odd:
    def __repr__(self) -> str:
        return MARK


SCHEMA = pa.schema({"person": pa.string(), "page": pa.string()})
IN_PYTHON: dict[str, tuple[Any, dict[str, Any]]] = {
    "cells of several types": (pd.DataFrame({"person": [MARK, 1], "page": ["tea", "tea"]}), LONG),
    "cells of a type of its own": (pd.DataFrame({"person": [Odd(), Odd()], "page": ["tea", "tea"]}), LONG),
    "a null in pandas": (pd.DataFrame({"person": [MARK, None], "page": ["tea", "tea"]}), LONG),
    "a null in polars": (pl.DataFrame({"person": [MARK, None], "page": ["tea", "tea"]}), LONG),
    "a stream that breaks off": (pa.RecordBatchReader.from_batches(SCHEMA, breaking_off()), LONG),
    "integers that are too large": (pd.DataFrame({"person": [2**70, 3141592], "page": ["tea", MARK]}), LONG),
    "values of a matrix": (np.array([[3141592.0, 0.0]]), {}),
    "NaN in a matrix": (np.array([[np.nan, 0.3141592]]), {}),
    "a matrix of text": (np.array([[MARK, "1"]]), {}),
    "a matrix of objects": (np.array([[Odd(), 1]], object), {}),
    "repeated users of a matrix": (np.eye(2), {"users": [MARK, MARK]}),
    "odd users of a matrix": (np.eye(2), {"users": [0.3141592, 2.718281828]}),
    "users that are missing": (np.eye(2), {"users": [MARK, None]}),
    "a dict": ({"person": [MARK], "page": [MARK]}, LONG),
    "an object": (Odd(), LONG),
    "a roster with a gap": (pa.table({"person": [MARK], "page": [MARK]}), {**LONG, "roster": [MARK, None]}),
    "a roster of two types": (pa.table({"person": [MARK], "page": [MARK]}), {**LONG, "roster": [MARK, 3141592]}),
    "a roster of floats": (pa.table({"person": [MARK], "page": [MARK]}), {**LONG, "roster": [0.3141592]}),
}


@pytest.mark.parametrize("name", IN_PYTHON)
def test_tables_of_python(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    source, options = IN_PYTHON[name]
    with pytest.raises(DimlyError) as caught:
        publish_table(source, BITS, Options(out=tmp_path / "out", **options))
    for error in chain(caught.value):
        check_quiet(str(error), repr(error), repr(error.args))
    check_quiet("".join(traceback.format_exception(caught.value)), caplog.text)
    assert list(tmp_path.iterdir()) == []


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

    def fail() -> None:
        try:
            raise ValueError("inner")
        except ValueError:
            raise DimlyError("outer") from None

    with pytest.raises(DimlyError) as caught:
        fail()
    assert [str(one) for one in chain(caught.value)] == ["outer", "inner"]
