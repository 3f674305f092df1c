import math
import warnings
from typing import Any

import pytest

from dimly import advise, plan
from dimly.errors import ParameterError, PrivacyWarning
from dimly.mechanisms import Plan
from dimly.mechanisms.plan_parts import FlipNoise
from dimly.mechanisms.projection.random_matrix import longest_row
from dimly.planner.brief import PURPOSES, Purpose
from dimly.planner.candidates import candidates
from dimly.planner.verdicts import meaning
from dimly.privacy import Budget

SEED = bytes(32)


def test_the_choices_that_were_promised() -> None:
    assert plan(Budget(4.0), n_attributes=700, numbered=True).mechanism == "randomized-response"
    listed = [f"place {i}" for i in range(700)]
    assert plan(Budget(4.0), vocabulary=listed).mechanism == "randomized-response"
    for purpose in PURPOSES:  # attributes that were only counted may have names
        assert plan(Budget(4.0), n_attributes=700, purpose=purpose).vocabulary is None
    assert plan(Budget(4.0), n_attributes=100_000).mechanism == "counting+laplace"
    assert advise(Budget(0.05), distance=50).verdict == "not feasible"


def test_a_plan_is_a_plan() -> None:
    made = plan(Budget(1.0), distance=(100, 800), seed=SEED)
    assert isinstance(made, Plan)
    assert Plan.from_json(made.to_json()) == made
    assert advise(Budget(1.0), distance=(100, 800), seed=SEED).plan == made


def test_the_error_is_that_of_the_plan() -> None:
    for mechanism in ("counting+laplace", "ternary+gaussian"):
        found = advise(Budget(1.0, 1e-6), distance=(100, 800), n_attributes=1_000, mechanisms=[mechanism])
        error = found.plan.error.distance(weights=(400, 400))
        assert found.stderr == found.chosen.stderr_high == pytest.approx(math.sqrt(float(error(800.0))))
        assert found.chosen.stderr_low == pytest.approx(math.sqrt(float(error(100.0))))


@pytest.mark.parametrize(("seed", "longer"), [(1, False), (7, True)])  # than likely is the longest row of either
def test_the_verdict_goes_by_the_rows_that_were_drawn(seed: int, longer: bool) -> None:
    purposes: tuple[tuple[Purpose, float], ...] = (("distances", 1.0), ("neighbors", 0.5))
    for purpose, far in purposes:
        found = advise(
            Budget(10.0),
            purpose=purpose,
            distance=(100, 400),
            n_attributes=500,
            mechanisms=["ternary+laplace"],
            seed=bytes([seed] * 32),
        )
        one, likely = found.chosen, candidates(found.question)[0][0]
        assert one.k is not None
        row = longest_row("ternary", one.k, power=1, blocks=1, row_scale=found.plan.scale, n_attributes=500)
        assert found.plan.longest_row.l1 != row
        assert (found.plan.longest_row.l1 > row) == longer
        exact = math.sqrt((one.stderr_low**2 + far * one.stderr_high**2) / (1 + far))
        assert one.blur == pytest.approx(exact)
        assert one.blur > 1.01 * likely.blur if longer else one.blur < 0.99 * likely.blur


def test_reasons_and_words() -> None:
    found = advise(Budget(1.0), n_attributes=5_000, distance=400)
    assert found.reason.startswith(
        "counting+laplace has the smallest error, standard error 81.8 at squared distance 400"
    )
    assert "the next is hashing+laplace with 119" in found.reason
    assert found.words.startswith("Good: single pairs can be told apart. The smallest epsilon that would do is")
    alone = advise(Budget(1.0), mechanisms=["sign+laplace"])
    assert alone.reason.startswith("sign+laplace is the only one that can serve")
    segments = advise(Budget(1.0), purpose="segments", distance=(100, 120), n_attributes=5_000, n_users=5_000)
    assert "shows segments best once denoised" in segments.reason
    assert segments.words.startswith(
        "Unknown, coarse at best: noise allows compact groups this far apart to be found in"
    )
    assert "The smallest epsilon at which noise allows it is" in segments.words
    hopeless = advise(Budget(0.01), distance=(1e6, 1e6 + 1), mechanisms=["sign+laplace"])
    assert hopeless.words == "Not feasible: not even groups can be told apart. No epsilon up to 32 would do."
    easy = advise(Budget(0.0005), distance=(1e8, 1e9))
    assert easy.words.endswith("would do is 0.001 or less for a coarse picture, and 0.001 or less for a good one.")
    hard = advise(Budget(0.01), distance=(400, 420), mechanisms=["sign+laplace"])
    assert hard.words.endswith("no epsilon up to 32 gives a good one.")


