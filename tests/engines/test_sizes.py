"""Small and large: one person, a million attributes, people at the borders of files."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.engine import Engine
from tests.engines.tables import Holdings, check, plan_for, vocabulary
from tests.folders import small_parts
from tests.plans import SEED

from dimly.mechanisms import Plan
from dimly.privacy import Budget

__all__ = ["small_parts"]  # a fixture

OPEN = plan_for("hashing+laplace", listed=False)
LONG: dict[str, Any] = {"user": "person", "attribute": "page"}
MILLION = 1_000_000


def table_of(people: Holdings, *, shuffled: bool = True) -> pa.Table:
    rows = [(who, what) for who, held in people.items() for what in held]
    order = np.random.default_rng(0).permutation(len(rows)) if shuffled else range(len(rows))
    users, attributes = zip(*(rows[i] for i in order), strict=True)
    return pa.table({"person": users, "page": attributes})


def crowd(n: int) -> dict[int, dict[str, float]]:
    """Return ``n`` people, some with many attributes; those of 16 … 23 have none."""
    generator = np.random.default_rng(3)
    people: dict[int, dict[str, float]] = {}
    for i in range(n):
        size = 0 if 16 <= i < 24 else 60 if i % 8 == 7 else int(generator.integers(1, 5))
        people[i] = {str(code): 1.0 for code in generator.permutation(100)[:size]}
    return people


def test_a_person_with_a_million_attributes(engine: Engine, tmp_path: Path) -> None:
    plan = Plan.of("counting+laplace", Budget(1.0), k=16, seed=SEED, dtype="int32")
    rows = pa.table(
        {
            "person": np.concatenate([np.full(MILLION, 7), [6, 8]]),
            "page": np.concatenate([np.random.default_rng(0).permutation(MILLION), [5, 5]]),
        }
    )
    release = engine.publish(rows, plan, out=tmp_path / "out", **LONG)
    assert release.users.tolist() == [6, 7, 8]
    step = MILLION // 10
    expected = np.zeros(16, np.int64)
    for start in range(0, MILLION, step):
        expected += plan.rows([str(i) for i in range(start, start + step)]).to_dense().sum(axis=0)
    np.testing.assert_array_equal(release.values[1], expected)
    np.testing.assert_array_equal(release.values[[0, 2]], plan.rows(["5", "5"]).to_dense())


@pytest.mark.parametrize("mechanism", ["counting+laplace", "sign+gaussian", "randomized-response", "noisy-distances"])
def test_one_person(engine: Engine, mechanism: str, tmp_path: Path) -> None:
    plan = plan_for(mechanism)
    people: Holdings = {"ada": {"jam": 1.0, "tea": 1.0}}
    release = engine.publish(table_of(people), plan, vocabulary=vocabulary(), out=tmp_path / "out", **LONG)
    check(release, people, vocabulary())


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+gaussian", "sparse+laplace", "gaussian+gaussian"])
def test_more_dimensions_than_attributes(engine: Engine, mechanism: str, tmp_path: Path) -> None:
    closed = ["tea", "jam"] if mechanism.startswith("gaussian") else None
    plan = Plan.of(
        mechanism,
        Budget(1.0, 1e-6),
        k=512,
        blocks=4 if mechanism.startswith("sparse") else 1,
        seed=SEED,
        vocabulary=closed,
    )
    people: Holdings = {"ada": {"tea": 1.0}, "bob": {"tea": 1.0, "jam": 1.0}}
    release = engine.publish(table_of(people), plan, vocabulary=closed, out=tmp_path / "out", **LONG)
    check(release, people, closed)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("n", [8, 37, 40])
@pytest.mark.parametrize("mechanism", ["sparse+laplace", "randomized-response", "noisy-distances"])
def test_people_at_the_borders_of_files(engine: Engine, mechanism: str, n: int, threads: int, tmp_path: Path) -> None:
    people = crowd(n)
    names = [str(i) for i in range(100)]
    k = {"k": 32, "blocks": 4} if mechanism.startswith("sparse") else {}
    k |= {"n_users": 40} if mechanism == "noisy-distances" else {}
    plan = Plan.of(mechanism, Budget(1.0, 1e-6), n_attributes=100, seed=SEED if "k" in k else None, **k)  # type: ignore[arg-type]
    release = engine.publish(table_of(people), plan, roster=list(people), threads=threads, out=tmp_path / "out", **LONG)
    check(release, people, names)
    parts = sorted((tmp_path / "out" / "sketches").iterdir())
    assert [path.name for path in parts] == [f"part-{i:06d}.parquet" for i in range(-(-n // 8))]
    users = [pq.read_table(path, columns=["user"]).column(0).to_pylist() for path in parts]
    assert users == [list(range(start, min(start + 8, n))) for start in range(0, n, 8)]
    for path in parts:
        footer = pq.read_metadata(path)
        assert {footer.row_group(i).num_rows for i in range(footer.num_row_groups)} == {1}


def test_large_sums_saturate(engine: Engine, tmp_path: Path) -> None:
    plan = Plan.of("counting+laplace", Budget(1.0), k=2, seed=SEED)
    rows = pa.table({"person": ["ada"] * 80_000 + ["bob"], "page": np.append(np.arange(80_000), 7)})
    release = engine.publish(rows, plan, out=tmp_path / "out", **LONG)
    assert release.values[0].tolist() == [2**15 - 1] * 2
    assert release.values[1].tolist() == plan.rows(["7"]).to_dense()[0].tolist()


def test_columns_by_the_thousand(engine: Engine, tmp_path: Path) -> None:
    matrix = np.random.default_rng(5).random((40, 1000)) < 0.05
    names = [f"column {i}" for i in range(1000)]
    frame = pa.table([pa.array(range(40)), *(pa.array(column) for column in matrix.T)], names=["person", *names])
    release = engine.publish(frame, OPEN, user="person", columns="all", out=tmp_path / "out")
    check(release, {i: {names[j]: 1.0 for j in row.nonzero()[0]} for i, row in enumerate(matrix)})
