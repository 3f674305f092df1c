"""Many independent estimates of one truth, and what they must come to."""

import json
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from tests.statistical.checks import Floats, alarm, mean_is, variance_is

import dimly
from dimly.analyst import Estimate, Release
from dimly.mechanisms.error.models import CountingError, ErrorModel, SignedSketchError
from dimly.mechanisms.projection.random_matrix import FAMILIES
from dimly.release import Sketches

N = 12_500
COVERED = (0.94, 0.96)
SIZE = 45  # attributes of one trial
# Three people with 30, 30 and 20 of them: the second differs from the first in 8, the third in 40.
BITS = np.zeros((3, SIZE), np.int64)
BITS[0, :30] = BITS[1, 4:34] = BITS[2, 25:] = 1
Estimates = Estimate[NDArray[np.float64]]


@dataclass(frozen=True)
class Trials:
    """A release of N independent copies of a few people; person j of copy i is user i·(people) + j."""

    release: Release
    people: NDArray[np.int64]

    @property
    def error(self) -> ErrorModel:
        return self.release.plan.error

    @cached_property
    def points(self) -> Floats:
        points: Floats = self.people / self.release.plan.resolution
        return points

    def users(self, person: int) -> NDArray[np.int64]:
        return np.arange(len(self.release)).reshape(-1, len(self.people))[:, person]

    def read_by(self, plan: dimly.Plan) -> "Trials":
        """Return what an analyst sees who was told another plan."""
        return Trials(Release(Sketches(plan, self.release.users, self.release.values, private=False)), self.people)

    def truth(self, a: int, b: int) -> tuple[float, float, float]:
        x, y = self.points[a], self.points[b]
        return float(x @ x), float(y @ y), float(x @ y)

    def left_out(self, fourth_powers: float) -> float:
        """For values the stated variance leaves a negative term out, which an analyst cannot know; we do."""
        error = self.error
        if error_is_of_bits(error):
            return 0.0
        part = self.release.plan.projection
        assert part is not None
        free = part.k - 1 if part.family == "counting" else part.k
        return (FAMILIES[part.family].kurtosis(part.blocks) - 3) / free * fourth_powers


def error_is_of_bits(error: ErrorModel) -> bool:
    return not isinstance(error, SignedSketchError | CountingError) or error.bits


def seed_of(text: str) -> int:
    return int.from_bytes(text.encode()) % 2**63


def louder(plan: dimly.Plan) -> dimly.Plan:
    """Return a plan whose noise has 5/4 of the variance: what this plan samples is 20 % too little for it."""
    fields = json.loads(plan.to_json())
    if fields["noise"]["law"] == "discrete-laplace":
        fields["budget"]["epsilon"] *= math.sqrt(0.8)
    elif fields["noise"]["law"] == "rounded-gaussian":
        fields["noise"]["sigma"] /= math.sqrt(0.8)
    else:  # p(1−p)/(1−2p)² grows by 5/4
        p = fields["noise"]["probability"]
        u = p * (1 - p) / (1 - 2 * p) ** 2 / 0.8
        fields["noise"]["probability"] = math.floor((1 - 1 / math.sqrt(1 + 4 * u)) / 2 * 2**53) / 2**53
    return dimly.Plan.from_json(json.dumps(fields))


def check(
    what: str, found: Estimates, truth: float, variance: float, *, covered: tuple[float, float] = COVERED
) -> None:
    """Fail unless estimates are unbiased, as spread as stated, and in intervals that cover as stated."""
    assert mean_is(found.value, truth), alarm(f"{what}, mean", found.value, truth)
    squares = (found.value - truth) ** 2
    assert variance_is(found.value, truth, variance), alarm(f"{what}, variance", squares, variance)
    assert (found.low <= found.high).all()
    share = coverage(found, truth)
    assert covered[0] <= share <= covered[1], f"{what}: 95 % intervals cover {share:.2%}"


def coverage(found: Estimates, truth: float) -> float:
    return float(((found.low <= truth) & (truth <= found.high)).mean())


def stacked(estimates: list[Estimate[float]]) -> Estimates:
    parts = ("value", "stderr", "low", "high")
    return Estimate(*(np.array([getattr(estimate, part) for estimate in estimates]) for part in parts))
