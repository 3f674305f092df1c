"""The nearest of everybody, which are those of each."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.folders import people, small_parts, write
from tests.plans import plan_of
from tests.releases import every_mechanism, readable, release_of

from dimly.analyst import Release
from dimly.analyst.neighbors import graph as neighbor_graph
from dimly.analyst.neighbors.graph import Engine
from dimly.analyst.neighbors.spaces import Metric
from dimly.errors import ParameterError
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.release import Sketches, open_folder

__all__ = ["small_parts"]

LIMITS = np.iinfo(np.int16)
METRICS: list[Metric] = ["euclidean", "cosine", "jaccard"]
both = pytest.mark.parametrize("denoise", [True, False], ids=["denoised", "published"])


def _large(n: int = 700, k: int = 24, *, mechanism: str = "counting+laplace", lost: int = 0) -> Release:
    generator = np.random.default_rng(2)
    plan = Plan.of(mechanism, Budget(1.0, 1e-6), k=k, seed=bytes(32))
    kinds = generator.poisson(6, (5, k))
    values = (kinds[generator.integers(0, 5, n)] + generator.integers(-3, 4, (n, k))).astype(np.int16)
    values[generator.choice(n, lost, replace=False), 3] = LIMITS.max
    return Release(Sketches(plan, 3 * np.arange(n), values))


def _same_as_one_by_one(release: Release, n: int, users: Any, metric: Metric, *, denoise: bool) -> None:
    graph = release.neighbor_graph(n, metric=metric, denoise=denoise)
    assert graph.users.shape == graph.estimates.value.shape == (len(release), n)
    for user in users:
        row = int(np.flatnonzero(release.users == user)[0])
        one = release.neighbors(user, n, metric=metric, denoise=denoise)
        assert one.denoised == graph.denoised
        assert one.users.tolist() == graph.users[row].tolist()
        for part in ("value", "stderr", "low", "high"):
            np.testing.assert_allclose(getattr(graph.estimates, part)[row], getattr(one.estimates, part), rtol=1e-9)


@readable
@both
def test_it_holds_the_neighbors_of_each(mechanism: str, denoise: bool) -> None:
    release = release_of(mechanism)
    for metric in METRICS:
        _same_as_one_by_one(release, 6, [0, 7, 29], metric, denoise=denoise)


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+gaussian"])
@pytest.mark.parametrize("metric", METRICS)
@both
@pytest.mark.thorough(but=3)
def test_in_tiles_too(mechanism: str, metric: Metric, denoise: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    release = _large(mechanism=mechanism)
    for tile in (64, 90, 1024):
        monkeypatch.setattr(neighbor_graph, "_TILE", tile)
        monkeypatch.setattr(neighbor_graph, "_PAIRS", 1000)
        _same_as_one_by_one(release, 10, range(0, 2100, 111), metric, denoise=denoise)


def test_noisy_distances_have_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbor_graph, "_PAIRS", 100)
    _same_as_one_by_one(release_of("noisy-distances"), 5, range(30), "euclidean", denoise=True)


@every_mechanism
def test_on_disk_as_in_memory(mechanism: str, small_parts: int, tmp_path: Path) -> None:
    sketches = people(plan_of(mechanism), text=True)
    stored = open_folder(write(tmp_path / "out", sketches))
    found, wanted = (Release(some).neighbor_graph(4, denoise=False) for some in (stored, sketches))
    assert found.users.tolist() == wanted.users.tolist()
    np.testing.assert_array_equal(found.estimates.value, wanted.estimates.value)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_ties_go_to_the_smaller_id_however_many_there_are(n: int) -> None:
    plan = Plan.of("hashing+laplace", Budget(1.0), k=4, seed=bytes(32))
    release = Release(Sketches(plan, np.arange(300), np.zeros((300, 4), np.int16)))
    wanted = [[j for j in range(n + 1) if j != i][:n] for i in range(300)]
    assert release.neighbor_graph(n, denoise=False).users.tolist() == wanted


@pytest.mark.parametrize("lost", [1, 40, 699, 700])
@pytest.mark.thorough(but=2)
def test_people_with_saturated_numbers_come_last(lost: int) -> None:
    release = _large(lost=lost)
    saturated = release.users[(release.values == LIMITS.max).any(axis=1)]
    n = 699
    graph = release.neighbor_graph(n, denoise=False)
    for row in range(0, 700, 69):
        user = release.users[row]
        assert graph.users[row].tolist() == release.neighbors(int(user), n, denoise=False).users.tolist()
        others = saturated[saturated != user]
        assert user in saturated or graph.users[row, n - len(others) :].tolist() == others.tolist()
        assert np.isnan(graph.estimates.value[row]).sum() == (n if user in saturated else len(others))
    few = release.neighbor_graph(2, denoise=False)
    np.testing.assert_array_equal(few.users, graph.users[:, :2])


@pytest.mark.parametrize("engine", ["tiles", "faiss"])
def test_other_names_of_the_engine_give_the_same_answer(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    release = _large(lost=3)
    found, wanted = release.neighbor_graph(10, engine=engine), release.neighbor_graph(10)
    np.testing.assert_array_equal(found.users, wanted.users)
    np.testing.assert_array_equal(found.estimates.value, wanted.estimates.value)


def test_progress_is_told_to_the_end() -> None:
    for release in (_large(), release_of("noisy-distances")):
        told: list[tuple[int, int]] = []
        release.neighbor_graph(3, denoise=False, progress=lambda *done: told.append(done))  # noqa: B023  (called at once)
        assert told == sorted(told)
        assert told[-1] == (len(release), len(release))


@pytest.mark.parametrize(
    ("mechanism", "arguments", "text"),
    [
        ("counting+laplace", {"n": 30}, r"n must be at most the 29 other people of this release, got 30."),
        ("counting+laplace", {"n": -1}, r"n must be an integer of at least 1, got -1."),
        ("counting+laplace", {"metric": "l1"}, r"metric must be 'euclidean', 'cosine' or 'jaccard', got 'l1'."),
        ("counting+laplace", {"engine": "annoy"}, r"engine must be 'auto', 'tiles' or 'faiss', got 'annoy'."),
        ("noisy-distances", {"metric": "jaccard"}, "noisy distances say nothing about inner products"),
    ],
)
def test_bad_calls_are_refused(mechanism: str, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        release_of(mechanism).neighbor_graph(**arguments)
