import numpy as np
import pytest

from dimly.mechanisms.discrete_laplace import DiscreteLaplace
from dimly.mechanisms.rounded_gaussian import RoundedGaussian
from dimly.mechanisms.tables import TOTAL, Cells, binomial_shift, even_moment, symmetric
from dimly.privacy import Budget


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
