"""Ball arithmetic: real numbers with proven error bounds (Arb, through python-flint).

A privacy claim that rests on a rounded float rests on luck. Every calibration and every noise table
is therefore decided on enclosures: a comparison is true only if it holds for every number in the ball,
and whatever leaves as a float leaves rounded to the side that its caller needs.
"""

import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TypeAlias

import flint

Ball: TypeAlias = flint.arb

# Arb's working precision is one setting for the whole process. Another thread changing it half-way could
# widen an enclosure (never make it false), so that the same call would succeed or fail by chance.
_precision_lock = threading.RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute the enclosed block with ``bits`` bits, alone."""
    with _precision_lock, flint.ctx.workprec(bits):
        yield


def ball(value: float | Fraction) -> Ball:
    """Return the enclosure of an exact number; of a fraction, as tight as the working precision."""
    if isinstance(value, Fraction):
        return Ball(value.numerator) / Ball(value.denominator)
    return Ball(value)


def lower_fraction(value: Ball) -> Fraction:
    """Return the lower end of an enclosure, exactly."""
    return _exact(value.mid()) - _exact(value.rad())


def upper_fraction(value: Ball) -> Fraction:
    """Return the upper end of an enclosure, exactly."""
    return _exact(value.mid()) + _exact(value.rad())


def upper_integer(value: Ball) -> int:
    """Return the integer that is nearest to the upper end of an enclosure, the even one of two: ``round`` of it.

    By shifts alone: as a fraction, an end point would be reduced to lowest terms first, which takes five times as long.
    """
    (middle, at), (radius, of) = value.mid().man_exp(), value.rad().man_exp()
    exponent = int(min(at, of)) if radius else int(at)
    number = int(middle) << (int(at) - exponent)
    if radius:
        number += int(radius) << (int(of) - exponent)
    if exponent >= 0:
        return number << exponent
    half = 1 << (-exponent - 1)
    whole, rest = number >> -exponent, number & (2 * half - 1)
    return whole + (rest > half or (rest == half and whole % 2 == 1))


def float_above(value: Ball | Fraction) -> float:
    """Return a float that is certainly not below ``value``, at most one step above the nearest."""
    if isinstance(value, Fraction):
        try:
            nearest = float(value)
        except OverflowError:
            return math.inf if value > 0 else -sys.float_info.max
        return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
    if not value.is_finite():
        return math.inf
    if value > Ball(sys.float_info.max):
        return math.inf
    if abs(value) < Ball(math.ulp(0.0)):  # spelled out as a fraction, e^(−10¹⁰) would not fit in memory
        return math.ulp(0.0)
    return float_above(upper_fraction(value))


def normal_cdf(x: Ball) -> Ball:
    """Return Φ(x), accurate relative to itself also in the left tail."""
    return (-x / Ball(2).sqrt()).erfc() / 2


def _exact(number: Ball) -> Fraction:
    # Midpoint and radius are exact whatever the working precision; Arb's own end points would be rounded to it.
    mantissa, exponent = (int(part) for part in number.man_exp())
    return Fraction(mantissa << exponent) if exponent >= 0 else Fraction(mantissa, 1 << -exponent)
