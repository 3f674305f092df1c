import fcntl
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.processes import in_a_fork, in_forks

from dimly import files as dead_runs
from dimly.curator.ledger.ledger import Ledger
from dimly.curator.options import Resources
from dimly.errors import ParameterError
from dimly.files import LockedFolder, check_output, locked_folder, sweep
from dimly.release.documents.directions_file import read_directions
from dimly.release.reader import open_folder
from dimly.release.verify import verify

PREFIX = "dimly-test-"


def left(parent: Path) -> list[str]:
    return sorted(path.name for path in parent.iterdir())


def make_dead(parent: Path) -> Path:
    """Return the folder of a process that is gone, with something in it."""

    def work() -> bytes:
        folder = locked_folder(parent, PREFIX)
        (folder.path / "inside").mkdir()
        (folder.path / "inside" / "file").write_text("left")
        return os.fsencode(folder.path)

    return Path(os.fsdecode(in_a_fork(work)))


def test_a_folder_is_private_and_goes_away(tmp_path: Path) -> None:
    with locked_folder(tmp_path, PREFIX) as folder:
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        assert folder.path.parent == tmp_path
        (folder.path / "file").write_text("x")
    assert left(tmp_path) == []
    folder.remove()  # again


def test_an_error_removes_it_too(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), locked_folder(tmp_path, PREFIX):
        raise KeyboardInterrupt
    assert left(tmp_path) == []


def test_the_first_error_is_the_one_that_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise OSError("cannot")

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(KeyError), locked_folder(tmp_path, PREFIX):
        raise KeyError
    with pytest.raises(OSError, match="cannot"), locked_folder(tmp_path, PREFIX):
        pass


def test_a_removal_that_was_interrupted_is_made_up_for_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(path: Path) -> None:
        raise KeyboardInterrupt

    def end_of_a_fork() -> bytes:
        dead_runs._remove_the_rest()
        return b""

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupt)
        with pytest.raises(KeyboardInterrupt), locked_folder(tmp_path, PREFIX):
            pass
    in_a_fork(end_of_a_fork)  # not the fork's to remove
    assert len(left(tmp_path)) == 1
    dead_runs._remove_the_rest()
    assert left(tmp_path) == []


def test_a_folder_is_known_before_it_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(path: Path) -> int | None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dead_runs, "_locked", interrupt)
    with pytest.raises(KeyboardInterrupt):
        locked_folder(tmp_path, PREFIX)
    dead_runs._remove_the_rest()
    assert left(tmp_path) == []


def test_the_end_of_a_process_removes_what_it_has_left(tmp_path: Path) -> None:
    text = "import pathlib, sys; from dimly.files import *; locked_folder(pathlib.Path(sys.argv[1]), 'x-')"
    subprocess.run([sys.executable, "-c", text, str(tmp_path)], check=True)  # noqa: S603
    assert left(tmp_path) == []


def test_the_working_directory_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with locked_folder(Path(), PREFIX) as folder:
        monkeypatch.chdir("/")
        assert folder.path.is_dir()
    assert left(tmp_path) == []


def test_a_missing_parent_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        locked_folder(tmp_path / "none", PREFIX)


def test_dead_runs_are_removed_and_living_ones_are_not(tmp_path: Path) -> None:
    def sweep_it() -> bytes:
        sweep(tmp_path, PREFIX)
        return b""

    dead = make_dead(tmp_path)
    with locked_folder(tmp_path, PREFIX) as alive:
        (alive.path / "file").write_text("x")
        sweep(tmp_path, PREFIX)
        assert not dead.exists()
        assert (alive.path / "file").exists()
        # Seen from another process too.
        in_a_fork(sweep_it)
        assert (alive.path / "file").exists()


