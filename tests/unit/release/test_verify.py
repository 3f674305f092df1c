"""Verifying what is in order. Damage of every kind is in tests/golden."""

from pathlib import Path

import numpy as np
import pytest
from tests.folders import people, release_folder, small_parts, write
from tests.plans import plan_of
from tests.streams import Recorded

from dimly.errors import ParameterError, ReleaseError
from dimly.mechanisms import Plan, Vocabulary
from dimly.mechanisms.plan_kinds import SketchPlan
from dimly.privacy import Budget
from dimly.release import ReleaseWriter, verify
from dimly.release.manifest import read_manifest
from dimly.release.reader import StoredSketches
from dimly.release.verify import LIMITS, _same_rows

__all__ = ["small_parts"]


def test_it_says_what_was_checked_and_what_cannot_be(tmp_path: Path) -> None:
    path = release_folder(tmp_path / "out", "gaussian+gaussian")
    found = verify(path)
    assert (found.n_users, found.files) == (30, 3)
    assert len(found.release) == 64
    assert "No check can prove that noise was added" in found.limits
    text = str(found)
    assert found.release in text
    assert found.limits in text
    for word in (
        "SHA-256",
        "budget",
        "guarantee",
        "nothing else",
        "row groups",
        "ascending order",
        "vocabulary",
        "seed",
    ):
        assert word in text
    assert "no attribute can move a sketch farther" in text
    fewer = verify(release_folder(tmp_path / "open"))
    assert len(fewer.checks) == len(found.checks) - 2


def test_it_tells_how_far_it_is(small_parts: int, tmp_path: Path) -> None:
    path = release_folder(tmp_path / "out")
    told: list[tuple[int, int]] = []
    verify(path, threads=2, progress=lambda done, total: told.append((done, total)))
    total = sum(file.stat().st_size for file in path.glob("sketches/*"))
    assert len(told) == 4
    assert told[-1] == (total, total)
    assert sorted(told) == told


def test_what_is_not_private_never_verifies(tmp_path: Path) -> None:
    path = write(tmp_path / "out", people(plan_of("counting+laplace"), words=Recorded(0)))
    with pytest.raises(ReleaseError, match="field 'not_private' is set: the release was made for tests"):
        verify(path)


NAMES = Vocabulary.listed([f"name {i}" for i in range(100)])


def too_quiet(*, listed: bool) -> Plan:
    """Return a plan that states less than its rows can do, and has noise for what it states."""
    closed = {"vocabulary": NAMES} if listed else {"n_attributes": 100}
    plan = Plan.of("ternary+laplace", Budget(1.0), k=32, seed=bytes(32), **closed)
    assert plan.projection is not None
    less = plan.projection.l1 - 1
    projection = plan.projection.model_copy(update={"l1": less, "l2_squared": less})
    return plan.model_copy(
        update={"projection": projection, "noise": plan.noise.model_copy(update={"l1_sensitivity": less})}
    )


def unpublished(path: Path, plan: Plan, vocabulary: Vocabulary | None = None) -> Path:
    with ReleaseWriter(path, plan, user_type="int64") as writer:
        writer.write_part(0, np.arange(3), np.zeros((3, 32), np.int16))
        if vocabulary is not None:
            writer.write_vocabulary(vocabulary)
        writer.seal(roster="given")
        return writer.publish()


def test_a_plan_that_states_too_little_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = r"projection\.l1 and projection\.l2_squared must be at least .* The plan was changed"
    with monkeypatch.context() as patch:
        patch.setattr(
            "dimly.mechanisms.plan_kinds._PROVEN_WHEN_READ", 0
        )  # as of a list too long to be proven when read
        unpublished(tmp_path / "numbered", too_quiet(listed=False))
        with pytest.raises(ReleaseError, match=f"manifest.json field 'plan': {reason}"):
            verify(tmp_path / "numbered")
    with pytest.raises(ReleaseError, match=f"manifest.json field 'plan': {reason}"):
        read_manifest(tmp_path / "numbered")
    with monkeypatch.context() as patch:
        patch.setattr(SketchPlan, "_check_sensitivity", lambda *_: None)  # as another program would write it
        unpublished(tmp_path / "listed", too_quiet(listed=True), NAMES)
    with pytest.raises(ReleaseError, match=f"attributes.parquet: {reason}"):
        verify(tmp_path / "listed")
    stored = StoredSketches(tmp_path / "listed", read_manifest(tmp_path / "listed"))
    assert stored.vocabulary == NAMES  # to read takes no proof, and to publish by the plan does
    with pytest.raises(ParameterError, match=reason):
        stored.plan.vocabulary_of(NAMES)


def test_what_cannot_be_proven_is_said(tmp_path: Path) -> None:
    found = verify(unpublished(tmp_path / "unknown", too_quiet(listed=True)))
    assert "The vocabulary is not in the release" in found.limits
    assert "no attribute can move a sketch farther" not in "".join(found.checks)
    plan = plan_of("ternary+laplace")
    known = verify(unpublished(tmp_path / "known", plan))
    assert known.limits == LIMITS
    assert "no attribute can move a sketch farther" in "".join(known.checks)


def test_rows_of_p_may_differ_where_a_quantile_is_near_a_tie() -> None:
    plan = plan_of("gaussian+gaussian")
    quiet = int(np.argmin(plan.rows([str(i) for i in range(100)]).l2_squared_norms))  # far from the largest row
    rows = plan.rows([str(quiet)]).to_dense()
    assert _same_rows(rows.copy(), rows, plan)
    for changes, same in (({0: 1}, True), ({0: -1}, True), ({0: 2}, False), ({0: 1, 1: 1}, False)):
        other = rows.copy()
        for place, change in changes.items():
            other[0, place] += change
        assert _same_rows(other, rows, plan) == same
    # Not beyond the plan's sensitivity, and not for the others, which are integers throughout.
    assert plan.projection is not None
    loud = int(np.argmax(plan.rows([str(i) for i in range(100)]).l2_squared_norms))
    rows = plan.rows([str(loud)]).to_dense()
    other = rows.copy()
    other[0, np.argmax(rows)] += 1
    assert not _same_rows(other, rows, plan)
    signs = plan_of("ternary+laplace")
    rows = signs.rows(["0"]).to_dense()
    assert not _same_rows(rows + np.eye(1, 32, dtype=np.int64), rows, signs)
