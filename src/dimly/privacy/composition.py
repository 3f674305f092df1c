"""What releases cost together: ``Cost``, privacy loss distributions, Rényi orders, ``compose``."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Real
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from dimly.errors import DimlyError, ParameterError, check_choice, need_extra
from dimly.privacy.budget import UNITS, Budget, Unit, stated
from dimly.privacy.calibration import delta_of


@dataclass(frozen=True, slots=True)
class Cost:
    """What one release spends: its own claim, and what an accountant needs to know beyond it.

    All fields are plain numbers and strings, so that ``dataclasses.asdict`` gives JSON.

    Parameters
    ----------
    epsilon : float
        The release's own claim; in [1e-20, 700].
    delta : float, default=0.0
        The release's own claim; in [0, 1), and > 0 for Gaussian noise.
    noise_multiplier : float, optional
        Gaussian releases: a lower bound on σ over the ℓ₂ sensitivity; in [0.01, 1e9]. None for every other.
    sampling_distance : float, default=0.0
        Gaussian releases: an upper bound on the total-variation distance between the noise that is sampled
        and the law on paper, summed over the coordinates that one unit touches; in [0, 1). Every other
        mechanism certifies its tables within its claim, so that it is 0.
    unit : {"attribute", "column"}, default="attribute"
        What the claim protects. Costs in different units cannot be composed.
    declared : str, optional
        Names a set of plans that were registered together before the first of them was published. Only costs
        that share it may be composed by their loss distributions, and then all of the set: which of its plans
        are carried out must not depend on what the others revealed.
    together : int, default=1
        How many units of a person the claim was divided for, so that any so many cost a stated whole; from 1 on. A note
        for people: costs of one unit are what adds up.

    Raises
    ------
    ParameterError
        If a field is not in its range, or contradicts another.

    Examples
    --------
    >>> Cost(1.0).is_pure
    True
    >>> Cost(1.0, 1e-6, noise_multiplier=4.225).is_pure
    False
    """

    epsilon: float
    delta: float = 0.0
    noise_multiplier: float | None = None
    sampling_distance: float = 0.0
    unit: Unit = "attribute"
    declared: str | None = None
    together: int = 1

    def __post_init__(self) -> None:
        claim = Budget(self.epsilon, self.delta)
        object.__setattr__(self, "epsilon", claim.epsilon)
        object.__setattr__(self, "delta", claim.delta)
        self._check_noise()
        check_choice("unit", self.unit, UNITS)
        declared: object = self.declared
        if declared is not None and (not isinstance(declared, str) or not declared):
            raise ParameterError(f"declared must be None or a name, got {self.declared!r}.")
        if type(self.together) is not int or self.together < 1:
            raise ParameterError(f"together must be an integer from 1 on, got {self.together!r}.")

    def _check_noise(self) -> None:
        for name in ("noise_multiplier", "sampling_distance"):
            value = getattr(self, name)
            if name == "noise_multiplier" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Real):
                raise ParameterError(f"{name} must be a number, got {value!r}.")
            object.__setattr__(self, name, float(value))
        if not 0 <= self.sampling_distance < 1:
            raise ParameterError(f"sampling_distance must be in [0, 1), got {self.sampling_distance!r}.")
        if self.noise_multiplier is None:
            if self.sampling_distance > 0:
                raise ParameterError(
                    f"sampling_distance must be 0 without a noise_multiplier, got {self.sampling_distance!r}."
                    " Only Gaussian tables are compared with a law on paper."
                )
            return
        if not 0.01 <= self.noise_multiplier <= 1e9:
            raise ParameterError(f"noise_multiplier must be in [0.01, 1e9], got {self.noise_multiplier!r}.")
        if self.delta == 0:
            raise ParameterError("delta must be > 0 with a noise_multiplier, got 0.0: Gaussian noise is never pure.")
        least = delta_of(self.noise_multiplier, epsilon=self.epsilon)
        if least > self.delta * (1 + 1e-9):  # a multiplier is itself rounded down
            raise ParameterError(
                f"delta must be at least {least:.6g} for noise_multiplier {self.noise_multiplier:.6g} at epsilon "
                f"{self.epsilon!r}, got {self.delta!r}. The claim must hold for the noise."
            )

    @property
    def is_pure(self) -> bool:
        """Whether δ is zero: the factor e^ε holds without exception."""
        return self.delta == 0.0

    @property
    def claim(self) -> Budget:
        """The release's own ε and δ."""
        return Budget(self.epsilon, self.delta)


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
    from scipy import special  # noqa: PLC0415 - slow to import, and no plan needs it

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
    from scipy import special  # noqa: PLC0415 - slow to import, and no plan needs it

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
    from scipy import special  # noqa: PLC0415 - slow to import, and no plan needs it

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


