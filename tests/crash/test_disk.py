"""Disks that are full, read-only or not there: one line, nothing half-written, and the charge as documented.

Small real file systems are mounted for it, which takes the right to do so.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash.conftest import Published
from tests.crash.scenes import DATASET, Scene

from dimly.curator.ledger.ledger import Ledger


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """Put a small file system in the place of a folder."""
    # Mounting takes root; the names are of the tests' own folders.
    done = subprocess.run(  # noqa: S603
        ["mount", "-t", "tmpfs", "-o", f"mode=0755,{options}", "tmpfs", str(folder)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"a full disk takes the right to mount one: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S603, S607


@pytest.fixture(autouse=True)
def _can_mount() -> None:
    if os.name != "posix" or not Path("/proc/mounts").exists():
        pytest.skip("small file systems are mounted as Linux does it")


def test_a_full_disk_under_the_release(published_scene: Scene, published: Published) -> None:
    scene = published_scene
    with mounted(scene.parent, "size=1536k"):
        shutil.copytree(published.release, scene.target)
        with scene.start("--overwrite", out=scene.target, wide=True) as run:
            line = run.result().check_one_line(1)
        assert scene.releases() == {scene.target: published.id}
        assert scene.leftovers() == []
    assert line.startswith(f"error: the disk of {scene.parent} is full. Free some space; nothing was published.")
    assert "stays in the ledger although nothing was published, because noise had been drawn" in line
    _, charge = scene.charges()
    assert charge.label == "sampling (run ended)"
    Ledger(scene.ledger).forgive(charge.id, reason="the disk was full; nobody else has an account here", force=True)
    assert Ledger(scene.ledger).status(DATASET).spent.epsilon == 1


def test_a_full_disk_before_anything_is_written(scene: Scene) -> None:
    # The folder itself is the one.
    with mounted(scene.parent, "size=1m,nr_inodes=1"), scene.start(out=scene.target) as run:
        line = run.result().check_one_line(1)
    assert line == f"error: the disk of {scene.parent} is full. Free some space; nothing was published."
    assert scene.leftovers() == []
    assert scene.charges() == ()


def test_a_full_disk_under_the_spill(scene: Scene) -> None:
    with mounted(scene.temp, "size=2m"):
        with scene.start(out=scene.target) as run:
            line = run.result().check_one_line(1)
        assert list(scene.temp.iterdir()) == []
    assert "temp must be on a disk with room for the data: it is full." in line
    assert scene.leftovers() == []
    assert list(scene.parent.iterdir()) == []
    (charge,) = scene.charges()
    assert charge.state == ("returned" if charge.sampling_at is None else "sampling")


@pytest.mark.parametrize("left", [0, 64 << 10])  # the first record does not fit, or the people do not
@pytest.mark.thorough(but=1)
def test_a_full_disk_under_the_ledger(left: int, scene: Scene, tmp_path: Path) -> None:
    with mounted(tmp_path, "size=512k"):
        ledger = Ledger.create(tmp_path / "ledger.db")
        ledger.add_dataset(DATASET, epsilon=10.0)
        free = os.statvfs(tmp_path)
        (tmp_path / "full").write_bytes(bytes(free.f_bavail * free.f_frsize - left))
        with scene.start(out=scene.target, ledger=ledger.path) as run:
            line = run.result().check_one_line(1)
        (tmp_path / "full").unlink()
        assert Ledger(ledger.path).status(DATASET).spent.epsilon == 0
    assert "disk is full" in line
    assert scene.leftovers() == []
    assert not scene.target.exists()


def test_a_folder_that_is_read_only(scene: Scene) -> None:
    with mounted(scene.parent, "ro"), scene.start(out=scene.target) as run:
        line = run.result().check_one_line(2)
    assert line == f"error: --out must be in a folder that can be written to, but {scene.parent} cannot."
    assert scene.leftovers() == []
    assert scene.charges() == ()


def test_a_spill_folder_that_is_read_only(scene: Scene) -> None:
    with mounted(scene.temp, "ro"), scene.start(out=scene.target) as run:
        line = run.result().check_one_line(2)
    assert line.startswith("error: --temp must be a folder that can be written to")
    assert scene.leftovers() == []
    assert [charge.state for charge in scene.charges()] == ["returned"]


@pytest.mark.parametrize("name", ["missing/release", "missing/deeper/release"])
@pytest.mark.thorough(but=1)
def test_a_folder_that_is_not_there(name: str, scene: Scene) -> None:
    target = scene.parent / name
    with scene.start(out=target) as run:
        line = run.result().check_one_line(2)
    assert line == f"error: --out must be in a folder that exists, but {target.parent} is not one. Make it first."
    assert list(scene.parent.iterdir()) == []
    assert scene.charges() == ()
