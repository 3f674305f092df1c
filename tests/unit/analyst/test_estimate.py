from dataclasses import FrozenInstanceError
from datetime import date

import numpy as np
import pandas
import pytest

from dimly.analyst.estimate import Estimate, Vector, own_steps, scalar
from dimly.errors import ParameterError
from dimly.mechanisms import Plan
from dimly.privacy import Budget


def test_an_estimate_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Estimate(1.0, 0.5, 0.0, 2.0).value = 3.0  # type: ignore[misc]


def test_scalar_gives_plain_numbers() -> None:
    found = scalar(Estimate(*(np.array([float(i)]) for i in range(4))))
    assert found == Estimate(0.0, 1.0, 2.0, 3.0)
    assert {type(part) for part in (found.value, found.stderr, found.low, found.high)} == {float}


def test_attributes_are_written_as_the_curator_would() -> None:
    steps = own_steps([42, "42", date(2024, 2, 29), True], resolution=1)
    assert steps == {"42": 1, "2024-02-29": 1, "true": 1}


def test_of_repeated_attributes_the_largest_value_counts_and_nothing_counts_for_nothing() -> None:
    assert own_steps({42: 0.25, "42": 0.75, "7": 0.0, "8": 0.01}, resolution=4) == {"42": 3}
    assert own_steps({"a": True, "b": np.float32(0.5), "c": np.int64(1)}, resolution=4) == {"a": 4, "b": 2, "c": 4}


def test_halves_are_rounded_as_the_curator_rounds_them() -> None:
    values = (np.arange(9) / 8).tolist()
    steps = own_steps({str(i): value for i, value in enumerate(values)}, resolution=4)
    assert [steps.get(str(i), 0) for i in range(9)] == np.rint(np.array(values) * 4).astype(int).tolist()


def test_one_attribute_is_a_set_of_one() -> None:
    with pytest.raises(ParameterError, match=r"got str\. Write \{'mill'\} for one attribute\."):
        own_steps("mill", resolution=1)


@pytest.mark.parametrize("attributes", ["text", b"bytes", 5, None, pandas.DataFrame({"a": [1]})])
def test_attributes_must_be_a_collection(attributes: object) -> None:
    with pytest.raises(ParameterError, match="attributes must be a set of attributes or a mapping"):
        own_steps(attributes, resolution=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "1", None, 1j])
def test_values_must_be_possible(value: object) -> None:
    with pytest.raises(ParameterError, match=r"values of attributes must be in \[0, 1\]"):
        own_steps({"a": value}, resolution=4)


def test_bits_are_zero_or_one() -> None:
    with pytest.raises(ParameterError, match="values of attributes must be 0 or 1"):
        own_steps({"a": 0.5}, resolution=1)


def test_products_of_own_vectors_are_exact() -> None:
    plan = Plan.of("hashing+laplace", Budget(1.0), k=4, resolution=4)
    x, y = (Vector(np.zeros(4), steps, plan) for steps in ({"a": 4, "b": 2}, {"b": 2, "c": 1}))
    assert x.inner_product(y) == y.inner_product(x) == 0.25
    assert (x.squared_norm, y.squared_norm) == (1.25, 0.3125)
    assert (x.total, y.total) == (1.5, 0.75)
