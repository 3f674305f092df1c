"""Covariances of two norms and a product, which similarities rest on; tests/statistical compares them with releases."""

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
    SignedSketchError,
)

noises = st.builds(lambda v, excess: Noise(v, v**2 * (1 + excess)), st.floats(0, 50), st.floats(0, 6))
sketches: st.SearchStrategy[ErrorModel] = st.one_of(
    st.builds(SignedSketchError, st.integers(2, 2000), st.sampled_from([1.0, 2.5, 3.0]), noises, bits=st.booleans()),
    st.builds(CountingError, st.integers(2, 2000), noises, blend=st.floats(0, 1)),
    st.builds(CountingError, st.integers(2, 2000), noises, blend=st.just(0.0), bits=st.booleans()),
)
errors: st.SearchStrategy[ErrorModel] = sketches | st.builds(
    FlippedBitsError, st.integers(1000, 5000), st.floats(0.01, 0.45)
)
DISTANCE = np.array([1.0, 1.0, -2.0])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[float, float, float]:
    """Draw two weights and what they share."""
    wx, wy = draw(st.integers(1, 500)), draw(st.integers(1, 500))
    return float(wx), float(wy), float(draw(st.integers(0, min(wx, wy))))


@given(errors, pairs())
def test_a_distance_is_two_norms_less_two_products(error: ErrorModel, pair: tuple[float, float, float]) -> None:
    wx, wy, c = pair
    covariance = error.joint((wx, wy), c)
    r2 = wx + wy - 2 * c
    # For bits; models for values leave terms out, in the joint matrix as in the distance.
    stated = float(error.distance(weights=(wx, wy))(r2))
    scale = float(np.abs(covariance).max())
    assert float(DISTANCE @ covariance @ DISTANCE) == pytest.approx(stated, rel=1e-7, abs=1e-7 * scale)


@given(errors, pairs(), st.booleans())
def test_the_diagonal_holds_the_variances(error: ErrorModel, pair: tuple[float, float, float], one_sided: bool) -> None:
    wx, wy, c = pair
    covariance = error.joint((wx, wy), c, one_sided=one_sided)
    norms = [float(error.distance(one_sided=True, weights=(w, 0.0))(w)) for w in (wx, wy)]
    assert covariance[0, 0] == pytest.approx(norms[0])
    assert covariance[1, 1] == (0.0 if one_sided else pytest.approx(norms[1]))
    assert covariance[2, 2] == pytest.approx(float(error.inner_product((wx, wy), c, one_sided=one_sided)))


@given(errors, pairs(), st.booleans())
def test_covariances_are_symmetric_and_not_negative(
    error: ErrorModel, pair: tuple[float, float, float], one_sided: bool
) -> None:
    wx, wy, c = pair
    covariance = error.joint((wx, wy), c, one_sided=one_sided)
    np.testing.assert_array_equal(covariance, covariance.T)
    values = np.linalg.eigvalsh(covariance)
    assert values.min() >= -1e-9 * max(float(values.max()), 1.0)


@given(errors, pairs())
def test_sides_can_be_exchanged(error: ErrorModel, pair: tuple[float, float, float]) -> None:
    wx, wy, c = pair
    exchanged = error.joint((wy, wx), c)[np.ix_([1, 0, 2], [1, 0, 2])]
    np.testing.assert_allclose(error.joint((wx, wy), c), exchanged, rtol=1e-9)


@given(sketches, pairs())
def test_a_norm_that_is_known_does_not_vary(error: ErrorModel, pair: tuple[float, float, float]) -> None:
    wx, wy, c = pair
    both, one = (error.joint((wx, wy), c, one_sided=one_sided) for one_sided in (False, True))
    assert not one[1].any()
    assert not one[:, 1].any()
    # The person's own norm goes with the product as before; only the noise of the other side is gone.
    assert one[0, 0] == both[0, 0]
    assert one[0, 2] == both[0, 2]
    assert one[2, 2] <= both[2, 2]
    # A distance to one's own vector is told by both sketches, so that collisions cancel: it is another estimate
    # than the exact norm plus the estimated one less two products, and the better one where vectors are alike.
    if isinstance(error, SignedSketchError) and error.bits:
        alike = error.joint((wx, wx), wx, one_sided=True)
        from_joint = float(DISTANCE @ alike @ DISTANCE)
        assert float(error.distance(one_sided=True, weights=(wx, wx))(0.0)) <= from_joint + 1e-9 * alike.max()


def test_arrays_of_pairs_give_arrays_of_matrices() -> None:
    wx, wy, c = np.array([10.0, 20.0]), np.array([30.0, 5.0]), np.array([4.0, 5.0])
    for error in (
        SignedSketchError(32, 1.0, Noise(2.0, 20.0)),
        CountingError(32, Noise(2.0, 20.0)),
        FlippedBitsError(500, 0.2),
    ):
        for one_sided in (False, True):
            together = error.joint((wx, wy), c, one_sided=one_sided)
            assert together.shape == (2, 3, 3)
            for i in range(2):
                np.testing.assert_array_equal(together[i], error.joint((wx[i], wy[i]), c[i], one_sided=one_sided))


def test_noisy_distances_do_not_tell_norms() -> None:
    with pytest.raises(ParameterError, match="say nothing about norms"):
        NoisyDistanceError(Noise(9.0, 243.0)).joint((1.0, 1.0), 0.0)
