"""Identities between the formulas; tests/statistical compares them with simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimly.errors import ParameterError
from dimly.mechanisms.error.models import (
    CountingError,
    ErrorModel,
    FlippedBitsError,
    Noise,
    NoisyDistanceError,
    Polynomial,
    SignedSketchError,
)

noises = st.builds(lambda v, excess: Noise(v, v**2 * (1 + excess)), st.floats(0, 50), st.floats(0, 6))
dimensions = st.integers(2, 2000)
weights = st.integers(1, 500)


def test_a_polynomial_is_never_negative() -> None:
    assert Polynomial(1.0, -1.0, 0.0)([0.0, 0.5, 2.0]).tolist() == [0.0, 0.0, 2.0]


coefficients = st.floats(-1e200, 1e200)


@given(st.tuples(coefficients, coefficients, coefficients), st.floats(0, 1e12))
def test_one_distance_has_the_same_variance_as_among_many(terms: tuple[float, float, float], r2: float) -> None:
    assert Polynomial(*terms).at(r2) == Polynomial(*map(np.array, terms)).at(r2) == float(Polynomial(*terms)([r2])[0])


def test_the_papers_variance() -> None:
    # Theorem 2, claim 2, with Gaussian moments: 2r⁴/k + 8σ²r² + 8σ⁴k.
    k, sigma, r2 = 64, 4.2, 400.0
    error = SignedSketchError(k, 3.0, Noise(sigma**2, 3 * sigma**4))
    assert float(error.distance()(r2)) == pytest.approx(2 * r2**2 / k + 8 * sigma**2 * r2 + 8 * sigma**4 * k)


@given(dimensions, noises, weights, weights, st.data())
def test_blending_nothing_in_is_the_centered_distance(
    k: int, noise: Noise, wx: int, wy: int, data: st.DataObject
) -> None:
    shared = data.draw(st.integers(0, min(wx, wy)))
    r2 = float(wx + wy - 2 * shared)
    plain = CountingError(k, noise, blend=0.0).distance()
    # The limit of the blended formula, which is written down separately.
    nearly = CountingError(k, noise, blend=1e-12).distance(weights=(wx, wy))
    scale = float(plain(r2)) + wx**2 + wy**2
    assert float(nearly(r2)) == pytest.approx(float(plain(r2)), abs=1e-8 * scale)


@given(dimensions, noises, st.floats(0.01, 1), weights)
def test_without_weights_people_share_nothing(k: int, noise: Noise, blend: float, w: int) -> None:
    error = CountingError(k, noise, blend=blend)
    for one_sided in (False, True):
        assumed = error.distance(one_sided=one_sided)(2.0 * w)
        stated = error.distance(one_sided=one_sided, weights=(w, w))(2.0 * w)
        assert float(assumed) == pytest.approx(float(stated), rel=1e-9, abs=1e-9)


@given(dimensions, noises, weights, weights, st.data(), st.booleans())
def test_best_blend_is_best(k: int, noise: Noise, wx: int, wy: int, data: st.DataObject, one_sided: bool) -> None:
    shared = data.draw(st.integers(0, min(wx, wy)))
    r2 = float(wx + wy - 2 * shared)
    best = float(CountingError(k, noise).best_blend((wx, wy), shared, one_sided=one_sided))

    def variance(blend: float) -> float:
        error = CountingError(k, noise, blend=min(max(blend, 1e-9), 1.0))
        return float(error.distance(one_sided=one_sided, weights=(wx, wy))(r2))

    slack = 1e-7 * (variance(best) + wx**2 + wy**2)
    assert variance(best) <= variance(best - 0.01) + slack
    assert variance(best) <= variance(best + 0.01) + slack


@given(noises)
def test_values_bound_bits_from_above(noise: Noise) -> None:
    r2 = np.arange(1.0, 200.0)
    for kurtosis in (1.0, 2.5, 3.0):
        bits, values = (SignedSketchError(32, kurtosis, noise, bits=b).distance()(r2) for b in (True, False))
        assert (bits <= values * (1 + 1e-12)).all()
    bits, values = (CountingError(32, noise, blend=0.0, bits=b).distance()(r2) for b in (True, False))
    assert (bits <= values * (1 + 1e-12)).all()


@pytest.mark.parametrize(
    "error",
    [
        SignedSketchError(32, 1.0, Noise(2.0, 20.0)),
        SignedSketchError(32, 3.0, Noise(2.0, 12.0)),
        CountingError(32, Noise(2.0, 20.0)),
        FlippedBitsError(500, 0.2),
    ],
    ids=["hashing", "gaussian", "counting", "flipped"],
)
def test_an_attribute_is_an_inner_product_with_its_unit_vector(error: ErrorModel) -> None:
    for value in (0.0, 1.0):
        product = error.inner_product((40.0, 1.0), value, one_sided=True)
        assert float(error.attribute(40.0, value)) == pytest.approx(float(product))
    # One's own vector adds no noise.
    assert float(error.inner_product((40.0, 30.0), 5.0, one_sided=True)) < float(error.inner_product((40.0, 30.0), 5.0))
    assert float(error.distance(one_sided=True)(60.0)) < float(error.distance()(60.0))


def test_randomized_response_does_not_depend_on_distance() -> None:
    error = FlippedBitsError(3706, 1 / (1 + np.e))
    assert float(error.distance()(5.0)) == float(error.distance()(3000.0))
    assert float(error.distance()(5.0)) ** 0.5 == pytest.approx(139, abs=0.5)
    assert error.attribute([10.0, 20.0]).shape == (2,)


def test_noisy_distances_tell_distances_only() -> None:
    error = NoisyDistanceError(Noise(9.0, 243.0))
    assert float(error.distance()(100.0)) == 9.0
    with pytest.raises(ParameterError, match="pairs of published people"):
        error.distance(one_sided=True)
    with pytest.raises(ParameterError, match="inner products"):
        error.inner_product((1.0, 1.0), 0.0)
    with pytest.raises(ParameterError, match="attributes"):
        error.attribute(1.0)


def test_blend_must_fit() -> None:
    with pytest.raises(ParameterError, match="blend must be in"):
        CountingError(8, Noise(1.0, 3.0), blend=1.5)
    with pytest.raises(ParameterError, match="blend must be 0 for values"):
        CountingError(8, Noise(1.0, 3.0), blend=0.5, bits=False)
