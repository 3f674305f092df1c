"""Every mechanism that could serve, at its best k and predicted error; and why others are left out."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from dimly.errors import ParameterError
from dimly.mechanisms.error.dimension import nominal_noise, unit_scale
from dimly.mechanisms.error.models import (
    CountingError,
    ErrorModel,
    FlippedBitsError,
    Floats,
    Noise,
    NoisyDistanceError,
    SignedSketchError,
    sketch_error,
)
from dimly.mechanisms.make import (
    DEFAULT_BLEND,
    NOISE_ROOM,
    NOISY_DISTANCES,
    RANDOMIZED_RESPONSE,
    Sketching,
    distance_sensitivity,
    is_open,
    needs_delta,
)
from dimly.mechanisms.noise.gaussian import gaussian_moments
from dimly.mechanisms.noise.tables import BitFlip
from dimly.mechanisms.plan import KINDS, Plan
from dimly.mechanisms.plan_kinds import DistancePlan, ResponsePlan, SketchPlan
from dimly.mechanisms.projection.random_matrix import family_named
from dimly.planner.brief import DEFAULT_GROUPS, FAR, RESPONSE, WIDER, Question
from dimly.planner.predicted_figures import (
    N_FOUND,
    closeness_by_coincidence,
    expected_agreement,
    expected_closeness,
    probability_of_own_group,
    ranking_probability,
)
from dimly.privacy import VALUES_MOVED

Dtype = Literal["int16", "int32"]
SketchError = SignedSketchError | CountingError

BLOCKS = 4
"""Entries per attribute of ``sparse`` and ``dasgupta``; with 1 they would be ``hashing``."""
SMALLEST_K = 2
LARGEST_K = 1 << 16
"""128 kB a person: beyond what anybody publishes."""
LARGEST_SIGMA = 5_000
"""Of noise on distances, in steps: its table takes about a minute to prove."""
_LARGEST = {"int16": 2**15 - 1, "int32": 2**31 - 1}


@dataclass(frozen=True, slots=True)
class Candidate:
    """One mechanism at its best k, as theory predicts it to be.

    Attributes
    ----------
    mechanism : str
    k : int or None
        Numbers published per person; None where there is no sketch.
    stderr_low, stderr_high : float
        Standard errors of estimated squared distances of near and of far pairs.
    probability : float
        That a near pair is estimated to be nearer than a far one: two pairs without common people, unbiased estimates.
    bytes_per_user : float
    pure : bool
        Whether δ = 0.
    blur : float
        What the choice goes by, the smaller the better: the root mean square of both standard errors where it is
        smallest, for neighbors with half the weight on far pairs; less for randomized response where that shows a
        purpose better than its errors tell. See docs/planning.md.
    own_group : float
        Probability that a person is nearer to the middle of their own group than to that of another, if groups are as
        far apart as near and far pairs are.
    closeness : float
        How much nearer found neighbors will be than random people, as a share of what the true ones are, if these are
        as near as near pairs; among twenty people, at most, where ``n_users`` was not stated. The lower of two: for
        distances that are normal, and for distances that differ by what people share by chance.
    closeness_at_best : float
        The higher of these two.
    agreement : float
        Adjusted Rand index of segments with groups that are as far apart as near and far pairs are, as expected; among
        any number of people, at most, where ``n_users`` was not stated.
    """

    mechanism: str
    k: int | None
    stderr_low: float
    stderr_high: float
    probability: float
    bytes_per_user: float
    pure: bool
    blur: float
    own_group: float = 1.0
    closeness: float = math.nan
    closeness_at_best: float = math.nan
    agreement: float = math.nan
    blocks: int = 1
    blend: float | None = None
    dtype: Dtype = "int16"

    def plan(self, question: Question) -> Plan:
        """Return the plan, its noise calibrated and proven.

        Raises
        ------
        ParameterError
            If it cannot be: a table would be too large, or δ is too small for one.
        """
        # Numbered attributes would refuse the people's own: the list is closed where it is given, or must be.
        closed: dict[str, Any] = {} if is_open(self.mechanism) else {"n_attributes": question.n_attributes}
        if question.vocabulary is not None:
            closed = {"vocabulary": question.vocabulary}
        return Plan.of(
            self.mechanism,
            question.budget,
            k=self.k,
            blocks=self.blocks,
            n_users=question.n_users if self.mechanism == NOISY_DISTANCES else None,
            resolution=question.resolution,
            unit=question.unit,
            protect=question.protect,
            dtype=self.dtype,
            seed=None if self.k is None else question.seed,  # without a projection there is nothing to seed
            blend=self.blend,
            **closed,
        )


class LeftOut(NamedTuple):
    """A mechanism that cannot serve, and why."""

    mechanism: str
    reason: str


def candidates(question: Question) -> tuple[list[Candidate], list[LeftOut]]:
    """Return who can serve, the best first, and who cannot."""
    able, unable = [], []
    for mechanism in question.mechanisms:
        found = candidate(mechanism, question)
        if isinstance(found, Candidate):
            able.append(found)
        else:
            unable.append(LeftOut(mechanism, found))
    return sorted(able, key=lambda one: one.blur), unable


class Fitted(NamedTuple):
    """A mechanism at its best k, of which it is not said yet how well it serves: that takes longer to find out."""

    blank: Candidate
    model: ErrorModel
    blur: float


def candidate(mechanism: str, question: Question) -> Candidate | str:
    """Return one mechanism at its best k, or the reason why it cannot serve."""
    found = fitted(mechanism, question)
    return found if isinstance(found, str) else judged(*found[:2], question, found.blur)


def fitted(mechanism: str, question: Question) -> Fitted | str:
    """Return one mechanism at its best k, unjudged, or the reason why it cannot serve."""
    reason = obstacle(mechanism, question)
    if reason:
        return reason
    try:
        found = _FITTING[KINDS[mechanism]](mechanism, question)
    except ParameterError as error:  # calibration fails at extreme budgets
        return str(error)
    most = question.max_bytes_per_user
    if most is not None and found.blank.bytes_per_user > most:
        return f"it publishes {found.blank.bytes_per_user:,.0f} bytes a person"
    return found


def obstacle(mechanism: str, question: Question) -> str:
    """Return what a mechanism needs that is not there; nothing if it can serve."""
    if needs_delta(mechanism) and question.budget.is_pure:
        return "it needs a delta above 0"
    if mechanism == RANDOMIZED_RESPONSE and not question.bits:
        return "it takes bits only"
    if mechanism == NOISY_DISTANCES and question.n_users is None:
        return "it needs n_users"
    if mechanism == NOISY_DISTANCES and question.purpose == "segments":
        return "distances alone do not give people positions, which segments need"
    return "" if is_open(mechanism) else _unlisted(question)


def _unlisted(question: Question) -> str:
    """Return what a closed list needs that is not there: nobody's attributes are numbers unless it was said so."""
    if question.n_attributes is None:
        return "it needs n_attributes"
    if question.vocabulary is None and not question.numbered:
        return "it needs the public list of attributes (vocabulary), or that they are numbers (numbered)"
    return ""


