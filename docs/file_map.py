"""The tree of CONTRIBUTING.md, made from the first lines of docstrings: ``python docs/file_map.py`` renews it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
LONGEST = 110
"""Characters of a line about a file, its name left out."""
ROOMS = (
    "privacy",
    "mechanisms",
    "release",
    "planner",
    "curator",
    "analyst",
    "spark",
    "estimators",
    "lab",
    "audit",
    "studio",
    "cli",
)
"""As in the list of rooms: each knows only those before it."""
_TREE = re.compile(r"(?<=<!-- made by docs/file_map.py -->\n)```\n.*?```\n", re.S)


def tree() -> str:
    """Return every file of every room, with what its docstring says first; a room before the rooms in it."""
    return "```\n" + "\n".join(_lines(ROOT / "src" / "dimly")) + "\n```\n"


def _lines(folder: Path) -> Iterator[str]:
    name = f"{folder.relative_to(ROOT / 'src')}/"
    yield f"{name:<30}{first_line(folder / '__init__.py')}"
    for file in sorted(folder.glob("[a-z]*.py")):
        yield f"  {file.name:<28}{first_line(file)}"
    for room in sorted((found.parent for found in folder.glob("*/__init__.py")), key=_place):
        yield ""
        yield from _lines(room)


def _place(room: Path) -> tuple[int, str]:
    return (ROOMS.index(room.name) if room.name in ROOMS else len(ROOMS)), room.name


def first_line(file: Path) -> str:
    """Return what a file says of itself first, as it stands in the tree."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].replace("``", "`")


def renewed(page: str) -> str:
    """Return a page with the tree as it is now."""
    return _TREE.sub(lambda _: tree(), page)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
