"""``make docs-screens``: takes the pictures of the studio for the docs, or only those named; of made-up people."""

import io
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image
from tests.studio.browser import ARGUMENTS, Served, chromium, opened, served

from dimly.api import publish
from dimly.curator.ledger.ledger import Ledger
from dimly.errors import PrivacyWarning
from dimly.lab.population import make_population
from dimly.mechanisms import Plan
from dimly.privacy import Budget

OUT = Path(__file__).parents[2] / "docs" / "figures"
MOST_BYTES = 200_000
N_PEOPLE = 20_000


def make_world(root: Path) -> list[object]:
    """Publish made-up customers twice, and return what the studio is started with."""
    people = make_population(N_PEOPLE, 600, n_groups=5, mean_weight=40, taste=20, seed=3)
    ledger = Ledger.create(root / "ledger.db")
    ledger.add_dataset("purchases", epsilon=8.0)
    users = np.array([f"c{i:05d}" for i in range(N_PEOPLE)])
    for name, epsilon, recipient in (("spring", 3.0, "market research"), ("autumn", 2.0, "city council")):
        _publish(people.table, users, root, name, epsilon, recipient)
    return [root / "spring", root / "autumn", "--ledger", root / "ledger.db"]


def _publish(table: Any, users: Any, root: Path, name: str, epsilon: float, recipient: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # a matrix has no list of people
        publish(
            table,
            Plan.of("counting+laplace", Budget(epsilon), k=128),
            out=root / name,
            users=users,
            attributes=[f"product {i}" for i in range(600)],
            ledger=root / "ledger.db",
            dataset="purchases",
            recipient=recipient,
        )


def take(page: Any, name: str, *, height: int) -> None:
    """Save what a page shows as a small picture."""
    page.set_viewport_size({"width": page.viewport_size["width"], "height": height})
    page.wait_for_timeout(1500)
    picture = Image.open(io.BytesIO(page.screenshot()))
    for colors in (256, 128, 64):
        buffer = io.BytesIO()
        picture.convert("RGB").quantize(colors).save(buffer, "PNG", optimize=True)
        if buffer.tell() <= MOST_BYTES:
            break
    (OUT / f"studio-{name}.png").write_bytes(buffer.getvalue())
    print(f"docs/figures/studio-{name}.png: {buffer.tell() / 1000:.0f} kB")  # noqa: T201


def plan(browser: Any, studio: Served, name: str = "plan", height: int = 1180, **options: Any) -> None:
    """Take the Plan page once everything has followed."""
    page = opened(browser, studio, **options)
    page.get_by_text("The best guess was right in").wait_for()
    take(page, name, height=height)


def release(browser: Any, studio: Served) -> None:
    """Take the Release page, verified."""
    page = opened(browser, studio, path="/release")
    page.get_by_role("button", name="Verify").click()
    page.get_by_text("attributes on average").wait_for()
    page.get_by_text("Everything that can be checked is in order").wait_for()
    heading = page.get_by_text("What can be seen through the noise")
    heading.evaluate("it => window.scrollTo(0, it.getBoundingClientRect().top + window.scrollY - 90)")
    take(page, "release", height=1180)


def ledger(browser: Any, studio: Served) -> None:
    """Take the Ledger page."""
    page = opened(browser, studio, path="/ledger")
    page.get_by_text("Would a plan still fit?").wait_for()
    take(page, "ledger", height=820)


def explore(browser: Any, studio: Served, name: str = "explore", **options: Any) -> None:
    """Take the Explore page with the groups found, and somebody asked about."""
    page = opened(browser, studio, path="/explore", **options)
    page.locator(f"[data-drawn='{N_PEOPLE}']").wait_for()
    page.get_by_text("group 2: ").wait_for()
    page.get_by_label("Id of a person").fill("c00042")
    page.keyboard.press("Enter")
    page.locator("[data-testid=belief]").wait_for()
    take(page, name, height=1000)


PICTURES: Final[dict[str, Callable[[Any, Served], None]]] = {
    "plan": plan,
    "release": release,
    "ledger": ledger,
    "explore": explore,
    "explore-dark": partial(explore, name="explore-dark", color_scheme="dark"),
    "plan-phone": partial(plan, name="plan-phone", height=1500, width=390),
}


def main() -> int:
    """Take the pictures, or say what is missing."""
    path = chromium()
    if path is None:
        print("The pictures need Chromium: apt install chromium, or another package of it.", file=sys.stderr)  # noqa: T201
        return 1
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only here

    with (
        tempfile.TemporaryDirectory() as folder,
        served(*make_world(Path(folder))) as studio,
        sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        for name in sys.argv[1:] or PICTURES:
            PICTURES[name](browser, studio)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
