"""``dimly plan`` without a mechanism or k: the planner chooses."""

import json
import math
import re
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from tests.cli.lines import answer, refusal, run

from dimly.cli.commands.plan import plan as plan_command
from dimly.cli.terminal import print_fields
from dimly.mechanisms import MECHANISMS, Plan
from dimly.planner.brief import PURPOSES

NOT_FEASIBLE = ("plan", "--epsilon", 0.05, "--distance", 50)


@pytest.mark.parametrize(
    ("line", "mechanism", "verdict"),
    [
        ("--epsilon 4 --n-attributes 700 --numbered --distance 400", "randomized-response", "good"),
        ("--epsilon 4 --n-attributes 700 --distance 400", "counting+laplace", "good"),
        ("--epsilon 4 --n-attributes 100000 --distance 400", "counting+laplace", "good"),
        ("--epsilon 2", "counting+laplace", "unknown"),
        ("--epsilon 2 --weight 11", "counting+laplace", "coarse"),
        ("--epsilon 2 --n-attributes 5000 --purpose segments", "counting+laplace", "unknown"),
        ("--epsilon 0.05 --distance 50", "counting+laplace", "not feasible"),
        ("--epsilon 0.5 --distance 100:200", "counting+laplace", "coarse"),
    ],
)
def test_choices(line: str, mechanism: str, verdict: str) -> None:
    said = answer("plan", *line.split())
    assert (said["mechanism"], said["verdict"]) == (mechanism, verdict)


def test_what_the_json_says() -> None:
    line = "plan --epsilon 1 --delta 1e-9 --n-attributes 100000 --n-users 1000000 --distance 100:800 --weight 500"
    said = answer(*line.split())
    made = Plan.from_json(json.dumps(said["plan"]))
    assert said["digest"] == made.digest
    assert made.projection is not None
    assert (said["mechanism"], said["k"]) == (made.mechanism, made.projection.k)
    exact = math.sqrt(float(made.error.distance(weights=(500, 500))(800.0)))
    assert said["stderr"] == pytest.approx(exact)
    first = said["candidates"][0]
    assert (first["mechanism"], first["k"], first["stderr_high"]) == (said["mechanism"], said["k"], said["stderr"])
    known = {one["mechanism"] for one in said["candidates"]} | set(said["left_out"])
    assert known == set(MECHANISMS)
    assert said["smallest_epsilon"]["coarse"] <= said["smallest_epsilon"]["good"] <= 1
    assert [rule["criterion"] for rule in said["paper"]] == ["variance", "deviation"]
    assert "e^500" in said["meaning"][1]
    assert (said["distance"], said["purpose"], said["path"]) == ([100, 800], "distances", None)


