"""When a source that changes stops a run: before anything was drawn, or not at all."""

import contextlib
import gzip
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.plans import plan_of

from dimly.curator.ledger.ledger import Ledger
from dimly.curator.options import Options, Silence
from dimly.curator.run import publish_table
from dimly.errors import DataError
from dimly.release.reader import open_folder

PLAN = plan_of("counting+laplace")
ROWS = [(f"p{n % 7}", f"é{n % 5}") for n in range(35)]
TEXT = "person,page\n" + "".join(f"{person},{page}\n" for person, page in ROWS)


class Meanwhile(Silence):
    """Does something when a phase begins; "drawing" stands for the moment when noise may have been drawn."""

    def __init__(self, when: str, do: Callable[[], None]) -> None:
        self._when = when
        self._do = do

    def phase(self, name: str) -> None:
        if name == self._when:
            self._do()

    def start(self, n_users: int) -> None:  # noqa: ARG002
        self.phase("drawing")


def csv(folder: Path) -> Path:
    path = folder / "visits.csv"
    path.write_text(TEXT, encoding="utf-8")
    return path


def packed(folder: Path) -> Path:
    path = folder / "visits.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    return path


def transcoded(folder: Path) -> Path:
    path = folder / "visits.csv"
    path.write_text(TEXT, encoding="utf-16")
    return path


def sqlite(folder: Path) -> Path:
    path = folder / "visits.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as made, made:
        made.execute("CREATE TABLE visits (person TEXT, page TEXT)")
        made.executemany("INSERT INTO visits VALUES (?, ?)", ROWS)
    return path


def view(folder: Path) -> Path:
    path = folder / "visits.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute(f"CREATE VIEW visits AS FROM read_csv('{csv(folder)}', delim = ',')")
    return path


def publish(source: Path, meanwhile: Meanwhile) -> str:
    """Return what became of the charge."""
    folder = source.parent
    ledger = Ledger.create(folder / "ledger.db")
    ledger.add_dataset("visits", epsilon=3.0)
    options: dict[str, Any] = {"user": "person", "attribute": "page", "out": folder / "release", "progress": meanwhile}
    with contextlib.suppress(DataError):
        publish_table(source, PLAN, Options(ledger=ledger.path, dataset="visits", **options))
    return ledger.status("visits").charges[0].state


@pytest.mark.parametrize(
    ("write", "when"),
    [(csv, "drawing"), (packed, "numbering"), (transcoded, "numbering"), (sqlite, "numbering"), (view, "numbering")],
)
def test_what_was_read_may_change(tmp_path: Path, write: Callable[[Path], Path], when: str) -> None:
    source = write(tmp_path)

    def back_up_and_remove() -> None:
        os.link(source, tmp_path / "backup")
        source.unlink()

    assert publish(source, Meanwhile(when, back_up_and_remove)) == "visible"
    assert len(open_folder(tmp_path / "release", verify=True)) == 7


@pytest.mark.parametrize("when", ["numbering", "sorting"])
def test_what_is_still_read_must_not_change_and_stops_the_run_before_anything_is_spent(
    tmp_path: Path, when: str
) -> None:
    source = csv(tmp_path)
    assert publish(source, Meanwhile(when, lambda: os.link(source, tmp_path / "backup"))) == "returned"
    assert not (tmp_path / "release").exists()
