"""The SQLite file behind a ledger: schema, transactions, errors in words; tags of the people it has seen.

A connection lives no longer than its transaction: no thread or fork can inherit one, and a ledger at rest is one file.
The file must never be opened by anything but SQLite: on POSIX, closing it would drop the locks of this whole process.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimly.curator.randomness import Keystream
from dimly.errors import DataError, DimlyError, ParameterError, check_path
from dimly.files import check_outside_releases

FORMAT: Final = 1
"""Version of the tables below, as SQLite's ``user_version``."""

APPLICATION: Final = int.from_bytes(b"dmly", "big")
"""SQLite's ``application_id``: what tells a ledger from other databases."""

BUSY_SECONDS: Final = 60.0
"""How long a transaction waits for those of others."""

# Times are UTC. A charge's `lineage` is the charge that made the first release of its line; null: itself. Its people
# count once `n_users` is set. Release ids are not unique: tiny releases may come out alike, and to refuse the second
# would tell that they did.
_SCHEMA: Final = """
CREATE TABLE ledger (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    tag_key BLOB NOT NULL CHECK (length(tag_key) = 32),
    created_at TEXT NOT NULL
);
CREATE TABLE dataset (
    name TEXT NOT NULL PRIMARY KEY,
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    unit TEXT NOT NULL,
    method TEXT NOT NULL,
    created_at TEXT NOT NULL
);
CREATE TABLE charge (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    dataset TEXT NOT NULL REFERENCES dataset (name),
    state TEXT NOT NULL CHECK (state IN ('reserved', 'sampling', 'visible', 'returned', 'forgiven')),
    cost TEXT,
    plan_digest TEXT NOT NULL,
    recipient TEXT,
    appends_to TEXT CHECK ((appends_to IS NULL) = (cost IS NOT NULL)),
    updates TEXT CHECK (updates IS NULL OR appends_to IS NULL),
    lineage INTEGER REFERENCES charge (id) CHECK ((lineage IS NULL) = (appends_to IS NULL AND updates IS NULL)),
    release_id TEXT CHECK (state != 'visible' OR release_id IS NOT NULL),
    appendable INTEGER NOT NULL DEFAULT 0,
    n_users INTEGER,
    process TEXT NOT NULL,
    reserved_at TEXT NOT NULL,
    sampling_at TEXT,
    sealed_at TEXT,
    visible_at TEXT,
    ended_at TEXT,
    reason TEXT
);
CREATE TABLE people (
    charge INTEGER NOT NULL REFERENCES charge (id),
    chunk INTEGER NOT NULL,
    tags BLOB NOT NULL,
    PRIMARY KEY (charge, chunk)
);
"""

