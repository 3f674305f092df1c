"""What is recorded beside figures says which commit and how many threads."""

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import conditions


def test_source_without_git_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert conditions.describe_source(tmp_path / "results.json") == conditions.Source(None, None)


def test_source_ignores_the_results_but_no_other_change(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a", "-c", "commit.gpgsign=false"]
        where = ["-c", f"core.hooksPath={tmp_path}"]
        command = ["git", *who, *where, *arguments]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)  # noqa: S603

    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "one.py").write_text("")
    git("init")
    git("add", ".")
    git("commit", "--message", "a")
    results = folder / "results.json"
    results.write_text("{}")
    source = conditions.describe_source(results)
    assert source.dirty is False
    assert source.commit is not None
    assert len(source.commit) == 40
    (tmp_path / "new.py").write_text("")  # outside the folder of the benchmarks
    assert conditions.describe_source(results).dirty is True


def test_threads_are_pinned_only_before_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in conditions.THREAD_VARIABLES:
        monkeypatch.setenv(name, "7")  # so that monkeypatch restores it
    monkeypatch.setitem(sys.modules, "numpy", sys)
    with pytest.raises(RuntimeError, match="before NumPy"):
        conditions.pin_threads()
    monkeypatch.delitem(sys.modules, "numpy")
    conditions.pin_threads()
    assert set(conditions.describe_threads().values()) == {"1"}


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (("model name\t: AMD EPYC", "cpu family\t: 25", "model\t\t: 17"), "AMD EPYC (family 25, model 17)"),
        (("model name\t: Some Core",), "Some Core"),
    ],
)
def test_processors_of_one_name_are_told_apart(lines: tuple[str, ...], name: str, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("\n".join(lines) + "\n")
    assert conditions._processor(tmp_path / "cpuinfo") == name


def test_a_processor_without_a_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.processor", lambda: "arm")
    assert conditions._processor(tmp_path / "none") == "arm"
