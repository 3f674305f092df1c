"""An estimate is never a bare number where noise is involved."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

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


def scalar(estimate: "Estimate[NDArray[np.float64]]") -> "Estimate[float]":
    """Return the only element of an estimate of arrays, as plain numbers."""
    return Estimate(
        float(estimate.value.item()),
        float(estimate.stderr.item()),
        float(estimate.low.item()),
        float(estimate.high.item()),
    )
