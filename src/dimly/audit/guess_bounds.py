"""Lower bounds on ε and δ from right guesses or from errors of a test, at a stated confidence.

An attacker is shown what was published and guesses coins that were tossed before: whether a person has an attribute.
Under (ε, δ) nobody guesses better than the theorems here allow. So guesses that are too good refute the claim, and
guesses that are good prove that ε is not far below it.
"""

import math
from typing import NamedTuple

import scipy

from dimly.errors import ParameterError
from dimly.privacy import delta_of, epsilon_of

_HALVINGS = 60
_LARGEST = 100.0  # an epsilon above this would need more right guesses in a row than anybody draws


class Guesses(NamedTuple):
    """How an attacker did."""

    trials: int
    """Coins that were tossed."""
    made: int
    """Coins that were guessed; of the others the attacker said nothing."""
    right: int

    def __add__(self, other: object) -> "Guesses":
        if not isinstance(other, Guesses):
            return NotImplemented
        return Guesses(self.trials + other.trials, self.made + other.made, self.right + other.right)


def chance_of(guesses: Guesses, *, epsilon: float, delta: float = 0.0) -> float:
    """Return a bound on the probability of guessing as well as this, or better, under (ε, δ).

    All coins may be published at once, by one run, and noise may depend on noise: nothing is assumed but the promise,
    for each coin given all others. With δ = 0 the number of guesses may follow from what was published; with δ > 0 it
    must be fixed before.

    Parameters
    ----------
    guesses : Guesses
    epsilon, delta : float

    References
    ----------
    T. Steinke, M. Nasr and M. Jagielski, "Privacy auditing with one (1) training run", NeurIPS (2023), Theorem 3.1:
    with W binomial of ``made`` trials and probability e^ε/(1+e^ε), the chance is at most
    P(W ≥ v) + 2mδ·max over i ≥ 1 of P(v > W ≥ v − i)/i.

    Examples
    --------
    >>> round(chance_of(Guesses(100, 100, 73), epsilon=1.0), 3)
    0.561
    """
    trials, made, right = guesses
    if not 0 <= right <= made <= trials:
        raise ParameterError(f"guesses must be right <= made <= trials, got {right}, {made} and {trials}.")
    share = float(scipy.special.expit(epsilon))
    tail = float(scipy.stats.binom.sf(right - 1, made, share))
    if delta == 0 or right == 0:
        return tail
    # P(v > W ≥ v − i)/i falls once all of W's mass is counted: nothing beyond that can be the largest.
    least = max(0, min(right - 1, int(scipy.stats.binom.ppf(1e-18, made, share)) - 1))
    steps = range(1, right - least + 1)
    below = scipy.stats.binom.cdf(right - 1, made, share)
    sums = below - scipy.stats.binom.cdf([right - 1 - i for i in steps], made, share)
    worst = max(float(mass) / i for mass, i in zip(sums, steps, strict=True))
    return min(1.0, tail + 2 * trials * delta * worst)


def epsilon_from_guesses(guesses: Guesses, *, delta: float = 0.0, false_alarm: float = 1e-6) -> float:
    """Return the largest ε that these guesses refute, at least 0: a mechanism within it guesses so well only rarely.

    Parameters
    ----------
    guesses : Guesses
    delta : float, default=0.0
    false_alarm : float, default=1e-6
        How often at most a mechanism whose true ε is below the bound gives this bound; 1 − confidence.

    Examples
    --------
    >>> round(epsilon_from_guesses(Guesses(10**6, 10**6, 731_059)), 3)  # e/(1+e) of them
    0.989
    """
    _, made, right = guesses
    if delta == 0:
        if right == 0:
            return 0.0
        # Clopper and Pearson: the smallest probability under which so many are right with chance ≥ false_alarm.
        least = float(scipy.special.betaincinv(right, made - right + 1, false_alarm))
        return max(0.0, float(scipy.special.logit(least)))
    low, high = 0.0, _LARGEST
    if chance_of(guesses, epsilon=0.0, delta=delta) > false_alarm:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if chance_of(guesses, epsilon=middle, delta=delta) <= false_alarm:
            low = middle
        else:
            high = middle
    return low


