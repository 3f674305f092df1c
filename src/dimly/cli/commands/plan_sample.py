"""``dimly plan --sample``: what was measured on public people, and the files of the plan."""

import json
import math
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dimly.cli.commands.plan_choice import PlanOutput, not_protected, print_next, short_promise
from dimly.cli.options import promise, together_facts
from dimly.cli.terminal import ProgressBar, print_fields, print_json, print_lines, print_table, size_text, warn
from dimly.errors import ParameterError
from dimly.files import check_output, write_text

if TYPE_CHECKING:
    from dimly.curator.options import Options
    from dimly.lab.by_example.outcome import MeasuredFigure, Trial, TriedPlan
    from dimly.planner import Brief

_COLUMNS = {
    "distances": {"error": "relative error", "ranking": "near first"},
    "neighbors": {"closeness": "closeness", "recall": "recall"},
    "segments": {"agreement": "agreement", "closeness": "closeness"},
}

_NOTHING_WRITTEN: dict[str, str | None] = {"path": None, "directions": None, "attributes": None}


def plan_by_sample(
    brief: "Brief",
    source: str,
    reading: "Options",
    output: PlanOutput,
    directions_out: Path | None,
    *,
    refused: Iterable[str],
) -> None:
    """Try everything out on a sample, write the plan and what belongs to it, and say what was measured.

    ``refused`` are options that were given and mean nothing beside a sample.
    """
    from dimly.lab.by_example.tryout import IN_ITS_PLACE, check_unstated, try_out
    from dimly.lab.sample import read_sample

    for name in refused:
        raise ParameterError(f"{name} {IN_ITS_PLACE}")
    check_unstated(brief)
    if directions_out is not None and output.path is None:
        raise ParameterError(
            "directions_out must be given together with output: it belongs to the plan that is written."
        )
    beside = _beside(output.path, directions_out)
    for path in (output.path, *beside.values()):
        if path is not None:
            check_output(path, overwrite=output.overwrite)
    with ProgressBar(amount=lambda number: f"{number:.0f} trials") as bar:
        bar.phase("reading")
        sample = read_sample(source, reading, unit=brief.unit)
        bar.phase("trying out")
        found = try_out(brief, sample, progress=bar.reach)
    withheld = output.path is not None and found.verdict == "not feasible" and not output.force
    files = _NOTHING_WRITTEN
    if output.path is not None and not withheld:
        files = _written(found, output.path, beside, overwrite=output.overwrite)
    for text in (*found.doubts, *found.cautions):
        warn(text)
    if output.as_json:
        print_json(_facts(found) | together_facts(found.plan) | {"path": files["path"], "files": files})
    else:
        _print(found, files, output)
    if withheld:  # what took minutes to measure has been shown
        least = found.needed.coarse
        more = (
            "No epsilon that was tried would do. Add" if least is None else f"Use --epsilon {least:g} or more, or add"
        )
        raise ParameterError(
            f"no plan was written, because its verdict is not feasible. {more} --force to write it anyway."
        )
    if not output.as_json:
        print_next(output, found.plan, _options(files, source), more="other mechanisms and other epsilons, the reason")


def _beside(output: Path | None, directions_out: Path | None) -> dict[str, Path]:
    if output is None:
        return {}
    return {
        "directions": directions_out or output.with_name(f"{output.stem}.directions.parquet"),
        "attributes": output.with_name(f"{output.stem}.attributes.jsonl"),
    }


def _written(found: "Trial", path: Path, beside: dict[str, Path], *, overwrite: bool) -> dict[str, str | None]:
    from dimly.release.documents.directions_file import write_directions

    files = _NOTHING_WRITTEN | {"path": str(path)}
    if found.directions is not None:
        write_directions(beside["directions"], found.directions, overwrite=overwrite)
        files["directions"] = str(beside["directions"])
    if found.vocabulary is not None and found.asking.brief.vocabulary is None:
        lines = "".join(json.dumps({"attribute": name}) + "\n" for name in found.vocabulary)
        write_text(beside["attributes"], lines, overwrite=overwrite)
        files["attributes"] = str(beside["attributes"])
    write_text(path, found.plan.to_json(), overwrite=overwrite)
    return files


def _print(found: "Trial", files: dict[str, str | None], output: PlanOutput) -> None:
    from dimly.planner.advice import reasons_of

    best, listed = found.chosen, found.vocabulary
    figures = ", ".join(f"{name} {_cell(best, key)}" for key, name in _figures(found).items())
    print_fields(
        {
            "verdict": found.words,
            "promise": short_promise(found.plan, found.meaning),
            "not protected": not_protected(found.plan),
            "publishes": f"{best.name}, {size_text(best.bytes_per_user)} a person",
            "measured": f"{figures}, on {_judged(found)}",
            "assumed": "; ".join(found.assumed),
            "attributes": ""
            if listed is None
            else f"a closed list of {len(listed):,}: others are left out{_consent(found)}",
            "plan": files["path"] or "",
            "digest": found.plan.digest if files["path"] else "",
        }
    )
    print_lines(["", found.caveat])
    if output.verbose:
        _print_tried(found)
        origin = "" if found.directions is None else found.directions.origin
        print_fields({"because": found.reason, "directions": origin, "left out": reasons_of(found.left_out)})
        print_lines(["", *found.meaning, *promise(found.plan)[2:]])


