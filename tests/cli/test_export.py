"""``export``: what Python writes, by the command line."""

import json
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.cli.lines import answer, refusal, run
from tests.folders import ODD_IDS, people, release_folder, write
from tests.plans import plan_of
from tests.postgres import server, sql
from tests.streams import Recorded

from dimly.analyst.release import open_release

__all__ = ["server", "sql"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_folder(tmp_path_factory.mktemp("named") / "release", "hashing+laplace", text=True)


def test_parquet(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "people.parquet"
    said = answer("export", folder, "--to", "parquet", "--out", out)
    table = pq.read_table(out)
    assert table.equals(open_release(folder).to_arrow(), check_metadata=True)
    assert said == {"to": "parquet", "target": str(out), **json.loads(table.schema.metadata[b"dimly"])}


def test_numpy(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "people.npz"
    answer("export", folder, "--to", "numpy", "--out", out)
    with np.load(out) as found:
        np.testing.assert_array_equal(found["point"], open_release(folder).to_numpy())
        assert set(ODD_IDS) < set(found["user"].tolist())


def test_faiss(folder: Path, tmp_path: Path) -> None:
    release = open_release(folder)
    for index in ("auto", "flat", "hnsw"):
        out = tmp_path / f"{index}.faiss"
        said = answer("export", folder, "--to", "faiss", "--out", out, "--index", index)
        assert (said["to"], said["people"], said["dimension"]) == ("faiss", 30, 32)
        found: Any = faiss.read_index(str(out))
        kind = type(faiss.downcast_index(found.index)).__name__
        assert kind == ("IndexHNSWFlat" if index == "hnsw" else "IndexFlatL2")
        assert found.search(release.point("007")[None, :], 1)[1][0, 0] == release.users.tolist().index("007")


def test_pgvector(folder: Path, server: str, sql: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said = answer("export", folder, "--to", "pgvector", "--dsn", server, "--table", "people")
    assert (said["to"], said["target"]) == ("pgvector", "people")
    assert sql.execute("SELECT bias FROM people_about").fetchone() == (said["bias"],)
    assert sql.execute("SELECT to_regclass('people_hnsw') IS NULL").fetchone() == (False,)
    again = ("export", folder, "--to", "pgvector", "--table", "people", "--index", "flat", "--half")
    monkeypatch.setenv("PGHOST", server.split("host=")[1])
    monkeypatch.setenv("PGUSER", "postgres")
    monkeypatch.setenv("PGDATABASE", "postgres")
    assert "table must be a new one, but public.people exists" in refusal(*again)
    answer(*again, "--overwrite")
    assert sql.execute("SELECT to_regclass('people_hnsw') IS NULL").fetchone() == (True,)
    assert sql.execute("SELECT DISTINCT pg_typeof(point)::text FROM people").fetchone() == ("halfvec",)


def test_what_the_server_does_after_the_last_row_is_named(
    folder: Path, server: str, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    phases: list[str] = []
    monkeypatch.setattr("dimly.cli.terminal.ProgressBar.phase", lambda _, name: phases.append(name))
    for index, last in (("auto", "indexing"), ("flat", "committing")):
        phases.clear()
        answer("export", folder, "--to", "pgvector", "--dsn", server, "--table", f"of_{index}", "--index", index)
        assert phases == ["writing", last]
    assert sql.execute("SELECT to_regclass('of_auto_hnsw') IS NULL").fetchone() == (False,)


def test_for_people(folder: Path, tmp_path: Path) -> None:
    result = run("export", folder, "--to", "parquet", "--out", tmp_path / "people.parquet")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[:3] == [
        f"exported        {tmp_path / 'people.parquet'}",
        "people          30",
        "coordinates     32",
    ]
    assert "less the excess of both people, are unbiased estimates" in result.stdout
    result = run("export", folder, "--to", "parquet", "--out", tmp_path / "people.parquet", "--denoise", "--overwrite")
    assert result.exit_code == 0
    assert "average excess  none" in result.stdout
    assert "denoised: cluster by them" in result.stdout
    assert pq.read_schema(tmp_path / "people.parquet").names == ["user", "point"]


def test_bad_calls(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "file.npz"
    assert "Missing option '--to'" in refusal("export", folder, "--out", out)
    assert "is not one of" in refusal("export", folder, "--to", "excel", "--out", out)
    for tool in ("faiss", "numpy", "parquet"):
        assert "--out must say where to export" in refusal("export", folder, "--to", tool)
        for option in (("--table", "people"), ("--dsn", ""), ("--half",)):
            words = f"{option[0]} must not be given with --to {tool}"
            assert words in refusal("export", folder, "--to", tool, "--out", out, *option)
    assert "--index must not be given" in refusal("export", folder, "--to", "numpy", "--out", out, "--index", "flat")
    assert "--table must say where to" in refusal("export", folder, "--to", "pgvector")
    words = "--out must not be given with --to pgvector"
    assert words in refusal("export", folder, "--to", "pgvector", "--table", "people", "--out", out)
    out.write_text("mine")
    assert "Add --overwrite" in refusal("export", folder, "--to", "numpy", "--out", out)
    new = tmp_path / "x.npz"
    assert "must be a release folder" in refusal("export", tmp_path, "--to", "numpy", "--out", new, code=1)
    pairs = release_folder(tmp_path / "pairs", "noisy-distances")
    assert "give no points" in refusal("export", pairs, "--to", "numpy", "--out", new)
    dsn = f"host='{tmp_path}' password=secret"
    line = refusal("export", folder, "--to", "pgvector", "--table", "people", "--dsn", dsn, code=1)
    assert "dsn must lead to a server" in line
    assert "secret" not in line


def test_a_release_made_for_tests_says_so(tmp_path: Path) -> None:
    folder = write(tmp_path / "release", people(plan_of("counting+laplace"), words=Recorded(1)))
    result = run("export", folder, "--to", "parquet", "--out", tmp_path / "people.parquet", "--json")
    assert result.stderr.startswith("warning: this release was made for tests only and is NOT PRIVATE")
    assert json.loads(result.stdout)["private"] is False
