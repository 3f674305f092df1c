"""A release appears at once or not at all: it is made in a hidden place beside its target, and renamed.

The hidden place is a folder of mode 0700 that a living process locks (see :mod:`dimly.files`); in it the
release grows with the modes it will have. After a crash it stays, readable by its owner only, until the next run that
publishes into the same parent folder removes it.
"""

import contextlib
import ctypes
import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from dimly.errors import DimlyError, ParameterError, ReleaseError, check_path
from dimly.files import check_outside_releases, locked_folder, names_held, sweep
from dimly.release.manifest import read_manifest

PREFIX: Final = ".dimly-staging-"

_NO_REPLACE, _EXCHANGE = 1, 2  # of <linux/fs.h>
_AT_FDCWD = -100
_FULL = {errno.ENOSPC, errno.EDQUOT}
_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


class Staging:
    """A place beside the target for a release to grow in; a context manager that leaves what was published only.

    Parameters
    ----------
    target : str or Path
        Where the release will be. Its parent folder must exist and be writable.
    overwrite : bool
        Whether a release that is there may be replaced. Anything else that is there never is.
    replaces : str, optional
        Id of the only release that may be replaced, because the new one was made from it.

    Attributes
    ----------
    target : Path
        Absolute: the working directory may change.
    path : Path
        Where to write.

    Raises
    ------
    ParameterError
        If the target cannot be made; before anything is written.
    """

    def __init__(self, target: str | Path, *, overwrite: bool = False, replaces: str | None = None) -> None:
        self.target = check_target(target, overwrite=overwrite)  # refused now rather than after hours of work
        self._overwrite = overwrite
        self._replaces = replaces
        self._renamed = False
        sweep(self.target.parent, PREFIX)
        try:
            self._folder = locked_folder(self.target.parent, PREFIX)
        except OSError as error:
            if error.errno in _FULL:
                raise full_disk(self.target) from None
            raise _not_writable(self.target) from None
        self.path = self._folder.path / "release"
        with self.tidy_on_error(), disk_errors(self.target):
            self.path.mkdir(0o755)
            self._identity = self.path.stat()

    @property
    def is_published(self) -> bool:
        """Whether the release came to its target: asked of the disk, too, because a signal may follow the rename."""
        try:
            return self._renamed or os.path.samestat(self.target.lstat(), self._identity)
        except OSError:
            return False

    def check_free(self) -> bool:
        """Return whether there is a release to replace; refuse whatever else is at the target by now.

        Raises
        ------
        ParameterError
            If something is in the way.
        ReleaseError
            If the release that is to be replaced has changed.
        """
        found = _is_replaceable(self.target, overwrite=self._overwrite)
        if self._replaces is not None and (not found or _release_at(self.target) != self._replaces):
            raise _changed(self.target)
        return found

    def publish(self) -> None:
        """Make the release visible, all at once. Files must be on the disk already; folders are put there now.

        A release that it replaces is removed only after the new one can be seen; if it cannot be removed, the next
        run does it.

        Raises
        ------
        ParameterError
            If something has appeared at the target meanwhile.
        ReleaseError
            If the release that is to be replaced has changed.
        DimlyError
            If the disk fails; the text says whether the release can be seen.
        """
        with disk_errors(self.target):
            for folder in (*(path for path in self.path.iterdir() if path.is_dir()), self.path, self._folder.path):
                sync_folder(folder)
            with names_held(self.target.parent):
                if self.check_free():
                    self._exchange()
                else:
                    _rename_new(self.path, self.target)
                self._renamed = True
        try:
            sync_folder(self.target.parent)
        except OSError as error:
            text = f"{self.target} was published, but the disk does not confirm it: {error.strerror}. Verify it."
            raise DimlyError(text) from None
        with contextlib.suppress(OSError):
            self._folder.remove()

    def _exchange(self) -> None:
        """Put the release in the place of another; of a program that takes no lock, put back what it put there."""
        _exchange(self.path, self.target)
        if self._replaces is None or _release_at(self.path) == self._replaces:
            return
        if os.path.samestat(self.target.lstat(), self._identity):
            _exchange(self.path, self.target)
        else:  # another one again: what came out must not be removed with the staging
            self.path.rename(_aside(self.target))
        raise _changed(self.target)

    def remove(self) -> None:
        """Remove all that was not published. A second call does nothing.

        Raises
        ------
        OSError
            If something cannot be removed; the next run tries again.
        """
        self._folder.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.__exit__(kind, error, trace)

    @contextlib.contextmanager
    def tidy_on_error(self) -> Iterator[None]:
        """Remove the staging if the block fails."""
        try:
            yield
        except BaseException as error:
            self._folder.__exit__(type(error), error, error.__traceback__)
            raise


