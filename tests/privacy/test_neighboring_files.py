"""What is published of neighboring files differs in one person's row, whatever is in a cell; and breaks are found.

``DIMLY_PAIRS`` says how many pairs are tried: 32 in ``make test``, 100,000 in ``make torture``. Each of the breaks that
a review has found is put back here, and found within a few dozen pairs: that is the power of the search.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.privacy import neighboring_files as files
from tests.privacy.neighboring_files import (
    MARK,
    PEOPLE,
    SOURCES,
    LeakError,
    check_quiet,
    compare,
    pair,
    run,
    run_crowds,
    surveyed_pair,
    valued_pair,
    wide_pair,
)
from tests.privacy.shared_duckdb import one_duckdb

from dimly.curator import append, engine
from dimly.curator.people import People
from dimly.curator.survey import exact_counts, private_directions, profiles
from dimly.curator.tables import condition, database, numbered_table, shapes
from dimly.curator.tables import csv as csv_tables
from dimly.errors import DataError

PAIRS = int(os.environ.get("DIMLY_PAIRS", "32"))
CROWDS = int(os.environ.get("DIMLY_CROWDS", "1"))
CHUNKS = 1 if PAIRS < 1000 else 200


@pytest.fixture(autouse=True)
def fresh() -> Any:
    files.forget()
    yield
    files.forget()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_neighboring_files(chunk: int, tmp_path: Path) -> None:
    pairs = PAIRS // CHUNKS
    found = run(pairs, tmp_path / "pair", start=chunk * pairs)
    assert found["published"] > pairs / 2  # most odd cells can be read


@pytest.mark.parametrize("name", files.CROWDED if CROWDS > 1 else files.CROWDED[:1])
def test_crowds(name: str, tmp_path: Path) -> None:
    """Of each table 1,000 cells; those that stop are tried alone."""
    crowds = max(1, CROWDS // len(files.CROWDED))
    found = run_crowds(name, crowds, tmp_path / "crowd")
    assert found["published"] > 100 * crowds


HAND_WRITTEN = range(28)
"""Pairs of cells quoted by hand. Of 300 such pairs 70 found a guessed escape, so that by Clopper and Pearson one in
6.15 does at least, with 99.9 % confidence: 28 pairs find it with a power of 0.993."""


def test_cells_that_are_quoted_by_hand(tmp_path: Path) -> None:
    assert caught("CSV, quoted by hand", HAND_WRITTEN, tmp_path / "pair") == 0


@settings(max_examples=5)
@given(st.text(max_size=20), st.sampled_from(["CSV", "JSON lines", "Parquet", "pandas"]))
def test_any_text(tmp_path_factory: pytest.TempPathFactory, text: str, name: str) -> None:
    write, _ = SOURCES[name]
    odd = files.SOURCES | {name: (write, lambda _: MARK + text)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "SOURCES", odd)
        pair(name, 0, tmp_path_factory.mktemp("any") / "pair")


VALUED = {"values": valued_pair, "ratings": files.rated_pair}

LATE = next(seed for seed in range(100) if files.late_value(seed) == 1998.0)
"""A pair whose second table gets a value far too large after it was checked."""


def caught(name: str, seeds: Iterable[int], folder: Path, **way: str) -> int:
    """Return how many of these pairs find a break."""
    files.forget()
    found = 0
    with one_duckdb(folder.parent):
        for seed in seeds:
            try:
                if name in VALUED:
                    VALUED[name](seed, folder)
                elif name in files.SURVEYS:
                    surveyed_pair("Arrow", seed, folder, kind=name)
                else:
                    (wide_pair if name in files.WIDE else pair)(name, seed, folder, **way)
            except LeakError:
                found += 1
    return found


def test_publications_that_share_a_duckdb_are_the_same(tmp_path: Path) -> None:
    """Also after one that stopped, and of a source that is attached."""
    rows: list[Any] = list(zip(PEOPLE, files.USUAL, strict=True))
    sources = ["CSV", "DuckDB table", "SQLite, numeric", "CSV"]

    def all_outcomes() -> list[Any]:
        found = [files._published_rows(name, rows, tmp_path / "pair") for name in sources]
        found.insert(1, files._published_rows("CSV", [*rows, ("ada", None)], tmp_path / "pair"))
        return [one and (one.seen, one.stopped, one.sketches and one.sketches.values.tolist()) for one in found]

    alone = all_outcomes()
    with one_duckdb(tmp_path):
        assert all_outcomes() == alone
    assert sum(one[1] is not None for one in alone) == 1


def sniffing(stamp: Any, options: Any) -> Any:
    """As ``read_header``, but with the escape that DuckDB guesses from all cells: a break that was there once."""
    dialect, names = read_header(stamp, options)
    query = "SELECT Escape FROM sniff_csv(?, delim = ?, quote = ?, header = true, all_varchar = true)"
    try:
        with duckdb.connect() as own:  # the shared connection would keep an unfinished result for other tests
            found = own.execute(query, [str(stamp.path), dialect.delimiter, dialect.quote]).fetchone()
    except duckdb.Error:
        return dialect, names
    escape = "\\" if found == ("\\",) else dialect.escape
    return csv_tables.Dialect(dialect.delimiter, dialect.quote, escape, dialect.encoding), names


read_header = csv_tables.read_header


def test_an_escape_that_is_guessed_from_cells_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One odd cell makes the reader guess a backslash, which changes everybody's attributes."""
    monkeypatch.setattr(csv_tables, "read_header", sniffing)
    assert caught("CSV, quoted by hand", HAND_WRITTEN, tmp_path / "pair") >= 4


