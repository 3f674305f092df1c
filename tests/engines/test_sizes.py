"""Small and large: one person, a million attributes, people at the borders of files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.crowds import LONG, crowd, table_of
from tests.engines.engine import Engine, LocalEngine
from tests.engines.tables import Holdings, check, plan_for, vocabulary
from tests.folders import small_parts
from tests.plans import SEED

from dimly.mechanisms import Plan
from dimly.privacy import Budget

__all__ = ["small_parts"]  # a fixture

OPEN = plan_for("hashing+laplace", listed=False)
MILLION = 1_000_000


def test_a_person_with_a_million_attributes(engine: Engine, tmp_path: Path) -> None:
    plan = Plan.of("counting+laplace", Budget(1.0), k=16, seed=SEED, dtype="int32")
    many = MILLION if isinstance(engine, LocalEngine) else 200_000  # several pieces for Spark's workers
    rows = pa.table(
        {
            "person": np.concatenate([np.full(many, 7), [6, 8]]),
            "page": np.concatenate([np.random.default_rng(0).permutation(many), [5, 5]]),
        }
    )
    release = engine.publish(rows, plan, out=tmp_path / "out", **LONG)
    assert release.users.tolist() == [6, 7, 8]
    step = many // 10
    expected = np.zeros(16, np.int64)
    for start in range(0, many, step):
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
