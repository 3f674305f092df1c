"""How a plan is made from a mechanism's name: MECHANISMS, sensitivities, calibrated sigma and drafts."""

import math
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Self, get_args

from dimly.errors import ParameterError, as_integer, check_choice
from dimly.mechanisms.noise.gaussian import check_size, sampling_allowance
from dimly.mechanisms.noise.tables import BitFlip
from dimly.mechanisms.plan_parts import (
    DirectionsPart,
    FlipNoise,
    GaussianNoise,
    LaplaceNoise,
    ProjectionPart,
    VocabularyPart,
)
from dimly.mechanisms.projection.closed import MAX_GRID_BITS
from dimly.mechanisms.projection.directions import Directions
from dimly.mechanisms.projection.random_matrix import (
    FAMILY_NAMES,
    SEED_BYTES,
    FamilyName,
    Projection,
    Sensitivity,
    family_named,
    sensitivity,
)
from dimly.mechanisms.projection.streams import NEWEST, StreamVersion
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import RULES, UNITS, VALUES_MOVED, Budget, Rule, Unit, gaussian_scale

Law = Literal["laplace", "gaussian"]
LAWS: Final[tuple[Law, ...]] = get_args(Law)

RANDOMIZED_RESPONSE: Final = "randomized-response"
NOISY_DISTANCES: Final = "noisy-distances"

SKETCHING: Final[tuple[str, ...]] = tuple(f"{family}+{law}" for family in FAMILY_NAMES for law in LAWS)
"""Those that publish sketches."""

DIRECTED: Final[tuple[str, ...]] = tuple(f"directions+{law}" for law in LAWS)
"""Those that publish sketches along public directions, which have to be given."""

MECHANISMS: Final[tuple[str, ...]] = (*SKETCHING, RANDOMIZED_RESPONSE, NOISY_DISTANCES)
"""All names that a plan's mechanism can have without any directions; :data:`DIRECTED` are the others."""

DEFAULT_BLEND: Final = 0.75
"""How far a counting sketch of bits trusts its sum, unless a plan says otherwise.

Near the best for pairs whose distance is at least about their weight, as of most pairs of people. Near pairs of heavy
people want less: docs/error-theory.md has a table."""


class Sketching(NamedTuple):
    """A projection family and the noise added to its sketches."""

    family: FamilyName
    law: Law

    @classmethod
    def of(cls, mechanism: str) -> "Sketching":
        """Return family and law of a mechanism, or refuse one that publishes no sketches."""
        check_mechanism(mechanism)
        if mechanism not in SKETCHING:
            raise ParameterError(f"mechanism must be one that sketches, got {mechanism!r}.")
        family, law = mechanism.split("+")
        return cls(family, law)  # type: ignore[arg-type]  # SKETCHING holds no other names


def check_mechanism(mechanism: str) -> None:
    """Refuse a name that is not on the menu."""
    if mechanism not in (*MECHANISMS, *DIRECTED):
        raise ParameterError(
            f"mechanism must be a family ({', '.join(FAMILY_NAMES)}) or directions, and a noise ({', '.join(LAWS)}) "
            f"joined by '+', {RANDOMIZED_RESPONSE} or {NOISY_DISTANCES}, got {mechanism!r}. For example: "
            "counting+laplace."
        )


def check_undirected(mechanism: str) -> None:
    """Refuse a name that is not on the menu, or whose error depends on directions that are not known here."""
    check_mechanism(mechanism)
    if mechanism in DIRECTED:
        raise ParameterError(
            f"mechanism must be one that is judged without directions, got {mechanism!r}. Plan it by Plan.of with "
            "directions=, or by dimly plan --directions FILE."
        )


def sketching(mechanism: str) -> Sketching | None:
    """Return family and law of a mechanism that projects at random, None for those that do not.

    Raises
    ------
    ParameterError
        If there is no such mechanism.

    Examples
    --------
    >>> sketching("counting+laplace")
    Sketching(family='counting', law='laplace')
    >>> sketching("randomized-response") is None
    True
    """
    check_mechanism(mechanism)
    return Sketching.of(mechanism) if mechanism in SKETCHING else None


