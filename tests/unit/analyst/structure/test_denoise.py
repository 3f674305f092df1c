from typing import Any

import numpy as np
import pytest
from tests.matrices import publish_matrix
from tests.plans import K, plan_of
from tests.releases import READABLE, release_of
from tests.streams import Recorded

import dimly
from dimly.analyst import Release
from dimly.analyst.structure import denoise as denoising
from dimly.analyst.structure.coordinates import Coordinates
from dimly.analyst.structure.denoise import Denoiser, shrinkage
from dimly.errors import ParameterError
from dimly.lab.population import make_population
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release.sketches import Sketches

GROUPS = np.arange(400) % 2
TWO = (np.random.default_rng(0).random((2, 100)) < 0.4)[GROUPS]


def published(mechanism: str) -> Release:
    return Release(publish_matrix(TWO, plan_of(mechanism), words=Recorded(3)))


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace", "randomized-response"])
def test_two_kinds_of_people_differ_in_one_direction(mechanism: str) -> None:
    release = published(mechanism)
    denoiser = release.denoiser
    assert 0.5 < denoiser.gains[0] < 1
    assert (denoiser.gains[1:] < 0.2).all()  # noise exceeds its edge now and then, by little
    reduced = denoiser.reduce(Coordinates.of(release.plan).points(release.values))[:, 0]
    truth = TWO[0].astype(float) - TWO[1]
    apart = float(reduced[GROUPS == 0].mean() - reduced[GROUPS == 1].mean()) ** 2
    assert apart == pytest.approx((truth**2).sum(), rel=0.6)  # 32 coordinates of 100 attributes, and shrunk


@pytest.mark.parametrize("mechanism", READABLE)
def test_reduced_points_have_the_distances_of_denoised_ones(mechanism: str) -> None:
    release = release_of(mechanism)
    denoiser = release.denoiser
    points = Coordinates.of(release.plan).points(release.values)
    for noisy in (True, False):
        reduced, whole = denoiser.reduce(points, noisy=noisy), denoiser.points(points, noisy=noisy)
        assert reduced.dtype == whole.dtype == np.float32
        assert reduced.shape == (len(release), denoiser.rank)
        assert whole.shape == points.shape
        for a, b in ((0, 1), (2, 9)):
            expected = ((whole[a] - whole[b]) ** 2).sum()
            assert ((reduced[a] - reduced[b]) ** 2).sum() == pytest.approx(expected, rel=1e-3, abs=1e-2)


def test_ones_own_vector_is_projected_and_not_shrunk() -> None:
    release = published("hashing+laplace")
    own = Coordinates.of(release.plan).own(release.project(np.flatnonzero(TWO[0])))[None, :]
    denoiser = release.denoiser
    np.testing.assert_allclose(denoiser.reduce(own), denoiser.reduce(own, noisy=False) * denoiser.gains, rtol=1e-5)


def test_a_release_is_denoised_always_alike() -> None:
    first, second = (Denoiser.of(published("counting+laplace")._sketches) for _ in range(2))
    np.testing.assert_array_equal(first.map, second.map)


def test_people_all_alike_have_no_direction() -> None:
    plan = plan_of("hashing+laplace")
    release = Release(publish_matrix(np.repeat(TWO[:1], 500, axis=0), plan, words=Recorded(5)))
    denoiser = release.denoiser
    assert (denoiser.gains < 0.3).all()
    assert denoiser.points(Coordinates.of(plan).points(release.values)).shape == (500, K)


def test_shrinkage_is_that_of_the_paper() -> None:
    # η(y) = √((y² − β − 1)² − 4β)/y, divided by y.
    y, beta = 3.0, 0.25
    expected = ((y**2 - beta - 1) ** 2 - 4 * beta) ** 0.5 / y**2
    np.testing.assert_allclose(shrinkage(np.array([4 * y**2, 4 * 2.2]), 4.0, beta), [expected, 0.0])
    # More directions than people is the same problem, transposed: s/√(n·v) and β become s/√(k·v) and 1/β.
    np.testing.assert_allclose(shrinkage(np.array([12.0]), 1.0, 4.0), shrinkage(np.array([3.0]), 1.0, 0.25))


