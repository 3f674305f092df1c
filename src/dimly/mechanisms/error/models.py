"""Variances of estimated distances, inner products and attributes, one error model a mechanism.

All formulas are in the data's own units: v and m₄ are the noise's variance and fourth moment after the sketch's
public scale. z = x − y, r² = ‖z‖². Every estimate is unbiased; ``docs/error-theory.md`` derives the variances.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dimly.errors import ParameterError
from dimly.mechanisms.projection.random_matrix import family_named

Floats = NDArray[np.float64]


class Polynomial(NamedTuple):
    """Variance of an estimated squared distance as a function of the true one: square·r⁴ + linear·r² + constant."""

    square: ArrayLike
    linear: ArrayLike
    constant: ArrayLike

    def __call__(self, squared_distance: ArrayLike) -> Floats:
        """Return the variance at ``squared_distance``."""
        r2 = np.asarray(squared_distance, dtype=np.float64)
        square, linear, constant = (np.asarray(c, dtype=np.float64) for c in self)
        # For bits the formulas hold at whole numbers; between 0 and 1 they may dip below zero.
        return np.maximum((square * r2 + linear) * r2 + constant, 0.0)

    def at(self, squared_distance: float) -> float:
        """Return the variance at one distance: the same number, in a fraction of the time that arrays take."""
        square, linear, constant = map(float, self)  # type: ignore[arg-type]  # of one pair, whose weights are numbers
        return max((square * squared_distance + linear) * squared_distance + constant, 0.0)


class Noise(NamedTuple):
    """Second and fourth moment of one coordinate's noise, in the data's units."""

    variance: float
    fourth_moment: float

    @property
    def kurtosis(self) -> float:
        """The fourth moment over the square of the second."""
        return self.fourth_moment / self.variance**2


SILENT = Noise(0.0, 0.0)
"""The analyst's own vector carries no noise."""


class ErrorModel(Protocol):
    """Variances of what an analyst estimates from one mechanism's output."""

    def distance(self, *, one_sided: bool = False, weights: tuple[ArrayLike, ArrayLike] | None = None) -> Polynomial:
        """Return the variance of an estimated squared distance as a polynomial in the true one.

        Parameters
        ----------
        one_sided : bool
            Whether the second vector is the analyst's own, without noise.
        weights : pair of array_like, optional
            The two people's numbers of ones, where the mechanism can use them (``counting`` on bits). Without
            them: two people of equal weight who share nothing, the lightest pair at that distance.
        """

    def inner_product(
        self, squared_norms: tuple[ArrayLike, ArrayLike], inner_product: ArrayLike, *, one_sided: bool = False
    ) -> Floats:
        """Return the variance of an estimated inner product."""

    def attribute(self, squared_norm: ArrayLike, value: ArrayLike = 0.0) -> Floats:
        """Return the variance of one estimated attribute of a person with that squared norm."""

    @property
    def noise_kurtosis(self) -> float:
        """Kurtosis of the noise of one published number."""

    def joint(
        self, squared_norms: tuple[ArrayLike, ArrayLike], inner_product: ArrayLike, *, one_sided: bool = False
    ) -> Floats:
        """Return covariances of the estimates of ‖x‖², ‖y‖² and ⟨x, y⟩, of shape (…, 3, 3).

        With ``one_sided`` the analyst knows ‖y‖² exactly.
        """


class SketchError:
    """What the errors of all sketches have in common: k numbers a person, with noise on each."""

    k: int
    noise: Noise
    blend: float = 0.0
    centered: ClassVar[bool] = False
    """Whether the analyst subtracts the mean of each sketch."""

    @property
    def free(self) -> int:
        """In how many directions sketches can differ: centering takes one."""
        return self.k - self.centered

    @property
    def gain(self) -> float:
        """What makes up for the direction that centering takes."""
        return self.k / self.free

    @property
    def projected(self) -> float:
        """What projecting adds to the variance of a squared distance r², over r⁴, at most: V_P ≤ 2r⁴/k."""
        return 2 / self.free

    @property
    def noise_kurtosis(self) -> float:
        """Kurtosis of the noise of one number."""
        return self.noise.kurtosis


