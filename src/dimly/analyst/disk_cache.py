"""Denoisers, structure, index cells and decoded numbers of a release, kept on disk for the next command.

Only what follows from the published numbers is kept, under the release's id, which is a digest of them. The folder is
of mode 0700 and its owner's; a file that is damaged, of another version or of another shape is not used. The
environment variable ``DIMLY_CACHE`` names another folder, or is ``off``.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import secrets
import stat
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.structure.coordinates import Coordinates
from dimly.analyst.structure.denoise import Denoiser
from dimly.analyst.structure.parallel_analysis import Structure
from dimly.errors import ParameterError
from dimly.files import check_outside_releases, write_bytes
from dimly.release.reader import StoredSketches
from dimly.release.sketches import Sketches

VARIABLE: Final = "DIMLY_CACHE"
_VERSION: Final = 5
"""Of how things are found: to be raised with every change of a denoiser's or structure's numbers."""
_OFF: Final = ("off", "0", "no", "false")
_MOST_FILES: Final = 200
_MOST_BYTES: Final = 1 << 28  # of one file
_DIGEST: Final = 32
_OURS: Final = re.compile(r"(denoiser|structure|index|values)-[0-9a-f]{64}\.npz")
_ROWS: Final = re.compile(r"(\.\d+-)?index-[0-9a-f]{64}\.npy")  # with a number before: in the making
_VALUES: Final = re.compile(r"(\.\d+-)?values-[0-9a-f]{64}\.npy")
_MOST_INDEXES: Final = 4  # each may be as large as its release
_PIECE: Final = 1 << 15  # bytes of published numbers that have a digest of their own

Arrays = Mapping[str, NDArray[Any]]


def cache_folder() -> Path | None:
    """Return the folder, made if need be; None if there is to be none, or none that is safe to use."""
    said = os.environ.get(VARIABLE, "")
    if said.lower() in _OFF and said:
        return None
    try:
        folder = Path(said) if said else _usual()  # fails for an account without a home
        check_outside_releases(folder, VARIABLE)
        folder.mkdir(0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except (OSError, RuntimeError, ParameterError):
        return None
    own = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    # Whoever else may write there could have us rank people as they like.
    return folder if own and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022 else None


def _usual() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "dimly"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "dimly"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dimly"


def denoiser_of(sketches: Sketches | StoredSketches) -> Denoiser:
    """Return the denoiser of a release, kept or found."""
    names = ("mean", "basis", "gains", "variances")
    kept = _read(sketches, "denoiser", {*names, "numbers"})
    if kept is not None:
        coordinates = Coordinates.of(sketches.plan)
        k, rank = coordinates.dimension, kept["gains"].size
        shapes = {"mean": (k,), "basis": (k, rank), "gains": (rank,), "variances": (rank,), "numbers": (2,)}
        if all(kept[name].shape == shape for name, shape in shapes.items()):
            rest, missed = kept["numbers"].tolist()
            mean, basis, gains, variances = (kept[name].astype(np.float32) for name in names)
            return Denoiser(coordinates, mean, basis, gains, variances, rest=rest, missed=missed)
    found = Denoiser.of(sketches)
    numbers = np.array([found.rest, found.missed])
    _write(sketches, "denoiser", {name: getattr(found, name) for name in names} | {"numbers": numbers})
    return found


def structure_kept(sketches: Sketches | StoredSketches, find: Any) -> Structure:
    """Return how much structure a release has, kept or found by ``find``."""
    kept = _read(sketches, "structure", {"facts"})
    if kept is not None:
        with contextlib.suppress(ValueError, TypeError):  # of another version, with other fields
            return Structure(**json.loads(bytes(kept["facts"]).decode()))
    found: Structure = find(sketches)
    facts = json.dumps(asdict(found)).encode()
    _write(sketches, "structure", {"facts": np.frombuffer(facts, np.uint8)})
    return found


CellArrays = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
_CELLS: Final = ("centers", "starts", "order", "facts")


def cells_kept(
    sketches: Sketches | StoredSketches, detail: str, *, like: NDArray[Any]
) -> tuple[CellArrays, NDArray[Any]] | None:
    """Return the cells of an index and people's rows in their order, like a given one, if they are kept.

    Rows are mapped from their file and not read: whoever answers by them compares what they answer with the release.
    """
    kept, path = _read(sketches, "index", set(_CELLS), detail), _path(sketches, "index", detail)
    if kept is None or path is None:
        return None
    centers, starts, order, facts = (kept[name] for name in _CELLS)
    try:
        rows = np.load(path.with_suffix(".npy"), mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):  # the last one of an empty file, as a power cut leaves it
        return None
    fits = rows.dtype == like.dtype and rows.shape == (len(order), like.shape[1]) and len(order) <= len(sketches)
    return ((centers, starts, order, facts), rows) if fits else None


def keep_cells(sketches: Sketches | StoredSketches, detail: str, cells: CellArrays, rows: NDArray[Any]) -> NDArray[Any]:
    """Keep the cells of an index and people's rows in their order; return the rows, from their file if kept."""
    path = _path(sketches, "index", detail)
    if path is None:
        return rows
    file = path.with_suffix(".npy")
    with contextlib.suppress(Exception):  # as of _write
        with _made(file) as made:
            np.save(made, rows)
        _write(sketches, "index", dict(zip(_CELLS, cells, strict=True)), detail)
        return np.load(file, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    return rows


def forget_cells(sketches: Sketches | StoredSketches, detail: str) -> None:
    """Remove an index that is not of this release after all."""
    path = _path(sketches, "index", detail)
    if path is not None:
        for one in (path, path.with_suffix(".npy")):
            with contextlib.suppress(OSError):
                one.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, eq=False)
