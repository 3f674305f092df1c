"""The random threshold: its claim over all outcomes, computed anew in exact arithmetic, and how soon it shows names."""

from fractions import Fraction

import mpmath
import pytest

from dimly.curator.sampling import NoiseSampler
from dimly.errors import ParameterError
from dimly.mechanisms.noise import name_threshold
from dimly.mechanisms.noise.name_threshold import RandomThreshold
from dimly.mechanisms.noise.tables import TOTAL
from dimly.privacy import Budget

from tests.streams import Constant  # isort: skip

BUDGETS = [(1.0, 1e-6), (0.1, 1e-7), (0.0125, 1e-7), (0.5, 0.2), (2.0, 1e-12), (8.0, 1e-9), (0.7, 0.999), (30.0, 1e-20)]


def outcomes(law: RandomThreshold, count: int) -> dict[int | None, int]:
    """Return the weight of each thing that can be seen of a name that ``count`` people have; None: it is not shown."""
    found: dict[int | None, int] = {}
    for needed, weight in enumerate(law.weights, start=1):
        seen = count + law.center - needed if count >= needed else None
        found[seen] = found.get(seen, 0) + weight
    return found


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_no_set_of_outcomes_changes_by_more_than_the_budget(epsilon: float, delta: float) -> None:
    law = RandomThreshold.of(Budget(epsilon, delta))
    with mpmath.workdps(60):
        top = int(mpmath.floor(mpmath.exp(mpmath.mpf(repr(epsilon))) * mpmath.mpf(10) ** 50))
    factor, worst = Fraction(top, 10**50), Fraction(0)
    counts = range(law.size + 2) if law.size < 100 else [0, 1, 2, law.center, law.size - 1, law.size, law.size + 1]
    for count in counts:
        one, other = outcomes(law, count), outcomes(law, count + 1)
        for a, b in ((one, other), (other, one)):
            worst = max(
                worst, sum((max(Fraction(0), w - factor * b.get(seen, 0)) for seen, w in a.items()), Fraction(0))
            )
    assert worst / TOTAL <= Fraction(repr(delta))
    assert law.shown(0) == 0
    assert law.shown(1) <= Fraction(repr(delta))
    assert law.shown(law.size) == 1


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-7), (0.5, 1e-3), (3.0, 1e-9)])
def test_names_are_shown_as_soon_as_any_rule_may(epsilon: float, delta: float) -> None:
    law = RandomThreshold.of(Budget(epsilon, delta))
    best, e = Fraction(0), Fraction(repr(float(mpmath.exp(epsilon))))
    for count in range(1, law.size + 1):  # the recursion of Desfontaines et al., theorem 1
        best = min(e * best + Fraction(repr(delta)), 1 - (1 - best - Fraction(repr(delta))) / e, Fraction(1))
        assert law.shown(count) <= best * (1 + Fraction(1, 10**9))
        # A law of whole cells is at most one person later.
        assert law.shown(count + 1) >= best * (1 - Fraction(1, 10**9))


def test_what_is_sampled_is_the_law() -> None:
    law = RandomThreshold.of(Budget(1.0, 1e-6))
    cells = law.cells()
    assert (cells.first, len(cells)) == (law.center - law.size, law.size)
    smallest = NoiseSampler(law).draw(1, Constant(0, 0))[0]
    largest = NoiseSampler(law).draw(1, Constant(0xFFFF, (1 << 64) - 1))[0]
    assert (smallest, largest) == (law.center - law.size, law.center - 1)
    assert law.n_weights == law.size
    assert law.variance**2 < law.fourth_moment


def test_tables_that_keep_less_are_refused() -> None:
    law = RandomThreshold.of(Budget(1.0, 1e-6))
    for changed in (
        law.weights[1:],
        (0, *law.weights[1:-1], law.weights[-1] + law.weights[0]),
        (law.weights[0] * 2, *law.weights[1:-1], law.weights[-1] - law.weights[0] + 1),
    ):
        with pytest.raises(ParameterError, match="weights must"):
            RandomThreshold(law.budget, tuple(changed))
    middle = law.size // 2
    moved = list(law.weights)
    moved[0], moved[middle] = moved[0] + (1 << 80), moved[middle] - (1 << 80)
    RandomThreshold(law.budget, tuple(moved))  # the edge had room
    moved[5], moved[6] = moved[5] - (1 << 100), moved[6] + (1 << 100)
    with pytest.raises(ParameterError, match="must keep epsilon"):
        RandomThreshold(law.budget, tuple(moved))
    with pytest.raises(ParameterError, match="must keep epsilon"):
        RandomThreshold(Budget(0.99, 1e-6), law.weights)
    with pytest.raises(ParameterError, match="must keep epsilon"):
        RandomThreshold(Budget(1.0, 7e-7), law.weights)


def test_what_cannot_be_built() -> None:
    with pytest.raises(ParameterError, match="delta must be > 0 to show names"):
        RandomThreshold.of(Budget(1.0))
    with pytest.raises(ParameterError, match="at most 1048576 weights"):
        RandomThreshold.of(Budget(1e-5, 1e-9))


@pytest.mark.parametrize(("epsilon", "delta"), [*BUDGETS, (1e-3, 1e-3), (1e-12, 1e-4)])
def test_the_size_is_found_in_a_few_tries(epsilon: float, delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where epsilon is far below delta: 10,000 tries were 10⁸ steps, and 10⁶ never ended."""
    tried, weights = [], name_threshold._weights

    def counted(size: int, ratio: Fraction) -> tuple[int, ...]:
        tried.append(size)
        return weights(size, ratio)

    monkeypatch.setattr(name_threshold, "_weights", counted)
    RandomThreshold.of.cache_clear()
    law = RandomThreshold.of(Budget(epsilon, delta))
    assert len(tried) <= 6
    assert law.size == tried[-1]
    assert len(tried) > 1 or law.size == 1  # it began below the least size, and so found it


def test_an_epsilon_that_cannot_be_told_from_none_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"epsilon must be above .* Use a larger one, or give the list"):
        RandomThreshold.of(Budget(1e-19, 1e-3))
    with pytest.raises(ParameterError, match="at most 1048576 weights"):
        RandomThreshold.of(Budget(1e-12, 1e-8))