class Errors(NamedTuple):
    """How a test of "present" against "absent" did: trials of each kind, and how often it was wrong."""

    absent: int
    false_alarms: int
    present: int
    misses: int

    def __add__(self, other: object) -> "Errors":
        if not isinstance(other, Errors):
            return NotImplemented
        return Errors(*(a + b for a, b in zip(self, other, strict=True)))


def epsilon_from_errors(errors: Errors, *, delta: float = 0.0, false_alarm: float = 1e-6) -> float:
    """Return a lower bound on ε from one test of independent trials: ln((hits − δ)/false alarms), at least 0.

    Both shares are bounded by Clopper and Pearson. Unlike a bound from one run it can be sure beyond 1 − δ.

    Examples
    --------
    >>> round(epsilon_from_errors(Errors(10**6, 268_941, 10**6, 268_941)), 2)
    0.99
    """
    least, most = _hits_and_alarms(errors, false_alarm)
    return max(0.0, math.log((least - delta) / most)) if least > delta else 0.0


def delta_from_errors(errors: Errors, *, epsilon: float, false_alarm: float = 1e-6) -> float:
    """Return a lower bound on δ at an ε, from one test of independent trials: hits − e^ε·false alarms, at least 0.

    It takes nothing for granted but that trials are independent. Both shares are bounded by Clopper and Pearson.

    Examples
    --------
    >>> round(delta_from_errors(Errors(10**6, 100_000, 10**6, 500_000), epsilon=1.0), 2)
    0.22
    """
    least, most = _hits_and_alarms(errors, false_alarm)
    return max(0.0, least - math.exp(epsilon) * most)


def _hits_and_alarms(errors: Errors, false_alarm: float) -> tuple[float, float]:
    """Return a bound below the share of hits and one above that of false alarms, which fail together this rarely."""
    hits = errors.present - errors.misses
    least = float(scipy.special.betaincinv(hits, errors.misses + 1, false_alarm / 2)) if hits else 0.0
    if errors.false_alarms >= errors.absent:
        return least, 1.0
    alarms = errors.false_alarms
    return least, float(scipy.special.betaincinv(alarms + 1, errors.absent - alarms, 1 - false_alarm / 2))


def separation_from_errors(errors: Errors, *, false_alarm: float = 1e-6) -> float:
    """Return a lower bound on μ, the number of standard deviations by which Gaussian noise fails to hide one unit.

    Noise of ``sigma`` on a move of ``l2`` has μ = l2/σ, and no test of independent trials errs less than
    Φ(Φ⁻¹(1−α) − μ) on one side where it errs α on the other (Gaussian differential privacy). Both shares are bounded by
    Clopper and Pearson.

    References
    ----------
    J. Dong, A. Roth and W. J. Su, "Gaussian differential privacy", JRSS-B (2022).
    M. Nasr et al., "Tight auditing of differentially private machine learning", USENIX Security (2023).
    """
    shares = []
    for trials, wrong in ((errors.absent, errors.false_alarms), (errors.present, errors.misses)):
        if wrong >= trials:
            return 0.0
        shares.append(float(scipy.special.betaincinv(wrong + 1, trials - wrong, 1 - false_alarm / 2)))
    return max(0.0, -float(scipy.special.ndtri(shares[0])) - float(scipy.special.ndtri(shares[1])))


def epsilon_from_separation(separation: float, *, delta: float) -> float:
    """Return the ε that Gaussian noise of a given μ has at δ; 0 where there is none to be seen."""
    if separation < 1e-9:
        return 0.0
    found = epsilon_of(1.0 / separation, delta=delta)
    return found if math.isfinite(found) else _LARGEST


def delta_from_separation(separation: float, *, epsilon: float) -> float:
    """Return the δ that Gaussian noise of a given μ has at ε; 0 where there is none to be seen."""
    return delta_of(1.0 / separation, epsilon=epsilon) if separation > 1e-9 else 0.0
