"""How much Gaussian or Laplace noise a budget asks for, and the ε or δ that a given noise gives.

Four rules for Gaussian noise, from the loosest to the tight one. They are the paper's, with its misprints
mended: Lemma 1's denominator is √2·ε (not √(2ε)), and its first condition reads R ≤ ….
"""

import math
import operator
from collections.abc import Callable
from typing import Literal, get_args

from dimly.errors import ParameterError, check_choice
from dimly.privacy.balls import Ball, ball, float_above, normal_cdf, precision
from dimly.privacy.budget import LARGEST_EPSILON, Budget

Rule = Literal["exact", "lemma1", "theorem1", "lemma2"]
RULES: tuple[Rule, ...] = get_args(Rule)

_BITS = 192
# Halvings until the bracket is a few units in the last place wide; the safe end of it is returned.
_HALVINGS = 52


def gaussian_scale(
    budget: Budget,
    *,
    l2_sensitivity: float,
    rule: Rule = "exact",
    k: int | None = None,
    n_attributes: int | None = None,
) -> float:
    """Return a standard deviation of Gaussian noise that keeps one release within ``budget``.

    Rounded to the safe side: the true cost may fall below the budget, never above it.

    Parameters
    ----------
    budget : Budget
        δ must be > 0, and below 1/2 for the paper's rules.
    l2_sensitivity : float
        Farthest that one unit of privacy can move the output in Euclidean norm; finite, > 0.
    rule : {"exact", "lemma1", "theorem1", "lemma2"}, default="exact"
        Which statement to calibrate by. "exact" is the tight curve of the paper's Figure 1 and never
        worse than the others. "lemma2" holds for a projection with entries N(0, 1/k) whose realized
        sensitivity is at most 2, and does not depend on it otherwise.
    k, n_attributes : int, optional
        Sketch dimension and number of attributes; needed by "lemma2" only.

    Returns
    -------
    float
        In the units of ``l2_sensitivity``.

    Raises
    ------
    ParameterError
        If a precondition of the rule does not hold.

    Examples
    --------
    >>> budget = Budget(1.0, 1e-6)
    >>> [round(gaussian_scale(budget, l2_sensitivity=1.0, rule=r), 3) for r in ("exact", "lemma1", "theorem1")]
    [4.225, 5.219, 5.315]
    >>> round(gaussian_scale(budget, l2_sensitivity=1.0, rule="lemma2", k=64, n_attributes=3706), 2)
    14.87

    References
    ----------
    The paper's Theorem 1, Lemmas 1 and 2, Figure 1. "exact" in closed form: Balle and Wang (2018), Theorem 8.
    """
    check_choice("rule", rule, RULES)
    l2_sensitivity = _positive("l2_sensitivity", l2_sensitivity)
    budget = budget.rounded_down
    if budget.delta == 0:
        raise ParameterError(
            "delta must be > 0 for Gaussian noise, got 0. Choose one well below 1 / number of people, such as 1e-6, or "
            "use Laplace noise, which needs none."
        )
    if rule == "exact":
        return _exact_scale(budget, l2_sensitivity)
    _check_paper_delta(budget.delta, rule)
    with precision(_BITS):
        epsilon, log_term, w = ball(budget.epsilon), _log_term(budget.delta), ball(l2_sensitivity)
        if rule == "theorem1":
            return float_above(w * (2 * (log_term + epsilon)).sqrt() / epsilon)
        if rule == "lemma1":
            return float_above(_lemma1_scale(epsilon, log_term, w))
        dimension, attributes = _check_lemma2(k, n_attributes)
        if l2_sensitivity > 2:
            raise ParameterError(
                f"l2_sensitivity must be at most 2 under lemma2, got {l2_sensitivity!r}. "
                "Draw another seed, or use rule='exact'."
            )
        log_inverse = -ball(budget.delta).log()
        if not epsilon < log_inverse:
            raise ParameterError(
                f"epsilon must be below ln(1/delta) = {float(log_inverse):.4g} under lemma2, got {budget.epsilon!r}. "
                "Use rule='exact', which has no such limit."
            )
        needed = 2 * (ball(attributes).log() + ball(2).log() + log_inverse)
        if not dimension > needed:
            raise ParameterError(
                f"k must be above 2(ln(n_attributes) + ln(2/delta)) = {float(needed):.4g} under lemma2, got {k}. "
                "Use a larger k, or rule='exact'."
            )
        return float_above(4 * log_inverse.sqrt() / epsilon)


