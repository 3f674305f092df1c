"""Small files that appear whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from dimly.errors import ParameterError


def check_output(path: Path, *, overwrite: bool) -> None:
    """Refuse a file that cannot be written: before hours of work, not after them.

    Raises
    ------
    ParameterError
        If the file exists, or its folder does not.
    """
    if not path.parent.is_dir():
        raise ParameterError(f"output must be in a folder that exists, got {str(path)!r}. Make the folder first.")
    if path.is_dir():
        raise ParameterError(f"output must be a file, got {str(path)!r}, which is a folder. Name a file in it.")
    if not overwrite and path.exists():
        raise _taken(path)


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

    Raises
    ------
    ParameterError
        If the file exists, or its folder does not.
    """
    check_output(path, overwrite=overwrite)
    draft = path.with_name(f".dimly-{secrets.token_hex(8)}{path.suffix}")
    try:
        yield draft
        with draft.open("rb+") as file:
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
    return ParameterError(f"output must be a new file, got {str(path)!r}, which exists. Add --overwrite to replace it.")


def read_text(name: str, path: Path, *, hint: str) -> str:
    """Return a file's text.

    Raises
    ------
    ParameterError
        If it cannot be read; ``hint`` says what to do.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        reason = os.strerror(error.errno or 0)
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    raise ParameterError(f"{name} must be a readable file, got {str(path)!r}: {reason}. {hint}")
