"""``protect``: a promise for several attributes of a person together, from that for one, and back."""

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from dimly.errors import ParameterError, as_integer
from dimly.mechanisms.make import MAX_TOGETHER
from dimly.privacy import Budget
from dimly.privacy.balls import ball, lower_fraction, precision, upper_fraction
from dimly.privacy.budget import LARGEST_EPSILON, stated, stated_below

_BITS = 192
_UP = Context(prec=5, rounding=ROUND_CEILING)


def budget_for_each(budget: Budget, together: int) -> Budget:
    """Return the budget of one attribute with which any ``together`` of a person cost at most ``budget``.

    What costs (ε₁, δ₁) for one attribute costs at most (Mε₁, Mδ₁e^((M−1)ε₁)) for any M of them (Vadhan, 2017, *The
    complexity of differential privacy*, Lemma 2.2). So ε₁ = ε/M and δ₁ = δ/(M·e^((M−1)ε/M)), both rounded down. It
    holds for every mechanism. Noise grows M times, for Gaussian noise a little more.

    Parameters
    ----------
    budget : Budget
        For any ``together`` attributes of a person.
    together : int
        M, from 1 to 10,000.

    Raises
    ------
    ParameterError
        If δ becomes too small to be a number.

    Examples
    --------
    >>> budget_for_each(Budget(1.0), 4)
    Budget(epsilon=0.25, delta=0.0)
    """
    m = as_integer("protect", together, 1, MAX_TOGETHER)
    if m == 1:
        return budget
    epsilon = stated_below(stated(budget.epsilon) / m)
    with precision(_BITS):
        shrink = lower_fraction((-ball(Fraction(m - 1) * stated(epsilon))).exp())
    delta = stated_below(stated(budget.delta) * shrink / m) if budget.delta else 0.0
    if budget.delta and delta < 1e-300:
        raise ParameterError(
            f"protect must be smaller, or epsilon, for a delta that can be kept, got {m} at epsilon "
            f"{budget.epsilon!r}. Use delta 0, with Laplace noise or randomized response."
        )
    return Budget(epsilon, delta)


def budget_together(budget: Budget, together: int) -> Budget:
    """Return what any ``together`` attributes of a person cost at most where each costs ``budget``.

    The inverse of :func:`budget_for_each`, rounded up to five digits, so that what was divided comes out again.

    Raises
    ------
    ParameterError
        If that is no promise any more.

    Examples
    --------
    >>> budget_together(budget_for_each(Budget(1.0, 1e-6), 3), 3)
    Budget(epsilon=1.0, delta=1e-06)
    """
    m = as_integer("protect", together, 1, MAX_TOGETHER)
    if m == 1:
        return budget
    with precision(_BITS):
        grown = upper_fraction(ball(Fraction(m - 1) * stated(budget.epsilon)).exp())
    epsilon, delta = _above(m * stated(budget.epsilon)), _above(m * stated(budget.delta) * grown)
    if epsilon > LARGEST_EPSILON or delta >= 1:
        raise ParameterError(
            f"protect must be smaller for epsilon {budget.epsilon!r} and delta {budget.delta!r} of each, got {m}: all "
            "of them together would not be protected."
        )
    return Budget(epsilon, delta)


def _above(number: Fraction) -> float:
    return float(_UP.divide(Decimal(number.numerator), Decimal(number.denominator)))
