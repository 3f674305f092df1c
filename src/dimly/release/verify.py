"""Digests, ids, attributes, projection, directions and sensitivity of a release, checked: `verify`."""

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dimly.errors import ParameterError, ReleaseError, as_integer
from dimly.mechanisms.guarantee import is_guarantee
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.projection.rows import DenseRows
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release import parts
from dimly.release.documents.directions_file import decode_directions
from dimly.release.format import (
    ATTRIBUTES,
    DIRECTIONS,
    MANIFEST,
    PARTS_FOLDER,
    PROJECTION,
    README,
    FileRecord,
    part_index,
)
from dimly.release.manifest import Manifest, read_manifest
from dimly.release.page_headers import byte_reader, check_pages
from dimly.release.writer import projection_chunks

LIMITS: Final = (
    "No check can prove that noise was added as stated, nor that people and plan were chosen without looking at the "
    "data: that is the publisher's word."
)

_CHECKS = (
    "manifest.json is complete and of a known format, and its id is the digest of the rest",
    "the plan's noise is proven again to keep its budget, and the manifest's epsilon and delta are the plan's",
    "the words of the guarantee are those that belong to this plan and these people",
    "the folder holds the files of the manifest and nothing else but a README.md that follows from it",
    "size and SHA-256 of every file are those of the manifest",
    "parts and row groups are cut where the plan says",
    "users are in ascending order, without repeats, and each of them has all of their numbers",
)
_MOST_THREADS = 1024
_LONGEST_README = 1 << 20
_ENTRIES_PER_TIE = 10**6  # far fewer are so near a tie that the last bit of a double decides
_SENSITIVITY = "no attribute can move a sketch farther than the plan says"
_MOST_NUMBERED = 1 << 24  # rows of P that are derived for a proof: minutes, where nobody has to state a list of them
_NO_SENSITIVITY = (
    "The vocabulary is not in the release, or too large to go through, so that it was not checked that no attribute "
    "moves a sketch farther than the plan says."
)
_WITH_ATTRIBUTES = "attributes.parquet is the plan's vocabulary"
_WITH_PROJECTION = "projection.parquet is what the plan's seed gives"
_WITH_DIRECTIONS = "directions.parquet holds the plan's directions, whose longest row is what the noise is for"


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found in order.

    Attributes
    ----------
    release : str
        The release's id.
    n_users : int
    files : int
        Number of files that were read, besides the manifest.
    checks : tuple of str
        What was checked, in words.
    limits : str
        What nobody can check.
    """

    release: str
    n_users: int
    files: int
    checks: tuple[str, ...]
    limits: str = LIMITS

    def __str__(self) -> str:
        return "\n".join([f"release {self.release} of {self.n_users} users verifies:", *self.checks, self.limits])


def verify(
    path: str | Path, *, threads: int | None = None, progress: Callable[[int, int], None] | None = None
) -> Verification:
    """Read a whole release, a part at a time in each thread, and check that it is what its manifest says.

    Parameters
    ----------
    path : str or Path
        The folder.
    threads : int, optional
        How many parts to check at once; as many as there are processors by default, at most 8.
    progress : callable, optional
        Is told the bytes that were checked and those that there are, after each file.

    Raises
    ------
    ReleaseError
        Naming the file and what is wrong with it. A release that is not private never verifies.
    """
    if threads is not None:
        threads = as_integer("threads", threads, 1, _MOST_THREADS)
    folder = Path(os.path.abspath(path))
    manifest = read_manifest(folder)
    if not manifest.private:
        raise ReleaseError(
            f"{MANIFEST} field 'not_private' is set: the release was made for tests and promises nothing."
        )
    if not is_guarantee(manifest.guarantee, manifest.promise):
        raise ReleaseError(f"{MANIFEST} field 'guarantee' must be the words that belong to the plan, but it is not.")
    _check_names(folder, manifest)
    done, last, last_path = 0, None, ""
    with ThreadPoolExecutor(threads or min(8, os.cpu_count() or 1)) as pool:
        try:
            for record, ends in pool.map(lambda record: _checked(folder, manifest, record), manifest.files):
                if ends is not None:
                    if last is not None and not last < ends[0]:
                        raise ReleaseError(f"{record.path} must hold users that come after those of {last_path}.")
                    last, last_path = ends[1], record.path
                done += record.bytes
                if progress is not None:
                    progress(done, manifest.bytes)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    extra = {ATTRIBUTES: _WITH_ATTRIBUTES, PROJECTION: _WITH_PROJECTION, DIRECTIONS: _WITH_DIRECTIONS}
    with_files = tuple(words for name, words in extra.items() if manifest.record(name))
    proven = _is_sensitivity_proven(manifest, with_files=bool(with_files))
    return Verification(
        release=manifest.release,
        n_users=manifest.n_users,
        files=len(manifest.files),
        checks=(*_CHECKS, *((_SENSITIVITY,) if proven else ()), *with_files),
        limits=LIMITS if proven else f"{LIMITS} {_NO_SENSITIVITY}",
    )


def _check_names(folder: Path, manifest: Manifest) -> None:
    """Refuse anything in the folder that the manifest does not speak of, and links."""
    expected = {MANIFEST, README, PARTS_FOLDER, *(record.path for record in manifest.files)}
    for base, folders, files in os.walk(folder):
        for name in (*folders, *files):
            place = Path(base, name)
            path = place.relative_to(folder).as_posix()
            if path not in expected or place.is_symlink():
                what = "a link" if place.is_symlink() else "none of its files"
                raise ReleaseError(f"{path} must not be in the release: it is {what}. Remove it.")
    readme = folder / README  # earlier releases have none
    if readme.exists() and not (
        readme.is_file()
        and readme.stat().st_size <= _LONGEST_README
        and readme.read_bytes() == manifest.readme().encode()
    ):
        raise ReleaseError(f"{README} must be what follows from the manifest, but it was changed. Remove it.")


def _checked(folder: Path, manifest: Manifest, record: FileRecord) -> tuple[FileRecord, tuple[Any, Any] | None]:
    """Check one file; return the first and the last user where it is a part."""
    # Read once: what was hashed is what is checked.
    content = pa.py_buffer(parts.path_of(folder, record).read_bytes())
    if hashlib.sha256(content).hexdigest() != record.sha256:
        raise ReleaseError(parts.WRONG_DIGEST.format(record.path))
    with parts.open_parquet(pa.BufferReader(content), record.path) as file:
        manifest.check_footer(file, record)
        check_pages(file, record.path, byte_reader(content))
        if record.path not in (ATTRIBUTES, PROJECTION, DIRECTIONS):
            return record, _check_part(file, manifest, record)
        if record.path == DIRECTIONS:
            _check_directions(content, manifest.plan)
            return record, None
        vocabulary = _attributes(file, manifest, record)
        if record.path == PROJECTION:
            _check_projection(file, manifest.plan, vocabulary, record.path)
    return record, None


def _is_sensitivity_proven(manifest: Manifest, *, with_files: bool) -> bool:
    """Return whether it is known how far one attribute moves a sketch: by its family, or over the whole vocabulary."""
    plan = manifest.plan
    if not plan.is_realized or with_files:
        return True
    if plan.vocabulary is None or plan.vocabulary.sha256 is not None or plan.vocabulary.size > _MOST_NUMBERED:
        return False
    try:
        plan.vocabulary_of(None)
    except ParameterError as error:
        raise ReleaseError(f"{MANIFEST} field 'plan': {error}") from None
    return True


def _check_part(file: pq.ParquetFile, manifest: Manifest, record: FileRecord) -> tuple[Any, Any]:
    table = parts.read_table(file, record.path)
    rest = manifest.users_after(part_index(record.path))
    parts.values_of(table, manifest.plan, record.path, rest=rest)
    try:
        users = parts.as_user_column(table.column("user"), manifest.users.type)
    except ReleaseError as error:
        raise ReleaseError(f"{record.path}: {error}") from None
    return users[0].as_py(), users[-1].as_py()


def _attributes(file: pq.ParquetFile, manifest: Manifest, record: FileRecord) -> Vocabulary:
    """Return the list of attributes that a file holds, if it is the plan's and none moves a sketch too far."""
    attributes = parts.read_table(file, record.path, columns=["attribute"]).column("attribute").to_pylist()
    assert manifest.plan.vocabulary is not None  # noqa: S101 - else the manifest would not list the file
    try:
        return manifest.plan.vocabulary_of(attributes)
    except ParameterError as error:
        raise ReleaseError(f"{record.path}: {error}") from None


