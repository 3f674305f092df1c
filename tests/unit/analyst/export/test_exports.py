import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import faiss
import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.exported import FAMILIES, LOST, check_neighbors, named, saturated
from tests.folders import ODD_IDS
from tests.releases import release_of

from dimly.analyst import Release
from dimly.analyst.export.exported_points import Exported
from dimly.errors import DimlyError, MissingExtraError, ParameterError

FILES: dict[str, Callable[..., Any]] = {"npz": Release.to_npz, "parquet": Release.to_parquet, "faiss": Release.to_faiss}
every_file = pytest.mark.parametrize("write", FILES.values(), ids=FILES.keys())


def about_of(release: Release, *, denoise: bool = False) -> Any:
    return Exported.of(release._sketches, release.denoiser if denoise else None).about


class TestPandas:
    def test_users_points_and_what_it_is(self) -> None:
        release = release_of("counting+laplace")
        frame = release.to_pandas()
        assert frame.index.name == "user"
        assert frame.index.tolist() == release.users.tolist()
        assert frame.columns.tolist() == [f"x{i}" for i in range(32)]
        assert set(frame.dtypes) == {np.dtype(np.float32)}
        np.testing.assert_array_equal(frame.to_numpy(), release.to_numpy())
        assert frame.attrs["dimly"] == about_of(release)

    def test_text_and_saturation(self) -> None:
        assert named(ODD_IDS).to_pandas().index.tolist() == sorted(ODD_IDS)
        assert saturated().to_pandas().isna().any(axis=1).tolist() == [place == LOST for place in range(30)]

    def test_denoised(self) -> None:
        release = release_of("counting+laplace")
        frame = release.to_pandas(denoise=True)
        assert frame.shape == (30, release.denoiser.rank)
        assert frame.attrs["dimly"]["denoised"]

    def test_without_pandas(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(MissingExtraError, match=r"export.pandas needs pandas. Run pip install pandas"):
            release_of("counting+laplace").to_pandas()


class TestArrow:
    def test_users_points_excess_and_what_it_is(self) -> None:
        release = release_of("counting+laplace")
        table = release.to_arrow()
        assert table.schema.names == ["user", "point", "excess"]
        assert str(table.schema.field("point").type) == "fixed_size_list<element: float not null>[32]"
        assert not table.schema.field("user").nullable
        assert table["user"].to_pylist() == release.users.tolist()
        np.testing.assert_array_equal(np.array(table["point"].to_pylist(), np.float32), release.to_numpy())
        assert json.loads(table.schema.metadata[b"dimly"]) == about_of(release)

    def test_what_is_not_known_is_missing(self) -> None:
        table = saturated().to_arrow()
        for name in ("point", "excess"):
            missing = [value is None for value in table[name].to_pylist()]
            assert missing == [place == LOST for place in range(30)]
        known = np.delete(np.arange(30), LOST)
        points = np.array([table["point"][int(place)].as_py() for place in known], np.float32)
        np.testing.assert_array_equal(points, saturated().to_numpy()[known])

    def test_denoised_points_have_no_excess(self) -> None:
        table = release_of("counting+laplace").to_arrow(denoise=True)
        assert table.schema.names == ["user", "point"]
        assert json.loads(table.schema.metadata[b"dimly"])["bias"] is None


class TestParquet:
    def test_is_the_arrow_table(self, tmp_path: Path) -> None:
        told: list[tuple[int, int]] = []
        for number, release in enumerate([release_of("counting+laplace"), named(ODD_IDS), saturated()]):
            path = tmp_path / f"{number}.parquet"
            said = release.to_parquet(path, progress=lambda *done: told.append(done))
            assert said == about_of(release)
            assert pq.read_table(path).equals(release.to_arrow(), check_metadata=True)
        assert told == [(30, 30), (11, 11), (30, 30)]

    def test_other_readers_find_neighbors_in_it(self, tmp_path: Path) -> None:
        release = saturated()
        release.to_parquet(tmp_path / "people.parquet")
        query = """
            SELECT other.user,
                pow(array_distance(other.point::FLOAT[32], one.point::FLOAT[32]), 2) - other.excess - one.excess
            FROM $path AS other, $path AS one WHERE one.user = 3 AND other.user <> 3 ORDER BY 2, 1 LIMIT 5
        """.replace("$path", f"'{tmp_path}/people.parquet'")
        found = duckdb.connect().execute(query).fetchall()
        expected = release.neighbors(3, n=5, denoise=False)
        assert [row[0] for row in found] == expected.users.tolist()
        unbiased = [release.distance(3, user).value for user in expected.users.tolist()]
        np.testing.assert_allclose([row[1] for row in found], unbiased, rtol=1e-4)


class TestNpz:
    def test_round_trip(self, tmp_path: Path) -> None:
        told: list[tuple[int, int]] = []
        release = saturated()
        said = release.to_npz(tmp_path / "people.npz", progress=lambda *done: told.append(done))
        with np.load(tmp_path / "people.npz") as found:
            assert sorted(found) == ["about", "excess", "point", "user"]
            np.testing.assert_array_equal(found["point"], release.to_numpy())
            np.testing.assert_array_equal(found["user"], release.users)
            np.testing.assert_array_equal(found["excess"], [np.nan if i == LOST else said["bias"] for i in range(30)])
            assert json.loads(str(found["about"])) == said == about_of(release)
        assert told == [(30, 30)]

    def test_text(self, tmp_path: Path) -> None:
        named(ODD_IDS).to_npz(tmp_path / "people.npz", denoise=True)
        with np.load(tmp_path / "people.npz") as found:
            assert found["user"].tolist() == sorted(ODD_IDS)
            assert "excess" not in found

    def test_what_numpy_cannot_hold(self, tmp_path: Path) -> None:
        with pytest.raises(ParameterError, match=r"must not end in NUL, which NumPy drops, but one does"):
            named(["a", "b\0"]).to_npz(tmp_path / "people.npz")
        named(["a", "b\0c"]).to_npz(tmp_path / "people.npz")
        with np.load(tmp_path / "people.npz") as found:
            assert found["user"].tolist() == ["a", "b\0c"]


class TestFiles:
    @every_file
    def test_nothing_is_replaced_unless_told(self, write: Callable[..., Any], tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_text("mine")
        with pytest.raises(ParameterError, match=r"path must be of a new file, got .*which exists. Use overwrite"):
            write(release_of("hashing+laplace"), path)
        assert path.read_text() == "mine"
        assert list(tmp_path.iterdir()) == [path]
        write(release_of("hashing+laplace"), path, overwrite=True)
        assert path.read_bytes() != b"mine"

    @every_file
    def test_places_that_cannot_be(self, write: Callable[..., Any], tmp_path: Path) -> None:
        with pytest.raises(ParameterError, match="path must be in a folder that exists"):
            write(release_of("hashing+laplace"), tmp_path / "none" / "file")
        with pytest.raises(ParameterError, match=r"path must be a file, got .*, which is a folder"):
            write(release_of("hashing+laplace"), tmp_path)
        assert list(tmp_path.iterdir()) == []

    @every_file
    def test_nothing_half_written_stays(
        self, write: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class StopError(Exception):
            pass

        batches = Exported.batches

        def stopped(self: Exported, progress: Any = None) -> Iterator[Any]:
            yield from batches(self, progress)
            raise StopError

        monkeypatch.setattr(Exported, "batches", stopped)
        path = tmp_path / "file"
        path.write_text("mine")
        with pytest.raises(StopError):
            write(release_of("hashing+laplace"), path, overwrite=True)
        assert list(tmp_path.iterdir()) == [path]
        assert path.read_text() == "mine"

    def test_another_process_may_be_first(self, tmp_path: Path) -> None:
        path = tmp_path / "file"

        def be_second(*_: int) -> None:
            path.write_text("theirs")

        with pytest.raises(ParameterError, match="which exists"):
            release_of("hashing+laplace").to_parquet(path, progress=be_second)
        assert path.read_text() == "theirs"
        assert list(tmp_path.iterdir()) == [path]

    def test_file_systems_without_links(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def no_links(self: Path, target: Path) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(Path, "hardlink_to", no_links)
        release_of("hashing+laplace").to_parquet(tmp_path / "file")
        assert [path.name for path in tmp_path.iterdir()] == ["file"]


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
    with pytest.raises(MissingExtraError, match=r"export.faiss needs FAISS. Run pip install 'dimly\[search\]'"):
        release.to_faiss(tmp_path / "people.faiss")


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("Error in WriterFile")

    monkeypatch.setattr(faiss, "write_index", full)
    with pytest.raises(DimlyError, match=r"people.faiss cannot be written. Is the disk full\?"):
        release_of("hashing+laplace").to_faiss(tmp_path / "people.faiss")
    assert list(tmp_path.iterdir()) == []
