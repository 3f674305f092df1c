from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from tests.matrices import publish_matrix
from tests.plans import K, plan_of
from tests.releases import READABLE, release_of
from tests.streams import Recorded

from dimly.analyst import Release
from dimly.analyst.release import open_release
from dimly.analyst.segments import segments
from dimly.analyst.segments.k_means import View
from dimly.analyst.structure.coordinates import Coordinates
from dimly.analyst.structure.parallel_analysis import Structure
from dimly.api import publish
from dimly.errors import ParameterError
from dimly.lab.population import make_population
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
    assert "Found 2 components" in found.words
    again = release.segments(3)
    np.testing.assert_array_equal(again.labels, found.labels)
    assert again.stability == found.stability


def test_their_number_is_found(release: Release) -> None:
    found = release.segments("auto")
    assert len(found) == 3
    # What other numbers would have come to is told beside it, the least of what was given up early as "<".
    assert list(found.stabilities) == [*range(2, 13)]
    assert found.stabilities[3] == found.stability == release.segments(3).stability
    assert max(found.stabilities.values()) <= found.stability + 0.05
    assert f"3: {found.stability:.2f}" in found.words_on_counts
    assert "12: <" in found.words_on_counts
    assert found.words_on_counts in repr(found)


def test_a_number_that_was_asked_for_is_compared_with_no_other(release: Release) -> None:
    found = release.segments(3)
    assert found.stabilities == {3: found.stability}
    assert found.words_on_counts == ""


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
    assert found.words == (
        "No segments to speak of: no structure beyond what independent attributes would show. Groups that noise hides, "
        "or that differ only in how active people are, would not show here."
    )
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
    assert "Activity is how many attributes people have; where it counts too (activity=True), they" in found.words
    assert "activity" not in people.segments(2, activity=True).words
    by_taste = adjusted_rand_score(groups, found.labels)
    assert by_taste > 0.6
    assert by_taste > adjusted_rand_score(groups, people.segments(2, activity=True).labels) + 0.2


def test_groups_that_differ_in_activity_as_well_are_not_lost() -> None:
    """People and alleles: one population has more variants than the others, so that activity tells it apart."""
    generator = np.random.default_rng(7)
    ancestral = np.clip(generator.beta(0.6, 3.2, 3000), 0.004, 0.9)
    likes = generator.beta(19 * ancestral, 19 * (1 - ancestral), (3, 3000))  # Balding and Nichols, with F = 1/20
    likes[0] = np.minimum(1.25 * likes[0], 1.0)
    groups = np.arange(500) % 3
    table = generator.random((500, 3000)) < likes[groups]
    plan = Plan.of("counting+laplace", Budget(2.0), k=512, seed=bytes(32))
    people = Release(publish_matrix(table, plan, words=Recorded(3)))
    assert adjusted_rand_score(groups, people.segments(3).labels) > _plain_agreement(people, groups, 3) - 0.03


def test_weak_tastes_do_not_displace_groups_of_other_activity() -> None:
    """Rays tell a little more of tastes than other views, and nothing of what sets these groups apart."""
    generator = np.random.default_rng(5)
    likes = np.where(generator.random((3, 1000)) < 0.2, 3.0, 1.0)
    likes *= np.array([[30], [60], [120]]) / likes.sum(axis=1, keepdims=True)
    groups = generator.choice(3, 1500)
    table = generator.random((1500, 1000)) < likes[groups]
    plan = Plan.of("counting+laplace", Budget(2.0), k=512, seed=bytes([5] * 32))
    people = Release(publish_matrix(table, plan, words=Recorded(3)))
    assert adjusted_rand_score(groups, people.segments(3).labels) > _plain_agreement(people, groups, 3) - 0.05


