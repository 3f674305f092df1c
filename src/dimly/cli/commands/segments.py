"""``dimly segments``: which groups of people there are, written as labels."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dimly.cli.options import (
    AsCsv,
    AsJson,
    AskedRelease,
    Debug,
    ReleaseFolder,
    check_one_output,
    open_to_ask,
)
from dimly.cli.terminal import ProgressBar, print_csv, print_fields, print_json, print_lines, print_table
from dimly.errors import ParameterError
from dimly.files import check_output, write_bytes

if TYPE_CHECKING:
    from dimly.analyst.segments.segments import Segments


_MOST_NAMED = 3  # attributes at each end, in a line


def count_or_auto(text: str) -> str:
    """Return how many segments, as written: a number, or "auto"."""
    if text != "auto" and not (text.isascii() and text.isdigit() and int(text)):
        raise typer.BadParameter(f"must be a number of segments or auto, such as 4, got {text!r}")
    return text


def segments(
    release: ReleaseFolder,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="File to write, .parquet or .csv, with user and segment, numbered from 0; -1 if nothing is known "
            "about a person. Without it, segments are only summarized.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        str,
        typer.Option(
            metavar="N|auto",
            help="How many segments; auto estimates it, and gives 1 if there are no groups.",
            parser=count_or_auto,
        ),
    ] = "auto",
    activity: Annotated[
        bool | None,
        typer.Option(
            "--activity/--no-activity",
            help="Whether how active people are may set them apart, or only their taste. Without either, what tells "
            "groups apart more clearly.",
            show_default=False,
        ),
    ] = None,
    no_denoise: Annotated[
        bool, typer.Option("--no-denoise", help="Cluster the published numbers as they are; usually worse.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Divide people into segments, and say how stable they are: clustering divides pure noise, too.

    Shows sizes, the stability from 0 to 1, that of other numbers of segments, and how much structure there is; with
    --out writes who is in which segment. For a release along directions, it names the attributes that count most
    toward each segment and away from it.

    $ dimly segments release
    $ dimly segments release --count 8 --out segments.csv
    $ dimly segments release --count 3 --activity
    """
    check_one_output(as_json=as_json, as_csv=as_csv)
    if out is not None:
        if out.suffix.lower() not in (".csv", ".parquet"):
            raise ParameterError(f"--out must end in .csv or .parquet, got {out.name!r}. Rename it.")
        check_output(out, overwrite=overwrite, inputs=[release])
    asked = open_to_ask(release)
    with ProgressBar() as bar:
        bar.phase("finding what goes together")
        found = asked.release.segments(
            "auto" if count == "auto" else int(count),
            denoise=not no_denoise,
            activity="auto" if activity is None else activity,
            progress=bar.reach,
        )
    if out is not None:
        write_bytes(out, _content(found, asked, out.suffix.lower()), overwrite=overwrite)
    if as_csv:
        print_csv(["segment", "people"], enumerate(found.sizes.tolist()))
        return
    if as_json:
        print_json(_facts(found))
        return
    written = {} if out is None else {"segments": out}
    stability = f"{found.stability:.2f}, from 0 (chance) to 1 (always the same segments)"
    print_fields(written | {"stability": stability, "by count": found.words_on_counts})
    print_lines(["", _words(found), ""])
    sizes = [(segment, f"{size:,}") for segment, size in enumerate(found.sizes.tolist())]
    if not found.is_described:
        print_table(["segment", "people"], sizes, numbers=["segment", "people"])
        return
    from dimly.analyst.segments.differences import DIRECTIONS_SAY

    told = [(*row, profile.words) for row, profile in zip(sizes, found.describe(most=_MOST_NAMED), strict=True)]
    print_table(["segment", "people", "told apart by"], told, numbers=["segment", "people"])
    print_lines(["", DIRECTIONS_SAY])


def _words(found: "Segments") -> str:
    """Return how far to believe in them, with options in the place of Python's arguments."""
    return found.words.replace("activity=True", "--activity")


def _content(found: "Segments", asked: AskedRelease, ending: str) -> bytes:
    if ending == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["user", "segment"])
        writer.writerows(zip(found.users.tolist(), found.labels.tolist(), strict=True))
        return text.getvalue().encode()
    from dimly.release.documents.segments_file import encode_segments

    user_type: Literal["text", "int64"] = "text" if asked.textual else "int64"
    return bytes(encode_segments(found.users, found.labels, user_type=user_type, release=asked.release_id))


def _facts(found: "Segments") -> dict[str, Any]:
    return {
        "count": len(found.sizes),
        "sizes": found.sizes.tolist(),
        "stability": found.stability,
        "stabilities": {str(number): value for number, value in found.stabilities.items()},
        "signal": found.signal,
        "activity": found.activity,
        "words": _words(found),
        "profiles": [profile.to_dict() for profile in found.describe()] if found.is_described else None,
    }
