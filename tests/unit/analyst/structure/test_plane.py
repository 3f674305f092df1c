import numpy as np
import pytest
from tests.releases import silent

from dimly.analyst.release import Release
from dimly.analyst.structure.plane import plane_of
from dimly.api import publish
from dimly.errors import ParameterError
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release.sketches import Sketches

GROUPS = np.repeat([0, 1, 2], 200)
PEOPLE = np.random.default_rng(0).random((3, 400))[GROUPS] < 0.3


def test_groups_lie_apart_on_the_plane() -> None:
    told: list[tuple[int, int]] = []
    release = publish(PEOPLE, Plan.of("counting+laplace", Budget(4.0), k=64))
    plane = plane_of(release, progress=lambda done, total: told.append((done, total)))
    assert plane.points.shape == (600, 2)
    assert plane.known.all()
    assert plane.beyond_noise == 2
    assert min(plane.believed) > 0.5
    assert told[-1] == (600, 600)
    middles = np.array([plane.points[group == GROUPS].mean(axis=0) for group in range(3)])
    away = ((plane.points[:, None] - middles) ** 2).sum(axis=2)
    assert (away.argmin(axis=1) == GROUPS).mean() > 0.95


def test_noise_alone_is_shown_and_said_to_be_noise() -> None:
    nobody = publish(np.zeros((500, 50), np.int8), Plan.of("counting+laplace", Budget(0.5), k=16))
    plane = plane_of(nobody)
    assert plane.beyond_noise <= 1
    assert plane.believed[1] == 0.0
    assert plane.points.std(axis=0).min() > 0


def test_whoever_has_a_saturated_number_is_not_known() -> None:
    plan = Plan.of("counting+laplace", Budget(1.0), k=16)
    release = publish(PEOPLE, plan)
    values = release.values.copy()
    values[7, 3] = np.iinfo(values.dtype).max
    plane = plane_of(Release(Sketches(plan, release.users, values, private=True)))
    assert np.flatnonzero(~plane.known).tolist() == [7]
    assert not plane.points[7].any()


def test_what_cannot_be_on_a_plane() -> None:
    with pytest.raises(ParameterError, match="noisy distances give no points"):
        plane_of(silent("noisy-distances"))
    one = publish([[1], [0], [1]], Plan.of("randomized-response", Budget(1.0), n_attributes=1))
    with pytest.raises(ParameterError, match="at least two numbers"):
        plane_of(one)
