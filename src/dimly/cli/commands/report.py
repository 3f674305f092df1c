"""``dimly report``: one page on a release, for the privacy officer and for the analyst."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dimly.cli.commands.segments import count_or_auto
from dimly.cli.options import AsJson, Debug, ReleaseFolder
from dimly.cli.terminal import ProgressBar, print_fields, print_json, print_lines, size_text, warn
from dimly.errors import ParameterError
from dimly.files import check_output, write_text

if TYPE_CHECKING:
    from dimly.audit.certificate import Certificate
    from dimly.release.manifest import Manifest


def report(
    release: ReleaseFolder,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            "--output",
            metavar="FILE",
            help="The page to write; report.html by default, beside the release if that is the current folder.",
        ),
    ] = None,
    count: Annotated[
        str,
        typer.Option(
            metavar="N|auto",
            help="How many segments to look for; auto estimates it, which takes most of the time.",
            parser=count_or_auto,
        ),
    ] = "auto",
    profiles: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What people of each segment have in common, counted by dimly survey --by; named at the top.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Write a page about a release: what it is, which segments it shows, what it promises and what not, what it cost.

    One file for the privacy officer and the analyst, which opens in any browser and loads nothing from anywhere. It
    shows no user id. A certificate that dimly publish --audit left beside the release is shown, too. Segments are
    those that dimly segments finds, and have the same numbers; everything else looks at 65,536 people at most, evenly
    spaced.

    $ dimly report release -o report.html
    """
    inside = release.exists() and release.samefile(Path.cwd())
    output = out if out is not None else Path("..", "report.html") if inside else Path("report.html")
    if output.suffix.lower() not in (".html", ".htm"):
        raise ParameterError(f"--out must end in .html, got {str(output)!r}. Rename it; a browser can print it as PDF.")
    check_output(output, overwrite=overwrite, inputs=[release, profiles])
    from dimly.lab.report.officer import checks
    from dimly.lab.report.page import page_of
    from dimly.lab.report.report import report_of
    from dimly.release.documents.profiles_file import read_profiles
    from dimly.release.reader import open_folder

    told = None if profiles is None else read_profiles(profiles)
    sketches = open_folder(release)
    if not sketches.private:
        warn("this release was made for tests only and is NOT PRIVATE; it must not be given to anyone.")
    with ProgressBar() as bar:
        found = report_of(sketches, count="auto" if count == "auto" else int(count), profiles=told, progress=bar)
        bar.phase("writing")
        certificate = _certificate(release, found.manifest)
        page = (
            page_of(found)
            if certificate is None
            else page_of(found, audit=certificate.lines, seen=certificate.epsilon_lower_bound)
        )
    write_text(output, page, overwrite=overwrite)
    if as_json:
        print_json({"path": str(output), **found.to_dict()})
        return
    people = f"{found.sample.looked_at:,} of {found.manifest.n_users:,}"
    print_fields({"report": output, "size": size_text(len(page.encode())), "people looked at": people})
    print_lines(["", "To check before the release is given away:"])
    print_lines(f"- {line}" for line in checks(found.manifest))


def _certificate(release: Path, manifest: "Manifest") -> "Certificate | None":
    """Return the certificate beside a release, if there is one and it is about this release."""
    from dimly.audit.certificate import Certificate, certificate_path

    path = certificate_path(release)
    if not path.exists():
        return None
    found = Certificate.read(path)
    if (found.release, found.plan_digest) != (manifest.release, manifest.plan_digest):
        warn(f"{path.name} is about another release, and is not shown. Remove it.")
        return None
    return found
