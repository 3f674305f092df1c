import json
import sys
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.exported import FAMILIES, LOST, check_neighbors, named, saturated
from tests.folders import ODD_IDS
from tests.releases import release_of

from dimly.errors import DimlyError, MissingExtraError, ParameterError


def nearest(path: Path, point: Any, n: int) -> tuple[Any, Any]:
    distances, places = faiss.read_index(str(path)).search(point[None, :], n)
    return distances[0], places[0]


@pytest.mark.parametrize("mechanism", FAMILIES)
def test_a_flat_index_finds_the_neighbors_of_the_release(mechanism: str, tmp_path: Path) -> None:
    release = release_of(mechanism)
    release.to_faiss(tmp_path / "people.faiss")
    beside = pq.read_table(tmp_path / "people.faiss.users.parquet")
    assert beside.schema.names == ["user", "excess"]
    users, excess = (np.array(beside[name]) for name in beside.schema.names)
    for who in (0, 11, 29):
        distances, places = nearest(tmp_path / "people.faiss", release.point(who), 21)
        assert places[0] == who
        check_neighbors(release, who, users[places[1:]])
        estimates = release.distances(who, users[places[1:]]).value
        np.testing.assert_allclose(distances[1:] - excess[places[1:]] - excess[who], estimates, rtol=1e-3, atol=0.05)


def test_a_vector_of_ones_own(tmp_path: Path) -> None:
    release = release_of("hashing+laplace")
    own = release.project({"3", "17"})
    release.to_faiss(tmp_path / "people.faiss")
    _, places = nearest(tmp_path / "people.faiss", release.point(own), 10)
    assert places.tolist() == release.neighbors(own, n=10, denoise=False).users.tolist()


def test_denoised_points_rank_as_the_release_does(tmp_path: Path) -> None:
    release = release_of("hashing+laplace")
    said = release.to_faiss(tmp_path / "people.faiss", denoise=True)
    assert pq.read_schema(tmp_path / "people.faiss.users.parquet").names == ["user"]
    _, places = nearest(tmp_path / "people.faiss", release.point(5, denoise=True), 11)
    assert places[1:].tolist() == release.neighbors(5, n=10).users.tolist()
    assert said["denoised"]


def test_people_keep_their_places_and_ids(tmp_path: Path) -> None:
    release = named(ODD_IDS)
    said = release.to_faiss(tmp_path / "people.faiss")
    beside = pq.read_table(tmp_path / "people.faiss.users.parquet")
    assert beside["user"].to_pylist() == sorted(ODD_IDS)
    assert json.loads(beside.schema.metadata[b"dimly"]) == said
    _, places = nearest(tmp_path / "people.faiss", release.point("日本"), 1)
    assert beside["user"][int(places[0])].as_py() == "日本"


@pytest.mark.parametrize("index", ["flat", "hnsw"])
def test_whoever_is_saturated_is_left_out(index: Any, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    release = saturated()
    release.to_faiss(tmp_path / "people.faiss", index=index, progress=lambda *done: told.append(done))
    found = faiss.read_index(str(tmp_path / "people.faiss"))
    assert (found.ntotal, told) == (29, [(30, 30)])
    _, places = found.search(release.point(7)[None, :], 30)
    assert sorted(places[0].tolist()) == [-1, *(place for place in range(30) if place != LOST)]
    assert places[0, 0] == 7
    np.testing.assert_array_equal(found.reconstruct(9), release.point(9))
    assert pq.read_table(tmp_path / "people.faiss.users.parquet")["user"].to_pylist() == list(range(30))


def test_bad_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = release_of("hashing+laplace")
    with pytest.raises(ParameterError, match="index must be 'flat' or 'hnsw', got 'ivf'"):
        release.to_faiss(tmp_path / "people.faiss", index="ivf")  # type: ignore[arg-type]
    (tmp_path / "people.faiss.users.parquet").write_text("mine")
    with pytest.raises(ParameterError, match=r"users.parquet', which exists"):
        release.to_faiss(tmp_path / "people.faiss")
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"to_faiss needs FAISS. Install dimly\[search\]"):
        release.to_faiss(tmp_path / "people.faiss")


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("Error in WriterFile")

    monkeypatch.setattr(faiss, "write_index", full)
    with pytest.raises(DimlyError, match=r"people.faiss cannot be written. Is the disk full\?"):
        release_of("hashing+laplace").to_faiss(tmp_path / "people.faiss")
    assert list(tmp_path.iterdir()) == []
