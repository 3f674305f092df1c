"""A second release of the same people is refused, by whatever way it comes."""

import signal
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import sklearn
from joblib import parallel_config  # type: ignore[import-untyped]
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    learning_curve,
    validation_curve,
)
from sklearn.pipeline import Pipeline, make_pipeline
from tests.unit.estimators.people import people, values

from dimly.errors import BudgetError, PrivacyWarning
from dimly.estimators import PrivateProjection, RandomizedResponse
from dimly.estimators.base import _TagSet

LABELS = np.arange(40) % 2
BEFORE = "rows were transformed before"
SEARCH = "must not be searched over, cross-validated or bagged"


def pipeline(**options: Any) -> Pipeline:
    return make_pipeline(PrivateProjection(16, **options), LogisticRegression())


def still_new(table: NDArray[Any]) -> bool:
    """Return whether nobody of a table was released by now; they are after this."""
    try:
        PrivateProjection(16).fit_transform(table)
    except BudgetError:
        return False
    return True


def test_the_same_people_are_recognized_in_every_form() -> None:
    table = people()
    first = PrivateProjection(16)
    first.fit_transform(table)
    forms: list[Any] = [
        table,
        table[::-1],
        table[7:8],
        np.concatenate([people(), table[-1:]]),
        table.astype(bool),
        table.astype(np.float32),
        table.tolist(),
        scipy.sparse.csc_array(table),
    ]
    others: list[Any] = [
        first,
        clone(first),
        PrivateProjection(8, epsilon=0.1, mechanism="hashing+laplace"),
        PrivateProjection(16, resolution=4),
        PrivateProjection(16, clip=True),
        RandomizedResponse(),
        RandomizedResponse(threshold=0.5),
    ]
    for other in others:
        other.fit(table)
        for form in forms:
            with pytest.raises(BudgetError, match=BEFORE):
                other.transform(form)
    assert first.spent_.n_costs == 1
    assert clone(first).set_params(allow_repeats=True).fit_transform(table).shape == (40, 16)


def test_values_are_recognized_at_every_resolution_and_precision() -> None:
    table = values()
    PrivateProjection(16, resolution=4).fit_transform(table)
    for form in (table, table.astype(np.float32), scipy.sparse.coo_array(table)):
        with pytest.raises(BudgetError, match=BEFORE):
            PrivateProjection(16, resolution=100).fit_transform(form)
    PrivateProjection(16, resolution=4).fit_transform(1 - table)  # other rows


def test_equal_rows_within_one_table_are_different_people() -> None:
    one = people(1)
    assert PrivateProjection(16).fit_transform(np.repeat(one, 5, axis=0)).shape == (5, 16)


def test_ids_tell_people_with_equal_rows_apart() -> None:
    table = people()
    projection = PrivateProjection(16).fit(table)
    projection.transform(table, users=[f"apart {i}" for i in range(40)])
    projection.transform(table, users=[f"other {i}" for i in range(40)])
    assert projection.spent_.n_costs == 1
    with pytest.raises(BudgetError, match=BEFORE):  # they changed, and are the same people
        projection.transform(people(), users=[f"apart {i}" for i in range(39, 79)])
    with pytest.raises(BudgetError, match=BEFORE):  # without ids, they may be anybody
        projection.transform(table)
    unknown = people()
    projection.transform(unknown)
    with pytest.raises(BudgetError, match=BEFORE):
        projection.transform(unknown, users=[f"more {i}" for i in range(40)])


def test_ids_are_routed_through_a_pipeline() -> None:
    table, ids = people(), [f"routed in a test {i}" for i in range(40)]
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(PrivateProjection(16).set_transform_request(users=True), LogisticRegression())
        routed.fit(table, LABELS, users=ids)
        routed.predict(table[:5], users=[f"others in a test {i}" for i in range(5)])
        with pytest.raises(BudgetError, match=BEFORE):
            routed.predict(people(5), users=ids[:5])
    assert routed[0].spent_.n_costs == 1


def test_to_predict_the_people_that_it_was_fitted_on_is_refused() -> None:
    table = people()
    fitted = pipeline().fit(table, LABELS)
    for ask in (fitted.predict, fitted.predict_proba, lambda table: fitted.score(table, LABELS)):
        with pytest.raises(BudgetError, match=BEFORE):
            ask(table)


