"""The parts of a plan, as its JSON says them; each noise knows the table that is sampled and how to prove it."""

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dimly.errors import ParameterError
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.discrete_laplace import DiscreteLaplace
from dimly.mechanisms.families import FamilyName
from dimly.mechanisms.projection import Projection, Sensitivity
from dimly.mechanisms.randomized_response import BitFlip
from dimly.mechanisms.rounded_gaussian import RoundedGaussian
from dimly.privacy import Budget

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
"""Plans are read back exactly as they were written: no coercion, no unknown field, no NaN."""


class VocabularyPart(BaseModel):
    """A closed vocabulary: its size, and its digest unless it is "0" to "size − 1"."""

    model_config = STRICT
    size: int = Field(ge=1, le=2**31)
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")

    @classmethod
    def of(cls, vocabulary: Vocabulary, *, numbered: bool) -> Self:
        """Return what a plan says of ``vocabulary``."""
        return cls(size=len(vocabulary), sha256=None if numbered else vocabulary.digest)

    def resolve(self, attributes: Iterable[object] | None) -> Vocabulary:
        """Return the vocabulary itself, given its attributes unless they are numbers; refuse another one."""
        if attributes is None:
            if self.sha256 is not None:
                raise ParameterError("vocabulary must be given: the plan holds only the digest of its list.")
            return Vocabulary.numbered(self.size)
        vocabulary = attributes if isinstance(attributes, Vocabulary) else Vocabulary.listed(attributes)
        planned = Vocabulary.numbered(self.size).digest if self.sha256 is None else self.sha256
        if len(vocabulary) != self.size or vocabulary.digest != planned:
            raise ParameterError("vocabulary must be the list that the plan was made with: its digest differs.")
        return vocabulary


class ProjectionPart(BaseModel):
    """The projection, and how far one attribute can move an integer sketch (the paper's Definition 2)."""

    model_config = STRICT
    family: FamilyName
    k: int
    blocks: int = 1
    seed: str = Field(pattern="^[0-9a-f]{64}$")
    grid_bits: int | None = None
    l1: int = Field(ge=1, lt=2**63)
    l2_squared: int = Field(ge=1, lt=2**63)

    @model_validator(mode="after")
    def _check(self) -> Self:
        family = self.matrix.record
        fixed = family.l1(self.k, blocks=self.blocks), family.l2_squared(self.k, blocks=self.blocks)
        if fixed[0] is not None and fixed != (self.l1, self.l2_squared):
            raise ParameterError(
                f"l1 and l2_squared must be {fixed[0]} and {fixed[1]} for {self.family}, "
                f"got {self.l1} and {self.l2_squared}. Make the plan with Plan.of."
            )
        return self

    @property
    def matrix(self) -> Projection:
        """The projection that the seed stands for."""
        return Projection(self.family, self.k, self.blocks, bytes.fromhex(self.seed), self.grid_bits)


class LaplaceNoise(BaseModel):
    """Discrete Laplace with e^(−ε/l1_sensitivity) per unit step; pure."""

    model_config = STRICT
    law: Literal["discrete-laplace"] = "discrete-laplace"
    l1_sensitivity: int = Field(ge=1, lt=2**63)

    def table(self, budget: Budget) -> DiscreteLaplace:
        """Return the table that is sampled; it cannot be made without its proof."""
        return DiscreteLaplace.of(budget, l1_sensitivity=self.l1_sensitivity)

    def check(self, budget: Budget, sensitivity: Sensitivity) -> None:
        """Prove that one unit costs at most ``budget.epsilon``, or refuse."""
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

    def check(self, budget: Budget, *, bits_moved: int) -> None:
        """Prove that one unit costs at most ``budget.epsilon``, or refuse."""
        self.flip.check(budget, bits_moved=bits_moved)


NoiseSpec = Annotated[LaplaceNoise | GaussianNoise | FlipNoise, Field(discriminator="law")]
