"""``dimly audit``: figures, words and exit codes."""

import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.lines import answer, refusal, run
from tests.plans import plan_of
from tests.spark import spark, uses_spark
from tests.unit.audit.visits import write

from dimly.audit import plan_audit, table_audit
from dimly.curator import perturb
from dimly.curator.sampling import NoiseSampler
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.privacy import Budget

KEYS = ["claimed_epsilon", "claimed_delta", "epsilon_lower_bound", "delta_lower_bound", "confidence", "trials"]
__all__ = ["spark"]
CHECKED = [*KEYS, "contradicts", "stopped_early", "checks"]


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_audit, "_NUMBERS", 1 << 18)
    monkeypatch.setattr(plan_audit, "processes_draw_alike", lambda: False)  # which has tests of its own
    monkeypatch.setattr(table_audit, "_MOST_PEOPLE", 1 << 9)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.json"
    file.write_text(plan_of("counting+laplace").to_json())
    return file


def test_a_plan(plan: Path) -> None:
    found = answer("audit", plan)
    assert list(found) == CHECKED
    assert found["claimed_epsilon"] == 1.0
    assert 0.8 < found["epsilon_lower_bound"] <= 1.0
    shown = run("audit", plan)
    assert shown.exit_code == 0
    assert "claimed 1, at least 0.9" in shown.stdout
    assert "nothing contradicts it" in shown.stdout
    assert "99.9999 %" in shown.stdout


def test_a_table(plan: Path, tmp_path: Path) -> None:
    table = write("t.csv", tmp_path)
    found = answer("audit", plan, "--data", table, "--user", "person", "--attribute", "page")
    assert list(found) == CHECKED
    assert 0.8 < found["epsilon_lower_bound"] <= 1.0


def test_a_false_claim_exits_with_one(plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    less = DiscreteLaplace.of(Budget(1.25), l1_sensitivity=1)
    monkeypatch.setattr(perturb, "NoiseSampler", lambda _: NoiseSampler(less))
    result = run("audit", plan)
    assert result.exit_code == 1
    assert "THIS CONTRADICTS THE CLAIM" in result.stdout
    shown = run("audit", plan, "--json")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)["contradicts"]


def test_a_thorough_audit_that_is_interrupted(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the second round."""
    draw, draws = plan_audit.GuessingAttack.draw, iter(range(9))

    def interrupted(attack: Any, *rest: Any) -> None:
        if next(draws) == 3:
            raise KeyboardInterrupt
        draw(attack, *rest)

    monkeypatch.setattr(plan_audit, "_THOROUGH", 1 << 20)
    monkeypatch.setattr(plan_audit, "_ROUNDS", 4)
    monkeypatch.setattr(plan_audit.GuessingAttack, "draw", interrupted)
    shown = run("audit", plan, "--thorough")
    assert shown.exit_code == 0
    assert "stopped early" in shown.stdout
    assert "nothing contradicts it" in shown.stdout


def test_an_exact_check_that_fails_is_in_json(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_audit, "processes_draw_alike", lambda: True)
    shown = run("audit", plan, "--json")
    assert shown.exit_code == 1
    found = json.loads(shown.stdout)
    assert found["epsilon_lower_bound"] <= 1.0
    assert found["contradicts"]
    assert [check["words"] for check in found["checks"] if check["failed"]] == [
        "new processes draw the same random numbers"
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--user", "person"], "data must be given where --user is"),
        (["--engine", "spark"], "data must be given with --engine spark"),
        (["--delimiter", ";"], "data must be given where --delimiter is"),
        (["--quote", "'"], "data must be given where --quote is"),
        (["--escape", "\\"], "data must be given where --escape is"),
        (["--encoding", "latin-1"], "data must be given where --encoding is"),
        (["--nulls", "drop"], "data must be given where --nulls is"),
        (["--values", "clamp"], "data must be given where --values is"),
        (["--memory", "1GiB"], "data must be given where --memory is"),
        (["--temp", "."], "data must be given where --temp is"),
        (["--data", "t.csv", "--user", "person"], "user and --attribute must name columns"),
        (["--data", "t.csv", "--user", "a", "--attribute", "b", "--thorough"], "thorough must be left out"),
        (["--master", "yarn"], "master must come with --engine spark"),
    ],
)
def test_bad_calls(plan: Path, more: list[str], said: str) -> None:
    assert said in refusal("audit", plan, *more)


def test_a_certificate_beside_a_release(plan: Path, tmp_path: Path) -> None:
    table, out = write("t.csv", tmp_path), tmp_path / "release"
    line = ["publish", table, "--plan", plan, "--user", "person", "--attribute", "page", "--out", out, "--audit"]
    told = run(*line)
    assert told.exit_code == 0
    certificate = tmp_path / "release.audit.json"
    assert "nothing contradicts it" in told.stdout
    assert certificate.name in told.stdout
    fields = json.loads(certificate.read_text())
    assert [name for name in fields if name in KEYS] == KEYS
    assert fields["release"] == answer("inspect", out)["release"]
    assert answer("verify", out)["verified"]
    page = tmp_path / "report.html"
    assert run("report", out, "-o", page, "--count", 1).exit_code == 0
    assert "How would I notice if it were false?" in page.read_text()
    assert "Certificate of an audit" in page.read_text()
    assert "An audit has seen at least ε = 0." in page.read_text()
    assert "does not show that the same program made this release" in page.read_text()
    certificate.write_text(json.dumps(fields | {"release": "other"}))
    other = run("report", out, "-o", page, "--count", 1, "--overwrite")
    assert "is about another release" in other.stderr
    assert "Certificate of an audit" not in page.read_text()
    assert "No certificate of such an attack" in page.read_text()
    assert "An audit has seen" not in page.read_text()
    for one in (out, out / "manifest.json"):  # a release says by which plan it was made
        assert answer("audit", one)["claimed_epsilon"] == 1.0
    assert "must be a new file" in refusal(*line[:-2], tmp_path / "release", "--audit")  # the certificate is there


def test_nothing_is_published_by_a_plan_whose_claim_is_false(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    less = DiscreteLaplace.of(Budget(1.25), l1_sensitivity=1)
    monkeypatch.setattr(perturb, "NoiseSampler", lambda _: NoiseSampler(less))
    table, out = write("t.csv", tmp_path), tmp_path / "release"
    line = ["publish", table, "--plan", plan, "--user", "person", "--attribute", "page"]
    assert "nothing was published" in refusal(*line, "--out", out, "--audit", code=1)
    assert not out.exists()
    assert "left out of a dry run" in refusal(*line, "--out", out, "--audit", "--dry-run")
    assert "ends elsewhere" in refusal(*line, "--out", "s3://bucket/x", "--audit")


@uses_spark
def test_a_table_on_spark(plan: Path, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dimly.spark import cluster  # noqa: PLC0415 - only where there is a Spark

    @contextmanager
    def running(**_: Any) -> Any:
        yield spark

    monkeypatch.setattr(cluster, "running_session", running)
    data = write("t.csv", tmp_path)
    found = answer("audit", plan, "--data", data, "--user", "person", "--attribute", "page", "--engine", "spark")
    assert list(found) == CHECKED
    assert not found["contradicts"]
    assert 0.5 < found["epsilon_lower_bound"] <= 1.0
    assert found["checks"][0]["name"] == "invented people"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.json", "t.csv"]
