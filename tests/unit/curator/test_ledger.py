import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.plans import plan_of
from tests.processes import in_a_fork

from dimly.curator import ledger_process
from dimly.curator.ledger import Charge, Ledger
from dimly.curator.ledger_process import ProcessMark
from dimly.errors import BudgetError, DimlyError, ParameterError
from dimly.privacy.cost import Cost

# Python 3.12 and later warn of forks where there are threads; there are none that would hold a lock here.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

DIGEST = "5e0c" * 16
linux = pytest.mark.skipif(ProcessMark.of_this_process().boot is None, reason="needs /proc")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", epsilon=1.0)
    return ledger


def reserve(ledger: Ledger, epsilon: float = 0.1, **fields: Any) -> Charge:
    return ledger.reserve("visits", Cost(epsilon), **({"plan_digest": DIGEST} | fields))


def reserve_and_die(ledger: Ledger, *, sampling: bool = True, release_id: str | None = None) -> int:
    """Return the charge of a process that ended without a word."""

    def work() -> bytes:
        charge = reserve(ledger)
        if sampling:
            charge.start_sampling()
        if release_id is not None:
            charge.seal(release_id=release_id)
        return str(charge.id).encode()

    return int(in_a_fork(work))


def hand_over(ledger: Ledger, charge: int, process: ProcessMark) -> None:
    with ledger._store.writing() as connection:
        connection.execute("UPDATE charge SET process = ? WHERE id = ?", (process.to_json(), charge))


def publish(charge: Charge, release_id: str = "r0") -> None:
    charge.start_sampling()
    charge.seal(release_id=release_id)
    charge.make_visible()


# --- datasets


def test_a_ledger_holds_datasets_with_budgets_of_their_own(ledger: Ledger) -> None:
    ledger.add_dataset("taste", epsilon=4.0, delta=1e-6, unit="column")
    assert ledger.datasets() == ("taste", "visits")
    reserve(ledger, 1.0)
    taste = ledger.status("taste")
    assert (taste.epsilon, taste.delta, taste.unit, taste.method) == (4.0, 1e-6, "column", "renyi")
    assert (taste.spent.epsilon, taste.left, taste.charges) == (0.0, 4.0, ())
    assert repr(ledger) == f"Ledger({str(ledger.path)!r})"


def test_creating_again_keeps_what_was_charged(ledger: Ledger) -> None:
    reserve(ledger)
    again = Ledger.create(ledger.path)
    assert again.status("visits") == ledger.status("visits")
    assert len(again.status("visits").charges) == 1


def test_a_budget_is_fixed_for_ever(ledger: Ledger) -> None:
    with pytest.raises(ParameterError, match="dataset must be new, and 'visits' is in the ledger already"):
        ledger.add_dataset("visits", epsilon=2.0)
    assert ledger.status("visits").epsilon == 1.0


def test_bad_budgets_are_refused(ledger: Ledger) -> None:
    with pytest.raises(ParameterError, match="epsilon must be > 0"):
        ledger.add_dataset("other", epsilon=-1.0)
    assert ledger.datasets() == ("visits",)


@pytest.mark.parametrize("name", ["visit", "VISITS", None])
def test_an_unknown_dataset_is_refused_with_those_that_are_there(ledger: Ledger, name: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: ledger.status(name),
        lambda: ledger.check(name, Cost(0.1)),
        lambda: ledger.reserve(name, Cost(0.1), plan_digest=DIGEST),
        lambda: ledger.reserve_append(name, release_id="r0", plan_digest=DIGEST),
    ]
    for call in calls:
        with pytest.raises(ParameterError, match=rf"dataset must be one of the ledger's \('visits'\), got {name!r}"):
            call()


def test_an_empty_ledger_says_so(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"\(none yet\), got 'visits'"):
        Ledger.create(tmp_path / "empty.db").status("visits")


# --- reserving


def test_a_charge_counts_from_the_moment_it_is_reserved(ledger: Ledger) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    charge = reserve(ledger, 0.4, recipient="the university")
    status = ledger.status("visits")
    assert (status.spent.epsilon, status.spent.n_costs, status.left) == (0.4, 1, 0.6)
    (record,) = status.charges
    assert record == charge.record
    assert (record.id, record.state, record.label, record.counts) == (charge.id, "reserved", "reserved", True)
    assert (record.cost, record.plan_digest, record.recipient) == (Cost(0.4), DIGEST, "the university")
    assert record.process == ProcessMark.of_this_process()
    reserved = datetime.fromisoformat(record.reserved_at)
    assert reserved.utcoffset() == datetime.now(UTC).utcoffset()
    assert before <= reserved <= datetime.now(UTC)


