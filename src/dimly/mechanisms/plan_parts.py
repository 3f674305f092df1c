"""The parts of a plan's JSON: vocabulary, projection, directions, noise; strict reading of JSON."""

import json
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, Literal, NoReturn, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dimly.errors import ParameterError
from dimly.mechanisms.noise.gaussian import RoundedGaussian
from dimly.mechanisms.noise.laplace import DiscreteLaplace
from dimly.mechanisms.noise.tables import BitFlip
from dimly.mechanisms.projection.directions import MAX_COUNT, MAX_ENTRIES, MAX_SCALE, Directions, Kind
from dimly.mechanisms.projection.random_matrix import FamilyName, Projection, Sensitivity
from dimly.mechanisms.projection.streams import StreamVersion
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import Budget, Unit

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)
"""Plans are read back exactly as they were written: no coercion, no unknown field, no NaN."""


class AmbiguousJSONError(ValueError):
    """JSON that two readers may understand differently, or that is none; the text continues "the file …"."""


def read_json(text: str | bytes) -> dict[str, Any]:
    """Return the fields of a JSON object that has one meaning to every reader: what was signed is what is read.

    Raises
    ------
    AmbiguousJSONError
        If a field comes twice, or a number is none or too large for any reader; also where it is not JSON.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode()  # json would take UTF-16, too
        fields = json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_constant, parse_float=_finite)
        if not isinstance(fields, dict):
            raise AmbiguousJSONError("must be a JSON object")
        json.dumps(fields, ensure_ascii=False).encode()  # half of a character cannot be written again
    except AmbiguousJSONError:
        raise
    except (ValueError, RecursionError):
        raise AmbiguousJSONError("must be JSON in UTF-8") from None
    return fields


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise AmbiguousJSONError("must name each field once")
    return fields


def _no_constant(name: str) -> None:
    raise AmbiguousJSONError(f"must not hold {name}")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise AmbiguousJSONError("must hold numbers below 1.8e308 only")
    return number


class VocabularyPart(BaseModel):
    """A closed vocabulary: its size, and its digest unless it is "0" to "size − 1"."""

    model_config = STRICT
    size: int = Field(ge=1, le=2**31)
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")

    @classmethod
    def of(cls, vocabulary: Vocabulary, *, numbered: bool) -> Self:
        """Return what a plan says of ``vocabulary``."""
        return cls(size=len(vocabulary), sha256=None if numbered else vocabulary.digest)

    def matching(self, attributes: Iterable[object] | None) -> Vocabulary:
        """Return the vocabulary itself, given its attributes unless they are numbers; refuse another one.

        To publish, call :meth:`Plan.vocabulary_of`, which proves the plan's sensitivity over the vocabulary, too.
        """
        if attributes is None:
            if self.sha256 is not None:
                raise ParameterError(
                    "vocabulary must be given: the plan holds only the digest of its list. Add vocabulary=FILE "
                    "(--vocabulary FILE), the list that it was made with."
                )
            return Vocabulary.numbered(self.size)
        vocabulary = attributes if isinstance(attributes, Vocabulary) else Vocabulary.listed(attributes)
        if len(vocabulary) == self.size:
            if self.sha256 is None:  # whose digest is taken only if it must be: a plan may state billions of numbers
                same = vocabulary.is_numbered or vocabulary == Vocabulary.numbered(self.size)
            else:
                same = vocabulary.digest == self.sha256
            if same:
                return vocabulary
        raise ParameterError(
            "vocabulary must be the list that the plan was made with: its digest differs. Give that list, or make a "
            "plan with this one."
        )


class ProjectionPart(BaseModel):
    """The projection, and how far one attribute can move an integer sketch (the paper's Definition 2)."""

    # What was copied with other fields has not been checked: a plan reads each part anew.
    model_config = STRICT | ConfigDict(revalidate_instances="always")
    family: FamilyName
    k: int
    blocks: int = 1
    seed: str = Field(pattern="^[0-9a-f]{64}$")
    grid_bits: int | None = None
    stream: Literal[2] | None = None
    """Version of the streams that rows are made of; plans of version 1 do not say it, and keep their digests."""
    l1: int = Field(ge=1, lt=2**63)
    l2_squared: int = Field(ge=1, lt=2**63)

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check()
        return self

    def check(self) -> None:
        """Refuse other norms than all rows of the family have, where all have the same."""
        norm = self.matrix.record.norm(self.k, blocks=self.blocks)
        if norm is not None and (norm, norm) != (self.l1, self.l2_squared):
            raise ParameterError(
                f"l1 and l2_squared must be {norm} and {norm} for {self.family}, "
                f"got {self.l1} and {self.l2_squared}. Make the plan with Plan.of."
            )

    @property
    def matrix(self) -> Projection:
        """The projection that the seed stands for; the same one each time."""
        return _projection(self.family, (self.k, self.blocks), self.seed, self.grid_bits, self.stream or 1)


@lru_cache(maxsize=64)
def _projection(
    family: FamilyName, size: tuple[int, int], seed: str, grid_bits: int | None, stream: StreamVersion
) -> Projection:
    return Projection(family, *size, bytes.fromhex(seed), grid_bits, stream)


class DirectionsPart(BaseModel):
    """Public directions by their digest, and how far one attribute can move an integer sketch along them."""

    model_config = STRICT
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    kind: Kind
    count: int = Field(ge=1, le=MAX_COUNT)
    scale: int = Field(ge=1, le=MAX_SCALE)
    """What an integer of 1 is: 1/scale."""
    size: int = Field(ge=1, le=MAX_ENTRIES)
    """How many attributes they list, or buckets they have."""
    buckets: bool = False
    """Whether attributes find their rows by a hash; else by a list."""
    l1: int = Field(ge=1, lt=2**63)
    l2_squared: int = Field(ge=1, lt=2**63)
    exchanged_l1: int | None = Field(default=None, ge=1, lt=2**63)
    """Norms of the largest difference of any two rows, the zero row included; where the unit is a column."""
    exchanged_l2_squared: int | None = Field(default=None, ge=1, lt=2**63)

    @classmethod
    def of(cls, directions: Directions, unit: Unit) -> Self:
        """Return what a plan says of ``directions``."""
        row, exchanged = directions.sensitivity, directions.difference if unit == "column" else None
        return cls(
            sha256=directions.digest,
            kind=directions.kind,
            count=directions.count,
            scale=directions.scale,
            size=directions.size,
            buckets=directions.buckets is not None,
            l1=row.l1,
            l2_squared=row.l2_squared,
            exchanged_l1=None if exchanged is None else exchanged.l1,
            exchanged_l2_squared=None if exchanged is None else exchanged.l2_squared,
        )

    @property
    def moved(self) -> Sensitivity:
        """How far one unit can move an integer sketch, by one step of resolution."""
        return Sensitivity(self.exchanged_l1 or self.l1, self.exchanged_l2_squared or self.l2_squared)

    def check(self, directions: object, unit: Unit) -> None:
        """Refuse directions that are not these, or move a sketch farther than is said here."""
        if not isinstance(directions, Directions):
            raise ParameterError(
                f"directions must be Directions or their file, got {type(directions).__name__}. "
                "Make them by dimly directions."
            )
        if directions.digest != self.sha256:
            raise ParameterError(
                f"directions must be those that the plan was made with, sha256 {self.sha256[:12]}…, "
                f"got {directions.digest[:12]}…. Give that file, or make another plan."
            )
        if self != DirectionsPart.of(directions, unit):
            raise ParameterError(
                "plan field 'directions' must say the norms and sizes that its directions have, but it does not. "
                "The plan was changed: make it again."
            )


class LaplaceNoise(BaseModel):
    """Discrete Laplace with e^(−ε/l1_sensitivity) per unit step; pure."""

    model_config = STRICT
    law: Literal["discrete-laplace"] = "discrete-laplace"
    l1_sensitivity: int = Field(ge=1, lt=2**63)

    def table(self, budget: Budget) -> DiscreteLaplace:
        """Return the table that is sampled; it cannot be made without its proof."""
        return DiscreteLaplace.of(budget, l1_sensitivity=self.l1_sensitivity)

    def check(self, budget: Budget, sensitivity: Sensitivity, *, touched: int) -> None:
        """Prove that one unit costs at most ``budget.epsilon``, or refuse."""
        del touched  # the table is exact
        if self.l1_sensitivity < sensitivity.l1:
            raise ParameterError(
                f"noise.l1_sensitivity must be at least {sensitivity.l1}, got {self.l1_sensitivity}. "
                "Make the plan with Plan.of."
            )
        self.table(budget)


class GaussianNoise(BaseModel):
    """Rounded Gaussian of standard deviation ``sigma`` in integer units."""

    model_config = STRICT
    law: Literal["rounded-gaussian"] = "rounded-gaussian"
    sigma: float = Field(ge=0.02, le=1e6)

    def table(self, budget: Budget) -> RoundedGaussian:
        """Return the table that is sampled."""
        del budget
        return RoundedGaussian.of(self.sigma)

    def check(self, budget: Budget, sensitivity: Sensitivity, *, touched: int) -> None:
        """Prove that one unit costs at most ``budget``, sampling error included, or refuse."""
        self.table(budget).check(budget, l2_sensitivity=sensitivity.l2, touched=touched)


class FlipNoise(BaseModel):
    """Each bit is flipped with ``probability``, a multiple of 2⁻⁵³; pure."""

    model_config = STRICT
    law: Literal["bit-flip"] = "bit-flip"
    probability: float = Field(gt=0, lt=0.5)

    @property
    def flip(self) -> BitFlip:
        """The flip as it is sampled."""
        return BitFlip(self.probability)

    def table(self, budget: Budget) -> NoReturn:
        """Refuse: nothing is added."""
        del budget
        raise ParameterError("randomized response flips bits and has no noise table. Use plan.noise.flip.")

    def check(self, budget: Budget, sensitivity: Sensitivity, *, touched: int) -> None:
        """Prove that one unit costs at most ``budget.epsilon``, or refuse."""
        del sensitivity  # as many bits as one unit can touch
        self.flip.check(budget, bits_moved=touched)


NoiseSpec = Annotated[LaplaceNoise | GaussianNoise | FlipNoise, Field(discriminator="law")]
