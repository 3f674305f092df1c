import json
import shlex
from pathlib import Path

import pytest
from tests.cli.lines import run

from dimly.lab.population import make_population
from dimly.studio.background_work import Job
from dimly.studio.plan_draft import PlanDraft
from dimly.studio.sample_panel import SampleState, columns_of, command_of, tried

SEED = "ab" * 32


@pytest.mark.parametrize("text", ['{"user": 1, "place": "mill"}\n', "PK\x03\x04, and more", "SQLite format 3, x"])
def test_files_that_are_no_tables_here_have_no_columns(tmp_path: Path, text: str) -> None:
    for name in ("people.jsonl", "people.xlsx", "people.db", "people.csv.gz"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        assert columns_of(path) == ()


def test_the_command_tries_the_same_out(tmp_path: Path) -> None:
    path = tmp_path / "public people.csv"
    make_population(60, 40, n_groups=2, mean_weight=8, taste=40).write(path)
    state = SampleState()
    state.take(path, path.name)
    assert (state.user, state.attribute) == ("person", "place")
    draft = PlanDraft(seed=SEED, epsilon=4.0001234, purpose="distances", max_bytes_per_user=40, protect=2)
    found, _ = Job(lambda job: tried(state, draft, job)).found
    line = shlex.split(command_of(state, draft, force=found.verdict == "not feasible"))
    assert line[-2:] == ["-o", "plan.json"]
    line[line.index(path.name)] = str(path)
    said = json.loads(run(*line[1:-2], "--json").stdout)
    assert said["digest"] == found.plan.digest


def test_the_command_states_all_that_was_tried() -> None:
    state = SampleState(name="s.csv", user="the person", attribute="place")
    draft = PlanDraft(purpose="segments", unit="column", n_groups=3, max_bytes_per_user=99, delta=1.2345678e-9)
    line = command_of(state, draft, force=True)
    for part in (
        "--n-groups 3",
        "--unit column",
        "--max-bytes-per-user 99",
        "--delta 1.2345678e-09",
        "--user 'the person' --attribute place",
        "--force",
    ):
        assert part in line
    assert "--seed" not in line
    state.shape = "wide"
    assert "--user 'the person' --all-columns" in command_of(state, draft, force=False)