def test_a_cloud_of_tastes_does_not_displace_groups_of_other_activity() -> None:
    """Cuts through a cloud tell more of tastes than groups by activity do, and yet there are no groups in it."""
    generator = np.random.default_rng(3)
    groups = generator.integers(3, size=1200)
    tastes = np.exp(0.7 * generator.standard_normal((1200, 4)) @ generator.standard_normal((4, 400)))
    odds = tastes / tastes.sum(axis=1, keepdims=True) * np.array([[15], [40], [90]])[groups]
    table = generator.random(odds.shape) < np.minimum(odds, 0.95)
    plan = Plan.of("counting+laplace", Budget(3.0), k=64, seed=bytes([3] * 32))
    people = Release(publish_matrix(table, plan, words=Recorded(3)))
    found = people.segments(3)
    assert found.activity
    assert adjusted_rand_score(groups, found.labels) > _plain_agreement(people, groups, 3) - 0.03
    assert adjusted_rand_score(groups, people.segments(3, activity=False).labels) < 0.1  # power: what it must not take


def _one_large_group(generator: np.random.Generator) -> tuple[Any, Any]:
    groups = np.repeat([0, 1, 2], [400, 140, 60])
    likes = np.where(generator.random((3, 200)) < 0.2, 10.0, 1.0)
    return groups, 30 * likes[groups] / likes[groups].sum(axis=1, keepdims=True) * generator.lognormal(
        -0.3, 0.8, (600, 1)
    )


def _one_group_likes_more(generator: np.random.Generator) -> tuple[Any, Any]:
    groups, likes = np.arange(600) % 3, np.full((3, 200), 0.04)
    likes[:2, :60], likes[1, 60:100], likes[2, 100:160] = 0.4, 0.35, 0.35
    return groups, likes[groups] * generator.lognormal(-0.2, 0.6, (600, 1))


@pytest.mark.parametrize("seed", [21, 23])
def test_groups_among_people_of_very_uneven_activity(seed: int) -> None:
    """Agreement was 0.08 to 0.14: cuts by activity were kept, although groups of tastes are far more stable."""
    people = make_population(700, 1200, n_groups=3, mean_weight=70, seed=seed)
    release = Release(publish_matrix(people.table, Plan.of("counting+laplace", Budget(2.0), k=512, seed=bytes(32))))
    found = release.segments(3)
    assert not found.activity
    assert adjusted_rand_score(people.groups, found.labels) > 0.3


@pytest.mark.parametrize("seed", [0, 2])
def test_few_people_of_many_groups_and_very_uneven_activity(seed: int) -> None:
    """Agreement was 0.09 and 0.13: groups of tastes told no more than pieces of a cloud, in which people spread as far.

    They are stable, and pieces of that cloud are not.
    """
    generator, groups = np.random.default_rng(seed), np.arange(300) % 7
    likes = np.where(generator.random((7, 800)) < 0.2, 5.0, 1.0)
    odds = 160 * (likes / likes.sum(axis=1, keepdims=True))[groups] * generator.lognormal(-0.405, 0.9, (300, 1))
    table = generator.random(odds.shape) < np.minimum(odds, 0.95)
    plan = Plan.of("counting+laplace", Budget(4.0), k=128, seed=bytes(32))
    found = Release(publish_matrix(table, plan, words=Recorded(3))).segments(7)
    assert not found.activity
    assert adjusted_rand_score(groups, found.labels) > 0.4


@pytest.mark.parametrize(("made", "seed"), [(_one_large_group, 2), (_one_group_likes_more, 5)])
def test_uneven_activity_hides_no_groups(made: Any, seed: int) -> None:
    generator = np.random.default_rng(seed)
    groups, odds = made(generator)
    table = generator.random(odds.shape) < np.minimum(odds, 0.9)
    plan = Plan.of("counting+laplace", Budget(3.0), k=128, seed=bytes(32))
    people = Release(publish_matrix(table, plan, words=Recorded(3)))
    found = people.segments(3)
    agreement = adjusted_rand_score(groups, found.labels)
    assert agreement > 0.5
    assert agreement > _plain_agreement(people, groups, 3) - 0.03
    assert agreement > adjusted_rand_score(groups, people.segments(3, denoise=False).labels) - 0.1
    assert not found.activity


