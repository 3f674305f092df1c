"""What the privacy officer reads: promise, limits, guesses of an attacker, checks before signing."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_parts import FlipNoise, GaussianNoise
from dimly.privacy import Budget
from dimly.release.manifest import Manifest

PRIORS = (0.01, 0.5)
SEVERAL = (1, 2, 5, 10, 20)
_LARGEST = 700.0  # exponent that a float can hold


class Guess(NamedTuple):
    """What publishing can do to a guess about ``several`` units of one person at once."""

    several: int
    odds: float
    """e^(εm): with δ = 0, the factor by which odds can change; infinite where it is beyond a float."""
    delta: float
    """δ·(e^(εm) − 1)/(e^ε − 1), at most 1: 0 where odds are bounded for every outcome."""
    right: dict[float, float]
    """Chance of being right afterwards, at most, by the chance before; rounded up to a thousandth."""


def promise(manifest: Manifest) -> tuple[str, ...]:
    """Return what is promised, in sentences; empty where nothing is."""
    return tuple(manifest.promise.splitlines())[: _promised(manifest.plan)] if manifest.private else ()


def limits(manifest: Manifest) -> tuple[str, ...]:
    """Return what is not promised, and what the promise rests on, in sentences."""
    lines = tuple(manifest.promise.splitlines())
    return lines[_promised(manifest.plan) :] if manifest.private else lines


def _promised(plan: Plan) -> int:
    """Return how many sentences of a guarantee say what is promised; those after them say its limits."""
    return 2 if plan.protect is None else 3


def guesses(plan: Plan) -> tuple[Guess, ...]:
    """Return what a release by ``plan`` can do to guesses.

    With δ = 0 Bayes' rule bounds every single outcome. With δ > 0 it does not; there the bound is on how often the best
    guess between two cases that were equally likely is right, (e^ε + δ)/(1 + e^ε). Several units: ε·m and
    δ·(e^(εm) − 1)/(e^ε − 1).

    References
    ----------
    P. Kairouz, S. Oh and P. Viswanath, "The composition theorem for differential privacy", ICML (2015).
    """
    cost, found = plan.cost, []
    for m in SEVERAL:
        together = m * cost.epsilon
        odds = math.exp(together) if together <= _LARGEST else math.inf
        delta = 0.0
        if cost.is_pure:
            right = {prior: _right(prior, together) for prior in PRIORS}
        else:
            # (e^(εm) + δ(e^(εm) − 1)/(e^ε − 1))/(1 + e^(εm)), in terms of e^(−εm), which cannot overflow
            small = math.exp(-together)
            delta = min(cost.delta * math.expm1(min(together, _LARGEST)) / math.expm1(cost.epsilon), 1.0)
            right = {0.5: (1 + cost.delta * (1 - small) / math.expm1(cost.epsilon)) / (1 + small)}
        found.append(Guess(m, odds, delta, {prior: _up(bound) for prior, bound in right.items()}))
    return tuple(found)


def published(manifest: Manifest) -> Mapping[str, str]:
    """Return what was published, by which plan, as names and texts."""
    plan = manifest.plan
    return {
        "Mechanism": plan.mechanism,
        "Numbers per person": plan.per_person,
        "Noise": _noise(plan),
        "Protected unit": f"one {plan.protected} of one person",
        **_together(plan),
        "Attributes": "any" if plan.n_attributes is None else f"a closed list of {plan.n_attributes:,}",
        **({} if plan.measures_attributes else {"Distances": f"{plan.measured}: not in all attributes"}),
        "Values": "yes or no" if plan.resolution == 1 else f"from 0 to 1, in steps of 1/{plan.resolution}",
        "People": f"{manifest.n_users:,}, "
        + (
            "a list made without the private table, by the publisher's word"
            if manifest.users.roster == "given"
            else "those found in the private table"
        ),
        "User ids": "keyed hashes (pseudonyms)" if manifest.users.pseudonyms else "as in the source",
    }


def _together(plan: Plan) -> dict[str, str]:
    together = plan.together
    if together is None:
        return {}
    claim = f"ε = {exact(together.epsilon)}, δ = {exact(together.delta)}"
    return {"Protected together": f"any {plan.protect} of them, with {claim}"}


def checks(manifest: Manifest) -> tuple[str, ...]:
    """Return what to check before the release is given away, in sentences; in backquotes, what to type."""
    plan, users, n = manifest.plan, manifest.users, manifest.n_users
    if not manifest.private:
        return ("Give this release to nobody: it was made for tests, and promises nothing.",)
    lines = [
        f"The digest of the plan, `{manifest.plan_digest}`, is the one that was agreed on before publishing.",
        "`dimly verify RELEASE` succeeds. It reads every file, which this page by itself does not.",
        f"One {plan.protected} is what needs protection. The odds of a whole record of m change by up to e^(m·epsilon)"
        + (", with a delta above m·delta." if plan.cost.delta else "."),
    ]
    if manifest.ledger is None:
        lines.append(
            "This release names no ledger. Ask for every other release about the same people, whoever got it, and add "
            "up what they cost: `dimly ledger enter` does that."
        )
    else:
        lines.append(
            f"The ledger has the charge, and what is left of dataset “{manifest.ledger.dataset}” is what it should be: "
            "`dimly ledger show FILE`."
        )
    lines.append(
        "It is public knowledge already who is on the list of people."
        if users.roster == "given"
        else "It may become known who is in the table: everybody found there is in the release, by id."
    )
    if users.pseudonyms:
        lines.append("Nobody who gets the release has the key of the pseudonyms, which is long and random.")
    else:
        lines.append("Ids are published as they are, and none of them contains a name, an address or a telling number.")
    if plan.vocabulary is not None:
        lines.append("The list of attributes is public, and was not taken from the data.")
    if plan.directions_kind == "surveyed":
        lines.append(
            "The directions, which are in the release, were learned from the private table by a survey. Its ε and δ "
            "come on top of those of this release: the ledger must have both."
        )
    elif plan.directions_kind is not None:
        lines.append("The directions, which are in the release, come from public knowledge, and not from the data.")
    lines.append("Mechanism, numbers per person and noise were chosen without looking at the data.")
    if plan.cost.delta:
        small = "" if plan.cost.delta * n <= 0.1 else "NOT "
        lines.append(f"δ = {plan.cost.delta:g} is {small}well below 1/n = {1 / n:.2g}: it should be at most a tenth.")
    lines.append("Related attributes reveal each other. No group of them gives away what must stay unknown.")
    return tuple(lines)


def exact(number: float) -> str:
    """Return a number as the promise states it: with all its digits."""
    return repr(number).removesuffix(".0")


def guess_in_words(plan: Plan) -> str:
    """Return what the promise means for one guess, for a summary."""
    right = f"{100 * guesses(plan)[0].right[0.5]:.1f} %"
    if plan.cost.is_pure:
        return f"A guess about one {plan.protected} that was 50 % sure becomes at most {right} sure."
    return (
        f"The best guess between two equally likely cases of one {plan.protected} is right at most {right} of the time."
    )


def _right(prior: float, epsilon: float) -> float:
    return Budget(min(epsilon, _LARGEST)).posterior(prior)


def _up(probability: float) -> float:
    """Round up: a bound may not look better than it is."""
    return min(math.ceil(1000 * probability) / 1000, 1.0)


def _noise(plan: Plan) -> str:
    noise = plan.noise
    if isinstance(noise, FlipNoise):
        return f"each bit is flipped with probability {noise.probability:.4g}"
    spread = math.sqrt(plan.table.variance) * plan.scale
    law = f"rounded Gaussian (rule: {plan.rule})" if isinstance(noise, GaussianNoise) else "discrete Laplace"
    where = "number" if plan.places_people else "squared distance"
    return f"{law} on each {where}, of standard deviation {spread:.4g} where one attribute is 1"
