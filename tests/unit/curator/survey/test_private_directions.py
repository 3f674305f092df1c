"""Directions from the private table: the exact counts of pairs, what one attribute moves in them, and who may ask."""

from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.streams import NO_NOISE
from tests.surveys import LIST, N_PEOPLE, ROSTER, Cells, cells, table

from dimly.api import publish, survey
from dimly.curator.ledger.ledger import Ledger
from dimly.curator.options import Options
from dimly.curator.survey.exact_counts import count_columns, count_pairs, order_key, person_key
from dimly.curator.survey.private_directions import (
    LEAST_COLUMNS,
    LONG_LIST,
    MOST_COLUMNS,
    PairScope,
    _strength,
    check_people,
    directions_from,
    learn_from_table,
    with_columns,
)
from dimly.curator.tables.numbered_table import open_table
from dimly.errors import DimlyError, ParameterError, PrivacyWarning
from dimly.lab.population import make_population
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.projection.directions import Buckets, Directions
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.planner.brief import Brief
from dimly.planner.survey_facts import less_spent
from dimly.privacy import Budget, Cost
from dimly.privacy.budget import stated
from dimly.release.documents.directions_file import encode_directions, read_directions

GIVEN: dict[str, Any] = {"user": "who", "attribute": "what", "roster": ROSTER, "vocabulary": LIST, "threads": 1}


def plan_of(members: int = 5, unit: Any = "attribute", epsilon: float = 1.0) -> SurveyPlan:
    return SurveyPlan.of(Budget(epsilon, 1e-6), ["directions"], members=members, unit=unit, seed=bytes(32))


BUCKETS = Buckets(12, bytes(32))
"""Fewer than attributes, so that people have several of one bucket."""
EVERY = np.arange(len(LIST))


def pairs(found: Cells, plan: SurveyPlan, chosen: np.ndarray = EVERY, buckets: Buckets | None = None) -> np.ndarray:
    """Count pairs of attributes, or of buckets of whatever attributes there are."""
    listed = None if buckets else Vocabulary.listed(LIST)
    width = buckets.count if buckets else len(LIST)
    with open_table(table(found), plan, Options(**GIVEN | {"vocabulary": None}), vocabulary=listed) as opened:
        return count_pairs(opened, plan, chosen, width=width, members=5, buckets=buckets)


def first(who: int, columns: set[int], plan: SurveyPlan, most: int) -> list[int]:
    """Return the columns of a person that count, by arithmetic of our own."""

    def place(column: int) -> int:
        mixed = (person_key(order_key(plan), who) + (column + 1) * 0x9E3779B97F4A7C15) % 2**64
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ mixed >> shift) * factor % 2**64
        return mixed ^ mixed >> 31

    return sorted(sorted(columns, key=place)[:most])


def columns_of(found: Cells, who: int, buckets: Buckets | None) -> set[int]:
    own = [name for one, name in found if one == who]
    return {*buckets.codes(own).tolist()} if buckets and own else {LIST.index(name) for name in own}


@pytest.mark.parametrize("buckets", [None, BUCKETS])
def test_pairs_are_counted_exactly_among_the_first_of_each_person(buckets: Buckets | None) -> None:
    plan, width = plan_of(), buckets.count if buckets else len(LIST)
    wanted = np.zeros((width, width), np.int64)
    cut_short = 0
    for who in ROSTER:
        own = columns_of(cells(), who, buckets)
        cut_short += len(own) > 5
        for one, other in combinations(first(who, own, plan, 5), 2):
            wanted[one, other] += 1
    assert cut_short > 20  # the order of each person matters
    assert (pairs(cells(), plan, np.arange(width), buckets) == wanted).all()


def test_only_the_chosen_are_counted() -> None:
    plan = plan_of()
    some = EVERY[3:23:2]
    few = {(who, name) for who, name in cells() if LIST.index(name) in some and who % 3}
    assert (pairs(few, plan, some) == pairs(few, plan)[np.ix_(some, some)]).sum() > 0
    assert pairs(cells(), plan, some).shape == (10, 10)
    missing = {(who, name) for who, name in cells() if LIST.index(name) not in some}
    assert not pairs(missing, plan, some).any()


def test_truncation_favors_no_column() -> None:
    # Everybody has all: with one order for all of them, the first five would be counted 200 times and the others never.
    everything = {(who, name) for who, name in product(ROSTER, LIST)}
    counts = pairs(everything, plan_of())
    members = (counts + counts.T).sum(axis=0) / 4
    assert members.sum() == 5 * N_PEOPLE
    assert 10 < members.min() <= members.max() < 70  # 33 expected; 3.5 and 6 standard deviations


