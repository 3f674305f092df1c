"""Python in the documents runs as it stands, and tables say what the code says."""

import re
import runpy
from pathlib import Path

import pytest

import dimly
import dimly.estimators
import dimly.spark
from dimly.mechanisms import Plan, best_k
from dimly.mechanisms.error.models import CountingError, Noise
from dimly.mechanisms.make import sketching
from dimly.mechanisms.noise.laplace import laplace_moments
from dimly.privacy import Budget, Rule

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EVERY_PAGE = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONG_LINES = {"benchmarks.md", "cli.md"}
"""Pages with lines that are generated."""
SNIPPETS = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S))
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_snippets_run(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "snippet", "exec"), {})  # noqa: S102
    assert capsys.readouterr().out


def stated_plan(mechanism: str, epsilon: float) -> Plan:
    budget = Budget(epsilon, 1e-6)
    if mechanism == "noisy-distances":
        return Plan.of(mechanism, budget, n_users=1_000, n_attributes=5_000)
    if sketching(mechanism) is None:
        return Plan.of(mechanism, budget, n_attributes=5_000)
    rule: Rule = "theorem1" if mechanism == "gaussian+gaussian" else "exact"
    k = best_k(mechanism, budget, squared_distance=400.0, rule=rule, n_attributes=5_000)
    return Plan.of(mechanism, budget, k=k, n_attributes=5_000, rule=rule, seed=bytes(32))


def test_the_menu_shows_what_theory_says() -> None:
    page = (ROOT / "docs" / "mechanisms.md").read_text(encoding="utf-8").partition("## Which one is best")[2]
    rows = re.findall(r"^\| `([a-z+-]+)`[^|]*\|[^|]*\|(.*)\|$", page, re.M)
    assert len(rows) == 6
    for mechanism, cells in rows:
        plans = [stated_plan(mechanism, epsilon) for epsilon in (0.5, 1.0, 2.0, 4.0)]
        errors = [f"{float(plan.error.distance()(400.0)) ** 0.5:,.0f}" for plan in plans]
        assert [cell.strip() for cell in cells.split("|")] == errors


def anchors_of(page: Path) -> set[str]:
    """Return what links to a page may name after ``#``: its headings, as GitHub and the site spell them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    for page in [*EVERY_PAGE, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for path, _, anchor in re.findall(r"\]\(([^)#:\s]*)(#([^)\s]+))?\)", page.read_text(encoding="utf-8")):
            target = page.parent / path if path else page
            assert target.exists() or "generated" in path, f"{page.name} links to {path}"
            assert not anchor or anchor in anchors_of(target), f"{page.name} links to {path}#{anchor}"


def test_every_page_is_in_the_table_of_contents() -> None:
    docs, listed = ROOT / "docs", {ROOT / "docs" / "index.md"}
    for page in docs.rglob("*.md"):
        for tree in re.findall(r"^```{toctree}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
            listed |= {(page.parent / f"{name}.md").resolve() for name in re.findall(r"^[\w./-]+$", tree, re.M)}
    pages = {page for page in docs.rglob("*.md") if "generated" not in page.parts}
    assert not pages - listed, "name the page in docs/how-to, docs/reference or docs/explanation/index.md"


def test_the_reference_names_everything() -> None:
    page = (ROOT / "docs" / "reference" / "api.rst").read_text(encoding="utf-8")
    listed = {name.rpartition(".")[2] for name in re.findall(r"^(?:   |\.\. py:data:: )([\w.]+)$", page, re.M)}
    assert not {*dimly.__all__, *dimly.estimators.__all__, *dimly.spark.__all__} - listed


def test_lines_of_prose_are_short() -> None:
    for page in EVERY_PAGE:
        text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        long = [line for line in text.splitlines() if len(line) > 120 and not line.startswith(("|", "![", "<!--"))]
        assert page.name in LONG_LINES or not long, f"{page.name}: {long[0]}"


def test_contributing_names_what_there_is() -> None:
    page, rooms = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), ROOT / "src" / "dimly"
    for path in re.findall(r"\b\w+/[\w/]+\.py\b", page):
        assert (rooms / path).exists() or (ROOT / path).exists(), path
    for path, names in re.findall(r"^([\w/]+\.py) → (\S+(?:, \w+)*)", page, re.M):
        for name in re.findall(r"\w+", names):
            assert re.search(rf"(def|class) {name}\b", (rooms / path).read_text(encoding="utf-8")), f"{path}: {name}"


def test_contributing_names_every_file_by_its_docstring() -> None:
    script, page = runpy.run_path(str(ROOT / "docs" / "file_map.py")), (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert script["tree"]() in page, "run: python docs/file_map.py"
    for file in (ROOT / "src" / "dimly").rglob("*.py"):
        line = script["first_line"](file)
        assert line.endswith("."), f"{file}: {line}"
        assert len(line) <= script["LONGEST"], f"{file}: {line}"


def test_the_table_of_blends_is_what_theory_says() -> None:
    page = (ROOT / "docs" / "error-theory.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+), (\d+) \| (\d+) \| (\d+) \| (\d+) at ([\d.]+) \|$", page, re.M)
    assert len(rows) == 7
    noise = Noise(*laplace_moments(1.0))
    for row in rows:
        w, r2, plain, default, best, blend = map(float, row)
        errors = [
            float(CountingError(128, noise, blend=b).distance(weights=(w, w))(r2)) ** 0.5 for b in (0.0, 0.75, blend)
        ]
        assert errors == pytest.approx([plain, default, best], abs=0.6)
        assert blend == pytest.approx(float(CountingError(128, noise).best_blend((w, w), w - r2 / 2)), abs=0.006)
