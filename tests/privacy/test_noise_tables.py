"""The tables that are sampled, checked again from outside: exact fractions against 60-digit exponentials."""

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import mpmath
import pytest

from dimly.errors import ParameterError
from dimly.mechanisms.noise.gaussian import RoundedGaussian
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.tables import TOTAL, BitFlip
from dimly.privacy import Budget, delta_of, gaussian_scale

EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0)


def probabilities(noise: DiscreteLaplace, tails: int) -> Iterator[Fraction]:
    """P(0), P(1), … of the process as the sampler runs it: the head, then ``tails`` tails one after the other."""
    yield from (Fraction(w, TOTAL) for w in noise.head)
    reached = Fraction(noise.overflow, TOTAL)
    for _ in range(tails):
        yield from (reached * Fraction(w, TOTAL) for w in noise.tail)
        reached *= Fraction(noise.tail_overflow, TOTAL)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("l1_sensitivity", [1, 2, 7])
def test_realized_epsilon_of_laplace_tables(epsilon: float, l1_sensitivity: int) -> None:
    noise = DiscreteLaplace.of(Budget(epsilon), l1_sensitivity=l1_sensitivity)
    with mpmath.workdps(60):
        limit = mpmath.exp(mpmath.mpf(epsilon) / l1_sensitivity)
        worst = mpmath.mpf(1)
        for a, b in pairwise(probabilities(noise, tails=3)):
            ratio = max(a / b, b / a)
            worst = max(worst, mpmath.mpf(ratio.numerator) / ratio.denominator)
        assert worst <= limit
        assert worst >= limit ** (1 - mpmath.mpf(10) ** -6)  # and no ε is given away
        assert mpmath.log(worst) <= mpmath.mpf(noise.realized_rate) * (1 + mpmath.mpf(10) ** -30)
    assert noise.realized_rate <= epsilon / l1_sensitivity * (1 + 1e-15)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_laplace_tables_are_distributions(epsilon: float) -> None:
    noise = DiscreteLaplace.of(Budget(epsilon), l1_sensitivity=1)
    below = list(probabilities(noise, tails=2))
    left = 2 * Fraction(noise.overflow, TOTAL) * Fraction(noise.tail_overflow, TOTAL) ** 2
    assert 2 * sum(below) - below[0] + left == 1


def test_recursing_on_the_two_sided_table_would_cost_more() -> None:
    # The trap: tail values drawn as H + |two-sided| double every value but the first, a step of ln(1+q) at the seam.
    noise = DiscreteLaplace.of(Budget(1.0), l1_sensitivity=1)
    folded = [noise.head[0], *(2 * w for w in noise.head[1:])]
    seam = Fraction(noise.head[-1] * TOTAL, noise.overflow * folded[0])
    assert math.log(max(seam, 1 / seam)) > 1.0 + 0.9 * math.log1p(math.exp(-1.0))


