"""Plans along directions: what they say, what they are proven from, and what they refuse."""

import copy
import json
from typing import Any

import numpy as np
import pytest
from tests.directions import DIRECTIONS, named

from dimly.errors import ParameterError
from dimly.mechanisms import Directions, Plan, Sensitivity, Vocabulary
from dimly.mechanisms.plan_kinds import DirectionsPlan
from dimly.privacy import Budget


def plan_along(kind: str = "learned", **others: Any) -> DirectionsPlan:
    plan = Plan.of("directions+laplace", Budget(0.2), directions=named(kind), **others)
    assert isinstance(plan, DirectionsPlan)
    return plan


def edited(plan: Plan, **changes: Any) -> str:
    fields = json.loads(plan.to_json())
    fields["directions"].update(changes)
    return json.dumps(fields)


@pytest.mark.parametrize("kind", DIRECTIONS)
@pytest.mark.parametrize("unit", ["attribute", "column"])
def test_json_names_the_directions_and_reads_back(kind: str, unit: Any) -> None:
    plan, directions = plan_along(kind, unit=unit, resolution=3), named(kind)
    said = json.loads(plan.to_json())["directions"]
    assert (said["sha256"], said["count"], said["scale"]) == (directions.digest, directions.count, directions.scale)
    assert (said["kind"], said["size"]) == (directions.kind, directions.size)
    assert ("exchanged_l1" in said) == (unit == "column")
    moved = directions.sensitivity if unit == "attribute" else directions.difference
    assert plan.sensitivity == Sensitivity(3 * moved.l1, 9 * moved.l2_squared)
    read = Plan.from_json(plan.to_json())
    assert (read, read.digest, hash(read.digest)) == (plan, plan.digest, hash(plan.digest))
    assert read.along(directions).rows(["1"]).to_dense().shape == (1, directions.count)


def test_directions_go_where_the_plan_goes() -> None:
    plan = plan_along()
    for other in (copy.deepcopy(plan), plan.model_copy(), plan.model_copy(update={"dtype": "int32"})):
        assert other.matrix == named("learned")


def test_a_plan_that_was_read_asks_for_its_directions() -> None:
    read = Plan.from_json(plan_along().to_json())
    with pytest.raises(ParameterError, match="directions must be given: the plan holds only their digest"):
        read.along(None)
    with pytest.raises(ParameterError, match="directions must be those that the plan was made with, sha256"):
        read.along(named("embeddings"))
    with pytest.raises(ParameterError, match="directions must be Directions or their file, got int"):
        read.along(3)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="directions must be left out: the plan is by counting"):
        Plan.of("counting+laplace", Budget(1.0), k=8).along(named("learned"))


@pytest.mark.parametrize("field", ["l1", "l2_squared", "exchanged_l1", "exchanged_l2_squared", "size", "scale"])
def test_other_norms_than_the_directions_have_are_refused(field: str) -> None:
    plan = plan_along(unit="column")
    value = json.loads(plan.to_json())["directions"][field] - 1
    text = edited(plan, **{field: value})
    with pytest.raises(ParameterError, match=r"must say the norms and sizes|must not be below those of a row"):
        Plan.from_json(text).along(named("learned"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"l1": 10**6, "l2_squared": 10**9}, "noise.l1_sensitivity must be at least 1000000"),
        ({"exchanged_l1": 5}, "exchanged_l1 and exchanged_l2_squared must fit the unit"),
        ({"sha256": "x"}, "directions.sha256"),
        ({"kind": "other"}, "directions.kind"),
    ],
)
def test_edited_plans_are_refused_without_the_directions(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Plan.from_json(edited(plan_along(), **changes))


@pytest.mark.parametrize(
    ("mechanism", "arguments", "words"),
    [
        ("directions+laplace", {}, "directions must be given for directions.laplace, got NoneType"),
        ("directions+laplace", {"directions": "file"}, "directions must be given for directions.laplace, got str"),
        ("directions+laplace", {"directions": 0, "k": 3}, "k must be left out"),
        ("directions+laplace", {"directions": 0, "vocabulary": ["a"]}, "vocabulary must be left out"),
        ("directions+laplace", {"directions": 0, "n_attributes": 9}, "n_attributes must be left out"),
        ("directions+gaussian", {"directions": 0, "rule": "lemma2"}, "rule must be exact, lemma1 or theorem1"),
        ("directions+gaussian", {"directions": 0}, "delta"),
        ("counting+laplace", {"directions": 0, "k": 8}, "directions must be left out for counting.laplace"),
    ],
)
def test_what_does_not_fit_is_refused(mechanism: str, arguments: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {name: named("learned") if value == 0 else value for name, value in arguments.items()}
    with pytest.raises(ParameterError, match=words):
        Plan.of(mechanism, Budget(0.2), **given)


def test_the_type_follows_from_the_plan() -> None:
    """Categories of scale 1 at ε = 1 fit 16 bits beside 4,096 attributes; finer rows, or much noise, need 32."""
    small = Directions.of_categories(["a", "b"], ["x", "y"], origin="tests")
    assert Plan.of("directions+laplace", Budget(1.0), directions=small).dtype == "int16"
    assert Plan.of("directions+laplace", Budget(1.0), directions=small, resolution=64).dtype == "int32"
    assert plan_along().dtype == "int32"
    assert Plan.of("directions+laplace", Budget(1.0), directions=small, dtype="int32").dtype == "int32"


def test_the_promise_is_about_a_category_where_attributes_stand_for_one() -> None:
    assert plan_along("categories").protected == "category"
    assert plan_along("categories", unit="column").protected == "column"
    assert plan_along("weights").protected == "attribute"


def test_a_vector_of_ones_own_is_summed_as_people_are() -> None:
    plan = plan_along("categories")
    group = np.flatnonzero(named("categories").category_of == 1)[:3].tolist()
    names = [*((named("categories").vocabulary or ())[place] for place in group), "nobody lists this"]
    assert np.array_equal(plan.exact(names, np.ones(len(names), np.int64)), named("categories").matrix[1])


def test_kinds_answer_what_sets_directions_apart() -> None:
    along, sketches = plan_along(), Plan.of("counting+laplace", Budget(1.0), k=8)
    assert (along.measures_attributes, along.adds_rows, along.directions_kind) == (False, False, "learned")
    assert (sketches.measures_attributes, sketches.adds_rows, sketches.directions_kind) == (True, True, None)
    assert (along.matrix, sketches.matrix) == (named("learned"), None)
    known = along.matrix.vocabulary
    assert known is not None
    some = Vocabulary.listed([known[0], "unknown"])
    assert (along.listed(None), along.listed(some)) == (known, some)
    assert (sketches.listed(None), sketches.listed(some)) == (None, some)
    assert (along.counts_any(["unknown"]), sketches.counts_any(["unknown"])) == (False, True)
    with pytest.raises(ParameterError, match="vocabulary must hold attributes that have a row in the directions"):
        along.listed(Vocabulary.listed(["unknown"]))
