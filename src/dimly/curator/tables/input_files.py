"""Which files a path, glob or folder stands for, their format and compression; whether they changed (``Stamp``)."""

import errno
import glob
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

import pyarrow as pa

from dimly.errors import DataError, ParameterError, check_path

Format = Literal["Parquet", "CSV", "JSON lines", "DuckDB", "SQLite"]
FilePath = str | os.PathLike[str]

_FORMATS: Final[dict[str, Format]] = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".csv": "CSV",
    ".tsv": "CSV",
    ".txt": "CSV",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".json": "JSON lines",
    ".duckdb": "DuckDB",
    ".ddb": "DuckDB",
    ".sqlite": "SQLite",
    ".sqlite3": "SQLite",
    ".db": "SQLite",  # or DuckDB: its first bytes tell
}
_REMEDIES: Final = {
    (
        ".xlsx",
        ".xlsm",
        ".xls",
        ".ods",
    ): " Save the sheet as CSV in UTF-8, or publish it as a table of pandas.",
    (".zip", ".7z", ".rar", ".tar"): " Unpack it first.",
    (".feather", ".arrow", ".orc", ".avro", ".xml", ".sav", ".dta", ".pkl", ".rds"): " Write it as Parquet or CSV.",
}
"""What to do about files that people have, and that are not read."""
_COMPRESSED: Final = {".gz": "gzip", ".zst": "zstd"}
_CHUNK: Final = 1 << 20
_DUCKDB_MARK: Final = slice(8, 12)  # after a checksum, "DUCK"


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file as it was when it was opened."""

    name: str
    path: Path
    state: "FileState"

    @classmethod
    def of(cls, file: FilePath) -> "Stamp":
        """Note a file's size and time of change; its name is as the curator wrote it."""
        check_path("source", file)
        path = Path(os.path.abspath(file))  # the working directory may change
        try:
            return cls(os.fspath(file), path, _state(path))
        except OSError:
            pass
        raise DataError(f"{os.fspath(file)} must be a regular file that can be read: no pipe, device or folder.")

    def check_unchanged(self) -> None:
        """Refuse a file that is no longer what it was: different passes would have read different people."""
        try:
            same = _state(self.path) == self.state
        except OSError:
            same = False
        if not same:
            raise changed(self.name, " (its links and permissions count too)")


def changed(name: str, counts: str = "") -> DataError:
    """Return what to say of a file that is no longer what it was."""
    return DataError(f"{name} must not change while it is read, but it did{counts}. Publish again, from a copy.")


def format_of(file: FilePath) -> Format:
    """Return the format of a file by its suffix, also before ``.gz`` and ``.zst``; for ``.db`` by its first bytes."""
    suffix = suffix_of(file)
    if suffix not in _FORMATS:
        remedy = next((text for endings, text in _REMEDIES.items() if suffix in endings), "")
        raise ParameterError(
            f"{os.fspath(file)} must end in {', '.join(_FORMATS)} (CSV and JSON also .gz or .zst), "
            f"got {suffix or 'nothing'}.{remedy}"
        )
    form = _FORMATS[suffix]
    if suffix == ".db" and _first_bytes(file)[_DUCKDB_MARK] == b"DUCK":
        return "DuckDB"
    if compression_of(file) is not None and form not in {"CSV", "JSON lines"}:
        raise ParameterError(f"{os.fspath(file)} must not be compressed as a whole. Unpack it first.")
    return form


def compression_of(file: FilePath) -> str | None:
    """Return how a file is compressed, by its suffix."""
    return _COMPRESSED.get(Path(file).suffix.lower())


def open_bytes(stamp: Stamp) -> pa.NativeFile:
    """Open a file for reading, unpacked. Reading fails where a packed file is damaged or cut short."""
    return pa.input_stream(stamp.path, compression=compression_of(stamp.path))


def unpacked(stamp: Stamp) -> Iterator[bytes]:
    """Yield a file's content.

    Raises
    ------
    DataError
        If it cannot be read to its end, a checksum is wrong, or it changed since its stamp was made.
    """
    try:
        with open_bytes(stamp) as opened:
            while chunk := opened.read(_CHUNK):
                yield chunk
        stamp.check_unchanged()
        return
    except (OSError, pa.ArrowException):
        pass
    raise unreadable(stamp)


