"""Whether attributes go together at all: Horn's parallel analysis, coordinates shuffled among people.

Everybody's taste differs, so that far more than the noise is left in every direction, and rank above the noise proves
nothing. The question is whether attributes go together. Where each coordinate holds attributes of its own
(``counting``, ``hashing``, randomized response), independent attributes make independent coordinates, and shuffling
every coordinate among people shows what chance does. The other families mix attributes: there the worst case of
independent attributes is simulated.

Active people have more of everything. That alone is no structure: the direction of the average person is left
out, coordinates are shuffled among people who lie equally far along it, and each person counts alike.

References
----------
J. Horn, "A rationale and test for the number of factors in factor analysis", Psychometrika 30 (1965).
I. Johnstone, "On the distribution of the largest eigenvalue in principal components analysis", Annals of Statistics
29 (2001).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dimly.analyst.structure import kernels
from dimly.analyst.structure.coordinates import Coordinates, Points, coordinates_of, sample
from dimly.analyst.structure.one_thread import one_thread
from dimly.display import percent
from dimly.mechanisms.plan import Plan
from dimly.mechanisms.plan_kinds import DirectionsPlan
from dimly.release.reader import StoredSketches
from dimly.release.sketches import Sketches

Floats = NDArray[np.float64]

# Above the average of chance: independent attributes are taken for structure once in a thousand releases, as
# docs/denoising.md shows.
_DEVIATIONS = 4.0
_TOLERANCE = 0.15  # of the average: what very uneven activity can leave behind
_SHUFFLES = 12
_FEWEST_SHUFFLES = 4  # before it is told that nothing is beyond chance
_STRATUM = 64  # people who are taken to be equally active
_WORK = 1 << 32  # multiplications to find one covariance by
_FEWEST, _MOST = 2048, 1 << 15  # people looked at, if there are as many
_WIDEST = 1024  # coordinates of many people looked at; more are added up, at random signs
_MOST_NUMBERS = 1 << 23  # of fewer people, who are compared by all of their coordinates
_COMPONENTS = 100  # counted at most
_FIRST = 8  # compared before the others are found: mostly fewer are beyond chance
_FEWEST_PEOPLE = 20
_MOST_MIXED = 1 << 14  # attributes simulated where they are mixed


@dataclass(frozen=True, slots=True)
class Structure:
    """What attributes that go together add to a release.

    Attributes
    ----------
    components : int
        Directions in which people differ more than chance explains; 0: none. At most 100 are counted.
    share : float
        Part of people's variance, noise taken off, that these directions hold beyond chance; from 0 to 1.
    strongest : float
        Variance along the strongest direction; 1 is the average direction.
    threshold : float
        What independent attributes exceed in fewer than one of a thousand releases.
    chance : str
        What chance is. Along public directions it is noise alone, in whose variance the above are told then: attributes
        that do not go together need not lie in all directions alike.
    """

    components: int
    share: float
    strongest: float
    threshold: float
    chance: str = "independent attributes"

    @property
    def words(self) -> str:
        """The finding in a sentence."""
        if self.components == 0:
            return f"no structure beyond what {self.chance} would show"
        several = f"{self.components} components" if self.components > 1 else "1 component"
        return (
            f"{several} beyond what {self.chance} would show, which explain {percent(self.share)} of how people "
            "differ, noise left out"
        )


def structure_of(sketches: Sketches | StoredSketches) -> Structure:
    """Return how much structure a release shows, with a false-alarm rate of 0.001.

    Looks at some thousands of people at most, evenly spaced. The same release gives the same answer. Fewer than 20
    people show nothing, and neither does a single coordinate, which can go together with no other.

    Raises
    ------
    ParameterError
        For noisy distances, which place nobody anywhere.
    """
    plan = sketches.plan
    widest = _widest(len(sketches)) if unmixed(plan) else _WIDEST
    width = min(Coordinates.of(plan).dimension, widest)
    n_people = min(max(_WORK // width**2, _FEWEST), _MOST)
    people = sample(sketches, n_people, coordinates_of(plan, widest=widest))
    if isinstance(plan, DirectionsPlan):
        return _beyond_noise(people, plan)
    if len(people) < _FEWEST_PEOPLE or width < 2:
        return Structure(0, 0.0, 0.0, float("inf"))
    with one_thread():  # many small products, which threads only slow down
        table = _ComparedPeople.of(people, plan)
        products = _covariances(table.people)
        found = _variances(products, _FIRST)
        by_chance: list[Points] = []
        for several in (_FEWEST_SHUFFLES, _SHUFFLES):
            seeds = range(len(by_chance), several)
            by_chance += [_covariances(table.by_chance(np.random.default_rng(seed))) for seed in seeds]
            chance = _ChanceVariances.of(by_chance, table.people.shape, _FIRST)
            if found[0] <= (1 + _TOLERANCE) * chance.averages[0]:
                break  # four standard deviations below the threshold, of which further shuffles move it by half of one
        if (found > chance.thresholds).all():
            found = _variances(products, _COMPONENTS)
            chance = _ChanceVariances.of(by_chance, table.people.shape, _COMPONENTS)
    above = found > chance.thresholds
    # Horn's count: up to the first direction that is no stronger than chance's of the same place.
    n_components = len(above) if above.all() else int(above.argmin())
    beyond = (found[:n_components] - chance.averages[:n_components]).sum()
    share = float(beyond / max(table.signal, 1e-9))
    return Structure(n_components, min(max(share, 0.0), 1.0), float(found[0]), float(chance.thresholds[0]))


def _widest(n_users: int) -> int:
    """Return how many coordinates are looked at: adding them up costs power, and n people have n² products."""
    n = max(min(n_users, _FEWEST), 1)
    return max(_WIDEST, min(_WORK // n**2, _MOST_NUMBERS // n))


def _beyond_noise(people: Points, plan: DirectionsPlan) -> Structure:
    """Return in how many ways people differ along public directions by more than noise explains."""
    (n, k), noise = people.shape, plan.error.noise
    if n < _FEWEST_PEOPLE:
        return Structure(0, 0.0, 0.0, float("inf"), "noise alone")
    found = np.linalg.eigvalsh(np.cov(people.T.astype(np.float64)).reshape(k, k))[::-1] / noise.variance
    # The largest variance of pure noise (Marchenko and Pastur), and how far it strays: more with heavy tails.
    heavier = max((noise.kurtosis - 1) / 2, 1.0) ** 0.5
    threshold = (1 + (k / n) ** 0.5) ** 2 + _DEVIATIONS * heavier * max(_spread(n, k), (2 / n) ** 0.5)
    n_components = int(np.count_nonzero(found > threshold))
    share = (found[:n_components] - 1).sum() / max(np.maximum(found - 1, 0.0).sum(), 1e-9)
    return Structure(n_components, min(float(share), 1.0), float(found[0]), threshold, "noise alone")


@dataclass(frozen=True, slots=True, eq=False)
class Shuffling:
    """Makes people of independent coordinates, as active as given ones. Make one with :meth:`of`.

    Each coordinate is shuffled among those who lie equally far along the average person, in strata of 64.
    """

    people: Points
    """In the order of their activity, each coordinate's numbers side by side."""

    @classmethod
    def of(cls, people: Points) -> "Shuffling":
        """Return what shuffles these people."""
        return cls(np.asfortranarray(people[np.argsort(people @ people.mean(axis=0), kind="stable")]))

    def __call__(self, generator: np.random.Generator) -> Points:
        """Return people of independent coordinates."""
        made = self.people.copy(order="F")
        # A number takes 1.4 words of 32 bits on average: 1.5 and a thousand lie beyond ten standard deviations.
        words = generator.bit_generator.random_raw(made.size * 3 // 4 + 512)
        kernels.shuffle_strata(made.T, np.asarray(words, "<u8").view("<u4").astype(np.uint32, copy=False), _STRATUM)
        return made


def unmixed(plan: Plan) -> bool:
    """Return whether each coordinate of a release holds attributes of its own."""
    return plan.entries == 1


@dataclass(frozen=True, slots=True, eq=False)
class _ComparedPeople:
    """People ready for comparison: coordinates of variance 1, without activity, each of the same length."""

    people: Points
    signal: float
    """Sum of their variances, noise taken off."""
    by_chance: Callable[[np.random.Generator], Points]

    @classmethod
    def of(cls, people: Points, plan: Plan) -> "_ComparedPeople":
        noise = Coordinates.of(plan).bias / people.shape[1]
        mean, spread = people.mean(axis=0, dtype=np.float64), people.std(axis=0, dtype=np.float64)
        if unmixed(plan):
            # A coordinate that never varies says nothing: it is left at 0.
            units = np.where(spread > 0, spread, 1.0)
            signal = float((1 - np.minimum(noise / units**2, 1.0))[spread > 0].sum())
            scaled = (people / units).astype(np.float32)
            activity = _activity(mean, units, powers=5)
            shuffled = Shuffling.of(scaled)
            return cls(_leveled(scaled, activity), signal, lambda draws: _leveled(shuffled(draws), activity))
        n, k = people.shape
        unit = max(float((spread**2).mean()), noise) ** 0.5
        activity = _activity(mean, np.full(k, unit), powers=1)
        signal = 1 - noise / unit**2

        def mixed(draws: np.random.Generator) -> Points:
            return _leveled(_worst_case(n, k, signal, 0.25 / unit**2, draws), activity)

        return cls(_leveled(people / np.float32(unit), activity), k * signal, mixed)


def _activity(mean: Floats, units: Floats, *, powers: int) -> Points:
    """Return an orthonormal basis of the directions in which people move when they are more active.

    Twice as active, and a rare attribute is twice as likely: along the mean m. A common one is not, since it cannot be
    more than certain: its curve bends. Attributes so common dominate their coordinate, up to its sign, so that the odd
    powers of m and the even ones with its sign span these curves nearly.
    """
    curves = np.stack([np.sign(mean) * np.abs(mean) ** power / units for power in range(1, powers + 1)], axis=1)
    curves /= np.maximum(np.linalg.norm(curves, axis=0), 1e-30)
    basis, lengths, _ = np.linalg.svd(curves, full_matrices=False)
    kept: Points = basis[:, lengths > 1e-4].astype(np.float32)
    return kept


class _ChanceVariances(NamedTuple):
    """The largest variances of independent attributes: their averages, and what they seldom exceed."""

    averages: Floats
    thresholds: Floats

    @classmethod
    def of(cls, covariances: list[Points], shape: tuple[int, ...], count: int) -> "_ChanceVariances":
        drawn = np.array([_variances(each, count) for each in covariances])
        averages = drawn.mean(axis=0)
        # A few shuffles tell averages well and spreads badly: these are not taken to be below theory's.
        spreads = np.maximum(drawn.std(axis=0, ddof=1), _spread(*shape))
        return cls(averages, (1 + _TOLERANCE) * averages + _DEVIATIONS * spreads)


def _worst_case(n: int, k: int, signal: float, largest: float, generator: np.random.Generator) -> Points:
    """Return people of independent attributes that make the strongest directions: as few as can be, each at odds 1.

    An attribute in [0, 1] has variance 1/4 at most (``largest``, in units of a coordinate's variance) and goes in one
    direction of its own, of length 1.
    """
    made: Points = generator.standard_normal((n, k), np.float32) * np.float32(max(1 - signal, 0.0) ** 0.5)
    if signal > 0:
        m = int(min(max(k * signal / largest, 1.0), _MOST_MIXED))
        rows = generator.standard_normal((m, k), np.float32)
        rows *= np.sqrt(np.float32(k * signal / m)) / np.linalg.norm(rows, axis=1, keepdims=True)
        made += (2 * generator.integers(2, size=(n, m), dtype=np.int8) - 1).astype(np.float32) @ rows
    return made


def _leveled(people: Points, activity: Points) -> Points:
    """Center, leave the directions of activity out, and give everybody the same length."""
    leveled: Points = people - people.mean(axis=0, dtype=np.float64).astype(np.float32)
    leveled -= (leveled @ activity) @ activity.T
    lengths = np.sqrt(np.square(leveled).sum(axis=1, keepdims=True))
    leveled *= np.float32(people.shape[1] ** 0.5) / np.where(lengths > 0, lengths, 1.0)
    return leveled


def _covariances(people: Points) -> Points:
    """Return the products of coordinates, or those of people if these are fewer: both have the same variances."""
    n, k = people.shape
    products: Points = people.T @ people if k <= n else people @ people.T
    products /= np.float32(n)
    return products


def _variances(covariances: Points, count: int) -> Floats:
    """Return the largest variances of any direction, falling."""
    size = len(covariances)
    count = min(count, size - 1)
    if count * 16 <= size:  # a few: searched for from a fixed start
        found = scipy.sparse.linalg.eigsh(
            covariances, count, tol=1e-6, v0=np.ones(size, np.float32), return_eigenvectors=False
        )
        return np.sort(found)[::-1].astype(np.float64)
    # NumPy's: threads of SciPy's own could be limited only once it is loaded.
    return np.linalg.eigvalsh(covariances)[::-1][:count].astype(np.float64)


def _spread(n: int, k: int) -> float:
    """Return the standard deviation of the largest variance of independent coordinates: Tracy and Widom's law."""
    return float(1.268 * (n**0.5 + k**0.5) * (n**-0.5 + k**-0.5) ** (1 / 3) / n)
