"""What a purpose changes: the best k, and how much better than its errors randomized response is once denoised.

Rules found by simulation; docs/planning.md has the evidence, and where they are wrong.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from scipy.special import ndtr

from dimly.planner.question import Purpose

WIDER: Final[Mapping[Purpose, int]] = MappingProxyType({"distances": 1, "neighbors": 1, "segments": 4})
"""The best k, in multiples of the one with the smallest error of near and far pairs.

Groups are found in averages over many people: noise averages out, and collisions do not. A neighbor is one person."""

FAR: Final[Mapping[Purpose, float]] = MappingProxyType({"distances": 1.0, "neighbors": 0.5, "segments": 1.0})
"""What the variance of far pairs counts for beside that of near ones.

Neighbors are near pairs; but whoever is far and seems near pushes one out, and most people are far."""

RESPONSE: Final[Mapping[Purpose, float]] = MappingProxyType({"distances": 1.0, "neighbors": 0.85, "segments": 0.5})
"""What an error of randomized response counts for beside one of a sketch: there are no collisions in it, and those stay
when noise is denoised away."""


def ranking_probability(gap: float, error: float) -> float:
    """Return the probability that two estimated distances ``gap`` apart are in the right order.

    By the normal approximation, for standard errors whose root mean square is ``error``, of pairs of other people.

    Examples
    --------
    >>> round(ranking_probability(200.0, 72.0), 2)
    0.98
    """
    return float(ndtr(gap / (math.sqrt(2) * error))) if error > 0 else 1.0