def _figures(found: "Trial") -> dict[str, str]:
    """Return the figures of a purpose that were measured of the best, and what they are called."""
    columns = _COLUMNS[found.asking.brief.purpose]
    return {key: name for key, name in columns.items() if key in found.chosen.figures}


def _judged(found: "Trial") -> str:
    n = found.asking.sample.table.shape[0]
    return f"{n:,} public people, those judged held back; 90 % intervals"


def _print_tried(found: "Trial") -> None:
    columns = _COLUMNS[found.asking.brief.purpose]
    print_lines(["", f"Measured on {_judged(found)}:", ""])
    header = ["mechanism", "k", *columns.values(), "size", "promise"]
    print_table(header, [_row(one, found, list(columns)) for one in found.tried], numbers=["k", "size"])
    rungs = ["epsilon", "best", *columns.values()]
    print_lines([""])
    print_table(
        rungs,
        [(f"{one.epsilon:g}", one.name, *(_cell(one, name) for name in columns)) for one in found.ladder],
        numbers=["epsilon"],
    )
    print_lines([""])


def _consent(found: "Trial") -> str:
    """Return what a list that was made of a sample shows, if the list was not stated."""
    if found.asking.brief.listed is not None:
        return ""
    return ". It is that of the sample and part of the release: by the volunteers' consent it is public"


def _options(files: dict[str, str | None], source: str) -> list[str]:
    """Return the options of dimly publish for what was written beside the plan."""
    found = []
    if files["directions"]:
        found.append(f"--directions {shlex.quote(files['directions'])}")
    if files["attributes"]:
        found.append(f"--vocabulary {shlex.quote(files['attributes'])}")
    return [*found, f"--volunteers {shlex.quote(source)}"] if found else []


def _row(one: "TriedPlan", found: "Trial", columns: list[str]) -> list[str]:
    budget = found.asking.brief.budget
    return [
        one.mechanism,
        f"{one.k:,}" if one.k else "",
        *(_cell(one, name) for name in columns),
        size_text(one.bytes_per_user),
        "delta = 0" if one.pure else f"({budget.epsilon:g}, {budget.delta:g})",
    ]


def _cell(one: "TriedPlan", name: str) -> str:
    return str(one.figures[name]) if name in one.figures else ""


def _facts(found: "Trial") -> dict[str, Any]:
    asked, least = found.asking, found.needed
    learned = found.learned
    return {
        "mechanism": found.chosen.mechanism,
        "k": found.chosen.k,
        "purpose": asked.brief.purpose,
        "verdict": found.verdict,
        "figure": _interval(found.figure),
        "tried": [_tried(one) for one in found.tried],
        "ladder": [_tried(one) for one in found.ladder],
        "rivals": [one.name for one in found.rivals],
        "smallest_epsilon": {"coarse": least.coarse, "good": least.good},
        "sample": {
            "people": int(asked.sample.table.shape[0]),
            "attributes": int(asked.sample.table.shape[1]),
            "name": asked.sample.name,
        },
        "n_users": asked.n_users,
        "n_users_stated": asked.brief.n_users is not None,
        "n_published": asked.n_published,
        "n_groups": found.n_groups,
        "resolution": asked.resolution,
        "assumed": list(found.assumed),
        "learning": None if learned is None else {"recipe": str(learned.recipe), "merit": learned.merit},
        "digest": found.plan.digest,
        "plan": found.plan.model_dump(mode="json", exclude_none=True),
        "epsilon": found.plan.cost.epsilon,
        "delta": found.plan.cost.delta,
        "unit": found.plan.unit,
        "bytes_per_user": found.plan.bytes_per_user,
        "reason": found.reason,
        "words": found.words,
        "caveat": found.caveat,
        "left_out": dict(found.left_out),
        "meaning": list(found.meaning),
        "warnings": [*found.doubts, *found.cautions],
    }


def _tried(one: "TriedPlan") -> dict[str, Any]:
    return {
        "mechanism": one.mechanism,
        "k": one.k,
        "epsilon": one.epsilon,
        "bytes_per_user": one.bytes_per_user,
        "pure": one.pure,
        "n_parts": one.n_parts,
        "figures": {name: _interval(measured) for name, measured in one.figures.items()},
    }


def _interval(measured: "MeasuredFigure") -> dict[str, float | None]:
    parts = {"value": measured.value, "low": measured.low, "high": measured.high}
    return {name: number if math.isfinite(number) else None for name, number in parts.items()}
