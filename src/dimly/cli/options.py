"""Options that several commands share, and values as people write them."""

import csv
import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from dimly.errors import ParameterError

_DEBUG = "dimly.cli.debug"
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def _note_debug(context: typer.Context, asked: bool) -> None:
    if asked:
        context.meta[_DEBUG] = True


def asks_for_debug(meta: Mapping[str, Any]) -> bool:
    """Return whether the command line that ``meta`` belongs to had ``--debug``."""
    return bool(meta.get(_DEBUG))


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="When it fails, print where in the code: no messages, no values.",
        callback=_note_debug,
        is_eager=True,
    ),
]


def size_in_bytes(text: str) -> int:
    """Return a size that people write as 2GB, 512MB or 1.5GiB, in bytes.

    Examples
    --------
    >>> size_in_bytes("1.5GiB"), size_in_bytes("512 mb")
    (1610612736, 512000000)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?", text.strip().upper())
    size = 0 if match is None or match[2] not in _UNITS else int(float(match[1]) * _UNITS[match[2]])
    if size < 1:
        raise typer.BadParameter(f"must be a size such as 2GB, 512MB or 1.5GiB, got {text!r}")
    return size


def names_between_commas(text: str) -> list[str]:
    """Return names that are separated by commas; a name with a comma in it goes between double quotes.

    Examples
    --------
    >>> names_between_commas('age,"city, country"')
    ['age', 'city, country']
    """
    try:
        names = next(csv.reader([text], strict=True), [])
    except csv.Error:  # a quote that does not end
        names = []
    if not all(names) or not names:
        raise typer.BadParameter(f"must be column names between commas, got {text!r}")
    return names


def numbers_between(name: str, text: str, separator: str) -> tuple[float, ...]:
    """Return numbers that are written with a sign between them.

    Examples
    --------
    >>> numbers_between("scales", "50,200,800", ",")
    (50.0, 200.0, 800.0)
    """
    try:
        return tuple(float(part) for part in text.split(separator))
    except ValueError:
        raise ParameterError(f"{name} must be numbers with {separator!r} between them, got {text!r}.") from None
