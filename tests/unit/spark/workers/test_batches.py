"""Batches of whole people: the same ones from the same rows, and a digest of all that they hold."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.plans import plan_of

from dimly.errors import DataError
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.spark.workers.batches import ExactRows, batches_of_place, whole_people
from dimly.spark.workers.pieces import SortedRows

BITS = plan_of("counting+laplace")
VALUES = Plan.of("counting+laplace", Budget(1.0), k=8, resolution=4)
POSITIONS = plan_of("randomized-response")
KINDS = {"u": pa.string(), "a": pa.string(), "v": pa.float64()}

People = dict[str, dict[Any, float]]


def sorted_rows(rows: list[tuple[Any, ...]], *, by_position: bool = False) -> SortedRows:
    """Return rows as a piece."""
    kinds = KINDS | {"a": pa.int32() if by_position else pa.string()}
    return SortedRows.of(
        pa.table({name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(kinds.items())}),
        key=None,
    )


@pytest.mark.parametrize("most_rows", [2, 3, 100, None])
def test_few_rows_are_looked_at_together(most_rows: int | None) -> None:
    first = sorted_rows([(who, str(what), 1.0) for who in "abcd" for what in range("abcd".index(who) + 1)])
    second = sorted_rows([(who, str(what), 1.0) for who in "bd" for what in range(2)] + [("e", None, None)])
    found = list(whole_people([first, second], most_rows=most_rows))
    people = [sorted({who for piece in some for who in piece.users.to_pylist()}) for some in found]
    assert [who for some in people for who in some] == list("abcde")  # each at once
    sizes = [sum(len(piece.codes) for piece in some) for some in found]
    assert sum(sizes) == 14
    if most_rows in (100, None):
        assert len(found) == 1
    else:
        assert all(size <= most_rows or len(some) == 1 for size, some in zip(sizes, people, strict=True))
    assert not list(whole_people([], most_rows=most_rows))


def arriving(people: People, generator: np.random.Generator) -> list[SortedRows]:
    """Return rows in pieces of any size, in any order and with repeats, and everybody as a list."""
    rows: list[tuple[Any, ...]] = []
    for who, held in people.items():
        rows += [(who, what, value) for what, value in held.items()]
        rows += [(who, what, value * generator.random()) for what, value in held.items()]  # the largest counts
        rows += [(who, None, None)] * int(generator.integers(1, 3))
    rows = [rows[i] for i in generator.permutation(len(rows))]
    pieces = [SortedRows.of_people(pa.array(list(people)), key=None)]
    while rows:
        size = int(generator.integers(1, 80))
        pieces.append(sorted_rows(rows[:size]))
        rows = rows[size:]
    return [pieces[i] for i in generator.permutation(len(pieces))]


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("most_rows", [3, 20, None])
def test_the_same_rows_make_the_same_batches_however_they_arrive(most_rows: int | None, listed: bool) -> None:
    generator = np.random.default_rng(5)
    people: People = {
        f"user {i:03d}": {
            str(what): float(generator.integers(1, 5)) / 4
            for what in generator.permutation(50)[: generator.integers(7)]
        }
        for i in range(60)
    }
    found = []
    for seed in range(8):
        pieces = arriving(people, np.random.default_rng(seed))
        made = list(batches_of_place(pieces, VALUES, listed=listed, most_rows=most_rows))
        assert [who for _, some in made for who in some.users.to_pylist()] == list(people)
        assert [number for number, _ in made] == list(range(len(made)))
        if most_rows is not None:
            sizes = [np.diff(some.indptr) for _, some in made]
            assert all(one.sum() <= most_rows or len(one) == 1 for one in sizes)
            assert len(made) > 3
        found.append([some.digest() for _, some in made])
    assert all(one == found[0] for one in found)
    assert len(set(found[0])) == len(found[0])


def test_with_a_roster_only_those_on_it_are_taken() -> None:
    rows = sorted_rows([("ada", "tea", 1.0), ("bob", "jam", 0.5), ("cy", "rye", 1.0)])
    some = SortedRows.of_people(pa.array(["bob", "dee"]), key=None)
    found = ExactRows.of([rows, some], VALUES, listed=True)
    assert found.users.to_pylist() == ["bob", "dee"]
    assert found.texts is not None
    assert (found.indptr.tolist(), found.texts.to_pylist()) == ([0, 1, 1], ["jam"])
    nobody = ExactRows.of([some], VALUES, listed=True)
    assert (nobody.users.to_pylist(), nobody.indptr.tolist()) == (["bob", "dee"], [0, 0, 0])
    assert not len(ExactRows.of([rows], VALUES, listed=True))


def test_values_are_clipped_where_they_are_published() -> None:
    """Whatever a pass before this one found: rows that Spark loses are read again."""
    values = [1998.0, -3.0, float("nan"), float("inf"), 0.5]
    rows = sorted_rows([("ada", str(i), value) for i, value in enumerate(values)])
    found = ExactRows.of([rows], VALUES, listed=False)
    assert found.steps is not None
    assert found.texts is not None
    assert found.texts.to_pylist() == [str(i) for i in range(5)]
    assert found.steps.tolist() == [4, 0, 0, 4, 2]


def exact(plan: Plan, people: People) -> ExactRows:
    """Return some people's rows."""
    rows: list[Any] = [(who, what, value) for who, held in people.items() for what, value in held.items()]
    rows += [(who, None, None) for who, held in people.items() if not held]
    return ExactRows.of([sorted_rows(rows, by_position=plan.by_position)], plan, listed=False)


def test_all_that_is_perturbed_is_in_the_digest() -> None:
    some: list[People] = [
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
    places: list[People] = [{"a": {1: 1.0}}, {"a": {2: 1.0}}, {"a": {}}]
    assert len({exact(POSITIONS, people).digest() for people in places}) == 3


def test_a_slice_has_the_digest_of_its_people() -> None:
    people: People = {f"user {i}": {str(what): 0.5 for what in range(i)} for i in range(6)}
    whole = exact(VALUES, people)
    part = exact(VALUES, {who: people[who] for who in list(people)[2:5]})
    assert whole.between(2, 5).digest() == part.digest()
    joined = ExactRows.joined(ExactRows.joined(whole.between(0, 2), whole.between(2, 5)), whole.between(5, 6))
    assert joined.digest() == whole.digest()


def test_a_second_row_of_somebody_is_refused() -> None:
    rows = pa.table({"u": ["ada", "ada", "bob"], "a": pa.nulls(3, pa.string()), "m": [True, True, True]})
    apart = [SortedRows.of(rows.slice(start, 1), key=None) for start in range(3)]
    for pieces in ([SortedRows.of(rows, key=None)], apart):
        with pytest.raises(DataError, match="the table must stay as it is while it is read"):
            ExactRows.of(pieces, BITS, listed=False)
    assert len(ExactRows.of(apart[1:], BITS, listed=False)) == 2
