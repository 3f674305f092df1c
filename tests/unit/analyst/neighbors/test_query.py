"""Who is near whom; test_spaces says by what, tests/statistical how well."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.folders import people, release_folder, small_parts, write
from tests.plans import N_USERS, plan_of
from tests.releases import every_mechanism, readable, release_of
from threadpoolctl import threadpool_info

from dimly.analyst import Release, Vector
from dimly.analyst import release as release_module
from dimly.analyst.neighbors.query import smallest
from dimly.analyst.neighbors.spaces import Metric
from dimly.analyst.release import open_release
from dimly.errors import ParameterError, ReleaseError
from dimly.mechanisms import Plan, plan_parts
from dimly.mechanisms.plan_kinds import SketchPlan
from dimly.mechanisms.projection.random_matrix import Projection
from dimly.privacy import Budget
from dimly.release import Sketches, open_folder, parts

__all__ = ["small_parts"]

LIMITS = np.iinfo(np.int16)
METRICS: list[Metric] = ["euclidean", "cosine", "jaccard"]
every_metric = pytest.mark.parametrize("metric", METRICS)
both = pytest.mark.parametrize("denoise", [True, False], ids=["denoised", "published"])


def simple(values: Any, **changes: Any) -> Release:
    rows = np.array(values, np.int16)
    plan = Plan.of("hashing+laplace", Budget(1.0), k=rows.shape[1], seed=bytes(32), **changes)
    return Release(Sketches(plan, 10 * np.arange(len(rows)), rows))


def test_the_nearest_come_first_and_ties_go_to_the_smaller_id() -> None:
    release = simple([[0, 5], [0, 0], [3, 0], [0, 3], [0, 1], [0, 0]])
    found = release.neighbors(10, 5, denoise=False)
    assert found.users.tolist() == [50, 40, 20, 30, 0]
    assert len(found) == 5
    assert (found.metric, found.denoised) == ("euclidean", False)
    np.testing.assert_allclose(found.estimates.value, release.distances([10] * 5, found.users).possible.value)
    assert release.neighbors(10, 3, denoise=False).users.tolist() == [50, 40, 20]
    # Somebody with the same numbers is as near as oneself, whichever id is smaller.
    assert release.neighbors(50, 2, denoise=False).users.tolist() == [10, 40]


@readable
@every_metric
@both
def test_estimates_are_those_of_the_pairs(mechanism: str, metric: Metric, denoise: bool) -> None:
    release = release_of(mechanism)
    ask = {"euclidean": release.distances, "cosine": release.cosine, "jaccard": release.jaccard}[metric]
    for who in (7, release.project({"3", "5"})):
        found = release.neighbors(who, 4, metric=metric, denoise=denoise)
        assert found.users.shape == (4,)
        assert found.denoised == (denoise and release.denoiser.rank > 0)
        wanted: Any = ask(who, found.users).possible
        for part in ("value", "stderr", "low", "high"):
            np.testing.assert_allclose(getattr(found.estimates, part), getattr(wanted, part), rtol=1e-9)
        assert isinstance(who, Vector) or who not in found.users


@every_mechanism
@pytest.mark.parametrize("text", [False, True], ids=["int64", "text"])
def test_on_disk_as_in_memory(mechanism: str, text: bool, small_parts: int, tmp_path: Path) -> None:
    sketches = people(plan_of(mechanism), text=text)
    stored = open_folder(write(tmp_path / "out", sketches))
    one = sketches.users[11] if text else int(sketches.users[11])
    for denoise in (True, False):
        found, wanted = (Release(some).neighbors(one, 20, denoise=denoise) for some in (stored, sketches))
        assert found.users.tolist() == wanted.users.tolist()
        np.testing.assert_array_equal(found.estimates.value, wanted.estimates.value)
    assert not {"users", "values"} & set(vars(stored))  # read in parts, and not kept


def test_noisy_distances_rank_by_what_is_published() -> None:
    release = release_of("noisy-distances")
    found = release.neighbors(3, 29)
    assert not found.denoised
    assert sorted([*found.users, 3]) == list(range(30))
    assert (np.diff(found.estimates.value) >= 0).all()
    assert found.users.tolist() == release.neighbors(3, 29, denoise=False).users.tolist()


@pytest.mark.parametrize("limit", [LIMITS.min, LIMITS.max])
@every_metric
def test_people_with_saturated_numbers_come_last(limit: int, metric: Metric) -> None:
    release = simple([[limit, 0], [0, 9], [0, 1], [limit, 9], [0, 0], [7, limit]])
    found = release.neighbors(40, 5, metric=metric, denoise=False)
    assert sorted(found.users[:2]) == [10, 20]
    assert found.users[2:].tolist() == [0, 30, 50]
    assert np.isnan(found.estimates.value[2:]).all()
    # Of one of them nothing is known: nobody is nearer than others.
    found = release.neighbors(30, 4, metric=metric, denoise=False)
    assert found.users.tolist() == [0, 10, 20, 40]
    assert np.isnan(found.estimates.value).all()


def test_saturated_distances_come_last() -> None:
    plan = Plan.of("noisy-distances", Budget(1.0, 1e-6), n_users=4, n_attributes=50)
    release = Release(Sketches(plan, np.arange(4), np.array([LIMITS.max, 9, -3, 4, 4, LIMITS.min], np.int16)))
    assert release.neighbors(0, 3).users.tolist() == [3, 2, 1]
    assert release.neighbors(1, 3).users.tolist() == [2, 3, 0]
    assert release.neighbors(3, 3).users.tolist() == [0, 1, 2]


def test_progress_is_told(small_parts: int, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    release = Release(open_folder(write(tmp_path / "out", people(plan_of("counting+laplace")))))
    release.neighbors(1, 2, progress=lambda done, total: told.append((done, total)))
    assert told == [(8, 30), (16, 30), (24, 30), (30, 30)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"who": 77}, "users must be in this release, but 77 is not"),
        ({"who": "07"}, "users must be integers, as in this release"),
        ({"who": [1, 2]}, r"neighbors must be of one user or vector, got 2. Use neighbor_graph for all."),
        ({"n": 0}, r"n must be an integer of at least 1, got 0."),
        ({"n": True}, r"n must be an integer of at least 1, got True."),
        ({"n": 2.0}, r"n must be an integer of at least 1, got 2.0."),
        ({"n": 30}, r"n must be at most the 29 other people of this release, got 30."),
        ({"metric": "manhattan"}, r"metric must be 'euclidean', 'cosine' or 'jaccard', got 'manhattan'."),
    ],
)
def test_bad_calls_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        release_of("counting+laplace").neighbors(**({"who": 1} | arguments))


def test_an_id_that_is_written_as_text_is_the_same_person() -> None:
    release = release_of("counting+laplace")
    assert release.neighbors("7", 3).users.tolist() == release.neighbors(7, 3).users.tolist()


def test_a_vector_has_one_neighbor_more_than_a_person() -> None:
    release = release_of("counting+laplace")
    assert len(release.neighbors(release.project({"3"}), 30)) == 30
    with pytest.raises(ParameterError, match="n must be at most the 30 other people"):
        release.neighbors(release.project({"3"}), 31)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "jaccard"])
def test_the_only_person_is_the_nearest_of_a_vector(metric: Any) -> None:
    whole = release_of("counting+laplace")
    release = Release(Sketches(whole.plan, whole.users[:1], whole.values[:1]))
    found = release.neighbors(release.project({"3"}), 1, metric=metric)
    assert (found.users.tolist(), found.denoised) == (whole.users[:1].tolist(), False)


def test_what_a_release_cannot_tell_is_refused() -> None:
    with pytest.raises(ParameterError, match="Jaccard similarity is about bits"):
        release_of("counting+laplace", 4).neighbors(1, metric="jaccard")
    with pytest.raises(ParameterError, match="noisy distances say nothing about inner products"):
        release_of("noisy-distances").neighbors(1, metric="cosine")
    release = release_of("noisy-distances")
    vector = Vector(np.zeros(N_USERS, np.int64), {}, release.plan)
    with pytest.raises(ParameterError, match="noisy distances hold pairs of published people only"):
        release.neighbors(vector)


def test_a_part_that_is_gone_is_refused(small_parts: int, tmp_path: Path) -> None:
    stored = open_folder(write(tmp_path / "out", people(plan_of("counting+laplace"))))
    release = Release(stored)
    part = stored.path / "sketches" / "part-000002.parquet"
    content = part.read_bytes()
    part.write_bytes(content[: len(content) // 2])
    with pytest.raises(ReleaseError, match=r"part-000002.parquet must hold .* bytes, got"):
        release.neighbors(1, denoise=False)
    part.unlink()
    with pytest.raises(ReleaseError, match=r"part-000002.parquet must be a file of the release, but it is missing"):
        release.neighbors(1, denoise=False)


def test_the_smallest_are_in_order_and_ties_as_they_come() -> None:
    keys = np.array([3.0, np.inf, 1.0, 3.0, 1.0, -np.inf, np.inf])
    wanted = [5, 2, 4, 0, 3, 1, 6]
    for n in range(1, 9):
        assert smallest(keys, n).tolist() == wanted[:n]


def test_matrix_products_get_their_threads_back() -> None:
    def limits() -> list[int]:
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = limits()
    during: list[int] = []
    release_of("counting+laplace").neighbors(1, 3, progress=lambda *_: during.extend(limits()))
    assert set(during) == {1}
    assert limits() == before


@pytest.mark.parametrize("mechanism", ["counting+laplace", "gaussian+gaussian"])
@both
def test_a_first_question_reads_each_file_once(
    mechanism: str, denoise: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = release_folder(tmp_path / "out", mechanism)  # of one part; gaussian with attributes.parquet and P
    calls: list[tuple[str, Any]] = []

    def count(owner: Any, name: str, what: Callable[..., Any] = lambda *_, **__: None) -> None:
        whole = getattr(owner, name)

        def counted(*arguments: Any, **keywords: Any) -> Any:
            calls.append((name, what(*arguments, **keywords)))
            return whole(*arguments, **keywords)

        monkeypatch.setattr(owner, name, counted)

    count(pa, "OSFile", lambda path: Path(path).name)
    count(parts, "open_parquet", lambda _, path: Path(path).name)
    count(hashlib, "file_digest")
    count(parts, "values_of", lambda table, *_, **__: table.num_rows)
    count(Projection, "__post_init__")
    count(SketchPlan, "_prove")
    count(release_module, "reader_of")
    plan_parts._projection.cache_clear()  # which publishing has filled
    release = open_release(path)
    for _ in range(2):
        assert len(release.neighbors(int(release.users[3]), 4, denoise=denoise)) == 4
    files = [Path(record.path).name for record in release._sketches.manifest.files]  # type: ignore[union-attr]
    opened = [(name, file) for name in ("OSFile", "open_parquet") for file in files]
    digests = [("file_digest", None)] * min(2, len(files))  # of the part, and of the list of attributes
    built = [("__post_init__", None), ("_prove", None), ("reader_of", None), ("values_of", 30)]
    assert sorted(calls, key=str) == sorted([*opened, *digests, *built], key=str)