def test_only_our_own_folders_are_removed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("x")
    (tmp_path / f"{PREFIX}{'0' * 16}").symlink_to(elsewhere)
    (tmp_path / f"{PREFIX}{'1' * 16}").write_text("a file")
    (tmp_path / f"{PREFIX}{'2' * 15}").mkdir()
    (tmp_path / f"{PREFIX}{'X' * 16}").mkdir()
    (tmp_path / f"other-{'3' * 16}").mkdir()
    before = left(tmp_path)
    sweep(tmp_path, PREFIX)
    assert left(tmp_path) == before
    assert (elsewhere / "file").exists()


def test_folders_of_other_people_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = make_dead(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    sweep(tmp_path, PREFIX)
    assert dead.exists()


def test_sweeping_a_missing_folder_does_nothing(tmp_path: Path) -> None:
    sweep(tmp_path / "none", PREFIX)


def test_a_folder_swept_before_it_was_locked_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open
    swept: list[Path] = []

    def sweep_first(path: Any, *arguments: Any, **options: Any) -> int:
        descriptor = real(path, *arguments, **options)
        if len(swept) < 2 and os.path.basename(path).startswith(PREFIX):
            swept.append(Path(path))
            os.rmdir(path)
        return descriptor

    monkeypatch.setattr(os, "open", sweep_first)
    with locked_folder(tmp_path, PREFIX) as folder:
        assert len(swept) == 2
        assert folder.path.is_dir()
        assert folder.path not in swept


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "locked by a sweep"])
def test_a_folder_that_cannot_be_locked_is_made_anew(
    gone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = dead_runs._locked
    tried: list[Path] = []
    holders: list[int | None] = []

    def late(path: Path, **options: Any) -> int | None:
        tried.append(path)
        if len(tried) == 1:
            if gone:
                path.rmdir()
            else:
                holders.append(real(path))
        return real(path, **options)

    monkeypatch.setattr(dead_runs, "_locked", late)
    with locked_folder(tmp_path, PREFIX) as folder:
        assert len(tried) == 2
        assert folder.path == tried[1]
    for holder in holders:
        assert holder is not None
        os.close(holder)


def test_where_folders_cannot_be_locked_nothing_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked_folder(tmp_path, PREFIX) as folder:
        sweep(tmp_path, PREFIX)
        assert folder.path.is_dir()
    assert left(tmp_path) == []


def test_another_failure_of_locking_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="Input/output"):
        locked_folder(tmp_path, PREFIX)
    assert left(tmp_path) == []


def test_a_renamed_folder_is_not_ours_to_remove(tmp_path: Path) -> None:
    folder = locked_folder(tmp_path, PREFIX)
    folder.path.rename(tmp_path / "kept")
    folder.path.mkdir()
    folder.remove()
    assert len(left(tmp_path)) == 2
    assert isinstance(folder, LockedFolder)


def test_two_processes_make_and_sweep_at_once(tmp_path: Path) -> None:
    def work() -> bytes:
        for _ in range(200):
            sweep(tmp_path, PREFIX)
            with locked_folder(tmp_path, PREFIX) as folder:
                (folder.path / "file").write_text("x")
                if (folder.path / "file").read_text() != "x":
                    return b"lost"
        return b"fine"

    assert in_forks([work, work]) == [b"fine", b"fine"]
    assert left(tmp_path) == []


@pytest.mark.parametrize("path", ["{" + 400 * "x" + "}", "a\0b"])
def test_text_in_place_of_a_file_is_refused_wherever_a_path_is_taken(path: str) -> None:
    takers: list[tuple[str, Callable[[str], object]]] = [
        ("release", open_folder),
        ("release", verify),
        ("ledger", Ledger),
        ("ledger", Ledger.create),
        ("directions", read_directions),
        ("output", lambda name: check_output(Path(name), overwrite=True)),
        ("temp", lambda name: Resources.of(temp=name)),
    ]
    for named, take in takers:
        with pytest.raises(ParameterError, match=f"^{named} must be a path") as caught:
            take(path)
        assert len(str(caught.value)) < 200
