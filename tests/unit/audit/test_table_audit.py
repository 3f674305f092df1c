"""One publication with invented people in it sees nearly all of ε, and more where a link of the chain is broken.

False alarms: one in a million. Power: each break below moves ε̂ by more than twenty standard errors.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.plans import plan_of
from tests.streams import Recorded
from tests.unit.audit.faulty import Clipped, result
from tests.unit.audit.visits import FORMATS, write

from dimly.audit import table_audit
from dimly.audit.coin_trials import ScoredCoins
from dimly.audit.table_audit import audit_table, guessed_most_certain
from dimly.curator import perturb
from dimly.curator.options import Options
from dimly.curator.people import People
from dimly.curator.publication import publish_table
from dimly.curator.sampling import NoiseSampler
from dimly.errors import DimlyError, ParameterError
from dimly.mechanisms import Directions, Plan
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.privacy import Budget
from dimly.release.format import layout_of
from dimly.release.reader import open_folder

LONG = Options(user="person", attribute="page", threads=1)
COINS = 1 << 14
LISTED = [f"name {i}" for i in range(40)]
DIRECTIONS = Directions.of_values(LISTED, np.eye(40), origin="made up", scale=1)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format(name: str, tmp_path: Path) -> None:
    found = audit_table(write(name, tmp_path), plan_of("counting+laplace"), LONG, coins=COINS)
    assert 0.8 < found.epsilon_lower_bound <= 1.0


@pytest.mark.parametrize(
    ("plan", "more", "least"),
    [
        (plan_of("hashing+laplace"), {}, 0.8),
        (plan_of("hashing+laplace", resolution=5), {}, 0.8),
        (plan_of("counting+laplace", unit="column"), {}, 0.7),
        (plan_of("randomized-response"), {}, 0.8),
        (plan_of("hashing+laplace", n_attributes=100), {}, 0.8),
        (Plan.of("ternary+laplace", Budget(4.0), k=4, vocabulary=LISTED), {"vocabulary": LISTED}, 1.5),
        (Plan.of("randomized-response", Budget(1.0), vocabulary=LISTED), {"vocabulary": LISTED}, 0.8),
        (Plan.of("directions+laplace", Budget(1.0), directions=DIRECTIONS), {}, 0.8),
        (plan_of("hashing+gaussian"), {}, 0.1),
        (Plan.of("hashing+gaussian", Budget(8.0, 1e-4), k=16), {}, 5.0),
    ],
    ids=lambda one: one.mechanism if isinstance(one, Plan) else None,
)
@pytest.mark.thorough(but=4)
def test_every_kind_of_plan(plan: Plan, more: dict[str, Any], least: float, tmp_path: Path) -> None:
    options = Options(user="person", attribute="page", threads=1, **more)
    found = audit_table(write("t.parquet", tmp_path), plan, options, coins=COINS)
    assert least < found.epsilon_lower_bound <= plan.cost.epsilon


@pytest.mark.parametrize("name", FORMATS)
def test_no_noise_is_drawn_for_anybody_real(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    perturbed: list[int] = []
    published: list[Any] = []
    perturb_people = perturb.Perturber.perturb

    def counted(self: perturb.Perturber, people: People, *words: Any, **more: Any) -> Any:
        perturbed.append(len(people))
        return perturb_people(self, people, *words, **more)

    def publishing(files: list[str], plan: Plan, options: Options) -> None:
        with monkeypatch.context() as watched:
            watched.setattr(perturb.Perturber, "perturb", counted)
            publish_table(files if len(files) > 1 else files[0], plan, options)
        published.extend(open_folder(Path(str(options.out))).users.tolist())

    audit_table(write(name, tmp_path), plan_of("counting+laplace"), LONG, coins=COINS, publishing=publishing)
    assert all(int(one) > 2**61 for one in published)
    assert sum(perturbed) == len(published) > 0


def test_what_a_killed_audit_left_is_removed(tmp_path: Path) -> None:
    temp = tmp_path / "temp"
    left, other = temp / ("dimly-audit-" + "0" * 16), temp / "dimly-audit-of-somebody"
    for one in (left, other):
        one.mkdir(parents=True)
    options = Options(user="person", attribute="page", temp=temp)
    audit_table(write("t.csv", tmp_path), plan_of("counting+laplace"), options, coins=COINS)
    assert list(temp.iterdir()) == [other]
    with pytest.raises(ParameterError, match="temp must be a folder"):
        audit_table(
            write("t.csv", tmp_path), plan_of("counting+laplace"), Options(user="person", attribute="page", temp=left)
        )


def test_long_rows_of_bits(tmp_path: Path) -> None:
    plan = Plan.of("randomized-response", Budget(1.0), n_attributes=10**6)
    found = audit_table(write("numbers.parquet", tmp_path), plan, LONG, coins=COINS)
    assert 0.5 < found.epsilon_lower_bound <= 1.0
    assert result(found, "repeated noise") == "no noise was found twice"


def test_a_fifth_too_little_noise_along_directions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds were 1.169, with a standard deviation of 0.01. More directions take more coins: see docs/audit.md."""
    rows = np.random.default_rng(0).laplace(size=(500, 3)) / 10
    along = Directions.of_values([f"a{i}" for i in range(500)], rows, origin="made up")
    plan = Plan.of("directions+laplace", Budget(1.0), directions=along)
    less = DiscreteLaplace.of(Budget(1.25), l1_sensitivity=plan.sensitivity.l1)
    monkeypatch.setattr(perturb, "NoiseSampler", lambda _: NoiseSampler(less))
    assert audit_table(write("t.parquet", tmp_path), plan, LONG, coins=1 << 17).contradicts


