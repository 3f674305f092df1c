"""dimly.plan and dimly.advise: one spelling of what the planner is told, for people, records and type checkers."""

import inspect
import typing
from functools import partial
from typing import Any

import numpy as np
import pytest

import dimly
from dimly.curator.options import Options, TableKeywords
from dimly.errors import ParameterError
from dimly.lab import planning
from dimly.lab.planning import SampleKeywords
from dimly.planner import Brief
from dimly.planner.brief import StatedKeywords
from dimly.privacy import Budget
from dimly.release.documents.survey_file import Survey

PEOPLE = np.eye(20, dtype=int)
# A plan is made without the room of releases, so that its name stands in quotes there.
get_type_hints = partial(typing.get_type_hints, localns={"Survey": Survey})


def test_every_spelling_has_the_same_names_and_types() -> None:
    record = get_type_hints(Brief)
    del record["budget"], record["_"]
    assert get_type_hints(StatedKeywords) == record
    told, read = get_type_hints(SampleKeywords), get_type_hints(Options)
    assert told == {name: hint for name, hint in (read | record).items() if name in told}
    assert set(get_type_hints(TableKeywords)) <= set(told)


def test_every_keyword_is_explained() -> None:
    explained = inspect.getdoc(planning.advise) or ""
    for name in get_type_hints(StatedKeywords):
        assert f"\n{name} : " in explained
    for name in get_type_hints(TableKeywords):
        assert name in explained


@pytest.mark.parametrize("sample", [None, PEOPLE])
def test_a_mistyped_keyword_is_answered_with_the_nearest(sample: Any) -> None:
    with pytest.raises(
        TypeError, match=r"^advise\(\) got an unexpected keyword argument 'purpos'\. Did you mean 'purpose'\?"
    ):
        dimly.advise(Budget(1.0), sample=sample, purpos="segments")  # type: ignore[call-overload]
    with pytest.raises(
        TypeError, match=r"'directions'\. Make that plan with dimly\.Plan\.of\(mechanism, budget, directions="
    ):
        dimly.plan(Budget(1.0), sample=sample, directions=None)
    with pytest.raises(TypeError, match=r"^plan\(\) got .* 'atribute'\. Did you mean 'attribute'\?"):
        dimly.plan(Budget(1.0), sample=sample, atribute="place")
    with pytest.raises(TypeError, match=r"'ledger'\.$"):
        dimly.plan(Budget(1.0), sample=sample, ledger="ledger.db")


def test_a_survey_is_taken_without_a_sample_only() -> None:
    """Type checkers take it, too: mypy reads this file."""
    people = np.random.default_rng(0).random((600, 60)) < 0.3
    found = dimly.survey(people, Budget(30.0), ask=["weights"])
    assert isinstance(found, Survey)
    assert dimly.advise(Budget(1.0), survey=found).measured[0].startswith("people have ")
    with pytest.raises(ParameterError, match="survey must be left out where a sample is given"):
        dimly.advise(Budget(1.0), sample=people, survey=found)


def test_how_a_sample_is_read_is_said_of_a_sample() -> None:
    with pytest.raises(ParameterError, match="user must be given together with sample"):
        dimly.advise(Budget(1.0), user="person")  # type: ignore[call-overload]


def test_one_mechanism_may_be_named_without_a_list_of_them() -> None:
    with pytest.raises(ParameterError, match="it needs a delta above 0"):
        dimly.advise(Budget(1.0), sample=PEOPLE, mechanisms="counting+gaussian")
