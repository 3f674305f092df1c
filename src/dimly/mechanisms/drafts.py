"""From what a curator asks for to the parts of a plan: sensitivities, calibrated noise, the grid of P."""

import math
import os
from typing import NamedTuple

import numpy as np

from dimly.errors import ParameterError
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.families import MAX_GRID_BITS, check_shape, family_named
from dimly.mechanisms.mechanism import Sketching
from dimly.mechanisms.plan_parts import FlipNoise, GaussianNoise, LaplaceNoise, ProjectionPart
from dimly.mechanisms.projection import SEED_BYTES, Projection, Sensitivity, sensitivity
from dimly.mechanisms.randomized_response import BitFlip
from dimly.mechanisms.rounded_gaussian import sampling_allowance
from dimly.privacy import VALUES_MOVED, Budget, Rule, Unit, gaussian_scale

# A published coordinate holds this many standard deviations of noise, and leaves the rest to the data.
_NOISE_ROOM = 8
# Finer grids than this change no estimate, and their noise tables take long to prove.
_FINEST_GRID = 12
_LARGEST_GRID_SIGMA = {"int16": 2048.0, "int32": 8192.0}


class SketchDraft(NamedTuple):
    """What a sketching plan consists of besides what was asked for."""

    projection: ProjectionPart
    noise: LaplaceNoise | GaussianNoise


def draft_sketch(
    kind: Sketching,
    budget: Budget,
    *,
    k: int,
    blocks: int,
    vocabulary: Vocabulary | None,
    resolution: int,
    unit: Unit,
    rule: Rule,
    dtype: str,
    seed: bytes | str | None,
) -> SketchDraft:
    """Return projection and noise of a sketching plan."""
    family = family_named(kind.family)
    steps = VALUES_MOVED[unit] * resolution
    grid_bits = None
    if kind.family == "gaussian":
        check_shape(family, k, blocks, grid_bits=MAX_GRID_BITS)
        grid_bits = _grid_bits(
            kind,
            budget,
            k=k,
            steps=steps,
            rule=rule,
            dtype=dtype,
            n_attributes=1 if vocabulary is None else len(vocabulary),
        )
    matrix = Projection(kind.family, k, blocks, public_seed(seed), grid_bits)
    row = sensitivity(matrix, vocabulary)
    moved = unit_sensitivity(row, steps)
    noise: LaplaceNoise | GaussianNoise
    if kind.law == "laplace":
        noise = LaplaceNoise(l1_sensitivity=moved.l1)
        spread = math.sqrt(noise.table(budget).variance)
    else:
        sigma = calibrated_sigma(
            budget,
            l2_sensitivity=moved.l2,
            touched=touched(kind.family, k=k, blocks=blocks, unit=unit),
            rule=rule,
            k=k,
            n_attributes=None if vocabulary is None else len(vocabulary),
            row_norm=row.l2 * matrix.scale,
        )
        noise, spread = GaussianNoise(sigma=sigma), sigma
    check_room(spread, dtype)
    projection = ProjectionPart(
        family=kind.family,
        k=k,
        blocks=blocks,
        seed=matrix.seed.hex(),
        grid_bits=grid_bits,
        l1=row.l1,
        l2_squared=row.l2_squared,
    )
    return SketchDraft(projection, noise)


def draft_flip(budget: Budget, *, unit: Unit) -> FlipNoise:
    """Return the noise of a randomized-response plan."""
    return FlipNoise(probability=BitFlip.of(budget, bits_moved=VALUES_MOVED[unit]).probability)


def draft_distances(
    budget: Budget,
    *,
    n_users: int,
    n_attributes: int,
    resolution: int,
    unit: Unit,
    rule: Rule,
    dtype: str,
) -> GaussianNoise:
    """Return the noise of a noisy-distances plan."""
    if rule == "lemma2":
        raise ParameterError("rule must be exact, lemma1 or theorem1 for noisy-distances, got 'lemma2'.")
    moved = distance_sensitivity(n_users, resolution=resolution, unit=unit)
    sigma = calibrated_sigma(budget, l2_sensitivity=moved.l2, touched=n_users - 1, rule=rule)
    check_room(sigma + n_attributes * resolution**2 / _NOISE_ROOM, dtype)
    return GaussianNoise(sigma=sigma)


def unit_sensitivity(row: Sensitivity, steps: int) -> Sensitivity:
    """Return what one unit moves a sketch by, if one attribute by one step of resolution moves it by ``row``."""
    return Sensitivity(steps * row.l1, steps**2 * row.l2_squared)


def distance_sensitivity(n_users: int, *, resolution: int, unit: Unit) -> Sensitivity:
    """Return what one unit moves the table of integer squared distances by.

    One person has n − 1 distances, and a value that moves within 0…R moves each of them by at most R².

    Examples
    --------
    >>> distance_sensitivity(5, resolution=1, unit="attribute").l2
    2.0
    """
    each = VALUES_MOVED[unit] * resolution**2
    return Sensitivity(each * (n_users - 1), each**2 * (n_users - 1))


