"""The plan: everything that is decided before any data is touched; public, frozen, with a digest to sign."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self, final

import numpy as np
from pydantic import BaseModel, Field, ValidationError, model_validator

from dimly.errors import ParameterError
from dimly.mechanisms import drafts
from dimly.mechanisms.deviations import DENSE_FAMILIES, Chebyshev, DeviationBound, Hoeffding, NormalTail, TheoremTwo
from dimly.mechanisms.error_models import ErrorModel, FlippedBitsError, Noise, NoisyDistanceError
from dimly.mechanisms.mechanism import NOISY_DISTANCES, RANDOMIZED_RESPONSE, sketch_error, sketching
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
from dimly.mechanisms.request import MAX_RESOLUTION, MAX_USERS, Request
from dimly.mechanisms.rows import Rows
from dimly.mechanisms.tables import NoiseTable
from dimly.privacy import VALUES_MOVED, Budget, Cost, Rule, Unit


@final
class Plan(BaseModel):
    """A release as it will be made, before any data is touched. Make one with :meth:`of`.

    Public and frozen; :attr:`digest` is what gets signed. A plan whose noise cannot be proven to keep its budget, for
    the sensitivity that it states, cannot exist: that proof runs whenever a plan is made or read. Where rows differ
    in norm (dasgupta, ternary, gaussian), :meth:`rows` proves the stated sensitivity too, before it gives any away.

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
    n_users: int | None = Field(default=None, ge=2, le=MAX_USERS)
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
        blend: float | None = None,
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
        blend : float, optional
            Counting on bits only, in [0, 1]: how far the analyst trusts sums against squared norms; 0.75 by default.
            Near pairs of heavy people want less: :meth:`~dimly.mechanisms.error_models.CountingError.best_blend`
            tells how much for public planning values.

        Raises
        ------
        ParameterError
            If the plan cannot work; the text says what to do.
        """
        request = Request.of(
            mechanism,
            budget,
            k=k,
            blocks=blocks,
            n_attributes=n_attributes,
            vocabulary=vocabulary,
            n_users=n_users,
            resolution=resolution,
            unit=unit,
            rule=rule,
            dtype=dtype,
            seed=seed,
            blend=blend,
        )
        return cls._validated(drafts.draft_fields(request))

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

    @property
    def bounds(self) -> tuple[DeviationBound, ...]:
        """Proven deviation bounds for every pair at a given squared distance; the smallest applies.

        None for counting with a blend: its error depends on the weights too. See :meth:`bounds_at`.
        """
        return self.bounds_at(None)

    def bounds_at(self, weights: tuple[float, float] | None) -> tuple[DeviationBound, ...]:
        """Return the proven deviation bounds for pairs of people with these numbers of ones."""
        bounds: list[DeviationBound] = []
        if not self.blend or weights is not None:
            bounds.append(Chebyshev(self.error, weights))
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

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, proven again if anything changed: a plan that was not checked cannot exist."""
        del deep  # everything in a plan is frozen
        return (
            self
            if not update
            else self._validated({name: getattr(self, name) for name in self.__class__.model_fields} | dict(update))
        )

    @classmethod
    def model_construct(cls, *_: Any, **__: Any) -> Self:  # type: ignore[override]  # it refuses whatever it is given
        """Refuse: a plan that was not checked cannot exist."""
        raise ParameterError("a plan must be checked. Use Plan.of or Plan.from_json.")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        raise TypeError("Plan cannot be subclassed: its proof rests on its own properties.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse parts that do not fit each other, then prove the noise."""
        self._check_parts()
        if isinstance(self.noise, FlipNoise):
            self.noise.check(self.budget, bits_moved=VALUES_MOVED[self.unit])
            return self
        if isinstance(self.noise, LaplaceNoise):
            self.noise.check(self.budget, self.sensitivity)
        else:
            self.noise.check(self.budget, self.sensitivity, touched=self.touched)
            self._check_rule(self.noise)
        farthest = 0 if self.projection is not None else (self.n_attributes or 0) * self.resolution**2
        drafts.check_room(math.sqrt(self.table.variance), self.dtype, data=farthest)
        return self

    def _check_parts(self) -> None:
        kind = sketching(self.mechanism)
        law = "bit-flip" if self.mechanism == RANDOMIZED_RESPONSE else "rounded-gaussian"
        if kind is not None and kind.law == "laplace":
            law = "discrete-laplace"
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

    def _check_rule(self, noise: GaussianNoise) -> None:
        """Refuse the name of a rule under which there would be more noise; the exact one has been proven already."""
        if self.rule is None or self.rule == "exact":
            return
        if self.rule == "lemma2" and self.mechanism != "gaussian+gaussian":
            raise ParameterError(f"rule must fit mechanism {self.mechanism!r}, and does not.")
        part = self.projection
        least = drafts.calibrated_sigma(
            self.budget,
            l2_sensitivity=self.sensitivity.l2,
            touched=self.touched,
            rule=self.rule,
            k=None if part is None else part.k,
            n_attributes=self.n_attributes,
            row_norm=1.0 if part is None else Sensitivity(part.l1, part.l2_squared).l2 * part.matrix.scale,
        )
        if noise.sigma < least * (1 - 1e-12):
            raise ParameterError(
                f"noise.sigma must be at least {least:.6g} by rule {self.rule!r}, got {noise.sigma:.6g}."
            )

    def _fields(self) -> dict[str, object]:
        return self.model_dump(mode="json", exclude_none=True)


def _as_parameter_error(error: ValidationError) -> ParameterError:
    """Return the first complaint in one line that names the field."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return ParameterError(f"plan: {message}" if not field else f"plan field {field!r}: {message}")
