"""``Plan``, what every kind of plan shares: its JSON, digest, proof, and facts that follow from it.

What all plans share: fields, JSON, digest, and that none exists whose noise was not proven. A plan is of one of the
kinds in :mod:`dimly.mechanisms.plan_kinds`, which its mechanism names; what differs is answered by the kind.
"""

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from dimly.display import Shown
from dimly.errors import ParameterError
from dimly.mechanisms import make
from dimly.mechanisms.error.bounds import Chebyshev, DeviationBound
from dimly.mechanisms.error.models import (
    ErrorModel,
    Noise,
)
from dimly.mechanisms.group_privacy import budget_together
from dimly.mechanisms.make import (
    MAX_RESOLUTION,
    MAX_TOGETHER,
    MAX_USERS,
    SKETCHING,
    PlanRequest,
    check_mechanism,
)
from dimly.mechanisms.noise.tables import NoiseTable
from dimly.mechanisms.plan_parts import (
    STRICT,
    AmbiguousJSONError,
    DirectionsPart,
    GaussianNoise,
    NoiseSpec,
    ProjectionPart,
    VocabularyPart,
    read_json,
)
from dimly.mechanisms.projection.directions import Directions, Kind
from dimly.mechanisms.projection.random_matrix import Sensitivity
from dimly.mechanisms.projection.rows import IntArray, Rows
from dimly.mechanisms.projection.streams import StreamVersion
from dimly.mechanisms.vocabulary import Vocabulary
from dimly.privacy import Budget, Cost, Rule, Unit

ALONG: Final = "_along"
"""Where a plan keeps the directions themselves: they are no field, and no part of what makes plans equal."""
_FACTS: Final = ("together", "digest", "cost", "published_dtype", "bytes_per_user", "open_vocabulary", "is_realized")
"""What follows from the fields is found once, when the plan is proven, and from then on is read like a field."""


def _is_one(value: object) -> object:
    """Refuse true and 1.0, which Python takes for 1 and other readers do not."""
    if type(value) is not int:
        raise ParameterError("format must be the integer 1.")
    return value


