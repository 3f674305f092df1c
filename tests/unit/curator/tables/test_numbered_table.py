"""Numbered rows, whoever sorts them; and when a source that changes stops a run: before anything was drawn."""

import contextlib
import datetime as dt
import gc
import gzip
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from csv import writer as csv_writer
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.plans import plan_of

from dimly.curator.ledger.ledger import Ledger
from dimly.curator.options import Options, Resources, Silence
from dimly.curator.people import Pseudonyms
from dimly.curator.publication import publish_table
from dimly.curator.tables import key_sort, numbered_table
from dimly.curator.tables.database import PrivateDatabase
from dimly.curator.tables.dictionary import IntegerDictionary, RangeDictionary, TextDictionary
from dimly.curator.tables.key_sort import KeySort, KeySpool
from dimly.curator.tables.numbered_table import NumberedTable, open_table
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
    monkeypatch.setattr(numbered_table._CodedRows, "of", lambda *given, **_: of(*given, memory=memory, threads=1))
    source = csv(tmp_path)
    assert publish(source, Meanwhile(when, lambda: os.link(source, tmp_path / "backup"))) == "returned"
    assert not (tmp_path / "release").exists()


LONG = Options(user="person", attribute="page")
PEOPLE = np.array([3, -5, 3, 40, 7, 3, -5, 40, 40])
PAGES = np.array([7, 7, 1, 2, 7, 7, 9, 2, 1])
MANY = 1 << 17


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
    for few, very_few, memory in ((MANY, MANY, 1 << 20), (MANY, 0, 1 << 20), (0, 0, 1 << 22), (0, 0, 300_000)):
        monkeypatch.setattr(numbered_table, "_FEW_ROWS", few)
        monkeypatch.setattr(numbered_table, "VERY_FEW_ROWS", very_few)
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
    monkeypatch.setattr(key_sort, "PIECE", 1 << 14)  # several, so that two threads take turns
    with numbered(people, pages, memory=64 * LARGE, threads=2) as here, numbered(people, pages, memory=0) as there:
        assert here._threads == 2
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
def test_numbers_do_not_depend_on_the_order_of_rows(text: bool) -> None:
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
        assert here._waiting is None
        np.testing.assert_array_equal(content(here)[1], content(there)[1])
        assert there._keys is None


def test_texts_that_did_not_fit_leave_no_memory_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may wait for the garbage collection, which hardly ever runs in a command."""
    made: list[weakref.ref[Any]] = []

    def dictionary(*given: Any, **options: Any) -> Any:
        found = original(*given, **options)
        made.append(weakref.ref(found))
        return found

    original = numbered_table._dictionary
    monkeypatch.setattr(numbered_table, "_dictionary", dictionary)
    pages, _ = many(7, text=True)
    gc.disable()
    try:
        with numbered(np.arange(len(pages)) % 9, pages, memory=LARGE // 2) as here:  # attributes do not
            assert here._waiting is None
            assert len(made) == 2
            assert [one() for one in made] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("memory", [64 * LARGE, 2 * LARGE])  # numbered here, and by DuckDB
def test_sorted_keys_have_a_share_of_their_own(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are there while people are perturbed, which takes memory, too."""
    people, pages = many(8, text=True)
    if memory < 64 * LARGE:
        monkeypatch.setattr(numbered_table._CodedRows, "of", lambda *_, **__: None)
    expected = None
    for keys_memory, spilled in ((None, False), (8 * len(pages), False), (8 * len(pages) - 1, True)):
        with numbered(people, pages, memory=memory, keys_memory=keys_memory) as here:
            found = content(here)
            assert here._keys is not None
            assert here._keys._spool.is_spilled == spilled
        expected = expected or found
        assert found[0] == expected[0]
        np.testing.assert_array_equal(found[1], expected[1])


def test_so_are_long_texts() -> None:
    """A batch of them would take more than the memory that it is given."""
    pages = [f"{n % 50}" * 5_000 for n in range(4_000)]
    people = np.arange(4_000) % 300
    with numbered(people, pages, memory=1 << 20) as here, numbered(people, pages, memory=0) as there:
        assert here._waiting is None
        np.testing.assert_array_equal(content(here)[1], content(there)[1])


