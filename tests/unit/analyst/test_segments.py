from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from tests.plans import K, plan_of
from tests.releases import READABLE, release_of
from tests.streams import Recorded

from dimly.analyst import Release, segments
from dimly.analyst.coordinates import Coordinates
from dimly.analyst.stability import Cloud
from dimly.analyst.structure import Structure
from dimly.analyst.views import View
from dimly.api import open_release, publish
from dimly.curator.publishing import publish_matrix
from dimly.errors import ParameterError
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release.sketches import Sketches

GROUPS = np.arange(600) % 6 // 2 % 3  # of 200 each
GROUPS[:60] = 0
TABLE = (np.random.default_rng(1).random((3, 100)) < 0.4)[GROUPS]
PLAN = Plan.of("counting+laplace", Budget(2.0), k=64, seed=bytes(32))


@pytest.fixture(scope="module")
def release() -> Release:
    return Release(publish_matrix(TABLE, PLAN, words=Recorded(3)))


def test_groups_are_found(release: Release) -> None:
    found = release.segments(3)
    assert adjusted_rand_score(GROUPS, found.labels) > 0.95
    np.testing.assert_array_equal(found.users, release.users)
    np.testing.assert_array_equal(found.sizes, np.bincount(found.labels))
    assert (np.diff(found.sizes) <= 0).all()
    assert found.stability > 0.5
    assert len(found) == 3
    assert found.signal == found.structure.share > 0
    assert found.words.startswith("Found 2 components")
    again = release.segments(3)
    np.testing.assert_array_equal(again.labels, found.labels)
    assert again.stability == found.stability


def test_their_number_is_found(release: Release) -> None:
    assert len(release.segments("auto")) == 3


@pytest.mark.parametrize("denoise", [True, False])
@pytest.mark.parametrize("activity", [True, False])
def test_every_view(release: Release, denoise: bool, activity: bool) -> None:
    found = release.segments(3, denoise=denoise, activity=activity)
    assert adjusted_rand_score(GROUPS, found.labels) > 0.8
    assert found.activity is activity


@pytest.mark.parametrize("mechanism", READABLE)
def test_every_mechanism(mechanism: str) -> None:
    found = release_of(mechanism).segments(2)  # thirty people of independent attributes
    assert found.sizes.sum() == 30
    assert found.stability == 0
    assert found.words == "No segments to speak of: no structure beyond what independent attributes would show."
    assert len(release_of(mechanism).segments("auto")) == 1


def test_centers_are_averages_of_published_points(release: Release) -> None:
    found = release.segments(3)
    distances = found.distances()
    averages = np.stack([TABLE[found.labels == label].mean(axis=0) for label in range(3)])
    truth = ((averages[:, None] - averages[None, :]) ** 2).sum(axis=2)
    assert (np.abs(distances.value - truth) <= 5 * distances.stderr).all()
    assert (distances.low <= distances.value).all()
    assert (distances.value <= distances.high).all()
    assert (np.diag(distances.value) == 0).all()


def test_segments_of_activity_are_told_from_taste() -> None:
    generator = np.random.default_rng(4)
    likes = np.where(generator.random((2, 300)) < 0.5, 0.02, 0.2)
    weight = generator.lognormal(0, 0.7, (1500, 1))
    groups = np.arange(1500) % 2
    table = generator.random((1500, 300)) < np.minimum(weight * likes[groups], 0.9)
    plan = Plan.of("counting+laplace", Budget(4.0), k=128, seed=bytes(32))
    people = Release(publish_matrix(table, plan, words=Recorded(3)))
    found = people.segments(2)
    assert not found.activity
    assert "by taste and not by activity" in found.words
    by_taste = adjusted_rand_score(groups, found.labels)
    assert by_taste > 0.6
    assert by_taste > adjusted_rand_score(groups, people.segments(2, activity=True).labels) + 0.2


def test_without_activity_the_long_are_shortened_and_the_short_stay_short(release: Release) -> None:
    points = Coordinates.of(PLAN).points(release.values)
    view = replace(View.of(release.denoiser, denoise=True), activity=False)
    reduced = view.reduce(points)
    across = reduced - np.outer(reduced @ view.along, view.along)
    before, after = np.linalg.norm(across, axis=1), np.linalg.norm(view.finish(reduced), axis=1)
    usual = np.sqrt((before**2).mean())
    np.testing.assert_allclose(after, np.minimum(before / usual, 1.0), rtol=0.02)
    assert 0.1 < (before < usual).mean() < 0.9
    np.testing.assert_allclose(view.finish(reduced) @ view.along, 0, atol=1e-5)
    published = replace(View.of(release.denoiser, denoise=False), activity=False)
    np.testing.assert_allclose(np.linalg.norm(published(points), axis=1), 1, rtol=1e-5)