@settings(max_examples=6, deadline=None)
@given(
    st.integers(0, 99),
    st.integers(0, N_PEOPLE - 1),
    st.sampled_from(LIST),
    st.sampled_from(LIST),
    st.sampled_from([None, BUCKETS]),
)
def test_one_attribute_moves_no_more_pairs_than_the_noise_is_for(
    seed: int, who: int, old: str, new: str, buckets: Buckets | None
) -> None:
    plan, width = plan_of(), np.arange(buckets.count if buckets else len(LIST))
    one = cells(seed)
    changed = one - {(who, old), (who, new)}
    for a, b in ((one, one ^ {(who, old)}), (changed | {(who, old)}, changed | {(who, new)})):
        moved = pairs(a, plan, width, buckets) - pairs(b, plan, width, buckets)
        assert (moved**2).sum() <= 2 * (5 - 1)
        assert np.abs(moved).max() <= 1


@pytest.mark.parametrize("buckets", [None, BUCKETS])
def test_the_last_that_counts_may_be_displaced(buckets: Buckets | None) -> None:
    plan, width = plan_of(), np.arange(buckets.count if buckets else len(LIST))
    every = {(3, name) for name in LIST}
    chosen = first(3, columns_of(every, 3, buckets), plan, 5)
    leaving = {(3, name) for name in LIST if columns_of({(3, name)}, 3, buckets) <= {chosen[0]}}
    moved = pairs(every, plan, width, buckets) - pairs(every - leaving, plan, width, buckets)
    assert (moved**2).sum() == 2 * (5 - 1)  # the bound is reached: four pairs are lost, four are new
    unseen = {(3, name) for name in LIST if not columns_of({(3, name)}, 3, buckets) & {*chosen}}
    assert not (pairs(every, plan, width, buckets) - pairs(every - unseen, plan, width, buckets)).any()


def test_a_bucket_counts_once_however_many_attributes_are_in_it() -> None:
    plan = plan_of()
    codes = BUCKETS.codes(LIST)
    crowded = int(np.bincount(codes).argmax())
    inside = [name for name, code in zip(LIST, codes, strict=True) if code == crowded]
    assert len(inside) >= 2
    one, more = {(3, inside[0]), (3, "x")}, {(3, name) for name in (*inside, "x")}
    assert (pairs(one, plan, np.arange(12), BUCKETS) == pairs(more, plan, np.arange(12), BUCKETS)).all()
    counts = []
    for found in (one, more):
        with open_table(table(found), plan, Options(**GIVEN | {"vocabulary": None})) as opened:
            counts.append(count_columns(opened, plan, BUCKETS))
    assert counts[0].sum() == 2
    assert (counts[0] == counts[1]).all()


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 99), st.integers(0, N_PEOPLE - 1), st.sampled_from([*LIST, "new"]))
def test_one_attribute_moves_the_people_of_one_bucket_by_one_at_most(seed: int, who: int, name: str) -> None:
    plan = plan_of()

    def counted(found: Cells) -> np.ndarray:
        with open_table(table(found), plan, Options(**GIVEN | {"vocabulary": None})) as opened:
            return count_columns(opened, plan, BUCKETS)

    one = cells(seed)
    assert np.abs(counted(one) - counted(one ^ {(who, name)})).sum() <= 1


def test_buckets_are_taken_by_the_length_of_the_list_alone() -> None:
    plan = plan_of()
    assert with_columns(plan, 30) is plan
    assert with_columns(plan, LONG_LIST) is plan
    assert with_columns(plan, LONG_LIST + 1).buckets == with_columns(plan, None).buckets == MOST_COLUMNS
    stated = SurveyPlan.of(Budget(1.0, 1e-6), ["directions"], buckets=100)
    assert with_columns(stated, 30) is stated
    assert "buckets" not in plan.fields()  # so that plans without them have the digests that they had


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_noise_keeps_the_budget_and_a_fifth_less_is_refused(epsilon: float) -> None:
    plan = plan_of(100, epsilon=epsilon)
    noise = plan.pairs_noise(tested=[500, 60])
    left = stated(epsilon) - sum(stated(one.epsilon) for one in (plan.selecting, plan.testing(500), plan.testing(60)))
    claim = Budget(float(left), 1e-6)
    noise.check(claim, l2_sensitivity=np.sqrt(198), touched=198)
    with pytest.raises(ParameterError, match="must keep delta"):
        type(noise).of(0.8 * noise.sigma).check(claim, l2_sensitivity=np.sqrt(198), touched=198)
    assert plan.pairs_noise().sigma < noise.sigma
    assert plan.pairs_noise(members=50).sigma < plan.pairs_noise().sigma
    assert plan.noise("directions") == plan.pairs_noise()
    assert plan.testing(60).epsilon <= plan.selecting.epsilon
    assert plan.spent(plan.selecting, plan.testing(60)).epsilon < 0.21 * epsilon


