"""The planner's advice, for people and for JSON."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dimly.cli.description import promise
from dimly.cli.files import check_output, write_text
from dimly.cli.output import print_fields, print_json, print_lines, print_table, size_text, warn
from dimly.errors import ParameterError

if TYPE_CHECKING:
    from dimly.planner import Advice, Candidate, Scales


def show_advice(found: "Advice", output: Path | None, *, overwrite: bool, force: bool, as_json: bool) -> None:
    """Write the plan, and say what it will be good for."""
    if output is not None:
        if found.verdict == "not feasible" and not force:
            raise ParameterError(f"output must not be given for a plan that is not feasible. {_more(found)}")
        write_text(output, found.plan.to_json(), overwrite=overwrite)
    for text in found.doubts:
        warn(text)
    if as_json:
        print_json(_advice_facts(found) | {"path": None if output is None else str(output)})
        return
    _print_candidates(found)
    typer.echo()
    written = {} if output is None else {"plan": str(output), "digest": found.plan.digest}
    print_fields(_advice_fields(found) | written)
    print_lines(["", *found.meaning, *promise(found.plan)[2:]])


def _print_candidates(found: "Advice") -> None:
    asked = found.question
    header = ["mechanism", "k", f"at {asked.low:g}", f"at {asked.high:g}", "near first", "size", "promise"]
    what = "Predicted standard errors of squared distances, and how often a near pair ranks before a far one"
    rows = [_row(one, found) for one in found.candidates]
    if asked.purpose != "distances":
        what += f"; blur is what {asked.purpose} see of the errors once denoised"
        header.append("blur")
        rows = [[*row, _number(one.blur)] for row, one in zip(rows, found.candidates, strict=True)]
    print_lines([f"{what}:", ""])
    print_table(header, rows, numbers=[*header[1:6], "blur"])


def _advice_fields(found: "Advice") -> dict[str, str]:
    from dimly.planner.advice import reasons_of

    asked, chosen = found.question, found.chosen
    fields = {
        "choice": chosen.mechanism + (f", k = {chosen.k:,}" if chosen.k else ""),
        "because": found.reason,
        "verdict": found.words,
        "by": _clearness(found),
    }
    if asked.weight is None:
        fields["assumed"] = f"people of {asked.high / 2:g} attributes, so that far pairs share nothing (--weight)"
    elif asked.weight < asked.high / 2:
        fields["assumed"] = (
            f"people of {asked.high / 2:g} attributes at squared distance {asked.high:g}: those of {asked.weight:g} "
            f"cannot differ in more than {2 * asked.weight:g}"
        )
    closed = found.plan.vocabulary
    if closed is not None and closed.sha256 is None:
        fields["attributes"] = (
            f"0 to {closed.size - 1:,}, by number: all others are left out. If yours have names, give their public "
            "list (--vocabulary)"
        )
    for rule in found.paper:
        fields[f"paper, by {rule.criterion}"] = (
            f"k = {rule.k:,} for gaussian+gaussian, with an error of {_number(rule.stderr)} at {asked.high:g} "
            f"(delta = {rule.delta:g})"
        )
    if found.left_out:
        fields["left out"] = reasons_of(found.left_out)
    return fields


def show_scales(found: "Scales", output: Path | None, *, overwrite: bool, force: bool, as_json: bool) -> None:
    """Write a plan for each scale, and say how they compare with one sketch."""
    if output is not None and found.verdict == "not feasible" and not force:
        raise ParameterError(
            "output must not be given for plans that are not feasible: together they tell no scale from another. "
            "Use a larger epsilon, one sketch, or --force."
        )
    paths = [
        None if output is None else output.with_stem(f"{output.stem}-{scale.distance:g}") for scale in found.scales
    ]
    for path in paths:
        if path is not None:
            check_output(path, overwrite=overwrite)
    for path, plan in zip(paths, found.plans, strict=True):
        if path is not None:
            write_text(path, plan.to_json(), overwrite=overwrite)
    for text in found.doubts:
        warn(text)
    rows: list[dict[str, Any]] = [
        {
            "distance": scale.distance,
            "mechanism": scale.plan.mechanism,
            "k": None if scale.plan.projection is None else scale.plan.projection.k,
            "epsilon": scale.plan.cost.epsilon,
            "delta": scale.plan.cost.delta,
            "stderr_alone": scale.alone,
            "stderr_together": scale.together,
            "stderr_one": scale.one,
            "digest": scale.plan.digest,
            "path": None if path is None else str(path),
        }
        for scale, path in zip(found.scales, paths, strict=True)
    ]
    if as_json:
        print_json(
            {
                "scales": rows,
                "one": _advice_facts(found.one),
                "worth_it": found.worth_it,
                "words": found.words,
                "verdict": found.verdict,
                "meaning": list(found.meaning),
                "warnings": list(found.doubts),
            }
        )
        return
    header = ["at", "mechanism", "k", "epsilon", "alone", "together", "one sketch"]
    cells = [
        (
            f"{row['distance']:g}",
            row["mechanism"],
            row["k"] or "",
            f"{row['epsilon']:.3g}",
            *(_number(row[name]) for name in ("stderr_alone", "stderr_together", "stderr_one")),
        )
        for row in rows
    ]
    print_table(header, cells, numbers=[name for name in header if name != "mechanism"])
    one = found.one.chosen
    fields = {
        "one sketch": one.mechanism + (f", k = {one.k:,}" if one.k else ""),
        "comparison": found.words,
        "verdict": found.judgment,
    }
    for scale, path in zip(found.scales, paths, strict=True):
        if path is not None:
            fields[f"plan for {scale.distance:g}"] = f"{path}, digest {scale.plan.digest}"
    typer.echo()
    print_fields(fields)
    print_lines(["", "All of them together:", *found.meaning])


def _advice_facts(found: "Advice") -> dict[str, Any]:
    asked, least = found.question, found.needed
    return {
        "mechanism": found.chosen.mechanism,
        "k": found.chosen.k,
        "stderr": found.stderr,
        "candidates": [_facts(one) for one in found.candidates],
        "verdict": found.verdict,
        "clarity": found.clarity,
        "share_found": found.share_found,
        "weight": asked.weight,
        "digest": found.plan.digest,
        "plan": found.plan.model_dump(mode="json", exclude_none=True),
        "purpose": asked.purpose,
        "distance": [asked.low, asked.high],
        "epsilon": found.plan.cost.epsilon,
        "delta": found.plan.cost.delta,
        "unit": found.plan.unit,
        "bytes_per_user": found.plan.bytes_per_user,
        "reason": found.reason,
        "words": found.words,
        "smallest_epsilon": {"coarse": least.coarse, "good": least.good},
        "paper": [rule._asdict() for rule in found.paper],
        "left_out": dict(found.left_out),
        "meaning": list(found.meaning),
        "warnings": list(found.doubts),
    }


def _facts(one: "Candidate") -> dict[str, Any]:
    return {
        "mechanism": one.mechanism,
        "k": one.k,
        "stderr_low": one.stderr_low,
        "stderr_high": one.stderr_high,
        "near_before_far": one.probability,
        "bytes_per_user": one.bytes_per_user,
        "pure": one.pure,
        "blur": one.blur,
        "own_group": one.own_group,
    }


def _row(one: "Candidate", found: "Advice") -> list[str]:
    budget = found.question.budget
    return [
        one.mechanism,
        f"{one.k:,}" if one.k else "",
        _number(one.stderr_low),
        _number(one.stderr_high),
        f"{one.probability:.1%}",
        size_text(one.bytes_per_user),
        "pure" if one.pure else f"({budget.epsilon:g}, {budget.delta:g})",
    ]


def _more(found: "Advice") -> str:
    least = found.needed
    if least.coarse is None:
        return "No epsilon up to 32 would do. Add --force to write it all the same."
    return f"Use an epsilon of at least {least.coarse:g}, or --force."


def _clearness(found: "Advice") -> str:
    """Return the figure that the verdict goes by, beside the thresholds."""
    from dimly.planner.verdicts import COARSE, GOOD, OWN_GROUP

    purpose = found.question.purpose
    how = "" if purpose == "distances" else f", by what {purpose} see once denoised"
    pairs = (
        f"a near pair ranks before a far one with {found.clarity:.1%}{how}; good from {GOOD[purpose]:.0%}, "
        f"coarse from {COARSE:.0%}"
    )
    if purpose != "segments":
        return pairs
    return (
        f"{pairs}. A person is nearer to the middle of his own group than to another's with "
        f"{found.chosen.own_group:.1%}; good from {OWN_GROUP['good']:.0%}, coarse from {OWN_GROUP['coarse']:.0%}"
    )


def _number(error: float) -> str:
    return f"{error:,.0f}" if error >= 100 else f"{error:.3g}"