@dataclass(frozen=True)
class SignedSketchError(SketchError):
    """Sketches whose entries have mean zero: every family but counting.

    Parameters
    ----------
    k : int
        Sketch dimension.
    kurtosis : float
        κ of V_P = (2r⁴ + (κ − 3)‖z‖₄⁴)/k.
    noise : Noise
        Of one coordinate.
    bits : bool
        Whether ‖z‖₄⁴ = r². For values it is unknown, and its (negative) term is left out: an upper bound.
    """

    k: int
    kurtosis: float
    noise: Noise
    bits: bool = True

    def distance(self, *, one_sided: bool = False, weights: tuple[ArrayLike, ArrayLike] | None = None) -> Polynomial:
        """Var = V_P + 8v r² + 2k(m₄ + v²); one-sided V_P + 4v r² + k(m₄ − v²). Weights do not matter."""
        del weights
        v, m4 = self.noise
        fourth = (self.kurtosis - 3) / self.k if self.bits else 0.0
        if one_sided:
            return Polynomial(2 / self.k, 4 * v + fourth, self.k * (m4 - v**2))
        return Polynomial(2 / self.k, 8 * v + fourth, 2 * self.k * (m4 + v**2))

    def inner_product(
        self, squared_norms: tuple[ArrayLike, ArrayLike], inner_product: ArrayLike, *, one_sided: bool = False
    ) -> Floats:
        """Var = (‖x‖²‖y‖² + ⟨x,y⟩² + (κ−3)Σx²y²)/k + v(‖x‖² + ‖y‖²) + kv²."""
        nx, ny, c = _floats(*squared_norms, inner_product)
        shared = (self.kurtosis - 3) * c if self.bits else 0.0
        v = self.noise.variance
        own = 0.0 if one_sided else v
        return (nx * ny + c**2 + shared) / self.k + v * ny + own * nx + self.k * v * own

    def attribute(self, squared_norm: ArrayLike, value: ArrayLike = 0.0) -> Floats:
        """Var = v + (‖x‖² + (κ−2)·x_a²)/k: the inner product with the attribute's own unit vector."""
        norm, x = _floats(squared_norm, value)
        return self.noise.variance + (norm + (self.kurtosis - 2) * x**2) / self.k

    def joint(
        self, squared_norms: tuple[ArrayLike, ArrayLike], inner_product: ArrayLike, *, one_sided: bool = False
    ) -> Floats:
        """Cov(‖x̂‖², ‖ŷ‖²) = (2c² + (κ−3)Σx²y²)/k; Cov(‖x̂‖², ⟨x̂,ŷ⟩) = (2c‖x‖² + (κ−3)Σx³y)/k + 2vc."""
        nx, ny, c = _floats(*squared_norms, inner_product)
        v, excess = self.noise.variance, (self.kurtosis - 3) / self.k if self.bits else 0.0
        norms = tuple(self.distance(one_sided=True)(n) for n in (nx, ny))
        between = 2 * c**2 / self.k + excess * c
        with_inner = tuple(2 * n * c / self.k + excess * c + 2 * v * c for n in (nx, ny))
        inner = self.inner_product((nx, ny), c, one_sided=one_sided)
        return _covariances(norms, between, with_inner, inner, one_sided=one_sided)


@dataclass(frozen=True)
class DirectionsError(SketchError):
    """Sketches along public directions, which nothing random projects: distances along them err by noise alone.

    Parameters
    ----------
    k : int
        r, the number of directions.
    noise : Noise
        Of one coordinate.
    """

    k: int
    noise: Noise

    @property
    def projected(self) -> float:
        """Nothing: directions are fixed."""
        return 0.0

    def distance(self, *, one_sided: bool = False, weights: tuple[ArrayLike, ArrayLike] | None = None) -> Polynomial:
        """Var = 8v·d² + 2r(m₄ + v²) with d² the squared distance along the directions; one-sided 4v·d² + r(m₄ − v²)."""
        del weights
        v, m4 = self.noise
        if one_sided:
            return Polynomial(0.0, 4 * v, self.k * (m4 - v**2))
        return Polynomial(0.0, 8 * v, 2 * self.k * (m4 + v**2))

    def inner_product(
        self, squared_norms: tuple[ArrayLike, ArrayLike], inner_product: ArrayLike, *, one_sided: bool = False
    ) -> Floats:
        """Var = v(‖x‖² + ‖y‖²) + rv²."""
        nx, ny, _ = _floats(*squared_norms, inner_product)
        v = self.noise.variance
        own = 0.0 if one_sided else v
        return v * ny + own * nx + self.k * v * own

    def attribute(self, squared_norm: ArrayLike, value: ArrayLike = 0.0) -> Floats:
        """Refuse: a few directions do not tell attributes."""
        del squared_norm, value
        raise ParameterError(
            "directions say nothing about single attributes. Publish sketches by another mechanism instead."
        )

    def joint(
        self, squared_norms: tuple[ArrayLike, ArrayLike], inner_product: ArrayLike, *, one_sided: bool = False
    ) -> Floats:
        """Cov(‖x̂‖², ‖ŷ‖²) = 0; Cov(‖x̂‖², ⟨x̂,ŷ⟩) = 2v⟨x,y⟩."""
        nx, ny, c = _floats(*squared_norms, inner_product)
        norms = tuple(self.distance(one_sided=True)(n) for n in (nx, ny))
        with_inner = (2 * self.noise.variance * c, 2 * self.noise.variance * c)
        inner = self.inner_product((nx, ny), c, one_sided=one_sided)
        return _covariances(norms, np.zeros_like(nx), with_inner, inner, one_sided=one_sided)


