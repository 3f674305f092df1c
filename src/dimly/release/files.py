"""The files of a release that is being read: opened with nothing taken on trust."""

import hashlib
import os
from pathlib import Path

import pyarrow.parquet as pq

from dimly.errors import ReleaseError
from dimly.release import parts
from dimly.release.manifest import Manifest


class Files:
    """Opens the files of a release, and refuses those that are not what the manifest says.

    Damaged numbers look like any others, so that no number is used before the digest of its file was found right. Each
    file is read for that once, and again if it changed on the disk: 5 % of what decoding it takes.

    Parameters
    ----------
    folder : Path
    manifest : Manifest
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest
        self._found_right: dict[str, tuple[int, ...]] = {}

    def footer(self, record: parts.FileRecord) -> pq.ParquetFile:
        """Open a file for what its footer says: its size, columns and rows are right, and nothing else was looked at.

        Raises
        ------
        ReleaseError
            Naming the file and what is wrong.
        """
        file = parts.opened(parts.located(self._folder, record), record.path)
        try:
            self._manifest.check_footer(file, record)
        except BaseException:
            file.close()
            raise
        return file

    def whole(self, record: parts.FileRecord) -> pq.ParquetFile:
        """Open a file for what it holds: every byte is the one that was published. Raises as :meth:`footer`."""
        self.check_digest(record)
        return self.footer(record)

    def check_digest(self, record: parts.FileRecord) -> None:
        """Refuse a file with another digest than the manifest's. Raises as :meth:`footer`."""
        path = parts.located(self._folder, record)
        with open(path, "rb") as file:
            state = os.fstat(file.fileno())
            seen = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
            if self._found_right.get(record.path) == seen:
                return
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != record.sha256:
            raise ReleaseError(parts.WRONG_DIGEST.format(record.path))
        self._found_right[record.path] = seen
