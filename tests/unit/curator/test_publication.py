import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.plans import plan_of
from tests.streams import NO_NOISE, Recorded

from dimly.cli.faults import options_alone
from dimly.curator.append import BaseRelease
from dimly.curator.engine import LocalEngine
from dimly.curator.ledger.ledger import Charge, Ledger
from dimly.curator.ledger.store import Store
from dimly.curator.options import Options
from dimly.curator.people import people_of
from dimly.curator.publication import PublishOutcome, publish_by, published_bytes, rehearse, warnings_of, with_short_ids
from dimly.curator.randomness import Keystream, Words, WordSource
from dimly.curator.tables.matrix import MatrixTable
from dimly.errors import BudgetError, DataError, DimlyError, ParameterError, ReleaseError
from dimly.mechanisms import Plan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release import format as layouts
from dimly.release import writer
from dimly.release.manifest import AboutRelease
from dimly.release.reader import open_folder
from dimly.release.writer import ReleaseWriter

PLAN = plan_of("counting+laplace")
MATRIX = (np.random.default_rng(0).random((20, 12)) < 0.4).astype(np.int64)
NAMES = [str(i) for i in range(12)]


def table(users: range = range(20), matrix: np.ndarray = MATRIX) -> MatrixTable:
    people, names = people_of(matrix[list(users)], resolution=1, n_columns=None, attributes=None)
    return MatrixTable(people, np.array(users, np.int64), names, resolution=1)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger.create(tmp_path / "ledger.db")
    made.add_dataset("visits", epsilon=3.0, delta=1e-5)
    return made


def publish(
    out: Path | None,
    ledger: Ledger | None = None,
    plan: Plan = PLAN,
    *,
    opening: Callable[[], Any] = lambda: nullcontext(table()),
    vocabulary: Vocabulary | None = None,
    words: Callable[[], WordSource] = Keystream,
    **changes: Any,
) -> PublishOutcome:
    given: dict[str, Any] = {"out": out, "roster": [], "threads": 1}
    if ledger is not None:
        given |= {"ledger": ledger.path, "dataset": "visits"}
    options = Options(**given | changes)
    engine = LocalEngine(plan, options.resources, options.watcher, words)
    return publish_by(lambda _: engine, with_short_ids(opening(), plan), plan, options, vocabulary=vocabulary)


def states(ledger: Ledger) -> list[str]:
    return [charge.state for charge in ledger.status("visits").charges]


def test_a_release_is_charged_and_visible(tmp_path: Path, ledger: Ledger) -> None:
    published = publish(tmp_path / "release", ledger)
    stored = open_folder(tmp_path / "release", verify=True)
    (charge,) = ledger.status("visits").charges
    assert (charge.state, charge.release_id, charge.n_users) == ("visible", stored.manifest.release, 20)
    assert published.ledger == {"dataset": "visits", "charge": charge.id, "left": ledger.status("visits").left}
    assert (published.release_id, published.n_users, published.bytes) == (stored.manifest.release, 20, 20 * 32 * 2)
    assert published.warnings == ()
    assert stored.manifest.ledger is not None
    assert stored.manifest.ledger.dataset == "visits"


def test_without_a_ledger_or_roster_it_says_so(tmp_path: Path) -> None:
    published = publish(tmp_path / "release", roster=None)
    assert [text.partition(":")[0] for text in published.warnings] == ["No ledger", "No roster"]
    manifest = open_folder(tmp_path / "release").manifest
    assert manifest.ledger is None
    assert manifest.users.roster == "found"


def test_a_large_delta_is_warned_of(tmp_path: Path, ledger: Ledger) -> None:
    plan = Plan.of("counting+gaussian", plan_of("counting+gaussian").budget.__class__(1.0, 0.01), k=8)
    ledger.add_dataset("large", epsilon=3.0, delta=0.5)
    published = publish(tmp_path / "release", ledger, plan, dataset="large")
    assert "delta is not well below 1/n" in published.warnings[0]


def test_injected_words_leave_a_stamp(tmp_path: Path) -> None:
    publish(tmp_path / "release", words=lambda: NO_NOISE)
    stored = open_folder(tmp_path / "release")
    assert not stored.private
    np.testing.assert_array_equal(stored.values, MATRIX @ PLAN.rows(NAMES).to_dense())