def test_people_get_a_table_and_a_verdict(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    line = "plan --epsilon 1 --n-attributes 5000 --distance 100:800 --weight 500"
    short = run(*line.split(), "-o", path)
    assert (short.exit_code, short.stderr) == (0, "")
    made = Plan.from_json(path.read_bytes())
    assert made.mechanism == "counting+laplace"
    assert short.stdout.startswith("verdict")
    assert len(short.stdout.splitlines()) == 10
    for words in (
        "Good: single pairs can be told apart. The smallest epsilon that would do is",
        "epsilon = 1, delta = 0. A guess about one attribute that was 50 % sure becomes at most 73.2",
        "All 500 attributes of a person together are not protected",
        "not protected   who is in the release",
        f"{made.mechanism}, {made.k} numbers, ",
        f"Next: dimly publish TABLE --plan {path} --user COLUMN --attribute COLUMN",
        "Add --verbose",
        made.digest,
    ):
        assert words in short.stdout
    result = run(*line.split(), "-o", path, "--overwrite", "--verbose")
    made = Plan.from_json(path.read_bytes())
    assert result.stdout.startswith("verdict")
    assert "Add --verbose" not in result.stdout
    for words in (
        "at 100  at 800  near first",
        "how often a near pair ranks before a far one",
        "has the smallest error",
        "Good: single pairs can be told apart. The smallest epsilon that would do is",
        "a near pair ranks before a far one with",
        "good from 90 %, coarse from 55 %",
        "paper, by variance",
        "paper, by deviation",
        "(it needs a --delta above 0)",
        "(it needs the public list of attributes (--vocabulary), or that they are numbers (--numbered))",
        "becomes at most 73.2 %",
        "All 500 attributes of a person together are not protected",
        made.digest,
    ):
        assert words in result.stdout
    assert "assumed" not in result.stdout


def test_what_the_verdict_goes_by_and_what_was_assumed() -> None:
    line = "plan --epsilon 1 --n-attributes 5000 --distance 100:120 --n-users 20000 --purpose segments"
    said, shown = answer(*line.split()), run(*line.split(), "-v").stdout
    assert said["figure"] == said["candidates"][0]["agreement"]
    assert f"agree with compact groups by {said['figure']:.2f} (adjusted Rand index" in shown
    assert "good from 0.7, coarse from 0.2" in shown
    assert "people have 60 attributes, so that far pairs share nothing (--weight); 6 groups of equal size" in shown
    near = answer(*line.replace("segments", "neighbors").split())
    assert near["figure"] == near["candidates"][0]["closeness"]
    shown = run(*line.replace("segments", "neighbors").split(), "-v").stdout
    figure = f"{100 * near['figure']:.0f} %"
    assert f"those found are {figure} of the way from random people to the nearest; good from 60 %" in shown
    light = run("plan", "--epsilon", 1, "--distance", "100:800", "--weight", 60).stdout
    assert "at squared distance 800 have 400 attributes each: those of 60 cannot differ in more than 120" in light


def test_what_comes_next_for_columns_of_categories(tmp_path: Path) -> None:
    line = "plan --epsilon 4 --distance 4:40 --unit column --force -o"
    said = run(*line.split(), tmp_path / "plan.json").stdout
    assert "--user COLUMN --columns COLUMN,COLUMN --out DIR --dry-run" in said


def test_pairs_that_cannot_be_have_no_verdict() -> None:
    said = answer("plan", "--epsilon", 2, "--weight", 11, "--distance", 400)
    assert said["verdict"] == "unknown"
    (missing,) = said["unstated"]
    assert missing.startswith("a distance of at most 22, or a weight of at least 100: people who have 11 attributes")
    # Near pairs of these may be, far ones may not: without people so far away there is nothing to tell apart.
    assert answer("plan", "--epsilon", 3, "--weight", 11, "--distance", "10:400")["verdict"] == "unknown"
    assert answer("plan", "--epsilon", 2, "--weight", 11, "--distance", 22)["verdict"] != "unknown"


def test_what_is_unknown_is_said_with_what_to_state(tmp_path: Path) -> None:
    said = answer("plan", "--epsilon", 2, "-o", tmp_path / "plan.json")  # written all the same
    assert (said["verdict"], said["stated"], said["unstated"]) == ("unknown", "nothing", ["distance or weight"])
    assert said["smallest_epsilon"] == {"coarse": None, "good": None}
    assert "Unknown: too little was stated" in run("plan", "--epsilon", 2).stdout
    few = "plan --epsilon 2 --purpose segments --distance 100:110"
    assert answer(*few.split())["unstated"] == ["n_users"]
    told = answer(*few.split(), "--n-users", 9_000)
    assert (told["verdict"], told["range"], told["unstated"]) == ("unknown", ["not feasible", "good"], [])
    shown = run(*few.split(), "--n-users", 9_000, "--verbose").stdout
    assert "--sample" in shown
    assert f"agree with compact groups by {told['figure']:.2f}" in shown
    assert answer(*few.split(), "--n-users", 9_000, "--n-groups", 100)["verdict"] == "not feasible"
    hopeless = ("plan", "--epsilon", 0.01, "--purpose", "segments", "--distance", "100:101", "-o", tmp_path / "p.json")
    assert "Use a larger --epsilon, or add --force" in refusal(*hopeless)


def test_counted_attributes_do_not_close_a_list_that_may_stay_open(tmp_path: Path) -> None:
    line = "plan --epsilon 2 --mechanism counting+laplace --k 8 --n-attributes 50"
    assert "vocabulary" not in answer(*line.split())["plan"]
    assert answer(*line.split(), "--numbered")["plan"]["vocabulary"]["size"] == 50
    assert "numbered must be given with --n-attributes" in refusal("plan", "--epsilon", 2, "--numbered")


def test_a_list_of_numbers_is_said_to_be_one(tmp_path: Path) -> None:
    line = "plan --epsilon 4 --n-attributes 700 --numbered"
    assert "0 to 699, by number: all others are left out" in run(*line.split()).stdout
    words = tmp_path / "words.txt"
    words.write_text("".join(f"place {i}\n" for i in range(700)))
    assert "by number" not in run("plan", "--epsilon", 4, "--vocabulary", words).stdout
    assert "by number" not in run("plan", "--epsilon", 4, "--n-attributes", 100_000).stdout


def test_what_takes_long_is_announced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dimly.cli.commands.plan._MANY_ROWS", 500)
    line = "plan --epsilon 4 --mechanism ternary+laplace --k 8 --n-attributes"
    assert run(*line.split(), 500, "-o", tmp_path / "a.json").stderr == (
        "Drawing 500 rows of ternary to find the longest; this may take minutes.\n"
    )
    assert run(*line.split(), 499, "-o", tmp_path / "b.json").stderr == ""
    counting = line.replace("ternary", "counting")
    assert run(*counting.split(), 500, "-o", tmp_path / "c.json").stderr == ""


def test_long_fields_fold_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fields = {"name": "one two three four five six seven eight", "digest": 50 * "a"}
    print_fields(fields)
    assert len(capsys.readouterr().out.splitlines()) == 2
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_fields(fields)
    assert re.sub("\x1b\\[\\d+m", "", capsys.readouterr().out).splitlines() == [
        "name    one two three four five six",
        "        seven eight",
        f"digest  {50 * 'a'}",
    ]


def test_what_is_not_feasible_is_written_only_by_force(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert run(*NOT_FEASIBLE).exit_code == 0
    line = refusal(*NOT_FEASIBLE, "-o", path)
    assert line == (
        "error: no plan was written, because its verdict is not feasible. "
        "Use --epsilon 0.29 or more, or add --force to write it anyway."
    )
    assert not path.exists()
    assert run(*NOT_FEASIBLE, "-o", path, "--force").exit_code == 0
    Plan.from_json(path.read_bytes())
    hopeless = ("plan", "--epsilon", 1, "--distance", "1000000:1000001", "-o", path, "--overwrite")
    assert "No epsilon up to 32 would do." in refusal(*hopeless)


def test_a_mechanism_without_k_gets_its_best() -> None:
    said = answer("plan", "--epsilon", 1, "--mechanism", "hashing+laplace")
    assert said["mechanism"] == "hashing+laplace"
    assert [one["mechanism"] for one in said["candidates"]] == ["hashing+laplace"]


def test_purposes_and_sizes() -> None:
    arguments = ("plan", "--epsilon", 2, "--distance", "100:120")
    plain, wide = (answer(*arguments, "--purpose", purpose)["k"] for purpose in ("distances", "segments"))
    assert wide == 4 * plain
    assert answer(*arguments, "--purpose", "segments", "--max-bytes-per-user", "0.2kB")["bytes_per_user"] <= 200
    hints = get_type_hints(plan_command)
    assert get_args(hints["purpose"]) == PURPOSES


def test_values_and_vocabularies(tmp_path: Path) -> None:
    said = answer("plan", "--epsilon", 2, "--resolution", 10)
    assert said["plan"]["resolution"] == 10
    listed = tmp_path / "places.txt"
    listed.write_text("".join(f"place {i}\n" for i in range(50)), encoding="utf-8")
    said = answer("plan", "--epsilon", 4, "--vocabulary", listed, "--distance", 20)
    assert (said["mechanism"], said["plan"]["vocabulary"]["size"]) == ("randomized-response", 50)


def test_delta_that_is_too_large_is_warned_of() -> None:
    result = run("plan", "--epsilon", 1, "--delta", 1e-3, "--n-users", 1000)
    assert result.exit_code == 0
    assert "warning: delta = 0.001 is not well below 1/n = 0.001" in result.stderr


def test_several_scales(tmp_path: Path) -> None:
    arguments = ("plan", "--epsilon", 1, "--scales", "50,200,800")
    said = answer(*arguments, "-o", tmp_path / "plan.json")
    assert [scale["distance"] for scale in said["scales"]] == [50, 200, 800]
    for scale in said["scales"]:
        made = Plan.from_json(Path(scale["path"]).read_bytes())
        assert made.digest == scale["digest"]
        assert made.cost.epsilon == pytest.approx(1 / 3)
        assert scale["stderr_one"] < scale["stderr_together"] < scale["stderr_alone"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan-200.json", "plan-50.json", "plan-800.json"]
    assert said["one"]["mechanism"] == "counting+laplace"
    assert said["worth_it"] is False
    assert "Add --overwrite" in refusal(*arguments, "-o", tmp_path / "plan.json")
    result = run(*arguments, "-o", tmp_path / "plan.json", "--overwrite")
    assert "One sketch is better at every scale" in result.stdout
    assert "plan-800.json" in result.stdout


def test_scales_that_look_alike_get_a_file_each(tmp_path: Path) -> None:
    arguments = ("plan", "--epsilon", 1, "--scales", "1234567,1234568", "-o", tmp_path / "plan.json", "--force")
    assert len({scale["path"] for scale in answer(*arguments)["scales"]}) == 2
    assert {one.name for one in tmp_path.iterdir()} == {"plan-1234567.0.json", "plan-1234568.0.json"}


def test_scales_are_not_written_under_the_name_of_a_folder(tmp_path: Path) -> None:
    for folder in ("/", tmp_path):
        said = refusal("plan", "--epsilon", 1, "--scales", "50,200", "-o", folder)
        assert f"--out must be a file, got '{folder}', which is a folder" in said


def test_several_scales_keep_the_rules_of_one_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    arguments = ("plan", "--epsilon", 0.05, "--delta", 1e-2, "--n-users", 1_000, "--scales", "20,50", "-o", path)
    assert "plans that are not feasible" in refusal(*arguments)
    assert list(tmp_path.iterdir()) == []
    result = run(*arguments, "--force")
    assert "warning: delta = 0.01 is not well below 1/n = 0.001" in result.stderr
    assert "Not feasible: with all sketches together not even groups" in result.stdout
    assert "becomes at most" in result.stdout
    for written in tmp_path.iterdir():
        assert Plan.from_json(written.read_bytes()).digest in result.stdout
    said = json.loads(run(*arguments, "--force", "--overwrite", "--json").stdout)
    assert said["verdict"] == "not feasible"
    assert (len(said["warnings"]), len(said["meaning"])) == (1, 1)


def test_a_mechanism_without_k_is_judged_where_distances_are_stated() -> None:
    arguments = ("plan", "--epsilon", 1, "--mechanism", "randomized-response", "--n-attributes", 5_000)
    said = answer(*arguments, "--distance", "100:400")
    assert (said["mechanism"], said["k"], said["verdict"]) == ("randomized-response", None, "good")
    assert "verdict" not in answer(*arguments)
    assert "rule must be given together" in refusal(*arguments, "--distance", "100:400", "--rule", "lemma1")


def test_refusals() -> None:
    explicit = ("plan", "--epsilon", 1, "--mechanism", "counting+laplace", "--k", 16)
    assert "distance must be left out where mechanism and k, or directions," in refusal(*explicit, "--distance", 100)
    assert "purpose must be left out" in refusal(*explicit, "--purpose", "segments")
    assert "blend must be given together with mechanism and k" in refusal("plan", "--epsilon", 1, "--blend", 0)
    assert "rule must be given together" in refusal("plan", "--epsilon", 1, "--rule", "lemma1")
    assert "distance must be numbers with ':' between" in refusal("plan", "--epsilon", 1, "--distance", "near")
    assert "one squared distance or two, got 3" in refusal("plan", "--epsilon", 1, "--distance", "1:2:3")
    assert "scales must be numbers with ',' between" in refusal("plan", "--epsilon", 1, "--scales", "50;200")
    assert "scales must be given without" in refusal("plan", "--epsilon", 1, "--scales", "50,200", "--distance", 1)
    assert "must be a size such as" in refusal("plan", "--epsilon", 1, "--max-bytes-per-user", "many")