def test_a_long_text_is_in_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are made outside of the database's limit, so that they must not become large in the first place."""
    stream, seen = PrivateDatabase.stream, [0]

    def watched(self: Any, sql: str, *given: Any, **more: Any) -> Any:
        for batch in stream(self, sql, *given, **more):
            seen.append(batch.nbytes)
            yield batch

    monkeypatch.setattr(PrivateDatabase, "stream", watched)
    pages = ["short", *(f"{n}" * 5_000 for n in range(600))]
    people = np.arange(601) % 300
    with numbered(people, pages, memory=LARGE) as here:
        assert here._waiting is None
        assert max(seen) < LARGE
        assert len(content(here)[1]) == 601


def test_numbers_of_a_wide_range_fit_half_of_a_key() -> None:
    """Their upper bit would be the sign of a key, and another person's number."""

    class Vast:
        def fetch(self, _: str) -> Any:
            return [(-5, (1 << 31) - 5, 1 << 40)]

    assert isinstance(numbered_table._dictionary(Vast(), "t", "u", "BIGINT", memory=1 << 60), IntegerDictionary)  # type: ignore[arg-type]


def test_so_are_other_types_which_are_sorted_here_all_the_same() -> None:
    pages = [dt.date(2024, 1, 1 + n) for n in PAGES]
    with numbered(PEOPLE, pages, memory=1 << 20) as here, numbered(PEOPLE, pages, memory=0) as there:
        assert here._waiting is None
        np.testing.assert_array_equal(content(here)[1], content(there)[1])
        assert here._keys is not None
        assert there._keys is None


def test_more_rows_than_before_are_refused() -> None:
    with numbered(PEOPLE, [dt.date(2024, 1, 1 + n) for n in PAGES], memory=1 << 20) as table:
        table._n_rows = len(PEOPLE) - 1
        with pytest.raises(DataError, match="same rows"):
            list(table.rows())


