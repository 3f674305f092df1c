"""``dimly plan`` of a mechanism that is named with all that belongs to it: nothing is chosen."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import typer

from dimly.cli.commands.plan_output import Output
from dimly.cli.options import plan_facts, plan_fields, promise
from dimly.cli.terminal import print_fields, print_json, print_lines, warn
from dimly.files import write_text

if TYPE_CHECKING:
    from dimly.mechanisms import Directions, Plan
    from dimly.planner import Brief


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """What is said of a mechanism beside its name, instead of letting Dimly choose."""

    directions: "Directions | None" = None
    k: int | None = None
    rule: Literal["exact", "lemma1", "theorem1", "lemma2"] = "exact"
    blocks: int = 1
    blend: float | None = None
    dtype: Literal["int16", "int32"] | None = None


def plan_by_name(mechanism: str, brief: "Brief", fixed: Fixed, output: Output) -> None:
    """Make the plan that was named, write it, and say what it promises."""
    from dimly.mechanisms import Plan
    from dimly.mechanisms.make import NOISY_DISTANCES, is_open
    from dimly.planner.judge import doubts

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
    _show(made, output)


def _show(made: "Plan", output: Output) -> None:
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
