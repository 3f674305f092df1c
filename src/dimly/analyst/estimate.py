"""``Estimate``: value, standard error, low and high; and ``Vector``: attributes of one's own to compare."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dimly.display import MOST_ROWS, Shown, data_frame
from dimly.errors import ParameterError
from dimly.mechanisms.error.bounds import normal_quantile
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_kinds import DirectionsPlan
from dimly.mechanisms.vocabulary import attribute_text
from dimly.plots import ladder

PARTS = ("value", "stderr", "low", "high")
"""Of an estimate, in the order in which they are shown."""
Number = TypeVar("Number", float, NDArray[np.float64])


@dataclass(frozen=True, slots=True)
class Estimate(Generic[Number]):
    """What was estimated, and how surely; four numbers, or four arrays of one shape.

    Attributes
    ----------
    value
        The estimate, unbiased unless its method says otherwise; may lie outside what is possible.
    stderr
        Its standard error, as predicted by theory at the estimate.
    low, high
        Confidence interval, within what is possible.
    measure : str
        What it is an estimate of, where that is not the quantity in all attributes, as along directions; else empty.
    """

    value: Number
    stderr: Number
    low: Number
    high: Number
    measure: str = field(default="", kw_only=True)

    def __repr__(self) -> str:
        if np.ndim(self.value):
            return f"<{np.size(self.value):,} estimates{self._named}; .value, .stderr, .low and .high are arrays>"
        return f"Estimate({self:.4g}{self._named})"

    def __format__(self, spec: str) -> str:
        """Return value, standard error and interval, each by the format: ``f"{estimate:.1f}"``.

        Examples
        --------
        >>> f"{Estimate(99.96, 12.3, 75.0, 125.0):.1f}"
        '100.0 ± 12.3 (75.0 to 125.0)'
        """
        if not spec:
            return str(self)
        if np.ndim(self.value):
            raise ParameterError("an estimate of several numbers has no format. Format one of them, or .value.")
        value, stderr, low, high = (
            format(float(part), spec) for part in (self.value, self.stderr, self.low, self.high)
        )
        return f"{value} ± {stderr} ({low} to {high})"

    @property
    def _named(self) -> str:
        return f", {self.measure}" if self.measure else ""

    def _repr_html_(self) -> str:
        return self._shown().html()

    def _shown(self) -> Shown:
        parts = [np.atleast_1d(np.asarray(getattr(self, part), np.float64)) for part in PARTS]
        if parts[0].ndim > 1:
            return Shown(repr(self))
        rows = [tuple(map(float, row)) for row in zip(*(part[:MOST_ROWS] for part in parts), strict=True)]
        title = self.measure or ("Estimate" if np.ndim(self.value) == 0 else "Estimates")
        return Shown(title, header=PARTS, rows=rows, left_out=len(parts[0]) - len(rows))

    def plot(self, names: Sequence[object] | None = None, *, ax: Any = None) -> Any:
        """Draw the estimates one below the other, each with its interval; return the axes.

        Parameters
        ----------
        names : sequence, optional
            What each is of; numbers by default.
        ax : Axes, optional
            Of matplotlib; new ones by default.
        """
        value, low, high = (np.atleast_1d(np.asarray(part, np.float64)) for part in (self.value, self.low, self.high))
        if value.ndim > 1:
            raise ParameterError("plot draws a list of estimates, got a matrix. Take one row: distances(user, users).")
        said = [str(i) for i in range(len(value))] if names is None else [str(name) for name in names]
        if len(said) != len(value):
            raise ParameterError(f"names must be one for each of the {len(value)} estimates, got {len(said)}.")
        return ladder(value, low, high, names=said, ax=ax, what=self.measure or "estimate")

    def to_pandas(self) -> Any:
        """Return a data frame with value, stderr, low and high; of a matrix also row and column.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        parts = {name: np.atleast_1d(np.asarray(getattr(self, name), np.float64)) for name in PARTS}
        if np.ndim(self.value) < 2:
            return data_frame(parts)
        rows, columns = np.indices(np.shape(self.value)).reshape(2, -1)
        return data_frame({"row": rows, "column": columns} | {name: part.reshape(-1) for name, part in parts.items()})

    @property
    def possible(self) -> "Estimate[Number]":
        """The same with a value inside of its interval: to be shown, since an unbiased one may lie outside of it."""
        inside: Any = np.clip(self.value, self.low, self.high)
        value: Any = float(inside) if np.ndim(inside) == 0 else inside
        return replace(self, value=value)


Floats = NDArray[np.float64]
Arrays = Estimate[NDArray[np.float64]]


def scalar(estimate: "Estimate[NDArray[np.float64]]") -> "Estimate[float]":
    """Return the only element of an estimate of arrays, as plain numbers."""
    return Estimate(
        float(estimate.value.item()),
        float(estimate.stderr.item()),
        float(estimate.low.item()),
        float(estimate.high.item()),
        measure=estimate.measure,
    )


