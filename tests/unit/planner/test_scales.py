import math

import pytest
from scipy import stats

from dimly.errors import ParameterError
from dimly.planner import Brief, plan_scales
from dimly.planner.verdicts import meaning
from dimly.privacy import Budget, compose


def test_the_budget_is_split_and_not_exceeded() -> None:
    found = plan_scales(Brief(Budget(1.0, 1e-6), mechanisms=["sign+gaussian"]), [200, 50, 800])
    assert [scale.distance for scale in found.scales] == [50, 200, 800]
    total = compose([plan.cost for plan in found.plans], delta=1e-6, method="sum")
    assert total.epsilon <= 1.0 + 1e-9
    assert math.fsum(plan.cost.delta for plan in found.plans) <= 1e-6 * (1 + 1e-12)
    seeds = {plan.projection.seed for plan in found.plans if plan.projection}
    assert len(seeds) == 3  # combined sketches must not share a projection


def test_errors_are_those_of_the_plans() -> None:
    found = plan_scales(Brief(Budget(2.0), weight=500), [50, 800])
    for scale in found.scales:
        each = [float(plan.error.distance(weights=(500, 500))(scale.distance)) for plan in found.plans]
        assert scale.together == pytest.approx(math.sqrt(1 / sum(1 / variance for variance in each)))
        assert scale.alone == pytest.approx(
            math.sqrt(float(scale.plan.error.distance(weights=(500, 500))(scale.distance)))
        )
        assert scale.together < scale.alone
        one = found.one.plan.error.distance(weights=(500, 500))
        assert scale.one == pytest.approx(math.sqrt(float(one(scale.distance))))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_one_sketch_is_better(epsilon: float) -> None:
    found = plan_scales(Brief(Budget(epsilon)), [50, 200, 800])
    assert not found.worth_it
    assert found.words.startswith("One sketch is better at every scale: 3 sketches together have")


def test_several_can_be_better_where_one_has_to_compromise() -> None:
    """Next to no noise splitting costs nothing, and more numbers are published: with few bytes that counts."""
    found = plan_scales(Brief(Budget(16.0), max_bytes_per_user=32, mechanisms=["hashing+laplace"]), [50, 800])
    assert found.worth_it
    assert found.words.startswith("2 sketches together are better at squared distance 50, 800; ")


def test_the_verdict_is_about_all_together() -> None:
    good, hopeless = plan_scales(Brief(Budget(1.0)), [50, 200, 800]), plan_scales(Brief(Budget(0.05)), [20, 50])
    assert (good.verdict, hopeless.verdict) == ("good", "not feasible")
    assert good.judgment == "Good: with all sketches together single pairs can be told apart."
    near, far = hopeless.scales
    gap = (far.distance - near.distance) / math.hypot(near.together, far.together)
    assert stats.norm.cdf(gap) < 0.55
    assert "have 2.8 times its standard error" in hopeless.words


def test_delta_and_meaning_are_about_all_together() -> None:
    found = plan_scales(Brief(Budget(1.0, 1e-4), n_users=2_000, weight=400, mechanisms=["sign+gaussian"]), [50, 800])
    assert found.doubts[0].startswith("delta = 0.0001 is not well below 1/n = 0.0005")
    assert found.meaning == meaning(Budget(1.0, 1e-4), weight=400)
    assert "Gaussian noise that is composed exactly" in found.words
    pure = plan_scales(Brief(Budget(1.0, 1e-4), n_users=2_000, mechanisms=["hashing+laplace"]), [50, 800])
    assert pure.doubts[0].endswith("What was chosen, hashing+laplace, does not use it and has delta = 0.")
    assert pure.meaning == meaning(Budget(1.0))
    assert plan_scales(Brief(Budget(1.0, 1e-6), n_users=2_000), [50, 800]).doubts == ()


def test_refusals() -> None:
    for scales in ([50], list(range(1, 18))):
        with pytest.raises(ParameterError, match="scales must be 2 to 16 squared distances"):
            plan_scales(Brief(Budget(1.0)), scales)
    with pytest.raises(ParameterError, match="squared distances, got 50"):
        plan_scales(Brief(Budget(1.0)), 50)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="scales must differ"):
        plan_scales(Brief(Budget(1.0)), [50, 50.0])
    with pytest.raises(ParameterError, match="scales must be a number > 0"):
        plan_scales(Brief(Budget(1.0)), [50, -1])
    alone = "scales must be given without distance, purpose, survey and seed: each is a distance of its own"
    for brief in (
        Brief(Budget(1.0), purpose="segments"),
        Brief(Budget(1.0), distance=4),
        Brief(Budget(1.0), seed="ab" * 32),
    ):
        with pytest.raises(ParameterError, match=alone):
            plan_scales(brief, [50, 800])


def test_scales_that_people_of_the_weight_cannot_reach_have_no_verdict() -> None:
    found = plan_scales(Brief(Budget(3.0), weight=11), [5, 800])
    assert found.verdict == "unknown"
    assert found.judgment.endswith(
        "State a far distance of at most 220, or a weight of at least 40: people who have 11 attributes on average "
        "cannot differ in more than that in a tenth of all pairs."
    )
    assert plan_scales(Brief(Budget(3.0), weight=400), [5, 800]).verdict == "good"
