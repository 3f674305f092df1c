"""What a release promises in words: the sentences on people, directions, volunteers, pseudonyms."""

import math
from collections.abc import Sequence
from typing import Literal

from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_kinds import DirectionsPlan
from dimly.mechanisms.plan_parts import GaussianNoise
from dimly.privacy import Budget

RosterKind = Literal["given", "found"]

_UNIT = {
    "attribute": "any one attribute value of any one person",
    "column": "any one categorical column, of one category per person, of any one person",
    "category": "any one category of any one person, whichever of its attributes they have,",
}
_SEVERAL = {"attribute": "attributes", "column": "columns", "category": "categories"}
_ALONG = (
    "People are published along directions that are in the release and that by the publisher's word were made without "
    "the private table."
)
_SURVEYED = (
    "People are published along directions that are in the release and that were learned from the private table by a "
    "survey: their origin states its epsilon and delta, which come on top of those of this release."
)
_VOLUNTEERS = (
    "Excepted are people whom the directions were learned from and who are in the release: their data is public, and "
    "nothing of the above is promised to them."
)
_PLANNED_FROM = (
    "Excepted are people of the public sample that the plan was made from and who are in the release: their data is "
    "public, and nothing of the above is promised to them."
)
_UNLISTED = "Attributes that the directions do not list count for nothing."
_CATEGORIES = "Attributes stand for their categories, and each category of a person counts once."
_GIVEN = (
    "The people are a list that by the publisher's word was made without the private table: who is on it and who is "
    "not must be public knowledge."
)
_FURTHER = "Every further release of the same people adds its own cost; all recipients count together."
_FOUND = (
    "The people are those found in the private table: that somebody is in the release tells that the table has "
    "something about them, and that somebody is missing tells that it has nothing."
)
_FOUND_PROMISE = (
    "So the promise is weaker than with a list of people given beforehand: it is about the attributes of people given "
    "that they are in the release, and not about being in it."
)
_FOUND_PAIRS = (
    "Each person who is found adds one distance to everybody else's, so that the whole release shows who was found."
)
_PSEUDONYMS = (
    "User ids are keyed hashes of the true ones, and no part of the promise: whoever holds the key, or can guess it, "
    "undoes them by trying ids."
)
_EARLIER = {
    _UNIT["category"]: "any one category of any one person, by whichever of its attributes the person has it,",
    _UNLISTED: "Attributes that the directions do not list count nothing.",
    _GIVEN: "The people are a list that the publisher gave beforehand: who is on it and who is not must be public "
    "knowledge.",
    _FURTHER: "Every further release of the same people costs as much again; all recipients count together.",
    _FOUND_PAIRS: "Whoever is found adds one distance to every other person's: a person more or less is seen in the "
    "whole release.",
}
"""How older manifests word what is worded better now. They must be read for ever: nothing is taken out of here."""


