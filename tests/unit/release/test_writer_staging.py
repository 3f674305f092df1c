import ctypes
import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.folders import release_folder
from tests.processes import in_a_fork

from dimly import files
from dimly.errors import DimlyError, ParameterError
from dimly.release import open_folder, writer
from dimly.release.writer import PREFIX, Staging, check_target, disk_errors


def fill(place: Staging, text: str = "new") -> None:
    (place.path / "folder").mkdir()
    (place.path / "folder" / "file").write_text(text)


def left(parent: Path) -> list[str]:
    return sorted(path.name for path in parent.iterdir())


def test_nothing_is_seen_until_it_is_published(tmp_path: Path) -> None:
    with Staging(tmp_path / "new") as place:
        fill(place)
        assert not (tmp_path / "new").exists()
        assert not place.is_published
        (hidden,) = tmp_path.iterdir()
        assert hidden.name.startswith(PREFIX)
        assert hidden in place.path.parents
        assert stat.S_IMODE(hidden.stat().st_mode) == 0o700
        place.publish()
        assert place.is_published
        assert left(tmp_path) == ["new"]
    assert (tmp_path / "new" / "folder" / "file").read_text() == "new"
    assert left(tmp_path) == ["new"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o755), (0o077, 0o700), (0o002, 0o755), (0o027, 0o750)])
def test_modes_follow_the_mask(mask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        with Staging(tmp_path / "new") as place:
            place.publish()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_nothing(error: type[BaseException], tmp_path: Path) -> None:
    def work() -> None:
        with Staging(tmp_path / "new") as place:
            fill(place)
            raise error

    with pytest.raises(error):
        work()
    assert left(tmp_path) == []


def test_leaving_without_publishing_leaves_nothing(tmp_path: Path) -> None:
    with Staging(tmp_path / "new") as place:
        fill(place)
    assert left(tmp_path) == []
    place.discard()


@pytest.mark.parametrize("target", ["", ".", "/", "..", "a/.."])
def test_a_target_needs_a_name(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match="out must name a new folder, such as release, got"):
        Staging(target)


def test_a_missing_parent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for parent in ("none", "none/deeper", "file"):
        with pytest.raises(
            ParameterError, match=r"out must be in a folder that exists, but .* is not one. Make it first"
        ):
            Staging(tmp_path / parent / "new")


def test_what_cannot_be_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"out must be a path, got .* characters, more than a name can have"):
        Staging(tmp_path / ("x" * 300))
    for path in (tmp_path / "a\0b", "a\0b/c"):
        with pytest.raises(ParameterError, match="out must be a path without NUL characters"):
            Staging(path)
    assert left(tmp_path) == []


def test_the_longest_name_works(tmp_path: Path) -> None:
    with Staging(tmp_path / ("x" * 255)) as place:
        place.publish()
    assert left(tmp_path) == ["x" * 255]


@pytest.mark.parametrize("overwrite", [False, True])
def test_whatever_is_no_release_is_never_replaced(overwrite: bool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "manifest.json").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    before = left(tmp_path)
    for name, reason in (
        ("file", "is a file. Choose another name"),
        ("empty", "exists and is not a release. Choose another name"),
        ("other", "exists and is not a release. Choose another name"),
        ("link", "out must not be a symbolic link, got .*link. Name the folder itself"),
        ("dangling", "out must not be a symbolic link"),
    ):
        with pytest.raises(ParameterError, match=reason):
            Staging(tmp_path / name, overwrite=overwrite)
        with pytest.raises(ParameterError, match=reason):
            check_target(tmp_path / name, overwrite=overwrite)
    assert left(tmp_path) == before


@pytest.mark.parametrize("inside", ["new", "sketches/new", "sketches/deep/new"])
def test_nothing_is_made_inside_another_release(inside: str, tmp_path: Path) -> None:
    outer = release_folder(tmp_path / "release")
    (outer / inside).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "link").symlink_to((outer / inside).parent)
    for target in (outer / inside, tmp_path / "link" / "new"):
        with pytest.raises(ParameterError, match="must not be inside another release"):
            check_target(target)
    assert check_target(tmp_path / "beside") == tmp_path / "beside"


def test_a_release_is_replaced_only_if_asked(tmp_path: Path) -> None:
    release_folder(tmp_path / "old")
    with pytest.raises(
        ParameterError, match=r"old is already a release. Choose another name, or replace it with overwrite=True"
    ):
        Staging(tmp_path / "old")
    assert open_folder(tmp_path / "old", verify=True)
    assert check_target(tmp_path / "old", overwrite=True) == tmp_path / "old"


