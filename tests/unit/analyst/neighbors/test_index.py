"""An index finds most of what the scan of everybody finds, and says how much."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.matrices import publish_matrix
from tests.releases import release_of
from tests.streams import Recorded

import dimly
from dimly.analyst import Release, disk_cache
from dimly.analyst.neighbors.index import _mean_and_error, _Nearest
from dimly.analyst.neighbors.spaces import Space
from dimly.errors import ParameterError, ReleaseError
from dimly.lab.population import make_population
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release import Sketches
from dimly.release.reader import StoredSketches

N = 3000
PEOPLE = make_population(N, 300, n_groups=12, mean_weight=40, seed=2).table
ASKED = range(0, N, 30)


@pytest.fixture(scope="module")
def releases() -> dict[str, Release]:
    plans = {
        "counting+laplace": Plan.of("counting+laplace", Budget(8.0), k=32, seed=bytes(32)),
        "randomized-response": Plan.of("randomized-response", Budget(3.0), vocabulary=[str(i) for i in range(300)]),
    }
    return {name: Release(publish_matrix(PEOPLE, plan, words=Recorded(1))) for name, plan in plans.items()}


@pytest.mark.parametrize("mechanism", ["counting+laplace", "randomized-response"])
@pytest.mark.parametrize("denoise", [True, False])
@pytest.mark.thorough(but=2)
def test_recall_is_as_stated(releases: dict[str, Release], mechanism: str, denoise: bool) -> None:
    release = releases[mechanism]
    index = release.index(recall=0.9, denoise=denoise)
    found = [index.neighbors(user) for user in ASKED]
    exact = [release.neighbors(user, denoise=denoise) for user in ASKED]
    shared = [len(np.intersect1d(a.users, b.users)) / 10 for a, b in zip(found, exact, strict=True)]
    # Two averages, of the recall of 256 and of 100 people: their difference exceeds five of its standard deviations in
    # fewer than one of a million cases. An index that finds an eighth less than it says would not pass.
    error = np.std(shared, ddof=1) / len(shared) ** 0.5
    most = 5 * (error**2 + index.recall_stderr**2) ** 0.5
    assert most < 0.12
    assert abs(np.mean(shared) - index.recall) < most
    assert 0 < index.recall_stderr < 0.02
    assert 0 < index.looked_at < 1
    for a, b in zip(found, exact, strict=True):
        assert (a.recall, a.recall_stderr) == (index.recall, index.recall_stderr)
        assert (a.metric, a.denoised) == (b.metric, b.denoised)
        both, in_a, in_b = np.intersect1d(a.users, b.users, return_indices=True)
        assert len(both) == len(in_a)
        for part in ("value", "stderr", "low", "high"):
            np.testing.assert_array_equal(getattr(a.estimates, part)[in_a], getattr(b.estimates, part)[in_b])
        # In the same order, but for keys that differ in their last digits.
        if len(both) == 10 and not denoise:
            np.testing.assert_array_equal(a.users, b.users)


def test_who_looks_at_fewer_cells_finds_less(releases: dict[str, Release]) -> None:
    release = releases["counting+laplace"]
    few, many = release.index(recall=0.3), release.index(recall=0.99)
    assert few.looked_at < many.looked_at
    assert few.recall < many.recall
    assert f"recall {few.recall:.2f}" in repr(few)
    exact = [set(release.neighbors(user).users.tolist()) for user in ASKED]
    told = [
        np.mean([len(one & set(index.neighbors(user).users.tolist())) for user, one in zip(ASKED, exact, strict=True)])
        for index in (few, many)
    ]
    assert told[0] < told[1]


def test_found_people_are_read_once(
    releases: dict[str, Release], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = dimly.open_release(releases["counting+laplace"].save(tmp_path / "release"))
    index, taken, take = release.index(), [], StoredSketches.take

    def watched(self: StoredSketches, positions: NDArray[np.int64]) -> NDArray[Any]:
        taken.append(len(positions))
        return take(self, positions)

    monkeypatch.setattr(StoredSketches, "take", watched)
    index.neighbors(5, 7)
    assert taken == [1, 7]


def test_where_there_is_a_cache_found_people_are_read_without_those_around_them(
    releases: dict[str, Release], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path / "cache"))
    path = releases["counting+laplace"].save(tmp_path / "release")
    expected = releases["counting+laplace"].index().neighbors(5)
    for _ in range(2):  # made, and kept
        index = dimly.open_release(path).index()
        with monkeypatch.context() as patch:
            patch.setattr(StoredSketches, "take", None)
            found = index.neighbors(5)
        np.testing.assert_array_equal(found.users, expected.users)
        np.testing.assert_array_equal(found.estimates.value, expected.estimates.value)
    (file,) = (tmp_path / "cache").glob("values-*.npy")
    np.save(file, np.load(file)[::-1])  # damaged: read from the release
    np.testing.assert_array_equal(dimly.open_release(path).index().neighbors(5).users, expected.users)


def test_the_nearest_of_those_asked_are_found_while_everybody_is_read() -> None:
    class OnALine:
        def tile(self, one: NDArray[np.int64], many: NDArray[np.int64]) -> NDArray[np.float32]:
            keys: NDArray[np.float32] = np.abs(one[:, None] - many).astype(np.float32)
            return keys

    people = np.random.default_rng(3).integers(0, 40, 500)  # many are equally near: the first in the release counts
    own = np.array([7, 120, 499])
    nearest = _Nearest(cast("Space", OnALine()), people[own], own)
    for start in (0, 6, 300):  # fewer than are listed, then many, then many more
        stop = {0: 6, 6: 300, 300: 500}[start]
        nearest.offer(np.arange(start, stop), people[start:stop])
    for i, place in enumerate(own):
        keys = np.abs(people - people[place]).astype(np.float64)
        keys[place] = np.inf
        np.testing.assert_array_equal(nearest.positions[i], np.argsort(keys, kind="stable")[:10])


def test_the_error_of_a_recall_is_never_zero() -> None:
    recall, error = _mean_and_error(np.ones(256))
    assert recall == 1
    assert 1 / 300 < error < 1 / 200  # of 256 people, one of whom nobody is found may be missing
    assert _mean_and_error(np.ones(0)) == (1, 0)


def test_the_same_release_gives_the_same_index(releases: dict[str, Release]) -> None:
    first, second = (Release(releases["counting+laplace"]._sketches).index() for _ in range(2))
    assert (first.recall, first.looked_at) == (second.recall, second.looked_at)
    for user in ASKED[:10]:
        np.testing.assert_array_equal(first.neighbors(user).users, second.neighbors(user).users)


def test_answers_say_that_they_are_approximate(releases: dict[str, Release]) -> None:
    index = releases["counting+laplace"].index()
    found = f"{100 * index.recall:.0f} % (± {196 * index.recall_stderr:.0f} %)"
    assert index.neighbors(3).words.endswith(
        f"Approximate: on average, the index finds {found} of the nearest people of an exact search."
    )
    assert "Approximate" not in releases["counting+laplace"].neighbors(3).words


def test_saturated_people_are_as_in_the_exact_search() -> None:
    rows = np.random.default_rng(0).integers(-50, 50, (500, 8)).astype(np.int16)
    rows[7] = np.iinfo(np.int16).max
    release = Release(Sketches(Plan.of("hashing+laplace", Budget(1.0), k=8, seed=bytes(32)), np.arange(500), rows))
    index = release.index(denoise=False)
    assert 7 not in index.neighbors(3, 150).users
    exact = release.neighbors(7, denoise=False)
    np.testing.assert_array_equal(index.neighbors(7).users, exact.users)
    assert index.neighbors(7).recall is None  # everybody was looked at
    np.testing.assert_array_equal(index.neighbors(3, 499).users, release.neighbors(3, 499, denoise=False).users)


def test_what_is_refused(releases: dict[str, Release]) -> None:
    release = releases["counting+laplace"]
    for recall in (0, 1, True, "0.9"):
        with pytest.raises(ParameterError, match=r"recall must be in \(0, 1\), got"):
            release.index(recall=recall)  # type: ignore[arg-type]
    index = release.index()
    with pytest.raises(ParameterError, match=r"release\.neighbors for a vector"):
        index.neighbors(release.project({"1"}))
    with pytest.raises(ParameterError, match="must be of one user, got 2"):
        index.neighbors([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="n must be an integer"):
        index.neighbors(1, 0)
    with pytest.raises(ParameterError, match="noisy distances give none"):
        release_of("noisy-distances").index()
    plan = Plan.of("hashing+laplace", Budget(1.0), k=2, seed=bytes(32))
    with pytest.raises(ParameterError, match="two people at least, got 1"):
        Release(Sketches(plan, np.arange(1), np.zeros((1, 2), np.int16))).index()
    lost = np.full((3, 2), np.iinfo(np.int16).max, np.int16)
    with pytest.raises(ParameterError, match="without saturated numbers"):
        Release(Sketches(plan, np.arange(3), lost)).index(denoise=False)


def test_an_index_is_kept_and_a_wrong_one_is_found_out(
    releases: dict[str, Release], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path / "cache"))
    path = releases["counting+laplace"].save(tmp_path / "release")
    first = dimly.open_release(path).index()
    expected = first.neighbors(5)
    files = {one.suffix: one for one in (tmp_path / "cache").glob("index-*")}
    assert set(files) == {".npz", ".npy"}
    with monkeypatch.context() as patch:
        patch.setattr("dimly.analyst.neighbors.index._cells", None)  # nothing is made again
        again = dimly.open_release(path).index()
        assert (again.recall, again.recall_stderr) == (first.recall, first.recall_stderr)
        np.testing.assert_array_equal(again.neighbors(5).users, expected.users)
        np.testing.assert_array_equal(again.neighbors(5).estimates.low, expected.estimates.low)
    rows = np.load(files[".npy"])
    np.save(files[".npy"], rows[::-1])
    with pytest.raises(ReleaseError, match="not of this release"):
        dimly.open_release(path).index().neighbors(5)
    assert not any(one.exists() for one in files.values())
    for spoiled in (rows[:-1], rows.astype(np.float64)):  # of another shape or type: made anew
        dimly.open_release(path).index()
        np.save(files[".npy"], spoiled)
        np.testing.assert_array_equal(dimly.open_release(path).index().neighbors(5).users, expected.users)
    files[".npy"].write_bytes(b"")  # as a power cut leaves it
    np.testing.assert_array_equal(dimly.open_release(path).index().neighbors(5).users, expected.users)
    files[".npy"].unlink()
    np.testing.assert_array_equal(dimly.open_release(path).index().neighbors(5).users, expected.users)


@pytest.mark.parametrize("denoise", [True, False])
def test_people_who_are_published_alike_have_an_index_without_a_word_from_other_libraries(denoise: bool) -> None:
    plan = Plan.of("randomized-response", Budget(20.0), vocabulary=["0", "1", "2"])
    people = np.zeros((40, 3), np.int64)
    people[:5] = 1
    release = Release(publish_matrix(people, plan, words=Recorded(1)))
    index = release.index(denoise=denoise)  # scikit-learn would warn that there are fewer points than cells
    found, exact = index.neighbors(0, 4), release.neighbors(0, 4, denoise=denoise)
    assert sorted(found.users.tolist()) == sorted(exact.users.tolist())