def realized(found: Candidate, model: ErrorModel, question: Question) -> Candidate:
    """Return a candidate with the errors of a plan that was made: the noise that will be sampled, rows as drawn."""
    expected = _mean(found.stderr_low**2, found.stderr_high**2, question)
    return judged(found, model, question, found.blur * _typical(model, question) / expected)


def judged(found: Candidate, model: ErrorModel, question: Question, blurred: float) -> Candidate:
    """Return a candidate with its predicted errors filled in."""
    low, high = variances(model, question)
    gap, closeness = question.high - question.low, closeness_of(model, question, blurred)
    return replace(
        found,
        stderr_low=math.sqrt(low),
        stderr_high=math.sqrt(high),
        probability=ranking_probability(gap, math.sqrt((low + high) / 2)),
        own_group=probability_of_own_group(gap, question.low, model),
        closeness=min(closeness),
        closeness_at_best=max(closeness),
        agreement=agreement_of(model, question),
        blur=blurred,
    )


def closeness_of(model: ErrorModel, question: Question, blurred: float) -> tuple[float, float]:
    """Return how near found neighbors will be, for distances that are normal, and for such as come about by chance."""
    n_users, weight = question.n_users or 2 * N_FOUND, question.weights_at(0.0)[0]

    def errors(distances: Floats) -> Floats:
        weights = np.maximum(weight, distances / 2)
        return np.sqrt(model.distance(weights=(weights, weights))(distances))

    return (
        expected_closeness(question.high - question.low, blurred, n_users=n_users),
        closeness_by_coincidence(question.low, question.high, errors, weight=question.likely_weight, n_users=n_users),
    )