def test_ten_tenths_fit_one_and_the_eleventh_is_refused_saying_what_is_left(ledger: Ledger) -> None:
    for number in range(10):
        reserve(ledger, recipient=f"recipient {number}")  # all of them count together
    status = ledger.status("visits")
    assert (status.spent.epsilon > 1.0, status.left) == (True, 0.0)  # 1.0000000000000002
    with pytest.raises(BudgetError, match=r"stay within epsilon 1 at delta 0, .* would make it 1\.1\. Nothing is left"):
        reserve(ledger)
    assert ledger.status("visits") == status


def test_a_check_refuses_the_same_and_charges_nothing(ledger: Ledger) -> None:
    ledger.check("visits", Cost(1.0))
    reserve(ledger, 0.75)
    with pytest.raises(BudgetError, match=r"A pure release of epsilon 0\.25 still fits"):
        ledger.check("visits", Cost(0.5))
    assert len(ledger.status("visits").charges) == 1


@pytest.mark.parametrize("mechanism", ["counting+laplace", "sign+gaussian", "randomized-response"])
def test_the_cost_of_a_plan_keeps_every_bit(tmp_path: Path, mechanism: str) -> None:
    plan = plan_of(mechanism)
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", epsilon=8.0, delta=1e-5)
    ledger.reserve("visits", plan.cost, plan_digest=plan.digest)
    assert Ledger(ledger.path).status("visits").charges[0].cost == plan.cost


def test_a_plan_for_columns_counts_among_attributes_and_not_the_other_way_round(ledger: Ledger) -> None:
    ledger.add_dataset("columns", epsilon=1.0, unit="column")
    ledger.reserve("visits", Cost(0.5, unit="column"), plan_digest=DIGEST)
    reserve(ledger, 0.25)
    status = ledger.status("visits")
    assert (status.spent.epsilon, status.left) == (0.75, 0.25)
    assert [record.cost and record.cost.unit for record in status.charges] == ["column", "attribute"]
    with pytest.raises(BudgetError, match="plan must protect unit 'column'"):
        ledger.reserve("columns", Cost(0.5), plan_digest=DIGEST)
    ledger.reserve("columns", Cost(0.5, unit="column"), plan_digest=DIGEST)
    assert ledger.status("columns").left == 0.5


@pytest.mark.parametrize("fields", [{"plan_digest": ""}, {"recipient": "a\nb"}, {"recipient": ""}])
def test_texts_are_one_line(ledger: Ledger, fields: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=rf"{next(iter(fields))} must be one line of 1 to 200 characters"):
        reserve(ledger, **fields)
    assert ledger.status("visits").charges == ()


def test_a_cost_that_was_edited_is_noticed(ledger: Ledger) -> None:
    reserve(ledger)
    with ledger._store.writing() as connection:
        connection.execute("""UPDATE charge SET cost = '{"epsilon": -1.0}'""")
    with pytest.raises(DimlyError, match="a charge in the ledger must hold a cost, and one does not"):
        ledger.status("visits")


# --- forgiving


@linux
@pytest.mark.parametrize("sampling", [False, True])
def test_a_charge_of_a_process_that_is_gone_stays_until_it_is_forgiven(ledger: Ledger, sampling: bool) -> None:
    charge = reserve_and_die(ledger, sampling=sampling)
    (record,) = ledger.status("visits").charges
    assert record.label == ("sampling (process gone)" if sampling else "reserved (process gone)")
    assert ledger.status("visits").left == 0.9
    ledger.forgive(charge, reason="The machine was switched off; the folder is not there.")
    status = ledger.status("visits")
    assert (status.left, status.spent.n_costs) == (1.0, 0)
    (record,) = status.charges  # never deleted
    assert (record.state, record.label, record.counts) == ("forgiven", "forgiven", False)
    assert record.reason == "The machine was switched off; the folder is not there."
    assert record.ended_at is not None


def test_what_is_visible_is_never_forgiven(ledger: Ledger) -> None:
    charge = reserve(ledger)
    publish(charge)
    with pytest.raises(BudgetError, match=f"charge {charge.id} must not be visible to be forgiven"):
        ledger.forgive(charge.id, reason="I would like to", force=True)
    assert charge.state == "visible"