def _in_threads(table: NDArray[Any]) -> None:
    with parallel_config("threading", n_jobs=2):
        cross_val_score(pipeline(), table, LABELS, cv=3)


SEARCHES: dict[str, Any] = {
    "grid": lambda table: GridSearchCV(pipeline(), {"privateprojection__epsilon": [0.5, 1.0]}, cv=3).fit(table, LABELS),
    "grid of later steps": lambda table: GridSearchCV(
        pipeline(), {"logisticregression__C": [0.1, 1.0]}, cv=3, refit=False, error_score=0.0
    ).fit(table, LABELS),
    "random": lambda table: RandomizedSearchCV(
        pipeline(), {"privateprojection__n_components": [4, 8]}, n_iter=2, cv=2
    ).fit(table, LABELS),
    "in threads": _in_threads,
    "score": lambda table: cross_val_score(pipeline(), table, LABELS, cv=3),
    "score, raising": lambda table: cross_val_score(pipeline(), table, LABELS, cv=3, error_score="raise"),
    "predict": lambda table: cross_val_predict(pipeline(), table, LABELS, cv=3),
    "learning curve": lambda table: learning_curve(pipeline(), table, LABELS, cv=2, train_sizes=[0.5, 1.0]),
    "one sample with some people twice": lambda table: BaggingClassifier(pipeline(), n_estimators=1).fit(table, LABELS),
    "response": lambda table: cross_val_score(
        make_pipeline(RandomizedResponse(), LogisticRegression()), table, LABELS, cv=2
    ),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_searches_are_refused_before_anything_is_spent(search: Any) -> None:
    table = people()
    with pytest.raises((BudgetError, ValueError), match=SEARCH):
        search(table)
    assert still_new(table)


def test_a_search_that_keeps_errors_to_itself_warns() -> None:
    table = people()
    with pytest.warns(PrivacyWarning, match=SEARCH):
        scores = validation_curve(
            pipeline(), table, LABELS, param_name="logisticregression__C", param_range=[0.1, 1.0], cv=2
        )
    assert np.isnan(scores).all()
    assert still_new(table)


def test_a_search_that_was_allowed_says_that_it_spends() -> None:
    table = people()
    with pytest.warns(PrivacyWarning, match="every fold and sample will spend epsilon 1 again"):
        scores = cross_val_score(pipeline(allow_repeats=True), table, LABELS, cv=2)
    assert np.isfinite(scores).all()
    search = GridSearchCV(pipeline(allow_repeats=True), {"logisticregression__C": [1.0]}, cv=2)
    with pytest.warns(PrivacyWarning, match="every fold"):
        search.fit(table, LABELS)
    assert search.predict(people(3)).shape == (3,)  # of new people: no search any more


def test_what_follows_may_be_searched_over() -> None:
    sketches = PrivateProjection(16).fit_transform(people())
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2).fit(sketches, LABELS)
    assert search.best_score_ >= 0


def test_an_ensemble_is_refused_at_its_second_member() -> None:
    with pytest.raises(BudgetError, match=BEFORE):
        VotingClassifier([(name, pipeline()) for name in ("one", "other")]).fit(people(), LABELS)


def test_other_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.parent_process", object)
    table = people()
    with pytest.raises(BudgetError, match="must transform in the main process"):
        PrivateProjection(16).fit_transform(table)
    PrivateProjection(16, allow_repeats=True).fit_transform(table)


def test_a_signal_handler_may_transform_while_rows_are_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in the thread that it interrupts, where it waited for a lock that nobody would let go."""
    add = _TagSet.add
    transformer = PrivateProjection(16).fit(people())
    released: list[int] = []

    def interrupted(tags: _TagSet, more: NDArray[Any]) -> None:
        if not entered:
            entered.append(None)
            signal.raise_signal(signal.SIGUSR1)  # the handler runs in the main thread, at its next step
        add(tags, more)

    entered: list[None] = []
    monkeypatch.setattr(_TagSet, "add", interrupted)
    before = signal.signal(signal.SIGUSR1, lambda *_: released.append(len(transformer.transform(people()))))
    try:
        transformer.transform(people())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert released == [40]
    assert transformer.spent_.epsilon == 2.0