def needs_delta(mechanism: str) -> bool:
    """Return whether a mechanism's noise is Gaussian, which no budget with δ = 0 allows."""
    return mechanism == NOISY_DISTANCES or mechanism.endswith("+gaussian")


def is_open(mechanism: str) -> bool:
    """Return whether a mechanism takes any attribute, now and later, and needs no list of them."""
    kind = sketching(mechanism)
    return mechanism in DIRECTED or (kind is not None and family_named(kind.family).open_vocabulary)


def default_blend(family: str, *, bits: bool) -> float | None:
    """Return how far sums are trusted; None for families whose sums tell nothing."""
    if family != "counting":
        return None
    return DEFAULT_BLEND if bits else 0.0


MAX_RESOLUTION = 1 << 16
MAX_ATTRIBUTES = 1 << 31
MAX_USERS = 1 << 31
MAX_TOGETHER = 10_000
DTYPES = ("int16", "int32")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Arguments that fit each other, in plain types; what remains to be seen is whether they can be kept."""

    mechanism: str
    budget: Budget
    k: int
    blocks: int
    vocabulary: Vocabulary | None
    numbered: bool
    n_users: int
    resolution: int
    unit: Unit
    rule: Rule
    dtype: str | None
    seed: Any
    blend: float | None
    directions: Directions | None
    protect: int
    stream: StreamVersion

    @classmethod
    def of(
        cls,
        mechanism: str,
        budget: Budget,
        *,
        k: int | None,
        blocks: int,
        n_attributes: int | None,
        vocabulary: Iterable[object] | None,
        n_users: int | None,
        resolution: int,
        unit: Unit,
        rule: Rule,
        dtype: str | None,
        seed: Any,
        blend: float | None,
        directions: Directions | None = None,
        protect: int = 1,
        stream: StreamVersion | None = None,
    ) -> Self:
        """Return the request, or refuse it with what to do instead."""
        kind = sketching(mechanism)
        if not isinstance(budget, Budget):
            raise ParameterError(f"budget must be a Budget, got {type(budget).__name__}. Write Budget(epsilon, delta).")
        check_choice("unit", unit, UNITS)
        check_choice("rule", rule, RULES)
        if dtype is not None:
            check_choice("dtype", dtype, DTYPES)
        _check_directions(mechanism, directions, n_attributes=n_attributes, vocabulary=vocabulary)
        if mechanism != NOISY_DISTANCES:
            _check_absent("n_users", n_users, mechanism)
        if kind is None:
            _check_absent("k", k, mechanism)
            _check_absent("blocks", None if blocks == 1 else blocks, mechanism)
            _check_absent("seed", seed, mechanism)
            _check_absent("stream", stream, mechanism)
            if rule == "lemma2":
                raise ParameterError(f"rule must be exact, lemma1 or theorem1 for {mechanism}, got 'lemma2'.")
        else:
            if k is None:
                raise ParameterError(
                    f"k must be given for {mechanism}, got None. best_k suggests one for a squared distance."
                )
            if rule == "lemma2" and kind != ("gaussian", "gaussian"):
                raise ParameterError(
                    f"rule must be exact, lemma1 or theorem1 for {mechanism}, got 'lemma2', "
                    "which is about gaussian projections with Gaussian noise."
                )
        if kind is None or kind.family != "counting":
            _check_absent("blend", blend, mechanism)
        return cls(
            mechanism=mechanism,
            budget=budget,
            k=0 if k is None else as_integer("k", k, 1, 2**31 - 1),
            blocks=as_integer("blocks", blocks, 1, 2**31 - 1),
            vocabulary=_vocabulary(vocabulary, n_attributes),
            numbered=vocabulary is None,
            n_users=as_integer("n_users", n_users, 2, MAX_USERS) if mechanism == NOISY_DISTANCES else 0,
            resolution=as_integer("resolution", resolution, 1, MAX_RESOLUTION),
            unit=unit,
            rule=rule,
            dtype=dtype,
            seed=seed,
            blend=None if blend is None else float(blend),
            directions=directions,
            protect=as_integer("protect", protect, 1, MAX_TOGETHER),
            stream=NEWEST if stream is None else stream,
        )

    @property
    def n_attributes(self) -> int | None:
        """Size of the vocabulary; None where it is open."""
        return None if self.vocabulary is None else len(self.vocabulary)

    @property
    def steps(self) -> int:
        """How many steps of resolution one unit moves the data by."""
        return VALUES_MOVED[self.unit] * self.resolution


def _vocabulary(attributes: Iterable[object] | None, n_attributes: int | None) -> Vocabulary | None:
    size = None if n_attributes is None else as_integer("n_attributes", n_attributes, 1, MAX_ATTRIBUTES)
    if attributes is None:
        return None if size is None else Vocabulary.numbered(size)
    listed = attributes if isinstance(attributes, Vocabulary) else Vocabulary.listed(attributes)
    if size not in (None, len(listed)):
        raise ParameterError(f"n_attributes must be the length of vocabulary, {len(listed)}, got {size}. Leave it out.")
    return listed


def _check_directions(mechanism: str, directions: object, **attributes: object) -> None:
    """Refuse a mechanism without what tells its attributes: directions, or for bits and distances a closed list."""
    if mechanism in DIRECTED:
        if not isinstance(directions, Directions):
            raise ParameterError(
                f"directions must be given for {mechanism}, got {type(directions).__name__}. "
                "Make them by dimly directions, or dimly.learn_directions."
            )
        for name, value in attributes.items():
            _check_absent(name, value, mechanism)
        return
    _check_absent("directions", directions, mechanism)
    if mechanism not in SKETCHING and all(value is None for value in attributes.values()):
        raise ParameterError(
            f"n_attributes (--n-attributes) or vocabulary (--vocabulary) must be given for {mechanism}, got neither."
        )


def _check_absent(name: str, value: object, mechanism: str) -> None:
    if value is not None:
        raise ParameterError(f"{name} must be left out for {mechanism}.")


NOISE_ROOM: Final = 8
"""A published number holds this many standard deviations of noise, and leaves the rest to the data."""
# Unless a type is asked for, a number along a direction holds so many of the longest rows beside its noise.
_ATTRIBUTES_ALONG = 1 << 12
# Finer grids than this change no estimate, and their noise tables take long to prove.
_FINEST_GRID = 12
_LARGEST_GRID_SIGMA = {"int16": 2048.0, "int32": 4096.0}


def public_fields(request: PlanRequest) -> dict[str, object]:
    """Return the fields of a plan that are as they were asked for, whatever its kind."""
    vocabulary = request.vocabulary
    return {
        "mechanism": request.mechanism,
        "budget": request.budget,
        "unit": request.unit,
        "protect": None if request.protect == 1 else request.protect,
        "resolution": request.resolution,
        "dtype": request.dtype or "int16",
        "vocabulary": None if vocabulary is None else VocabularyPart.of(vocabulary, numbered=request.numbered),
    }


def draft_response(request: PlanRequest) -> dict[str, object]:
    """Return what only a plan of randomized response says, its flips calibrated."""
    flip = BitFlip.of(request.budget, bits_moved=VALUES_MOVED[request.unit])
    return {"noise": FlipNoise(probability=flip.probability), "dtype": "bit"}


def draft_distances(request: PlanRequest) -> dict[str, object]:
    """Return what only a plan of noisy distances says, its noise calibrated."""
    n, rule = request.n_users, request.rule
    moved = distance_sensitivity(n, resolution=request.resolution, unit=request.unit)
    sigma = calibrated_sigma(request.budget, l2_sensitivity=moved.l2, touched=n - 1, rule=rule)
    return {"n_users": n, "noise": GaussianNoise(sigma=sigma), "rule": rule}


def draft_sketch(request: PlanRequest) -> dict[str, object]:
    """Return what only a plan of sketches says: its projection, and noise calibrated to it."""
    kind = Sketching.of(request.mechanism)
    k, blocks, vocabulary = request.k, request.blocks, request.vocabulary
    grid_bits = None
    if kind.family == "gaussian":
        family_named(kind.family).check(k, blocks, grid_bits=MAX_GRID_BITS)
        grid_bits = _grid_bits(request, kind)
    matrix = Projection(kind.family, k, blocks, public_seed(request.seed), grid_bits, request.stream)
    row = sensitivity(matrix, vocabulary)
    moved = row.times(request.steps)
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
        stream=None if matrix.stream == 1 else matrix.stream,
        l1=row.l1,
        l2_squared=row.l2_squared,
    )
    blend = default_blend(kind.family, bits=request.resolution == 1) if request.blend is None else request.blend
    rule = request.rule if kind.law == "gaussian" else None
    return {"projection": projection, "noise": noise, "rule": rule, "blend": blend}


def draft_directions(request: PlanRequest) -> dict[str, object]:
    """Return what only a plan of directions says: which they are, and noise calibrated to their longest row."""
    directions, law = request.directions, request.mechanism.split("+")[1]
    assert directions is not None  # noqa: S101 - as the request has checked
    part = DirectionsPart.of(directions, request.unit)
    moved = part.moved.times(request.resolution)
    noise: LaplaceNoise | GaussianNoise
    if law == "laplace":
        noise = LaplaceNoise(l1_sensitivity=moved.l1)
    else:
        sigma = calibrated_sigma(request.budget, l2_sensitivity=moved.l2, touched=part.count, rule=request.rule)
        noise = GaussianNoise(sigma=sigma)
    spread = math.sqrt(noise.table(request.budget).variance)
    most = _ATTRIBUTES_ALONG * request.resolution * math.isqrt(part.l2_squared)
    dtype = request.dtype or ("int16" if NOISE_ROOM * spread + most < 2**15 else "int32")
    return {"directions": part, "noise": noise, "rule": request.rule if law == "gaussian" else None, "dtype": dtype}


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
        If a rule's precondition fails, no table can hold so much noise, or δ is below what a table can certify.
    """
    sigma = (
        _least_sigma(budget, l2_sensitivity, touched, rule)
        if rule != "lemma2"
        else math.nextafter(
            gaussian_scale(budget, l2_sensitivity=row_norm, rule=rule, k=k, n_attributes=n_attributes)
            * l2_sensitivity
            / row_norm,
            math.inf,
        )
    )
    check_size(sigma)
    return sigma


