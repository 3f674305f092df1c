"""Batches of whole people: the same ones from the same rows, and a digest of all that they hold."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.plans import plan_of
from tests.unit.spark.sorted_rows import ROWS, batches

from dimly.errors import DataError
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.spark.workers.batches import ExactRows, batches_of_places, whole_people

BITS = plan_of("counting+laplace")
VALUES = Plan.of("counting+laplace", Budget(1.0), k=8, resolution=4)
POSITIONS = plan_of("randomized-response")
SCHEMA = pa.schema({"place": pa.int32(), "u": pa.string(), "a": pa.string(), "v": pa.float64()})


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_tables_end_between_people(size: int) -> None:
    tables = list(whole_people(batches(ROWS, size), most_rows=2))
    people = [list(dict.fromkeys(zip(*(table.column(i).to_pylist() for i in (0, 1)), strict=True))) for table in tables]
    found = [one for some in people for one in some]
    assert found == [(5, "ada"), (5, "bob"), (9, "cy"), (9, "dee")]  # each in one table
    assert pa.concat_tables(tables).num_rows == len(ROWS)
    assert size > 2 or len(tables) > 1
    assert len(list(whole_people(batches(ROWS, size), most_rows=None))) == 1
    assert not list(whole_people(batches([], size), most_rows=2))


def test_somebody_with_more_rows_than_a_table_takes_is_not_cut() -> None:
    rows = [(5, "ada", str(i)) for i in range(50)] + [(5, "bob", "1")]
    sizes = [table.num_rows for table in whole_people(batches(rows, 1), most_rows=3)]
    assert sizes[0] >= 50
    assert sum(sizes) == 51


def arriving(people: dict[tuple[int, str], dict[str, float]], generator: np.random.Generator) -> Iterator[Any]:
    """Yield rows in pieces of any size, people in order, and those of a person in any order with repeats."""
    rows: list[tuple[Any, ...]] = []
    for (place, who), held in people.items():
        mine: list[tuple[Any, ...]] = [(place, who, what, value) for what, value in held.items()]
        mine += [(place, who, what, value * generator.random()) for what, value in held.items()]  # the largest counts
        mine += [(place, who, None, None)] * int(generator.integers(1, 3))
        rows += [mine[i] for i in generator.permutation(len(mine))]
    while rows:
        size = int(generator.integers(1, 40))
        yield pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows[:size]], SCHEMA)
        rows = rows[size:]


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("most_rows", [3, 20, None])
def test_the_same_rows_make_the_same_batches_however_they_arrive(most_rows: int | None, listed: bool) -> None:
    generator = np.random.default_rng(5)
    people: dict[tuple[int, str], dict[str, float]] = {
        (i // 20, f"user {i:03d}"): {
            str(what): float(generator.integers(1, 5)) / 4
            for what in generator.permutation(50)[: generator.integers(7)]
        }
        for i in range(60)
    }
    found = []
    for seed in range(8):
        rows = arriving(people, np.random.default_rng(seed))
        made = list(batches_of_places(rows, VALUES, listed=listed, most_rows=most_rows))
        users = [(place, who) for place, _, some in made for who in some.users.to_pylist()]
        assert users == list(people)
        if most_rows is not None:
            sizes = [np.diff(some.indptr) for _, _, some in made]
            assert all(one.sum() <= most_rows or len(one) == 1 for one in sizes)
            assert len(made) > 3  # cut within places, too
        found.append([(place, number, some.digest()) for place, number, some in made])
    assert all(one == found[0] for one in found)
    assert len(set(found[0])) == len(found[0])
    for place in range(3):  # numbered from 0 within each place
        numbers = [number for here, number, _ in found[0] if here == place]
        assert numbers == list(range(len(numbers)))


def exact(plan: Plan, people: dict[str, dict[Any, float]]) -> ExactRows:
    """Return some people's rows."""
    rows: list[Any] = [(who, what, value) for who, held in people.items() for what, value in held.items()]
    rows += [(who, None, None) for who, held in people.items() if not held]
    kind = pa.int32() if plan.by_position else pa.string()
    columns = [pa.array([row[i] for row in rows], t) for i, t in enumerate((pa.string(), kind, pa.float64()))]
    table = pa.table(columns, names=["u", "a", "v"]).sort_by("u")
    return ExactRows.of(table, plan, listed=False)


def test_all_that_is_perturbed_is_in_the_digest() -> None:
    some: list[dict[str, dict[Any, float]]] = [
        {"ada": {"tea": 1.0, "jam": 0.5}, "bob": {"jam": 1.0}},
        {"ada": {"tea": 1.0, "jam": 0.75}, "bob": {"jam": 1.0}},  # a value
        {"ada": {"tea": 0.5, "jam": 1.0}, "bob": {"jam": 1.0}},  # values that are exchanged
        {"ada": {"tea": 1.0}, "bob": {"jam": 1.0}},  # one attribute less
        {"ada": {"tea": 1.0, "ham": 0.5}, "bob": {"jam": 1.0}},  # another one
        {"ada": {"tea": 1.0, "jam": 0.5}, "bot": {"jam": 1.0}},  # somebody else
        {"ada": {"tea": 1.0, "jam": 0.5}, "bob": {"jam": 1.0}, "cy": {}},  # and somebody more
        {"ada": {"tea": 1.0}, "bob": {"jam": 1.0, "tea": 0.5}},  # the other one's
        {"ada": {}, "bob": {"tea": 1.0, "jam": 1.0}},
        {"ada": {"tea": 1.0, "jam": 1.0}, "bob": {}},
        {"ad": {"tea": 1.0, "jam": 0.5}, "abob": {"jam": 1.0}},  # letters that move from one text to the next
        {"ada": {"teaj": 1.0, "am": 0.5}, "bob": {"jam": 1.0}},
    ]
    for plan in (BITS, VALUES):
        digests = [exact(plan, people).digest() for people in some]
        different = 12 if plan is VALUES else 10  # bits have no values
        assert len(set(digests)) == different
        assert digests == [exact(plan, people).digest() for people in some]
    places: list[dict[str, dict[Any, float]]] = [{"a": {1: 1.0}}, {"a": {2: 1.0}}, {"a": {}}]
    assert len({exact(POSITIONS, people).digest() for people in places}) == 3


def test_a_slice_has_the_digest_of_its_people() -> None:
    people: dict[str, dict[Any, float]] = {f"user {i}": {str(what): 0.5 for what in range(i)} for i in range(6)}
    whole = exact(VALUES, people)
    part = exact(VALUES, {who: people[who] for who in list(people)[2:5]})
    assert whole.between(2, 5).digest() == part.digest()
    joined = ExactRows.joined([whole.between(0, 2), whole.between(2, 5), whole.between(5, 6)])
    assert joined.digest() == whole.digest()


def test_a_second_row_of_somebody_is_refused() -> None:
    rows = pa.table({"u": ["ada", "ada", "bob"], "a": pa.nulls(3, pa.string()), "m": [True, True, True]})
    with pytest.raises(DataError, match="the table must stay as it is while it is read"):
        ExactRows.of(rows, BITS, listed=False)
    assert len(ExactRows.of(rows.slice(1), BITS, listed=False)) == 2
