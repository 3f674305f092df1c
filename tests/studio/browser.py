"""A studio that serves in a process of its own, and a real Chromium that looks at it."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 180_000  # milliseconds before a test fails: in a fresh clone, the first question compiles kernels


def chromium() -> str | None:
    """Return the browser of the system, if there is one."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


@dataclass
class Served:
    """A studio that listens."""

    address: str
    """With its token."""
    process: "subprocess.Popen[str]"
    requests: list[str] = field(default_factory=list)
    """Addresses that browsers asked for, but for data that is in the page already."""

    @property
    def origin(self) -> str:
        """Where it listens."""
        return self.address.partition("/?")[0]

    def status(self, path: str, **headers: str) -> int:
        """Return the status of a plain request."""
        request = urllib.request.Request(self.origin + path, headers=headers)  # noqa: S310 - on this machine
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


@contextmanager
def served(*arguments: object) -> Iterator[Served]:
    """Serve a studio while entered."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "NICEGUI"))}
    line = [sys.executable, "-m", "dimly", "studio", *map(str, arguments), "--no-browser", "--json", "--port", "0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            found = Served(json.loads(process.stdout.readline())["address"], process)
            for _ in range(300):
                try:
                    found.status("/")
                    break
                except OSError:
                    time.sleep(0.1)
            yield found
        finally:
            process.terminate()
            process.wait(30)


def opened(browser: Any, studio: Served, *, path: str = "/", width: int = 1280, **options: Any) -> Any:
    """Return a new tab, in a context of its own, that looks at a page of the studio."""
    context = browser.new_context(viewport={"width": width, "height": 900}, accept_downloads=True, **options)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.on("request", lambda request: studio.requests.append(request.url))
    visit(page, studio.address)
    if path != "/":
        visit(page, studio.origin + path)
    return page


def visit(page: Any, address: str) -> None:
    """Go to a page, and wait until it is joined to the studio: on a busy machine it may be built anew until then."""
    page.goto(address)
    page.wait_for_function("window.did_handshake")


def saved(download: Any, folder: Path) -> Path:
    """Return a downloaded file."""
    path = folder / str(download.suggested_filename)
    download.save_as(path)
    return path
