import csv
import json
import shlex
from pathlib import Path

import pytest
from tests.cli.lines import run

from dimly.curator.tables.public_lists import read_vocabulary
from dimly.errors import ParameterError
from dimly.lab.population import make_population
from dimly.release.documents.survey_file import read_survey
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


def test_what_a_survey_spent_is_taken_off_and_the_list_is_kept(tmp_path: Path) -> None:
    path, roster, listed = tmp_path / "people.csv", tmp_path / "roster.csv", tmp_path / "list.txt"
    make_population(60, 40, n_groups=2, mean_weight=8, taste=40).write(path)
    people, places = (set(column) for column in zip(*csv.reader(path.read_text().splitlines()), strict=True))
    roster.write_text("person\n" + "\n".join(sorted(people - {"person"})))
    listed.write_text("\n".join(sorted((places - {"place"}) | {"nowhere"})))
    surveying = ("--user", "person", "--attribute", "place", "--roster", roster, "--ask", "weights", "--epsilon", 3)
    assert run("survey", path, *surveying, "-o", tmp_path / "survey.json").exit_code == 0
    draft = PlanDraft(
        seed=SEED,
        epsilon=4.0,
        purpose="distances",
        total=True,
        survey=read_survey(tmp_path / "survey.json"),
        survey_file=str(tmp_path / "survey.json"),
        vocabulary=read_vocabulary(listed),
        vocabulary_file=str(listed),
    )
    state = SampleState()
    state.take(path, str(path))
    found, _ = Job(lambda job: tried(state, draft, job)).found
    assert found.plan.cost.epsilon == 1.0
    assert found.plan.n_attributes == len(places)  # one of them nowhere, and none for the column's name
    line = shlex.split(command_of(state, draft, force=found.verdict == "not feasible"))
    assert json.loads(run(*line[1:-2], "--json").stdout)["digest"] == found.plan.digest


def test_amounts_are_not_tried_out_as_yes_and_no() -> None:
    state, draft = SampleState(path=Path("people.csv")), PlanDraft(has_values=True)
    with pytest.raises(ParameterError, match="amounts from 0 to 1 are tried out here only on a table with one column"):
        _ = Job(lambda job: tried(state, draft, job)).found


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
