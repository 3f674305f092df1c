"""The second opinion on tables agrees with the first where they are right, and finds them wrong where they are not."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.plans import plan_of

from dimly.audit import exact_tables
from dimly.audit.exact_tables import check_tables, exp_below, weights_of
from dimly.mechanisms import MECHANISMS, Plan
from dimly.mechanisms.noise.gaussian import RoundedGaussian
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.tables import TOTAL, BitFlip, Cells
from dimly.mechanisms.plan_parts import FlipNoise, GaussianNoise, LaplaceNoise
from dimly.privacy import Budget


def test_exp_is_just_below() -> None:
    assert float(exp_below(Fraction(1))) == pytest.approx(np.e)
    assert exp_below(Fraction(0)) < 1


def test_weights_are_those_of_the_cells() -> None:
    weights = [5, TOTAL - 12, 7]
    assert weights_of(Cells.of(weights, first=-1)) == weights


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_plans_pass(mechanism: str) -> None:
    assert check_tables(plan_of(mechanism)) is None


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0, 30.0])
def test_many_epsilons_pass(epsilon: float) -> None:
    for mechanism, more in (("counting+laplace", {"k": 4}), ("hashing+gaussian", {"k": 4})):
        assert check_tables(Plan.of(mechanism, Budget(epsilon, 1e-9), **more)) is None  # type: ignore[arg-type]
    assert check_tables(Plan.of("randomized-response", Budget(epsilon), n_attributes=3)) is None


def table_patch(monkeypatch: pytest.MonkeyPatch, kind: type, table: Any) -> None:
    monkeypatch.setattr(kind, "table", lambda *_: table)


def test_too_little_laplace_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("counting+laplace")
    table_patch(monkeypatch, LaplaceNoise, DiscreteLaplace.of(Budget(1.000001), l1_sensitivity=1))
    assert check_tables(plan) == "two neighboring values differ by more than the promise allows"


def test_a_broken_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("counting+laplace")
    good = DiscreteLaplace.of(plan.budget, l1_sensitivity=1)
    weights = weights_of(good.cells())
    for change in (1, 2**60):  # a unit is within the slack of the head, and far from it in the tail's seam
        weights[0] -= change
        weights[-1] -= change
        weights[len(weights) // 2] += 2 * change

        class Broken:
            def cells(self) -> Cells:
                return Cells.of(weights, first=-(len(weights) // 2))

            def tail_cells(self) -> Cells:
                return good.tail_cells()

        monkeypatch.setattr(exact_tables, "DiscreteLaplace", Broken)
        table_patch(monkeypatch, LaplaceNoise, Broken())
        assert (check_tables(plan) is None) == (change == 1)
    lopsided = weights_of(good.cells())
    lopsided[0] += 1
    lopsided[5] -= 1
    monkeypatch.setattr(Broken, "cells", lambda _: Cells.of(lopsided, first=0))
    assert check_tables(plan) == "noise is not symmetric"


def test_a_smaller_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("counting+laplace", resolution=5)
    monkeypatch.setattr(type(plan), "sensitivity", plan_of("counting+laplace", resolution=6).sensitivity)
    assert check_tables(plan) == "the noise is for a smaller change than one unit can make"


def test_too_few_flips(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("randomized-response")
    less = FlipNoise(probability=BitFlip.of(Budget(1.000001)).probability)
    monkeypatch.setitem(plan.__dict__, "noise", less)
    assert check_tables(plan) == "bits are flipped too seldom"


def test_too_little_gaussian_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("hashing+gaussian")
    assert isinstance(plan.noise, GaussianNoise)
    monkeypatch.setattr(type(plan), "prove", lambda _: None)
    table_patch(monkeypatch, GaussianNoise, RoundedGaussian.of(0.99 * plan.noise.sigma))
    assert check_tables(plan) == "more than delta exceeds what the promise allows"
