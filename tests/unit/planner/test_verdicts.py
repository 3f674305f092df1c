import pytest
from tests.unit.planner.test_question import ask

from dimly.planner.candidates import candidates
from dimly.planner.purposes import ranking_probability
from dimly.planner.question import Question
from dimly.planner.verdicts import COARSE, GOOD, clarity, needed, rounded_up, verdict
from dimly.privacy import Budget


def best(question: Question) -> float:
    return clarity(question, candidates(question)[0][0].blur)


@pytest.mark.parametrize("purpose", ["distances", "segments"])
def test_the_smallest_epsilon_is_just_enough(purpose: str) -> None:
    question = ask(Budget(0.3), distance=(100, 300), purpose=purpose, n_attributes=3_000)
    least = needed(question)
    for epsilon, level in ((least.coarse, COARSE), (least.good, GOOD[question.purpose])):
        assert epsilon is not None
        assert best(question.at(epsilon)) >= level
        assert best(question.at(0.9 * epsilon)) < level


def test_sometimes_no_epsilon_is_enough() -> None:
    question = ask(distance=(1e6, 1e6 + 1), mechanisms=["sign+laplace"])
    assert needed(question) == (None, None)
    assert needed(ask(distance=(400, 420), mechanisms=["sign+laplace"])).good is None


def test_verdicts() -> None:
    assert [verdict(p) for p in (0.9, 0.899, 0.55, 0.549)] == ["good", "coarse", "coarse", "not feasible"]
    assert [verdict(p, "segments") for p in (0.6, 0.599, 0.549)] == ["good", "coarse", "not feasible"]


def test_what_a_hundred_people_can_tell() -> None:
    """The reason for the lower threshold: ten times less error makes 0.55 as good as 0.9."""
    assert ranking_probability(100.0, 562.7) == pytest.approx(COARSE, abs=1e-4)
    assert ranking_probability(100.0, 56.27) == pytest.approx(0.9, abs=0.005)
    assert ranking_probability(1.0, 0.0) == 1.0


def test_rounding_is_up() -> None:
    assert [rounded_up(x) for x in (0.0511, 1.0, 9.91, 12.01)] == [0.052, 1.0, 10.0, 13.0]
