"""Whether one more release fits a dataset's budget: a filter over all that was charged.

Plans may be chosen after earlier releases were seen, so that only rules count which hold for such choices: a sum, or a
Rényi filter (Feldman and Zrnic, 2021), whose total ε, δ and method are fixed before the first charge.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from dimly.curator.ledger_records import FILTER_METHODS, FilterMethod, check_text
from dimly.errors import BudgetError, ParameterError
from dimly.privacy.budget import UNITS, Budget, Unit
from dimly.privacy.composition import LARGEST_EPSILON, Composition, compose
from dimly.privacy.cost import Cost

DIGITS: Final = 12
"""Significant digits to which a total is compared with a budget: in binary, ten times 0.1 are 1.0000000000000002."""


@dataclass(frozen=True, slots=True)
class DatasetBudget:
    """What may be spent on one dataset, fixed for ever. Make one with :meth:`of`."""

    name: str
    epsilon: float
    delta: float
    unit: Unit
    method: FilterMethod

    @classmethod
    def of(cls, name: str, *, epsilon: float, delta: float, unit: Unit, method: FilterMethod | None) -> "DatasetBudget":
        """Return a budget whose parts fit each other.

        Raises
        ------
        ParameterError
            If they do not.
        """
        check_text("dataset", name)
        budget = Budget(epsilon, delta)
        if unit not in UNITS:
            raise ParameterError(f"unit must be one of {', '.join(UNITS)}, got {unit!r}.")
        if method is None:
            method = "sum" if budget.is_pure else "renyi"
        if method not in FILTER_METHODS:
            raise ParameterError(
                f"method must be one of {', '.join(FILTER_METHODS)}, got {method!r}. Others do not hold for plans "
                "that are chosen after earlier releases were seen."
            )
        if method == "renyi" and not (budget.delta > 0 and budget.epsilon <= LARGEST_EPSILON):
            raise ParameterError(
                f"method 'renyi' must have delta > 0 and epsilon of at most {LARGEST_EPSILON:g}, got delta "
                f"{budget.delta:g} and epsilon {budget.epsilon:g}. Use method 'sum'."
            )
        return cls(name, budget.epsilon, budget.delta, unit, method)

    def in_unit(self, cost: Cost) -> Cost:
        """Return a cost in the dataset's unit.

        A plan that protects a whole column protects each of its attributes, which move half as far, at no more than the
        same cost. The other way round there is no such claim.

        Raises
        ------
        BudgetError
            If the plan protects attributes and the dataset promises columns.
        """
        if cost.unit == self.unit:
            return cost
        if self.unit == "column":
            raise BudgetError(
                f"plan must protect unit 'column', as dataset {self.name!r} promises, got {cost.unit!r}: a changed "
                "category moves two attributes. Make a plan with unit 'column'."
            )
        return replace(cost, unit=self.unit)

    def spent(self, costs: Sequence[Cost]) -> Composition:
        """Return what these cost together by the dataset's own method.

        Only a charge that was forgiven by force and came out after all can exceed what the method can tell; then
        the plain sum is told.
        """
        try:
            return self._compose(costs)
        except ParameterError:
            return compose(costs, delta=math.nextafter(1.0, 0.0), method="sum")

    def left(self, costs: Sequence[Cost]) -> float:
        """Return the largest ε of one pure release that certainly still fits after these, or 0.0."""

        def total(epsilon: float) -> float:
            return self._compose([*costs, Cost(epsilon, unit=self.unit)]).epsilon

        least = self.epsilon * 1e-9  # less is rounding, not budget
        try:
            if total(least) > self.epsilon:
                return 0.0
        except ParameterError:
            return 0.0
        low, high = least, self.epsilon * (1 + 1e-9)
        while high - low > 1e-15 * high:
            middle = (low + high) / 2
            if not low < middle < high:
                break
            low, high = (middle, high) if total(middle) <= self.epsilon else (low, middle)
        rounded = _rounded(low)
        return rounded if _rounded(total(rounded)) <= _rounded(self.epsilon) else low

    def check(self, costs: Sequence[Cost], cost: Cost) -> None:
        """Refuse a cost, in the dataset's unit, that does not fit beside these.

        Raises
        ------
        BudgetError
            Saying what is left.
        """
        try:
            total = self._compose([*costs, cost]).epsilon
        except ParameterError as error:
            raise BudgetError(
                f"{self._promise}, and this release does not fit: {error} {self._advice(costs)}"
            ) from None
        if _rounded(total) > _rounded(self.epsilon):
            raise BudgetError(
                f"{self._promise}, and this release of epsilon {cost.epsilon:g} would make it {total:.6g}. "
                f"{self._advice(costs)}"
            )

    def _compose(self, costs: Sequence[Cost]) -> Composition:
        # Deltas that add up are compared to as many digits as epsilons are.
        spare = 1 + 0.5 * 10.0 ** (1 - DIGITS) if self.method == "sum" else 1.0
        return compose(costs, delta=self.delta * spare, method=self.method)

    @property
    def _promise(self) -> str:
        return f"dataset {self.name!r} must stay within epsilon {self.epsilon:g} at delta {self.delta:g}"

    def _advice(self, costs: Sequence[Cost]) -> str:
        left = self.left(costs)
        if left == 0:
            return "Nothing is left."
        return f"A pure release of epsilon {_down(left):.6g} still fits."


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS - 1}e}")


def _down(value: float) -> float:
    """Return six digits that do not exceed the value, because people will type them."""
    near = float(f"{value:.5e}")
    return near if near <= value else near - 10.0 ** (math.floor(math.log10(value)) - 5)
