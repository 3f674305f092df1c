"""Plans that were edited by hand: refused, or what they promise is still true."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pydantic import BaseModel
from scipy.special import log_ndtr
from tests.plans import lowered, plan_of

import dimly
from dimly.curator.sketcher import Sketcher
from dimly.errors import ParameterError
from dimly.estimators import PrivateProjection
from dimly.mechanisms import MECHANISMS, Plan
from dimly.mechanisms.plan_parts import FlipNoise, GaussianNoise, LaplaceNoise
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.release.writer import ReleaseWriter

LISTED = [f"attribute {i}" for i in range(100)]
NUMBERED = [str(i) for i in range(100)]

VARIANTS: dict[str, dict[str, Any]] = {
    "bits": {},
    "columns": {"unit": "column"},
    "values": {"resolution": 3},
    "listed": {"n_attributes": None, "vocabulary": tuple(LISTED)},
}
CASES = [
    (mechanism, variant)
    for mechanism in MECHANISMS
    for variant in VARIANTS
    if (mechanism, variant) not in (("randomized-response", "values"), ("gaussian+gaussian", "values"))
]
SLOW = "gaussian+gaussian", "noisy-distances"  # each sigma has a wide table of its own


def fields_of(mechanism: str, variant: str) -> dict[str, Any]:
    """Return a plan's JSON as plain fields."""
    fields: dict[str, Any] = json.loads(plan_of(mechanism, **VARIANTS[variant]).to_json())
    return fields


