"""Commands, code and queries of docs/exports.md do what the page says, in a folder with a release and a server."""

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from tests.cli.lines import run
from tests.exported import check_neighbors
from tests.postgres import server, sql

import dimly
from dimly.lab.population import make_population

__all__ = ["server", "sql"]

PAGE = (Path(__file__).parents[2] / "docs" / "exports.md").read_text(encoding="utf-8")
DSN = "postgresql://ada@localhost/shop"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.M | re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("docs")
    people = make_population(300, 500, n_groups=3)
    persons, places = people.table.nonzero()
    visits = pa.table({"person": persons.astype(np.int64), "place": places.astype(np.int64)})
    plan = dimly.Plan.of("counting+laplace", dimly.Budget(2.0), k=64)
    with pytest.warns(dimly.PrivacyWarning):
        dimly.publish(visits, plan, user="person", attribute="place", out=path / "release")
    return path


@pytest.fixture
def exported(folder: Path, server: str, sql: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the page's commands in a folder with a release, and give a connection to their server."""
    monkeypatch.chdir(folder)
    for path in folder.glob("people*"):
        path.unlink()
    lines = blocks("")[0].splitlines()
    assert len(lines) == 4
    for line in lines:
        program, *arguments = shlex.split(line.replace(DSN, server))
        assert program == "dimly"
        result = run(*arguments)
        assert (result.exit_code, result.stderr) == (0, ""), line
    return sql


def test_commands(exported: Any, folder: Path) -> None:
    made = {path.name for path in folder.glob("people*")}
    assert made == {"people.parquet", "people.npz", "people.faiss", "people.faiss.users.parquet"}
    assert exported.execute("SELECT people FROM people_about").fetchone() == (300,)


def test_code(exported: Any, server: str, capsys: pytest.CaptureFixture[str]) -> None:
    release = dimly.open_release("release")
    found = []
    for code in blocks("py"):
        exec(compile(code.replace(DSN, server), "snippet", "exec"), {})  # noqa: S102
        found.append([tuple(map(int, line.split())) for line in capsys.readouterr().out.splitlines()])
    near, profile = found
    check_neighbors(release, 3, [user for user, _ in near])
    estimates = release.distances(3, [user for user, _ in near]).value
    np.testing.assert_allclose([distance for _, distance in near], estimates, atol=0.51)
    check_neighbors(release, release.project({"3", "17", "42"}), [user for user, _ in profile])


def test_queries(exported: Any) -> None:
    exact, setting, by_index, constant = blocks("sql")
    release = dimly.open_release("release")
    with exported.cursor() as cursor:
        users, estimates = zip(*cursor.execute(exact).fetchall(), strict=True)
        check_neighbors(release, 3, users)
        np.testing.assert_allclose(estimates, release.distances(3, users).value, rtol=1e-4, atol=0.01)
        check_neighbors(release, 3, [row[0] for row in cursor.execute(constant).fetchall()])
        cursor.execute("SET enable_seqscan = off")
        cursor.execute(setting)
        assert "people_hnsw" not in plan_of(cursor, exact)
        assert "people_hnsw" in plan_of(cursor, by_index)
        users, estimates = zip(*cursor.execute(by_index).fetchall(), strict=True)
        np.testing.assert_allclose(estimates, release.distances(3, users).value, rtol=1e-4, atol=0.01)
        near = release.neighbors(3, n=10, denoise=False).users
        assert len(set(users) & set(near.tolist())) >= 8


def plan_of(cursor: psycopg.Cursor[Any], query: str) -> str:
    return "\n".join(row[0] for row in cursor.execute(f"EXPLAIN {query}".encode()).fetchall())
