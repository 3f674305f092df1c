"""``Survey``, a JSON file: answers as counts or curves with intervals, its promise in words, its digest.

It is public and charged, as a release is: everything in it is a noisy count, or follows from noisy counts and public
knowledge. ``docs/survey.md`` describes the fields.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, Field, ValidationError

from dimly.display import MOST_ROWS, Shown, data_frame, percent
from dimly.errors import ParameterError, ReleaseError, check_path
from dimly.mechanisms.guarantee import RosterKind, odds_together
from dimly.mechanisms.plan_parts import STRICT, AmbiguousJSONError, read_json
from dimly.mechanisms.survey_plan import SurveyPlan

MOST_BYTES: Final = 1 << 32
SHARES: Final = (0.1, 0.5, 0.9)
"""Of people, or of pairs: the quantiles that are told."""

_LIMITS: Final = (
    "Not protected: what follows from attributes that go together, or from a trend over many.",
    "Every further survey or release of the same people costs its own epsilon on top; all recipients count together.",
    "Noise is drawn from an AES-256 keystream: the promise is as strong as that cipher.",
    "Nothing in the published numbers can prove that noise was added as stated; that is the publisher's word.",
)
_NOT_PRIVATE: Final = (
    "NOT PRIVATE: the noise did not come from a fresh secret keystream. This survey is for tests only and must not be "
    "given to anyone."
)
_GIVEN: Final = (
    "The people are a list that by the publisher's word was made without the private table: who is on it, and how many "
    "they are, must be public knowledge."
)
_OF_SEGMENTS: Final = (
    "The people are those in the segments of a release, which tells who they are: by the publisher's word, who is in "
    "which segment was found from that release alone."
)


class CountNoise(BaseModel):
    """The noise of each count of an answer."""

    model_config = STRICT

    law: Literal["discrete Laplace", "random threshold"]
    sensitivity: int
    """By how much one unit moves all counts of the answer together (their ℓ₁ norm)."""
    standard_deviation: float


class AttributeCount(BaseModel):
    """How many people have an attribute: a noisy count and its 95 % interval."""

    model_config = STRICT

    attribute: str
    count: int
    low: int
    high: int


class AttributeCounts(BaseModel):
    """How many people have each attribute; of names that no list names, only those above the threshold."""

    model_config = STRICT

    epsilon: float
    delta: float = 0.0
    noise: CountNoise
    threshold: int | None = None
    attributes: tuple[AttributeCount, ...]


class Interval(BaseModel):
    """A figure and its 95 % interval."""

    model_config = STRICT

    value: float
    low: float
    high: float


class Curve(BaseModel):
    """How numbers of people, or of pairs of people, are distributed: noisy counts of those at most each boundary."""

    model_config = STRICT

    epsilon: float
    delta: float = 0.0
    noise: CountNoise
    of: int
    """How many numbers there are: people, or pairs of them. Public."""
    quantiles: dict[str, Interval]
    boundaries: tuple[int, ...]
    noisy: tuple[int, ...]
    """As they were drawn, before isotonic regression."""


class Survey(BaseModel):
    """What was counted about a private table, for a share of its budget. Public. Made by :func:`dimly.survey`.

    Attributes
    ----------
    plan : SurveyPlan
        What was asked.
    plan_digest : str
    guarantee : tuple of str
        The promise in words.
    roster : {"given", "found"}
    n_users : int or None
        People on the roster; None where there was none, because their number is private then.
    ledger : str or None
        The dataset that was charged.
    vocabulary, counts : Counts or None
    weights, distances : Curve or None
        Attributes of a person; squared distances of pairs of people who were put together by chance.
    """

    model_config = STRICT

    survey: Literal[1] = 1
    id: str = Field(default="", pattern="^([0-9a-f]{64})?$")
    not_private: Literal[True] | None = None
    plan: SurveyPlan
    plan_digest: str
    guarantee: tuple[str, ...]
    roster: RosterKind
    n_users: int | None = None
    ledger: str | None = None
    vocabulary: AttributeCounts | None = None
    counts: AttributeCounts | None = None
    weights: Curve | None = None
    distances: Curve | None = None

    @classmethod
    def of(
        cls, plan: SurveyPlan, answers: Mapping[str, AttributeCounts | Curve], *, private: bool, **facts: Any
    ) -> Self:
        """Return a survey with its promise in words and its id."""
        made = cls(
            plan=plan,
            plan_digest=plan.digest,
            guarantee=promise(plan, roster=facts.get("roster", "found"), private=private),
            not_private=None if private else True,
            **facts,
            **answers,
        )
        return made.model_copy(update={"id": made._digest()})

    @property
    def private(self) -> bool:
        """Whether the noise came from fresh secret keystreams."""
        return self.not_private is None

    def to_json(self) -> str:
        """Return the file: one field a line, so that people can read the short ones."""
        return fields_in_lines(self._fields())

    def content(self) -> bytes:
        """Return the file's bytes."""
        return self.to_json().encode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a survey back, and check that it is whole.

        Raises
        ------
        ReleaseError
            If it is none, or was changed.
        """
        try:
            read_json(text)
            found = cls.model_validate_json(text)
        except (AmbiguousJSONError, ValidationError, ParameterError):
            raise ReleaseError("survey must be a file made by dimly survey, of this version. Make it again.") from None
        if found.plan_digest != found.plan.digest or found.id != found._digest():
            raise ReleaseError("survey must have the digests that it states. It was changed: make it again.")
        return found

    def names(self) -> tuple[str, ...]:
        """Return the attributes that it shows, by falling count where their names were found out.

        Raises
        ------
        ParameterError
            If it asked for none.
        """
        found = self.vocabulary or self.counts
        if found is None:
            raise ParameterError(
                "survey must hold a vocabulary to take attributes from, but it did not ask for one. Make a survey "
                "with --ask vocabulary."
            )
        if not found.attributes:
            raise ParameterError(
                "survey must show at least one attribute to take them from, but it shows none: none was frequent "
                "enough. Ask with a larger epsilon, or plan without a list."
            )
        return tuple(one.attribute for one in found.attributes)

    def __repr__(self) -> str:
        return self._shown().text()

    def _repr_html_(self) -> str:
        return self._shown().html()

    def __str__(self) -> str:
        return repr(self)

    def _shown(self) -> Shown:
        rows = self._rows()
        people = "" if self.n_users is None else f" of {self.n_users:,} people"
        cost = f"epsilon = {self.plan.cost.epsilon:g}, delta = {self.plan.cost.delta:g}"
        stamp = [] if self.private else [_NOT_PRIVATE]
        header = ("question", "of", "value", "low", "high")
        lines = [*stamp, "Low and high: 95 % intervals."]
        return Shown(f"Survey{people}, {cost}", lines, header, rows[:MOST_ROWS], max(len(rows) - MOST_ROWS, 0))

    def _rows(self) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        for name, curve in (("weights", self.weights), ("distances", self.distances)):
            if curve is not None:
                told = curve.quantiles.items()
                rows += [
                    (name, f"{percent(float(share))} quantile", one.value, one.low, one.high) for share, one in told
                ]
        for name, counts in (("vocabulary", self.vocabulary), ("counts", self.counts)):
            if counts is not None:
                rows += [(name, one.attribute, one.count, one.low, one.high) for one in counts.attributes]
        return rows

    def to_pandas(self) -> Any:
        """Return a data frame: question, what of, value, low and high (95 % intervals).

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        columns = zip(*self._rows(), strict=True)
        return data_frame(dict(zip(("question", "of", "value", "low", "high"), map(list, columns), strict=True)))

    def _fields(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)

    def _digest(self) -> str:
        fields = self._fields() | {"id": ""}
        return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def promise(plan: SurveyPlan, *, roster: RosterKind, private: bool) -> tuple[str, ...]:
    """Return what a survey promises and what it does not, one sentence each."""
    if not private:
        return (_NOT_PRIVATE,)
    epsilon, delta = (repr(value).removesuffix(".0") for value in (plan.epsilon, plan.delta))
    unit = {"attribute": "any one attribute", "column": "any one categorical column"}[plan.unit]
    beyond = f", and beyond that the probability of any outcome by at most delta = {delta}" if plan.delta else ""
    first = (
        f"All answers together change the odds of {unit} of any one person by at most a factor of e^{epsilon}{beyond} "
        f"(epsilon = {epsilon}, delta = {delta})."
    )
    several: tuple[str, ...] = ()
    if plan.together is not None:
        several = (f"Any {plan.protect} {plan.unit}s of one person together: {odds_together(plan.together)}.",)
    more = ", with a delta above m·delta." if plan.delta else "."
    at_once = f"Several at once: the odds of m {plan.unit}s of one person change by up to e^(m·epsilon){more}"
    people = (_OF_SEGMENTS,) if plan.release is not None else (_GIVEN,) if roster == "given" else ()
    return (first, *several, *people, at_once, *_LIMITS)


def fields_in_lines(fields: Mapping[str, Any]) -> str:
    """Return a JSON object with one field a line."""
    lines = [f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_survey(path: str | os.PathLike[str]) -> Survey:
    """Read a survey file.

    Raises
    ------
    ParameterError
        If there is no such file.
    ReleaseError
        If it is no survey, or was changed.
    """
    check_path("survey", path)
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ParameterError(
            f"survey must be a readable file, got {os.fspath(path)!r}: {error.strerror}. Make one with dimly survey."
        ) from None
    if len(content) > MOST_BYTES:
        raise ReleaseError(f"survey must take at most {MOST_BYTES >> 30} GiB, got more. Is it another file?")
    if content.startswith(b"PAR1"):
        raise ReleaseError(
            "survey must be JSON, got a Parquet file. If it holds directions that a survey learned, pass it as "
            "directions (--directions)."
        )
    return Survey.from_json(content)


def looks_like_survey(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins as a survey does: for lists of attributes, which may be one."""
    try:
        with Path(path).open("rb") as file:
            return file.read(64).split()[:2] == [b"{", b'"survey":']
    except OSError:
        return False
