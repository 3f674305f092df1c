"""Exported files appear whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from dimly.errors import ParameterError


@contextlib.contextmanager
def new_file(path: str | Path, *, overwrite: bool) -> Iterator[Path]:
    """Give the path of a draft to write; it takes its name once it is done, and is removed if that fails.

    Raises
    ------
    ParameterError
        If the file exists and is not to be replaced, or its folder does not; before anything is written.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise ParameterError(f"path must be in a folder that exists, got {str(path)!r}. Make the folder first.")
    if path.is_dir():
        raise ParameterError(f"path must be a file, got {str(path)!r}, which is a folder. Name a file in it.")
    if not overwrite and path.exists():
        raise _taken(path)
    draft = path.with_name(f".dimly-{secrets.token_hex(8)}")
    try:
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        if overwrite:
            draft.replace(path)
            return
        try:
            path.hardlink_to(draft)  # unlike a rename it fails if another process was first
        except FileExistsError:
            raise _taken(path) from None
        except OSError:  # no hard links on this file system
            draft.replace(path)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _taken(path: Path) -> ParameterError:
    return ParameterError(f"path must be of a new file, got {str(path)!r}, which exists. Use overwrite to replace it.")
