"""Some people of a stored release, read from their row groups alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.folders import people, release_folder, small_parts, write
from tests.matrices import publish_matrix
from tests.plans import plan_of
from tests.releases import PEOPLE

from dimly.analyst import Release
from dimly.errors import ReleaseError
from dimly.release import Sketches, StoredSketches, open_folder, parts
from dimly.release import reader as groups
from dimly.release.format import text_ids

__all__ = ["small_parts"]

LAYOUTS = ["counting+laplace", "randomized-response", "noisy-distances"]
layouts = pytest.mark.parametrize("mechanism", LAYOUTS)
both_ids = pytest.mark.parametrize("text", [False, True], ids=["int64", "text"])


def _both(mechanism: str, folder: Path, *, text: bool = False) -> tuple[Sketches, StoredSketches]:
    sketches = people(plan_of(mechanism), text=text)
    return sketches, open_folder(write(folder, sketches))


@layouts
@both_ids
def test_people_are_found_and_named(mechanism: str, text: bool, small_parts: int, tmp_path: Path) -> None:
    for sketches in _both(mechanism, tmp_path / "out", text=text):
        assert sketches.textual == text
        order = np.random.default_rng(0).permutation(30)
        ids = people(plan_of(mechanism), text=text).users[order]
        np.testing.assert_array_equal(sketches.locate(ids), order)
        np.testing.assert_array_equal(sketches.named(order), ids)
        strangers = text_ids(["", "zz", "user 5x", "\U0010ffff"]) if text else np.arange(0, 90, 7)
        wanted = [0, -1, -1, -1] if text else np.full(len(strangers), -1)
        np.testing.assert_array_equal(sketches.locate(strangers), wanted)
        assert len(sketches.locate(ids[:0])) == len(sketches.named(order[:0])) == 0
        assert "users" not in vars(sketches) if isinstance(sketches, StoredSketches) else True


@pytest.mark.parametrize("mechanism", LAYOUTS[:2])
def test_long_rows_are_read_one_by_one_and_not_kept(
    mechanism: str, small_parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_KEPT_BYTES", 1)
    monkeypatch.setattr(groups, "_SMALL", 1)
    sketches, stored = _both(mechanism, tmp_path / "out")
    monkeypatch.setattr(groups, "for_all", lambda *_: 1 / 0)  # which would read several at a time
    chosen = np.array([29, 0, 0, 13, 1])
    np.testing.assert_array_equal(stored.take(chosen), sketches.values[chosen])
    assert not stored._groups._kept


@pytest.mark.parametrize("mechanism", LAYOUTS[:2])
def test_rows_are_taken_in_any_order(mechanism: str, small_parts: int, tmp_path: Path) -> None:
    sketches, stored = _both(mechanism, tmp_path / "out")
    for positions in ([29, 0, 0, 13], list(range(30)), []):
        chosen = np.array(positions, np.int64)
        for found in (stored.take(chosen), sketches.take(chosen)):
            np.testing.assert_array_equal(found, sketches.values[chosen])
            assert found.dtype == sketches.values.dtype
    assert "values" not in vars(stored)
    np.testing.assert_array_equal(stored.values[[4, 2]], stored.take(np.array([4, 2])))  # now from memory


def test_noisy_distances_of_pairs_are_looked_up(small_parts: int, tmp_path: Path) -> None:
    sketches, stored = _both("noisy-distances", tmp_path / "out")
    rows, columns = (grid.reshape(-1) for grid in np.meshgrid(np.arange(30), np.arange(30)))
    wanted = np.zeros((30, 30), sketches.values.dtype)
    wanted[np.triu_indices(30, 1)] = sketches.values
    wanted = (wanted + wanted.T).reshape(-1)
    for some in (sketches, stored):
        np.testing.assert_array_equal(some.pairs(columns, rows), wanted)
        assert len(some.pairs(rows[:0], rows[:0])) == 0


@layouts
def test_parts_in_memory_are_those_of_a_folder(mechanism: str, small_parts: int, tmp_path: Path) -> None:
    sketches, stored = _both(mechanism, tmp_path / "out")
    assert sketches.n_parts == stored.n_parts == 4
    assert sketches.users_per_part == stored.users_per_part == small_parts
    for index, ((ids, values), (users, others)) in enumerate(zip(sketches.parts(), stored.parts(), strict=True)):
        np.testing.assert_array_equal(ids, users)
        for found in (others, stored.read_values(index), sketches.read_values(index)):
            np.testing.assert_array_equal(values, found)


@layouts
def test_two_people_cost_two_row_groups(
    mechanism: str, small_parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, stored = _both(mechanism, tmp_path / "out")
    read: list[tuple[int, Any]] = []
    whole = pq.ParquetFile.read_row_group

    def count(file: Any, group: int, columns: Any, **keywords: Any) -> Any:
        read.append((group, *columns))
        return whole(file, group, columns=columns, **keywords)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", count)
    monkeypatch.setattr(pq.ParquetFile, "read", None)
    release = Release(stored)
    first = release.distance(-13, 71)  # positions 1 and 13: row groups of one person
    sketches = 1 if mechanism == "noisy-distances" else 2
    assert sorted(read) == sorted([(1, "user"), (5, "user"), (1, "sketch"), (5, "sketch")][: 2 + sketches])
    assert release.distance(-13, 71) == first
    assert 71 in release
    assert len(read) == 2 + sketches  # those groups are kept
    assert 72 not in release


def test_only_the_latest_groups_are_kept(small_parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sketches, stored = _both("counting+laplace", tmp_path / "out")
    monkeypatch.setattr(groups, "_KEPT_BYTES", 3 * sketches.values[0].nbytes)
    for position in (0, 1, 2, 0, 9):
        stored.take(np.array([position]))
    assert list(stored._groups._kept) == [("sketch", 2), ("sketch", 0), ("sketch", 9)]
    stored.take(np.arange(30))  # everybody: would push out all that is kept, and gain nothing
    assert set(stored._groups._kept) == {("sketch", 2), ("sketch", 0), ("sketch", 9)}
    assert stored._groups._n_kept == 3 * sketches.values[0].nbytes
    stored.read_values(1)  # a whole part of a small release is kept beside, and its groups are let go
    assert set(stored._groups._kept) == {("sketch", 2), ("sketch", 0)}
    assert stored._groups._n_kept == 2 * sketches.values[0].nbytes


def test_ids_too_long_for_a_footer_are_found(small_parts: int, tmp_path: Path) -> None:
    ids = [letter * 5000 for letter in "abcdefghijkl"]
    sketches = publish_matrix(PEOPLE[:12], plan_of("counting+laplace"), users=ids)
    stored = open_folder(write(tmp_path / "out", sketches))
    assert Release(stored).distance(ids[3], ids[9]) == Release(sketches).distance(ids[3], ids[9])


@pytest.mark.parametrize("ask", ["locate", "named", "take"])
def test_a_file_that_changed_is_refused(ask: str, small_parts: int, tmp_path: Path) -> None:
    _, stored = _both("counting+laplace", tmp_path / "out")
    path = stored.path / "sketches" / "part-000001.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ReleaseError, match=r"part-000001.parquet must hold .* bytes"):
        getattr(stored, ask)(np.array([9]))
    path.unlink()
    with pytest.raises(ReleaseError, match=r"part-000001.parquet must be a file of the release, but it is missing"):
        getattr(stored, ask)(np.array([9]))


def test_users_that_are_not_those_of_the_footer_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = release_folder(tmp_path / "out")
    users = parts.users_of
    monkeypatch.setattr(parts, "users_of", lambda table: users(table) + 1)
    with pytest.raises(ReleaseError, match="must hold the users that its footer says, but it does not"):
        open_folder(path).locate(np.array([1]))
    monkeypatch.setattr(parts, "users_of", lambda table: users(table)[::-1])
    with pytest.raises(
        ReleaseError, match="sketches must hold users in ascending order, without repeats, but it does not"
    ):
        open_folder(path).locate(np.array([1]))


def test_parts_out_of_order_are_refused(small_parts: int, tmp_path: Path) -> None:
    path = release_folder(tmp_path / "out")
    manifest = open_folder(path).manifest
    first, second, *rest = manifest.files
    sizes = {"bytes": second.bytes}, {"bytes": first.bytes}
    (path / first.path).rename(path / "aside")
    (path / second.path).rename(path / first.path)
    (path / "aside").rename(path / second.path)
    files = (first.model_copy(update=sizes[0]), second.model_copy(update=sizes[1]), *rest)
    stored = StoredSketches(path, manifest.model_copy(update={"files": files}))
    with pytest.raises(
        ReleaseError, match="sketches must hold users in ascending order, without repeats, but it does not"
    ):
        stored.locate(np.array([1]))


@given(
    st.lists(st.text(max_size=30), unique=True, min_size=1), st.text(max_size=30), st.sampled_from(["left", "right"])
)
def test_text_is_searched_as_numbers_are(names: list[str], one: str, side: Any) -> None:
    found = np.searchsorted(text_ids(sorted(names)), text_ids([one]), side=side)
    below = sum(name < one or (side == "right" and name == one) for name in names)
    assert found.tolist() == [below]


def test_work_is_done_in_order_and_stops_at_an_error() -> None:
    assert groups.for_all(lambda x: x * x, range(20)) == [x * x for x in range(20)]
    assert groups.for_all(str, []) == []
    with pytest.raises(ZeroDivisionError):
        groups.for_all(lambda x: 1 // (x - 5), range(10))