@dataclass(frozen=True)
class CountingError(SketchError):
    """Sketches that count: the analyst centers them, and on bits blends in the weights that their sums tell.

    est = b(ŵx + ŵy) + (1−b)(n̂x + n̂y) − 2·ip, with ŵ the sum of a sketch, n̂ and ip the centered squared norm and
    inner product. b = 0 is the plain centered distance, and the only choice for values.

    Parameters
    ----------
    k : int
    noise : Noise
    blend : float
        b, in [0, 1]. Zero unless ``bits``.
    bits : bool
    """

    k: int
    noise: Noise
    blend: float = 0.75
    bits: bool = True
    centered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.blend <= 1:
            raise ParameterError(f"blend must be in [0, 1], got {self.blend!r}.")
        if self.blend and not self.bits:
            raise ParameterError(
                f"blend must be 0 for values, got {self.blend!r}: a sum is a squared norm for bits only."
            )

    def distance(self, *, one_sided: bool = False, weights: tuple[ArrayLike, ArrayLike] | None = None) -> Polynomial:
        """Var = (1−b)²·Vn + b²k(vx + vy) + 4·Vip − 4(1−b)·Cov(n̂, ip), exactly."""
        x, y = self.noise, SILENT if one_sided else self.noise
        if self.blend == 0:
            return self._centered_distance(x, y)
        if weights is None:
            return self._disjoint_distance(x, y)
        wx, wy = _floats(*weights)
        k, n, g, b = self.k, self.free, self.gain, self.blend
        h, total = 1 - b, wx + wy
        v = x.variance + y.variance
        # As a polynomial in c = ⟨x, y⟩ = (wx + wy − r²)/2 …
        square = 4 * (h**2 + 1) / n
        linear = -4 * h**2 / n - 8 / n - 4 * h * (2 * (total - 2) / n + 2 * g * v)
        norms = 2 * (wx**2 - wx + wy**2 - wy) / n + 4 * g * (x.variance * wx + y.variance * wy)
        inner = wx * wy / n + g * (y.variance * wx + x.variance * wy + k * x.variance * y.variance)
        constant = h**2 * (norms + self._norm_noise(x) + self._norm_noise(y)) + b**2 * k * v + 4 * inner
        # … and then in r².
        return Polynomial(
            square / 4,
            -(square * total + linear) / 2,
            square * total**2 / 4 + linear * total / 2 + constant,
        )

    def best_blend(
        self, weights: tuple[ArrayLike, ArrayLike], inner_product: ArrayLike, *, one_sided: bool = False
    ) -> Floats:
        """Return b* = (Vn − 2·Cov)/(Vn + k(vx + vy)), for bits; to be fed with public planning values only."""
        x, y = self.noise, SILENT if one_sided else self.noise
        wx, wy, c = _floats(*weights, inner_product)
        n, g, v = self.free, self.gain, x.variance + y.variance
        norms = (
            2 * (wx**2 - wx + wy**2 - wy + 2 * c**2 - 2 * c) / n
            + 4 * g * (x.variance * wx + y.variance * wy)
            + self._norm_noise(x)
            + self._norm_noise(y)
        )
        covariance = 2 * c * (wx + wy - 2) / n + 2 * g * v * c
        total = norms + self.k * v
        # Without noise and collisions every blend is exact; take the plain distance.
        return np.clip((norms - 2 * covariance) / np.where(total > 0, total, np.inf), 0.0, 1.0)

    def inner_product(
        self, squared_norms: tuple[ArrayLike, ArrayLike], inner_product: ArrayLike, *, one_sided: bool = False
    ) -> Floats:
        """Var = (‖x‖²‖y‖² + ⟨x,y⟩² − 2Σx²y²)/(k−1) + g(v(‖x‖² + ‖y‖²) + kv²)."""
        nx, ny, c = _floats(*squared_norms, inner_product)
        shared = 2 * c if self.bits else 0.0
        v = self.noise.variance
        own = 0.0 if one_sided else v
        return (nx * ny + c**2 - shared) / self.free + self.gain * (v * ny + own * nx + self.k * v * own)

    def attribute(self, squared_norm: ArrayLike, value: ArrayLike = 0.0) -> Floats:
        """Var = g·v + (‖x‖² − x_a²)/(k−1)."""
        norm, x = _floats(squared_norm, value)
        return self.gain * self.noise.variance + (norm - x**2) / self.free

    def joint(
        self, squared_norms: tuple[ArrayLike, ArrayLike], inner_product: ArrayLike, *, one_sided: bool = False
    ) -> Floats:
        """Return covariances of the blended squared norms and the centered inner product."""
        nx, ny, c = _floats(*squared_norms, inner_product)
        h, once = 1 - self.blend, 1.0 if self.bits else 0.0
        norms = tuple(self.distance(one_sided=True, weights=(n, np.zeros_like(n)))(n) for n in (nx, ny))
        between = h**2 * 2 * (c**2 - once * c) / self.free
        with_inner = tuple(
            h * (2 * c * (n - once) / self.free + 2 * self.gain * self.noise.variance * c) for n in (nx, ny)
        )
        inner = self.inner_product((nx, ny), c, one_sided=one_sided)
        return _covariances(norms, between, with_inner, inner, one_sided=one_sided)

    def _norm_noise(self, noise: Noise) -> float:
        """Variance of g‖Cη‖², the noise's own share in a centered squared norm."""
        v, m4 = noise
        return self.k * (m4 - 3 * v**2) + 2 * v**2 * self.k * self.gain

    def _centered_distance(self, x: Noise, y: Noise) -> Polynomial:
        v = x.variance + y.variance
        both = Noise(v, x.fourth_moment + y.fourth_moment + 6 * x.variance * y.variance)
        fourth = -2 / self.free if self.bits else 0.0
        return Polynomial(2 / self.free, 4 * self.gain * v + fourth, self._norm_noise(both))

    def _disjoint_distance(self, x: Noise, y: Noise) -> Polynomial:
        k, n, g, h, v = self.k, self.free, self.gain, 1 - self.blend, x.variance + y.variance
        return Polynomial(
            (h**2 + 1) / n,
            h**2 * (2 * g * v - 2 / n) + 2 * g * v,
            h**2 * (self._norm_noise(x) + self._norm_noise(y))
            + self.blend**2 * k * v
            + 4 * g * k * x.variance * y.variance,
        )


