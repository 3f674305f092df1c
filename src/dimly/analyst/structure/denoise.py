"""``Denoiser``: moments and covariance of published points, eigenvectors above the noise's edge, shrinkage."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from dimly.analyst.structure import kernels
from dimly.analyst.structure.coordinates import Coordinates, Points, blocks, parts_of, sample
from dimly.analyst.structure.one_thread import one_thread
from dimly.analyst.structure.parallel_analysis import Structure
from dimly.errors import ParameterError
from dimly.mechanisms.plan_kinds import ResponsePlan
from dimly.release.reader import StoredSketches
from dimly.release.sketches import Sketches

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sums over people; those of two groups of people add up to those of both.

    Attributes
    ----------
    n_people : int
        Of whom something is known: without saturated numbers.
    total : ndarray of float64 (dimension,)
    products : ndarray of float64 (dimension, dimension)
        Of each coordinate with each.
    """

    n_people: int
    total: Floats
    products: Floats

    @classmethod
    def of(cls, batches: Iterable[Points], dimension: int) -> Self:
        """Return the sums of points, batch by batch."""
        n_people, total, products = 0, np.zeros(dimension), np.zeros((dimension, dimension))
        for batch in batches:
            points = batch.astype(np.float64)
            n_people += len(points)
            total += points.sum(axis=0)
            products += points.T @ points
        return cls(n_people, total, products)

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.n_people + other.n_people, self.total + other.total, self.products + other.products)

    @property
    def mean(self) -> Floats:
        """The average point."""
        return self.total / max(self.n_people, 1)

    @property
    def covariance(self) -> Floats:
        """Of the published points, their noise included: (dimension, dimension)."""
        covariance: Floats = self._covariance(np.float64)
        return covariance

    @property
    def single_covariance(self) -> Points:
        """The same, each rounded once to single precision."""
        covariance: Points = self._covariance(np.float32)
        return covariance

    def _covariance(self, dtype: type[np.floating[Any]]) -> Any:
        mean, part = self.mean, 1 / max(self.n_people, 1)
        covariance = np.empty(self.products.shape, dtype)
        for i, own in enumerate(mean):  # a row at a time stays in a cache
            covariance[i] = part * self.products[i] - own * mean
        return covariance


def moments_of(
    sketches: Sketches | StoredSketches, *, most: int | None = None, parts: Iterable[int] | None = None
) -> Moments:
    """Return the sums over the people of a release.

    Parameters
    ----------
    sketches : Sketches or StoredSketches
        Not noisy distances, which place nobody.
    most : int, optional
        Stop reading at about this many people; see :func:`~dimly.analyst.structure.coordinates.blocks`.
    parts : iterable of int, optional
        Only the people of these parts.
    """
    if isinstance(sketches.plan, ResponsePlan):
        return _moments_of_bits((rows for _, rows in parts_of(sketches, most, parts)), sketches.plan)
    everybody = blocks(sketches, most=most, parts=parts)
    dimension = Coordinates.of(sketches.plan).dimension
    return Moments.of((block.points[block.known] for block in everybody), dimension)