def _check_directions(content: pa.Buffer, plan: Plan) -> None:
    """Refuse directions that are not the plan's, or of which a row moves a sketch farther than the plan says."""
    try:
        plan.along(decode_directions(content, DIRECTIONS))
    except ParameterError as error:
        raise ReleaseError(f"{DIRECTIONS}: {error}") from None


def _check_projection(file: pq.ParquetFile, plan: Plan, vocabulary: Vocabulary, path: str) -> None:
    stated = parts.read_table(file, path, columns=["row"]).column("row").combine_chunks()
    start = 0
    lengths = np.diff(stated.offsets.to_numpy())
    numbers = stated.flatten().to_numpy()
    for _, derived in projection_chunks(plan, vocabulary):
        stop, k = start + len(derived), derived.shape[1]
        whole = bool((lengths[start:stop] == k).all())
        if not whole or not _same_rows(numbers[start * k : stop * k].reshape(derived.shape), derived, plan):
            raise ReleaseError(f"{path} must hold the rows that the plan's seed gives, but it does not.")
        start = stop


def _same_rows(stated: NDArray[Any], derived: NDArray[np.int64], plan: Plan) -> bool:
    """Return whether rows of P are those of the seed.

    Gaussian ones rest on a quantile function that two libraries may round differently in its last bit, and then, very
    rarely, an entry (docs/projections.md): such rows are P too, as long as they are within the plan's sensitivity.
    """
    off = np.abs(derived - stated)
    if not plan.ships_rows or not off.any():
        return not off.any()
    rows, longest = DenseRows(stated), plan.longest_row
    few = np.count_nonzero(off) <= 1 + off.size // _ENTRIES_PER_TIE
    return bool(off.max() == 1 and few and rows.l1 <= longest.l1 and rows.l2_squared <= longest.l2_squared)
