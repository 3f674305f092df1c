"""``inspect`` and ``verify``, of a release that a writer wrote."""

from pathlib import Path

import numpy as np
import pytest
from tests.cli.lines import answer, refusal, run
from tests.plans import plan_of

from dimly.mechanisms import Plan
from dimly.release.writer import ReleaseWriter

PLAN = plan_of("counting+laplace", k=8)


def write_release(path: Path, plan: Plan = PLAN, *, private: bool = True, dataset: str | None = None) -> Path:
    with ReleaseWriter(path, plan, user_type="int64") as writer:
        writer.write_part(0, np.arange(3), np.zeros((3, 8), np.int16))
        writer.seal(roster="given", ledger=dataset, private=private)
        return writer.publish()


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Return a release of three people."""
    return write_release(tmp_path / "release", dataset="visits")


def test_inspect_for_people(release: Path) -> None:
    result = run("inspect", release)
    assert (result.exit_code, result.stderr) == (0, "")
    for words in (
        "3: a public roster; ids: int64",
        PLAN.digest,
        "counting+laplace, k = 8",
        "dataset visits",
        "by at most e^1 = 2.72",
        "at squared distance 400",
        "sketches/part-",
    ):
        assert words in result.stdout
    assert "NOT PRIVATE" not in result.stdout


def test_inspect_as_json(release: Path) -> None:
    said = answer("inspect", release)
    assert (said["path"], said["users"], said["private"]) == (str(release), 3, True)
    assert (said["plan_digest"], said["mechanism"], said["k"]) == (PLAN.digest, "counting+laplace", 8)
    assert (said["epsilon"], said["delta"], said["unit"]) == (1.0, 0.0, "attribute")
    assert said["bytes"] == sum(file["bytes"] for file in said["manifest"]["files"])
    assert said["release"] == said["manifest"]["release"]
    assert set(said["stderr_at"]) == {"100", "400", "1600"}


def test_a_release_made_for_tests_says_so(tmp_path: Path) -> None:
    path = write_release(tmp_path / "release", private=False)
    shown = run("inspect", path).stdout
    assert shown.startswith("NOT PRIVATE")
    assert "none" in shown
    assert answer("inspect", path)["private"] is False
    assert "promises nothing" in refusal("verify", path, code=1)


def test_many_files_are_counted_and_not_listed(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimly.cli.commands.inspect._MOST_FILES", 0)
    shown = run("inspect", release).stdout
    assert "sketches/part-" not in shown


def test_verify(release: Path) -> None:
    result = run("verify", release)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "No check can prove that noise was added" in result.stdout
    said = answer("verify", release)
    assert (said["verified"], said["users"], said["files"]) == (True, 3, 1)
    assert said["release"] == answer("inspect", release)["release"]
    assert len(said["checks"]) > 5
    assert "noise" in said["limits"]


def test_what_is_damaged_is_one_line(release: Path, tmp_path: Path) -> None:
    part = next((release / "sketches").iterdir())
    content = bytearray(part.read_bytes())
    content[len(content) // 3] ^= 1
    part.chmod(0o600)
    part.write_bytes(content)
    assert part.name in refusal("verify", release, code=1)
    assert "--json" not in refusal("verify", release, "--json", code=1)
    assert "must be a release folder" in refusal("inspect", tmp_path / "none", code=1)
    assert "must be a release folder" in refusal("verify", tmp_path, code=1)


def test_several_attributes_that_are_protected_together(tmp_path: Path) -> None:
    plan = PLAN.model_copy(update={"protect": 4})
    release = write_release(tmp_path / "release", plan)
    told = run("inspect", release).stdout
    assert "any 4 of a person, epsilon = 4, delta = 0" in told
    assert "Any 4 attributes of one person together: their odds change by at most e^4 = 54.6" in told
    facts = answer("inspect", release)
    assert facts["together"] == {"count": 4, "unit": "attribute", "epsilon": 4.0, "delta": 0.0}
    assert facts["manifest"]["plan"]["protect"] == 4
    assert run("verify", release).exit_code == 0
