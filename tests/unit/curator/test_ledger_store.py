import contextlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dimly.curator import ledger_store
from dimly.curator.ledger_store import APPLICATION, FORMAT, Store
from dimly.errors import DimlyError, ParameterError


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
    with pytest.raises(DimlyError, match="must be writable, and it or its folder is read-only"), store.writing():
        pytest.fail("wrote to a read-only file")


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
from dimly.curator.ledger_store import Store
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
