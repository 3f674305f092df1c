"""The words of a promise state its numbers, never better than they are, and what it does not cover."""

import math
import re
from typing import Any

import pytest
from tests.plans import plan_of

from dimly.mechanisms import MECHANISMS, Plan
from dimly.mechanisms.guarantee import guarantee, is_guarantee
from dimly.privacy import Budget


def promised(mechanism: str, n_users: int = 100, **changes: Any) -> str:
    return guarantee(plan_of(mechanism, **changes), n_users)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_guarantee_states_its_numbers_and_its_limits(mechanism: str) -> None:
    text = promised(mechanism)
    assert "odds of any one attribute value of any one person by at most e^1 = 2.72 (epsilon = 1, delta = " in text
    for limit in (
        "odds of m attributes of one person change by up to e^(m·epsilon)",
        "Not protected: who is in the release;",
        "attributes that go together",
        "that two people are near each other",
        "Every further release of the same people adds its own cost",
        "AES-256",
        "Nothing in the published numbers can prove",
    ):
        assert limit in text
    for overclaim in ("cannot learn", "anonymous", "no risk", "NOT PRIVATE"):
        assert overclaim not in text


PURE = [mechanism for mechanism in MECHANISMS if mechanism.endswith("laplace") or mechanism == "randomized-response"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_delta_is_spoken_of_where_there_is_one(mechanism: str) -> None:
    text = promised(mechanism)
    if mechanism in PURE:  # although the budget would allow a δ
        assert "delta = 0)" in text
        assert "50 % can become at most 73.2 % sure" in text
        assert "1/n" not in text
        assert "m·delta" not in text
        assert "sampling error" not in text
    else:
        assert "delta = 1e-06)" in text
        assert "Beyond that factor the probability of any set of outcomes may change by delta = 1e-06" in text
        assert "% sure" not in text  # no bound on what a rare output tells
        assert "with a delta above m·delta" in text
        assert "counts the sampling error of its tables" in text


@pytest.mark.parametrize(("n_users", "small"), [(0, True), (1, True), (99_999, True), (200_000, False), (10**7, False)])
def test_delta_is_measured_against_the_number_of_people(n_users: int, small: bool) -> None:
    text = promised("hashing+gaussian", n_users)
    assert ("which is well below 1/n" in text) == small
    assert ("which is NOT well below 1/n" in text) == (not small)
    assert ("exposed altogether" in text) == (not small)
    assert f"1/n = {1 / max(n_users, 1):.2g}" in text


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+gaussian", "randomized-response"])
def test_the_unit_is_said(mechanism: str) -> None:
    text = promised(mechanism, unit="column")
    assert "odds of any one categorical column, of one category per person, of any one person by at most e^1" in text
    assert "odds of m columns of one person" in text
    assert "attribute value" not in text


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 4.0, 8.0])
def test_the_numbers_are_the_plans(epsilon: float) -> None:
    plan = Plan.of("counting+laplace", Budget(epsilon), k=8, seed=bytes(32))
    text = guarantee(plan, 100)
    said = re.search(r"at most e\^(\S+) = (\S+) \(epsilon = (\S+), delta = 0\)", text)
    sure = re.search(r"50 % can become at most (\S+) % sure", text)
    assert said
    assert sure
    assert float(said[1]) == float(said[3]) == epsilon
    # Rounded up, and not by more than one in the third digit.
    for shown, true in ((float(said[2]), math.exp(epsilon)), (float(sure[1]), 100 / (1 + math.exp(-epsilon)))):
        assert true <= shown <= true * 1.011


def test_an_epsilon_is_never_written_smaller_than_it_is() -> None:
    plan = Plan.of("counting+laplace", Budget(1.00000049), k=8, seed=bytes(32))
    assert "epsilon = 1.00000049" in guarantee(plan, 100)


@pytest.mark.parametrize("mechanism", ["counting+laplace", "hashing+gaussian"])
def test_what_is_not_private_promises_nothing(mechanism: str) -> None:
    text = guarantee(plan_of(mechanism), 100, private=False)
    assert text.startswith("NOT PRIVATE")
    assert "must not be given to anyone" in text
    assert "odds" not in text
    assert "epsilon" not in text


def test_one_sentence_stands_on_each_line() -> None:
    for line in promised("hashing+gaussian").splitlines():
        assert line[0].isupper()
        assert line.endswith(".")


def about_people(mechanism: str = "counting+laplace", **who: Any) -> str:
    plan = plan_of(mechanism)
    usual = guarantee(plan, 100).splitlines()
    lines = guarantee(plan, 100, **who).splitlines()
    assert [line for line in lines if line in usual] == usual  # nothing else changes
    return "\n".join(line for line in lines if line not in usual)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_people_who_were_found_weaken_the_promise(mechanism: str) -> None:
    text = about_people(mechanism, roster="found")
    assert "that somebody is in the release tells that the table has something about them" in text
    assert "that somebody is missing tells that it has nothing" in text
    assert "weaker" in text
    assert "given that they are in the release, and not about being in it" in text
    assert ("adds one distance to everybody else's" in text) == (mechanism == "noisy-distances")
    assert "public knowledge" not in text


def test_a_list_that_was_given_must_be_public() -> None:
    text = about_people(roster="given")
    assert "who is on it and who is not must be public knowledge" in text
    assert "weaker" not in text


def test_pseudonyms_promise_nothing() -> None:
    text = about_people(pseudonyms=True)
    assert "no part of the promise" in text
    assert "whoever holds the key, or can guess it, undoes them" in text


@pytest.mark.parametrize("roster", ["given", "found"])
def test_what_is_not_private_says_nothing_of_people(roster: Any) -> None:
    plan = plan_of("counting+laplace")
    text = guarantee(plan, 100, private=False, roster=roster, pseudonyms=True)
    assert text == guarantee(plan, 100, private=False)


def test_one_sentence_stands_on_each_line_about_people() -> None:
    for mechanism in ("counting+laplace", "noisy-distances"):
        for line in about_people(mechanism, roster="found", pseudonyms=True).splitlines():
            assert line[0].isupper()
            assert line.endswith(".")
            assert ". " not in line


def test_words_of_before_are_still_the_promise_and_others_are_not() -> None:
    today = guarantee(plan_of("counting+laplace"), 100, roster="given").splitlines()
    before = [
        "Every further release of the same people costs as much again; all recipients count together."
        if "further release" in line
        else line
        for line in today
    ]
    assert before != today
    promise = "\n".join(today)
    assert is_guarantee(today, promise)
    assert is_guarantee(before, promise)
    assert not is_guarantee(before[:-1], promise)
    assert not is_guarantee([*before, before[-1]], promise)
    for i, line in enumerate(today):
        for other in (line.replace("odds", "mood"), f"{line} Nobody learns anything.", line.removesuffix(".")):
            assert other == line or not is_guarantee([*today[:i], other, *today[i + 1 :]], promise)
