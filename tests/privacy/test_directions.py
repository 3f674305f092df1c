"""Along public directions, neighboring tables move no sketch farther than the plan says, whatever the directions are.

The same noise is replayed; so is a table that goes the whole way through the local engine. What is published is also
worked out in plain Python, so that a bound which holds because everything counts nothing would be noticed.
"""

import tempfile
import warnings
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.directions import DIRECTIONS, named, plain
from tests.matrices import publish_matrix
from tests.privacy.moves import check, moved
from tests.streams import NO_NOISE, Recorded

from dimly.curator.options import Options
from dimly.curator.publication import publish_table
from dimly.curator.sketcher import Sketcher
from dimly.errors import PrivacyWarning
from dimly.mechanisms import Directions, Plan, Sensitivity
from dimly.privacy import Budget
from dimly.privacy.budget import Unit
from dimly.release.reader import open_folder

NAMES = [*map(str, range(100)), *(f"c{column}={value}" for column in range(10) for value in range(10))]
COLUMNS = range(100, 200, 10)
LAWS = {"directions+laplace": Budget(1.0), "directions+gaussian": Budget(1.0, 1e-6)}
every_kind = pytest.mark.parametrize("kind", DIRECTIONS)


def plan_along(kind: str, mechanism: str = "directions+laplace", **others: Any) -> Plan:
    return Plan.of(mechanism, LAWS[mechanism], directions=named(kind), **others)


def people(seed: int, resolution: int) -> Any:
    """Return a table in which everybody has one category of each column."""
    generator = np.random.default_rng(seed)
    steps = generator.integers(1, resolution, (5, len(NAMES)), endpoint=True)
    table = steps * (generator.random(steps.shape) < 0.3)
    table[:, 100:] = 0
    for start in COLUMNS:
        table[np.arange(5), start + generator.integers(10, size=5)] = resolution
    return table / resolution


@every_kind
@pytest.mark.parametrize("mechanism", LAWS)
@pytest.mark.parametrize("resolution", [1, 5])
@pytest.mark.parametrize("unit", get_args(Unit))
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_one_change_moves_a_sketch_no_farther_than_the_plan_says(
    kind: str, mechanism: str, resolution: int, unit: Unit, seed: int
) -> None:
    plan = plan_along(kind, mechanism, resolution=resolution, unit=unit)
    one = people(seed, resolution)
    other, generator = one.copy(), np.random.default_rng(seed + 1)
    person = int(generator.integers(5))
    if unit == "attribute":
        column = int(generator.integers(len(NAMES)))
        other[person, column] = 1 - np.round(one[person, column])
    else:
        start = int(generator.choice(COLUMNS))
        other[person, start : start + 10] = 0
        if generator.random() < 0.9:  # else the cell becomes empty
            other[person, start + generator.integers(10)] = 1
    words = Recorded(3), Recorded(3)
    releases = [
        publish_matrix(table, plan, attributes=NAMES, words=source)
        for table, source in zip((one, other), words, strict=True)
    ]
    check(plan, moved(plan, *releases), person)
    assert words[0].asked == words[1].asked


@every_kind
@pytest.mark.parametrize("unit", get_args(Unit))
def test_the_bound_is_reached(kind: str, unit: Unit) -> None:
    """Some change moves a sketch as far as the noise is for: no less would do."""
    plan, directions = plan_along(kind, unit=unit), named(kind)
    if directions.buckets is not None:
        tried = [str(number) for number in range(200)]
    else:
        tried = list(directions.vocabulary or ())
    rows = {name: plain(directions, {name: 1}) for name in tried}
    moves = [np.abs(row).sum() for row in rows.values()]
    if unit == "column":
        moves += [np.abs(rows[a] - rows[b]).sum() for a in tried for b in tried]
    assert max(moves) == plan.sensitivity.l1


ONE_HOT = {
    "one-hot": ["color_red", "color_blue", "color_green", "size_s", "size_l"],
    "plain": ["red", "blue", "green", "s", "l"],
    "equals": ["color=red", "size=s", "taste=", "=x", "a=b=c"],
}