def test_counting_has_a_direction_less() -> None:
    coordinates = Coordinates.of(plan_of("counting+laplace"))
    assert coordinates.free == K - 1
    assert coordinates.noise_variance == pytest.approx(coordinates.bias / (K - 1))


def test_saturated_people_are_left_out() -> None:
    release = published("hashing+laplace")
    values = release.values.copy()
    values[7, 2] = np.iinfo(values.dtype).max
    spoiled = Release(Sketches(release.plan, release.users, values))
    np.testing.assert_allclose(spoiled.denoiser.gains[0], release.denoiser.gains[0], rtol=0.01)
    found = spoiled.denoised()
    assert np.isnan(found.points[7]).all()
    assert not np.isnan(np.delete(found.points, 7, axis=0)).any()
    assert found.rank == spoiled.denoiser.rank
    assert found.structure.components == 1
    np.testing.assert_array_equal(found.users, release.users)


def test_wide_releases_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    release = published("randomized-response")
    exact = Denoiser.of(release._sketches)
    monkeypatch.setattr(denoising, "WIDEST", 50)
    monkeypatch.setattr(denoising, "_RANK", 10)
    searched = Denoiser.of(release._sketches)
    np.testing.assert_allclose(abs(searched.basis[:, 0] @ exact.basis[:, 0]), 1.0, atol=1e-3)
    np.testing.assert_allclose(searched.gains[0], exact.gains[0], rtol=1e-3)
    np.testing.assert_allclose(searched.mean, exact.mean, atol=1e-5)


def test_too_few_people() -> None:
    plan = plan_of("hashing+laplace")
    for n in (0, 1):
        alone = Sketches(plan, np.arange(n), np.full((n, K), 100, np.int16))
        denoiser = Denoiser.of(alone)
        assert denoiser.rank == 0
        np.testing.assert_array_equal(Release(alone).denoised().points, denoiser.coordinates.points(alone.values))


def test_too_much_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denoising, "_MOST_BYTES", 4 * K * 100)
    with pytest.raises(ParameterError, match="denoised points must take at most"):
        published("hashing+laplace").denoised()


def test_noisy_distances_are_not_denoised() -> None:
    release = release_of("noisy-distances")
    for ask in (release.denoised, release.segments, lambda: release.structure):
        with pytest.raises(ParameterError, match="noisy distances give no points"):
            ask()


def test_noise_is_shrunk_most_where_there_is_most() -> None:
    gains = []
    for epsilon in (0.5, 4.0):
        plan = Plan.of("hashing+laplace", Budget(epsilon), k=K, seed=bytes(32))
        gains.append(Release(publish_matrix(TWO, plan, words=Recorded(3))).denoiser.gains[0])
    assert gains[0] < gains[1]