def _moments_of_bits(parts: Iterable[NDArray[Any]], plan: ResponsePlan) -> Moments:
    """Return the sums of points (bit − f)/(1 − 2f) from exact counts of bits, and of pairs of bits."""
    n_people, d = 0, plan.n_attributes
    counts, shared = np.zeros(d), np.zeros((d, d))
    step = max(_BITS // d, 1) * 64
    for rows in parts:
        n_people += len(rows)
        for start in range(0, len(rows), step):
            bits = np.unpackbits(rows[start : start + step], axis=1, count=d, bitorder="little")
            counts += bits.sum(axis=0, dtype=np.int64)
            columns = np.packbits(bits.T, axis=1)
            words = np.zeros((d, -(-columns.shape[1] // 8)), np.uint64)
            words.view(np.uint8)[:, : columns.shape[1]] = columns
            kernels.add_shared_bits(words, shared)
    f, gain = plan.error.flip, 1 / (1 - 2 * plan.error.flip)
    for i, own in enumerate(counts):  # a row at a time stays in a cache
        shared[i] = (shared[i] - (f * counts + (f * own - n_people * f**2))) * gain**2
    return Moments(n_people, (counts - n_people * f) * gain, shared)


MOST_PEOPLE = 1 << 20
"""Enough to fit to: a variance is then known to √(2/2²⁰) = 0.14 %, and a direction found to k/2²⁰ of its length."""
WIDEST = 4096
"""Dimension up to which the covariance is held (128 MB) and all directions are computed."""
_MOST_NUMBERS = 1 << 34  # read in one pass where directions are searched for: minutes
_RANK = 100  # directions searched for beyond that
_SPARE = 20  # searched for besides: the last ones of a random subspace are poor
_PASSES = 3
_MOST_BYTES = 2 << 30  # of denoised points in memory
_LEAST_BELIEVED = 0.1  # less changes nothing that could be measured, and takes as long
_BITS = 1 << 19  # words of 64 unpacked at once: 32 MB
_NARROW = 1024  # dimension up to which all directions are computed in less time than it takes to search for some
_WIDTH = 8  # directions by which a search grows at a time
_MOST_SEARCHED = 1024
_LITTLE = 0.01  # of a variance: what is left of a direction that was nearly in the others
_CHECKED = 64  # directions after which it is told whether they are enough
_CONVERGED = 2e-4  # what is left of a direction, as a part of its variance
_JUDGED = 1e-2  # the same, where views of some people are compared: they differ by much more
_SAMPLE = 1 << 14  # people by whom the worth of what is left out is told


@dataclass(frozen=True, slots=True, eq=False)
class Denoiser:
    """A linear map from published points to denoised ones. Make one with :meth:`of`.

    Attributes
    ----------
    coordinates : Coordinates
        Of the release.
    mean : ndarray of float32 (dimension,)
        The average point.
    basis : ndarray of float32 (dimension, rank)
        Orthonormal: the directions that are kept, strongest first.
    gains : ndarray of float32 (rank,)
        What each keeps of a deviation from the mean, in (0, 1).
    variances : ndarray of float32 (rank,)
        Of published points along each, noise included.
    rest : float
        How much of a person's squared length beyond the denoised point belongs to their distance from others, from 0 to
        1/2; see :func:`worth_of_rest`.
    missed : float
        Variance that is not noise in the directions that are not kept, as a multiple of the noise's.

    Examples
    --------
    >>> from dimly.api import publish
    >>> from dimly.mechanisms import Plan
    >>> from dimly.privacy import Budget
    >>> people = np.repeat(np.random.default_rng(0).random((2, 400)) < 0.3, 100, axis=0)
    >>> release = publish(people, Plan.of("hashing+laplace", Budget(2.0), k=64))
    >>> gains = release.denoiser.gains  # two kinds of people differ in one direction
    >>> bool(gains[0] > 0.9), bool((gains[1:] < 0.5).all())
    (True, True)
    """

    coordinates: Coordinates
    mean: Points
    basis: Points
    gains: Points
    variances: Points
    rest: float = 0.0
    missed: float = 0.0

    @classmethod
    def of(cls, sketches: Sketches | StoredSketches, *, moments: Moments | None = None) -> "Denoiser":
        """Return the denoiser of a release, by reading it once.

        Of more than 2²⁰ people it reads a fixed selection of about as many. Randomized response on more than 4,096
        attributes is read four times, and at most 100 directions are kept. Fewer than two people differ in nothing: no
        direction is kept of them.

        Parameters
        ----------
        sketches : Sketches or StoredSketches
        moments : Moments, optional
            Those of the release, if they are known already: :func:`dimly.spark.covariance` finds them on a cluster.

        Raises
        ------
        ParameterError
            For noisy distances, which place nobody anywhere.
        """
        coordinates = Coordinates.of(sketches.plan)
        found = _principal(sketches, coordinates) if moments is None else _decomposed(moments, coordinates)
        denoiser = cls._keeping(found, coordinates)
        if not denoiser.rank:
            return denoiser
        rest, missed = worth_of_rest(sketches, denoiser)
        return replace(denoiser, rest=rest, missed=missed)

    @classmethod
    def of_points(cls, points: Points, coordinates: Coordinates, *, most: int) -> "Denoiser":
        """Return the denoiser of points in memory, of some of the coordinates, by the strongest directions alone.

        Nothing is said of what is left out: ``rest`` and ``missed`` are 0.
        """
        mean = points.mean(axis=0, dtype=np.float64).astype(np.float32)
        deviations = points - mean
        n, k = points.shape
        most = min(most, k, n)
        tall = k <= n
        products = (deviations.T @ deviations if tall else deviations @ deviations.T) / np.float32(max(n, 1))
        found = None
        if len(products) > _NARROW:
            edge = coordinates.noise_variance * edge_of_noise(k / n)
            with one_thread():
                found = _above(products, edge, most, exact_to=_JUDGED)
        if found is None:
            subset = (len(products) - most, len(products) - 1)
            ascending, turned = scipy.linalg.eigh(products.astype(np.float64), subset_by_index=subset)
            found = turned[:, ::-1], ascending[::-1]
        vectors, variances = found[0][:, :most], found[1][:most]
        if not tall:
            vectors = (deviations.T @ vectors.astype(np.float32)) / np.sqrt(np.maximum(variances * n, 1e-30))
        gains = shrinkage(variances, coordinates.noise_variance, k / max(n, 1))
        kept = gains > 0
        parts = (vectors[:, kept], gains[kept], variances[kept])
        basis, kept_gains, kept_variances = (part.astype(np.float32) for part in parts)
        return cls(coordinates, mean, basis, kept_gains, kept_variances)

    @classmethod
    def _keeping(cls, found: "_Principal", coordinates: Coordinates) -> "Denoiser":
        ratio = coordinates.free / max(found.n_people, 1)
        gains = shrinkage(found.variances, coordinates.noise_variance, ratio)
        kept = np.flatnonzero(gains > 0) if found.n_people > 1 else np.empty(0, np.int64)
        # A direction's sign means nothing, and is fixed so that the same release gives the same map.
        basis = found.basis[:, kept]
        basis = basis * np.sign(basis[np.abs(basis).argmax(axis=0), np.arange(len(kept))])
        parts = (found.mean, basis, gains[kept], found.variances[kept])
        mean, basis_, gains_, variances = (part.astype(np.float32) for part in parts)
        return cls(coordinates, mean, basis_, gains_, variances)

    @property
    def rank(self) -> int:
        """Number of directions that are kept; where all is noise 0, or now and then 1 or 2, which are much shrunk."""
        return len(self.gains)

    @property
    def searched(self) -> bool:
        """Whether not all directions were looked at: that one is not kept proves nothing then."""
        return self.coordinates.dimension > WIDEST

    def matching(self, deviation: Points) -> Floats:
        """Return what to multiply people's deviations from the mean by to guess their inner product with one's own.

        A vector of one's own has no noise, so that each direction counts by how much of people's variance in it is not
        noise (the best linear guess), those that are not kept by what is so on average.
        """
        inside = self.basis.T.astype(np.float64) @ deviation
        others = self.missed / (1 + self.missed)
        believed = np.maximum(1 - self.coordinates.noise_variance / self.variances.astype(np.float64), 0.0)
        matched: Floats = self.basis.astype(np.float64) @ ((believed - others) * inside) + others * deviation
        return matched

    @property
    def map(self) -> Points:
        """What :meth:`reduce` multiplies deviations from the mean by: (dimension, rank)."""
        return self.basis * self.gains

    def reduce(self, points: Points, *, noisy: bool = True) -> Points:
        """Return denoised points in as few coordinates as they have, float32 (n, rank), centered.

        Parameters
        ----------
        points : ndarray of float32 (n, dimension)
            Of :class:`Coordinates`.
        noisy : bool, default=True
            False for a vector of one's own, which has no noise to shrink: it is projected only.

        Returns
        -------
        ndarray of float32 (n, rank)
            With the same distances from each other as those of :meth:`points`.
        """
        reduced: Points = np.ascontiguousarray((points - self.mean) @ (self.map if noisy else self.basis))
        return reduced

    def points(self, points: Points, *, noisy: bool = True) -> Points:
        """Return denoised points in the coordinates of the given ones, float32 (n, dimension)."""
        denoised: Points = self.reduce(points, noisy=noisy) @ self.basis.T
        denoised += self.mean
        return denoised


@dataclass(frozen=True, slots=True, eq=False)
class Denoised:
    """Everybody's denoised point. Distances of these are biased: to rank and to cluster by.

    Attributes
    ----------
    users : ndarray
        Ids, in the order of the release.
    points : ndarray of float32 (users, dimension)
        NaN for those with a saturated number, of whom nothing is known.
    rank : int
        Number of directions in which these points differ.
    structure : Structure
        How much of that is more than chance.
    """

    users: NDArray[Any]
    points: Points
    rank: int
    structure: Structure

    def __repr__(self) -> str:
        """Not the points, which would fill a page of a notebook."""
        people, dimension = self.points.shape
        return f"<Denoised points of {people:,} people in {dimension:,} coordinates of rank {self.rank}>"


def denoised(sketches: Sketches | StoredSketches, denoiser: Denoiser, structure: Structure) -> Denoised:
    """Return everybody's denoised point.

    Raises
    ------
    ParameterError
        If they would take more than 2 GB.
    """
    shape = len(sketches), denoiser.coordinates.dimension
    if 4 * shape[0] * shape[1] > _MOST_BYTES:
        raise ParameterError(
            f"denoised points must take at most {_MOST_BYTES >> 30} GB, got {shape[0]} people in {shape[1]} "
            "coordinates. Read the release in parts and use release.denoiser.reduce on each."
        )
    points = np.empty(shape, np.float32)
    for block in blocks(sketches):
        made = denoiser.points(block.points)
        made[~block.known] = np.nan
        points[block.start : block.start + len(made)] = made
    return Denoised(sketches.users, points, denoiser.rank, structure)


def shrinkage(variances: Floats, noise: float, ratio: float) -> Floats:
    """Return what to keep of each principal direction, from 0 to 1.

    Optimal in Frobenius norm for a low rank plus noise: y → √((y² − β − 1)² − 4β)/y above 1 + √β, else 0, for singular
    values in units of noise, divided here by y.

    Parameters
    ----------
    variances : ndarray
        Along the principal directions.
    noise : float
        Known variance of noise in every direction.
    ratio : float
        β, directions over people; any positive number.

    Examples
    --------
    >>> shrinkage(np.array([10.0, 2.0, 1.0]), 1.0, 0.01).round(3)
    array([0.899, 0.485, 0.   ])
    """
    squares = variances / noise
    above = squares > edge_of_noise(ratio)
    inside = np.where(above, (squares - ratio - 1) ** 2 - 4 * ratio, 0.0)
    gains: Floats = np.sqrt(np.maximum(inside, 0.0)) / np.where(above, squares, 1.0)
    return gains


def edge_of_noise(ratio: float) -> float:
    """Return the largest variance of pure noise of variance 1 (Marchenko and Pastur), β coordinates a person."""
    return float((1 + ratio**0.5) ** 2)


def worth_of_rest(sketches: Sketches | StoredSketches, denoiser: Denoiser) -> tuple[float, float]:
    """Return how much of what denoising leaves out of a person's squared length to count in distances, and ``missed``.

    Of ‖x − y‖² = ‖x‖² + ‖y‖² − 2⟨x, y⟩ denoised points tell the inner product best, but they are too short, and by more
    for people with many attributes of their own: ranked by them alone, these look near to everybody. The rest
    e = ‖p‖² − ‖denoised p‖² says by how much, and noise. Of its variance over people the part that is not noise's,
    1 − Var(noise)/Var(e), is how far e can be believed (the best linear guess of an empirical Bayesian). Half of that
    is counted, since people who are near share some of what is left out: docs/denoising.md shows by how much either
    choice would be better or worse on real tables. What the projection does to lengths is no noise here: it does the
    same to inner products.
    """
    mean, basis, coordinates = denoiser.mean, denoiser.basis, denoiser.coordinates

    def parts(rows: NDArray[Any]) -> Points:
        deviations = coordinates.points(rows) - mean
        lengths = np.einsum("nk,nk->n", deviations, deviations)
        return np.column_stack([lengths, deviations @ basis])

    people = sample(sketches, _SAMPLE, parts).astype(np.float64)
    squares, kept, gains = people[:, 0], people[:, 1:], denoiser.gains.astype(np.float64)
    rest = squares - (kept**2) @ gains**2
    v, k = coordinates.noise_variance, coordinates.free
    # e is a quadratic form A of signal and noise: by noise alone it varies by 2v²·tr A² + (κ − 3)v²·Σ Aⱼⱼ² + 4v·‖Ax‖².
    trace = ((1 - gains**2) ** 2).sum() + k - len(gains)
    diagonal = ((1 - (denoiser.map.astype(np.float64) ** 2).sum(axis=1)) ** 2).sum()
    signal = np.maximum(kept.var(axis=0) - v, 0.0)
    outside = max(squares.mean() - k * v - signal.sum(), 0.0)
    left_out = (signal * (1 - gains**2) ** 2).sum() + outside
    noise = v**2 * (2 * trace + (coordinates.noise_kurtosis - 3) * diagonal) + 4 * v * left_out
    # Noise is taken to be two standard errors of the variance larger, lest chance be believed.
    spread = rest.var()
    fourth = ((rest - rest.mean()) ** 4).mean() / max(spread**2, 1e-30)
    noise *= 1 + 2 * (max(fourth - 1, 0.0) / len(rest)) ** 0.5
    believed = float(np.clip(1 - noise / max(spread, 1e-30), 0.0, 1.0))
    missed = float(outside / (v * (k - len(gains)))) if k > len(gains) else 0.0
    return (believed / 2 if believed >= _LEAST_BELIEVED else 0.0), missed


class _Principal(NamedTuple):
    """Principal directions of the points of a release, strongest first."""

    n_people: int
    mean: Floats
    basis: Floats
    variances: Floats


def _principal(sketches: Sketches | StoredSketches, coordinates: Coordinates) -> _Principal:
    if coordinates.dimension > WIDEST:
        return _searched(sketches, coordinates.dimension)
    return _decomposed(moments_of(sketches, most=MOST_PEOPLE), coordinates)


def _decomposed(moments: Moments, coordinates: Coordinates) -> _Principal:
    edge = coordinates.noise_variance * edge_of_noise(coordinates.free / max(moments.n_people, 1))
    # Threads wait for each other longer than they work: on two busy cores, a decomposition took six times as long.
    with one_thread():
        found = _above(moments.single_covariance, edge) if len(moments.total) > _NARROW else None
        if found is None:
            covariance = moments.covariance
            variances, basis = scipy.linalg.eigh(covariance, subset_by_value=(edge, np.inf))
            if len(variances) < 2:  # a map has two
                subset = (max(len(covariance) - 2, 0), len(covariance) - 1)
                variances, basis = scipy.linalg.eigh(covariance, subset_by_index=subset)
            found = basis[:, ::-1], variances[::-1]
    return _Principal(moments.n_people, moments.mean, *found)


def _above(
    matrix: Points, least: float, most: int = _MOST_SEARCHED, *, exact_to: float = _CONVERGED
) -> tuple[Floats, Floats] | None:
    """Return the directions in which a symmetric matrix exceeds ``least``, the next one, and their variances.

    Two at least, for a map, and of more than ``most`` the strongest; None if they are too many.

    Block Lanczos in single precision: the matrix is read once for eight directions. What a block becomes is made
    orthogonal to the last two, which is all that is left of it but for rounding, and then to all. Where noise
    dominates, few rise above it, and they are found in a tenth of the time of a whole decomposition. The search goes
    on until all of them, and the next one, are eigenvectors up to ``exact_to`` of their length.
    """
    d, b = len(matrix), _WIDTH
    size = min(_MOST_SEARCHED, d // (2 * b) * b)
    space, within = np.zeros((size, d), np.float32), np.zeros((size, size))
    block = np.linalg.qr(np.random.default_rng(0).standard_normal((d, b)).astype(np.float32))[0].T
    n_before = -1
    for end in range(b, size + 1, b):
        space[end - b : end] = block
        block = space[end - b : end] @ matrix
        for start in (max(end - 2 * b, 0), 0):
            so_far = space[start:end]
            products = so_far @ block.T
            within[start:end, end - b : end] += products
            block -= products.T @ so_far
        turned, left = np.linalg.qr(block.T)
        if np.abs(left.diagonal()).min() < _LITTLE * least:  # of which rounding is a part
            turned = np.linalg.qr(turned - space[:end].T @ (space[:end] @ turned))[0]
        block = turned.T
        if end % _CHECKED and end < size:
            continue
        upper = np.triu(within[:end, :end])
        tridiagonal = upper + np.triu(upper, 1).T
        # NumPy's: threads of SciPy's own could be limited only once it is loaded.
        n_above = min(int(np.count_nonzero(np.linalg.eigvalsh(tridiagonal) > least)), most)
        if n_above > end // 2:
            return None
        if n_above > n_before and end < size:  # more are still being found
            n_before = n_above
            continue
        variances, turn = np.linalg.eigh(tridiagonal)
        kept = slice(None, -max(n_above + 1, 2) - 1, -1)
        rest = np.linalg.norm(left @ turn[-b:, kept], axis=0)
        if (rest <= exact_to * np.maximum(variances[kept], least)).all():
            return (space[:end].T @ turn[:, kept].astype(np.float32)).astype(np.float64), variances[kept]
    return None


def _searched(sketches: Sketches | StoredSketches, dimension: int) -> _Principal:
    """Find the strongest directions without the covariance: a random subspace, multiplied by it a few times."""
    width = min(_RANK + _SPARE, dimension)
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((dimension, width)))[0]
    for _ in range(_PASSES):
        basis = np.linalg.qr(_times_covariance(sketches, basis).products)[0]
    last = _times_covariance(sketches, basis)
    within = basis.T @ last.products
    variances, turn = scipy.linalg.eigh((within + within.T) / 2)
    kept = slice(None, -_RANK - 1, -1)
    return _Principal(last.n_people, last.mean, (basis @ turn)[:, kept], variances[kept])


class _Product(NamedTuple):
    n_people: int
    mean: Floats
    products: Floats


def _times_covariance(sketches: Sketches | StoredSketches, basis: Floats) -> _Product:
    dimension = len(basis)
    n_people, total, products = 0, np.zeros(dimension), np.zeros(basis.shape)
    single = basis.astype(np.float32)
    for block in blocks(sketches, most=min(MOST_PEOPLE, _MOST_NUMBERS // dimension)):
        points = block.points[block.known]
        n_people += len(points)
        total += points.sum(axis=0, dtype=np.float64)
        products += points.T @ (points @ single)
    mean = total / max(n_people, 1)
    return _Product(n_people, mean, products / max(n_people, 1) - np.outer(mean, mean @ basis))
