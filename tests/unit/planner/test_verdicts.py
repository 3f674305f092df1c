import pytest
from scipy.special import ndtr
from tests.unit.planner.test_question import ask

from dimly.mechanisms.error_models import FlippedBitsError, Noise, NoisyDistanceError, SignedSketchError
from dimly.planner.advice import answer
from dimly.planner.purposes import probability_of_own_group, ranking_probability, share_found
from dimly.planner.question import Question
from dimly.planner.verdicts import COARSE, GOOD, OWN_GROUP, VERDICTS, needed, rounded_up, verdict
from dimly.privacy import Budget


def best(question: Question) -> int:
    return VERDICTS.index(answer(question).verdict)


@pytest.mark.parametrize("purpose", ["distances", "neighbors", "segments"])
def test_the_smallest_epsilon_is_just_enough(purpose: str) -> None:
    question = ask(Budget(0.3), distance=(100, 300), purpose=purpose, n_attributes=3_000)
    least = needed(question)
    for epsilon, level in ((least.coarse, 1), (least.good, 0)):
        assert epsilon is not None
        assert best(question.at(epsilon)) == level
        assert best(question.at(0.9 * epsilon)) > level


def test_sometimes_no_epsilon_is_enough() -> None:
    question = ask(distance=(1e6, 1e6 + 1), mechanisms=["sign+laplace"])
    assert needed(question) == (None, None)
    assert needed(ask(distance=(400, 420), mechanisms=["sign+laplace"])).good is None


def test_verdicts() -> None:
    assert [verdict(p) for p in (0.9, 0.899, 0.55, 0.549)] == ["good", "coarse", "coarse", "not feasible"]
    assert [verdict(p, "segments") for p in (0.6, 0.599, 0.549)] == ["good", "coarse", "not feasible"]


def test_segments_need_people_who_can_be_placed() -> None:
    """Six groups of 5,000 people, weight 400, 20,000 attributes: segments at ε = 0.1 agreed with them to 0.1 (ARI)."""
    arguments = {"purpose": "segments", "distance": (96, 786), "weight": 400, "n_attributes": 20_000}
    found = {epsilon: answer(ask(Budget(epsilon), **arguments)) for epsilon in (0.05, 0.1, 0.2, 0.3)}
    assert found[0.1].clarity > GOOD["segments"]
    assert [one.verdict for one in found.values()] == ["not feasible", "coarse", "coarse", "good"]
    placed = [one.chosen.own_group for one in found.values()]
    assert placed == sorted(placed)
    assert found[0.3].chosen.own_group > OWN_GROUP["good"] > found[0.2].chosen.own_group


def test_who_is_nearer_to_his_own_group() -> None:
    flips = FlippedBitsError(100, 0.25)  # variance 3/4 in each bit
    assert probability_of_own_group(3.0, 0.0, flips) == pytest.approx(float(ndtr(1.0)))
    sketch = SignedSketchError(10, 3.0, Noise(0.5, 1.0))
    assert probability_of_own_group(4.0, 10.0, sketch) == pytest.approx(float(ndtr(1.0)))
    assert probability_of_own_group(4.0, 0.0, SignedSketchError(10, 3.0, Noise(0.0, 0.0))) == 1.0
    assert probability_of_own_group(4.0, 0.0, NoisyDistanceError(Noise(0.5, 1.0))) == 0.5


def test_the_share_of_neighbors_that_are_right() -> None:
    """Circles of eleven friends, squared distances 92 and 388: 24 and 5 % were right at ε = 0.5, 81 and 49 % at 1."""
    measured = {(0.5, 990): 0.24, (0.5, 19_998): 0.05, (1.0, 990): 0.81, (1.0, 19_998): 0.49}
    for (epsilon, n_users), share in measured.items():
        arguments = {"purpose": "neighbors", "distance": (92, 388), "weight": 200, "n_attributes": 5_000}
        found = answer(ask(Budget(epsilon), n_users=n_users, **arguments))
        assert found.share_found == pytest.approx(share, abs=0.15)
        assert (
            f"if ten of {n_users:,} people are near, about {found.share_found:.0%} of ten found are they" in found.words
        )
    assert share_found(10.0, 1.0, 1.0, n_users=15) == pytest.approx(1.0)
    assert share_found(10.0, 0.0, 1.0, n_users=15) == 1.0
    assert answer(ask(purpose="neighbors")).share_found is None


def test_what_a_hundred_people_can_tell() -> None:
    """The reason for the lower threshold: ten times less error makes 0.55 as good as 0.9."""
    assert ranking_probability(100.0, 562.7) == pytest.approx(COARSE, abs=1e-4)
    assert ranking_probability(100.0, 56.27) == pytest.approx(0.9, abs=0.005)
    assert ranking_probability(1.0, 0.0) == 1.0


def test_rounding_is_up() -> None:
    assert [rounded_up(x) for x in (0.0511, 1.0, 9.91, 12.01)] == [0.052, 1.0, 10.0, 13.0]
