import pytest

from dimly.errors import ParameterError
from dimly.mechanisms.error.models import CountingError, Noise, SignedSketchError, sketch_error
from dimly.mechanisms.make import MECHANISMS, default_blend, sketching


def test_the_menu() -> None:
    assert len(MECHANISMS) == len(set(MECHANISMS)) == 7 * 2 + 2
    assert sketching("sparse+gaussian") == ("sparse", "gaussian")
    assert [name for name in MECHANISMS if sketching(name) is None] == ["randomized-response", "noisy-distances"]


@pytest.mark.parametrize("name", ["", "counting", "laplace+counting", "counting+laplace+laplace", None, 3])
def test_what_is_not_on_the_menu(name: object) -> None:
    with pytest.raises(ParameterError, match=r"mechanism must be a family.*For example: counting\+laplace"):
        sketching(name)  # type: ignore[arg-type]


def test_only_counting_trusts_sums_and_only_on_bits() -> None:
    assert default_blend("counting", bits=True) == 0.75
    assert default_blend("counting", bits=False) == 0.0
    assert default_blend("hashing", bits=True) is None
    noise = Noise(1.0, 3.0)
    assert isinstance(sketch_error("counting", k=8, blocks=1, noise=noise, bits=True, blend=0.5), CountingError)
    dasgupta = sketch_error("dasgupta", k=8, blocks=4, noise=noise, bits=True)
    assert isinstance(dasgupta, SignedSketchError)
    assert dasgupta.kurtosis == 2.5