Method = Literal["auto", "sum", "renyi", "pld"]
METHODS: tuple[Method, ...] = get_args(Method)

ORDERS: Final = (2.5, 3.6, 5.6, 9.0, 15.0, 26.0, 44.0, 80.0, 140.0, 256.0)
"""Orders of the Rényi filter besides ∞. Which of them wins may depend on outputs; the grid may not."""

RESERVE: Final = 1 / 8
"""Share of δ that the Rényi filter sets aside beforehand for failures and inexact sampling."""

LARGEST_EPSILON: Final = 32.0
"""Largest total for which the Rényi filter answers when noise is sampled inexactly."""

SMALLEST_PLD_DELTA: Final = 1e-12
"""Below it, rounding errors of Fourier transforms are no longer small beside δ."""

_UP: Final = 1 + 1e-12  # above the accumulated rounding errors of the closed forms below


@dataclass(frozen=True, slots=True)
class Composition:
    """An (ε, δ) claim about several releases together.

    Parameters
    ----------
    epsilon, delta : float
        The claim, rounded up. ``delta`` never exceeds the one asked for.
    method : str
        The rule behind it: "sum", "renyi", "pld", or "exact" for one Gaussian release at another δ.
    n_costs : int
        How many releases.
    alternatives : mapping of str to float
        Every ε that was computed on the way, by rule. The smallest of them, picked afterwards, is not a claim.
    """

    epsilon: float
    delta: float
    method: str
    n_costs: int
    alternatives: Mapping[str, float] = field(default_factory=dict, hash=False)


def compose(costs: Iterable[Cost], *, delta: float, method: Method = "auto") -> Composition:
    """Return an ε that all ``costs`` together keep within at ``delta``, rounded up.

    A ledger that grows must fix its δ, its total ε and ``method="renyi"`` (or ``"sum"``) beforehand, and
    admit a release only while this ε stays within the total (at most 32 for "renyi"). Choosing between
    "sum", "renyi" and "pld" afterwards would cost the δ of each. "auto" is for a list that is complete: it
    picks by what is in the list. Only among pure costs does it pick by the result, and a pure sum has
    no δ to spend.

    Parameters
    ----------
    costs : iterable of Cost
        All in one unit. None at all cost nothing.
    delta : float
        In [0, 1); 0 only for pure costs.
    method : {"auto", "sum", "renyi", "pld"}
        See the module. "auto": one cost is its own claim; a declared set by "pld"; else "renyi", or the pure
        sum where that is smaller.

    Returns
    -------
    Composition

    Raises
    ------
    ParameterError
        If units differ, if ``delta`` is too small for the costs, or if "pld" is asked for undeclared plans.
    DimlyError
        If two accountants disagree about the same costs. Nothing is claimed then.

    Examples
    --------
    >>> compose([Cost(1.0), Cost(0.5)], delta=0.0).epsilon
    1.5
    >>> many = compose([Cost(0.1)] * 100, delta=1e-6)
    >>> many.method, round(many.epsilon, 2), many.alternatives["sum"]
    ('renyi', 5.65, 10.0)
    """
    costs = tuple(costs)
    check_choice("method", method, METHODS)
    if isinstance(delta, bool) or not isinstance(delta, Real) or not 0 <= delta < 1:
        raise ParameterError(f"delta must be a number in [0, 1), got {delta!r}.")
    if len({cost.unit for cost in costs}) > 1:
        raise ParameterError("costs must have one unit, got several. Compose those of each unit apart.")
    if not costs:
        return Composition(epsilon=0.0, delta=0.0, method="sum", n_costs=0)
    rules = {"auto": _auto, "sum": _sum, "renyi": _renyi, "pld": _pld}
    return rules[method](costs, float(delta))


def _auto(costs: Sequence[Cost], delta: float) -> Composition:
    if len(costs) == 1 and costs[0].noise_multiplier is not None and 0 < delta < costs[0].delta:
        exact = _spare_distance(privacy_loss(costs).epsilon, delta, distance=costs[0].sampling_distance)
        return Composition(exact, delta, "exact", 1)
    if len(costs) == 1 or delta == 0:
        return _sum(costs, delta)
    if _declared_together(costs) and delta >= SMALLEST_PLD_DELTA:
        return _pld(costs, delta)
    filtered = _renyi(costs, delta)
    if all(cost.is_pure for cost in costs) and filtered.epsilon == filtered.alternatives["sum"]:
        return _sum(costs, delta)
    return filtered


def _sum(costs: Sequence[Cost], delta: float) -> Composition:
    spent = _sum_stated(cost.delta for cost in costs)
    if spent > delta:
        raise ParameterError(f"delta must be at least {spent:.6g}, which the costs spend by themselves, got {delta!r}.")
    return Composition(_sum_stated(cost.epsilon for cost in costs), spent, "sum", len(costs))


