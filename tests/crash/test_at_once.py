"""Many publishers at once: the ledger lets in as many as it has room for, and not one more."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.crash.scenes import DATASET, Inputs, Scene, person

from dimly.curator.ledger import Ledger

N_PUBLISHERS, ROOM = 8, 3


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a small table."""
    path = tmp_path / "small.parquet"
    pq.write_table(
        pa.table({"person": [person(i) for i in range(100)], "page": [f"{i % 7}" for i in range(100)]}), path
    )
    return path


def test_eight_processes_share_what_is_left_for_three(table: Path, tmp_path: Path, inputs: Inputs) -> None:
    folder = tmp_path / "scene"
    folder.mkdir()
    scene = Scene(folder, inputs, epsilon=ROOM + 0.5)
    runs = [scene.start(table=table, out=scene.parent / f"release-{number}") for number in range(N_PUBLISHERS)]
    ended = [run.result() for run in runs]
    refused = [one for one in ended if one.code != 0]
    assert len(refused) == N_PUBLISHERS - ROOM
    for one in refused:
        line = one.check_one_line(1)
        assert "left" in line
        assert "0.5" in line
    assert len(scene.releases()) == ROOM
    assert scene.leftovers() == []
    scene.check_all_charged()
    status = Ledger(scene.ledger).status(DATASET)
    assert (status.spent.epsilon, status.left) == (ROOM, 0.5)
    assert [charge.state for charge in status.charges] == ["visible"] * ROOM


def test_of_four_with_one_target_one_is_published(table: Path, tmp_path: Path, inputs: Inputs) -> None:
    folder = tmp_path / "scene"
    folder.mkdir()
    scene = Scene(folder, inputs)
    runs = [scene.start(table=table, out=scene.target) for _ in range(4)]
    ended = [run.result() for run in runs]
    assert sorted(one.code for one in ended) == [0, 2, 2, 2]
    assert all("out must be a new folder" in one.check_one_line(2) for one in ended if one.code)
    assert scene.leftovers() == []
    scene.check_all_charged()
    assert Ledger(scene.ledger).status(DATASET).spent.epsilon == 1
