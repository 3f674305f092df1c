import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.plans import plan_of
from tests.streams import NO_NOISE, Recorded

from dimly.curator.charging import Charging
from dimly.curator.growing import Base
from dimly.curator.ledger import Ledger
from dimly.curator.matrix_table import MatrixTable
from dimly.curator.people import people_of
from dimly.curator.progress import Silence
from dimly.curator.publishing_tables import Public, Published, publish_folder, published_bytes, rehearse
from dimly.curator.resources import Resources
from dimly.errors import BudgetError, DataError, DimlyError, ParameterError, ReleaseError
from dimly.mechanisms import Plan
from dimly.release import layout as layouts
from dimly.release.stored import open_folder
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


def publish(out: Path, ledger: Ledger | None = None, plan: Plan = PLAN, **changes: Any) -> Published:
    arguments: dict[str, Any] = {
        "opening": lambda: nullcontext(table()),
        "public": Public("given"),
        "charging": None if ledger is None else Charging(ledger.path, "visits"),
        "resources": Resources.of(threads=1),
        "progress": Silence(),
    } | changes
    return publish_folder(arguments.pop("opening"), plan, out=out, **arguments)


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
    published = publish(tmp_path / "release", public=Public("found"))
    assert [text.partition(":")[0] for text in published.warnings] == ["No ledger", "No roster"]
    manifest = open_folder(tmp_path / "release").manifest
    assert manifest.ledger is None
    assert manifest.users.roster == "found"


def test_a_large_delta_is_warned_of(tmp_path: Path, ledger: Ledger) -> None:
    plan = Plan.of("counting+gaussian", plan_of("counting+gaussian").budget.__class__(1.0, 0.01), k=8)
    ledger.add_dataset("large", epsilon=3.0, delta=0.5)
    published = publish(tmp_path / "release", plan=plan, charging=Charging(ledger.path, "large"))
    assert "delta is not well below 1/n" in published.warnings[0]


def test_injected_words_leave_a_stamp(tmp_path: Path) -> None:
    publish(tmp_path / "release", words=lambda: NO_NOISE)
    stored = open_folder(tmp_path / "release")
    assert not stored.private
    np.testing.assert_array_equal(stored.values, MATRIX @ PLAN.rows(NAMES).to_dense())


def test_over_budget_is_refused_before_the_table_is_opened(tmp_path: Path, ledger: Ledger) -> None:
    ledger.add_dataset("small", epsilon=0.5)

    def opening() -> Any:
        raise AssertionError("opened")

    with pytest.raises(BudgetError, match="still fits"):
        publish(tmp_path / "release", opening=opening, charging=Charging(ledger.path, "small"))
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


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "error", [DataError("some rows are bad."), KeyboardInterrupt(), SystemExit(143), ParameterError("x")]
)
def test_what_has_nothing_to_do_with_the_noise_is_given_back(
    tmp_path: Path, ledger: Ledger, error: BaseException, late: bool
) -> None:
    with pytest.raises(type(error)):
        publish(tmp_path / "release", ledger, opening=lambda: failing(error, late=late))
    assert states(ledger) == ["returned"]
    assert left_in(tmp_path) == []


def test_a_failure_that_may_depend_on_the_noise_is_paid_for(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise DimlyError("the disk is full.")

    monkeypatch.setattr(ReleaseWriter, "write_part", full)
    with pytest.raises(DimlyError, match=r"the disk is full\. Charge 1 stays .* dimly ledger forgive"):
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
    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path / "release", ledger)
    open_folder(tmp_path / "release", verify=True)
    assert states(ledger) == ["sampling"]


