"""Python in the documents runs as it stands, and tables say what the code says."""

import re
from pathlib import Path

import pytest

from dimly.lab import demo

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPETS = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S))
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_snippets_run(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "snippet", "exec"), {})  # noqa: S102
    assert capsys.readouterr().out


def test_the_readme_shows_what_the_demo_shows() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for mechanism in demo.MENU:
        row = next(line for line in readme.splitlines() if line.startswith(f"| `{mechanism}`"))
        shown = [cell.strip() for cell in row.split("|")[3:-1]]
        plans = [demo.demo_plan(mechanism, epsilon) for epsilon in demo.EPSILONS]
        assert shown == [f"{float(plan.error.distance()(demo.SQUARED_DISTANCE)) ** 0.5:,.0f}" for plan in plans]


def test_links_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
