import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.processes import in_a_fork

from dimly.curator.ledger import charge as ledger_charge
from dimly.curator.ledger import store as ledger_store
from dimly.curator.ledger.charge import ProcessMark
from dimly.curator.ledger.ledger import Charge, Ledger
from dimly.errors import BudgetError, DataError, DimlyError
from dimly.privacy.composition import Cost

# Python 3.12 and later warn of forks where there are threads; there are none that would hold a lock here.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", epsilon=1.0)
    return ledger


@pytest.fixture
def charge(ledger: Ledger) -> Charge:
    return ledger.reserve("visits", Cost(0.25), plan_digest="plan")


def seal(charge: Charge) -> None:
    charge.seal(release_id="r0")


STEPS: list[Callable[[Charge], None]] = [Charge.start_sampling, seal, Charge.make_visible]


def advance(charge: Charge, n_steps: int) -> Charge:
    for step in STEPS[:n_steps]:
        step(charge)
    return charge


def n_tags(ledger: Ledger) -> int:
    with ledger._store.reading() as connection:
        return sum(len(row["tags"]) // 8 for row in connection.execute("SELECT tags FROM people"))


def test_a_charge_goes_from_reserved_over_sampling_to_visible_and_always_counts(ledger: Ledger, charge: Charge) -> None:
    states = [charge.state]
    for step in STEPS:
        step(charge)
        states.append(charge.state)
        assert ledger.status("visits").left == 0.75
    assert states == ["reserved", "sampling", "sampling", "visible"]
    record = charge.record
    times = [record.reserved_at, record.sampling_at, record.sealed_at, record.visible_at]
    assert times == sorted(filter(None, times))
    assert (record.release_id, record.ended_at) == ("r0", None)


def test_the_id_is_known_before_the_release_is_visible(charge: Charge) -> None:
    record = advance(charge, 2).record
    assert (record.state, record.release_id) == ("sampling", "r0")


@pytest.mark.parametrize(
    ("n_steps", "step", "text"),
    [
        (1, Charge.start_sampling, "must be reserved for this, but it is sampling"),
        (0, seal, "must be sampling for this, but it is reserved"),
        (3, seal, "must be sampling for this, but it is visible"),
        (0, Charge.make_visible, "must be sampling or visible or forgiven for this, but it is reserved"),
        (1, Charge.make_visible, "must be sealed before its release becomes visible"),
        (1, lambda charge: charge.claim_users([[1]]), "must be reserved for this, but it is sampling"),
    ],
)
def test_steps_out_of_order_are_refused(
    charge: Charge, n_steps: int, step: Callable[[Charge], None], text: str
) -> None:
    before = advance(charge, n_steps).record
    with pytest.raises(RuntimeError, match=text):
        step(charge)
    assert charge.record == before


def test_what_is_visible_cannot_be_abandoned(charge: Charge) -> None:
    before = advance(charge, 3).record
    assert not charge.abandon()
    assert charge.record == before


def test_to_become_visible_twice_changes_nothing(charge: Charge) -> None:
    before = advance(charge, 3).record
    charge.make_visible()
    assert charge.record == before


def test_a_charge_comes_back_with_its_people_before_noise_is_drawn(ledger: Ledger, charge: Charge) -> None:
    charge.claim_users([[1, 2, 3]])
    assert n_tags(ledger) == 3
    assert charge.abandon()
    assert (charge.state, ledger.status("visits").left, n_tags(ledger)) == ("returned", 1.0, 0)
    before = charge.record
    assert charge.abandon()
    assert charge.record == before


@pytest.mark.parametrize("n_steps", [1, 2])
def test_a_charge_and_its_people_stay_once_noise_may_have_been_drawn(
    ledger: Ledger, charge: Charge, n_steps: int
) -> None:
    charge.claim_users([[1, 2, 3]])
    advance(charge, n_steps)
    assert not charge.abandon()
    assert (charge.state, ledger.status("visits").left, n_tags(ledger)) == ("sampling", 0.75, 3)
    before = charge.record
    assert before.label == "sampling (run ended)"
    assert before.ended_at is not None
    assert not charge.abandon()
    assert charge.record == before
    with pytest.raises(BudgetError, match="Use --force"):
        ledger.forgive(charge.id, reason="it failed")


def test_tags_that_are_given_back_do_not_linger_in_the_file(ledger: Ledger, charge: Charge) -> None:
    charge.claim_users([[1]])
    with ledger._store.reading() as connection:
        tags = connection.execute("SELECT tags FROM people").fetchone()[0]
    assert tags in ledger.path.read_bytes()
    charge.abandon()
    assert tags not in ledger.path.read_bytes()


@pytest.mark.parametrize("step", [*STEPS, Charge.abandon, lambda charge: charge.claim_users([[1]])])
def test_a_charge_belongs_to_the_process_that_made_it(charge: Charge, step: Callable[[Charge], None]) -> None:
    def work() -> bytes:
        with pytest.raises(RuntimeError, match="belongs to the process that reserved it"):
            step(charge)
        return b"refused"

    assert in_a_fork(work) == b"refused"
    assert charge.state == "reserved"


@pytest.mark.parametrize(
    ("n_steps", "step"),
    [(0, Charge.start_sampling), (1, seal), (0, lambda charge: charge.claim_users([[1]]))],
)
def test_nothing_goes_on_after_the_charge_was_forgiven(
    ledger: Ledger, charge: Charge, n_steps: int, step: Callable[[Charge], None]
) -> None:
    advance(charge, n_steps)
    ledger.forgive(charge.id, reason="by mistake", force=True)
    with pytest.raises(
        BudgetError, match=rf"charge {charge.id} must count, but it was forgiven meanwhile\. Reserve again"
    ):
        step(charge)
    charge.abandon()  # for whoever cleans up after the error
    assert charge.state == "forgiven"


def test_what_is_out_counts_even_if_it_was_forgiven_and_the_budget_spent_again(ledger: Ledger, charge: Charge) -> None:
    charge.claim_users([[1, 2]])
    advance(charge, 2)
    ledger.forgive(charge.id, reason="by mistake", force=True)
    ledger.reserve("visits", Cost(1.0), plan_digest="plan")
    charge.make_visible()
    status = ledger.status("visits")
    assert (charge.state, status.spent.epsilon, status.left) == ("visible", 1.25, 0.0)
    assert charge.record.reason == "by mistake"
    assert n_tags(ledger) == 2


# --- people


def test_people_are_recorded_once(ledger: Ledger, charge: Charge) -> None:
    charge.claim_users(iter([pa.array(["a", "b"]), ["c"], np.array(["d"])]))
    assert (charge.record.n_users, n_tags(ledger)) == (4, 4)
    with pytest.raises(RuntimeError, match="users are claimed once for each charge"):
        charge.claim_users([["e"]])


def test_nobody_is_a_claim_too(charge: Charge) -> None:
    charge.claim_users([])
    assert charge.record.n_users == 0


def test_people_in_many_pieces(ledger: Ledger, charge: Charge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_store, "CHUNK", 10)
    charge.claim_users([list(range(start, start + 7)) for start in range(0, 70, 7)])
    with ledger._store.reading() as connection:
        rows = connection.execute("SELECT tags FROM people ORDER BY chunk").fetchall()
    assert [len(row["tags"]) for row in rows] == [80] * 7


def test_a_claim_that_fails_half_way_can_be_repeated(
    ledger: Ledger, charge: Charge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_store, "CHUNK", 2)
    bad: list[list[Any]] = [[1, 2, 3, 4], [None]]
    with pytest.raises(DataError, match="some have none"):
        charge.claim_users(bad)
    before = charge.record
    charge.claim_users([[5, 6, 7]])
    assert (before.n_users, charge.record.n_users, n_tags(ledger)) == (None, 3, 3)


def test_other_writers_are_not_kept_waiting_while_people_stream_in(
    ledger: Ledger, charge: Charge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_store, "CHUNK", 2)

    def stream() -> Any:
        for start in range(0, 6, 2):
            yield [start, start + 1]
            ledger.reserve("visits", Cost(0.1), plan_digest="plan")  # would wait for ever for its own process

    charge.claim_users(stream())
    assert charge.record.n_users == 6


def test_a_charge_forgiven_while_people_stream_in_claims_nobody(ledger: Ledger, charge: Charge) -> None:
    def stream() -> Any:
        ledger.forgive(charge.id, reason="by mistake", force=True)
        yield [1, 2]

    with pytest.raises(BudgetError, match="was forgiven meanwhile"):
        charge.claim_users(stream())
    assert (charge.record.n_users, n_tags(ledger)) == (None, 0)


def test_a_release_id_is_one_line(charge: Charge) -> None:
    advance(charge, 1)
    with pytest.raises(DimlyError, match="release_id must be one line"):
        charge.seal(release_id="")
    assert charge.record.release_id is None


def test_a_ledger_that_is_lost_stops_everything(ledger: Ledger, charge: Charge) -> None:
    os.unlink(ledger.path)
    with pytest.raises(DimlyError, match="ledger must be an existing file"):
        charge.start_sampling()


HERE = ProcessMark.of_this_process()
linux = pytest.mark.skipif(HERE.boot is None, reason="needs /proc, by which Linux tells processes apart")


def sleeper() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"], stdout=-1)


def mark_of(pid: int) -> ProcessMark:
    stat = ledger_charge._stat(pid)
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
    monkeypatch.setattr(ledger_charge, "_stat", lambda pid: ("R", HERE.started) if pid == HERE.pid else None)
    assert mark.fate == "unknown"


def test_without_proc_only_the_number_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_charge, "_PROC", tmp_path)
    ledger_charge._surroundings.cache_clear()
    try:
        assert ProcessMark.of_this_process() == ProcessMark(os.getpid(), None, None, None)
        assert ProcessMark.of_this_process().fate == "this"
        assert HERE.fate == ("unknown" if HERE.boot else "this")
    finally:
        ledger_charge._surroundings.cache_clear()


def test_the_name_of_a_program_may_hold_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "7").mkdir()
    fields = " ".join(["S", *("0" for _ in range(18)), "4711", "0"])
    (tmp_path / "7" / "stat").write_text(f"7 (a) R (b) {fields}\n", encoding="utf-8")
    monkeypatch.setattr(ledger_charge, "_PROC", tmp_path)
    assert ledger_charge._stat(7) == ("S", 4711)


def test_a_run_that_stops_early_is_charged_what_it_drew(ledger: Ledger, charge: Charge) -> None:
    with pytest.raises(RuntimeError, match="must be sampling"):
        charge.settle(Cost(0.1))
    charge.start_sampling()
    for more in (Cost(0.3), Cost(0.1, 1e-6), Cost(0.1, unit="column")):
        with pytest.raises(RuntimeError, match="only be lowered"):
            charge.settle(more)
    assert charge.record.cost == Cost(0.25)
    charge.settle(Cost(0.1))
    assert not charge.abandon()
    assert (charge.record.cost, charge.record.label) == (Cost(0.1), "sampling (run ended)")
    assert ledger.status("visits").spent.epsilon == 0.1
    with pytest.raises(RuntimeError, match="settled"):
        seal(charge)
