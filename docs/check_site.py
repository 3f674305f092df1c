"""Check the built site: links inside of it lead somewhere, and no page loads from elsewhere or names this machine.

Run by ``make docs``: ``python docs/check_site.py build/site``.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}
# Where Python warns: of what it is in, where packages are installed, and where notebooks run.
MACHINE = re.compile(f"{re.escape(str(Path(__file__).parent))}[^<\\s]*|[^<>\\s]*(/site-packages/|/ipykernel_)[^<\\s]*")
NOT_LOADED = {"canonical", "next", "prev", "index", "search", "author", "about"}  # links that browsers do not follow


class Page(HTMLParser):
    """What a page names, links to and loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note ids, links and what is loaded."""
        found = {name: value or "" for name, value in attrs}
        self.ids.update(value for name, value in found.items() if name in {"id", "name"})
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if LOADED.get(tag) in found and not set(found.get("rel", "").split()) & NOT_LOADED:
            self.loads.append(found[LOADED[tag]])


def faults_of(site: Path) -> list[str]:
    """Return a line for each link that leads nowhere, and for whatever would be loaded from elsewhere."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    faults = [] if pages else [f"{site} holds no page"]
    for path in pages:
        found = MACHINE.search(path.read_text(encoding="utf-8"))
        faults += [f"{path.relative_to(site)}: {found[0]} is a path of the machine that built it"] if found else []
    for path, page in pages.items():
        at = path.relative_to(site)
        for address in (*page.links, *page.loads):
            parts = urlsplit(address)
            if parts.scheme == "data" or (address not in page.loads and parts.scheme in {"http", "https", "mailto"}):
                continue
            if parts.scheme or parts.netloc:
                faults.append(f"{at}: {address} would be loaded from elsewhere")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                faults.append(f"{at}: {address} leads nowhere")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                faults.append(f"{at}: {address} names no place on that page")
    for path in sorted(site.rglob("*.css")):
        found = re.findall(r"url\(\s*['\"]?((?:https?:)?//[^'\")]+)", path.read_text(encoding="utf-8"))
        faults += [f"{path.relative_to(site)}: {address} would be loaded from elsewhere" for address in found]
    return faults


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    faults = faults_of(Path(sys.argv[1]).resolve())
    print(
        "\n".join(faults)
        or "every link leads somewhere, nothing is loaded from elsewhere, and no path of this machine is named"
    )
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
