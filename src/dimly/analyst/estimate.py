"""An estimate is never a bare number where noise is involved."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dimly.mechanisms.intervals import normal_quantile

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
    """

    value: Number
    stderr: Number
    low: Number
    high: Number


Floats = NDArray[np.float64]
Arrays = Estimate[NDArray[np.float64]]


def scalar(estimate: "Estimate[NDArray[np.float64]]") -> "Estimate[float]":
    """Return the only element of an estimate of arrays, as plain numbers."""
    return Estimate(
        float(estimate.value.item()),
        float(estimate.stderr.item()),
        float(estimate.low.item()),
        float(estimate.high.item()),
    )


def exactly(value: Floats) -> Arrays:
    """Return what is known; where it is undefined, nothing is."""
    unknown = np.isnan(value)
    return Estimate(value, np.where(unknown, np.inf, 0.0), np.where(unknown, 0.0, value), np.where(unknown, 1.0, value))


def choose(condition: NDArray[np.bool_], chosen: Arrays, otherwise: Arrays) -> Arrays:
    """Return the one estimate where the condition holds, the other elsewhere."""
    parts = ("value", "stderr", "low", "high")
    return Estimate(*(np.where(condition, getattr(chosen, part), getattr(otherwise, part)) for part in parts))


def within_one(value: Floats, stderr: Floats, confidence: float) -> Arrays:
    """Return an interval of something in [0, 1], around the nearest possible value; all of it where nothing is known.

    So it never shrinks to a point: an outlier is no better evidence than 0 or 1 itself.
    """
    unknown = np.isnan(value)
    middle = np.clip(np.where(unknown, 0.5, value), 0.0, 1.0)
    stderr = np.where(unknown, np.inf, stderr)
    half = normal_quantile(confidence) * stderr
    return Estimate(value, stderr, np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0))


def unknown(shape: tuple[int, ...], largest: float) -> Arrays:
    """Return estimates of which nothing is known but that they lie from 0 to ``largest``."""
    return Estimate(np.full(shape, np.nan), np.full(shape, np.inf), np.zeros(shape), np.full(shape, largest))
