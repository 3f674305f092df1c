from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score
from tests.matrices import publish_matrix
from tests.plans import plan_of
from tests.releases import release_of
from tests.streams import Recorded

from dimly.analyst import Release
from dimly.analyst.segments.cross_validation import (
    Explained,
    Fold,
    Stability,
    ViewComparison,
    ViewJudge,
    _agreement,
    _of_any_taste,
    adjusted_rand_index,
)
from dimly.analyst.segments.k_means import View
from dimly.analyst.structure import kernels
from dimly.analyst.structure.coordinates import Coordinates
from dimly.analyst.structure.denoise import Denoiser
from dimly.mechanisms import Plan
from dimly.privacy import Budget


@pytest.mark.parametrize(("groups", "others"), [(1, 1), (1, 4), (3, 3), (12, 5)])
def test_agreement_is_that_of_scikit_learn(groups: int, others: int) -> None:
    generator = np.random.default_rng(groups)
    one, other = generator.integers(groups, size=500), generator.integers(others, size=500)
    mixed = np.where(generator.random(500) < 0.7, one, other)
    for first, second in ((one, other), (one, mixed), (mixed, one), (one, one)):
        assert adjusted_rand_index(first, second) == adjusted_rand_score(first, second)


@pytest.mark.parametrize("standing", ["active", "alike"])
def test_what_groups_explain_is_their_rays_share_of_held_out_people(standing: str) -> None:
    generator = np.random.default_rng(0)
    people = generator.standard_normal((90, 7)).astype(np.float32)
    active = (generator.random(90) + 0.5 if standing == "active" else np.ones(90)).astype(np.float32)
    first, labels = generator.random(90) < 0.5, generator.integers(3, size=90).astype(np.int32)
    labels[~first & (labels == 2)] = 1  # nobody of the last group is in the second half
    found = np.empty(90)
    kernels.explain(people, active, first, labels, 3, found)

    def explained(i: int, like: NDArray[np.bool_]) -> float:
        ray = (active[like] @ people[like]) / (active[like] @ active[like])
        return float(people[i] @ people[i] - ((people[i] - active[i] * ray) ** 2).sum())

    for i in range(90):
        other_half = first != first[i]
        alike = other_half & (labels == labels[i])
        more = explained(i, alike if alike.any() else other_half) - explained(i, other_half)
        assert found[i] == pytest.approx(more, abs=1e-4)


class Said(Fold):
    """A fold of which is known beforehand what groups tell in each view."""

    def explained(self, count: int, view: View) -> Explained:
        del count
        asked.append(view)
        return Explained(told[view], told[view])


asked: list[View] = []
told: dict[View, NDArray[np.float64]] = {}


@pytest.mark.parametrize(("gap", "heard"), [(1.0, 3), (0.0, 12)])
def test_folds_are_computed_only_until_views_are_told_apart(gap: float, heard: int) -> None:
    generator = np.random.default_rng(0)
    denoiser = Denoiser.of_points(np.eye(4, dtype=np.float32), Coordinates.of(plan_of("hashing+laplace")), most=2)
    rays, plain, published = (View(denoiser, width, activity) for width, activity in ((2, False), (2, True), (0, True)))
    asked.clear()
    for place, view in enumerate((rays, plain, published)):
        told[view] = generator.standard_normal(400) - gap * place
    folds = [Said(np.zeros((400, 4), np.float32), np.zeros(4, bool), denoiser.coordinates, 2) for _ in range(4)]
    comparison = ViewComparison(folds, 3)
    assert comparison.leads(rays, [plain, published]) == (gap > 0)
    best = max((plain, published), key=lambda view: told[view].mean())
    assert comparison.best([plain, published]) is best
    assert len(asked) == heard
    np.testing.assert_allclose(comparison.explained_by(rays, 4).tastes, 4 * told[rays])


@pytest.mark.parametrize(
    ("explained", "chosen"), [((-2.0, -1.0), 0), ((0.0, -1.0), 0), ((1.0, 2.0), 1), ((-1.0, 1.0), 1)]
)
def test_a_view_that_explains_nothing_does_not_replace_the_first(
    monkeypatch: pytest.MonkeyPatch, explained: tuple[float, float], chosen: int
) -> None:
    """30,000 light people, judged by 2,000: all views explained less than nothing, and the worst of them was taken."""
    release = release_of("hashing+laplace")
    first = View.of(release.denoiser, denoise=True, count=2)
    views = [first, replace(first, width=0)]
    judge = ViewJudge.of(release._sketches, first)
    much = dict(zip(views, explained, strict=True))
    monkeypatch.setattr(Fold, "explained", lambda _fold, _count, view: Explained(np.zeros(30), np.full(30, much[view])))
    assert judge.choose(2, views) is views[chosen]


@pytest.mark.parametrize(("leads", "score", "chosen"), [(True, 0.4, 1), (True, 0.2, 0), (False, 0.9, 0)])
def test_rays_tell_more_of_tastes_and_are_stable(
    monkeypatch: pytest.MonkeyPatch, leads: bool, score: float, chosen: int
) -> None:
    release = release_of("hashing+laplace")
    plain = View.of(release.denoiser, denoise=True, count=2)
    views = [plain, replace(plain, activity=False)]
    monkeypatch.setattr(ViewComparison, "leads", lambda *_: leads)
    monkeypatch.setattr(ViewJudge, "stability", lambda *_, **__: Stability(score, 0.0))
    assert ViewJudge.of(release._sketches, plain).choose(2, views) is views[chosen]


def test_clouds_of_tastes_hold_people_as_active_who_spread_as_far_and_form_no_groups() -> None:
    generator = np.random.default_rng(0)
    likes, groups = np.where(generator.random((4, 300)) < 0.2, 0.2, 0.02), np.arange(1500) % 4
    activity = generator.lognormal(-0.1, 0.5, (1500, 1))
    table = generator.random((1500, 300)) < np.minimum(activity * likes[groups], 0.95)
    plan = Plan.of("hashing+laplace", Budget(8.0), k=64, seed=bytes(32))
    release = Release(publish_matrix(table, plan, words=Recorded(3)))
    view = View(release.denoiser, 8, activity=False)
    projected = view.project(Coordinates.of(plan).points(release.values))
    active, expected = view.active(projected), np.cov(projected.T)
    clouds = _of_any_taste(projected, view)
    for cloud in clouds:
        assert np.linalg.norm(np.cov(cloud.T) - expected) < 0.3 * np.linalg.norm(expected)
        assert np.corrcoef(view.active(cloud), active)[0, 1] > 0.95
    assert _agreement(view.look(projected), 4, 0) > 0.8
    assert np.mean([_agreement(view.look(cloud), 4, 0) for cloud in clouds]) < 0.5
