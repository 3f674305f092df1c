"""Folders on HDFS, S3 or elsewhere through Hadoop's client: put, read, rename, remove."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from os import PathLike, fspath
from typing import Any, Final
from urllib.parse import urlsplit

from dimly.errors import DimlyError, ParameterError
from dimly.files import inside_release
from dimly.release.format import MANIFEST, PARTS_FOLDER

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # more than one letter: C:/ is a disk
_RENAMES: Final = {"file", "hdfs", "webhdfs", "swebhdfs"}
"""Where a folder is renamed in one step. Others may copy its files one by one, and are taken to."""

_AT_ONCE = 16  # files on the move
_PIECE = 1 << 24  # bytes on their way to Java


def is_address(place: "str | PathLike[str]") -> bool:
    """Return whether a place is named by an address of some other file system than this machine's."""
    text = fspath(place)
    return _ADDRESS.match(text) is not None and not text.startswith("file:")


FileStates = dict[str, tuple[int, int] | None]
"""Length and time of change of files, by address; None where nothing is known of one."""


def file_states(session: Any, addresses: Iterable[str]) -> FileStates:
    """Return what tells a file from its next version, for files in any file system that Spark can read."""
    settings, jvm = session._jsparkSession.sessionState().newHadoopConf(), session.sparkContext._jvm

    def state(address: str) -> tuple[int, int] | None:
        try:
            path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(address))
            found = path.getFileSystem(settings).getFileStatus(path)
            return found.getLen(), found.getModificationTime()
        except Exception:  # noqa: BLE001 - whatever Java says: it is not there, or tells nothing
            return None

    given = sorted(set(addresses))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(given, pool.map(state, given), strict=True))


