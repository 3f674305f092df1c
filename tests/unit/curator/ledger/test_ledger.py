import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.folders import people, release_folder, write
from tests.plans import plan_of
from tests.processes import in_a_fork
from tests.streams import Recorded

from dimly.curator.ledger import charge as ledger_charge
from dimly.curator.ledger.charge import ProcessMark, update
from dimly.curator.ledger.ledger import Charge, DatasetBudget, Ledger, _down
from dimly.curator.ledger.store import Store
from dimly.errors import BudgetError, DimlyError, ParameterError, ReleaseError
from dimly.privacy.calibration import epsilon_of
from dimly.privacy.composition import Cost, compose
from dimly.release.reader import open_folder

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
    with pytest.raises(ParameterError, match="dataset must be new, but 'visits' is already in the ledger"):
        ledger.add_dataset("visits", epsilon=2.0)
    assert ledger.status("visits").epsilon == 1.0


def test_bad_budgets_are_refused(ledger: Ledger) -> None:
    with pytest.raises(ParameterError, match="epsilon must be > 0"):
        ledger.add_dataset("other", epsilon=-1.0)
    assert ledger.datasets() == ("visits",)


@pytest.mark.parametrize("name", ["visit", "VISITS", None, "\ud800x"])
def test_an_unknown_dataset_is_refused_with_those_that_are_there(ledger: Ledger, name: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: ledger.status(name),
        lambda: ledger.check(name, Cost(0.1)),
        lambda: ledger.reserve(name, Cost(0.1), plan_digest=DIGEST),
        lambda: ledger.reserve_append(name, release_id="r0", plan_digest=DIGEST),
    ]
    for call in calls:
        with pytest.raises(ParameterError, match=r"dataset must be one of the ledger's \('visits'\), got ") as caught:
            call()
        assert str(caught.value).endswith(f"got {name!r}.")


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
    assert (status.spent.epsilon, status.left) == (1.0, 0.0)
    with pytest.raises(BudgetError, match=r"stay within epsilon 1 at delta 0, .* would make it 1\.1\. Nothing is left"):
        reserve(ledger)
    assert ledger.status("visits") == status


def test_a_check_refuses_the_same_and_charges_nothing(ledger: Ledger) -> None:
    ledger.check("visits", Cost(1.0))
    reserve(ledger, 0.75)
    with pytest.raises(BudgetError, match=r"A release of epsilon 0\.25 and delta 0 still fits"):
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
    with pytest.raises(DimlyError, match="a charge in the ledger must hold a cost, but one does not"):
        ledger.status("visits")


# --- forgiving


@linux
@pytest.mark.parametrize("sampling", [False, True])
def test_a_charge_of_a_process_that_is_gone_stays_until_it_is_forgiven(ledger: Ledger, sampling: bool) -> None:
    charge = reserve_and_die(ledger, sampling=sampling)
    (record,) = ledger.status("visits").charges
    assert record.label == ("sampling (process gone)" if sampling else "reserved (process gone)")
    assert ledger.status("visits").left == 0.9
    if sampling:
        with pytest.raises(BudgetError, match=r"drew no noise .* may have been read is spent\. Use --force"):
            ledger.forgive(charge, reason="The machine was switched off; the folder is not there.")
    ledger.forgive(charge, reason="The machine was switched off; the folder is not there.", force=sampling)
    status = ledger.status("visits")
    assert (status.left, status.spent.n_costs) == (1.0, 0)
    (record,) = status.charges  # never deleted
    label = "forgiven (noise drawn)" if sampling else "forgiven"
    assert (record.state, record.label, record.counts) == ("forgiven", label, False)
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
    parent = ledger_charge._stat(os.getppid())
    assert parent is not None
    hand_over(ledger, charge.id, replace(ProcessMark.of_this_process(), pid=os.getppid(), started=parent[1]))
    assert charge.record.label == "reserved"
    with pytest.raises(BudgetError, match="but its process is alive"):
        ledger.forgive(charge.id, reason="in a hurry")


