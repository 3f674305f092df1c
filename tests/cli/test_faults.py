"""Whatever goes wrong is one line, and quotes no data."""

import errno
import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import NoReturn

import pytest
from tests.cli.lines import refusal, run

import dimly.mechanisms
from dimly.cli import faults
from dimly.cli import faults as signals
from dimly.cli.terminal import show_own_warnings
from dimly.errors import BudgetError, DataError, DimlyError, MissingExtraError, Note, ParameterError, ReleaseError

pytestmark = pytest.mark.usefixtures("usual_signals")

ROW = "Alice,31,pregnancy test"
PLAN = ("plan", "--mechanism", "counting+laplace", "--k", "4", "--epsilon", "1")


def fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command ``plan`` fail deep inside."""

    def deep(*_: object, **__: object) -> NoReturn:
        private_row = ROW
        raise error from ValueError(private_row)

    monkeypatch.setattr(dimly.mechanisms.Plan, "of", deep)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ParameterError("rows must be 1, got 2."), 2),
        (DataError("some rows have no user."), 1),
        (BudgetError("nothing is left."), 1),
        (ReleaseError("it is damaged."), 1),
        (MissingExtraError("install it."), 1),
        (DimlyError("disk full."), 1),
    ],
)
def test_own_errors_are_passed_on(error: DimlyError, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(error, monkeypatch)
    assert refusal(*PLAN, code=code) == f"error: {error}"
    assert refusal(*PLAN, "--json", code=code) == f"error: {error}"


def test_a_parameter_is_named_as_the_command_line_does(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(ParameterError("n_users must be 1, got 2."), monkeypatch)
    assert refusal(*PLAN) == "error: --n-users must be 1, got 2."


def test_several_lines_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(DataError("one\n  two"), monkeypatch)
    assert refusal(*PLAN, code=1) == "error: one two"


def test_the_system_says_what_it_says_without_the_text_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(OSError(28, ROW, "/data/out"), monkeypatch)
    assert refusal(*PLAN, code=1) == f"error: {os.strerror(28)}: /data/out"
    fail_with(OSError(13, ROW, b"/data/out"), monkeypatch)
    assert refusal(*PLAN, code=1) == f"error: {os.strerror(13)}: /data/out"
    fail_with(OSError(5, ROW, 3), monkeypatch)
    assert refusal(*PLAN, code=1) == f"error: {os.strerror(5)}: 3"
    fail_with(OSError(28, ROW), monkeypatch)
    assert refusal(*PLAN, code=1) == f"error: {os.strerror(28)}"


def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(MemoryError(ROW), monkeypatch)
    line = refusal(*PLAN, code=1)
    assert line.startswith("error: memory ran out.")
    assert "of publish, by a smaller --memory" in line  # no other command has that option


@pytest.mark.parametrize("error", [KeyError(ROW), OSError(ROW), UnicodeDecodeError("utf-8", b"Alice", 0, 1, "no")])
def test_unexpected_errors_name_a_place_and_no_message(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(error, monkeypatch)
    line = refusal(*PLAN, code=1)
    assert line.startswith(f"internal error: {type(error).__name__} at dimly/cli/commands/plan_choice.py:")
    assert "Alice" not in line


@pytest.mark.parametrize("error", [KeyError(ROW), DataError("some rows have no user.")])
def test_debug_shows_code_and_no_values(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(error, monkeypatch)
    result = run(*PLAN, "--debug")
    assert (result.exit_code, result.stdout) == (1, "")
    *trace, last = result.stderr.splitlines()
    assert last.startswith(("internal error: KeyError", "error: some rows"))
    assert type(error).__name__ in trace
    assert "ValueError" in trace  # the cause
    assert any('File "dimly/cli/commands/plan.py"' in line for line in trace)
    assert ROW not in result.stderr
    assert "Alice" not in result.stderr
    assert str(Path(__file__).parents[2]) not in result.stderr


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (DimlyError("the disk is full."), "error: the disk is full. Charge 3 stays."),
        (OSError(errno.EIO, "x"), "error: Input/output error. Charge 3 stays."),
        (KeyboardInterrupt(), "stopped by SIGINT. Charge 3 stays."),
    ],
)
def test_notes_of_ours_are_told_and_those_of_others_are_not(
    error: BaseException, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        error.add_note(ROW)
        error.add_note(Note("Charge 3 stays."))
        raise error

    monkeypatch.setattr(dimly.mechanisms.Plan, "of", work)
    assert refusal(*PLAN, code=130 if isinstance(error, KeyboardInterrupt) else 1) == line


def test_an_error_without_a_place() -> None:
    assert faults.line_of(KeyError(ROW)) == ("internal error: KeyError at an unknown place. Please report it.", 1)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_signals_clean_up_and_are_one_line(name: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.Signals[name])
    cleaned = []

    def work(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), signal.Signals[name])
            os.kill(os.getpid(), signal.Signals[name])
        finally:
            os.kill(os.getpid(), signal.Signals[name])  # impatient: must not stop the cleaning up
            cleaned.append(True)

    monkeypatch.setattr(dimly.mechanisms.Plan, "of", work)
    assert refusal(*PLAN, code=code) == f"stopped by {name}"
    assert cleaned == [True]
    assert signal.getsignal(signal.Signals[name]) is before


def test_a_library_may_make_another_error_of_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            raise DataError("the query was interrupted") from None

    monkeypatch.setattr(dimly.mechanisms.Plan, "of", work)
    assert refusal(*PLAN, code=143) == "stopped by SIGTERM"


def test_a_lost_signal_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "_PATIENCE", 0.0)
    with signals.Signals() as watched:
        for _ in range(2):
            with pytest.raises(signals.Interrupted):
                os.kill(os.getpid(), signal.SIGTERM)
    assert watched.received == signal.SIGTERM


def test_after_the_last_command_signals_change_nothing() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with signals.Signals(last=True):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else before)


def test_signals_pass_once_the_job_is_done() -> None:
    with signals.Signals() as watched:
        signals.Signals.let_pass()
        os.kill(os.getpid(), signal.SIGTERM)
    assert watched.received is None
    with signals.Signals(), pytest.raises(signals.Interrupted):  # another job is another matter
        os.kill(os.getpid(), signal.SIGTERM)


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with signals.Signals() as watched:
            os.kill(os.getpid(), signal.SIGHUP)
        assert watched.received is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_set_no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(KeyboardInterrupt(), monkeypatch)
    before = signal.getsignal(signal.SIGTERM)
    codes: list[int] = []

    def work() -> None:
        codes.append(faults.run(lambda: dimly.mechanisms.Plan.of("x", dimly.Budget(1.0)), debug=lambda: False))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert codes == [130]
    assert signal.getsignal(signal.SIGTERM) is before


def test_own_warnings_are_lines_and_those_of_libraries_are_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    own = str(Path(faults.__file__))
    with show_own_warnings():
        warnings.warn_explicit("the key is readable\nby others", UserWarning, own, 1)
        warnings.warn_explicit(ROW, UserWarning, "/lib/pandas/io.py", 1)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "warning: the key is readable by others\n")


def test_errors_in_threads_and_where_python_cannot_raise_quote_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fragile:
        def __del__(self) -> None:
            raise KeyError(ROW)

    def fail() -> NoReturn:
        raise KeyError(ROW)

    def work(*_: object, **__: object) -> NoReturn:
        Fragile()
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        raise DataError("some rows have no user.")

    before = threading.excepthook, sys.unraisablehook
    monkeypatch.setattr(dimly.mechanisms.Plan, "of", work)
    result = run(*PLAN)
    thread_line, last = result.stderr.splitlines()
    assert thread_line.startswith("internal error: KeyError at ")
    assert last == "error: some rows have no user."
    assert "Alice" not in result.output
    assert (threading.excepthook, sys.unraisablehook) == before


def in_a_shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | variables | {"PYTHON": sys.executable}
    return subprocess.run(  # noqa: S603
        ["/bin/bash", "-o", "pipefail", "-c", line],
        capture_output=True,
        encoding="latin-1",
        check=False,
        env=environment,
    )


def test_a_reader_who_leaves_is_no_error() -> None:
    plan = " ".join(PLAN)
    for line in (f'"$PYTHON" -m dimly {plan} 2>/dev/null | true', '"$PYTHON" -m dimly --help | true'):
        done = in_a_shell(f"{line}; echo ${{PIPESTATUS[0]}}")
        assert (done.stdout, done.stderr) == ("141\n", "")


def test_stderr_may_be_closed_too() -> None:
    done = in_a_shell('"$PYTHON" -m dimly nonsense 2>&1 >/dev/null | true; echo ${PIPESTATUS[0]}')
    assert done.stdout == "2\n"


def test_streams_may_be_closed_from_the_start() -> None:
    plan = " ".join(PLAN)
    done = in_a_shell(
        f'"$PYTHON" -m dimly {plan} >&- 2>/dev/null; echo $?; "$PYTHON" -m dimly {plan} <&- >&- 2>&-; echo $?'
    )
    assert (done.stdout, done.stderr) == ("0\n0\n", "")


def test_what_is_done_is_said_where_its_account_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(*_: object, **__: object) -> NoReturn:
        with faults.account("/here/release is published."):
            raise OSError(errno.ENOSPC, "a text of the system")

    monkeypatch.setattr(dimly.mechanisms.Plan, "of", tell)
    said = "error: No space left on device. /here/release is published."
    assert refusal(*PLAN, code=1) == said


def test_a_terminal_that_lacks_letters(tmp_path: Path) -> None:
    done = in_a_shell(
        f'"$PYTHON" -m dimly ledger init "{tmp_path}/l.db" --dataset ε --epsilon 1 --delta 1e-6',
        PYTHONIOENCODING="latin-1",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u03b5" in done.stdout
