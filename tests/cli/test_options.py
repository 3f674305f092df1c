import pytest
import typer

from dimly.cli.options import names_between_commas, size_in_bytes
from dimly.cli.terminal import size_text


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
    with pytest.raises(typer.BadParameter, match="must be column names between commas"):
        names_between_commas(text)


def test_sizes_for_people() -> None:
    assert [size_text(n) for n in (0, 999, 1_000, 2_500_000, 3e9, 4e12)] == [
        "0 bytes",
        "999 bytes",
        "1 kB",
        "2.5 MB",
        "3 GB",
        "4 TB",
    ]