class KeptValues:
    """A release's published numbers as they are in memory: some people's are read without decoding those of others.

    Attributes
    ----------
    values : ndarray
        Of everybody, in the order of the release; mapped from their file.
    digests : ndarray of uint8 (pieces, 32)
        SHA-256 of some rows after the other.
    """

    values: NDArray[Any]
    digests: NDArray[np.uint8]

    def take(self, positions: NDArray[np.int64]) -> NDArray[Any] | None:
        """Return the rows of the people at some positions, read-only; None where the file was damaged."""
        size = _rows_of_a_piece(self.values)
        pieces, places = np.unique(positions // size, return_inverse=True)
        rows = np.empty((len(positions), self.values.shape[1]), self.values.dtype)
        for at, piece in enumerate(pieces.tolist()):
            held = np.array(self.values[piece * size : (piece + 1) * size])  # what is checked is what is used
            if hashlib.sha256(held.data).digest() != self.digests[piece].tobytes():
                return None
            rows[places == at] = held[positions[places == at] - piece * size]
        rows.flags.writeable = False
        return rows


def values_kept(sketches: Sketches | StoredSketches) -> KeptValues | None:
    """Return a release's published numbers, kept or decoded; None of those in memory, or without a cache folder."""
    path = _path(sketches, "values")
    if path is None or not isinstance(sketches, StoredSketches):
        return None
    file, kept = path.with_suffix(".npy"), _read(sketches, "values", {"digests"})
    shape, dtype = sketches.plan.published_shape(len(sketches)), np.dtype(sketches.plan.published_dtype)
    if kept is not None:
        with contextlib.suppress(OSError, ValueError, EOFError):
            values = np.load(file, mmap_mode="r", allow_pickle=False)
            if (values.shape, values.dtype) == (shape, dtype):
                return KeptValues(values, kept["digests"])
    with contextlib.suppress(Exception):  # as of _write
        with _made(file) as made, made.open("wb") as out:
            facts = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(out, facts)
            for part in range(sketches.n_parts):
                out.write(np.ascontiguousarray(sketches.read_values(part)).data)
        values = np.load(file, mmap_mode="r", allow_pickle=False)
        size = _rows_of_a_piece(values)
        pieces = (values[start : start + size] for start in range(0, len(values), size))
        digests = np.frombuffer(b"".join(hashlib.sha256(piece.data).digest() for piece in pieces), np.uint8)
        _write(sketches, "values", {"digests": digests.reshape(-1, _DIGEST)})
        return KeptValues(values, digests.reshape(-1, _DIGEST))
    return None


def _rows_of_a_piece(values: NDArray[Any]) -> int:
    return int(max(1, _PIECE // max(values[:1].nbytes, 1)))


@contextlib.contextmanager
def _made(file: Path) -> Iterator[Path]:
    """Give a path to write to, which becomes the file once it is written."""
    made = file.with_name(f".{secrets.randbits(64)}-{file.name}")  # not the process: others may have its number
    try:
        yield made
        made.replace(file)
    finally:
        made.unlink(missing_ok=True)


def _path(sketches: Sketches | StoredSketches, what: str, detail: str = "") -> Path | None:
    folder = cache_folder() if isinstance(sketches, StoredSketches) else None
    if folder is None or not isinstance(sketches, StoredSketches):
        return None
    named = f"{_VERSION} {what} {sketches.manifest.release} {detail}"
    return folder / f"{what}-{hashlib.sha256(named.encode()).hexdigest()}.npz"


def _read(
    sketches: Sketches | StoredSketches, what: str, names: set[str], detail: str = ""
) -> dict[str, NDArray[Any]] | None:
    """Return the arrays of these names, or nothing."""
    path = _path(sketches, what, detail)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MOST_BYTES:
                return None
            content = file.read()
        digest, body = content[:_DIGEST], content[_DIGEST:]
        if hashlib.sha256(path.name.encode() + body).digest() != digest:
            return None
        with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files} if set(arrays.files) == names else None
    except (OSError, ValueError, zipfile.BadZipFile):
        return None


def _write(sketches: Sketches | StoredSketches, what: str, arrays: Arrays, detail: str = "") -> None:
    path = _path(sketches, what, detail)
    if path is None:
        return
    body = io.BytesIO()
    np.savez(body, **arrays)  # type: ignore[arg-type]
    content = body.getvalue()
    if len(content) > _MOST_BYTES:
        return
    # A full disk, or another process that keeps the same: nothing depends on it.
    with contextlib.suppress(Exception):
        write_bytes(path, hashlib.sha256(path.name.encode() + content).digest() + content, overwrite=True)
        _forget_old(path.parent)


def _forget_old(folder: Path) -> None:
    """Remove the oldest of our own files; the folder may hold others of the user's."""
    for ours, most in ((_OURS, _MOST_FILES), (_ROWS, _MOST_INDEXES), (_VALUES, _MOST_INDEXES)):
        files = sorted(
            (one for one in folder.iterdir() if ours.fullmatch(one.name)), key=lambda one: one.stat().st_mtime
        )
        for old in files[: max(0, len(files) - most)]:
            old.unlink(missing_ok=True)