def exactly(value: Floats) -> Arrays:
    """Return what is known; where it is undefined, nothing is."""
    unknown = np.isnan(value)
    return Estimate(value, np.where(unknown, np.inf, 0.0), np.where(unknown, 0.0, value), np.where(unknown, 1.0, value))


def choose(condition: NDArray[np.bool_], chosen: Arrays, otherwise: Arrays) -> Arrays:
    """Return the one estimate where the condition holds, the other elsewhere."""
    parts = ("value", "stderr", "low", "high")
    return Estimate(*(np.where(condition, getattr(chosen, part), getattr(otherwise, part)) for part in parts))


def symmetric(value: Floats, variance: Floats, confidence: float) -> Arrays:
    """Return the interval of something that may be any number, as wide on both sides."""
    stderr = np.broadcast_to(np.sqrt(variance), np.shape(value))
    half = normal_quantile(confidence) * stderr
    return Estimate(value, stderr, value - half, value + half)


def within_one(value: Floats, stderr: Floats, confidence: float, *, least: float = 0.0) -> Arrays:
    """Return an interval of something from ``least`` to 1, around the nearest possible value; all of it if unknown.

    So it never shrinks to a point: an outlier is no better evidence than 0 or 1 itself.
    """
    unknown = np.isnan(value)
    middle = np.clip(np.where(unknown, (least + 1) / 2, value), least, 1.0)
    stderr = np.where(unknown, np.inf, stderr)
    half = normal_quantile(confidence) * stderr
    return Estimate(value, stderr, np.maximum(middle - half, least), np.minimum(middle + half, 1.0))


def unknown(shape: tuple[int, ...], largest: float, *, least: float = 0.0) -> Arrays:
    """Return estimates of which nothing is known but that they lie from ``least`` to ``largest``."""
    return Estimate(np.full(shape, np.nan), np.full(shape, np.inf), np.full(shape, least), np.full(shape, largest))


_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """The analyst's own vector, sketched like a person's but without noise. Made by :meth:`Release.project`."""

    row: NDArray[Any]
    steps: Mapping[str, int]
    """Its attributes, in the plan's steps of resolution."""
    plan: Plan

    def __repr__(self) -> str:
        """Not its numbers, which would fill a page of a notebook."""
        return f"<Vector of {len(self.steps):,} attributes, plan {self.plan.digest[:12]}…>"

    @property
    def squared_norm(self) -> float:
        """Exactly."""
        return self.inner_product(self)

    @property
    def total(self) -> float:
        """Sum of its values: the largest inner product that it can have with anybody; along directions, no limit."""
        if not self.plan.measures_attributes:
            return math.inf
        return sum(self.steps.values()) / self.plan.resolution

    def inner_product(self, other: "Vector") -> float:
        """Return the inner product of two vectors of one's own, exactly; along the directions, where there are some."""
        if isinstance(self.plan, DirectionsPlan) and not self.plan.weighted:
            return float(self.row @ other.row) * self.plan.scale**2
        shared = {name: count * other.steps[name] for name, count in self.steps.items() if name in other.steps}
        if isinstance(self.plan, DirectionsPlan):  # Σ w²xy: a row holds its weight and nothing else
            rows = self.plan.rows(list(shared)).to_dense() if shared else np.zeros((0, self.plan.k))
            return float((rows.astype(np.float64) ** 2).sum(axis=1) @ list(shared.values())) * self.plan.scale**2
        product = sum(shared.values())
        return product / self.plan.resolution**2


def _is_frame(attributes: object) -> bool:
    """Return whether this is a table: going through it would give the names of its columns."""
    return hasattr(attributes, "columns")


def own_steps(attributes: Iterable[object] | Mapping[Any, float], *, resolution: int) -> dict[str, int]:
    """Return attributes as the curator would write them: text, integer steps, the largest of repeats.

    Raises
    ------
    ParameterError
        If these are not attributes, or values are out of range.
    """
    if isinstance(attributes, str | bytes) or _is_frame(attributes) or not isinstance(attributes, Iterable):
        got = type(attributes).__name__
        remedy = f" Write {{{attributes!r}}} for one attribute." if isinstance(attributes, str) else ""
        raise ParameterError(f"attributes must be a set of attributes or a mapping to values, got {got}.{remedy}")
    items = attributes.items() if isinstance(attributes, Mapping) else ((name, 1) for name in attributes)
    steps: dict[str, int] = {}
    for name, value in items:
        if not isinstance(value, _NUMBERS) or not 0 <= value <= 1 or (resolution == 1 and value not in (0, 1)):
            allowed = "0 or 1" if resolution == 1 else "in [0, 1]"
            raise ParameterError(f"values of attributes must be {allowed} for this plan, got {value!r}.")
        text = attribute_text(name)
        steps[text] = max(steps.get(text, 0), round(float(value) * resolution))
    return {text: count for text, count in steps.items() if count}