KERNELS = ["kernel", "no kernel", "no file system"]


def without_kernel(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rename as on a system, or a file system, that has no flags for it."""
    if kernel == "no kernel":
        monkeypatch.setattr("sys.platform", "other")
    elif kernel == "no file system":

        def refuse(*_: Any) -> int:
            ctypes.set_errno(errno.EINVAL)
            return -1

        monkeypatch.setattr(files, "_linux_rename", lambda: refuse)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_new_one_takes_the_place_of_the_old_one(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_kernel(kernel, monkeypatch)
    release_folder(tmp_path / "out")
    with Staging(tmp_path / "out", overwrite=True) as place:
        fill(place)
        assert open_folder(tmp_path / "out", verify=True)
        place.publish()
    assert left(tmp_path / "out") == ["folder"]
    assert left(tmp_path) == ["out"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_something_that_appears_meanwhile_is_kept(kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_kernel(kernel, monkeypatch)

    def appear_as_folder() -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "theirs").write_text("x")

    for appear in (
        appear_as_folder,
        lambda: (tmp_path / "out").write_text("theirs"),
        lambda: (tmp_path / "out").symlink_to("anywhere"),
    ):
        for look in (writer._is_replaceable, lambda *_, **__: False):  # seen, or missed by a moment
            monkeypatch.setattr(writer, "_is_replaceable", look)
            with Staging(tmp_path / "out") as place:
                fill(place)
                appear()
                with pytest.raises(ParameterError, match="out must"):
                    place.publish()
            assert left(tmp_path) == ["out"]
            if (tmp_path / "out").is_dir() and not (tmp_path / "out").is_symlink():
                (tmp_path / "out" / "theirs").unlink()
                (tmp_path / "out").rmdir()
            else:
                (tmp_path / "out").unlink()
        monkeypatch.undo()
        without_kernel(kernel, monkeypatch)


def test_what_a_rename_does_not_overwrite_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the rename, where the kernel does not help."""
    without_kernel("no kernel", monkeypatch)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "theirs").write_text("x")
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    (tmp_path / "new").mkdir()
    with pytest.raises(ParameterError, match="has appeared meanwhile"):
        writer._rename_new(tmp_path / "new", tmp_path / "out")
    assert (tmp_path / "out" / "theirs").exists()


def test_without_the_kernel_the_old_one_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_kernel("no kernel", monkeypatch)
    release_folder(tmp_path / "out")
    real = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if self.name == "release":
            raise OSError(errno.EIO, "Input/output error")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with (
        pytest.raises(DimlyError, match=r"Input/output error. Nothing was published"),
        Staging(tmp_path / "out", overwrite=True) as place,
    ):
        place.publish()
    assert open_folder(tmp_path / "out", verify=True)
    assert left(tmp_path) == ["out"]


def test_a_crash_after_the_exchange_leaves_the_new_one(tmp_path: Path) -> None:
    release_folder(tmp_path / "out")

    def work() -> bytes:
        place = Staging(tmp_path / "out", overwrite=True)
        fill(place)
        place._locked.remove = lambda: os._exit(0)  # type: ignore[method-assign]
        place.publish()
        return b""

    in_a_fork(work)
    assert left(tmp_path / "out") == ["folder"]
    (hidden,) = (path for path in tmp_path.iterdir() if path.name.startswith(PREFIX))
    assert open_folder(hidden / "release", verify=True)  # the old one
    with Staging(tmp_path / "next"):
        pass
    assert left(tmp_path) == ["out"]


def test_dead_stagings_of_any_target_are_removed(tmp_path: Path) -> None:
    def work() -> bytes:
        fill(Staging(tmp_path / "killed"))
        return b""

    in_a_fork(work)
    assert len(left(tmp_path)) == 1
    with Staging(tmp_path / "one") as alive:
        with Staging(tmp_path / "two") as other:
            assert len(left(tmp_path)) == 2
            other.publish()
        alive.publish()
    assert left(tmp_path) == ["one", "two"]


