"""What every way of ``dimly plan`` is told and tells: where the plan goes, and what a verdict is about."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dimly.mechanisms import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What is done with a plan."""

    path: Path | None
    overwrite: bool
    force: bool
    """Whether a plan that is not feasible is written all the same."""
    as_json: bool

    @property
    def name(self) -> str | None:
        """The file, as it is told."""
        return None if self.path is None else str(self.path)


def words_on_several(plan: "Plan") -> list[str]:
    """Return what a verdict is about where several attributes are protected together; their promise says the rest."""
    return [] if plan.protect is None else ["The verdict and the smallest epsilon that would do are about one of them."]
