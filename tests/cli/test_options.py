import inspect
from pathlib import Path
from typing import Any

import pytest
import typer

from dimly.cli.options import (
    LedgerOptions,
    ReadingOptions,
    ShapeOptions,
    names_between_commas,
    options_of,
    size_in_bytes,
    with_groups,
)
from dimly.cli.terminal import size_text
from dimly.errors import ParameterError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2 * 10**9),
        ("512MB", 512 * 10**6),
        ("1.5GiB", 3 * 2**29),
        ("1 tb", 10**12),
        ("64k", 64_000),
        ("100", 100),
        (" 7B ", 7),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert size_in_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "0", "0.1", "1e9", "2 GBs", "nan", "1IB", "1,5GB"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="must be a size such as 2GB"):
        size_in_bytes(text)


def test_names() -> None:
    assert names_between_commas("a,b") == ["a", "b"]
    assert names_between_commas('" a ","b,c","d""e"') == [" a ", "b,c", 'd"e']


@pytest.mark.parametrize("text", ["", "a,", ",a", '"a', 'a\n,b"'])
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="must be column names separated by commas"):
        names_between_commas(text)


def test_groups_stand_as_single_options_and_arrive_together() -> None:
    seen: dict[str, Any] = {}

    @with_groups
    def command(data: str, *, first: int = 1, charging: LedgerOptions, last: int = 2) -> None:
        """Say what is given."""
        seen.update(data=data, first=first, charging=charging, last=last)

    shown = inspect.signature(command).parameters
    assert list(shown) == ["data", "first", "ledger", "dataset", "recipient", "last"]
    assert command.__doc__ == "Say what is given."
    assert list(command.__annotations__) == list(shown)
    command(data="x", first=3, ledger=Path("l.db"), dataset="visits", recipient=None, last=4)
    charging = LedgerOptions(ledger=Path("l.db"), dataset="visits")
    assert seen == {"data": "x", "first": 3, "charging": charging, "last": 4}


def test_one_record_of_all_groups() -> None:
    shape = ShapeOptions(value="v", columns=[["a"], ["b", "c"]])  # type: ignore[list-item]  # as Typer parses it
    reading = ReadingOptions(delimiter=";", nulls="drop")
    made = options_of(shape, reading, LedgerOptions(ledger=Path("l.db"), dataset="d"), user="who", dry_run=True)
    assert (made.user, made.value, made.columns, made.delimiter) == ("who", "v", ("a", "b", "c"), ";")
    assert (made.nulls, made.values, made.dry_run) == ("drop", "refuse", True)
    assert made.payer == (Path("l.db"), "d", None)
    with pytest.raises(ParameterError, match="--columns or by --all-columns, got both"):
        options_of(ShapeOptions(columns=["a"], all_columns=True))


def test_sizes_for_people() -> None:
    assert [size_text(n) for n in (0, 999, 1_000, 2_500_000, 3e9, 4e12)] == [
        "0 bytes",
        "999 bytes",
        "1 kB",
        "2.5 MB",
        "3 GB",
        "4 TB",
    ]
