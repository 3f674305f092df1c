"""``report`` writes the page that Python makes, once, and says what to check."""

from pathlib import Path

import pytest
from tests.cli.lines import answer, refusal, run
from tests.folders import people, release_folder, write
from tests.plans import plan_of
from tests.streams import Recorded

from dimly.lab.report.officer import checks
from dimly.lab.report.page import page_of
from dimly.lab.report.report import report_of


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_folder(tmp_path_factory.mktemp("report") / "release", text=True)


def test_page_and_json_are_what_python_says(release: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    said = answer("report", release, "-o", out)
    report = report_of(release)
    assert said == {"path": str(out), **report.to_dict()}
    assert out.read_text(encoding="utf-8") == page_of(report)


def test_for_people(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("report", release, "--count", 2)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "report            report.html" in result.stdout
    assert "30 of 30" in result.stdout
    for line in checks(report_of(release).manifest):
        assert line in result.stdout
    assert (tmp_path / "report.html").exists()


def test_from_inside_a_release_the_page_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = release_folder(tmp_path / "release")  # its README.md says: dimly report .
    monkeypatch.chdir(path)
    result = run("report", ".", "--count", 2)
    assert (result.exit_code, result.stderr) == (0, "")
    assert (tmp_path / "report.html").exists()
    assert run("verify", ".").exit_code == 0


def test_targets(release: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("mine", encoding="utf-8")
    assert "Add --overwrite" in refusal("report", release, "-o", out)
    assert out.read_text(encoding="utf-8") == "mine"
    assert run("report", release, "-o", out, "--overwrite").exit_code == 0
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "folder that exists" in refusal("report", release, "-o", tmp_path / "a" / "b.html")
    assert list(tmp_path.iterdir()) == [out]


def test_bad_calls(release: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert "must be a number of segments or auto" in refusal("report", release, "-o", out, "--count", "many")
    assert "count must be" in refusal("report", release, "-o", out, "--count", 31)
    assert "must be a release folder" in refusal("report", tmp_path, "-o", out, code=1)
    assert not out.exists()


def test_a_release_for_tests_is_warned_of(tmp_path: Path) -> None:
    path = write(tmp_path / "release", people(plan_of("counting+laplace"), words=Recorded(0)))
    result = run("report", path, "-o", tmp_path / "report.html")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: this release was made for tests only")
    assert "Give this release to nobody" in result.stdout