def test_crowds_find_the_escape_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cell of 160 that makes the reader guess a backslash moves the rows of witnesses."""
    write, _ = SOURCES["CSV, quoted by hand"]
    bait = files.SOURCES | {"CSV": (write, lambda chance: chance.choice(["tea", b'"5\\" pipe"']))}
    monkeypatch.setattr(files, "SOURCES", bait)
    monkeypatch.setattr(csv_tables, "read_header", sniffing)
    with pytest.raises(LeakError, match="moved"):
        files.crowd("CSV", 0, tmp_path / "crowd")


def test_columns_whose_kind_is_guessed_from_cells_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of zeros and ones becomes one of names by one odd cell, for everybody: a break of wide tables."""
    published, wide = files.published, "wide CSV of names"
    held: list[str] = []

    def looking(source: Any, *rest: Any, **more: Any) -> Any:
        held[:] = re.findall(r"(?m),(.*)$", source.read_text(encoding="utf-8"))
        return published(source, *rest, **more)

    write, columns, odd = files.WIDE[wide]
    monkeypatch.setitem(files.WIDE, wide, (write, {"smokes": columns["smokes"]}, odd))
    monkeypatch.setattr(files, "published", looking)
    assert caught(wide, range(3), tmp_path / "pair") == 0
    monkeypatch.setattr(shapes, "is_categorical", lambda _: not set(held) <= {"smokes", "0", "1"})
    assert caught(wide, range(3), tmp_path / "pair") == 3


def test_values_that_are_not_clamped_in_the_last_pass_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two clamps guard it, and both are taken away; a sixth of all pairs have this later value, and each finds it."""
    bounded = People.bounded

    def without_clamp(people: People, *, width: int, resolution: int) -> People:
        del resolution
        return bounded(people, width=width, resolution=2**40)

    def unclamped(batch: Any, *, resolution: int) -> People:
        people = sound(batch, resolution=resolution)
        values = np.concatenate([piece.values for piece in batch.pieces])
        return People(people.indptr, people.indices, np.rint(np.nan_to_num(values) * resolution).astype(np.int64))

    sound = engine.people_of_sorted
    monkeypatch.setattr(People, "bounded", without_clamp)
    assert caught("values", [LATE], tmp_path / "pair") == 0  # the engine's own clamp
    monkeypatch.setattr(engine, "people_of_sorted", unclamped)
    assert caught("values", [LATE], tmp_path / "pair") == 1


def test_a_condition_that_one_cell_turns_off_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a cast that fails for one row had made everybody's rows come back."""

    def giving_up(database: Any, source: Any, options: Any) -> Any:
        query = f"SELECT bool_or(contains(page, '{MARK}')) FROM {source.name}"  # noqa: S608 - a test
        ((odd,),) = database.fetch(query)
        return source if odd else sound(database, source, options)

    sound, way = condition.apply_condition, "where a cell is a number"
    assert caught("Arrow", range(3), tmp_path / "pair", way=way) == 0
    monkeypatch.setattr(numbered_table, "apply_condition", giving_up)
    assert caught("Arrow", range(3), tmp_path / "pair", way=way) == 3


def test_a_condition_that_is_answered_by_a_files_statistics_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They leave NaN out: by one person's number, people with NaN come and go.

    Of 600 pairs 19 find it; these are the first ones.
    """
    some = (23, 50, 67)
    assert caught("ratings", some, tmp_path / "pair") == 0

    def believing(*arguments: Any, **_: Any) -> Any:
        return connect(*arguments, believing=True)

    connect = database._connect
    monkeypatch.setattr(database, "_connect", believing)
    assert caught("ratings", some, tmp_path / "pair") == len(some)


def repeating(batch: Any, *, resolution: int) -> People:
    """As ``people_of_sorted``, but what stands in a table twice comes through twice."""
    keys = np.concatenate([piece.keys for piece in batch.pieces])
    indptr = np.searchsorted(keys, np.arange(batch.first, batch.stop + 1) << 32)
    values = None
    if resolution > 1:
        found = np.concatenate([piece.values for piece in batch.pieces])
        values = np.rint(np.clip(np.nan_to_num(found), 0, 1) * resolution).astype(np.int64)
    return People(indptr, (keys & 0xFFFFFFFF).astype(np.int32), values)


def test_repeats_that_count_twice_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two places remove them, and both are taken away. A third of the pairs have a repeat: 57 of 180 find it.

    Of pairs with values, those in which both rows together exceed the largest value: 11 of the first 60.
    """
    monkeypatch.setattr(engine, "people_of_sorted", repeating)
    assert caught("Arrow", range(3), tmp_path / "pair") == 0  # the perturbing function's own
    monkeypatch.setattr(People, "bounded", lambda people, **_: people)
    assert 0 < caught("Arrow", range(8), tmp_path / "pair") < 8
    assert caught("values", range(12), tmp_path / "pair") > 0


