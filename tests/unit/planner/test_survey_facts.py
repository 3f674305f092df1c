"""What a survey tells the planner: it fills what is not stated, and is said to be measured."""

from typing import Any

import numpy as np
import pytest

import dimly
from dimly import advise
from dimly.curator.options import Options
from dimly.curator.survey.questions import survey_table
from dimly.errors import ParameterError
from dimly.mechanisms import Directions
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.planner.brief import Brief
from dimly.planner.survey_facts import less_spent
from dimly.privacy import Budget
from dimly.privacy.composition import compose
from dimly.release.documents.survey_file import Survey

from tests.streams import NO_NOISE  # isort: skip

N, WIDTH = 600, 200
PEOPLE = np.random.default_rng(0).random((N, WIDTH)) < np.linspace(0.05, 0.5, N)[:, None]
ALL = ["counts", "weights", "distances"]


def survey_of(people: Any, ask: list[str] = ALL, **changes: Any) -> Survey:
    words = {"words": changes.pop("words")} if "words" in changes else {}
    found = survey_table(people, SurveyPlan.of(Budget(30.0), ask, **changes), Options(), **words).survey
    assert found is not None
    return found


SURVEY = survey_of(PEOPLE)


@pytest.mark.parametrize("purpose", ["distances", "neighbors", "segments"])
def test_what_is_not_stated_is_measured(purpose: Any) -> None:
    found = advise(Budget(1.0), purpose=purpose, survey=SURVEY)
    assert SURVEY.distances is not None
    assert SURVEY.weights is not None
    asked, apart = found.question, SURVEY.distances.quantiles
    far = "0.9" if purpose == "distances" else "0.5"
    assert (asked.low, asked.high) == (apart["0.1"].value, apart[far].value)
    assert asked.weight == SURVEY.weights.quantiles["0.5"].value
    assert (asked.n_users, asked.n_attributes) == (N, WIDTH)
    assert [text.split(" ")[0] for text in found.measured] == ["near", "people", "200"]
    assert not any("--distance" in text or "--weight" in text for text in found.assumed)
    told = advise(
        Budget(1.0),
        purpose=purpose,
        distance=(asked.low, asked.high),
        weight=asked.weight,
        n_users=N,
        n_attributes=WIDTH,
    )
    assert (told.chosen, told.verdict, told.measured) == (found.chosen, found.verdict, ())


def test_a_list_of_attributes_is_not_measured() -> None:
    found = advise(Budget(1.0), survey=SURVEY, vocabulary=range(300))
    assert found.question.n_attributes == 300
    assert [text.split(" ")[0] for text in found.measured] == ["near", "people"]


def test_what_is_stated_stands() -> None:
    found = advise(Budget(1.0), survey=SURVEY, distance=(10, 20), weight=12.0, n_users=50, n_attributes=99)
    asked = found.question
    assert (asked.low, asked.high, asked.weight, asked.n_users, asked.n_attributes) == (10, 20, 12, 50, 99)
    assert found.measured == ()


def test_a_list_of_frequent_names_counts_only_where_it_can_be_all() -> None:
    names = survey_of(PEOPLE, ["counts"])
    assert advise(Budget(1.0), survey=names, distance=150).question.n_attributes == WIDTH
    assert advise(Budget(1.0), survey=names, distance=250).question.n_attributes is None


def test_people_who_are_alike_are_told_by_one_distance() -> None:
    same = np.zeros((400, 9), bool)
    same[:, 0] = True
    found = advise(Budget(1.0), survey=survey_of(same))
    assert found.question.stated == "weight"  # nobody differs, so that no distance was measured
    other = np.zeros((400, 9), bool)
    other[np.arange(400), np.arange(400) % 9] = True
    assert advise(Budget(1.0), purpose="neighbors", survey=survey_of(other)).question.high == 2


def test_surveys_that_do_not_fit() -> None:
    with pytest.raises(ParameterError, match="survey must be private"):
        advise(Budget(1.0), survey=survey_of(PEOPLE, words=lambda: NO_NOISE))
    with pytest.raises(ParameterError, match="survey must be a Survey, got str"):
        advise(Budget(1.0), survey="survey.json")  # type: ignore[call-overload]
    with pytest.raises(ParameterError, match="resolution must be 1 for bits"):
        advise(Budget(1.0), values="unit", survey=SURVEY)
    with pytest.raises(ParameterError, match="purpose must be one of"):
        advise(Budget(1.0), purpose="tea", survey=SURVEY)  # type: ignore[call-overload]


def test_what_the_survey_spent_is_taken_off_the_whole() -> None:
    found = dimly.survey(PEOPLE, Budget(30.0), ask=ALL, total=True)
    assert isinstance(found, Survey)
    assert found.plan.cost.epsilon == 3.0
    chosen = advise(Budget(30.0), survey=found, total=True)
    assert chosen.plan.budget == Budget(27.0)
    assert chosen.measured
    assert compose([found.plan.cost, chosen.plan.cost], delta=0.0, method="sum").epsilon == 30.0
    of_two = advise(Budget(30.0), survey=found, total=True, protect=2)
    assert of_two.plan.budget == Budget(12.0)  # half of the whole, less what each attribute has cost


@pytest.mark.parametrize(
    ("budget", "more", "message"),
    [
        (Budget(30.0), {}, "budget must be more than what was spent already"),
        (Budget(60.0), {"survey": None}, "total must be given with a survey"),
        (Budget(60.0), {"survey": "survey.json"}, "survey must be a Survey"),
        (Budget(60.0), {"unit": "column"}, "unit must be attribute, as of the survey"),
    ],
)
def test_a_whole_that_leaves_nothing(budget: Budget, more: dict[str, Any], message: str) -> None:
    told: dict[str, Any] = {"survey": SURVEY, "total": True} | more
    with pytest.raises(ParameterError, match=message):
        advise(budget, **told)


def test_beside_a_sample_a_survey_says_what_it_spent() -> None:
    found: Any = advise(Budget(60.0), sample=PEOPLE[:60], survey=SURVEY, total=True, mechanisms=["randomized-response"])
    assert found.plan.budget == Budget(30.0)


def test_directions_say_what_learning_them_spent() -> None:
    origin = "learned from the private table of 9 people under epsilon = 0.15, delta = 1e-07 (unit attribute): …"
    told = {"scale": 8, "kind": "surveyed"}
    directions = Directions.of_values(["tea"], [[1.0]], origin=origin, **told)  # type: ignore[arg-type]
    assert less_spent(Brief(Budget(0.5, 1e-6)), directions).budget == Budget(0.35, 9e-7)
    other = Directions.of_values(["tea"], [[1.0]], origin="by hand", **told)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="must say in their origin"):
        less_spent(Brief(Budget(0.5)), other)