def _sum_within(costs: Sequence[Cost], delta: float) -> dict[str, float]:
    fits = _sum_stated(cost.delta for cost in costs) <= delta
    return {"sum": _sum_stated(cost.epsilon for cost in costs)} if fits else {}


def _sum_stated(claims: Iterable[float]) -> float:
    """Return the smallest float whose decimal is not below the sum of the claims' decimals: ten tenths are one.

    The decimals of floats are ordered as the floats are. So comparing such a sum with another float is comparing
    decimals, exactly.
    """
    exact = sum(map(stated, claims), Fraction(0))
    nearest = float(exact)
    return nearest if stated(nearest) >= exact else math.nextafter(nearest, math.inf)


def _sum_up(values: Iterable[float]) -> float:
    """Return the sum, rounded up by less than one unit in the last place."""
    exact = sum(map(Fraction, values), Fraction(0))
    nearest = float(exact)
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def _renyi(costs: Sequence[Cost], delta: float) -> Composition:
    """Return the reading of a Rényi filter over a fixed grid of orders, valid for plans chosen after outputs.

    *One order.* If divergences ρ_i(α), each fixed before its release, never add up to more than B, then the
    process has divergence B at order α, however the plans were chosen (Feldman and Zrnic, 2021; Lécuyer,
    2021), and is (ε, δ')-private (Canonne, Kamath and Steinke, 2020, Proposition 12).

    *Which order.* The one that is in budget at the end may depend on outputs. Partition the outputs by the
    first such order. Totals only grow, so each part is an event of the process that stops at that order's
    own threshold, and costs its δ': an equal share of δ each. Order ∞ is the pure sum, and costs none.

    *Failures and inexact sampling.* An (ε_i, δ_i) release without a noise multiplier is a coin that fails
    with probability δ_i: in all Σδ_i. Noise at distance t_i from its law changes both sides of
    P(S) ≤ e^ε·Q(S) + δ: in all (1 + e^ε)·Σt_i. Both sums may depend on outputs, and are averaged over other
    laws than the shares above, so that what they leave cannot be given to those. Hence they have a reserve
    of δ to themselves, set aside beforehand, and e^ε is taken above the total of any ledger.
    """
    coins = Counter(cost.epsilon for cost in costs if cost.noise_multiplier is None)
    gaussian = math.fsum(cost.noise_multiplier**-2 for cost in costs if cost.noise_multiplier is not None)
    distance = _sum_up(cost.sampling_distance for cost in costs)
    failures = _sum_up(cost.delta for cost in costs if cost.noise_multiplier is None)
    reserve = (failures + (1 + math.exp(LARGEST_EPSILON)) * distance) * _UP
    if reserve > RESERVE * delta or (gaussian > 0 and delta == 0):
        raise ParameterError(
            f"delta must be > 0 and at least {reserve / RESERVE:.3g} for these costs, got {delta!r}. "
            "Allow a larger one, or add the claims up by method 'sum'."
        )
    readings = [math.inf if gaussian else _sum_stated(coins.elements())]
    if delta > 0:
        log_share = math.log((1 - RESERVE) * delta / len(ORDERS))
        for order in ORDERS:
            rho = math.fsum(n * _coin_divergence(order, epsilon) for epsilon, n in coins.items())
            rho += order / 2 * gaussian
            tail = math.log1p(-1 / order) - (log_share + math.log(order)) / (order - 1)
            readings.append(max(0.0, rho * _UP + tail + 1e-12))  # the tail is below 500: 1e-12 covers it
    epsilon = min(readings)
    if distance and epsilon > LARGEST_EPSILON:
        raise ParameterError(f"costs must stay within epsilon {LARGEST_EPSILON:g} together, got {epsilon:.3g}.")
    alternatives = {"renyi": epsilon} | _sum_within(costs, delta)
    return Composition(epsilon, delta, "renyi", len(costs), alternatives)


def _coin_divergence(order: float, epsilon: float) -> float:
    """Return the Rényi divergence of randomized response, the largest of any ε-private mechanism.

    ln(cosh((α − ½)ε) / cosh(ε/2)) / (α − 1): Kairouz, Oh and Viswanath (2015) show that every other is
    a function of its output.
    """
    if order * epsilon < 1:  # the logarithm of nearly 1: write the ratio as 1 + …
        excess = 2 * math.sinh(order * epsilon / 2) * math.sinh((order - 1) * epsilon / 2)
        return math.log1p(excess / math.cosh(epsilon / 2)) / (order - 1)
    saved = math.log1p(math.exp(-epsilon)) - math.log1p(math.exp((1 - 2 * order) * epsilon))
    return epsilon - saved / (order - 1)


