import errno
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.folders import people, pieces, same_numbers, small_parts, write
from tests.plans import N_ATTRIBUTES, plan_of

from dimly.errors import DimlyError, ParameterError, ReleaseError
from dimly.mechanisms import MECHANISMS, Plan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import Budget
from dimly.release import ReleaseWriter, layout_of, open_folder, parts, verify
from dimly.release.writer import check_target

__all__ = ["small_parts"]

NUMBERS = Vocabulary.numbered(N_ATTRIBUTES)


def left(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def writer_of(target: Path, mechanism: str = "counting+laplace", **options: Any) -> ReleaseWriter:
    return ReleaseWriter(target, plan_of(mechanism), **({"user_type": "int64"} | options))


def zeros(n: int, *, start: int = 0) -> tuple[Any, Any]:
    return np.arange(start, start + n), np.zeros((n, 32), np.int16)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("text", [False, True], ids=["int64", "text"])
def test_every_mechanism_is_written_and_verifies(mechanism: str, text: bool, tmp_path: Path) -> None:
    sketches = people(plan_of(mechanism), text=text)
    path = write(tmp_path / "out", sketches, roster="found", ledger="clicks")
    stored = open_folder(path)
    same_numbers(stored, sketches)
    found = verify(path)
    assert found.n_users == 30
    assert found.release == stored.manifest.release
    assert stored.manifest.users.roster == "found"
    assert stored.manifest.ledger is not None
    assert stored.manifest.ledger.dataset == "clicks"


@pytest.mark.parametrize("mechanism", ["counting+laplace", "randomized-response", "noisy-distances"])
def test_parts_come_in_any_order_from_any_thread(mechanism: str, small_parts: int, tmp_path: Path) -> None:
    sketches = people(plan_of(mechanism))
    with writer_of(tmp_path / "out", mechanism) as writer, ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(writer.write_part, i, *piece) for i, piece in enumerate(pieces(sketches))]
        for job in reversed(jobs):
            job.result()
        manifest = writer.seal(roster="given")
        path = writer.publish()
    assert [record.rows for record in manifest.parts] == [8, 8, 8, 6]
    same_numbers(open_folder(path, verify=True), sketches)


