import os
from pathlib import Path
from typing import Any

import pytest

from dimly.curator.tables.input_files import Stamp, compression_of, find_files, format_of, glob_literal
from dimly.errors import DataError, ParameterError


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def names(source: Any) -> list[str]:
    return [Path(stamp.name).name for stamp in find_files(source)[1]]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.parquet", "Parquet"),
        ("a.PQ", "Parquet"),
        ("a.csv.gz", "CSV"),
        ("a.b.TSV", "CSV"),
        ("a.txt.zst", "CSV"),
        ("a.jsonl", "JSON lines"),
        ("a.ndjson.gz", "JSON lines"),
        ("a.json", "JSON lines"),
        ("a.duckdb", "DuckDB"),
        ("a.sqlite3", "SQLite"),
    ],
)
def test_formats_go_by_the_suffix(name: str, form: str) -> None:
    assert format_of(name) == form
    assert compression_of(name) == {".gz": "gzip", ".zst": "zstd"}.get(Path(name).suffix)


def test_db_goes_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    path.write_bytes(b"SQLite format 3\0")
    assert format_of(path) == "SQLite"
    path.write_bytes(bytes(8) + b"DUCK" + bytes(8))
    assert format_of(path) == "DuckDB"
    with pytest.raises(DataError, match="can be read"):
        format_of(tmp_path / "missing.db")


@pytest.mark.parametrize("name", ["a.xlsx", "a", "a.gz"])
def test_formats_that_nobody_reads(name: str) -> None:
    with pytest.raises(ParameterError, match=rf"{name} must end in .parquet, .*, got"):
        format_of(name)


def test_packed_databases(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="must not be compressed as a whole"):
        format_of("a.parquet.gz")


def test_a_folder_holds_all_that_is_below_it(tmp_path: Path) -> None:
    touch(tmp_path, "b.csv", "a.csv", "x/c.csv", "_SUCCESS", ".d.csv", "_temporary/e.csv", ".git/f.csv")
    assert names(tmp_path) == ["a.csv", "b.csv", "c.csv"]
    assert names(str(tmp_path / "*")) == ["a.csv", "b.csv", "c.csv"]
    assert names(str(tmp_path / "**" / "*.csv")) == ["a.csv", "b.csv", "c.csv"]
    assert names([tmp_path / "x", str(tmp_path / "a.csv"), tmp_path / "a.csv"]) == ["c.csv", "a.csv"]


def test_a_pattern_may_begin_in_a_folder_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "_data/.x/a.csv", "_data/.x/_b.csv")
    assert names(str(tmp_path / "_data" / ".x" / "*.csv")) == ["a.csv"]
    monkeypatch.chdir(tmp_path / "_data" / ".x")
    assert names("*.csv") == names("**") == ["a.csv"]


def test_a_name_that_looks_like_a_pattern(tmp_path: Path) -> None:
    touch(tmp_path, "a[1].csv", "a1.csv")
    assert names(tmp_path / "a[1].csv") == ["a[1].csv"]
    assert glob_literal(tmp_path / "a[1]*?.csv").endswith("a[[]1][*][?].csv")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.csv", r"existing file, folder or pattern, got .*missing\.csv"),
        ("*.csv", r"match at least one file, got the pattern .*\*\.csv, which matches none"),
        ("empty", "folder with files in it, got .*empty"),
        ("mixed", r"one format, got CSV \(.*a\.csv\) and Parquet \(.*b\.parquet\)"),
        ("odd", r"README\.md must end in"),
    ],
)
def test_what_names_no_table(tmp_path: Path, source: str, message: str) -> None:
    touch(tmp_path, "empty/_SUCCESS", "mixed/a.csv", "mixed/b.parquet", "odd/a.csv", "odd/README.md")
    with pytest.raises(ParameterError, match=message):
        find_files(os.path.join(tmp_path, source))


def test_no_files_at_all() -> None:
    with pytest.raises(ParameterError, match="at least one file, got none"):
        find_files([])


def test_a_stamp_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing must be a regular file that can be read"):
        Stamp.of(tmp_path / "missing")


def test_a_file_that_was_rewritten_with_its_time_restored_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("person,page\n1,tea\n")
    stamp, before = Stamp.of(path), path.stat()
    stamp.check_unchanged()
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of a file system has steps
        path.write_text("person,page\n1,jam\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (before.st_mtime_ns, before.st_size)
    with pytest.raises(DataError, match="must not change while it is read"):
        stamp.check_unchanged()
