import itertools
import math
from typing import Any, get_args

import numpy as np
import pytest
from scipy.special import bdtrc, chdtri, ndtri

from dimly.mechanisms.projection.closed import chi_squared, dasgupta_squared_norm, half_normal_sum, ternary_entries
from dimly.mechanisms.projection.families import Power
from dimly.mechanisms.projection.random_matrix import (
    FamilyName,
    Projection,
    family_named,
    longest_row,
    realized_sensitivity,
)
from dimly.mechanisms.vocabulary import Vocabulary

TAILS = (0.3, 1e-2, 1e-4, 1e-8)


@pytest.mark.parametrize("tail", TAILS)
def test_sums_of_half_normals(tail: float) -> None:
    assert half_normal_sum(1, tail) == pytest.approx(-ndtri(tail / 2), rel=0.02)
    # |a| + |b| is √2 times the larger of two other half-normals: the same point seen along the diagonals.
    exact = math.sqrt(2) * -ndtri((1 - math.sqrt(1 - tail)) / 2)
    assert half_normal_sum(2, tail) == pytest.approx(exact, rel=0.05)
    assert half_normal_sum(2, tail) > half_normal_sum(1, tail)


@pytest.mark.parametrize("k", [1, 2, 64, 1000, 1 << 16])
@pytest.mark.parametrize("tail", [0.5, *TAILS, 1e-13])
def test_squared_lengths_and_entries_are_those_of_scipy(k: int, tail: float) -> None:
    assert chi_squared(k, tail) == pytest.approx(chdtri(k, tail), rel=1e-10)
    entries = ternary_entries(k, tail)
    assert bdtrc(entries, k, 1 / 3) <= tail * (1 + 1e-6)
    assert entries == 0 or bdtrc(entries - 1, k, 1 / 3) > tail * (1 - 1e-6)


def test_long_sums_are_nearly_normal() -> None:
    k = 1 << 16
    normal = k * math.sqrt(2 / math.pi) + math.sqrt(k * (1 - 2 / math.pi)) * -ndtri(1e-3)
    assert half_normal_sum(k, 1e-3) == pytest.approx(normal, rel=1e-4)
    assert half_normal_sum(k, 0.5) == pytest.approx(k * math.sqrt(2 / math.pi), rel=1e-4)


@pytest.mark.parametrize(("k", "blocks"), [(1, 1), (2, 2), (4, 4), (8, 4), (3, 5)])
def test_squared_norms_of_dasgupta_are_counted_exactly(k: int, blocks: int) -> None:
    placed = itertools.product(itertools.product(range(k), repeat=blocks), itertools.product((-1, 1), repeat=blocks))
    found = np.array([sum(np.bincount(places, signs, k) ** 2) for places, signs in placed])
    for tail in (0.5, 0.1, 0.01, 1e-3, 1e-9):
        smallest = min(n for n in range(blocks**2 + 1) if (found > n).mean() <= tail)
        assert dasgupta_squared_norm(k, blocks, tail) == smallest


@pytest.mark.parametrize(
    ("family", "k", "blocks"), [("ternary", 6, 1), ("ternary", 90, 1), ("gaussian", 3, 1), ("dasgupta", 8, 4)]
)
@pytest.mark.parametrize("n_attributes", [30, 3_000])
def test_the_longest_row_drawn_is_about_as_long(family: FamilyName, k: int, blocks: int, n_attributes: int) -> None:
    grid_bits = 12 if family == "gaussian" else None
    everything = Vocabulary.numbered(n_attributes)
    realized = [
        realized_sensitivity(Projection(family, k, blocks, bytes([seed] * 32), grid_bits), everything)
        for seed in range(21)  # the same rows in every run
    ]
    drawn = np.array([(row.l1, row.l2_squared) for row in realized])
    row_scale = family_named(family).scale(k, blocks=blocks, grid_bits=grid_bits)
    size: dict[str, Any] = {"blocks": blocks, "row_scale": row_scale, "n_attributes": n_attributes}
    likely = [longest_row(family, k, power=power, **size) for power in get_args(Power)]
    low, high = np.quantile(drawn, [0.15, 0.85], axis=0, method="inverted_cdf")
    assert (low <= likely).all()
    assert (likely <= high).all()


def test_rows_that_are_alike_need_no_guess() -> None:
    for power in get_args(Power):
        assert longest_row("sign", 64, power=power, blocks=1, row_scale=0.125, n_attributes=10**6) == 64


def test_without_a_number_of_attributes_a_row_is_average() -> None:
    assert longest_row("ternary", 900, power=1, blocks=1, row_scale=1.0, n_attributes=None) == 300


@pytest.mark.parametrize("power", get_args(Power))
def test_an_average_row_is_shorter_than_the_longest_of_several(power: Power) -> None:
    for k in (1, 2, 3, 10, 64, 1000, 1 << 22):
        size: dict[str, Any] = {"power": power, "blocks": 1, "row_scale": 2.0**-20}
        average, longest = (longest_row("gaussian", k, n_attributes=several, **size) for several in (None, 2))
        assert average < longest
