"""What the demo says at its end holds for people of any number; tests/cli/test_demo.py runs it whole."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dimly
from dimly.lab import demo
from dimly.lab.demo import Ending, read_labels
from dimly.lab.population import make_population
from dimly.mechanisms import Plan
from dimly.privacy import Budget


@pytest.fixture(scope="module")
def ending() -> Ending:
    people = make_population(1_000, 2_000, n_groups=3, taste=60.0)
    release = dimly.publish(people.table, Plan.of("counting+laplace", Budget(4.0), k=256))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "population", lambda: people)
        patch.setattr(demo, "N_GROUPS", 3)
        return Ending.of(release, release.segments(3).labels)


def test_ours_is_close_to_the_truth_and_to_the_prediction(ending: Ending) -> None:
    assert ending.ours.error == pytest.approx(ending.ours.predicted, rel=0.25)  # one projection for all pairs
    assert ending.ours.coverage > 0.9
    assert ending.ours.agreement > 0.8
    assert ending.factor > 4
    assert ending.papers.agreement < ending.ours.agreement
    assert 0.98 < Budget(4.0).posterior(0.5) < 0.99
    assert ending.sure == Budget(demo.EPSILON).posterior(0.5)


def test_the_chart_holds_95_percent_of_all_estimates(ending: Ending) -> None:
    truth, papers, ours = ending.chart().lines
    assert truth.label == "the truth"
    for line in (papers, ours):
        assert line.upper is not None
        assert all(low < at < high for low, at, high in zip(line.y, line.x, line.upper, strict=True))
    widths = [np.mean(np.subtract(line.upper, line.y)) for line in (papers, ours)]  # type: ignore[arg-type]
    assert widths[0] > 4 * widths[1]


def test_the_first_command_makes_the_people_of_the_ending() -> None:
    words = demo.STEPS[0].command.split()
    first = dict(zip(words[1::2], words[2::2], strict=True))
    said = [first["--users"], first["--attributes"], first["--groups"], first["--taste"]]
    assert said == [f"{n:g}" for n in (demo.N_USERS, demo.N_ATTRIBUTES, demo.N_GROUPS, demo.TASTE)]


def test_the_ending_can_be_measured_again_on_the_same_people() -> None:
    people = demo.STEPS[0].command.partition(" --out")[0]
    assert f"{people} --plan plan.json --mechanism paper --epsilon {demo.EPSILON:g}" == demo.AGAIN


def test_labels_are_read_in_the_order_of_people(tmp_path: Path) -> None:

    path = tmp_path / "segments.parquet"
    pq.write_table(pa.table({"user": [2, 0, 1], "segment": pa.array([7, 5, 6], pa.int32())}), path)
    assert read_labels(path).tolist() == [5, 6, 7]
