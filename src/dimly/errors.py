"""The errors that Dimly raises on purpose, the privacy warning, and checks of a path, a choice or an integer.

Text: *name must be X, got Y. What to do.* Never a private value, a private count or a user id, but for published
ids that the analyst's side names. A parameter may have its option of the command line beside it, ``nulls="drop"
(--nulls drop)``: whoever called from Python reads the former alone, and whoever typed a command the latter
(``dimly.cli.faults``).
"""

import errno
import functools
import importlib.util
import operator
import os
import re
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar


def printable(text: str) -> str:
    r"""Return a text with every character escaped that a terminal would obey instead of showing.

    Names and ids come from files and from the command line: they must not be able to move a cursor, hide a line or
    turn text around.

    Examples
    --------
    >>> print(printable("a\x1b[31mb"))
    a\x1b[31mb
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "surrogatepass").decode() for letter in text
    )


def without_options(text: str) -> str:
    """Return a text as Python's callers read it: without the options that stand in parentheses beside parameters.

    Examples
    --------
    >>> without_options('Pass nulls="drop" (--nulls drop), or a roster (--roster).')
    'Pass nulls="drop", or a roster.'
    >>> without_options("columns (--columns, --all-columns: a wide table)")
    'columns (a wide table)'
    """
    text = re.sub(r"\((?:--[a-z-]+, )*--[a-z-]+: ", "(", text)
    return re.sub(r" \(--[a-z-]+[^():]*\)", "", text)


class DimlyError(Exception):
    """Base of every error that Dimly raises on purpose; its text can be shown on any terminal."""

    def __str__(self) -> str:
        return without_options(self.with_options)

    @property
    def with_options(self) -> str:
        """The text with the options of the command line beside parameters."""
        return "\n".join(map(printable, super().__str__().split("\n")))


def check_path(name: str, path: str | os.PathLike[str]) -> None:
    """Refuse what is no path, one with names too long for any file, and one that Arrow and DuckDB cannot open.

    They take paths in UTF-8 alone. Names are too long where text is passed in place of the file that holds it.

    Raises
    ------
    ParameterError
    """
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(f"{name} must be a path, got {type(path).__name__}. Pass text or a pathlib.Path.")
    try:
        os.path.abspath(path).encode()
    except UnicodeEncodeError:
        raise ParameterError(
            f"{name} must be a path in UTF-8, got {os.fspath(path)!r}. Rename the file or its folder."
        ) from None
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise ParameterError(
                f"{name} must be a path, got {len(os.fspath(path)):,} characters, more than a name can have. If this "
                "is what is in a file, pass its name."
            ) from None
    except ValueError:
        raise ParameterError(f"{name} must be a path without NUL characters, got {os.fspath(path)!r}.") from None


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse what is not one of the choices.

    Raises
    ------
    ParameterError
        With all of them.
    """
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        raise ParameterError(f"{name} must be one of {', '.join(known)}, got {value!r}.")


def as_integer(name: str, value: object, low: int, high: int) -> int:
    """Return a plain integer in range, or refuse; NumPy's count, booleans do not.

    Raises
    ------
    ParameterError
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # what else it may be is what the error is for
    except TypeError:
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise ParameterError(f"{name} must be an integer from {low} to {high}, got {value!r}.")
    return number


P = ParamSpec("P")
R = TypeVar("R")


def also_called(**meant: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse keywords of other libraries with the one that is meant here.

    Examples
    --------
    >>> @also_called(k="n")
    ... def nearest(n=10): ...
    >>> nearest(k=5)
    Traceback (most recent call last):
    TypeError: nearest() got an unexpected keyword argument 'k'. Did you mean 'n'?
    """

    def with_names(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def called(*given: P.args, **named: P.kwargs) -> R:
            for name in named:
                if name in meant:
                    raise TypeError(
                        f"{function.__name__}() got an unexpected keyword argument {name!r}. "
                        f"Did you mean {meant[name]!r}?"
                    )
            return function(*given, **named)

        return called

    return with_names


class ParameterError(DimlyError, ValueError):
    """A call that cannot work: a parameter is out of range, missing or contradicts another."""


class DataError(DimlyError):
    """The data do not fit the plan. The text says how, without quoting any of them."""


class BudgetError(DimlyError):
    """The privacy budget does not allow what was asked."""


class ReleaseError(DimlyError):
    """A release is incomplete, damaged or of a format that this version does not know."""


class MissingExtraError(DimlyError, ImportError):
    """An optional package is needed; the text names the extra to install."""


def need_extra(what: str, package: str, extra: str) -> None:
    """Refuse what takes a package that the core install leaves out, before any work is done for it.

    Raises
    ------
    MissingExtraError
        With the command that installs it.

    Examples
    --------
    >>> need_extra("Figures", "no_package", "plots")
    Traceback (most recent call last):
    dimly.errors.MissingExtraError: Figures need no_package, which is not installed. Run pip install 'dimly[plots]'.
    """
    if importlib.util.find_spec(package.replace("-", "_")) is None:
        raise MissingExtraError(f"{what} need {package}, which is not installed. Run pip install 'dimly[{extra}]'.")


class Note(str):
    """A note on an error of any kind (``error.add_note``) that holds nothing of the data, so that it may be printed."""

    __slots__ = ()


class PrivacyWarning(UserWarning):
    """What was asked is done, and promises less than it could: the text says what is missing."""

    def __str__(self) -> str:
        return without_options(super().__str__())
