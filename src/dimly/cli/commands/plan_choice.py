"""``dimly plan`` by a mechanism's name, by theory for a purpose, or for several scales; as text and JSON.

Of what is named nothing is chosen. Each way writes its plan and shows its own answer.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from dimly.cli.options import plan_facts, plan_fields, promise, promise_together, together_facts
from dimly.cli.terminal import print_fields, print_json, print_lines, print_table, size_text, warn
from dimly.display import percent, shortest
from dimly.errors import ParameterError
from dimly.files import check_output, write_text

if TYPE_CHECKING:
    from dimly.mechanisms import Directions, Plan
    from dimly.planner import Advice, Brief, Candidate, Scales


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutput:
    """What is done with a plan."""

    path: Path | None
    overwrite: bool
    force: bool
    """Whether a plan that is not feasible is written all the same."""
    as_json: bool
    verbose: bool = False
    """Whether all that was weighed is shown."""

    @property
    def name(self) -> str | None:
        """The file, as it is told."""
        return None if self.path is None else str(self.path)


def words_on_several(plan: "Plan") -> list[str]:
    """Return what a verdict is about where several attributes are protected together; their promise says the rest."""
    return [] if plan.protect is None else ["The verdict and the smallest epsilon that would do are about one of them."]


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedMechanism:
    """What is said of a mechanism beside its name, instead of letting Dimly choose."""

    directions: "Directions | None" = None
    k: int | None = None
    rule: Literal["exact", "lemma1", "theorem1", "lemma2"] = "exact"
    blocks: int = 1
    blend: float | None = None
    dtype: Literal["int16", "int32"] | None = None


def plan_by_name(mechanism: str, brief: "Brief", fixed: FixedMechanism, output: PlanOutput) -> None:
    """Make the plan that was named, write it, and say what it promises."""
    from dimly.mechanisms import Plan
    from dimly.mechanisms.make import NOISY_DISTANCES, is_open
    from dimly.planner.verdicts import doubts

    closed = brief.numbered or fixed.directions is not None or not is_open(mechanism)  # others are, on request
    made = Plan.of(
        mechanism,
        brief.budget,
        k=fixed.k,
        blocks=fixed.blocks,
        n_attributes=brief.n_attributes if closed else None,
        vocabulary=brief.vocabulary,
        n_users=brief.n_users if mechanism == NOISY_DISTANCES else None,  # of others, δ is compared with it
        resolution=brief.steps,
        unit=brief.unit,
        protect=brief.protect,
        rule=fixed.rule,
        dtype=fixed.dtype,
        seed=brief.seed,
        blend=fixed.blend,
        directions=fixed.directions,
    )
    for text in doubts(brief.budget, brief.n_users, made):
        warn(text)
    if output.path is not None:
        write_text(output.path, made.to_json(), overwrite=output.overwrite)
    _show_plan(made, output)


def _show_plan(made: "Plan", output: PlanOutput) -> None:
    if output.as_json:
        print_json(
            {"plan": made.model_dump(mode="json", exclude_none=True), "digest": made.digest}
            | plan_facts(made)
            | _along_facts(made)
            | {"path": output.name}
        )
        return
    if output.path is None:
        typer.echo(made.to_json(), nl=False)
    err = output.path is None  # stdout is the plan itself
    written = {} if output.name is None else {"plan": output.name}
    print_fields(written | {"digest": made.digest} | plan_fields(made) | _along_fields(made), err=err)
    print_lines(["", *promise(made)], err=err)
    if output.path is not None:
        directed = ["--directions FILE"] if made.directions is not None else []
        print_lines(["", next_command(output, made, [*_listed(made), *directed])])


def _along_facts(made: "Plan") -> dict[str, Any]:
    """Return what can be said of directions without a sample: how much noise there is, and no verdict."""
    from dimly.mechanisms.plan_kinds import DirectionsPlan

    if not isinstance(made, DirectionsPlan):
        return {}
    return {
        "origin": made.matrix.origin,
        "noise_stderr": made.error.noise.variance**0.5,
        "moved_by_one": made.directions.l1 / made.directions.scale,
        "verdict": "unknown",
    }


def _along_fields(made: "Plan") -> dict[str, str]:
    facts = _along_facts(made)
    if not facts:
        return {}
    return {
        "origin": facts["origin"],
        "noise": f"standard deviation {facts['noise_stderr']:.3g} on each number; one {made.unit} moves all of "
        f"them together by at most {facts['moved_by_one']:.3g}",
        "verdict": "Unknown: what these directions show depends on the people. Volunteers who are public can tell: "
        "dimly plan --sample FILE.",
    }


def plan_by_advice(brief: "Brief", output: PlanOutput) -> None:
    """Let theory choose, write the plan, and say what it will be good for."""
    from dimly.planner import advise

    found = advise(brief)
    if output.path is not None:
        if found.verdict == "not feasible" and not output.force:
            raise ParameterError(f"no plan was written, because its verdict is not feasible. {_more(found)}")
        write_text(output.path, found.plan.to_json(), overwrite=output.overwrite)
    for text in found.doubts:
        warn(text)
    if output.as_json:
        print_json(_advice_facts(found) | together_facts(found.plan) | {"path": output.name})
        return
    print_fields(_short_fields(found) | {"plan": output.name or "", "digest": found.plan.digest if output.name else ""})
    if output.verbose:
        print_lines([""])
        _print_candidates(found)
        print_lines([""])
        print_fields(_further_fields(found))
        print_lines(["", *found.meaning, *promise(found.plan)[2:]])
    print_next(output, found.plan, _listed(found.plan))


def _listed(plan: "Plan") -> list[str]:
    """Return the option by which publishing gets the list that a plan was made for."""
    return ["--vocabulary FILE"] if plan.vocabulary is not None and plan.vocabulary.sha256 is not None else []


def print_next(
    output: PlanOutput, plan: "Plan", options: Sequence[str] = (), *, more: str = "other mechanisms, the reason"
) -> None:
    """Say what comes after a plan: how it is written, how it is tried without spending, and what was not shown."""
    if output.path is None:
        print_lines(["", "Nothing was written: add -o plan.json."])
    else:
        print_lines(["", next_command(output, plan, options)])
    if not output.verbose:
        print_lines([f"Add --verbose for {more} and all limits of the promise."])


def not_protected(plan: "Plan") -> str:
    """Return what a plan does not protect, for whoever reads no further."""
    head = "Not protected: "
    return next(line.removeprefix(head) for line in promise(plan) if line.startswith(head))


def next_command(output: PlanOutput, plan: "Plan", options: Sequence[str]) -> str:
    """Return how a plan is tried on a table without spending anything."""
    told = " ".join(["--plan", shlex.quote(str(output.path)), *options])
    what = "--columns COLUMN,COLUMN" if plan.unit == "column" else "--attribute COLUMN"
    return f"Next: dimly publish TABLE {told} --user COLUMN {what} --out DIR --dry-run"


def short_promise(plan: "Plan", meaning: Sequence[str]) -> str:
    """Return what a plan promises and its plainest limit: one attribute, several together, a whole person."""
    together = promise_together(plan)
    claim = f"epsilon = {plan.cost.epsilon:g}, delta = {plan.cost.delta:g}."
    return " ".join([claim, meaning[0], *together, *words_on_several(plan), *meaning[1:2]])


def _print_candidates(found: "Advice") -> None:
    asked = found.question
    header = [
        "mechanism",
        "k",
        f"at {_number(asked.low)}",
        f"at {_number(asked.high)}",
        "near first",
        "size",
        "promise",
    ]
    what = "Predicted standard errors of squared distances, and how often a near pair ranks before a far one"
    rows = [_row(one, found) for one in found.candidates]
    if asked.purpose != "distances":
        what += f". Blur is how much these errors count for {asked.purpose}; the smallest is chosen"
        header.append("blur")
        rows = [[*row, _number(one.blur)] for row, one in zip(rows, found.candidates, strict=True)]
    print_lines([f"{what}:", ""])
    print_table(header, rows, numbers=[*header[1:6], "blur"])


def _in_options(words: str) -> str:
    """Return the words of a verdict or a reason with options for what Python calls parameters."""
    for name, option in (
        ("distance as LOW:HIGH", "--distance LOW:HIGH"),
        ("n_users", "--n-users"),
        ("n_attributes", "--n-attributes"),
        ("(vocabulary)", "(--vocabulary)"),
        ("(numbered)", "(--numbered)"),
        ("sample=FILE", "--sample FILE"),
        ("survey=FILE", "--survey FILE"),
        ("a delta above 0", "a --delta above 0"),
    ):
        words = words.replace(name, option)
    return words.replace("State distance or weight", "State --distance or --weight")


def _short_fields(found: "Advice") -> dict[str, str]:
    """Return what somebody reads who will not read on: verdict, promise, what is published, what it rests on."""
    asked, chosen = found.question, found.chosen
    numbers = f", {chosen.k:,} numbers" if chosen.k else ""
    near, far = (
        f"{_number(error)} at squared distance {_number(distance)}"
        for error, distance in ((chosen.stderr_low, asked.low), (chosen.stderr_high, asked.high))
    )
    closed = found.plan.vocabulary
    return {
        "verdict": _in_options(found.words),
        "promise": short_promise(found.plan, found.meaning),
        "not protected": not_protected(found.plan),
        "publishes": f"{chosen.mechanism}{numbers}, {size_text(chosen.bytes_per_user)} a person",
        "standard error": f"{near}, {far}, for single pairs",
        "attributes": f"0 to {closed.size - 1:,}, by number: all others are left out. If yours have names, give their "
        "public list (--vocabulary)"
        if closed is not None and closed.sha256 is None
        else "",
        "measured": "; ".join(found.measured),
        "assumed": "; ".join(found.assumed),
    }


def _further_fields(found: "Advice") -> dict[str, str]:
    """Return how the plan was chosen and judged, and what else there was."""
    from dimly.planner.advice import reasons_of

    asked = found.question
    fields = {
        "because": found.reason,
        "judged by": "" if found.verdict == "unknown" and found.unstated else _clearness(found),
    }
    for rule in found.paper:
        fields[f"paper, by {rule.criterion}"] = (
            f"k = {rule.k:,} for gaussian+gaussian, with an error of {_number(rule.stderr)} at {_number(asked.high)} "
            f"(delta = {rule.delta:g})"
        )
    return fields | {"left out": _in_options(reasons_of(found.left_out)) if found.left_out else ""}


def plan_by_scales(brief: "Brief", scales: Sequence[float], output: PlanOutput) -> None:
    """Plan a sketch for each scale, write the plans, and say how they compare with one sketch."""
    from dimly.planner import plan_scales

    found = plan_scales(brief, scales)
    if output.path is not None and found.verdict == "not feasible" and not output.force:
        raise ParameterError(
            "output must not be given for plans that are not feasible: together they cannot tell the scales apart. "
            "Use a larger epsilon, one sketch, or --force."
        )
    paths = _written(found, output)
    for text in found.doubts:
        warn(text)
    if output.as_json:
        print_json(_scales_facts(found, paths))
    else:
        _print_scales(found, paths)


def _written(found: "Scales", output: PlanOutput) -> list[Path | None]:
    """Write a plan for each scale, all or none; return where."""
    if output.path is None:
        return [None] * len(found.scales)
    check_output(output.path, overwrite=True)  # a folder's name has no stem
    paths = [output.path.with_stem(f"{output.path.stem}-{shortest(scale.distance)}") for scale in found.scales]
    for path in paths:
        check_output(path, overwrite=output.overwrite)
    for path, plan in zip(paths, found.plans, strict=True):
        write_text(path, plan.to_json(), overwrite=output.overwrite)
    return [*paths]


def _scales_facts(found: "Scales", paths: list[Path | None]) -> dict[str, Any]:
    return {
        "scales": [
            {
                "distance": scale.distance,
                "mechanism": scale.plan.mechanism,
                "k": scale.plan.k,
                "epsilon": scale.plan.cost.epsilon,
                "delta": scale.plan.cost.delta,
                "stderr_alone": scale.alone,
                "stderr_together": scale.together,
                "stderr_one": scale.one,
                "digest": scale.plan.digest,
                "path": None if path is None else str(path),
            }
            for scale, path in zip(found.scales, paths, strict=True)
        ],
        "one": _advice_facts(found.one),
        "worth_it": found.worth_it,
        "words": found.words,
        "verdict": found.verdict,
        "meaning": list(found.meaning),
        "warnings": list(found.doubts),
    } | together_facts(found.one.plan)


def _print_scales(found: "Scales", paths: list[Path | None]) -> None:
    header = ["at", "mechanism", "k", "epsilon", "alone", "together", "one sketch"]
    cells = [
        (
            f"{scale.distance:g}",
            scale.plan.mechanism,
            scale.plan.k or "",
            f"{scale.plan.cost.epsilon:.3g}",
            *(_number(error) for error in (scale.alone, scale.together, scale.one)),
        )
        for scale in found.scales
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
    print_lines(["", "All of them together:", *found.meaning, *promise_together(found.one.plan)])


def _advice_facts(found: "Advice") -> dict[str, Any]:
    asked, least = found.question, found.needed
    return {
        "mechanism": found.chosen.mechanism,
        "k": found.chosen.k,
        "stderr": found.stderr,
        "candidates": [_facts(one) for one in found.candidates],
        "verdict": found.verdict,
        "range": list(found.range),
        "figure": found.figure,
        "unstated": list(found.unstated),
        "assumed": list(found.assumed),
        "measured": list(found.measured),
        "stated": asked.stated,
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
        "closeness": one.closeness,
        "agreement": one.agreement,
    }


def _row(one: "Candidate", found: "Advice") -> list[str]:
    budget = found.question.budget
    return [
        one.mechanism,
        f"{one.k:,}" if one.k else "",
        _number(one.stderr_low),
        _number(one.stderr_high),
        percent(one.probability, 1),
        size_text(one.bytes_per_user),
        "delta = 0" if one.pure else f"({budget.epsilon:g}, {budget.delta:g})",
    ]


def _more(found: "Advice") -> str:
    least = found.needed
    if found.unstated:
        return "Use a larger --epsilon, or add --force to write it anyway."
    if least.coarse is None:
        return "No epsilon up to 32 would do. Add --force to write it anyway."
    return f"Use --epsilon {least.coarse:g} or more, or add --force to write it anyway."


def _clearness(found: "Advice") -> str:
    """Return the figure that the verdict goes by, beside the thresholds."""
    from dimly.planner.verdicts import COARSE, GOOD

    purpose = found.question.purpose
    good, coarse = GOOD[purpose], COARSE[purpose]
    most = "at most " if found.unstated and found.question.stated == "both" else ""
    if purpose == "neighbors":
        return (
            f"those found are {most}{percent(found.figure)} of the way from random people to the nearest; good from "
            f"{percent(good)}, coarse from {percent(coarse)}"
        )
    if purpose == "segments":
        return (
            f"segments agree with compact groups by {most}{found.figure:.2f} (adjusted Rand index: 1 is the same, 0 is "
            f"chance); good from {good:g}, coarse from {coarse:g}"
        )
    shown, limits = percent(found.figure, 1), f"good from {percent(good)}, coarse from {percent(coarse)}"
    return f"a near pair ranks before a far one with {shown}; {limits}"


def _number(error: float) -> str:
    return f"{error:,.0f}" if error >= 100 else f"{error:.3g}"
