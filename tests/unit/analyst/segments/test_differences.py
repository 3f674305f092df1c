"""What tells segments apart: only what differs beyond noise, with the names that the directions give it."""

import numpy as np
import pytest
from scipy.stats import binom
from tests.directions import named

from dimly.analyst import Release
from dimly.analyst.segments.differences import Averages, profiles_of
from dimly.api import publish
from dimly.errors import ParameterError
from dimly.mechanisms import Directions, Plan
from dimly.privacy import Budget

TASTES = Directions.of_values(
    ["tea", "scone", "milk", "rye", "cola", "salt"],
    [[1.0, 0.0], [0.9, 0.0], [0.5, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -0.8]],
    origin="tests",
)


def people_of(n: int = 600) -> np.ndarray:
    """Return as many who like tea and scones as others who like cola; rye and salt do not go with either."""
    generator = np.random.default_rng(3)
    group = np.arange(n) % 2
    odds = np.where(group[:, None] == 0, [0.9, 0.9, 0.6, 0.5, 0.1, 0.5], [0.1, 0.1, 0.4, 0.5, 0.9, 0.5])
    return generator.random((n, 6)) < odds


def published(epsilon: float, directions: Directions = TASTES, mechanism: str = "laplace") -> Release:
    names = ["tea", "scone", "milk", "rye", "cola", "salt"]
    budget = Budget(epsilon, 1e-6 if mechanism == "gaussian" else 0.0)
    plan = Plan.of(f"directions+{mechanism}", budget, directions=directions)
    return publish(people_of(), plan, attributes=names)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_segments_are_named_by_what_their_people_like(mechanism: str) -> None:
    segments = published(20.0, mechanism=mechanism).segments(2)
    people = people_of()
    for segment, profile in enumerate(segments.describe(most=2)):
        inside = segments.labels == segment
        likes_tea = people[inside, 0].mean() > people[~inside, 0].mean()
        tea, cola = (profile.toward, profile.away) if likes_tea else (profile.away, profile.toward)
        assert [name for name, _ in tea] == ["tea", "scone"]
        assert cola[0][0] == "cola"
        assert all(part > 0 for _, part in profile.toward)
        assert all(part < 0 for _, part in profile.away)
        assert bool(profile.differs[0])
        assert "tea" in profile.words
        assert profile.to_dict()["along"]["differs"] == profile.differs.tolist()


def test_noise_alone_names_nothing() -> None:
    segments = published(0.01).segments(2)
    assert segments.is_described
    for profile in segments.describe():
        assert not profile.differs.any()
        assert (profile.toward, profile.away, profile.words) == ((), (), "nothing beyond noise")


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("gap", [0.0, 1.0, 4.0])
def test_what_noise_did_to_averages_is_taken_off(laplace: bool, gap: float) -> None:
    """Cut at zero: noise alone sets the averages 1.4 apart, and yet 95 % of the intervals hold the truth.

    Of 200 independent clouds fewer hold it than chance allows in one of a million runs if 90 % did.
    """
    generator = np.random.default_rng(int(gap) + 10 * laplace)
    held, n_clouds, raw = 0, 200, 0
    for _ in range(n_clouds):
        truth = gap * generator.choice([-0.5, 0.5], 400)
        noise = generator.laplace(0, 0.5**0.5, 400) if laplace else generator.standard_normal(400)
        points = (truth + noise).astype(np.float32)[:, None]
        found = Averages(lambda p: (p[:, 0] > 0).astype(np.int32), 2, range(1), noise=1.0, laplace=laplace)
        found.add(points)
        value, stderr = found.apart()
        side = points[:, 0] > 0
        true = truth[side].mean() - truth[~side].mean()
        held += abs(value[1, 0] - true) <= 1.96 * stderr[1, 0]
        raw += abs(points[side].mean() - points[~side].mean() - true) <= 1.96 * stderr[1, 0]
    assert held >= binom.isf(1 - 1e-6, n_clouds, 0.90)
    assert gap > 2 or raw < binom.isf(1 - 1e-6, n_clouds, 0.90)  # the power: averages as they are do not pass


def test_shared_numbers_and_single_segments_name_nobody() -> None:
    value, stderr = np.array([[9.0] * 8, [-9.0] * 8]), np.full((2, 8), 0.1)
    profile, _ = profiles_of(named("weights"), value, stderr, most=3, confidence=0.95)
    assert profile.differs.all()
    assert "shared at random" in profile.words
    (alone,) = profiles_of(TASTES, np.zeros((1, 2)), np.ones((1, 2)), most=3, confidence=0.95)
    assert not alone.differs.any()
    assert not named("shared categories").tells_names
    assert named("categories").tells_names


def test_what_is_said_of_many_attributes_as_strong() -> None:
    directions = Directions.of_values([f"a{i}" for i in range(40)], [[1.0]] * 30 + [[-0.1]] * 10, origin="tests")
    profile, _ = profiles_of(directions, np.array([[2.0], [-2.0]]), np.full((2, 1), 0.1), most=3, confidence=0.95)
    assert (profile.n_toward, profile.n_away) == (30, 10)
    assert profile.words == "more: a0, a1, a2 and 27 others as telling; less: a30, a31, a32 and 7 others as telling"


def test_others_are_not_described() -> None:
    segments = publish(people_of(), Plan.of("counting+laplace", Budget(8.0), k=6)).segments(2)
    assert not segments.is_described
    with pytest.raises(ParameterError, match="describe needs a release along directions"):
        segments.describe()
    along = published(8.0).segments(2)
    with pytest.raises(ParameterError, match="most must be"):
        along.describe(most=0)
    with pytest.raises(ParameterError, match="confidence must be"):
        along.describe(confidence=1.0)