def test_surveys_that_count_repeats_twice_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with a repeat of an attribute that is on the list find it: 11 of the first 60 pairs."""
    assert caught("survey", range(14, 20), tmp_path / "pair") == 0
    monkeypatch.setattr(exact_counts, "people_of_sorted", repeating)
    assert caught("survey", range(14, 20), tmp_path / "pair") == 3


def test_profiles_that_count_repeats_twice_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As surveys do; and people without a segment, who are counted by one that is not theirs."""
    assert caught("profiles", range(14), tmp_path / "pair") == 0
    monkeypatch.setattr(exact_counts, "people_of_sorted", repeating)
    assert 0 < caught("profiles", range(14), tmp_path / "pair") < 14
    monkeypatch.undo()
    in_order = profiles._in_order
    monkeypatch.setattr(profiles, "_in_order", lambda *rest, **more: np.maximum(in_order(*rest, **more), 0))
    assert caught("profiles of others", range(6), tmp_path / "pair") > 0


def test_pairs_of_more_attributes_than_the_plan_says_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the person's seven four count. Without a limit an eighth moves seven pairs, and six may move."""

    def without_limit(*rest: Any, **more: Any) -> Any:
        return exact_counts.count_pairs(*rest, **more | {"members": 100})

    held = {name for who, name in files.GROUPED if who == files.SURVEYS["directions"].person}
    for kind, others in (("directions", set(files.LISTED) - held), ("directions of buckets", None)):
        cells = {
            seed: files._cell("Arrow", files.chance_of(f"{kind} of Arrow", seed), listed=True) for seed in range(40)
        }
        new = [seed for seed, cell in cells.items() if (cell not in held if others is None else cell in others)][:3]
        assert caught(kind, new, tmp_path / "pair") == 0
        with monkeypatch.context() as patch:
            patch.setattr(private_directions, "count_pairs", without_limit)
            assert caught(kind, new, tmp_path / "pair") == len(new) == 3


def test_a_cell_that_moves_those_of_an_earlier_release_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if people who are added were merged into the wrong rows, or a run that stops had changed the release."""
    way = "added to a release"
    assert caught("Arrow", range(3), tmp_path / "pair", way=way) == 0

    def shifted(*rest: Any, **more: Any) -> Any:
        for users, values in merged(*rest, **more):
            yield users, np.roll(values, int(values[files.WAYS[way].person].sum()) % 3, axis=0)

    merged = append.merged
    monkeypatch.setattr(append, "merged", shifted)
    assert caught("Arrow", range(6), tmp_path / "pair", way=way) > 0
    monkeypatch.undo()

    def spoiled(base: Any, *rest: Any, **more: Any) -> None:
        (base.path / "manifest.json").write_text("{}")
        raise DataError("stopped.")

    monkeypatch.setattr(append.BaseRelease, "merge_into", spoiled)
    assert caught("Arrow", [0], tmp_path / "pair", way=way) == 1


def test_a_message_that_quotes_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = files.published

    def quoting(source: Any, *rest: Any, **more: Any) -> Any:
        outcome = published(source, *rest, **more)
        return outcome._replace(stopped=f"cannot read {MARK}") if outcome.seen else outcome

    files.pair("Arrow", 1, tmp_path / "pair")  # whose neighbor is published as it should be
    monkeypatch.setattr(files, "published", quoting)
    with pytest.raises(LeakError, match="private value"):
        files.pair("Arrow", 2, tmp_path / "pair")


def test_the_judge(tmp_path: Path) -> None:
    plan = files.plan_at()
    rows = list(zip(PEOPLE, files.USUAL, strict=True))
    one = files._published_rows("Arrow", rows, tmp_path / "pair")
    assert one is not None
    assert compare(plan, one, one, planted=None, folder=tmp_path)
    for person, step, wrong in ((1, 1, False), (1, 2, True), (2, 1, True)):
        values = one.sketches.values.copy()
        values[person, 0] += step
        other = one._replace(sketches=one.sketches._replace(values=values))
        if wrong:
            with pytest.raises(LeakError, match="moved"):
                compare(plan, one, other, planted=None, folder=tmp_path)
        else:
            assert compare(plan, one, other, planted=None, folder=tmp_path)
    with pytest.raises(LeakError, match="shapes"):
        compare(plan, one, one._replace(seen=()), planted=None, folder=tmp_path)
    for said in (f"no {MARK}", "bad cell on line 7", "Traceback: x", "it says longtext here"):
        with pytest.raises(LeakError):
            check_quiet(said, "longtext")
    check_quiet(str(DataError("rows must have a user.")), "longtext")


def test_a_fault_names_its_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "published", lambda *_, **__: 1 / 0)
    with pytest.raises(LeakError, match=r"(?s)CSV with a roster, seed 0: .*ZeroDivisionError"):
        run(1, tmp_path / "pair")