def test_the_charge_of_a_process_out_of_sight_is_forgiven_by_force_only(ledger: Ledger) -> None:
    charge = reserve(ledger)
    hand_over(ledger, charge.id, replace(ProcessMark.of_this_process(), boot="another machine", pid=1))
    assert charge.record.label == "reserved (process out of sight)"
    with pytest.raises(BudgetError, match="but its process is out of sight"):
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
    charge.abandon()
    with pytest.raises(ParameterError, match=f"charge must count to be forgiven, but charge {charge.id} is returned"):
        ledger.forgive(charge.id, reason="twice")
    with pytest.raises(ParameterError, match="charge must be one of the ledger's, got 99"):
        ledger.forgive(99, reason="none")
    with pytest.raises(ParameterError, match="reason must be one line of 1 to 2000 characters"):
        ledger.forgive(charge.id, reason=" ")


# --- confirming


def test_a_complete_release_is_confirmed(ledger: Ledger) -> None:
    charge = reserve(ledger)
    for _ in range(2):  # before noise is drawn, and before the release is complete
        with pytest.raises(BudgetError, match=f"charge {charge.id} must be of a complete release to be confirmed"):
            ledger.confirm(charge.id)
        if charge.state == "reserved":
            charge.start_sampling()
    charge.seal(release_id="r0")
    charge.abandon()
    ledger.confirm(charge.id)
    before = charge.record
    assert (before.state, before.ended_at) == ("visible", None)
    ledger.confirm(charge.id)
    assert charge.record == before
    with pytest.raises(ParameterError, match="charge must be one of the ledger's, got 99"):
        ledger.confirm(99)


def test_what_an_early_version_gave_back_is_not_confirmed(ledger: Ledger) -> None:
    charge = reserve(ledger)
    charge.start_sampling()
    charge.seal(release_id="r0")
    with Store(ledger.path).writing() as connection:
        update(connection, charge.id, state="returned")
    with pytest.raises(BudgetError, match=f"charge {charge.id} must count or be forgiven to be confirmed, but it was"):
        ledger.confirm(charge.id)
    assert charge.state == "returned"


def test_what_is_confirmed_after_it_was_forgiven_counts_again(ledger: Ledger) -> None:
    charge = reserve(ledger)
    charge.start_sampling()
    charge.seal(release_id="r0")
    ledger.forgive(charge.id, reason="there is no folder", force=True)
    ledger.confirm(charge.id)
    assert (charge.state, ledger.status("visits").left) == ("visible", 0.9)


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
    assert set(first) == columns | {"label", "kind"}
    text = json.dumps(exported)
    for secret in (key, tags):
        assert secret.hex() not in text
        assert not any(str(int.from_bytes(secret[i : i + 8], "little")) in text for i in range(0, len(secret), 8))
    assert "somebody" not in text
    assert not re.search(os.uname().nodename + r"\b", text)


def budget(epsilon: float = 1.0, **fields: Any) -> DatasetBudget:
    stated: dict[str, Any] = {"epsilon": epsilon, "delta": 0.0, "unit": "attribute", "method": None} | fields
    return DatasetBudget.of("d", **stated)


def gaussian(multiplier: float, **fields: Any) -> Cost:
    return Cost(epsilon_of(multiplier, delta=1e-6), 1e-6, noise_multiplier=multiplier, **fields)


def test_the_method_follows_delta_and_can_be_stated() -> None:
    assert budget().method == "sum"
    assert budget(delta=1e-6).method == "renyi"
    assert budget(delta=1e-6, method="sum").method == "sum"
    assert budget(100.0, delta=1e-6, method="sum").epsilon == 100.0


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"epsilon": 0.0}, "epsilon must be > 0"),
        ({"delta": 1.0}, "delta must be in"),
        ({"unit": "person"}, "unit must be one of attribute, column, got 'person'"),
        ({"method": "pld"}, "method must be one of sum, renyi, got 'pld'"),
        ({"method": "renyi"}, "method 'renyi' must have delta > 0 .* got delta 0"),
        ({"delta": 1e-6, "epsilon": 33.0}, "at most 32, got delta 1e-06 and epsilon 33. Use method 'sum'"),
    ],
)
def test_parts_that_do_not_fit_are_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        budget(**fields)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201, None, 3])
def test_a_name_is_one_readable_line(name: Any) -> None:
    with pytest.raises(ParameterError, match="dataset must be one line of 1 to 200 characters"):
        DatasetBudget.of(name, epsilon=1.0, delta=0.0, unit="attribute", method=None)


