"""Private folders that outlive no run: a living process holds a lock on its own, and the next start removes the rest.

A run that is killed cannot clean up. So every folder that must not stay carries a name that says so and an advisory
lock (``flock``) that the kernel drops when its process ends, however it ends. Whoever can take the lock of such a
folder knows that nobody works in it any more.

A signal may strike between any two steps, also in the middle of a removal. So whatever a process has made and not
removed is removed when it ends.
"""

import atexit
import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

_RANDOM_DIGITS = 16
# Network file systems that cannot lock a folder say one of these. Nobody can then take the lock of anybody's folder
# there, so that nothing is swept: dead runs stay until somebody removes them by hand.
_NO_LOCKS = {errno.EBADF, errno.EINVAL, errno.EISDIR, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}

_unremoved: dict[Path, int] = {}
"""Folders that were made here, and the process that made them: a fork inherits the list but not the folders."""


class LockedFolder:
    """A folder of mode 0700 that this process holds; a context manager that removes it. See :func:`locked_folder`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    def remove(self) -> None:
        """Remove the folder and all that it holds, then let go of it. A second call does nothing.

        Raises
        ------
        OSError
            If something in it cannot be removed; the end of the process tries again, and the next sweep.
        """
        if self._descriptor is None:
            return
        try:
            if _is_at(self.path, self._descriptor):
                shutil.rmtree(self.path)
            _unremoved.pop(self.path, None)
        finally:
            self._unlock()

    def let_go(self) -> None:
        """Give up the lock and leave the folder where it is: it was renamed and is no longer ours to remove."""
        _unremoved.pop(self.path, None)
        self._unlock()

    def _unlock(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.remove()
            return
        # What went wrong first is what the caller must hear of.
        with contextlib.suppress(OSError):
            self.remove()


def locked_folder(parent: Path, prefix: str) -> LockedFolder:
    """Make a folder ``prefix`` + 16 random hexadecimal digits in ``parent``, mode 0700, and lock it.

    Raises
    ------
    OSError
        If ``parent`` is missing, cannot be written to, or is full.
    """
    parent = Path(os.path.abspath(parent))  # the working directory may change
    while True:
        path = parent / f"{prefix}{secrets.token_hex(_RANDOM_DIGITS // 2)}"
        _unremoved[path] = os.getpid()
        try:
            path.mkdir(0o700)
        except OSError:
            del _unremoved[path]
            raise
        # A sweep may lock and remove the folder between mkdir and our lock. It removes only what it has locked, so
        # that a folder which we have locked and which is still there is ours; any other is given up for a new one.
        try:
            descriptor = _locked(path)
        except OSError:
            path.rmdir()
            raise
        if descriptor is None:
            continue
        if _is_at(path, descriptor):
            return LockedFolder(path, descriptor)
        os.close(descriptor)


def sweep(parent: Path, prefix: str) -> None:
    """Remove the folders of dead runs in ``parent``: named by ``prefix``, owned by us, and locked by nobody.

    What cannot be removed stays, without a word: it is not this run's fault.
    """
    named = re.compile(re.escape(prefix) + f"[0-9a-f]{{{_RANDOM_DIGITS}}}")
    try:
        candidates = [entry for entry in os.scandir(parent) if named.fullmatch(entry.name)]
    except OSError:
        return
    for entry in candidates:
        path = Path(entry.path)
        try:
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue  # in a folder that all may write to, somebody else's link or bait
            descriptor = _locked(path, needed=True)
        except OSError:
            continue
        if descriptor is None:
            continue
        try:
            if _is_at(path, descriptor):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)


@atexit.register
def _remove_the_rest() -> None:
    """Remove what this process made and could not remove when it should have."""
    for path, process in list(_unremoved.items()):
        if process == os.getpid():
            shutil.rmtree(path, ignore_errors=True)
            del _unremoved[path]


def _locked(path: Path, *, needed: bool = False) -> int | None:
    """Return a descriptor that holds the lock of a folder; None if it is gone or another holds it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS and not needed:
            return descriptor
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether the folder behind ``descriptor`` is still the one at ``path``."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
