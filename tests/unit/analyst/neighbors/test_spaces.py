"""The keys that people are ranked by, against their formulas."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.releases import READABLE, readable, release_of

from dimly.analyst import Release
from dimly.analyst.neighbors.query import space_of
from dimly.analyst.neighbors.spaces import DenoisedSpace, Metric, SketchSpace
from dimly.analyst.structure.coordinates import Coordinates
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release import Sketches

METRICS: list[Metric] = ["euclidean", "cosine", "jaccard"]
every_metric = pytest.mark.parametrize("metric", METRICS)
both = pytest.mark.parametrize("denoise", [True, False], ids=["denoised", "published"])


def _points(release: Release, *, denoise: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of everybody, and that of a vector of one's own."""
    coordinates = Coordinates.of(release.plan)
    points, own = coordinates.points(release.values), coordinates.own(release.project({"3", "5", "8"}))[None, :]
    if denoise and release.denoiser.rank:
        points, own = release.denoiser.points(points), release.denoiser.points(own, noisy=False)
    return points.astype(np.float64), own.astype(np.float64)


def _wanted(metric: Metric, p: np.ndarray, q: np.ndarray, n: np.ndarray, m: float, floor: float) -> Any:
    shared = p @ q
    if metric == "euclidean":
        return ((p - q) ** 2).sum(axis=1)
    if metric == "cosine":
        return -shared / np.sqrt(np.maximum(n, floor) * max(m, floor))
    return -shared / np.maximum.reduce([n + m - shared, n, np.full_like(n, m), np.full_like(n, floor)])


def _rest(release: Release) -> np.ndarray:
    """Return what everybody's squared length beyond the denoised point counts."""
    denoiser, points = release.denoiser, Coordinates.of(release.plan).points(release.values).astype(np.float64)
    deviations = points - denoiser.mean
    rest = (deviations**2).sum(axis=1) - ((deviations @ denoiser.map) ** 2).sum(axis=1)
    counted: np.ndarray = denoiser.rest * rest
    return counted


def _wanted_by_matching(release: Release) -> Any:
    """Return squared lengths less twice the inner product with one's own, each direction by what of it is no noise."""
    denoiser, coordinates = release.denoiser, Coordinates.of(release.plan)
    deviations = coordinates.points(release.values).astype(np.float64) - denoiser.mean
    own = coordinates.own(release.project({"3", "5", "8"})).astype(np.float64) - denoiser.mean
    basis, others = denoiser.basis.astype(np.float64), denoiser.missed / (1 + denoiser.missed)
    inside, lost = deviations @ basis, deviations - deviations @ basis @ basis.T
    believed = 1 - coordinates.noise_variance / denoiser.variances
    products = (inside * believed) @ (basis.T @ own) + others * lost @ own
    return ((inside * denoiser.gains) ** 2).sum(axis=1) - 2 * products


@readable
@every_metric
@both
def test_keys_are_what_is_documented(mechanism: str, metric: Metric, denoise: bool) -> None:
    release = release_of(mechanism)
    own = release.project({"3", "5", "8"})
    space = space_of(release, metric, denoise=denoise)
    assert space is not None
    rows = space.rows(release.values)
    points, projected = _points(release, denoise=denoise)
    norms, own_norm = release.norm(release.users).value, 3.0
    floor = float(np.sqrt(release.plan.error.distance(one_sided=True, weights=(0.0, 0.0))(0.0)))
    if isinstance(space, DenoisedSpace):
        norms, own_norm, floor = (points**2).sum(axis=1), float((projected**2).sum()), 0.0
    rest = _rest(release) if isinstance(space, DenoisedSpace) and metric == "euclidean" else 0.0
    of_own = space.near(space.own(own), release.values, limit=np.inf, own=own)
    wanted_of_own = rest + _wanted(metric, points, projected[0], norms, own_norm, floor)
    if isinstance(space, DenoisedSpace) and metric == "euclidean":
        wanted_of_own = rest + _wanted_by_matching(release)
    for found, wanted in (
        (space.keys(rows[4:5], rows), rest + _wanted(metric, points, points[4], norms, norms[4], floor)),
        (of_own, wanted_of_own),
    ):
        if metric == "euclidean":  # up to a factor and a constant, which ranks alike
            others = found.argsort(kind="stable")[1:]
            assert (np.diff(wanted[others]) > -1e-4 * np.abs(wanted).max()).all()
        else:
            np.testing.assert_allclose(found, wanted, atol=1e-4 * np.abs(wanted).max())


@readable
@every_metric
@both
def test_pairs_and_tiles_have_the_same_keys(mechanism: str, metric: Metric, denoise: bool) -> None:
    release = release_of(mechanism)
    space = space_of(release, metric, denoise=denoise)
    assert space is not None
    rows = space.rows(release.values)
    i, j = np.triu_indices(30, 1)
    pairs = space.keys_of_pairs(rows, i, j)
    alone = [space.keys(rows[a : a + 1], rows[b : b + 1])[0] for a, b in zip(i, j, strict=True)]
    np.testing.assert_allclose(pairs, alone, rtol=1e-9)
    tile = space.tile(rows, rows)[i, j].astype(np.float64)
    factor = np.linalg.norm(pairs) / np.linalg.norm(tile)
    np.testing.assert_allclose(factor * tile, pairs, atol=1e-4 * np.abs(pairs).max())


@pytest.mark.parametrize("share", [0.001, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("rest", [0.0, 0.4])
@every_metric
def test_whoever_is_beyond_the_limit_may_be_passed_over(share: float, rest: float, metric: Metric) -> None:
    generator = np.random.default_rng(3)
    plan = Plan.of("counting+laplace", Budget(1.0), k=64, seed=bytes(32))
    values = (generator.poisson(3, (2, 64)).repeat(1000, axis=0) + generator.poisson(9, (2000, 64))).astype(np.int16)
    release = Release(Sketches(plan, np.arange(2000), values))
    assert release.denoiser.rank > 32
    raw = space_of(release, metric, denoise=False)
    assert isinstance(raw, SketchSpace)
    space = DenoisedSpace.of(raw, replace(release.denoiser, rest=rest))
    rows = space.rows(values)
    keys = space.keys(rows[:1], rows)
    limit = float(np.quantile(keys, share))
    found = space.near(rows[:1], values, limit=limit)
    within = keys < limit - 1e-4 * abs(limit)
    np.testing.assert_allclose(found[within], keys[within], rtol=1e-4, atol=1e-3)
    assert (found[keys > limit + 1e-4 * abs(limit)] > limit).all()


def test_what_is_denoised_is_ranked_in_few_coordinates() -> None:
    spaces = [space_of(release_of(mechanism), "euclidean", denoise=True) for mechanism in READABLE]
    reduced = [space for space in spaces if isinstance(space, DenoisedSpace)]
    assert 0 < len(reduced) < len(spaces)  # where nothing rises above the noise, points are ranked as published
    for space in reduced:
        assert space.denoiser.rank <= space.matrix.shape[1] < space.denoiser.rank + 16


def test_noisy_distances_have_no_space() -> None:
    assert space_of(release_of("noisy-distances"), "euclidean", denoise=True) is None
