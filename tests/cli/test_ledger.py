import json
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from tests.cli.lines import answer, refusal, run
from tests.folders import release_folder
from tests.processes import in_a_fork

from dimly.cli.commands.ledger import init
from dimly.curator.ledger.ledger import FILTER_METHODS, Ledger
from dimly.privacy import UNITS, Cost

DIGEST = "ab" * 32


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a ledger with one dataset."""
    path = tmp_path / "ledger.db"
    assert run("ledger", "init", path, "--dataset", "visits", "--epsilon", 2).exit_code == 0
    return path


def left_by_a_dead_process(file: Path) -> int:
    def work() -> bytes:
        return str(Ledger(file).reserve("visits", Cost(0.5), plan_digest=DIGEST, recipient="ACME").id).encode()

    return int(in_a_fork(work))


@pytest.mark.parametrize("options", [("--epsilon", 0), ("--epsilon", "nan"), ("--epsilon", 1, "--delta", 2)])
def test_a_budget_that_cannot_be_leaves_no_ledger(tmp_path: Path, options: tuple[object, ...]) -> None:
    refusal("ledger", "init", tmp_path / "ledger.db", "--dataset", "visits", *options)
    assert not list(tmp_path.iterdir())


def test_init_makes_a_ledger_and_adds_to_it(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    said = answer("ledger", "init", file, "--dataset", "visits", "--epsilon", 2)
    assert said["ledger"] == str(file)
    (visits,) = said["datasets"]
    assert (visits["name"], visits["epsilon"], visits["delta"], visits["left"]) == ("visits", 2.0, 0.0, 2.0)
    assert (visits["unit"], visits["method"], visits["charges"]) == ("attribute", "sum", [])
    options = ("--delta", 1e-6, "--unit", "column", "--method", "sum")
    (taste,) = answer("ledger", "init", file, "--dataset", "taste", "--epsilon", 1, *options)["datasets"]
    assert (taste["delta"], taste["unit"], taste["method"]) == (1e-6, "column", "sum")
    assert Ledger(file).datasets() == ("taste", "visits")


def test_show_for_people(file: Path) -> None:
    empty = run("ledger", "show", file)
    assert (empty.exit_code, empty.stderr) == (0, "")
    assert "one release of epsilon = 2, delta = 0\n" in empty.stdout
    charge = left_by_a_dead_process(file)
    shown = run("ledger", "show", file).stdout
    for words in (
        "epsilon = 0.5, delta = 0 (all charges added up)",
        "epsilon = 1.5, delta = 0\n",
        "reserved (process gone)",
        "ACME",
        DIGEST[:12],
    ):
        assert words in shown
    assert run("ledger", "forgive", file, charge, "--reason", "it was killed").stdout == f"forgiven: charge {charge}\n"
    shown = run("ledger", "show", file).stdout
    assert f"charge {charge}: it was killed\n" in shown
    assert "epsilon = 2, delta = 0\n" in shown


def test_nothing_left_and_appends(file: Path) -> None:
    charge = Ledger(file).reserve("visits", Cost(2.0), plan_digest=DIGEST)
    charge.claim_users([["7", "8"]])
    charge.start_sampling()
    charge.seal(release_id="cd" * 32)
    charge.make_visible()
    Ledger(file).reserve_append("visits", release_id="cd" * 32, plan_digest=DIGEST)
    shown = run("ledger", "show", file).stdout
    for words in ("nothing\n", "release  visible", "append   reserved", "cdcdcdcdcdcd"):
        assert words in shown


def test_show_one_dataset_or_all(file: Path) -> None:
    run("ledger", "init", file, "--dataset", "taste", "--epsilon", 1)
    assert [status["name"] for status in answer("ledger", "show", file)["datasets"]] == ["taste", "visits"]
    assert [status["name"] for status in answer("ledger", "show", file, "--dataset", "taste")["datasets"]] == ["taste"]
    assert run("ledger", "show", file).stdout.count("dataset") == 2


def test_export(file: Path) -> None:
    left_by_a_dead_process(file)
    whole = run("ledger", "export", file)
    assert whole.stdout.startswith("{\n")
    one_line = answer("ledger", "export", file)
    without_time = [{**each, "exported_at": None} for each in (json.loads(whole.stdout), one_line)]
    assert without_time[0] == without_time[1]
    assert one_line["datasets"][0]["charges"][0]["recipient"] == "ACME"


def test_forgive_as_json_and_by_force(file: Path) -> None:
    charge = Ledger(file).reserve("visits", Cost(0.5), plan_digest=DIGEST)
    assert "--force" in refusal("ledger", "forgive", file, charge.id, "--reason", "x", code=1)
    said = answer("ledger", "forgive", file, charge.id, "--reason", "tests", "--force")
    assert said == {"ledger": str(file), "forgiven": charge.id, "reason": "tests"}
    assert charge.state == "forgiven"


def test_confirm(file: Path) -> None:
    charge = Ledger(file).reserve("visits", Cost(0.5), plan_digest=DIGEST)
    assert "must be of a complete release" in refusal("ledger", "confirm", file, charge.id, code=1)
    charge.start_sampling()
    charge.seal(release_id="cd" * 32)
    assert run("ledger", "confirm", file, charge.id).stdout == f"visible: charge {charge.id}\n"
    assert charge.state == "visible"
    assert answer("ledger", "confirm", file, charge.id) == {"ledger": str(file), "confirmed": charge.id}


def test_refusals(file: Path, tmp_path: Path) -> None:
    assert "must be new" in refusal("ledger", "init", file, "--dataset", "visits", "--epsilon", 1)
    assert "dimly ledger init" in refusal("ledger", "show", tmp_path / "none.db")
    assert "got 'other'" in refusal("ledger", "show", file, "--dataset", "other")
    assert "got 7" in refusal("ledger", "forgive", file, 7, "--reason", "x")
    assert "'--reason'" in refusal("ledger", "forgive", file, 7)
    assert "'CHARGE'" in refusal("ledger", "forgive", file, "first", "--reason", "x")
    assert "epsilon must be > 0" in refusal("ledger", "init", tmp_path / "new.db", "--dataset", "d", "--epsilon", 0)


def test_choices_are_those_of_the_rooms() -> None:
    hints = get_type_hints(init)
    assert get_args(hints["unit"]) == UNITS
    assert {each for choice in get_args(hints["method"]) for each in get_args(choice)} == set(FILTER_METHODS)


def test_several_attributes_together_are_told(file: Path) -> None:
    Ledger(file).reserve("visits", Cost(0.25, together=4), plan_digest=DIGEST)
    Ledger(file).reserve("visits", Cost(0.5), plan_digest=DIGEST)
    told = [line for line in run("ledger", "show", file).stdout.splitlines() if "together" in line]
    words = "any 4 attributes of one person together: their odds change by at most e^1 = 2.72 (epsilon = 1, delta = 0)"
    assert told == [f"charge 1: {words}"]
    first, second = answer("ledger", "show", file)["datasets"][0]["charges"]
    assert first["cost"]["together"] == 4
    assert "together" not in second["cost"]  # as in every ledger before


def test_a_release_without_a_ledger_is_entered_later(file: Path, tmp_path: Path) -> None:
    release = release_folder(tmp_path / "release")  # epsilon 1
    entered = run("ledger", "enter", file, release, "--dataset", "visits", "--recipient", "ACME")
    assert (entered.exit_code, entered.stderr) == (0, "")
    for words in (
        "entered: charge 1\n",
        "epsilon = 1, delta = 0 (all charges added up)",
        "charge 1: entered after it was published",
        "ACME",
    ):
        assert words in entered.stdout
    line = refusal("ledger", "enter", file, release, "--dataset", "visits", code=1)
    assert line == "error: RELEASE must be entered once, but charge 1 is its own already."
    (said,) = answer("ledger", "show", file)["datasets"]
    assert (said["spent"]["epsilon"], said["left"], len(said["charges"])) == (1.0, 1.0, 1)


def test_what_is_entered_may_exceed_the_budget_and_says_so(tmp_path: Path) -> None:
    file, release = tmp_path / "ledger.db", release_folder(tmp_path / "release")
    assert run("ledger", "init", file, "--dataset", "visits", "--epsilon", 0.5).exit_code == 0
    entered = run("ledger", "enter", file, release, "--dataset", "visits")
    assert entered.exit_code == 0
    assert entered.stderr.startswith("warning: dataset 'visits' is over its budget.")
    assert "left     nothing: the budget is exceeded" in entered.stdout
