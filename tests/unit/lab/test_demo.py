"""The demo says what the formulas say."""

import io
import re

import pytest
from rich.console import Console

from dimly.lab import demo
from dimly.mechanisms import Plan
from dimly.privacy import Budget


def shown(width: int = 100) -> str:
    out = io.StringIO()
    demo.main(Console(file=out, width=width, color_system=None))
    return out.getvalue()


def test_it_prints_the_published_calibrations_and_fits_a_terminal() -> None:
    text = shown(80)
    assert max(len(line) for line in text.splitlines()) <= 80
    row = next(line for line in text.splitlines() if "theorem1" in line)
    assert re.findall(r"\d+\.\d{3}", row) == ["10.439", "5.315", "2.750", "1.463"]
    assert "98% at ε = 4" in " ".join(text.split())


@pytest.mark.parametrize("mechanism", demo.MENU)
def test_every_cell_is_its_plans_error(mechanism: str) -> None:
    plan = demo.demo_plan(mechanism, 1.0)
    error = float(plan.error.distance()(demo.SQUARED_DISTANCE)) ** 0.5
    row = next(line for line in shown().splitlines() if line.startswith(f"│ {mechanism}"))
    assert f" {error:,.0f}" in row.split("│")[3]


def test_ours_has_a_tenth_of_the_papers_error() -> None:
    errors = [float(demo.demo_plan(m, 1.0).error.distance()(400.0)) ** 0.5 for m in (demo.PAPER, "counting+laplace")]
    assert errors[0] > 10 * errors[1]
    # And the paper is not made to look bad by its k.
    for k in (5, 10, 20, 30, 60):
        other = Plan.of(demo.PAPER, Budget(1.0, 1e-6), k=k, n_attributes=5000, rule="theorem1", seed=bytes(32))
        assert float(other.error.distance()(400.0)) ** 0.5 > 0.9 * errors[0]