def guarantee(
    plan: Plan,
    n_users: int,
    *,
    private: bool = True,
    roster: RosterKind | None = None,
    pseudonyms: bool = False,
    volunteers: bool = False,
) -> str:
    """Return the promise of a release, its limits, and what it rests on, one sentence a line.

    These words are part of release format 1: a manifest holds them, and verifying compares them. For another wording
    see :func:`is_guarantee`, which knows the earlier ones.

    Parameters
    ----------
    plan : Plan
    n_users : int
        People in the release.
    private : bool, default=True
        Whether the noise came from a fresh secret keystream.
    roster : {"given", "found"}, optional
        Where the list of people came from; None says nothing of it.
    pseudonyms : bool, default=False
        Whether user ids are keyed hashes.
    volunteers : bool, default=False
        Whether people may be in it whose public data its directions or its plan were made from.

    Examples
    --------
    >>> from dimly.privacy import Budget
    >>> plan = Plan.of("counting+laplace", Budget(1.0), k=8, seed=bytes(32))
    >>> print(guarantee(plan, 100).splitlines()[1])
    A guess that was right with probability 50 % can become at most 73.2 % sure.
    """
    if not private:
        return (
            "NOT PRIVATE: the noise did not come from a fresh secret keystream. This release is for tests only and "
            "must not be given to anyone."
        )
    cost = plan.cost
    epsilon, delta = (repr(value).removesuffix(".0") for value in (cost.epsilon, cost.delta))
    claim = f"epsilon = {epsilon}, delta = {delta}"
    factor = f"e^{epsilon} = {_rounded_up(math.exp(cost.epsilon))}"
    lines = [f"Publishing changes the odds of {_UNIT[plan.protected]} by at most {factor} ({claim})."]
    if cost.delta:
        small = cost.delta * n_users <= 0.1
        lines.append(
            f"Beyond that factor the probability of any set of outcomes may change by delta = {delta}, which is "
            + ("" if small else "NOT ")
            + f"well below 1/n = {1 / max(n_users, 1):.2g}"
            + ("." if small else ": this much would allow some people to be exposed altogether.")
        )
    else:
        posterior = _rounded_up(100 * Budget(cost.epsilon).posterior(0.5))
        lines.append(f"A guess that was right with probability 50 % can become at most {posterior} % sure.")
    lines += _about_several(plan)
    sampling = ", and counts the sampling error of its tables" if isinstance(plan.noise, GaussianNoise) else ""
    not_protected = (
        "who is in the release",
        "what follows from attributes that go together, or from a trend over many",
        "that two people are near each other",
    )
    lines += [
        f"Several at once: the odds of m {_SEVERAL[plan.protected]} of one person change by up to e^(m·epsilon)"
        + (", with a delta above m·delta." if cost.delta else "."),
        f"Not protected: {'; '.join(not_protected)}.",
        *_about_directions(plan),
        *_about_volunteers(plan, excepted=volunteers),
        *_about_people(plan, roster, pseudonyms=pseudonyms),
        _FURTHER,
        f"Noise is drawn from an AES-256 keystream: the promise is as strong as that cipher{sampling}.",
        "Nothing in the published numbers can prove that noise was added as stated; that is the publisher's word.",
    ]
    return "\n".join(lines)


def _about_several(plan: Plan) -> list[str]:
    if plan.together is None:
        return []
    return [f"Any {plan.protect} {_SEVERAL[plan.protected]} of one person together: {odds_together(plan.together)}."]


def odds_together(together: Budget) -> str:
    """Return how far publishing changes the odds of several units of a person together, in words."""
    epsilon, delta = (repr(value).removesuffix(".0") for value in (together.epsilon, together.delta))
    factor = f"e^{epsilon} = {_rounded_up(math.exp(together.epsilon))}"
    return f"their odds change by at most {factor} (epsilon = {epsilon}, delta = {delta})"


def _about_directions(plan: Plan) -> list[str]:
    if not isinstance(plan, DirectionsPlan):
        return []
    part = plan.directions
    lines = [_SURVEYED if part.kind == "surveyed" else _ALONG]
    if not part.buckets:
        lines.append(_UNLISTED)
    if part.kind == "categories":
        lines.append(_CATEGORIES)
    return lines


def _about_volunteers(plan: Plan, *, excepted: bool) -> list[str]:
    if not excepted:
        return []
    return [_VOLUNTEERS if isinstance(plan, DirectionsPlan) else _PLANNED_FROM]


def _about_people(plan: Plan, roster: RosterKind | None, *, pseudonyms: bool) -> list[str]:
    lines = []
    if roster == "given":
        lines.append(_GIVEN)
    elif roster == "found":
        lines += [_FOUND, _FOUND_PROMISE]
        if not plan.places_people:
            lines.append(_FOUND_PAIRS)
    if pseudonyms:
        lines.append(_PSEUDONYMS)
    return lines


def _rounded_up(number: float) -> str:
    """Return three significant digits that are not below the number: a promise may not be better than the truth."""
    digits = 2 - math.floor(math.log10(number))
    raised = math.ceil(number * 10.0**digits) / 10.0**digits
    return f"{raised:.{max(digits, 0)}f}"


def is_guarantee(words: Sequence[str], promise: str) -> bool:
    """Return whether the lines of a manifest are a promise, in today's wording or an earlier one.

    Parameters
    ----------
    words : sequence of str
        What the manifest says.
    promise : str
        What :func:`guarantee` says.
    """
    lines = promise.splitlines()
    return len(words) == len(lines) and all(map(_is_wording, words, lines))


def _is_wording(line: str, today: str) -> bool:
    return line == today or any(now in today and line == today.replace(now, then) for now, then in _EARLIER.items())