def test_where_nothing_was_stated_the_verdict_is_unknown() -> None:
    nothing = advise(Budget(2.0))
    assert (nothing.verdict, nothing.needed) == ("unknown", (None, None))
    assert nothing.words.startswith("Unknown: too little was stated for a verdict. State distance or weight. If nobody")
    assert "survey=FILE" in nothing.words
    assert "sample=FILE" in nothing.words
    assert "far pairs differ in 400 attributes" in nothing.assumed[0]
    light = advise(Budget(2.0), weight=11)
    assert (light.question.high, light.verdict) == (22.0, "coarse")
    assert light.assumed == (
        "far pairs share nothing, and differ in 22 attributes; near ones in half of them (--distance)",
    )
    assert "share nothing but by chance" in advise(Budget(2.0), weight=11, n_attributes=100).assumed[0]


@pytest.mark.parametrize("purpose", ["neighbors", "segments"])
def test_neighbors_and_segments_need_both_distances_and_people(purpose: Any) -> None:
    assert advise(Budget(2.0), purpose=purpose, weight=60, n_users=5_000).unstated[0].startswith("distance as LOW:HIGH")
    assert advise(Budget(2.0), purpose=purpose, distance=400, n_users=5_000).verdict == "unknown"
    found = advise(Budget(4.0), purpose=purpose, distance=(100, 300))
    assert (found.verdict, found.unstated) == ("unknown", ("n_users",))
    assert found.words == "Unknown: too little was stated for a verdict. State n_users."
    assert advise(Budget(4.0), purpose=purpose, distance=(100, 300), n_users=5_000).range.best == "good"
    # However many there are, it is hopeless: that can be said without their number, but no smallest epsilon.
    hopeless = advise(Budget(0.05), purpose=purpose, distance=(100, 104))
    assert hopeless.verdict == "not feasible"
    assert "epsilon" not in hopeless.words


def test_a_plan_that_is_not_feasible_comes_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="Not feasible"):
        assert plan(Budget(0.05), distance=50).mechanism == "counting+laplace"