@pytest.mark.parametrize("mechanism", LAWS)
@pytest.mark.parametrize("names", ONE_HOT.values(), ids=ONE_HOT)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
@pytest.mark.thorough(but=1)
def test_names_do_not_say_which_attributes_a_column_exchanges(mechanism: str, names: list[str], seed: int) -> None:
    """A matrix that was made one-hot elsewhere, and a long table, whose names say nothing of columns."""
    generator = np.random.default_rng(seed)
    directions = Directions.of_values(names, generator.uniform(-1, 1, (5, 2)), origin="tests")
    plan = Plan.of(mechanism, LAWS[mechanism], directions=directions, unit="column")
    one, (before, after) = (generator.random((4, 5)) < 0.4).astype(int), generator.choice(5, 2, replace=False)
    one[2, [before, after]] = 1, 0
    other = one.copy()
    other[2, [before, after]] = 0, 1
    releases = [publish_matrix(table, plan, attributes=names, words=Recorded(3)) for table in (one, other)]
    check(plan, moved(plan, *releases), 2)
    with tempfile.TemporaryDirectory() as folder:
        for number, table in enumerate((one, other)):
            users, places = np.nonzero(table)
            source = pa.table({"user": users, "attribute": [names[place] for place in places]})
            out = Path(folder) / str(number)
            options = Options(
                user="user", attribute="attribute", out=out, roster=pa.table({"user": list(range(4))}), threads=1
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyWarning)
                publish_table(source, plan, options, words=lambda: Recorded(3))
        first, second = (open_folder(Path(folder) / str(number)).values.astype(np.int64) for number in range(2))
        check(plan, first - second, 2)


def test_two_opposite_rows_are_two_apart() -> None:
    """Rows of +1 and -1: a cell that changes from one to the other moves a sketch by two rows."""
    for names in (["red", "blue"], ["color_red", "color_blue"], ["color=red", "colour=blue"]):
        directions = Directions.of_values(names, [[1.0], [-1.0]], origin="tests", scale=128)
        plan = Plan.of("directions+laplace", Budget(1.0), directions=directions, unit="column")
        assert plan.sensitivity == Sensitivity(256, 256**2)


@every_kind
@pytest.mark.parametrize("resolution", [1, 4])
def test_engine_matrix_and_sketcher_publish_the_same_sums(tmp_path: Path, kind: str, resolution: int) -> None:
    plan, directions = plan_along(kind, resolution=resolution), named(kind)
    table = people(7, resolution)
    held = [{NAMES[j]: round(row[j] * resolution) for j in np.flatnonzero(row)} for row in table]
    expected = np.array([plain(directions, one) for one in held])
    assert np.array_equal(publish_matrix(table, plan, attributes=NAMES, words=NO_NOISE).values, expected)
    sketcher = Sketcher(Plan.from_json(plan.to_json()), directions=directions)
    for one, sums in zip(held, expected, strict=True):
        given = {name: steps / resolution for name, steps in one.items()}
        assert np.array_equal(sketcher._sketch(given, NO_NOISE), sums)
    rows = [(i, name, steps / resolution) for i, one in enumerate(held) for name, steps in one.items()]
    source = pa.table(dict(zip(("user", "attribute", "value"), map(list, zip(*rows, strict=True)), strict=True)))
    options = Options(
        user="user",
        attribute="attribute",
        value="value" if resolution > 1 else None,
        directions=directions,
        out=tmp_path / "release",
        roster=pa.table({"user": list(range(5))}),
    )
    publish_table(source, Plan.from_json(plan.to_json()), options, words=lambda: NO_NOISE)
    assert np.array_equal(open_folder(tmp_path / "release").values, expected)


def test_a_category_counts_once_however_many_of_its_attributes_a_person_has() -> None:
    directions = named("categories")
    group = np.flatnonzero(directions.category_of == 0)
    names = [(directions.vocabulary or ())[place] for place in group.tolist()]
    plan = plan_along("categories", resolution=4)
    row = {name: (1 + place % 4) / 4 for place, name in enumerate(names)}
    sketch = Sketcher(plan)._sketch(row, NO_NOISE)
    assert np.array_equal(sketch, 4 * directions.matrix[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matrix = publish_matrix([list(row.values())], plan, attributes=list(row), words=NO_NOISE)
    assert np.array_equal(matrix.values[0], sketch)