def test_activity_is_left_out_from_a_tenth_on(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    for share, seen in ((0.09, True), (0.11, False)):
        monkeypatch.setattr(Cloud, "activity", lambda *_, share=share: share)
        assert release.segments(3, denoise=False).activity is seen


def test_saturated_people_are_in_no_segment(release: Release) -> None:
    values = release.values.copy()
    values[[5, 9], 2] = np.iinfo(values.dtype).max
    found = Release(Sketches(release.plan, release.users, values)).segments(3)
    np.testing.assert_array_equal(np.flatnonzero(found.labels < 0), [5, 9])
    assert found.sizes.sum() == 598
    values[:598, 0] = np.iinfo(values.dtype).min
    with pytest.raises(ParameterError, match="the people without saturated numbers"):
        Release(Sketches(release.plan, release.users, values)).segments(3)


def test_many_people_are_read_in_parts(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = release.segments(3)
    monkeypatch.setattr(segments, "_MOST_AT_ONCE", 150)
    parts = release.segments(3)
    assert adjusted_rand_score(whole.labels, parts.labels) > 0.95
    few = Release(Sketches(release.plan, release.users[:400], _all_saturated_but_one(release)[:400]))
    monkeypatch.setattr(segments, "_MOST_AT_ONCE", 399)
    with pytest.raises(ParameterError, match="at most 1, the people without saturated numbers"):
        few.segments(3)


def test_one_person_is_one_segment(release: Release) -> None:
    for count in (1, "auto"):
        found = Release(Sketches(release.plan, release.users[:1], release.values[:1])).segments(count)
        assert (found.labels.tolist(), found.sizes.tolist(), found.stability) == ([0], [1], 0.0)
        assert found.words.startswith("No segments to speak of")


def test_nobody_has_no_segments(release: Release) -> None:
    with pytest.raises(ParameterError, match="must hold people without saturated numbers to have segments"):
        Release(Sketches(release.plan, release.users[:0], release.values[:0])).segments("auto")


def _all_saturated_but_one(release: Release) -> Any:
    values = release.values.copy()
    values[1:, 0] = np.iinfo(values.dtype).max
    return values


@pytest.mark.filterwarnings("ignore::dimly.errors.PrivacyWarning")
def test_a_folder_has_the_same_segments(tmp_path: Path) -> None:
    made = publish(TABLE, PLAN, out=tmp_path / "release")
    stored = open_release(tmp_path / "release")
    np.testing.assert_array_equal(made.segments(3).labels, stored.segments(3).labels)


@pytest.mark.parametrize("count", [0, 31, 2.0, True, "many", None])
def test_a_wrong_count(count: Any) -> None:
    with pytest.raises(ParameterError, match='count must be "auto" or from 1 to the number of people, 30'):
        release_of("hashing+laplace").segments(count)


def test_a_wrong_activity() -> None:
    with pytest.raises(ParameterError, match="activity must be"):
        release_of("hashing+laplace").segments(2, activity="much")  # type: ignore[arg-type]


def test_one_segment_is_everybody(release: Release) -> None:
    found = release.segments(1)
    assert found.sizes.tolist() == [600]
    assert found.words.endswith("It does not fall into groups.")
    as_many = release_of("hashing+laplace").segments(30)
    assert as_many.sizes.sum() == 30


def test_unstable_segments_in_words(release: Release) -> None:
    found = segments.Segments(
        users=np.arange(2),
        labels=np.zeros(2, np.int32),
        centers=np.zeros((2, K)),
        sizes=np.array([1, 1]),
        stability=0.0,
        activity=True,
        structure=Structure(1, 0.1, 2.0, 1.5),
        _coordinates=Coordinates.of(plan_of("hashing+laplace")),
        _assigner=release.segments(2)._assigner,
    )
    assert found.words.endswith("are no more stable than cuts through a cloud without groups.")


def test_no_segment_is_empty() -> None:
    values = np.zeros((40, 64), np.int16)
    values[20:, 0] = 9
    found = Release(Sketches(PLAN, np.arange(40), values)).segments(5)
    assert found.sizes.tolist() == [20, 20]
    assert found.centers.shape == (2, 64)
    assert set(found.labels.tolist()) == {0, 1}


def test_progress_counts_every_pass(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    for most, passes in ((10**6, 2), (len(release) - 1, 3)):
        monkeypatch.setattr(segments, "_MOST_AT_ONCE", most)
        told: list[tuple[int, int]] = []
        release.segments(2, progress=lambda done, total, told=told: told.append((done, total)))  # type: ignore[misc]
        assert told[-1] == (passes * len(release), passes * len(release))
        assert [done for done, _ in told] == sorted(done for done, _ in told)