def test_what_a_run_that_stopped_is_charged_is_still_divided_for_several_units() -> None:
    """As the whole was: what any three of them cost together is shown beside the charge."""
    plan = SurveyPlan.of(Budget(0.5, 1e-6), ["directions"], protect=3)
    assert plan.cost.together == plan.spent(plan.selecting).together == 3


def test_how_many_attributes_follows_from_public_numbers_and_noisy_counts() -> None:
    plan = plan_of(100, epsilon=0.25)
    counts = np.linspace(900, 100, 10_000).astype(np.int64)
    scopes = [PairScope.of(plan, factor * 1_000, factor * counts) for factor in (10, 40, 1_000)]
    sizes = [scope.size for scope in scopes]
    assert LEAST_COLUMNS <= sizes[0] <= sizes[1] <= MOST_COLUMNS == sizes[2]
    rare = PairScope.of(plan, 100_000, counts // 20)
    assert (rare.size, rare.promising) == (LEAST_COLUMNS, False)
    assert rare.weight == pytest.approx(50 * 44.5 / 100_000, rel=0.05)
    assert rare.members == 2  # and never more than people have: these would only carry noise
    short = PairScope.of(plan, 20_000, np.full(20, 9_000))
    assert (short.size, short.members) == (20, 20)
    assert scopes[1].smaller().size < sizes[1]
    assert scopes[1].smaller().tested == (sizes[1], scopes[1].smaller().size)


def test_too_few_people_are_refused_beforehand_whatever_the_limit_for_each() -> None:
    with pytest.raises(ParameterError, match=r"to learn directions from 500 people: noise would hide them\. .* takes"):
        check_people(plan_of(100, epsilon=0.25), 500, 100_000)
    for members in (22, 150, 10_000):  # mushrooms: 22 each of 117; a higher limit is no better and no worse
        check_people(plan_of(members, epsilon=0.1), 8_124, 117)
    with pytest.raises(ParameterError, match="at least 3 attributes"):
        check_people(plan_of(10), 10**6, 2)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 999), st.integers(2, 40))
def test_one_attribute_moves_the_tested_strength_by_no_more_than_its_noise_is_for(seed: int, members: int) -> None:
    rng = np.random.default_rng(seed)
    size = members + 6
    plan = plan_of(members)
    counts = np.triu(rng.integers(0, 30, (size, size)), 1)
    kept = rng.permutation(size)[: members + 1]
    other = counts.copy()
    for name in kept[2:]:
        low, high = sorted((kept[0], name))
        counts[low, high] += 1
        low, high = sorted((kept[1], name))
        other[low, high] += 1
    scope = PairScope(plan, 1_000, np.arange(size), 5.0, members, (size,), np.ones(size, np.int64))
    noise, step = plan.strength_noise(size=size, members=members, n_users=1_000)
    one, two = (_strength(table, scope, NO_NOISE) / step for table in (counts, other))
    assert abs(one - two) * Fraction(noise.rate) <= stated(plan.testing(size).epsilon)


@pytest.fixture(scope="module")
def people() -> Any:
    return make_population(4_000, 300, n_groups=3, mean_weight=40, taste=60, seed=1)


def test_directions_tell_planted_groups_apart(people: Any, tmp_path: Path) -> None:
    from sklearn.cluster import KMeans  # noqa: PLC0415
    from sklearn.metrics import adjusted_rand_score  # noqa: PLC0415

    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", epsilon=2.0, delta=1e-4)
    out = tmp_path / "directions.parquet"
    charging: dict[str, Any] = {"ledger": ledger.path, "dataset": "visits", "out": out}
    found = survey(people.table, Budget(1.5, 1e-6), ask=["directions"], members=60, **charging)
    assert isinstance(found, Directions)
    assert read_directions(out) == found
    assert "learned from the private table of 4000 people under epsilon = 1.5, delta = 1e-06" in found.origin
    assert "NOT PRIVATE" not in found.origin
    assert less_spent(Brief(Budget(2.0, 1e-5)), found).budget == Budget(0.5, 9e-6)  # by that origin
    (charge,) = ledger.status("visits").charges
    assert (charge.state, charge.release_id) == ("visible", found.digest)
    columns = found.codes([str(at) for at in range(300)])
    along = people.table.astype(np.int64)[:, columns >= 0] @ found.matrix[columns[columns >= 0]]
    segments = KMeans(3, n_init=4, random_state=0).fit_predict(along)
    assert adjusted_rand_score(people.groups, segments) > 0.7  # 0.9 by other noise; by chance 0


