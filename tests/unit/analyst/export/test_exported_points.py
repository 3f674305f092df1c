import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.exported import LOST, saturated
from tests.folders import release_folder, small_parts
from tests.matrices import publish_matrix
from tests.plans import plan_of
from tests.releases import PEOPLE, READABLE, RESOLUTION, readable, release_of
from tests.streams import Recorded

from dimly.analyst import Release
from dimly.analyst.export import exported_points as export_points
from dimly.analyst.export.exported_points import Exported
from dimly.analyst.release import open_release
from dimly.errors import ParameterError

__all__ = ["small_parts"]

EXPORTS: dict[str, Callable[[Release, Path], object]] = {
    "numpy": lambda release, _: release.to_numpy(),
    "pandas": lambda release, _: release.to_pandas(),
    "arrow": lambda release, _: release.to_arrow(),
    "parquet": lambda release, path: release.to_parquet(path),
    "npz": lambda release, path: release.to_npz(path),
    "faiss": lambda release, path: release.to_faiss(path),
    "pgvector": lambda release, _: release.to_pgvector("", table="people"),
    "point": lambda release, _: release.point(3),
}


def squared_distances(points: Any, a: Any, b: Any) -> Any:
    points = points.astype(np.float64)
    return ((points[a] - points[b]) ** 2).sum(axis=-1)


def exported(release: Release) -> Exported:
    return Exported.of(release._sketches)


def excess_of(release: Release) -> Any:
    return np.concatenate([batch.excess for batch in exported(release).batches()])


@pytest.mark.parametrize(
    ("mechanism", "resolution"),
    [(m, 1) for m in READABLE] + [(m, RESOLUTION) for m in ("counting+laplace", "hashing+laplace")],
)
def test_distances_less_the_excess_of_both_are_the_estimates(mechanism: str, resolution: int) -> None:
    release = release_of(mechanism, resolution)
    a, b = np.triu_indices(len(release), 1)
    excess = excess_of(release)
    found = squared_distances(release.to_numpy(), a, b) - excess[a] - excess[b]
    np.testing.assert_allclose(found, release.distances(a, b).value, rtol=1e-3, atol=0.05)
    if not mechanism.startswith("counting") or resolution != 1:
        np.testing.assert_allclose(excess, exported(release).coordinates.bias, atol=0.02)


@readable
def test_a_vector_of_ones_own_has_no_excess(mechanism: str) -> None:
    # With weights blended in, its own projection is one more error.
    plan = plan_of(mechanism, blend=0.0) if mechanism.startswith("counting") else plan_of(mechanism)
    release = Release(publish_matrix(PEOPLE, plan, words=Recorded(7)))
    own = release.project({"3", "17", "42"})
    found = ((release.to_numpy() - release.point(own)).astype(np.float64) ** 2).sum(axis=1) - excess_of(release)
    np.testing.assert_allclose(found, release.distances(release.users, own).value, rtol=1e-3, atol=0.05)


def test_points_of_users() -> None:
    release = release_of("counting+laplace")
    np.testing.assert_array_equal(release.point(7), release.to_numpy()[7])
    np.testing.assert_allclose(release.point(7, denoise=True), release.to_numpy(denoise=True)[7], atol=1e-5)
    with pytest.raises(ParameterError, match=r"one user or vector, got 2. Use export.numpy"):
        release.point([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="users must be in this release"):
        release.point(1000)


@readable
def test_denoised_points_have_few_coordinates_and_the_same_distances(mechanism: str) -> None:
    release = release_of(mechanism)
    if not release.denoiser.rank:
        with pytest.raises(ParameterError, match="denoise must be False here"):
            release.to_numpy(denoise=True)
        return
    points = release.to_numpy(denoise=True)
    assert points.shape == (len(release), release.denoiser.rank)
    a, b = np.triu_indices(len(release), 1)
    whole = release.denoised().points
    np.testing.assert_allclose(squared_distances(points, a, b), squared_distances(whole, a, b), rtol=1e-3, atol=1e-3)
    own = release.project({"3"})
    np.testing.assert_allclose(
        ((release.point(own, denoise=True) - points) ** 2).sum(axis=1),
        ((release.denoiser.points(release.point(own)[None], noisy=False) - whole) ** 2).sum(axis=1),
        rtol=1e-3,
        atol=1e-3,
    )
    about = Exported.of(release._sketches, release.denoiser).about
    assert (about["denoised"], about["bias"], about["dimension"]) == (True, None, release.denoiser.rank)


def test_where_all_is_noise_nothing_is_denoised() -> None:
    release = release_of("counting+laplace")
    nothing = replace(release.denoiser, basis=release.denoiser.basis[:, :0], gains=release.denoiser.gains[:0])
    with pytest.raises(ParameterError, match="denoise must be False here: nothing in this release rises above"):
        Exported.of(release._sketches, nothing)


@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS.keys())
def test_noisy_distances_have_no_points(export: Callable[[Release, Path], object], tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="noisy distances give no points"):
        export(release_of("noisy-distances"), tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_of_somebody_saturated_nothing_is_told() -> None:
    release = saturated()
    points, excess = release.to_numpy(), excess_of(release)
    assert np.isnan(points).any(axis=1).tolist() == [place == LOST for place in range(len(release))]
    assert np.isnan(points[LOST]).all()
    assert np.isnan(excess).tolist() == [place == LOST for place in range(len(release))]
    assert np.isnan(release.point(LOST)).all()
    assert np.isnan(release.to_numpy(denoise=True)[LOST]).all()


def test_what_an_export_says_of_itself(tmp_path: Path) -> None:
    release = release_of("hashing+laplace")
    about = exported(release).about
    assert about == {
        "release": None,
        "plan_digest": release.plan.digest,
        "mechanism": "hashing+laplace",
        "epsilon": 1.0,
        "delta": 0.0,
        "unit": "attribute",
        "measure": "squared distance",
        "private": False,
        "guarantee": release.guarantee,
        "people": 30,
        "dimension": 32,
        "denoised": False,
        "bias": exported(release).coordinates.bias,
    }
    stored = open_release(release_folder(tmp_path / "release"))
    said = json.loads(exported(stored).about_json)
    assert said["release"] == json.loads((tmp_path / "release" / "manifest.json").read_text())["release"]
    assert (said["private"], said["guarantee"]) == (True, stored.guarantee)


@pytest.mark.parametrize("mechanism", ["counting+laplace", "randomized-response"])
def test_a_release_on_disk_is_exported_in_parts(
    mechanism: str, tmp_path: Path, small_parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = open_release(release_folder(tmp_path / "release", mechanism))
    assert stored._sketches.n_parts == 4
    dimension = exported(stored).dimension
    monkeypatch.setattr(export_points, "_BLOCK", 3 * dimension)
    told: list[tuple[int, int]] = []
    batches = list(exported(stored).batches(lambda *done: told.append(done)))
    assert [batch.start for batch in batches] == [0, 3, 6, 8, 11, 14, 16, 19, 22, 24, 27]
    assert told == [(start, 30) for start in [3, 6, 8, 11, 14, 16, 19, 22, 24, 27, 30]]
    np.testing.assert_array_equal(np.concatenate([batch.users for batch in batches]), stored.users)
    whole = exported(stored).coordinates.points(stored.values)
    np.testing.assert_array_equal(np.concatenate([batch.points for batch in batches]), whole)
    np.testing.assert_array_equal(stored.to_numpy(), whole)