def touched(family: str, *, k: int, blocks: int, unit: Unit) -> int:
    """Return how many coordinates of a sketch one unit can move."""
    return min(k, VALUES_MOVED[unit] * family_named(family).entries(k, blocks=blocks))


def public_seed(seed: bytes | str | None) -> bytes:
    """Return 32 public bytes: those given, or fresh ones from the operating system.

    The seed is no secret, but nobody should be able to choose it after seeing the data.
    """
    if seed is None:
        return os.urandom(SEED_BYTES)
    try:
        given = bytes.fromhex(seed) if isinstance(seed, str) else bytes(seed)
    except (TypeError, ValueError):
        given = b""
    if len(given) != SEED_BYTES or isinstance(seed, int):
        raise ParameterError(
            f"seed must be {SEED_BYTES} bytes or {2 * SEED_BYTES} hexadecimal digits, got {seed!r}. "
            "Leave it out for a fresh one."
        )
    return given


def check_room(spread: float, dtype: str) -> None:
    """Refuse noise that would mostly saturate the published type."""
    largest = np.iinfo(dtype).max
    if _NOISE_ROOM * spread > largest:
        larger = "dtype='int32'" if dtype == "int16" else "a larger epsilon, or a smaller k or resolution"
        raise ParameterError(
            f"dtype must hold {_NOISE_ROOM} standard deviations of noise ({_NOISE_ROOM * spread:.0f}), "
            f"got {dtype!r} which holds {largest}. Use {larger}."
        )


def calibrated_sigma(
    budget: Budget,
    *,
    l2_sensitivity: float,
    touched: int,
    rule: Rule,
    k: int | None = None,
    n_attributes: int | None = None,
    row_norm: float = 1.0,
) -> float:
    """Return σ in integer units so that the noise *as sampled* keeps one unit within ``budget``.

    Parameters
    ----------
    budget : Budget
    l2_sensitivity : float
        Of one unit, in integer units.
    touched : int
        Coordinates that one unit can move.
    rule : Rule
    k, n_attributes, row_norm
        For "lemma2", whose σ does not depend on the realized norm of a row but needs it to be at most 2: the
        largest one in the data's units.

    Raises
    ------
    ParameterError
        If a rule's precondition fails, or δ is below what a table can certify.
    """
    if rule == "lemma2":
        scale = gaussian_scale(budget, l2_sensitivity=row_norm, rule=rule, k=k, n_attributes=n_attributes)
        return math.nextafter(scale * l2_sensitivity / row_norm, math.inf)
    sigma = gaussian_scale(budget, l2_sensitivity=l2_sensitivity, rule=rule)
    if rule != "exact":
        return sigma  # leaves more δ over than sampling takes, or is refused by the plan's own check
    # The exact rule spends all of δ, so what sampling will take is set aside first.
    allowance = sampling_allowance(1.01 * sigma, epsilon=budget.epsilon, touched=touched)
    if allowance > budget.delta / 100:
        raise ParameterError(
            f"delta must be at least {100 * allowance:.2g} at epsilon {budget.epsilon!r}, got {budget.delta!r}: "
            "128-bit noise tables cannot certify less. Use a larger delta, or Laplace noise, which needs none."
        )
    return gaussian_scale(Budget(budget.epsilon, budget.delta - allowance), l2_sensitivity=l2_sensitivity)


def _grid_bits(
    kind: Sketching,
    budget: Budget,
    *,
    k: int,
    steps: int,
    rule: Rule,
    dtype: str,
    n_attributes: int,
) -> int:
    """Return the finest grid for a gaussian P whose noise still fits the published type and a table.

    Decided before P is drawn, from the norms that its rows will have at most in all likelihood.
    """
    longest = 1 + math.sqrt(2 * math.log(100 * n_attributes) / k)
    if kind.law == "laplace":
        spread = math.sqrt(2) * longest * math.sqrt(k) / budget.epsilon
    elif rule == "lemma2":
        spread = gaussian_scale(budget, l2_sensitivity=1.0, rule=rule, k=k, n_attributes=n_attributes)
    else:
        spread = gaussian_scale(budget, l2_sensitivity=longest, rule=rule)
    bits = math.floor(math.log2(_LARGEST_GRID_SIGMA[dtype] / (spread * steps)))
    coarsest = max(1, math.ceil(math.log2(k) / 2))
    if bits < coarsest:
        advice = "dtype='int32'" if dtype == "int16" else "a smaller k, or a larger epsilon"
        raise ParameterError(
            f"dtype must leave gaussian entries at least one step of their grid, got {dtype!r}, in which the noise "
            f"of this budget leaves none at k = {k}. Use {advice}."
        )
    return min(bits, _FINEST_GRID)