def test_buckets_take_the_place_of_a_list_from_the_table_to_the_release(people: Any, tmp_path: Path) -> None:
    who, what = people.table.nonzero()
    rows = pa.table({"who": who, "what": [f"place {place}" for place in what]})
    given: dict[str, Any] = {"user": "who", "attribute": "what", "roster": range(4_000)}
    found = survey(rows, Budget(2.0, 1e-6), ask="directions", members=60, buckets=128, **given)
    assert isinstance(found, Directions)
    assert found.vocabulary is None
    assert found.buckets is not None
    assert found.buckets.count == len(found.matrix) == 128
    assert " of 128 buckets, at most " in found.origin
    out = tmp_path / "directions.parquet"
    out.write_bytes(bytes(encode_directions(found)))
    assert read_directions(out) == found
    plan = Plan.of("directions+laplace", Budget(1.0), directions=found)
    with pytest.warns(PrivacyWarning, match="by a survey, whose epsilon and delta come on top"):
        release = publish(rows, plan, **given)
    assert release.values.shape == (4_000, found.count)
    assert np.abs(release.values.mean(axis=0)).max() > 0
    with pytest.warns(PrivacyWarning, match="No ledger"):
        dry = survey(rows, Budget(2.0, 1e-6), ask="directions", dry_run=True, **given)
    assert dry.plan.buckets == MOST_COLUMNS  # where nothing is stated, because there is no list


def test_where_nothing_goes_together_nothing_is_written(tmp_path: Path) -> None:
    independent = np.random.default_rng(0).random((3_000, 80)) < 0.2
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", epsilon=3.0, delta=1e-4)
    charging: dict[str, Any] = {"ledger": ledger.path, "dataset": "visits", "out": tmp_path / "d.parquet"}
    with pytest.raises(DimlyError, match="no direction stands out") as caught:
        survey(independent, Budget(1.0, 1e-6), ask=["directions"], members=30, **charging)
    assert "stays in the ledger" in caught.value.__notes__[0]
    assert not (tmp_path / "d.parquet").exists()
    (charge,) = ledger.status("visits").charges
    assert charge.cost is not None
    assert charge.cost.delta == 0.0
    assert 0.1 < charge.cost.epsilon < 0.21  # and not 1: the pairs were never drawn
    assert f"Only epsilon = {charge.cost.epsilon:g} of 1 was spent" in str(caught.value)
    with pytest.raises(ParameterError, match="Nothing was charged"):
        survey(independent, Budget(0.01, 1e-6), ask=["directions"], members=30, **charging)
    rare = np.zeros((3_000, 80), bool)
    with pytest.raises(DimlyError, match=r"people have about .* Only epsilon = 0\.1 of 1 was spent"):
        survey(rare, Budget(1.0, 1e-6), ask=["directions"], members=30, **charging)
    assert [one.label for one in ledger.status("visits").charges] == [
        "sampling (run ended)",
        "returned",
        "sampling (run ended)",
    ]
    assert ledger.status("visits").charges[-1].cost == Cost(0.1)


def test_what_follows_from_noisy_counts_is_the_same_each_time() -> None:
    above = np.triu_indices(60, 1)
    group = np.arange(60) % 2
    noisy = np.where(group[above[0]] == group[above[1]], 900, 100)
    one, other = (directions_from(noisy, n_users=1000, variance=10.0) for _ in range(2))
    assert (one.loadings == other.loadings).all()
    assert one.loadings.shape == (60, 1)
    assert len(set(np.sign(one.loadings[group == 0, 0]).tolist())) == 1
    assert one.eigenvalues[0] > one.noise


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"roster": None}, "roster must be given to learn directions"),
        ({"vocabulary": None}, "to learn directions from 200 people"),
        ({"buckets": 10}, "buckets must be an integer from 64"),
        ({"ask": ["weights"], "buckets": 100}, "buckets must be given for directions only"),
        ({"ask": ["directions", "weights"]}, "directions must be asked for alone"),
        ({"ask": ["weights"], "members": 5}, "members must be given for directions only"),
        ({"members": 1}, "members must be an integer from 2"),
        ({"budget": Budget(1.0)}, "delta must be > 0 to ask for directions"),
        ({}, "to learn directions from 200 people"),
    ],
)
def test_bad_calls(changes: dict[str, Any], message: str) -> None:
    options = GIVEN | {"ask": ["directions"], "budget": Budget(0.1, 1e-6)} | changes
    with pytest.raises(ParameterError, match=message):
        survey(table(cells()), options.pop("budget"), **options)
    with pytest.raises(ParameterError, match="to learn directions from 200 people"):
        learn_from_table(table(cells()), plan_of(epsilon=0.1), Options(**GIVEN, dry_run=True))
