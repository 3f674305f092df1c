"""Numbered rows, whoever sorts them; and when a source that changes stops a run: before anything was drawn."""

import contextlib
import gzip
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from tests.plans import plan_of

from dimly.curator.ledger.ledger import Ledger
from dimly.curator.options import Options, Silence
from dimly.curator.publication import publish_table
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.numbered_table import NumberedTable
from dimly.curator.tables.shapes import rows_view
from dimly.curator.tables.sources import open_source
from dimly.errors import DataError
from dimly.mechanisms.vocabulary import Vocabulary
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


LONG = Options(user="person", attribute="page")
PEOPLE = np.array([3, -5, 3, 40, 7, 3, -5, 40, 40])
PAGES = np.array([7, 7, 1, 2, 7, 7, 9, 2, 1])


@contextlib.contextmanager
def numbered(people: Any, pages: Any = PAGES, *, memory: int, **given: Any) -> Any:
    with PrivateDatabase(memory=1 << 28, threads=2) as database:
        source = open_source(database, pa.table({"person": pa.array(people), "page": pa.array(pages)}))
        view = rows_view(database, source, PLAN, LONG)
        view.check()
        yield NumberedTable(database, view, memory=memory, **given)


def content(table: NumberedTable) -> tuple[list[Any], NDArray[np.int64]]:
    ids = [user for some in table.published_ids() for user in some.to_pylist()]
    return ids, np.concatenate([np.empty(0, np.int64), *(rows.keys for rows in table.rows())])


@pytest.mark.parametrize("given", [{}, {"vocabulary": Vocabulary.listed(["1", "9"])}, {"order_key": "key"}])
@pytest.mark.parametrize("people", [PEOPLE, PEOPLE * 2**31, PEOPLE * 2**57, [f"p{n:+}" for n in PEOPLE]])
def test_rows_are_the_same_whoever_sorts_them(people: Any, given: dict[str, Any]) -> None:
    """By id, with the people found on the way, if ids lie near each other; by numbers of people; by DuckDB."""
    with numbered(people, memory=1 << 20, **given) as here, numbered(people, memory=0, **given) as there:
        ids, keys = content(here)
        other_ids, other_keys = content(there)
        assert ids == other_ids
        assert sorted(ids) == sorted({*np.asarray(people).tolist()})
        np.testing.assert_array_equal(keys, other_keys)
        np.testing.assert_array_equal(content(here)[1], keys)  # a second time
        assert here.diagnostics() == there.diagnostics()


def test_somebody_without_a_listed_attribute_is_there() -> None:
    with numbered(PEOPLE, memory=1 << 20, vocabulary=Vocabulary.listed(["9"])) as table:
        assert content(table)[0] == [-5, 3, 7, 40]


def test_rows_that_were_not_there_before_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = PAGES.copy()
    count = NumberedTable._number_attributes

    def changing(table: NumberedTable) -> str:
        counted = count(table)
        pages[:] = 1234
        return counted

    monkeypatch.setattr(NumberedTable, "_number_attributes", changing)
    with pytest.raises(DataError, match="same rows"), numbered(PEOPLE, pages, memory=1 << 20):
        pass


def test_so_are_more_rows() -> None:
    with numbered([f"p{n}" for n in PEOPLE], memory=1 << 20) as table:
        table._n_rows = len(PEOPLE) - 1
        with pytest.raises(DataError, match="same rows"):
            list(table.rows())
