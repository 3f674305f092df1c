from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from dimly.analyst.estimate import Estimate, scalar


def test_an_estimate_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Estimate(1.0, 0.5, 0.0, 2.0).value = 3.0  # type: ignore[misc]


def test_scalar_gives_plain_numbers() -> None:
    found = scalar(Estimate(*(np.array([float(i)]) for i in range(4))))
    assert found == Estimate(0.0, 1.0, 2.0, 3.0)
    assert {type(part) for part in (found.value, found.stderr, found.low, found.high)} == {float}
