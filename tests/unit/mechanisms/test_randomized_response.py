import math

import pytest

from dimly.errors import ParameterError
from dimly.mechanisms.randomized_response import BitFlip
from dimly.privacy import Budget


def test_lemma_3() -> None:
    assert BitFlip.of(Budget(1.0)).probability == pytest.approx(1 / (1 + math.e), rel=1e-12)
    # A category moves two bits, each at half of ε.
    assert BitFlip.of(Budget(2.0), bits_moved=2).probability == BitFlip.of(Budget(1.0)).probability


@pytest.mark.parametrize("probability", [0.0, 0.5, 0.75, -0.25, math.nan, 2.0**-54, 2.0**-54 + 0.25])
def test_probability_must_be_dyadic_and_below_one_half(probability: float) -> None:
    if probability == 0.25:  # 2⁻⁵⁴ + ¼ rounds to ¼: nothing to refuse
        assert BitFlip(probability).numerator == 2**51
        return
    with pytest.raises(ParameterError, match="multiple of 2"):
        BitFlip(probability)


def test_an_epsilon_of_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match="epsilon must be at least"):
        BitFlip.of(Budget(1e-17))


def test_the_smallest_flip_is_one_unit() -> None:
    assert BitFlip.of(Budget(60.0)).numerator == 1
