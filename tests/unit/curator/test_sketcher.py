"""One person at a time: the same numbers as a table of one, fresh noise, and merging by the ledger's rules."""

import json
import pickle
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.folders import small_parts
from tests.matrices import publish_matrix
from tests.plans import N_ATTRIBUTES, plan_of
from tests.releases import PEOPLE, READABLE, SKETCHING
from tests.streams import NO_NOISE, Recorded

from dimly.analyst.release import open_release
from dimly.api import publish
from dimly.curator.ledger.ledger import Ledger
from dimly.curator.randomness import Words
from dimly.curator.sketcher import Sketcher
from dimly.errors import BudgetError, DataError, ParameterError, PrivacyWarning, ReleaseError
from dimly.mechanisms import Plan
from dimly.mechanisms.projection.streams import STREAM_VERSIONS, StreamVersion
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import Budget
from dimly.release.verify import verify

__all__ = ["small_parts"]  # a fixture


def held(row: Any) -> list[int]:
    return list(map(int, np.flatnonzero(row)))


@pytest.mark.parametrize("mechanism", READABLE)
def test_a_person_alone_is_a_table_of_one(mechanism: str) -> None:
    plan = plan_of(mechanism)
    sketchers = [Sketcher(plan), Sketcher(plan, vocabulary=Vocabulary.numbered(N_ATTRIBUTES))]
    for row in PEOPLE[:3]:
        expected = publish_matrix(row[None, :], plan, words=Recorded(3)).values[0]
        for sketcher in sketchers:
            for attributes in (held(row), set(map(str, held(row))), dict(enumerate(row.tolist()))):
                found = sketcher._sketch(attributes, Recorded(3))
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mechanism", SKETCHING)
def test_values_are_rounded_as_in_a_table(mechanism: str) -> None:
    plan = plan_of(mechanism, resolution=4, dtype="int32")
    row = np.random.default_rng(0).random(N_ATTRIBUTES)
    row[:5] = (0.0, 1.0, 0.125, 0.375, 0.1249)  # halves go to the even neighbor
    expected = publish_matrix(row[None, :], plan, words=Recorded(3)).values[0]
    attributes = dict(enumerate(row.tolist()))
    np.testing.assert_array_equal(Sketcher(plan)._sketch(attributes, Recorded(3)), expected)
    ones = publish_matrix(PEOPLE[:1], plan, words=Recorded(3)).values[0]
    np.testing.assert_array_equal(Sketcher(plan)._sketch(held(PEOPLE[0]), Recorded(3)), ones)


@pytest.mark.parametrize("stream", STREAM_VERSIONS)
@pytest.mark.parametrize("attributes", [{"secret\ud800"}, ["tea", "secret\udfff"], {"secret\ud800": 1}])
def test_attributes_that_are_no_text_are_nowhere_in_the_error(attributes: Any, stream: StreamVersion) -> None:
    """Not even in its context, which programs that report errors may store: Python's holds the whole text."""
    for mechanism in ("hashing+laplace", "sign+laplace"):
        with pytest.raises(ParameterError) as caught:
            Sketcher(plan_of(mechanism, stream=stream)).sketch(attributes)
        assert "secret" not in str(caught.value)
        assert caught.value.__context__ is None


def test_attributes_are_one_by_their_text() -> None:
    sketcher = Sketcher(plan_of("hashing+laplace", resolution=8, dtype="int32"))
    expected = sketcher._sketch({"42": 0.75, "2024-02-29": 1}, NO_NOISE)
    again = sketcher._sketch({42: 0.5, "42": np.float32(0.75), date(2024, 2, 29): True, "tea": 0.0}, NO_NOISE)
    np.testing.assert_array_equal(again, expected)
    np.testing.assert_array_equal(sketcher._sketch([42, "42", 42], NO_NOISE), sketcher._sketch(iter(["42"]), NO_NOISE))


