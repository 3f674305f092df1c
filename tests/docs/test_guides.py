"""The tutorial, the how-to pages and the gallery: every command and every line of Python on them runs as it stands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from tests.cli.lines import run
from tests.exported import check_neighbors
from tests.postgres import server, sql
from tests.spark import spark, uses_spark

import dimly
from dimly.audit.attacks import read_people
from dimly.lab.population import make_population

__all__ = ["server", "spark", "sql"]  # fixtures

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = ("own-csv", "sign-a-plan", "ledger", "volunteers", "survey", "audit")


def read_four(epsilon: float, **given: Any) -> Any:
    return read_people(epsilon, **given | {"people": 4})


# Tries behind the figures that commands show: whether they are right is tested elsewhere, here that each command runs.
FEWER = {
    "audit.attacks.TRIES": 1 << 10,
    "audit.attacks.EPSILONS": (1.0,),
    "audit.attacks.REPEATS": (1, 2),
    "audit.attacks.read_people": read_four,
    "audit.plan_audit._NUMBERS": 1 << 20,
    "audit.table_audit._MOST_PEOPLE": 1 << 10,
    "lab.by_example.tryout.LADDER": (2.0,),
    "lab.directions.from_sample.COUNTS": (2, 4),
    "lab.directions.from_sample.GROUPS": (4,),
    "lab.directions.from_sample.CAPS": (0.5,),
}
DSN = "postgresql://ada@localhost/shop"

pytestmark = pytest.mark.filterwarnings("ignore::dimly.errors.PrivacyWarning")


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each block of code, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for kind, code in re.findall(r"^```(\{code-cell\} ipython3|\w+)\n(.*?)^```", text, re.M | re.S):
        yield kind, re.sub(r"^:tags:.*\n", "", code)


def run_line(line: str) -> None:
    program, *arguments = shlex.split(line, comments=True)
    result = run(*arguments)
    assert (program, result.exit_code) == ("dimly", 0), f"{line}: {result.stderr}"
    assert result.stdout


def test_every_guide_is_tested() -> None:
    assert {path.stem for path in (DOCS / "how-to").glob("*.md")} == {*GUIDES, "index", "spark", "pgvector"}


@pytest.mark.parametrize("guide", GUIDES)
@pytest.mark.thorough(but=2)
def test_a_guide_runs_from_top_to_bottom(
    guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for setting, fewer in FEWER.items():
        monkeypatch.setattr(f"dimly.{setting}", fewer)
    names: dict[str, Any] = {}
    ran = 0
    for kind, code in blocks(f"how-to/{guide}.md"):
        if kind == "sh":
            for line in code.replace("\\\n", " ").splitlines():
                run_line(line)
                ran += 1
        elif kind == "python":
            exec(compile(code, guide, "exec"), names)  # noqa: S102
            assert capsys.readouterr().out
            ran += 1
    assert ran >= 3


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive:UserWarning")
def test_the_tutorial_runs(capsys: pytest.CaptureFixture[str]) -> None:
    mpl.use("agg")
    names: dict[str, Any] = {}
    for kind, code in blocks("tutorial/digits.md"):
        assert kind == "{code-cell} ipython3"
        exec(compile(code, "digits", "exec"), names)  # noqa: S102
    assert "the private table:" in capsys.readouterr().out
    names["plt"].close("all")
    # What the page says of its answers. Its 2,000 pairs share 1,797 people, and are far from independent.
    assert names["held"].mean() > 0.85
    assert names["adjusted_rand_score"](names["digits"].target, names["found"].labels) > 0.2


@uses_spark
@pytest.mark.thorough
def test_the_guide_to_spark_runs(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ((kind, code),) = blocks("how-to/spark.md")
    assert kind == "py"
    exec(compile(code, "spark", "exec"), {"spark": spark})  # noqa: S102
    assert capsys.readouterr().out.startswith("['ada', 'bob', 'cy']")


def test_the_guide_to_postgres_runs(server: str, sql: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    people = make_population(100, 400, n_groups=2)
    plan = dimly.Plan.of("counting+laplace", dimly.Budget(2.0), k=32)
    dimly.publish(people.table, plan, out="release")
    (_, command), (_, query) = blocks("how-to/pgvector.md")
    run_line(command.strip().replace(DSN, server).replace("--table people", "--table people --overwrite"))
    users, estimates = zip(*sql.execute(query).fetchall(), strict=True)
    release = dimly.open_release("release")
    check_neighbors(release, 3, users)
    np.testing.assert_allclose(estimates, release.distances(3, users).value, rtol=1e-4, atol=0.01)


@pytest.mark.parametrize("script", sorted((DOCS / "gallery").glob("*.py")), ids=lambda path: path.stem)
@pytest.mark.thorough(but=1)
def test_the_gallery_draws(script: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile(script.read_text(encoding="utf-8"), script.name, "exec"), names)  # noqa: S102
    assert names["figure"].axes
