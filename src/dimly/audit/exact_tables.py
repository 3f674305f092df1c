"""Tables of noise checked again in exact fractions and decimals, by other code than made them.

What is checked are the cumulative weights that a sampler reads. Powers of e come from the standard library's decimals
and not from the ball arithmetic that the tables were made by.
"""

import copy
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise

from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.tables import FLIP_BITS, TOTAL, Cells
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_parts import FlipNoise, GaussianNoise, LaplaceNoise
from dimly.privacy.budget import stated

_DIGITS = Context(prec=80)
_SAFE = Fraction(1, 10**70)


def exp_below(power: Fraction) -> Fraction:
    """Return a number just below e^power."""
    exponent = _DIGITS.divide(Decimal(power.numerator), Decimal(power.denominator))
    return Fraction(_DIGITS.exp(exponent)) * (1 - _SAFE)


def check_tables(plan: Plan) -> str | None:
    """Return what is wrong with the tables of a plan, in words; None if they keep what the plan says."""
    plan = copy.copy(plan)  # without facts that were found earlier: this is a second opinion
    noise = plan.noise
    epsilon = stated(plan.budget.epsilon)
    if isinstance(noise, FlipNoise):
        flips = Fraction(int(noise.probability * 2**FLIP_BITS), 2**FLIP_BITS)
        limit = exp_below(epsilon / plan.touched)
        return None if (1 - flips) / flips <= limit else "bits are flipped too seldom"
    if isinstance(noise, LaplaceNoise):
        if noise.l1_sensitivity < plan.sensitivity.l1:
            return "the noise is for a smaller change than one unit can make"
        table = plan.table
        assert isinstance(table, DiscreteLaplace)  # noqa: S101 - the law says so
        return _check_laplace(table.cells(), table.tail_cells(), exp_below(epsilon / noise.l1_sensitivity))
    return _check_gaussian(plan, plan.table.cells())


def weights_of(cells: Cells) -> list[int]:
    """Return the weights that cumulative weights stand for."""
    last = [(int(high) << 64) | int(low) for high, low in zip(cells.high, cells.low, strict=True)]
    return [last[0] + 1, *(b - a for a, b in pairwise(last))]


def _check_laplace(head: Cells, tail: Cells, limit: Fraction) -> str | None:
    """Compare all neighboring values: within the head, at its seams, within the tail, and where it repeats."""
    weights, beyond = weights_of(head), weights_of(tail)
    if sum(weights) != TOTAL or sum(beyond) != TOTAL or min(*weights, *beyond) < 1:
        return "weights do not add up"
    if weights != weights[::-1]:
        return "noise is not symmetric"
    overflow, repeats = weights[0], beyond[-1]
    # Over TOTAL², so that all are integers: head, once around the tail, and its first cell again.
    values = [w * TOTAL for w in weights[len(weights) // 2 : -1]]
    values += [overflow * w for w in beyond[:-1]]
    ratios = [(a, b) for a, b in pairwise(values)]
    ratios.append((beyond[-2] * TOTAL, repeats * beyond[0]))
    top, bottom = limit.numerator, limit.denominator
    for a, b in ratios:
        if a * bottom > b * top or b * bottom > a * top:
            return "two neighboring values differ by more than the promise allows"
    return None


def _check_gaussian(plan: Plan, cells: Cells) -> str | None:
    """Sum up what exceeds e^ε times the same after a move, where one unit moves one number; else ask for the proof."""
    assert isinstance(plan.noise, GaussianNoise)  # noqa: S101 - the only law that is left
    weights = weights_of(cells)
    if sum(weights) != TOTAL or weights != weights[::-1]:
        return "weights do not add up, or are not symmetric"
    plan.prove()  # moves in several numbers: by the theorem, with the table's distance from the law
    if plan.touched > 1:
        return None
    move = plan.sensitivity.l1
    limit = exp_below(stated(plan.budget.epsilon))
    top, bottom = limit.numerator, limit.denominator
    excess = 0
    for i, weight in enumerate(weights):
        other = weights[i - move] if i >= move else 0
        excess += max(0, weight * bottom - other * top)
    spent = Fraction(excess, bottom * TOTAL)
    return None if spent <= stated(plan.budget.delta) else "more than delta exceeds what the promise allows"
