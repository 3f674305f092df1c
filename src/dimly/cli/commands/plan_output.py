"""What every way of ``dimly plan`` is told: where the plan goes, and what is promised for several attributes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


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


@dataclass(frozen=True, slots=True)
class Together:
    """What is promised for any ``count`` attributes of a person together. There is nothing to say of one."""

    count: int
    unit: str
    epsilon: float
    delta: float

    @property
    def facts(self) -> dict[str, Any]:
        """The promise, ready for JSON."""
        if self.count == 1:
            return {}
        told = {"count": self.count, "unit": self.unit, "epsilon": self.epsilon, "delta": self.delta}
        return {"together": told}

    @property
    def words(self) -> list[str]:
        """The promise for people."""
        if self.count == 1:
            return []
        text = (
            f"Any {self.count} {self.unit}s of one person together: their odds change by at most a factor of "
            f"e^{self.epsilon:g} (epsilon = {self.epsilon:g}, delta = {self.delta:g}). The verdict and the "
            "smallest epsilon that would do are about one of them, as are the plan, the ledger and the release:"
        )
        return [text]
