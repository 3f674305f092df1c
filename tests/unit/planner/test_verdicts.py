import pytest
from tests.unit.planner.questions import ask

from dimly.planner.advice import answer
from dimly.planner.brief import Question
from dimly.planner.verdicts import COARSE, VERDICTS, by_noise, needed, rounded_up, verdict
from dimly.privacy import Budget

DEMO = (152.9, 190.9)


def best(question: Question) -> int:
    return VERDICTS.index(by_noise(question, answer(question).chosen))


@pytest.mark.parametrize("purpose", ["distances", "neighbors", "segments"])
def test_the_smallest_epsilon_is_just_enough(purpose: str) -> None:
    question = ask(Budget(0.3), distance=(100, 300), purpose=purpose, n_attributes=3_000, n_users=5_000)
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
    assert [verdict(p, "segments") for p in (0.7, 0.69, 0.19)] == ["good", "coarse", "not feasible"]
    assert [verdict(p, "neighbors") for p in (0.6, 0.59, 0.24)] == ["good", "coarse", "not feasible"]


def test_segments_need_people_who_can_be_placed() -> None:
    """Six groups of 5,000 people, weight 400: ARI was 0.1, 0.3, 0.6, 0.9 where 77, 92, 97, 99.7 % could be placed."""
    arguments = {"purpose": "segments", "distance": (96, 786), "weight": 400, "n_attributes": 20_000, "n_users": 5_000}
    found = {epsilon: answer(ask(Budget(epsilon), **arguments)) for epsilon in (0.05, 0.15, 0.2, 0.3)}
    assert [one.range.best for one in found.values()] == ["not feasible", "coarse", "good", "good"]
    placed = [one.chosen.own_group for one in found.values()]
    assert placed == sorted(placed)


def test_segments_of_the_demo_are_judged_as_they_were_measured() -> None:
    """20,000 people × 5,000 attributes in six groups, 153 and 191 apart: ARI 0.2 at ε = 0.5, 0.7 at 1, 0.95 at 2."""
    arguments = {"purpose": "segments", "distance": DEMO, "weight": 100, "n_attributes": 5_000, "n_users": 20_000}
    found = [answer(ask(Budget(e), numbered=False, **arguments)) for e in (0.25, 0.51, 1.0, 2.0)]
    assert [one.range.best for one in found] == ["not feasible", "coarse", "good", "good"]


def test_distances_cannot_tell_that_groups_are_compact() -> None:
    """Garments 0, 5, 7, told by their true averages: 0.34 to 0.47 was measured where compact groups would be at 1."""
    arguments = {"purpose": "segments", "distance": (161, 249), "weight": 173, "n_attributes": 774, "n_users": 1_500}
    found = answer(ask(Budget(1.4), n_groups=3, **arguments))
    assert found.figure > 0.9
    assert (found.verdict, found.range) == ("unknown", ("not feasible", "good"))
    assert found.unstated == ()
    assert "distances do not tell whether people form such groups" in found.words
    assert "sample=" in found.words
    assert "The smallest epsilon at which noise allows it is" in found.words
    hopeless = answer(ask(Budget(0.05), n_groups=3, **arguments))
    assert (hopeless.verdict, hopeless.range) == ("not feasible", ("not feasible", "not feasible"))


def test_denoising_may_find_neighbors_that_distances_do_not_promise() -> None:
    """Eight groups wide apart, by randomized response: closeness 0.80 was measured where 0.15 is promised without."""
    arguments = {"purpose": "neighbors", "distance": (36, 176), "weight": 102, "n_attributes": 2_000, "n_users": 2_400}
    arguments["mechanisms"] = ["randomized-response"]
    found = answer(ask(Budget(0.5), **arguments))
    assert found.figure < COARSE["neighbors"]
    assert (found.verdict, found.range) == ("unknown", ("not feasible", "good"))
    assert found.words.startswith("Unknown, good at best: without denoising, the people found are hardly nearer")
    assert "sample=" in found.words
    # At half of it nothing that people share can be seen, either (0.0 was measured); at much more both agree.
    assert answer(ask(Budget(0.25), **arguments)).verdict == "not feasible"
    assert answer(ask(Budget(2.0), **arguments)).verdict == "good"


@pytest.mark.parametrize(
    ("weight", "n_attributes", "distance", "n_users"),
    [(3.0, 50, (2.66, 5.61), 1_000), (3.94, 60, (3.41, 7.25), 800), (3.47, 200, (3.05, 6.5), 1_500)],
)
def test_neighbors_of_light_people_are_not_called_good_where_they_were_not(
    weight: float, n_attributes: int, distance: tuple[float, float], n_users: int
) -> None:
    """Two to six attributes, ε = 4, sketches: 0.36, 0.57 and 0.47 were measured where 0.54 to 0.6 had been promised."""
    arguments = {"purpose": "neighbors", "distance": distance, "n_users": n_users, "mechanisms": ["counting+laplace"]}
    found = answer(ask(Budget(4.0), weight=weight, **arguments))
    assert (found.verdict, found.range) == ("unknown", ("not feasible", "good"))
    assert found.figure < 0.5 < found.chosen.closeness_at_best
    assert answer(ask(Budget(8.0), weight=weight, **arguments)).verdict == "good"
    # Without a weight, the number of attributes tells how light people are.
    untold = answer(ask(Budget(4.0), n_attributes=n_attributes, numbered=False, **arguments))
    assert untold.figure == pytest.approx(found.figure, abs=0.03)
    assert untold.figure < untold.chosen.closeness_at_best


def test_too_few_people_for_so_many_groups_have_no_verdict() -> None:
    arguments = {"purpose": "segments", "distance": (20, 100), "weight": 60}
    for n_users, n_groups in ((2, None), (100, 1_000), (11, 6)):
        found = answer(ask(Budget(8.0), n_users=n_users, n_groups=n_groups, **arguments))
        assert found.verdict == "unknown"
        assert f"or more than {n_users} people: {n_users} people are not two for each group" in found.words
    assert not answer(ask(Budget(8.0), n_users=12, **arguments)).unstated


def test_pairs_farther_apart_than_their_weight_allows_have_no_verdict() -> None:
    for purpose, most in (("distances", 220), ("neighbors", 22)):
        arguments = {"purpose": purpose, "weight": 11, "n_users": 10_000, "mechanisms": ["counting+laplace"]}
        found = answer(ask(Budget(3.0), distance=(20, most + 1), **arguments))
        (unfitting,) = found.unstated
        assert unfitting.startswith(f"a far distance of at most {most}, or a weight of at least 11.")
        assert "people who have 11 attributes on average cannot differ in more than that" in unfitting
        assert answer(ask(Budget(3.0), distance=(20, 800), **arguments)).verdict == "unknown"
        assert not answer(ask(Budget(3.0), distance=(20, most), **arguments)).unstated
        # Of a part of an attribute nobody can say: 10.3 stands for ten or eleven.
        assert not answer(ask(Budget(3.0), **{**arguments, "distance": (10, 21), "weight": 10.3})).unstated


def test_ten_neighbors_are_not_spoken_of_where_there_are_no_ten() -> None:
    arguments = {"purpose": "neighbors", "distance": (20, 100), "weight": 60}
    assert "if ten of" not in answer(ask(Budget(8.0), n_users=19, **arguments)).words
    assert "if ten of 20 people are near" in answer(ask(Budget(8.0), n_users=20, **arguments)).words


def test_rounding_is_up() -> None:
    assert [rounded_up(x) for x in (0.0511, 1.0, 9.91, 12.01)] == [0.052, 1.0, 10.0, 13.0]
