import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dimly.api import publish
from dimly.curator.ledger.ledger import Ledger
from dimly.errors import ParameterError, PrivacyWarning, ReleaseError
from dimly.mechanisms import Plan
from dimly.privacy import Budget
from dimly.studio.background_work import Job, sentence_of
from dimly.studio.explore_page import _pair
from dimly.studio.workspace import Workspace, as_ids


def made(path: Path, users: Any = None) -> Path:
    people = np.random.default_rng(0).random((60, 40)) < 0.3
    options = {} if users is None else {"users": users}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        publish(people, Plan.of("counting+laplace", Budget(2.0), k=16), out=path, **options)
    return path


def ended(job: Job[Any]) -> Job[Any]:
    for _ in range(1200):
        if job.is_done:
            return job
        time.sleep(0.05)
    raise AssertionError


def test_a_release_is_opened_once_and_drawn_once(tmp_path: Path) -> None:
    workspace = Workspace()
    opened = workspace.open_release(made(tmp_path / "a"))
    assert workspace.open_release(str(tmp_path / "a")) is opened
    assert workspace.map_response(opened.key, "points").status_code == 404
    job = ended(opened.map_job())
    assert opened.map_job() is job
    drawn = job.found
    answer = workspace.map_response(opened.key, "points")
    assert answer.body == drawn.encoded
    address = opened.add_layer(np.arange(60, dtype=np.uint8), drawn.data)
    assert workspace.map_response(opened.key, address.rpartition("/")[2]).body == bytes(range(60))
    assert workspace.map_response(opened.key, "colors-none").status_code == 404
    assert workspace.map_response("none", "points").status_code == 404


def test_a_release_that_vanished_fails_with_a_sentence_and_may_come_back(tmp_path: Path) -> None:
    workspace = Workspace()
    opened = workspace.open_release(made(tmp_path / "a"))
    shutil.move(tmp_path / "a", tmp_path / "b")
    with pytest.raises(ReleaseError, match="a is no longer there"):
        opened.check()
    job = ended(opened.segments_job(2))
    assert "no longer there" in str(job.error)
    shutil.move(tmp_path / "b", tmp_path / "a")
    assert ended(opened.segments_job(2)).error is None


def test_releases_of_one_name_are_told_apart(tmp_path: Path) -> None:
    workspace = Workspace()
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        workspace.open_release(made(tmp_path / place / "release"))
    assert set(workspace.release_names().values()) == {"release", "two/release"}


@pytest.mark.parametrize("textual", [False, True])
def test_ids_are_found_as_they_are_typed(tmp_path: Path, textual: bool) -> None:
    users = [f"u{i:02d}" for i in range(60)] if textual else None
    opened = Workspace().open_release(made(tmp_path / "a", users))
    asked = ["u07", "u99", ""] if textual else [" 7 ", "60", "-1", "x", "9" * 30, "²", "--7"]
    assert as_ids(opened, np.array(asked, object)).tolist() == [7] + [-1] * (len(asked) - 1)


def test_what_is_no_release_or_ledger_is_refused(tmp_path: Path) -> None:
    workspace = Workspace()
    with pytest.raises(ReleaseError):
        workspace.open_release(tmp_path)
    with pytest.raises(ParameterError):
        workspace.open_ledger(tmp_path / "none.db")
    Ledger.create(tmp_path / "ledger.db")
    assert workspace.open_ledger(tmp_path / "ledger.db").datasets() == ()


def test_work_tells_how_far_it_is_and_what_went_wrong() -> None:
    def work(job: Job[int]) -> int:
        job.phase("counting")
        job.start(4)
        job.advance(1)
        assert job.part == 0.25
        job.reach(3, 4)
        assert job.part == 0.75
        job.reach(1, 0)
        assert job.part is None
        return 5

    assert ended(Job(work)).found == 5

    def fail(_: Job[int]) -> int:
        raise ZeroDivisionError

    failed = ended(Job(fail))
    assert "ZeroDivisionError" in str(failed.error)
    assert "Traceback" not in str(failed.error)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError("/secret/path"), "no longer there"),
        (MemoryError(), "not enough memory"),
        (PermissionError(13, "Permission denied", "/secret/path"), "Permission denied"),
        (KeyError("<script>"), "KeyError"),
    ],
)
def test_whatever_goes_wrong_is_a_sentence_without_paths(error: Exception, words: str) -> None:
    text = sentence_of(error)
    assert words in text
    assert "secret" not in text
    assert "<script>" not in text


def test_two_releases_are_compared_by_distances_and_groups(tmp_path: Path) -> None:
    workspace = Workspace()
    first, second = (workspace.open_release(made(tmp_path / name)) for name in ("a", "b"))
    pair, same_groups = ended(Job(lambda job: _pair(first, second, job))).found
    assert pair.n_common == 60
    assert pair.epsilon == 4.0
    assert same_groups is not None
    assert -1 <= same_groups <= 1
