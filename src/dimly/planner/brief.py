"""``Brief`` and ``Question``: what a curator states, checked, and what each purpose asks of a plan (WIDER, FAR)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypedDict, get_args

from dimly.errors import ParameterError, as_integer, check_choice
from dimly.mechanisms.error.dimension import LARGEST_DISTANCE
from dimly.mechanisms.make import (
    MAX_ATTRIBUTES,
    MAX_RESOLUTION,
    MAX_TOGETHER,
    MAX_USERS,
    MECHANISMS,
    check_mechanism,
    check_undirected,
    public_seed,
)
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import UNITS, Budget, Unit

if TYPE_CHECKING:
    from dimly.release.documents.survey_file import Survey

Purpose = Literal["distances", "neighbors", "segments"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
Values = Literal["bits", "unit"]
VALUES: tuple[Values, ...] = get_args(Values)

DEFAULT_DISTANCE = 400.0
DEFAULT_RESOLUTION = 16
"""Steps of a value in [0, 1], where none are stated: rounding moves a value by at most 1/32, far less than noise."""
NEAR = 0.5
"""Where one distance is stated, near pairs are those that differ in this part of it."""
DEFAULT_GROUPS = 6
"""Groups that segments are to find, where their number is not stated."""
MOST_GROUPS = 1_000

Stated = Literal["both", "far", "weight", "nothing"]
"""Where the distances of a question are from: near and far pairs were stated, only far ones, only how many attributes
people have, or nothing at all."""

_WHOLE: Final = (("n_attributes", 1, MAX_ATTRIBUTES), ("n_users", 2, MAX_USERS), ("max_bytes_per_user", 1, 2**62))
"""Arguments that are whole numbers, and their limits. How many groups there may be depends on who is asked."""


@dataclass(frozen=True, slots=True)
class Brief:
    """What a curator tells the planner: the arguments of :func:`dimly.advise`, which explains them.

    Checked as far as each of them can be by itself. Whether they fit each other is said by :class:`Question`, or where
    they are tried out on a sample.

    Raises
    ------
    ParameterError
        If one of them cannot be.
    """

    budget: Budget
    _: KW_ONLY
    purpose: Purpose = "distances"
    n_attributes: int | None = None
    n_users: int | None = None
    distance: float | tuple[float, float] | None = None
    weight: float | None = None
    values: Values = "bits"
    mechanisms: Sequence[str] | None = None
    max_bytes_per_user: int | None = None
    vocabulary: Iterable[object] | None = None
    numbered: bool = False
    n_groups: int | None = None
    resolution: int | None = None
    unit: Unit = "attribute"
    protect: int = 1
    """How many units of a person the budget was divided for. The budget itself is of one of them."""
    seed: bytes | str | None = None
    survey: "Survey | None" = None

    def __post_init__(self) -> None:
        if not isinstance(self.budget, Budget):
            raise ParameterError(
                f"budget must be a Budget, got {type(self.budget).__name__}. Write Budget(epsilon, delta)."
            )
        check_choice("purpose", self.purpose, PURPOSES)
        check_choice("values", self.values, VALUES)
        check_choice("unit", self.unit, UNITS)
        object.__setattr__(self, "protect", as_integer("protect", self.protect, 1, MAX_TOGETHER))
        for name, least, most in _WHOLE:
            if (number := getattr(self, name)) is not None:
                object.__setattr__(self, name, as_integer(name, number, least, most))
        if self.mechanisms is not None:
            object.__setattr__(self, "mechanisms", _named(self.mechanisms))
        if self.seed is not None:
            public_seed(
                self.seed
            )  # which refuses what is none, also where the mechanism that is chosen has no use for it
        object.__setattr__(self, "vocabulary", self.listed)  # which can be gone through again

    @property
    def listed(self) -> Vocabulary | None:
        """The list of attributes, if one is given."""
        if self.vocabulary is None or isinstance(self.vocabulary, Vocabulary):
            return self.vocabulary
        return Vocabulary.listed(self.vocabulary)

    @property
    def steps(self) -> int:
        """Steps of a value: the resolution, or what stands for it where none is stated.

        Raises
        ------
        ParameterError
            If it does not fit the values.
        """
        if self.resolution is None:
            return 1 if self.values == "bits" else DEFAULT_RESOLUTION
        steps = as_integer("resolution", self.resolution, 1, MAX_RESOLUTION)
        if (steps == 1) != (self.values == "bits"):
            raise ParameterError(
                f"resolution must be 1 for bits and more for values in [0, 1], got {steps} with values={self.values!r}."
            )
        return steps


class AnyKeywords(TypedDict, total=False):
    """The arguments that are taken beside a sample, too; like :class:`StatedKeywords` for type checkers."""

    purpose: Purpose
    n_users: int | None
    mechanisms: Sequence[str] | None
    max_bytes_per_user: int | None
    vocabulary: Iterable[object] | None
    n_groups: int | None
    resolution: int | None
    unit: Unit
    protect: int
    seed: bytes | str | None
    survey: "Survey | None"


class StatedKeywords(AnyKeywords, total=False):
    """All of them: without a sample, how far apart people are can be stated."""

    n_attributes: int | None
    distance: float | tuple[float, float] | None
    weight: float | None
    values: Values
    numbered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A brief as it was understood: what it says fits together, and what it does not say is filled in."""

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
    protect: int
    mechanisms: tuple[str, ...]
    max_bytes_per_user: int | None
    stated: Stated
    numbered: bool
    """Whether a closed list may be the numbers below ``n_attributes``: it was said so, or its mechanism was named."""
    n_groups: int | None
    seed: bytes | str | None
    measured: tuple[str, ...]
    """What a survey told, in words."""

    @classmethod
    def of(cls, brief: Brief, *, measured: tuple[str, ...] = ()) -> Self:
        """Return the question, or refuse it with what to do instead."""
        listed, size = brief.listed, brief.n_attributes
        if listed is not None and size not in (None, len(listed)):
            raise ParameterError(
                f"n_attributes must be the length of vocabulary, {len(listed)}, got {size}. Leave it out."
            )
        size = size if listed is None else len(listed)
        if brief.numbered and (listed is not None or size is None):
            got = "a vocabulary" if listed is not None else "no number of them"
            raise ParameterError(
                f"numbered must be given with n_attributes and without vocabulary, got {got}: it says that attributes "
                "are the numbers below n_attributes."
            )
        all_of_them = f"n_attributes = {size}" if listed is None else f"the length of vocabulary, {size}"
        weight = None if brief.weight is None else as_number("weight", brief.weight, LARGEST_DISTANCE)
        if size is not None and weight is not None and weight > size:
            raise ParameterError(f"weight must be at most {all_of_them}, got {weight:g}. State how many a person has.")
        if brief.values == "bits" and weight is not None and weight < 1:
            raise ParameterError(
                f"weight must be at least 1, got {weight:g}: it is the number of attributes that a person has, "
                "not a share of all."
            )
        low, high, stated = _distances(brief.distance, weight, size)
        if brief.values == "bits" and high < 1:
            raise ParameterError(
                f"distance must be at least 1 for far pairs, got {high:g}: it is the number of attributes in which two "
                "people differ, not a share of them. For values in [0, 1] state a resolution."
            )
        if size is not None and high > size:
            raise ParameterError(
                f"distance must be at most {all_of_them}, got {high:g}. State squared distances of near and of far "
                "pairs."
            )
        return cls(
            budget=brief.budget,
            purpose=brief.purpose,
            low=low,
            high=high,
            n_attributes=size,
            vocabulary=listed,
            n_users=brief.n_users,
            weight=weight,
            resolution=brief.steps,
            unit=brief.unit,
            protect=brief.protect,
            mechanisms=_menu(brief.mechanisms),
            max_bytes_per_user=brief.max_bytes_per_user,
            stated=stated,
            numbered=brief.numbered or brief.mechanisms is not None,
            n_groups=None if brief.n_groups is None else as_integer("n_groups", brief.n_groups, 2, MOST_GROUPS),
            seed=brief.seed,
            measured=measured,
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

    @property
    def likely_weight(self) -> float | None:
        """How many ones people have: as stated, or such that people who share by chance alone are as far as far pairs.

        None where that is not known, and for values. People who have w of d attributes differ in 2w(1 − w/d) by chance.
        """
        if not self.bits or self.weight is not None or self.n_attributes is None:
            return self.weight if self.bits else None
        return (self.n_attributes - math.sqrt(max(self.n_attributes * (self.n_attributes - 2 * self.high), 0.0))) / 2

    def at(self, epsilon: float) -> Self:
        """Return the same question with another ε."""
        return replace(self, budget=Budget(epsilon, self.budget.delta))

    def over(self, low: float, high: float) -> Self:
        """Return the same question about other distances."""
        return replace(self, low=low, high=high)


def _distances(
    distance: float | tuple[float, float] | None, weight: float | None, n_attributes: int | None
) -> tuple[float, float, Stated]:
    """Return squared distances of near and of far pairs, and where they are from.

    Two people of weight w differ in at most 2w; those who have their attributes independently of each other, and all
    attributes alike, in 2w(1 − w/d) of d.
    """
    if distance is not None:
        return *as_range(distance), "both" if isinstance(distance, tuple | list) else "far"
    if weight is None:
        few = n_attributes is not None and n_attributes < DEFAULT_DISTANCE
        return *as_range(max(1.0, n_attributes / 2) if few and n_attributes else DEFAULT_DISTANCE), "nothing"
    chance = 0.0 if n_attributes is None else min(weight / n_attributes, NEAR)
    return *as_range(2 * weight * (1 - chance)), "weight"


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
            raise ParameterError(f"distance must be a near and then a far one, got {low:g} and {high:g}. Swap them.")
        return low, high
    if isinstance(distance, str):
        raise ParameterError(f"distance must be a number or two, got the text {distance!r}. Write distance=(100, 200).")
    high = as_number("distance", distance, LARGEST_DISTANCE)
    return NEAR * high, high


def as_number(name: str, value: Any, largest: float) -> float:
    """Return a positive number, or refuse."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not 0 < number <= largest:
        raise ParameterError(f"{name} must be a number > 0 and at most {largest:g}, got {value!r}.")
    return number


def _named(mechanisms: Sequence[str]) -> tuple[str, ...]:
    names = (mechanisms,) if isinstance(mechanisms, str) else tuple(mechanisms)
    if not names:
        raise ParameterError("mechanisms must name at least one, got none. Leave it out for all of them.")
    for name in names:
        check_mechanism(name)
    return tuple(dict.fromkeys(names))


def _menu(named: Sequence[str] | None) -> tuple[str, ...]:
    for name in named or ():
        check_undirected(name)
    return MECHANISMS if named is None else tuple(named)


WIDER: Final[Mapping[Purpose, int]] = MappingProxyType({"distances": 1, "neighbors": 1, "segments": 4})
"""The best k, in multiples of the one with the smallest error of near and far pairs.

Groups are found in averages over many people: noise averages out, and collisions do not. A neighbor is one person."""

FAR: Final[Mapping[Purpose, float]] = MappingProxyType({"distances": 1.0, "neighbors": 0.5, "segments": 1.0})
"""What the variance of far pairs counts for beside that of near ones.

Neighbors are near pairs; but whoever is far and seems near pushes one out, and most people are far."""

RESPONSE: Final[Mapping[Purpose, float]] = MappingProxyType({"distances": 1.0, "neighbors": 0.85, "segments": 0.5})
"""What an error of randomized response counts for beside one of a sketch: there are no collisions in it, and those stay
when noise is denoised away."""
