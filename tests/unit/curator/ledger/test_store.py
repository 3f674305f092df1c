import contextlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.curator.ledger import store as ledger_store
from dimly.curator.ledger.store import APPLICATION, FORMAT, Store, _meet, tag_chunks
from dimly.errors import DataError, DimlyError, ParameterError


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "ledger.db")


@contextlib.contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file as a stranger would."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def key_of(store: Store) -> bytes:
    with store.reading() as connection:
        key: bytes = connection.execute("SELECT tag_key FROM ledger").fetchone()[0]
    return key


def test_a_new_ledger_is_one_file_for_its_owner_alone(store: Store) -> None:
    assert [path.name for path in store.path.parent.iterdir()] == ["ledger.db"]
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    with store.reading() as connection:
        pragmas = ("application_id", "user_version", "journal_mode", "synchronous", "foreign_keys")
        values = [connection.execute(f"PRAGMA {pragma}").fetchone()[0] for pragma in pragmas]
    assert values == [APPLICATION, FORMAT, "wal", 2, 1]


def test_files_beside_it_are_for_its_owner_alone_too(store: Store) -> None:
    with store.writing() as connection:
        connection.execute("UPDATE ledger SET created_at = 'x'")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.path.parent.iterdir()}
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}


def test_each_ledger_has_a_key_of_its_own(tmp_path: Path) -> None:
    keys = {key_of(Store.create(tmp_path / f"{i}.db")) for i in range(3)}
    assert len(keys) == 3
    assert {len(key) for key in keys} == {32}


def test_creating_again_opens_what_is_there(store: Store) -> None:
    assert key_of(Store.create(store.path)) == key_of(store)
    assert [path.name for path in store.path.parent.iterdir()] == ["ledger.db"]


def test_of_two_who_create_at_once_both_get_the_first_ones(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    exists = iter([False])  # as it was when the second one looked
    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", lambda _: next(exists, True))
        second = Store.create(store.path)
    assert key_of(second) == key_of(store)


@pytest.mark.parametrize("name", ["a b.db", "what?#%41.db", "ledgér;--.db"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    Store.create(tmp_path / name)
    Store(str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_working_directory_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store.create("ledger.db")
    monkeypatch.chdir("/")
    assert len(key_of(store)) == 32


def test_a_file_system_without_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    store = Store.create(tmp_path / "ledger.db")
    assert key_of(Store.create(store.path)) == key_of(store)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


def test_a_missing_ledger_is_not_made_by_opening_it(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"ledger must be an existing file, got .*nothing\.db'\. Make one with"):
        Store(tmp_path / "nothing.db")
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="ledger must be in a folder that exists"):
        Store.create(tmp_path / "missing" / "ledger.db")


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), sqlite3.OperationalError("database or disk is full")]
)
def test_a_folder_that_cannot_be_written_to_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(_: Path) -> None:
        raise error

    monkeypatch.setattr(ledger_store, "_fill", refuse)
    with pytest.raises(
        ParameterError, match=r"must be in a folder that can be written to, got .*: .* (denied|full)\.$"
    ):
        Store.create(tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


def make_text(path: Path) -> None:
    path.write_text("user,attribute\n" * 100, encoding="utf-8")


def make_other_database(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("CREATE TABLE t (x)")


def test_a_file_of_absurd_size_is_no_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.create(tmp_path / "ledger.db")
    monkeypatch.setattr(ledger_store, "_MOST_BYTES", 1000)
    with pytest.raises(ParameterError, match="ledger must be a ledger of Dimly, got another file"):
        Store(tmp_path / "ledger.db")


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, make_text, make_other_database])
def test_a_file_that_is_no_ledger_is_left_alone(tmp_path: Path, make: object) -> None:
    path = tmp_path / "other"
    make(path)  # type: ignore[operator]  # each takes a path
    before = path.read_bytes() if path.is_file() else None
    for opened in (Store, Store.create):
        with pytest.raises(ParameterError, match="ledger must be a ledger of Dimly, got another file"):
            opened(path)
    assert before is None or path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["other"]