def test_the_folder_holds_these_files_with_these_modes(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        path = write(tmp_path / "out", people(plan_of("gaussian+gaussian")))
    finally:
        os.umask(before)
    assert left(path) == [
        "README.md",
        "attributes.parquet",
        "manifest.json",
        "projection.parquet",
        "sketches",
        "sketches/part-000000.parquet",
    ]
    for place in [path, *path.rglob("*")]:
        assert stat.S_IMODE(place.stat().st_mode) == (0o755 if place.is_dir() else 0o644)
    assert left(tmp_path)[0] == "out"


def test_the_user_type_may_be_set_later(tmp_path: Path) -> None:
    with writer_of(tmp_path / "out", user_type=None) as writer:
        with pytest.raises(ValueError, match="after user_type is set"):
            writer.write_part(0, *zeros(3))
        with pytest.raises(ValueError, match="after user_type is set"):
            writer.seal(roster="given")
        writer.user_type = "int64"
        writer.write_part(0, *zeros(3))
        assert writer.seal(roster="given", private=False).n_users == 3


def test_nothing_is_seen_before_publishing(tmp_path: Path) -> None:
    with writer_of(tmp_path / "out") as writer:
        writer.write_part(0, *zeros(3))
        with pytest.raises(ValueError, match="must be sealed before it is published"):
            writer.publish()
        writer.seal(roster="given", private=False)
        assert not writer.is_published
        assert not (tmp_path / "out").exists()
        with pytest.raises(ValueError, match="parts are written before sealing"):
            writer.write_part(1, *zeros(3))
        with pytest.raises(ValueError, match="a release is sealed once"):
            writer.seal(roster="given")
        assert writer.publish() == tmp_path / "out"
        assert writer.is_published
    assert (tmp_path / "out" / "manifest.json").exists()


def test_leaving_early_leaves_nothing(tmp_path: Path) -> None:
    with writer_of(tmp_path / "out") as writer:
        writer.write_part(0, *zeros(3))
        writer.seal(roster="given", private=False)
    assert left(tmp_path) == []
    with writer_of(tmp_path / "out") as writer:
        writer.write_part(0, *zeros(3))
        writer.discard()
        assert left(tmp_path) == []
        writer.discard()


def test_parts_that_are_none_are_refused(small_parts: int, tmp_path: Path) -> None:
    with writer_of(tmp_path / "out") as writer:
        for n in (0, 9):
            with pytest.raises(ValueError, match=f"a part must hold 1…8 users, got {n}"):
                writer.write_part(0, *zeros(n))
        writer.write_part(0, *zeros(8))
        with pytest.raises(ValueError, match="part 0 must be written once"):
            writer.write_part(0, *zeros(8))
        with pytest.raises(ReleaseError, match="users must be int64"):
            writer.write_part(1, np.array(["a"], object), np.zeros((1, 32), np.int16))


def test_a_release_needs_all_its_parts(small_parts: int, tmp_path: Path) -> None:
    missing = "a release must hold all its parts, from the first on, but it does not"
    for written, reason in (
        ({}, missing),
        ({1: zeros(8)}, missing),
        ({0: zeros(8), 2: zeros(8, start=8)}, missing),
        ({0: zeros(7), 1: zeros(8, start=8)}, "every part but the last must be full"),
        ({0: zeros(8), 1: zeros(8, start=7)}, "users must be in ascending order from part to part"),
    ):
        with writer_of(tmp_path / "out") as writer:
            for index, piece in written.items():
                writer.write_part(index, *piece)
            with pytest.raises(ReleaseError, match=reason):
                writer.seal(roster="given")


def test_a_part_that_failed_is_missing(tmp_path: Path) -> None:
    with writer_of(tmp_path / "out") as writer:
        with pytest.raises(ReleaseError, match="values must be int16"):
            writer.write_part(0, np.arange(3), np.zeros((3, 31), np.int16))
        with pytest.raises(ReleaseError, match="must hold all its parts"):
            writer.seal(roster="given")


def test_distances_must_be_of_all_that_follow(small_parts: int, tmp_path: Path) -> None:
    with writer_of(tmp_path / "out", "noisy-distances") as writer:
        writer.write_part(0, np.arange(8), np.zeros(28 + 8 * 3, np.int16))  # as if three followed
        writer.write_part(1, np.arange(8, 10), np.zeros(1, np.int16))
        with pytest.raises(ReleaseError, match="values must hold the distances to all users after each"):
            writer.seal(roster="given")


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    steps: dict[str, Callable[[ReleaseWriter], Any]] = {
        "write_part": lambda writer: writer.write_part(1, *zeros(3)),
        "write_vocabulary": lambda writer: writer.write_vocabulary(NUMBERS),
        "write_projection": lambda writer: writer.write_projection(NUMBERS),
        "seal": lambda writer: writer.seal(roster="given"),
    }
    for step in steps.values():
        with writer_of(tmp_path / "out", "gaussian+gaussian") as writer:
            writer.write_part(0, *zeros(3))
            monkeypatch.setattr(os, "fsync", refuse)
            with pytest.raises(DimlyError, match=r"the disk of .* is full"):
                step(writer)
            monkeypatch.undo()
        assert left(tmp_path) == []


def test_the_vocabulary_is_the_plans(tmp_path: Path) -> None:
    names = Vocabulary.listed(["tea", "coffee", "milk", "naïve ☕"])
    plan = Plan.of("gaussian+gaussian", Budget(1.0, 1e-6), k=8, vocabulary=names, seed=bytes(32))
    with ReleaseWriter(tmp_path / "out", plan, user_type="int64") as writer:
        writer.write_part(0, np.arange(2), np.zeros((2, 8), np.int16))
        for write_list in (writer.write_vocabulary, writer.write_projection):
            with pytest.raises(ParameterError, match="vocabulary must be the list that the plan was made with"):
                write_list(NUMBERS)
            write_list(names)
            with pytest.raises(ValueError, match="must be written once, before sealing"):
                write_list(names)
        writer.seal(roster="given")
        path = writer.publish()
    assert verify(path).files == 3
    assert open_folder(path).vocabulary == names
    assert pq.read_table(path / "attributes.parquet").column("attribute").to_pylist() == list(names)
    table = pq.read_table(path / "projection.parquet")
    assert table.column("attribute").to_pylist() == list(names)
    assert table.column("row").to_pylist() == plan.rows(names.attributes).to_dense().tolist()


def test_a_projection_is_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimly.release.writer._CHUNK_ENTRIES", 32 * 7)
    path = write(tmp_path / "out", people(plan_of("gaussian+gaussian")))
    assert pq.read_metadata(path / "projection.parquet").num_row_groups == 15
    assert verify(path).files == 3


def test_only_a_closed_vocabulary_is_published(tmp_path: Path) -> None:
    with writer_of(tmp_path / "out") as writer:
        for write_list in (writer.write_vocabulary, writer.write_projection):
            with pytest.raises(ParameterError, match="vocabulary must be closed by the plan to be published"):
                write_list(NUMBERS)
    wrong = pytest.raises(ParameterError, match="mechanism must be one that sketches to have rows")
    with writer_of(tmp_path / "out", "randomized-response") as writer, wrong:
        writer.write_projection(NUMBERS)


def test_targets_are_refused_early(tmp_path: Path) -> None:
    write(tmp_path / "out", people(plan_of("counting+laplace")))
    for refuse in (writer_of, check_target):
        with pytest.raises(ParameterError, match="is already a release"):
            refuse(tmp_path / "out")
    check_target(tmp_path / "out", overwrite=True)
    check_target(tmp_path / "other")
    assert left(tmp_path)[0] == "out"


def test_a_release_is_overwritten_whole(tmp_path: Path) -> None:
    write(tmp_path / "out", people(plan_of("gaussian+gaussian")))
    sketches = people(plan_of("counting+laplace"), text=True)
    path = write(tmp_path / "out", sketches, overwrite=True)
    same_numbers(open_folder(path, verify=True), sketches)
    assert sorted(os.listdir(path)) == ["README.md", "manifest.json", "sketches"]


def test_file_shape_is_the_plans(tmp_path: Path) -> None:
    """Whatever the numbers are: people per part and row group, names and columns are the same."""
    sketches = people(plan_of("counting+laplace"))
    shapes = []
    for name, values in (("noise", sketches.values), ("zeros", np.zeros_like(sketches.values))):
        with writer_of(tmp_path / name) as writer:
            writer.write_part(0, sketches.users, values)
            manifest = writer.seal(roster="given")
            path = writer.publish()
        fields = manifest.model_dump(exclude={"release"})
        for record in fields["files"]:
            del record["bytes"], record["sha256"]
        metadata = pq.read_metadata(path / "sketches" / "part-000000.parquet")
        groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        shapes.append((fields, groups, left(path), metadata.schema.to_arrow_schema()))
    assert shapes[0] == shapes[1]
    assert layout_of(sketches.plan) == writer.layout


def test_parts_that_were_written_elsewhere_are_moved(tmp_path: Path) -> None:
    plan = plan_of("counting+laplace")
    with writer_of(tmp_path / "out") as writer:
        folder = writer.make_scratch("attempts")
        (folder / "sketches").mkdir()
        users, values = zeros(3)
        record = parts.write_part(folder, 0, parts.as_user_column(users, "int64"), values, plan)
        part = parts.WrittenPart(0, folder, record, 0, 2, None)
        writer.adopt_part(part)
        with pytest.raises(ValueError, match="part 0 must be written once"):
            writer.adopt_part(part)
        gone = parts.WrittenPart(1, folder, record, 3, 5, None)
        with pytest.raises(DimlyError, match="No such file"):
            writer.adopt_part(gone)
        writer._parts.pop(1)
        writer.seal(roster="given", private=False)
        with pytest.raises(ValueError, match="parts are adopted before sealing"):
            writer.adopt_part(part)
        writer.publish()
    files = ["README.md", "manifest.json", "sketches", "sketches/part-000000.parquet"]
    assert left(tmp_path) == ["out", *(f"out/{file}" for file in files)]
    assert open_folder(tmp_path / "out").users.tolist() == [0, 1, 2]