def test_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temp = tmp_path / "temp"
    temp.mkdir()
    source = write("t.csv", tmp_path)
    audit_table(source, plan_of("counting+laplace"), Options(user="person", attribute="page", temp=temp), coins=COINS)
    assert list(temp.iterdir()) == []
    monkeypatch.setattr(table_audit, "_rows_of", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        audit_table(source, plan_of("counting+laplace"), Options(user="person", attribute="page", temp=temp))
    assert list(temp.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "temp"]


def audited(folder: Path, name: str = "t.parquet", **more: Any) -> Any:
    return audit_table(write(name, folder), plan_of("counting+laplace", k=64), LONG, **({"coins": COINS} | more))


def test_a_fifth_too_little_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    less = DiscreteLaplace.of(Budget(1.25), l1_sensitivity=1)
    monkeypatch.setattr(perturb, "NoiseSampler", lambda _: NoiseSampler(less))
    assert audited(tmp_path, coins=1 << 16).contradicts


@pytest.mark.parametrize(("plan", "most"), [(plan_of("counting+laplace"), 1), (plan_of("hashing+gaussian"), 6)])
def test_noise_that_ends_too_early(plan: Plan, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perturb, "NoiseSampler", lambda table: Clipped(table, most))
    found = audit_table(write("t.parquet", tmp_path), plan, LONG, coins=COINS)
    assert found.epsilon_lower_bound > 2.0
    assert "were expected" in result(found, "law of the noise")


def test_noise_that_a_later_link_cuts_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Published numbers that end at 6: one coin in 500 is certain, and the histogram shows it."""
    rows_of = table_audit._rows_of
    monkeypatch.setattr(table_audit, "_rows_of", lambda *rest: np.clip(rows_of(*rest), -6, 6))
    found = audited(tmp_path, coins=1 << 16)
    assert found.contradicts
    assert "were expected" in result(found, "law of the noise")


def test_sums_at_the_end_of_their_type_are_no_alarm(tmp_path: Path) -> None:
    """One number in a hundred is published as the largest that sixteen bits hold, whatever the noise was."""
    plan = Plan.of("counting+laplace", Budget(8.0), k=16, resolution=22_000)
    assert plan.dtype == "int16"
    found = audit_table(write("t.parquet", tmp_path), plan, LONG, coins=1 << 17)
    assert not found.contradicts, found


def test_rows_that_count_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(people: People, *, width: int, resolution: int) -> People:
        """As if what stands in a table twice had come through twice."""
        del width, resolution
        return People(people.indptr, people.indices, np.full(len(people.indices), 2, np.int64))

    monkeypatch.setattr(People, "bounded", doubled)
    assert audited(tmp_path).contradicts


def test_a_keystream_that_is_used_for_every_batch(tmp_path: Path) -> None:
    class Once:
        """The same words for each person."""

        def fill(self, out: Any) -> None:
            piece = np.frombuffer(np.random.default_rng(1).bytes(128), out.dtype)
            out[...] = np.resize(piece, out.shape)

    found = audited(tmp_path, words=Once)
    assert found.contradicts
    assert result(found, "repeated noise") == "noise was found twice"
    other = tmp_path / "other"
    other.mkdir()
    assert not audited(other, words=lambda: Recorded(3)).contradicts  # one batch, whose words are used once


def test_a_keystream_that_begins_anew_with_each_batch(tmp_path: Path) -> None:
    found = audited(tmp_path, words=lambda: Recorded(3), coins=1 << 19)
    assert found.contradicts
    assert result(found, "repeated noise") == "noise was found twice"


def test_invented_people_fill_two_parts(tmp_path: Path) -> None:
    """A part is one batch on Spark: in a single one, a key that every part gets is used once."""
    plan = plan_of("counting+laplace", k=64)

    def publishing(files: list[str], plan: Plan, options: Options) -> None:
        raise DimlyError(str(layout_of(plan).n_parts(len(options.roster))))

    with pytest.raises(DimlyError, match=r"^2$"):
        audit_table(write("t.parquet", tmp_path), plan, LONG, publishing=publishing)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (Options(user="person", columns="all"), "only long tables"),
        (Options(user="person", attribute="page", roster=["ada"]), "roster must be left out"),
        (Options(user="person", attribute="page", where="more > 0"), "where must be left out"),
    ],
)
def test_what_cannot_be_audited_is_refused(options: Options, said: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=said):
        audit_table(write("t.csv", tmp_path), plan_of("counting+laplace"), options)


def test_distances_and_bad_tables_are_refused(tmp_path: Path) -> None:
    source = write("t.csv", tmp_path)
    with pytest.raises(ParameterError, match="data must be left out"):
        audit_table(source, plan_of("noisy-distances"), LONG)
    source.write_text('person,page\n"secret,tea\n')
    with pytest.raises(DimlyError) as caught:
        audit_table(source, plan_of("counting+laplace"), LONG, coins=COINS)
    assert "secret" not in str(caught.value)


def test_another_engine_publishes(tmp_path: Path) -> None:
    seen = []

    def publishing(files: list[str], plan: Plan, options: Options) -> None:
        seen.append(len(files))
        publish_table(files, plan, options)

    found = audit_table(write("t.csv", tmp_path), plan_of("counting+laplace"), LONG, coins=COINS, publishing=publishing)
    assert seen == [2]
    assert not found.contradicts


def test_a_fixed_share_is_guessed() -> None:
    seen = ScoredCoins(np.array([True, False, True, False]), np.array([5, 4, -3, 0]))
    assert guessed_most_certain(seen, 0.5) == (4, 2, 1)
    assert guessed_most_certain(seen, 0.01) == (4, 1, 1)
