"""How many of the people listed as nearest can be expected to be among the truly nearest.

Nobody but the curator knows who they are. What an analyst does know is how much noise there is, and how people spread:
that gives each person a likely true distance with its uncertainty, and so a probability of being among the nearest n.
The probabilities of all people add up to n; those of the people listed add up to what can be expected of the list.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dimly.analyst.estimate import Vector
from dimly.analyst.neighbors.spaces import DenoisedSpace, Metric, Space
from dimly.analyst.pairs import Chosen, Pairs, Side, at_limit, cosine_of, jaccard_of, lost_rows
from dimly.analyst.structure.denoise import Rest, noise_variance, rest_of
from dimly.analyst.structure.points import Points, sample
from dimly.mechanisms.error.models import Floats

if TYPE_CHECKING:
    from dimly.analyst.release import Release

CANDIDATES = 200
"""People looked at one by one besides the crowd: whoever is among the truly nearest is mostly among these."""
_CROWD = 1 << 13  # people who stand for all others
_LEVELS = np.concatenate([np.geomspace(1e-4, 0.05, 60), np.linspace(0.05, 1, 60)[1:]])  # finer where it is near
_STEPS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Noisy:
    """Keys of people, the smaller the nearer, each the true one with noise on it."""

    values: Floats
    variance: Floats

    @property
    def known(self) -> NDArray[np.bool_]:
        """Of whom there is a key."""
        known: NDArray[np.bool_] = np.isfinite(self.values) & np.isfinite(self.variance)
        return known


def spread_of(noisy: Noisy, weights: Floats) -> tuple[float, float]:
    """Return the mean of true keys, and their variance: what noise does not explain of that of noisy ones."""
    mean = float(np.average(noisy.values, weights=weights))
    spread = float(np.average((noisy.values - mean) ** 2, weights=weights))
    return mean, max(spread - float(np.average(noisy.variance, weights=weights)), 0.0)


def expected_number(noisy: Noisy, weights: Floats, n: int) -> float:
    """Return how many of the first n people are expected to be among the nearest n of all.

    How true keys are distributed is found by maximum likelihood on a grid (Kiefer and Wolfowitz's, by a few steps of
    expectation and maximization, which keep it smooth). It is then the prior of everybody's true key.

    Parameters
    ----------
    noisy : Noisy
        Keys of the people listed, nearest first, and then of others.
    weights : ndarray
        How many people each stands for; 1 for those listed, 0 for those of whom nothing is known.
    n : int
        Less than the number of people.

    Examples
    --------
    >>> sure = Noisy(np.arange(100.0), np.full(100, 1e-6))
    >>> round(expected_number(sure, np.ones(100), 10))
    10
    >>> blind = Noisy(np.sort(np.random.default_rng(0).normal(size=100)), np.full(100, 1.0))
    >>> expected_number(blind, np.ones(100), 10) < 4
    True
    """
    known = weights > 0
    noisy = Noisy(np.where(known, noisy.values, 0.0), np.where(known, noisy.variance, 1.0))
    mean, true = spread_of(noisy, weights)
    variance = np.maximum(noisy.variance, 1e-9 * max(true, 1e-9))
    shrunk = _shrunk(Noisy(noisy.values, variance), weights, mean=mean, true=true)
    grid = np.unique(np.quantile(shrunk[known], _LEVELS, weights=weights[known], method="inverted_cdf"))
    if not true or len(grid) < 3:  # noise explains all: everybody is as likely as anybody
        return n * n / float(weights.sum())
    middles = (grid[1:] + grid[:-1]) / 2
    share = np.histogram(shrunk, np.concatenate([[-np.inf], middles, [np.inf]]), weights=weights)[0]
    share = np.maximum(share, 1e-3 * share.mean())
    density = (noisy.values[:, None] - grid) ** 2 / (-2 * variance[:, None])
    density = np.exp(density - density.max(axis=1, keepdims=True))
    for _ in range(_STEPS):
        each = density * (share / share.sum())
        each /= each.sum(axis=1, keepdims=True)
        share = weights @ each
    below = np.cumsum(share)
    # The limit lies within the step of the grid where n is reached, at a part of it.
    at = min(int(np.searchsorted(below, n)), len(grid) - 1)
    before = float(below[at - 1]) if at else 0.0
    part = min((n - before) / max(float(below[at]) - before, 1e-300), 1.0)
    listed = each[:n]
    found = float((listed[:, :at].sum(axis=1) + part * listed[:, at])[known[:n]].sum())
    return min(found, float(n))


def _shrunk(noisy: Noisy, weights: Floats, *, mean: float, true: float) -> Floats:
    """Return keys as widely spread, and as skewed, as true ones.

    Cumulants of noise and truth add up, and noise has no third one but where it grows with the key: what is seen is
    less skewed than what is true. Where the near end of true keys is short, few of those that look near are.
    """
    apart = noisy.values - mean
    shrunk: Floats = (true / (true + noisy.variance)) ** 0.5 * apart
    spread = float(np.average(apart**2, weights=weights))
    if not 0 < true < spread:
        return mean + shrunk
    third = float(np.average(apart**3, weights=weights))
    third -= 3 * true / spread * float(np.average(apart * noisy.variance, weights=weights))
    by_chance = 6 * spread**3 / np.count_nonzero(weights)
    third *= max(1 - by_chance / max(third**2, 1e-300), 0.0)
    skew = float(np.clip(third * (true**-1.5 - spread**-1.5), -2.0, 2.0))
    if abs(skew) < 1e-3:
        return mean + shrunk
    # Wilson and Hilferty's: a gamma law of that skewness from a Gaussian one, and monotone.
    cube = np.maximum(1 + skew / 6 * (shrunk / true**0.5 - skew / 6), 0.0) ** 3
    skewed: Floats = mean + true**0.5 * 2 / skew * (cube - 1)
    return skewed


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """Some people who stand for all; found once. Make one with :meth:`of`.

    Attributes
    ----------
    rows : ndarray
        What is published of them.
    rest : Rest, optional
        How long they are beyond their denoised points; None where nothing is denoised.
    """

    rows: NDArray[Any]
    rest: Rest | None = None

    @classmethod
    def of(cls, release: "Release") -> "Crowd":
        """Return the crowd of a release, by reading some of its people."""
        rows: NDArray[Any] = sample(release._sketches, _CROWD, lambda found: found)[:_CROWD]
        denoiser = release.denoiser
        return cls(rows, rest_of(rows, denoiser) if denoiser.rank and len(rows) else None)


def expected_true(
    release: "Release",
    who: Vector | Chosen,
    candidates: NDArray[np.int64],
    n: int,
    *,
    metric: Metric,
    space: Space | None,
) -> float:
    """Return how many of the first n candidates are expected to be among the truly nearest; NaN if nothing is known.

    Parameters
    ----------
    release : Release
    who : Vector or Chosen
        Whose neighbors.
    candidates : ndarray of int64
        Positions, nearest first: n or more.
    n : int
    metric, space
        What was ranked by; None for noisy distances.
    """
    sketches = release._sketches
    own = who if isinstance(who, Vector) else None
    others = len(sketches) - (own is None)
    if n == others:
        return float(n)
    if space is None:
        assert isinstance(who, Chosen)  # noqa: S101
        return _by_distances(release, who, candidates, n)
    mine: NDArray[Any] = own.row[None, :] if own is not None else who.rows  # type: ignore[union-attr]
    if own is None and bool(lost_rows(mine)[0]):
        return math.nan
    crowd = release._crowd
    rows = Chosen(sketches, candidates).rows
    one = space.rows(mine) if own is None else space.own(own)
    listed = space.near(one, rows, limit=np.inf, own=own)
    beyond = crowd.rows[space.near(one, crowd.rows, limit=np.inf, own=own) > listed.max()]
    rest = others - len(candidates)
    if not len(beyond) or rest <= 0:
        everybody, weights = rows, np.ones(len(rows))
    else:
        everybody = np.concatenate([rows, beyond])
        weights = np.concatenate([np.ones(len(rows)), np.full(len(beyond), rest / len(beyond))])
    lost = lost_rows(everybody)
    weights[lost] = 0.0
    noisy = _values(release, mine, own, everybody, metric)
    weights *= noisy.known
    if isinstance(space, DenoisedSpace) and weights.any():
        noisy = _denoised(release, mine, own, rows=everybody, weights=weights, published=noisy, metric=metric)
        weights *= noisy.known
    return expected_number(noisy, weights, n) if np.count_nonzero(weights) > n else math.nan


def _by_distances(release: "Release", who: Chosen, candidates: NDArray[np.int64], n: int) -> float:
    sketches = release._sketches
    assert who.positions is not None  # noqa: S101
    others = np.setdiff1d(np.arange(len(sketches)), np.append(candidates, who.positions))
    everybody = np.concatenate([candidates, others])
    steps = sketches.pairs(np.broadcast_to(who.positions, everybody.shape), everybody)
    values = steps * release.plan.scale
    weights = np.where(at_limit(steps), 0.0, 1.0)
    variance = release.plan.error.distance()(np.maximum(values, 0.0))
    noisy = Noisy(values, np.broadcast_to(variance, values.shape))
    return expected_number(noisy, weights, n) if np.count_nonzero(weights) > n else math.nan


def _values(release: "Release", mine: NDArray[Any], own: Vector | None, rows: NDArray[Any], metric: Metric) -> Noisy:
    """Return estimates as published, the smaller the nearer, and the variance of what differs from person to person."""
    reader = release._need_reader("distances")
    x = Side(rows, noisy=True)
    y = Side(mine, noisy=own is None, squared_norm=None if own is None else own.squared_norm)
    pairs: Pairs = reader.pairs(reader.sums(x, y), x, y)
    if metric == "euclidean":
        values = pairs.squared_distance
        variance = release.plan.error.distance(one_sided=own is not None, weights=pairs.possible_norms)(
            np.maximum(values, 0.0)
        )
        if own is None:  # the length of the asking person's own noise is the same for all
            common = float(release.plan.error.distance(one_sided=True, weights=(0.0, 0.0))(0.0))
            variance = variance - common
        variance = variance - _projected_alike(release, mine, own, rows=rows, distances=values)
        return Noisy(values, np.maximum(variance, 0.0))
    # Nobody is taken to be shorter than noise makes an empty person seem: people are ranked that way, too.
    floor = float(np.sqrt(release.plan.error.distance(one_sided=True, weights=(0.0, 0.0))(0.0)))
    norms = np.maximum(pairs.squared_norm_x, floor), np.maximum(pairs.squared_norm_y, floor)
    pairs = pairs._replace(squared_norm_x=norms[0], squared_norm_y=norms[1])
    most = np.sqrt(norms[0] * norms[1])
    inner = np.clip(pairs.inner_product, -most if release._directed else 0.0, most)
    joint = release.plan.error.joint(norms, inner, one_sided=own is not None)
    if metric == "cosine":
        found = cosine_of(pairs, joint, 0.95, least=-1.0 if release._directed else 0.0)
    else:
        found = jaccard_of(pairs, joint, 0.95)
    return Noisy(-found.value, found.stderr**2)


def _projected_alike(
    release: "Release", mine: NDArray[Any], own: Vector | None, *, rows: NDArray[Any], distances: Floats
) -> Floats:
    """Return how much of the variance that a projection adds to squared distances is the same for all people.

    With u and w the deviations of the asking person and of another one from the average, ‖P(u − w)‖² less ‖Pu‖², which
    all have, is ⟨Pw, P(w − 2u)⟩. Of c = 2/k its variance is c/2·(‖w‖²·‖w − 2u‖² + ⟨w, w − 2u⟩²), and not c·‖u − w‖⁴.
    """
    denoiser = release.denoiser
    coordinates = denoiser.coordinates
    if not coordinates.projected:
        return np.zeros(len(rows))

    def length(points: Points, *, noisy: bool = True) -> Floats:
        found = ((points - denoiser.mean).astype(np.float64) ** 2).sum(axis=1) - noisy * coordinates.bias
        return np.asarray(np.maximum(found, 0.0), np.float64)

    mine_ = coordinates.points(mine) if own is None else coordinates.own(own)[None, :]
    u, w = float(length(mine_, noisy=own is None)[0]), length(coordinates.points(rows))
    d = np.maximum(distances, 0.0)
    differs = (w * np.maximum(2 * u - w + 2 * d, 0.0) + (d - u) ** 2) / 2
    alike: Floats = coordinates.projected * np.maximum(d**2 - differs, 0.0)
    return alike


def _denoised(
    release: "Release",
    mine: NDArray[Any],
    own: Vector | None,
    *,
    rows: NDArray[Any],
    weights: Floats,
    published: Noisy,
    metric: Metric,
) -> Noisy:
    """Return the same of denoised points: the best guess of each true key, as far as it tells true ones apart.

    A guess varies less from person to person than what is guessed, and the closer to it the better it is. Stretched to
    the right spread it is a noisy key like others.
    """
    denoiser, crowd = release.denoiser, release._crowd
    assert crowd.rest is not None  # noqa: S101
    gains = denoiser.gains.astype(np.float64)
    left = gains * noise_variance(denoiser.coordinates)

    def reduced(rows: NDArray[Any]) -> Floats:
        return np.asarray((denoiser.coordinates.points(rows) - denoiser.mean) @ denoiser.basis, np.float64)

    guess = gains * reduced(rows)
    if own is None:
        place = gains * reduced(mine)[0]
    else:
        place = np.asarray((denoiser.coordinates.own(own) - denoiser.mean) @ denoiser.basis, np.float64)
    lengths = rest_of(rows, denoiser).lengths
    rest = crowd.rest.true_mean + crowd.rest.believed * (lengths - crowd.rest.lengths.mean())
    apart = ((guess - place) ** 2).sum(axis=1)
    if metric == "euclidean":
        likely = apart + rest
        blurred = denoiser.coordinates.projected * apart**2
        blurred -= np.minimum(_projected_alike(release, mine, own, rows=rows, distances=apart), 0.9 * blurred)
        uncertain = (
            4 * (guess - place) ** 2 @ left
            + 2 * (left**2).sum()
            + crowd.rest.believed * (1 - crowd.rest.believed) * crowd.rest.lengths.var()
        )
    else:
        mean = denoiser.mean.astype(np.float64)
        inside = mean @ denoiser.basis
        outside = float(mean @ mean - inside @ inside)
        u, q = guess + inside, place + inside
        inner = u @ q + outside
        norms = np.maximum((u**2).sum(axis=1) + left.sum() + outside + rest, 1e-9)
        norm = float(q @ q) + outside + crowd.rest.true_mean
        # A projection adds (1 − c²)²/k to the variance of a cosine c, as far as people differ from the average: what it
        # does to the average is the same for all. J = c/(2 − c) for people of one length, which gives Jaccard's.
        cosines = np.clip(inner / np.sqrt(norms * norm), -1.0, 1.0)
        differs = np.clip(((guess**2).sum(axis=1) + left.sum() + rest) / norms, 0.0, 1.0)
        blurred = denoiser.coordinates.projected / 2 * (1 - cosines**2) ** 2 * differs
        if metric == "cosine":
            likely = -inner / np.sqrt(norms * norm)
        else:
            likely = -inner / np.maximum(norms + norm - inner, norm)
            blurred *= 4 / (2 - cosines) ** 4
        uncertain = np.zeros(len(rows))
    known = np.where(weights > 0, published.values, 0.0), np.where(weights > 0, published.variance, 0.0)
    mean_key, true = spread_of(Noisy(*known), weights)
    middle = float(np.average(likely, weights=weights))
    spread = float(np.average((likely - middle) ** 2, weights=weights))
    projected = float(np.average(blurred, weights=weights))
    common = max(spread - projected, 0.0)
    # Where noise explains nearly all, what is left may be chance: true keys are taken to spread by two standard errors
    # of what noise does more, lest a guess be believed to tell all of it.
    published_spread = float(np.average((known[0] - mean_key) ** 2, weights=weights))
    true += 2 * (2 / np.count_nonzero(weights)) ** 0.5 * (published_spread - true)
    true = max(true, common)
    share = min(common**2 / max(spread * true, 1e-30), 1.0)
    if share <= 1e-6:  # noise explains all
        return Noisy(likely, np.full(len(likely), max(2 * spread, 1e-30)))
    unequal = blurred + uncertain
    unequal = unequal / max(float(np.average(unequal, weights=weights)), 1e-30)
    stretch = (true / share / spread) ** 0.5
    return Noisy(mean_key + stretch * (likely - middle), true * (1 / share - 1) * unequal)
