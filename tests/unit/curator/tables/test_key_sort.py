"""Keys come in order, from memory or from a file, however they are spread; a full disk is told in our words."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dimly.curator.tables import key_sort
from dimly.curator.tables.kernels import renumber
from dimly.curator.tables.key_sort import KeySort, KeySpool
from dimly.errors import DimlyError


def full(*_: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def keys_of(spread: str, size: int) -> Any:
    generator = np.random.default_rng(2)
    users = {
        "even": generator.integers(0, 100_000, size),
        "near": 77_000 + generator.integers(0, 100, size),
        "one": np.full(size, 99_999),
        "same": np.full(size, 99_999),
    }[spread]
    return (users << 32) | generator.integers(0, 1 if spread == "same" else 1000, size)


@pytest.mark.parametrize("spread", ["even", "near", "one", "same"])
@pytest.mark.parametrize("spilled", [True, False])
@pytest.mark.parametrize("most", [1 << 20, 300])
def test_all_keys_come_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spread: str, spilled: bool, most: int
) -> None:
    keys = keys_of(spread, 20_000)
    sort = KeySort(tmp_path, first=0, stop=100_000 << 32, spilled=spilled, most=most)
    for start in range(0, len(keys), 7_000):
        sort.add(sort.part(keys[start : start + 7_000]))
    sort.settle()
    monkeypatch.setattr(os, "write", full)  # nothing is written from then on
    for _ in range(2):
        pieces = list(sort)
        np.testing.assert_array_equal(np.concatenate(pieces), np.sort(keys))
        if spread != "same":
            assert most > 300 or max(map(len, pieces)) <= 300
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_sorted_to_nothing(tmp_path: Path) -> None:
    sort = KeySort(tmp_path, first=0, stop=1 << 32, spilled=True, most=10)
    sort.add(sort.part(np.empty(0, np.int64)))
    assert list(sort) == []


@pytest.mark.parametrize("spill_after", [0, 2, 5, 9])
def test_a_spool_gives_back_what_it_took(tmp_path: Path, spill_after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sort, "PIECE", 10)
    spool = KeySpool(tmp_path)
    pieces = [np.arange(size, dtype=np.int64) for size in (3, 0, 25, 4, 4)]
    for number, piece in enumerate(pieces):
        if number == spill_after:
            spool.spill()
        spool.append(piece)
    assert spool.is_spilled == (spill_after < 5)
    assert spool.nbytes == (0 if spool.is_spilled else 8 * 36)
    assert spool.read(2, 5, 9).tolist() == [5, 6, 7, 8]
    np.testing.assert_array_equal(np.concatenate(list(spool.drain())), np.concatenate(pieces))


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = KeySpool(tmp_path)
    spool.append(np.arange(3))
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(DimlyError, match="room for the data"):
            spool.spill()
    with pytest.raises(DimlyError, match="room for the data"):
        KeySpool(tmp_path / "gone").spill()


def test_a_file_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    spool = KeySpool(tmp_path)
    spool.append(np.arange(3))
    spool.spill()
    os.ftruncate(spool._descriptor, 8)
    with pytest.raises(DimlyError, match="cut short"):
        spool.read(0, 0, 3)


def test_numbers_that_are_not_published_are_left_out() -> None:
    keys = np.array([(0 << 32) | 1, (1 << 32) | 0, (2 << 32) | 1, (2 << 32) | 0])
    out = np.empty_like(keys)
    size = renumber(keys, np.array([5, -1, 0], np.int32), np.array([-1, 2**31 - 1], np.int32), out)
    assert out[:size].tolist() == [(5 << 32) | (2**31 - 1), 2**31 - 1]
