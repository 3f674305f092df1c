"""What a release promises, in words that are true, and what it does not."""

import math
from typing import Literal

from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_parts import GaussianNoise
from dimly.privacy import Budget

Roster = Literal["given", "found"]

_UNIT = {
    "attribute": "any one attribute value of any one person",
    "column": "any one categorical column, of one category per person, of any one person",
}


_GIVEN = (
    "The people are a list that the publisher gave beforehand: who is on it and who is not must be public knowledge."
)
_FOUND = (
    "The people are those found in the private table: that somebody is in the release tells that the table has "
    "something about them, and that somebody is missing tells that it has nothing."
)
_FOUND_PROMISE = (
    "So the promise is weaker than with a list of people given beforehand: it is about the attributes of people given "
    "that they are in the release, and not about being in it."
)
_FOUND_PAIRS = (
    "Whoever is found adds one distance to every other person's: a person more or less is seen in the whole release."
)
_PSEUDONYMS = (
    "User ids are keyed hashes of the true ones, and no part of the promise: whoever holds the key, or can guess it, "
    "undoes them by trying ids."
)


def guarantee(
    plan: Plan, n_users: int, *, private: bool = True, roster: Roster | None = None, pseudonyms: bool = False
) -> str:
    """Return the promise of a release, its limits, and what it rests on, one sentence a line.

    These words are part of release format 1: a manifest holds them, and verifying compares them. Another wording needs
    a way to tell which one a manifest was written with.

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
    lines = [f"Publishing changes the odds of {_UNIT[plan.unit]} by at most {factor} ({claim})."]
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
    sampling = ", and counts the sampling error of its tables" if isinstance(plan.noise, GaussianNoise) else ""
    not_protected = (
        "who is in the release",
        "what follows from attributes that go together, or from a trend over many",
        "that two people are near each other",
    )
    lines += [
        f"Several at once: the odds of m {plan.unit}s of one person change by up to e^(m·epsilon)"
        + (", with a delta above m·delta." if cost.delta else "."),
        f"Not protected: {'; '.join(not_protected)}.",
        *_about_people(plan, roster, pseudonyms=pseudonyms),
        "Every further release of the same people costs as much again; all recipients count together.",
        f"Noise is drawn from an AES-256 keystream: the promise is as strong as that cipher{sampling}.",
        "Nothing in the published numbers can prove that noise was added as stated; that is the publisher's word.",
    ]
    return "\n".join(lines)


def _about_people(plan: Plan, roster: Roster | None, *, pseudonyms: bool) -> list[str]:
    lines = []
    if roster == "given":
        lines.append(_GIVEN)
    elif roster == "found":
        lines += [_FOUND, _FOUND_PROMISE]
        if plan.n_users is not None:
            lines.append(_FOUND_PAIRS)
    if pseudonyms:
        lines.append(_PSEUDONYMS)
    return lines


def _rounded_up(number: float) -> str:
    """Return three significant digits that are not below the number: a promise may not be better than the truth."""
    digits = 2 - math.floor(math.log10(number))
    raised = math.ceil(number * 10.0**digits) / 10.0**digits
    return f"{raised:.{max(digits, 0)}f}"
