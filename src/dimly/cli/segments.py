"""``dimly segments``: which groups of people there are."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dimly.cli.files import check_output, write_bytes
from dimly.cli.options import AsJson, Debug
from dimly.cli.output import print_fields, print_json, print_lines, print_table
from dimly.cli.progress import ProgressBar
from dimly.cli.questions import ReleaseFolder, number_text, open_to_ask

if TYPE_CHECKING:
    from dimly.analyst.segments import Segments


def count_or_auto(text: str) -> str:
    """Return how many segments, as written: a number, or "auto"."""
    if text != "auto" and not (text.isascii() and text.isdigit() and int(text)):
        raise typer.BadParameter(f"must be a number of segments or auto, got {text!r}")
    return text


def segments(
    release: ReleaseFolder,
    *,
    count: Annotated[
        str,
        typer.Option(
            metavar="N|auto",
            help="How many segments; auto finds out, and finds 1 where there are none.",
            parser=count_or_auto,
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Parquet file to make, of user and segment, from 0; -1: nothing is known of them.",
            show_default=False,
        ),
    ],
    no_denoise: Annotated[
        bool, typer.Option("--no-denoise", help="Cluster the published numbers as they are; mostly worse.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Divide the people into segments, and say how stable these are: noise has groups too, if asked for some.

    Writes who is in which segment; prints sizes, the stability from 0 to 1, and how much structure there is.

    $ dimly segments release --count 8 --out segments.parquet
    """
    check_output(out, overwrite=overwrite)
    asked = open_to_ask(release)
    with ProgressBar() as bar:
        bar.phase("finding what goes together")
        found = asked.release.segments(
            "auto" if count == "auto" else int(count), denoise=not no_denoise, progress=bar.reach
        )
    write_bytes(out, _parquet(found, textual=asked.textual), overwrite=overwrite)
    if as_json:
        print_json(_facts(found))
        return
    print_fields({"segments": out, "stability": number_text(found.stability), "signal": number_text(found.signal)})
    print_lines(["", found.words, ""])
    rows = [(segment, f"{size:,}") for segment, size in enumerate(found.sizes.tolist())]
    print_table(["segment", "people"], rows, numbers=["segment", "people"])


def _facts(found: "Segments") -> dict[str, Any]:
    return {
        "count": len(found.sizes),
        "sizes": found.sizes.tolist(),
        "stability": found.stability,
        "signal": found.signal,
        "words": found.words,
    }


def _parquet(found: "Segments", *, textual: bool) -> memoryview:
    """Return who is in which segment, as the bytes of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dimly.release.parts import as_user_column

    users = as_user_column(found.users, "text" if textual else "int64")
    table = pa.table({"user": users, "segment": pa.array(found.labels, pa.int32())})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return memoryview(sink.getvalue())