def test_a_newer_format_is_refused(store: Store) -> None:
    with raw(store.path) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(DimlyError, match=rf"must be of format {FORMAT}, got {FORMAT + 1}\. Use the version"):
        Store(store.path)


def test_a_locked_ledger_is_waited_for_and_then_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_store, "BUSY_SECONDS", 0.2)
    with store.writing():
        start = time.monotonic()
        with pytest.raises(DimlyError, match=r"is locked by another process .* Try again"), store.writing():
            pytest.fail("two writers at once")
        assert time.monotonic() - start >= 0.2
        with store.reading():  # readers never wait
            pass


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_ledger_is_told(store: Store) -> None:
    store.path.chmod(0o400)
    message = "must be writable, and it or its folder is read-only"
    with pytest.raises(DimlyError, match=message), store.writing() as connection:
        connection.execute("CREATE TABLE more (x)")  # some versions of SQLite begin a transaction all the same


def test_a_damaged_ledger_is_told(store: Store) -> None:
    size = store.path.stat().st_size
    with store.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(DimlyError, match=r"is damaged\. Restore a backup"):
        key_of(store)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (sqlite3.SQLITE_BUSY | 1 << 8, "is locked"),
        (sqlite3.SQLITE_READONLY, "must be writable, and it or its folder is read-only"),
        (sqlite3.SQLITE_CANTOPEN, "cannot be opened"),
        (sqlite3.SQLITE_FULL, "the disk is full. Nothing was recorded"),
        (sqlite3.SQLITE_IOERR_SHMSIZE, "the disk is full. Nothing was recorded"),
        (sqlite3.SQLITE_IOERR, r"does not answer \(SQLITE_X\)"),
        (None, "does not answer"),
    ],
)
def test_errors_of_sqlite_are_put_in_words(store: Store, code: int | None, text: str) -> None:
    error = sqlite3.OperationalError("secret text of a row")
    if code is not None:
        error.sqlite_errorcode, error.sqlite_errorname = code, "SQLITE_X"
    with pytest.raises(DimlyError, match=text) as caught, store.writing():
        raise error
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_transaction_that_fails_leaves_nothing(store: Store) -> None:
    def fail() -> None:
        with store.writing() as connection:
            connection.execute("DELETE FROM ledger")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(key_of(store)) == 32


