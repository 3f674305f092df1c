from typing import Any

import pytest
from tests.unit.planner.questions import ask

from dimly.errors import ParameterError
from dimly.mechanisms import MECHANISMS, Vocabulary
from dimly.planner.brief import as_range
from dimly.privacy import Budget


def test_one_distance_is_that_of_far_pairs() -> None:
    assert as_range(400) == (200.0, 400.0)
    assert as_range([100, 800]) == (100.0, 800.0)


def test_people_have_at_least_half_of_what_they_differ_in() -> None:
    assert ask(distance=(100, 800)).weights_at(100) == (400, 400)
    light = ask(distance=(100, 800), weight=60)
    assert (light.weights_at(100), light.weights_at(800)) == ((60, 60), (400, 400))


def test_distances_follow_from_the_weight() -> None:
    """Two people of weight w differ in at most 2w, and by chance in 2w(1 − w/d)."""
    light = ask(distance=None, weight=11)
    assert (light.low, light.high, light.stated) == (11.0, 22.0, "weight")
    assert ask(distance=None, weight=25, n_attributes=100).high == 37.5
    assert ask(distance=None, weight=90, n_attributes=100).high == 90.0  # at most d
    assert ask(distance=None).stated == "nothing"
    few = ask(distance=None, n_attributes=120)  # no two people differ in the 400 that are assumed else
    assert (few.low, few.high, few.stated) == (30.0, 60.0, "nothing")
    assert ask(distance=400, weight=11).stated == "far"
    assert ask(distance=(200, 400)).stated == "both"


def test_values_may_be_less_than_one_apart() -> None:
    question = ask(distance=(0.2, 0.8), weight=0.5, values="unit")
    assert (question.low, question.high, question.weight) == (0.2, 0.8, 0.5)


def test_one_attribute_alone() -> None:
    assert ask(distance=None, n_attributes=1).high == 1


def test_a_vocabulary_is_counted() -> None:
    assert ask(vocabulary=["a", "b"], distance=2).n_attributes == 2
    numbered = Vocabulary.numbered(500)
    assert ask(vocabulary=numbered).vocabulary is numbered


def test_values_have_steps() -> None:
    assert ask(values="unit").resolution == 16
    assert ask(values="unit", resolution=100).resolution == 100
    assert ask().bits
    assert not ask(values="unit").bits


def test_the_menu() -> None:
    assert ask().mechanisms == MECHANISMS
    assert ask(mechanisms="hashing+laplace").mechanisms == ("hashing+laplace",)
    assert ask(mechanisms=["sign+laplace", "sign+laplace"]).mechanisms == ("sign+laplace",)


def test_the_same_question_at_another_epsilon_and_distance() -> None:
    question = ask(Budget(1.0, 1e-6))
    assert question.at(2.0).budget == Budget(2.0, 1e-6)
    assert (question.over(1.0, 2.0).low, question.over(1.0, 2.0).high) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"budget": 1.0}, "budget must be a Budget, got float"),
        ({"purpose": "fun"}, "purpose must be one of distances, neighbors, segments, got 'fun'"),
        ({"values": 3}, "values must be one of bits, unit"),
        ({"unit": "person"}, "unit must be one of"),
        ({"distance": 0}, "distance must be a number > 0"),
        (
            {"distance": "100:200"},
            r"distance must be a number or two, got the text '100:200'",
        ),
        ({"distance": True}, "distance must be a number > 0"),
        ({"distance": (0.2, 0.8)}, "distance must be at least 1 for far pairs, got 0.8: it is the number"),
        ({"distance": float("nan")}, "distance must be a number > 0"),
        ({"distance": (1, 2, 3)}, "one squared distance or two, got 3"),
        ({"distance": (800, 100)}, "a near and then a far one, got 800 and 100"),
        ({"n_attributes": 0}, "n_attributes must be an integer from 1"),
        ({"n_attributes": 300, "distance": 400}, "distance must be at most n_attributes = 300, got 400. State squared"),
        (
            {"vocabulary": ["a", "b"], "n_attributes": 3, "distance": 1},
            "n_attributes must be the length of vocabulary, 2",
        ),
        ({"numbered": True}, "numbered must be given with n_attributes and without vocabulary, got no number of them"),
        ({"numbered": True, "vocabulary": ["a"], "distance": 1}, "without vocabulary, got a vocabulary"),
        ({"n_groups": 1}, "n_groups must be an integer from 2"),
        ({"n_users": 1}, "n_users must be an integer from 2"),
        ({"weight": -1}, "weight must be a number > 0"),
        ({"weight": 0.05}, "weight must be at least 1, got 0.05: it is the number of attributes that a person has"),
        ({"weight": 600, "n_attributes": 500}, "weight must be at most n_attributes = 500, got 600"),
        ({"weight": 3, "vocabulary": ["a", "b"]}, "weight must be at most the length of vocabulary, 2, got 3"),
        ({"distance": 3, "vocabulary": ["a", "b"]}, "distance must be at most the length of vocabulary, 2, got 3"),
        ({"resolution": 2}, "resolution must be 1 for bits"),
        ({"resolution": 1, "values": "unit"}, "resolution must be 1 for bits and more for values"),
        ({"resolution": 0}, "resolution must be an integer from 1"),
        ({"mechanisms": []}, "mechanisms must name at least one"),
        ({"mechanisms": ["magic"]}, "mechanism must be a family"),
        ({"max_bytes_per_user": 0}, "max_bytes_per_user must be an integer from 1"),
    ],
)
def test_refusals(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        ask(**changes)
