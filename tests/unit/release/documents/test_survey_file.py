"""The file of a survey: read back as it was written, and refused when it was changed."""

import json
from pathlib import Path
from typing import Any

import pytest

from dimly.errors import ParameterError, ReleaseError
from dimly.mechanisms.guarantee import guarantee
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.survey_plan import SurveyPlan
from dimly.privacy import Budget
from dimly.release.documents.survey_file import (
    AttributeCount,
    AttributeCounts,
    CountNoise,
    Survey,
    looks_like_survey,
    promise,
    read_survey,
)

PURE = "counting+laplace"

PLAN = SurveyPlan.of(Budget(0.5, 1e-6), ["vocabulary"], seed=bytes(32))
NAMES = AttributeCounts(
    epsilon=0.5,
    delta=1e-6,
    noise=CountNoise(law="random threshold", sensitivity=1, standard_deviation=2.0),
    threshold=30,
    attributes=(AttributeCount(attribute="thé", count=99, low=90, high=105),),
)
SURVEY = Survey.of(PLAN, {"vocabulary": NAMES}, private=True, roster="found", n_users=None, ledger="visits")


def test_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "survey.json"
    path.write_text(SURVEY.to_json(), encoding="utf-8")
    assert read_survey(path) == SURVEY
    assert looks_like_survey(path)
    assert SURVEY.names() == ("thé",)
    fields = json.loads(path.read_text(encoding="utf-8"))
    assert fields["vocabulary"]["attributes"] == [{"attribute": "thé", "count": 99, "low": 90, "high": 105}]
    assert fields["vocabulary"]["threshold"] == 30


def test_the_promise_is_said_in_words() -> None:
    assert "any one attribute of any one person by at most a factor of e^0.5, and beyond" in SURVEY.guarantee[0]
    given = Survey.of(PLAN, {"vocabulary": NAMES}, private=True, roster="given", n_users=7)
    assert "must be public knowledge" in given.guarantee[1]
    unsafe = Survey.of(PLAN, {"vocabulary": NAMES}, private=False, roster="found")
    assert "NOT PRIVATE" in unsafe.guarantee[0]
    assert not unsafe.private


def test_the_promise_for_several_is_that_of_a_release() -> None:
    """With a δ, that of several attributes is more than theirs added up."""
    head = "Several at once: the odds of m attributes of one person change by up to e^(m·epsilon)"
    assert f"{head}, with a delta above m·delta." in SURVEY.guarantee
    pure = SurveyPlan.of(Budget(0.5), ["weights"], seed=bytes(32))
    assert f"{head}." in promise(pure, roster="given", private=True)
    columns = SurveyPlan.of(Budget(0.5), ["weights"], seed=bytes(32), unit="column")
    assert any("the odds of m columns of one person" in line for line in promise(columns, roster="given", private=True))
    for plan in (PLAN, pure):
        release = (
            Plan.of("counting+gaussian", Budget(0.5, 1e-6), k=4) if plan.delta else Plan.of(PURE, Budget(0.5), k=4)
        )
        several = [line for line in guarantee(release, 9).splitlines() if line.startswith("Several")]
        assert several[0] in promise(plan, roster="given", private=True)


def test_people_of_segments_are_not_said_to_come_from_a_list() -> None:
    """The release whose segments they are may have found its people in the private table."""
    profiles = SurveyPlan.of(Budget(0.5), ["profiles"], seed=bytes(32), release="0" * 64)
    words = " ".join(promise(profiles, roster="given", private=True))
    assert "made without the private table" not in words
    assert "The people are those in the segments of a release, which tells who they are" in words


@pytest.mark.parametrize(
    "changed",
    [
        SURVEY.to_json().replace('"count": 99', '"count": 98'),
        SURVEY.to_json().replace('"epsilon": 0.5, "delta": 1e-06, "unit"', '"epsilon": 0.6, "delta": 1e-06, "unit"'),
        SURVEY.to_json().replace('"delta": 1e-06, "unit"', '"delta": 0.0, "unit"'),
        SURVEY.to_json().replace('"survey": 1', '"survey": 2', 1),
        SURVEY.to_json().replace('"ledger"', '"survey"'),
        "{}",
        "[1]",
        "not JSON",
    ],
)
def test_what_was_changed_is_refused(changed: str, tmp_path: Path) -> None:
    path = tmp_path / "survey.json"
    path.write_text(changed, encoding="utf-8")
    with pytest.raises(ReleaseError, match="survey must"):
        read_survey(path)


@pytest.mark.parametrize(
    "changes",
    [{"epsilon": 0.4999}, {"shares": []}, {"shares": PLAN.fields()["shares"] * 2}, {"unit": "person"}, None],
)
def test_what_was_asked_must_be_within_its_budget(changes: dict[str, Any] | None) -> None:
    fields = json.loads(SURVEY.to_json())
    changed = fields | {"plan": {} if changes is None else fields["plan"] | changes}
    with pytest.raises(ReleaseError, match="of this version"):  # before any digest is looked at
        Survey.from_json(json.dumps(changed))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="survey must be a readable file"):
        read_survey(tmp_path / "none.json")
    assert not looks_like_survey(tmp_path / "none.json")