def _least_sigma(budget: Budget, l2_sensitivity: float, touched: int, rule: Rule) -> float:
    sigma = gaussian_scale(budget, l2_sensitivity=l2_sensitivity, rule=rule)
    if rule != "exact":
        return sigma  # leaves more δ over than sampling takes, or is refused by the plan's own check
    # The exact rule spends all of δ, so what sampling will take is set aside first.
    allowance = sampling_allowance(1.01 * sigma, epsilon=budget.epsilon, touched=touched)
    if allowance > 0.005:
        raise ParameterError(
            f"epsilon must be smaller for Gaussian noise here, got {budget.epsilon!r}: 128-bit noise tables cannot "
            "certify any delta below 1/2 at it, and next to no noise would be added. Use a smaller epsilon."
        )
    if allowance > budget.delta / 100:
        raise ParameterError(
            f"delta must be at least {100 * allowance:.2g} at epsilon {budget.epsilon!r}, got {budget.delta!r}: "
            "128-bit noise tables cannot certify less. Use another delta or epsilon, or Laplace noise: it needs none."
        )
    claim = budget.rounded_down
    return gaussian_scale(Budget(claim.epsilon, claim.delta - allowance), l2_sensitivity=l2_sensitivity)


def _grid_bits(request: PlanRequest, kind: Sketching) -> int:
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
    dtype = request.dtype or "int16"
    bits = math.floor(math.log2(_LARGEST_GRID_SIGMA[dtype] / (spread * request.steps)))
    if bits < max(1, math.ceil(math.log2(k) / 2)):
        advice = "dtype='int32'" if dtype == "int16" else "a smaller k, or a larger epsilon"
        raise ParameterError(
            f"dtype must leave gaussian entries at least one step of their grid, got {dtype!r}, in which the "
            f"noise of this budget leaves none at k = {k}. Use {advice}."
        )
    return min(bits, _FINEST_GRID)
