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
from dimly.curator.tables import numbered_table
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.dictionary import RangeDictionary
from dimly.curator.tables.key_sort import KeySpool
from dimly.curator.tables.numbered_table import NumberedTable
from dimly.curator.tables.shapes import RowsView, rows_view
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
    [(csv, "sorting"), (packed, "numbering"), (transcoded, "numbering"), (sqlite, "numbering"), (view, "numbering")],
)
def test_what_was_read_may_change(tmp_path: Path, write: Callable[[Path], Path], when: str) -> None:
    source = write(tmp_path)

    def back_up_and_remove() -> None:
        os.link(source, tmp_path / "backup")
        source.unlink()

    assert publish(source, Meanwhile(when, back_up_and_remove)) == "visible"
    assert len(open_folder(tmp_path / "release", verify=True)) == 7


@pytest.mark.parametrize(("when", "memory"), [("numbering", 1 << 30), ("sorting", 0)])
def test_what_is_still_read_must_not_change_and_stops_the_run_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, memory: int
) -> None:
    """Rows are read once, and a second time if people and attributes do not fit in memory."""
    of = numbered_table._CodedRows.of
    monkeypatch.setattr(numbered_table._CodedRows, "of", lambda *given, **_: of(*given, memory=memory))
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
def test_rows_are_the_same_whoever_sorts_them(
    people: Any, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here, as a few rows or as many, in memory or in a file; or by DuckDB."""
    with numbered(people, memory=0, **given) as there:
        ids, keys = content(there)
        figures = there.diagnostics()
    assert sorted(ids) == sorted({*np.asarray(people).tolist()})
    for few, memory in ((1 << 17, 1 << 20), (0, 1 << 22), (0, 300_000)):
        monkeypatch.setattr(numbered_table, "_FEW_ROWS", few)
        with numbered(people, memory=memory, **given) as here:
            assert content(here)[0] == ids
            np.testing.assert_array_equal(content(here)[1], keys)  # a second time
            assert here.diagnostics() == figures


def test_somebody_without_a_listed_attribute_is_there() -> None:
    with numbered(PEOPLE, memory=1 << 20, vocabulary=Vocabulary.listed(["9"])) as table:
        assert content(table)[0] == [-5, 3, 7, 40]


LARGE = 1 << 22


def many(seed: int, *, text: bool) -> tuple[Any, Any]:
    """Return rows of people and pages, more than are coded at once; some texts are long, empty or not ASCII."""
    generator = np.random.default_rng(seed)
    people, pages = generator.integers(-50_000, 50_000, 150_000), generator.geometric(0.001, 150_000)
    if not text:
        return people, pages
    ends = ["", "é", "\0", "\0\0", "x" * 7, "x" * 8, "ab" * 8, "日本" * 30]
    return [f"{n}{ends[n % 8]}" for n in people.tolist()], [
        "" if n == 1 else f"{n}{ends[n % 7]}" for n in pages.tolist()
    ]


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("spilled", [True, False])
def test_many_rows_are_numbered_as_duckdb_does(text: bool, spilled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    people, pages = many(5, text=text)
    if spilled:
        monkeypatch.setattr(KeySpool, "nbytes", property(lambda _: 1 << 40))
    with numbered(people, pages, memory=64 * LARGE) as here, numbered(people, pages, memory=0) as there:
        assert here._keys is None
        ids, keys = content(here)
        assert here._keys is not None
        assert here._keys._spool.is_spilled == spilled
        other_ids, other_keys = content(there)
        assert there._keys is None
        assert ids == other_ids
        np.testing.assert_array_equal(keys, other_keys)
        texts, other_texts = here.texts(), there.texts()
        assert list(texts.between(0, len(texts))) == list(other_texts.between(0, len(other_texts)))
        assert here.diagnostics() == there.diagnostics()


@pytest.mark.parametrize("text", [True, False])
def test_numbers_do_not_hang_on_the_order_of_rows(text: bool) -> None:
    people, pages = many(6, text=text)
    with (
        numbered(people, pages, memory=64 * LARGE) as here,
        numbered(people[::-1], pages[::-1], memory=64 * LARGE) as there,
    ):
        (ids, keys), (other_ids, other_keys) = content(here), content(there)
    assert ids == other_ids
    np.testing.assert_array_equal(keys, other_keys)


def test_values_that_do_not_fit_are_left_to_duckdb() -> None:
    people, pages = many(7, text=True)
    with numbered(people, pages, memory=LARGE // 2) as here, numbered(people, pages, memory=0) as there:
        np.testing.assert_array_equal(content(here)[1], content(there)[1])
        assert here._keys is None


@pytest.mark.parametrize("few", [1 << 17, 0])
def test_rows_that_were_not_there_before_are_refused(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells that are missing now, but were not when they were checked; and integers out of the range that was found."""
    monkeypatch.setattr(numbered_table, "_FEW_ROWS", few)
    checked = RowsView.check

    def refused(people: Any, pages: Any) -> None:
        with pytest.raises(DataError, match="same rows"), numbered(people, pages, memory=LARGE):
            pass

    monkeypatch.setattr(RowsView, "check", lambda _: None)
    refused([*PEOPLE.tolist()[1:], None], PAGES)
    monkeypatch.setattr(RowsView, "check", checked)
    if not few:

        class Shorter(RangeDictionary):
            def __init__(self, least: int, greatest: int) -> None:
                super().__init__(least, greatest - 1)

        monkeypatch.setattr(numbered_table, "RangeDictionary", Shorter)
        refused(PEOPLE, PAGES)