@pytest.mark.parametrize("place", ["head", "head/tail seam", "tail", "tail/tail seam"])
def test_a_table_that_fails_its_check_cannot_be_made(place: str) -> None:
    noise = DiscreteLaplace.of(Budget(1.0), l1_sensitivity=1)
    head, tail = list(noise.head), list(noise.tail)
    overflow, tail_overflow = noise.overflow, noise.tail_overflow
    little = TOTAL >> 40
    if place == "head":
        head[0] += 2 * little
        head[1] -= little
    elif place == "head/tail seam":
        head[0] += 2 * (overflow - overflow // 2)
        overflow //= 2
    elif place == "tail":
        tail[1] -= little
        tail_overflow += little
    else:
        # Half of the overflow, spread over the tail in proportion: every ratio but the seam's stays as it is.
        moved = tail_overflow - tail_overflow // 2
        tail = [t + moved * t // TOTAL for t in tail]
        tail_overflow = TOTAL - sum(tail)
        assert tail_overflow < 0.51 * noise.tail_overflow
    with pytest.raises(ParameterError, match="must not differ by more than"):
        DiscreteLaplace(noise.rate, tuple(head), overflow, tuple(tail), tail_overflow)


def test_too_little_laplace_noise_cannot_be_made() -> None:
    louder = DiscreteLaplace.of(Budget(1.0), l1_sensitivity=1)
    with pytest.raises(ParameterError, match="must not differ"):
        replace(louder, rate=Fraction(0.8))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [1e-3, 1e-15])
def test_delta_of_gaussian_tables_with_sampling_error(epsilon: float, delta: float) -> None:
    touched = 1024
    sigma = gaussian_scale(Budget(epsilon, delta * (1 - 1e-6)), l2_sensitivity=2.0)
    noise = RoundedGaussian.of(sigma)
    total = mpmath.mpf(0)
    with mpmath.workdps(60):
        s = mpmath.mpf(sigma)
        tails = [mpmath.erfc((2 * i - 1) / (2 * s * mpmath.sqrt(2))) / 2 for i in range(len(noise.half) + 1)]
        for i, weight in enumerate(noise.half):
            total += abs(mpmath.mpf(weight) / TOTAL - (tails[i] - tails[i + 1])) * (2 if i else 1)
        distance = (total + 2 * tails[-1]) / 2
        assert distance <= noise.sampling_distance <= 1.0001 * distance + mpmath.mpf(2) ** -150
        sampled = delta_of(sigma, epsilon=epsilon, l2_sensitivity=2.0) + (1 + mpmath.exp(epsilon)) * touched * distance
        assert sampled <= delta
    noise.check(Budget(epsilon, delta), l2_sensitivity=2.0, touched=touched)


def test_gaussian_tables_refuse_what_they_do_not_keep() -> None:
    noise = RoundedGaussian.of(4.225)
    noise.check(Budget(1.0, 1e-6), l2_sensitivity=1.0, touched=1)
    with pytest.raises(ParameterError, match="must keep delta at"):
        noise.check(Budget(0.99, 1e-6), l2_sensitivity=1.0, touched=1)
    with pytest.raises(ParameterError, match="must keep delta at"):
        noise.check(Budget(1.0, 1e-6), l2_sensitivity=1.01, touched=1)
    # A pure claim is out of reach, and a δ below the table's own error too.
    wide = RoundedGaussian.of(100.0)
    with pytest.raises(ParameterError, match="must keep delta at"):
        wide.check(Budget(1.0, 1e-45), l2_sensitivity=1.0, touched=1)


def test_a_gaussian_table_with_other_weights_cannot_be_made() -> None:
    honest, narrow = RoundedGaussian.of(5.0), RoundedGaussian.of(4.0)
    assert honest.sampling_distance < 1e-36
    for half in (narrow.half, (TOTAL,)):
        with pytest.raises(ParameterError, match="in total variation"):
            RoundedGaussian(5.0, half)
    # A shift of 2⁻⁹⁰ of the mass from the mode to its neighbors is noticed.
    little = TOTAL >> 90
    with pytest.raises(ParameterError, match="in total variation"):
        RoundedGaussian(5.0, (honest.half[0] - 2 * little, honest.half[1] + little, *honest.half[2:]))


@pytest.mark.parametrize(("epsilon", "touched"), [(0.5, 1), (1.0, 7), (3.0, 64)])
def test_what_sampling_costs_is_counted_in_full(epsilon: float, touched: int) -> None:
    """δ(σ) + (1 + e^ε)·touched·TV, to the last part in a thousand, on a table that claims to be far from its law."""
    noise = RoundedGaussian.of(10.0)
    far = 1e-6
    noise = replace(noise)  # a copy, whose cached distance may be overwritten
    noise.__dict__["sampling_distance"] = far
    total = delta_of(10.0, epsilon=epsilon) + (1 + math.exp(epsilon)) * touched * far
    noise.check(Budget(epsilon, total * 1.001), l2_sensitivity=1.0, touched=touched)
    with pytest.raises(ParameterError, match="must keep delta at"):
        noise.check(Budget(epsilon, total * 0.999), l2_sensitivity=1.0, touched=touched)
    with pytest.raises(ParameterError, match="touched must be at least 1"):
        noise.check(Budget(epsilon, 0.5), l2_sensitivity=1.0, touched=0)


@pytest.mark.parametrize("epsilon", [1e-6, *EPSILONS, 35.0])
@pytest.mark.parametrize("bits_moved", [1, 2])
def test_flip_probabilities_are_dyadic_and_large_enough(epsilon: float, bits_moved: int) -> None:
    flip = BitFlip.of(Budget(epsilon), bits_moved=bits_moved)
    with mpmath.workdps(60):
        least = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon) / bits_moved))
        assert mpmath.mpf(flip.numerator) / 2**53 >= least
        assert mpmath.mpf(flip.numerator - 1) / 2**53 < least
    assert Fraction(flip.probability) == Fraction(flip.numerator, 2**53)
    flip.check(Budget(epsilon), bits_moved=bits_moved)
    if flip.numerator > 1:
        with pytest.raises(ParameterError, match="odds"):
            BitFlip((flip.numerator - 1) / 2**53).check(Budget(epsilon), bits_moved=bits_moved)
