import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.folders import people, small_parts, write
from tests.plans import plan_of

from dimly.errors import ReleaseError
from dimly.release import StoredSketches, open_folder, reader
from dimly.release.manifest import Manifest

__all__ = ["small_parts"]

PART = "sketches/part-000001.parquet"
WRONG = f"{PART} must have the SHA-256 that the manifest states, but it has another"


def _opened(path: Path, mechanism: str = "counting+laplace", *, text: bool = False) -> StoredSketches:
    return open_folder(write(path, people(plan_of(mechanism), text=text)))


def _flip(path: Path, *, place: int | None = None) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("mechanism", ["counting+laplace", "randomized-response", "noisy-distances"])
@pytest.mark.parametrize("text", [False, True], ids=["int64", "text"])
def test_no_number_of_a_changed_file_is_used(mechanism: str, text: bool, small_parts: int, tmp_path: Path) -> None:
    stored = _opened(tmp_path / "out", mechanism, text=text)
    _flip(stored.path / PART)
    asks: list[Any] = [
        lambda: stored.users,
        lambda: stored.values,
        lambda: stored.read_part(1),
        lambda: stored.read_values(1),
        lambda: stored.named(np.array([9])),
    ]
    if mechanism == "noisy-distances":
        asks.append(lambda: stored.pairs(np.array([9]), np.array([12])))
    else:
        asks.append(lambda: stored.take(np.array([9])))
    for ask in asks:
        with pytest.raises(ReleaseError, match=WRONG):
            ask()
    assert len(stored.read_part(0)[0]) == 8  # the other files are what they were


def test_ids_too_long_for_a_footer_are_of_a_checked_file(small_parts: int, tmp_path: Path) -> None:
    sketches = people(plan_of("counting+laplace"), 12)
    ids = np.array([letter * 5000 for letter in "abcdefghijkl"], object)
    stored = open_folder(write(tmp_path / "out", type(sketches)(sketches.plan, ids, sketches.values, private=True)))
    _flip(stored.path / PART)
    with pytest.raises(ReleaseError, match=WRONG):
        stored.locate(ids[:1])


def test_a_changed_vocabulary_is_refused(tmp_path: Path) -> None:
    stored = _opened(tmp_path / "out", "randomized-response")
    _flip(stored.path / "attributes.parquet")
    with pytest.raises(ReleaseError, match=r"attributes.parquet must have the SHA-256"):
        _ = stored.vocabulary


def test_a_digest_is_taken_once_unless_the_file_changes(
    small_parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, taken, digest = _opened(tmp_path / "out"), [], hashlib.file_digest

    def counted(file: Any, name: str) -> Any:
        taken.append(digest(file, name))
        return taken[-1]

    monkeypatch.setattr(hashlib, "file_digest", counted)
    for _ in range(3):
        stored.read_values(1)
        stored.take(np.array([9]))
    assert [one.hexdigest() for one in taken] == [stored.manifest.parts[1].sha256]
    path = stored.path / PART
    os.utime(path, ns=(1, 1))  # the same bytes, written again
    stored.read_values(1)
    assert len(taken) == 2
    _flip(path)
    with pytest.raises(ReleaseError, match=WRONG):
        stored.read_values(1)


def test_a_footer_that_was_found_right_is_not_checked_again(
    small_parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_MOST_IDLE", 0)  # each reader opens the file
    stored, checked, check = _opened(tmp_path / "out"), [], Manifest.check_footer

    def counted(self: Manifest, file: Any, record: Any) -> None:
        checked.append(record.path)
        check(self, file, record)

    monkeypatch.setattr(Manifest, "check_footer", counted)
    for position in (8, 9, 10):
        stored.take(np.array([position]))
    assert checked == [PART]
    os.utime(stored.path / PART, ns=(1, 1))
    stored.take(np.array([11]))
    assert checked == [PART, PART]


@pytest.mark.parametrize("most", [0, 1 << 26], ids=["large", "small"])
def test_only_a_small_release_is_kept_and_few_files_stay_open(
    most: int, small_parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_SMALL", most)
    monkeypatch.setattr(reader, "_MOST_IDLE", 2)
    stored = _opened(tmp_path / "out")
    first = stored.read_values(1)
    assert (stored.read_values(1) is first) == bool(most)
    assert not first.flags.writeable
    assert sum(len(values) for _, values in stored.parts()) == len(stored) == 30
    assert len(stored._groups._values) == (stored.n_parts if most else 0)
    assert list(stored._files._idle) == [record.path for record in stored.manifest.parts[-2:]]
    np.testing.assert_array_equal(stored.values[8:16], first)
    assert not stored._groups._values  # all are in one place now
    assert stored.read_values(1).base is stored.values
