"""Whatever goes wrong becomes one line on stderr and an exit code: errors, signals, closed pipes, bad options."""

import contextlib
import difflib
import io
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import typer

from dimly.errors import DimlyError, Note, ParameterError, printable

_PATIENCE = 5.0
"""Seconds in which a repeated signal is ignored: an impatient second Ctrl-C must not stop the cleaning up.

Later ones count again, in case that the first was lost in a place where Python cannot raise."""


class Interrupted(KeyboardInterrupt):
    """A signal asked the process to end."""


class Signals:
    """While entered, SIGINT, SIGTERM and SIGHUP raise :class:`Interrupted` in the main thread.

    A signal that the parent process told us to ignore (``nohup``) stays ignored. Outside of the main thread, where
    Python allows no handlers, nothing is changed.

    Parameters
    ----------
    last : bool, default=False
        Whether the process does nothing more afterwards: then they are ignored from there on, because the job is done
        and its exit code is known.
    """

    def __init__(self, *, last: bool = False) -> None:
        self._last = last
        self._job_is_done = False
        self.received: signal.Signals | None = None
        self._raised_at = -_PATIENCE
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._end)
        _entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _entered.remove(self)
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self._last else handler)

    def _end(self, number: int, _: FrameType | None) -> None:
        if self._job_is_done:
            return
        self.received = signal.Signals(number)
        now = time.monotonic()
        if now - self._raised_at >= _PATIENCE:
            self._raised_at = now
            raise Interrupted

    @staticmethod
    def let_pass() -> None:
        """Ignore signals from here on: the job is done, and only the account of it is left to print.

        Whoever reads "stopped by SIGINT" after the account of a release would think that it was not published.
        """
        for signals in _entered:
            signals._job_is_done = True


_entered: list[Signals] = []


@contextlib.contextmanager
def account(done: str | None) -> Iterator[None]:
    """Let only the account of a job follow, whose work is done: signals pass, and what fails is told with ``done``.

    Parameters
    ----------
    done : str or None
        What is there now, whatever becomes of the account; None if the job was to change nothing.
    """
    Signals.let_pass()
    try:
        yield
    except Exception as error:
        if done is not None:
            error.add_note(Note(done))
        raise


BAD_CALL = 2
FAILED = 1
PIPE_CLOSED = 141
"""What a shell reports of a program that was ended by SIGPIPE."""

_PACKAGE = Path(__file__).parents[1]


def run(
    command: Callable[[], object],
    *,
    debug: Callable[[], bool],
    last: bool = False,
    options: Mapping[str, str] | None = None,
) -> int:
    """Run ``command`` and return its exit code; say on stderr what went wrong.

    Parameters
    ----------
    command : callable
    debug : callable
        Tells whether to print where it went wrong, too; asked when it did.
    last : bool, default=False
        Whether the process ends after it.
    options : mapping of str to str, optional
        What the command line calls a parameter: refusals name the option that mends them.
    """
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a letter gets its code, not an error
            stream.reconfigure(errors="backslashreplace")
    with _without_messages(), Signals(last=last) as signals:
        try:
            command()
            sys.stdout.flush()
        except typer.Exit as leave:
            return leave.exit_code
        except (BrokenPipeError, SystemExit) as left:  # Rich makes the latter of the former
            if isinstance(left, SystemExit) and not left.code:  # installed completion
                return 0
            # The reader has left (dimly … | head): no error, and Python must not complain when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PIPE_CLOSED
        except BaseException as error:  # noqa: BLE001  # the last place before Python would print messages
            if debug():
                _print_trace(error)
            # A library that was interrupted may raise an error of its own instead.
            stopped = signals.received or (signal.SIGINT if isinstance(error, KeyboardInterrupt) else None)
            line, code = (f"stopped by {stopped.name}", 128 + stopped) if stopped else line_of(error)
            if isinstance(error, DimlyError):
                line = in_options(line, options or {})
            return _say(_with_notes(line, error), code)
    return 0


