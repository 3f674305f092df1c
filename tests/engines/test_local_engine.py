"""The local engine where it has to cut and to forget: nothing of it can be seen in what it publishes."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.engines.crowds import LONG, crowd, table_of
from tests.engines.engine import LocalEngine, silence
from tests.engines.tables import SHAPES, check, plan_for, vocabulary
from tests.folders import small_parts

from dimly.analyst.release import Release
from dimly.curator import engine as local
from dimly.curator.options import Options, Resources
from dimly.curator.publication import publish_in_memory
from dimly.curator.tables.numbered_table import NumberedRows, NumberedTable, open_table
from dimly.mechanisms.vocabulary import Vocabulary

__all__ = ["small_parts"]  # a fixture


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read seven rows at a time, and let no batch have more than ten unless one person does."""
    rows = NumberedTable.rows

    def in_pieces(table: NumberedTable) -> Iterator[NumberedRows]:
        for some in rows(table):
            for start in range(0, len(some), 7):
                yield some.slice(start, start + 7)

    monkeypatch.setattr(NumberedTable, "rows", in_pieces)
    monkeypatch.setattr(local, "cut_batches", partial(local.cut_batches, most_rows=10))


@pytest.fixture
def no_room_for_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave memory for one row of the projection."""
    monkeypatch.setattr(Resources, "rows_memory", property(lambda _: 1))


@pytest.mark.usefixtures("small_batches", "no_room_for_rows")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("mechanism", ["counting+laplace", "sign+gaussian"])
@pytest.mark.thorough(but=2)
def test_batches_end_between_people_and_rows_are_derived_again(mechanism: str, threads: int, tmp_path: Path) -> None:
    people = crowd(50)
    plan = plan_for(mechanism, listed=False)
    release = LocalEngine().publish(
        table_of(people), plan, roster=list(people), threads=threads, out=tmp_path / "out", **LONG
    )
    check(release, people)


@pytest.mark.usefixtures("small_batches", "no_room_for_rows")
@pytest.mark.parametrize("mechanism", ["sparse+gaussian", "noisy-distances", "ternary+gaussian"])
def test_so_are_values_and_closed_vocabularies(mechanism: str, tmp_path: Path) -> None:
    table, options, people = SHAPES["long with values"]()
    plan = plan_for(mechanism, values=True)
    release = LocalEngine().publish(table, plan, vocabulary=vocabulary(), out=tmp_path / "out", **options)
    check(release, people, vocabulary())


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("mechanism", ["sparse+laplace", "gaussian+gaussian", "randomized-response", "noisy-distances"])
def test_in_memory_it_is_the_same(mechanism: str, tmp_path: Path) -> None:
    table, options, people = SHAPES["list"]()
    plan = plan_for(mechanism)
    listed, chosen = Vocabulary.listed(vocabulary()), Options(**options)
    opening = open_table(table, plan, chosen, vocabulary=listed)
    sketches = publish_in_memory(opening, plan, chosen, words=lambda: silence(plan))
    check(Release(sketches, vocabulary=listed), people, vocabulary())