def test_over_budget_is_refused_before_the_table_is_opened(tmp_path: Path, ledger: Ledger) -> None:
    ledger.add_dataset("small", epsilon=0.5)

    @contextmanager
    def opening() -> Iterator[MatrixTable]:
        raise AssertionError("opened")
        yield table()

    with pytest.raises(BudgetError, match="still fits"):
        publish(tmp_path / "release", ledger, opening=opening, dataset="small")
    with pytest.raises(ParameterError, match="is a file"):
        publish(ledger.path, opening=opening)
    assert not (tmp_path / "release").exists()


@contextmanager
def failing(error: BaseException, *, late: bool) -> Iterator[MatrixTable]:
    if not late:
        raise error
    yield table()
    raise error


def left_in(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if not name.startswith("ledger.db"))


ENDS = [DataError, KeyboardInterrupt, SystemExit, ParameterError, BudgetError, DimlyError, MemoryError, OSError]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_a_charge_comes_back_only_if_no_noise_was_drawn(
    tmp_path: Path, ledger: Ledger, end: type[BaseException], late: bool
) -> None:
    with pytest.raises(end) as caught:
        publish(tmp_path / "release", ledger, opening=lambda: failing(end("x"), late=late))
    assert states(ledger) == (["sampling"] if late else ["returned"])
    notes = getattr(caught.value, "__notes__", [])
    assert [note.partition(" although")[0] for note in notes] == (["Charge 1 stays in the ledger"] if late else [])
    assert left_in(tmp_path) == []
    # The folder is free again, and what is left of the budget may be spent.
    publish(tmp_path / "release", ledger)


def test_many_tries_that_are_stopped_cost_as_much_as_many_releases(tmp_path: Path, ledger: Ledger) -> None:
    # Staged numbers can be read by the same account: who stops each run then would average for nothing.
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            publish(tmp_path / "release", ledger, opening=lambda: failing(KeyboardInterrupt(), late=True))
    with pytest.raises(BudgetError, match="would make it"):
        publish(tmp_path / "release", ledger)


class Watching(Recorded):
    """Words that note the state of the newest charge whenever they are drawn."""

    def __init__(self, ledger: Ledger, seen: set[str]) -> None:
        super().__init__(0)
        self._ledger, self._seen = ledger, seen

    def fill(self, out: Words) -> None:
        self._seen.add(states(self._ledger)[-1])
        super().fill(out)


@pytest.mark.parametrize("grows", [None, "append", "update"])
def test_the_ledger_knows_before_the_first_number_is_drawn(tmp_path: Path, ledger: Ledger, grows: str | None) -> None:
    publish(tmp_path / "release", ledger, opening=part(range(5)))
    seen: set[str] = set()
    publish(
        None if grows == "append" else tmp_path / "other",
        ledger,
        opening=part(range(5, 9)),
        words=lambda: Watching(ledger, seen),
        append=tmp_path / "release" if grows == "append" else None,
        update=tmp_path / "release" if grows == "update" else None,
    )
    assert seen == {"sampling"}


def test_a_target_that_is_taken_meanwhile_is_noticed_before_noise_is_drawn(tmp_path: Path, ledger: Ledger) -> None:
    @contextmanager
    def opening() -> Iterator[MatrixTable]:
        (tmp_path / "release").mkdir()
        yield table()

    with pytest.raises(ParameterError, match="exists and is not a release"):
        publish(tmp_path / "release", ledger, opening=opening)
    assert states(ledger) == ["returned"]


