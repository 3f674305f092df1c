"""What a curator tells the planner, checked: all of it public knowledge, none of it measured on the private data."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, Self, get_args

from dimly.errors import ParameterError
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.dimension import LARGEST_DISTANCE
from dimly.mechanisms.mechanism import MECHANISMS, sketching
from dimly.mechanisms.request import MAX_ATTRIBUTES, MAX_RESOLUTION, MAX_USERS, as_integer
from dimly.privacy import UNITS, Budget, Unit

Purpose = Literal["distances", "neighbors", "segments"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
Values = Literal["bits", "unit"]
VALUES: tuple[Values, ...] = get_args(Values)

DEFAULT_DISTANCE = 400.0
DEFAULT_RESOLUTION = 16
"""Steps of a value in [0, 1], where none are stated: rounding moves a value by at most 1/32, far less than noise."""
NEAR = 0.5
"""Where one distance is stated, near pairs are those that differ in this part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Arguments of :func:`~dimly.planner.advise` that fit each other."""

    budget: Budget
    purpose: Purpose
    low: float
    high: float
    """Squared distances of near and of far pairs."""
    n_attributes: int | None
    vocabulary: Vocabulary | None
    n_users: int | None
    weight: float | None
    resolution: int
    unit: Unit
    mechanisms: tuple[str, ...]
    max_bytes_per_user: int | None

    @classmethod
    def of(
        cls,
        budget: Budget,
        *,
        purpose: Purpose,
        n_attributes: int | None,
        vocabulary: Iterable[object] | None,
        n_users: int | None,
        distance: float | tuple[float, float],
        weight: float | None,
        values: Values,
        resolution: int | None,
        unit: Unit,
        mechanisms: Sequence[str] | None,
        max_bytes_per_user: int | None,
    ) -> Self:
        """Return the question, or refuse it with what to do instead."""
        if not isinstance(budget, Budget):
            raise ParameterError(f"budget must be a Budget, got {type(budget).__name__}. Write Budget(epsilon, delta).")
        check_choice("purpose", purpose, PURPOSES)
        check_choice("values", values, VALUES)
        check_choice("unit", unit, UNITS)
        low, high = as_range(distance)
        listed = (
            vocabulary if vocabulary is None or isinstance(vocabulary, Vocabulary) else Vocabulary.listed(vocabulary)
        )
        size = None if n_attributes is None else as_integer("n_attributes", n_attributes, 1, MAX_ATTRIBUTES)
        if listed is not None and size not in (None, len(listed)):
            raise ParameterError(
                f"n_attributes must be the length of vocabulary, {len(listed)}, got {size}. Leave it out."
            )
        size = size if listed is None else len(listed)
        if size is not None and high > size:
            raise ParameterError(
                f"distance must be at most n_attributes = {size}, got {high:g}"
                + (", the default" if high == DEFAULT_DISTANCE else "")
                + ". State squared distances of near and of far pairs."
            )
        if weight is not None:
            weight = as_number("weight", weight, size or LARGEST_DISTANCE)
        return cls(
            budget=budget,
            purpose=purpose,
            low=low,
            high=high,
            n_attributes=size,
            vocabulary=listed,
            n_users=None if n_users is None else as_integer("n_users", n_users, 2, MAX_USERS),
            weight=weight,
            resolution=_resolution(values, resolution),
            unit=unit,
            mechanisms=_menu(mechanisms),
            max_bytes_per_user=None
            if max_bytes_per_user is None
            else as_integer("max_bytes_per_user", max_bytes_per_user, 1, 2**62),
        )

    @property
    def bits(self) -> bool:
        """Whether people are rows of zeros and ones."""
        return self.resolution == 1

    def weights_at(self, squared_distance: float) -> tuple[float, float]:
        """Return how many ones two people have who are that far apart.

        The stated weight, or without one half of the far distance (far pairs share nothing); and always at least half
        of the distance, because people cannot differ in more than they have.
        """
        weight = max(self.high / 2 if self.weight is None else self.weight, squared_distance / 2)
        return weight, weight

    def at(self, epsilon: float) -> Self:
        """Return the same question with another ε."""
        return replace(self, budget=Budget(epsilon, self.budget.delta))

    def over(self, low: float, high: float) -> Self:
        """Return the same question about other distances."""
        return replace(self, low=low, high=high)


def as_range(distance: Any) -> tuple[float, float]:
    """Return squared distances of near and far pairs.

    Examples
    --------
    >>> as_range((100, 800)), as_range(400)
    ((100.0, 800.0), (200.0, 400.0))
    """
    if isinstance(distance, tuple | list):
        if len(distance) != 2:
            raise ParameterError(f"distance must be one squared distance or two, got {len(distance)} of them.")
        low, high = (as_number("distance", end, LARGEST_DISTANCE) for end in distance)
        if low >= high:
            raise ParameterError(f"distance must be a near and then a far one, got {low:g} and {high:g}.")
        return low, high
    high = as_number("distance", distance, LARGEST_DISTANCE)
    return NEAR * high, high


def as_number(name: str, value: Any, largest: float) -> float:
    """Return a positive number, or refuse."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not 0 < number <= largest:
        raise ParameterError(f"{name} must be a number > 0 and at most {largest:g}, got {value!r}.")
    return number


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse what is not one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")


def _resolution(values: Values, resolution: int | None) -> int:
    if resolution is None:
        return 1 if values == "bits" else DEFAULT_RESOLUTION
    steps = as_integer("resolution", resolution, 1, MAX_RESOLUTION)
    if (steps == 1) != (values == "bits"):
        raise ParameterError(
            f"resolution must be 1 for bits and more for values in [0, 1], got {steps} with values={values!r}."
        )
    return steps


def _menu(mechanisms: Sequence[str] | None) -> tuple[str, ...]:
    if mechanisms is None:
        return MECHANISMS
    names = (mechanisms,) if isinstance(mechanisms, str) else tuple(mechanisms)
    if not names:
        raise ParameterError("mechanisms must name at least one, got none. Leave it out for all of them.")
    for name in names:
        sketching(name)  # refuses names that are on no menu
    return tuple(dict.fromkeys(names))