class HadoopFolder:
    """A folder to be, by its address; all that the driver does with files there.

    Parameters
    ----------
    session : SparkSession
        Whose settings and credentials are used.
    address : str
        Such as ``hdfs://host/folder/name``.

    Attributes
    ----------
    address : str
    parent : str
    renames : bool
        Whether a folder can be renamed in one step here.

    Raises
    ------
    ParameterError
        If the address cannot be one of a new folder, or Spark knows no such file system.
    """

    def __init__(self, session: Any, address: str) -> None:
        parts = urlsplit(address)
        if parts.password is not None:
            raise ParameterError("out must not hold a password. Give credentials to Spark's own settings.")
        if re.search(r"[*?\[\]{}\\#%\s]", address):
            raise ParameterError(f"out must hold no spaces and none of *?[]{{}}\\#%, got {address!r}.")
        root = f"{parts.scheme}://{parts.netloc}" if "://" in address else f"{parts.scheme}:"
        folder, _, name = parts.path.rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            raise ParameterError(f"out must name a new folder, got {address!r}.")
        self.address, self.parent = f"{root}{folder}/{name}", f"{root}{folder or '/'}"
        self._context = session.sparkContext
        self._hadoop = self._context._jvm.org.apache.hadoop.fs
        self._settings = session._jsparkSession.sessionState().newHadoopConf()
        try:
            self._files = self._path(self.parent).getFileSystem(self._settings)
            self.renames = self._real_scheme() in _RENAMES
        except Exception as error:  # noqa: BLE001 - whatever Java says
            raise ParameterError(
                f"out must be of a file system that Spark can write to, but {address} is not: {_reason(error)}."
            ) from None

    def beside(self, name: str) -> str:
        """Return the address of something else in the same parent."""
        return f"{self.parent.rstrip('/')}/{name}"

    def check(self) -> None:
        """Refuse a folder that is there already, has no parent, or is inside another release.

        Raises
        ------
        ParameterError
            If it cannot be made.
        """
        with self.errors():
            if self._files.exists(self._path(self.address)):
                raise ParameterError(f"out must be a new folder, but {self.address} exists. Choose another.")
            # Where names of folders are but beginnings of names of files, there need be none.
            if self.renames and not self._files.exists(self._path(self.parent)):
                raise ParameterError(
                    f"out must be in a folder that exists, but {self.parent} is not one. Make it first."
                )
        self._check_outside()

    def _check_outside(self) -> None:
        """Refuse a folder inside another release."""
        above = self._path(self.parent)
        while above is not None:
            with contextlib.suppress(Exception):  # what may not be looked at is not known to be one
                if all(self._files.exists(self._hadoop.Path(above, name)) for name in (MANIFEST, PARTS_FOLDER)):
                    break
            above = above.getParent()
        if above is not None:
            raise inside_release(above)

    def make_private(self, path: str) -> None:
        """Make a folder that its owner alone can read, where files have owners."""
        with self.errors():
            self._done(self._files.mkdirs(self._path(path), self._hadoop.permission.FsPermission("700")))

    def make(self, path: str) -> None:
        """Make a folder, and those it is in."""
        with self.errors():
            self._done(self._files.mkdirs(self._path(path)))

    def put(self, path: str, content: bytes) -> None:
        """Write a new file; one that cannot be written to its end is not left."""
        with self.errors():
            stream = self._files.create(self._path(path), False)
            try:
                for start in range(0, len(content), _PIECE):
                    stream.write(content[start : start + _PIECE])
                stream.close()
            except Exception:
                with contextlib.suppress(Exception):
                    self._files.delete(self._path(path), False)
                raise

    def read(self, path: str) -> bytes | None:
        """Return what a small file holds; None: there is none."""
        with self.errors():
            if not self._files.exists(self._path(path)):
                return None
            stream = self._files.open(self._path(path))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def sizes(self, path: str) -> dict[str, int]:
        """Return the bytes of each file in a folder, by name."""
        with self.errors():
            return {found.getPath().getName(): found.getLen() for found in self._files.listStatus(self._path(path))}

    def move_all(self, moves: Iterable[tuple[str, str]], begun: list[str]) -> None:
        """Rename files to new names, many at once; those that may be there already are added to ``begun``."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            try:
                for _ in pool.map(lambda move: self._move(move[0], move[1], begun), moves):
                    pass
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def rename_folder(self, source: str, target: str) -> None:
        """Rename a folder in one step to a name that nobody has.

        Raises
        ------
        ParameterError
            If something is there meanwhile.
        DimlyError
            If it fails.
        """
        try:
            paths = self._path(source), self._path(target)
            options = self._context._gateway.new_array(self._hadoop.Options.Rename, 0)
            files = self._hadoop.FileContext.getFileContext(paths[0].toUri(), self._settings)
            files.rename(*paths, options)  # which never replaces anything, nor moves into a folder that is there
        except Exception as error:  # noqa: BLE001 - whatever Java says
            failed = _reason(error)
        else:
            return
        if "AlreadyExists" in failed:
            raise ParameterError(f"out must be a new folder, but {target} has appeared meanwhile. Choose another.")
        raise self._failure(failed)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it, if it is there."""
        with self.errors():
            self._files.delete(self._path(path), True)
            if self._files.exists(self._path(path)):
                self._done(False)

    def remove_empty(self, path: str) -> None:
        """Remove a folder if nothing is in it."""
        with contextlib.suppress(Exception):
            self._files.delete(self._path(path), False)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what Java says of files into one line of ours."""
        try:
            yield
        except DimlyError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever Java says
            failed = _reason(error)
        else:
            return
        raise self._failure(failed)

    def _move(self, source: str, target: str, begun: list[str]) -> None:
        with self.errors():
            if self._files.exists(self._path(target)):
                raise DimlyError(f"{self.address} cannot be written: somebody else writes there.")
            begun.append(target)
            self._done(self._files.rename(self._path(source), self._path(target)))

    def _done(self, answer: bool) -> None:
        if not answer:
            raise self._failure("the file system refused")

    def _failure(self, reason: str) -> DimlyError:
        return DimlyError(f"{self.address} cannot be written: {reason}.")

    def _real_scheme(self) -> str:
        """Return the scheme of the file system behind a mount table, or of this one."""
        path = self._path(self.parent)
        while not self._files.exists(path) and path.getParent() is not None:
            path = path.getParent()
        path = self._files.resolvePath(path)
        return str(path.toUri().getScheme() or self._files.getUri().getScheme())

    def _path(self, path: str) -> Any:
        return self._hadoop.Path(path)


def _reason(error: Exception) -> str:
    """Return what kind of failure Java says it was; its texts may be long."""
    failed = getattr(error, "java_exception", None)
    return str(failed.getClass().getSimpleName()) if failed is not None else type(error).__name__
