"""Releases that grow: as if published all at once, and what was published of the others stays as it is."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.engines.engine import Engine
from tests.engines.tables import Holdings, check, holdings, long, plan_for, vocabulary
from tests.folders import small_parts
from tests.streams import Recorded

from dimly.curator.ledger.ledger import Ledger
from dimly.errors import BudgetError, ParameterError, ReleaseError

__all__ = ["small_parts"]  # a fixture

PEOPLE = holdings()
OLD = dict(list(PEOPLE.items())[::2])
NEW = {who: held for who, held in PEOPLE.items() if who not in OLD}
MECHANISMS = ["counting+laplace", "gaussian+gaussian", "randomized-response"]


@pytest.fixture
def charged(tmp_path: Path) -> dict[str, Any]:
    """Return the options of a ledger with room for several releases."""
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", epsilon=10.0, delta=1e-4)
    return {"ledger": tmp_path / "ledger.db", "dataset": "visits", "user": "person", "attribute": "page"}


def spent(options: dict[str, Any]) -> int:
    return Ledger(options["ledger"]).status("visits").spent.n_costs


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_appending_is_publishing_all_at_once(
    engine: Engine, mechanism: str, charged: dict[str, Any], tmp_path: Path
) -> None:
    plan, out = plan_for(mechanism), tmp_path / "out"
    options = charged | {"vocabulary": vocabulary()}
    engine.publish(long(OLD), plan, out=out, **options)
    some = dict(list(NEW.items())[:3])
    engine.publish(long(some), plan, append=out, **options)
    rest = {who: held for who, held in NEW.items() if who not in some}
    grown = engine.publish(long(rest), plan, append=out, **options)
    check(grown, PEOPLE, vocabulary())
    assert spent(charged) == 1
    at_once = engine.publish(long(PEOPLE), plan, out=tmp_path / "at once", **options)
    np.testing.assert_array_equal(grown.values, at_once.values)
    for path in sorted((tmp_path / "at once" / "sketches").iterdir()):
        assert (out / "sketches" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_was_published_stays_bit_by_bit(
    engine: Engine, mechanism: str, charged: dict[str, Any], tmp_path: Path
) -> None:
    plan, out = plan_for(mechanism), tmp_path / "out"
    options = charged | {"vocabulary": vocabulary()}
    old = engine.publish(long(OLD), plan, out=out, words=Recorded(1), **options)
    before = dict(zip(old.users.tolist(), old.values.tolist(), strict=True))
    grown = engine.publish(long(NEW), plan, append=out, words=Recorded(2), **options)
    after = dict(zip(grown.users.tolist(), grown.values.tolist(), strict=True))
    assert {who: after[who] for who in before} == before
    assert after.keys() == PEOPLE.keys()

    changed: Holdings = {who: {"jam": 1.0} for who in list(OLD)[:3]} | {"new one": {"jam": 1.0}}
    updated = engine.publish(long(changed), plan, update=out, out=tmp_path / "new", words=Recorded(3), **options)
    later = dict(zip(updated.users.tolist(), updated.values.tolist(), strict=True))
    assert later.keys() == after.keys() | changed.keys()
    assert {who: later[who] for who in after if who not in changed} == {
        who: after[who] for who in after if who not in changed
    }
    assert all(later[who] != after.get(who) for who in changed)
    assert spent(charged) == 2


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_updating_is_publishing_all_at_once(
    engine: Engine, mechanism: str, charged: dict[str, Any], tmp_path: Path
) -> None:
    plan = plan_for(mechanism)
    options = charged | {"vocabulary": vocabulary()}
    engine.publish(long(OLD), plan, out=tmp_path / "old", **options)
    changed = {who: {"42": 1.0, "007": 1.0} for who in list(OLD)[3:7]} | NEW
    release = engine.publish(long(changed), plan, update=tmp_path / "old", out=tmp_path / "new", **options)
    check(release, OLD | changed, vocabulary())


def test_integers_grow_too(engine: Engine, charged: dict[str, Any], tmp_path: Path) -> None:
    plan, out = plan_for("hashing+laplace", listed=False), tmp_path / "out"
    old: Holdings = {7: {"tea": 1.0}, -3: {"jam": 1.0}, 2**62: {"tea": 1.0}}
    new: Holdings = {8: {"tea": 1.0}, -(2**63): {"rye": 1.0}}
    engine.publish(long(old), plan, out=out, **charged)
    check(engine.publish(long(new), plan, append=out, **charged), {**old, **new})


def test_pseudonyms_grow_by_the_same_key(engine: Engine, charged: dict[str, Any], tmp_path: Path) -> None:
    plan, out = plan_for("hashing+laplace", listed=False), tmp_path / "out"
    for name in ("key", "other"):
        (tmp_path / name).write_bytes(name.encode() * 20)
        (tmp_path / name).chmod(0o600)
    options = charged | {"pseudonyms": tmp_path / "key"}
    engine.publish(long(OLD), plan, out=out, **options)
    grown = engine.publish(long(NEW), plan, append=out, **options)
    at_once = engine.publish(long(PEOPLE), plan, out=tmp_path / "at once", **options)
    assert grown.users.tolist() == at_once.users.tolist()
    np.testing.assert_array_equal(grown.values, at_once.values)
    with pytest.raises(ParameterError, match="pseudonyms must be used as in the release"):
        engine.publish(long({"new": {"tea": 1.0}}), plan, append=out, **charged)
    # The ledger knows people by their own ids, whatever key they come with.
    with pytest.raises(BudgetError, match="some people are already in it"):
        engine.publish(long(NEW), plan, append=out, **charged | {"pseudonyms": tmp_path / "other"})


@pytest.mark.parametrize("grows_by", ["append", "update"])
def test_ids_that_are_too_long_together_are_refused_before_noise_is_drawn(
    engine: Engine, grows_by: str, charged: dict[str, Any], tmp_path: Path
) -> None:
    """Readers take 8 MB in a row group: one person more than ``out`` holds is one too many."""
    plan, out = plan_for("hashing+laplace", listed=False), tmp_path / "out"
    people = [pa.table({"person": [letter * 5_000_000], "page": ["tea"]}) for letter in "abc"]
    reason = "users must be texts of at most 1,000 bytes on average"
    with pytest.raises(ReleaseError, match=reason):
        engine.publish(pa.concat_tables(people[:2]), plan, out=out, **charged)
    engine.publish(people[0], plan, out=out, **charged)
    grown: dict[str, Any] = {"append": out} if grows_by == "append" else {"update": out, "out": tmp_path / "new"}
    with pytest.raises(ReleaseError, match=reason):
        engine.publish(people[1], plan, **grown, **charged)
    states = [charge.state for charge in Ledger(charged["ledger"]).status("visits").charges]
    assert states == ["returned", "visible", "returned"]


def test_who_is_in_it_already_is_refused(engine: Engine, charged: dict[str, Any], tmp_path: Path) -> None:
    plan, out = plan_for("hashing+laplace", listed=False), tmp_path / "out"
    engine.publish(long(OLD), plan, out=out, **charged)
    before = (out / "manifest.json").read_bytes()
    with pytest.raises(BudgetError, match="some people are already in it"):
        engine.publish(long(PEOPLE), plan, append=out, **charged)
    other_type = pa.table({"person": [1, 2], "page": ["tea", "tea"]})
    with pytest.raises(ParameterError, match="users must be text"):
        engine.publish(other_type, plan, append=out, **charged)
    with pytest.raises(ParameterError, match="plan must be the one"):
        engine.publish(long(NEW), plan_for("counting+laplace", listed=False), append=out, **charged)
    assert (out / "manifest.json").read_bytes() == before
    assert spent(charged) == 1
    check(engine.publish(long(NEW), plan, append=out, **charged), PEOPLE)


def test_what_cannot_grow(engine: Engine, charged: dict[str, Any], tmp_path: Path) -> None:
    plan, out = plan_for("noisy-distances"), tmp_path / "out"
    options = charged | {"vocabulary": vocabulary()}
    engine.publish(long(OLD), plan, out=out, **options)
    calls: list[dict[str, Any]] = [{"append": out}, {"update": out, "out": tmp_path / "new"}]
    for more in calls:
        with pytest.raises(ParameterError, match="must be other than noisy-distances to grow"):
            engine.publish(long(NEW), plan, **options, **more)
    free = {name: option for name, option in charged.items() if name not in ("ledger", "dataset")}
    open_plan = plan_for("hashing+laplace", listed=False)
    with pytest.raises(ParameterError, match="ledger must be given with append"):
        engine.publish(long(NEW), open_plan, append=out, **free)


def test_a_roster_grows_by_people_without_attributes(engine: Engine, charged: dict[str, Any], tmp_path: Path) -> None:
    plan, out = plan_for("hashing+laplace", listed=False), tmp_path / "out"
    engine.publish(long(PEOPLE), plan, roster=["000", "empty"], out=out, **charged)
    grown = engine.publish(long(PEOPLE), plan, roster=["001", "void"], append=out, **charged)
    check(grown, {"000": PEOPLE["000"], "001": PEOPLE["001"], "empty": {}, "void": {}})
