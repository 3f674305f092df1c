import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.folders import people, pieces, release_folder, same_numbers, small_parts, write
from tests.plans import N_ATTRIBUTES, plan_of
from tests.streams import Recorded

from dimly.analyst import Release
from dimly.analyst.release import open_release
from dimly.errors import ParameterError, ReleaseError
from dimly.mechanisms import Plan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import Budget
from dimly.release import Sketches, StoredSketches, open_folder, parts, read_manifest

__all__ = ["small_parts"]

LAYOUTS = ["counting+laplace", "randomized-response", "noisy-distances"]
PART = "sketches/part-000001.parquet"


@pytest.mark.parametrize("mechanism", LAYOUTS)
@pytest.mark.parametrize("text", [False, True], ids=["int64", "text"])
def test_parts_are_read_one_by_one_and_all_together(
    mechanism: str, text: bool, small_parts: int, tmp_path: Path
) -> None:
    sketches = people(plan_of(mechanism), text=text)
    stored = open_folder(write(tmp_path / "out", sketches))
    assert stored.n_parts == 4
    for found, wanted in zip(stored.parts(), pieces(sketches), strict=True):
        for part, expected in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(part, expected)
            assert part.dtype == expected.dtype
    same_numbers(stored, sketches)


def test_it_is_what_sketches_are(tmp_path: Path) -> None:
    sketches = people(plan_of("counting+laplace"))
    stored = open_folder(write(tmp_path / "out", sketches))
    assert len(stored) == len(sketches)
    assert repr(stored) == repr(sketches)
    assert stored.plan == sketches.plan
    assert stored.private
    assert stored.path == tmp_path / "out"
    assert stored.users is stored.users
    assert stored.values is stored.values
    for array in (stored.users, stored.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    Sketches(stored.plan, stored.users, stored.values, private=stored.private)


def test_an_analyst_can_ask_it(tmp_path: Path) -> None:
    sketches = people(plan_of("counting+laplace"), text=True)
    stored: Any = open_folder(write(tmp_path / "out", sketches))
    assert Release(stored).distance("007", "😀") == Release(sketches).distance("007", "😀")


def test_what_is_not_private_opens_and_says_so(tmp_path: Path) -> None:
    stored = open_folder(write(tmp_path / "out", people(plan_of("counting+laplace"), words=Recorded(0))))
    assert not stored.private
    assert "NOT PRIVATE" in repr(stored)
    with pytest.raises(ReleaseError, match="field 'not_private' is set"):
        open_folder(tmp_path / "out", verify=True)


def test_opening_reads_no_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release_folder(tmp_path / "out", "gaussian+gaussian")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("read")

    for name in ("read", "read_row_group", "iter_batches"):
        monkeypatch.setattr(pq.ParquetFile, name, refuse)
    stored = open_folder(tmp_path / "out")
    with pytest.raises(AssertionError, match="read"):
        _ = stored.users


def test_the_working_directory_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release_folder(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    stored = open_folder("out")
    monkeypatch.chdir("/")
    assert len(stored.users) == 30


def test_a_link_to_a_release_opens(tmp_path: Path) -> None:
    release_folder(tmp_path / "out")
    (tmp_path / "latest").symlink_to("out")
    assert len(open_folder(tmp_path / "latest", verify=True).values) == 30


def test_the_vocabulary_is_there_if_it_was_published(tmp_path: Path) -> None:
    assert open_folder(release_folder(tmp_path / "open")).vocabulary is None
    stored = open_folder(release_folder(tmp_path / "closed", "gaussian+gaussian"))
    assert stored.vocabulary == Vocabulary.numbered(N_ATTRIBUTES)


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    names = Vocabulary.listed([f"name {i}" for i in range(100)])
    plan = Plan.of("sign+gaussian", Budget(1.0, 1e-6), k=8, vocabulary=names, seed=bytes(32))
    path = write(tmp_path / "out", _as_numbers(plan), vocabulary=names)
    manifest = read_manifest(path)
    (path / "attributes.parquet").unlink()
    record = parts.write_attributes(path, ["other", *names[1:]])
    files = tuple(record if file.path == record.path else file for file in manifest.files)
    stored = StoredSketches(path, manifest.model_copy(update={"files": files}))
    with pytest.raises(
        ReleaseError, match=r"attributes.parquet: vocabulary must be the list that the plan was made with"
    ):
        _ = stored.vocabulary


def test_opening_compares_the_list_and_leaves_the_proof_to_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Vocabulary.listed([f"name {i}" for i in range(100)])
    plan = Plan.of("gaussian+laplace", Budget(1.0), k=8, vocabulary=names, dtype="int16")
    path = write(tmp_path / "out", _as_numbers(plan), vocabulary=names)

    def prove(*_: object) -> None:
        raise ParameterError("proven")

    monkeypatch.setattr("dimly.mechanisms.plan_kinds.sensitivity", prove)
    release = open_release(path)
    assert release.vocabulary == names
    with pytest.raises(ReleaseError, match="proven"):
        open_release(path, verify=True)


def _as_numbers(plan: Plan) -> Sketches:
    return Sketches(plan, np.arange(3), np.zeros((3, 8), np.int16), private=True)


def test_a_file_that_changed_after_opening_is_refused(small_parts: int, tmp_path: Path) -> None:
    stored = open_folder(release_folder(tmp_path / "out"))
    other = release_folder(tmp_path / "other")
    path = stored.path / PART
    with open(path, "ab") as file:
        file.write(b"x")
    for ask in (lambda: stored.users, lambda: stored.values, lambda: stored.read_part(1)):
        with pytest.raises(ReleaseError, match=f"{PART} must hold .* bytes"):
            ask()
    assert len(stored.read_part(0)[0]) == 8
    path.unlink()
    with pytest.raises(ReleaseError, match=f"{PART} must be a file of the release, but it is missing"):
        _ = stored.users
    # As long as the manifest says, and with another number of rows.
    shutil.copy(other / "sketches" / "part-000003.parquet", path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    record = stored.manifest.parts[1].model_copy(update={"bytes": path.stat().st_size, "sha256": digest})
    files = tuple(record if file.path == PART else file for file in stored.manifest.files)
    changed = StoredSketches(stored.path, stored.manifest.model_copy(update={"files": files}))
    with pytest.raises(ReleaseError, match=f"{PART} must hold 8 rows, got 6"):
        _ = changed.users


def test_users_out_of_order_are_refused(small_parts: int, tmp_path: Path) -> None:
    path = release_folder(tmp_path / "out")
    manifest = read_manifest(path)
    first, second, *rest = manifest.files
    swapped = (
        first.model_copy(update={"bytes": second.bytes, "sha256": second.sha256}),
        second.model_copy(update={"bytes": first.bytes, "sha256": first.sha256}),
        *rest,
    )
    os.rename(path / first.path, path / "aside")
    os.rename(path / second.path, path / first.path)
    os.rename(path / "aside", path / second.path)
    stored = StoredSketches(path, manifest.model_copy(update={"files": swapped}))
    with pytest.raises(
        ReleaseError, match="sketches must hold users in ascending order, without repeats, but it does not"
    ):
        _ = stored.users


def test_what_is_no_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"must be a release folder, but it has no manifest.json"):
        open_folder(tmp_path)
    with pytest.raises(ReleaseError, match="must be a release folder, but there is no such folder"):
        open_folder(tmp_path / "none")
