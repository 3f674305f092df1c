"""Along public directions, by every engine: what is published is the sum of rows, worked out in plain Python."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.directions import named, plain
from tests.engines.engine import Engine, LocalEngine
from tests.folders import small_parts

from dimly.analyst.release import Release
from dimly.curator.ledger.ledger import Ledger
from dimly.errors import ParameterError
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release.documents.directions_file import write_directions

__all__ = ["small_parts"]  # a fixture

RESOLUTION = 4
LONG: dict[str, Any] = {"user": "person", "attribute": "page"}
LAWS = {"directions+laplace": Budget(1.0), "directions+gaussian": Budget(1.0, 1e-6)}
Steps = dict[str, dict[str, int]]
"""Who has what, in steps of 1/RESOLUTION."""


def crowd(n: int = 20) -> Steps:
    """Return people with attributes of "0" … "99", of which the last ten have no row; one has nothing else."""
    generator = np.random.default_rng(8)
    people = {
        f"user {i:02d}": {
            str(what): int(generator.integers(1, RESOLUTION + 1))
            for what in generator.permutation(100)[: generator.integers(1, 30)]
        }
        for i in range(n)
    }
    return people | {"user 03": {"95": RESOLUTION}}


def table_of(people: Steps) -> pa.Table:
    """Return their rows in no order, some of them twice with a smaller value."""
    rows = [(who, what, steps / RESOLUTION) for who, held in people.items() for what, steps in held.items()]
    rows += [(who, what, value / 2) for who, what, value in rows[::3]]
    order = np.random.default_rng(1).permutation(len(rows))
    columns = zip(*(rows[i] for i in order), strict=True)
    return pa.table([pa.array(column) for column in columns], names=["person", "page", "share"])


def check(release: Release, plan: Plan, people: Steps) -> None:
    """Compare a release without noise to the sums."""
    full = 1 if plan.resolution == 1 else RESOLUTION
    assert release.users.tolist() == sorted(people)
    directions = plan.matrix
    assert directions is not None
    expected = [
        plain(directions, {what: min(steps, full) for what, steps in people[who].items()}) for who in sorted(people)
    ]
    assert np.any(expected)
    np.testing.assert_array_equal(release.values, expected)
    assert release.directions == directions


@pytest.mark.parametrize(
    ("kind", "mechanism", "resolution"),
    [
        ("learned", "directions+laplace", 1),
        ("embeddings", "directions+gaussian", 4),
        ("weights", "directions+gaussian", 1),
        ("categories", "directions+laplace", 4),
        ("shared categories", "directions+gaussian", 1),
        ("buckets", "directions+laplace", 1),
    ],
)
def test_every_kind_on_bits_and_on_values(
    engine: Engine, kind: str, mechanism: str, resolution: int, tmp_path: Path
) -> None:
    directions, people = named(kind), crowd()
    plan = Plan.of(mechanism, LAWS[mechanism], directions=directions, resolution=resolution)
    # As a curator has both: a plan that holds the digest alone, and a file.
    write_directions(tmp_path / "directions.parquet", directions)
    options: dict[str, Any] = LONG | {"directions": tmp_path / "directions.parquet", "out": tmp_path / "out"}
    if resolution > 1:
        options["value"] = "share"
    roster = [*(f"user {i:02d}" for i in range(15)), "somebody else"]
    release = engine.publish(table_of(people), Plan.from_json(plan.to_json()), roster=roster, **options)
    check(release, plan, {who: people.get(who, {}) for who in roster})


def test_columns_are_exchanged_along_directions(engine: Engine, tmp_path: Path) -> None:
    plan = Plan.of("directions+laplace", Budget(1.0), directions=named("categories"), unit="column")
    generator = np.random.default_rng(2)
    cells = {f"c{column}": generator.integers(10, size=20).astype(str).tolist() for column in range(10)}
    table = pa.table({"person": [f"user {i:02d}" for i in range(20)], **cells})
    release = engine.publish(table, plan, user="person", columns=list(cells), out=tmp_path / "out")
    people = {f"user {i:02d}": {f"{name}={column[i]}": 1 for name, column in cells.items()} for i in range(20)}
    check(release, plan, people)


@pytest.mark.usefixtures("small_parts")
def test_releases_along_directions_grow_by_the_same_ones(engine: Engine, tmp_path: Path) -> None:
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", epsilon=3.0)
    options: dict[str, Any] = LONG | {"ledger": tmp_path / "ledger.db", "dataset": "visits"}
    plan = Plan.of("directions+laplace", Budget(1.0), directions=named("learned"))
    people, out = crowd(), tmp_path / "out"
    old = {who: held for i, (who, held) in enumerate(people.items()) if i % 3}
    new = {who: held for who, held in people.items() if who not in old}
    LocalEngine().publish(table_of(old), plan, out=out, **options)  # whichever engine made it
    other = Plan.of("directions+laplace", Budget(1.0), directions=named("embeddings"))
    with pytest.raises(ParameterError, match="plan must be the one that the release was made by"):
        engine.publish(table_of(new), other, append=out, **options)
    with pytest.raises(ParameterError, match="directions must be those that the plan was made with"):
        engine.publish(table_of(new), plan, append=out, directions=named("embeddings"), **options)
    with pytest.raises(ParameterError, match="directions must be given: the plan holds only their digest"):
        engine.publish(table_of(new), Plan.from_json(plan.to_json()), append=out, **options)
    check(engine.publish(table_of(new), plan, append=out, **options), plan, people)
    assert len(list((out / "sketches").iterdir())) > 1
    charges = Ledger(tmp_path / "ledger.db").status("visits").charges
    assert [charge.state for charge in charges] == ["visible"] * len(charges)