def agreement_of(model: ErrorModel, question: Question) -> float:
    """Return how far segments will agree with groups that are as far apart as near and far pairs are."""
    return expected_agreement(
        question.high - question.low,
        question.low,
        model,
        n_users=question.n_users,
        n_groups=question.n_groups or DEFAULT_GROUPS,
    )


def variances(model: ErrorModel, question: Question) -> tuple[float, float]:
    """Return the variances of estimated squared distances of near and of far pairs."""
    lighter, heavier = question.weights_at(question.low), question.weights_at(question.high)
    near = model.distance(weights=lighter)
    far = near if lighter == heavier else model.distance(weights=heavier)  # alike unless a small weight is stated
    # For bits the formulas hold at whole numbers: near pairs that differ in less than one attribute on average would
    # seem to collide less than not at all. What is left is noise.
    noise = model.distance(weights=(0.0, 0.0)).at(0.0)
    return max(near.at(question.low), noise), max(far.at(question.high), noise)


def _blank(mechanism: str, **fields: Any) -> Candidate:
    return Candidate(
        mechanism, stderr_low=math.nan, stderr_high=math.nan, probability=math.nan, blur=math.nan, **fields
    )


def _flipped(mechanism: str, question: Question) -> Fitted:
    d = question.n_attributes or 0  # which an obstacle was, were it unknown
    flip = BitFlip.of(question.budget, bits_moved=VALUES_MOVED[question.unit])
    model = FlippedBitsError(d, flip.probability)
    found = _blank(mechanism, k=None, bytes_per_user=math.ceil(d / 8), pure=True)
    return Fitted(found, model, RESPONSE[question.purpose] * _typical(model, question))


def _noisy(mechanism: str, question: Question) -> Fitted:
    n, d = question.n_users or 0, question.n_attributes or 0  # which obstacles were, were they unknown
    moved = distance_sensitivity(n, resolution=question.resolution, unit=question.unit)
    sigma = moved.l2 * unit_scale(question.budget)
    if sigma > LARGEST_SIGMA:
        raise ParameterError(f"its noise of {sigma:,.0f} steps would take minutes to prove")
    dtype = fitting(sigma, data=d * question.resolution**2)
    v, m4 = gaussian_moments(sigma)
    model = NoisyDistanceError(Noise(v / question.resolution**4, m4 / question.resolution**8))
    size = (n - 1) / 2 * _width(dtype)
    found = replace(_blank(mechanism, k=None, bytes_per_user=size, pure=False), dtype=dtype)
    return Fitted(found, model, _typical(model, question))


