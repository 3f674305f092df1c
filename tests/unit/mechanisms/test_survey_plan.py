"""What a survey asks, at which share: sums that hold digit by digit, and what is refused."""

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.errors import ParameterError
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.name_threshold import RandomThreshold
from dimly.mechanisms.survey_plan import SPENDS_DELTA, TOPICS, SurveyPlan, share_of_total
from dimly.privacy import Budget
from dimly.privacy.budget import stated

PURE = [topic for topic in TOPICS if topic not in SPENDS_DELTA and topic != "profiles"]


@given(
    st.floats(0.01, 8),
    st.sets(st.sampled_from(PURE), min_size=1),
    st.dictionaries(st.sampled_from(PURE), st.floats(0.1, 10)),
)
def test_shares_never_add_up_to_more_than_the_budget(epsilon: float, ask: set[str], parts: dict[str, float]) -> None:
    share = {name: part for name, part in parts.items() if name in ask}
    plan = SurveyPlan.of(Budget(epsilon), ask, share=share)
    total = sum((stated(one.epsilon) for one in plan.shares), Fraction(0))
    assert stated(epsilon) * (1 - Fraction(1, 10**5)) <= total <= stated(epsilon)
    whole = sum(share.get(name, 1) for name in ask)
    for one in plan.shares:
        assert one.epsilon == pytest.approx(epsilon * share.get(one.topic, 1) / whole, rel=1e-4)


def test_delta_goes_to_those_who_need_it() -> None:
    plan = SurveyPlan.of(Budget(0.3, 1e-7), ["weights", "vocabulary"])
    assert [(one.topic, one.epsilon, one.delta) for one in plan.shares] == [
        ("vocabulary", 0.15, 1e-7),
        ("weights", 0.15, 0.0),
    ]
    assert (plan.cost.epsilon, plan.cost.delta) == (0.3, 1e-7)
    assert SurveyPlan.of(Budget(0.3, 1e-7), ["weights"]).cost.delta == 0.0


def test_a_column_moves_twice_as_much() -> None:
    one = SurveyPlan.of(Budget(0.4, 1e-6), ["vocabulary", "weights"])
    two = SurveyPlan.of(Budget(0.4, 1e-6), ["vocabulary", "weights"], unit="column")
    assert isinstance(table := two.noise("weights"), DiscreteLaplace)
    assert table.rate == Fraction(Budget(0.2).rounded_down.epsilon) / 2
    assert one.noise("weights") == DiscreteLaplace.of(Budget(0.2), l1_sensitivity=1)
    law = two.noise("vocabulary")
    assert isinstance(law, RandomThreshold)
    assert law.budget == Budget(0.1, 5e-7)


def test_the_digest_is_of_all_that_is_asked() -> None:
    plan = SurveyPlan.of(Budget(0.1), ["weights", "distances"], seed=bytes(32))
    assert SurveyPlan.model_validate_json(json.dumps(plan.fields())) == plan
    others = [
        SurveyPlan.of(Budget(0.1), ["weights"], seed=bytes(32)),
        SurveyPlan.of(Budget(0.2), ["weights", "distances"], seed=bytes(32)),
        SurveyPlan.of(Budget(0.1), ["weights", "distances"], seed=bytes(31) + b"1"),
        SurveyPlan.of(Budget(0.1), ["weights", "distances"], seed=bytes(32), unit="column"),
        SurveyPlan.of(Budget(0.1), ["weights", "distances"], seed=bytes(32), resolution=4),
    ]
    assert len({plan.digest, *(other.digest for other in others)}) == 6
    assert SurveyPlan.of(Budget(0.1), ["weights"]).seed != SurveyPlan.of(Budget(0.1), ["weights"]).seed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ask": []}, "ask must name at least one"),
        ({"ask": ["weight"]}, "ask must be some of vocabulary, counts"),
        ({"ask": ["weights", "weights"]}, "each question once"),
        ({"ask": ["vocabulary"]}, "delta must be > 0 to ask for vocabulary"),
        ({"share": {"counts": 1}}, "share must be of questions that are asked"),
        ({"share": {"weights": 0}}, "share of weights must be a number > 0"),
        ({"share": {"weights": True}}, "share of weights must be a number > 0"),
        ({"share": {"weights": "2"}}, "share of weights must be a number > 0, got '2'"),
        ({"share": ["weights"]}, "share must say a number for each question, such as {'weights': 2}, got list"),
        ({"unit": "person"}, "unit must be one of"),
        ({"resolution": 0}, "resolution must be"),
        ({"seed": b"1"}, "seed must be"),
        ({"budget": 0.5}, "budget must be a Budget"),
        ({"budget": Budget(1e-7)}, "at most 1048576 weights"),
    ],
)
def test_bad_questions(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"budget": Budget(0.1), "ask": ["weights"]} | changes
    with pytest.raises(ParameterError, match=message):
        SurveyPlan.of(arguments.pop("budget"), arguments.pop("ask"), **arguments)


def test_a_whole_budget_is_shared_with_a_release() -> None:
    total = Budget(0.5, 1e-6)
    assert share_of_total(total, ["counts", "weights"]) == Budget(0.05, 1e-7)
    assert share_of_total(total, ["directions"]) == Budget(0.15, 1e-7)
    with pytest.raises(ParameterError, match="total must be left out of profiles"):
        share_of_total(total, ["profiles"])
    with pytest.raises(ParameterError, match="budget must be a Budget"):
        share_of_total(0.5, ["counts"])  # type: ignore[arg-type]


def test_several_units_together_are_part_of_the_plan() -> None:
    alone, both = (SurveyPlan.of(Budget(1.0), ["weights"], seed="0" * 64, protect=m) for m in (1, 2))
    assert "protect" not in alone.fields()
    assert (both.fields()["protect"], both.cost.together, both.together) == (2, 2, Budget(2.0))
    assert alone.digest != both.digest
    with pytest.raises(ParameterError, match="protect must be an integer"):
        SurveyPlan.of(Budget(1.0), ["weights"], protect=0)
    assert SurveyPlan.of(Budget(1.0), ["weights"], protect=np.int64(2)).protect == 2  # type: ignore[arg-type]
