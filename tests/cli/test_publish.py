"""What ``publish`` makes of its options; what comes of them is tested where it is done."""

import importlib
import json
import os
import signal
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.cli.lines import answer, refusal, run
from tests.plans import plan_of

from dimly.cli import terminal
from dimly.curator import publication as curator_run
from dimly.curator.options import Options
from dimly.curator.publication import PublishOutcome

PLAN = plan_of("counting+laplace")
publish_command = importlib.import_module("dimly.cli.commands.publish")
Calls = list[tuple[Any, dict[str, Any]]]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """Return a plan's file."""
    path = tmp_path / "plan.json"
    path.write_text(PLAN.to_json(), encoding="utf-8")
    return path


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Return what publishing was called with; it says what it would say, and does nothing."""
    made: Calls = []

    def publish_table(source: Any, plan: Any, given: Options) -> PublishOutcome:
        assert plan == PLAN
        options = {field.name: getattr(given, field.name) for field in fields(Options)}
        made.append((source, options))
        options["progress"].phase("reading")
        options["progress"].start(1_000)
        options["progress"].advance(1_000)
        return PublishOutcome(
            path=None if options["dry_run"] else Path(options["out"]),
            n_users=1_000,
            bytes=64_000,
            cost=PLAN.cost,
            plan_digest=PLAN.digest,
            release_id=None if options["dry_run"] else "ab" * 32,
            ledger={"dataset": options["dataset"], "charge": None if options["dry_run"] else 3, "left": 0.5}
            if options["ledger"]
            else None,
            warnings=() if options["ledger"] else ("No ledger: nothing keeps count.",),
            diagnostics={"rows": 4_321},
        )

    monkeypatch.setattr(curator_run, "publish_table", publish_table)
    return made


def line(plan: Path, *more: object) -> tuple[object, ...]:
    return ("publish", "visits.parquet", "--plan", plan, "--user", "person", *more)


def test_a_signal_after_publishing_does_not_say_that_it_was_stopped(
    plan: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = terminal.print_fields

    def show(fields: Any, **options: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        shown(fields, **options)

    monkeypatch.setattr(publish_command, "print_fields", show)
    result = run(*line(plan, "--attribute", "place", "--out", "release", "--ledger", "ledger.db", "--dataset", "x"))
    assert (result.exit_code, result.stderr) == (0, "")
    assert "release" in result.stdout
    assert len(calls) == 1


def test_where_the_account_fails_the_release_is_said_to_be_out(
    plan: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "as of a full disk")

    monkeypatch.setattr(publish_command, "print_fields", full)
    line = ["publish", "t.parquet", "--plan", plan, "--user", "u", "--attribute", "a", "--out", "release"]
    ledger = ["--ledger", "l.db", "--dataset", "d"]
    said = refusal(*line, *ledger, code=1)
    done = "release is published, and charge 3 recorded: only what came after it failed."
    assert said == f"error: No space left on device. {done}"
    assert refusal(*line, "--dry-run", *ledger, code=1) == "error: No space left on device"
    assert len(calls) == 2


def test_every_option_arrives(plan: Path, calls: Calls) -> None:
    options: dict[str, tuple[object, object]] = {
        "attribute": ("place", "place"),
        "value": ("share", "share"),
        "roster": ("people.txt", Path("people.txt")),
        "vocabulary": ("places.txt", Path("places.txt")),
        "directions": ("directions.parquet", Path("directions.parquet")),
        "volunteers": ("volunteers.txt", Path("volunteers.txt")),
        "pseudonyms": ("key", Path("key")),
        "out": ("release", "release"),
        "ledger": ("ledger.db", Path("ledger.db")),
        "dataset": ("visits", "visits"),
        "recipient": ("ACME", "ACME"),
        "update": ("older", Path("older")),
        "table": ("t", "t"),
        "query": ("SELECT 1", "SELECT 1"),
        "delimiter": (";", ";"),
        "quote": ("'", "'"),
        "escape": ("\\", "\\"),
        "encoding": ("latin-1", "latin-1"),
        "memory": ("1.5GiB", 3 << 29),
        "threads": ("3", 3),
        "temp": ("/tmp/spill", Path("/tmp/spill")),  # noqa: S108
        "nulls": ("drop", "drop"),
        "values": ("clamp", "clamp"),
        "diagnose": ("private.json", Path("private.json")),
        "where": ("rating > 0", "rating > 0"),
        "title": ("Visits", "Visits"),
        "publisher": ("City", "City"),
        "note": ("spring", "spring"),
    }
    given = [word for name, (text, _) in options.items() for word in (f"--{name}", text)]
    answer(
        *line(
            plan,
            *given,
            "--attribute-list",
            "places",
            "--all-columns",
            "--except-volunteers",
            "--overwrite",
            "--dry-run",
        )
    )
    ((source, passed),) = calls
    assert source == "visits.parquet"
    passed.pop("progress")
    assert passed == {name: value for name, (_, value) in options.items()} | {
        "user": "person",
        "attributes": "places",
        "columns": "all",
        "except_volunteers": True,
        "overwrite": True,
        "dry_run": True,
        "users": None,
        "append": None,
    }
    answer(*line(plan, "--append", "old", "--ledger", "ledger.db", "--dataset", "visits", "--dry-run"))
    assert calls[-1][1]["append"] == Path("old")


def test_defaults(plan: Path, calls: Calls) -> None:
    run(*line(plan, "--attribute", "place", "--out", "release"))
    ((_, passed),) = calls
    assert (passed.pop("nulls"), passed.pop("values")) == ("refuse", "refuse")
    assert (passed.pop("overwrite"), passed.pop("dry_run"), passed.pop("except_volunteers")) == (False, False, False)
    passed.pop("progress")
    assert {name: value for name, value in passed.items() if value is not None} == {
        "user": "person",
        "attribute": "place",
        "out": "release",
    }


def test_several_sources_columns_and_tabs(plan: Path, calls: Calls) -> None:
    options = ("--plan", plan, "--user", "person", "--out", "release")
    for delimiter in ("tab", "\\t", "\t"):
        run("publish", "a.csv", "b.csv", *options, "--columns", 'x,"y,z"', "--columns", "w", "--delimiter", delimiter)
    assert len(calls) == 3
    for source, passed in calls:
        assert source == ["a.csv", "b.csv"]
        assert passed["columns"] == ("x", "y,z", "w")
        assert passed["delimiter"] == "\t"


def test_what_the_json_says(plan: Path, calls: Calls) -> None:
    said = answer(*line(plan, "--attribute", "place", "--out", "release", "--ledger", "l.db", "--dataset", "visits"))
    assert said == {
        "release": "release",
        "users": 1_000,
        "bytes": 64_000,
        "epsilon": 1.0,
        "delta": 0.0,
        "plan_digest": PLAN.digest,
        "ledger": {"dataset": "visits", "charge": 3, "left": 0.5},
    }


def test_what_people_are_told(plan: Path, calls: Calls) -> None:
    result = run(*line(plan, "--attribute", "place", "--out", "release", "--ledger", "l.db", "--dataset", "visits"))
    assert (result.exit_code, result.stderr) == (0, "")
    for words in (
        "release",
        "ab" * 32,
        "1,000",
        "64 kB",
        "epsilon = 1, delta = 0",
        "dataset visits, charge 3, left 0.5",
    ):
        assert words in result.stdout


def test_warnings_are_on_stderr(plan: Path, calls: Calls) -> None:
    result = run(*line(plan, "--attribute", "place", "--out", "release", "--json"))
    assert result.stderr == "warning: No ledger: nothing keeps count.\n"
    assert json.loads(result.stdout)["ledger"] is None


def test_a_dry_run_needs_no_folder(plan: Path, calls: Calls) -> None:
    result = run(*line(plan, "--attribute", "place", "--dry-run"))
    assert "none: a dry run" in result.stdout
    assert refusal(*line(plan, "--attribute", "place")).startswith("error: --out must be a folder to make, got none.")


def test_a_dry_run_names_no_charge(plan: Path, calls: Calls) -> None:
    result = run(*line(plan, "--attribute", "place", "--dry-run", "--ledger", "l.db", "--dataset", "visits"))
    assert "dataset visits, left 0.5" in result.stdout
    assert "None" not in result.stdout


def test_private_numbers_are_shown_only_on_request_and_on_stderr(plan: Path, calls: Calls) -> None:
    arguments = line(plan, "--attribute", "place", "--out", "release", "--json")
    quiet, asked = run(*arguments), run(*arguments, "--private-diagnostics")
    assert quiet.stdout == asked.stdout
    assert "4321" not in quiet.output
    assert "not covered by the promise" in asked.stderr
    assert "4321" in asked.stderr


def test_refusals(plan: Path, calls: Calls, tmp_path: Path) -> None:
    out = ("--out", "release")
    assert "Make one with dimly plan." in refusal(*line(tmp_path / "none.json", *out))
    edited = tmp_path / "edited.json"
    edited.write_text(PLAN.to_json().replace('"k"', '"kk"'), encoding="utf-8")
    assert "plan field 'projection." in refusal(*line(edited, *out))
    assert "'--memory'" in refusal(*line(plan, *out, "--memory", "much"))
    assert "'--threads'" in refusal(*line(plan, *out, "--threads", "0"))
    assert "'--nulls'" in refusal(*line(plan, *out, "--nulls", "keep"))
    assert "'--columns'" in refusal(*line(plan, *out, "--columns", "a,,b"))
    assert "got both" in refusal(*line(plan, *out, "--columns", "a", "--all-columns"))
    assert "'DATA'" in refusal("publish", "--plan", plan, "--user", "person", *out)
    assert calls == []