@pytest.mark.parametrize("vocabulary", [None, ["tea", "café"]])
@pytest.mark.parametrize("stream", STREAM_VERSIONS)
def test_an_attribute_counts_once_whatever_else_is_equal_to_it(stream: StreamVersion, vocabulary: Any) -> None:
    """Noise hides one step of one attribute: what says of itself that it is another must not count again."""

    class Kinds(StrEnum):
        TEA = "tea"

    plan = Plan.of("counting+laplace", Budget(1.0), k=8, stream=stream)
    sketcher = Sketcher(plan, vocabulary=vocabulary)
    for held in (["tea"], ["tea", "tea"], ["tea", Kinds.TEA], [Kinds.TEA, np.str_("tea"), "tea"], {"tea", Kinds.TEA}):
        assert sketcher._sketch(held, NO_NOISE).sum() == 1
    assert sketcher._sketch(("café", "tea", "café"), NO_NOISE).sum() == 2
    assert sketcher._sketch(frozenset({"tea", "a\0b"}), NO_NOISE).sum() == (1 if vocabulary else 2)
    assert sketcher._sketch([], NO_NOISE).sum() == 0


def test_a_vocabulary_leaves_others_out() -> None:
    open_plan = plan_of("counting+laplace")
    with_list = Sketcher(open_plan, vocabulary=["tea", "jam"])
    np.testing.assert_array_equal(
        with_list._sketch(["tea", "rye", "oat"], NO_NOISE), Sketcher(open_plan)._sketch(["tea"], NO_NOISE)
    )
    closed = Plan.of("randomized-response", Budget(1.0), vocabulary=["tea", "jam", "rye"])
    with pytest.raises(ParameterError, match="vocabulary must be given"):
        Sketcher(closed)
    sketch = Sketcher(closed, vocabulary=["tea", "jam", "rye"]).sketch(["oat"])
    assert sketch.shape == (1,)
    assert sketch[0] < 8


def test_a_vocabulary_too_large_to_keep_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for mechanism in ("counting+laplace", "ternary+laplace"):
        plan = plan_of(mechanism, n_attributes=N_ATTRIBUTES)
        kept = Sketcher(plan)._sketch([3, 14, 15, 100], Recorded(1))
        monkeypatch.setattr("dimly.curator.sketcher._MOST_ENTRIES", 0)
        sketcher = Sketcher(plan)
        assert sketcher._rows is None
        np.testing.assert_array_equal(sketcher._sketch([3, 14, 15, 100], Recorded(1)), kept)
        monkeypatch.undo()


def test_noise_is_fresh_each_time_and_of_the_plan() -> None:
    # P(false alarm) < 1e-6 for the variance of n Laplace values, by its fourth moment; 20 % less noise must fail.
    plan = plan_of("counting+laplace")
    sketcher = Sketcher(plan)
    noise = np.stack([sketcher.sketch(()) for _ in range(1_000)]).astype(float)
    assert len(np.unique(noise, axis=0)) == len(noise)
    table = plan.table
    spread = float(np.sqrt((table.fourth_moment - table.variance**2) / noise.size))
    limit = stats.norm.isf(1e-6 / 2) * spread
    assert abs((noise**2).mean() - table.variance) < limit
    assert 0.2 * table.variance > 2 * limit


def test_nothing_of_a_person_stays() -> None:
    sketcher = Sketcher(plan_of("hashing+laplace"))
    before = pickle.dumps(sketcher)
    names = set(vars(sketcher))
    sketcher.sketch({"a secret": 1})
    assert pickle.dumps(sketcher) == before
    assert set(vars(sketcher)) == names
    assert "secret" not in repr(vars(sketcher))


def test_copies_sketch_alike_with_noise_of_their_own() -> None:
    for sketcher in (Sketcher(plan_of("counting+laplace")), Sketcher(plan_of("sign+laplace"), vocabulary=["1", "2"])):
        copy = pickle.loads(pickle.dumps(sketcher))  # noqa: S301
        np.testing.assert_array_equal(copy._sketch([1, 2, 3], NO_NOISE), sketcher._sketch([1, 2, 3], NO_NOISE))
        assert (copy.sketch([1]) != sketcher.sketch([1])).any()
    assert "counting+laplace" in repr(Sketcher(plan_of("counting+laplace")))


