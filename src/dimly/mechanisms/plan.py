"""The plan: everything that is decided before any data is touched; public, frozen, with a digest to sign."""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal, Self

import numpy as np
from pydantic import BaseModel, Field, ValidationError, model_validator

from dimly.errors import ParameterError
from dimly.mechanisms import drafts
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.deviations import DENSE_FAMILIES, Chebyshev, DeviationBound, Hoeffding, NormalTail, TheoremTwo
from dimly.mechanisms.error_models import ErrorModel, FlippedBitsError, Noise, NoisyDistanceError
from dimly.mechanisms.mechanism import (
    MECHANISMS,
    NOISY_DISTANCES,
    RANDOMIZED_RESPONSE,
    default_blend,
    sketch_error,
    sketching,
)
from dimly.mechanisms.plan_parts import (
    STRICT,
    FlipNoise,
    GaussianNoise,
    LaplaceNoise,
    NoiseSpec,
    ProjectionPart,
    VocabularyPart,
)
from dimly.mechanisms.projection import Sensitivity
from dimly.mechanisms.rows import Rows
from dimly.mechanisms.tables import NoiseTable
from dimly.privacy import RULES, UNITS, VALUES_MOVED, Budget, Cost, Rule, Unit

MAX_RESOLUTION = 1 << 16


