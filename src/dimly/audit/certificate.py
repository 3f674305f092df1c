"""A certificate of a plan's audit, to lie beside a release: what it can and cannot say."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dimly.audit.plan_audit import Audit, floored, floored_small
from dimly.errors import ReleaseError
from dimly.mechanisms.plan_parts import AmbiguousJSONError, read_json

CAN: Final = (
    "It can prove that the claim is false: a mechanism that keeps it is contradicted at most once in a million audits.",
    "What was seen is a lower bound, with the stated confidence. Where delta is 0, it assumes nothing about the noise.",
    "Where delta is above 0, it holds if the noise is Gaussian and independent, as the plan says.",
)
CANNOT: Final = (
    "It cannot prove that the claim is true: another attack might see more. That is what the plan's proof is for.",
    "It was made by the publisher, with invented people. It does not show that the same program made this release.",
)
_FIGURES: Final = ("claimed_epsilon", "claimed_delta", "epsilon_lower_bound", "delta_lower_bound", "confidence")


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What an audit of a release's plan found."""

    release: str
    plan_digest: str
    claimed_epsilon: float
    claimed_delta: float
    epsilon_lower_bound: float
    delta_lower_bound: float = 0.0
    """Not in older certificates."""
    confidence: float
    trials: int

    @classmethod
    def of(cls, audit: Audit, *, release: str, plan_digest: str) -> "Certificate":
        """Return the certificate of an audit, for a release by the same plan."""
        return cls(release=release, plan_digest=plan_digest, **audit.figures)

    @classmethod
    def read(cls, path: Path) -> "Certificate":
        """Read a certificate.

        Raises
        ------
        ReleaseError
            If it is none.
        """
        try:
            fields = read_json(path.read_bytes())
            for name in ("format", "can_prove", "cannot_prove"):
                fields.pop(name, None)
            found = cls(**fields)
            figures = [getattr(found, name) for name in _FIGURES]
            if (
                not all(isinstance(text, str) for text in (found.release, found.plan_digest))
                or not all(type(figure) in (int, float) and figure >= 0 for figure in figures)
                or type(found.trials) is not int
                or found.trials < 0
                or found.confidence > 1
                or found.epsilon_lower_bound > found.claimed_epsilon
                or found.delta_lower_bound > found.claimed_delta
            ):
                raise TypeError
        except (AmbiguousJSONError, OSError, TypeError, ValueError):
            raise ReleaseError(
                f"{path.name} must be a certificate that dimly publish --audit wrote. Remove it."
            ) from None
        return found

    def to_json(self) -> str:
        """Return it as indented JSON, with what it can and cannot prove."""
        fields: dict[str, Any] = {"format": 1, **vars(self), "can_prove": list(CAN), "cannot_prove": list(CANNOT)}
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"

    @property
    def lines(self) -> tuple[str, ...]:
        """What it says, in sentences."""
        delta = (
            f" Delta {self.claimed_delta:g} was claimed at that epsilon, and at least "
            f"{floored_small(self.delta_lower_bound)} was seen."
            if self.delta_lower_bound
            else ""
        )
        seen = (
            f"Before publishing, an audit of the plan tossed {self.trials:,} coins for attributes of invented people, "
            f"and guessed them from what was published. Epsilon {self.claimed_epsilon:g} was claimed, and at least "
            f"{floored(self.epsilon_lower_bound)} was seen, with a confidence of {100 * self.confidence:.6g} %.{delta} "
            "Nothing contradicts the claim."
        )
        return (seen, *CAN, *CANNOT)


def certificate_path(release: Path) -> Path:
    """Return where the certificate of a release folder lies: beside it, and not in it.

    Examples
    --------
    >>> certificate_path(Path("out/release")).name
    'release.audit.json'
    """
    release = Path(os.path.abspath(release))  # a release may be called "."
    return release.with_name(f"{release.name}.audit.json")