def test_delta_is_compared_with_people() -> None:
    with pytest.warns(PrivacyWarning, match=r"1e-06 is not well below 1/n = 1e-06.*does not use it"):
        plan(Budget(1.0, 1e-6), n_users=1_000_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan(Budget(1.0, 1e-8), n_users=1_000_000)
    used = advise(Budget(1.0, 1e-3), n_users=1_000, mechanisms=["sign+gaussian"])
    assert used.doubts[0].endswith("Take at most a tenth of 1/n.")
    assert advise(Budget(1.0, 1e-3)).doubts == ()


def test_what_epsilon_means() -> None:
    assert meaning(Budget(4.0)) == ("A guess about one attribute that was 50 % sure becomes at most 98.3 % sure.",)
    assert meaning(Budget(1.0, 1e-6))[0].endswith("at most 73.2 % sure on average.")
    assert meaning(Budget(1.0, 0.1))[0].endswith("at most 75.8 % sure on average.")  # (e + 0.1)/(1 + e)
    assert "not protected: their odds may change by up to e^200" in meaning(Budget(1.0), weight=200)[1]
    assert meaning(Budget(1.0), weight=200)[2].endswith("apart may change by up to e^400.")
    assert "50 % becomes at most 73.2 %, odds by e^1." in meaning(Budget(0.1), weight=10)[1]
    assert meaning(Budget(0.1, 1e-6), weight=10)[1].endswith("with a delta that grows as much as the odds.")
    assert meaning(Budget(500.0), weight=10)[1].endswith("e^5000.")
    # Of values a weight may be below 1, but who has anything has one attribute, which tells no less about them.
    assert meaning(Budget(1.0), weight=0.5) == meaning(Budget(1.0), weight=1)
    assert advise(Budget(2.0), weight=0.5, values="unit").meaning[1].startswith("The one attribute of a person: 50 %")
    assert "All 2,000,000 attributes" in meaning(Budget(0.5), weight=2e6)[1]
    assert "200 columns" in meaning(Budget(1.0), unit="column", weight=200)[1]


def test_what_epsilon_means_between_two_people() -> None:
    """Neighbors differ in one attribute; two people of weight w who share nothing are 2w neighbors apart."""
    budget, weight = Budget(0.1), 3
    apart = Budget(2 * weight * budget.epsilon).posterior(0.5)
    line = meaning(budget, weight=weight)[2]
    assert line.startswith("Two such people may differ in 6 attributes: 50 % becomes at most ")
    assert f"at most {math.ceil(1000 * apart) / 10:.1f} %" in line
    assert line.endswith("e^0.6.")
    flip = Plan.of("randomized-response", budget, n_attributes=2 * weight).noise
    assert isinstance(flip, FlipNoise)
    kept = 1 - flip.probability
    exact = (kept / (1 - kept)) ** (2 * weight)  # every bit comes out as the one person has it, and not the other
    assert exact == pytest.approx(math.exp(0.6), rel=1e-6)
    # A column has a category in both of them: two people differ in no more than all columns.
    assert len(meaning(budget, unit="column", weight=weight)) == 2


def test_what_is_told_is_about_the_plan() -> None:
    assert advise(Budget(1.0, 1e-6), weight=300).meaning == meaning(Budget(1.0), weight=300)  # the plan is pure


def test_the_papers_rules_stand_beside_ours() -> None:
    variance, deviation = advise(Budget(1.0, 1e-5), n_attributes=5_000).paper
    assert (variance.criterion, deviation.criterion) == ("variance", "deviation")
    assert variance.k < deviation.k
    assert variance.stderr < deviation.stderr
    assert variance.delta == 1e-5
    assert advise(Budget(1.0)).paper[0].delta == 1e-6
    assert advise(Budget(1.0, 0.6)).paper == ()  # the paper needs δ < 1/2


def test_what_cannot_be_made_makes_room_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Plan.of

    def refuse(mechanism: str, *arguments: Any, **keywords: Any) -> Plan:
        if mechanism == "counting+laplace":
            raise ParameterError("the table is too large.")
        return real(mechanism, *arguments, **keywords)

    monkeypatch.setattr(Plan, "of", refuse)
    found = advise(Budget(1.0))
    assert found.chosen.mechanism == found.plan.mechanism == "hashing+laplace"
    assert ("counting+laplace", "the table is too large.") in found.left_out


def test_refusals() -> None:
    with pytest.raises(ParameterError, match=r"got none. sign.gaussian, noisy-distances .it needs a delta above 0."):
        advise(Budget(1.0), mechanisms=["sign+gaussian", "noisy-distances"])
    with pytest.raises(ParameterError, match="seed must be 32 bytes"):
        advise(Budget(1.0), seed=b"short")


def test_a_seed_is_not_in_the_way_of_a_mechanism_without_a_projection() -> None:
    made = plan(Budget(4.0), n_attributes=700, numbered=True, seed=SEED)
    assert (made.mechanism, made.projection) == ("randomized-response", None)
    with pytest.raises(ParameterError, match="seed must be 32 bytes"):
        plan(Budget(4.0), n_attributes=700, numbered=True, seed=b"short")
