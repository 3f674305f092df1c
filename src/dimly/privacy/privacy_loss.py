"""The exact accountant: what a fixed list of releases costs together, with no Fourier transform.

A release that is (ε, δ)-private is never worse than a coin that fails with probability δ and else tells
the truth with odds e^ε (Kairouz, Oh and Viswanath, 2015), so its loss is ±ε. A Gaussian release has a
Gaussian loss, and Gaussian losses add up to one. The loss of the product is a sum of the two kinds:

    δ(ε) = F + (1 − F) · Σ_a P(a) · δ_G(ε − l_a),    F = 1 − Π(1 − δ_i)

over the atoms a of the coins' summed loss, with δ_G the Gaussian profile (Balle and Wang, 2018, Theorem 8).
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import special

from dimly.errors import ParameterError
from dimly.privacy.cost import Cost

FloatArray = npt.NDArray[np.float64]

MAX_ATOMS: Final = 2**18
"""Most losses that are kept apart; beyond, they are rounded up to a grid of about this size."""

_RELATIVE_SLACK: Final = 1e-8  # above the error of gammaln and erfcx; tests compare with 200-bit balls
_UNDERFLOW: Final = 1e-250  # more than all weights lost below the smallest double together
_SMALLEST_MU: Final = 1e-5  # below it erfcx cancels; a larger μ is never better


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyLoss:
    """The loss of a product of coins and Gaussians, from which δ(ε) and ε(δ) follow to the safe side.

    Parameters
    ----------
    losses, weights : ndarray of shape (n_atoms,)
        Summed loss of the coins, and its probabilities given that none fails.
    mu : float
        √Σ 1/multiplier² over the Gaussian releases; 0 without any.
    failure : float
        Probability that some coin fails.
    rounding : float
        By how much the losses were raised, at most, to merge them.
    """

    losses: FloatArray
    weights: FloatArray
    mu: float
    failure: float
    rounding: float

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on the smallest δ at ``epsilon``, closer than a part in 10⁷."""
        # Losses carry rounding errors of a few units in the last place: a slightly smaller ε is safe.
        shift = 1e-14 * (abs(epsilon) + float(np.abs(self.losses).max()))
        profile = gaussian_delta(epsilon - shift - self.losses, mu=self.mu)
        ideal = float(self.weights @ profile) * (1 + _RELATIVE_SLACK) + _UNDERFLOW
        return min(1.0, self.failure + (1 - self.failure) * ideal)

    def epsilon(self, delta: float) -> float:
        """Return an upper bound on the smallest ε ≥ 0 at ``delta``.

        Raises
        ------
        ParameterError
            If ``delta`` does not exceed the probability that a release fails altogether.
        """
        if not self.failure + _UNDERFLOW < delta < 1:
            raise ParameterError(
                f"delta must be below 1 and above {self.failure + _UNDERFLOW:.3g}, the probability that "
                f"a release fails altogether, got {delta!r}."
            )
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta(high) > delta:
            low, high = high, 2 * high
        # δ(high) ≤ delta throughout, and high is what is returned: never the leaking side of the root.
        while high - low > 1e-11 * high:
            middle = (low + high) / 2
            if self.delta(middle) > delta:
                low = middle
            else:
                high = middle
        return high


def privacy_loss(costs: Iterable[Cost]) -> PrivacyLoss:
    """Return the loss of releases whose plans were all fixed before the first of them was published.

    Examples
    --------
    >>> two = privacy_loss([Cost(1.0), Cost(1.0)])
    >>> round(two.epsilon(1e-6), 4)  # the pure sum, all but
    2.0
    >>> round(two.delta(1.0), 4)
    0.3378
    """
    coins: Counter[float] = Counter()
    inverse_squares, kept = [], []
    for cost in costs:
        if cost.noise_multiplier is None:
            coins[cost.epsilon] += 1
            kept.append(math.log1p(-cost.delta))
        else:
            inverse_squares.append(cost.noise_multiplier**-2)
    n_atoms = math.prod(n + 1 for n in coins.values())
    losses, weights, rounding = _atoms(coins) if n_atoms <= MAX_ATOMS else _grid_atoms(coins)
    return PrivacyLoss(
        losses=losses,
        weights=weights,
        mu=math.sqrt(math.fsum(inverse_squares)),
        rounding=rounding,
        failure=-math.expm1(math.fsum(kept)) * (1 + _RELATIVE_SLACK),
    )


def gaussian_delta(epsilon: npt.ArrayLike, *, mu: float) -> FloatArray:
    """Return δ of a Gaussian with sensitivity/σ = ``mu`` at any real ``epsilon``, to nine digits.

    Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ). In the tail both terms are nearly equal, so the common factor is
    taken out first: with x = ε/μ − μ/2 it is ½e^(−x²/2)·(erfcx(x/√2) − erfcx((x + μ)/√2)).

    Examples
    --------
    >>> float(gaussian_delta(1.0, mu=1.0).round(3))  # the paper's Figure 1
    0.127
    >>> float(gaussian_delta(-1.0, mu=0.0).round(3))  # no release at all
    0.632
    """
    epsilon = np.asarray(epsilon, dtype=np.float64)
    if mu == 0:
        return np.asarray(-np.expm1(np.minimum(epsilon, 0.0)))
    mu = max(mu, _SMALLEST_MU)
    x = epsilon / mu - mu / 2
    tail = np.maximum(x, 0.0) / math.sqrt(2)
    far = 0.5 * np.exp(-(tail**2)) * (special.erfcx(tail) - special.erfcx(tail + mu / math.sqrt(2)))
    body = np.minimum(x, 0.0)
    near = special.ndtr(-body) - np.exp(np.minimum(epsilon, mu * mu / 2) + special.log_ndtr(-body - mu))
    return np.asarray(np.where(x > 0, far, near))


def _atoms(coins: Counter[float]) -> tuple[FloatArray, FloatArray, float]:
    """Return losses and probabilities of a product of binomials, one for each ε; nothing is rounded."""
    losses, weights = np.zeros(1), np.ones(1)
    for epsilon, n in coins.items():
        true = np.arange(n + 1.0)
        log_choose = special.gammaln(n + 1) - special.gammaln(true + 1) - special.gammaln(n - true + 1)
        log_weight = log_choose - n * np.log1p(math.exp(-epsilon)) - (n - true) * epsilon
        losses = np.add.outer(losses, epsilon * (2 * true - n)).ravel()
        weights = np.multiply.outer(weights, np.exp(log_weight)).ravel()
    return losses, weights, 0.0


def _grid_atoms(coins: Counter[float]) -> tuple[FloatArray, FloatArray, float]:
    """Return the same with every loss rounded up to a multiple of one step, which δ can only grow by."""
    step = 2 * math.fsum(coins.elements()) / MAX_ATOMS
    lowest, weights = 0, np.ones(1)
    for epsilon, n in coins.items():
        up, down = math.ceil(epsilon / step * (1 + 1e-12)), math.floor(epsilon / step * (1 - 1e-12))
        true, false = special.expit([epsilon, -epsilon])
        for _ in range(n):  # no Fourier transform: every term is positive and keeps its relative precision
            grown = np.zeros(len(weights) + up + down)
            grown[: len(weights)] = false * weights
            grown[up + down :] += true * weights
            weights = grown
        lowest -= n * down
    return step * (lowest + np.arange(float(len(weights)))), weights, step * coins.total()
