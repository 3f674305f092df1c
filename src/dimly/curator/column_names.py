"""Names of columns that DuckDB can tell apart, alike in every file of a table."""

import string
from collections.abc import Iterable, Sequence

from dimly.curator.files import Stamp
from dimly.errors import ParameterError

_SHOWN = 20
_FOLDED = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # as DuckDB does: É and é differ


def check_names(names: Sequence[str], owner: str) -> None:
    """Refuse columns that DuckDB cannot tell apart: it renames one of "User" and "user" without a word."""
    seen: dict[str, str] = {}
    for name in names:
        folded = name.translate(_FOLDED)
        if folded in seen:
            raise ParameterError(
                f"columns of {owner} must differ in more than upper and lower case, got {seen[folded]!r} and {name!r}. "
                "Rename one of them."
            )
        seen[folded] = name
    if "" in names:
        raise ParameterError(f"columns of {owner} must all have names, got one without.")


def check_same_columns(columns: Iterable[Iterable[str]], files: Sequence[Stamp]) -> None:
    """Refuse files that differ in their columns, whatever their order."""
    first: frozenset[str] | None = None
    for names, stamp in zip(map(frozenset, columns), files, strict=True):
        if first is None:
            first = names
        elif names != first:
            odd = sorted(names ^ first)[0]
            has = "has" if odd in names else "lacks"
            raise ParameterError(
                f"files must have the same columns, and {stamp.name} {has} {odd!r} unlike {files[0].name}. "
                "Give one of them the other's columns."
            )


def listing(names: Iterable[str]) -> str:
    """Return a sentence with the columns that a table has."""
    known = list(names)
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"The table has: {', '.join(known[:_SHOWN])}{more}."
