"""Neighboring tables, with the same noise: a survey's numbers differ by no more than its plan declares.

One attribute of one person is added, removed or, for unit "column", changed into another. What is compared is what was
published, from the table's rows to the noisy counts, and for names the exact counts that the threshold is applied to.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.streams import Recorded
from tests.surveys import LIST, N_PEOPLE, ROSTER, Cells, cells, table

from dimly.curator.options import Options, Silence
from dimly.curator.survey.exact_counts import count_table
from dimly.curator.survey.questions import survey_table
from dimly.curator.tables.numbered_table import open_table
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.privacy import Budget
from dimly.release.documents.survey_file import Survey

few = settings(max_examples=6, deadline=None)
people = st.integers(0, N_PEOPLE - 1)
attributes = st.sampled_from(LIST)
QUESTIONS = ["counts", "weights", "distances"]
GIVEN: dict[str, Any] = {"user": "who", "attribute": "what", "roster": ROSTER, "vocabulary": LIST, "threads": 1}


def replay(found: Cells, unit: Any = "attribute", **changes: Any) -> tuple[Survey, list[tuple[str, int]]]:
    plan = SurveyPlan.of(Budget(6.0), QUESTIONS, seed=bytes(32), unit=unit)
    words = Recorded(5)
    done = survey_table(table(found), plan, Options(**GIVEN | changes), words=lambda: words).survey
    assert done is not None
    return done, words.asked


def noisy(survey: Survey, question: str) -> np.ndarray:
    if question == "counts":
        assert survey.counts is not None
        return np.array([one.count for one in survey.counts.attributes])
    curve = getattr(survey, question)
    return np.array(curve.noisy)


def check(one: Cells, other: Cells, unit: Any, most: int) -> None:
    a, asked = replay(one, unit)
    b, asked_again = replay(other, unit)
    assert asked == asked_again
    for question in QUESTIONS:
        moved = np.abs(noisy(a, question) - noisy(b, question))
        assert moved.sum() <= most, question
    facts = [{k: v for k, v in s.model_dump().items() if k not in {"id", *QUESTIONS}} for s in (a, b)]
    assert facts[0] == facts[1]
    shapes = [[len(noisy(s, question)) for question in QUESTIONS] for s in (a, b)]
    assert shapes[0] == shapes[1]


@few
@given(st.integers(0, 99), people, attributes)
def test_one_attribute_more_or_less_moves_each_answer_by_one(seed: int, person: int, attribute: str) -> None:
    one = cells(seed)
    check(one, one ^ {(person, attribute)}, "attribute", 1)


@few
@given(st.integers(0, 99), people, attributes, attributes)
def test_a_changed_category_moves_each_answer_by_two(seed: int, person: int, old: str, new: str) -> None:
    without = cells(seed) - {(person, old), (person, new)}
    check(without | {(person, old)}, without | {(person, new)}, "column", 2)


def test_the_check_would_see_two_attributes() -> None:
    one = cells(0) - {(3, "a1"), (3, "a2")}
    with pytest.raises(AssertionError):
        check(one, one | {(3, "a1"), (3, "a2")}, "attribute", 1)


def test_somebody_without_any_attribute_changes_no_pair_but_their_own() -> None:
    one = cells(0)
    lonely = N_PEOPLE - 1  # who has nothing
    assert not any(who == lonely for who, _ in one)
    check(one, one | {(lonely, "a0")}, "attribute", 1)


@few
@given(st.integers(0, 99), people, st.sampled_from([*LIST, "new name"]))
def test_one_attribute_moves_the_count_of_one_name_by_one(seed: int, person: int, attribute: str) -> None:
    def counted(found: Cells) -> dict[str, int]:
        plan = SurveyPlan.of(Budget(1.0, 1e-6), ["vocabulary"], seed=bytes(32))
        options = Options(**GIVEN | {"vocabulary": None, "roster": None})
        with open_table(table(found), plan, options) as opened:
            exact = count_table(opened, plan, vocabulary=None, progress=Silence())
            return dict(zip(opened.texts().between(0, len(opened.texts())), exact.attributes.tolist(), strict=True))

    one = cells(seed)
    a, b = counted(one), counted(one ^ {(person, attribute)})
    assert sum(abs(a.get(name, 0) - b.get(name, 0)) for name in a.keys() | b.keys()) == 1


def test_every_answer_has_words_of_its_own() -> None:
    made: list[Recorded] = []

    def words() -> Recorded:
        made.append(Recorded(len(made)))
        return made[-1]

    plan = SurveyPlan.of(Budget(6.0), QUESTIONS, seed=bytes(32))
    survey_table(table(cells(0)), plan, Options(**GIVEN), words=words)
    assert sum(bool(one.asked) for one in made) >= len(QUESTIONS)


def test_errors_and_files_hold_no_exact_count(tmp_path: Any) -> None:
    survey = survey_table(
        table(cells(0)), SurveyPlan.of(Budget(0.9), QUESTIONS), Options(**GIVEN, out=tmp_path / "survey.json")
    ).survey
    assert survey is not None
    assert survey.private
    allowed = {"survey", "id", "plan", "plan_digest", "guarantee", "roster", "n_users", *QUESTIONS}
    assert set(survey.model_dump(exclude_none=True)) == allowed
    exact = np.array([sum(name == what for _, what in cells(0)) for name in LIST])
    assert np.count_nonzero(noisy(survey, "counts") == exact) < len(LIST)
