"""From what a curator asks for to the parts of a plan: sensitivities, calibrated noise, the grid of P."""

import math
import os
from contextlib import suppress

import numpy as np

from dimly.errors import ParameterError
from dimly.mechanisms.families import MAX_GRID_BITS, check_shape, family_named
from dimly.mechanisms.mechanism import Sketching, default_blend
from dimly.mechanisms.plan_parts import (
    FlipNoise,
    GaussianNoise,
    LaplaceNoise,
    ProjectionPart,
    VocabularyPart,
)
from dimly.mechanisms.projection import SEED_BYTES, Projection, Sensitivity, sensitivity
from dimly.mechanisms.randomized_response import BitFlip
from dimly.mechanisms.request import Request
from dimly.mechanisms.rounded_gaussian import sampling_allowance
from dimly.privacy import VALUES_MOVED, Budget, Rule, Unit, gaussian_scale

# A published coordinate holds this many standard deviations of noise, and leaves the rest to the data.
_NOISE_ROOM = 8
# Finer grids than this change no estimate, and their noise tables take long to prove.
_FINEST_GRID = 12
_LARGEST_GRID_SIGMA = {"int16": 2048.0, "int32": 4096.0}


def draft_fields(request: Request) -> dict[str, object]:
    """Return the fields of the plan that a request asks for, its noise calibrated."""
    fields: dict[str, object] = {
        "mechanism": request.mechanism,
        "budget": request.budget,
        "unit": request.unit,
        "resolution": request.resolution,
        "dtype": request.dtype,
        "n_users": request.n_users,
    }
    if request.vocabulary is not None:
        fields["vocabulary"] = VocabularyPart.of(request.vocabulary, numbered=request.numbered)
    if request.kind is not None:
        projection, noise = _draft_sketch(request, request.kind)
        gaussian = isinstance(noise, GaussianNoise)
        blend = default_blend(request.kind.family, bits=request.resolution == 1)
        return fields | {
            "projection": projection,
            "noise": noise,
            "rule": request.rule if gaussian else None,
            "blend": blend if request.blend is None else request.blend,
        }
    if request.n_users is None:
        flip = BitFlip.of(request.budget, bits_moved=VALUES_MOVED[request.unit])
        return fields | {"noise": FlipNoise(probability=flip.probability), "dtype": "bit"}
    moved = distance_sensitivity(request.n_users, resolution=request.resolution, unit=request.unit)
    sigma = calibrated_sigma(request.budget, l2_sensitivity=moved.l2, touched=request.n_users - 1, rule=request.rule)
    return fields | {"noise": GaussianNoise(sigma=sigma), "rule": request.rule}


def _draft_sketch(request: Request, kind: Sketching) -> tuple[ProjectionPart, LaplaceNoise | GaussianNoise]:
    k, blocks, vocabulary = request.k, request.blocks, request.vocabulary
    grid_bits = None
    if kind.family == "gaussian":
        check_shape(family_named(kind.family), k, blocks, grid_bits=MAX_GRID_BITS)
        grid_bits = _grid_bits(request, kind)
    matrix = Projection(kind.family, k, blocks, public_seed(request.seed), grid_bits)
    row = sensitivity(matrix, vocabulary)
    moved = unit_sensitivity(row, request.steps)
    noise: LaplaceNoise | GaussianNoise
    if kind.law == "laplace":
        noise = LaplaceNoise(l1_sensitivity=moved.l1)
    else:
        sigma = calibrated_sigma(
            request.budget,
            l2_sensitivity=moved.l2,
            touched=touched(kind.family, k=k, blocks=blocks, unit=request.unit),
            rule=request.rule,
            k=k,
            n_attributes=request.n_attributes,
            row_norm=row.l2 * matrix.scale,
        )
        noise = GaussianNoise(sigma=sigma)
    projection = ProjectionPart(
        family=kind.family,
        k=k,
        blocks=blocks,
        seed=matrix.seed.hex(),
        grid_bits=grid_bits,
        l1=row.l1,
        l2_squared=row.l2_squared,
    )
    return projection, noise


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
    given = b""
    if isinstance(seed, bytes | bytearray):
        given = bytes(seed)
    elif isinstance(seed, str):
        with suppress(ValueError):
            given = bytes.fromhex(seed)
    if len(given) != SEED_BYTES:
        raise ParameterError(
            f"seed must be {SEED_BYTES} bytes or {2 * SEED_BYTES} hexadecimal digits, got {type(seed).__name__} of "
            "another size or kind. Leave it out for a fresh one."
        )
    return given


def check_room(spread: float, dtype: str, *, data: int = 0) -> None:
    """Refuse noise that would often saturate the published type, beside the largest data where that is known."""
    largest = np.iinfo(dtype).max
    needed = _NOISE_ROOM * spread + data
    if needed > largest:
        larger = "dtype='int32'" if dtype == "int16" else "a larger epsilon, or a smaller k or resolution"
        raise ParameterError(
            f"dtype must hold {_NOISE_ROOM} standard deviations of noise and the largest distance ({needed:.0f}), "
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
            "128-bit noise tables cannot certify less. Use another delta or epsilon, or Laplace noise: it needs none."
        )
    return gaussian_scale(Budget(budget.epsilon, budget.delta - allowance), l2_sensitivity=l2_sensitivity)


def _grid_bits(request: Request, kind: Sketching) -> int:
    """Return the finest grid for a gaussian P whose noise still fits the published type and a table.

    Decided before P is drawn, from the norms that its rows will have at most in all likelihood.
    """
    k, budget, d = request.k, request.budget, request.n_attributes or 1
    longest = 1 + math.sqrt(2 * math.log(100 * d) / k)
    if kind.law == "laplace":
        spread = math.sqrt(2) * longest * math.sqrt(k) / budget.epsilon
    elif request.rule == "lemma2":
        spread = gaussian_scale(budget, l2_sensitivity=1.0, rule="lemma2", k=k, n_attributes=d)
    else:
        spread = gaussian_scale(budget, l2_sensitivity=longest, rule=request.rule)
    bits = math.floor(math.log2(_LARGEST_GRID_SIGMA[request.dtype] / (spread * request.steps)))
    if bits < max(1, math.ceil(math.log2(k) / 2)):
        advice = "dtype='int32'" if request.dtype == "int16" else "a smaller k, or a larger epsilon"
        raise ParameterError(
            f"dtype must leave gaussian entries at least one step of their grid, got {request.dtype!r}, in which the "
            f"noise of this budget leaves none at k = {k}. Use {advice}."
        )
    return min(bits, _FINEST_GRID)