def test_the_charge_of_this_process_is_forgiven_by_force_only(ledger: Ledger) -> None:
    charge = reserve(ledger)
    with pytest.raises(BudgetError, match=r"must be of a process that is gone .* is this one\. Use --force"):
        ledger.forgive(charge.id, reason="lost in a notebook")
    ledger.forgive(charge.id, reason="lost in a notebook", force=True)
    assert charge.state == "forgiven"


@linux
def test_the_charge_of_a_process_that_lives_is_forgiven_by_force_only(ledger: Ledger) -> None:
    charge = reserve(ledger)
    parent = ledger_process._stat(os.getppid())
    assert parent is not None
    hand_over(ledger, charge.id, replace(ProcessMark.of_this_process(), pid=os.getppid(), started=parent[1]))
    assert charge.record.label == "reserved"
    with pytest.raises(BudgetError, match="and its process is alive"):
        ledger.forgive(charge.id, reason="in a hurry")


def test_the_charge_of_a_process_out_of_sight_is_forgiven_by_force_only(ledger: Ledger) -> None:
    charge = reserve(ledger)
    hand_over(ledger, charge.id, replace(ProcessMark.of_this_process(), boot="another machine", pid=1))
    assert charge.record.label == "reserved (process out of sight)"
    with pytest.raises(BudgetError, match="and its process is out of sight"):
        ledger.forgive(charge.id, reason="the machine was started again")
    ledger.forgive(charge.id, reason="the machine was started again", force=True)
    assert ledger.status("visits").left == 1.0


@linux
def test_the_charge_of_a_complete_release_is_forgiven_by_force_only(ledger: Ledger) -> None:
    charge = reserve_and_die(ledger, release_id="r0")
    with pytest.raises(
        BudgetError, match=r"release r0 may be visible\. Use --force if you know that no folder holds it"
    ):
        ledger.forgive(charge, reason="killed")
    ledger.forgive(charge, reason="killed; there is no such folder", force=True)
    assert ledger.status("visits").left == 1.0


def test_only_what_counts_can_be_forgiven(ledger: Ledger) -> None:
    charge = reserve(ledger)
    charge.give_back()
    with pytest.raises(ParameterError, match=f"charge must count to be forgiven, and charge {charge.id} is returned"):
        ledger.forgive(charge.id, reason="twice")
    with pytest.raises(ParameterError, match="charge must be one of the ledger's, got 99"):
        ledger.forgive(99, reason="none")
    with pytest.raises(ParameterError, match="reason must be one line of 1 to 2000 characters"):
        ledger.forgive(charge.id, reason=" ")


# --- export


def test_an_export_is_json_with_everything_but_key_and_people(ledger: Ledger) -> None:
    ledger.add_dataset("taste", epsilon=4.0, delta=1e-6)
    charge = reserve(ledger, recipient="the university")
    charge.claim_users([["somebody", "else"]])
    publish(charge)
    ledger.forgive(reserve(ledger).id, reason="as a test", force=True)
    exported = json.loads(json.dumps(ledger.export(), allow_nan=False))
    assert set(exported) == {"format", "created_at", "exported_at", "datasets"}
    taste, visits = exported["datasets"]
    assert (taste["name"], taste["left"], taste["charges"]) == ("taste", 4.0, [])
    assert (visits["spent"], visits["left"]) == ({"epsilon": 0.1, "delta": 0.0, "method": "sum", "n_costs": 1}, 0.9)
    first, second = visits["charges"]
    assert (first["state"], first["release_id"], first["n_users"]) == ("visible", "r0", 2)
    assert first["cost"]["epsilon"] == 0.1
    assert (second["state"], second["reason"]) == ("forgiven", "as a test")
    with ledger._store.reading() as connection:
        key = connection.execute("SELECT tag_key FROM ledger").fetchone()[0]
        tags = connection.execute("SELECT tags FROM people").fetchone()[0]
        columns = {row["name"] for row in connection.execute("PRAGMA table_info(charge)")}
    assert set(first) == columns | {"label"}
    text = json.dumps(exported)
    for secret in (key, tags):
        assert secret.hex() not in text
        assert not any(str(int.from_bytes(secret[i : i + 8], "little")) in text for i in range(0, len(secret), 8))
    assert "somebody" not in text
    assert not re.search(os.uname().nodename + r"\b", text)
