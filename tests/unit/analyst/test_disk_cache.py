"""What was found is kept for the next command, and nothing that others could have put there is used."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dimly.analyst import disk_cache
from dimly.analyst.release import open_release
from dimly.analyst.structure.denoise import Denoiser
from dimly.api import publish
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release import Sketches, StoredSketches


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    people = np.repeat(np.random.default_rng(0).random((2, 60)) < 0.3, 40, axis=0)
    return publish(people, Plan.of("hashing+laplace", Budget(4.0), k=16)).save(tmp_path / "release")


def test_the_second_time_nothing_is_found_again(folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_release(path)
    found, structure = first.denoiser, first.structure
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(list(folder.iterdir())) == 2
    monkeypatch.setattr(Denoiser, "of", None)
    monkeypatch.setattr("dimly.analyst.structure.parallel_analysis.structure_of", None)
    again = open_release(path)
    for name in ("mean", "basis", "gains", "variances"):
        np.testing.assert_array_equal(getattr(again.denoiser, name), getattr(found, name))
    assert (again.denoiser.rest, again.denoiser.missed) == (found.rest, found.missed)
    assert again.structure == structure
    assert again.neighbors(1, 3).users.tolist() == first.neighbors(1, 3).users.tolist()


def test_a_file_that_was_changed_is_not_used(folder: Path, path: Path) -> None:
    found = open_release(path).denoiser
    (file,) = folder.iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    np.testing.assert_array_equal(open_release(path).denoiser.gains, found.gains)
    file.write_bytes(b"")
    np.testing.assert_array_equal(open_release(path).denoiser.gains, found.gains)


def test_of_another_release_nothing_is_used(folder: Path, path: Path, tmp_path: Path) -> None:
    _ = open_release(path).denoiser
    (file,) = folder.iterdir()
    people = np.random.default_rng(1).random((50, 60)) < 0.3
    other = open_release(publish(people, Plan.of("hashing+laplace", Budget(4.0), k=16)).save(tmp_path / "other"))
    target = disk_cache._path(other._sketches, "denoiser")
    assert target is not None
    target.write_bytes(file.read_bytes())  # the digest holds the name, too
    assert disk_cache._read(other._sketches, "denoiser", set()) is None


def test_folders_that_others_can_write_to_are_not_used(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    assert disk_cache.cache_folder() is None
    folder.chmod(0o700)
    assert disk_cache.cache_folder() == folder


def test_nothing_is_written_into_a_release(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for inside in (path, path / "sketches", path / "new"):
        monkeypatch.setenv(disk_cache.VARIABLE, str(inside))
        assert disk_cache.cache_folder() is None
    assert not (path / "new").exists()


def test_it_can_be_turned_off(folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.VARIABLE, "off")
    _ = open_release(path).denoiser
    assert disk_cache.cache_folder() is None
    assert not folder.exists()
    monkeypatch.delenv(disk_cache.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setattr("sys.platform", "linux")
    assert disk_cache.cache_folder() == folder / "dimly"


def test_old_files_are_forgotten_and_nobody_elses(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_MOST_FILES", 3)
    folder.mkdir(0o700)
    for i in range(5):
        (folder / f"denoiser-{i:064x}.npz").write_bytes(b"x")
        (folder / f"measured-{i}.npz").write_bytes(b"x")
        (folder / f".{i}-index-{i:064x}.npy").write_bytes(b"x")  # a process that was killed
    disk_cache._forget_old(folder)
    assert len(list(folder.glob(".*-index-*.npy"))) == 4
    assert len(list(folder.glob("denoiser-*"))) == 3
    assert len(list(folder.glob("measured-*"))) == 5


def test_files_of_another_shape_are_not_used(folder: Path, path: Path) -> None:
    release = open_release(path)
    found, structure = release.denoiser, release.structure
    disk_cache._write(release._sketches, "denoiser", {"gains": np.zeros((2, 2))})
    disk_cache._write(release._sketches, "structure", {"facts": np.frombuffer(b'{"later": 1}', np.uint8)})
    np.testing.assert_array_equal(open_release(path).denoiser.gains, found.gains)
    assert open_release(path).structure == structure
    assert len(list(folder.iterdir())) == 2


def test_numbers_that_were_kept_are_those_of_the_release(
    folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "_PIECE", 7 * 16 * 2)  # seven people, the last piece fewer
    sketches = open_release(path)._sketches
    made = disk_cache.values_kept(sketches)
    monkeypatch.setattr(StoredSketches, "read_values", None)  # nothing is decoded again
    kept = disk_cache.values_kept(sketches)
    for positions in ([79, 0, 13, 13, 14, 6], [79], []):
        chosen = np.array(positions, np.int64)
        for one in (made, kept):
            assert one is not None
            found = one.take(chosen)
            assert found is not None
            np.testing.assert_array_equal(found, sketches.take(chosen))
            assert (found.dtype, found.flags.writeable) == (sketches.plan.published_dtype, False)
    assert not list(folder.glob(".*"))


def test_kept_numbers_that_were_damaged_are_not_used(folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_PIECE", 7 * 16 * 2)
    sketches = open_release(path)._sketches
    assert disk_cache.values_kept(sketches) is not None
    (file,) = folder.glob("values-*.npy")
    rows = np.load(file)
    rows[20, 3] += 1
    np.save(file, rows)
    kept = disk_cache.values_kept(sketches)
    assert kept is not None
    assert kept.take(np.array([0, 20])) is None
    np.testing.assert_array_equal(kept.take(np.array([0, 21])), sketches.take(np.array([0, 21])))
    for spoiled in (rows[:-1], rows.astype(np.int64)):  # of another shape or type: made anew
        np.save(file, spoiled)
        again = disk_cache.values_kept(sketches)
        assert again is not None
        np.testing.assert_array_equal(again.take(np.array([20])), sketches.take(np.array([20])))


def test_who_keeps_the_same_numbers_meanwhile_has_a_file_of_their_own(
    folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Threads, and processes in containers that share a folder, may have the same number.
    sketches, read = open_release(path)._sketches, StoredSketches.read_values
    others: list[Any] = []

    def read_beside_another(self: StoredSketches, index: int) -> object:
        if not others:
            others.append(None)
            others.append(disk_cache.values_kept(self))
        return read(self, index)

    monkeypatch.setattr(StoredSketches, "read_values", read_beside_another)
    everybody = np.arange(80)
    for kept in (disk_cache.values_kept(sketches), others[1], disk_cache.values_kept(sketches)):
        assert kept is not None
        np.testing.assert_array_equal(kept.take(everybody), sketches.take(everybody))
    assert not list(folder.glob(".*"))


def test_numbers_in_memory_or_without_a_folder_are_not_kept(
    folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = open_release(path)._sketches
    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "write_array_header_1_0", None)  # as of a full disk
        assert disk_cache.values_kept(stored) is None
    assert not list(folder.iterdir())
    monkeypatch.setenv(disk_cache.VARIABLE, "off")
    assert disk_cache.values_kept(stored) is None
    assert disk_cache.values_kept(Sketches(stored.plan, stored.users, stored.values, private=True)) is None


def test_an_account_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(disk_cache.VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert disk_cache.cache_folder() is None