def test_threads_share_a_sketcher() -> None:
    sketcher = Sketcher(plan_of("counting+laplace"))
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: sketcher.sketch(range(50)).tobytes(), range(400)))
    assert len(set(made)) == 400


class Signaling:
    """Recorded words, after which a signal arrives."""

    def __init__(self, seed: int) -> None:
        self._words = Recorded(seed)

    def fill(self, out: Words) -> None:
        self._words.fill(out)
        signal.raise_signal(signal.SIGUSR1)


@pytest.mark.parametrize("mechanism", READABLE)
def test_a_signal_handler_may_sketch(mechanism: str) -> None:
    """The call that it interrupts publishes what it would have published, and the handler's has noise of its own."""
    sketcher = Sketcher(plan_of(mechanism))
    meanwhile: list[Any] = []

    def handle(*_: object) -> None:
        meanwhile.append(sketcher.sketch({"1", "2"}))

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        found = sketcher._sketch({"3", "4"}, Signaling(5))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert meanwhile
    np.testing.assert_array_equal(found, sketcher._sketch({"3", "4"}, Recorded(5)))


@pytest.mark.parametrize("attributes", ["tea", b"tea", 7, None, pd.Series({"tea": 1}), pd.DataFrame({"tea": [1]})])
def test_what_is_no_list_is_refused(attributes: Any) -> None:
    with pytest.raises(ParameterError, match="attributes must be a set, a list or a mapping"):
        Sketcher(plan_of("counting+laplace")).sketch(attributes)


@pytest.mark.parametrize(
    "value", [-0.1, 1.5, float("nan"), "0.123", None, 1j, np.complex128(1), np.timedelta64(1, "s")]
)
def test_values_out_of_range_are_refused_without_a_word_of_them(value: Any) -> None:
    with pytest.raises(DataError, match=r"must be numbers in \[0, 1\]") as raised:
        Sketcher(plan_of("counting+laplace")).sketch({"secret": value})
    assert "secret" not in str(raised.value)
    assert str(value) not in str(raised.value)


def test_other_misuse_is_refused() -> None:
    with pytest.raises(DataError, match="the plan is for bits"):
        Sketcher(plan_of("counting+laplace")).sketch({"tea": 0.5})
    for odd in (0.5, ["tea"], {"tea": 1}):  # the last two have no hash
        with pytest.raises(ParameterError, match=f"attribute must be text.* got {type(odd).__name__}"):
            Sketcher(plan_of("counting+laplace")).sketch(["tea", odd])
    with pytest.raises(ParameterError, match="other than noisy-distances"):
        Sketcher(plan_of("noisy-distances"))
    with pytest.raises(ParameterError, match="plan must be a Plan, got str"):
        Sketcher("plan.json")  # type: ignore[arg-type]


# Merging


@pytest.fixture
def charged(tmp_path: Path) -> dict[str, Any]:
    """Return the options of a ledger with room for several releases."""
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", epsilon=10.0)
    return {"ledger": tmp_path / "ledger.db", "dataset": "visits"}


def spent(options: dict[str, Any]) -> float:
    return Ledger(options["ledger"]).status("visits").spent.epsilon


def quietly(call: Any, *arguments: Any, **options: Any) -> Any:
    """Call without a roster, which is warned about."""
    with pytest.warns(PrivacyWarning, match="No roster"):
        return call(*arguments, **options)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("mechanism", ["counting+laplace", "randomized-response"])
