"""``dimly report``: one page on a release, for the privacy officer and for the analyst."""

from pathlib import Path
from typing import Annotated

import typer

from dimly.cli.files import check_output, write_text
from dimly.cli.options import AsJson, Debug
from dimly.cli.output import print_fields, print_json, print_lines, size_text, warn
from dimly.cli.progress import ProgressBar
from dimly.cli.questions import ReleaseFolder
from dimly.cli.segments import count_or_auto


def report(
    release: ReleaseFolder,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page to write.")] = Path(
        "report.html"
    ),
    count: Annotated[
        str,
        typer.Option(
            metavar="N|auto",
            help="How many segments to look for; auto finds out, which takes most of the time.",
            parser=count_or_auto,
        ),
    ] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Write a page on a release: what it promises and what not, what it cost, what can be seen through its noise.

    One file for the privacy officer and the analyst, which opens in any browser and loads nothing from anywhere. It
    shows no user id. Of more than 65,536 people it looks at as many, evenly spaced.

    $ dimly report release -o report.html
    """
    check_output(output, overwrite=overwrite)
    from dimly.lab.report import report_of
    from dimly.lab.report_officer import checks
    from dimly.lab.report_page import page_of
    from dimly.release.stored import open_folder

    sketches = open_folder(release)
    if not sketches.private:
        warn("this release was made for tests only and is NOT PRIVATE; it must not be given to anyone.")
    with ProgressBar() as bar:
        found = report_of(sketches, count="auto" if count == "auto" else int(count), progress=bar)
        bar.phase("writing")
        page = page_of(found)
    write_text(output, page, overwrite=overwrite)
    if as_json:
        print_json({"path": str(output), **found.to_dict()})
        return
    people = f"{found.sample.looked_at:,} of {found.manifest.n_users:,}"
    print_fields({"report": output, "size": size_text(len(page.encode())), "people looked at": people})
    print_lines(["", "To check before the release is given away:"])
    print_lines(f"- {line}" for line in checks(found.manifest))