def test_a_failure_that_may_depend_on_the_noise_is_paid_for(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise DimlyError("the disk is full.")

    monkeypatch.setattr(ReleaseWriter, "write_part", full)
    with pytest.raises(DimlyError, match=r"the disk is full\.\nCharge 1 stays .* `dimly ledger forgive --help`"):
        publish(tmp_path / "release", ledger)
    assert states(ledger) == ["sampling"]
    assert left_in(tmp_path) == []


def test_before_noise_is_drawn_every_failure_is_given_back(tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(DimlyError, match="no room"):
        publish(tmp_path / "release", ledger, opening=lambda: failing(DimlyError("no room"), late=False))
    with pytest.raises(ZeroDivisionError):
        publish(tmp_path / "release", ledger, opening=lambda: failing(ZeroDivisionError(), late=False))
    assert states(ledger) == ["returned", "returned"]


def test_an_unexpected_failure_is_paid_for(tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError):
        publish(tmp_path / "release", ledger, opening=lambda: failing(ZeroDivisionError(), late=True))
    assert states(ledger) == ["sampling"]


def test_what_is_visible_stays_charged_whatever_happens_then(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_writer = ReleaseWriter.publish

    def interrupted(writer: ReleaseWriter) -> Path:
        publish_writer(writer)
        raise KeyboardInterrupt

    monkeypatch.setattr(ReleaseWriter, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt, match="release is published and charge 1 recorded: nothing is left to do"):
        publish(tmp_path / "release", ledger)
    open_folder(tmp_path / "release", verify=True)
    assert states(ledger) == ["visible"]


def test_a_failure_after_somebody_confirmed_too_early_is_told_and_stays_charged(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def confirmed_before_it_fails(_: ReleaseWriter) -> Path:
        ledger.confirm(1)
        raise ReleaseError("the disk is gone.")

    monkeypatch.setattr(ReleaseWriter, "publish", confirmed_before_it_fails)
    with pytest.raises(ReleaseError, match=r"the disk is gone\.[^~]*Charge 1 stays .* confirmed meanwhile"):
        publish(tmp_path / "release", ledger)
    assert left_in(tmp_path) == []
    assert states(ledger) == ["visible"]


def breaking(monkeypatch: pytest.MonkeyPatch, *, after: int, for_ever: bool) -> Callable[[], int]:
    """Let transactions of the ledger fail after some; return how many were tried, in all, when asked."""
    transaction, count = Store._transaction, 0

    @contextmanager
    def counted(store: Store, begin: str) -> Iterator[Any]:
        nonlocal count
        count += 1
        if count == after + 1 or (for_ever and count > after):
            raise DimlyError("ledger 'x' cannot grow: the disk is full. Nothing was recorded.")
        with transaction(store, begin) as connection:
            yield connection

    monkeypatch.setattr(Store, "_transaction", counted)
    return lambda: count


@pytest.mark.parametrize("for_ever", [False, True])
@pytest.mark.parametrize("append", [False, True])
@pytest.mark.thorough(but=2)
def test_wherever_the_ledger_fails_it_is_told_whether_the_release_is_out(
    tmp_path: Path, append: bool, for_ever: bool
) -> None:
    found: set[str] = set()
    after = 0
    while "done" not in found:
        folder = tmp_path / str(after)
        folder.mkdir()
        ledger = Ledger.create(folder / "ledger.db")
        ledger.add_dataset("visits", epsilon=3.0)
        options: dict[str, Any] = {}
        if append:
            publish(folder / "release", ledger, opening=part(range(5, 10)))
            options = {"out": None, "append": folder / "release"}
        before = open_folder(folder / "release").manifest.release if append else None
        with pytest.MonkeyPatch.context() as patch:
            tried = breaking(patch, after=after, for_ever=for_ever)
            try:
                publish(ledger=ledger, opening=part(range(5)), **({"out": folder / "release"} | options))
            except DimlyError as error:
                said = " ".join([str(error), *getattr(error, "__notes__", [])])
            else:
                assert tried() == after
                said = "done"
        there = (folder / "release").exists()
        is_out = there and open_folder(folder / "release", verify=True).manifest.release != before
        charges = ledger.status("visits").charges[int(append) :]
        last = charges[-1] if charges else None
        if said == "done":
            found.add("done")
        elif not is_out:
            assert "is published" not in said
            assert last is None or last.state in {"reserved", "returned", "sampling"}
            if last is not None and last.state != "returned":
                assert f"Charge {last.id} stays" in said
            found.add("not out")
        else:
            assert last is not None
            assert last.counts
            assert str(folder / "release") in said
            if "nothing is left to do" in said:
                assert last.state == "visible"
                found.add("recorded")
            else:
                assert f"is published and charged, by charge {last.id}" in said
                assert f"`dimly ledger confirm {folder / 'ledger.db'} {last.id}`" in said
                ledger.confirm(last.id)
                assert ledger.status("visits").charges[-1].state == "visible"
                found.add("to be confirmed")
        after += 1
    assert found == {"done", "not out", "to be confirmed" if for_ever else "recorded"}


def test_a_fault_after_the_rename_that_is_not_ours(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: Charge) -> None:
        raise MemoryError

    monkeypatch.setattr(Charge, "make_visible", failing)
    with pytest.raises(DimlyError, match=r"is published and charged, by charge 1.*The ledger could not be told"):
        publish(tmp_path / "release", ledger)
    assert ledger.status("visits").left == 2.0


@pytest.mark.parametrize("when", ["before", "between", "behind the lock"])
def test_an_append_never_replaces_another_release_than_the_one_it_read(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    release = tmp_path / "release"
    publish(release, ledger, opening=part(range(5)))
    kept: list[str] = []

    def overwrite() -> None:
        if not kept:  # once
            publish(release, opening=part(range(7)), overwrite=True)
            kept.append(open_folder(release).manifest.release)

    if when == "before":
        monkeypatch.setattr(BaseRelease, "check_unchanged", lambda _: overwrite())
    elif when == "between":
        seal = Charge.seal

        def seal_and_overwrite(*args: Any, **named: Any) -> None:
            seal(*args, **named)
            overwrite()

        monkeypatch.setattr(Charge, "seal", seal_and_overwrite)
    else:  # a program that takes no lock
        exchange = writer._exchange
        monkeypatch.setattr(writer, "names_held", lambda _: nullcontext())

        def late(source: Path, target: Path) -> None:
            monkeypatch.setattr(writer, "_exchange", exchange)
            overwrite()
            exchange(source, target)

        monkeypatch.setattr(writer, "_exchange", late)
    with pytest.raises(ReleaseError, match=r"must not change while people are added, but it did\.[^~]*Charge 2 stays"):
        publish(None, ledger, opening=part(range(5, 9)), append=release)
    assert open_folder(release, verify=True).manifest.release == kept[0]
    assert len(open_folder(release)) == 7
    assert left_in(tmp_path) == ["release"]
    assert states(ledger) == ["visible", "sampling"]


def test_nobody_is_refused(tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(DataError, match="at least one person"):
        publish(tmp_path / "release", ledger, opening=lambda: nullcontext(table(range(0))))
    assert states(ledger) == ["returned"]


def test_a_rehearsal_spends_and_writes_nothing(tmp_path: Path, ledger: Ledger) -> None:
    def rehearsal(dataset: str) -> PublishOutcome:
        options = Options(out=tmp_path / "release", roster=[], ledger=ledger.path, dataset=dataset)
        return rehearse(nullcontext(table()), PLAN, options)

    found = rehearsal("visits")
    assert (found.path, found.n_users, found.bytes, found.cost) == (None, 20, 20 * 32 * 2, PLAN.cost)
    assert states(ledger) == []
    assert left_in(tmp_path) == []
    ledger.add_dataset("small", epsilon=0.5)
    with pytest.raises(BudgetError):
        rehearsal("small")


def test_a_rehearsed_append_costs_nothing_and_an_update_the_full_price(tmp_path: Path, ledger: Ledger) -> None:
    ledger.add_dataset("small", epsilon=1.0)
    publish(tmp_path / "release", ledger, dataset="small", opening=part(range(3)))

    def rehearsal(grows: str) -> PublishOutcome:
        given: dict[str, Any] = {grows: tmp_path / "release", "out": tmp_path / "new" if grows == "update" else None}
        options = Options(roster=[], ledger=ledger.path, dataset="small", **given)
        return rehearse(part(range(3, 5))(), PLAN, options)

    assert rehearsal("append").cost is None
    with pytest.raises(BudgetError):
        rehearsal("update")


@pytest.mark.parametrize(
    ("mechanism", "size"),
    [("counting+laplace", 10 * 64), ("randomized-response", 10 * 13), ("noisy-distances", 45 * 2)],
)
def test_bytes_are_those_of_the_numbers(mechanism: str, size: int) -> None:
    assert published_bytes(plan_of(mechanism), 10) == size


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "_MOST_USERS", 4)


def part(users: range) -> Callable[[], Any]:
    return lambda: nullcontext(table(users))


@pytest.mark.usefixtures("small_parts")
def test_appending_leaves_others_as_they_are_and_costs_nothing(tmp_path: Path, ledger: Ledger) -> None:
    release = tmp_path / "release"
    publish(release, ledger, opening=part(range(0, 20, 2)))
    first = open_folder(release)
    before, spent = first.values.copy(), ledger.status("visits").spent
    publish(None, ledger, opening=part(range(1, 20, 2)), append=release)
    grown = open_folder(release, verify=True)
    assert grown.users.tolist() == list(range(20))
    np.testing.assert_array_equal(grown.values[::2], before)
    assert ledger.status("visits").spent == spent
    with pytest.raises(BudgetError, match="some people are already in it"):
        publish(None, ledger, opening=part(range(3, 4)), append=release)
    assert open_folder(release, verify=True).manifest.release == grown.manifest.release
    assert left_in(tmp_path) == ["release"]


@pytest.mark.usefixtures("small_parts")
def test_an_update_publishes_some_anew_at_full_price(tmp_path: Path, ledger: Ledger) -> None:
    publish(tmp_path / "old", ledger, opening=part(range(10)))
    old = open_folder(tmp_path / "old")
    updated = publish(tmp_path / "new", ledger, opening=part(range(5, 15)), update=tmp_path / "old")
    new = open_folder(tmp_path / "new", verify=True)
    assert new.users.tolist() == list(range(15))
    np.testing.assert_array_equal(new.values[:5], old.values[:5])
    assert (new.values[5:10] != old.values[5:10]).any(axis=1).all()
    assert [charge.cost for charge in ledger.status("visits").charges] == [PLAN.cost, PLAN.cost]
    assert "sees who was published anew" in updated.warnings[0]
    assert open_folder(tmp_path / "old", verify=True).manifest.release == old.manifest.release


@pytest.mark.parametrize("title", [None, "Other visits"])
def test_what_was_said_stays_and_gets_the_day_of_the_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, title: str | None
) -> None:
    said = AboutRelease.of(title="Visits", publisher="ACME", note=None, date="2020-02-02")
    monkeypatch.setattr("dimly.curator.options.AboutRelease.of", lambda **_: said)
    publish(tmp_path / "old", opening=part(range(3)))
    monkeypatch.undo()
    publish(tmp_path / "new", opening=part(range(2, 5)), update=tmp_path / "old", title=title)
    old, new = (open_folder(tmp_path / name, verify=True).manifest.about for name in ("old", "new"))
    assert old is not None
    assert new is not None
    assert (old.title, old.publisher, old.date) == ("Visits", "ACME", "2020-02-02")
    assert (new.title, new.publisher) == ((title, None) if title else ("Visits", "ACME"))
    assert new.date > old.date


def test_an_update_needs_no_ledger(tmp_path: Path) -> None:
    publish(tmp_path / "old", opening=part(range(3)), words=lambda: Recorded(1))
    publish(tmp_path / "new", opening=part(range(2, 5)), update=tmp_path / "old")
    new = open_folder(tmp_path / "new")
    assert len(new) == 5
    assert not new.private  # a part of it is not


def test_overwriting_says_that_both_are_spent(tmp_path: Path, ledger: Ledger) -> None:
    for stands_there in (False, True):
        warned = " ".join(publish(tmp_path / "release", ledger, overwrite=True).warnings)
        assert ("the release that stood there stays spent, and this one costs its full price" in warned) == stands_there
    assert ledger.status("visits").spent.epsilon == 2 * PLAN.cost.epsilon


def test_warnings_name_options_where_a_command_line_shows_them() -> None:
    (*_, condition) = warnings_of(PLAN, 5, Options(where="a = 'b'", ledger="l.db", dataset="visits", roster=[1]))
    assert "Pass --diagnose FILE to know" in options_alone(condition)
    assert options_alone(condition).endswith("state it by --note.")


def test_what_cannot_grow(tmp_path: Path, ledger: Ledger) -> None:
    publish(tmp_path / "release", ledger)
    with pytest.raises(ParameterError, match="plan must be the one"):
        BaseRelease(tmp_path / "release", plan_of("hashing+laplace"), replace=False)
    pairs = plan_of("noisy-distances", n_attributes=12)
    publish(tmp_path / "pairs", plan=pairs, vocabulary=pairs.vocabulary_of(None))
    with pytest.raises(ParameterError, match="other than noisy-distances"):
        BaseRelease(tmp_path / "pairs", pairs, replace=True)
    base = BaseRelease(tmp_path / "release", PLAN, replace=True)
    with pytest.raises(ParameterError, match="users must be int64"):
        base.check("text", pseudonyms=False)
    with pytest.raises(ParameterError, match="pseudonyms must be used as"):
        base.check("int64", pseudonyms=True)
    publish(tmp_path / "release", ledger, overwrite=True)
    with pytest.raises(ReleaseError, match="must not change while people are added"):
        base.check_unchanged()
    assert base.roster("given") == "given"
    assert base.roster("found") == "found"


def test_too_many_people_for_the_plan_cost_nothing(tmp_path: Path, ledger: Ledger) -> None:
    plan = plan_of("noisy-distances", n_attributes=12, n_users=3)
    vocabulary = plan.vocabulary_of(None)
    with pytest.raises(DataError, match="at most 3 people, as the plan says"):
        publish(tmp_path / "release", ledger, plan, vocabulary=vocabulary)
    assert states(ledger) == ["returned"]
    with pytest.raises(DataError, match="at most 3 people"):
        rehearse(nullcontext(table()), plan, Options(roster=[]), vocabulary=vocabulary)
