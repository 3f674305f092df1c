import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.errors import ParameterError
from dimly.mechanisms.noise.gaussian import RoundedGaussian
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.tables import TOTAL, BitFlip, Cells, binomial_shift, even_moment, symmetric
from dimly.privacy import Budget
from dimly.privacy.balls import ball, lower_fraction, precision
from dimly.privacy.budget import stated


def last_of(cells: Cells) -> list[int]:
    return [(int(h) << 64) | int(low) for h, low in zip(cells.high, cells.low, strict=True)]


def test_cells_hold_the_last_number_of_each_cell() -> None:
    quarter = TOTAL // 4
    cells = Cells.of([quarter, 2 * quarter, quarter], first=-1)
    assert last_of(cells) == [quarter - 1, 3 * quarter - 1, TOTAL - 1]
    assert (len(cells), cells.first, cells.high.dtype) == (3, -1, np.dtype(np.uint64))


def test_cells_must_cover_everything() -> None:
    with pytest.raises(ArithmeticError, match="must sum to"):
        Cells.of([TOTAL - 1], first=0)


def test_cells_of_the_laws_give_their_weights_back() -> None:
    gaussian = RoundedGaussian.of(3.0)
    cells = gaussian.cells()
    assert np.diff([-1, *last_of(cells)]).tolist() == symmetric(gaussian.half)
    assert (cells.first, len(cells)) == (1 - len(gaussian.half), gaussian.n_weights)
    laplace = DiscreteLaplace.of(Budget(1.0), l1_sensitivity=1)
    cells = laplace.cells()
    assert np.diff([-1, *last_of(cells)]).tolist() == [laplace.overflow, *symmetric(laplace.head), laplace.overflow]
    assert cells.first + len(laplace.head) == 0
    tail = laplace.tail_cells()
    assert np.diff([-1, *last_of(tail)]).tolist() == [*laplace.tail, laplace.tail_overflow]
    assert tail.first == 1
    assert len(cells) + len(tail) == laplace.n_weights


def test_moments() -> None:
    half = (TOTAL // 2, TOTAL // 8, TOTAL // 8)
    assert symmetric(half) == [TOTAL // 8, TOTAL // 8, TOTAL // 2, TOTAL // 8, TOTAL // 8]
    assert even_moment(half, 2) == (1 + 4) / 4
    assert even_moment(half, 4) == (1 + 16) / 4
    # E (3 + X)² for X with moments 1, 2, 5
    assert binomial_shift([1, 2, 5], 3, 2) == 9 + 12 + 5  # type: ignore[list-item]


def test_lemma_3() -> None:
    assert BitFlip.of(Budget(1.0)).probability == pytest.approx(1 / (1 + math.e), rel=1e-12)
    # A category moves two bits, each at half of ε.
    assert BitFlip.of(Budget(2.0), bits_moved=2).probability == BitFlip.of(Budget(1.0)).probability


@pytest.mark.parametrize("probability", [0.0, 0.5, 0.75, -0.25, math.nan, 2.0**-54, 2.0**-54 + 0.25])
def test_probability_must_be_dyadic_and_below_one_half(probability: float) -> None:
    if probability == 0.25:  # 2⁻⁵⁴ + ¼ rounds to ¼: nothing to refuse
        assert BitFlip(probability).numerator == 2**51
        return
    with pytest.raises(ParameterError, match="multiple of 2"):
        BitFlip(probability)


def test_an_epsilon_of_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match="epsilon must be at least"):
        BitFlip.of(Budget(1e-17))


def test_the_smallest_flip_is_one_unit() -> None:
    assert BitFlip.of(Budget(60.0)).numerator == 1


@given(st.floats(0.01, 30.0), st.integers(1, 2))
def test_a_flip_keeps_the_decimal_that_was_stated(epsilon: float, bits_moved: int) -> None:
    flip = BitFlip.of(Budget(epsilon), bits_moved=bits_moved)
    flip.check(Budget(epsilon), bits_moved=bits_moved)
    with precision(192):
        limit = lower_fraction((ball(min(stated(epsilon), Fraction(epsilon))) / bits_moved).exp())
    assert Fraction((1 << 53) - flip.numerator, flip.numerator) <= limit