def test_sketches_from_devices_join_a_release(mechanism: str, charged: dict[str, Any], tmp_path: Path) -> None:
    plan, out = plan_of(mechanism), tmp_path / "release"
    quietly(publish, PEOPLE[:10], plan, users=range(10), out=out, **charged)
    before = np.array(open_release(out).values)
    sketcher = Sketcher(plan)
    # As they come over a wire: JSON, in the order of arrival.
    wire = json.dumps({str(user): sketcher.sketch(held(PEOPLE[user])).tolist() for user in range(29, 11, -1)})
    sketches = {int(user): row for user, row in json.loads(wire).items()}
    published = quietly(sketcher.merge_into, out, sketches, recipient="the university", **charged)
    assert (published.n_users, published.cost) == (28, None)
    grown = open_release(out, verify=True)
    assert grown.users.tolist() == [*range(10), *range(12, 30)]
    np.testing.assert_array_equal(grown.values[:10], before)
    np.testing.assert_array_equal(grown.values[10:], [sketches[user] for user in range(12, 30)])
    assert spent(charged) == plan.cost.epsilon
    verify(out)


def test_a_release_from_devices_alone(charged: dict[str, Any], tmp_path: Path) -> None:
    plan, out = plan_of("hashing+laplace"), tmp_path / "release"
    sketcher = Sketcher(plan)
    first = [("ada", sketcher.sketch(["tea"])), ("bob", sketcher.sketch(["tea", "jam"]))]
    published = sketcher.merge_into(out, first, create=True, roster=["cy", "ada", "bob"], **charged)
    assert published.cost == plan.cost
    assert spent(charged) == plan.cost.epsilon
    assert open_release(out).users.tolist() == ["ada", "bob", "cy"]
    sketcher.merge_into(out, {"dan": sketcher.sketch([])}, roster=["dan"], **charged)
    grown = open_release(out, verify=True)
    assert grown.users.tolist() == ["ada", "bob", "cy", "dan"]
    assert spent(charged) == plan.cost.epsilon
    assert Ledger(charged["ledger"]).status("visits").charges[-1].cost is None


