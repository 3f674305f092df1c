import numpy as np
import pytest
from tests.plans import plan_of

from dimly.curator.perturb import ListedTexts, RowCache
from dimly.errors import ParameterError

NAMES = [f"item {i}" for i in range(60)]
OPEN = ["counting+laplace", "hashing+laplace", "sparse+laplace", "sign+gaussian"]


class Counted(ListedTexts):
    """Notes which texts were asked for."""

    def __init__(self) -> None:
        super().__init__(NAMES)
        self.first: list[str] = []
        self.again: list[str] = []

    def between(self, start: int, stop: int) -> list[str]:
        texts = super().between(start, stop)
        self.first += texts
        return texts

    def at(self, codes: np.ndarray) -> list[str]:
        texts = super().at(codes)
        self.again += texts
        return texts


def people() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    rows = [np.sort(generator.choice(60, size, replace=False)) for size in (5, 0, 60, 1, 17)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    indices = np.concatenate(rows).astype(np.int32)
    return indptr, indices, generator.integers(0, 9, len(indices))


@pytest.mark.parametrize("mechanism", OPEN)
@pytest.mark.parametrize("kept", [1, 7, 59, 60, 1000])
@pytest.mark.parametrize("with_values", [False, True])
def test_sketches_do_not_depend_on_what_is_kept(mechanism: str, kept: int, with_values: bool) -> None:
    plan = plan_of(mechanism)
    assert plan.projection is not None
    row_bytes = 4 * plan.projection.k if mechanism.startswith("sign") else 5 * plan.projection.blocks
    cache = RowCache(plan, ListedTexts(NAMES), memory=kept * row_bytes)
    indptr, indices, values = people()
    factors = values if with_values else None
    expected = plan.rows(NAMES).project(indptr, indices, factors)
    np.testing.assert_array_equal(cache.project(indptr, indices, factors), expected)
    some = cache.project(indptr[2:5], indices, factors, out=np.full((2, plan.projection.k), 99))
    np.testing.assert_array_equal(some, expected[2:4])


def test_frequent_rows_are_derived_once_and_rare_ones_where_they_occur() -> None:
    texts = Counted()
    cache = RowCache(plan_of("counting+laplace"), texts, memory=50)  # ten rows
    cache.project(np.array([0, 3]), np.array([0, 9, 55]))
    cache.project(np.array([0, 2]), np.array([1, 12]))
    assert texts.first == NAMES[:10]
    assert texts.again == ["item 55", "item 12"]


def test_no_attributes_at_all() -> None:
    cache = RowCache(plan_of("counting+laplace"), ListedTexts([]), memory=100)
    assert not cache.project(np.array([0, 0, 0]), np.array([], np.int32)).any()


def test_only_sketches_have_rows() -> None:
    with pytest.raises(ParameterError, match="one that sketches"):
        RowCache(plan_of("randomized-response"), ListedTexts(NAMES), memory=100)
