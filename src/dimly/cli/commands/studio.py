"""``dimly studio``: starts the web page."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from dimly.cli.options import AsJson, Debug
from dimly.cli.terminal import print_json, print_lines
from dimly.errors import ParameterError, need_extra


def studio(
    releases: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RELEASE", help="Release folders to look into.", show_default=False),
    ] = None,
    *,
    ledger: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A ledger to look into; may be repeated.", show_default=False),
    ] = None,
    sample: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="People whose data is public, to try plans out on.", show_default=False),
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", help="The port to listen on; a free one by default.", show_default=False)
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")] = False,
    as_json: AsJson = False,
    _debug: Debug = False,
) -> None:
    """Open a page in the browser: make a plan, look into releases, see what was spent.

    It runs on this computer alone, at 127.0.0.1 behind a token, and loads nothing from anywhere. It asks for no private
    data and cannot publish: give it plans, releases, ledgers, surveys and public samples only. Stop it with Ctrl-C.

    $ dimly studio
    $ dimly studio release --ledger ledger.db
    """
    if port is not None and not 0 <= port <= 65535:
        raise ParameterError(f"port must be from 0 to 65535, got {port}. Leave it out to use any free one.")
    need_extra("Pages of the studio", "nicegui", "studio")
    from dimly.studio.app import serve
    from dimly.studio.workspace import Workspace

    workspace = Workspace()
    for path in releases or ():
        workspace.open_release(path)
    for path in ledger or ():
        workspace.open_ledger(path)
    if sample is not None:
        if not sample.is_file():
            raise ParameterError(f"sample must be a file, got {str(sample)!r}.")
        workspace.sample = str(sample)

    def ready(address: str) -> None:
        if as_json:
            print_json({"address": address})
        else:
            print_lines([f"Dimly studio: {address}", "Ctrl-C stops it."])

    with contextlib.suppress(KeyboardInterrupt):  # the way to stop it, and no failure
        serve(workspace, port=port, browser=not no_browser, ready=ready)