def test_noise_for_those_who_sent_nothing_is_drawn_once_the_ledger_knows(
    charged: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sketcher = Sketcher(plan_of("hashing+laplace"))
    own = {"ada": sketcher.sketch(["tea"])}
    seen = []
    sketch = Sketcher.sketch

    def watched(self: Sketcher, attributes: Any) -> Any:
        seen.append([charge.state for charge in Ledger(charged["ledger"]).status("visits").charges])
        return sketch(self, attributes)

    monkeypatch.setattr(Sketcher, "sketch", watched)
    sketcher.merge_into(tmp_path / "release", own, create=True, roster=["ada", "bob", "cy"], **charged)
    assert seen == [["sampling"]] * 2


@pytest.mark.parametrize("mechanism", ["ternary+laplace", "randomized-response"])
def test_a_listed_vocabulary_goes_with_the_release(mechanism: str, charged: dict[str, Any], tmp_path: Path) -> None:
    catalog = ["tea", "jam", "rye"]
    more: dict[str, Any] = {"k": 8} if mechanism == "ternary+laplace" else {}
    plan = Plan.of(mechanism, Budget(1.0), vocabulary=catalog, **more)
    sketcher = Sketcher(plan, vocabulary=catalog)
    for who, create in (("ada", True), ("bob", False)):
        sketcher.merge_into(
            tmp_path / "out", {who: sketcher.sketch(["jam", "oat"])}, create=create, roster=[who], **charged
        )
    release = open_release(tmp_path / "out", verify=True)
    assert release.attribute(["ada", "bob"], "jam").value.shape == (2,)


def test_nobody_comes_twice_except_for_the_full_price(charged: dict[str, Any], tmp_path: Path) -> None:
    plan, out = plan_of("counting+laplace"), tmp_path / "release"
    sketcher = Sketcher(plan)
    sketcher.merge_into(out, {1: sketcher.sketch([1]), 2: sketcher.sketch([2])}, create=True, roster=[1, 2], **charged)
    before = (out / "manifest.json").read_bytes()
    again = {2: sketcher.sketch([2, 3]), 3: sketcher.sketch([3])}
    with pytest.raises(BudgetError, match="some people are already in it"):
        sketcher.merge_into(out, again, **charged)
    assert (out / "manifest.json").read_bytes() == before
    with pytest.warns(PrivacyWarning, match="sees who was published anew"):
        published = sketcher.merge_into(out, again, out=tmp_path / "new", roster=[2, 3], **charged)
    assert published.cost == plan.cost
    assert spent(charged) == 2 * plan.cost.epsilon
    old, new = open_release(out), open_release(tmp_path / "new", verify=True)
    np.testing.assert_array_equal(new.values, [old.values[0], again[2], again[3]])


def test_pseudonyms_join_by_the_same_key(charged: dict[str, Any], tmp_path: Path) -> None:
    plan, out, key = plan_of("counting+laplace"), tmp_path / "release", tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    sketcher = Sketcher(plan)
    options = charged | {"pseudonyms": key}
    made = {who: sketcher.sketch([who]) for who in ("ada", "bob", "cy")}
    sketcher.merge_into(out, made, create=True, roster=made, **options)
    with pytest.raises(BudgetError, match="some people are already in it"):
        sketcher.merge_into(out, {"ada": sketcher.sketch(())}, **options)
    with pytest.raises(ParameterError, match="pseudonyms must be used as in the release"):
        sketcher.merge_into(out, {"dan": sketcher.sketch(())}, **charged)
    users = open_release(out).users.tolist()
    assert users == sorted(users)
    assert not set(users) & set(made)


def test_merging_that_cannot_work_is_refused(charged: dict[str, Any], tmp_path: Path) -> None:
    plan, out = plan_of("counting+laplace"), tmp_path / "release"
    sketcher = Sketcher(plan)
    one = {1: sketcher.sketch([1])}
    with pytest.raises(ReleaseError):  # a misspelled path makes and charges nothing
        sketcher.merge_into(out, one, **charged)
    with pytest.raises(ParameterError, match="out must be left out with create"):
        sketcher.merge_into(out, one, create=True, out=tmp_path / "new", **charged)
    with pytest.raises(ParameterError, match=r"sketches must be a mapping from ids to integers.* got NoneType"):
        sketcher.merge_into(out, None, create=True, **charged)  # type: ignore[arg-type]
    sketcher.merge_into(out, one, create=True, roster=[1], **charged)
    with pytest.raises(ParameterError, match="is already a release"):
        sketcher.merge_into(out, {2: one[1]}, create=True, **charged)
    with pytest.raises(ParameterError, match="plan must be the one"):
        Sketcher(plan_of("hashing+laplace")).merge_into(out, {2: one[1]}, **charged)
    with pytest.raises(DataError, match="at least one person"):
        sketcher.merge_into(out, {}, **charged)
    assert spent(charged) == plan.cost.epsilon


def test_rows_that_are_no_sketches_are_refused(charged: dict[str, Any], tmp_path: Path) -> None:
    plan, out = plan_of("counting+laplace"), tmp_path / "release"
    sketcher = Sketcher(plan)
    good = sketcher.sketch([1])
    wrong: list[tuple[Any, str]] = [
        ({1: good[:-1]}, "32 integers"),
        ({1: good.astype(float)}, "32 integers"),
        ({1: [[1], [1, 2]]}, "32 integers"),
        ({1: [40_000] * 32}, "fit int16"),
        ([(1, good), (1, good)], "users must all be different"),
        ([(1, good), ("b", good)], "users must be integers or text"),
        ([(1, good, 2)], "pairs of both"),
        ([7], "pairs of both"),
    ]
    for sketches, text in wrong:
        with pytest.raises(DataError, match=text):
            sketcher.merge_into(out, sketches, create=True, **charged)
    with pytest.raises(DataError, match="at least one person, got none, so that only noise would be published"):
        sketcher.merge_into(out, {}, create=True, roster=[2], **charged)
    with pytest.raises(DataError, match="on the roster"):
        sketcher.merge_into(out, {1: good}, create=True, roster=[2], **charged)
    bits = Sketcher(Plan.of("randomized-response", Budget(1.0), n_attributes=3))
    with pytest.raises(DataError, match="bits beyond the last attribute"):
        bits.merge_into(out, {1: [8]}, create=True, **charged)
    assert not out.exists()
    assert spent(charged) == 0
