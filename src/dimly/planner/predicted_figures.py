"""What errors leave of a purpose, from 0 to 1: pairs in order, neighbors found, people in their own group.

By the normal approximation, and for groups by the laws of large random matrices.

References
----------
J. Baik, G. Ben Arous and S. Péché, "Phase transition of the largest eigenvalue for nonnull complex sample covariance
matrices", Annals of Probability 33 (2005).
D. Paul, "Asymptotics of sample eigenstructure for a large dimensional spiked covariance model", Statistica Sinica 17
(2007).
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np

from dimly.mechanisms.error.models import ErrorModel, FlippedBitsError, Floats, SketchError
from dimly.planner.brief import DEFAULT_GROUPS

N_FOUND: Final = 10
"""Neighbors that are looked for."""
SEARCHED: Final = 4096
"""Numbers of a person beyond which denoising searches for directions in a random subspace."""
SUBSPACE: Final = 120
PASSES: Final = 3
"""Its dimension, and how often it is multiplied by the covariance."""
_NORMAL: Final = np.linspace(-8.0, 8.0, 161)  # sums at even steps are exact to 1e-15 here: the function is entire
_DENSITY: Final = np.exp(-(_NORMAL**2) / 2) / np.exp(-(_NORMAL**2) / 2).sum()
_HALVINGS: Final = 45


def _normal_cdf(x: float) -> float:
    """Return Φ(x), also far below zero."""
    return math.erfc(-x / math.sqrt(2)) / 2


def ranking_probability(gap: float, error: float) -> float:
    """Return the probability that two estimated distances ``gap`` apart are in the right order.

    By the normal approximation, for standard errors whose root mean square is ``error``, of pairs of other people.

    Examples
    --------
    >>> round(ranking_probability(200.0, 72.0), 2)
    0.98
    """
    return _normal_cdf(gap / (math.sqrt(2) * error)) if error > 0 else 1.0


def probability_of_own_group(gap: float, within: float, model: ErrorModel) -> float:
    """Return the probability that a person is nearer to the middle of their own group than to that of another.

    For middles that are known, ``gap`` apart (squared: what far pairs differ in more than near ones), of people who
    are ``within`` from each other. Averages say where groups are; this says whether anybody can be put into one. Along
    the line between two middles a person is off by noise, and by their own share of what people of a group differ in.
    """
    if isinstance(model, FlippedBitsError):
        variance = model.bit_variance
    elif isinstance(model, SketchError):
        variance = model.noise.variance + within / (2 * model.k)
    else:  # distances alone place nobody anywhere
        return 0.5
    return _normal_cdf(math.sqrt(gap) / (2 * math.sqrt(variance))) if variance > 0 else 1.0


def expected_closeness(gap: float, error: float, *, n_users: int) -> float:
    """Return how much nearer found neighbors are than random people, as a share of what the nearest ones are.

    For nearest people who are ``gap`` nearer (squared) than random ones. If distances from a person are about normal,
    of standard deviation S, the nearest m of n are i·S nearer than the average, where i = φ(z)/(m/n) with z =
    Φ⁻¹(1 − m/n) is the selection intensity. Those who only seem so, by estimates of standard error e, are i·ρ·S nearer,
    where ρ = S/√(S² + e²) is the correlation of distances and estimates. So it is ρ, with S = ``gap``/i.

    Examples
    --------
    >>> round(expected_closeness(60.0, 40.0, n_users=2_000), 2)
    0.46
    """
    return gap / math.hypot(gap, _intensity(_share(n_users)) * error)


def _share(n_users: int) -> float:
    return N_FOUND / max(n_users, 2 * N_FOUND)


def _intensity(share: float) -> float:
    at = NormalDist().inv_cdf(1 - share)
    return math.exp(-at * at / 2) / math.sqrt(2 * math.pi) / share


def closeness_by_coincidence(
    low: float, high: float, errors: Callable[[Floats], Floats], *, weight: float | None, n_users: int
) -> float:
    """Return the same as :func:`expected_closeness`, but for distances that differ by what people share by chance.

    Somebody has each of a person's w attributes with probability c/w, where c = w − HIGH/2 is what two people share on
    average. So what is shared is binomial: light people are at few distances from each other, with many ties, and those
    who are near are few. If that does not make the nearest as near as LOW, distances also differ normally, by as much
    as is missing. Each estimate errs as those of pairs that far apart do: where most people are far, and far pairs err
    more than near ones, more of the far ones seem near.

    Parameters
    ----------
    low, high : float
        Squared distances to the nearest people, and to anybody on average.
    errors : callable
        From squared distances to standard errors of their estimates.
    weight : float or None
        Attributes of a person, at least HIGH/2; None if it is not known: then distances are normal.
    n_users : int

    Examples
    --------
    >>> round(closeness_by_coincidence(2.66, 5.61, lambda d: 0.76 * d**0.55, weight=3.0, n_users=1_000), 2)
    0.41
    """
    if high <= low:  # one distance was stated, and nobody is nearer than anybody
        return 0.0
    share = _share(n_users)
    nearer, law, spread = _coincidences(low, high, weight, share)
    if spread > 0:
        nearer = np.add.outer(nearer, spread * _STEPS).ravel()
        law = np.multiply.outer(law, _SHARES).ravel()
    apart = np.maximum(errors(np.maximum(high - nearer, 0.0)), 1e-9)
    # How many of each kind are among those who seem nearest.
    seeming = law * _above((_threshold(nearer, law, apart, share) - nearer) / apart)
    # Ten of few people may be less near than that share of many would be by chance: what is possible is as stated.
    return min(float(seeming @ nearer / seeming.sum()) / (high - low), 1.0)


_STEPS: Final = np.linspace(-7.0, 7.0, 36)
_SHARES: Final = np.exp(-(_STEPS**2) / 2) / np.exp(-(_STEPS**2) / 2).sum()
_SMOOTH: Final = 4.0
"""Standard deviation of a count above which it is taken to be normal."""
_FAR_OUT: Final = 32


class _Distances(NamedTuple):
    """How much nearer than the average people are by coincidence, and how likely that is; and the normal rest."""

    nearer: Floats
    law: Floats
    spread: float


@lru_cache(maxsize=64)
def _coincidences(low: float, high: float, weight: float | None, share: float) -> _Distances:
    gap, nearer, law = high - low, np.zeros(1), np.ones(1)
    if weight is not None and weight > high / 2:
        nearer, law = _shared_by_chance(max(1, round(weight)), 1 - high / 2 / weight)
    if len(nearer) == 1:
        return _Distances(nearer, law, gap / _intensity(share))

    def top(spread: float) -> float:
        wide = np.full(len(nearer), max(spread, 1e-9))
        at = (_threshold(nearer, law, wide, share) - nearer) / wide
        seeming = law * _above(at)  # how many of each kind are among those who seem nearest
        own = spread * float(law @ np.exp(-(at**2) / 2)) / math.sqrt(2 * math.pi)
        return (float(seeming @ nearer) + own) / float(seeming.sum())

    least, most = 0.0, 2 * gap
    if top(0.0) >= gap:
        return _Distances(nearer, law, 0.0)
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        least, most = (middle, most) if top(middle) < gap else (least, middle)
    return _Distances(nearer, law, most)


def _shared_by_chance(weight: int, chance: float) -> tuple[Floats, Floats]:
    """Return 2(s − mean) for numbers s of shared attributes, binomial ones, and how likely each is.

    Of heavy people 0 alone: what they share by chance is normal, like the rest.
    """
    deviation = math.sqrt(weight * chance * (1 - chance))
    if deviation > _SMOOTH:
        return np.zeros(1), np.ones(1)
    middle = round(weight * chance)
    shared = np.arange(max(0, middle - _FAR_OUT), min(weight, middle + _FAR_OUT) + 1)
    logs = [
        s * math.log(chance) + (weight - s) * math.log1p(-chance) - math.lgamma(s + 1) - math.lgamma(weight - s + 1)
        for s in shared.tolist()
    ]
    law: Floats = np.exp(np.array(logs) - max(logs))
    law /= law.sum()
    nearer: Floats = 2.0 * (shared.astype(np.float64) - float(shared @ law))
    return nearer, law


def _threshold(nearer: Floats, law: Floats, errors: Floats, share: float) -> float:
    """Return how near the share of all who seem nearest seem to be, at least."""
    least, most = float((nearer - 40 * errors).min()), float((nearer + 40 * errors).max())
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        above = float(law @ _above((middle - nearer) / errors))
        least, most = (middle, most) if above > share else (least, middle)
    return (least + most) / 2


def _above(x: Floats) -> Floats:
    """Return 1 − Φ(x) of many numbers, from a table of its logarithm."""
    at, logs = _normal_table()
    return np.exp(np.interp(x, at, logs))


@cache
def _normal_table() -> tuple[Floats, Floats]:
    at = np.linspace(-8.0, 37.0, 4501)
    return at, np.log([math.erfc(x / math.sqrt(2)) / 2 for x in at.tolist()])


def expected_agreement(
    gap: float, within: float, model: ErrorModel, *, n_users: int | None, n_groups: int = DEFAULT_GROUPS
) -> float:
    """Return the adjusted Rand index of segments and groups that may be expected, from 0 to 1.

    For ``n_groups`` groups of equal size whose middles are all ``gap`` apart (squared: what people of two groups differ
    in more than those of one), of people who are ``within`` from each other. Of the m numbers of a person each has
    variance s²: noise, and a person's own share of what people of a group differ in. The groups are g − 1 directions of
    variance λ = gap/2g in it. Among n people they show only above λ/s² = √(m/n) (Baik, Ben Arous and Péché 2005), and
    the directions found are then off by cos² = (1 − γ/ℓ²)/(1 + γ/ℓ), with ℓ = λ/s² and γ = m/n (Paul 2007). Along them
    middles are √(gap·cos²) apart, which says how often a person is put into the right one of g groups. With a share p
    of people right and all others anywhere, the index is ((gp − 1)/(g − 1))².

    Of more than 4,096 numbers no covariance is held, and only part of each direction is found: :func:`searched_share`.

    ``n_users=None``: among any number of people, at most.
    """
    noise = _one_number(model)
    if noise is None:  # distances alone place nobody anywhere
        return 0.0
    size, variance = noise
    spread = variance + within / (2 * size)
    if spread <= 0:
        return 1.0
    seen = 1.0
    if n_users is not None:
        aspect, spike = size / n_users, gap / (2 * n_groups) / spread
        seen = (1 - aspect / spike**2) / (1 + aspect / spike) if spike > math.sqrt(aspect) else 0.0
        if seen and size > SEARCHED:
            seen *= searched_share(spike, aspect, size)
    # Equally far middles are the tips of g axes: whoever's own coordinate is largest is put there.
    own = math.sqrt(gap * seen / (2 * spread))
    below = np.array([_normal_cdf(at) for at in (_NORMAL + own).tolist()])
    right = float(np.sum(_DENSITY * below ** (n_groups - 1)))
    return max(0.0, (n_groups * right - 1) / (n_groups - 1)) ** 2


def searched_share(spike: float, aspect: float, size: int) -> float:
    """Return how much (cos²) of a principal direction is found in a random subspace of w dimensions after q passes.

    The direction has variance λ = (1 + ℓ)(1 + γ/ℓ), in units of the noise's, and all others follow the law of Marchenko
    and Pastur, of moments M. The subspace Λ^q Ω, for Gaussian Ω, holds a/(1 + a) of it, a = w λ^2q/(m M_2q), and what
    is seen of its variance is (a λ + M_{2q+1}/M_2q)/(1 + a). Below (1 + √γ)², the largest that noise alone has,
    nothing is kept of it.
    """
    largest = (1 + spike) * (1 + aspect / spike)
    even, odd = _moment(2 * PASSES, aspect), _moment(2 * PASSES + 1, aspect)
    ratio = SUBSPACE / size * largest ** (2 * PASSES) / even
    variance = (ratio * largest + odd / even) / (1 + ratio)
    return ratio / (1 + ratio) if variance > (1 + math.sqrt(aspect)) ** 2 else 0.0


def _moment(order: int, aspect: float) -> float:
    """Return a moment of the law of Marchenko and Pastur, by Narayana's numbers."""
    counts = (math.comb(order, i) * math.comb(order, i + 1) / order for i in range(order))
    return sum(count * aspect**i for i, count in enumerate(counts))


def _one_number(model: ErrorModel) -> tuple[int, float] | None:
    """Return how many numbers a person has, and the variance of the noise in each; None if there are none."""
    if isinstance(model, FlippedBitsError):
        return model.n_attributes, model.bit_variance
    if isinstance(model, SketchError):
        return model.k, model.noise.variance
    return None


def share_found(gap: float, low: float, high: float, *, n_users: int) -> float:
    """Return about which share of the neighbors found is right, if as many are near and all others far.

    Whoever is near must seem nearer than all but as many of those who are far, the luckiest of many. By the normal
    approximation, for standard errors ``low`` and ``high`` of near and of far pairs.
    """
    luck = NormalDist().inv_cdf(1 - N_FOUND / n_users) if n_users > 2 * N_FOUND else 0.0
    return _normal_cdf((gap - luck * high) / low) if low > 0 else 1.0
