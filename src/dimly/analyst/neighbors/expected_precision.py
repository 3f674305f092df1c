"""How many of those listed are expected to be truly nearest: stand-ins, simulated with people's variances.

Claimed is the number of the n people listed who are among the n truly nearest by the same metric. Nobody but the
curator can count them. What an analyst can do is to publish again. Made-up people take the place of the true ones: the
published ones with as much of their spread taken off as noise and projection have added. They are given noise of the
same law, ranked as those of the release are, and the answer is compared with how far apart they are. This is a
parametric bootstrap. It knows the people by their second moments alone, which docs/measurements.md says the limits of.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dimly.analyst.estimate import Vector
from dimly.analyst.neighbors.spaces import DenoisedSpace, Metric, Space, similarity_keys
from dimly.analyst.pairs import ChosenSide, Pairs, at_limit, lost_rows
from dimly.analyst.structure.coordinates import Points, sample
from dimly.analyst.structure.denoise import Denoiser
from dimly.mechanisms.error.models import Floats

if TYPE_CHECKING:
    from dimly.analyst.release import Release

_PEOPLE = 1 << 12  # who are published again
_NUMBERS = 1 << 22  # of people whose inner products are looked at
_TIMES = 20  # published again so often: a standard error of a third of one in ten, less than the model's own error
_LEAST = 1e-30


def likely_range(expected: float, n: int, *, others: int) -> tuple[int, int]:
    """Return between which numbers the true ones of one list of n lie, in nine cases of ten or more.

    Of n people, each true with the same probability, as many as the 5 and 95 % quantiles say; and a tenth of n on
    either side for what is expected itself: the mean error of that was 0.75 of ten on the populations that this was
    made with, and docs/measurements.md shows how it came out on others. Among so many ``others`` that one stand-in is
    more than n of them, what is expected is too much, and the range begins at 0.

    Examples
    --------
    >>> [likely_range(expected, 10, others=2000) for expected in (0.01, 3.0, 9.9)]
    [(0, 1), (0, 6), (8, 10)]
    >>> likely_range(9.9, 10, others=1_000_000)
    (0, 10)
    """
    if math.isnan(expected):
        return 0, n
    low, high = np.searchsorted(scipy.special.bdtr(np.arange(n), n, expected / n), [0.05, 0.95])
    least = 0 if others > n * _PEOPLE else max(math.floor(low - n / 10), 0)
    return least, min(math.ceil(high + n / 10), n)


@dataclass(frozen=True, slots=True, eq=False)
class StandIns:
    """Made-up people who are spread as the true ones of a release are. Make them with :meth:`of`.

    A person is a place z in the directions that are kept, and a rest outside of them of squared length ρ. The rests of
    two people have an inner product of variance τ²ρρ′. A projection to k numbers turns the rest into noise of variance
    ρ/k in each of them, and adds ρρ′/k to that of the inner product.

    Attributes
    ----------
    rows : ndarray
        What is published of the people whom they stand for.
    places, rests : ndarray
        z and ρ.
    alike : float
        τ².
    stretch : ndarray
        Standard deviation of true places over that of published ones, in each direction.
    """

    denoiser: Denoiser
    rows: NDArray[Any]
    places: Floats
    rests: Floats
    alike: float
    stretch: Floats
    believed: float
    length: float

    @classmethod
    def of(cls, release: "Release") -> "StandIns":
        """Return stand-ins of a release, by reading some of its people."""
        denoiser = release.denoiser
        coordinates, v, k = denoiser.coordinates, denoiser.coordinates.noise_variance, denoiser.coordinates.free
        rows: NDArray[Any] = sample(release._sketches, _PEOPLE, lambda found: found)[:_PEOPLE]
        places, lengths = _seen(rows, denoiser)
        length = max(float(lengths.mean()), 1e-9)
        # By noise alone a squared length varies by k·v²(κ − 1) + 4v·‖x‖².
        noise = k * v**2 * (coordinates.noise_kurtosis - 1) + 4 * v * length
        believed = max(1 - noise / max(float(lengths.var()), 1e-30), 0.0)
        # What inner products vary by that neither noise nor the projection explains: Σλ² of true variances λ.
        some = coordinates.points(rows[: max(2, _NUMBERS // coordinates.dimension)]) - denoiser.mean
        products = (some @ some.T).astype(np.float64)
        pairs = len(some) * (len(some) - 1)
        total = float((products**2).sum() - (np.diag(products) ** 2).sum()) / max(pairs, 1)
        share = 1 / k if coordinates.projected else 0.0
        total = max(total - k * v**2 - 2 * v * length - share * length**2, 0.0)
        found = denoiser.gains.astype(np.float64) * denoiser.variances
        true = _without_projection(found, length, k, total) if coordinates.projected else found
        rest = max(length - float(true.sum()), 1e-9 * length)
        alike = min(max(total - float((true**2).sum()), 0.0) / rest**2, 1.0)  # nobody is more like than oneself
        stretch = np.sqrt(true / np.maximum(denoiser.variances, 1e-30))
        lengths = length + math.sqrt(believed) * (lengths - length)
        rests = np.maximum(lengths - ((places * stretch) ** 2).sum(axis=1), 0.0)
        return cls(denoiser, rows, places * stretch, rests, alike, stretch, believed, length)

    @property
    def mean(self) -> Points:
        """The average person, along the directions that are kept."""
        mean: Points = self.denoiser.mean @ self.denoiser.basis
        return mean

    @property
    def outside(self) -> float:
        """Squared length of the average person outside of them."""
        return max(float(self.denoiser.mean @ self.denoiser.mean - self.mean @ self.mean), 0.0)

    def with_one(self, who: Vector | ChosenSide) -> tuple[Points, Floats]:
        """Return places and rests, those of the person asked about first, whom nobody else stands for."""
        denoiser = self.denoiser
        if isinstance(who, Vector):
            point = (denoiser.coordinates.own(who) - denoiser.mean)[None, :]
            # It has no noise to take off, but what a projection leaks.
            place = point @ denoiser.basis * (self.stretch / np.sqrt(np.maximum(denoiser.gains, 1e-9)))
            length, others = (point**2).sum(axis=1), slice(None)
        else:
            place, length = _seen(who.rows, denoiser)
            place, length = place * self.stretch, self.length + self.believed**0.5 * (length - self.length)
            others = (self.rows != who.rows).any(axis=1)
        rest = np.maximum(length - (place**2).sum(axis=1), 0.0)
        places = np.concatenate([place, self.places[others]]).astype(np.float32)
        return places, np.concatenate([rest, self.rests[others]])


def _seen(rows: NDArray[Any], denoiser: Denoiser) -> tuple[Floats, Floats]:
    """Return deviations from the mean along the directions that are kept, and unbiased squared lengths."""
    coordinates = denoiser.coordinates
    step = max(1, _NUMBERS // coordinates.dimension)
    parts: list[Points] = []
    for start in range(0, max(len(rows), 1), step):
        deviations = coordinates.points(rows[start : start + step]) - denoiser.mean
        lengths = np.einsum("nk,nk->n", deviations, deviations)
        parts.append(np.column_stack([lengths, deviations @ denoiser.basis]))
    found = np.concatenate(parts).astype(np.float64)
    return found[:, 1:], found[:, 0] - coordinates.free * coordinates.noise_variance


def _without_projection(variances: Floats, length: float, k: int, total: float) -> Floats:
    """Return true variances in the directions that are kept, without what a projection leaks into each of them.

    What is not along them, ρ = length − Σλ, leaks ρ/k into each. Nor can they vary by more than ``total``.
    """

    def less(by: float) -> Floats:
        return np.maximum(variances - by, 0.0)

    most, leak = float(variances.max(initial=0.0)), 0.0
    if length > variances.sum():
        leak = _crossing(lambda by: by - (length - less(by).sum()) / k > 0, 0.0, length / k)
    if (less(leak) ** 2).sum() > total:
        leak = _crossing(lambda by: (less(by) ** 2).sum() < total, leak, most)
    return less(leak)


def _crossing(reached: Callable[[float], Any], low: float, high: float) -> float:
    """Return from where on something is reached, between ``low`` and ``high``."""
    for _ in range(60):  # halves, to the last digits
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def expected_true(
    release: "Release", who: Vector | ChosenSide, n: int, *, metric: Metric, space: Space | None
) -> float:
    """Return how many of the n people listed are expected to be among the n truly nearest; NaN if nothing is known.

    Parameters
    ----------
    release : Release
    who : Vector or ChosenSide
        Whose neighbors.
    n : int
    metric, space
        What was ranked by; None for noisy distances.
    """
    own = who if isinstance(who, Vector) else None
    others = len(release._sketches) - (own is None)
    generator = np.random.default_rng(0)
    if n == others:
        return float(n)
    if isinstance(who, ChosenSide):
        if space is None:
            return _by_distances(release, who, n, generator)
        if bool(lost_rows(who.rows)[0]):
            return math.nan
    assert space is not None  # noqa: S101
    people = release._stand_ins
    again = _PublishedAgain(people, *people.with_one(who), metric, space, noisy=own is None)
    # Where fewer people stand for all, as large a share of them is looked for.
    among = max(1, round(n * (len(again.rests) - 1) / others))
    return n / among * float(np.mean([again.found(among, generator) for _ in range(_TIMES)]))


def _by_distances(release: "Release", who: ChosenSide, n: int, generator: np.random.Generator) -> float:
    sketches = release._sketches
    assert who.positions is not None  # noqa: S101
    others = np.setdiff1d(np.arange(len(sketches)), who.positions)
    steps = sketches.pairs(np.broadcast_to(who.positions, others.shape), others)
    values = steps[~at_limit(steps)] * release.plan.scale
    if len(values) <= n:
        return math.nan
    noise = float(release.plan.error.distance()(max(float(values.mean()), 0.0)))
    true = values * math.sqrt(max(1 - noise / max(float(values.var()), 1e-30), 0.0))
    if not true.any():  # noise explains all
        return n * n / len(values)
    again = (true + math.sqrt(noise) * generator.standard_normal(len(true)) for _ in range(_TIMES))
    return float(np.mean([_shared(true, seen, n) for seen in again]))


def _shared(true: Floats, seen: Floats, n: int) -> int:
    """Return how many of the n smallest are the same."""
    first, second = (np.argpartition(keys, n - 1)[:n] for keys in (true, seen))
    return len(np.intersect1d(first, second, assume_unique=True))


@dataclass(frozen=True, slots=True, eq=False)
class _PublishedAgain:
    """People who are published again, the one asked about first."""

    people: StandIns
    places: Points
    rests: Floats
    metric: Metric
    space: Space
    noisy: bool
    """Whether the person asked about is published, too, and not a vector of one's own."""

    def found(self, n: int, generator: np.random.Generator) -> int:
        """Return how many of the n who look nearest, once published, are."""
        places, rests, denoiser = self.places, self.rests, self.people.denoiser
        coordinates, rank, k = denoiser.coordinates, denoiser.rank, denoiser.coordinates.free
        leak = rests / k if coordinates.projected else 0 * rests
        noise = np.full(len(rests), coordinates.noise_variance)
        noise[0] *= self.noisy

        def normal(variance: Floats) -> Floats:
            drawn: Floats = np.sqrt(variance) * generator.standard_normal(len(variance), np.float32)
            return drawn

        products = normal(self.people.alike * rests[0] * rests)
        true = self._keys(places, rests, products, floor=_LEAST)
        drawn = generator.standard_normal(places.shape, np.float32)
        seen = places + np.sqrt(noise + leak).astype(np.float32)[:, None] * drawn
        # The rest is a vector of k − rank numbers: its squared length and its products with that of the first person.
        varies = (k - rank) * noise**2 * (coordinates.noise_kurtosis - 1) + 4 * noise * rests + 2 * leak * rests
        lengths = rests - rank * leak + normal(varies)
        if isinstance(self.space, DenoisedSpace):
            kept = 1 - denoiser.gains**2
            counted = denoiser.rest * (self.metric == "euclidean") * (lengths + seen**2 @ kept)
            shown = self._keys(denoiser.gains * seen, counted, 0 * rests, floor=_LEAST)
        else:
            products += normal((k - rank) * noise * noise[0] + noise * rests[0] + noise[0] * rests + leak * rests[0])
            floor = self.space.floor  # type: ignore[attr-defined]
            shown = self._keys(seen, lengths - rank * noise, products, floor=floor)
        return _shared(true[1:], shown[1:], n)

    def _keys(self, places: Points, rests: Floats, products: Floats, *, floor: float) -> Floats:
        """Return the keys of the first person with all, from places, and lengths and products of the rests."""
        if self.metric == "euclidean":
            apart = places - places[0]
            return np.asarray(np.einsum("nr,nr->n", apart, apart) + rests - 2 * products, np.float64)
        places = places + self.people.mean
        norms = np.einsum("nr,nr->n", places, places) + self.people.outside + rests
        shared = places @ places[0] + self.people.outside + products
        return similarity_keys(Pairs(norms, norms[:1], shared, shared), _FloorKey(self.metric, floor))


class _FloorKey(NamedTuple):
    metric: Metric
    floor: float
