import numpy as np
import pytest
from tests.matrices import publish_matrix
from tests.plans import N_ATTRIBUTES, plan_of
from tests.releases import PEOPLE, READABLE, silent
from tests.streams import Recorded

from dimly.analyst import Release
from dimly.analyst.structure.coordinates import Coordinates
from dimly.errors import ParameterError


@pytest.mark.parametrize("mechanism", READABLE)
def test_points_have_unbiased_distances_but_for_the_noise(mechanism: str) -> None:
    # Counting's estimates trust weights too, unless they are told not to.
    plan = plan_of(mechanism, blend=0.0) if mechanism.startswith("counting") else plan_of(mechanism)
    release = Release(publish_matrix(PEOPLE, plan, words=Recorded(7)))
    coordinates = Coordinates.of(plan)
    points = coordinates.points(release.values).astype(np.float64)
    assert points.shape == (len(release), coordinates.dimension)
    a, b = np.triu_indices(len(release), 1)
    found = ((points[a] - points[b]) ** 2).sum(axis=1) - 2 * coordinates.bias
    np.testing.assert_allclose(found, release.distances(a, b).value, rtol=1e-3, atol=0.05)


@pytest.mark.parametrize("mechanism", READABLE)
def test_a_vector_of_ones_own_lies_among_the_points(mechanism: str) -> None:
    release = silent(mechanism)
    coordinates = Coordinates.of(release.plan)
    own = coordinates.own(release.project(np.flatnonzero(PEOPLE[3])))
    published = coordinates.points(release.values)[3]
    if mechanism == "randomized-response":  # unbiasing moves bits that were not flipped
        assert set(own.tolist()) == {0.0, 1.0}
        np.testing.assert_array_equal(own, published > 0.5)
    else:
        np.testing.assert_allclose(own, published, atol=1e-5)
    assert own.dtype == np.float32


def test_noisy_distances_place_nobody() -> None:
    with pytest.raises(ParameterError, match="give no points"):
        Coordinates.of(plan_of("noisy-distances"))


def test_dimension() -> None:
    assert Coordinates.of(plan_of("randomized-response")).dimension == N_ATTRIBUTES
