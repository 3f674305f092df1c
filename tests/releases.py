"""Small releases for tests to ask, with recorded noise or without any."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.matrices import publish_matrix
from tests.plans import N_ATTRIBUTES, plan_of
from tests.streams import NO_FLIPS, NO_NOISE, Recorded

from dimly.analyst import Estimate, Release
from dimly.mechanisms import MECHANISMS
from dimly.mechanisms.make import sketching

PARTS = ("value", "stderr", "low", "high")
READABLE = [mechanism for mechanism in MECHANISMS if mechanism != "noisy-distances"]
SKETCHING = [mechanism for mechanism in MECHANISMS if sketching(mechanism)]
RESOLUTION = 4
PEOPLE = (np.random.default_rng(0).random((30, N_ATTRIBUTES)) < 0.3).astype(np.int64)

every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)
readable = pytest.mark.parametrize("mechanism", READABLE)


@cache
def release_of(mechanism: str, resolution: int = 1) -> Release:
    plan = plan_of(mechanism) if resolution == 1 else plan_of(mechanism, resolution=resolution, dtype="int32")
    generator = np.random.default_rng(1)
    table = PEOPLE * generator.integers(1, resolution + 1, PEOPLE.shape) / resolution
    return Release(publish_matrix(table, plan, words=Recorded(7)))


@cache
def silent(mechanism: str) -> Release:
    words = NO_FLIPS if mechanism == "randomized-response" else NO_NOISE
    return Release(publish_matrix(PEOPLE, plan_of(mechanism), words=words))


def parts(found: Estimate[Any]) -> NDArray[np.float64]:
    return np.array([getattr(found, part) for part in PARTS])


def same(found: Estimate[Any], other: Estimate[Any]) -> None:
    np.testing.assert_allclose(parts(found), parts(other), rtol=1e-9, atol=1e-9)


QUESTIONS: dict[str, Callable[[Release, Any, Any], Estimate[Any]]] = {
    "distances": lambda release, a, b: release.distances(a, b),
    "inner_product": lambda release, a, b: release.inner_product(a, b),
    "cosine": lambda release, a, b: release.cosine(a, b),
    "jaccard": lambda release, a, b: release.jaccard(a, b),
    "hamming": lambda release, a, b: release.hamming(a, b),
}
every_question = pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS.keys())