class Plan(BaseModel):
    """A release as it will be made, before any data is touched. Make one with :meth:`of`.

    Public and frozen; :attr:`digest` is what gets signed. A plan whose noise cannot be proven to keep its budget
    cannot exist: the proof runs whenever a plan is made or read.

    Examples
    --------
    >>> plan = Plan.of("counting+laplace", Budget(1.0), k=64, seed=bytes(32))
    >>> Plan.from_json(plan.to_json()) == plan
    True
    >>> round(float(plan.error.distance()(400.0)) ** 0.5)  # standard error at squared distance 400
    84
    """

    model_config = STRICT

    format: Literal[1] = 1
    mechanism: str
    budget: Budget
    unit: Unit = "attribute"
    rule: Rule | None = None
    """Which rule chose sigma; None unless the noise is Gaussian."""
    projection: ProjectionPart | None = None
    noise: NoiseSpec
    resolution: int = Field(default=1, ge=1, le=MAX_RESOLUTION)
    """Values in [0, 1] are published in steps of 1/resolution; 1 means bits."""
    vocabulary: VocabularyPart | None = None
    """The closed list of attributes; None: any attribute, now and later."""
    n_users: int | None = Field(default=None, ge=2)
    """Largest number of people; noisy distances only."""
    dtype: Literal["int16", "int32", "bit"] = "int16"
    """Type of a published coordinate; larger values saturate."""
    blend: float | None = Field(default=None, ge=0, le=1)
    """Counting only: how far the analyst trusts sums of sketches against their squared norms."""

    @classmethod
    def of(
        cls,
        mechanism: str,
        budget: Budget,
        *,
        k: int | None = None,
        blocks: int = 1,
        n_attributes: int | None = None,
        vocabulary: Iterable[object] | None = None,
        n_users: int | None = None,
        resolution: int = 1,
        unit: Unit = "attribute",
        rule: Rule = "exact",
        dtype: Literal["int16", "int32"] = "int16",
        seed: bytes | str | None = None,
    ) -> Self:
        """Return a plan that keeps ``budget``, with its noise calibrated and proven.

        Parameters
        ----------
        mechanism : str
            ``family+noise``, ``randomized-response`` or ``noisy-distances``; see
            :data:`~dimly.mechanisms.MECHANISMS`.
        budget : Budget
            What one unit of one person may cost. δ > 0 is needed by Gaussian noise, and not used by the others.
        k : int
            Dimension of a sketch; required by sketches only. :func:`~dimly.mechanisms.best_k` suggests one.
        blocks : int, default=1
            Entries per attribute (s) of ``sparse`` and ``dasgupta``.
        n_attributes : int, optional
            Closes the vocabulary to the attributes "0" … "n_attributes − 1".
        vocabulary : iterable of attributes, optional
            Closes the vocabulary to this public list. Never the attributes that occur in the data.
        n_users : int
            Largest number of people; required by ``noisy-distances`` only.
        resolution : int, default=1
            1 for bits; R for values in [0, 1] in steps of 1/R.
        unit : {"attribute", "column"}, default="attribute"
            "column" where a categorical column is spread over bits ``column=value``.
        rule : {"exact", "lemma1", "theorem1", "lemma2"}, default="exact"
            How Gaussian noise is calibrated.
        dtype : {"int16", "int32"}, default="int16"
            Published type of sketches and distances; randomized response publishes bits.
        seed : 32 bytes or 64 hexadecimal digits, optional
            Public seed of the projection; fresh by default.

        Raises
        ------
        ParameterError
            If the plan cannot work; the text says what to do.
        """
        kind = sketching(mechanism)
        if not isinstance(budget, Budget):
            raise ParameterError(f"budget must be a Budget, got {budget!r}. Write Budget(epsilon, delta).")
        _check_choice("unit", unit, UNITS)
        _check_choice("rule", rule, RULES)
        _check_choice("dtype", dtype, ("int16", "int32"))
        _check_integer("resolution", resolution, 1, MAX_RESOLUTION)
        listed = _vocabulary(vocabulary, n_attributes)
        fields: dict[str, object] = {
            "vocabulary": listed and VocabularyPart.of(listed, numbered=vocabulary is None),
            "resolution": resolution,
            "dtype": dtype,
        }
        if mechanism != NOISY_DISTANCES:
            _check_absent("n_users", n_users, mechanism)
        if kind is None:
            _check_absent("k", k, mechanism)
            _check_absent("blocks", None if blocks == 1 else blocks, mechanism)
            _check_absent("seed", seed, mechanism)
            if listed is None:
                raise ParameterError(f"n_attributes or vocabulary must be given for {mechanism}, got neither.")
        if mechanism == RANDOMIZED_RESPONSE:
            fields |= {"noise": drafts.draft_flip(budget, unit=unit), "dtype": "bit"}
        elif mechanism == NOISY_DISTANCES:
            _check_integer("n_users", n_users, 2, 2**31)
            noise: object = drafts.draft_distances(
                budget,
                n_users=n_users or 0,
                n_attributes=len(listed or ()),
                resolution=resolution,
                unit=unit,
                rule=rule,
                dtype=dtype,
            )
            fields |= {"noise": noise, "n_users": n_users, "rule": rule}
        elif kind is not None:
            if k is None:
                raise ParameterError(
                    f"k must be given for {mechanism}, got None. best_k suggests one for a squared distance."
                )
            if rule == "lemma2" and mechanism != "gaussian+gaussian":
                raise ParameterError(
                    f"rule must be exact, lemma1 or theorem1 for {mechanism}, got 'lemma2', "
                    "which is about gaussian projections with Gaussian noise."
                )
            draft = drafts.draft_sketch(
                kind,
                budget,
                k=k,
                blocks=blocks,
                vocabulary=listed,
                resolution=resolution,
                unit=unit,
                rule=rule,
                dtype=dtype,
                seed=seed,
            )
            fields |= draft._asdict()
            fields["rule"] = rule if kind.law == "gaussian" else None
            fields["blend"] = default_blend(kind.family, bits=resolution == 1)
        return cls._validated({"mechanism": mechanism, "budget": budget, "unit": unit, **fields})

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a plan, and prove it again.

        Raises
        ------
        ParameterError
            Naming the field that is missing, unknown or does not fit the others.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise _as_parameter_error(error) from None

    def to_json(self) -> str:
        """Return the plan as indented JSON; fields that do not apply are left out."""
        return json.dumps(self._fields(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's JSON with sorted keys and no spaces, in hexadecimal.

        Fields that do not apply are left out, so that a later version with more fields gives an old plan its
        old digest.
        """
        canonical = json.dumps(self._fields(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def n_attributes(self) -> int | None:
        """Size of the vocabulary; None where it is open."""
        return None if self.vocabulary is None else self.vocabulary.size

    @property
    def sensitivity(self) -> Sensitivity:
        """Farthest that one unit of privacy can move the published integers before noise."""
        moved = VALUES_MOVED[self.unit]
        if self.projection is not None:
            row = Sensitivity(self.projection.l1, self.projection.l2_squared)
            return drafts.unit_sensitivity(row, moved * self.resolution)
        if self.n_users is not None:
            return drafts.distance_sensitivity(self.n_users, resolution=self.resolution, unit=self.unit)
        return Sensitivity(moved, moved)

    @property
    def touched(self) -> int:
        """How many published numbers one unit of privacy can move."""
        if self.projection is not None:
            part = self.projection
            return drafts.touched(part.family, k=part.k, blocks=part.blocks, unit=self.unit)
        return VALUES_MOVED[self.unit] if self.n_users is None else self.n_users - 1

    @property
    def table(self) -> NoiseTable:
        """The table that the noise is drawn from."""
        if isinstance(self.noise, FlipNoise):
            raise ParameterError("randomized response flips bits and has no noise table. Use plan.noise.flip.")
        return self.noise.table(self.budget)

    @property
    def scale(self) -> float:
        """What one published integer step is in the data's units (of squared distance for noisy distances)."""
        if self.projection is not None:
            return self.projection.matrix.scale / self.resolution
        return 1.0 / self.resolution**2

    @property
    def cost(self) -> Cost:
        """What one release by this plan spends."""
        if not isinstance(self.noise, GaussianNoise):
            return Cost(self.budget.epsilon, unit=self.unit)
        multiplier = math.nextafter(self.noise.sigma / self.sensitivity.l2, 0.0)
        distance = self.noise.table(self.budget).sampling_distance * self.touched
        return Cost(
            self.budget.epsilon,
            self.budget.delta,
            noise_multiplier=multiplier,
            sampling_distance=math.nextafter(distance, math.inf),
            unit=self.unit,
        )

    @property
    def bytes_per_user(self) -> float:
        """Published bytes for one person, before compression; for noisy distances on average at n_users."""
        if self.dtype == "bit":
            return math.ceil((self.n_attributes or 0) / 8)
        width = np.dtype(self.dtype).itemsize
        if self.projection is not None:
            return self.projection.k * width
        return ((self.n_users or 1) - 1) / 2 * width

    @cached_property
    def error(self) -> ErrorModel:
        """Variances of what an analyst estimates, with the moments of the table that is sampled."""
        bits = self.resolution == 1
        if isinstance(self.noise, FlipNoise):
            return FlippedBitsError(self.n_attributes or 0, self.noise.probability)
        noise = Noise(self.table.variance * self.scale**2, self.table.fourth_moment * self.scale**4)
        if self.projection is None:
            return NoisyDistanceError(noise)
        part = self.projection
        return sketch_error(part.family, k=part.k, blocks=part.blocks, noise=noise, bits=bits, blend=self.blend)

    @cached_property
    def bounds(self) -> tuple[DeviationBound, ...]:
        """Proven deviation bounds; the smallest applies."""
        bounds: list[DeviationBound] = [Chebyshev(self.error)]
        if isinstance(self.noise, FlipNoise):
            bounds.append(Hoeffding(self.n_attributes or 0, self.noise.probability))
        elif isinstance(self.noise, GaussianNoise) and self.projection is None:
            bounds.append(NormalTail(self.noise.sigma * self.scale, self.scale))
        elif isinstance(self.noise, GaussianNoise) and self.projection and self.projection.family in DENSE_FAMILIES:
            theorem = TheoremTwo(
                self.projection.k,
                self.noise.sigma * self.scale,
                self.table.variance * self.scale**2,
                self.scale,
                grid_bits=self.projection.grid_bits,
                n_attributes=None if self.resolution == 1 else self.n_attributes,
            )
            bounds.append(theorem)
        return tuple(bounds)

    def rows(self, attributes: Sequence[str]) -> Rows:
        """Return rows of the projection, none of which moves a sketch farther than the plan says.

        Raises
        ------
        ParameterError
            If one does: the attribute is not of the plan's vocabulary, or the plan was edited.
        """
        if self.projection is None:
            raise ParameterError(f"mechanism must be one that sketches to have rows, got {self.mechanism!r}.")
        rows = self.projection.matrix.rows(attributes)
        if not self.projection.matrix.record.open_vocabulary and (
            rows.l1 > self.projection.l1 or rows.l2_squared > self.projection.l2_squared
        ):
            raise ParameterError("attributes must be of the plan's vocabulary: a row exceeds its sensitivity.")
        return rows

    @classmethod
    def _validated(cls, fields: dict[str, object]) -> Self:
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise _as_parameter_error(error) from None

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse parts that do not fit each other, then prove the noise."""
        if self.mechanism not in MECHANISMS:
            raise ParameterError(f"mechanism must be one of {', '.join(MECHANISMS)}, got {self.mechanism!r}.")
        kind = sketching(self.mechanism)
        law = {None: "rounded-gaussian", "laplace": "discrete-laplace", "gaussian": "rounded-gaussian"}[
            kind and kind.law
        ]
        if self.mechanism == RANDOMIZED_RESPONSE:
            law = "bit-flip"
        expected: dict[str, tuple[object, object]] = {
            "projection.family": (self.projection and self.projection.family, kind and kind.family),
            "noise.law": (self.noise.law, law),
            "rule": (self.rule is not None, law == "rounded-gaussian"),
            "n_users": (self.n_users is not None, self.mechanism == NOISY_DISTANCES),
            "dtype": (self.dtype == "bit", self.mechanism == RANDOMIZED_RESPONSE),
            "blend": (self.blend is not None, bool(kind and kind.family == "counting")),
        }
        for name, (actual, wanted) in expected.items():
            if actual != wanted:
                raise ParameterError(f"{name} must fit mechanism {self.mechanism!r}, and does not.")
        open_vocabulary = self.projection is not None and self.projection.matrix.record.open_vocabulary
        if self.vocabulary is None and not open_vocabulary:
            raise ParameterError(f"vocabulary must be given for mechanism {self.mechanism!r}, got none.")
        if self.resolution != 1 and (self.mechanism == RANDOMIZED_RESPONSE or self.blend):
            what = "randomized-response" if self.mechanism == RANDOMIZED_RESPONSE else "a blend above 0"
            raise ParameterError(f"resolution must be 1 for {what}, which is about bits, got {self.resolution}.")
        if isinstance(self.noise, FlipNoise):
            self.noise.check(self.budget, bits_moved=VALUES_MOVED[self.unit])
        elif isinstance(self.noise, LaplaceNoise):
            self.noise.check(self.budget, self.sensitivity)
        else:
            self.noise.check(self.budget, self.sensitivity, touched=self.touched)
        return self

    def _fields(self) -> dict[str, object]:
        return self.model_dump(mode="json", exclude_none=True)


def _vocabulary(attributes: Iterable[object] | None, n_attributes: int | None) -> Vocabulary | None:
    if n_attributes is not None:
        _check_integer("n_attributes", n_attributes, 1, 2**31)
    if attributes is None:
        return None if n_attributes is None else Vocabulary.numbered(n_attributes)
    listed = attributes if isinstance(attributes, Vocabulary) else Vocabulary.listed(attributes)
    if n_attributes not in (None, len(listed)):
        raise ParameterError(
            f"n_attributes must be the length of vocabulary, {len(listed)}, got {n_attributes}. Leave it out."
        )
    return listed


def _check_absent(name: str, value: object, mechanism: str) -> None:
    if value is not None:
        raise ParameterError(f"{name} must be left out for {mechanism}, got {value!r}.")


def _check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ParameterError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")


def _check_integer(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise ParameterError(f"{name} must be an integer from {low} to {high}, got {value!r}.")


def _as_parameter_error(error: ValidationError) -> ParameterError:
    """Return the first complaint in one line that names the field."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return ParameterError(f"plan: {message}" if not field else f"plan field {field!r}: {message}")