@pytest.mark.parametrize("denoise", [True, False])
def test_without_activity_groups_are_rays(denoise: bool) -> None:
    """Everybody divided by their activity a, who counts a² times, is as far from c as they are from a·c."""
    generator = np.random.default_rng(6)
    table = generator.random((400, 200)) < np.where(np.arange(400) % 2, 0.3, 0.1)[:, None]
    people = Release(publish_matrix(table, PLAN, words=Recorded(3)))
    points, view = Coordinates.of(PLAN).points(people.values), View.of(people.denoiser, denoise=denoise)
    view, width = replace(view, activity=False), view.n_coordinates
    projected, seen = view.project(points), view(points)
    active, gains = view.active(projected), people.denoiser.gains[:width] if denoise else 1.0
    center = seen.points[0]
    places, ray = (projected + view.average)[:, :width] * gains, center + view.average[:width] * gains
    expected = ((places - active[:, None] * ray) ** 2).sum(axis=1)
    np.testing.assert_allclose(seen.weights * ((seen.points - center) ** 2).sum(axis=1), expected, rtol=1e-3, atol=1e-3)
    assert active.mean() == pytest.approx(1, abs=0.02)
    assert np.corrcoef(active, table.sum(axis=1))[0, 1] > 0.7


def test_tastes_without_groups_are_cut_where_most_is_told() -> None:
    """Everybody's taste is their own, and some are far more active: what sets people apart most is activity."""
    generator = np.random.default_rng(5)
    axes = generator.standard_normal((8, 400))
    tastes = np.exp(0.35 * generator.standard_normal((1200, 8)) @ axes / 2)
    odds = 25 * generator.lognormal(-0.4, 0.9, (1200, 1)) * tastes / tastes.sum(axis=1, keepdims=True)
    table = generator.random(odds.shape) < -np.expm1(-odds)
    plan = Plan.of("counting+laplace", Budget(4.0), k=128, seed=bytes(32))
    people = Release(publish_matrix(table, plan, words=Recorded(3)))
    exact = KMeans(3, n_init=10, random_state=0).fit(table).labels_
    found = people.segments(3)
    assert found.activity
    assert adjusted_rand_score(exact, found.labels) > _plain_agreement(people, exact, 3) - 0.05
    assert adjusted_rand_score(exact, people.segments(3, activity=False).labels) < 0.1


def test_published_points_are_seen_without_activity_where_that_tells_more() -> None:
    """The draw is one whose groups can be told from published points at all, by whichever view."""
    generator = np.random.default_rng(5)
    likes, groups = np.where(generator.random((2, 200)) < 0.5, 0.02, 0.2), np.arange(800) % 2
    for spread in (0.0, 0.8):
        table = generator.random((800, 200)) < np.minimum(generator.lognormal(0, spread, (800, 1)) * likes[groups], 0.9)
        plan = Plan.of("counting+laplace", Budget(4.0), k=64, seed=bytes(32))
        people = Release(publish_matrix(table, plan, words=Recorded(3)))
        found = people.segments(2, denoise=False)
        views = [people.segments(2, denoise=False, activity=activity).labels for activity in (True, False)]
        best = max(adjusted_rand_score(groups, labels) for labels in views)
        assert adjusted_rand_score(groups, found.labels) > max(best - 0.05, 0.5)
    assert not found.activity


def _plain_agreement(people: Release, groups: Any, count: int) -> float:
    """Return how well k-means on the strongest principal components agrees with groups."""
    points = Coordinates.of(people.plan).points(people.values)
    u, s, _ = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    plain = KMeans(count, n_init=10, random_state=0).fit(u[:, :count] * s[:count]).labels_
    return float(adjusted_rand_score(groups, plain))


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
    with pytest.raises(ParameterError, match='count must be "auto" or an integer from 1 to the number of people, 30'):
        release_of("hashing+laplace").segments(count)


def test_a_wrong_activity() -> None:
    with pytest.raises(ParameterError, match="activity must be"):
        release_of("hashing+laplace").segments(2, activity="much")  # type: ignore[arg-type]


def test_one_segment_is_everybody(release: Release) -> None:
    found = release.segments(1)
    assert found.sizes.tolist() == [600]
    assert found.words.startswith("Everybody is in one segment, as asked. Found ")
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
    assert "are no more stable than cuts through a cloud without groups." in found.words


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
