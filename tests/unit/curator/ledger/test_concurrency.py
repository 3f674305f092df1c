"""Several processes and threads on one ledger, some of them killed."""

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dimly.curator.ledger.charge import ProcessMark
from dimly.curator.ledger.ledger import Ledger
from dimly.errors import BudgetError
from dimly.privacy.composition import Cost

SPEND = """
import sys
from dimly.curator.ledger.ledger import Ledger
from dimly.errors import BudgetError
from dimly.privacy.composition import Cost
ledger = Ledger(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
won = 0
while True:
    try:
        charge = ledger.reserve("visits", Cost(0.07), plan_digest="plan")
    except BudgetError:
        break
    won += 1
    if won % 2:
        charge.claim_users([[won]])
        charge.start_sampling()
print(won)
"""


def start(program: str, path: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.Popen(command, stdin=-1, stdout=-1, text=True)  # noqa: S603 - programs of this file


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", epsilon=3.0)
    return ledger


def test_four_processes_spend_all_there_is_and_no_more(ledger: Ledger) -> None:
    processes = [start(SPEND, ledger.path) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    won = [int(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sum(won) == 42  # floor(3 / 0.07)
    status = ledger.status("visits")
    assert status.spent.n_costs == len(status.charges) == 42
    assert status.spent.epsilon == pytest.approx(2.94)


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    won: list[int] = []

    def work() -> None:
        for _ in range(10):
            try:
                won.append(ledger.reserve("visits", Cost(0.1), plan_digest="plan").id)
            except BudgetError:
                return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(won)) == len(won) == 30
    assert ledger.status("visits").left == 0.0


TOIL = """
import sys
from dimly.curator.ledger.ledger import Ledger
from dimly.privacy.composition import Cost
ledger = Ledger(sys.argv[1])
print("ready", flush=True)
while True:
    charge = ledger.reserve("visits", Cost(0.01), plan_digest="plan")
    charge.claim_users([range(5000)])
    charge.start_sampling()
    charge.abandon()
"""


def test_a_process_killed_at_any_moment_leaves_a_ledger_that_knows_what_it_left(ledger: Ledger) -> None:
    delays = random.Random(0)  # noqa: S311 - moments, not secrets
    for _ in range(4):
        with start(TOIL, ledger.path) as process:
            assert process.stdout is not None
            process.stdout.readline()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(delays.uniform(0.0, 0.2))
            process.kill()
        with ledger._store.reading() as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    status = ledger.status("visits")
    counted = [record for record in status.charges if record.counts]  # also what was abandoned after it was drawn
    unfinished = [record for record in counted if record.ended_at is None]
    assert len(unfinished) <= 4
    assert status.spent.epsilon == pytest.approx(0.01 * len(counted))
    if ProcessMark.of_this_process().boot is not None:
        assert {record.label.partition(" ")[2] for record in unfinished} <= {"(process gone)"}
        for record in counted:
            ledger.forgive(record.id, reason="killed by a test", force=record.state == "sampling")
        assert ledger.status("visits").left == 3.0
