"""What a purpose changes: the best k, and how much better than its errors randomized response is once denoised.

Rules found by simulation; docs/planning.md has the evidence, and where they are wrong.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from scipy.special import ndtr, ndtri

from dimly.mechanisms.error_models import CountingError, ErrorModel, FlippedBitsError, SignedSketchError
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


def probability_of_own_group(gap: float, within: float, model: ErrorModel) -> float:
    """Return the probability that a person is nearer to the middle of his own group than to that of another.

    For middles that are known, ``gap`` apart (squared: what far pairs differ in more than near ones), of people who
    are ``within`` from each other. Averages say where groups are; this says whether anybody can be put into one. Along
    the line between two middles a person is off by noise, and by his own share of what people of a group differ in.
    """
    if isinstance(model, FlippedBitsError):
        variance = model.flip * (1 - model.flip) / (1 - 2 * model.flip) ** 2
    elif isinstance(model, SignedSketchError | CountingError):
        variance = model.noise.variance + within / (2 * model.k)
    else:  # distances alone place nobody anywhere
        return 0.5
    return float(ndtr(math.sqrt(gap) / (2 * math.sqrt(variance)))) if variance > 0 else 1.0


def share_found(gap: float, low: float, high: float, *, n_users: int, n_found: int = 10) -> float:
    """Return about which share of ``n_found`` neighbors is right, if as many are near and all others far.

    Whoever is near must seem nearer than all but ``n_found`` of those who are far, the luckiest of many. By the normal
    approximation, for standard errors ``low`` and ``high`` of near and of far pairs.
    """
    luck = float(ndtri(1 - n_found / n_users)) if n_users > 2 * n_found else 0.0
    return float(ndtr((gap - luck * high) / low)) if low > 0 else 1.0
