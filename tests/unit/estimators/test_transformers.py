"""Denoising in a pipeline is the denoising of a release."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from tests.matrices import publish_matrix
from tests.plans import plan_of
from tests.streams import NO_NOISE, Recorded

from dimly.analyst import Release
from dimly.analyst.structure.coordinates import Coordinates
from dimly.errors import DataError, ParameterError
from dimly.estimators import PrivateProjection, RandomizedResponse, SketchDenoiser
from dimly.mechanisms import Plan
from dimly.privacy import Budget

KINDS = np.repeat(np.random.default_rng(30).random((3, 100)) < 0.4, 150, axis=0)
TABLE = KINDS ^ (np.random.default_rng(31).random(KINDS.shape) < 0.1)


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+laplace", "randomized-response"])
def test_it_is_the_denoiser_of_a_release(mechanism: str) -> None:
    plan = plan_of(mechanism)
    sketches = publish_matrix(TABLE, plan, words=Recorded(9))
    points = Coordinates.of(plan).points(sketches.values)
    found = SketchDenoiser(plan).fit(points)
    expected = Release(sketches).denoiser
    np.testing.assert_allclose(found.gains_, expected.gains, atol=2e-4)
    np.testing.assert_allclose(found.transform(points), expected.points(points), atol=2e-2)
    assert found.transform(points).dtype == np.float32
    assert found.get_feature_names_out().shape == (points.shape[1],)


def test_all_noise_becomes_nearly_one_point() -> None:
    noise = np.random.default_rng(0).standard_normal((2_000, 20))
    denoised = SketchDenoiser(noise_variance=1.0).fit_transform(noise)
    assert denoised.var(axis=0).sum() < 0.1 * noise.var(axis=0).sum()


def test_wide_points_keep_their_strongest_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("randomized-response")
    points = Coordinates.of(plan).points(publish_matrix(TABLE, plan, words=Recorded(9)).values)
    expected = SketchDenoiser(plan).fit(points)
    monkeypatch.setattr("dimly.estimators.transformers._WIDEST", 50)
    monkeypatch.setattr("dimly.estimators.transformers._RANK", 10)
    found = SketchDenoiser(plan).fit(points)
    assert len(found.gains_) <= 10
    np.testing.assert_allclose(found.gains_[:2], expected.gains_[:2], atol=1e-3)


def test_points_come_nearer_to_those_without_noise() -> None:
    plan = Plan.of("hashing+laplace", Budget(1.0), k=128)
    points = PrivateProjection(plan=plan, allow_repeats=True).fit_transform(TABLE)
    true = Coordinates.of(plan).points(publish_matrix(TABLE, plan, words=NO_NOISE).values)
    denoised = SketchDenoiser(plan).fit_transform(points)
    assert ((denoised - true) ** 2).sum() < 0.5 * ((points - true) ** 2).sum()


def test_it_may_be_searched_over() -> None:
    points = np.random.default_rng(1).standard_normal((60, 5)) + np.tile([[0.0], [4.0]], (30, 1))
    grid = {"sketchdenoiser__noise_variance": [0.5, 1.0]}
    search = GridSearchCV(make_pipeline(SketchDenoiser(noise_variance=1.0), KMeans(2, n_init=1)), grid, cv=2)
    assert search.fit(points).best_score_ < 0


def test_the_noise_must_be_known() -> None:
    points = np.zeros((5, 32))
    with pytest.raises(ParameterError, match="plan or noise_variance must be given"):
        SketchDenoiser().fit(points)
    with pytest.raises(ParameterError, match="plan or noise_variance must be given"):
        SketchDenoiser(plan_of("counting+laplace"), noise_variance=1.0).fit(points)
    for wrong in (0.0, -1.0, float("inf"), "1", True):
        with pytest.raises(ParameterError, match="noise_variance must be a number > 0"):
            SketchDenoiser(noise_variance=wrong).fit(points)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="plan must be a Plan, got str"):
        SketchDenoiser("plan.json").fit(points)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="X must have 32 columns by this plan, got 31"):
        SketchDenoiser(plan_of("counting+laplace")).fit(points[:, :-1])
    with pytest.raises(ParameterError, match="noisy distances give no points"):
        SketchDenoiser(plan_of("noisy-distances")).fit(points)


class _Cell:
    """A cell that becomes a number for scikit-learn, and compares with none."""

    def __float__(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    "people",
    [
        pd.DataFrame({"a": ["tea", "jam"]}),
        pd.DataFrame({"a": pd.to_datetime(["2024-02-29"])}),
        [[10**400]],
        [[_Cell()]],
    ],
    ids=["text", "times", "a large integer", "objects"],
)
@pytest.mark.parametrize(
    "transformer", [PrivateProjection(4, clip=True, resolution=4), RandomizedResponse(threshold=1.0)], ids=repr
)
def test_cells_that_do_not_compare_are_refused_in_our_words(transformer: Any, people: Any) -> None:
    with pytest.raises(DataError, match="X must hold booleans or numbers") as caught:
        transformer.fit_transform(people)
    assert caught.value.__context__ is None