class Plan(BaseModel, ABC):
    """What will be published and what it promises, decided without the private table. Make one with :meth:`of`.

    Public and frozen; :attr:`digest` is what gets signed. A plan whose noise cannot be proven to keep its budget, for
    the sensitivity that it states, cannot exist: that proof runs whenever a plan is made or read. Where rows differ
    in norm (dasgupta, ternary, gaussian), the stated sensitivity is proven over the whole vocabulary: when the plan is
    read if its attributes are numbers and few, else by :meth:`vocabulary_of`, before any noise is drawn.

    Examples
    --------
    >>> plan = Plan.of("counting+laplace", Budget(1.0), k=64, seed=bytes(32))
    >>> Plan.from_json(plan.to_json()) == plan
    True
    >>> round(float(plan.error.distance()(400.0)) ** 0.5)  # standard error at squared distance 400
    84
    """

    model_config = STRICT

    format: Annotated[Literal[1], BeforeValidator(_is_one)] = 1
    mechanism: str
    budget: Budget
    unit: Unit = "attribute"
    protect: int | None = Field(default=None, ge=2, le=MAX_TOGETHER)
    """How many units of a person the budget was divided for: a promise for any so many together follows."""
    rule: Rule | None = None
    """Which rule chose sigma; None unless the noise is Gaussian."""
    projection: ProjectionPart | None = None
    directions: DirectionsPart | None = None
    """Which public directions people are published along, by their digest; :attr:`DirectionsPlan.matrix` is they."""
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

    by_position: ClassVar[bool] = True
    """Whether an attribute is known by its position in the vocabulary, and not by its text."""
    places_people: ClassVar[bool] = True
    """Whether each person is published apart, as a point that others may be compared with."""
    measures_attributes: ClassVar[bool] = True
    """Whether distances are in all attributes; else they are along some directions alone."""
    adds_rows: ClassVar[bool] = False
    """Whether a sketch is the sum of one row for each attribute, whichever others the person has."""

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
        dtype: Literal["int16", "int32"] | None = None,
        seed: bytes | str | None = None,
        blend: float | None = None,
        directions: Directions | None = None,
        protect: int = 1,
        stream: StreamVersion | None = None,
    ) -> "Plan":
        """Return a plan that keeps ``budget``, with its noise calibrated and proven.

        Parameters
        ----------
        mechanism : str
            ``family+noise``, ``randomized-response`` or ``noisy-distances``, see
            :data:`~dimly.mechanisms.MECHANISMS`; or ``directions+laplace`` or ``directions+gaussian``.
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
        dtype : {"int16", "int32"}, optional
            Published type of sketches and distances; randomized response publishes bits. By default "int16", and along
            directions "int32" unless 4,096 of the longest rows fit beside the noise: from the plan, never the data.
        seed : 32 bytes or 64 hexadecimal digits, optional
            Public seed of the projection; fresh by default.
        blend : float, optional
            Counting on bits only, in [0, 1]: how far the analyst trusts sums against squared norms; 0.75 by default.
            Near pairs of heavy people want less: :meth:`~dimly.mechanisms.error.models.CountingError.best_blend`
            tells how much for public planning values.
        directions : Directions
            From public knowledge; required by ``directions+…`` only.
        protect : int, default=1
            The plan says what any so many units of a person cost together, too. ``budget`` is of one of them:
            :func:`~dimly.mechanisms.group_privacy.budget_for_each` divides a whole.
        stream : {1, 2}, optional
            Sketches only: by which version of ``docs/projections.md`` the rows of P follow from the seed. The newest by
            default; 1 for the P of earlier releases, and for readers that know no other.

        Raises
        ------
        ParameterError
            If the plan cannot work; the text says what to do.
        """
        request = PlanRequest.of(
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
            directions=directions,
            protect=protect,
            stream=stream,
        )
        plan: Plan = _validated(make.public_fields(request) | KINDS[mechanism]._draft(request))
        return plan if directions is None else plan.along(directions)

    @classmethod
    @abstractmethod
    def _draft(cls, request: PlanRequest) -> dict[str, object]:
        """Return the fields that only this kind has, its noise calibrated."""

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a plan, and prove it again.

        Raises
        ------
        ParameterError
            Naming the field that is missing, unknown, there twice or does not fit the others.
        """
        try:
            fields = read_json(text)
            if "mechanism" not in fields and "plan" in fields:
                raise ParameterError(
                    "plan must be a plan, got a manifest. Save its field 'plan' as a file, or make one with dimly plan."
                )
            return cls.model_validate_json(json.dumps(fields))
        except AmbiguousJSONError as error:
            is_name = isinstance(text, str) and text.endswith(".json")
            remedy = "Pass the text of the file: Path(file).read_text()" if is_name else "Make it again with dimly plan"
            raise ParameterError(f"plan {error}. {remedy}.") from None
        except ValidationError as error:
            raise _as_parameter_error(error) from None

    def to_json(self) -> str:
        """Return the plan as indented JSON; fields that do not apply are left out."""
        return json.dumps(self._fields(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the plan's JSON with sorted keys and no spaces, in hexadecimal.

        Fields that do not apply are left out, so that a later version with more fields gives an old plan its
        old digest.
        """
        canonical = json.dumps(self._fields(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    @cached_property
    def n_attributes(self) -> int | None:
        """Size of the vocabulary; None where it is open."""
        return None if self.vocabulary is None else self.vocabulary.size

    @cached_property
    def open_vocabulary(self) -> bool:
        """Whether the sensitivity is known without a list of attributes."""
        return False

    @property
    @abstractmethod
    def sensitivity(self) -> Sensitivity:
        """Farthest that one unit of privacy can move the published integers before noise."""

    @cached_property
    def is_realized(self) -> bool:
        """Whether the sensitivity is a maximum over the rows of the vocabulary, which has to be looked at."""
        return False

    @property
    @abstractmethod
    def touched(self) -> int:
        """How many published numbers one unit of privacy can move."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """What one published integer step is in the data's units (of squared distance for noisy distances)."""

    @property
    @abstractmethod
    def error(self) -> ErrorModel:
        """Variances of what an analyst estimates, with the moments of the table that is sampled."""

    @cached_property
    def k(self) -> int | None:
        """Dimension of a sketch; None where none is published."""
        return None

    @cached_property
    def entries(self) -> int:
        """How many numbers of a person one attribute can move, if each person is published apart."""
        return 1

    @cached_property
    def padding(self) -> np.uint8:
        """The bits of a person's last number that stand for nothing: they are zero."""
        return np.uint8(0)

    @cached_property
    def longest_row(self) -> Sensitivity:
        """Norms that no row of P exceeds; nothing where there is no P."""
        return Sensitivity(0, 0)

    @cached_property
    def drawn_from(self) -> tuple[object, ...]:
        """What P is derived from; nothing where there is no random P."""
        return ()

    @cached_property
    def row_bytes(self) -> int:
        """What a row of P takes in memory, at most."""
        return 1

    @cached_property
    def ships_rows(self) -> bool:
        """Whether a release holds P, because readers might not derive the same."""
        return False

    @cached_property
    def published_dtype(self) -> np.dtype[Any]:
        """NumPy's type of the published numbers."""
        return np.dtype(self.dtype)

    @abstractmethod
    def published_shape(self, n_users: int) -> tuple[int, ...]:
        """Return the shape of what is published of ``n_users`` people."""

    @property
    @abstractmethod
    def per_person(self) -> str:
        """What is published of one person, in words."""

    def admits(self, n_users: int) -> bool:
        """Return whether so many people may be published."""
        del n_users
        return True

    @cached_property
    def table(self) -> NoiseTable:
        """The table that the noise is drawn from."""
        return self.noise.table(self.budget)

    @cached_property
    def _noise(self) -> Noise:
        """Moments of the noise of one published number, in the data's units."""
        return Noise(self.table.variance * self.scale**2, self.table.fourth_moment * self.scale**4)

    @cached_property
    def protected(self) -> str:
        """What one unit of the promise is, in a word."""
        return self.unit

    @cached_property
    def measured(self) -> str:
        """What distances in a release are, in words."""
        return "squared distance"

    @property
    def matrix(self) -> Directions | None:
        """The public directions that people are published along; None where there are none."""
        return None

    @cached_property
    def directions_kind(self) -> Kind | None:
        """What its directions were made from, which may be people's data; None where there are none."""
        return None

    @cached_property
    def together(self) -> Budget | None:
        """What any ``protect`` units of a person cost together, at most; None where nothing is said of several."""
        return None if self.protect is None else budget_together(self.cost.claim, self.protect)

    @cached_property
    def cost(self) -> Cost:
        """What one release by this plan spends."""
        several = self.protect or 1
        if not isinstance(self.noise, GaussianNoise):
            return Cost(self.budget.epsilon, unit=self.unit, together=several)
        multiplier = math.nextafter(self.noise.sigma / self.sensitivity.l2, 0.0)
        distance = self.noise.table(self.budget).sampling_distance * self.touched
        return Cost(
            self.budget.epsilon,
            self.budget.delta,
            noise_multiplier=multiplier,
            sampling_distance=math.nextafter(distance, math.inf),
            unit=self.unit,
            together=several,
        )

    @cached_property
    def bytes_per_user(self) -> float:
        """Published bytes for one person, before compression; for noisy distances on average at n_users."""
        return math.prod(self.published_shape(1)) * self.published_dtype.itemsize

    @cached_property
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
        return (*bounds, *self._theorems())

    def _theorems(self) -> tuple[DeviationBound, ...]:
        """Return the bounds that were proven for this kind of plan."""
        return ()

    def vocabulary_of(self, attributes: Iterable[object] | None) -> Vocabulary:
        """Return the closed vocabulary itself, and prove that none of its attributes moves a sketch too far.

        The only way from a list of attributes to the plan's vocabulary, so that nothing is published by a plan whose
        sensitivity was lowered, whichever attributes the data holds.

        Parameters
        ----------
        attributes : iterable or None
            The list that the plan was made with; None if it was made with a number of attributes.

        Raises
        ------
        ParameterError
            If it is another list, or the plan states less sensitivity than its rows have.
        """
        if self.vocabulary is None:
            raise ParameterError("vocabulary must be closed by the plan to be listed: this plan takes any attribute.")
        vocabulary = self.vocabulary.matching(attributes)
        self._check_sensitivity(vocabulary)
        return vocabulary

    def listed(self, given: Vocabulary | None) -> Vocabulary | None:
        """Return the attributes that count in a publication: the plan's own list or the one that is given, if any.

        Raises
        ------
        ParameterError
            If it is not the plan's list, or nothing on it counts.
        """
        return given if self.vocabulary is None else self.vocabulary_of(given)

    def counts_any(self, attributes: Sequence[str]) -> bool:
        """Return whether any of these attributes moves a sketch: else nothing but noise would be published."""
        del attributes
        return True

    def along(self, directions: Directions | None) -> Self:
        """Return the plan with the directions that it names, and prove that none of their rows moves a sketch too far.

        The only way from directions to the plan's rows, so that nothing is published by a plan whose sensitivity was
        lowered, or along other directions than those that it was signed with.

        Parameters
        ----------
        directions : Directions or None
            Those that the plan was made with; None if it was made without any, or has them already.

        Raises
        ------
        ParameterError
            If they have another digest or other norms than the plan says, are missing, or the plan takes none.
        """
        if directions is not None:
            raise ParameterError(f"directions must be left out: the plan is by {self.mechanism}, which takes none.")
        return self

    def rows(self, attributes: Sequence[str]) -> Rows:
        """Return rows of the projection, none of which moves a sketch farther than the plan says.

        Raises
        ------
        ParameterError
            If one does: the attribute is not of the plan's vocabulary, or the plan was edited.
        """
        del attributes
        raise ParameterError(f"mechanism must be one that sketches to have rows, got {self.mechanism!r}.")

    def exact(self, attributes: Sequence[str], steps: IntArray) -> IntArray:
        """Return the sketch of somebody with these attributes, in steps of resolution, without noise.

        For what is public: a vector of the analyst's own.
        """
        return self.rows(attributes).total(steps)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, proven again if anything changed: a plan that was not checked cannot exist."""
        del deep  # everything in a plan is frozen
        changed: Self = self
        if update:
            changed = _validated({name: getattr(self, name) for name in self.__class__.model_fields} | dict(update))
        return changed

    def copy(self, **changes: Any) -> Self:  # pydantic's own proves nothing
        """Return :meth:`model_copy`."""
        return self.model_copy(update=changes.get("update"))

    @classmethod
    def model_construct(cls, *_: Any, **__: Any) -> Self:  # type: ignore[override]  # it refuses whatever it is given
        """Refuse: a plan that was not checked cannot exist."""
        raise ParameterError("a plan must be checked. Use Plan.of or Plan.from_json.")

    def __repr__(self) -> str:
        return f"<Plan: {self._words}, digest {self.digest[:12]}…>"

    def __str__(self) -> str:
        return repr(self)

    @property
    def _words(self) -> str:
        k = f", k = {self.k:,}" if self.k else ""
        delta = f", delta = {self.cost.delta:g}" if self.cost.delta else ""
        return f"{self.mechanism}{k}, epsilon = {self.cost.epsilon:g}{delta} for one {self.unit}"

    def _repr_html_(self) -> str:
        distances = [one for one in (100, 400, 1600) if self.n_attributes is None or one <= self.n_attributes]
        variance = self.error.distance()
        rows: list[tuple[object, object]] = [
            (f"standard error at {self.measured} {one}", float(variance(one)) ** 0.5) for one in distances
        ]
        rows += [("bytes a person", float(self.bytes_per_user)), ("digest", self.digest)]
        return Shown(f"Plan: {self._words}", (), ("", ""), rows).html()

    def __init_subclass__(cls, *, mechanisms: Iterable[str] = (), **kwargs: Any) -> None:
        if cls.__module__ != f"{__name__}_kinds":
            raise TypeError("Plan cannot be subclassed: its proof rests on its own properties.")
        super().__init_subclass__(**kwargs)
        KINDS.update(dict.fromkeys(mechanisms, cls))

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, fields: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Read a plan as the kind that its mechanism names; refuse parts that do not fit, then prove the noise."""
        if cls is not Plan or isinstance(fields, Plan):
            plan = handler(fields)
            plan.prove()
            return plan
        named = fields.get("mechanism") if isinstance(fields, dict) else None
        sketches = KINDS[SKETCHING[0]]  # which refuse the names of no mechanism
        kind: Any = KINDS.get(named, sketches) if isinstance(named, str) else sketches
        read: Self = (
            kind.model_validate_json(json.dumps(fields)) if info.mode == "json" else kind.model_validate(fields)
        )
        return read

    def prove(self) -> None:
        """Refuse a plan whose parts do not fit, or whose noise does not keep its budget.

        Every plan that is made or read has passed; whoever draws noise asks again, because Python has ways around that.

        Raises
        ------
        ParameterError
            If it does.
        """
        self._forget_facts()
        self._check_parts()
        self._prove()
        for name in _FACTS:  # of which one refuses so many together that nothing would be promised
            getattr(self, name)

    def _forget_facts(self) -> None:
        for name in self.__dict__.keys() - self.__class__.model_fields.keys() - {ALONG}:
            self.__dict__.pop(name, None)  # another thread that proves the plan may have been faster

    def __copy__(self) -> Self:
        """Leave the facts behind: a copy may be given other fields."""
        copied = super().__copy__()
        copied._forget_facts()
        return copied

    def __getstate__(self) -> dict[Any, Any]:
        """Leave the facts behind: whoever gets the plan finds them again, and a noise table may be large."""
        state = super().__getstate__()
        kept = self.__class__.model_fields.keys() | {ALONG}
        return state | {"__dict__": {name: value for name, value in self.__dict__.items() if name in kept}}

    def _check_parts(self) -> None:
        """Refuse parts that plans of this mechanism do not have, or lack."""
        if KINDS.get(self.mechanism) is not type(self):
            check_mechanism(self.mechanism)
            raise ParameterError(f"mechanism must be one of a {type(self).__name__}, got {self.mechanism!r}.")
        wanted = {
            "projection.family": None,
            "directions": False,
            "n_users": False,
            "dtype": False,
            "blend": False,
        } | self._expected()
        actual = {
            "projection.family": self.projection and self.projection.family,
            "directions": self.directions is not None,
            "noise.law": self.noise.law,
            "rule": self.rule is not None,
            "n_users": self.n_users is not None,
            "dtype": self.dtype == "bit",
            "blend": self.blend is not None,
        }
        wanted["rule"] = wanted["noise.law"] == "rounded-gaussian"
        for name, value in actual.items():
            if value != wanted[name]:
                raise ParameterError(f"{name} must fit mechanism {self.mechanism!r}, but it does not.")
        if self.vocabulary is None and not self.open_vocabulary:
            raise ParameterError(f"vocabulary must be given for mechanism {self.mechanism!r}, got none.")

    @abstractmethod
    def _expected(self) -> dict[str, object]:
        """Return what the fields that not all kinds have must be here."""

    @abstractmethod
    def _prove(self) -> None:
        """Refuse fields that do not fit each other, and noise that does not keep the budget."""

    def _check_sensitivity(self, vocabulary: Vocabulary) -> None:
        """Refuse a plan that states less sensitivity than its vocabulary has."""

    def _check_rule(self, **lemma2: Any) -> None:
        """Refuse the name of a rule under which there would be more noise; the exact one has been proven already."""
        if self.rule is None or self.rule == "exact" or not isinstance(self.noise, GaussianNoise):
            return
        if self.rule == "lemma2" and self.mechanism != "gaussian+gaussian":
            raise ParameterError(f"rule must fit mechanism {self.mechanism!r}, but it does not.")
        least = make.calibrated_sigma(
            self.budget, l2_sensitivity=self.sensitivity.l2, touched=self.touched, rule=self.rule, **lemma2
        )
        if self.noise.sigma < least * (1 - 1e-12):
            raise ParameterError(
                f"noise.sigma must be at least {least:.6g} by rule {self.rule!r}, got {self.noise.sigma:.6g}."
            )

    def _check_room(self, *, data: int = 0) -> None:
        """Refuse noise that would often saturate the published type, beside the largest data where that is known."""
        largest = np.iinfo(self.dtype).max
        needed = make.NOISE_ROOM * math.sqrt(self.table.variance) + data
        if needed > largest:
            larger = "dtype='int32'" if self.dtype == "int16" else "a larger epsilon, or a smaller k or resolution"
            raise ParameterError(
                f"dtype must hold {make.NOISE_ROOM} standard deviations of noise and the largest distance "
                f"({needed:.0f}), got {self.dtype!r} which holds {largest}. Use {larger}."
            )

    def _fields(self) -> dict[str, object]:
        return self.model_dump(mode="json", exclude_none=True)


KINDS: Final[dict[str, type[Plan]]] = {}
"""The kind of plan that each mechanism has; each kind enters its own."""


def _validated(fields: dict[str, object]) -> Any:
    """Return the plan that has these fields, of the kind that its mechanism names."""
    try:
        return Plan.model_validate(fields)
    except ValidationError as error:
        raise _as_parameter_error(error) from None


def _as_parameter_error(error: ValidationError) -> ParameterError:
    """Return the first complaint in one line that names the field."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        message = "it is missing. Make the plan with dimly plan."
    return ParameterError(f"plan: {message}" if not field else f"plan field {field!r}: {message}")