@pytest.mark.parametrize("delta", [0.0, 1e-6])  # by a sum, and by a filter, of whose readings a sum is one
@given(n=st.integers(1, 60), epsilon=st.sampled_from(["0.1", "0.3", "0.7", "1.1", "0.05", "0.123456789"]))
def test_n_parts_of_a_budget_fit_it_and_one_more_does_not(n: int, epsilon: str, delta: float) -> None:
    whole = budget(min(float(n * Decimal(epsilon)), 32.0), delta=delta)
    n = int(Decimal(repr(whole.epsilon)) / Decimal(epsilon))
    cost = Cost(float(epsilon))
    whole.check([cost] * (n - 1), cost)
    if delta == 0:
        with pytest.raises(BudgetError):
            whole.check([cost] * n, cost)


@given(st.lists(st.decimals("0.001", "2", places=12), min_size=1, max_size=20), st.sampled_from([-1, 0, 1]))
def test_a_sum_is_compared_as_it_is_written(parts: list[Decimal], off: int) -> None:
    whole = sum(parts) + off * Decimal("1e-13")
    costs = [Cost(float(part)) for part in parts]
    assert Decimal(repr(float(whole))) == whole  # at most sixteen digits
    if off < 0:
        with pytest.raises(BudgetError):
            budget(float(whole)).check(costs[1:], costs[0])
    else:
        budget(float(whole)).check(costs[1:], costs[0])


def test_the_smallest_excess_is_refused_and_told() -> None:
    told = r"would make it 1\.0000000000000002\. A release of epsilon 1 and delta 0 still fits"
    with pytest.raises(BudgetError, match=told):
        budget().check([], Cost(math.nextafter(1.0, 2.0)))


def test_deltas_add_up_as_they_are_written_too() -> None:
    parts = budget(10.0, delta=1e-7, method="sum")
    tenth = Cost(0.1, 1e-8)
    assert compose([tenth] * 10, delta=1e-7, method="sum").delta == 1e-7
    parts.check([tenth] * 9, tenth)
    with pytest.raises(BudgetError, match=r"does not fit: delta must be at least 1\.1e-07"):
        parts.check([tenth] * 10, tenth)
    with pytest.raises(BudgetError):
        parts.check([tenth] * 9, Cost(0.1, 1e-8 + 1e-18))


def test_a_refusal_says_what_is_left() -> None:
    with pytest.raises(BudgetError) as caught:
        budget().check([Cost(0.3)], Cost(0.8))
    assert str(caught.value) == (
        "dataset 'd' must stay within epsilon 1 at delta 0, and this release of epsilon 0.8 would make it 1.1. "
        "A release of epsilon 0.7 and delta 0 still fits."
    )


def test_gaussian_noise_in_a_pure_budget_is_refused_with_the_reason() -> None:
    with pytest.raises(
        BudgetError, match=r"delta must be at least 1e-06, .* A release of epsilon 1 and delta 0 still fits"
    ):
        budget().check([], gaussian(10.0))


def test_a_filter_admits_more_than_a_sum() -> None:
    cost = gaussian(40.0)
    many = [cost] * 99
    filtered, summed = budget(delta=1e-5), budget(delta=1e-3, method="sum")
    filtered.check(many[:50], cost)
    with pytest.raises(BudgetError):
        summed.check(many[:50], cost)


COSTS = st.lists(st.builds(Cost, st.floats(1e-3, 1.0)) | st.builds(gaussian, st.floats(5.0, 50.0)), max_size=5)


@given(COSTS, st.floats(0.5, 8.0), st.sampled_from(["sum", "renyi"]))
def test_what_is_left_fits_and_a_little_more_does_not(costs: list[Cost], epsilon: float, method: Any) -> None:
    spent = budget(epsilon, delta=1e-4, method=method)
    left = spent.left(costs)
    assert 0 <= left <= epsilon
    if left:
        spent.check(costs, Cost(left))
    if left < epsilon * (1 - 1e-6):
        with pytest.raises(BudgetError):
            spent.check(costs, Cost(left * (1 + 1e-9) + 1e-9))


