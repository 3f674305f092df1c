import json
from dataclasses import FrozenInstanceError, asdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dimly.errors import ParameterError
from dimly.privacy.cost import Cost


def test_a_pure_cost_needs_only_epsilon() -> None:
    cost = Cost(1)
    assert cost == Cost(epsilon=1.0, delta=0.0, noise_multiplier=None, sampling_distance=0.0, unit="attribute")
    assert cost.is_pure
    assert not Cost(1.0, 1e-6).is_pure


def test_a_cost_survives_json() -> None:
    cost = Cost(
        np.float64(0.5),
        Fraction(3, 1000),  # type: ignore[arg-type]
        noise_multiplier=np.float32(4.0),  # type: ignore[arg-type]
        sampling_distance=np.float64(1e-30),
        unit="column",
        declared="autumn",
    )
    assert Cost(**json.loads(json.dumps(asdict(cost)))) == cost
    assert {type(value) for value in asdict(cost).values()} == {float, str}


def test_a_cost_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Cost(1.0).epsilon = 0.5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"epsilon": 0.0}, r"epsilon must be > 0 and at most 700, got 0\.0"),
        ({"epsilon": "1"}, "epsilon must be a number, got '1'"),
        ({"epsilon": 701.0}, r"epsilon must be > 0 and at most 700, got 701\.0"),
        ({"delta": 1.0}, r"delta must be in \[0, 1\), got 1\.0"),
        ({"noise_multiplier": "4"}, "noise_multiplier must be a number, got '4'"),
        ({"noise_multiplier": True}, "noise_multiplier must be a number, got True"),
        ({"noise_multiplier": 0.0}, r"noise_multiplier must be in \[0\.01, 1e9\], got 0\.0"),
        ({"noise_multiplier": float("nan")}, r"noise_multiplier must be in \[0\.01, 1e9\], got nan"),
        ({"noise_multiplier": float("inf")}, r"noise_multiplier must be in \[0\.01, 1e9\], got inf"),
        ({"noise_multiplier": 4.0, "delta": 0.0}, "delta must be > 0 with a noise_multiplier"),
        ({"noise_multiplier": 4.2}, "delta must be at least .* for noise_multiplier 4.2 at epsilon 1.0"),
        ({"sampling_distance": None}, "sampling_distance must be a number, got None"),
        (
            {"noise_multiplier": 4.0, "sampling_distance": 1.0},
            r"sampling_distance must be in \[0, 1\), got 1\.0",
        ),
        (
            {"noise_multiplier": 4.0, "sampling_distance": -1e-9},
            r"sampling_distance must be in \[0, 1\), got -1e-09",
        ),
        ({"sampling_distance": 1e-30}, "sampling_distance must be 0 without a noise_multiplier, got 1e-30"),
        ({"unit": "person"}, "unit must be one of attribute, column, got 'person'"),
        ({"declared": ""}, "declared must be None or a name, got ''"),
        ({"declared": 7}, "declared must be None or a name, got 7"),
    ],
)
def test_fields_out_of_range_are_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        Cost(**({"epsilon": 1.0, "delta": 1e-6} | fields))
