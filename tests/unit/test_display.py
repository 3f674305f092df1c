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


def test_neighbors_are_shown_by_rank_wherever_they_are_shown() -> None:
    found = release_of("counting+laplace").neighbors(7, 8)
    users = found.users.tolist()
    assert [user for user, _ in found] == users
    frame = found.to_pandas()
    assert list(frame.columns)[:3] == ["rank", "user", "value"]
    assert frame["user"].tolist() == users
    assert frame["rank"].tolist() == list(range(1, 9))
    lines = [line.split() for line in repr(found).splitlines()]
    shown = [line[:2] for line in lines[lines.index(["rank", "user", "squared", "distance", "low", "high"]) + 1 :]]
    assert shown == [[str(rank), str(user)] for rank, user in enumerate(users, start=1)]
    assert found.words_on_order in repr(found)
    assert [label.get_text() for label in found.plot().get_yticklabels()] == list(map(str, users))


def test_no_neighbor_has_a_value_outside_its_interval() -> None:
    release = release_of("sparse+laplace")
    everybody = len(release) - 1
    alone = release.distances(7, [user for user in release.users.tolist() if user != 7])
    assert (alone.value < alone.low).any()  # noise takes some below zero
    for found in (release.neighbors(7, everybody), release.neighbor_graph(everybody)):
        assert (found.estimates.low <= found.estimates.value).all()
        assert (found.estimates.value <= found.estimates.high).all()


def test_estimates_have_a_format() -> None:
    estimate = Estimate(99.96, 12.3, 75.0, 125.0)
    assert f"{estimate:.1f}" == "100.0 ± 12.3 (75.0 to 125.0)"
    assert repr(Estimate(1.0, 2.0, 0.0, 3.0, measure="squared distance")).endswith(", squared distance)")
    with pytest.raises(ParameterError, match="Format one of them"):
        f"{Estimate(np.ones(2), np.ones(2), np.ones(2), np.ones(2)):.1f}"


def test_cells_and_titles() -> None:
    assert Shown("nothing").text() == "nothing"
    assert display.cell_text(float("nan")) == "unknown"
