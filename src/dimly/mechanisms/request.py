"""What a curator asks of a plan, checked: the arguments of ``Plan.of``."""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from dimly.errors import ParameterError
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.mechanism import NOISY_DISTANCES, Sketching, sketching
from dimly.privacy import RULES, UNITS, VALUES_MOVED, Budget, Rule, Unit

MAX_RESOLUTION = 1 << 16
MAX_ATTRIBUTES = 1 << 31
MAX_USERS = 1 << 31
DTYPES = ("int16", "int32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Arguments that fit each other, in plain types; what remains to be seen is whether they can be kept."""

    mechanism: str
    kind: Sketching | None
    budget: Budget
    k: int
    blocks: int
    vocabulary: Vocabulary | None
    numbered: bool
    n_users: int | None
    resolution: int
    unit: Unit
    rule: Rule
    dtype: str
    seed: Any
    blend: float | None

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
        dtype: str,
        seed: Any,
        blend: float | None,
    ) -> Self:
        """Return the request, or refuse it with what to do instead."""
        kind = sketching(mechanism)
        if not isinstance(budget, Budget):
            raise ParameterError(f"budget must be a Budget, got {type(budget).__name__}. Write Budget(epsilon, delta).")
        _check_choice("unit", unit, UNITS)
        _check_choice("rule", rule, RULES)
        _check_choice("dtype", dtype, DTYPES)
        if mechanism != NOISY_DISTANCES:
            _check_absent("n_users", n_users, mechanism)
        if kind is None:
            _check_absent("k", k, mechanism)
            _check_absent("blocks", None if blocks == 1 else blocks, mechanism)
            _check_absent("seed", seed, mechanism)
            if vocabulary is None and n_attributes is None:
                raise ParameterError(f"n_attributes or vocabulary must be given for {mechanism}, got neither.")
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
            kind=kind,
            budget=budget,
            k=0 if k is None else as_integer("k", k, 1, 2**31 - 1),
            blocks=as_integer("blocks", blocks, 1, 2**31 - 1),
            vocabulary=_vocabulary(vocabulary, n_attributes),
            numbered=vocabulary is None,
            n_users=as_integer("n_users", n_users, 2, MAX_USERS) if mechanism == NOISY_DISTANCES else None,
            resolution=as_integer("resolution", resolution, 1, MAX_RESOLUTION),
            unit=unit,
            rule=rule,
            dtype=dtype,
            seed=seed,
            blend=None if blend is None else float(blend),
        )

    @property
    def n_attributes(self) -> int | None:
        """Size of the vocabulary; None where it is open."""
        return None if self.vocabulary is None else len(self.vocabulary)

    @property
    def steps(self) -> int:
        """How many steps of resolution one unit moves the data by."""
        return VALUES_MOVED[self.unit] * self.resolution


def as_integer(name: str, value: object, low: int, high: int) -> int:
    """Return a plain integer in range, or refuse; NumPy's count, booleans do not."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # what else it may be is what the error is for
    except TypeError:
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise ParameterError(f"{name} must be an integer from {low} to {high}, got {value!r}.")
    return number


def _vocabulary(attributes: Iterable[object] | None, n_attributes: int | None) -> Vocabulary | None:
    size = None if n_attributes is None else as_integer("n_attributes", n_attributes, 1, MAX_ATTRIBUTES)
    if attributes is None:
        return None if size is None else Vocabulary.numbered(size)
    listed = attributes if isinstance(attributes, Vocabulary) else Vocabulary.listed(attributes)
    if size not in (None, len(listed)):
        raise ParameterError(f"n_attributes must be the length of vocabulary, {len(listed)}, got {size}. Leave it out.")
    return listed


def _check_absent(name: str, value: object, mechanism: str) -> None:
    if value is not None:
        raise ParameterError(f"{name} must be left out for {mechanism}.")


def _check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")
