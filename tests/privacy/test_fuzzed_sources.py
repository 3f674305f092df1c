"""Readers refuse or read whatever bytes they get, and tell nothing of them.

``DIMLY_FUZZED`` says how many files are tried: 180 in ``make test``, 1,000,000 in ``make torture``.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.privacy import fuzzed_sources
from tests.privacy.fuzzed_sources import fuzz, read, sound_files
from tests.privacy.neighboring_files import MARK, LeakError

from dimly.curator.tables.database import PrivateDatabase
from dimly.errors import DataError, DimlyError

FUZZED = int(os.environ.get("DIMLY_FUZZED", "180"))
CHUNKS = 1 if FUZZED < 10_000 else 200


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_changed_files(chunk: int, tmp_path: Path) -> None:
    inputs = FUZZED // CHUNKS
    found = fuzz(inputs, tmp_path / "fuzz", start=chunk * inputs)
    assert sum(found.values()) == inputs
    for form in ("csv", "jsonl", "parquet", "sqlite"):
        assert found[f"t.{form} read"] + found[f"t.{form} refused"] > 0
        assert found[f"t.{form} refused"] > 0


def test_sound_files_are_read(tmp_path: Path) -> None:
    for name, content in sound_files(tmp_path).items():
        (tmp_path / name).write_bytes(content)
        with PrivateDatabase(memory=1 << 28, threads=1, temp=tmp_path) as database:
            assert read(database, tmp_path / name) == len(fuzzed_sources.PEOPLE)


def test_names_of_a_damaged_database_that_are_no_text(tmp_path: Path) -> None:
    """A break that was found: the reader of SQLite files let an error of Python's through, which holds the bytes."""
    content = sound_files(tmp_path)["t.sqlite"]
    path = tmp_path / "t.sqlite"
    path.write_bytes(
        content.replace(b"CREATE TABLE t (person", b"CREATE TABLE t (pers\xc0n").replace(b"tablett", b"table\xc0t")
    )
    with PrivateDatabase(memory=1 << 28, threads=1, temp=tmp_path) as database, pytest.raises(DataError) as caught:
        read(database, path)
    assert caught.value.__context__ is None


def test_a_row_that_is_joined_to_the_names_is_not_told(tmp_path: Path) -> None:
    """A break that was found: the line end after the names is gone, and an error listed somebody's cells as names."""
    path = tmp_path / "t.csv"
    for joined in (b'"person","page"', b'"person","place"'):  # the right names, and one that is missing
        path.write_bytes(sound_files(tmp_path)["t.csv"].replace(b'"person","page"\n"user0"', joined))
        with PrivateDatabase(memory=1 << 28, threads=1, temp=tmp_path) as database, pytest.raises(DimlyError) as caught:
            read(database, path)
        assert MARK not in str(caught.value)


@pytest.mark.parametrize(
    "fault",
    [ValueError("no"), DataError(f"cannot read {MARK}3"), DataError("bad quote on line 7")],
    ids=["not ours", "a cell", "a line"],
)
def test_faults_are_found(fault: Exception, tmp_path: Path) -> None:
    def faulty(*_: Any) -> None:
        raise fault

    with pytest.raises(LeakError, match=r"t.csv, seed 0"):
        fuzz(1, tmp_path / "fuzz", reading=faulty)