def unreadable(stamp: Stamp) -> DataError:
    """Return what to say of a file whose content cannot be had."""
    if compression_of(stamp.path) is None:
        return DataError(f"{stamp.name} must be a file that can be read.")
    return DataError(
        f"{stamp.name} must be a complete compressed file, but it is damaged, cut short or not compressed."
    )


def find_files(source: FilePath | Iterable[FilePath]) -> tuple[Format, list[Stamp]]:
    """Return the format and the files of a path, a glob, a folder, or a list of these.

    Of a folder, of the folders in it and of what a pattern matches, all files count except hidden ones and those whose
    names begin with ``_``, which engines write beside the data. Nothing else is skipped: data left out silently would
    be worse than an error.

    Raises
    ------
    ParameterError
        If there are none, or if they differ in format.
    """
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    # By name, so that a run does not depend on the order in which a file system lists them.
    files = list(dict.fromkeys(file for one in sources for file in _expand(one)))
    if not files:
        raise ParameterError("source must name at least one file, got none.")
    try:
        formats = {format_of(file): file for file in files}
    except ParameterError as error:
        given = [os.fspath(one) for one in sources if os.path.isdir(one)]
        if not given:
            raise
        instead = f"Where a folder is given, all files in it are read: name some of them, such as '{given[0]}/*.csv'."
        raise ParameterError(f"{error} {instead}") from None
    if len(formats) > 1:
        found = " and ".join(f"{form} ({os.fspath(file)})" for form, file in sorted(formats.items()))
        raise ParameterError(f"source must be files of one format, got {found}. Name those that hold the table.")
    return next(iter(formats)), [Stamp.of(file) for file in files]


def glob_literal(path: Path) -> str:
    """Return a path as DuckDB takes it: it would read ``[1]`` in a name as a pattern."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in os.fspath(path))


def _expand(source: FilePath) -> list[str]:
    text = os.fspath(source)
    if os.path.isdir(text):
        if os.path.isfile(os.path.join(text, "manifest.json")):
            raise ParameterError(f"source must be the private table, got {text}, which is a release already.")
        return _below(text)
    if os.path.exists(text):
        return [text]
    if not glob.has_magic(text):
        home = f"Write {os.path.expanduser(text)}." if text.startswith("~") else "Check the path."
        remedy = "Download it first." if "://" in text else home
        raise ParameterError(f"source must be an existing file, folder or pattern, got {text}. {remedy}")
    fixed = _fixed_part(text)
    found = sorted(one for one in glob.glob(text, recursive=True) if not _is_beside(os.path.relpath(one, fixed)))
    if not found:
        raise ParameterError(f"source must match at least one file, got the pattern {text}, which matches none.")
    return [file for one in found for file in (_below(one) if os.path.isdir(one) else [one])]


def _fixed_part(pattern: str) -> str:
    """Return the folder that a pattern names before its first wildcard: its name may begin as it likes."""
    while glob.has_magic(pattern):
        pattern = os.path.dirname(pattern)
    return pattern or os.curdir


def _is_beside(path: str) -> bool:
    """Return whether a path leads to or through something hidden, or what engines write beside the data."""
    return any(part.startswith((".", "_")) and part != os.curdir for part in Path(path).parts)


def _below(folder: str) -> list[str]:
    found = sorted(_walk(folder))
    if not found:
        raise ParameterError(f"source must be a folder with files in it, got {folder}, which holds none.")
    return found


def _walk(folder: str) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _is_beside(name)]
        yield from (os.path.join(parent, name) for name in files if not _is_beside(name))


def suffix_of(file: FilePath) -> str:
    """Return a file's suffix, in small letters, without that of its compression."""
    path = Path(file)
    return (path.with_suffix("") if compression_of(path) else path).suffix.lower()


def _first_bytes(file: FilePath) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read(16)
    except OSError:
        pass
    raise DataError(f"{os.fspath(file)} must be a file that can be read.")


class FileState(NamedTuple):
    """What tells that a file was changed or exchanged."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int
    """The time of the last change to the file itself is the system's own: no call sets it back."""


def _state(path: Path) -> FileState:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):  # a pipe cannot be read twice, and a device may have no end
        raise OSError(errno.EINVAL, "no regular file")
    return FileState(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
