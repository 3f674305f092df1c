"""What differs between plans: SketchPlan, DirectionsPlan, ResponsePlan (bits), DistancePlan.

What differs between them is answered here and nowhere else; nobody asks which fields a plan lacks.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, final

import numpy as np

from dimly.errors import ParameterError
from dimly.mechanisms import make
from dimly.mechanisms.error.bounds import DENSE_FAMILIES, DeviationBound, Hoeffding, NormalTail, TheoremTwo
from dimly.mechanisms.error.models import (
    CountingError,
    DirectionsError,
    FlippedBitsError,
    NoisyDistanceError,
    SignedSketchError,
    sketch_error,
)
from dimly.mechanisms.make import (
    DIRECTED,
    NOISY_DISTANCES,
    RANDOMIZED_RESPONSE,
    SKETCHING,
)
from dimly.mechanisms.plan import ALONG, Plan
from dimly.mechanisms.plan_parts import (
    DirectionsPart,
    FlipNoise,
    GaussianNoise,
    LaplaceNoise,
    ProjectionPart,
    VocabularyPart,
)
from dimly.mechanisms.projection.directions import WEIGHTED, Directions, Kind
from dimly.mechanisms.projection.random_matrix import Projection, Sensitivity, sensitivity
from dimly.mechanisms.projection.rows import DenseRows, IntArray, Rows
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import VALUES_MOVED

_LAWS = {"laplace": "discrete-laplace", "gaussian": "rounded-gaussian"}
"""What the noise of a mechanism is called in its plan."""
# Entries of P whose norms are taken whenever a plan is read: about a quarter of a second.
_PROVEN_WHEN_READ = 1 << 22


@final
class SketchPlan(Plan, mechanisms=SKETCHING):
    """Sketches: k numbers a person, X·P with noise on each (the paper's Algorithm 1, and the families since)."""

    if TYPE_CHECKING:  # as _check_parts has made sure
        projection: ProjectionPart
        noise: LaplaceNoise | GaussianNoise
        dtype: Literal["int16", "int32"]

    _draft = staticmethod(make.draft_sketch)
    by_position: ClassVar[bool] = False  # their texts say their rows
    adds_rows: ClassVar[bool] = True

    @cached_property
    def _projected(self) -> Projection:
        """P itself, by its seed."""
        return self.projection.matrix

    @cached_property
    def k(self) -> int:
        """Dimension of a sketch."""
        return self.projection.k

    @cached_property
    def open_vocabulary(self) -> bool:
        """Whether every possible row of P has the same norms."""
        return self._projected.record.open_vocabulary

    @cached_property
    def is_realized(self) -> bool:
        """Whether rows of P differ in norm."""
        return not self.open_vocabulary

    @cached_property
    def ships_rows(self) -> bool:
        """Whether a release holds P: readers with another library may round a normal deviate differently."""
        return self.projection.family == "gaussian"

    @cached_property
    def drawn_from(self) -> tuple[object, ...]:
        """What P is derived from; another k, or version of the streams, makes another P of the same seed."""
        part = self.projection
        return part.family, part.k, part.blocks, part.seed, part.stream or 1

    @cached_property
    def row_bytes(self) -> int:
        """What a row of P takes in memory, at most."""
        return self._projected.record.row_bytes(self.k, blocks=self.projection.blocks)

    @cached_property
    def longest_row(self) -> Sensitivity:
        """Norms that no row of P exceeds."""
        return Sensitivity(self.projection.l1, self.projection.l2_squared)

    @cached_property
    def entries(self) -> int:
        """How many coordinates of a sketch one attribute can move."""
        return self._projected.entries

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Farthest that one unit of privacy can move a sketch before noise."""
        return self.longest_row.times(VALUES_MOVED[self.unit] * self.resolution)

    @cached_property
    def touched(self) -> int:
        """How many numbers of a sketch one unit of privacy can move."""
        return min(self.k, VALUES_MOVED[self.unit] * self.entries)

    @cached_property
    def scale(self) -> float:
        """What one integer step of a sketch is in the data's units."""
        return self._projected.scale / self.resolution

    @cached_property
    def error(self) -> SignedSketchError | CountingError:
        """Variances of what an analyst estimates, with the moments of the table that is sampled."""
        part, bits = self.projection, self.resolution == 1
        return sketch_error(part.family, k=part.k, blocks=part.blocks, noise=self._noise, bits=bits, blend=self.blend)

    def published_shape(self, n_users: int) -> tuple[int, int]:
        """Return (n_users, k)."""
        return n_users, self.k

    @cached_property
    def per_person(self) -> str:
        """What is published of one person, in words."""
        return f"{self.k:,}, {self.dtype}"

    def rows(self, attributes: Sequence[str]) -> Rows:
        """Return rows of the projection, none of which moves a sketch farther than the plan says.

        Raises
        ------
        ParameterError
            If one does: the attribute is not of the plan's vocabulary, or the plan was edited.
        """
        rows, part = self._projected.rows(attributes), self.projection
        if self.is_realized and (rows.l1 > part.l1 or rows.l2_squared > part.l2_squared):
            raise ParameterError("attributes must be of the plan's vocabulary: a row exceeds its sensitivity.")
        return rows

    def _theorems(self) -> tuple[DeviationBound, ...]:
        if not isinstance(self.noise, GaussianNoise) or self.projection.family not in DENSE_FAMILIES:
            return ()
        theorem = TheoremTwo(
            self.k,
            self.noise.sigma * self.scale,
            self.table.variance * self.scale**2,
            self.scale,
            grid_bits=self.projection.grid_bits,
            n_attributes=None if self.resolution == 1 else self.n_attributes,
        )
        return (theorem,)

    def _expected(self) -> dict[str, object]:
        family, law = self.mechanism.split("+")
        return {"projection.family": family, "noise.law": _LAWS[law], "blend": family == "counting"}

    def _prove(self) -> None:
        part, vocabulary = self.projection, self.vocabulary
        if self.resolution != 1 and self.blend:
            raise ParameterError(
                f"resolution must be 1 for a blend above 0, which is about bits, got {self.resolution}."
            )
        part.check()
        if vocabulary is not None and vocabulary.sha256 is None and self.entries * vocabulary.size <= _PROVEN_WHEN_READ:
            self._check_sensitivity(vocabulary.matching(None))
        self.noise.check(self.budget, self.sensitivity, touched=self.touched)
        if self.rule is not None:
            row_norm = self.longest_row.l2 * self._projected.scale
            self._check_rule(k=part.k, n_attributes=self.n_attributes, row_norm=row_norm)
        self._check_room()

    def _check_sensitivity(self, vocabulary: Vocabulary) -> None:
        """Refuse a plan that states less sensitivity than the longest row of its vocabulary has."""
        part = self.projection
        if not self.is_realized:  # then it was recomputed from family and size
            return
        longest = sensitivity(self._projected, vocabulary)
        if part.l1 < longest.l1 or part.l2_squared < longest.l2_squared:
            raise ParameterError(
                f"projection.l1 and projection.l2_squared must be at least {longest.l1} and {longest.l2_squared} for "
                f"this seed and vocabulary, got {part.l1} and {part.l2_squared}. The plan was changed: make it again."
            )


@final
class DirectionsPlan(Plan, mechanisms=DIRECTED):
    """Sketches along public directions: the sum of the rows of a person's attributes, with noise on each number.

    The plan names its directions by digest and states their norms, for which its noise is proven. The directions
    themselves come with :meth:`along`, which checks both.
    """

    if TYPE_CHECKING:
        directions: DirectionsPart
        noise: LaplaceNoise | GaussianNoise
        dtype: Literal["int16", "int32"]

    _draft = staticmethod(make.draft_directions)
    measures_attributes: ClassVar[bool] = False  # what has no part in the directions does not count
    by_position: ClassVar[bool] = False

    def along(self, directions: Directions | None) -> Self:
        """Return the plan with its directions; see :meth:`Plan.along`."""
        if directions is None:
            _ = self.matrix  # which refuses where there are none
            return self
        self.directions.check(directions, self.unit)
        other = super().model_copy(update={"mechanism": self.mechanism})  # proven again, and a plan of its own
        other.__dict__[ALONG] = directions
        return other

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, proven again if anything changed; it has the same directions, if they are still its own."""
        changed, held = super().model_copy(update=update, deep=deep), self.__dict__.get(ALONG)
        if held is None or not update:
            return changed
        return changed.along(held)

    @property
    def matrix(self) -> Directions:
        """The directions themselves.

        Raises
        ------
        ParameterError
            If the plan was read from JSON, which holds only their digest, and they were not given since.
        """
        held: Directions | None = self.__dict__.get(ALONG)
        if held is None:
            raise ParameterError(
                f"directions must be given: the plan holds only their digest, sha256 {self.directions.sha256[:12]}…. "
                "Add directions=FILE (--directions FILE)."
            )
        return held

    @cached_property
    def protected(self) -> str:
        """A category, where attributes stand for one: it counts once, whichever of them a person has."""
        return "category" if self.directions.kind == "categories" and self.unit == "attribute" else self.unit

    @cached_property
    def measured(self) -> str:
        """What distances are: along the directions alone, and not in all attributes; of weights, Σ w²(x−y)²."""
        return self.name_of("squared distance")

    def name_of(self, quantity: str) -> str:
        """Return what to call a quantity that is not the one in all attributes."""
        return f"weighted {quantity}" if self.weighted else f"{quantity} along the directions"

    @cached_property
    def weighted(self) -> bool:
        """Whether rows are those of a random projection times a weight, so that distances are Σ w²(x−y)²."""
        return self.directions.kind in WEIGHTED

    @cached_property
    def directions_kind(self) -> Kind:
        """What its directions were made from."""
        return self.directions.kind

    def listed(self, given: Vocabulary | None) -> Vocabulary | None:
        """Return the attributes that count: those that have a row, or as many of them as are given."""
        if given is None:
            return self.matrix.vocabulary
        if not self.counts_any(given):
            raise ParameterError(
                "vocabulary must hold attributes that have a row in the directions, but none has. "
                "Leave it out: attributes without a row count for nothing anyway."
            )
        return given

    def counts_any(self, attributes: Sequence[str]) -> bool:
        """Return whether any of these attributes has a row."""
        return bool((self.matrix.codes(attributes) >= 0).any())

    @cached_property
    def k(self) -> int:
        """Number of directions."""
        return self.directions.count

    @cached_property
    def open_vocabulary(self) -> bool:
        """Whether any attribute is taken: yes, and those without a row count for nothing."""
        return True

    @cached_property
    def is_realized(self) -> bool:
        """Whether rows differ in norm."""
        return True

    @cached_property
    def row_bytes(self) -> int:
        """What a row takes in memory, at most."""
        return 2 * self.k

    @cached_property
    def longest_row(self) -> Sensitivity:
        """Norms that no row exceeds."""
        return Sensitivity(self.directions.l1, self.directions.l2_squared)

    @cached_property
    def entries(self) -> int:
        """How many coordinates of a sketch one attribute can move."""
        return self.k

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Farthest that one unit of privacy can move a sketch before noise."""
        return self.directions.moved.times(self.resolution)

    @cached_property
    def touched(self) -> int:
        """How many numbers of a sketch one unit of privacy can move."""
        return self.k

    @cached_property
    def scale(self) -> float:
        """What one integer step of a sketch is, along a direction."""
        return 1.0 / (self.directions.scale * self.resolution)

    @cached_property
    def error(self) -> DirectionsError | SignedSketchError | CountingError:
        """Variances of what an analyst estimates, with the moments of the table that is sampled."""
        family = WEIGHTED.get(self.directions.kind)
        if family is None:
            return DirectionsError(self.k, self._noise)
        # Of weighted values nobody knows the fourth powers, whose term is negative: an upper bound.
        return sketch_error(family, k=self.k, blocks=1, noise=self._noise, bits=False, blend=0.0)

    def published_shape(self, n_users: int) -> tuple[int, int]:
        """Return (n_users, k)."""
        return n_users, self.k

    @cached_property
    def per_person(self) -> str:
        """What is published of one person, in words."""
        return f"{self.k:,} along directions, {self.dtype}"

    def rows(self, attributes: Sequence[str]) -> Rows:
        """Return the rows of attributes, zero for those that have none.

        Of categories: each attribute's alone, though attributes of one category count once in a person.
        """
        matrix, codes = self.matrix.matrix, self.matrix.codes(attributes)
        rows = matrix[np.maximum(codes, 0)]
        rows[codes < 0] = 0
        return DenseRows(rows)

    def exact(self, attributes: Sequence[str], steps: IntArray) -> IntArray:
        """Return the sketch of somebody with these attributes, without noise; each category counts once."""
        if not attributes:
            return np.zeros(self.k, np.int64)
        codes, weights = self.matrix.codes(attributes), np.zeros(len(self.matrix.matrix), np.int64)
        (np.maximum if self.matrix.merges else np.add).at(weights, codes[codes >= 0], steps[codes >= 0])
        used = np.flatnonzero(weights)
        return self.matrix.rows.take(used).total(weights[used])

    def _expected(self) -> dict[str, object]:
        _, law = self.mechanism.split("+")
        return {"noise.law": _LAWS[law], "directions": True}

    def _prove(self) -> None:
        part = self.directions
        if self.vocabulary is not None:
            raise ParameterError(
                "vocabulary must be left out for directions: attributes without a row count for nothing."
            )
        for exchanged in (part.exchanged_l1, part.exchanged_l2_squared):
            if (exchanged is None) != (self.unit == "attribute"):
                raise ParameterError("directions.exchanged_l1 and exchanged_l2_squared must fit the unit.")
        if part.moved.l1 < part.l1 or part.moved.l2_squared < part.l2_squared:
            raise ParameterError("directions.exchanged_l1 and exchanged_l2_squared must not be below those of a row.")
        self.noise.check(self.budget, self.sensitivity, touched=self.touched)
        held = self.__dict__.get(ALONG)
        if held is not None:
            self.directions.check(held, self.unit)
        self._check_rule()
        self._check_room()


@final
class ResponsePlan(Plan, mechanisms=(RANDOMIZED_RESPONSE,)):
    """Randomized response: each bit of a person, flipped with one probability (the paper's Algorithm 5)."""

    if TYPE_CHECKING:
        noise: FlipNoise
        vocabulary: VocabularyPart
        dtype: Literal["bit"]

    _draft = staticmethod(make.draft_response)

    @cached_property
    def n_attributes(self) -> int:
        """Size of the vocabulary: the number of bits."""
        return self.vocabulary.size

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """How many bits one unit of privacy can change."""
        return Sensitivity(self.touched, self.touched)

    @cached_property
    def touched(self) -> int:
        """How many bits one unit of privacy can change."""
        return VALUES_MOVED[self.unit]

    @cached_property
    def scale(self) -> float:
        """What a bit is in the data's units."""
        return 1.0

    @cached_property
    def error(self) -> FlippedBitsError:
        """Variances of what an analyst estimates."""
        return FlippedBitsError(self.n_attributes, self.noise.probability)

    @cached_property
    def published_dtype(self) -> np.dtype[Any]:
        """Eight bits a number."""
        return np.dtype(np.uint8)

    def published_shape(self, n_users: int) -> tuple[int, int]:
        """Return (n_users, ⌈d/8⌉)."""
        return n_users, -(-self.n_attributes // 8)

    @cached_property
    def padding(self) -> np.uint8:
        """The bits of a person's last byte that stand for no attribute: they are zero."""
        return np.uint8(0xFF << (self.n_attributes % 8 or 8) & 0xFF)

    @cached_property
    def per_person(self) -> str:
        """What is published of one person, in words."""
        return "one bit for each attribute"

    def _theorems(self) -> tuple[DeviationBound, ...]:
        return (Hoeffding(self.n_attributes, self.noise.probability),)

    def _expected(self) -> dict[str, object]:
        return {"noise.law": "bit-flip", "dtype": True}

    def _prove(self) -> None:
        if self.resolution != 1:
            raise ParameterError(
                f"resolution must be 1 for randomized-response, which is about bits, got {self.resolution}."
            )
        self.noise.check(self.budget, self.sensitivity, touched=self.touched)


@final
class DistancePlan(Plan, mechanisms=(NOISY_DISTANCES,)):
    """Noise on the squared distances of all pairs themselves (the paper's Algorithm 3)."""

    if TYPE_CHECKING:
        noise: GaussianNoise
        vocabulary: VocabularyPart
        n_users: int
        dtype: Literal["int16", "int32"]

    _draft = staticmethod(make.draft_distances)
    places_people: ClassVar[bool] = False  # a person is published as distances to others

    @cached_property
    def n_attributes(self) -> int:
        """Size of the vocabulary."""
        return self.vocabulary.size

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Farthest that one unit of privacy can move the distances before noise."""
        return make.distance_sensitivity(self.n_users, resolution=self.resolution, unit=self.unit)

    @cached_property
    def touched(self) -> int:
        """How many distances one unit of privacy can move: those of one person."""
        return self.n_users - 1

    @cached_property
    def scale(self) -> float:
        """What one integer step is in units of squared distance."""
        return 1.0 / self.resolution**2

    @cached_property
    def error(self) -> NoisyDistanceError:
        """Variances of what an analyst estimates, with the moments of the table that is sampled."""
        return NoisyDistanceError(self._noise)

    def published_shape(self, n_users: int) -> tuple[int]:
        """Return the number of pairs."""
        return (n_users * (n_users - 1) // 2,)

    @cached_property
    def bytes_per_user(self) -> float:
        """Published bytes for one person, before compression: on average at n_users."""
        return (self.n_users - 1) / 2 * self.published_dtype.itemsize

    @cached_property
    def per_person(self) -> str:
        """What is published of one person, in words."""
        return "the distances to the people after it"

    def admits(self, n_users: int) -> bool:
        """Return whether so many people may be published: the noise is for n_users at most."""
        return n_users <= self.n_users

    def _theorems(self) -> tuple[DeviationBound, ...]:
        return (NormalTail(self.noise.sigma * self.scale, self.scale),)

    def _expected(self) -> dict[str, object]:
        return {"noise.law": "rounded-gaussian", "n_users": True}

    def _prove(self) -> None:
        self.noise.check(self.budget, self.sensitivity, touched=self.touched)
        self._check_rule()
        self._check_room(data=self.n_attributes * self.resolution**2)