def test_a_relative_target_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "inside")
    monkeypatch.chdir(tmp_path)
    with Staging("link/../new") as place:  # the kernel's "..": that of the folder behind the link
        assert place.target == tmp_path / "new"
        monkeypatch.chdir("/")
        place.publish()
    assert (tmp_path / "new").is_dir()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_in_one_line(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(number, "No space left on device")

    monkeypatch.setattr(writer, "sync_folder", refuse)
    with (
        Staging(tmp_path / "new") as place,
        pytest.raises(DimlyError, match=r"the disk of .* is full. Free some space") as failure,
    ):
        place.publish()
    assert "\n" not in str(failure.value)
    assert left(tmp_path) == []
    monkeypatch.setattr(writer, "locked_folder", refuse)
    with pytest.raises(DimlyError, match="is full"):
        Staging(tmp_path / "new")


def test_a_staging_that_cannot_be_begun_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    real = Path.mkdir
    monkeypatch.setattr(Path, "mkdir", lambda path, mode: refuse() if path.name == "release" else real(path, mode))
    with pytest.raises(DimlyError, match="is full"):
        Staging(tmp_path / "new")
    assert left(tmp_path) == []


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(writer, "locked_folder", refuse)
    with pytest.raises(ParameterError, match=r"out must be in a folder that can be written to, but .* cannot"):
        Staging(tmp_path / "new")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ParameterError, match=r"out must be in a folder that can be written to, but .* cannot"):
        check_target(tmp_path / "new")


def test_other_failures_of_a_disk_are_told_in_one_line(tmp_path: Path) -> None:
    told = pytest.raises(DimlyError, match=r"new cannot be written: Input/output error. Nothing was published")
    with told, disk_errors(tmp_path / "new"):
        raise OSError(errno.EIO, "Input/output error")


def test_a_rename_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        ctypes.set_errno(errno.EACCES)
        return -1

    monkeypatch.setattr(files, "_linux_rename", lambda: refuse)
    with (
        Staging(tmp_path / "new") as place,
        pytest.raises(DimlyError, match=r"Permission denied. Nothing was published"),
    ):
        place.publish()
    assert left(tmp_path) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_lock_that_somebody_holds_for_ever_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    if overwrite:
        release_folder(tmp_path / "new")
    monkeypatch.setattr(files, "_PATIENCE", 0.05)
    other = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with Staging(tmp_path / "new", overwrite=overwrite) as place:
        fill(place)
        place.publish()
    os.close(other)
    assert left(tmp_path) == ["new"]
    assert (tmp_path / "new" / "folder" / "file").read_text() == "new"


def test_a_disk_that_does_not_confirm_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.sync_folder

    def sync(path: Path) -> None:
        if path == tmp_path:
            raise OSError(errno.EIO, "Input/output error")
        real(path)

    monkeypatch.setattr(writer, "sync_folder", sync)
    with (
        Staging(tmp_path / "new") as place,
        pytest.raises(DimlyError, match="new was published, but the disk does not confirm it"),
    ):
        place.publish()
    assert place.is_published
    assert left(tmp_path) == ["new"]


def test_an_old_release_that_cannot_be_removed_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release_folder(tmp_path / "out")

    def refuse(*_: Any) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    with Staging(tmp_path / "out", overwrite=True) as place:
        fill(place)
        monkeypatch.setattr("shutil.rmtree", refuse)
        place.publish()
        monkeypatch.undo()
    assert left(tmp_path / "out") == ["folder"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_signal_right_after_the_rename_changes_nothing(
    overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if overwrite:
        release_folder(tmp_path / "out")
    real = files.renameat2

    def interrupted(*arguments: Any) -> bool:
        real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(writer, "renameat2", interrupted)
    with Staging(tmp_path / "out", overwrite=overwrite) as place:
        fill(place)
        with pytest.raises(KeyboardInterrupt):
            place.publish()
        assert place.is_published
    assert place.is_published
    assert left(tmp_path / "out") == ["folder"]
    assert left(tmp_path) == ["out"]


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_a_signal_without_the_kernel_loses_no_release(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_kernel("no kernel", monkeypatch)
    release_folder(tmp_path / "out")
    real = Path.rename
    calls: list[Path] = []

    def interrupted(self: Path, target: Path) -> Path:
        calls.append(self)
        real(self, target)
        if len(calls) == moment:
            raise KeyboardInterrupt
        return target

    monkeypatch.setattr(Path, "rename", interrupted)
    with Staging(tmp_path / "out", overwrite=True) as place:
        fill(place)
        with pytest.raises(KeyboardInterrupt):
            place.publish()
        assert place.is_published == (moment > 1)
    if moment == 1:
        assert open_folder(tmp_path / "out", verify=True).private
    else:
        assert left(tmp_path / "out") == ["folder"]
