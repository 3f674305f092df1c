"""Files and folders that appear whole or not at all: locked folders, drafts, renames, what dead runs left."""

import atexit
import contextlib
import ctypes
import errno
import fcntl
import glob
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from dimly.errors import ParameterError, check_path

_RANDOM_DIGITS = 16
_PATIENCE = 60.0  # seconds
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


@contextlib.contextmanager
def names_held(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, so that of all who take it only one at a time looks at a name in it and changes it.

    Waits for others, but no more than a minute: it is held for moments by us, and whoever can read the folder can hold
    it for ever. On file systems that cannot lock, and of a folder that cannot be read, it does nothing. So it keeps
    peace among those who take it, and nothing may rest on it alone.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    break
                time.sleep(0.01)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                break
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child that was forked meanwhile has the descriptor, too
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


_LONGEST_TEXT = 1 << 20
MANIFEST_NAME: Final = "manifest.json"
PARTS_NAME: Final = "sketches"
"""A folder that holds both is a release. Whoever writes files has to keep out of it, and knows no more of it."""


def check_outside_releases(folder: Path, name: str) -> None:
    """Refuse a place inside of a release: what is put there goes out with it."""
    resolved = folder.resolve()
    for one in (resolved, *resolved.parents):
        if (one / MANIFEST_NAME).is_file() and (one / PARTS_NAME).is_dir():
            raise inside_release(one, name)


def inside_release(folder: object, name: str = "out") -> ParameterError:
    """Return what to say where something would be made inside a release, in a folder or at an address."""
    return ParameterError(
        f"{name} must not be inside another release, but {folder} is one: its files would no longer be those of its "
        "manifest. Choose a place beside it."
    )


_DRAFTS = ".dimly-draft-"


def check_output(path: Path, *, overwrite: bool, inputs: Iterable[object] = ()) -> None:
    """Refuse a file that cannot be written, or must not be: before hours of work, not after them.

    Parameters
    ----------
    path : Path
    overwrite : bool
        Whether an existing file is replaced; never a database, which may be a ledger.
    inputs : iterable
        What is read: paths, patterns, folders and lists of them, which are never replaced. All else is passed over.

    Raises
    ------
    ParameterError
        If the file exists, its folder does not or belongs to a release, or it is one of the inputs.
    """
    check_path("output", path)
    if not path.parent.is_dir():
        raise ParameterError(f"output must be in a folder that exists, got {str(path)!r}. Make the folder first.")
    check_outside_releases(path.parent, "output")
    if path.is_dir():
        raise ParameterError(f"output must be a file, got {str(path)!r}, which is a folder. Name a file in it.")
    if not path.exists():
        return
    if not overwrite:
        raise _taken(path)
    if _is_database(path):
        raise _is_kept(path)
    if any(_is_input(path, one) for one in inputs):
        raise ParameterError(f"output must be another file than those that are read, got {str(path)!r}. Name another.")


def _is_database(path: Path) -> bool:
    """Return whether a file begins as SQLite's or DuckDB's do; what cannot be read counts as none."""
    try:
        with path.open("rb") as file:
            start = file.read(16) if path.is_file() else b""
    except OSError:
        return False
    return start == b"SQLite format 3\0" or start[8:12] == b"DUCK"


def _is_input(path: Path, given: object) -> bool:
    """Return whether an existing file is an input, one of several, or in a folder that is one."""
    if isinstance(given, list | tuple):
        return any(_is_input(path, one) for one in given)
    if not isinstance(given, str | os.PathLike):
        return False
    found = [given] if os.path.exists(given) else glob.glob(os.fspath(given), recursive=True)
    kept = [os.stat(one) for one in found if os.path.exists(one)]
    resolved = path.resolve()
    return any(os.path.samestat(os.stat(one), other) for one in (resolved, *resolved.parents) for other in kept)


def write_text(path: Path, text: str, *, overwrite: bool) -> None:
    """Write a file in one step; see :func:`write_bytes`."""
    write_bytes(path, text.encode(), overwrite=overwrite)


def write_bytes(path: Path, content: bytes | memoryview, *, overwrite: bool) -> None:
    """Write a file in one step; an existing one is refused unless ``overwrite``.

    Raises
    ------
    ParameterError
        If the file exists, or its folder does not.
    """
    with drafted(path, overwrite=overwrite) as draft:
        draft.write_bytes(content)


@contextlib.contextmanager
def drafted(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield where to write a file, of the same ending; it gets its name when all is well, and else nothing stays.

    A run that is killed leaves a draft that nobody else can read, and the next one in the same folder removes it.

    Raises
    ------
    ParameterError
        If the file exists, or its folder does not.
    """
    check_output(path, overwrite=overwrite)
    with _put_in_place(path, overwrite=overwrite, taken=_taken) as draft:
        yield draft


@contextlib.contextmanager
def _put_in_place(path: Path, *, overwrite: bool, taken: Callable[[Path], ParameterError]) -> Iterator[Path]:
    """Yield a draft, and give it its name once it is written; remove it if it is not."""
    sweep(path.parent, _DRAFTS)
    with locked_folder(path.parent, _DRAFTS) as folder:
        draft = folder.path / f"draft{path.suffix}"
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        if overwrite:
            draft.replace(path)
            return
        try:
            path.hardlink_to(draft)  # unlike a rename it fails if another process was first
        except FileExistsError:
            raise taken(path) from None
        except OSError:  # no hard links on this file system
            draft.replace(path)


def _taken(path: Path) -> ParameterError:
    return ParameterError(
        f"output must be a new file, got {str(path)!r}, which exists. Add overwrite=True (--overwrite) to replace it."
    )


def read_text(name: str, path: Path, *, hint: str) -> str:
    """Return a file's text.

    Raises
    ------
    ParameterError
        If it cannot be read; ``hint`` says what to do.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST_TEXT + 1)  # a device may have no end
        if len(content) <= _LONGEST_TEXT:
            return content.decode()
        reason = f"it is longer than {_LONGEST_TEXT} bytes"
    except OSError as error:
        reason = os.strerror(error.errno or 0)
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    raise ParameterError(f"{name} must be a readable file, got {str(path)!r}: {reason}. {hint}")


@contextlib.contextmanager
def new_file(path: str | Path, *, overwrite: bool) -> Iterator[Path]:
    """Give the path of a draft to write; it takes its name once it is done, and is removed if that fails.

    Raises
    ------
    ParameterError
        If the file exists and is not to be replaced, or its folder does not, or belongs to a release; before anything
        is written.
    """
    check_path("path", path)
    path = Path(path)
    if not path.parent.is_dir():
        raise ParameterError(f"path must be in a folder that exists, got {str(path)!r}. Make the folder first.")
    check_outside_releases(path.parent, "path")
    if path.is_dir():
        raise ParameterError(f"path must be a file, got {str(path)!r}, which is a folder. Name a file in it.")
    if not overwrite and path.exists():
        raise _name_taken(path)
    if overwrite and _is_database(path):
        raise _is_kept(path)
    with _put_in_place(path, overwrite=overwrite, taken=_name_taken) as draft:
        yield draft


def _is_kept(path: Path) -> ParameterError:
    return ParameterError(
        f"output must not replace a database, which may be a ledger, got {str(path)!r}. Name another file, or remove "
        "this one first."
    )


def _name_taken(path: Path) -> ParameterError:
    return ParameterError(f"path must be of a new file, got {str(path)!r}, which exists. Use overwrite to replace it.")


NO_REPLACE, EXCHANGE = 1, 2  # of <linux/fs.h>
_AT_FDCWD = -100
_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


def renameat2(source: Path, target: Path, flags: int) -> bool:
    """Rename as Linux can, by ``NO_REPLACE`` or ``EXCHANGE``; return False where it cannot, or the file system."""
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


def sync_folder(path: Path) -> None:
    """Have a folder's list of names on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
