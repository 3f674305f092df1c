import json
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from tests.cli.lines import answer, refusal, run

from dimly.cli.commands.plan import plan as plan_command
from dimly.mechanisms import Plan
from dimly.mechanisms.make import DTYPES
from dimly.privacy import RULES, UNITS, Budget

SMALL = ("plan", "--mechanism", "counting+laplace", "--k", "16", "--epsilon", "1")
SEED = "ab" * 32


def test_the_plan_is_the_one_that_python_makes(tmp_path: Path) -> None:
    made = Plan.of(
        "counting+laplace", Budget(1.0), k=16, seed=SEED, resolution=4, unit="column", dtype="int32", blend=0.0
    )
    options = ("--seed", SEED, "--resolution", 4, "--unit", "column", "--dtype", "int32", "--blend", 0)
    assert answer(*SMALL, *options)["digest"] == made.digest
    assert run(*SMALL, *options).stdout == made.to_json()
    path = tmp_path / "plan.json"
    assert answer(*SMALL, *options, "-o", path)["path"] == str(path)
    assert Plan.from_json(path.read_text(encoding="utf-8")) == made


def test_what_the_json_says() -> None:
    said = answer(*SMALL, "--seed", SEED)
    made = Plan.from_json(json.dumps(said["plan"]))
    assert said["digest"] == made.digest
    assert (said["mechanism"], said["k"], said["epsilon"], said["delta"]) == ("counting+laplace", 16, 1.0, 0.0)
    assert (said["unit"], said["bytes_per_user"], said["path"]) == ("attribute", 32, None)
    expected = {str(r2): float(made.error.distance()(r2)) ** 0.5 for r2 in (100, 400, 1600)}
    assert said["stderr_at"] == pytest.approx(expected)


def test_people_are_told_what_it_means(tmp_path: Path) -> None:
    result = run(*SMALL, "-o", tmp_path / "plan.json")
    assert (result.exit_code, result.stderr) == (0, "")
    digest = Plan.from_json((tmp_path / "plan.json").read_bytes()).digest
    for words in (digest, "32 bytes a person", "at squared distance 400", "by at most e^1 = 2.72", "73.2 % sure"):
        assert words in result.stdout


def test_without_a_file_the_words_are_on_stderr() -> None:
    result = run(*SMALL)
    Plan.from_json(result.stdout)
    assert "by at most e^1 = 2.72" in result.stderr


def test_delta_is_compared_with_people_who_are_not_known_yet() -> None:
    result = run("plan", "--mechanism", "sign+gaussian", "--k", 16, "--epsilon", 1, "--delta", 1e-6)
    assert "delta = 1e-06, which must be well below 1/n for n people." in result.stderr
    assert "1/n =" not in result.stderr


def test_delta_is_compared_with_people_who_are_stated() -> None:
    line = ("plan", "--mechanism", "sign+gaussian", "--k", 16, "--epsilon", 1, "--delta", 1e-6, "--n-users")
    result = run(*line, 1_000_000)
    assert "warning: delta = 1e-06 is not well below 1/n = 1e-06" in result.stderr
    Plan.from_json(result.stdout)
    assert "warning" not in run(*line, 1_000).stderr
    assert "--n-users must be an integer from 2" in refusal(*line, 1)


def test_distances_that_cannot_occur_are_left_out() -> None:
    said = answer("plan", "--mechanism", "randomized-response", "--n-attributes", 200, "--epsilon", 1)
    assert list(said["stderr_at"]) == ["100"]
    assert (said["k"], said["bytes_per_user"]) == (None, 25)
    result = run("plan", "--mechanism", "randomized-response", "--n-attributes", 20, "--epsilon", 1)
    assert "standard error" not in result.stderr
    assert "a closed list of 20" in result.stderr


def test_noisy_distances_and_values() -> None:
    said = answer(
        "plan", "--mechanism", "noisy-distances", "--n-users", 21, "--n-attributes", 50, "--epsilon", 2, "--delta", 1e-6
    )
    assert (said["plan"]["n_users"], said["bytes_per_user"]) == (21, 20)
    assert "in steps of 1/10" in run(*SMALL, "--resolution", 10).stderr


def test_a_vocabulary_from_a_file(tmp_path: Path) -> None:
    listed = tmp_path / "places.txt"
    listed.write_text("harbor\nmill\n", encoding="utf-8")
    said = answer(*SMALL, "--vocabulary", listed, "--seed", SEED)
    made = Plan.of("counting+laplace", Budget(1.0), k=16, seed=SEED, vocabulary=["harbor", "mill"])
    assert said["digest"] == made.digest


def test_an_existing_file_is_kept_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("mine", encoding="utf-8")
    assert "Add --overwrite" in refusal(*SMALL, "-o", path)
    assert path.read_text(encoding="utf-8") == "mine"
    assert run(*SMALL, "-o", path, "--overwrite").exit_code == 0
    Plan.from_json(path.read_bytes())
    assert list(tmp_path.iterdir()) == [path]


def test_refusals() -> None:
    assert "k must be given together with mechanism" in refusal("plan", "--epsilon", 1, "--k", 16)
    assert "epsilon must be > 0" in refusal(*SMALL[:-1], 0)
    assert "got 'nonsense'" in refusal("plan", "--epsilon", 1, "--mechanism", "nonsense")


def test_choices_are_those_of_the_rooms() -> None:
    hints = get_type_hints(plan_command)
    assert get_args(hints["unit"]) == UNITS
    assert get_args(hints["rule"]) == RULES
    assert get_args(get_args(hints["dtype"])[0]) == DTYPES  # or none


def test_several_attributes_can_be_protected_together() -> None:
    given = ("plan", "--epsilon", 1, "--mechanism", "counting+laplace", "--k", 8)
    told = answer(*given, "--protect", 4)
    assert (told["epsilon"], told["together"]) == (
        0.25,
        {"count": 4, "unit": "attribute", "epsilon": 1.0, "delta": 0.0},
    )
    assert "together" not in answer(*given)
    chosen = answer("plan", "--epsilon", 1, "--distance", "100:800", "--protect", 2)
    assert (chosen["epsilon"], chosen["together"]["count"]) == (0.5, 2)
    assert "Any 4 attributes of one person together" in run(*given, "--protect", 4).stderr
    assert "protect must be an integer" in refusal(*given, "--protect", 0)


def test_a_plan_says_how_many_it_protects_together(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    given = ("plan", "--epsilon", 1, "--distance", "100:800")
    told = run(*given, "--protect", 3, "-o", path)
    assert told.exit_code == 0, told.stderr
    sentence = (
        "Any 3 attributes of one person together: their odds change by at most e^1 = 2.72 (epsilon = 1, delta = 0)."
    )
    assert sentence in told.stdout
    assert "are about one of them" in told.stdout
    assert json.loads(path.read_text())["protect"] == 3
    assert run(*given, "-o", path, "--overwrite").exit_code == 0
    assert "protect" not in json.loads(path.read_text())
    scales = ("plan", "--epsilon", 4, "--scales", "50,800", "--protect", 2)
    assert "Any 2 attributes of one person together: their odds change by at most e^4" in run(*scales).stdout
    found = answer(*scales)
    assert found["together"] == {"count": 2, "unit": "attribute", "epsilon": 4.0, "delta": 0.0}
    assert [one["epsilon"] for one in found["scales"]] == [1.0, 1.0]
