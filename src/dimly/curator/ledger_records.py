"""What a ledger tells: datasets with their budgets, and the charges on them."""

import json
import sqlite3
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final, Literal, Self, get_args

from dimly.curator.ledger_process import Fate, ProcessMark
from dimly.errors import DimlyError, ParameterError
from dimly.privacy.budget import Unit
from dimly.privacy.composition import Composition
from dimly.privacy.cost import Cost

State = Literal["reserved", "sampling", "visible", "returned", "forgiven"]
"""Where a charge stands. All but the last two count."""

COUNTING: Final = frozenset({"reserved", "sampling", "visible"})

FilterMethod = Literal["sum", "renyi"]
"""Rules that hold for plans chosen after earlier releases were seen."""

FILTER_METHODS: tuple[FilterMethod, ...] = get_args(FilterMethod)


@dataclass(frozen=True, slots=True)
class ChargeRecord:
    """One charge as the ledger holds it. Times are UTC.

    Attributes
    ----------
    id : int
        Counted up over the whole ledger.
    dataset : str
    state : {"reserved", "sampling", "visible", "returned", "forgiven"}
    cost : Cost or None
        None for an append, which costs nothing.
    plan_digest : str
    recipient : str or None
    release_id : str or None
        Known once the release is complete, before it is visible.
    appends_to : str or None
        Of an append: the release that people were added to.
    updates : str or None
        Of an update: the release of which some people were published anew.
    appendable : bool
        Whether people may be added to the release.
    n_users : int or None
        Number of people; None as long as they are not claimed.
    process : ProcessMark
        Which process made the charge.
    reserved_at, sampling_at, sealed_at, visible_at : str or None
        When it got there.
    ended_at : str or None
        When it was given back or forgiven.
    reason : str or None
        Why it was forgiven.
    lineage : int
        The charge that made the first release of its line: itself unless it is an append or an update.
    """

    id: int
    dataset: str
    state: State
    cost: Cost | None
    plan_digest: str
    recipient: str | None
    release_id: str | None
    appends_to: str | None
    updates: str | None
    appendable: bool
    n_users: int | None
    process: ProcessMark
    reserved_at: str
    sampling_at: str | None
    sealed_at: str | None
    visible_at: str | None
    ended_at: str | None
    reason: str | None
    lineage: int

    @property
    def counts(self) -> bool:
        """Whether the charge is part of what is spent."""
        return self.state in COUNTING

    @property
    def fate(self) -> Fate | None:
        """What became of the process behind a charge that is under way; None for every other charge."""
        return self.process.fate if self.state in {"reserved", "sampling"} else None

    @property
    def label(self) -> str:
        """The state in words: "sampling (process gone)" where nobody will finish it."""
        words = {"gone": " (process gone)", "unknown": " (process out of sight)"}
        return self.state + words.get(self.fate or "", "")

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain JSON values."""
        return asdict(self) | {"label": self.label}

    @classmethod
    def of_row(cls, row: sqlite3.Row) -> Self:
        """Read a row of the table ``charge``."""
        fields: dict[str, Any] = dict(row)
        fields["cost"] = None if row["cost"] is None else cost_of_json(row["cost"])
        fields["process"] = ProcessMark.from_json(row["process"])
        fields["appendable"] = bool(row["appendable"])
        fields["lineage"] = row["id"] if row["lineage"] is None else row["lineage"]
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class DatasetStatus:
    """A dataset's budget, what is spent of it, and on what.

    Attributes
    ----------
    name : str
    epsilon, delta : float
        The budget, for all recipients and for ever.
    unit : {"attribute", "column"}
    method : {"sum", "renyi"}
        How charges add up.
    spent : Composition
        What all charges that count cost together.
    left : float
        Largest ε of one pure release that certainly still fits; 0.0 if none does.
    charges : tuple of ChargeRecord
        All of them, also those that do not count, oldest first.
    """

    name: str
    epsilon: float
    delta: float
    unit: Unit
    method: FilterMethod
    spent: Composition
    left: float
    charges: tuple[ChargeRecord, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain JSON values."""
        fields = {name: getattr(self, name) for name in ("name", "epsilon", "delta", "unit", "method", "left")}
        spent = {name: getattr(self.spent, name) for name in ("epsilon", "delta", "method", "n_costs")}
        return fields | {"spent": spent, "charges": [charge.to_dict() for charge in self.charges]}


@lru_cache(maxsize=4096)  # a Gaussian cost is proven again each time it is made, for a millisecond
def cost_of_json(text: str) -> Cost:
    """Read a cost as the ledger stores it."""
    try:
        return Cost(**json.loads(text))
    except (TypeError, ValueError):  # of which ParameterError is one
        raise DimlyError("a charge in the ledger must hold a cost, and one does not. The file was edited.") from None


def cost_json(cost: Cost) -> str:
    """Return a cost as the ledger stores it; floats keep every bit."""
    return json.dumps(asdict(cost))


def check_text(name: str, value: object, *, longest: int = 200) -> str:
    """Return a name, digest or reason that is one readable line.

    Raises
    ------
    ParameterError
        If it is empty, too long, or holds what cannot be printed.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > longest or not value.isprintable():
        raise ParameterError(f"{name} must be one line of 1 to {longest} characters, got {value!r}.")
    return value