KILLED = """
import os, sys
from dimly.curator.ledger.store import Store
store = Store(sys.argv[1])
with store.writing() as connection:
    connection.execute("INSERT INTO dataset VALUES ('kept', 1, 0, 'attribute', 'sum', '')")
with store.writing() as connection:
    connection.execute("INSERT INTO dataset VALUES ('lost', 1, 0, 'attribute', 'sum', '')")
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_committed_stays_and_the_rest_does_not(store: Store) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, store.path], check=False)  # noqa: S603 - of this file
    assert killed.returncode == -9
    with store.reading() as connection:
        assert [row["name"] for row in connection.execute("SELECT name FROM dataset")] == ["kept"]
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert [path.name for path in store.path.parent.iterdir()] == ["ledger.db"]


def test_a_ledger_at_rest_can_be_copied(store: Store, tmp_path: Path) -> None:
    shutil.copy(store.path, tmp_path / "copy.db")
    assert key_of(Store(tmp_path / "copy.db")) == key_of(store)


pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

KEY = bytes(range(32))


def tags(*batches: Any, key: bytes = KEY) -> np.ndarray:
    return np.concatenate([np.empty(0, np.uint64), *tag_chunks(batches, key=key)])


def test_a_tag_is_eight_bytes_of_keyed_blake2b_of_the_text() -> None:
    expected = blake2b("Zoë, 1".encode(), digest_size=8, key=KEY).digest()
    assert tags(["Zoë, 1"]).tolist() == [int.from_bytes(expected, "little")]
    assert tags(["Zoë, 1"], key=bytes(32)).tolist() != tags(["Zoë, 1"]).tolist()


NUMBERS = [7, -3, 42]
TEXTS = ["7", "-3", "42"]


@pytest.mark.parametrize(
    "batch",
    [
        NUMBERS,
        tuple(NUMBERS),
        np.array(NUMBERS),
        np.array(NUMBERS, np.int8),
        np.array(NUMBERS, object),
        pa.array(NUMBERS),
        pa.chunked_array([[7], [-3, 42]]),
        pd.Series(NUMBERS),
        pl.Series(NUMBERS),
        TEXTS,
        np.array(TEXTS),
        np.array(TEXTS, object),
        np.array(TEXTS, np.dtypes.StringDType()),
        pa.array(TEXTS),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS).dictionary_encode(),
        pa.array(TEXTS, pa.string_view()),
        pd.Series(TEXTS),
        pl.Series(TEXTS),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_one_person_is_one_tag_in_whatever_type_the_id_comes(batch: Any) -> None:
    assert tags(batch).tolist() == tags(TEXTS).tolist()


def test_text_is_taken_as_it_is() -> None:
    different = ["42", "042", " 42", "42 ", "+42", "A", "a", "\u00e9", "e\u0301", "x" * 300, "", "a\nb", "a,b", '"a"']
    assert len(set(tags(different).tolist())) == len(different)
    assert tags(np.array([2**64 - 1], np.uint64)).tolist() == tags([str(2**64 - 1)]).tolist()


@given(st.lists(st.lists(st.integers(0, 10**6), max_size=9), max_size=9))
def test_pieces_are_full_sorted_and_hold_everybody(batches: list[list[int]]) -> None:
    everybody = [user for batch in batches for user in batch]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_store, "CHUNK", 4)
        pieces = list(tag_chunks(batches, key=KEY))
    assert [len(piece) for piece in pieces[:-1]] == [4] * (len(pieces) - 1)
    assert all((np.diff(piece.astype(object)) >= 0).all() for piece in pieces)
    assert sorted(np.concatenate(pieces).tolist() if pieces else []) == sorted(tags(everybody).tolist())


def test_batches_are_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_store, "CHUNK", 10)
    taken = 0

    def stream() -> Iterator[list[int]]:
        nonlocal taken
        for start in range(0, 1000, 5):
            taken += 1
            yield list(range(start, start + 5))

    next(tag_chunks(stream(), key=KEY))
    assert taken == 2


@pytest.mark.parametrize(
    "batch",
    [
        [1.5],
        np.array([1.0]),
        [True],
        [b"bytes"],
        [1, "a"],
        [2**64],
        [object()],
        ["\ud800"],
        pa.array([[1]]),
        np.array(["2024-01-01"], "datetime64[D]"),
        np.array([[1, 2]]),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_ids_that_are_neither_integers_nor_text_are_refused_without_quoting_them(batch: Any) -> None:
    with pytest.raises(DataError, match="users must be integers that fit 64 bits, or text") as caught:
        tags(batch)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "batch", [[1, None], pa.array(["a", None]), np.array(["a", None], object)], ids=lambda batch: type(batch).__name__
)
def test_missing_ids_are_refused(batch: Any) -> None:
    with pytest.raises(DataError, match="users must all have an id, but some have none"):
        tags(batch)


@pytest.mark.parametrize("batch", ["abc", b"abc", 5])
def test_ids_instead_of_batches_of_ids_are_refused(batch: Any) -> None:
    with pytest.raises(ParameterError, match=r"users must come in arrays or lists of ids, got (str|bytes|int)\."):
        tags(batch)


def test_nobody_has_no_tags() -> None:
    assert tags().tolist() == tags([], np.array([]), pa.array([], pa.string())).tolist() == []


SETS = st.lists(st.integers(0, 50) | st.sampled_from([2**63, 2**64 - 1]), min_size=1, max_size=8)


@given(SETS, SETS)
def test_sets_meet_if_they_share_a_tag(one: list[int], two: list[int]) -> None:
    arrays = (np.sort(np.array(each, np.uint64)) for each in (one, two))
    assert _meet(*arrays) == bool(set(one) & set(two))
