"""Many publishers at once: the ledger lets in as many as it has room for, and not one more."""

import contextlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.crash.scenes import DATASET, Ended, Inputs, Scene, person

from dimly.curator.ledger.ledger import Ledger

N_PUBLISHERS, ROOM = 5, 2


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a small table."""
    path = tmp_path / "small.parquet"
    pq.write_table(pa.table({"person": [person(number) for number in range(100)], "page": ["tea"] * 100}), path)
    return path


def all_at_once(scene: Scene, table: Path, targets: list[Path]) -> list[Ended]:
    """Publish a table to each target, in as many processes."""
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(scene.start(table=table, out=target)) for target in targets]
        return [run.result() for run in runs]


@pytest.mark.thorough
def test_five_processes_share_what_is_left_for_two(table: Path, inputs: Inputs, tmp_path: Path) -> None:
    scene = Scene(tmp_path, inputs, epsilon=ROOM + 0.5)
    ended = all_at_once(scene, table, [scene.parent / f"release-{number}" for number in range(N_PUBLISHERS)])
    refused = [one.check_one_line(1) for one in ended if one.code != 0]
    assert len(refused) == N_PUBLISHERS - ROOM
    assert all(
        f"would make it {ROOM + 1}. A release of epsilon 0.5 and delta 0 still fits." in line for line in refused
    )
    assert len(scene.releases()) == ROOM
    assert scene.leftovers() == []
    scene.check_all_charged()
    status = Ledger(scene.ledger).status(DATASET)
    assert (status.spent.epsilon, status.left) == (ROOM, 0.5)
    assert [charge.state for charge in status.charges] == ["visible"] * ROOM


def test_of_three_with_one_target_one_is_published(table: Path, scene: Scene) -> None:
    ended = all_at_once(scene, table, [scene.target] * 3)
    assert sorted(one.code for one in ended) == [0, 2, 2]
    assert all("out must be a new folder" in one.check_one_line(2) for one in ended if one.code != 0)
    assert scene.leftovers() == []
    scene.check_all_charged()
    # Who came second and had drawn noise by then has spent it.
    drawn = sum(charge.sampling_at is not None for charge in scene.charges())
    assert Ledger(scene.ledger).status(DATASET).spent.epsilon == drawn
    assert sum(charge.state == "visible" for charge in scene.charges()) == 1