def check_target(target: str | Path, *, overwrite: bool = False) -> Path:
    """Return the absolute path of a release to be, if it can be made there.

    Raises
    ------
    ParameterError
        If its parent folder is missing, cannot be written to or belongs to another release, or if anything is there
        that may not be replaced.
    """
    given = Path(target)
    check_path("out", given)
    if given.name in ("", ".."):
        raise ParameterError(f"out must name a new folder, got {os.fspath(target)!r}.")
    try:
        # Links on the way are followed as the kernel does; the name itself is not.
        parent = given.parent.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        parent = None
    if parent is None or not parent.is_dir():
        raise ParameterError(f"out must be in a folder that exists, but {given.parent} is not one. Make it first.")
    check_outside_releases(parent, "out")
    absolute = parent / given.name
    _is_replaceable(absolute, overwrite=overwrite)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise _not_writable(absolute)
    return absolute


def _is_replaceable(target: Path, *, overwrite: bool) -> bool:
    """Return whether there is a release to replace; refuse whatever else is in the way."""
    try:
        found = target.lstat()
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not a path"
        raise ParameterError(f"out must be a path that can be made, got {target}: {reason}.") from None
    if stat.S_ISLNK(found.st_mode):
        raise ParameterError(f"out must not be a symbolic link, got {target}. Name the folder itself.")
    if not stat.S_ISDIR(found.st_mode):
        raise ParameterError(f"out must be a new folder, but {target} is a file. Choose another name.")
    try:
        read_manifest(target)
    except ReleaseError:
        raise ParameterError(
            f"out must be a new folder, but {target} exists and is not a release. Choose another name."
        ) from None
    if not overwrite:
        raise ParameterError(
            f"out must be a new folder, but {target} is already a release. Choose another name, or overwrite it"
            " (--overwrite)."
        )
    return True


def sync_folder(path: Path) -> None:
    """Have a folder's list of names on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def disk_errors(target: Path) -> Iterator[None]:
    """Turn what the operating system says of a disk into one line of ours."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise full_disk(target) from None
        raise DimlyError(f"{target} cannot be written: {error.strerror}. Nothing was published.") from None


def full_disk(target: Path) -> DimlyError:
    """Return what to say of a full disk."""
    return DimlyError(f"the disk of {target.parent} is full. Free some space; nothing was published.")


def _not_writable(target: Path) -> ParameterError:
    return ParameterError(f"out must be in a folder that can be written to, but {target.parent} cannot.")


def _rename_new(source: Path, target: Path) -> None:
    """Rename a folder to a name that nobody has."""
    try:
        if _renameat2(source, target, _NO_REPLACE):
            return
        # Without the kernel's help: what could be lost between the look and the rename is an empty folder at most,
        # because a folder is never renamed over anything else.
        if not os.path.lexists(target):
            source.rename(target)
            return
    except (FileExistsError, NotADirectoryError):
        pass
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
    raise ParameterError(f"out must be a new folder, but {target} has appeared meanwhile. Choose another name.")


def _exchange(source: Path, target: Path) -> None:
    """Put a folder in the place of another one, which then is where the first was."""
    if _renameat2(source, target, _EXCHANGE):
        return
    # Without the kernel's help there is a moment without any release at the target. A crash in it leaves the old one
    # under a name that no sweep removes.
    aside = _aside(target)
    try:
        target.rename(aside)
        source.rename(target)
    except BaseException:
        if os.path.lexists(aside) and not os.path.lexists(target):
            aside.rename(target)
        raise
    aside.rename(source)


def _aside(target: Path) -> Path:
    return target.with_name(f"{target.name[:200]}.replaced-{secrets.token_hex(8)}")


def _release_at(folder: Path) -> str | None:
    """Return the id of the release in a folder; None if it holds none."""
    try:
        return read_manifest(folder).release
    except ReleaseError:
        return None


def _changed(target: Path) -> ReleaseError:
    return ReleaseError(f"{target} must not change while people are added, but it did. Try again.")


def _renameat2(source: Path, target: Path, flags: int) -> bool:
    """Rename as Linux can; return False where it cannot, or the file system."""
    call = _linux_rename()
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), os.fspath(target))


def _linux_rename() -> Any:
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
