"""Transformers release what publishing would, count it, and take every kind of table."""

import pickle
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from tests.matrices import publish_matrix
from tests.plans import SEED
from tests.streams import Recorded
from tests.unit.estimators.people import people, values

from dimly.analyst.structure.coordinates import Coordinates
from dimly.errors import DataError, DimlyError, ParameterError
from dimly.estimators import PrivateProjection, RandomizedResponse
from dimly.estimators.base import Account, Register, ReleasingTransformer, _TagSet
from dimly.mechanisms import Directions, Plan
from dimly.mechanisms.make import sketching
from dimly.privacy import Budget, Cost, compose

PROJECTIONS: list[dict[str, Any]] = [
    {},
    {"mechanism": "hashing+laplace"},
    {"mechanism": "sparse+gaussian", "blocks": 4, "delta": 1e-6},
    {"mechanism": "ternary+laplace"},
    {"resolution": 16},
]
RELEASING = [PrivateProjection(16), RandomizedResponse()]
both = pytest.mark.parametrize("estimator", RELEASING, ids=lambda estimator: type(estimator).__name__)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same noise whenever something is released."""
    monkeypatch.setattr("dimly.estimators.base.Keystream", lambda: Recorded(5))


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("options", PROJECTIONS)
def test_a_projection_is_what_publishing_gives(options: dict[str, Any]) -> None:
    table = values() if options.get("resolution") else people()
    points = PrivateProjection(16, seed=SEED, epsilon=0.7, **options)
    integers = clone(points).set_params(output="integers", allow_repeats=True)
    released = points.fit_transform(table)
    published = publish_matrix(table, points.plan_, words=Recorded(5)).values
    np.testing.assert_array_equal(integers.fit_transform(table), published)
    coordinates = Coordinates.of(points.plan_)
    np.testing.assert_array_equal(released, coordinates.points(published))
    assert released.dtype == np.float32
    assert points.bias_ == coordinates.bias
    assert points.plan_.budget.epsilon == 0.7
    assert points.plan_.mechanism == options.get("mechanism", "counting+laplace")


@pytest.mark.usefixtures("recorded")
def test_responses_are_what_publishing_gives() -> None:
    table = people(d=61)
    response = RandomizedResponse(epsilon=0.7, allow_repeats=True)
    released = response.fit_transform(table)
    published = publish_matrix(table, response.plan_, words=Recorded(5)).values
    bits = np.unpackbits(published, axis=1, count=61, bitorder="little")
    np.testing.assert_array_equal(released, Coordinates.of(response.plan_).points(published))
    np.testing.assert_array_equal(response.set_params(output="integers").fit_transform(table), bits)


@pytest.mark.usefixtures("recorded")
@both
def test_every_kind_of_table_is_the_same(estimator: ReleasingTransformer) -> None:
    table = people()
    estimator = clone(estimator).set_params(allow_repeats=True)
    expected = estimator.fit_transform(table)
    kinds: list[Any] = [
        table.astype(bool),
        table.astype(np.float32),
        table.astype(np.float16),
        table.tolist(),
        np.asfortranarray(table),
        scipy.sparse.csr_array(table),
        scipy.sparse.csc_matrix(table.astype(float)),
        scipy.sparse.coo_array(table.astype(bool)),
    ]
    for kind in kinds:
        np.testing.assert_array_equal(estimator.transform(kind), expected)


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("mechanism", ["counting+laplace", "ternary+laplace", "randomized-response"])
def test_names_of_columns_are_the_attributes(mechanism: str) -> None:
    frame = pd.DataFrame(people(d=5), columns=["tea", "jam", "rye", "oat", "fig"])
    estimator: Any = RandomizedResponse()
    if sketching(mechanism):
        estimator = PrivateProjection(8, mechanism=mechanism, seed=SEED)
    estimator.set_params(output="integers", allow_repeats=True)
    found = estimator.fit_transform(frame)
    expected = publish_matrix(frame.to_numpy(), estimator.plan_, attributes=frame.columns, words=Recorded(5)).values
    if not sketching(mechanism):
        expected = np.unpackbits(expected, axis=1, count=5, bitorder="little")
    np.testing.assert_array_equal(found, expected)
    assert (estimator.plan_.vocabulary is None) == (mechanism == "counting+laplace")
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.transform(frame[frame.columns[::-1]])


def test_fitting_learns_nothing_but_the_columns() -> None:
    plans = {PrivateProjection(16, seed=SEED).fit(table).plan_.digest for table in (people(), people(3), 0 * people())}
    assert len(plans) == 1
    projection = PrivateProjection(16)
    assert projection.fit(people()).plan_.digest != projection.fit(people()).plan_.digest  # a fresh seed each time


@both
def test_noise_is_fresh_and_of_the_plan(estimator: ReleasingTransformer) -> None:
    # Of nobody's attributes a point is noise alone, of squared norm bias_. P(false alarm) < 1e-6; 20 % less must fail.
    fitted = clone(estimator).set_params(allow_repeats=True).fit(people())
    nobody = np.zeros((4_000, 60))
    first, second = fitted.transform(nobody), fitted.transform(nobody)
    assert (first != second).any(axis=1).mean() > 0.9
    norms = (np.concatenate([first, second]).astype(float) ** 2).sum(axis=1)
    limit = stats.norm.isf(1e-6 / 2) * norms.std() / np.sqrt(len(norms))
    assert abs(norms.mean() - fitted.bias_) < limit
    assert 0.2 * fitted.bias_ > 2 * limit


@both
def test_every_transform_is_counted(estimator: ReleasingTransformer) -> None:
    estimator = clone(estimator).set_params(epsilon=0.5)
    with pytest.raises(NotFittedError):
        estimator.spent_  # noqa: B018
    assert estimator.fit(people()).spent_.epsilon == 0.0
    for n in (1, 2, 3):
        estimator.transform(people())  # other people, but that cannot be known
        assert (estimator.spent_.epsilon, estimator.spent_.n_costs) == (0.5 * n, n)
    estimator.fit(people())
    assert estimator.spent_.epsilon == 1.5
    with pytest.raises(DataError):
        estimator.transform(2 * people())
    assert estimator.spent_.epsilon == 1.5
    assert clone(estimator).fit(people()).spent_.epsilon == 0.0


def test_people_with_ids_share_what_they_cost() -> None:
    projection = PrivateProjection(16, epsilon=0.5, mechanism="hashing+gaussian", delta=1e-7, allow_repeats=True)
    projection.fit(people())
    ids = [f"share {i}" for i in range(80)]
    projection.transform(people(), users=ids[:40])
    projection.transform(people(), users=ids[40:])
    assert projection.spent_.n_costs == 1
    projection.transform(people(), users=ids[20:60])
    assert projection.spent_.n_costs == 2
    projection.transform(people())  # might be anybody
    spent = projection.spent_
    assert (spent.n_costs, spent.epsilon) == (3, 1.5)
    assert spent.epsilon == compose([projection.plan_.cost] * 3, delta=1e-6, method="sum").epsilon
    assert spent.delta == pytest.approx(3e-7)
    copy = pickle.loads(pickle.dumps(projection))  # noqa: S301
    assert copy.spent_ == spent
    copy.transform(people(), users=ids[:40])
    assert copy.spent_.n_costs == 4


@both
def test_pickles_hold_nothing_to_recognize_people_by(estimator: ReleasingTransformer) -> None:
    estimator = clone(estimator).fit(people())
    estimator.transform(people(), users=[f"{type(estimator)} {i}" for i in range(40)])
    estimator.transform(people())
    assert not pickle.loads(pickle.dumps(estimator))._account._users  # noqa: S301


def test_plans_made_beforehand() -> None:
    plan = Plan.of("hashing+laplace", Budget(2.0), k=24)
    projection = PrivateProjection(plan=plan)
    assert projection.fit_transform(people()).shape == (40, 24)
    assert projection.plan_ is plan
    flips = Plan.of("randomized-response", Budget(2.0), n_attributes=60)
    assert RandomizedResponse(plan=flips).fit_transform(people()).shape == (40, 60)
    with pytest.raises(ParameterError, match="epsilon must be left out where a plan is given"):
        PrivateProjection(plan=plan, epsilon=2.0).fit(people())
    with pytest.raises(ParameterError, match="mechanism must be one that sketches"):
        PrivateProjection(plan=flips).fit(people())
    with pytest.raises(ParameterError, match="mechanism must be randomized-response"):
        RandomizedResponse(plan=plan).fit(people())
    with pytest.raises(ParameterError, match="X must have 60 columns"):
        RandomizedResponse(plan=flips).fit(people(d=61))
    with pytest.raises(ParameterError, match="plan must be a Plan, got str"):
        PrivateProjection(plan="plan.json").fit(people())  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [None, ["x", "y"]])
def test_columns_without_a_row_in_the_directions_are_refused_before_anything_is_spent(columns: Any) -> None:
    """What came out would be noise alone, and cost as much."""
    directions = Directions.of_values(["tea", "jam"], [[1.0], [-1.0]], origin="tests")
    projection = PrivateProjection(plan=Plan.of("directions+laplace", Budget(1.0), directions=directions))
    table = np.eye(2)
    with pytest.raises(ParameterError, match=r"must have rows in the directions.*by its columns"):
        projection.fit_transform(table if columns is None else pd.DataFrame(table, columns=columns))
    assert projection.spent_.epsilon == 0
    assert projection.fit_transform(pd.DataFrame(table, columns=["tea", "x"]), users=["a", "b"]).shape == (2, 1)


@pytest.mark.parametrize("mechanism", ["ternary+laplace", "randomized-response"])
def test_columns_are_those_of_a_closed_plan_in_its_order(mechanism: str) -> None:
    made: Any = PrivateProjection if mechanism == "ternary+laplace" else RandomizedResponse
    more: dict[str, Any] = {"k": 8} if mechanism == "ternary+laplace" else {}
    frame = pd.DataFrame(people(d=3), columns=["tea", "jam", "rye"])
    listed = Plan.of(mechanism, Budget(1.0), vocabulary=["rye", "tea", "jam"], **more)
    with pytest.raises(ParameterError, match="X must have column names where the plan was made with a list"):
        made(plan=listed).fit(frame.to_numpy())
    for wrong in (frame, frame.rename(columns={"tea": "oat"})):
        with pytest.raises(ParameterError, match="columns of X must be the plan's attributes, which have an order"):
            made(plan=listed).fit(wrong)
    assert len(made(plan=listed, allow_repeats=True).fit_transform(frame[["rye", "tea", "jam"]])) == 40
    numbered = Plan.of(mechanism, Budget(1.0), n_attributes=3, **more)
    # Else flipped bits would come out in the plan's order under the names of another.
    for names in (["tea", "jam", "rye"], ["2", "0", "1"]):
        with pytest.raises(ParameterError, match="columns of X must be the plan's attributes, which are numbered"):
            made(plan=numbered).fit(pd.DataFrame(people(d=3), columns=names))
    same = pd.DataFrame(people(d=3), columns=["0", "1", "2"])
    assert len(made(plan=numbered, allow_repeats=True).fit_transform(same)) == 40
    with pytest.raises(ParameterError, match="mechanism must be one that sketches"):
        PrivateProjection(mechanism="noisy-distances").fit(people())


@both
def test_tables_of_other_values_are_refused(estimator: ReleasingTransformer) -> None:
    estimator = clone(estimator).fit(people())
    for wrong in (people() - 1, people() + 1, people() * 0.5, scipy.sparse.csr_array(people() * 3)):
        with pytest.raises(DataError, match="must"):
            estimator.transform(wrong)
    for call in (estimator.fit, estimator.transform):
        with pytest.raises(ValueError, match="contains NaN"):
            call(np.full((3, 60), np.nan))
        secret = people().astype(object)
        secret[0, 0] = "a secret"
        for table in (secret, secret.astype(str), pd.DataFrame(secret)):
            with pytest.raises(DataError, match="X must hold booleans or numbers") as raised:
                call(table)
            assert raised.value.__suppress_context__ or raised.value.__context__ is None
    with pytest.raises(DataError, match="users must all be different"):
        estimator.transform(people(), users=[1] * 40)
    with pytest.raises(ParameterError, match="output must be points or integers"):
        clone(estimator).set_params(output="bits").fit(people())


@pytest.mark.usefixtures("recorded")
def test_values_are_clipped_or_cut_if_asked_for() -> None:
    table = 3 * values() - 1
    clipping = PrivateProjection(16, resolution=8, clip=True, allow_repeats=True, seed=SEED)
    expected = clipping.fit_transform(np.clip(table, 0, 1))
    np.testing.assert_array_equal(clipping.transform(table), expected)
    np.testing.assert_array_equal(clipping.transform(scipy.sparse.csc_array(table)), expected)
    cutting = RandomizedResponse(threshold=0.3, allow_repeats=True)
    expected = cutting.fit_transform(table > 0.3)
    np.testing.assert_array_equal(cutting.transform(table), expected)
    np.testing.assert_array_equal(cutting.transform(scipy.sparse.csr_matrix(table)), expected)
    for wrong in (-1, "0.5", True, float("nan")):
        with pytest.raises(ParameterError, match="threshold must be a number of at least 0"):
            cutting.set_params(threshold=wrong).transform(table)


def test_names_and_frames_out() -> None:
    frame = pd.DataFrame(people(d=3), columns=["tea", "jam", "rye"], index=range(100, 140))
    projection = PrivateProjection(4, allow_repeats=True).set_output(transform="pandas")
    found = projection.fit_transform(frame)
    assert list(found.columns) == [f"privateprojection{i}" for i in range(4)]
    assert list(found.index) == list(frame.index)
    response = RandomizedResponse(output="integers", allow_repeats=True).set_output(transform="pandas")
    assert list(response.fit_transform(frame).columns) == ["tea", "jam", "rye"]
    assert response.get_feature_names_out().tolist() == ["tea", "jam", "rye"]


def test_a_pipeline_transforms_new_people() -> None:
    pipeline = make_pipeline(PrivateProjection(16, epsilon=2.0), KMeans(2, n_init=1, random_state=0))
    labels = pipeline.fit_predict(people())
    assert labels.shape == (40,)
    assert pipeline.predict(people(7)).shape == (7,)
    assert pipeline[0].spent_.epsilon == 4.0


QUIET: dict[str, Any] = {
    "one dimension": np.array([0.3141592, 1.0]),
    "no dimension": 0.3141592,
    "three dimensions": np.full((2, 2, 2), 0.3141592),
    "complex": np.array([[0.3141592j, 1.0]]),
    "complex and sparse": scipy.sparse.csr_array(np.array([[0.3141592j, 1.0]])),
    "text": np.array([["3141592"], ["SECRET"]]),
    "objects": np.array([["SECRET", 1]], object),
    "NaN": np.array([[np.nan, 0.3141592]]),
    "infinity": np.array([[np.inf, 0.3141592]]),
    "rows of several lengths": [[1, 0.3141592], [1]],
    "a mapping": {"a": "SECRET"},
    "mappings": [{"a": "SECRET"}],
    "no columns": np.ones((3141592, 0)),
    "a frame of text": pd.DataFrame({"a": ["SECRET", 3141592]}),
}


@pytest.mark.parametrize("X", QUIET.values(), ids=QUIET.keys())
@both
def test_errors_say_nothing_of_the_table(X: Any, estimator: Any) -> None:
    with pytest.raises((DimlyError, TypeError)) as caught:
        clone(estimator).fit_transform(X)
    error: BaseException | None = caught.value
    while error is not None:
        assert not re.search("3141592|SECRET", str(error))
        assert "\n" not in str(error)
        error = error.__context__


ROWS = (np.array([0, 2, 2, 3]), np.array([1, 4, 4]), np.array([1.0, 0.5, 0.5]))


def test_contents_tell_rows_apart() -> None:
    register = Register()
    tags = register.contents(*ROWS, width=5)
    assert len(set(tags.tolist())) == 3
    np.testing.assert_array_equal(register.contents(*ROWS, width=5), tags)
    assert not set(tags.tolist()) & set(register.contents(*ROWS, width=6).tolist())
    assert not set(tags.tolist()) & set(Register().contents(*ROWS, width=5).tolist())  # each has a key of its own
    assert len(register.contents(np.array([0]), np.empty(0), np.empty(0), width=5)) == 0


def test_one_row_of_two_entries_is_not_another_of_the_same_bytes() -> None:
    register = Register()
    long = register.contents(np.array([0, 3]), np.array([0, 0, 0]), np.zeros(3), width=5)
    short = register.contents(np.array([0, 2]), np.array([0, 0]), np.zeros(2), width=5)
    assert long[0] != short[0]


def test_ids_are_one_by_their_text() -> None:
    register = Register()
    tags = register.users([42, "42", "ada"]).tolist()
    assert tags[0] == tags[1] != tags[2]


def test_entering_is_checking() -> None:
    register = Register()
    tags: Any = np.arange(10, dtype=np.uint64)
    users = tags + np.uint64(100)
    assert register.enter(tags[:5], None, repeats=False)
    assert not register.enter(tags[4:], None, repeats=False)
    assert register.enter(tags[5:], users[:5], repeats=False)  # what was refused was not entered
    assert not register.enter(tags[9:], None, repeats=False)
    assert not register.enter(tags[:1], users[9:], repeats=False)
    assert register.enter(tags[5:], users[5:], repeats=False)
    assert not register.enter(tags[5:], users[5:], repeats=False)
    assert register.enter(tags[5:], users[5:], repeats=True)


@given(st.lists(st.lists(st.integers(0, 200), max_size=20), max_size=40), st.integers(0, 200))
def test_sets_of_tags_are_sets(batches: list[list[int]], asked: int) -> None:
    tags = _TagSet()
    for batch in batches:
        tags.add(np.array(batch, np.uint64))
    assert tags.meets(np.array([asked], np.uint64)) == any(asked in batch for batch in batches)
    assert not tags.meets(np.array([], np.uint64))
    sizes = list(map(len, tags._arrays))
    assert all(one > 2 * two for one, two in pairwise(sizes))


def test_accounts_add_up_whom_they_cannot_tell_apart() -> None:
    account = Account()
    assert account.spent.epsilon == 0.0
    one, two = np.arange(3, dtype=np.uint64), np.arange(2, 5, dtype=np.uint64)
    account.charge(Cost(0.5), one)
    account.charge(Cost(0.5), one + np.uint64(10))
    assert (account.spent.epsilon, account.spent.n_costs) == (0.5, 1)
    account.charge(Cost(0.5), two)
    account.charge(Cost(0.25), two)
    account.charge(Cost(0.25), None)
    account.charge(Cost(0.25), np.empty(0, np.uint64))
    assert (account.spent.epsilon, account.spent.n_costs) == (1.5, 4)
    copy = pickle.loads(pickle.dumps(account))  # noqa: S301
    assert copy.spent == account.spent
    assert not copy._users


@pytest.mark.parametrize("in_a_list", [False, True])
def test_what_lies_under_a_mask_is_not_published(in_a_list: bool) -> None:
    table = np.ma.masked_array(people(4), mask=True)
    with pytest.raises(DataError, match="must not be masked"):
        PrivateProjection(16).fit_transform(list(table) if in_a_list else table)
