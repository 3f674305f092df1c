import math
import shlex
from typing import Any

import pytest
from tests.cli.lines import answer

from dimly.errors import ParameterError
from dimly.mechanisms import Plan
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import Budget
from dimly.studio.plan_draft import PlanDraft, attacked, blurred, curve_of, epsilon_for, planned
from dimly.studio.plan_page import all_together, head_on_page, promise, protection, words_on_page

SEED = "ab" * 32
DRAFTS = {
    "as it begins": PlanDraft(seed=SEED),
    "several together": PlanDraft(seed=SEED, protect=3, epsilon=4.0),
    "segments with delta": PlanDraft(seed=SEED, purpose="segments", delta=1e-8, n_groups=4, epsilon=2.0),
    "stated distances": PlanDraft(seed=SEED, near=20.0, far=90.0, purpose="distances", n_attributes=None),
    "a closed list": PlanDraft(seed=SEED, numbered=True, n_attributes=300, weight=30.0, epsilon=4.0),
    "more digits than six": PlanDraft(
        seed=SEED, epsilon=1.2345678, delta=1.2345678e-8, near=20.0000001, far=90.0000001, purpose="segments"
    ),
    "columns with values": PlanDraft(seed=SEED, unit="column", has_values=True, max_bytes_per_user=400),
}


@pytest.mark.parametrize("name", DRAFTS)
def test_the_command_makes_the_same_plan(name: str) -> None:
    found = planned(DRAFTS[name])
    line = shlex.split(found.draft.command(force=found.advice.verdict == "not feasible"))
    assert line[-2:] == ["-o", "plan.json"]
    said = answer(*line[1:-2])
    assert said["digest"] == found.advice.plan.digest
    assert said["verdict"] == found.advice.verdict


@pytest.mark.parametrize(
    "stated",
    [
        {"n_attributes": 0},
        {"n_attributes": -3},
        {"n_attributes": 10**400},
        {"weight": 0.0},
        {"weight": 1e308},
        {"weight": math.inf},
        {"weight": math.nan},
    ],
)
def test_what_cannot_be_is_refused_and_not_guessed_from(stated: dict[str, Any]) -> None:
    draft = PlanDraft(seed=SEED, **stated)
    assert draft.guessed is None
    with pytest.raises(ParameterError, match=rf"^{next(iter(stated))} must be"):
        planned(draft)


def test_people_who_would_fill_the_memory_are_not_drawn() -> None:
    assert blurred(planned(PlanDraft(seed=SEED, weight=1e9, n_attributes=None))) is None


def test_words_on_the_page_name_no_options() -> None:
    purposes: tuple[Any, ...] = ("distances", "neighbors", "segments")
    drafts = [PlanDraft(seed=SEED, purpose=purpose, weight=weight) for purpose in purposes for weight in (None, 50.0)]
    said = [planned(draft).words for draft in drafts]
    assert any("sample=FILE" in words for words in said)
    for words in map(words_on_page, said):
        assert words
        assert "--" not in words
        assert "=" not in words
        assert "smallest" not in words


def test_distances_are_guessed_only_where_none_are_stated() -> None:
    assert PlanDraft(weight=50.0, n_attributes=None).distance == (50.0, 100.0)
    assert PlanDraft(weight=50.0, n_attributes=100).distance == (25.0, 50.0)
    assert PlanDraft(near=3.0, far=9.0).distance == (3.0, 9.0)
    assert not PlanDraft(near=3.0, far=9.0).rests_on_guess
    assert PlanDraft(near=3.0).rests_on_guess
    assert PlanDraft(weight=None).distance is None


def test_the_curve_has_whole_powers_of_ten_at_its_ends() -> None:
    curve = curve_of(PlanDraft(epsilon=20.0, seed=SEED))
    assert (curve[0].epsilon, curve[-1].epsilon) == (0.01, 100.0)
    error = planned(PlanDraft(seed=SEED)).advice.stderr
    assert epsilon_for(PlanDraft(seed=SEED), 1.01 * error) == pytest.approx(1.0)


def test_the_picture_and_the_attack_are_of_the_plan_itself() -> None:
    found = planned(PlanDraft(seed=SEED, epsilon=4.0))
    blur = blurred(found)
    assert blur is not None
    assert blur.kept > 0.5
    attack = attacked(found)
    assert attack is not None
    assert attack.bound == pytest.approx(0.98201, abs=1e-4)
    # 65,536 guesses: off by more than five standard errors in fewer than one of a million runs.
    assert abs(attack.right - attack.bound) < 5 * (attack.bound * (1 - attack.bound) / 65_536) ** 0.5


def test_a_picture_of_a_stated_list_and_none_of_columns() -> None:
    names = Vocabulary.listed([f"product {i}" for i in range(400)])
    listed = planned(PlanDraft(seed=SEED, epsilon=4.0, weight=30.0, n_attributes=None, vocabulary=names))
    assert listed.draft.told["n_attributes"] is None
    assert blurred(listed) is not None
    assert blurred(planned(DRAFTS["columns with values"])) is None


def test_several_together_are_promised_what_was_asked_for() -> None:
    one, ten = (planned(PlanDraft(seed=SEED, epsilon=1.0, protect=protect)).advice for protect in (1, 10))
    assert protection(one.plan)[0].startswith("One attribute is protected well: ")
    assert protection(ten.plan)[0].startswith("Any 10 attributes of a person together are protected well: ")
    assert promise(one.plan) == "ε = 1, δ = 0 for any one attribute of a person"
    odd = Plan.of("counting+laplace", Budget(1.00000049), k=8, seed=bytes(32))
    assert promise(odd).startswith("ε = 1.00000049, δ = 0")  # never smaller than it is
    assert promise(ten.plan).startswith("ε = 1, δ = 0 for any 10 together; ε = 0.1, δ = 0 for any one attribute")
    assert all_together(one.meaning[1]) == "All 50 attributes of a person together are not protected."
    assert all_together(ten.meaning[1]).endswith("together: 50 % becomes at most 99.4 %.")
    weak = planned(PlanDraft(seed=SEED, epsilon=4.0, delta=1e-8)).advice.plan
    assert "hardly protected" in protection(weak)[0]


def test_an_unknown_verdict_says_the_best_that_it_may_be() -> None:
    heads = [
        head_on_page(planned(PlanDraft(seed=SEED, purpose="segments", epsilon=epsilon, near=50.0, far=100.0)))
        for epsilon in (0.1, 0.5, 4)
    ]
    assert heads == [
        "This plan would show little but noise",
        "This may give a coarse picture: it depends on the people",
        "This may work well: it depends on the people",
    ]
    assert head_on_page(planned(PlanDraft(seed=SEED, weight=None))) == "This cannot be judged without knowing more"


def test_a_verdict_names_the_guess_that_it_rests_on() -> None:
    well = "This plan should work well"
    guess = head_on_page(planned(PlanDraft(seed=SEED, epsilon=5.0)))
    assert guess == f"{well}, if people differ in as many attributes as we guess"
    assert head_on_page(planned(PlanDraft(seed=SEED, epsilon=5.0, near=50.0, far=100.0))) == well