def _pld(costs: Sequence[Cost], delta: float) -> Composition:
    """Return the larger of two accountants' figures, after checking that they agree, or a smaller pure sum.

    The discretized one rounds each loss up by at most one step, and its truncated tails and Fourier
    transforms err by less than 1 % of δ. Nothing else may separate it from the exact one.
    """
    if not _declared_together(costs):
        raise ParameterError(
            "costs must share one declaration for method 'pld', got several or none. Plans chosen one "
            "after the other compose by 'renyi' or 'sum'."
        )
    loss = privacy_loss(costs)
    spare = delta - loss.failure
    if spare < SMALLEST_PLD_DELTA:
        raise ParameterError(
            f"delta must be at least {loss.failure + SMALLEST_PLD_DELTA:.3g} for method 'pld', got {delta!r}."
            " Use 'renyi' or 'sum'."
        )
    distance = _sum_up(cost.sampling_distance for cost in costs)
    exact = _spare_distance(loss.epsilon, delta, distance=distance)
    step = _step(costs, loss, epsilon=exact)
    discretized = _spare_distance(
        _discretize(costs, step=step, tail=1e-3 * spare).get_epsilon_for_delta, delta, distance=distance
    )
    tolerance = 1e-6 * (1 + exact)
    low = loss.epsilon(min(delta + spare / 100, (1 + delta) / 2)) - loss.rounding - tolerance
    high = _spare_distance(loss.epsilon, delta - spare / 100, distance=distance) + len(costs) * step + tolerance
    if not low <= discretized <= high:
        raise DimlyError(
            f"accountants must agree, got epsilon {exact:.6g} and {discretized:.6g} at delta {delta:g}. "
            "Nothing is claimed. Please report these costs as a bug."
        )
    alternatives = {"exact": exact, "pld": discretized} | _sum_within(costs, delta)
    epsilon = max(exact, discretized)
    if all(cost.is_pure for cost in costs):  # rounding may lift it above the sum, which holds as well
        epsilon = min(epsilon, alternatives["sum"])
    return Composition(epsilon, delta, "pld", len(costs), alternatives)


def _declared_together(costs: Sequence[Cost]) -> bool:
    return len(costs) == 1 or (costs[0].declared is not None and len({cost.declared for cost in costs}) == 1)


def _step(costs: Sequence[Cost], loss: PrivacyLoss, *, epsilon: float) -> float:
    """Return a discretization that costs 0.05 % of ε at most, or more where it had above a million points."""
    span = 2 * float(loss.losses.max()) + loss.mu**2 + 20 * loss.mu
    return max(5e-4 * epsilon / len(costs), span / 2**20)


def _discretize(costs: Sequence[Cost], *, step: float, tail: float) -> Any:
    need_extra("Loss distributions", "dp-accounting", "accounting")
    # Imported here because it takes a second. Not its PLDAccountant: that one ignores the count of
    # randomized-response events, and its REPLACE_ONE relation doubles a Gaussian's sensitivity.
    from dp_accounting.pld import common, privacy_loss_distribution  # noqa: PLC0415

    groups = Counter(
        (cost.epsilon, cost.delta) if cost.noise_multiplier is None else (cost.noise_multiplier,) for cost in costs
    )
    total = privacy_loss_distribution.identity(step)
    for parameters, n in groups.items():
        if len(parameters) == 1:
            one = privacy_loss_distribution.from_gaussian_mechanism(parameters[0], value_discretization_interval=step)
        else:
            one = privacy_loss_distribution.from_privacy_parameters(
                common.DifferentialPrivacyParameters(*parameters), step
            )
        total = total.compose(one.self_compose(n, tail / len(groups)), tail_mass_truncation=0)
    return total


def _spare_distance(solve: Callable[[float], float], delta: float, *, distance: float) -> float:
    """Return the smallest ε found with δ_ideal(ε) + (1 + e^ε)·``distance`` ≤ ``delta``.

    ``solve`` gives ε from δ for the laws on paper. What is sampled instead moves the probability of any event
    by at most ``distance``, on either side of P(S) ≤ e^ε·Q(S) + δ. Every ε that is tried lies below the
    smallest solution, up to 1e-9, until it is one.
    """
    epsilon = solve(delta)
    if distance == 0:
        return epsilon
    for _ in range(100):
        above = epsilon * (1 + 1e-9) + 1e-9
        left = math.nextafter(delta - (1 + math.exp(min(above, 700.0))) * distance * _UP, -math.inf)
        if left <= 0:
            break
        epsilon = solve(left)
        if epsilon <= above:
            return epsilon
    raise ParameterError(
        f"delta must be larger beside a sampling_distance of {distance:.3g}, got {delta!r}. "
        "Sample the noise more precisely, or allow a larger delta."
    )