def laplace_scale(budget: Budget, *, l1_sensitivity: float) -> float:
    """Return the scale of Laplace noise that keeps one release within ε alone, rounded up.

    Examples
    --------
    >>> laplace_scale(Budget(0.5), l1_sensitivity=2.0)
    4.0
    """
    l1_sensitivity = _positive("l1_sensitivity", l1_sensitivity)
    with precision(_BITS):
        return float_above(ball(l1_sensitivity) / ball(budget.epsilon))


def delta_of(
    scale: float,
    *,
    epsilon: float,
    l2_sensitivity: float = 1.0,
    rule: Rule = "exact",
    k: int | None = None,
    n_attributes: int | None = None,
) -> float:
    """Return the δ that Gaussian noise of standard deviation ``scale`` guarantees at ``epsilon``.

    Rounded up. 1.0 where the paper's rule proves nothing.

    Examples
    --------
    >>> round(delta_of(1.0, epsilon=1.0), 3)  # the paper's Figure 1, middle curve
    0.127
    """
    check_choice("rule", rule, RULES)
    scale, l2_sensitivity = _positive("scale", scale), _positive("l2_sensitivity", l2_sensitivity)
    epsilon = _number("epsilon", epsilon)
    if not 0 <= epsilon <= LARGEST_EPSILON:
        raise ParameterError(f"epsilon must be in [0, {LARGEST_EPSILON:g}], got {epsilon!r}.")
    with precision(_BITS):
        sigma, e, w = ball(scale), ball(epsilon), ball(l2_sensitivity)
        if rule == "exact":
            return min(1.0, float_above(gaussian_profile(scale, epsilon, l2_sensitivity)))
        if rule == "lemma2":
            dimension, attributes = _check_lemma2(k, n_attributes)
            if l2_sensitivity > 2:
                return 1.0
            # The smallest δ that meets k's condition, if that is the larger one: more δ asks for less noise.
            delta = float_above((-((e * sigma / 4) ** 2)).exp())
            delta = max(delta, math.nextafter(float_above(2 * attributes * (-dimension / 2).exp()), math.inf))
            return delta if delta < 0.5 and e < -ball(delta).log() else 1.0
        if rule == "theorem1":
            exponent = (e * sigma / w) ** 2 / 2 - e
        else:
            reach = (2 * e * sigma**2 - w**2) / (2 * w * sigma)
            if not reach > 0:
                return 1.0
            exponent = reach**2 / 2
        return float_above((-exponent).exp() / 2) if exponent > 0 else 1.0


def epsilon_of(
    scale: float,
    *,
    delta: float,
    l2_sensitivity: float = 1.0,
    rule: Rule = "exact",
    k: int | None = None,
    n_attributes: int | None = None,
) -> float:
    """Return the ε that Gaussian noise of standard deviation ``scale`` guarantees at ``delta``.

    Rounded up. Zero if the noise hides the change completely up to δ; infinite where the paper's rule
    proves nothing.

    Examples
    --------
    >>> round(epsilon_of(4.225, delta=1e-6), 3)
    1.0
    """
    check_choice("rule", rule, RULES)
    scale, l2_sensitivity = _positive("scale", scale), _positive("l2_sensitivity", l2_sensitivity)
    delta = _number("delta", delta)
    if not 0 < delta < 1:
        raise ParameterError(f"delta must be in (0, 1), got {delta!r}.")
    if rule == "exact":
        return _exact_epsilon(scale, delta, l2_sensitivity)
    _check_paper_delta(delta, rule)
    with precision(_BITS):
        sigma, w, log_term = ball(scale), ball(l2_sensitivity), _log_term(delta)
        if rule == "theorem1":
            return float_above((w / sigma) ** 2 * (1 + (1 + 2 * log_term * (sigma / w) ** 2).sqrt()))
        if rule == "lemma1":
            return float_above(_lemma1_epsilon(sigma, log_term, w))
        dimension, attributes = _check_lemma2(k, n_attributes)
        log_inverse = -ball(delta).log()
        epsilon = 4 * log_inverse.sqrt() / sigma
        holds = (
            l2_sensitivity <= 2
            and epsilon < log_inverse
            and dimension > 2 * (ball(attributes).log() + ball(2).log() + log_inverse)
        )
        return float_above(epsilon) if holds else math.inf


