import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.processes import in_a_fork

from dimly.curator import ledger_process
from dimly.curator.ledger_process import ProcessMark

HERE = ProcessMark.of_this_process()
linux = pytest.mark.skipif(HERE.boot is None, reason="needs /proc, by which Linux tells processes apart")


def sleeper() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"], stdout=-1)


def mark_of(pid: int) -> ProcessMark:
    stat = ledger_process._stat(pid)
    assert stat is not None
    return replace(HERE, pid=pid, started=stat[1])


def test_a_process_knows_itself_and_json_keeps_the_mark() -> None:
    assert ProcessMark.of_this_process() == HERE
    assert HERE.fate == "this"
    assert ProcessMark.from_json(HERE.to_json()) == HERE


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_has_a_mark_of_its_own() -> None:
    other = ProcessMark.from_json(in_a_fork(lambda: ProcessMark.of_this_process().to_json().encode()).decode())
    assert other != HERE


@linux
def test_a_process_is_alive_until_it_ends_and_a_zombie_is_not() -> None:
    with sleeper() as process:
        assert process.stdout is not None
        process.stdout.readline()
        mark = mark_of(process.pid)
        fates = [mark.fate]
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and still in the table of processes
        fates.append(mark.fate)
    assert [*fates, mark.fate] == ["alive", "gone", "gone"]


@linux
def test_a_number_that_is_used_again_is_another_process() -> None:
    assert HERE.started is not None
    assert replace(HERE, started=HERE.started - 1).fate == "gone"


@pytest.mark.parametrize("other", [{"boot": "another"}, {"namespace": "pid:[1]"}, {"boot": None, "namespace": None}])
def test_nothing_is_known_of_other_machines_containers_and_starts(other: dict[str, str | None]) -> None:
    assert replace(HERE, pid=HERE.pid + 1, **other).fate == "unknown"  # type: ignore[arg-type]  # text each


@linux
def test_a_process_that_the_system_hides_is_neither_alive_nor_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_ours(pid: int, signal: int) -> None:
        raise PermissionError

    mark = replace(HERE, pid=HERE.pid + 1)
    monkeypatch.setattr(os, "kill", not_ours)
    monkeypatch.setattr(ledger_process, "_stat", lambda pid: ("R", HERE.started) if pid == HERE.pid else None)
    assert mark.fate == "unknown"


def test_without_proc_only_the_number_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_process, "_PROC", tmp_path)
    ledger_process._surroundings.cache_clear()
    try:
        assert ProcessMark.of_this_process() == ProcessMark(os.getpid(), None, None, None)
        assert ProcessMark.of_this_process().fate == "this"
        assert HERE.fate == ("unknown" if HERE.boot else "this")
    finally:
        ledger_process._surroundings.cache_clear()


def test_the_name_of_a_program_may_hold_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "7").mkdir()
    fields = " ".join(["S", *("0" for _ in range(18)), "4711", "0"])
    (tmp_path / "7" / "stat").write_text(f"7 (a) R (b) {fields}\n", encoding="utf-8")
    monkeypatch.setattr(ledger_process, "_PROC", tmp_path)
    assert ledger_process._stat(7) == ("S", 4711)
