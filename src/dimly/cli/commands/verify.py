"""``dimly verify``: whether a release is whole and says what its numbers say."""

from pathlib import Path
from typing import Annotated

import typer

from dimly.cli.options import AsJson, Debug
from dimly.cli.terminal import ProgressBar, print_fields, print_json, print_lines, size_text


def verify(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="The release folder.", show_default=False)],
    *,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Check a release: every checksum, the layout, the plan's proof, the words of its promise.

    Exits with 1 if anything is wrong. It cannot prove that noise was added: that is the publisher's word.

    $ dimly verify release
    """
    from dimly.release.verify import verify as check

    with ProgressBar(amount=size_text) as bar:
        bar.phase("checking")
        found = check(release, progress=bar.reach)
    if as_json:
        print_json(
            {
                "verified": True,
                "release": found.release,
                "users": found.n_users,
                "files": found.files,
                "checks": list(found.checks),
                "limits": found.limits,
            }
        )
        return
    print_fields({"verified": str(release), "id": found.release, "people": f"{found.n_users:,}"})
    print_lines(["", *(f"- {line}" for line in found.checks), "", found.limits])