@dataclass(frozen=True, slots=True)
class FlippedBitsError:
    """Randomized response: the error does not depend on the data at all.

    Parameters
    ----------
    n_attributes : int
        d, the number of published bits.
    flip : float
        p, the probability that one of them is wrong.
    """

    n_attributes: int
    flip: float

    @property
    def noise_kurtosis(self) -> float:
        """Kurtosis of the noise of one bit."""
        both = self.flip * (1 - self.flip)
        return (1 - 3 * both) / both

    @property
    def bit_variance(self) -> float:
        """Variance of one debiased bit, p(1−p)/(1−2p)²."""
        return self.flip * (1 - self.flip) / (1 - 2 * self.flip) ** 2

    def distance(self, *, one_sided: bool = False, weights: tuple[ArrayLike, ArrayLike] | None = None) -> Polynomial:
        """Var = d·c(1−c)/(1−2p)⁴ with c = 2p(1−p); one-sided d·p(1−p)/(1−2p)²."""
        del weights
        if one_sided:
            return Polynomial(0.0, 0.0, self.n_attributes * self.bit_variance)
        differs = 2 * self.flip * (1 - self.flip)
        return Polynomial(0.0, 0.0, self.n_attributes * differs * (1 - differs) / (1 - 2 * self.flip) ** 4)

    def inner_product(
        self, squared_norms: tuple[ArrayLike, ArrayLike], inner_product: ArrayLike, *, one_sided: bool = False
    ) -> Floats:
        """Var = u(‖x‖² + ‖y‖²) + d·u² with u = p(1−p)/(1−2p)²."""
        nx, ny, _ = _floats(*squared_norms, inner_product)
        u = self.bit_variance
        own = 0.0 if one_sided else u
        return u * ny + own * nx + self.n_attributes * u * own

    def attribute(self, squared_norm: ArrayLike, value: ArrayLike = 0.0) -> Floats:
        """Var = p(1−p)/(1−2p)², whatever the person."""
        norm, _ = _floats(squared_norm, value)
        return np.full_like(norm, self.bit_variance)

    def joint(
        self, squared_norms: tuple[ArrayLike, ArrayLike], inner_product: ArrayLike, *, one_sided: bool = False
    ) -> Floats:
        """Return covariances: d·u for weights, u‖y‖² of x's weight with the inner product, none between weights."""
        nx, ny, c = _floats(*squared_norms, inner_product)
        weight = np.full_like(nx, self.n_attributes * self.bit_variance)
        with_inner = (self.bit_variance * ny, self.bit_variance * nx)
        inner = self.inner_product((nx, ny), c, one_sided=one_sided)
        return _covariances((weight, weight), np.zeros_like(nx), with_inner, inner, one_sided=one_sided)