def _open_closed_streams() -> None:
    """Give a process that was started without stdout or stderr (``>&-``) a place where nothing is kept.

    The next file that is opened would take the free number otherwise, and get what libraries print.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  (open to the end)


@contextlib.contextmanager
def _without_messages() -> Iterator[None]:
    """Keep Python from printing messages of errors in other threads, and in places where it cannot raise."""
    before = threading.excepthook, sys.unraisablehook
    threading.excepthook = _tell_of_thread
    sys.unraisablehook = lambda _: None
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = before


def line_of(error: BaseException) -> tuple[str, int]:
    """Return the line that tells of ``error``, and the exit code."""
    code = BAD_CALL if isinstance(error, ParameterError) else FAILED
    if isinstance(error, DimlyError):
        text = error.with_options
    elif isinstance(error, typer.TyperException):
        text, code = _usage_text(error), error.exit_code
    elif isinstance(error, MemoryError):
        text = "memory ran out. Ask for less (of publish, by a smaller --memory), or use a larger machine."
    elif isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        text = "the system starts no more threads. Ask for fewer (of publish, by --threads), or end other programs."
    elif isinstance(error, OSError) and error.errno:
        # The system's own words and a file name; a text that a library made up might quote data.
        text = os.strerror(error.errno) + (f": {_text_of(error.filename)}" if error.filename else "")
    else:
        return f"internal error: {type(error).__name__} at {_place(error)}. Please report it.", FAILED
    return f"error: {text}", code


def in_options(line: str, options: Mapping[str, str]) -> str:
    """Return a refusal in the words of a command line: a parameter that it begins with becomes its option.

    Examples
    --------
    >>> in_options("error: out must be a new folder.", {"out": "--out"})
    'error: --out must be a new folder.'
    """
    found = re.match(r"error: ([a-z_-]+)(?: and ([a-z_]+))?(?= (must|and|of|cannot)\b)", line)
    if found is not None:
        named = [_option(name.replace("-", "_"), options) or name for name in found.groups()[:2] if name]
        line = f"error: {' and '.join(named)}{line[found.end() :]}"
    return options_alone(line)


def _option(name: str, options: Mapping[str, str]) -> str | None:
    """Return the option of a parameter: Python says n_users and mean_weight where a command says --users, --weight."""
    return options.get(name) or options.get(name.removeprefix("n_").removeprefix("mean_"))


_IN_PYTHON = {"attribute-list": "attributes"}
"""What Python calls an option whose name differs."""


def options_alone(text: str) -> str:
    """Return a text without the Python name of an option that it names beside it.

    Examples
    --------
    >>> options_alone('Pass nulls="drop" (--nulls drop), or a roster (--roster).')
    'Pass --nulls drop, or a --roster.'
    >>> options_alone('Pass delimiter="," (--delimiter ",").')
    'Pass --delimiter ",".'
    >>> options_alone("columns (--columns, --all-columns: a wide table)")
    '--columns, --all-columns (a wide table)'
    """
    text = re.sub(r"\b[a-z_]+ \(((?:--[a-z-]+, )*--[a-z-]+): ", r"\1 (", text)
    return re.sub(
        r"\b([a-z_]+)(?:=[^\s()]+)? \((--([a-z-]+)(?:\"[^\"]*\"|[^():,\"])*)\)",
        lambda one: one[2] if one[1] in {one[3].replace("-", "_"), _IN_PYTHON.get(one[3])} else one[0],
        text,
    )


def _tell_of_thread(thrown: threading.ExceptHookArgs) -> None:
    if thrown.exc_value is not None:
        line, code = line_of(thrown.exc_value)
        _say(_with_notes(line, thrown.exc_value), code)


def _with_notes(line: str, error: BaseException) -> str:
    """Return the line with our own notes on the error; those of others might quote data."""
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, Note)]
    return " ".join([line if line.endswith(".") or not notes else f"{line}.", *notes])


def _say(line: str, code: int) -> int:
    with contextlib.suppress(OSError):  # stderr may be a closed pipe too
        print(printable(" ".join(line.split())), file=sys.stderr)
    return code


def _usage_text(error: typer.TyperException) -> str:
    """Return what is wrong with the call, and where to look it up."""
    context: Any = getattr(error, "ctx", None)
    asked: Any = getattr(error, "param", None)
    text = error.format_message().replace("Value error, ", "")
    for theirs, ours in _NUMBERS.items():
        text = text.replace(theirs, ours)
    text = re.sub(r"Input should be greater than or equal to (\S+)", r"must be \1 or more", text)
    if text.startswith("Missing option") and getattr(asked, "help", None):
        option = next((form for form in asked.opts if form.startswith("--")), asked.opts[0])
        text = " ".join(text.split()).removesuffix(".")
        text = f"{text}. Add {option} {asked.metavar or ''}".rstrip() + f": {asked.help[0].lower()}{asked.help[1:]}"
    elif text.startswith("Option ") and text.endswith("requires an argument."):
        text = f"{text} Write {getattr(error, 'option_name', '')} VALUE."
    elif text.startswith("No such option"):
        text = str(getattr(error, "message", text)) + _meant(getattr(error, "option_name", ""), context)
    elif (unknown := re.match(r"No such command '(.*?)'", text)) and context is not None:
        there = {*context.command.commands, "--help", "--version"}
        meant = next((one for one in _ALSO_CALLED.get(unknown[1], ()) if one in there), None)
        text = text if meant is None else f"{unknown[0]}. Did you mean '{context.command_path} {meant}'?"
    elif text.startswith(("Missing argument", "Got unexpected extra")) and context is not None:
        text = f"{text.removesuffix('.')}. {_instead(text, context)}"
    where = "" if context is None else f" See {context.command_path} --help."
    return text + ("" if text.endswith((".", "?")) else ".") + where


def _instead(text: str, context: Any) -> str:
    """Return what to do about an argument that is missing or too much."""
    usage = _usage(context)
    if text.startswith("Missing"):
        return usage
    if context.command.name == "plan":
        return "A plan is made without looking at data: leave the file out, and give it to dimly publish."
    if context.command.name == "attack":
        return "It attacks made-up people, and takes no file. To attack a plan or a release: dimly audit PLAN."
    known = {form for one in context.command.params for form in one.opts}
    if "release" in known and "--user" in known:  # where --user names a person, not a column
        return f"An id goes behind --user. {usage}"
    if "--out" in known and re.search(r"\(\S+\.\w+\)", text):
        return f"A file to write goes behind --out. {usage}"
    return f"A table goes behind --data. {usage}" if "--data" in known else usage


def _usage(context: Any) -> str:
    return " ".join(context.get_usage().translate(_NO_BRACES).split())


_NO_BRACES = str.maketrans("", "", "{}")
_PARSED = "Input should be a valid {0}, unable to parse string as {1} {0}"
_NUMBERS = {
    _PARSED.format("number", "a"): "must be a number such as 0.5, with a point and without %",
    _PARSED.format("integer", "an"): "must be a whole number such as 1000, without commas",
}
_ALSO_CALLED = {
    "add": ("enter",),
    "balance": ("show",),
    "check": ("verify",),
    "cluster": ("segments",),
    "clusters": ("segments",),
    "create": ("init",),
    "help": ("--help",),
    "list": ("inspect", "show"),
    "nearest": ("neighbors",),
    "new": ("init",),
    "show": ("inspect",),
    "similar": ("neighbors",),
    "spent": ("show",),
    "version": ("--version",),
}
"""What people type, and the command that they mean: the first that there is."""


_OPTIONS_ALSO_CALLED = {
    "c": "count",
    "clusters": "count",
    "column": "attribute",
    "d": "delimiter",
    "dir": "out",
    "e": "epsilon",
    "feature": "attribute",
    "folder": "out",
    "force": "overwrite",
    "id": "user",
    "item": "attribute",
    "k": "count",
    "n": "count",
    "n-clusters": "count",
    "n-neighbors": "count",
    "o": "out",
    "output": "out",
    "path": "out",
    "people": "roster",
    "person": "user",
    "privacy": "epsilon",
    "sep": "delimiter",
    "separator": "delimiter",
    "top": "count",
    "u": "user",
    "users": "user",
}
"""What people type, and the option that they mean, if the command has it."""

_ARGUMENTS = {
    "csv": "DATA...",
    "data": "DATA...",
    "file": "DATA...",
    "input": "DATA...",
    "plan": "PLAN",
    "release": "RELEASE",
    "source": "DATA...",
    "table": "DATA...",
    "user": "A B",
    "users": "A B",
}
"""What people type as an option, and the argument that they mean."""


_OF_PUBLISHING = {"dataset", "ledger", "pseudonyms", "recipient", "roster"}
"""Options of publishing that people give to a plan."""


def _meant(name: str, context: Any) -> str:
    """Return what to write in place of an option that does not exist, most often as a question; a dot if unknown."""
    known = [form for one in getattr(getattr(context, "command", None), "params", ()) for form in one.opts]
    bare = {form.lstrip("-"): form for form in known if form.startswith("--")}
    asked = name.lstrip("-")
    if asked in {"epsilon", "delta"} and "plan" in bare:
        return f". The plan holds it: make one with dimly plan --{asked}."
    if asked in _OF_PUBLISHING and bare.keys() >= {"purpose", "weight"}:
        return f". A plan is made without it: give --{asked} to dimly publish."
    if asked in {"o", "out", "output"} and "csv" in bare:
        return ". Add --csv, and write what is printed to a file: --csv > FILE."
    if asked in {"o", "out", "output"} and "out" not in bare:
        return ". Did you mean --folder?" if "folder" in bare else ". Write what is printed to a file: > FILE."
    if asked in _ARGUMENTS and asked not in bare and (usage := _usage(context)).endswith(_ARGUMENTS[asked]):
        return f". Write it without an option: {usage}."
    also = [one for one in (_OPTIONS_ALSO_CALLED.get(asked),) if one in bare]
    begins = [one for one in bare if one.startswith(asked) or asked.startswith(f"{one}-")] if len(asked) > 1 else []
    near = also or begins[:1] or difflib.get_close_matches(asked, bare, n=1, cutoff=0.7)
    return f". Did you mean {bare[near[0]]}?" if near else "."


def _text_of(name: object) -> str:
    return os.fsdecode(name) if isinstance(name, str | bytes) else str(name)


def _frames(trace: TracebackType | None) -> Iterator[traceback.FrameSummary]:
    """Yield the frames with short paths; source lines are public, values are not and are not read."""
    for frame in traceback.extract_tb(trace):
        path = Path(frame.filename)
        short = path.relative_to(_PACKAGE.parent) if path.is_relative_to(_PACKAGE) else Path(*path.parts[-2:])
        yield traceback.FrameSummary(short.as_posix(), frame.lineno, frame.name, lookup_line=False, line=frame.line)


def _place(error: BaseException) -> str:
    """Return where in Dimly the error came up."""
    frames = list(_frames(error.__traceback__))
    ours = [frame for frame in frames if frame.filename.startswith(f"{_PACKAGE.name}/")] or frames
    return f"{ours[-1].filename}:{ours[-1].lineno}" if ours else "an unknown place"


def _print_trace(error: BaseException) -> None:
    """Print where ``error`` and what caused it came up: types and lines of code, no messages and no values."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    for link in reversed(chain):
        lines = traceback.StackSummary.from_list(list(_frames(link.__traceback__))).format()
        print("".join(lines) + type(link).__name__, file=sys.stderr)
