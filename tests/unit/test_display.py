"""How objects show themselves; hostile names must stay text."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.releases import release_of

from dimly import display
from dimly.analyst.estimate import Estimate
from dimly.api import publish, survey
from dimly.curator.ledger.ledger import Ledger
from dimly.display import MOST_ROWS, Shown, data_frame
from dimly.errors import MissingExtraError, ParameterError
from dimly.lab.planning import advise
from dimly.mechanisms import Directions, Plan
from dimly.privacy import Budget

HOSTILE = "<script>alert(1)</script>\x1b[31m"


def objects(tmp_path: Path) -> list[Any]:
    people = np.random.default_rng(0).random((40, 60)) < 0.3
    release = publish(
        people, Plan.of("counting+laplace", Budget(4.0), k=16), users=[f"{HOSTILE}{i}" for i in range(40)]
    )
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", epsilon=1.0)
    return [
        release.plan,
        advise(Budget(1.0), n_attributes=1000, distance=(100, 800), n_users=1000),
        release,
        release.distance(release.users[0], release.users[1]),
        release.distances(release.users[0], release.users),
        release.neighbors(release.users[0], 30),
        release.segments(2),
        Directions.of_values([HOSTILE, "tea"], [[1.0], [-0.5]], origin=HOSTILE),
        survey([[1, 0, 1], [0, 1, 1]] * 500, Budget(1.0), ask=["counts", "weights"], attributes=[HOSTILE, "b", "c"]),
        ledger,
    ]


def test_all_show_themselves_and_none_obeys_a_name(tmp_path: Path) -> None:
    for one in objects(tmp_path):
        page = one._repr_html_()
        assert page.startswith("<div>")
        assert "<script" not in page
        assert "\x1b" not in page
        assert "\x1b" not in repr(one)
        assert 0 < len(repr(one)) < 4_000


def test_tables_become_frames(tmp_path: Path) -> None:
    sizes = {type(one).__name__: len(one.to_pandas()) for one in objects(tmp_path) if hasattr(one, "to_pandas")}
    assert sizes["Neighbors"] == 30
    assert sizes["Segments"] == 40
    assert sizes["Directions"] == 2
    assert sizes["Ledger"] == 1
    assert sizes["Estimate"] == 40
    assert sizes["Survey"] == 6
    assert sizes["Advice"] > 1


def test_without_pandas_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="pip install pandas"):
        data_frame({"a": [1]})


def test_long_tables_are_cut() -> None:
    release = release_of("counting+laplace")
    found = release.neighbors(7, len(release) - 1)
    assert f"… and {len(release) - 1 - MOST_ROWS:,} more" in repr(found)
    assert len(list(found)) == len(release) - 1


def test_neighbors_are_gone_through_in_order_of_rank_and_shown_in_that_of_their_values() -> None:
    found = release_of("counting+laplace").neighbors(7, 8)
    assert [user for user, _ in found] == found.users.tolist()
    values = [one.value for _, one, _ in found.shown()]
    assert values == sorted(values)
    assert all(one.low <= one.value <= one.high for _, one, _ in found.shown())
    assert found.words_on_order in repr(found)


def test_estimates_have_a_format() -> None:
    estimate = Estimate(99.96, 12.3, 75.0, 125.0)
    assert f"{estimate:.1f}" == "100.0 ± 12.3 (75.0 to 125.0)"
    assert repr(Estimate(1.0, 2.0, 0.0, 3.0, measure="squared distance")).endswith(", squared distance)")
    with pytest.raises(ParameterError, match="Format one of them"):
        f"{Estimate(np.ones(2), np.ones(2), np.ones(2), np.ones(2)):.1f}"


def test_cells_and_titles() -> None:
    assert Shown("nothing").text() == "nothing"
    assert display.cell_text(float("nan")) == "unknown"