def _sketched(mechanism: str, question: Question) -> Fitted:
    kind = Sketching.of(mechanism)
    family = family_named(kind.family)
    step = BLOCKS if family.has_blocks else 1

    @cache
    def error(steps: int) -> float:
        k = step * steps
        return _typical(blended(kind, question, k, _noise(kind, question, k), blocks=step), question)

    smallest = -(-SMALLEST_K // step)

    def best(largest: int) -> Fitted:
        largest = min(LARGEST_K // step, max(smallest, largest))
        steps = _lowest(error, smallest, largest)
        k = step * min(WIDER[question.purpose] * steps, largest)
        noise = _noise(kind, question, k)
        model = blended(kind, question, k, noise, blocks=step)
        # A gaussian P takes as fine a grid as fits the type.
        unit = 0.0 if kind.family == "gaussian" else question.resolution / family.scale(k, blocks=step)
        dtype = fitting(math.sqrt(noise.variance) * unit)
        found = _blank(mechanism, k=k, bytes_per_user=float(k * _width(dtype)), pure=kind.law == "laplace")
        blend = model.blend if model.centered else None
        return Fitted(replace(found, blocks=step, blend=blend, dtype=dtype), model, error(steps))

    most = question.max_bytes_per_user
    if most is None:
        return best(LARGEST_K)
    found = best(most // (step * _width("int16")))
    # Whether noise needs the wider type is known only at a k.
    return found if found.blank.bytes_per_user <= most else best(most // (step * _width("int32")))


_FITTING: Final[Mapping[type[Plan], Callable[[str, Question], Fitted]]] = {
    SketchPlan: _sketched,
    ResponsePlan: _flipped,
    DistancePlan: _noisy,
}


def _typical(model: ErrorModel, question: Question) -> float:
    """Return the root mean square of the standard errors of near and of far pairs, as the purpose weighs them."""
    return _mean(*variances(model, question), question)


def _mean(low: float, high: float, question: Question) -> float:
    far = FAR[question.purpose]
    return math.sqrt((low + far * high) / (1 + far))


def _lowest(error: Callable[[int], float], low: int, high: int) -> int:
    """Return about where ``error`` is lowest, by doubling and then by halving the rest."""
    grid = [low]
    while grid[-1] < high:
        grid.append(min(2 * grid[-1], high))
    best = min(range(len(grid)), key=lambda i: error(grid[i]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    # Where norms of rows are realized, error is jagged: a hundredth of k changes nothing.
    while high - low > max(2, high // 100):
        third = (high - low) // 3
        if error(low + third) <= error(high - third):
            high -= third
        else:
            low += third
    rest: list[int] = [grid[best], *range(low, high + 1, max(1, (high - low) // 4))]
    return min(rest, key=error)


def blended(kind: Sketching, question: Question, k: int, noise: Noise, *, blocks: int = 1) -> SketchError:
    """Return the error model of a sketch; of counting with the blend that is best for the weight, if one is stated."""
    blend = DEFAULT_BLEND if question.bits else 0.0

    def model(b: float) -> SketchError:
        return sketch_error(kind.family, k=k, blocks=blocks, noise=noise, bits=question.bits, blend=b)

    if kind.family != "counting" or not question.bits or question.weight is None:
        return model(blend)

    def total(b: float) -> float:
        return sum(variances(model(b), question))

    # The variance is a parabola in b: three points tell where it is lowest.
    left, middle, right = total(1e-9), total(0.5), total(1.0)
    curve = left + right - 2 * middle
    best = 0.5 + (left - right) / (4 * curve) if curve > 0 else 0.0
    return model(round(min(max(best, 0.0), 1.0), 2))


def _noise(kind: Sketching, question: Question, k: int) -> Noise:
    return nominal_noise(
        kind,
        question.budget,
        k=k,
        blocks=BLOCKS if family_named(kind.family).has_blocks else 1,
        resolution=question.resolution,
        unit=question.unit,
        n_attributes=question.n_attributes,
    )


def fitting(spread: float, *, data: float = 0.0) -> Dtype:
    """Return the smallest published type that holds the noise and the largest data, where these are known."""
    return "int16" if NOISE_ROOM * spread + data <= _LARGEST["int16"] else "int32"


def _width(dtype: Dtype) -> int:
    return 2 if dtype == "int16" else 4