def test_nobody_is_refused(tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(DataError, match="at least one person"):
        publish(tmp_path / "release", ledger, opening=lambda: nullcontext(table(range(0))))
    assert states(ledger) == ["returned"]


def test_a_rehearsal_spends_and_writes_nothing(tmp_path: Path, ledger: Ledger) -> None:
    def rehearsal(charging: Charging) -> Published:
        return rehearse(
            lambda: nullcontext(table()),
            PLAN,
            out=tmp_path / "release",
            public=Public("given"),
            charging=charging,
            overwrite=False,
        )

    found = rehearsal(Charging(ledger.path, "visits"))
    assert (found.path, found.n_users, found.bytes, found.cost) == (None, 20, 20 * 32 * 2, PLAN.cost)
    assert states(ledger) == []
    assert left_in(tmp_path) == []
    ledger.add_dataset("small", epsilon=0.5)
    with pytest.raises(BudgetError):
        rehearsal(Charging(ledger.path, "small"))


def test_a_rehearsed_append_costs_nothing_and_an_update_the_full_price(tmp_path: Path, ledger: Ledger) -> None:
    ledger.add_dataset("small", epsilon=1.0)
    publish(tmp_path / "release", charging=Charging(ledger.path, "small"), opening=part(range(3)))

    def rehearsal(*, replace: bool) -> Published:
        return rehearse(
            part(range(3, 5)),
            PLAN,
            out=tmp_path / "release",
            public=Public("given"),
            charging=Charging(ledger.path, "small"),
            overwrite=True,
            base=Base(tmp_path / "release", PLAN, replace=replace),
        )

    assert rehearsal(replace=False).cost is None
    with pytest.raises(BudgetError):
        rehearsal(replace=True)


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
    base = Base(release, PLAN, replace=False)
    publish(release, ledger, opening=part(range(1, 20, 2)), base=base, overwrite=True)
    grown = open_folder(release, verify=True)
    assert grown.users.tolist() == list(range(20))
    np.testing.assert_array_equal(grown.values[::2], before)
    assert ledger.status("visits").spent == spent
    with pytest.raises(BudgetError, match="some people are in it already"):
        publish(release, ledger, opening=part(range(3, 4)), base=Base(release, PLAN, replace=False), overwrite=True)
    assert open_folder(release, verify=True).manifest.release == grown.manifest.release
    assert left_in(tmp_path) == ["release"]


@pytest.mark.usefixtures("small_parts")
def test_an_update_publishes_some_anew_at_full_price(tmp_path: Path, ledger: Ledger) -> None:
    publish(tmp_path / "old", ledger, opening=part(range(10)))
    old = open_folder(tmp_path / "old")
    base = Base(tmp_path / "old", PLAN, replace=True)
    updated = publish(tmp_path / "new", ledger, opening=part(range(5, 15)), base=base)
    new = open_folder(tmp_path / "new", verify=True)
    assert new.users.tolist() == list(range(15))
    np.testing.assert_array_equal(new.values[:5], old.values[:5])
    assert (new.values[5:10] != old.values[5:10]).any(axis=1).all()
    assert [charge.cost for charge in ledger.status("visits").charges] == [PLAN.cost, PLAN.cost]
    assert "sees who was published anew" in updated.warnings[0]
    assert open_folder(tmp_path / "old", verify=True).manifest.release == old.manifest.release


def test_an_update_needs_no_ledger(tmp_path: Path) -> None:
    publish(tmp_path / "old", opening=part(range(3)), words=lambda: Recorded(1))
    publish(tmp_path / "new", opening=part(range(2, 5)), base=Base(tmp_path / "old", PLAN, replace=True))
    new = open_folder(tmp_path / "new")
    assert len(new) == 5
    assert not new.private  # a part of it is not


def test_what_cannot_grow(tmp_path: Path, ledger: Ledger) -> None:
    publish(tmp_path / "release", ledger)
    with pytest.raises(ParameterError, match="plan must be the one"):
        Base(tmp_path / "release", plan_of("hashing+laplace"), replace=False)
    pairs = plan_of("noisy-distances", n_attributes=12)
    publish(tmp_path / "pairs", plan=pairs, public=Public("given", pairs.vocabulary.resolve(None)))  # type: ignore[union-attr]
    with pytest.raises(ParameterError, match="other than noisy-distances"):
        Base(tmp_path / "pairs", pairs, replace=True)
    base = Base(tmp_path / "release", PLAN, replace=True)
    with pytest.raises(ParameterError, match="users must be int64"):
        base.check("text", pseudonyms=False)
    with pytest.raises(ParameterError, match="pseudonyms must be used as"):
        base.check("int64", pseudonyms=True)
    publish(tmp_path / "release", ledger, overwrite=True)
    with pytest.raises(ReleaseError, match="must not change while it grows"):
        base.check_unchanged()
    assert base.roster("given") == "given"
    assert base.roster("found") == "found"