@pytest.mark.parametrize(("n", "left"), [(0, 1.0), (3, 0.7), (7, 0.3), (9, 0.1), (10, 0.0), (11, 0.0)])
def test_what_is_left_is_a_number_as_people_write_it(n: int, left: float) -> None:
    assert budget().left([Cost(0.1)] * n) == left


def test_nothing_is_left_where_even_the_method_gives_up() -> None:
    costs = [gaussian(10.0), gaussian(10.0)]
    assert budget(delta=1e-9, method="sum").left(costs) == 0.0


def test_more_than_the_method_can_tell_is_told_as_a_sum() -> None:
    costs = [gaussian(10.0), gaussian(10.0)]
    told = budget(delta=1e-9, method="sum").spent(costs)
    assert told == compose(costs, delta=0.5, method="sum")


def test_a_plan_for_columns_protects_attributes_at_its_own_cost() -> None:
    column = gaussian(10.0, unit="column")
    assert budget(delta=1e-5).in_unit(column) == gaussian(10.0)
    assert budget(unit="column").in_unit(Cost(1.0, unit="column")).unit == "column"


def test_a_plan_for_attributes_does_not_protect_columns() -> None:
    with pytest.raises(BudgetError, match="plan must protect unit 'column', as dataset 'd' promises, got 'attribute'"):
        budget(unit="column").in_unit(Cost(1.0))


@given(st.floats(1e-9, 700.0))
def test_what_is_told_in_six_digits_never_exceeds_what_is_left(value: float) -> None:
    told = float(f"{_down(value):.6g}")
    assert told <= value
    assert math.isclose(told, value, rel_tol=2e-5)


