"""The stated variances of every estimate, against simulation of the mechanism with the tables that are sampled.

False-alarm rate ALPHA for each check; beside each its power: 20 % less noise than stated must be noticed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.statistical.checks import Floats, alarm, mean_is, variance_is

from dimly.mechanisms.error.models import (
    CountingError,
    ErrorModel,
    FlippedBitsError,
    Noise,
    SignedSketchError,
    sketch_error,
)
from dimly.mechanisms.noise.gaussian import RoundedGaussian
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.tables import NoiseTable
from dimly.mechanisms.projection.random_matrix import FAMILIES, Projection
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import Budget

N = 40_000
SIZES = {"sparse": (12, 3), "dasgupta": (12, 3)}
GRID_BITS = {"gaussian": 8}
NOISES: dict[str, NoiseTable] = {
    "laplace": DiscreteLaplace.of(Budget(1.0), l1_sensitivity=1),
    "gaussian": RoundedGaussian.of(1.3),
}
# Two people who share three of their attributes; and two with values in quarters.
BITS = np.array([[1, 1, 1, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1, 1, 1]])
VALUES = np.array([[4, 1, 0, 2, 3, 0, 0, 1], [0, 1, 3, 2, 1, 0, 4, 0]])
RESOLUTION = 4


@dataclass(frozen=True)
class Setting:
    """Noisy and silent sketches of many independent projections, in the data's units."""

    family: str
    k: int
    noise: Noise
    x: Floats
    y: Floats
    own_y: Floats
    first: Floats
    blend: float
    """Sketches of x, of y, of y without noise, and of the first attribute alone."""


