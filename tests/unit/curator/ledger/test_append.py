import threading
from pathlib import Path
from typing import Any

import pytest
from tests.processes import in_a_fork

from dimly.curator.ledger import store as ledger_store
from dimly.curator.ledger.charge import ProcessMark
from dimly.curator.ledger.ledger import Charge, Ledger
from dimly.errors import BudgetError, ParameterError
from dimly.privacy.composition import Cost

# Python 3.12 and later warn of forks where there are threads; there are none that would hold a lock here.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

KNOWN = "some people are already in it. Use --update, which is charged"
linux = pytest.mark.skipif(ProcessMark.of_this_process().boot is None, reason="needs /proc")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return a ledger with release r0 of people 0 … 9."""
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", epsilon=1.0)
    publish(ledger.reserve("visits", Cost(0.5), plan_digest="plan"), range(10), release_id="r0")
    return ledger


def publish(charge: Charge, users: Any, *, release_id: str, appendable: bool = True) -> None:
    charge.claim_users([list(users)])
    charge.start_sampling()
    charge.seal(release_id=release_id, appendable=appendable)
    charge.make_visible()


def append(ledger: Ledger, release_id: str = "r0", **fields: Any) -> Charge:
    return ledger.reserve_append("visits", release_id=release_id, **({"plan_digest": "plan"} | fields))


def test_new_people_cost_nothing(ledger: Ledger) -> None:
    charge = append(ledger, recipient="the university")
    publish(charge, range(10, 20), release_id="r1")
    status = ledger.status("visits")
    assert (status.spent.epsilon, status.spent.n_costs, status.left) == (0.5, 1, 0.5)
    record = status.charges[1]
    assert (record.cost, record.appends_to, record.lineage) == (None, "r0", status.charges[0].id)
    assert (record.state, record.release_id, record.recipient) == ("visible", "r1", "the university")
    assert status.charges[0].lineage == status.charges[0].id


def test_a_budget_that_is_spent_still_allows_new_people(ledger: Ledger) -> None:
    ledger.reserve("visits", Cost(0.5), plan_digest="other")
    assert ledger.status("visits").left == 0
    publish(append(ledger), [99], release_id="r1")


@pytest.mark.parametrize("users", [[9], [77, 3, 78], ["5"], list(range(20))])
def test_people_of_the_release_are_refused(ledger: Ledger, users: list[Any]) -> None:
    charge = append(ledger)
    with pytest.raises(BudgetError, match=KNOWN):
        charge.claim_users([users])
    with pytest.raises(RuntimeError, match="must claim its users before it draws noise"):
        charge.start_sampling()
    charge.abandon()
    assert charge.state == "returned"


def test_people_of_every_release_of_the_line_are_refused(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_store, "CHUNK", 3)  # many pieces beside many
    for number in range(1, 4):
        publish(append(ledger, f"r{number - 1}"), range(10 * number, 10 * number + 10), release_id=f"r{number}")
    for user in (0, 19, 25, 39):
        charge = append(ledger, "r3")
        with pytest.raises(BudgetError, match=KNOWN):
            charge.claim_users([range(100, 107), [user]])
        charge.abandon()
    publish(append(ledger, "r3"), range(40, 50), release_id="r4")


def test_other_releases_of_the_same_people_do_not_matter(ledger: Ledger) -> None:
    publish(ledger.reserve("visits", Cost(0.25), plan_digest="plan"), range(20), release_id="s0")
    publish(append(ledger, "r0"), range(10, 20), release_id="r1")
    assert ledger.status("visits").spent.epsilon == 0.75


def test_people_are_added_to_the_newest_release_only(ledger: Ledger) -> None:
    publish(append(ledger), [10], release_id="r1")
    with pytest.raises(BudgetError, match="release must be the newest of its line, but people were added to it since"):
        append(ledger, "r0")


def test_one_process_at_a_time_adds_people(ledger: Ledger) -> None:
    first = append(ledger)
    with pytest.raises(BudgetError, match="release must not be changing, but another process is working on it"):
        append(ledger)
    first.abandon()
    append(ledger).abandon()


@linux
def test_people_of_an_append_that_was_killed_count_until_it_is_forgiven(ledger: Ledger) -> None:
    def work() -> bytes:
        charge = append(ledger)
        charge.claim_users([[10, 11]])
        charge.start_sampling()
        return str(charge.id).encode()

    killed = int(in_a_fork(work))
    charge = append(ledger)
    command = rf"`dimly ledger forgive \S*/ledger\.db {killed} --force --reason TEXT`"
    with pytest.raises(BudgetError, match=f"charge {killed}, which did not finish, .* Use --update, .* {command}"):
        charge.claim_users([[11, 12]])
    with pytest.raises(BudgetError, match=KNOWN):  # whoever is in the release is told so first
        charge.claim_users([[11, 3]])
    ledger.forgive(killed, reason="killed before the folder was there", force=True)
    publish(charge, [11, 12], release_id="r1")


@linux
@pytest.mark.parametrize(
    ("fate", "said"),
    [("alive", "whose run is under way, .* Wait until"), ("unknown", "cannot be seen from here")],
)
def test_a_run_that_may_be_under_way_is_not_to_be_forgiven(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, fate: str, said: str
) -> None:
    def work() -> bytes:
        charge = append(ledger)
        charge.claim_users([[10, 11]])
        charge.start_sampling()
        return b""

    in_a_fork(work)
    charge = append(ledger)
    monkeypatch.setattr(ProcessMark, "fate", property(lambda _: fate))
    with pytest.raises(BudgetError, match=said) as caught:
        charge.claim_users([[11, 12]])
    assert "--force" not in str(caught.value)


@linux
def test_an_append_that_was_killed_before_it_drew_noise_is_forgiven_without_force(ledger: Ledger) -> None:
    def work() -> bytes:
        charge = append(ledger)
        charge.claim_users([[10, 11]])
        return str(charge.id).encode()

    killed = int(in_a_fork(work))
    charge = append(ledger)
    command = rf"It drew no noise: cancel it with `dimly ledger forgive \S*/ledger\.db {killed} --reason TEXT`"
    with pytest.raises(BudgetError, match=command):
        charge.claim_users([[11, 12]])
    ledger.forgive(killed, reason="killed before it drew noise")
    publish(charge, [11, 12], release_id="r1")


def test_after_a_run_that_failed_the_same_process_can_add_others(ledger: Ledger) -> None:
    failed = append(ledger)
    failed.claim_users([[10]])
    failed.start_sampling()
    assert not failed.abandon()
    later = append(ledger)
    with pytest.raises(BudgetError, match=f"charge {failed.id}, which did not finish"):
        later.claim_users([[10]])
    publish(later, [11], release_id="r1")


@linux
def test_people_who_were_never_claimed_do_not_count(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_store, "CHUNK", 1)

    def work() -> bytes:
        def stream() -> Any:
            yield [10, 11]
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            append(ledger).claim_users(stream())
        return b"died"

    assert in_a_fork(work) == b"died"
    publish(append(ledger), [10, 11], release_id="r1")


@linux
def test_a_release_whose_process_died_right_after_the_exchange_can_grow(ledger: Ledger) -> None:
    def work() -> bytes:
        charge = append(ledger)
        charge.claim_users([[10]])
        charge.start_sampling()
        charge.seal(release_id="r1")
        return b"died"

    assert in_a_fork(work) == b"died"
    charge = append(ledger, "r1")  # whose folder the caller has in hands
    assert ledger.status("visits").charges[1].state == "visible"
    with pytest.raises(BudgetError, match=KNOWN):
        charge.claim_users([[10]])


def test_a_release_that_is_still_being_published_cannot_grow(ledger: Ledger) -> None:
    charge = ledger.reserve("visits", Cost(0.1), plan_digest="plan")
    charge.claim_users([[1]])
    charge.start_sampling()
    charge.seal(release_id="s0")
    with pytest.raises(BudgetError, match="release must not be changing"):
        append(ledger, "s0")


def test_a_release_that_this_ledger_did_not_charge_to_the_dataset_cannot_grow(ledger: Ledger) -> None:
    ledger.add_dataset("other", epsilon=1.0)
    for dataset, release_id in (("visits", "unknown"), ("other", "r0")):
        with pytest.raises(BudgetError, match=f"release must be one that this ledger charged to dataset '{dataset}'"):
            ledger.reserve_append(dataset, release_id=release_id, plan_digest="plan")
    with pytest.raises(ParameterError, match="release_id must be one line"):
        append(ledger, "")


def test_a_release_that_came_out_although_its_run_ended_can_grow(ledger: Ledger) -> None:
    charge = ledger.reserve("visits", Cost(0.1), plan_digest="plan")
    charge.claim_users([[1]])
    charge.start_sampling()
    charge.seal(release_id="s0")
    charge.abandon()
    append(ledger, "s0").abandon()  # who asks has the folder
    assert charge.state == "visible"


def test_another_plan_is_another_release(ledger: Ledger) -> None:
    with pytest.raises(BudgetError, match="plan must be the one that the release was made by"):
        append(ledger, plan_digest="another")


@pytest.mark.parametrize("reason", ["noisy distances", "nobody was claimed"])
def test_a_release_that_cannot_grow_does_not(ledger: Ledger, reason: str) -> None:
    charge = ledger.reserve("visits", Cost(0.1), plan_digest="plan")
    if reason == "noisy distances":
        publish(charge, [1], release_id="s0", appendable=False)
    else:
        charge.start_sampling()
        charge.seal(release_id="s0")
        charge.make_visible()
    assert not charge.record.appendable
    with pytest.raises(BudgetError, match="release must be one that can grow, but this one cannot"):
        append(ledger, "s0")


def test_of_releases_that_came_out_alike_the_people_of_all_are_refused(ledger: Ledger) -> None:
    publish(ledger.reserve("visits", Cost(0.1), plan_digest="plan"), [0, 20], release_id="r0")
    charge = append(ledger, "r0")
    for user in (20, 9):
        with pytest.raises(BudgetError, match=KNOWN):
            charge.claim_users([[user]])
    publish(charge, [30], release_id="r1")


def test_of_appends_that_claim_at_once_none_misses_the_other(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two charges on one line exist if the first one's process is out of sight; they share a person.
    first = append(ledger)
    with ledger._store.writing() as connection:
        connection.execute("UPDATE charge SET process = replace(process, '\"pid\": ', '\"pid\": 9999')")
        connection.execute("UPDATE charge SET process = json_set(process, '$.boot', 'elsewhere')")
    second = append(ledger)
    barrier = threading.Barrier(2)
    check = Charge._refuse_known_people

    def both_look_first(self: Charge, *args: Any, seen: set[int]) -> set[int]:
        found = check(self, *args, seen=seen)
        if not seen:
            barrier.wait(timeout=30)
        return found | {-1}

    monkeypatch.setattr(Charge, "_refuse_known_people", both_look_first)
    results: dict[int, str] = {}

    def claim(charge: Charge, users: list[int]) -> None:
        try:
            charge.claim_users([users])
            results[charge.id] = "claimed"
        except BudgetError:
            results[charge.id] = "refused"

    threads = [threading.Thread(target=claim, args=each) for each in ((first, [10, 11]), (second, [11, 12]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results.values()) == ["claimed", "refused"]


def test_an_update_costs_again_and_stays_in_the_line(ledger: Ledger) -> None:
    charge = ledger.reserve("visits", Cost(0.25), plan_digest="plan", updates="r0")
    with pytest.raises(RuntimeError, match="must claim its users before it draws noise"):
        charge.start_sampling()
    publish(charge, [3, 4, 50], release_id="r1")
    record = ledger.status("visits").charges[1]
    assert (record.updates, record.appends_to, record.lineage) == ("r0", None, 1)
    assert ledger.status("visits").left == 0.25
    for known in (3, 7, 50):  # of the update, of the first release, of both
        later = append(ledger, "r1")
        with pytest.raises(BudgetError, match=KNOWN):
            later.claim_users([[known]])
        later.abandon()
    publish(append(ledger, "r1"), [51], release_id="r2")


def test_an_update_must_fit_the_budget_and_the_release(ledger: Ledger) -> None:
    with pytest.raises(BudgetError, match="still fits"):
        ledger.reserve("visits", Cost(0.6), plan_digest="plan", updates="r0")
    with pytest.raises(BudgetError, match="that this ledger charged"):
        ledger.reserve("visits", Cost(0.1), plan_digest="plan", updates="r9")
    with pytest.raises(BudgetError, match="plan must be the one"):
        ledger.reserve("visits", Cost(0.1), plan_digest="other", updates="r0")
