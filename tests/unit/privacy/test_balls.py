import math
import threading
from fractions import Fraction

import flint
import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.privacy.balls import (
    Ball,
    ball,
    float_above,
    lower_fraction,
    normal_cdf,
    precision,
    upper_fraction,
    upper_integer,
)


@given(st.fractions(min_value=-(10**9), max_value=10**9))
def test_enclosures_hold_the_number(number: Fraction) -> None:
    with precision(64):
        enclosure = ball(number)
    assert lower_fraction(enclosure) <= number <= upper_fraction(enclosure)


@given(
    st.fractions(min_value=-(10**9), max_value=10**9) | st.integers(-9, 9).map(lambda i: Fraction(i, 2)),
    st.integers(-90, 90),
    st.integers(0, 8).map(lambda i: Fraction(i, 4)),
)
def test_the_integer_next_to_an_upper_end_is_that_of_the_fraction(number: Fraction, shift: int, off: Fraction) -> None:
    """Of halves the even one, as of any fraction; with a radius and without."""
    with precision(64):
        for enclosure in (ball(number) * Ball(2) ** shift, Ball(ball(number), ball(off))):
            assert upper_integer(enclosure) == round(upper_fraction(enclosure))


@given(st.fractions(min_value=-(10**6), max_value=10**6))
def test_float_above_is_above_and_near(number: Fraction) -> None:
    above = float_above(number)
    assert Fraction(above) >= number
    assert Fraction(math.nextafter(above, -math.inf)) < number


def test_float_above_at_the_ends() -> None:
    assert float_above(Ball("inf")) == math.inf
    tiny = (-(Ball(10) ** 10)).exp()  # e^(−10¹⁰), far below the smallest float
    assert float_above(tiny) == math.ulp(0.0)
    assert float_above(Ball(-1)) == -1.0
    assert float_above(Ball(0)) == math.ulp(0.0)  # safe, and as near as makes no difference


@given(st.floats(-38, 38))
def test_normal_cdf_agrees_with_mpmath(x: float) -> None:
    with precision(256):
        ours = normal_cdf(ball(x))
    with mpmath.workprec(300):
        theirs = mpmath.ncdf(x)
        low, high = (mpmath.mpf(f.numerator) / f.denominator for f in (lower_fraction(ours), upper_fraction(ours)))
        assert low * (1 - mpmath.mpf(2) ** -250) <= theirs <= high * (1 + mpmath.mpf(2) ** -250)
        assert high - low <= theirs * mpmath.mpf(2) ** -200  # relative accuracy also in the left tail


def test_precision_is_restored_and_exclusive() -> None:
    before = flint.ctx.prec
    seen: list[int] = []

    def work(bits: int) -> None:
        for _ in range(200):
            with precision(bits):
                seen.append(flint.ctx.prec - bits)

    threads = [threading.Thread(target=work, args=(bits,)) for bits in (100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {0}
    assert flint.ctx.prec == before
    with pytest.raises(ZeroDivisionError), precision(77):
        1 / 0  # noqa: B018
    assert flint.ctx.prec == before
