"""The demo publishes for real, and its predictions hold."""

import io
import re

import pytest
from rich.console import Console

from dimly.lab import demo
from dimly.lab.population import make_population
from dimly.mechanisms import Plan
from dimly.privacy import Budget


def test_it_fits_a_terminal_and_predicts_what_it_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "EPSILONS", (1.0, 4.0))
    out = io.StringIO()
    demo.main(Console(file=out, width=80, color_system=None))
    text = out.getvalue()
    assert max(len(line) for line in text.splitlines()) <= 80
    cells = [
        (float(measured.replace(",", "")), float(predicted.replace(",", "")))
        for measured, predicted in re.findall(r"([\d,]+) \(([\d,]+)\)", text)
    ]
    assert len(cells) == 2 * len(demo.MENU)
    for measured, predicted in cells:
        assert measured == pytest.approx(predicted, rel=0.25)  # one projection for all pairs: they go together
    assert "1/1" in text  # a tenth or less of the paper's error


def test_the_paper_is_not_made_to_look_bad_by_its_k() -> None:
    plan = demo.demo_plan(demo.PAPER, 1.0)
    found = float(plan.error.distance()(demo.PLANNING_DISTANCE)) ** 0.5
    for k in (5, 10, 20, 40, 80):
        other = Plan.of(demo.PAPER, Budget(1.0, 1e-6), k=k, n_attributes=5000, rule="theorem1", seed=bytes(32))
        assert float(other.error.distance()(demo.PLANNING_DISTANCE)) ** 0.5 > 0.85 * found


def test_pairs_are_of_different_people() -> None:
    a, b = demo.random_pairs(7, 1000)
    assert (a != b).all()
    assert {*a.tolist(), *b.tolist()} == set(range(7))
    people = make_population(50, 400, mean_weight=20)
    outcome = demo.run(Plan.of("randomized-response", Budget(12.0), n_attributes=400), people, a, b)
    assert outcome.measured < 2
    assert outcome.coverage > 0.9