class TestEntering:
    """Releases that were published without the ledger."""

    def test_it_counts_as_if_it_had_been_charged(self, ledger: Ledger, tmp_path: Path) -> None:
        release = release_folder(tmp_path / "release")
        manifest = open_folder(release).manifest
        ledger.add_dataset("wide", epsilon=1.5)
        record = ledger.enter("wide", release, recipient="ACME")
        assert (record.state, record.cost, record.n_users) == ("visible", manifest.plan.cost, 30)
        assert (record.release_id, record.plan_digest) == (manifest.release, manifest.plan_digest)
        assert (record.recipient, record.reason) == ("ACME", "entered after it was published")
        status = ledger.status("wide")
        assert (status.spent.epsilon, status.left, status.charges) == (1.0, 0.5, (record,))
        with pytest.raises(BudgetError, match=r"A release of epsilon 0\.5 and delta 0 still fits"):
            ledger.reserve("wide", Cost(0.6), plan_digest=DIGEST)
        with pytest.raises(BudgetError, match="must not be visible to be forgiven"):
            ledger.forgive(record.id, reason="a mistake", force=True)

    def test_it_is_entered_beyond_the_budget_and_nothing_fits_then(self, ledger: Ledger, tmp_path: Path) -> None:
        reserve(ledger, 0.75)
        ledger.enter("visits", release_folder(tmp_path / "release"))
        status = ledger.status("visits")
        assert (status.spent.epsilon, status.spent.method, status.left) == (1.75, "sum", 0.0)
        with pytest.raises(BudgetError, match="Nothing is left"):
            reserve(ledger, 1e-6)

    def test_beyond_the_budget_a_filter_claims_the_plain_sum(self, ledger: Ledger, tmp_path: Path) -> None:
        # Two Gaussian releases of (1, 1e-6) cost less than 2 together by Rényi orders, but no filter admitted them.
        ledger.add_dataset("small", epsilon=0.5, delta=1e-6)
        ledger.add_dataset("large", epsilon=4.0, delta=1e-5)
        plan = plan_of("hashing+gaussian")
        for name in ("one", "two"):
            release = write(tmp_path / name, people(plan))
            for dataset in ("small", "large"):
                ledger.enter(dataset, release)
        small, large = ledger.status("small").spent, ledger.status("large").spent
        assert (small.epsilon, small.method) == (2 * plan.cost.epsilon, "sum")
        assert (large.epsilon < small.epsilon, large.method) == (True, "renyi")
        assert small.delta == pytest.approx(2 * plan.cost.delta)

    def test_a_delta_that_the_budget_does_not_have(self, ledger: Ledger, tmp_path: Path) -> None:
        ledger.enter("visits", release_folder(tmp_path / "release", "hashing+gaussian"))
        status = ledger.status("visits")
        assert (status.spent.epsilon, status.spent.delta > 0, status.left) == (1.0, True, 0.0)
        with pytest.raises(BudgetError, match="does not fit"):
            reserve(ledger, 0.1)

    def test_attributes_are_not_entered_where_columns_are_promised(self, ledger: Ledger, tmp_path: Path) -> None:
        # Somebody may have any number of attributes in a column, where the plan did not count columns.
        ledger.add_dataset("columns", epsilon=4.0, unit="column")
        with pytest.raises(BudgetError, match="Enter it into a dataset with unit 'attribute'"):
            ledger.enter("columns", release_folder(tmp_path / "release"))
        assert not ledger.status("columns").charges

    def test_deltas_that_add_up_to_one(self) -> None:
        budget = DatasetBudget.of("d", epsilon=4.0, delta=1e-6, unit="attribute", method=None)
        total = budget.spent([Cost(1.0, 0.4)] * 3)
        assert (total.epsilon, total.delta, total.method) == (math.nextafter(3.0, 4.0), 1.0, "sum")
        assert budget.is_over([Cost(1.0, 0.4)] * 3)

    def test_nobody_is_added_to_a_release_of_a_dataset_over_its_budget(self, ledger: Ledger, tmp_path: Path) -> None:
        # Somebody who is in the entered release alone would be in both, at twice the budget.
        charge = reserve(ledger, 1.0)
        charge.claim_users([pa.array(["ada"])])
        charge.start_sampling()
        charge.seal(release_id="ab" * 32, appendable=True)
        charge.make_visible()
        ledger.reserve_append("visits", release_id="ab" * 32, plan_digest=DIGEST).abandon()
        ledger.enter("visits", release_folder(tmp_path / "release"))
        with pytest.raises(BudgetError, match="must be within its budget for people to be added"):
            ledger.reserve_append("visits", release_id="ab" * 32, plan_digest=DIGEST)

    def test_once_for_each_dataset(self, ledger: Ledger, tmp_path: Path) -> None:
        release = release_folder(tmp_path / "release")
        ledger.add_dataset("other", epsilon=1.0)
        first = ledger.enter("visits", release)
        with pytest.raises(BudgetError, match=f"must be entered once, but charge {first.id} is its own already"):
            ledger.enter("visits", release)
        assert ledger.enter("other", release).dataset == "other"
        assert len(ledger.status("visits").charges) == 1

    @linux
    @pytest.mark.parametrize("forgiven", [True, False])
    def test_a_charge_of_its_own_is_confirmed_instead(self, ledger: Ledger, tmp_path: Path, forgiven: bool) -> None:
        release = release_folder(tmp_path / "release")
        charge = reserve_and_die(ledger, release_id=open_folder(release).manifest.release)
        if forgiven:
            ledger.forgive(charge, reason="nobody saw it", force=True)
        with pytest.raises(BudgetError, match=re.escape(f"Run `dimly ledger confirm {ledger.path} {charge}`")):
            ledger.enter("visits", release)
        assert len(ledger.status("visits").charges) == 1

    def test_it_cannot_grow(self, ledger: Ledger, tmp_path: Path) -> None:
        record = ledger.enter("visits", release_folder(tmp_path / "release"))
        assert record.release_id is not None
        with pytest.raises(BudgetError, match="must be one that can grow"):
            ledger.reserve_append("visits", release_id=record.release_id, plan_digest=record.plan_digest)

    def test_what_is_no_private_and_whole_release_is_refused(self, ledger: Ledger, tmp_path: Path) -> None:
        tested = write(tmp_path / "tested", people(plan_of("counting+laplace"), words=Recorded(7)))
        with pytest.raises(ParameterError, match="it was made for tests and costs nothing"):
            ledger.enter("visits", tested)
        damaged = release_folder(tmp_path / "damaged")
        part = next(damaged.rglob("part-*.parquet"))
        part.write_bytes(part.read_bytes()[:-1] + b"x")
        with pytest.raises(ReleaseError):
            ledger.enter("visits", damaged)
        with pytest.raises(ParameterError, match="one of the ledger's"):
            ledger.enter("visit", release_folder(tmp_path / "release"))
        assert ledger.status("visits").charges == ()