def edits_of(
    fields: dict[str, Any], at: tuple[str, ...] = (), *, few: bool = False
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return every field with each value that somebody might put in its place; None for leaving it out."""
    for name, value in fields.items():
        path = (*at, name)
        if isinstance(value, dict):
            yield from edits_of(value, path, few=few)
        elif isinstance(value, int | float):
            if few:
                yield from ((path, other) for other in (value / 2, value + 1, 0, "1"))
                continue
            lower = (math.nextafter(value, 0), value * 0.99) if isinstance(value, float) else (value - 1, value // 2)
            higher = (value * 2, value * 1.01 if isinstance(value, float) else value + 1)
            for other in (*lower, *higher, 0, 1, 2, 2.5, -value, str(value), True, 1e308, 5e-324, 10**400):
                yield path, other
        elif isinstance(value, str):
            others = ["", value[:-1], value.upper(), value + "0", "exact", "lemma1", "lemma2", "attribute", "column"]
            others += ["int16", "int32", "bit", "counting", "gaussian", "ternary", "dasgupta", "sign"]
            for other in (*others, *MECHANISMS, value[::-1], value.replace("0", "1"), 1):
                yield path, other
        yield path, None


def edited(fields: dict[str, Any], path: tuple[str, ...], value: Any) -> str:
    """Return the JSON of a plan with one field changed."""
    changed = json.loads(json.dumps(fields))
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(changed)


def is_true(plan: Plan, attributes: list[str]) -> bool:
    """Return whether a plan keeps its budget, by formulas of its own, up to the last digits of a double."""
    moved = {"attribute": 1, "column": 2}[plan.unit]
    epsilon, delta = plan.cost.epsilon, plan.cost.delta
    assert (epsilon, plan.unit) == (plan.budget.epsilon, plan.cost.unit)
    if isinstance(plan.noise, FlipNoise):
        odds = math.log((1 - plan.noise.probability) / plan.noise.probability)
        return moved * odds <= epsilon * (1 + 1e-12)
    if plan.projection is not None:
        dense = plan.projection.matrix.rows(attributes).to_dense()
        steps = moved * plan.resolution
        l1, l2 = steps * np.abs(dense).sum(axis=1).max(), steps * np.sqrt((dense**2).sum(axis=1).max())
    else:
        assert plan.n_users is not None
        each = moved * plan.resolution**2
        l1, l2 = each * (plan.n_users - 1), each * math.sqrt(plan.n_users - 1)
    if isinstance(plan.noise, LaplaceNoise):
        # A table's moments tell its rate; the constructor's proof is tested elsewhere.
        return bool(plan.noise.l1_sensitivity >= l1 and delta == 0)
    assert isinstance(plan.noise, GaussianNoise)
    ratio = l2 / plan.noise.sigma
    least = math.exp(log_ndtr(ratio / 2 - epsilon / ratio)) - math.exp(epsilon + log_ndtr(-ratio / 2 - epsilon / ratio))
    return bool(least <= delta * (1 + 1e-9))


@pytest.mark.parametrize(("mechanism", "variant"), CASES)
def test_an_edited_plan_is_refused_or_true(mechanism: str, variant: str) -> None:
    fields = fields_of(mechanism, variant)
    accepted, refused = 0, []
    for path, value in edits_of(fields, few=mechanism in SLOW):
        try:
            plan = Plan.from_json(edited(fields, path, value))
            listed = LISTED if plan.vocabulary and plan.vocabulary.sha256 else None
            attributes = NUMBERED if plan.vocabulary is None else list(plan.vocabulary_of(listed))
        except ParameterError as error:
            refused.append(str(error))
            continue
        accepted += 1
        assert is_true(plan, attributes[:1000]), (path, value)
    assert len(refused) > accepted > 0
    assert max(map(len, refused)) < 600
    assert "\n" not in "".join(refused)


CHANGED = "projection.l1 and projection.l2_squared must be at least .* The plan was changed"


def test_a_lowered_sensitivity_is_refused_where_the_list_is_first_seen(tmp_path: Path) -> None:
    """None of the people has the attribute that would move a sketch too far: that must not decide."""
    text, short, names = lowered(listed=True)
    plan = Plan.from_json(text)
    table = pa.table({"person": ["ada", "ben"], "page": [short, short]})
    columns: dict[str, Any] = {"user": "person", "attribute": "page", "vocabulary": names}
    with pytest.raises(ParameterError, match=CHANGED):
        dimly.publish(table, plan, **columns, out=tmp_path / "release")
    with pytest.raises(ParameterError, match=CHANGED):
        dimly.publish(table, plan, **columns, dry_run=True)
    with pytest.raises(ParameterError, match=CHANGED):
        dimly.publish(np.zeros((2, 100), np.int8), plan, attributes=names, out=tmp_path / "release")
    with pytest.raises(ParameterError, match=CHANGED):
        Sketcher(plan, vocabulary=names)
    frame = pd.DataFrame(np.zeros((2, 100), np.int8), columns=names)
    with pytest.raises(ParameterError, match="The plan was changed"):
        PrivateProjection(plan=plan).fit(frame)
    with ReleaseWriter(tmp_path / "release", plan, user_type="text") as writer:
        writer.write_part(0, np.array(["ada", "ben"]), np.zeros((2, 32), np.int16))
        with pytest.raises(ParameterError, match=CHANGED):
            writer.write_vocabulary(Vocabulary.listed(names))


def test_a_lowered_sensitivity_over_numbers_is_refused_when_the_plan_is_read() -> None:
    with pytest.raises(ParameterError, match=CHANGED):
        Plan.from_json(lowered(listed=False)[0])


def test_a_long_list_of_numbers_is_proven_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimly.mechanisms.plan_kinds._PROVEN_WHEN_READ", 0)
    plan = Plan.from_json(lowered(listed=False)[0])
    with pytest.raises(ParameterError, match=CHANGED):
        Sketcher(plan)
    with pytest.raises(ParameterError, match=CHANGED):
        dimly.publish(np.zeros((2, 100), np.int8), plan, out="release")
    with pytest.raises(ParameterError, match=CHANGED):
        PrivateProjection(plan=plan).fit_transform(np.zeros((2, 100), np.int8))


def test_a_plan_that_went_around_its_proof_draws_nothing(tmp_path: Path) -> None:
    plan = Plan.of("sign+laplace", dimly.Budget(1.0), k=16)
    less = LaplaceNoise(l1_sensitivity=1)
    with pytest.raises(ParameterError):
        plan.copy(update={"noise": less})
    forged = BaseModel.model_copy(plan, update={"noise": less})  # Python's way around it
    for out in (None, tmp_path / "out"):
        with pytest.raises(ParameterError):
            dimly.publish(np.eye(3), forged, out=out)
    with pytest.raises(ParameterError):
        dimly.Sketcher(forged)
    assert not list(tmp_path.iterdir())


def test_facts_of_the_plan_that_it_was_copied_from_do_not_pass_for_its_own(tmp_path: Path) -> None:
    """They were found when that plan was proven. A copy leaves them behind; put there by hand they are not believed."""
    plan, wider = (Plan.of("sign+laplace", dimly.Budget(1.0), k=k, seed=bytes(32)) for k in (16, 64))
    assert (plan.sensitivity.l1, wider.sensitivity.l1) == (16, 64)
    forged = BaseModel.model_copy(plan, update={"projection": wider.projection})
    assert forged.sensitivity.l1 == 64
    forged.__dict__["sensitivity"] = plan.sensitivity
    assert forged.sensitivity.l1 == 16  # nobody has looked yet
    for publish in (
        lambda: dimly.publish(np.eye(3), forged),
        lambda: dimly.publish(np.eye(3), forged, out=tmp_path / "out"),
        lambda: dimly.Sketcher(forged),
    ):
        with pytest.raises(ParameterError, match=r"noise\.l1_sensitivity must be at least 64, got 16"):
            publish()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("mechanism", "other"), [("randomized-response", "counting+laplace"), ("noisy-distances", "hashing+laplace")]
)
def test_a_kind_reads_no_plan_of_another_mechanism(mechanism: str, other: str) -> None:
    plan = plan_of(mechanism)
    fields = json.loads(plan.to_json()) | {"mechanism": other}
    with pytest.raises(ParameterError):
        type(plan).from_json(json.dumps(fields))


def test_a_part_that_was_copied_with_other_fields_is_read_anew() -> None:
    plan = Plan.of("counting+laplace", dimly.Budget(1.0), k=16)
    assert plan.projection is not None
    assert plan.projection.matrix.family == "counting"
    part = plan.projection.model_copy(update={"family": "sign"})
    with pytest.raises(ParameterError, match="l1"):
        plan.model_copy(update={"projection": part, "mechanism": "sign+laplace", "blend": None})