@dataclass(frozen=True, slots=True)
class NoisyDistanceError:
    """Noise on the distances themselves (the paper's Algorithm 3): one variance for all pairs."""

    noise: Noise

    @property
    def noise_kurtosis(self) -> float:
        """Kurtosis of the noise of one distance."""
        return self.noise.kurtosis

    def distance(self, *, one_sided: bool = False, weights: tuple[ArrayLike, ArrayLike] | None = None) -> Polynomial:
        """Var = v."""
        del weights
        if one_sided:
            raise ParameterError("noisy distances hold pairs of published people only. Publish sketches instead.")
        return Polynomial(0.0, 0.0, self.noise.variance)

    def inner_product(
        self, squared_norms: tuple[ArrayLike, ArrayLike], inner_product: ArrayLike, *, one_sided: bool = False
    ) -> Floats:
        """Refuse: distances alone do not tell inner products."""
        del squared_norms, inner_product, one_sided
        raise ParameterError("noisy distances say nothing about inner products. Publish sketches instead.")

    def attribute(self, squared_norm: ArrayLike, value: ArrayLike = 0.0) -> Floats:
        """Refuse: distances alone do not tell attributes."""
        del squared_norm, value
        raise ParameterError("noisy distances say nothing about attributes. Publish sketches instead.")

    def joint(
        self, squared_norms: tuple[ArrayLike, ArrayLike], inner_product: ArrayLike, *, one_sided: bool = False
    ) -> Floats:
        """Refuse: distances alone do not tell norms."""
        del squared_norms, inner_product, one_sided
        raise ParameterError("noisy distances say nothing about norms. Publish sketches instead.")


def sketch_error(
    family: str, *, k: int, blocks: int, noise: Noise, bits: bool, blend: float | None = None
) -> SignedSketchError | CountingError:
    """Return the error model of a family's sketches."""
    if family == "counting":
        return CountingError(k, noise, blend=blend or 0.0, bits=bits)
    return SignedSketchError(k, family_named(family).kurtosis(blocks), noise, bits=bits)


def _covariances(
    norms: tuple[Floats, ...], between: Floats, with_inner: tuple[Floats, ...], inner: Floats, *, one_sided: bool
) -> Floats:
    """Arrange variances and covariances of (‖x‖², ‖y‖², ⟨x, y⟩) as matrices; a norm that is known has none."""
    known = 0.0 if one_sided else 1.0
    rows = [
        [norms[0], known * between, with_inner[0]],
        [known * between, known * norms[1], known * with_inner[1]],
        [with_inner[0], known * with_inner[1], inner],
    ]
    return np.stack([np.stack(np.broadcast_arrays(*row), axis=-1) for row in rows], axis=-2)


def _floats(*values: ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.asarray(v, dtype=np.float64) for v in values)
