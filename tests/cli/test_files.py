import os
from pathlib import Path
from typing import NoReturn

import pytest

from dimly.errors import ParameterError
from dimly.files import read_text, write_text


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "ε.json"
    write_text(path, "ε\n", overwrite=False)
    assert read_text("plan", path, hint="") == "ε\n"
    write_text(path, "δ\n", overwrite=True)
    assert read_text("plan", path, hint="") == "δ\n"
    assert list(tmp_path.iterdir()) == [path]


def test_targets_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("mine", encoding="utf-8")
    for target, words in [
        (path, "which exists. Add overwrite=True"),
        (tmp_path, "which is a folder"),
        (tmp_path / "none" / "plan.json", "in a folder that exists"),
    ]:
        with pytest.raises(ParameterError, match=words):
            write_text(target, "x", overwrite=False)
    assert path.read_text(encoding="utf-8") == "mine"


def test_another_process_may_be_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.json"

    def be_second(_: int) -> None:
        path.write_text("theirs", encoding="utf-8")

    monkeypatch.setattr(os, "fsync", be_second)
    with pytest.raises(ParameterError, match="which exists"):
        write_text(path, "mine", overwrite=False)
    assert path.read_text(encoding="utf-8") == "theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_file_systems_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(self: Path, target: Path) -> NoReturn:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    write_text(tmp_path / "plan.json", "x", overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_nothing_half_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_text(tmp_path / "plan.json", "x", overwrite=False)
    assert list(tmp_path.iterdir()) == []


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"plan must be a readable file, .*No such file or directory\. Do this\."):
        read_text("plan", tmp_path / "none.json", hint="Do this.")
    (tmp_path / "latin").write_bytes(b"\xe9")
    with pytest.raises(ParameterError, match="it is not UTF-8"):
        read_text("plan", tmp_path / "latin", hint="")