def gaussian_profile(scale: float, epsilon: float, l2_sensitivity: float) -> Ball:
    """Return an enclosure of the exact δ(ε) of the Gaussian mechanism, the curve of Figure 1.

    δ = Φ(w/2σ − εσ/w) − e^ε Φ(−w/2σ − εσ/w).
    """
    for bits in (_BITS, 4 * _BITS, 16 * _BITS):
        with precision(bits):
            mu = ball(l2_sensitivity) / ball(scale)
            e = ball(epsilon)
            delta = normal_cdf(mu / 2 - e / mu) - e.exp() * normal_cdf(-mu / 2 - e / mu)
            # More bits only where the two terms nearly cancel.
            if delta.rel_accuracy_bits() >= 60:
                break
    return delta


def _exact_scale(budget: Budget, w: float) -> float:
    def holds(sigma: float) -> bool:
        return bool(gaussian_profile(sigma, budget.epsilon, w) <= ball(budget.delta))

    # Lemma 1 is never below the exact answer; for δ ≥ 1/2 it does not apply, and less noise than at
    # δ just below 1/2 is enough.
    with precision(_BITS):
        log_term = _log_term(min(budget.delta, 0.499))
        high = float_above(_lemma1_scale(ball(budget.epsilon), log_term, ball(w)))
    low = high
    while holds(low):  # at a tiny ε the exact answer lies far below Lemma 1's
        high, low = low, low / 2
    return _smallest(holds, low, high)


def _exact_epsilon(scale: float, delta: float, w: float) -> float:
    def holds(epsilon: float) -> bool:
        return bool(gaussian_profile(scale, epsilon, w) <= ball(delta))

    if holds(0.0):
        return 0.0
    with precision(_BITS):
        high = float_above(_lemma1_epsilon(ball(scale), _log_term(min(delta, 0.499)), ball(w)))
    return _smallest(holds, 0.0, high)


def _smallest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return nearly the smallest float for which ``holds``, itself one for which it was seen to hold."""
    while not holds(high):  # only where rounding put the bracket's end on the leaking side
        high = math.nextafter(high, math.inf) * (1 + 2**-50)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _log_term(delta: float) -> Ball:
    """L = ln(1/2δ)."""
    return -(2 * ball(delta)).log()


def _lemma1_scale(epsilon: Ball, log_term: Ball, w: Ball) -> Ball:
    # The larger root of 2εσ² − 2w√(2L)·σ − w² = 0.
    return w * (log_term.sqrt() + (log_term + epsilon).sqrt()) / (Ball(2).sqrt() * epsilon)


def _lemma1_epsilon(sigma: Ball, log_term: Ball, w: Ball) -> Ball:
    return (w / sigma) ** 2 / 2 + w / sigma * (2 * log_term).sqrt()


def _number(name: str, value: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} must be a number, got {type(value).__name__}.") from None


def _positive(name: str, value: float) -> float:
    number = _number(name, value)
    if not (math.isfinite(number) and number > 0):
        raise ParameterError(f"{name} must be finite and > 0, got {number!r}.")
    if not 1e-150 < number < 1e150:  # squares of it must be floats
        raise ParameterError(f"{name} must be between 1e-150 and 1e150, got {number!r}. Use other units.")
    return number


def _check_paper_delta(delta: float, rule: str) -> None:
    if delta >= 0.5:
        raise ParameterError(f"delta must be below 1/2 for rule {rule!r}, got {delta!r}. Use rule='exact'.")


def _check_lemma2(k: int | None, n_attributes: int | None) -> tuple[Ball, Ball]:
    checked = []
    for name, value in (("k", k), ("n_attributes", n_attributes)):
        try:
            number = operator.index(value)  # type: ignore[arg-type]  # None is what the error is for
        except TypeError:
            number = 0
        if number < 1 or isinstance(value, bool):
            raise ParameterError(f"{name} must be an integer >= 1 under lemma2, got {value!r}.")
        checked.append(Ball(number))
    return checked[0], checked[1]
