"""The analyst's own vectors: sketched like people, but known exactly."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimly.errors import ParameterError
from dimly.mechanisms.attributes import attribute_text
from dimly.mechanisms.plan import Plan

_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """The analyst's own vector, sketched like a person's but without noise. Made by :meth:`Release.project`."""

    row: NDArray[Any]
    steps: Mapping[str, int]
    """Its attributes, in the plan's steps of resolution."""
    plan: Plan

    @property
    def squared_norm(self) -> float:
        """Exactly."""
        return self.inner_product(self)

    @property
    def total(self) -> float:
        """Sum of its values."""
        return sum(self.steps.values()) / self.plan.resolution

    def inner_product(self, other: "Vector") -> float:
        """Return the inner product of two vectors of one's own, exactly."""
        product = sum(count * other.steps.get(name, 0) for name, count in self.steps.items())
        return product / self.plan.resolution**2


def own_steps(attributes: Iterable[object] | Mapping[Any, float], *, resolution: int) -> dict[str, int]:
    """Return attributes as the curator would write them: text, integer steps, the largest of repeats.

    Raises
    ------
    ParameterError
        If these are not attributes, or values are out of range.
    """
    if isinstance(attributes, str | bytes) or not isinstance(attributes, Iterable):
        got = type(attributes).__name__
        raise ParameterError(f"attributes must be a set of attributes or a mapping to values, got {got}.")
    items = attributes.items() if isinstance(attributes, Mapping) else ((name, 1) for name in attributes)
    steps: dict[str, int] = {}
    for name, value in items:
        if not isinstance(value, _NUMBERS) or not 0 <= value <= 1 or (resolution == 1 and value not in (0, 1)):
            allowed = "0 or 1" if resolution == 1 else "in [0, 1]"
            raise ParameterError(f"values of attributes must be {allowed} for this plan, got {value!r}.")
        text = attribute_text(name)
        steps[text] = max(steps.get(text, 0), round(float(value) * resolution))
    return {text: count for text, count in steps.items() if count}