def test_integers_that_lie_far_apart_take_no_memory_for_those_between() -> None:
    people = np.arange(1000) * 10_000
    with PrivateDatabase(memory=1 << 28, threads=1) as database:
        name = database.register(pa.table({"u": people}))
        made = numbered_table._dictionary(database, name, "u", "BIGINT", memory=1 << 30)
        assert not isinstance(made, RangeDictionary)
        made = numbered_table._dictionary(
            database, database.register(pa.table({"u": people // 5_000})), "u", "BIGINT", memory=1 << 30
        )
        assert isinstance(made, RangeDictionary)


def test_an_interrupted_pass_does_not_lose_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    with numbered(PEOPLE, memory=1 << 20) as table, numbered(PEOPLE, memory=0) as other:

        def interrupted(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(KeySort, "add", interrupted)
            with pytest.raises(KeyboardInterrupt):
                list(table.rows())
        np.testing.assert_array_equal(content(table)[1], content(other)[1])


def test_line_breaks_that_are_met_late(tmp_path: Path) -> None:
    """DuckDB notices them in the middle of reading, when some rows have been numbered, and they must be read anew."""
    cell = "\n".join(["eve,jam,ok"] * 3000)
    rows = [
        (f"p{i % 9_000:05}", f"page {i % 50}", cell if i > 200_000 and i % 100 == 0 else "ok") for i in range(230_000)
    ]
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        csv_writer(file, lineterminator="\n").writerows([("person", "page", "note"), *rows])
    options = Options(user="person", attribute="page", nulls="drop", threads=2)
    with open_table(path, PLAN, options) as table:
        ids, keys = content(table)
    assert ids == sorted({person for person, _, _ in rows})
    assert len(keys) == len(rows)


@pytest.mark.parametrize("roster", [None, "own", "text"])
@pytest.mark.parametrize("pseudonyms", [None, Pseudonyms(bytes(range(32)))])
@pytest.mark.parametrize("listed", [None, Vocabulary.listed(["1", "7", "é"])])
@pytest.mark.parametrize("text", [True, False])
@settings(max_examples=5)
@given(data=st.data())
def test_rosters_pseudonyms_and_lists(
    data: st.DataObject, roster: str | None, pseudonyms: Pseudonyms | None, listed: Vocabulary | None, text: bool
) -> None:
    """All ways of numbering publish the same rows of the same people."""
    extreme = st.sampled_from([0, 1, 7, -1, 2**62, -(2**63), 2**63 - 1])
    ids = st.text(min_size=1, max_size=20).filter(str.isprintable) | st.sampled_from(["é", "x" * 8, "x" * 16, "x" * 17])
    rows = data.draw(st.lists(st.tuples(ids if text else extreme, ids if text else extreme), min_size=1, max_size=30))
    people = [person for person, _ in rows]
    options: dict[str, Any] = {"user": "person", "attribute": "page", "nulls": "drop"}
    if roster is not None:
        named = sorted({*people[::2], *(["somebody"] if text else [5])})
        options["roster"] = [str(one) for one in named] if roster == "text" else named
    table = pa.table({"person": people, "page": [page for _, page in rows]})
    found = []
    for few, very_few, coded in ((MANY, MANY, True), (MANY, 0, True), (0, 0, True), (0, 0, False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numbered_table, "_FEW_ROWS", few)
            patch.setattr(numbered_table, "VERY_FEW_ROWS", very_few)
            if not coded:
                patch.setattr(numbered_table._CodedRows, "of", lambda *_, **__: None)
            with open_table(table, PLAN, Options(**options), vocabulary=listed, pseudonyms=pseudonyms) as one:
                ids_, keys = content(one)
                found.append((ids_, keys.tolist()))
    assert found[0] == found[1] == found[2] == found[3]


@pytest.mark.parametrize("coded", [True, False])
@pytest.mark.parametrize("few", [1 << 17, 0])
@pytest.mark.parametrize(
    ("people", "pages", "text"),
    [
        ([1, None], [1, 2], "no user"),
        (["ada", ""], [1, 2], "no user"),
        ([1, 2], ["tea", None], "no attribute"),
        ([None, 2], [None, None], "no user"),
    ],
)
def test_missing_cells_are_named_by_whoever_reads_them_first(
    people: Any, pages: Any, text: str, few: int, coded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbered_table, "_FEW_ROWS", few)
    if not coded:
        monkeypatch.setattr(numbered_table._CodedRows, "of", lambda *_, **__: None)
    table = pa.table({"person": people, "page": pages})
    with pytest.raises(DataError, match=text), open_table(table, PLAN, LONG):
        pass


@pytest.mark.parametrize("threads", [1, 2])
def test_one_thread_numbers_one_column_at_a_time(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    at_work, most = 0, 0
    started, number = threading.Barrier(threads), TextDictionary.number

    def watched(self: TextDictionary, column: pa.Array) -> NDArray[np.int64]:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        started.wait(60)
        found = number(self, column)
        at_work -= 1
        return found

    monkeypatch.setattr(numbered_table, "_FEW_ROWS", 0)
    monkeypatch.setattr(TextDictionary, "number", watched)
    with numbered([f"p{n}" for n in PEOPLE], [f"q{n}" for n in PAGES], memory=1 << 20, threads=threads):
        assert most == threads


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


def test_lists_of_json_are_taken_apart_by_as_many_threads_as_have_room(tmp_path: Path) -> None:
    """Two threads took apart 2,048 lists of 1,100 items each, and stopped at 640 MiB."""
    (tmp_path / "t.jsonl").write_text("{}")
    (tmp_path / "t.csv").write_text("")
    limits = Resources.of(memory=2 << 30, threads=2)
    assert limits.database_memory >= 640 << 20
    found = [
        numbered_table._reading_threads(tmp_path / name, limits, lists=lists)
        for name, lists in (("t.jsonl", True), ("t.jsonl", False), ("t.csv", False))
    ]
    assert found == [1, 2, 2]


@pytest.mark.parametrize("shape", ["a row for each", "lists"])
def test_people_are_not_told_apart_by_what_a_file_says_of_its_columns(tmp_path: Path, shape: str) -> None:
    """By a footer in which all ids are at most 10, DuckDB cut them to a byte: four people were one, and another one."""
    people = [0, 256, 512, 1_000_003]
    days = [dt.date(2020, 1, 1 + day) for day in range(4)]
    held = pa.array([[day] for day in days]) if shape == "lists" else pa.array(days)
    pq.write_table(pa.table({"person": people, "days": held}), tmp_path / "t.parquet", use_dictionary=False)
    whole = (tmp_path / "t.parquet").read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    told, false = (number.to_bytes(8, "little") for number in (1_000_003, 10))
    assert told in whole[footer:]
    (tmp_path / "t.parquet").write_bytes(whole[:footer] + whole[footer:].replace(told, false))
    chosen: dict[str, Any] = {"attributes" if shape == "lists" else "attribute": "days"}
    with open_table(tmp_path / "t.parquet", PLAN, Options(user="person", **chosen)) as table:
        assert table.users(0, table.n_users).to_pylist() == people
        assert [int(key) >> 32 for rows in table.rows() for key in rows.keys] == [0, 1, 2, 3]
