"""Tables of docs/analysis.md and docs/accuracy.md say what theory and measurements say."""

import math
import re
from pathlib import Path

import pytest
from benchmarks.accuracy import RESULTS, load
from benchmarks.accuracy_report import FIGURES, MEASURES, markdown

from dimly.mechanisms import Plan, best_k
from dimly.mechanisms.make import sketching
from dimly.privacy import Budget

DOCS = Path(__file__).parents[2] / "docs"


def error(mechanism: str, epsilon: float, at: float) -> float:
    if sketching(mechanism) is None:
        plan = Plan.of(mechanism, Budget(epsilon), n_attributes=5_000)
    else:
        plan = Plan.of(mechanism, Budget(epsilon), k=best_k(mechanism, Budget(epsilon), squared_distance=at))
    return math.sqrt(float(plan.error.distance()(at)))


def test_what_splitting_a_budget_costs() -> None:
    page = (DOCS / "analysis.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z+-]+)`[^|]*\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", page, re.M)
    assert len(rows) == 3
    for mechanism, *cells in rows:
        errors = [error(mechanism, 1 / n, 200.0) / math.sqrt(n) for n in (1, 2, 4)]
        assert cells == [f"{value:,.0f}" for value in errors]


@pytest.mark.parametrize("measure", MEASURES)
def test_the_page_shows_what_was_measured(measure: str) -> None:
    page = (DOCS / "accuracy.md").read_text(encoding="utf-8")
    table = markdown(load(RESULTS), measure)
    assert table.count("\n") > 6
    assert table in page, "run: python -m benchmarks.accuracy_report"
    assert f"](figures/{measure}.png)" in page
    assert (FIGURES / f"{measure}.png").exists()