_MOST_BYTES: Final = 1 << 40  # people take eight bytes each
_FULL: Final = "cannot grow: the disk is full. Nothing was recorded."
_HINTS: Final = {
    sqlite3.SQLITE_BUSY: f"is locked by another process for more than {BUSY_SECONDS:g} seconds. Try again.",
    sqlite3.SQLITE_READONLY: "must be writable, and it or its folder is read-only. Change permissions, or use a copy.",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened. It and its folder must be readable and writable.",
    sqlite3.SQLITE_CORRUPT: "is damaged. Restore a backup, and enter what was published since (dimly ledger enter).",
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR_SHMSIZE: _FULL,  # of the index beside the write-ahead log
}


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Store:
    """Transactions on a ledger's file.

    Parameters
    ----------
    path : str or Path
        An existing ledger.
    """

    def __init__(self, path: str | Path) -> None:
        check_path("ledger", path)
        self.path = Path(path).absolute()  # the working directory may change
        with self.reading():
            pass

    @classmethod
    def create(cls, path: str | Path) -> "Store":
        """Return a new empty ledger, readable by its owner alone, or the one that is there already."""
        check_path("ledger", path)
        target = Path(path).absolute()
        if target.exists():
            return cls(path)
        if not target.parent.is_dir():
            raise ParameterError(f"ledger must be in a folder that exists, got {str(path)!r}. Create the folder first.")
        check_outside_releases(target.parent, "ledger")
        # Under another name first: whoever sees a ledger sees a complete one, and none is ever overwritten.
        try:
            with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent, ignore_cleanup_errors=True) as folder:
                draft = Path(folder, "ledger")
                _fill(draft)
                with contextlib.suppress(FileExistsError):
                    _move(draft, target)
        except (OSError, sqlite3.Error) as error:  # SQLite's own words tell nothing of an empty ledger
            reason = error.strerror if isinstance(error, OSError) else error
            raise ParameterError(
                f"ledger must be in a folder that can be written to, got {str(path)!r}: {reason}."
            ) from None
        return cls(path)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give one consistent view of the ledger."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give the only connection that may change the ledger now; all of it is kept, or nothing after an error."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        if not self.path.exists():
            raise ParameterError(
                f"ledger must be an existing file, got {str(self.path)!r}. Make one with `dimly ledger init`."
            )
        if not self.path.is_file() or self.path.stat().st_size > _MOST_BYTES:
            raise self._not_a_ledger()
        try:
            with contextlib.closing(_connect(self.path)) as connection:
                self._check(connection)
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")  # left out after an error: closing rolls back
        except sqlite3.Error as error:
            raise self._explained(error) from None

    def _check(self, connection: sqlite3.Connection) -> None:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise self._not_a_ledger()
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != FORMAT:
            raise DimlyError(
                f"ledger {str(self.path)!r} must be of format {FORMAT}, got {version}. Use the version of Dimly "
                "that wrote it, or a newer one."
            )

    def _not_a_ledger(self) -> ParameterError:
        return ParameterError(
            f"ledger must be a ledger of Dimly, got another file: {str(self.path)!r}. Name a ledger, or "
            "make one under another name with `dimly ledger init`."
        )

    def _explained(self, error: sqlite3.Error) -> DimlyError:
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF  # the rest tells where within SQLite
        if primary == sqlite3.SQLITE_NOTADB:
            return self._not_a_ledger()
        unknown = f"does not answer ({getattr(error, 'sqlite_errorname', 'no SQLite code')})."
        hint = _HINTS.get(code or 0) or _HINTS.get(primary or 0, unknown)
        return DimlyError(f"ledger {str(self.path)!r} {hint}")


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    connection.row_factory = sqlite3.Row
    try:
        # A commit is on the disk when it returns; what is given back does not linger in free pages.
        for pragma in ("synchronous = FULL", "foreign_keys = ON", "secure_delete = ON", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _fill(draft: Path) -> None:
    draft.touch(mode=0o600)  # SQLite gives the files beside it the same
    key = np.empty(4, np.uint64)
    Keystream().fill(key)
    with contextlib.closing(_connect(draft)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(
            f"BEGIN; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}; {_SCHEMA} COMMIT;"
        )
        connection.execute("INSERT INTO ledger VALUES (1, ?, ?)", (key.tobytes(), now()))


def _move(draft: Path, target: Path) -> None:
    """Give the file its name unless that is taken."""
    try:
        os.link(draft, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: claim the name, then replace what holds it
        target.touch(mode=0o600, exist_ok=False)
        draft.replace(target)
    with contextlib.suppress(OSError):  # the name is to outlive a power cut; not every system opens folders
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


# Who is in a release, as keyed tags: enough to notice that somebody comes twice, and no names.
#
# A tag is eight bytes of BLAKE2b under the ledger's own key. Two people share one by chance at a rate of n·m/2⁶⁴ for n
# people beside m; the second is then refused, which is the safe side.


Tags = NDArray[np.uint64]

CHUNK: Final = 1 << 20
"""Tags in one stored piece, 8 MiB."""


def tag_chunks(batches: Iterable[Any], *, key: bytes) -> Iterator[Tags]:
    """Yield the tags of people in sorted pieces of at most :data:`CHUNK`, holding no more than one in memory.

    Parameters
    ----------
    batches : iterable of arrays
        User ids: Arrow arrays, NumPy arrays or lists of integers or of text. 42 and "42" are one person.
    key : bytes
        The ledger's own.

    Raises
    ------
    DataError
        If an id is missing, or neither an integer of 64 bits nor text.
    """
    held: list[Tags] = []
    size = 0
    for batch in batches:
        texts = _texts(batch)
        start = 0
        while start < len(texts):
            piece = texts.slice(start, CHUNK - size)
            start += len(piece)
            held.append(_tags(piece, key))
            size += len(piece)
            if size == CHUNK:
                yield np.sort(np.concatenate(held))
                held, size = [], 0
    if held:
        yield np.sort(np.concatenate(held))


def store_tags(connection: sqlite3.Connection, charge: int, chunk: int, tags: Tags) -> None:
    """Write one piece of a charge's people."""
    connection.execute("INSERT INTO people VALUES (?, ?, ?)", (charge, chunk, tags.astype("<u8").tobytes()))


def forget_people(connection: sqlite3.Connection, charge: int) -> None:
    """Remove the tags of a charge that does not count any more."""
    connection.execute("DELETE FROM people WHERE charge = ?", (charge,))


def share_people(connection: sqlite3.Connection, charge: int, others: Sequence[int]) -> bool:
    """Return whether anybody of a charge is among the people of others."""
    pairs = (pair for other in others for pair in product(_chunks(connection, other), _chunks(connection, charge)))
    return any(_meet(_read(connection, one), _read(connection, two)) for one, two in pairs)


def _chunks(connection: sqlite3.Connection, charge: int) -> list[int]:
    return [row[0] for row in connection.execute("SELECT rowid FROM people WHERE charge = ?", (charge,))]


def _read(connection: sqlite3.Connection, row: int) -> Tags:
    blob = connection.execute("SELECT tags FROM people WHERE rowid = ?", (row,)).fetchone()[0]
    return np.frombuffer(blob, "<u8")


def _meet(one: Tags, two: Tags) -> bool:
    few, many = (one, two) if len(one) < len(two) else (two, one)
    place = np.minimum(np.searchsorted(many, few), len(many) - 1)
    return bool((many[place] == few).any())


def _tags(texts: pa.Array, key: bytes) -> Tags:
    fresh = blake2b(digest_size=8, key=key).copy  # the key is hashed once, not for each person

    def tag(text: bytes) -> bytes:
        state = fresh()
        state.update(text)
        return state.digest()

    return np.frombuffer(b"".join(map(tag, texts.to_pylist())), "<u8")


def _texts(batch: Any) -> Any:
    """Return user ids as an Arrow array of UTF-8, whatever they came in."""
    if isinstance(batch, str | bytes) or not isinstance(batch, Iterable):
        raise ParameterError(f"users must come in arrays or lists of ids, got {type(batch).__name__}.")
    ids = batch if isinstance(batch, pa.Array | pa.ChunkedArray) else _as_arrow(batch)
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if ids.null_count:
        raise DataError("users must all have an id, but some have none.")
    if len(ids) == 0:
        return pa.array([], pa.large_binary())
    if not any(is_type(ids.type) for is_type in _ID_TYPES):
        raise DataError("users must be integers that fit 64 bits, or text.")
    return ids.cast(pa.large_string()).cast(pa.large_binary())


_ID_TYPES: Final = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
)


def _as_arrow(batch: Iterable[Any]) -> Any:
    if isinstance(batch, np.ndarray) and batch.dtype.kind in "TU":
        batch = batch.astype(object)  # NumPy's own text, which Arrow does not read in every version
    try:
        return pa.array(batch if isinstance(batch, np.ndarray) else list(batch))
    except (pa.ArrowException, OverflowError, TypeError, UnicodeError, ValueError):
        pass
    # Outside of the handler, so that not even the context of our error quotes an id.
    raise DataError("users must be integers that fit 64 bits, or text, all of one kind.")
