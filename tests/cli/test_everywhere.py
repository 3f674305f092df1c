"""What is the same for all commands: short options, completion, questions in plain words."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.lines import run
from tests.folders import release_folder
from typer.testing import CliRunner

import dimly
from dimly.cli.app import COMMANDS as NAMES
from dimly.cli.app import app_for, application
from dimly.cli.reference import commands

COMMANDS: dict[str, Any] = dict(commands())


@pytest.mark.parametrize("path", COMMANDS)
def test_h_is_help_and_out_is_o(path: str) -> None:
    shown = run(*path.split()[1:], "-h")
    assert shown.exit_code == 0
    assert "Usage" in shown.stdout
    for option in COMMANDS[path].params:
        if "--out" in option.opts or "--output" in option.opts:
            assert {"-o", "--out"} <= set(option.opts)


def test_a_line_builds_the_command_that_it_calls_and_others_build_all() -> None:

    def built(app: typer.Typer) -> set[str]:
        top: Any = typer.main.get_command(app)
        return set(top.commands)

    everything = {name for names in NAMES.values() for name in names}
    assert built(application()) == everything
    for line, needed in (
        (["plan", "--epsilon", "1"], {"plan"}),
        (["ledger", "show"], {"ledger"}),
        (["plam"], everything),
        (["--help", "plan"], everything),
        ([], everything),
    ):
        assert built(app_for(line)) == needed


def test_v_is_the_version() -> None:
    assert run("-V").stdout == f"dimly {dimly.__version__}\n"


def test_a_shell_can_ask_what_comes_next() -> None:
    asked = os.environ | {"_DIMLY_COMPLETE": "complete_bash", "COMP_WORDS": "dimly pub", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-m", "dimly"], capture_output=True, text=True, check=False, env=asked)
    assert done.stdout.split() == ["publish"]
    assert "--install-completion" in run("--help").stdout


def test_a_plan_is_asked_for_in_plain_words(tmp_path: Path) -> None:
    answers = ["0.5", "4", "3", "5,000", "", "1000", "many", "40", "20", "100", str(tmp_path / "plan.json")]
    result = CliRunner(env={"NO_COLOR": "1"}).invoke(
        app_for(["plan"]), ["plan", "--interactive"], input="\n".join(answers) + "\n"
    )
    assert result.exit_code == 0, result.stderr
    assert "Please answer 1, 2 or 3." in result.stderr
    assert "Please answer with a number above 0" in result.stderr
    command = (
        "dimly plan --epsilon 0.5 --purpose segments --n-users 5000 --n-attributes 1000 --weight 40 --distance 20:100"
    )
    assert command in result.stderr
    assert json.loads((tmp_path / "plan.json").read_text())["budget"]["epsilon"] == 0.5


def test_questions_leave_stdout_to_the_answer(tmp_path: Path) -> None:
    answers = ["1", "1", "", "", "", "", "20", "100", str(tmp_path / "plan.json")]
    result = CliRunner().invoke(app_for(["plan"]), ["plan", "--interactive", "--json"], input="\n".join(answers) + "\n")
    assert result.stdout.startswith("{"), result.stderr
    assert json.loads(result.stdout)["distance"] == [20, 100]


def test_numbers_as_others_write_them_are_not_taken_for_others(tmp_path: Path) -> None:
    # Without the commas epsilon would be 5, and 1.600 people, as some countries write it, would be one.
    answers = ["0,5", "0,500", "0.5", "3", "1.600", "1,600", "", "1,5", "1,500", "40", "20", "100"]
    result = CliRunner(env={"NO_COLOR": "1"}).invoke(
        app_for(["plan"]), ["plan", "--interactive"], input="\n".join([*answers, str(tmp_path / "plan.json")]) + "\n"
    )
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count("Please answer with a point, as in 0.5, and without commas.") == 3
    assert result.stderr.count("Please answer with a whole number, such as 1000") == 1
    command = (
        "dimly plan --epsilon 0.5 --purpose segments --n-users 1600 --n-attributes 1500 --weight 40 --distance 20:100"
    )
    assert command in result.stderr


def test_a_public_list_is_asked_for(tmp_path: Path) -> None:
    courses = tmp_path / "our courses.txt"
    courses.write_text("".join(f"course {i}\n" for i in range(60)))
    answers = ["2", "3", "500", "no such file.txt", str(courses), "8", "6", "14", str(tmp_path / "plan.json")]
    result = CliRunner(env={"NO_COLOR": "1"}).invoke(
        app_for(["plan"]), ["plan", "--interactive"], input="\n".join(answers) + "\n"
    )
    assert result.exit_code == 0, result.stderr
    assert "There is no file 'no such file.txt'." in result.stderr
    assert "different attributes" not in result.stderr  # the list says how many
    assert f"--vocabulary '{courses}' --weight 8" in result.stderr
    assert json.loads((tmp_path / "plan.json").read_text())["vocabulary"]["size"] == 60


def test_options_are_the_answers_in_brackets(tmp_path: Path) -> None:
    given = ["--n-users", "5000", "--n-attributes", "1000", "--weight", "40", "--distance", "20:100"]
    line = ["plan", "--interactive", *given, "-o", str(tmp_path / "mine.json")]
    result = CliRunner(env={"NO_COLOR": "1"}).invoke(app_for(["plan"]), line, input="\n" * 9)
    assert result.exit_code == 0, result.stderr
    assert f"--purpose segments {' '.join(given)} -o {tmp_path / 'mine.json'}" in result.stderr
    assert (tmp_path / "mine.json").exists()


def test_what_cannot_be_used_is_asked_again_at_once(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("{}")
    paths = [str(tmp_path / "old.json"), str(tmp_path / "nowhere" / "plan.json"), str(tmp_path / "new.json")]
    answers = ["1", "3", "5000", "", "1000", "4000", "40", "100", "20", "20", "100", *paths]
    result = CliRunner(env={"NO_COLOR": "1"}).invoke(
        app_for(["plan"]), ["plan", "--interactive"], input="\n".join(answers) + "\n"
    )
    assert result.exit_code == 0, result.stderr
    assert "There are 1,000 attributes" in result.stderr
    assert "Please answer both again." in result.stderr
    assert "The file must be in a folder that exists" in result.stderr
    assert "--weight 40 --distance 20:100" in result.stderr
    assert (tmp_path / "old.json").read_text() == "{}"
    assert (tmp_path / "new.json").exists()


def test_nobody_answers() -> None:
    result = CliRunner().invoke(app_for(["plan"]), ["plan", "--interactive"], input="1\n")
    assert result.exit_code == 2
    assert "must be answered on a terminal" in result.stderr


def test_ids_are_listed(tmp_path: Path) -> None:
    release = release_folder(tmp_path / "release")
    users = dimly.open_release(release).users.tolist()
    assert run("inspect", release, "--ids").stdout.split() == [str(user) for user in users]
    assert run("inspect", release, "--ids", "--csv").stdout.split() == ["user", *map(str, users)]
    assert json.loads(run("inspect", release, "--ids", "--json").stdout) == {"users": users}


def test_what_the_publisher_says_is_shown(tmp_path: Path) -> None:
    table, plan, out = tmp_path / "visits.csv", tmp_path / "plan.json", tmp_path / "release"
    table.write_text("person,place,rating\n" + "".join(f"{i % 9},{i % 7},{i % 2}\n" for i in range(60)))
    assert run("plan", "--epsilon", 2, "--mechanism", "counting+laplace", "--k", 16, "--out", plan).exit_code == 0
    (tmp_path / "people.txt").write_text("".join(f"{i}\n" for i in range(9)))
    call = ["publish", table, "--plan", plan, "--user", "person", "--attribute", "place"]
    call += ["--roster", tmp_path / "people.txt"]
    said = ["--title", "Visits & more", "--publisher", "ACME <b>", "--note", "Only real visits."]
    done = run(*call, "-o", out, *said, "--where", "CAST(rating AS DOUBLE) > 0")
    assert done.exit_code == 0, done.stderr
    assert run("verify", out).exit_code == 0
    shown = run("inspect", out).stdout
    for words in ("Visits & more", "ACME <b>", "Only real visits."):
        assert words in shown
    page = tmp_path / "report.html"
    assert run("report", out, "-o", page, "--count", 2).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "<h1>Visits &amp; more</h1>" in text
    assert "ACME &lt;b&gt;" in text
    assert "Signature" in text
    dry = run(*call, "--dry-run")
    assert "None" not in dry.stdout
