"""Small releases in folders, with real noise unless a test asks for other words."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.matrices import publish_matrix
from tests.plans import plan_of
from tests.releases import PEOPLE

from dimly.curator.randomness import WordSource
from dimly.mechanisms import Plan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release import ReleaseWriter, RosterKind, Sketches, UserType, layout_of
from dimly.release import format as layout

ODD_IDS = ["", "007", "7", 'a "quoted", one', "back\\slash", "line\nbreak", "tab\there", "é", "x" * 200, "日本", "😀"]


def people(plan: Plan, n: int = 30, *, text: bool = False, words: WordSource | None = None) -> Sketches:
    """Return ``n`` people published by ``plan``; as text, some with ids that are hard to carry."""
    ids = [*ODD_IDS, *(f"user {i}" for i in range(n))][:n] if text else [7 * i - 20 for i in range(n)]
    return publish_matrix(PEOPLE[:n], plan, users=ids, words=words)


def write(
    path: Path,
    sketches: Sketches,
    *,
    roster: RosterKind = "given",
    ledger: str | None = None,
    pseudonyms: bool = False,
    vocabulary: Vocabulary | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a release as the engine does, with the plan's vocabulary and projection where it has them."""
    plan = sketches.plan
    user_type: UserType = "text" if sketches.textual else "int64"
    with ReleaseWriter(path, plan, user_type=user_type, overwrite=overwrite) as writer:
        for index, (users, values) in enumerate(pieces(sketches)):
            writer.write_part(index, users, values)
        if plan.vocabulary is not None:
            vocabulary = vocabulary or Vocabulary.numbered(plan.vocabulary.size)
            writer.write_vocabulary(vocabulary)
            if plan.projection is not None:
                writer.write_projection(vocabulary)
        writer.seal(roster=roster, pseudonyms=pseudonyms, ledger=ledger, private=sketches.private)
        return writer.publish()


def pieces(sketches: Sketches) -> list[tuple[Any, Any]]:
    """Return users and values of each part."""
    step, n = layout_of(sketches.plan).users_per_part, len(sketches)
    found = []
    for start in range(0, n, step):
        stop = min(start + step, n)
        first, last = start, stop
        if sketches.plan.n_users is not None:
            first, last = (p * (2 * n - p - 1) // 2 for p in (start, stop))
        found.append((sketches.users[start:stop], sketches.values[first:last]))
    return found


def release_folder(path: Path, mechanism: str = "counting+laplace", n: int = 30, *, text: bool = False) -> Path:
    """Write a small release by ``mechanism``."""
    return write(path, people(plan_of(mechanism), n, text=text))


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> int:
    """Cut parts of eight people and row groups of one: a release of many parts need not be large."""
    monkeypatch.setattr(layout, "_MOST_USERS", 8)
    return 8


def same_numbers(stored: Any, sketches: Sketches) -> None:
    assert stored.users.dtype == sketches.users.dtype
    assert stored.values.dtype == sketches.values.dtype
    np.testing.assert_array_equal(stored.users, sketches.users)
    np.testing.assert_array_equal(stored.values, sketches.values)