def draw(table: NoiseTable, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Sample a table by its floating-point probabilities: good enough for moments, never for privacy."""
    cells = table.cells()
    upper = cells.high.astype(np.float64) * 2.0**-64
    return cells.first + np.searchsorted(upper, generator.random(shape)).clip(max=len(cells) - 1)


def simulate(family: str, law: str, people: NDArray[np.int64], *, resolution: int, blend: float, seed: int) -> Setting:
    k, blocks = SIZES.get(family, (8, 1))
    bits = GRID_BITS.get(family)
    generator = np.random.default_rng(seed)
    projection = Projection(family, k, blocks, generator.bytes(32), bits)
    m = people.shape[1]
    # Every trial has attributes of its own: independent rows without deriving many projections.
    rows = projection.rows(Vocabulary.numbered(N * m)).to_dense().reshape(N, m, k)
    silent = [np.einsum("i,nik->nk", person, rows) for person in people]
    scale = projection.scale / resolution
    # One unit of the table is about one attribute, so that the noise shows beside the projection.
    steps = resolution * round(1 / projection.scale)
    noisy = [sketch + steps * draw(NOISES[law], generator, sketch.shape) for sketch in silent]
    v, m4 = NOISES[law].variance * (steps * scale) ** 2, NOISES[law].fourth_moment * (steps * scale) ** 4
    first: Floats = rows[:, 0, :] * np.float64(projection.scale)
    return Setting(family, k, Noise(v, m4), noisy[0] * scale, noisy[1] * scale, silent[1] * scale, first, blend)


def centered(sketch: Floats) -> Floats:
    mean: Floats = sketch.mean(axis=1, keepdims=True)
    return sketch - mean


def dot(a: Floats, b: Floats) -> Floats:
    product: Floats = np.einsum("nk,nk->n", a, b)
    return product


def inner_product(s: Setting, x: Floats, y: Floats) -> Floats:
    if s.family == "counting":
        return s.k / (s.k - 1) * dot(centered(x), centered(y))
    return dot(x, y)


def squared_norm(s: Setting, x: Floats, v: float) -> Floats:
    """Blend of sum and debiased squared norm for counting, the debiased squared norm for others."""
    if s.family == "counting":
        plain = s.k / (s.k - 1) * (dot(centered(x), centered(x)) - (s.k - 1) * v)
        weight: Floats = x.sum(axis=1)
        return s.blend * weight + (1 - s.blend) * plain
    return dot(x, x) - s.k * v


def distance(s: Setting, x: Floats, y: Floats, vx: float, vy: float) -> Floats:
    return squared_norm(s, x, vx) + squared_norm(s, y, vy) - 2 * inner_product(s, x, y)


Estimator = Callable[[Setting], Floats]
ESTIMATES: dict[str, Estimator] = {
    "distance": lambda s: distance(s, s.x, s.y, s.noise.variance, s.noise.variance),
    "distance to own vector": lambda s: distance(s, s.x, s.own_y, s.noise.variance, 0.0),
    "squared norm": lambda s: squared_norm(s, s.x, s.noise.variance),
    "inner product": lambda s: inner_product(s, s.x, s.y),
    "inner product with own vector": lambda s: inner_product(s, s.x, s.own_y),
    "attribute": lambda s: inner_product(s, s.x, s.first),
}


def stated(error: ErrorModel, what: str, x: Floats, y: Floats) -> tuple[float, float]:
    """Return mean and variance that the model states."""
    nx, ny, c = float(x @ x), float(y @ y), float(x @ y)
    r2 = nx + ny - 2 * c
    weights = (nx, ny)
    mean, variance = {
        "distance": (r2, error.distance(weights=weights)(r2)),
        "distance to own vector": (r2, error.distance(one_sided=True, weights=weights)(r2)),
        "squared norm": (nx, error.distance(one_sided=True, weights=(nx, 0.0))(nx)),
        "inner product": (c, error.inner_product((nx, ny), c)),
        "inner product with own vector": (c, error.inner_product((nx, ny), c, one_sided=True)),
        "attribute": (x[0], error.attribute(nx, x[0])),
    }[what]
    return float(mean), float(variance)


CASES = [*((family, 0.0) for family in FAMILIES), ("counting", 0.75), ("counting", 1.0)]


@pytest.mark.parametrize("law", NOISES)
@pytest.mark.parametrize(("family", "blend"), CASES)
def test_bits(family: str, blend: float, law: str) -> None:
    setting = simulate(family, law, BITS, resolution=1, blend=blend, seed=11)
    k, blocks = SIZES.get(family, (8, 1))
    x, y = BITS.astype(np.float64)
    error = sketch_error(family, k=k, blocks=blocks, noise=setting.noise, bits=True, blend=blend)
    less = Noise(0.8 * setting.noise.variance, 0.64 * setting.noise.fourth_moment)
    quieter = sketch_error(family, k=k, blocks=blocks, noise=less, bits=True, blend=blend)
    for what, estimator in ESTIMATES.items():
        estimates = estimator(setting)
        mean, variance = stated(error, what, x, y)
        assert mean_is(estimates, mean), alarm(f"{family}+{law}, {what}, mean", estimates, mean)
        assert variance_is(estimates, mean, variance), alarm(
            f"{family}+{law}, {what}, variance", (estimates - mean) ** 2, variance
        )
        assert not mean_is(estimates, mean + 0.1 * np.sqrt(variance))
        assert not variance_is(estimates, mean, stated(quieter, what, x, y)[1]), f"{what}: no power"


@pytest.mark.parametrize("law", NOISES)
@pytest.mark.parametrize("family", FAMILIES)
def test_values(family: str, law: str) -> None:
    """For values the model leaves a negative term out: with it the variance is met, without it bounded."""
    setting = simulate(family, law, VALUES, resolution=RESOLUTION, blend=0.0, seed=12)
    k, blocks = SIZES.get(family, (8, 1))
    x, y = VALUES / RESOLUTION
    error = sketch_error(family, k=k, blocks=blocks, noise=setting.noise, bits=False, blend=0.0)
    shrink = (FAMILIES[family].kurtosis(blocks) - 3) / (k - 1 if family == "counting" else k)
    left_out = {
        "distance": ((x - y) ** 4).sum(),
        "distance to own vector": ((x - y) ** 4).sum(),
        "squared norm": (x**4).sum(),
        "inner product": (x**2 * y**2).sum(),
        "inner product with own vector": (x**2 * y**2).sum(),
        "attribute": 0.0,
    }
    for what, estimator in ESTIMATES.items():
        estimates = estimator(setting)
        mean, variance = stated(error, what, x, y)
        exact = variance + shrink * float(left_out[what])
        assert exact <= variance
        assert mean_is(estimates, mean), alarm(f"{family}+{law}, {what}, mean", estimates, mean)
        assert variance_is(estimates, mean, exact), alarm(
            f"{family}+{law}, {what}, variance", (estimates - mean) ** 2, exact
        )
        assert not variance_is(estimates, mean, 0.9 * exact)


@pytest.mark.parametrize("flip", [0.1, 0.27, 0.4])
def test_randomized_response(flip: float) -> None:
    generator = np.random.default_rng(13)
    d = 40
    x, y = np.zeros((2, d))
    x[:12], y[8:17] = 1, 1
    published = [(person + (generator.random((N, d)) < flip)) % 2 for person in (x, y)]
    error = FlippedBitsError(d, flip)
    debiased = [(bits - flip) / (1 - 2 * flip) for bits in published]
    differ = (published[0] != published[1]).sum(axis=1)
    estimates = {
        "distance": (differ - 2 * d * flip * (1 - flip)) / (1 - 2 * flip) ** 2,
        "distance to own vector": ((published[0] != y).sum(axis=1) - d * flip) / (1 - 2 * flip),
        "squared norm": debiased[0].sum(axis=1),
        "inner product": (debiased[0] * debiased[1]).sum(axis=1),
        "inner product with own vector": debiased[0] @ y,
        "attribute": debiased[0][:, 0],
    }
    for what, values in estimates.items():
        mean, variance = stated(error, what, x, y)
        assert mean_is(values, mean), alarm(f"{what}, mean", values, mean)
        if what == "attribute":  # two values only: its squared deviation is known, not estimated
            assert values.var() == pytest.approx(variance, rel=0.05)
            continue
        assert variance_is(values, mean, variance), alarm(f"{what}, variance", (values - mean) ** 2, variance)
        assert not variance_is(values, mean, 0.9 * variance)


def test_the_wrong_model_is_noticed() -> None:
    """Counting with the signed model, and hashing with the kurtosis of a normal law."""
    x, y = BITS.astype(np.float64)
    counting = simulate("counting", "laplace", BITS, resolution=1, blend=0.75, seed=14)
    estimates = ESTIMATES["distance"](counting)
    mean, wrong = stated(SignedSketchError(8, 1.0, counting.noise), "distance", x, y)
    assert not variance_is(estimates, mean, wrong)
    assert not variance_is(estimates, mean, stated(CountingError(8, counting.noise, blend=0.5), "distance", x, y)[1])
    hashing = simulate("hashing", "laplace", BITS, resolution=1, blend=0.0, seed=15)
    products = ESTIMATES["inner product with own vector"](hashing)
    mean, wrong = stated(SignedSketchError(8, 3.0, hashing.noise), "inner product with own vector", x, y)
    assert not variance_is(products, mean, wrong)
