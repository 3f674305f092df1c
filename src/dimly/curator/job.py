"""What publishing was asked for, checked and put together, whichever engine does it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dimly.curator.charging import Charging
from dimly.curator.growing import Base
from dimly.curator.progress import Progress, Silence
from dimly.curator.pseudonyms import Pseudonyms
from dimly.curator.public_lists import read_vocabulary
from dimly.curator.publishing_tables import Public
from dimly.errors import ParameterError
from dimly.mechanisms.attributes import Vocabulary
from dimly.mechanisms.plan import Plan


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a release goes.

    Attributes
    ----------
    target : Path or None
        The folder to make; None for a dry run without one.
    base : Base or None
        The release that it grows from.
    overwrite : bool
        Whether a release that is there is replaced.
    """

    target: Path | None
    base: Base | None
    overwrite: bool


class Job:
    """The arguments of :func:`dimly.publish`, checked.

    Attributes
    ----------
    plan : Plan
    given : dict
        The arguments that are not None, by name.
    progress : Progress
    charging : Charging or None

    Raises
    ------
    ParameterError
        If the call cannot work.
    """

    def __init__(self, plan: Plan, arguments: dict[str, Any]) -> None:
        if not isinstance(plan, Plan):
            raise ParameterError(f"plan must be a Plan, got {type(plan).__name__}. Call publish(table, plan).")
        self.plan = plan
        self.given = {name: argument for name, argument in arguments.items() if argument is not None}
        self.progress: Progress = self.given.get("progress", Silence())
        self.charging = _charging(self.given)

    def check_table(self) -> None:
        """Refuse what does not go with a table that has columns."""
        if "user" not in self.given:
            raise ParameterError("user must name the column of the people's ids, got none.")
        if "users" in self.given:
            raise ParameterError("users must be given for a matrix only. Name the column of ids by user.")

    def options(self, *names: str) -> dict[str, Any]:
        """Return those of some arguments that were given."""
        return {name: self.given[name] for name in names if name in self.given}

    @cached_property
    def pseudonyms(self) -> Pseudonyms | None:
        """What replaces ids, if anything does."""
        return Pseudonyms.from_file(self.given["pseudonyms"]) if "pseudonyms" in self.given else None

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The closed list of attributes, if there is one."""
        attributes = None
        if "vocabulary" in self.given:
            attributes = read_vocabulary(self.given["vocabulary"], attribute_column=self.given.get("attribute"))
        return attributes if self.plan.vocabulary is None else self.plan.vocabulary.resolve(attributes)

    @property
    def public(self) -> Public:
        """What is public about the run besides the plan."""
        roster = "roster" in self.given
        return Public("given" if roster else "found", self.vocabulary, self.pseudonyms is not None)

    def destination(self) -> Destination:
        """Return where the release goes; what it grows from is read and verified now."""
        out, append, update = (self.given.get(name) for name in ("out", "append", "update"))
        if append is not None and update is not None:
            raise ParameterError("append and update must not be given together. Add new people first, then update.")
        if append is not None and out is not None:
            raise ParameterError("out must not be given with append, which replaces the release by a larger one.")
        if append is not None and self.charging is None:
            raise ParameterError("ledger must be given with append: it alone knows who is in the release already.")
        if out is None and append is None and not self.given.get("dry_run"):
            raise ParameterError("out must be a folder to make, got none.")
        target = out if append is None else append
        grown = update if append is None else append
        base = None if grown is None else Base(Path(grown), self.plan, replace=append is None)
        overwrite = self.given.get("overwrite", False) or append is not None
        return Destination(None if target is None else Path(target), base, overwrite)


def _charging(given: dict[str, Any]) -> Charging | None:
    if "ledger" not in given:
        for name in ("dataset", "recipient"):
            if name in given:
                raise ParameterError(f"ledger must be given where {name} is, got none.")
        return None
    if "dataset" not in given:
        raise ParameterError("dataset must be named where a ledger is given, got none.")
    return Charging(Path(given["ledger"]), given["dataset"], given.get("recipient"))