def _people(weights: np.ndarray, d: int = 2000) -> np.ndarray:
    """Return two kinds of people, of given weights: half of each weight is his kind's."""
    generator = np.random.default_rng(5)
    people = np.zeros((len(weights), d), np.bool_)
    for i, weight in enumerate(weights):
        people[i, generator.choice(d, weight // 2, replace=False)] = True
        people[i, (i % 2) * 100 + generator.choice(100, min(weight // 2, 40), replace=False)] = True
    return people


@pytest.mark.parametrize(
    ("mechanism", "epsilon"),
    [("hashing+laplace", 1.0), ("counting+laplace", 1.0), ("sign+gaussian", 4.0), ("randomized-response", 4.0)],
)
@pytest.mark.thorough(but=1)
def test_the_rest_counts_where_people_are_unlike_in_weight(mechanism: str, epsilon: float) -> None:
    delta = 1e-6 if "gaussian" in mechanism else 0.0
    options: dict[str, Any] = {"n_attributes": 2000} if mechanism == "randomized-response" else {"k": 128}
    plan = Plan.of(mechanism, Budget(epsilon, delta), **options)
    alike, uneven = (
        dimly.publish(_people(weights), plan).denoiser.rest
        for weights in (np.full(1000, 80), np.random.default_rng(6).choice([20, 400], 1000))
    )
    # Alike: what is left is chance, two standard errors of which are taken off; 0.1 is some twelve of them.
    assert alike < 0.1
    assert 0.3 < uneven <= 0.5


def test_the_rest_finds_more_neighbors_of_people_with_tastes_of_their_own() -> None:
    people = make_population(600, 3000)
    weights = people.weights.astype(np.float64)
    distances = weights[:, None] + weights - 2 * (people.table @ people.table.T).toarray()
    np.fill_diagonal(distances, np.inf)
    tenth = np.sort(distances, axis=1)[:, 9]
    release = dimly.publish(people.table, Plan.of("counting+laplace", Budget(3.0), k=256))
    points = release.denoiser.reduce(Coordinates.of(release.plan).points(release.values))
    recall = []
    for i in range(0, 600, 3):
        alone = ((points - points[i]) ** 2).sum(axis=1)
        alone[i] = np.inf
        found = release.neighbors(i, n=10).users, np.argsort(alone)[:10]
        recall.append([(distances[i, users] <= tenth[i]).mean() for users in found])
    counted, left_out = np.mean(recall, axis=0)
    assert counted > left_out + 0.04  # 0.13 more on average of twelve publications, ± 0.025: fails once in 5,000


def test_what_was_not_searched_is_not_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denoising, "WIDEST", 64)
    monkeypatch.setattr(denoising, "_RANK", 8)
    people = np.random.default_rng(0).random((400, 200)) < 0.3
    for epsilon, searched_enough in ((1.0, True), (8.0, False)):
        release = dimly.publish(people, Plan.of("randomized-response", Budget(epsilon), n_attributes=200))
        assert release.denoiser.rank > 0
        assert (release.denoiser.missed < 0.3) == searched_enough
        assert release.neighbors(0, n=5).denoised == searched_enough


def test_sums_of_bits_are_those_of_points() -> None:
    release = release_of("randomized-response")
    points = Coordinates.of(release.plan).points(release.values).astype(np.float64)
    found = denoising.moments_of(release._sketches)
    assert found.n_people == len(points)
    np.testing.assert_allclose(found.total, points.sum(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found.products, points.T @ points, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("n_above", [0, 3, 12])
def test_directions_above_the_noise_are_found_as_by_a_whole_decomposition(n_above: int) -> None:
    generator = np.random.default_rng(n_above)
    turn = np.linalg.qr(generator.standard_normal((400, 400)))[0]
    spectrum = np.concatenate([np.linspace(5, 3, n_above), [1.9], np.linspace(1, 0, 399 - n_above)])
    matrix = (turn * spectrum) @ turn.T
    found = denoising._above(matrix.astype(np.float32), 2.0)
    assert found is not None
    basis, variances = found
    n_found = max(n_above + 1, 2)  # with the next one
    np.testing.assert_allclose(variances, spectrum[:n_found], rtol=1e-4)
    np.testing.assert_allclose(np.abs((basis * turn[:, :n_found])[:, :n_above].sum(axis=0)), 1.0, atol=1e-3)


def test_a_search_gives_up_where_most_directions_are_above_the_noise() -> None:
    assert denoising._above(np.diag(np.linspace(3, 1, 400)).astype(np.float32), 1.5) is None


def test_a_search_exhausts_people_fewer_than_it_asks_for() -> None:
    points = np.random.default_rng(0).standard_normal((20, 400))
    found = denoising._above((points.T @ points).astype(np.float32), 1.0)
    assert found is not None
    np.testing.assert_allclose(found[1][:20], np.linalg.eigvalsh(points @ points.T)[::-1], rtol=1e-4)
    np.testing.assert_allclose(found[0].T @ found[0], np.eye(21), atol=1e-4)
