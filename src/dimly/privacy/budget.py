"""``Budget``: ε and δ, the unit of privacy (what "one attribute" means), posterior odds, rounding down."""

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import Literal, get_args

from dimly.errors import ParameterError

Unit = Literal["attribute", "column"]
"""What one step between neighboring tables is (the paper's Definition 1).

``attribute``: one attribute value of one person changes, anywhere in its range.
``column``: one categorical column of one person changes its category; written as bits
``column=value`` this flips two of them, so that every sensitivity doubles.
"""

UNITS: tuple[Unit, ...] = get_args(Unit)
VALUES_MOVED: dict[Unit, int] = {"attribute": 1, "column": 2}
"""How many attribute values one step of a unit moves."""


SMALLEST_EPSILON = 1e-20
LARGEST_EPSILON = 700.0
"""Between these every scale, variance and fourth moment is still a float; both are beyond any use by far."""
_DOWN = Context(prec=6, rounding=ROUND_FLOOR)


@lru_cache(maxsize=4096)  # ledgers add the same claims up again and again
def stated(value: float) -> Fraction:
    """Return the decimal that a float was written as: the shortest that reads back as this float.

    In binary, 0.1 is a little more than a tenth. What people sign is the tenth.

    Examples
    --------
    >>> stated(0.1)
    Fraction(1, 10)
    """
    return Fraction(repr(float(value)))


def stated_below(number: Fraction) -> float:
    """Return a float whose decimal is short and not above a number: what is signed adds up, digit by digit.

    Examples
    --------
    >>> stated_below(Fraction(2, 3))
    0.666666
    """
    return float(_DOWN.divide(Decimal(number.numerator), Decimal(number.denominator)))


@dataclass(frozen=True, slots=True)
class Budget:
    """An (ε, δ) bound on what one person's one attribute may change in the published output.

    For every set of outputs, its probability with and without a change of one :data:`Unit` differ by
    a factor of at most e^ε, and beyond that by at most δ (the paper's Definition 1).

    Parameters
    ----------
    epsilon : float
        In [1e-20, 700]. The odds of any one attribute change by at most e^ε.
    delta : float, default=0.0
        In [0, 1). How much the probability of any set of outcomes may change beyond that; 0 is a pure guarantee.

    Raises
    ------
    ParameterError
        If either is not a number in its range.

    Examples
    --------
    >>> Budget(1.0, 1e-6)
    Budget(epsilon=1.0, delta=1e-06)
    >>> round(Budget(4.0).posterior(0.5), 3)  # a coin-flip guess can become this sure
    0.982
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise ParameterError(f"{name} must be a number, got {value!r}.")
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
            object.__setattr__(self, name, number + 0.0)  # −0.0 becomes 0.0, so that equal budgets print alike
        if not SMALLEST_EPSILON <= self.epsilon <= LARGEST_EPSILON:
            at_least = "> 0" if not 0 < self.epsilon < SMALLEST_EPSILON else f"at least {SMALLEST_EPSILON:g}"
            raise ParameterError(
                f"epsilon must be {at_least} and at most {LARGEST_EPSILON:g}, got {self.epsilon!r}. "
                "Common choices lie between 0.1 and 8."
            )
        if not 0 <= self.delta < 1:
            raise ParameterError(
                f"delta must be in [0, 1), got {self.delta!r}. Use 0, or a value well below 1 / number of people, such "
                "as 1e-6."
            )

    @property
    def is_pure(self) -> bool:
        """Whether δ is zero: the factor e^ε holds without exception."""
        return self.delta == 0.0

    @property
    def rounded_down(self) -> "Budget":
        """The budget in floats that do not exceed the decimals it was written in, for calibrations and proofs.

        Ledgers add up decimals. So what is proven must hold for the decimal, and not for a float above it.
        """
        return Budget(_at_most_stated(self.epsilon), _at_most_stated(self.delta))

    def posterior(self, prior: float) -> float:
        """Return the largest belief in one attribute that a release can lead to, from ``prior``.

        Bayes' rule with the worst odds factor of a pure budget, e^ε. With δ > 0 the promise speaks
        of sets of outputs, and rare single outputs may lead further. For somebody who knows everything else: what is
        known of attributes that go together may lead further, too.
        """
        if not 0 < prior < 1:
            raise ParameterError(f"prior must be in (0, 1), got {prior!r}.")
        return 1.0 / (1.0 + (1.0 - prior) / prior * math.exp(-self.epsilon))


def _at_most_stated(value: float) -> float:
    return value if Fraction(value) <= stated(value) else math.nextafter(value, 0.0)
