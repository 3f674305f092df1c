from pathlib import Path

import numpy as np
import pytest
from tests.plans import N_ATTRIBUTES, K, plan_of
from tests.releases import READABLE, release_of

from dimly.analyst.release import open_release
from dimly.analyst.structure import coordinates as people
from dimly.analyst.structure.coordinates import Coordinates
from dimly.api import publish
from dimly.release import parts
from dimly.release.sketches import Sketches


def numbered(n: int) -> Sketches:
    """People who are known by their first coordinate."""
    values = np.zeros((n, K), np.int16)
    values[:, 0] = np.arange(n)
    return Sketches(plan_of("hashing+laplace"), np.arange(n), values)


def test_blocks_hold_everybody_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "_BLOCK", 7 * K)
    monkeypatch.setattr(people, "_PART", 20)
    found = list(people.blocks(numbered(50)))
    assert [block.start for block in found] == [0, 7, 14, 20, 27, 34, 40, 47]
    np.testing.assert_array_equal(np.concatenate([block.points[:, 0] for block in found]), np.arange(50))


def test_a_few_parts_are_spread_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "_PART", 10)
    assert [block.start for block in people.blocks(numbered(95), most=30)] == [0, 30, 60]


def test_samples_are_spread_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "_PART", 32)
    monkeypatch.setattr(people, "_BLOCK", 64)
    convert = people.coordinates_of(plan_of("hashing+laplace"))
    np.testing.assert_array_equal(people.sample(numbered(100), 10, convert)[:, 0], np.arange(0, 100, 10))
    assert len(people.sample(numbered(100), 1000, convert)) == 100


def test_whoever_is_saturated_is_not_known() -> None:
    values = np.zeros((4, K), np.int16)
    values[1, 3], values[2, 0] = np.iinfo(np.int16).max, np.iinfo(np.int16).min
    np.testing.assert_array_equal(people.known(values), [True, False, False, True])
    assert people.known(np.full((2, 5), 255, np.uint8)).all()
    sketches = Sketches(plan_of("hashing+laplace"), np.arange(4), values)
    assert len(people.sample(sketches, 10, people.coordinates_of(sketches.plan))) == 2


@pytest.mark.parametrize("mechanism", READABLE)
def test_coordinates_are_placed_where_the_points_are(mechanism: str) -> None:
    release = release_of(mechanism)
    coordinates = people.coordinates_of(release.plan)(release.values)
    points = Coordinates.of(release.plan).points(release.values)
    np.testing.assert_allclose(people.placed(coordinates, release.plan), points, rtol=1e-5, atol=1e-5)


def test_many_coordinates_are_added_up() -> None:
    release = release_of("randomized-response")
    folded = people.coordinates_of(release.plan, widest=40)(release.values)
    whole = people.coordinates_of(release.plan)(release.values)
    assert folded.shape == (len(release), 40)
    # Each coordinate goes to one place, at some sign: squares add up but for products, which go both ways.
    assert whole.shape == (len(release), N_ATTRIBUTES)
    assert 0.8 < (folded**2).sum() / (whole**2).sum() < 1.2
    assert people.coordinates_of(release.plan, widest=N_ATTRIBUTES)(release.values).shape == whole.shape


@pytest.mark.filterwarnings("ignore::dimly.errors.PrivacyWarning")
def test_a_folder_is_read_alike_and_its_ids_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(0).random((30, 40)) < 0.5
    plan = plan_of("counting+laplace")
    made = publish(table, plan, out=tmp_path / "release")
    stored = open_release(tmp_path / "release")
    first, second = (np.concatenate([block.points for block in people.blocks(one._sketches)]) for one in (made, stored))
    np.testing.assert_array_equal(first, second)
    monkeypatch.setattr(parts, "users_of", lambda _: pytest.fail("nobody asked for ids"))
    assert len(people.sample(stored._sketches, 30, people.coordinates_of(plan))) == 30
